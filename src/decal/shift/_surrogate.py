"""Stand-ins for the likelihood near its maximum, whose cost hardly grows with observed inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from decal._base.numerics import Array, Indices, row_blocks
from decal.shift._likelihood import TINY, Likelihood

LARGEST_RISE, LARGEST_CUBIC_RISE, LARGEST_FALL = 1.5, 0.35, 0.95
"""Inputs whose likelihood may rise by a larger share, with fourth moments or without, or fall by a
larger one, are kept as they are."""

MOST_PAIRS = 2100  # of coordinates, of 65 classes: moments of more take too long
LEAST_SHARE = 1e-5  # of its likelihood: below, an input has the curvature that it has here
SINGULAR = 1e-12  # relative curvature that is added before many curvatures are inverted
QUARTIC_PAIRS = 300  # of coordinates, up to which fourth moments are kept

RIDGE = 1e-4
"""Curvature added in all directions, relative to the nats that plausible frequencies may lose:
classes that look alike leave none. It is paid for by as many nats."""

ROUND_OFF = 1e-12  # nats per input by which a likelihood may be wrong


@dataclass(frozen=True, eq=False)
class Geometry:
    """Coordinates z around the most likely frequencies v0, and what bounds the plausible ones.

    v = v0 + U z, and l has curvature one at v0. With t_i = <a_i, v - v0> / <a_i, v0>, linear in z,
    l(v) = l(v0) + sum_i w_i log(1 + t_i).
    """

    middle: Array  # (K,) v0
    value: float  # l(v0)
    floor: float  # the least likelihood that is plausible
    U: Array  # (K, D): v - v0 = U z
    inverse: Array  # (D, K): z = inverse (v - v0)
    slopes: Array  # (N, D): t = slopes z
    weights: Array  # (N,) w
    outer: Array  # (D, D): plausible frequencies have z' outer z <= radius^2
    radius: float
    plain: Array  # (D, D) curvature that is added everywhere
    pay: float  # nats by which that changes l at most
    rise: Array  # (N,) the largest t of plausible frequencies
    fall: Array  # (N,) the largest -t
    landmarks: Array  # (M, K) plausible: the most likely ones, and some without a class

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
        radius = float(np.sqrt(square))
        perhaps = np.flatnonzero(middle <= radius * _lengths(U, outer))
        return cls(
            middle, value, floor, U, U.T @ H, slopes, w, outer, radius, plain, pay, reach,
            np.minimum(reach, 1 - b.min(axis=1)),
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
    def least(self) -> Array:
        """(K,) no plausible frequency is below."""
        return np.maximum(self.middle - self.radius * _lengths(self.U, self.outer), 0.0)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """l in the coordinates of a Geometry, at a cost that grows with the inputs kept.

    For the others, log(1 + t) is taken for t - t^2/2 + t^3/3 - c t^4, with a c for each input
    (without the last term for many classes): never less, and concave. Sums over inputs are
    moments, found once. By how much they are too large is bounded by moments, too.
    """

    value: float  # l(v0)
    rows: Array  # (G, D) inputs that are kept
    weights: Array  # (G,) of these
    slope: Array  # moments of the others, over pairs of coordinates from the third on
    second: Array
    third: Array
    fourth: Array | None
    excess: Array | None  # moments by which the sum may be too large; None if all are kept
    bend: Array  # (D, D): between plausible frequencies it bends at least so much
    plain: Array  # (D, D) curvature that is added everywhere

    @classmethod
    def of(cls, geometry: Geometry, kept: int) -> Surrogate:
        """Keeping the inputs that powers suit least, at least so many; or all, if half are kept."""
        w, rise, fall = geometry.weights, geometry.rise, geometry.fall
        D = geometry.slopes.shape[1]
        i, j = np.triu_indices(D)
        quartic = len(i) <= QUARTIC_PAIRS
        excess, least = _series(rise, fall, quartic=quartic)
        keep = (rise > (LARGEST_RISE if quartic else LARGEST_CUBIC_RISE)) | (fall > LARGEST_FALL)
        keep[np.argsort(-w * excess * rise ** (4 if quartic else 2))[:kept]] = True
        if 2 * np.count_nonzero(keep) > len(keep) or len(i) > MOST_PAIRS:
            keep[:] = True
        curvature = np.where(keep, 1 / (1 + rise) ** 2, least)
        bend = (geometry.slopes * (w * curvature)[:, None]).T @ geometry.slopes + geometry.plain
        if keep.all():
            none = np.zeros((0, D))
            return cls(
                geometry.value, geometry.slopes, w, np.zeros(D), none, none, None, None, bend,
                geometry.plain,
            )  # fmt: skip
        beta, rest, excess = geometry.slopes[~keep], w[~keep], excess[~keep]
        twice = np.where(i == j, 1.0, 2.0)
        pairs = _pairs(beta) * twice
        weighted = beta * rest[:, None]
        last = pairs if quartic else beta
        fourth = (pairs * (-4 * rest * _remainder(rise[~keep]))[:, None]).T @ pairs
        return cls(
            geometry.value, geometry.slopes[keep], w[keep], rest @ beta, weighted.T @ beta,
            pairs.T @ weighted, _symmetric(fourth / twice) if quartic else None,
            (last * (rest * excess)[:, None]).T @ last, bend, geometry.plain,
        )  # fmt: skip

    @property
    def exact(self) -> bool:
        """Whether all inputs are kept."""
        return self.excess is None

    @property
    def bends(self) -> bool:
        """Whether curvatures at many points can be found."""
        D = self.rows.shape[1]
        return bool(D * (D + 1) // 2 <= MOST_PAIRS)

    @cached_property
    def bend_root(self) -> Array:
        """W with W W' = bend^-1."""
        return _inverse_root(self.bend)

    @cached_property
    def least(self) -> Array:
        """(D, D) `bend` without the curvature that is added."""
        return np.asarray(self.bend - self.plain)

    @cached_property
    def products(self) -> Array:
        """(G, pairs) products of two coordinates of the inputs kept."""
        return _pairs(self.rows)

    def curvature(self, z: Array) -> Array:
        """(P, D, D) minus the second derivatives of l at coordinates z (P, D), about."""
        x = z @ self.rows.T
        x += 1
        np.square(np.maximum(x, LEAST_SHARE, out=x), out=x)
        bend = _symmetric(np.divide(self.weights, x, out=x) @ self.products) + self.plain
        if not self.exact:
            i, j = np.triu_indices(z.shape[1])
            bend += self.second - _symmetric(z @ self.third.T / np.where(i == j, 0.5, 1.0))
            if self.fourth is not None:
                bend += 3 * np.tensordot(_pairs(z), self.fourth, 1)
        return np.asarray(bend)

    def damped(self, z: Array, step: Array) -> Array:
        """(P,) how much of a step leaves each input kept a fifth of its likelihood."""
        fall = -(step @ self.rows.T) / np.maximum(z @ self.rows.T + 1, TINY)
        return np.asarray(1 / np.maximum(fall.max(axis=1, initial=0.0) / (1 - 0.2), 1.0))

    def evaluate(self, z: Array) -> tuple[Array, Array, Array]:
        """(P,) values, (P, D) slopes and (P,) excesses at plausible coordinates z (P, D).

        value - excess <= l(z) <= value, and for all plausible z' l(z') is at most value +
        <slope, z' - z> - |z' - z|^2 / 2 in the norm of `bend`, up to the geometry's `pay`.
        """
        value = self.value + z @ self.slope
        slope = np.tile(self.slope, (len(z), 1))
        excess = np.zeros(len(z))
        if self.excess is not None:
            pairs = last = _pairs(z)
            by_second, by_third = z @ self.second, pairs @ self.third
            value += np.einsum("pd,pd->p", z, by_third / 3 - by_second / 2)
            slope += by_third - by_second
            if self.fourth is None:
                last = z
            else:
                by_fourth = np.einsum("pij,pj->pi", np.tensordot(pairs, self.fourth, 1), z)
                value -= np.einsum("pd,pd->p", z, by_fourth) / 4
                slope -= by_fourth
            excess = np.einsum("pd,pd->p", last @ self.excess, last)
        # Larger blocks of likelihoods would wait for memory.
        for part in row_blocks(len(z), len(self.rows), elements=1 << 17):
            x = z[part] @ self.rows.T
            x += 1
            value[part] += _log_sums(x, self.weights)
            slope[part] += np.divide(self.weights, x, out=x) @ self.rows
        return value, slope, excess


