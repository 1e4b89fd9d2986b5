"""Boxes of class shifts on nasty logits: the range over all shifts at their endpoints, exactly."""

import mpmath
import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import decal
from decal.directions._class_shifts import ShiftPlan, boxes_of_shifts
from helpers.attack import attack
from helpers.compiled import using
from helpers.nasty_logits import problems
from oracles import exact

EPS = float(np.finfo(np.float64).eps)
ROUND_OFF = 1e-12
"""Of probabilities."""

ENDS = st.one_of(
    st.sampled_from((0.0, 1e-300, 1e-9, 299.0, 301.0, 744.0, 746.0, 1e4, 1e9, 1e15, np.inf)),
    st.floats(0.0, 40.0),
)
LEFT_OUT = st.sets(st.integers(0, 5), max_size=4)


def ranges(row, center, lower, upper, *, joint):
    """The box of definition, and how much endpoints a few roundings shorter or longer change it."""
    found = []
    for stretch in (1 - 8 * EPS, 1 + 8 * EPS):
        with np.errstate(invalid="ignore"):
            ends = [[mpmath.mpf(t) * stretch for t in side] for side in (lower, upper)]
        found.append(exact.shift_box(row, center, *ends, joint=joint))
    return found


def check_box(problem, center, lower, upper, found, *, joint):
    for row, low, high, point in zip(problem.meant, *found, strict=True):
        (low_a, high_a, exact_point), (low_b, high_b, _) = ranges(
            row, center, lower, upper, joint=joint
        )
        for j in range(problem.classes):
            for value, ends in ((low[j], (low_a[j], low_b[j])), (high[j], (high_a[j], high_b[j]))):
                assert float(min(ends)) - ROUND_OFF <= value <= float(max(ends)) + ROUND_OFF, (
                    row,
                    j,
                    value,
                    [float(e) for e in ends],
                )
            assert point[j] == pytest.approx(float(exact_point[j]), abs=ROUND_OFF)
            assert 0 <= low[j] <= point[j] <= high[j] <= 1


@attack(
    "boxes of class shifts",
    120,
    problem=problems(max_rows=4, max_classes=5),
    ends=st.lists(ENDS, min_size=12, max_size=12),
    left_out=LEFT_OUT,
    joint=st.booleans(),
    compiled=st.booleans(),
)
def test_boxes_are_the_ranges_over_all_shifts(problem, ends, left_out, joint, compiled):
    K = problem.classes
    lower, upper = -np.array(ends[:K]), np.array(ends[6 : 6 + K])
    center = np.zeros(K)
    out = [k for k in left_out if k < K]
    center[out] = -np.inf
    # A reference needs two classes, and every row one of them.
    assume(np.isfinite(center).sum() >= 2)
    assume(np.isfinite(np.where(np.isneginf(center), -np.inf, problem.meant)).any(axis=1).all())
    lower[out] = -np.inf
    plan = ShiftPlan.of(decal.Endpoints(lower, upper, center, 0.5, 0.0))
    with using(compiled):
        found = boxes_of_shifts(problem.logits_as_checked, plan, joint=joint)
    with exact.precise(problem.meant), mpmath.workdps(mpmath.mp.dps + 20):
        check_box(problem, center, lower, upper, found, joint=joint)
