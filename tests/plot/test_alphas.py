"""Figures of many alphas: coverage against efficiency, and one input's intervals."""

import numpy as np
import pytest

import decal
from decal.choose import path as path_of

pytest.importorskip("matplotlib")


from decal import plot
from helpers.plotted import legend_of


@pytest.fixture
def path(sample):
    logits, _, model = sample
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return path_of(model, logits, distributions=truth)


def written(ax):
    return {text.get_text() for text in ax.texts}


def test_points_of_one_path_are_efficiency_and_coverage_coloured_by_alpha(path):
    ax = plot.tradeoff({"one": path}, mark=[0.5])
    (points,) = ax.collections
    assert np.asarray(points.get_offsets()) == pytest.approx(
        np.column_stack([path.efficiency, path.coverage])
    )
    assert np.asarray(points.get_array()) == pytest.approx(path.alpha)
    assert legend_of(ax) == ["best of all"]
    assert f"{path.alpha[np.abs(path.alpha - 0.5).argmin()]:.3g}" in written(ax)
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


def test_paths_without_coverage_or_of_unequal_length_are_refused(sample):
    logits, labels, model = sample
    path = path_of(model, logits, labels=labels, alphas=[1, 0])
    with pytest.raises(ValueError, match=r"paths must have coverage: got none of 'mine'.*distrib"):
        plot.tradeoff({"mine": path})
    with pytest.raises(ValueError, match=r"columns of one length: got \[1, 2\]"):
        plot.tradeoff(([1, 0], [0.5], [0.1, 0.2]))
    with pytest.raises(ValueError, match="paths must hold at least one"):
        plot.tradeoff({})


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


def test_more_classes_than_colours_get_a_panel_each():
    rng = np.random.default_rng(0)
    model = decal.decalibrate(rng.normal(size=(80, 8)), np.arange(80) % 8, alpha=0.9)
    z = rng.normal(size=8)
    with pytest.raises(ValueError, match=r"top must be at most 5, a colour.*got 8.*grid"):
        plot.alpha_path(model, z, top=8)
    axes = plot.grid(plot.alpha_path, model, z, alphas=[1, 0.5, 0], top=7, truth=np.full(8, 1 / 8))
    assert axes.shape == (3, 3)
    shown = [ax for ax in axes.flat if ax.get_visible()]
    likely = [int(k) for k in np.argsort(-z)[:7]]
    assert [ax.get_title() for ax in shown] == [str(k) for k in likely]
    for ax, k in zip(shown, likely, strict=True):
        (made,) = ax.collections
        one = model.predict(z[None], alpha=0.5)
        assert band(made)[0.5] == pytest.approx((one.lower[0, k], one.upper[0, k]))
    axes[0, 0].figure.canvas.draw()
    lowest = [axes[2, 0], axes[1, 1], axes[1, 2]]
    assert all(ax.get_xlabel() == "alpha" for ax in lowest)
    assert plot.grid(plot.alpha_path, model, z, top=4, ncols=4, alphas=[1, 0]).shape == (1, 4)


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
