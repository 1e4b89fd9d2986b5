"""Endpoints of a probability over all plausible shifts: Newton's method on the KKT system.

With g(c) = log sum_{l != k} exp(z_l + c_l) - z_k - c_k, the probability of class k is
1 / (1 + e^g). Its upper endpoint minimises the convex g over the convex region D(c) <= B; its lower
endpoint maximises it. Either way grad D = ± tau grad g and D = B at the endpoint. Endpoints are
solved for in batches.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, sigmoid
from decal.coupled._loss import ROUND_OFF, Evaluated, ShiftLoss

LOWER, UPPER = 1.0, -1.0  # which endpoint of p_k: the greatest g, or the least

MAX_NEWTON_STEPS = 60
CAUTIOUS_STEPS = 12  # after so many, a lower endpoint is sought by safe ascent instead
WIDEST_STEP = 1.5  # nats between classes in one step: the Hessian changes by e^1.5 at most
CONVERGED = 1e-10  # probability by which a KKT point may miss the optimum, to first order
STUCK_TOLERANCE = 1e-8  # as CONVERGED, for an endpoint to be kept
TANGENT_WEIGHT = 1e6  # of the normal direction, to test for positive curvature along the boundary
RIDGE, LARGER_RIDGE = 1e-15, 1e-8  # shares of the trace added to a diagonal, which may vanish
MAX_LINE_STEPS = 200
BUDGET_TOLERANCE = 1e-12  # share of the budget by which a point on a line may miss it


@dataclass(frozen=True)
class EndpointBatch:
    """Points for P questions (query, class, side), and all that certificates need of them."""

    # (P, K) logits of the query, recentered. Or, to maximise a linear function: its weights, which
    # are zero for class k and sum to one; g is then sum_l z_l c_l - c_k.
    z: Array
    k: NDArray[np.intp]  # (P,) the class
    side: Array  # (P,) LOWER or UPPER
    at: Evaluated  # they may lie a little outside the region
    linear: bool = False  # whether z holds the weights of linear functions

    def __getitem__(self, rows: Any) -> Self:
        return replace(self, z=self.z[rows], k=self.k[rows], side=self.side[rows], at=self.at[rows])


@dataclass(frozen=True)
class Slope:
    """g (P,), its weights w (P, K), zero for class k, its gradient d = w - e_k, and tau (P,).

    `residual` (P, K) is grad D - side tau d; its entry k is zero, for that is how tau is chosen.
    """

    g: Array
    w: Array
    d: Array
    tau: Array
    residual: Array

    @classmethod
    def of(cls, endpoints: EndpointBatch) -> Slope:
        """The slopes of all points."""
        each = np.arange(len(endpoints.k))
        if endpoints.linear:
            w = endpoints.z
            g = (w * endpoints.at.shift).sum(axis=1) - endpoints.at.shift[each, endpoints.k]
        else:
            g, w = odds_against(endpoints.z + endpoints.at.shift, endpoints.k)
        d = w.copy()
        d[each, endpoints.k] = -1.0
        tau = -endpoints.side * endpoints.at.gradient[each, endpoints.k]
        residual = endpoints.at.gradient - (endpoints.side * tau)[:, None] * d
        residual[each, endpoints.k] = 0.0
        return cls(g, w, d, tau, residual)

    def __getitem__(self, rows: Any) -> Self:
        return type(self)(*(getattr(self, f.name)[rows] for f in fields(self)))

    def slack(self, endpoints: EndpointBatch, problem: Problem) -> Array:
        """(P,) by how much g may be bettered to first order; inf where tau is not positive.

        For every plausible c0 + v, D + grad D v <= budget, hence side d v <= (budget - D - residual
        v) / tau; and the residual, which sums to zero, makes at most half its absolute sum times
        the spread of v. Round-off of D and its gradient is added.
        """
        noise = problem.data.round_off(endpoints.at.shift)
        missed = np.abs(self.residual).sum(axis=1) + self.w.shape[1] * noise
        room = np.abs(problem.budget - endpoints.at.loss) + noise + missed * problem.diameter / 2
        slack: Array = np.full_like(room, np.inf)
        with np.errstate(over="ignore"):  # then nothing is known
            np.divide(room, self.tau, out=slack, where=self.tau > 0)
        return slack


@dataclass(frozen=True)
class Problem:
    """The region D <= budget."""

    data: ShiftLoss  # the loss D
    budget: float  # nats that may be lost
    interior: Evaluated  # a shift whose loss is at most half the budget, as one row
    # The most by which the difference of two plausible shifts differs between two classes that
    # occur.
    diameter: float = 1.0

    def pull(self, shift: Array, loss: Array) -> Array:
        """The shifts (P, K), moved towards the interior until their losses (P,) fit the budget.

        D is convex: on the way from loss D to loss D0 the share (budget - D0) / (D - D0) fits.
        """
        safe = self.budget - self.data.round_off(shift)
        inside = self.interior.loss[0]
        share = np.where(loss > safe, 0.0, 1.0)  # 0 stays where a budget is lost in round-off
        between = (loss > safe) & (loss > inside)
        np.divide(safe - inside, loss - inside, out=share, where=between)
        share = np.clip(share, 0.0, 1.0)[:, None]
        return np.asarray(share * shift + (1.0 - share) * self.interior.shift)


def odds_against(moved: Array, k: NDArray[np.intp]) -> tuple[Array, Array]:
    """Log-odds g (P,) of all other classes against class k, and their shares w (P, K)."""
    each = np.arange(len(moved))
    rivals = moved.copy()
    own = rivals[each, k]
    rivals[each, k] = -np.inf
    largest = rivals.max(axis=1, keepdims=True)
    w = np.exp(rivals - largest)
    total = w.sum(axis=1, keepdims=True)
    w /= total
    return (np.log(total) + largest)[:, 0] - own, w


def newton(
    problem: Problem,
    start: EndpointBatch,
    *,
    convex: bool = False,
    curvature: bool = True,
    converged: float = CONVERGED,
) -> EndpointBatch:
    """KKT points, from the points of `start`, to `converged` (probability; nats if linear).

    `convex`: H - tau Cov is known to be positive definite, for lower endpoints too. Without
    `curvature`, the Hessian is that of the best shift everywhere, which converges linearly, and
    suits small regions of many classes.
    """
    data, budget = problem.data, problem.budget
    endpoints = replace(start, at=start.at[np.arange(len(start.k))])
    active = np.arange(len(endpoints.k))
    for iteration in range(MAX_NEWTON_STEPS):
        now = endpoints[active]
        slope = Slope.of(now)
        p = sigmoid(-slope.g)
        weight = 1.0 if endpoints.linear else p * (1 - p)
        noise = data.total_weight * ROUND_OFF
        miss = np.abs(budget - now.at.loss) - noise
        miss += np.abs(slope.residual).sum(axis=1) * problem.diameter / 2
        open_ = weight * miss > converged * slope.tau
        active, now, slope = active[open_], now[open_], slope[open_]
        if not active.size:
            break
        if curvature:
            J = _curvature(data, now, slope, convex, cautious=iteration >= CAUTIOUS_STEPS)
            step = _bordered_step(budget, now, slope, J)
        else:
            step = _fixed_metric_step(data, budget, now, slope)
        step -= step.mean(axis=1, keepdims=True)
        # Far out the classes that moved there hardly matter any more, and steps may be longer;
        # unless they turn out to go in circles.
        widest = np.maximum(WIDEST_STEP, np.ptp(now.at.shift, axis=1) / 2)
        if iteration >= CAUTIOUS_STEPS:
            widest = WIDEST_STEP * 0.95 ** (iteration - CAUTIOUS_STEPS)
        size = np.maximum(np.ptp(step, axis=1), np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):
            step *= np.minimum(1.0, widest / size)[:, None]
        sound = np.isfinite(step).all(axis=1)
        active, moved = active[sound], (now.at.shift + step)[sound]
        endpoints.at.put(active, data.evaluate(moved, curvature=curvature))
    return endpoints


def newton_twice(problem: Problem, start: EndpointBatch, **settings: Any) -> EndpointBatch:
    """As `newton`, and again from the interior point where the given start leads nowhere."""
    endpoints = newton(problem, start, **settings)
    slope = Slope.of(endpoints)
    slack = slope.slack(endpoints, problem)
    p = sigmoid(-slope.g)
    with np.errstate(invalid="ignore"):  # 0 times inf: p is known, but not that it is an extreme
        stuck = np.flatnonzero(~(p * (1 - p) * slack <= STUCK_TOLERANCE))
    if not stuck.size:
        return endpoints
    inside = problem.interior[np.zeros(len(stuck), dtype=np.intp)]
    if not start.at.hessian.shape[1]:
        inside = replace(inside, hessian=start.at.hessian[stuck])
    again = newton(problem, replace(endpoints[stuck], at=inside), **settings)
    anew = Slope.of(again)
    better = anew.slack(again, problem) < slack[stuck]
    better &= (endpoints.side[stuck] == UPPER) | (anew.g > slope.g[stuck])
    endpoints.at.put(stuck[better], again.at[better])
    return endpoints


def _curvature(
    data: ShiftLoss, now: EndpointBatch, slope: Slope, convex: bool, *, cautious: bool
) -> Array:
    """(P, K, K) H - side tau Cov, where it is positive along the boundary; otherwise H.

    With H alone a step leads towards the point where the linearised g is greatest. As g is convex,
    that is an ascent.
    """
    diagonal = np.arange(now.z.shape[1])
    hessian = now.at.hessian + data.gauge
    trace = np.trace(hessian, axis1=1, axis2=2)
    hessian[:, diagonal, diagonal] += RIDGE * trace[:, None]
    if now.linear:
        return hessian
    bend = np.maximum(slope.tau, 0.0) * now.side
    J = hessian + bend[:, None, None] * slope.w[:, :, None] * slope.w[:, None, :]
    J[:, diagonal, diagonal] -= bend[:, None] * slope.w
    if convex:
        return J
    lower = np.flatnonzero(now.side == LOWER)
    d, steep = slope.d[lower], trace[lower, None, None] * TANGENT_WEIGHT
    along = np.linalg.eigvalsh(J[lower] + steep * d[:, :, None] * d[:, None, :])[:, 0]
    rough = lower[(along <= 0) | cautious]
    J[rough] = hessian[rough]
    return J


def _bordered_step(budget: float, now: EndpointBatch, slope: Slope, J: Array) -> Array:
    """(P, K) steps that solve grad D + J step = tau normal, up to where D meets the budget."""
    # Parametrised by t = normal · step, not by tau, which stalls where a rare class is all but
    # ruled out and D is linear.
    P, K = slope.d.shape
    diagonal = np.arange(K)
    normal = now.side[:, None] * slope.d
    bordered = np.zeros((P, K + 1, K + 1))
    bordered[:, :K, :K] = J
    bordered[:, :K, K] = -normal
    bordered[:, K, :K] = normal
    right = np.zeros((P, K + 1, 2))
    right[:, :K, 0] = -now.at.gradient
    right[:, K, 1] = 1.0
    try:
        solved = np.linalg.solve(bordered, right)
    except np.linalg.LinAlgError:  # data that do not bend the loss at all
        bordered[:, diagonal, diagonal] += LARGER_RIDGE * np.trace(J, axis1=1, axis2=2)[:, None]
        solved = np.linalg.solve(bordered, right)
    base, along = solved[:, :K, 0], solved[:, :K, 1]
    h_base = np.einsum("pij,pj->pi", now.at.hessian, base)
    h_along = np.einsum("pij,pj->pi", now.at.hessian, along)
    return _meet_budget(budget, now, base, along, h_base, h_along)


def _fixed_metric_step(data: ShiftLoss, budget: float, now: EndpointBatch, slope: Slope) -> Array:
    """As `_bordered_step` with J the Hessian at the best shift: products only."""
    normal = now.side[:, None] * slope.d
    towards = normal @ data.inverse_metric
    down = now.at.gradient @ data.inverse_metric
    along = towards / (normal * towards).sum(axis=1, keepdims=True)
    base = along * (normal * down).sum(axis=1, keepdims=True) - down
    return _meet_budget(budget, now, base, along, base @ data.metric, along @ data.metric)


def _meet_budget(
    budget: float, now: EndpointBatch, base: Array, along: Array, h_base: Array, h_along: Array
) -> Array:
    """Steps base + t along, with the larger t at which the model of D meets the budget."""
    gradient = now.at.gradient
    a = (along * h_along).sum(axis=1) / 2
    b = (gradient * along).sum(axis=1) + (along * h_base).sum(axis=1)
    c = now.at.loss - budget + (gradient * base).sum(axis=1) + (base * h_base).sum(axis=1) / 2
    root = np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.where(b > 0, -2 * c / (b + root), (root - b) / (2 * a))
    t = np.where(np.isfinite(t), t, 0.0)
    return base + t[:, None] * along


def last_on_line(data: ShiftLoss, budget: float, base: Array, ray: Array) -> Array:
    """(P,) greatest t with D(base + t ray) <= budget, for P lines along which D outgrows it."""
    t = np.ones(len(base))
    for _ in range(MAX_LINE_STEPS):
        short = data.loss(base + t[:, None] * ray) <= budget
        if not short.any():
            break
        t[short] *= 2
    for _ in range(MAX_LINE_STEPS):
        # D is convex: from beyond the endpoint, Newton's method never steps over it.
        at = data.evaluate(base + t[:, None] * ray, curvature=False)
        over, slope = at.loss - budget, (at.gradient * ray).sum(axis=1)
        settled = (over <= BUDGET_TOLERANCE * budget + data.round_off(at.shift)) | (slope <= 0)
        if settled.all():
            break
        t = t - np.divide(over, slope, out=np.zeros_like(t), where=~settled)
    return t
