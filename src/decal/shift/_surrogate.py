"""Stand-ins for the likelihood near its maximum, whose cost hardly grows with observed inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal.shift._likelihood import Likelihood

Indices = NDArray[np.intp]

SHARED = 0.1
"""Share of the curvature that pays for errors of the gradient."""

STEEP, KEPT = 0.35, 128
"""Inputs whose likelihood may change by a larger share are kept as they are, and at least so many;
if these are half of all, all are."""

MOST_PAIRS = 2100
"""Of coordinates, of 65 classes: with more, moments and curvatures of many points take too much."""

RISES = 3
"""Steps of expectation-maximisation."""

LEFT = 0.2
"""Share of its likelihood that every input keeps in a step."""

QUARTIC_PAIRS = 300
"""Pairs of coordinates up to which fourth moments are kept."""

RIDGE = 1e-4
"""Curvature added in all directions, relative to the nats that plausible frequencies may lose:
classes that look alike leave none. It is paid for by as many nats."""

ROUND_OFF = 1e-12
"""Nats per input by which a likelihood may be wrong."""

SETTLED = 0.98
"""A round of narrowing an ellipsoid must leave less than this share of it."""

UNSEEN = 1e-9
"""Relative to the largest: moments that are round-off."""

TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Geometry:
    """Coordinates z around the most likely frequencies v0, and what bounds the plausible ones.

    v = v0 + U z, and l has curvature one at v0. With t_i = <a_i, v - v0> / <a_i, v0>, linear in z,
    l(v) = l(v0) + sum_i w_i log(1 + t_i).

    Attributes
    ----------
    middle : (K,) array
        v0.
    value, floor : float
        l(v0), and the least likelihood that is plausible.
    U, inverse : (K, D), (D, K) arrays
        v - v0 = U z and z = inverse (v - v0).
    slopes, weights : (N, D), (N,) arrays
        t = slopes z, and w.
    outer : (D, D) array
        Plausible frequencies have z' outer z <= radius^2.
    radius : float
        Of that ellipsoid.
    bend : (D, D) array
        Between plausible frequencies l bends at least so much, up to `pay` nats.
    plain : (D, D) array
        Curvature that is added everywhere.
    pay : float
        Nats.
    reach : (N,) array
        The largest |t| of plausible frequencies.
    landmarks : (M, K) array
        Plausible frequencies: the most likely ones, and some with a class that does not occur.
    """

    middle: Array
    value: float
    floor: float
    U: Array
    inverse: Array
    slopes: Array
    weights: Array
    outer: Array
    radius: float
    bend: Array
    plain: Array
    pay: float
    reach: Array
    landmarks: Array

    @classmethod
    def of(cls, likelihood: Likelihood, middle: Array, floor: float, gap: float) -> Geometry:
        """Around frequencies which no others exceed by more than `gap` nats."""
        a, w = likelihood.ratios, likelihood.weights
        K = len(middle)
        x = a @ middle
        value = float(w @ np.log(x))
        b = a / x[:, None]
        basis = np.linalg.svd(np.ones((1, K)))[2][1:].T  # (K, D): sums of zero
        ridge = RIDGE * max(value - floor, 1.0)
        H = (b * w[:, None]).T @ b + ridge * np.eye(K)
        factor = np.linalg.cholesky(basis.T @ H @ basis)
        U = np.linalg.solve(factor, basis.T).T
        slopes = b @ U
        plain = ridge * U.T @ U
        pay = ridge + ROUND_OFF * likelihood.total
        square = 2 * (value - floor + max(gap, 0.0) + pay)
        outer, reach = _narrowed(slopes, w, plain, square, b.max(axis=1) - 1)
        bend = (slopes * (w / (1 + reach) ** 2)[:, None]).T @ slopes
        bend = (1 - SHARED) * bend + plain
        radius = float(np.sqrt(square))
        perhaps = np.flatnonzero(middle <= radius * _lengths(U, outer))
        return cls(
            middle, value, floor, U, U.T @ H, slopes, w, outer, radius, bend, plain, pay, reach,
            np.concatenate([middle[None], _without(likelihood, middle, U, floor, perhaps)]),
        )  # fmt: skip

    @cached_property
    def slope(self) -> Array:
        """(D,) of l at v0."""
        return np.asarray(self.weights @ self.slopes)

    @cached_property
    def outer_root(self) -> Array:
        """W with W W' = outer^-1."""
        return _inverse_root(self.outer)

    @cached_property
    def bend_root(self) -> Array:
        """W with W W' = bend^-1."""
        return _inverse_root(self.bend)

    @cached_property
    def least(self) -> Array:
        """(K,) no plausible frequency is below."""
        return np.maximum(self.middle - self.radius * _lengths(self.U, self.outer), 0.0)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """l in the coordinates of a Geometry, at a cost that grows with the inputs kept.

    For the others, log(1 + t) is taken for t - t^2/2 + t^3/3 - t^4/4 (without the last term for
    many classes), whose sums over inputs are moments: found once. All errors are bounded.

    Attributes
    ----------
    value : float
        l(v0).
    rows, weights : (G, D), (G,) arrays
        Inputs that are kept.
    slope, second, third, fourth : arrays
        Moments of the others, over pairs of coordinates from the third on.
    pays : two floats, optional
        Bounds of the errors, relative to the last moment; None if all inputs are kept.
    plain : (D, D) array
        Curvature that is added everywhere.
    """

    value: float
    rows: Array
    weights: Array
    slope: Array
    second: Array
    third: Array
    fourth: Array | None
    pays: tuple[float, float] | None
    plain: Array

    @classmethod
    def of(cls, geometry: Geometry, *, exact: bool) -> Surrogate:
        """Keeping the inputs whose t may be large, or all."""
        w, reach = geometry.weights, geometry.reach
        keep = reach > STEEP
        keep[np.argsort(-(w * reach**5))[:KEPT]] = True
        if exact or 2 * np.count_nonzero(keep) > len(keep):
            keep[:] = True
        D = geometry.slopes.shape[1]
        if keep.all() or D * (D + 1) // 2 > MOST_PAIRS:
            none = np.zeros((0, D))
            return cls(
                geometry.value, geometry.slopes, w, np.zeros(D), none, none, None, None,
                geometry.plain,
            )  # fmt: skip
        beta, rest = geometry.slopes[~keep], w[~keep]
        i, j = np.triu_indices(D)
        pairs = beta[:, i] * beta[:, j]
        pairs *= np.where(i == j, 1.0, 2.0)
        weighted = beta * rest[:, None]
        quartic = len(i) <= QUARTIC_PAIRS
        pays = _pays(pairs if quartic else beta, rest, reach[~keep], 4 if quartic else 2)
        return cls(
            geometry.value, geometry.slopes[keep], w[keep], rest @ beta, weighted.T @ beta,
            pairs.T @ weighted, (pairs * rest[:, None]).T @ pairs if quartic else None, pays,
            geometry.plain,
        )  # fmt: skip

    @property
    def exact(self) -> bool:
        """Whether all inputs are kept."""
        return self.pays is None

    @property
    def bends(self) -> bool:
        """Whether curvatures at many points can be found."""
        D = self.rows.shape[1]
        return bool(D * (D + 1) // 2 <= MOST_PAIRS)

    @cached_property
    def products(self) -> Array:
        """(G, pairs) products of two coordinates of the inputs kept."""
        i, j = np.triu_indices(self.rows.shape[1])
        return np.asarray(self.rows[:, i] * self.rows[:, j])

    def curvature(self, z: Array) -> Array:
        """(P, D, D) minus the second derivatives of l at coordinates z (P, D), about."""
        i, j = np.triu_indices(z.shape[1])
        x = z @ self.rows.T
        x += 1
        np.square(np.maximum(x, TINY, out=x), out=x)
        entries = np.divide(self.weights, x, out=x) @ self.products
        if not self.exact:
            twice = np.where(i == j, 1.0, 2.0)
            entries += self.second[i, j] - 2 * (z @ self.third.T) / twice
            if self.fourth is not None:
                entries += 3 * ((z[:, i] * z[:, j]) @ self.fourth) / twice
        return _symmetric(entries, i, j) + self.plain

    def damped(self, z: Array, step: Array) -> Array:
        """(P,) how much of a step leaves each input kept a share of its likelihood."""
        fall = -(step @ self.rows.T) / np.maximum(z @ self.rows.T + 1, TINY)
        return np.asarray(1 / np.maximum(fall.max(axis=1, initial=0.0) / (1 - LEFT), 1.0))

    def evaluate(self, z: Array) -> tuple[Array, Array, Array, Array]:
        """The likelihood at coordinates z (P, D) of plausible frequencies.

        Returns
        -------
        value : (P,) array
            l, about.
        slope : (P, D) array
            Of l, about.
        above : (P,) array
            For all plausible z': l(z') <= value + above + <slope, z' - z> - |z' - z|^2 / 2 in the
            norm of `bend`, up to its `pay`.
        below : (P,) array
            l(z) >= value - below.
        """
        value = self.value + z @ self.slope
        slope = np.tile(self.slope, (len(z), 1))
        above = below = np.zeros(len(z))
        if self.pays is not None:
            i, j = np.triu_indices(z.shape[1])
            pairs = z[:, i] * z[:, j]
            last = np.einsum("pd,pd->p", z, by_second := z @ self.second)
            by_third = pairs @ self.third
            value += np.einsum("pd,pd->p", z, by_third) / 3 - last / 2
            slope += by_third - by_second
            if self.fourth is not None:
                by_fourth = pairs @ self.fourth
                last = np.einsum("pd,pd->p", by_fourth, pairs)
                value -= last / 4
                by_fourth /= np.where(i == j, 1.0, 2.0)
                slope -= np.einsum("pij,pj->pi", _symmetric(by_fourth, i, j), z)
            above, below = self.pays[0] * last, self.pays[1] * last
        if len(self.rows):
            x = z @ self.rows.T
            x += 1
            np.maximum(x, TINY, out=x)
            value += np.log(x) @ self.weights
            slope += np.divide(self.weights, x, out=x) @ self.rows
        return value, slope, above, below


def _symmetric(entries: Array, i: Indices, j: Indices) -> Array:
    """(P, D, D) matrices of their entries (P, pairs) at i <= j."""
    D = int(i[-1]) + 1
    full = np.empty((len(entries), D, D))
    full[:, i, j] = full[:, j, i] = entries
    return full


def _narrowed(
    slopes: Array, w: Array, plain: Array, square: float, cap: Array
) -> tuple[Array, Array]:
    """A quadratic form that is at most `square` for plausible z, and each input's largest |t|.

    With t - log(1 + t) >= k(T) t^2 / 2 for t <= T, the ellipsoid of weights k(T) holds all
    plausible z; within it each t is at most some T, often a smaller one: again.
    """
    reach = np.maximum(cap, 0.0)
    while True:
        form = (slopes * (w * _curvature(reach))[:, None]).T @ slopes + plain
        lengths = _lengths(slopes, form)
        narrower = np.minimum(reach, np.sqrt(square) * lengths)
        if np.sum(w * narrower) >= SETTLED * np.sum(w * reach):
            # |t| is below one where t is negative, and so large only where it may be positive.
            return form, np.minimum(np.sqrt(square) * lengths, np.maximum(narrower, 1.0))
        reach = narrower


def _lengths(rows: Array, form: Array) -> Array:
    """(N,) the largest value of each row's linear function where the form is at most one."""
    return np.asarray(np.sqrt(np.sum((rows @ _inverse_root(form)) ** 2, axis=1)))


def _without(
    likelihood: Likelihood, middle: Array, U: Array, floor: float, classes: Indices
) -> Array:
    """Plausible frequencies in which one of the classes does not occur, where such are found.

    They start where a normal distribution would have the others, and rise by expectation and
    maximisation, which leaves 0 at 0.
    """
    spread = U @ U[classes].T  # (K, M)
    v = middle - (middle[classes] / spread[classes, np.arange(len(classes))])[:, None] * spread.T
    v = np.maximum(v, 0.0)
    v[np.arange(len(classes)), classes] = 0.0
    v = v[v.any(axis=1)]
    if not len(v):
        return v
    v /= v.sum(axis=1, keepdims=True)
    v = v[np.isfinite(likelihood.at(v))]
    for _ in range(RISES):
        v = v * likelihood.slopes(v)[1]
        v /= v.sum(axis=1, keepdims=True)
    return np.asarray(v[likelihood.at(v) >= floor])


def _curvature(reach: Array) -> Array:
    """k(T) = 2 (T - log(1 + T)) / T^2."""
    small = reach < 1e-4
    T = np.where(small, 1.0, reach)
    return np.where(small, 1 - 2 / 3 * reach, 2 * (T - np.log1p(T)) / T**2)


def _pays(features: Array, w: Array, reach: Array, power: int) -> tuple[float, float]:
    """By how much the series is too small, and too large, per sum of w t^power.

    t^power is the square of a linear function of `features`, so sums of w k(T) t^power are at most
    those of w t^power times the largest eigenvalue of one moment matrix relative to the other.
    """
    # Errors of the gradient, by Cauchy and Schwarz, against the share of curvature set aside.
    slope = reach**4 * ((1 + reach) / (1 - reach)) ** 2 / (2 * SHARED)
    if power == 4:
        too_small, too_large = reach / 5 + slope, reach / (5 * (1 - reach))
    else:
        too_small, too_large = slope, reach**2 / (4 * (1 - reach))
    weighted = features * w[:, None]
    size, turned = np.linalg.eigh(weighted.T @ features)
    root = turned / np.sqrt(np.maximum(size, UNSEEN * size[-1]))

    def largest(pay: Array) -> float:
        return float(np.linalg.eigvalsh(root.T @ ((weighted.T * pay) @ features) @ root)[-1])

    return largest(too_small), largest(too_large)


def _inverse_root(form: Array) -> Array:
    """W with W W' = form^-1."""
    return np.asarray(np.linalg.inv(np.linalg.cholesky(form)).T)