def _log_sums(x: Array, weights: Array) -> Array:
    """(P,) sums of weights times log x (P, G); of equal weights by logs of products: faster."""
    # At most 31 factors, each at most so far from one, have a product that is a number.
    if np.ptp(weights) > 0 or x.min() < 1 / 1e9 or x.max() > 1e9:
        return np.asarray(np.log(np.maximum(x, TINY, out=x)) @ weights)
    products = x
    for _ in range(4):
        half = products.shape[1] // 2
        if not half:
            break
        folded = products[:, :half] * products[:, half : 2 * half]
        if products.shape[1] % 2:
            folded[:, 0] *= products[:, -1]
        products = folded
    return np.asarray(weights[0] * np.log(products).sum(axis=1))


def _pairs(x: Array) -> Array:
    """(P, pairs) products of two elements of each row (P, D), the first not after the second."""
    i, j = np.triu_indices(x.shape[1])
    columns = np.ascontiguousarray(x.T)
    return np.asarray((columns[i] * columns[j]).T)


def _symmetric(entries: Array) -> Array:
    """(P, D, D) matrices of their entries (P, pairs) on and above the diagonal."""
    D = int(np.sqrt(2 * entries.shape[1]))
    i, j = np.triu_indices(D)
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
        if np.sum(w * narrower) >= 0.98 * np.sum(w * reach):  # another round hardly helps
            # |t| is below one where t is negative, and so large only where it may be positive.
            return form, np.minimum(np.sqrt(square) * lengths, np.maximum(narrower, 1.0))
        reach = narrower


