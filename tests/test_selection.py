"""Choosing alpha."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import decal


@given(st.floats(0, 0.999), st.integers(1, 50))
def test_confidence_becomes_the_likelihood_ratio_of_wilks(level, df):
    import math

    alpha = decal.alpha_from_confidence(level, df)
    assert alpha == pytest.approx(math.exp(-chi2.ppf(level, df) / 2), rel=1e-9)
    assert decal.confidence_from_alpha(alpha, df) == pytest.approx(level, abs=1e-9)


def test_the_ends_of_the_scale():
    assert decal.alpha_from_confidence(0) == 1
    assert decal.alpha_from_confidence(1) == 0
    assert decal.confidence_from_alpha(0) == 1
    assert decal.confidence_from_alpha(1) == 0


def test_bad_levels_are_refused():
    with pytest.raises(ValueError, match="level must lie between 0 and 1: got 1.2"):
        decal.alpha_from_confidence(1.2)
    with pytest.raises(ValueError, match="df must be a whole number, at least 1: got 0"):
        decal.confidence_from_alpha(0.5, df=0)
