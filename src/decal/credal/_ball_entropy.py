"""Upper and lower entropy of balls { q : KL(q || c) <= b }, in nats. Both are exact.

For every distribution q, H(q) + KL(q || c) = <-log c, q>. So on the border of the ball, where
KL(q || c) = b, the entropy is a *linear* function less b, and both entropies are expectations of
-log c, see `_ball_support`. Write E- and E+ for its least and greatest expectation in the ball.

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

import numpy as np

from decal._base.numerics import Array
from decal.credal._ball_support import divergence, support


def lower_entropy(log_c: Array, radius: Array) -> Array:
    """Least entropy in each ball, (n,).

    Parameters
    ----------
    log_c : (n, K) array
        Log-probabilities of the centers.
    radius : (n,) array
        Nats.

    Examples
    --------
    >>> lower_entropy(np.log([[0.25, 0.5, 0.25]]), np.array([0.1])).round(4)
    array([0.7874])
    """
    least = -support(log_c, _finite(log_c), radius) - radius
    return np.maximum(least, 0.0)


def upper_entropy(log_c: Array, radius: Array) -> Array:
    """Greatest entropy in each ball, (n,).

    Parameters
    ----------
    log_c : (n, K) array
        Log-probabilities of the centers.
    radius : (n,) array
        Nats.

    Examples
    --------
    >>> upper_entropy(np.log([[0.25, 0.5, 0.25]]), np.array([0.01])).round(4)
    array([1.0787])
    """
    present = log_c > -np.inf
    count = present.sum(axis=1)
    greatest: Array = np.log(count)
    uniform = present / count[:, None]
    rows = np.flatnonzero(divergence(uniform, log_c) > radius)
    if rows.size:
        z = log_c[rows]
        found = support(z, -_finite(z), radius[rows]) - radius[rows]
        greatest[rows] = np.clip(found, 0.0, greatest[rows])
    return greatest


def _finite(log_c: Array) -> Array:
    """Log-probabilities, with 0 for classes of none: they have no part in any expectation."""
    return np.where(log_c > -np.inf, log_c, 0.0)
