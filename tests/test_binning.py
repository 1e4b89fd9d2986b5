"""Numbers in bins: labels for a classifier, and prediction intervals with a promise."""

import numpy as np
import pytest

import decal


def test_prediction_intervals_miss_as_rarely_as_promised_and_hold_quantiles():
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (3000, 1))
    y = x[:, 0] ** 2 + (0.2 + 0.3 * np.abs(x[:, 0])) * rng.normal(size=3000)
    bins = decal.binned(y[:1000], 12)
    model = HistGradientBoostingClassifier(max_iter=40).fit(x[:1000], bins.labels)
    cal = decal.binned(y[1000:2000], bins.edges)
    logits = np.log(model.predict_proba(x[1000:]))
    d = decal.decalibrate(logits[:1000], cal.labels, miss=0.2, order=True, classes=bins.classes)
    sets = d.predict(logits[1000:])
    low, high = bins.interval(sets)
    new = np.clip(y[2000:], bins.edges[0], bins.edges[-1])
    missed = np.mean((new < low) | (new > high))
    assert missed <= 0.2 + 3 * np.sqrt(0.16 / 1000 * 2)
    first, last = bins.quantile(sets, 0.5)
    assert np.mean((first <= x[2000:, 0] ** 2) & (x[2000:, 0] ** 2 <= last)) > 0.8
    least, most = sets.mean(bins.centers)
    middle = sets.point @ bins.centers
    assert ((least <= middle + 1e-9) & (middle <= most + 1e-9)).all()


def test_bins_hold_about_as_many_numbers_each_and_know_their_means():
    y = np.arange(100.0)
    bins = decal.binned(y, 4)
    assert np.bincount(bins.labels).tolist() == [25, 25, 25, 25]
    np.testing.assert_allclose(bins.centers, [12, 37, 62, 87])
    assert decal.binned([-5.0, 500.0], bins.edges).labels.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("y", "edges", "message"),
    [
        ([1.0, np.nan], 2, "y must be finite"),
        ([[1.0]], 2, "y must be a vector of numbers"),
        ([1.0, 2.0], 1, "edges must be two bins or more: got 1"),
        ([1.0, 1.0, 1.0], 3, "edges must be three or more finite numbers that rise"),
        ([1.0, 2.0], [3, 2, 1], "edges must be three or more finite numbers that rise"),
    ],
)
def test_bad_numbers_and_edges_are_refused(y, edges, message):
    with pytest.raises(decal.InputError, match=message):
        decal.binned(y, edges)


def test_sets_of_more_bins_are_refused():
    bins = decal.binned([0.0, 1.0, 2.0], [0, 1, 2])
    with pytest.raises(decal.InputError, match="credal must have 2 bins"):
        bins.quantile(decal.IntervalCredalSet([[0, 0, 0.9]], [[0.1, 0.1, 1]]), 0.9)
