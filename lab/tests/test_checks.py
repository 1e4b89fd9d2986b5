"""Arguments that the laboratory's functions refuse, and what they say."""

import numpy as np
import pytest

from decal_lab import checks


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: checks.check_choice("c", "kind", ("a", "b")), "kind must be one of 'a', 'b': got"),
        (lambda: checks.check_count(0, "members"), "members must be a whole number, at least 1"),
        (lambda: checks.check_count(True, "members"), "whole number, at least 1: got True"),
        (lambda: checks.check_tolerance(np.inf, "jitter"), "jitter must be a finite number, not"),
        (lambda: checks.check_tolerance("1", "jitter"), "jitter must be a finite number, not neg"),
        (lambda: checks.check_alpha(1.5), "alpha must lie between 0 and 1: got 1.5"),
        (lambda: checks.check_alpha(np.nan), "alpha must lie between 0 and 1: got nan"),
        (lambda: checks.check_alpha([0.5, 0.6]), r"alpha must lie .*: got \[0.5, 0.6\]"),
        (lambda: checks.check_level(1), "level must be above 0 and below 1: got 1"),
        (lambda: checks.check_alphas([]), "alphas must be a vector of numbers from 0 to 1, at le"),
        (lambda: checks.check_alphas([0.5, 2]), "alphas must lie between 0 and 1: got 2.0 at ind"),
        (lambda: checks.check_logits([0.0, 1.0]), r"a column per class: got shape \(2,\)"),
        (lambda: checks.check_logits([["a", "b"]]), "logits must be a matrix of numbers"),
        (lambda: checks.check_logits([[0.0], [1.0, 2.0]]), "logits must be an array of numbers"),
        (lambda: checks.check_logits([[0.0]]), r"or more: got shape \(1, 1\)"),
        (
            lambda: checks.check_logits([[0.0, 1.0]], classes=3),
            "must have 3 columns, one per class",
        ),
        (lambda: checks.check_logits([[0, 1], [np.inf, 0]]), r"finite: got inf at index \(1, 0\)"),
        (lambda: checks.check_labels([0], rows=2, classes=2), r"2 in all: got shape \(1,\)"),
        (
            lambda: checks.check_labels([0.0], rows=1, classes=2),
            "integers 0 to 1: got dtype float64",
        ),
        (
            lambda: checks.check_labels([0, 2], rows=2, classes=2, first_row=10),
            "labels must lie in 0 to 1, the columns of logits: got 2 at index 11",
        ),
        (lambda: checks.check_probabilities([[0.5, 0.4]]), "sum to 1 in every row: got 0.9 in row"),
        (lambda: checks.check_probabilities([[1.5, -0.5]]), "probabilities must lie between 0 and"),
        (
            lambda: checks.check_distributions([[0.5, 0.5]], shape=(1, 3), name="human"),
            r"human must have shape \(1, 3\): got shape \(1, 2\)",
        ),
        (lambda: checks.check_member_logits([]), "logits must hold a matrix per member"),
        (lambda: checks.check_member_probabilities(np.ones((2, 2))), "inputs × members × classes"),
    ],
)
def test_what_is_wrong_is_named(check, message):
    with pytest.raises(ValueError, match=message):
        check()


def test_what_is_right_comes_back_as_an_array():
    z = checks.check_logits([[0, 1], [2, 3]])
    assert z.dtype == np.float64
    assert checks.check_logits(z.astype(np.float32)).dtype == np.float32
    assert checks.check_labels([1, 0], rows=2, classes=2).dtype == np.intp
    assert checks.check_member_logits([z, z, z]).shape == (2, 3, 2)
    assert checks.check_level(0.05) == 0.05


def test_tensors_are_taken():
    torch = pytest.importorskip("torch")
    values = torch.ones(2, 2, dtype=torch.bfloat16, requires_grad=True)
    np.testing.assert_array_equal(checks.to_numpy(values, "logits"), np.ones((2, 2)))


def test_a_package_that_is_missing_is_named_and_others_stay():
    told = "pip install it"
    with pytest.raises(ImportError, match=told), checks.needs("gone", message=told):
        import gone
    with pytest.raises(ModuleNotFoundError, match="gone"), checks.needs("other", message=told):
        import gone  # noqa: F401


def test_blocks_hold_all_rows_once():
    rows = [range(10)[block] for block in checks.row_blocks(10, 3, 7)]
    assert [list(part) for part in rows] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
