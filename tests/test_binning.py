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


def test_equal_numbers_share_a_bin_and_bins_say_how_many_they_are():
    assert repr(decal.binned([0, 0, 0, 0, 1, 3], 4)) == "Binned: 6 numbers, 2 bins from 0 to 3"
    assert repr(decal.binned([1.0], [0, 1, 2000])) == "Binned: 1 number, 2 bins from 0 to 2000"


@pytest.mark.parametrize(
    ("y", "edges", "message"),
    [
        ([1.0, np.nan], 2, "y must not contain NaN: got NaN at index 1"),
        ([[1.0]], 2, "y must be a vector of numbers"),
        ([1.0, 2.0], 1, "edges must be a whole number, at least 2: got 1"),
        ([1.0, 2.0], 8.5, "edges must be a whole number, at least 2: got 8.5"),
        ([1.0, 1.0, 1.0], 3, "edges must be three or more numbers that rise: got .1.0.. Ties of y"),
        ([1.0, 2.0], [3, 2, 1], "edges must be three or more numbers that rise"),
        ([1.0, 2.0], [0, np.inf, 3], "edges must be finite: got inf at index 1"),
        ([1.0, 2.0], ["a", "b", "c"], "edges must be a vector of numbers, at least one"),
        (["a", "b"], 2, "y must be a vector of numbers"),
    ],
)
def test_bad_numbers_and_edges_are_refused(y, edges, message):
    with pytest.raises(decal.InputError, match=message):
        decal.binned(y, edges)


@pytest.mark.parametrize("K", [2, 4])
def test_sets_of_other_bins_are_refused(K):
    bins = decal.binned([0.0, 1.0, 2.0], [0, 1, 2, 3])
    credal = decal.IntervalCredalSet([[0.0] * K], [[1.0] * K])
    for ask in (bins.interval, lambda sets: bins.quantile(sets, 0.5)):
        with pytest.raises(decal.InputError, match=f"credal must have 3 bins: got {K}"):
            ask(credal)


def test_what_are_no_sets_is_refused():
    with pytest.raises(decal.InputError, match="credal must be credal sets over the bins: got a l"):
        decal.binned([0.0, 1.0], [0, 1, 2]).interval([[0.5, 0.5]])


def test_an_interval_holds_all_possible_bins_whatever_rule_is_promised():
    bins = decal.binned([0.5], [0, 1, 2, 3])
    credal = decal.IntervalCredalSet([[0.4, 0, 0.4]], [[0.6, 0.1, 0.6]])
    assert credal.possible() == [[0, 2]]
    np.testing.assert_array_equal(bins.interval(credal), [[0], [3]])


# Networks that predict quantiles


def test_predicted_quantiles_say_how_probable_bins_are():
    from scipy.stats import norm

    levels = np.linspace(0.001, 0.999, 999)
    center, spread = np.array([[0.0], [3.0]]), np.array([[1.0], [0.2]])
    quantiles = norm.ppf(levels, center, spread)
    shuffled = np.random.default_rng(0).permutation(999)  # quantiles that cross
    edges = np.array([-4.0, -1.0, 0.3, 2.0, 3.1, 5.0])
    bins = decal.binned([0.0], edges)
    below = norm.cdf(edges, center, spread)
    below[:, 0], below[:, -1] = 0, 1  # the outer bins have what is beyond
    for given in (quantiles, quantiles[:, shuffled]):
        found = bins.probabilities(given, levels)
        np.testing.assert_allclose(found, np.diff(below), atol=1e-3)
    np.testing.assert_allclose(bins.probabilities([[9.0, 9.5]], [0.2, 0.8])[0].sum(), 1)
    # From 5 to 9, and from 9 to 9.5, where no bin is: all of it is in the last one but 0.2 below 9.
    np.testing.assert_allclose(
        bins.probabilities([[9.0, 9.5]], [0.2, 0.8])[0, :4], 0.2 * np.diff(edges)[:4] / 13
    )


def test_intervals_of_quantile_heads_miss_as_rarely_as_promised():
    from scipy.stats import norm

    levels, edges = np.linspace(0.1, 0.9, 9), np.linspace(-4, 4, 17)
    missed = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1000, 1))
        y = (x + (0.3 + np.abs(x)) * rng.normal(size=(1000, 1)))[:, 0]
        bins = decal.binned(y[:200], edges)
        p = bins.probabilities(x + 0.5 * norm.ppf(levels), levels)  # knows nothing of the spread
        d = decal.decalibrate(p[:200], bins.labels, miss=0.2, order=True, probabilities=True)
        low, high = bins.interval(d.predict(p[200:]))
        new = np.clip(y[200:], *edges[[0, -1]])
        missed.append(1 - ((low <= new) & (new <= high)).mean())
    assert np.mean(missed) <= 0.2 + 3 * np.std(missed) / np.sqrt(12)
    assert np.mean(missed) >= 0.15


@pytest.mark.parametrize(
    ("quantiles", "levels", "message"),
    [
        ([[1.0, 2.0]], [0.5, 0.5], "levels must rise between 0 and 1: got"),
        ([[1.0, 2.0]], [0.0, 0.5], "levels must rise between 0 and 1: got"),
        ([[1.0, 2.0]], [0.5], "quantiles must have 1 columns, as levels: got shape"),
        ([[1.0, np.nan]], [0.4, 0.5], "quantiles must be finite: got nan"),
    ],
)
def test_bad_quantiles_are_refused(quantiles, levels, message):
    with pytest.raises(decal.InputError, match=message):
        decal.binned([0.0, 1.0], [0, 1, 2]).probabilities(quantiles, levels)
