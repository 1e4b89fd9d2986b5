"""Decisions from balls { q : KL(q || c) <= b }: membership, rules, and what a wrong one costs.

`log_c` (n, K) and `radius` (n,) as in `_ball_support`. Most questions are whether some member
satisfies linear inequalities: whether the least divergence of distributions that satisfy them, the
`need`, is within the radius. Under 0/1 loss that has a closed form. The rules, their ties and their
arguments are those of `decal.credal.decisions`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from decal._base.games import Reply, bracket_values
from decal._base.numerics import Array, Indices, Mask, row_blocks
from decal.credal._ball_support import (
    divergence,
    expectation,
    extreme_member,
    log_odds,
    log_sum_exp_of,
    of_few_values,
    support,
    within,
)
from decal.credal.decisions import (
    ADMISSIBLE_TOLERANCE,
    TIE_TOLERANCE,
    action_units,
    contested,
    interval_dominance,
    leads,
    shortfalls,
)

UNSURE = 1e-9
"""Nats. Needs this close to the radius, and small, are computed again as sums of positive terms."""


def contains(log_c: Array, radius: Array, distributions: Array, *, atol: float) -> Mask:
    """Whether each distribution lies in its ball, (n,) bool, up to `atol` in every class.

    True iff some q in the ball has |q_k - p_k| <= atol for all k. Of the distributions that close
    to p the one nearest to the center is clip(s c, p - atol, p + atol), with s such that it sums to
    one: a root of a piecewise linear function, found by bisection of its sorted breakpoints.
    """
    inside = np.empty(len(log_c), dtype=bool)
    for rows in row_blocks(*log_c.shape):
        z, b, p = log_c[rows], radius[rows], distributions[rows]
        found = within(divergence(p, z), b)
        open_ = np.flatnonzero(~found) if atol > 0.0 else np.empty(0, dtype=np.intp)
        if open_.size:
            low, high = np.maximum(p[open_] - atol, 0.0), np.minimum(p[open_] + atol, 1.0)
            nearest = _nearest(z[open_], low, high)
            found[open_] = within(divergence(nearest, z[open_]), b[open_])
        inside[rows] = found
    return inside


def need_to_reach(log_c: Array) -> Array:
    """Least divergence at which class k is as probable as the center's first class, t: (n, K).

    Minimising KL(q || c) subject to q_k = q_t gives both the share sqrt(c_k c_t), and

        -log(1 - (sqrt c_t - sqrt c_k)^2).
    """
    top = log_c.max(axis=1, keepdims=True)
    first = log_c.argmax(axis=1)[:, None]
    gap = (np.exp(top / 2) - np.exp(log_c / 2)) ** 2
    with np.errstate(divide="ignore", over="ignore"):
        small = -np.log1p(-np.minimum(gap, 0.5))
        # 1 - gap as what neither class has, c(others) - c_k, and twice the root: nothing cancels.
        others = -np.logaddexp(0.0, np.take_along_axis(log_odds(log_c), first, axis=1))
        root = (log_c + top) / 2
        base = np.maximum(others, root)
        base = np.where(np.isneginf(base), 0.0, base)
        left = np.exp(others - base) - np.exp(log_c - base) + 2.0 * np.exp(root - base)
        large = -(base + np.log(np.maximum(left, 0.0)))
    need = np.where(gap < 0.5, small, large)
    np.put_along_axis(need, first, 0.0, axis=1)
    return np.asarray(np.maximum(need, 0.0))


def need_to_win(log_c: Array, radius: Array) -> Array:
    """Least divergence at which class k is a most probable one: (n, K); inf if it has none.

    The nearest distribution to c with q_k >= q_j for all j raises k and lowers the classes above a
    level g to that level, all else in proportion: g is the geometric mean of c_k and of the lowered
    classes, which are the first m, and the need is -log((m + 1) g + the rest). With the classes in
    falling order, the j-th is lowered iff log c_k < j log c_j - sum_{i<j} log c_i, which falls
    with j. O(K log K) time per row. Needs close to the radius are computed with the greatest care.
    """
    n, K = log_c.shape
    order = np.argsort(-log_c, axis=1, kind="stable")
    z = np.take_along_axis(log_c, order, axis=1)
    there = z > -np.inf
    z0 = np.where(there, z, 0.0)
    before = np.cumsum(z0, axis=1) - z0
    mark = np.where(there, np.arange(1, K + 1) * z0 - before, -np.inf)
    # How many classes class k lowers: the marks above its own log-probability.
    lowered, most = np.zeros((n, K), dtype=np.intp), np.full((n, K), K)
    for _ in range(K.bit_length()):
        middle = (lowered + most) // 2
        above = np.take_along_axis(mark, np.minimum(middle, K - 1), axis=1) > z
        above &= middle < most
        lowered, most = np.where(above, middle + 1, lowered), np.where(above, most, middle)
    lowered = np.where(there, lowered, 0)
    level = (z0 + np.take_along_axis(before, lowered, axis=1)) / (lowered + 1)
    tail = np.logaddexp.accumulate(z[:, ::-1], axis=1)[:, ::-1]
    tail = np.take_along_axis(tail, lowered, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = tail + np.log(-np.expm1(np.minimum(z - tail, 0.0)))
        need = np.maximum(-np.logaddexp(np.log(lowered + 1) + level, rest), 0.0)
    need[~there] = np.inf
    need[lowered == 0] = np.where(there, 0.0, np.inf)[lowered == 0]

    near = np.abs(np.where(there, need, 0.0) - radius[:, None]) <= UNSURE
    row, k = np.nonzero(near & (lowered > 0))
    for block in row_blocks(len(row), K):
        r, j = row[block], k[block]
        g = level[r, j][:, None]
        pool = np.arange(K) < lowered[r, j][:, None]
        pool[np.arange(len(r)), j] = True
        x = np.where(pool, z[r] - g, 0.0)
        # The logarithms of the pooled classes add up to those of their levels.
        loss = np.exp(g[:, 0]) * (np.expm1(x) - x).sum(axis=1)
        need[r, j] = np.where(loss < 0.5, -np.log1p(-np.minimum(loss, 0.5)), need[r, j])
    found: Array = np.empty_like(need)
    np.put_along_axis(found, order, need, axis=1)
    return found


def _within_blocks(need: Callable[[slice], Array], log_c: Array, radius: Array) -> Mask:
    """Which needs, computed for a block of rows at a time, are within the radius: (n, K) bool."""
    kept = np.empty(log_c.shape, dtype=bool)
    for rows in row_blocks(*log_c.shape):
        kept[rows] = within(need(rows), radius[rows, None])
    return kept


def maximality(log_c: Array, radius: Array, utility: Array | None = None) -> Mask:
    """Actions that no other action beats under every distribution of the ball: (n, A) bool.

    Under 0/1 loss the hardest class to beat is the center's first, and a class stays iff
    `need_to_reach` is within the radius: O(K) per row. With a utility, one expectation per pair of
    actions that interval dominance keeps.
    """
    if utility is None:
        return _within_blocks(lambda rows: need_to_reach(log_c[rows]), log_c, radius)
    kept, least, _ = _shortfalls(log_c, radius, utility)
    return kept & (least <= TIE_TOLERANCE)


def e_admissible(log_c: Array, radius: Array, utility: Array | None = None) -> Mask:
    """Actions that are optimal under at least one distribution of the ball: (n, A) bool.

    Under 0/1 loss `need_to_win` decides. With a utility, each maximal action that has maximal
    rivals plays a game: a mixture of rivals against a member of the ball, whose best reply is the
    member that is extreme in the direction of the difference. Actions that are best at the center
    need no game. Most games are decided in a few steps; one that is still open after the last,
    because the best the action can do is within about 1e-6 of a tie, keeps its action.
    """
    if utility is None:
        return _within_blocks(lambda rows: need_to_win(log_c[rows], radius[rows]), log_c, radius)
    kept = maximality(log_c, radius, utility)
    expected = np.exp(log_c) @ utility.T
    best = interval_dominance(expected, expected, unit=action_units(utility))
    admissible = kept.copy()
    for row, action, rivals in contested(kept, utility.size):
        unclear = ~best[row, action]
        row, action, rivals = row[unclear], action[unclear], rivals[unclear]
        reply = _favourable(log_c[row], radius[row], leads(utility, action, rivals))
        shortfall, _ = bracket_values(reply, *rivals.shape, threshold=ADMISSIBLE_TOLERANCE)
        admissible[row, action] = shortfall < ADMISSIBLE_TOLERANCE
    return admissible


def minimax_regret(log_c: Array, radius: Array, utility: Array | None = None) -> Indices:
    """The action that can turn out least inferior to the best one: (n,) int.

    Under 0/1 loss that is the center's most probable class, whatever the radius: the greatest
    q_j - q_k over the ball rises with c_j and falls with c_k. With a utility, one expectation per
    pair of actions that interval dominance keeps.
    """
    if utility is None:
        return np.asarray(log_c.argmax(axis=1))
    kept, _, greatest = _shortfalls(log_c, radius, utility)
    return np.asarray(np.where(kept, -greatest, -np.inf).argmax(axis=1))


def zero_one(log_c: Array, radius: Array) -> Array:
    """Zero-one epistemic uncertainty of each ball, (n,): max_{p, p'} max_k p_k - p_{argmax p'}.

    The greatest q_k - q_j over the ball rises with c_k and falls with c_j. So the class j that is
    an E-admissible argmax p' and costs most is the one that is least probable at the center, and
    k is the center's first class: one direction per row.
    """
    regret = np.zeros(len(log_c))
    for rows in row_blocks(*log_c.shape):
        z = log_c[rows]
        best = z.argmax(axis=1)
        rivals = e_admissible(z, radius[rows])
        rivals[np.arange(len(z)), best] = False  # not the first class itself, but one that ties
        worst = np.where(rivals, z, np.inf).argmin(axis=1)
        each = np.flatnonzero(rivals.any(axis=1))
        first, last = best[each], worst[each]
        others = z[each].copy()
        others[np.arange(len(each)), first] = others[np.arange(len(each)), last] = -np.inf
        rest = log_sum_exp_of(others)
        three = np.column_stack([z[each, last], rest, z[each, first]])
        regret[rows][each] = support(three, np.array([-1.0, 0.0, 1.0]), radius[rows][each])
    return np.maximum(regret, 0.0)


def _shortfalls(log_c: Array, radius: Array, utility: Array) -> tuple[Mask, Array, Array]:
    """Survivors of interval dominance, and `shortfalls` between them, over balls."""
    units = action_units(utility)
    kept = interval_dominance(*expectation(log_c, radius, utility), unit=units)

    def compare(row: Indices, a: Indices, b: Indices) -> tuple[Array, Array]:
        pairs, each = np.unique(np.stack([a, b]), axis=1, return_inverse=True)
        difference = utility[pairs[1]] - utility[pairs[0]]
        z, v = of_few_values(log_c[row], difference, each.reshape(-1))
        return -support(z, -v, radius[row]), support(z, v, radius[row])

    return kept, *shortfalls(kept, compare, units, log_c.shape[1])


def _favourable(log_c: Array, radius: Array, lead: Array) -> Reply:
    """The ball's reply to a mixture of rivals: the member that most favours the action."""

    def reply(game: Indices, weights: Array) -> Array:
        ahead = lead[game]
        against = np.matmul(weights[:, None], ahead)[:, 0]
        member = extreme_member(log_c[game], -against, radius[game])
        return np.asarray(np.matmul(ahead, member[:, :, None])[:, :, 0])

    return reply


