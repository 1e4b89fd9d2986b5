"""Figures of many alphas: coverage against efficiency, and one input's intervals."""

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")


from decal import plot
from helpers.plotted import legend_of


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
