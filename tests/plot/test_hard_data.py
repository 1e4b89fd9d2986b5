"""Figures of data that used to break them: long names, many classes, many rows, small fonts.

Text is checked by where it lies; baselines, as in `test_every_figure`, hold no text.
"""

from itertools import combinations

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

import matplotlib.pyplot as plt

from decal import plot
from helpers.plotted import texts, unlike_baseline

LONG = [
    f"{size} {animal} of the {order} kind"
    for size in ("great", "lesser", "northern", "southern", "common")
    for animal in ("spotted woodpecker", "black-backed gull", "golden squirrel", "harbour seal")
    for order in ("first", "second", "third", "fourth", "fifth")
]


def many_classes(count):
    p = np.random.default_rng(0).dirichlet(np.full(count, 0.3), size=30)
    upper = np.minimum(1, p * 1.6 + 0.01)
    return decal.IntervalCredalSet(p * 0.4, upper, point=p, classes=LONG[:count])


def many_rows(n):
    p = np.linspace(0.02, 0.98, n)
    point = np.stack([1 - p, p], axis=1)
    return decal.IntervalCredalSet(point * 0.8, np.minimum(1, point * 1.2), point=point)


def overlapping(drawn):
    """Pairs of texts that lie on each other by more than a pixel or two."""
    boxes = [(text.get_text(), text.get_window_extent().padded(-1.5)) for text in drawn]
    return [(a, b) for (a, s), (b, t) in combinations(boxes, 2) if s.overlaps(t)]


def test_a_hundred_long_names_lie_beside_their_bars_without_overlap():
    ax = plot.intervals(many_classes(100), top=100)
    ax.figure.canvas.draw()
    assert len({label.get_text() for label in ax.get_yticklabels()}) == 100  # none cut to another
    assert overlapping(ax.get_yticklabels()) == []


def test_on_small_axes_as_many_classes_are_shown_as_have_room():
    ax = plt.figure(figsize=(4, 3), layout="constrained").add_subplot()
    plot.intervals(many_classes(100), ax=ax)
    ax.figure.canvas.draw()
    labels = ax.get_yticklabels()
    assert 10 < len(labels) < 30
    assert labels[-1].get_text() == f"{101 - len(labels)} other classes"
    assert overlapping(labels) == []


def test_few_long_names_have_two_lines():
    ax = plot.intervals(many_classes(6))
    ax.figure.canvas.draw()
    assert any("\n" in label.get_text() for label in ax.get_yticklabels())
    assert overlapping(ax.get_yticklabels()) == []


def test_a_hundred_names_lie_along_the_spokes_of_a_spider_within_the_figure():
    ax = plot.spider(many_classes(100), top=100)
    ax.figure.canvas.draw()
    names = ax.texts[:100]
    assert len({round(text.get_rotation()) for text in names}) > 45
    whole = ax.figure.bbox
    for text in names:
        box = text.get_window_extent()
        assert min(box.x0, box.y0, whole.x1 - box.x1, whole.y1 - box.y1) >= -1
    size = names[0].get_fontsize() * ax.figure.dpi / 72
    around = np.pi * ax.get_window_extent().width / 100
    assert around >= 0.85 * size  # neighbours do not lie on each other, not even at the web


def test_small_multiples_with_long_names_have_numbers_and_a_key():
    axes = plot.grid(plot.spider, many_classes(7), range(8))
    assert axes.shape == (2, 6)
    assert [ax.get_visible() for ax in axes.flat] == [True] * 8 + [False] * 4
    figure = axes[0, 0].figure
    figure.canvas.draw()
    assert [text.get_text() for text in axes[0, 0].texts][:7] == [str(k) for k in range(1, 8)]
    written = " ".join(text.get_text() for text in texts(figure)).replace("\n", " ")
    assert "7  great black-backed gull of the second kind" in written
    web = axes[0, 0].get_window_extent()
    assert min(web.width, web.height) > 0.6 * 2.9 * figure.dpi


def test_columns_can_be_chosen_and_short_names_stay():
    short = decal.IntervalCredalSet(np.full((5, 3), 0.1), np.full((5, 3), 0.8), classes="abc")
    axes = plot.grid(plot.spider, short, range(5), ncols=2)
    assert axes.shape == (3, 2)
    assert [text.get_text() for text in axes[0, 0].texts][:3] == ["a", "b", "c"]
    below = plot.grid(plot.spider, {"one": short, "two": short}, [0, 3], ncols=1)
    assert [ax.get_title() for ax in below[:, 0]] == [
        "one · input 0", "two · input 0", "one · input 3", "two · input 3",
    ]  # fmt: skip