def _nearest(log_c: Array, low: Array, high: Array) -> Array:
    """(m, K) the distribution within bounds that is nearest to the center: clip(s c, low, high).

    Some distribution is within the bounds. Where a class without probability has a positive lower
    bound, what is returned has it, too, and its divergence is infinite.
    """
    m, K = log_c.shape
    rows = np.arange(m)
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.concatenate([np.log(low) - log_c, np.log(high) - log_c], axis=1)
    # Classes without probability never move; nor do lower bounds of 0 begin to.
    ends[np.isnan(ends) | np.isinf(ends)] = -np.inf
    points = np.sort(ends, axis=1)

    def at(log_s: Array) -> Array:
        return np.clip(np.exp(np.minimum(log_c + log_s[:, None], 0.0)), low, high)

    first, last = np.zeros(m, dtype=np.intp), np.full(m, 2 * K - 1)
    for _ in range((2 * K - 1).bit_length()):
        middle = (first + last) // 2
        over = at(points[rows, middle]).sum(axis=1) > 1.0
        first, last = np.where(over, first, middle), np.where(over, middle, last)
    # Between neighbouring breakpoints the same classes move with s.
    begin, end = points[rows, first], points[rows, last]
    moving = (ends[:, :K] < end[:, None]) & (ends[:, K:] > begin[:, None]) & (log_c > -np.inf)
    fixed = np.where(moving, 0.0, at(begin)).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mass = log_sum_exp_of(np.where(moving, log_c, -np.inf))
        log_s = np.clip(np.log(np.maximum(1.0 - fixed, 0.0)) - mass, begin, end)
    return at(np.where(moving.any(axis=1), log_s, end))
