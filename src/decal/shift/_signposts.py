"""Solved problems of some observed inputs, from which the many problems of others start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal.shift._likelihood import Likelihood
from decal.shift._surrogate import Geometry, Surrogate, inverse_roots
from decal.shift._tangents import (
    FirstBounds,
    Move,
    Tangents,
    ball_maximum,
    plausible_share,
    right_inverse,
)

Indices = NDArray[np.intp]

PER_KIND, SCOUTS = 64, 8
"""Observed inputs whose problems are solved for each class and side; and every so-many-th of them
first, to help with the others."""

MOST_CLASSES = 12
"""With more, signposts take longer than the few predictions that are then asked for."""

ERROR = 1e-4
"""Of the signposts' own problems; if it is larger, they help less."""

LEAST_SHARE = 1e-4
"""Of its likelihood, that each input has at a signpost: with less, curvatures lose their digits."""

TOUCHES = 4
"""Of the first ones, with the surrogate."""

TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Signposts:
    """Where the largest and the smallest probabilities of a class are, for some inputs.

    What makes <c, v> / <e, v> largest, if c belongs to one class, depends on the other classes'
    odds alone, not on how large they are against c. So many inputs have nearly the same solution,
    and it is known from any of them: a plausible point that reaches nearly as much, and an
    ellipsoid that holds the region and touches it there. Where that is not enough, the curvature
    at the signpost tells where to look, and which frequencies are zero.

    Attributes
    ----------
    geometry : Geometry
    bend_root : (D, D) array
        Of the surrogate that touches.
    starts : (2 K + 1,) array
        Signposts of the largest probabilities of each class, then of those of its complement, lie
        from one start to the next.
    plausible : (M, K) array
        Plausible frequencies.
    v, value, slope : (M, K), (M,), (M, D) arrays
        Frequencies where the surrogate was evaluated, and what it was.
    faces : (M, K, D) array
        v + faces x, with x in a ball, are the frequencies near v that are about plausible, and
        zero where v is.
    """

    geometry: Geometry
    bend_root: Array
    starts: Indices
    plausible: Array
    v: Array
    value: Array
    slope: Array
    faces: Array

    @classmethod
    def of(
        cls, geometry: Geometry, likelihood: Likelihood, surrogate: Surrogate, finer: Surrogate
    ) -> Signposts:
        """Those of observed inputs that may or may not be of a class."""
        K = len(geometry.middle)
        k, row = _uncertain(geometry, likelihood)
        odds = likelihood.ratios[row]
        odds = odds / odds.max(axis=1, keepdims=True)
        problems = np.repeat([0, 1], len(k)), np.tile(np.arange(len(k)), 2), np.tile(k, 2)
        kinds = K * problems[0] + problems[2]
        tangents = Tangents(geometry, odds, FirstBounds.of(geometry, odds), problems)
        which = tangents.open(ERROR)
        scouts = which[::SCOUTS]
        tangents.solve(surrogate, scouts, ERROR, touches=TOUCHES, move=tangents.bent(surrogate))
        tangents.solve(finer, scouts, ERROR, touches=1, move=tangents.bent(surrogate))
        few = cls._at(tangents, kinds, scouts, surrogate, finer)
        near = few.nearest(tangents.e, kinds)
        others = np.setdiff1d(which[near[which] >= 0], scouts)
        few.teach(tangents, others, near[others], 0.0)
        for each in (surrogate, finer):
            tangents.solve(each, others, ERROR, touches=1, move=few.move(tangents, near))
        return cls._at(tangents, kinds, np.union1d(scouts, others), surrogate, finer)

    @classmethod
    def _at(
        cls,
        tangents: Tangents,
        kinds: Indices,
        which: Indices,
        surrogate: Surrogate,
        finer: Surrogate,
    ) -> Signposts:
        """Where problems, in the order of their kinds, have led."""
        s = tangents.geometry
        z, v = tangents.plausible(tangents.z[which])
        near = finer.lowest(z) > LEAST_SHARE
        which, z, v = which[near], z[near], v[near]
        value, slope, excess = finer.evaluate(z)
        bend = np.einsum("pd,pd->p", z @ finer.least, z)
        share = plausible_share(s, value - excess, bend)[:, None]
        starts = np.searchsorted(kinds[which], np.arange(2 * len(s.middle) + 1))
        return cls(
            s, finer.bend_root, starts, s.middle + share * (v - s.middle), v, value, slope,
            _faces(s, v, surrogate.curvature(z)),
        )  # fmt: skip

    def nearest(self, e: Array, kinds: Indices) -> Indices:
        """(P,) the signpost that reaches most of each problem of its kind, -1 if there is none.

        Problems are in the order of their kinds.
        """
        near = np.full(len(e), -1)
        ends = np.searchsorted(kinds, np.arange(len(self.starts)))
        K = len(self.geometry.middle)
        for kind, (start, stop) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
            rows = slice(ends[kind], ends[kind + 1])
            if start == stop or rows.start == rows.stop:
                continue
            v = self.plausible[start:stop]
            own = np.maximum(v[:, kind % K], TINY)
            odds_against = e[rows] @ (v / own[:, None]).T
            best = odds_against.argmin(axis=1) if kind < K else odds_against.argmax(axis=1)
            near[rows] = start + best
        return near

    def teach(self, tangents: Tangents, which: Indices, near: Indices, precision: float) -> None:
        """Learn from signposts what is reached and excluded; where that is not enough, move."""
        tangents.reach(which, self.plausible[near])
        v, value, slope = self.v[near], self.value[near], self.slope[near]
        tangents.exclude(which, v, value, slope, self.bend_root)
        left = np.flatnonzero(tangents.errors[which] > precision)
        which, near = which[left], near[left]
        tangents.z[which] = self._moved(tangents, which, near, v[left], value[left], slope[left])

    def move(self, tangents: Tangents, near: Indices) -> Move:
        """The next z by the curvature at each problem's signpost, and the zeros there."""

        def move(which: Indices, _: Array, v: Array, value: Array, slope: Array) -> Array:
            return self._moved(tangents, which, near[which], v, value, slope)

        return move

    def _moved(
        self,
        tangents: Tangents,
        which: Indices,
        near: Indices,
        v: Array,
        value: Array,
        slope: Array,
    ) -> Array:
        s, faces = self.geometry, self.faces[near]
        c, e = tangents.c[which], tangents.e[which]
        center, c_y, e_y = (np.einsum("pk,pkd->pd", x, faces) for x in (slope @ s.inverse, c, e))
        c0, e0, c1, e1 = (
            np.einsum("pd,pd->p", a, b) for a, b in ((c, v), (e, v), (c_y, center), (e_y, center))
        )
        room = np.maximum(2 * (value - s.floor) + np.einsum("pd,pd->p", center, center), 0.0)
        _, _, y = ball_maximum(c0 + c1, e0 + e1, c_y, e_y, center, room, c0 / e0)
        return np.asarray((v + np.einsum("pkd,pd->pk", faces, y) - s.middle) @ s.inverse.T)