def _lengths(rows: Array, form: Array) -> Array:
    """(N,) the largest value of each row's linear function where the form is at most one."""
    return np.asarray(np.sqrt(np.sum((rows @ _inverse_root(form)) ** 2, axis=1)))


def _without(
    likelihood: Likelihood, middle: Array, U: Array, floor: float, classes: Indices
) -> Array:
    """Plausible frequencies in which one of the classes does not occur, where such are found."""
    spread = U @ U[classes].T  # (K, M): start where a normal distribution would have the others
    v = middle - (middle[classes] / spread[classes, np.arange(len(classes))])[:, None] * spread.T
    v = np.maximum(v, 0.0)
    v[np.arange(len(classes)), classes] = 0.0
    v = v[v.any(axis=1)]
    if not len(v):
        return v
    v /= v.sum(axis=1, keepdims=True)
    v = v[np.isfinite(likelihood.at(v))]
    for _ in range(3):  # expectation and maximisation, which leaves 0 at 0
        v = v * likelihood.slopes(v)[1]
        v /= v.sum(axis=1, keepdims=True)
    return np.asarray(v[likelihood.at(v) >= floor])


def _curvature(reach: Array) -> Array:
    """k(T) = 2 (T - log(1 + T)) / T^2."""
    small = reach < 1e-4
    T = np.where(small, 1.0, reach)
    return np.where(small, 1 - 2 / 3 * reach, 2 * (T - np.log1p(T)) / T**2)


def _series(rise: Array, fall: Array, *, quartic: bool) -> tuple[Array, Array]:
    """By how much the series is too large, per t^4 or t^2, and its least curvature.

    log(1 + t) = t - t^2/2 + t^3/3 + r(t) t^4, and r rises: with r(rise) in its place this is too
    large for -fall <= t <= rise, and without it, too.
    """
    up, down = _remainder(rise), _remainder(-np.minimum(fall, LARGEST_FALL))
    if not quartic:
        return np.maximum(-up * rise**2, -down * fall**2), 1 - 2 * rise
    flattest = np.minimum(rise, -1 / (12 * up))
    return up - down, 1 - 2 * flattest - 12 * up * flattest**2


def _remainder(t: Array) -> Array:
    """r(t) = (log(1 + t) - t + t^2/2 - t^3/3) / t^4."""
    small = np.abs(t) < 1e-2
    x = np.where(small, 1.0, t)
    series = -1 / 4 + t / 5 - t**2 / 6 + t**3 / 7 - t**4 / 8
    return np.where(small, series, (np.log1p(x) - x + x**2 / 2 - x**3 / 3) / x**4)


def _inverse_root(form: Array) -> Array:
    """W with W W' = form^-1."""
    return np.asarray(np.linalg.inv(np.linalg.cholesky(form)).T)


def inverse_roots(forms: Array) -> Array:
    """(P, D, D) matrices W with W W' = form^-1, nearly so for forms that are nearly singular."""
    size = np.trace(forms, axis1=1, axis2=2)[:, None, None]
    safe = forms + SINGULAR * size * np.eye(forms.shape[1])
    return np.asarray(np.linalg.inv(np.linalg.cholesky(safe)).transpose(0, 2, 1))
