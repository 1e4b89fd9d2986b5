"""Largest probabilities over plausible frequencies, by ellipsoids that touch their region."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal.shift._surrogate import Geometry, Surrogate

Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

ROUND_OFF = 1e-14
"""By how much a linear function of frequencies may be wrong."""

LEAST_WEIGHT = 1e-7
"""Of an input under plausible frequencies, relative to the largest: below, digits are lost."""

ZERO = 1e-12
"""Smaller frequencies are taken for 0."""

FAR = 1.0
"""Multiples of what plausible frequencies may lose, beyond which others teach nothing."""

ROOT_STEPS = 3
TINY = 1e-300


class Tangents:
    """A block of problems: the largest <c, v> / <e, v> of plausible v, for c <= e.

    Laid against the region at z, the ellipsoid {z' : l(z) + <l'(z), z' - z> - |z' - z|^2 / 2 >=
    floor}, in the norm of the surrogate's `bend`, holds all plausible z'. The largest ratio of two
    linear functions over an ellipsoid solves a quadratic equation: an upper bound. It is exact to
    second order in the distance of z from where the maximum is. The next z is the maximum over
    the same ellipsoid with the curvature at the middle. A frequency that would be negative is
    held at 0, and its multiplier enters the bound.

    Attributes
    ----------
    upper : (P,) array
        No plausible frequencies give more.
    reached : (P,) array
        Some give this.
    """

    def __init__(self, geometry: Geometry, c: Array, e: Array) -> None:
        self.geometry = s = geometry
        self.c, self.e = c, e
        self.c0, self.e0 = c @ s.middle, e @ s.middle
        self.cz, self.ez = c @ s.U, e @ s.U
        ez = self.ez @ s.outer_root
        least = np.maximum(e @ s.least, e.min(axis=1))
        self.least = np.maximum(least, self.e0 - s.radius * np.sqrt(_dot(ez, ez)))
        square = np.full(len(c), s.radius**2)
        bound = _largest_ratio(self.c0, self.e0, self.cz @ s.outer_root, ez, square)
        self.upper = np.fmin(bound + ROUND_OFF / np.maximum(self.least, TINY), 1.0)
        of_c, of_e = c @ s.landmarks.T, e @ s.landmarks.T
        self.reached = np.max(np.where(of_e > 0, of_c / np.maximum(of_e, TINY), 0.0), axis=1)
        self.z = np.full((len(c), s.U.shape[1]), np.nan)

    @property
    def errors(self) -> Array:
        """(P,) by how much the upper bounds may be too large."""
        return np.asarray(self.upper - self.reached)

    def open(self, precision: float) -> Indices:
        """Problems that are not solved, and that this can solve."""
        return np.flatnonzero((self.errors > precision) & (self.least > LEAST_WEIGHT))

    def solve(
        self,
        surrogate: Surrogate,
        which: Indices,
        precision: float,
        *,
        touches: int,
        bent: Surrogate | None = None,
    ) -> None:
        """Narrow bounds until they are precise; after so many touches some may not be.

        If `bent` is given, z moves by the curvature that this says is at z: slower, and safer.
        """
        s = self.geometry
        new = which[np.isnan(self.z[which, 0])]
        if len(new):
            at, v = np.zeros((len(new), len(s.slope))), np.tile(s.middle, (len(new), 1))
            value, slope = np.full(len(new), s.value), np.tile(s.slope, (len(new), 1))
            self.z[new] = self._next(new, at, v, value, slope, None)
        for _ in range(touches):
            z, v = self._plausible(self.z[which])
            value, slope, excess = surrogate.evaluate(z)
            self._reach(which, v, value - excess, _dot(z @ surrogate.least, z))
            self._exclude(which, v, value, slope, surrogate.bend_root)
            left = self.errors[which] > precision
            which, z, v = which[left], z[left], v[left]
            if not len(which):
                return
            value, slope = value[left], slope[left]
            if bent is None:
                self.z[which] = self._next(which, z, v, value, slope, None)
            else:
                self.z[which] = self._bent(bent, which, z, v, value, slope)

    def _bent(
        self, surrogate: Surrogate, which: Indices, z: Array, v: Array, value: Array, slope: Array
    ) -> Array:
        """The next z by the curvature where z is, not too far; from the middle if z is far out."""
        s = self.geometry
        lost = value < s.floor - FAR * (s.value - s.floor)
        z[lost], v[lost], value[lost], slope[lost] = 0.0, s.middle, s.value, s.slope
        moved = self._next(which, z, v, value, slope, surrogate.curvature(z))
        step = self._plausible(moved)[0] - z
        return np.asarray(z + surrogate.damped(z, step)[:, None] * step)

    def _next(
        self,
        which: Indices,
        z: Array,
        v: Array,
        value: Array,
        slope: Array,
        curvature: Array | None,
    ) -> Array:
        """(P, D) where the ratio is largest over an ellipsoid, seen from frequencies v at z.

        In coordinates y with z' = z + root y the ellipsoid is a ball; without a curvature root is
        one. Frequencies that would be negative are held at zero.
        """
        s = self.geometry
        problems = _Balls.of(self, which, v, slope, 2 * (value - s.floor), curvature)
        zero = (v <= 0) & (v < s.middle + ZERO)
        moved, pull = problems.largest(np.arange(len(which)), zero)
        again = (zero & (pull > 0)) | (v + problems.frequencies(moved) < 0)
        changed = np.flatnonzero((again != zero).any(axis=1))
        if len(changed):
            moved[changed] = problems.largest(changed, again[changed])[0]
        return z + problems.coordinates(moved)

    def _plausible(self, z: Array) -> tuple[Array, Array]:
        """The same within the outer ellipsoid, no frequency negative; and the frequencies."""
        s = self.geometry
        v = s.middle + z @ s.U.T
        v[v < ZERO] = 0.0
        v /= v.sum(axis=1, keepdims=True)
        z = (v - s.middle) @ s.inverse.T
        size = np.sqrt(np.maximum(_dot(z @ s.outer, z), TINY))
        share = np.minimum(1.0, s.radius / size)[:, None]
        return z * share, s.middle + share * (v - s.middle)

    @np.errstate(invalid="ignore", over="ignore")  # far out: nothing is reached
    def _reach(self, which: Indices, v: Array, low: Array, bend: Array) -> None:
        """Learn what is reached on the way to v, where the likelihood is at least `low`.

        After a share x of it l is at least value - x (value - low) + x (1 - x) bend / 2, being
        that concave: plausible up to the root of a quadratic equation.
        """
        s = self.geometry
        depth, fall = s.value - s.floor, s.value - low - bend / 2
        share = 2 * depth / np.maximum(fall + np.sqrt(fall**2 + 2 * bend * depth), TINY)
        share = np.clip(share, 0.0, 1.0)
        of_c = self.c0[which] * (1 - share) + share * _dot(self.c[which], v)
        of_e = self.e0[which] * (1 - share) + share * _dot(self.e[which], v)
        self.reached[which] = np.fmax(self.reached[which], of_c / of_e)

    @np.errstate(invalid="ignore", over="ignore")  # far out: such bounds are not taken
    def _exclude(self, which: Indices, v: Array, high: Array, slope: Array, root: Array) -> None:
        """Learn from the likelihood at v, at most `high`, what is excluded."""
        s = self.geometry
        of_e = _dot(self.e[which], v)
        t = _dot(self.c[which], v) / of_e
        cz = self.cz[which]
        for held, rows in _patterns(v <= 0):
            if len(held):
                UA, onto = s.U[held], np.linalg.pinv(s.U[held]).T
                f, g = cz[rows] - t[rows, None] * self.ez[which[rows]], slope[rows]
                free = g - g @ UA.T @ onto
                m = _dot(f, free) / np.minimum(-_dot(g, free), -TINY)
                sign = np.maximum((-m[:, None] * g - f) @ onto.T, 0.0)
                cz[rows] += sign @ UA
        g, ez = slope @ root, self.ez[which] @ root
        f = cz @ root - t[:, None] * ez
        square = np.maximum(2 * (high + s.pay - s.floor), 0.0) + _dot(g, g)
        # <c - (t + x) e, v'> <= start - x fall + r |f - x e| =: F(x) for all plausible v' and all
        # x, so that the ratio is at most t + x + F(x) / <e, v'>.
        start, fall = _dot(f, g) + ROUND_OFF, of_e + _dot(ez, g)
        ff, fe, ee, r = _dot(f, f), _dot(f, ez), _dot(ez, ez), np.sqrt(square)
        x = np.zeros(len(which))
        for _ in range(ROOT_STEPS):
            length = np.sqrt(np.maximum(ff - 2 * x * fe + x * x * ee, TINY))
            excess = start - x * fall + r * length
            bound = t + x + np.maximum(excess, 0.0) / self.least[which]
            self.upper[which] = np.fmin(self.upper[which], bound)
            steep = fall - r * (x * ee - fe) / length
            x = x + np.where(steep > 0, excess / np.where(steep > 0, steep, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class _Balls:
    """Problems of the largest (c0 + <c, y>) / (e0 + <e, y>) over balls, with v + U y >= 0.

    root and U have a leading axis of problems if these differ.
    """

    c0: Array
    e0: Array
    c: Array
    e: Array
    center: Array
    square: Array
    v: Array
    root: Array | None
    U: Array

    @classmethod
    def of(
        cls,
        tangents: Tangents,
        which: Indices,
        v: Array,
        slope: Array,
        room: Array,
        curvature: Array | None,
    ) -> _Balls:
        c, e, U, root = tangents.cz[which], tangents.ez[which], tangents.geometry.U, None
        if curvature is not None:
            root = np.linalg.inv(np.linalg.cholesky(curvature)).transpose(0, 2, 1)
            c, e, slope = (_times(x, root) for x in (c, e, slope))
            U = U @ root
        c0, e0 = _dot(tangents.c[which], v), _dot(tangents.e[which], v)
        square = np.maximum(room + _dot(slope, slope), 0.0)
        return cls(c0, e0, c, e, slope, square, v, root, U)

    def coordinates(self, y: Array) -> Array:
        """(P, D) root y."""
        return y if self.root is None else np.einsum("pij,pj->pi", self.root, y)

    def frequencies(self, y: Array) -> Array:
        """(P, K) U y."""
        return np.asarray(y @ self.U.T if self.U.ndim == 2 else np.einsum("pkd,pd->pk", self.U, y))

    def largest(self, rows: Indices, zero: Flags) -> tuple[Array, Array]:
        """Where the ratio is largest with some frequencies at zero, and their multipliers."""
        moved, pulls = np.empty((len(rows), self.c.shape[1])), np.zeros(zero.shape)
        for held, part in _patterns(zero):
            at = rows[part]
            c, e, center, room = self.c[at], self.e[at], self.center[at], self.square[at]
            flat_c, flat_e = c, e
            if len(held):
                U = self.U[held] if self.U.ndim == 2 else self.U[at][:, held]
                back: Array = np.linalg.pinv(U).astype(np.float64)
                across, onto = np.swapaxes(U, -1, -2), np.swapaxes(back, -1, -2)
                beyond = _times(self.v[at][:, held] + _times(center, across), onto)
                center = center - beyond
                room = np.maximum(room - _dot(beyond, beyond), 0.0)
                # Without their part in the rows of U.
                flat_c = np.asarray(c - _times(_times(c, across), onto))
                flat_e = np.asarray(e - _times(_times(e, across), onto))
            c0, e0 = self.c0[at] + _dot(c, center), self.e0[at] + _dot(e, center)
            t = _largest_ratio(c0, e0, flat_c, flat_e, room)
            # Without a largest ratio, a larger one: Dinkelbach's step from where v is.
            t = np.minimum(np.where(np.isfinite(t), t, self.c0[at] / self.e0[at]), 1.0)[:, None]
            f = flat_c - t * flat_e
            m = np.sqrt(np.maximum(_dot(f, f), TINY) / np.maximum(room, TINY))
            moved[part] = center + f / m[:, None]
            if len(held):
                full = c - t * e + m[:, None] * beyond
                pulls[np.ix_(part, held)] = -_times(full, back)
        return moved, pulls


def _times(x: Array, matrix: Array) -> Array:
    """Rows x (P, D) times a matrix (D, A), or one for each (P, D, A)."""
    return np.asarray(x @ matrix if matrix.ndim == 2 else np.einsum("pd,pda->pa", x, matrix))


def _dot(a: Array, b: Array) -> Array:
    """(P,) products of rows."""
    return np.asarray(np.einsum("pd,pd->p", a, b))


def _largest_ratio(c0: Array, e0: Array, c: Array, e: Array, square: Array) -> Array:
    """(P,) the largest t = (c0 + <c, z>) / (e0 + <e, z>) over |z|^2 <= square.

    t = c0 / e0 + x with x e0 = r |f - x e|, f = c - c0 / e0 e: a quadratic equation. Infinite if
    the denominator may vanish.
    """
    fine = e0 > 0
    first = c0 / np.where(fine, e0, 1.0)
    f = c - first[:, None] * e
    ff, fe, ee = _dot(f, f), _dot(f, e), _dot(e, e)
    lead = e0**2 - square * ee
    half = square * fe
    root = np.sqrt(np.maximum(half**2 + lead * square * ff, 0.0))
    fine &= lead > 0
    down = np.where(half > 0, half + root, 1.0)
    x = np.where(half > 0, square * ff / np.maximum(down, TINY), (root - half))
    x = np.where(half > 0, x, x / np.where(fine, lead, 1.0))
    return np.where(fine, first + x, np.inf)


def _patterns(zero: Flags) -> Iterator[tuple[Indices, Indices]]:
    """Classes that are held at zero, and the problems in which they are."""
    some = zero.any(axis=1)
    rows = np.flatnonzero(~some)
    if len(rows):
        yield np.empty(0, dtype=np.intp), rows
    rows = np.flatnonzero(some)
    if not len(rows):
        return
    code = np.packbits(zero[rows], axis=1)
    keys = np.ascontiguousarray(code).view(f"V{code.shape[1]}").ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which))
    for at, part in zip(first, np.split(order, ends[:-1]), strict=True):
        yield np.flatnonzero(zero[rows[at]]), rows[part]
