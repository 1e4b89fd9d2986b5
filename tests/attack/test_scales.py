"""The temperature on nasty logits: losses at its endpoints, and ranges over all scales, exactly."""

import mpmath
import numpy as np
from hypothesis import strategies as st

import decal
from decal.directions._peaks import widen_by_scale
from helpers.attack import attack
from helpers.compiled import using
from helpers.nasty_logits import alphas, likelihoods, problems
from oracles import exact

EPS = float(np.finfo(np.float64).eps)
PROMISED = 1e-9
"""Nats per unit of weight by which the loss at an endpoint misses its budget."""

ROUND_OFF = 1e-10
"""Of probabilities."""

FAR = 1e60
"""A scale at which, for the sizes tried here, only ties are left."""

FAR_DIGITS = 70
SIZES = (0.0, 1e-30, 1e-8, 0.1, 1.0, 3.0, 30.0, 1e3, 1e5, 1e9, 1e15, 1e30)


class Losses:
    """Nats lost in all, as a function of the scale, and how many may be lost."""

    def __init__(self, problem, evidence, ratio, alpha, likelihood):
        self.rows, self.labels = problem.meant, problem.labels
        self.weights, self.evidence = problem.counted_weights, evidence
        self.W = float(self.weights.sum())
        if ratio is None:
            ratio = mpmath.mpf(16)
            if evidence == "model":
                # A column masked in every row is no class.
                classes = int((self.rows[self.weights > 0] > -np.inf).any(axis=0).sum())
                ratio = classes * exact.knowledge(self.rows, self.weights)
        b = mpmath.inf if alpha == 0 else -mpmath.log(mpmath.mpf(alpha))
        total = mpmath.fsum(map(float, self.weights)) if likelihood == "mean" else 1
        self.allowed = mpmath.inf if alpha == 0 else ratio * b * total

    def __call__(self, scale):
        scale = mpmath.mpf(scale)
        if self.evidence == "labels":
            return exact.loss_of_labels(self.rows, self.labels, self.weights, scale)
        return exact.loss_of_the_softer(self.rows, self.weights, scale)


def check_scales(losses, found):
    for side, s in ((-1, float(found.lower)), (1, float(found.upper))):
        assert (s - 1) * side >= 0, (side, s)
        if losses.allowed == mpmath.inf:
            assert s == (0 if side < 0 else np.inf)
            continue
        room = losses.W * (PROMISED + found.error) + 8 * EPS * float(losses.allowed)
        limit = 0.0 if side < 0 else np.inf
        at = losses(min(s, FAR))
        if s != limit:
            blur = abs(
                losses(mpmath.mpf(s) * (1 + 8 * EPS)) - losses(mpmath.mpf(s) * (1 - 8 * EPS))
            )
            room += float(blur)
            assert float(at - losses.allowed) >= -room or s == 1, (side, s, "could be further")
            further = mpmath.mpf(s) * (1 + side * mpmath.mpf("1e-3"))
            assert float(losses(further) - losses.allowed) >= -room, (side, s, "is not the last")
        assert float(at - losses.allowed) <= room, (side, s, float(at), float(losses.allowed))


@attack(
    "endpoints of the temperature",
    60,
    problem=problems(sizes=SIZES, max_rows=6, max_classes=4),
    alpha=alphas,
    likelihood=likelihoods,
    evidence=st.sampled_from(("model", "labels")),
    ratio=st.sampled_from((None, None, 0.0, 1.0, 30.0)),
    compiled=st.booleans(),
)
def test_losses_at_endpoints_are_the_budget(problem, alpha, likelihood, evidence, ratio, compiled):
    directions = [decal.Temperature(ratio, evidence)]
    model = decal.Decalibrator(alpha, likelihood=likelihood, directions=directions)
    with using(compiled):
        model.fit(problem.logits, problem.labels, sample_weight=problem.weights)
        scales = model.scales()
    with exact.precise(problem.meant), mpmath.workdps(mpmath.mp.dps + FAR_DIGITS):
        check_scales(Losses(problem, evidence, ratio, alpha, likelihood), scales)


LOW_SCALES = st.one_of(st.sampled_from((0.0, 1.0, 1e-30, 1e-8)), st.floats(0.01, 1.0))
HIGH_SCALES = st.one_of(st.sampled_from((1.0, np.inf, 1e30, 1e5)), st.floats(1.0, 100.0))
TINY, HUGE = 1e-60, 1e60
"""Scales as good as 0 and infinity for the sizes tried."""


@attack(
    "boxes of the temperature",
    80,
    problem=problems(sizes=SIZES, max_rows=3, max_classes=4),
    first=LOW_SCALES,
    last=HIGH_SCALES,
    compiled=st.booleans(),
)
def test_boxes_are_the_ranges_over_all_scales(problem, first, last, compiled):
    K = problem.classes
    low, high = np.ones((2, problem.rows, K)) * [[[1.0]], [[0.0]]]
    logits = problem.meant
    with using(compiled):
        widen_by_scale(low, high, logits, first, last, np.arange(K))
    with exact.precise(logits), mpmath.workdps(mpmath.mp.dps + FAR_DIGITS):
        for row, lows, highs in zip(logits, low, high, strict=True):
            ends = [exact.scaled_softmax(row, mpmath.mpf(s)) for s in (first, last)]
            for j in range(K):
                least = min(p[j] for p in ends)
                most = max(p[j] for p in ends)
                if row[j] > -np.inf:
                    inside = exact.largest_scaled(row, j, max(first, TINY), min(last, HUGE))
                    most = max(most, inside)
                assert abs(lows[j] - float(least)) <= ROUND_OFF, (row, j, lows[j], float(least))
                assert abs(highs[j] - float(most)) <= ROUND_OFF, (row, j, highs[j], float(most))
