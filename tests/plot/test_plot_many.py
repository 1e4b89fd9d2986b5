"""Pictures of many inputs and many alphas, and baseline images of every figure.

Baselines hold no text, for fonts differ between versions. Write them again with
``DECAL_BASELINES=write python -m pytest tests/test_plot_many.py -k baseline``, and look at them.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

import matplotlib.pyplot as plt
from matplotlib.backend_bases import MouseEvent
from matplotlib.collections import PolyCollection
from matplotlib.testing.compare import compare_images
from matplotlib.text import Text

from decal import plot

BASELINES = Path(__file__).parent / "baseline_images"
TOLERANCE = 3
"""Root mean square difference of grey levels, of 255."""

PAIR = decal.IntervalCredalSet(
    [[0.1, 0.5], [0.6, 0.1], [0.3, 0.2], [0.7, 0.7], [0.4, 0.3]],
    [[0.5, 0.9], [0.9, 0.4], [0.8, 0.7], [0.9, 0.9], [0.7, 0.6]],
    point=[[0.3, 0.7], [0.8, 0.2], [0.55, 0.45], [0.5, 0.5], [0.6, 0.4]],
    classes=["no", "yes"],
)


@pytest.fixture(autouse=True)
def close_figures():
    plt.switch_backend("agg")
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(400, 4)) * 2
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels, decal.decalibrate(logits, labels, alpha=0.9, classes="abcd")


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# Binary


def spans(ax):
    """Place, lower and upper end of each interval by kind of decision."""
    found = {}
    for made in ax.collections:
        if isinstance(made, PolyCollection) and made.get_gid():
            corners = [path.vertices[:4] for path in made.get_paths()]
            found[made.get_gid()] = [
                (c[:, 0].mean(), c[:, 1].min(), c[:, 1].max()) for c in corners
            ]
    return found


def test_intervals_of_two_classes_lie_in_the_order_of_prediction_by_decision():
    ax = plot.binary(PAIR, labels=[1, 0, 0, 1, 1])
    found = spans(ax)
    # Row 3 is empty. The others by prediction: rows 1, 4, 2, 0. Bounds of both classes count.
    assert found["against"] == [pytest.approx((0, 0.1, 0.4))]
    assert found["undetermined"] == [pytest.approx((1, 0.3, 0.6)), pytest.approx((2, 0.2, 0.7))]
    assert found["for"] == [pytest.approx((3, 0.5, 0.9))]
    assert legend_of(ax) == ["yes: 1", "undetermined: 2", "no: 1", "prediction"]
    assert ax.get_xlabel() == "4 inputs, by prediction (1 empty left out)"
    above, below = [c for c in ax.collections if not c.get_gid()][1:]
    assert [s[0, 0] for s in above.get_segments()] == [1, 3]
    assert [s[0, 0] for s in below.get_segments()] == [0, 2]


def test_the_class_and_the_threshold_can_be_chosen():
    ax = plot.binary(PAIR, positive="no", threshold=0.65)
    found = spans(ax)
    assert found["for"] == []
    assert [round(s[2], 9) for s in found["undetermined"]] == [0.8, 0.7, 0.9]
    assert ax.get_ylabel() == "probability of no"
    with pytest.raises(ValueError, match="event must hold classes 0 to 1 or one of no, yes"):
        plot.binary(PAIR, positive="maybe")
    with pytest.raises(ValueError, match="threshold must lie between 0 and 1: got 2"):
        plot.binary(PAIR, threshold=2)
    with pytest.raises(ValueError, match="credal must have two classes: got 4"):
        plot.binary(decal.IntervalCredalSet(np.zeros((1, 4)), np.ones((1, 4))))


def test_an_interval_that_touches_the_threshold_is_decided_for_from_above_only():
    credal = decal.IntervalCredalSet([[0.25, 0.5], [0.5, 0.25]], [[0.5, 0.75], [0.75, 0.5]])
    found = spans(plot.binary(credal, threshold=0.5))
    assert found["for"] == [(1, 0.5, 0.75)]
    assert found["undetermined"] == [(0, 0.25, 0.5)]


def test_thousands_of_inputs_and_none_are_drawn():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, size=3000)
    point = np.stack([1 - p, p], axis=1)
    credal = decal.IntervalCredalSet(point - 0.1, point + 0.1, point=point)
    ax = plot.binary(credal, labels=(p > 0.5).astype(int))
    ax.figure.canvas.draw()
    assert sum(map(len, spans(ax).values())) == 3000
    line = next(line for line in ax.lines if len(line.get_ydata()) == 3000)
    assert line.get_ydata() == pytest.approx(np.sort(p))
    plot.binary(credal[:0]).figure.canvas.draw()


# Decomposition


def test_marks_lie_at_lower_entropy_and_entropy_range(sample):
    logits, labels, model = sample
    credal = model.predict(logits)
    ax = plot.decomposition(credal, labels=labels)
    low, high = credal.entropy()
    right = credal.point.argmax(axis=1) == labels
    for made, of in zip(ax.collections, (right, ~right), strict=True):
        offsets = made.get_offsets()
        shown = ~np.ma.getmaskarray(offsets).any(axis=1)
        assert np.array_equal(shown, of)
        expected = np.column_stack([low, high - low])
        assert np.asarray(offsets)[of] == pytest.approx(expected[of])
    assert [c.get_gid() for c in ax.collections] == ["right", "wrong"]
    assert legend_of(ax) == [f"right: {right.sum()}", f"wrong: {(~right).sum()}"]


def test_a_click_on_a_mark_tells_its_row(sample):
    logits, labels, model = sample
    credal = model.predict(logits)
    ax = plot.decomposition(credal, labels=labels)
    figure = ax.figure
    figure.canvas.draw()
    picked = []
    figure.canvas.mpl_connect("pick_event", lambda event: picked.append(event))
    row = int(np.flatnonzero(credal.point.argmax(axis=1) != labels)[0])
    at = ax.transData.transform((credal.aleatoric()[row], credal.epistemic()[row]))
    click = MouseEvent("button_press_event", figure.canvas, *at, button=1)
    figure.canvas.callbacks.process("button_press_event", click)
    assert row in {int(i) for e in picked if e.artist.get_gid() == "wrong" for i in e.ind}


def test_empty_inputs_are_left_out_and_counted():
    ax = plot.decomposition(PAIR)
    shown = ~np.ma.getmaskarray(ax.collections[0].get_offsets()).any(axis=1)
    assert shown.tolist() == [True, True, True, False, True]
    assert "(1 empty inputs left out)" in ax.get_xlabel()
    hull = decal.HullCredalSet([[[0.9, 0.1], [0.5, 0.5]]])
    ((x, y),) = plot.decomposition(hull).collections[0].get_offsets()
    least = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert (x, y) == pytest.approx((least, np.log(2) - least))


# Tradeoff


def test_points_are_efficiency_and_coverage_coloured_by_alpha(sample):
    logits, _, model = sample
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    path = decal.selection.path(model, logits, distributions=truth)
    ax = plot.tradeoff({"one": path, "two": ([1, 0.5], [0.2, 0.4], [0.3, 0.1])}, mark=[0.5])
    first, second = ax.collections
    assert np.asarray(first.get_offsets()) == pytest.approx(
        np.column_stack([path.efficiency, path.coverage])
    )
    assert np.asarray(first.get_array()) == pytest.approx(path.alpha)
    assert np.asarray(second.get_offsets()) == pytest.approx(np.array([[0.3, 0.2], [0.1, 0.4]]))
    assert legend_of(ax) == ["one", "two", "best of all"]
    assert "0.5" in {text.get_text() for text in ax.texts}
    ax.figure.canvas.draw()


def test_the_front_holds_what_no_other_point_beats():
    rng = np.random.default_rng(2)
    coverage, efficiency = rng.uniform(size=(2, 50)).round(1)  # with ties
    ax = plot.tradeoff((np.linspace(0, 1, 50), coverage, efficiency))
    points = set(zip(efficiency.tolist(), coverage.tolist(), strict=True))
    best = {
        (e, c)
        for e, c in points
        if not any(f >= e and d >= c and (f, d) != (e, c) for f, d in points)
    }
    front = next(line for line in ax.lines if line.get_gid() == "front")
    assert set(zip(*map(np.ndarray.tolist, front.get_data()), strict=True)) == best
    assert (np.diff(front.get_xdata()) > 0).all()


def test_paths_without_coverage_or_of_unequal_length_are_refused(sample):
    logits, labels, model = sample
    path = decal.selection.path(model, logits, labels=labels, alphas=[1, 0])
    with pytest.raises(ValueError, match=r"paths must have coverage: got none of 'mine'.*distrib"):
        plot.tradeoff({"mine": path})
    with pytest.raises(ValueError, match=r"columns of one length: got \[1, 2\]"):
        plot.tradeoff(([1, 0], [0.5], [0.1, 0.2]))
    with pytest.raises(ValueError, match="paths must hold at least one"):
        plot.tradeoff({})


# One input, all alphas


def band(made):
    """Lower and upper end of a band at each alpha."""
    x, y = made.get_paths()[0].vertices.T
    return {a: (y[x == a].min(), y[x == a].max()) for a in np.unique(x)}


def test_bands_hold_the_intervals_of_the_most_probable_classes(sample):
    logits, _, model = sample
    alphas = [0, 0.5, 1, 0.9]
    ax = plot.alpha_path(model, logits[0], alphas=alphas, top=2)
    likely = [int(k) for k in np.argsort(-logits[0])[:2]]
    assert [made.get_gid() for made in ax.collections] == ["abcd"[k] for k in likely]
    for made, k in zip(ax.collections, likely, strict=True):
        found = band(made)
        assert sorted(found) == sorted(alphas)
        for alpha in alphas:
            one = model.predict(logits[:1], alpha=alpha)
            assert found[alpha] == pytest.approx((one.lower[0, k], one.upper[0, k]))
    assert ax.get_xlim() == (1, 0)
    ax.figure.canvas.draw()


def test_a_diamond_marks_where_the_truth_enters_its_band(sample):
    logits, _, model = sample
    truth = np.full(4, 0.25)
    alphas = np.linspace(0, 1, 21)
    ax = plot.alpha_path(model, logits[0], alphas=alphas, top=1, truth=truth)
    k = int(logits[0].argmax())
    sets = {a: model.predict(logits[:1], alpha=a) for a in alphas}
    inside = [a for a, c in sets.items() if c.lower[0, k] <= 0.25 <= c.upper[0, k]]
    (diamond,) = [line for line in ax.lines if line.get_marker() == "D"]
    assert np.ravel(diamond.get_data()) == pytest.approx([max(inside), 0.25])


def test_infinite_shifts_are_drawn():
    # The third class never occurs: it may be shifted to minus infinity, and to plus at alpha = 0.
    model = decal.decalibrate([[9.0, 0, 1], [0, 9.0, 1]], [0, 1], alpha=0.9, likelihood="sum")
    ax = plot.alpha_path(model, [1e4, 0.0, -1e4])
    ax.figure.canvas.draw()
    for made in ax.collections:
        assert np.isfinite(made.get_paths()[0].vertices).all()
    assert band(ax.collections[0])[0] == pytest.approx((0, 1))
    with pytest.raises(ValueError, match="logits must be those of one input: got 2 rows"):
        plot.alpha_path(model, np.zeros((2, 3)))


# Baseline images


def spider(credal, rng):
    other = decal.IntervalCredalSet(credal.lower * 0.5, credal.upper, point=credal.point)
    return plot.spider({"a": credal, "b": other}, truth=rng.dirichlet(np.ones(5)), top=5)


def simplex(_, rng):
    hull = decal.HullCredalSet(rng.dirichlet([3, 2, 2], size=(1, 6)))
    return plot.simplex({"box": hull.box(), "hull": hull}, truth=[0.3, 0.3, 0.4])


def tradeoff(*_):
    alpha = np.linspace(0, 1, 12)
    return plot.tradeoff(
        {"a": (alpha, 1 - alpha**4, alpha), "b": (alpha, 1 - alpha**2, alpha**1.2)}
    )


def alpha_path(_, rng):
    logits = rng.normal(size=(50, 3))
    model = decal.decalibrate(logits, np.arange(50) % 3, alpha=0.9)
    return plot.alpha_path(model, [1.0, 0.2, 0.0], truth=[0.5, 0.2, 0.3])


def binary(_, rng):
    p = rng.uniform(0.1, 0.9, size=40)
    point = np.stack([1 - p, p], axis=1)
    credal = decal.IntervalCredalSet(point * 0.8, np.minimum(1, point * 1.2), point=point)
    return plot.binary(credal, labels=np.arange(40) % 2)


FIGURES = {
    "spider": spider,
    "simplex": simplex,
    "intervals": lambda credal, rng: plot.intervals(credal, truth=rng.dirichlet(np.ones(5))),
    "binary": binary,
    "tradeoff": tradeoff,
    "decomposition": lambda credal, _: plot.decomposition(credal, labels=np.arange(200) % 5),
    "alpha_path": alpha_path,
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_look_like_their_baseline(name, tmp_path):
    rng = np.random.default_rng(7)
    point = rng.dirichlet(np.ones(5), size=200)
    credal = decal.IntervalCredalSet(point * 0.5, np.minimum(1, point * 1.3 + 0.1), point=point)
    ax = FIGURES[name](credal, rng)
    figure = ax.figure
    figure.set_layout_engine("none")
    figure.set_size_inches(3, 3)
    ax.set_position((0.1, 0.1, 0.8, 0.8))
    for made in [*figure.findobj(Text), ax.get_legend()]:
        if made is not None:
            made.set_visible(False)
    write = os.environ.get("DECAL_BASELINES") == "write"
    drawn = (BASELINES if write else tmp_path) / f"{name}.png"
    drawn.parent.mkdir(exist_ok=True)
    figure.savefig(drawn, dpi=60)
    difference = compare_images(str(BASELINES / f"{name}.png"), str(drawn), TOLERANCE)
    assert difference is None, difference
