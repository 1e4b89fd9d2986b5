"""Coverage against efficiency, at many alphas."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")


import decal
from decal import plot
from helpers.plotted import legend_of


@pytest.fixture
def path(sample):
    logits, _, model = sample
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    alphas = np.linspace(1, 0, 21)
    sets = [model.predict(logits, alpha=alpha) for alpha in alphas]
    coverage = [decal.metrics.coverage(one, truth) for one in sets]
    return alphas, np.array(coverage), np.array([decal.metrics.efficiency(one) for one in sets])


def written(ax):
    return {text.get_text() for text in ax.texts}


def test_points_of_one_path_are_efficiency_and_coverage_coloured_by_alpha(path):
    alpha, coverage, efficiency = path
    ax = plot.tradeoff({"one": path}, mark=[0.5])
    (points,) = ax.collections
    assert np.asarray(points.get_offsets()) == pytest.approx(
        np.column_stack([efficiency, coverage])
    )
    assert np.asarray(points.get_array()) == pytest.approx(alpha)
    assert legend_of(ax) == ["best of all"]
    assert f"{alpha[np.abs(alpha - 0.5).argmin()]:.3g}" in written(ax)
    ax.figure.canvas.draw()


def test_several_paths_have_a_colour_each_and_their_names_beside_them(path):
    two = ([1, 0.5], [0.2, 0.4], [0.3, 0.1])
    ax = plot.tradeoff({"one": path, "two": two}, mark=[0.5])
    first, second = ax.collections
    assert np.asarray(second.get_offsets()) == pytest.approx(np.array([[0.3, 0.2], [0.1, 0.4]]))
    assert first.get_facecolor().tolist() != second.get_facecolor().tolist()
    assert {"one", "two", "0.5"} <= written(ax)
    assert legend_of(ax) == ["best of all"]
    assert legend_of(plot.tradeoff({"one": path, "two": two}, direct=False)) == [
        "one", "two", "best of all",
    ]  # fmt: skip
    assert not {"one", "two"} & written(plot.tradeoff({"one": path, "two": two}, legend=False))


def test_nine_methods_on_top_of_each_other_get_a_legend_and_differ_in_colour_or_mark():
    alpha = np.linspace(0, 1, 9)
    curves = {f"method {m}": (alpha, 1 - alpha**4, alpha + 0.001 * m) for m in range(9)}
    ax = plot.tradeoff(curves)
    assert legend_of(ax) == [*curves, "best of all"]
    assert len({tuple(made.get_facecolor()[0]) for made in ax.collections}) == 8
    first, ninth = ax.collections[0], ax.collections[8]
    assert first.get_facecolor().tolist() == ninth.get_facecolor().tolist()
    assert len(first.get_paths()[0].vertices) != len(ninth.get_paths()[0].vertices)


def test_points_of_one_alpha_are_joined_where_paths_have_it():
    one, two = ([0.9, 0.5], [0.3, 0.6], [0.8, 0.5]), ([0.9, 0.2], [0.2, 0.9], [0.7, 0.1])
    ax = plot.tradeoff({"one": one, "two": two}, mark=[0.9, 0.5, 0.3], front=False)
    dotted = [line for line in ax.lines if line.get_linestyle() not in ("-", "None")]
    ends = {tuple(zip(*map(np.ndarray.tolist, line.get_data()), strict=True)) for line in dotted}
    assert ends == {((0.7, 0.2), (0.8, 0.3)), ((0.5, 0.6),)}
    assert {"0.9", "0.5"} <= written(ax)
    assert "0.3" not in written(ax)


def test_methods_have_the_colours_that_are_asked_for_and_a_single_point_is_large():
    many = ([1.0, 0.5, 0.0], [0.1, 0.5, 1.0], [0.9, 0.5, 0.0])
    one = ([0.0], [0.2], [0.8])
    ax = plot.tradeoff({"many": many, "one": one}, colors=["#ff0000", "#00ff00"])
    drawn = {points.get_gid(): points for points in ax.collections}
    assert drawn["many"].get_facecolor()[0, :3].tolist() == [1, 0, 0]
    assert drawn["one"].get_facecolor()[0, :3].tolist() == [0, 1, 0]
    assert drawn["one"].get_sizes()[0] > 2 * drawn["many"].get_sizes()[0]


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


def test_paths_of_unequal_length_and_none_are_refused():
    with pytest.raises(ValueError, match=r"columns of one length: got \[1, 2\]"):
        plot.tradeoff(([1, 0], [0.5], [0.1, 0.2]))
    with pytest.raises(ValueError, match="alphas must lie between 0 and 1: got 2.0 at index 1"):
        plot.tradeoff(([0.5, 2], [0.5, 0.6], [0.1, 0.2]))
    with pytest.raises(ValueError, match="alphas must be a vector of numbers from 0 to 1, at leas"):
        plot.tradeoff(([], [0.5], [0.1]))
    with pytest.raises(ValueError, match="paths must hold at least one"):
        plot.tradeoff({})
