"""Largest probabilities over plausible frequencies, by ellipsoids that touch their region."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from decal._base.numerics import Array, Indices, Mask
from decal.shift._likelihood import TINY
from decal.shift._surrogate import Geometry, Surrogate, inverse_roots

Move = Callable[[Indices, Array, Array, Array, Array], Array]
"""The next z (P, D) of problems, seen from z and its frequencies, value and slope."""

ROUND_OFF = 1e-14  # by how much a linear function of frequencies may be wrong
LEAST_WEIGHT = 1e-7  # of an input, relative to the largest: below, digits are lost
ZERO = 1e-12  # smaller frequencies are taken for 0
ALIKE = 1e-12  # added to the squared length, one, of each row of a matrix that is inverted
SQUARE_DIGITS = 1e-14  # relative round-off of squared lengths that are found from products


@dataclass(frozen=True, eq=False)
class FirstBounds:
    """What the outer ellipsoid and a few plausible frequencies say of all problems of inputs."""

    upper: Array  # (2, n, K): no plausible frequencies make a class, and all others, more probable
    reached: Array  # (2, n, K): some make them this probable
    least: Array  # (n,): <odds, v> is at least this

    @classmethod
    def of(cls, s: Geometry, odds: Array) -> FirstBounds:
        """Of inputs with these odds (n, K), at most 1."""
        A = s.U @ s.outer_root
        e0, ez = odds @ s.middle, odds @ A
        ee = _dot(ez, ez)[:, None]
        least = np.maximum(odds @ s.least, odds.min(axis=1))
        least = np.maximum(least, e0 - s.radius * np.sqrt(ee[:, 0]))
        cc, ce = odds**2 * _dot(A, A), odds * (ez @ A.T)
        first = odds * s.middle / np.maximum(e0, TINY)[:, None]
        # f = c - first e; and minus that where c belongs to all other classes.
        ff = np.maximum(cc - first * (2 * ce - first * ee), 0.0) + SQUARE_DIGITS * (cc + ee)
        fe = ce - first * ee
        square = np.full((1, 1), s.radius**2)
        slack = (ROUND_OFF / np.maximum(least, TINY))[:, None]
        upper = np.stack(
            [
                share + _largest_gain(e0[:, None], ff, product, ee, square) + slack
                for share, product in ((first, fe), (1 - first, -fe))
            ]
        )
        reached = np.zeros_like(upper)
        for v in s.landmarks:
            of_e = (odds @ v)[:, None]
            p = np.where(of_e > 0, odds * v / np.maximum(of_e, TINY), first)
            np.maximum(reached, np.stack([p, 1 - p]), out=reached)
        some, count = odds > 0, np.count_nonzero(odds, axis=1)[:, None]
        for side, never in enumerate((~some, some & (count == 1))):
            for bound in (upper, reached):
                bound[side][never], bound[1 - side][never] = 0.0, 1.0
        upper[:, count[:, 0] == 0] = reached[:, count[:, 0] == 0] = 1.0  # anything may be
        return cls(np.fmin(upper, 1.0), reached, least)


def event_of(odds: Array, classes: Indices, side: Indices) -> Array:
    """(P, K) the odds of one class alone, or where side is 1 those of all others."""
    at = np.arange(len(odds)), classes
    event = np.where(side[:, None] == 1, odds, 0.0)
    event[at] = np.where(side == 1, 0.0, odds[at])
    return event


class Tangents:
    """A block of problems: the largest <c, v> / <e, v> of plausible v, for c <= e.

    Laid against the region at z, the ellipsoid {z' : l(z) + <l'(z), z' - z> - |z' - z|^2 / 2 >=
    floor}, in the norm of the surrogate's `bend`, holds all plausible z'. The largest ratio of two
    linear functions over an ellipsoid solves a quadratic equation: an upper bound. It is exact to
    second order in the distance of z from where the maximum is. The next z is the maximum over
    the same ellipsoid with the curvature at the middle. A frequency that would be negative is
    held at 0, and its multiplier enters the bound.
    """

    def __init__(
        self, geometry: Geometry, odds: Array, first: FirstBounds, problems: tuple[Indices, ...]
    ) -> None:
        """Problems: sides (0: of a class, 1: of all others), inputs and classes, by index."""
        side, row, k = problems
        self.geometry = geometry
        self.e = odds[row]
        self.c = event_of(self.e, k, side)
        self.cz, self.ez = self.c @ geometry.U, self.e @ geometry.U
        # No plausible frequencies give more than `upper`, and some give `reached`.
        self.upper, self.reached = first.upper[problems], first.reached[problems]
        self.least = first.least[row]
        self.z = np.full(self.cz.shape, np.nan)

    @property
    def errors(self) -> Array:
        """(P,) by how much the upper bounds may be too large."""
        return np.asarray(self.upper - self.reached)

    def open(self, precision: float) -> Indices:
        """Problems that are not solved, and that this can solve."""
        return np.flatnonzero((self.errors > precision) & (self.least > LEAST_WEIGHT))

    def solve(
        self, surrogate: Surrogate, which: Indices, precision: float, *, touches: int, move: Move
    ) -> None:
        """Narrow bounds until they are precise; after so many touches some may not be."""
        s = self.geometry
        new = which[np.isnan(self.z[which, 0])]
        if len(new):
            at = np.zeros((len(new), len(s.slope)))
            v, slope = (np.tile(x, (len(new), 1)) for x in (s.middle, s.slope))
            self.z[new] = self.plain(new, at, v, np.full(len(new), s.value), slope)
        for _ in range(touches):
            z, v = self.plausible(self.z[which])
            value, slope, excess = surrogate.evaluate(z)
            share = plausible_share(s, value - excess, _dot(z @ surrogate.least, z))[:, None]
            self.reach(which, s.middle + share * (v - s.middle))
            self.exclude(which, v, value, slope, surrogate.bend_root)
            left = self.errors[which] > precision
            which = which[left]
            if not len(which):
                return
            self.z[which] = move(which, z[left], v[left], value[left], slope[left])

    def plain(self, which: Indices, z: Array, v: Array, value: Array, slope: Array) -> Array:
        """The next z by the curvature in the middle."""
        return self._next(which, z, v, value, slope, None)

    def bent(self, surrogate: Surrogate) -> Move:
        """The next z by the curvature that this says is at z: slower, and safer."""
        s = self.geometry

        def move(which: Indices, z: Array, v: Array, value: Array, slope: Array) -> Array:
            # Not too far, and from the middle if z loses twice what plausible frequencies may.
            far = value < s.floor - (s.value - s.floor)
            z[far], v[far], value[far], slope[far] = 0.0, s.middle, s.value, s.slope
            moved = self._next(which, z, v, value, slope, surrogate.curvature(z))
            step = self.plausible(moved)[0] - z
            return np.asarray(z + surrogate.damped(z, step)[:, None] * step)

        return move

    def _next(
        self, which: Indices, z: Array, v: Array, value: Array, slope: Array, bend: Array | None
    ) -> Array:
        """(P, D) where the ratio is largest over an ellipsoid, seen from frequencies v at z.

        In coordinates y with z' = z + root y the ellipsoid is a ball; without a curvature root is
        one. Frequencies that would be negative are held at zero.
        """
        s = self.geometry
        balls = _Balls.of(self, which, v, slope, 2 * (value - s.floor), bend)
        zero = (v <= 0) & (v < s.middle + ZERO)
        moved, pull = balls.largest(np.arange(len(which)), zero)
        again = (zero & (pull > 0)) | (v + balls.frequencies(moved) < 0)
        changed = np.flatnonzero((again != zero).any(axis=1))
        if len(changed):
            moved[changed] = balls.largest(changed, again[changed])[0]
        return z + (moved if balls.root is None else np.einsum("pij,pj->pi", balls.root, moved))

    def plausible(self, z: Array) -> tuple[Array, Array]:
        """Where z (P, D) lead in the outer ellipsoid, no frequency negative; and frequencies."""
        s = self.geometry
        v = s.middle + z @ s.U.T
        v[v < ZERO] = 0.0
        v /= v.sum(axis=1, keepdims=True)
        z = (v - s.middle) @ s.inverse.T
        size = np.sqrt(np.maximum(_dot(z @ s.outer, z), TINY))
        share = np.minimum(1.0, s.radius / size)[:, None]
        return z * share, s.middle + share * (v - s.middle)

    def reach(self, which: Indices, v: Array) -> None:
        """Learn from plausible frequencies what is reached."""
        ratio = _dot(self.c[which], v) / np.maximum(_dot(self.e[which], v), TINY)
        self.reached[which] = np.fmax(self.reached[which], ratio)  # far out there is no number

    @np.errstate(invalid="ignore", over="ignore")  # far out: such bounds are not taken
    def exclude(self, which: Indices, v: Array, high: Array, slope: Array, root: Array) -> None:
        """Learn from the likelihood at v, at most `high`, what is excluded."""
        s = self.geometry
        of_e = _dot(self.e[which], v)
        t = _dot(self.c[which], v) / of_e
        cz = self.cz[which]
        for held, rows in _patterns(v <= 0):
            if len(held):
                UA, onto = s.U[held], right_inverse(s.U[held]).T
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
        for _ in range(3):
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

    c0: Array  # (P,)
    e0: Array
    c: Array  # (P, D)
    e: Array
    center: Array
    square: Array  # (P,) of the radius
    v: Array  # (P, K)
    root: Array | None
    U: Array

    @classmethod
    def of(
        cls, of: Tangents, which: Indices, v: Array, slope: Array, room: Array, bend: Array | None
    ) -> _Balls:
        """Of some problems, seen from v, where l has this slope and curvature `bend`."""
        c, e, U, root = of.cz[which], of.ez[which], of.geometry.U, None
        if bend is not None:
            root = inverse_roots(bend)
            c, e, slope = (_times(x, root) for x in (c, e, slope))
            U = U @ root
        c0, e0 = _dot(of.c[which], v), _dot(of.e[which], v)
        square = np.maximum(room + _dot(slope, slope), 0.0)
        return cls(c0, e0, c, e, slope, square, v, root, U)

    def frequencies(self, y: Array) -> Array:
        """(P, K) U y."""
        return np.asarray(y @ self.U.T if self.U.ndim == 2 else np.einsum("pkd,pd->pk", self.U, y))

    def largest(self, rows: Indices, zero: Mask) -> tuple[Array, Array]:
        """Where the ratio is largest with some frequencies at zero, and their multipliers."""
        moved, pulls = np.empty((len(rows), self.c.shape[1])), np.zeros(zero.shape)
        for held, part in _patterns(zero):
            at = rows[part]
            c, e, center, room = self.c[at], self.e[at], self.center[at], self.square[at]
            flat_c, flat_e = c, e
            if len(held):
                U = self.U[held] if self.U.ndim == 2 else self.U[at][:, held]
                back = right_inverse(U)
                across, onto = np.swapaxes(U, -1, -2), np.swapaxes(back, -1, -2)
                beyond = _times(self.v[at][:, held] + _times(center, across), onto)
                center = center - beyond
                room = np.maximum(room - _dot(beyond, beyond), 0.0)
                # Without their part in the rows of U.
                flat_c = np.asarray(c - _times(_times(c, across), onto))
                flat_e = np.asarray(e - _times(_times(e, across), onto))
            c0, e0 = self.c0[at] + _dot(c, center), self.e0[at] + _dot(e, center)
            t, m, moved[part] = ball_maximum(
                c0, e0, flat_c, flat_e, center, room, self.c0[at] / self.e0[at]
            )
            if len(held):
                full = c - t[:, None] * e + m[:, None] * beyond
                pulls[np.ix_(part, held)] = -_times(full, back)
        return moved, pulls


def right_inverse(U: Array) -> Array:
    """(..., D, A) of matrices (..., A, D): U times it is one, nearly so where rows are alike."""
    size = np.maximum(np.sqrt(np.sum(U**2, axis=-1, keepdims=True)), TINY)
    across = np.swapaxes(U / size, -1, -2)
    products = np.swapaxes(across, -1, -2) @ across + ALIKE * np.eye(U.shape[-2])
    return np.asarray(across @ np.linalg.inv(products) / np.swapaxes(size, -1, -2))


def _times(x: Array, matrix: Array) -> Array:
    """Rows x (P, D) times a matrix (D, A), or one for each (P, D, A)."""
    return np.asarray(x @ matrix if matrix.ndim == 2 else np.einsum("pd,pda->pa", x, matrix))


def _dot(a: Array, b: Array) -> Array:
    """(P,) products of rows."""
    return np.asarray(np.einsum("pd,pd->p", a, b))


@np.errstate(invalid="ignore", over="ignore")  # far out: nothing is reached
def plausible_share(s: Geometry, low: Array, bend: Array) -> Array:
    """(P,) how much of the way to frequencies, where l is at least `low`, is plausible.

    After a share x of it l is at least value - x (value - low) + x (1 - x) bend / 2, being that
    concave: plausible up to the root of a quadratic equation.
    """
    depth, fall = s.value - s.floor, s.value - low - bend / 2
    share = 2 * depth / np.maximum(fall + np.sqrt(fall**2 + 2 * bend * depth), TINY)
    return np.clip(share, 0.0, 1.0)


def ball_maximum(
    c0: Array, e0: Array, c: Array, e: Array, center: Array, square: Array, before: Array
) -> tuple[Array, Array, Array]:
    """The largest ratios (P,) of c0 + <c, y> and e0 + <e, y> over balls around centers y.

    With their multipliers (P,), and where they are (P, D). Without a largest ratio, where a
    larger one than `before` is: Dinkelbach's step.
    """
    first = c0 / np.where(e0 > 0, e0, 1.0)
    f = c - first[:, None] * e
    t = first + _largest_gain(e0, _dot(f, f), _dot(f, e), _dot(e, e), square)
    t = np.minimum(np.where(np.isfinite(t), t, before), 1.0)
    f = c - t[:, None] * e
    m = np.sqrt(np.maximum(_dot(f, f), TINY) / np.maximum(square, TINY))
    return t, m, center + f / m[:, None]


def _largest_gain(e0: Array, ff: Array, fe: Array, ee: Array, square: Array) -> Array:
    """The largest x with x e0 = r |f - x e|, r^2 = square: a quadratic equation.

    So much more than c0 / e0 is the largest ratio of c0 + <c, z> and e0 + <e, z> over a ball, with
    f = c - c0 / e0 e. Infinite if the denominator may vanish.
    """
    lead, half = e0**2 - square * ee, square * fe
    root = np.sqrt(np.maximum(half**2 + lead * square * ff, 0.0))
    fine = (e0 > 0) & (lead > 0)
    down = np.where(half > 0, half + root, 1.0)
    x = np.where(half > 0, square * ff / np.maximum(down, TINY), (root - half))
    x = np.where(half > 0, x, x / np.where(fine, lead, 1.0))
    return np.where(fine, x, np.inf)


def _patterns(zero: Mask) -> Iterator[tuple[Indices, Indices]]:
    """Classes that are held at zero, and the problems in which they are."""
    some = zero.any(axis=1)
    if not some.all():
        yield np.empty(0, dtype=np.intp), np.flatnonzero(~some)
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
