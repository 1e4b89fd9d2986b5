"""The comparison of printed results forgives the last digit, and nothing else."""

import doctest

import pytest

from helpers.printed import NearlyEqualNumbers, agree, lines_agree


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("0.879", "0.880"),
        ("0.879", "0.878"),
        ("0.879", "0.8803"),  # more digits than promised
        ("9.99", "10.00"),
        ("-0.125", "-0.126"),
        ("0.000", "-0.000"),
        ("1.5e-05", "1.6e-05"),
        ("accuracy 0.879.", "accuracy 0.880."),
        ("from 0.25-0.75 to 1", "from 0.26-0.74 to 1"),
        ("array([0.5 , 0.25])", "array([0.5, 0.25])"),
        ("array([[ 1.5, -2. ],\n       [ 0. ,  3. ]])", "array([[1.5, -2.], [0., 3.]])"),
        ("array([1., 0.])", "array([1.00000001, 0.])"),
        ("[0.1 0.25]", "[0.1  0.26]"),
        ("a\n  b", "a b"),
        ("(inf, nan)", "(inf, nan)"),
        ("(3, 10)", "(3, 10)"),
    ],
)
def test_what_another_machine_may_print(expected, printed):
    assert agree(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("0.879", "0.881"),
        ("0.879", "-0.879"),
        ("0.001", "-0.001"),
        ("0.0010", "-0.0001"),
        ("1.5e-05", "1.5e-04"),
        ("1.50e-05", "1.53e-05"),
        ("12 rows", "13 rows"),
        ("1", "1.0"),
        ("1.0", "1"),
        ("array([1., 0.])", "array([0., 1.])"),
        ("array([1., 0.])", "array([1., 0.1])"),
        ("array([0.5 , 0.25])", "array([0.6 , 0.25])"),
        ("array([[0.5, 1. ],\n [0.25, 0. ]])", "array([[0.6, 1. ],\n [0.25, 0. ]])"),
        ("accuracy 0.879", "precision 0.879"),
        ("cat 0.5", "Cat 0.5"),
        ("0.5", "0.5 0.5"),
        ("0.5 0.5", "0.5"),
        ("[0.5, 0.2]", "[0.5, 0.2, 0.3]"),
        ("[1 2]", "[12]"),
        ("inf", "nan"),
        ("float32", "float64"),
        ("version 1.2.3", "version 1.2.4"),
        ("2026-01-02", "2026-01-03"),
        ("ab c", "a bc"),
        ("0.5 ...", "0.5 and more"),  # an ellipsis only where it was asked for
        ("0.5", ""),
        ("", "0.5"),
    ],
)
def test_what_no_machine_may_print(expected, printed):
    assert not agree(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("alpha 0.811..., on 4 rows", "alpha 0.8114, on 4 rows", True),
        ("alpha 0.811..., on 4 rows", "alpha 0.8214, on 4 rows", False),
        ("alpha 0.811..., on 4 rows", "alpha 0.8114, on 5 rows", False),
        ("a ... c ... e", "a b c d e", True),
        ("a ... c ... e", "a b d e", False),
        ("a ... a", "a", False),
        ("...0.5", "long 0.3 story 0.5", True),
        ("...", "", True),
        ("array([0.5, ..., 0.7])", "array([0.5, 0.6, 0.7])", True),
    ],
)
def test_an_ellipsis_stands_for_anything(expected, printed, same):
    assert agree(expected, printed, ellipsis=True) is same


def test_lines_stay_lines():
    assert lines_agree("a 0.5\nb\n", "a 0.5\nb")
    assert not lines_agree("a 0.5\nb", "a 0.5 b")
    assert not lines_agree("a\nb", "a\nb\nc")
    assert not lines_agree("a\nb", "b\na")


def failures(docstring):
    """How many examples of a docstring fail, and how many there are."""
    test = doctest.DocTestParser().get_doctest(docstring, {}, "example", None, 0)
    runner = doctest.DocTestRunner(NearlyEqualNumbers(), optionflags=doctest.ELLIPSIS)
    return runner.run(test, out=[].append)


def test_doctest_uses_it_and_keeps_its_own_directives():
    assert failures(">>> print('mean', 0.880)\nmean 0.879\n") == (0, 1)
    assert failures(">>> print('mean', 0.881)\nmean 0.879\n") == (1, 1)
    assert failures(">>> print('mean', 0.880)\nMean 0.880\n") == (1, 1)
    assert failures(">>> 1 / 0  # doctest: +SKIP\n7\n")[0] == 0
    assert failures(">>> 1 / 0\nTraceback (most recent call last):\nZeroDivisionError: ...\n") == (
        0,
        1,
    )
    assert failures(">>> print('a', 1, 'b')\na ... b\n") == (0, 1)
    assert failures(">>> print('a', 1, 'b')  # doctest: -ELLIPSIS\na ... b\n") == (1, 1)
    assert failures(">>> print('a\\n\\nb')\na\n<BLANKLINE>\nb\n") == (0, 1)
    assert failures(">>> 0.5\n") == (1, 1)  # prints where nothing is promised
