"""Elementary functions: exact where naive formulas overflow or cancel."""

import numpy as np
import pytest
from hypothesis import given
from scipy.special import expit, logsumexp

from decal._base.numerics import for_each_block, margins, row_blocks, sigmoid, softplus
from helpers.strategies import labelled_logits


@given(labelled_logits())
def test_margins_are_the_log_odds_against_all_others(data):
    logits = data[0].astype(np.float64)
    m = margins(data[0], np.zeros(logits.shape[1]))
    for n, row in enumerate(logits):
        for k in range(len(row)):
            expected = row[k] - logsumexp(np.delete(row, k))
            round_off = 1e-15 * (10 + np.abs(row).max())  # of the expected value
            assert m[k, n] == pytest.approx(expected, rel=1e-14, abs=round_off)


def test_the_margin_of_an_almost_certain_class_does_not_cancel():
    # p is 1 - 3e-18: from p itself nothing of its margin could be recovered.
    m = margins(np.array([[40.0, -0.5, -0.5]]), np.zeros(3))
    assert m[0, 0] == pytest.approx(40.5 - np.log(2), rel=1e-15)


def test_a_class_with_center_minus_infinity_is_no_rival():
    logits = np.array([[1.0, 2.0, 50.0]])
    m = margins(logits, np.array([0.5, 0.0, -np.inf]))
    np.testing.assert_allclose(m[:2, 0], [-0.5, 0.5])
    assert m[2, 0] == pytest.approx(50.0 - np.logaddexp(1.5, 2.0))


def test_softplus_and_sigmoid_in_both_tails():
    x = np.array([-800.0, -50.0, -1e-9, 0.0, 3.0, 800.0])
    np.testing.assert_allclose(softplus(x), np.logaddexp(0, x), rtol=1e-14)
    np.testing.assert_allclose(sigmoid(x), expit(x), rtol=1e-14)
    np.testing.assert_array_equal(sigmoid(np.array([-np.inf, np.inf])), [0.0, 1.0])


@pytest.mark.parametrize(("rows", "columns"), [(1, 10**9), (10, 3), (1000, 7)])
def test_blocks_cover_every_row_once(rows, columns):
    seen = np.zeros(rows, dtype=int)
    for block in row_blocks(rows, columns, 50):
        seen[block] += 1
    assert (seen == 1).all()


def test_an_error_in_a_threaded_block_reaches_the_caller():
    def work(block):
        if block.start > 500:
            raise ValueError("row 501")

    with pytest.raises(ValueError, match="row 501"):
        for_each_block(work, 1000, 100, 1000)
