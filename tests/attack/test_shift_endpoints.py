"""Class shifts on nasty logits: the gain at every endpoint is the budget, in exact arithmetic."""

import io
import warnings
from functools import cache, cached_property

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
STRAIGHT = 12_000.0
"""Nats from 0 at which softplus is straight to the last digit of a long double."""

UNIT = float(np.finfo(np.longdouble).eps)
EXACT_SHARE = 20
"""One of so many problems is judged in arbitrary precision, whatever long doubles say."""

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


class QuickMargins:
    """Margins (n, K) in long doubles, and by how much centers round them (n,)."""

    def __init__(self, rows, center, absent):
        z = rows.astype(np.longdouble) + np.where(absent, 0.0, center)
        K = len(center)
        self.margins = np.empty(z.shape, np.longdouble)
        with np.errstate(invalid="ignore", divide="ignore"):
            for k in range(K):
                others = [j for j in range(K) if j != k and not absent[j]]
                d = z[:, others] - z[:, [k]]
                top = d.max(axis=1)
                total = np.exp(d - top[:, None]).sum(axis=1)
                self.margins[:, k] = np.where(np.isneginf(top), np.inf, -(top + np.log(total)))
                self.margins[np.isneginf(z[:, k]), k] = -np.inf
        finite = np.where(np.isfinite(z), np.abs(z), 0).max(axis=1)
        self.blur = 8 * UNIT * (finite + np.abs(np.where(absent, 0.0, center)).max())


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


class Gains:
    """The gain of every class as a function of its shift, by definition.

    From the model as it is, or from one with these shifts; a class whose shift is -inf is measured
    from a model without it.
    """

    def __init__(self, problem, center=None):
        self.labels, self.weights = problem.labels, problem.counted_weights
        self.rows, self.moved = problem.meant, center is not None
        self.center = np.zeros(problem.classes) if center is None else center
        self.absent = np.isneginf(self.center)

    @cached_property
    def margins(self):
        """Those of every class, in arbitrary precision."""
        rows = [exact.numbers(row) for row in self.rows]
        shift = exact.numbers(np.where(self.absent, 0.0, self.center))
        found = []
        for k in range(len(self.center)):
            columns = [j for j in range(len(self.center)) if j == k or not self.absent[j]]
            found.append([self._margin(row, shift, columns, k) for row in rows])
        return found

    @staticmethod
    def _margin(row, shift, columns, k):
        return exact.margin([row[j] + shift[j] for j in columns], columns.index(k))

    @cache  # noqa: B019
    def __call__(self, k, t):
        if self.absent[k]:
            return -exact.loss_from_nothing(self.margins[k], t, self.weights)
        own = [y == k for y in self.labels]
        return exact.gain_of_margins(self.margins[k], own, t, self.weights)

    def quickly(self, k, t):
        """The gain in long doubles, and by how much it may be wrong."""
        m, own = self._quick.margins[:, k], self.labels == k
        counts = np.isfinite(m)
        m, own, w = m[counts], own[counts], self.weights[counts].astype(np.longdouble)
        t = np.longdouble(t)
        # Beyond, a rounding of the margin changes nothing: softplus is straight there.
        reach = np.minimum(np.abs(m), np.abs(t) + STRAIGHT)
        blur = self._quick.blur[counts] * self.moved
        if self.absent[k]:
            # A lone softplus, which is as large as its argument.
            gains, sizes = -_softplus(m + t), np.abs(m) + np.abs(t)
        else:
            gains, sizes = np.where(own, t, 0) - (_softplus(m + t) - _softplus(m)), reach
        error = 32 * UNIT * (1 + np.abs(t) + sizes) + blur
        return float((w * gains).sum()), float((w * error).sum())

    @cached_property
    def _quick(self):
        return QuickMargins(self.rows, self.center, self.absent)

    def objecting(self, k, side):
        """The weight of the rows in which a far shift of class k to this side costs anything."""
        finite = np.isfinite(self._quick.margins[:, k])
        return self.weights[finite & ((self.labels == k) == (side < 0))].sum()


def surely_met(gains, k, shifts, b, room):
    """Whether long doubles are enough to say that the budget is met, and not beyond."""
    (at, error), (further, error_further) = (gains.quickly(k, t) for t in shifts)
    return abs(at + b) + error <= room and further + b + error_further <= room


def check_endpoints(gains, shifts, b, blur=0.0, *, always=True):
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
    always : bool
        Use arbitrary precision for every endpoint, not only where long doubles cannot tell.
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
            # It is the last such shift: a little further out the gain is not above the budget.
            further = t + side * max(1e-3, 1e-3 * abs(t))
            if not always and surely_met(gains, k, (t, further), float(b), room):
                continue
            missed = float(gains(k, t) + b)
            assert abs(missed) <= room, (k, side, t, missed, room)
            assert float(gains(k, further) + b) <= room, (k, side, t, "is not the last")


def model_of(problem, alpha, likelihood, rows=slice(None), **settings):
    d = decal.Decalibrator(alpha, likelihood=likelihood, **settings)
    weights = None if problem.weights is None else problem.weights[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.FitWarning)
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
            check_endpoints(gains, found, b, always=problem.seed % EXACT_SHARE == 0)


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
            check_endpoints(gains, shifts, b, blur, always=problem.seed % EXACT_SHARE == 0)