def _uncertain(geometry: Geometry, likelihood: Likelihood) -> tuple[Indices, Indices]:
    """Classes, and observed inputs that may or may not be of them, evenly.

    In proportion to p (1 - p), with frequencies a standard deviation above the most likely ones,
    for none is 0 there.
    """
    v = geometry.middle + np.sqrt(np.sum(geometry.U**2, axis=1))
    p = likelihood.ratios * v
    p /= p.sum(axis=1, keepdims=True)
    mass = np.cumsum(likelihood.weights[:, None] * p * (1 - p), axis=0)
    shares = (np.arange(PER_KIND) + 0.5) / PER_KIND
    classes, rows = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
    for k in np.flatnonzero(mass[-1] > 0):
        chosen = np.unique(np.searchsorted(mass[:, k], shares * mass[-1, k]))
        classes.append(np.full(len(chosen), k))
        rows.append(chosen)
    return np.concatenate(classes), np.concatenate(rows)


def _faces(s: Geometry, v: Array, curvature: Array) -> Array:
    """(M, K, D) directions of frequencies that are not zero in v, in which l has curvature one.

    With U' the coordinates' directions in which it has, they are U' less their part in the rows of
    U' of frequencies that are zero.
    """
    U = s.U @ inverse_roots(curvature)
    zero = (v <= 0)[:, :, None]
    held = np.where(zero, U, 0.0)
    free = U - U @ right_inverse(held) @ held
    return np.where(zero, 0.0, free)
