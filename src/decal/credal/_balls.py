"""KLCredalSet: everything within a Kullback-Leibler divergence of one prediction.

Its entropies are exact. For every distribution q, H(q) + KL(q || c) = <-log c, q>. So on the border
of the ball, where KL(q || c) = b, the entropy is a *linear* function less b, and both entropies are
expectations of -log c, see `support`. Write E- and E+ for its least and greatest expectation
in the ball.

*Lower.* H is concave, so it is least at an extreme point of the ball: on the border, where
H >= E- - b, or at a corner e_k of the simplex, where H = 0. Let M be the most probable classes, of
probability c_M each. A corner is in the ball iff b >= -log c_M; then E- - b = -log c_M - b <= 0,
and the least entropy is 0. If b < -log c(M), the member that attains E- is on the border, and its
entropy is E- - b. In between, the most probable classes tie, and E- is attained by everything on
M; entropies on M go from 0 to log |M|, and some q there has H = -log c_M - b = E- - b, which means
KL(q || c) = b. In all three cases the lower entropy is max(0, E- - b).

*Upper.* H is greatest at the uniform distribution on the classes of positive probability, if that
is in the ball, or else on the border, where H <= E+ - b. Now E+ is attained on the border: by a
tilt c^(1-t) with t <= 1, unless the uniform distribution is in the ball. So the upper entropy is
E+ - b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from decal._base.data_frames import require_same_order
from decal._base.numerics import Array, Indices, Mask, read_only, softplus
from decal._base.row_checks import check_class_names
from decal._base.set_checks import check_center_and_radius, read_frames
from decal._base.settings import check_tolerance
from decal.credal import _ball_decisions as ball_decisions
from decal.credal import _ball_support as ball_support
from decal.credal._box_measures import Bracket
from decal.credal._boxes import NonemptySet
from decal.credal._total_variation import ball_total_variation


@dataclass(frozen=True, eq=False, repr=False, init=False)
class KLCredalSet(NonemptySet):
    """Balls of distributions: for every input, all q with KL(q || center) <= radius.

    What `Decalibrator.predict_ball` returns for local sets, whose `predict` returns the smallest
    box around it, `lower` to `upper`. The ball is smaller, and answers more sharply.

    Parameters
    ----------
    center : (n, K) array
        Distributions. A class of probability 0 has none in any member.
    radius : float or (n,) array
        Nats, from 0, the center alone, to inf, all distributions on the classes of positive
        probability. So is every radius of at least -log of the smallest positive probability.
    classes : list of str, optional
        K names.

    Notes
    -----
    It answers all questions of IntervalCredalSet, and all but one exactly: expectations and
    entropies are convex problems in one variable, decisions under 0/1 loss have closed forms, and
    E-admissibility with a utility matrix is a game. The total variation is exact up to 24 classes,
    or where a class has half of the center's probability. "hartley" is that of the box.

    Examples
    --------
    >>> import decal
    >>> b = decal.KLCredalSet([[0.5, 0.3, 0.2]], 0.05, classes=["a", "b", "c"])
    >>> b
    KLCredalSet: 1 input, radius 0.05, 3 classes, mean width 0.284
      0  a [0.343, 0.657]  b [0.163, 0.450]  c [0.085, 0.335]
    >>> b.contains([[0.4, 0.4, 0.2]]), b.contains([[0.4, 0.2, 0.4]])
    (array([ True]), array([False]))
    >>> [round(float(end[0]), 3) for end in b.expectation([0.0, 1.0, 2.0])]
    [0.462, 0.953]
    """

    log_center: Array
    radius: Array
    classes: tuple[str, ...] | None

    _measures: ClassVar[dict[str, Callable[..., Array]]] = {
        "zero_one": ball_decisions.zero_one,
        "total_variation": lambda *ball: ball_total_variation(*ball).lower,
    }
    _rules: ClassVar[dict[str, Callable[..., Mask | Indices]]] = {
        "maximality": ball_decisions.maximality,
        "e_admissible": ball_decisions.e_admissible,
        "minimax_regret": ball_decisions.minimax_regret,
    }

    def __init__(self, center: Any, radius: Any, *, classes: Iterable[Any] | None = None) -> None:
        require_same_order(center=center, radius=radius)
        (given,), names, index = read_frames(classes, center=center)
        c, b = check_center_and_radius(given, radius)
        with np.errstate(divide="ignore"):
            m = ball_support.log_odds(np.log(c))
        known = check_class_names(names, c.shape[1])
        self._hold(log_center=-softplus(-m), radius=b, classes=known, _index=index)

    @cached_property
    def center(self) -> Array:
        """(n, K) the distribution in the middle."""
        return read_only(np.exp(self.log_center))

    @property
    def point(self) -> Array:  # type: ignore[override]
        """(n, K) the center."""
        return self.center

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        lower, upper = ball_support.box(self.log_center, self.radius)
        return read_only(lower), read_only(upper)

    @property
    def lower(self) -> Array:  # type: ignore[override]
        """(n, K) least probability of each class."""
        return self._bounds[0]

    @property
    def upper(self) -> Array:  # type: ignore[override]
        """(n, K) greatest probability of each class."""
        return self._bounds[1]

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): inputs and classes."""
        n, K = self.log_center.shape
        return n, K

    def __len__(self) -> int:
        return len(self.radius)

    def contains(self, distributions: Any, *, atol: float = 5e-4) -> Mask:
        """(n,) True where some member of the ball is within `atol` in every class.

        Distributions (n, K) are first divided by their sums. This is a distance to the set, as for
        hulls. A box asks whether `atol` more room in every bound would do, which is a little more
        generous. With 0, the divergence itself is compared with the radius, up to round-off.
        """
        p = self.check_distributions(distributions)
        atol = check_tolerance(atol, "atol")
        p = p / p.sum(axis=1, keepdims=True)
        return ball_decisions.contains(self.log_center, self.radius, p, atol=atol)

    def divergence(self, distributions: Any) -> Array:
        """(n,) how far distributions (n, K), divided by their sums, are from the center, in nats.

        Examples
        --------
        >>> import decal
        >>> decal.KLCredalSet([[0.5, 0.5]], 0.1).divergence([[0.75, 0.25]]).round(4)
        array([0.1308])
        """
        p = self.check_distributions(distributions)
        return ball_support.divergence(p / p.sum(axis=1, keepdims=True), self.log_center)

    def total_variation(self) -> Bracket:
        """The greatest total variation distance as a bracket: lower, upper and exact, (n,) each."""
        return ball_total_variation(self.log_center, self.radius)

    def _size(self) -> str:
        if not len(self):
            return ""
        least, most = float(self.radius.min()), float(self.radius.max())
        return f"radius {least:.3g}, " if least == most else f"radius {least:.3g} to {most:.3g}, "

    @property
    def _arrays(self) -> tuple[Array, Array]:
        return self.log_center, self.radius

    def _lower_entropy(self) -> Array:
        z, b = self._arrays
        return np.maximum(-ball_support.support(z, _finite(z), b) - b, 0.0)

    def _upper_entropy(self) -> Array:
        z, b = self._arrays
        present = z > -np.inf
        count = present.sum(axis=1)
        greatest: Array = np.log(count)
        uniform = present / count[:, None]
        rows = np.flatnonzero(ball_support.divergence(uniform, z) > b)
        if rows.size:
            z, b = z[rows], b[rows]
            found = ball_support.support(z, -_finite(z), b) - b
            greatest[rows] = np.clip(found, 0.0, greatest[rows])
        return greatest

    def _expectation(self, values: Array) -> tuple[Array, Array]:
        return ball_support.expectation(self.log_center, self.radius, values)

    def _growing(self, order: Indices | None) -> tuple[Array, Array]:
        return ball_support.growing(self.log_center, self.radius, order)


def _finite(log_c: Array) -> Array:
    """Log-probabilities, with 0 for classes of none: they have no part in any expectation."""
    return np.where(log_c > -np.inf, log_c, 0.0)
