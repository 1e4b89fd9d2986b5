"""Peaks of probabilities over scales: against a root finder of the definition, class by class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import softmax

from decal.directions._lines import widen_along
from decal.directions._peaks import scale_peaks, widen_by_scale
from helpers.compiled import using
from helpers.strategies import at_most
from oracles.log_sums import log_sum_exp


def log_peak(z, j):
    """Largest log-probability of class j over scales in (0, inf), if it is inside; else None."""
    d = z - z.max()
    if d[j] == 0 or d[j] <= d.mean():
        return None

    def lead(u):  # expectation of d, less d_j
        return float(softmax(np.exp(u) * d) @ d) - d[j]

    low, high = -5.0 - np.log(-d.min()), 1.0
    while lead(low) > 0:
        low -= 3.0
    while lead(high) < 0:
        high += 1.0
    s = np.exp(brentq(lead, low, high, xtol=1e-13, rtol=1e-14))
    return s * d[j] - log_sum_exp(s * d)


@st.composite
def rows(draw):
    """Logits that are hard to tabulate: crowds, ties, outliers, any scale, few or many classes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    K = draw(st.sampled_from([2, 3, 5, 30, 300]))
    z = rng.standard_normal(K) * draw(st.sampled_from([1e-3, 1.0, 30.0, 1e4]))
    kind = draw(st.sampled_from(["plain", "ties", "crowd", "outlier"]))
    if kind == "ties":
        z = np.round(z, 0)
    if kind == "crowd":  # one ahead of many equal ones: a sharp turn of A
        z[1:] = -5.0 + 1e-3 * rng.standard_normal(K - 1)
        z[0] = 0.0
    if kind == "outlier":
        z[-1] -= 1e3
    return z


@at_most(150)
@given(rows())
def test_peaks_are_those_of_the_definition(z):
    chosen = np.random.default_rng(0).permutation(len(z))[:12]
    expected = {j: log_peak(z, j) for j in chosen}
    j = np.array([j for j, value in expected.items() if value is not None], dtype=np.intp)
    if not j.size:
        return
    found = scale_peaks(z[None], np.zeros(len(j), dtype=np.intp), j, 0.0, np.inf)
    wanted = np.exp([expected[k] for k in j])
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(("first", "last"), [(0.0, np.inf), (0.3, 1.5), (0.9, 40.0)])
def test_boxes_are_those_of_a_search_class_by_class(first, last):
    logits = 2 * np.random.default_rng(0).standard_normal((40, 60))
    low, high = np.ones_like(logits), np.zeros_like(logits)
    widen_by_scale(low, high, logits, first, last, np.arange(60))
    expected_low, expected_high = np.ones_like(logits), np.zeros_like(logits)
    widen_along(expected_low, expected_high, logits, lambda z: (0 * z, z), first, last)
    np.testing.assert_allclose(low, expected_low, rtol=1e-12)
    np.testing.assert_allclose(high, expected_high, rtol=1e-9, atol=0)
    for s in np.geomspace(max(first, 0.01), min(last, 100.0), 301):
        assert (high >= softmax(s * logits, axis=1) * (1 - 1e-9)).all()


@st.composite
def sharp_rows(draw):
    """A crowd around one logit and a few ahead of it: the more, the sharper A turns."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    K = draw(st.sampled_from([4, 20, 21, 100, 2000]))
    z = rng.standard_normal(K) * draw(st.sampled_from([0.01, 0.5, 2.0]))
    ahead = draw(st.integers(1, 3))
    z[:ahead] = z.max() + draw(st.floats(0.1, 50.0)) + draw(st.floats(0, 1)) * rng.random(ahead)
    return z


@at_most(150)
@given(
    st.one_of(rows(), sharp_rows()),
    st.one_of(st.sampled_from([0.0, 1e-8]), st.floats(0.01, 1.0)),
    st.one_of(st.sampled_from([np.inf, 1e5]), st.floats(1.0, 50.0)),
)
def test_compiled_boxes_are_those_of_the_definition(z, first, last):
    low, high = np.ones((1, len(z))), np.zeros((1, len(z)))
    with using(True):
        widen_by_scale(low, high, z[None], first, last, np.arange(len(z)))
    d = z - z.max()
    far = softmax(last * d) if np.isfinite(last) else (d == 0) / np.count_nonzero(d == 0)
    ends = np.stack([softmax(first * d), far])
    np.testing.assert_allclose(low[0], ends.min(axis=0), rtol=1e-12, atol=1e-300)
    chosen = np.random.default_rng(0).permutation(len(z))[:12]
    for j in chosen:
        expected = ends[:, j].max()
        peak = log_peak(z, j)  # None if it is at the scale 0, as round-off may hide
        if ends[0] @ d < d[j] < ends[1] @ d and peak is not None:  # it peaks between them
            expected = max(expected, np.exp(peak))
        assert high[0, j] == pytest.approx(expected, rel=1e-10, abs=1e-300)


@pytest.mark.parametrize(("first", "last"), [(0.0, np.inf), (0.6, 1.7)])
def test_one_class_ahead_of_a_thousand_is_no_harder(first, last):
    z = 1.2 * np.random.default_rng(0).standard_normal(1000)
    z[0] = z.max() + 6
    low, high = np.ones((1, 1000)), np.zeros((1, 1000))
    with using(True):
        widen_by_scale(low, high, z[None], first, last, np.arange(1000))
    d = z - z[0]
    reached = [softmax(first * d) @ d, softmax(min(last, 1e3) * d) @ d]
    peaking = np.flatnonzero((reached[0] < d) & (d < reached[1]))
    assert peaking.size > 10
    expected = np.exp([log_peak(z, j) for j in peaking])
    np.testing.assert_allclose(high[0, peaking], expected, rtol=1e-11)


@pytest.mark.parametrize("d", [1e-70, 1e-9, 1e70])
def test_rows_that_no_table_holds_are_boxed_all_the_same(d):
    z = np.array([np.append([0.0, -d, -2 * d, -3.5 * d], np.full(30, -4.0 * max(d, 1.0)))])
    low, high = np.ones_like(z), np.zeros_like(z)
    with using(True):
        widen_by_scale(low, high, z, 0.0, np.inf, np.arange(34))
    assert high[0, 1] == pytest.approx(np.exp(log_peak(z[0], 1)), rel=1e-9)
    np.testing.assert_allclose(low[0], [1 / 34] + 33 * [0.0], rtol=1e-14)
