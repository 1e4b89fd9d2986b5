"""Tails of counts against exact arithmetic, and Holm's p-values against their definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decal.evaluate._tails import at_least, at_most, holm
from helpers.strategies import at_most as few
from oracles import counts as oracles

ROUND_OFF = 2.0**-52
chances = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 5e-324, 1e-300, 1e-12, 1 - 2**-53, -ROUND_OFF, 1 + ROUND_OFF]),
    st.floats(0.0, 1.0),
)


@few(60)
@given(st.lists(chances, min_size=1, max_size=12), st.data())
def test_tails_are_exact_in_their_leading_digits(p, data):
    count = data.draw(st.integers(-2, len(p) + 2))
    mass = oracles.mass([min(max(x, 0.0), 1.0) for x in p])
    above, below = float(sum(mass[max(count, 0) :])), float(sum(mass[: max(count + 1, 0)]))
    assert at_least(count, np.array(p)) == pytest.approx(above, rel=1e-9, abs=1e-300)
    assert at_most(count, np.array(p)) == pytest.approx(below, rel=1e-9, abs=1e-300)


def test_many_events_agree_with_exact_arithmetic_far_out_in_the_tail():
    rng = np.random.default_rng(0)
    p = np.ceil(8 * rng.uniform(size=200) ** 3) / 16  # sixteenths, so that fractions stay small
    mass = oracles.mass(p)
    for count in (0, 40, 60, 80, 120, 199):
        exact = float(sum(mass[count:]))
        assert at_least(count, p) == pytest.approx(exact, rel=1e-9)


def test_events_too_rare_for_a_short_search_keep_their_leading_digits():
    p = np.random.default_rng(0).permutation(np.repeat([1e-200, 0.5], [66, 63]))
    # All of the others, and one of the rare ones.
    assert at_least(64, p) == pytest.approx(66e-200 * 0.5**63, rel=1e-9, abs=0)


def test_many_equal_events_are_binomial():
    stats = pytest.importorskip("scipy.stats")
    for count in (60, 100, 300):
        expected = stats.binom.sf(count - 1, 1000, 0.05)
        assert at_least(count, np.full(1000, 0.05)) == pytest.approx(expected, rel=1e-9)
        assert at_most(1000 - count, np.full(1000, 0.95)) == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.sampled_from([0.001, 0.01, 0.02, 0.3, 1.0, 1e-9]), min_size=1, max_size=8))
def test_holm_is_its_definition(p):
    assert holm(np.array(p)).tolist() == pytest.approx(oracles.holm(p))
