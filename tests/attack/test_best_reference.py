"""The best model on nasty logits: no slope of the log-likelihood is left, in exact arithmetic."""

import warnings

import mpmath
import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import decal
from helpers.attack import attack
from helpers.nasty_logits import SIZES, problems
from oracles import exact

EPS = float(np.finfo(np.float64).eps)
OPTIMAL = 1e-8
"""Slope of the log-likelihood that may be left, per unit of weight and nat."""

WRITABLE = (0.0, 1e-300, 1e-30, 1e-8, 0.1, 1.0, 3.0, 30.0, 1e3, 1e5)
"""Sizes at which shifts can be written down so finely that no slope is left."""

REFUSALS = ("perfectly predictable", "more about the labels than chance", "at least two classes")

NOT_FOUND = "reference='best' was not found"


def best(problem, directions=("class",)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.FitWarning)
        model = decal.Decalibrator(0.5, reference="best", directions=directions)
        model.fit(problem.logits, problem.labels, sample_weight=problem.weights)
    return model.reference_model


def check_slopes(problem, reference):
    """No slope by any shift is left, beyond what shifts and logits round to."""
    center, scale = reference.center, mpmath.mpf(reference.scale)
    np.testing.assert_array_equal(np.isneginf(center), ~problem.present)
    near = problem.meant[np.abs(problem.meant) < 1e7]
    moved = np.abs(center[problem.present]).max() + float(scale) * np.abs(near).max(initial=0.0)
    W = float(problem.counted_weights.sum())
    with exact.precise(problem.meant):
        rows = [
            [scale * z if z > -mpmath.inf else z for z in exact.numbers(row)]
            for row in problem.meant
        ]
        for k in np.flatnonzero(problem.present):
            left = exact.slope(rows, problem.labels, k, center, problem.counted_weights)
            assert abs(float(left)) <= W * (OPTIMAL + 8 * EPS * moved), (k, float(left), center)


@attack("reference best: shifts", 120, problem=problems(sizes=WRITABLE))
def test_no_slope_by_any_shift_is_left(problem):
    assume(problem.present.sum() > 1)
    check_slopes(problem, best(problem))


@attack("reference best: shifts and scale", 60, problem=problems(sizes=WRITABLE[3:-1]))
def test_no_slope_is_left_where_the_scale_moves_too(problem):
    assume(problem.present.sum() > 1)
    try:
        reference = best(problem, ("class", "temperature"))
    except ValueError as error:
        if not any(reason in str(error) for reason in REFUSALS):
            raise
        return
    check_slopes(problem, reference)


@attack("reference best: any size", 60, problem=problems(sizes=SIZES), scale=st.booleans())
def test_logits_of_any_size_have_a_best_model_or_an_error_says_so(problem, scale):
    try:
        reference = best(problem, ("class", "temperature") if scale else ("class",))
    except (ArithmeticError, ValueError) as error:
        if not any(reason in str(error) for reason in (*REFUSALS, NOT_FOUND)):
            raise
        return
    assert np.isfinite(reference.center[problem.present]).all()
    assert 0 < reference.scale < np.inf
    assert reference.distance >= -1e-9 * (1 + abs(reference.distance))
