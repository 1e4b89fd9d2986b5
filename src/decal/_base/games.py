"""Values of many small matrix games at once. Nothing here knows about credal sets.

A first player mixes S strategies with weights w in the simplex; a second replies with a payoff
vector c from a set C. The value of the game is

    v = max_w min_{c in C} w·c = min_{c in conv C} max_s c_s.

"Is action a the best one somewhere in this set?" and "does this vector lie in that hull?" are games
with few strategies on one side, and C may be as large as the set of vertices of a box, as long as
the best reply to given weights is easy to find. Any weights prove a lower bound and any mixture of
replies an upper one, so an answer can be checked without trusting the solver.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array

Indices = NDArray[np.intp]
Reply = Callable[[Indices, Array], Array]
"""Of games (m,) and weights (m, S): the payoffs (m, S) of the second player's best replies."""

# Payoffs, basic variables, columns and bases are of order 1.
GAME_TOLERANCE = 1e-9  # width of the bracket at which a game counts as solved
# Right-hand sides are 1 + O(perturbation), all different, against cycling. The first, which is
# below GAME_TOLERANCE, suffices for all but games that are degenerate to within round-off.
PERTURBATIONS = (1e-10, 1e-9, 1e-8, 1e-6)
FEASIBILITY = 1e-12  # how far below 0 a basic variable may go for the sake of a larger pivot
SMALLEST_PIVOT = 1e-9  # entries of the entering column below which a row is not pivoted on
LARGEST_INVERSE = 1e12  # entries of the inverse of a basis at which it counts as singular
SMALLEST_PROFIT = 1e-11  # reduced costs below which a column has no reason to enter
PIVOTS_PER_STRATEGY = 10  # limit on pivots, in units of S + 1; one or two are usual
_SHIFT = 2.0  # makes every payoff positive, in [1, 3]


def bracket_values(
    reply: Reply, games: int, strategies: int, *, threshold: float
) -> tuple[Array, Array]:
    """Lower and upper bounds on the value of each game, on one side of a threshold where possible.

    With positive payoffs the second player's linear program is: maximise sum y subject to
    C y <= 1, y >= 0, and the value is 1 / sum y. The all-slack basis is feasible, so the revised
    simplex method needs no first phase; columns of C are made only when they enter. All games pivot
    in step, each on its own S × S basis, and leave as soon as their bracket lies on one side of the
    threshold (lower >= threshold or upper < threshold) or is closed to GAME_TOLERANCE. What happens
    to one game does not depend on the others.

    `reply` gives best replies of the second player, with payoffs in [-1, 1]; S is the number of
    `strategies` of each game. The bounds, (games,) each, are proved by weights or replies, whatever
    the pivots did. Brackets that stay open, at most about 1e-6 wide, belong to games that are
    degenerate to within round-off. O(S³) time per pivot and game besides the reply, 1.2 S pivots on
    average; S² memory per game.

    Examples
    --------
    Matching pennies is worth nothing:

    >>> payoffs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> def reply(games, weights):
    ...     return payoffs[:, (weights @ payoffs).argmin(axis=1)].T
    >>> lower, upper = bracket_values(reply, 1, 2, threshold=-1e-12)
    >>> float(lower[0])
    0.0
    """
    lower = np.full(games, -np.inf)
    upper = np.full(games, np.inf)
    undecided = np.arange(games)
    for perturbation in PERTURBATIONS:
        right = 1.0 + perturbation * (1.0 + np.arange(strategies) * np.sqrt(2.0) % 1.0)
        undecided = _pivot(reply, undecided, right, threshold, lower, upper)
        if not len(undecided):
            break
    return lower, upper


def _pivot(
    reply: Reply, active: Indices, right: Array, threshold: float, lower: Array, upper: Array
) -> Indices:
    """Improve the brackets of active games by the simplex method; return those still undecided."""
    S = len(right)
    identity = np.eye(S)
    basis = np.tile(identity, (len(active), 1, 1))
    inverse = basis.copy()
    is_reply = np.zeros((len(active), S))  # 1 where a reply is basic, 0 where a slack is
    stuck = []
    for _ in range(PIVOTS_PER_STRATEGY * (S + 1)):
        dual = np.matmul(is_reply[:, None, :], inverse)[:, 0]
        weights = _normalised(np.maximum(dual, 0.0))
        column = reply(active, weights)

        # Any weights bound the value from below, any reply, pure or mixed, from above.
        x = np.maximum(np.matmul(inverse, right), 0.0)
        mixture = _normalised(x * is_reply)
        mixed = np.matmul(basis, mixture[:, :, None])[:, :, 0].max(axis=1) - _SHIFT
        mixed[~(x * is_reply).any(axis=1)] = np.inf
        low = np.maximum(lower[active], (weights * column).sum(axis=1))
        high = np.minimum(upper[active], np.minimum(mixed, column.max(axis=1)))
        lower[active], upper[active] = low, high

        least = dual.argmin(axis=1)
        slack_profit = -dual.min(axis=1)
        reply_profit = 1.0 - (dual * (column + _SHIFT)).sum(axis=1)
        open_ = (low < threshold) & (high >= threshold) & (high - low > GAME_TOLERANCE)
        optimal = np.maximum(slack_profit, reply_profit) < SMALLEST_PROFIT
        singular = np.abs(inverse).max(axis=(1, 2)) > LARGEST_INVERSE
        stuck.append(active[open_ & (optimal | singular)])
        go = open_ & ~(optimal | singular)
        if not go.any():
            active = active[go]
            break

        active, basis, inverse, is_reply = active[go], basis[go], inverse[go], is_reply[go]
        slack = (slack_profit > reply_profit)[go]
        entering = np.where(slack[:, None], identity[least[go]], column[go] + _SHIFT)
        change = np.matmul(inverse, entering[:, :, None])[:, :, 0]
        leaving = _leaving(x[go], change)
        game = np.arange(len(active))
        row = inverse[game, leaving] / change[game, leaving, None]
        inverse -= change[:, :, None] * row[:, None, :]
        inverse[game, leaving] = row
        basis[game, :, leaving] = entering
        is_reply[game, leaving] = ~slack
        # One step of Newton's method for the inverse undoes the round-off of the update.
        inverse += np.matmul(inverse, identity - np.matmul(basis, inverse))
    return np.concatenate([*stuck, active])


def _leaving(x: Array, change: Array) -> Indices:
    """Harris's ratio test: of the rows that block the step, the one with the largest pivot."""
    ratio, relaxed = np.full((2, *x.shape), np.inf)
    np.divide(x, change, out=ratio, where=change > SMALLEST_PIVOT)
    np.divide(x + FEASIBILITY, change, out=relaxed, where=change > SMALLEST_PIVOT)
    blocking = ratio <= relaxed.min(axis=1, keepdims=True)
    leaving: Indices = np.where(blocking, np.abs(change), -1.0).argmax(axis=1)
    return leaving


def _normalised(weights: Array) -> Array:
    """Weights (m, S) >= 0 divided by their sum; all equal where that is 0."""
    mass = weights.sum(axis=1, keepdims=True)
    return np.where(mass > 0.0, weights / np.where(mass > 0.0, mass, 1.0), 1 / weights.shape[1])
