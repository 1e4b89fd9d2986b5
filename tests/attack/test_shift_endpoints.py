"""Class shifts on nasty logits: the gain at every endpoint is the budget, in exact arithmetic."""

import io
import warnings
from functools import cache

import mpmath
import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import decal
from helpers.attack import attack
from helpers.compiled import using
from helpers.nasty_logits import alphas, likelihoods, problems
from oracles import exact

PROMISED = 1e-10
"""Nats per unit of weight, and of 1e5 nats of the shift, by which an endpoint misses its budget."""

LONG_SHIFT = 1e5
EPS = float(np.finfo(np.float64).eps)


def saved_and_loaded(model):
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    return decal.Decalibrator.load(file)


def budget(alpha, likelihood, weights):
    """Nats that may be lost in all."""
    if alpha == 0:
        return mpmath.inf
    lost = -mpmath.log(mpmath.mpf(alpha))
    return lost * mpmath.fsum(map(float, weights)) if likelihood == "mean" else lost


class Gains:
    """The gain of every class as a function of its shift, by definition.

    From the model as it is, or from one with these shifts; a class whose shift is -inf is measured
    from a model without it.
    """

    def __init__(self, problem, center=None):
        self.labels, self.weights = problem.labels, problem.counted_weights
        K = problem.classes
        center = np.zeros(K) if center is None else center
        self.absent = np.isneginf(center)
        self.margins = []
        rows = [exact.numbers(row) for row in problem.meant]
        shift = exact.numbers(np.where(self.absent, 0.0, center))
        for k in range(K):
            columns = [j for j in range(K) if j == k or not self.absent[j]]
            self.margins.append([self._margin(row, shift, columns, k) for row in rows])

    @staticmethod
    def _margin(row, shift, columns, k):
        return exact.margin([row[j] + shift[j] for j in columns], columns.index(k))

    @cache  # noqa: B019
    def __call__(self, k, t):
        if self.absent[k]:
            return -exact.loss_from_nothing(self.margins[k], t, self.weights)
        own = [y == k for y in self.labels]
        return exact.gain_of_margins(self.margins[k], own, t, self.weights)

    def objecting(self, k, side):
        """The weight of the rows in which a far shift of class k to this side costs anything."""
        rows = zip(self.margins[k], self.labels, self.weights, strict=True)
        return sum(w for m, y, w in rows if abs(m) < mpmath.inf and (y == k) == (side < 0))


def check_endpoints(gains, shifts, b, blur=0.0):
    """Every endpoint is where the gain has fallen to -b, and infinite where it never does.

    Parameters
    ----------
    gains : Gains
        The definition.
    shifts : Endpoints
        What decal found.
    b : mpf
        The budget in all.
    blur : float
        Nats by which logits are rounded before their margins are formed.
    """
    W = float(np.sum(gains.weights))
    ends = zip(shifts.lower.tolist(), shifts.upper.tolist(), strict=True)
    for k, (lower, upper) in enumerate(ends):
        assert not np.isnan([lower, upper]).any()
        assert lower <= upper
        if not gains.absent[k]:
            assert lower <= 0 <= upper
        for side, t in ((-1, lower), (1, upper)):
            if b == mpmath.inf or gains.objecting(k, side) == 0:
                assert t == side * np.inf, (k, side, t)
                continue
            if gains.absent[k] and b == 0:
                assert t == -np.inf
                continue
            assert np.isfinite(t), (k, side, t)
            room = W * (PROMISED * max(1.0, abs(t) / LONG_SHIFT) + 8 * EPS * (abs(t) + blur))
            room += 4 * EPS * float(b)
            # Where bins hide something, `error` says how much.
            room += W * shifts.error * max(1.0, abs(t) / LONG_SHIFT)
            missed = float(gains(k, t) + b)
            assert abs(missed) <= room, (k, side, t, missed, room)
            # It is the last such shift: a little further out the gain is not above the budget.
            further = mpmath.mpf(t) + side * max(1e-3, 1e-3 * abs(t))
            assert float(gains(k, further) + b) <= room, (k, side, t, "is not the last")


def model_of(problem, alpha, likelihood, rows=slice(None), **settings):
    d = decal.Decalibrator(alpha, likelihood=likelihood, **settings)
    weights = None if problem.weights is None else problem.weights[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.ReferenceWarning)
        return d.fit(problem.logits[rows], problem.labels[rows], sample_weight=weights)


def against_the_definition(problem, alpha, likelihood, compiled):
    with using(compiled):
        whole = model_of(problem, alpha, likelihood)
        shifts = {"fitted": whole.shifts(), "loaded": saved_and_loaded(whole).shifts()}
        half = problem.rows // 2
        halves = [slice(half), slice(half, None)]
        if all(problem.counted_weights[part].any() for part in halves):
            first, second = (model_of(problem, alpha, likelihood, part) for part in halves)
            shifts["merged"] = first.merge(second).shifts()
    with exact.precise(problem.meant):
        gains = Gains(problem)
        b = budget(alpha, likelihood, problem.counted_weights)
        for found in shifts.values():
            check_endpoints(gains, found, b)


@attack("class-shift endpoints", 150, problem=problems(), alpha=alphas, likelihood=likelihoods)
def test_gains_at_endpoints_are_the_budget(problem, alpha, likelihood):
    against_the_definition(problem, alpha, likelihood, compiled=False)


@attack(
    "class-shift endpoints, compiled",
    100,
    problem=problems(),
    alpha=alphas,
    likelihood=likelihoods,
)
def test_gains_at_endpoints_are_the_budget_compiled(problem, alpha, likelihood):
    against_the_definition(problem, alpha, likelihood, compiled=True)


@attack(
    "class-shift endpoints, best reference",
    80,
    problem=problems(sizes=(0.0, 1e-30, 0.1, 1.0, 3.0, 30.0, 1e3, 1e5)),
    alpha=alphas,
    likelihood=likelihoods,
    compiled=st.booleans(),
)
def test_gains_from_the_best_model_are_the_budget(problem, alpha, likelihood, compiled):
    assume(problem.present.sum() > 1)
    with using(compiled):
        model = model_of(problem, alpha, likelihood, reference="best")
        found = model.shifts(), saved_and_loaded(model).shifts()
    center = model.reference_model.center
    np.testing.assert_array_equal(np.isneginf(center), ~problem.present)
    finite = problem.meant[np.abs(problem.meant) < 1e7]
    blur = np.abs(center[np.isfinite(center)]).max() + np.abs(finite).max(initial=0.0)
    with exact.precise(problem.meant):
        gains = Gains(problem, center)
        b = budget(alpha, likelihood, problem.counted_weights)
        for shifts in found:
            check_endpoints(gains, shifts, b, blur)