def test_inputs_with_names_are_called_by_them():
    sets = decal.IntervalCredalSet(np.full((3, 3), 0.1), np.full((3, 3), 0.8), classes="abc")
    patients = sets.with_index(["p-1", "p-2", "a text with $ and _ in it"])
    assert plot.intervals(patients, 1).get_title(loc="left") == "p-2"
    assert plot.intervals(sets, 1).get_title(loc="left") == ""
    figure, own = plt.subplots()
    assert plot.intervals(patients, 1, ax=own).get_title(loc="left") == ""
    titles = [ax.get_title() for ax in plot.grid(plot.spider, patients, [0, 2]).flat]
    assert titles == ["p-1", "a text with $ and _ in it"]
    figure.canvas.draw()


def test_true_labels_of_many_rows_are_shown_as_shares():
    n = 20_000
    ax = plot.binary(many_rows(n), labels=(np.arange(n) >= 0.3 * n).astype(int))
    above = [bar for bar in ax.patches if bar.get_y() > 1]
    colours = np.array([bar.get_facecolor()[:3] for bar in above])
    assert len(above) == 120
    assert np.allclose(colours[:35], 1)  # no such label there: the background
    assert colours[37:] == pytest.approx(np.tile([0, 114 / 255, 178 / 255], (83, 1)), abs=0.01)
    few = plot.binary(many_rows(100), labels=np.arange(100) % 2)
    assert not [bar for bar in few.patches if bar.get_y() > 1]


@pytest.mark.parametrize("size", [5, 6, 20])
def test_legends_do_not_lie_on_axis_labels(size):
    alpha = np.linspace(0, 1, 6)
    curve = (alpha, 1 - alpha**4, alpha)
    model = decal.decalibrate(np.eye(3), range(3), alpha=0.9)
    draws = {
        "tradeoff": lambda: plot.tradeoff({"a": curve, "b": curve}, direct=False),
        "intervals": lambda: plot.intervals(many_classes(5)),
        "likelihood": lambda: plot.likelihood(model),
        "decomposition": lambda: plot.decomposition(many_rows(9), labels=np.zeros(9, int)),
    }
    with plt.rc_context({"font.size": size}):
        for name, draw in draws.items():
            ax = draw()
            ax.figure.canvas.draw()
            label = ax.xaxis.label.get_window_extent()
            assert ax.get_legend().get_window_extent().y1 <= label.y0 + 1, (name, size)


@pytest.mark.parametrize("size", [6, 10])
def test_the_legend_of_a_triangle_lies_below_the_names_of_its_corners(size):
    names = ["entailment of the premise", "neutral", "contradiction of the premise"]
    credal = decal.IntervalCredalSet([[0.1, 0.2, 0.1]], [[0.6, 0.7, 0.5]], classes=names)
    with plt.rc_context({"font.size": size}):
        ax = plt.figure(figsize=(3.3, 3.3), layout="constrained").add_subplot()
        plot.simplex({f"model {m}": credal for m in range(5)}, ax=ax, truth=[0.3, 0.4, 0.3])
        ax.figure.canvas.draw()
        top = ax.get_legend().get_window_extent().y1
        for text in ax.texts[:2]:
            assert top <= text.get_window_extent().y0 + 1


def eight_methods():
    alpha = np.linspace(0, 1, 8)
    curves = {f"method {m}": (alpha, 1 - alpha ** (6 - 0.6 * m), alpha) for m in range(8)}
    return plot.tradeoff(curves)


HARD = {
    "hard_tradeoff": eight_methods,
    "hard_intervals": lambda: plot.intervals(many_classes(100), top=100),
    "hard_spider": lambda: plot.spider(many_classes(100), top=100),
    "hard_binary": lambda: plot.binary(many_rows(5000), labels=(np.arange(5000) % 3 > 0) * 1),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_figures_look_like_their_baseline(name, tmp_path):
    assert unlike_baseline(HARD[name](), name, tmp_path) is None


def test_eight_methods_can_be_told_apart():
    ax = eight_methods()
    assert len({tuple(made.get_facecolor()[0]) for made in ax.collections}) == 8
    shown = {text.get_text() for text in texts(ax.figure)}
    assert {f"method {m}" for m in range(8)} <= shown
