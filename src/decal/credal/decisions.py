"""Decisions from boxes of probabilities: which actions survive, or which one to take.

A box holds the distributions p with lower <= p <= upper and sum p = 1; `lower` and `upper` are
(n, K), not empty, and tightened: every bound is reached by some distribution. An action a earns
U[a, k] if the class is k; without a utility matrix (A, K), actions are classes and a correct one
earns 1: 0/1 loss. `decal.IntervalCredalSet.decide` checks and tightens first.

Rules that keep a set of actions, an (n, A) mask, from the most to the least generous:

* interval dominance: drop a if some b earns, at worst, more than a does at best;
* maximality: drop a if some b earns more than a under every distribution;
* E-admissibility: drop a if it is optimal under no distribution.

And three for classes alone: `majority`, which leaves fewer of many, "ordered_majority", which
leaves an interval of classes that have an order (see `CredalSet.decide`), and "node", the classes
of the most specific node of a tree that is sure (`decal.credal._class_tree`).

Rules that take one action, (n,) indices: Gamma-maximin, Gamma-maximax, Hurwicz and minimax regret.

Ties: rules that take one action take the first of those that are equal, as computed. Rules that
keep a set use closed inequalities with a tolerance (TIE_TOLERANCE times the largest absolute
utility of the two actions compared), so that round-off never drops an action that ties with the
best, and an action that may be a catastrophe does not blur the choice among the others.

A new rule is one function and one line in a table: in `RANGE_RULES` if it sees only the range of
each action's expected utility, which serves every kind of credal set; otherwise in `BOX_RULES`
here, and in the tables of the other kinds in `decal.credal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from decal._base.games import Reply, bracket_values
from decal._base.numerics import Array, Indices, Mask, row_blocks
from decal._base.settings import check_alpha, check_choice, check_count

__all__ = [
    "abstention_utility",
    "decide",
    "e_admissible",
    "expectation",
    "hurwicz",
    "interval_dominance",
    "majority",
    "maximality",
    "minimax_regret",
    "probability",
]

Unit = float | Array

CLASS_RULES = ("majority", "ordered_majority", "node")
"""Rules that keep a set of classes, whatever actions earn."""

SET_RULES = ("interval_dominance", "maximality", "e_admissible", *CLASS_RULES)
"""Rules that keep a set of actions; all others take one."""

HEAD_RULES = ("e_admissible", "interval_dominance", *CLASS_RULES)
"""Set rules that heads for PyTorch and ONNX know."""

TIE_TOLERANCE = 1e-12
"""Difference in expected utility, relative to the largest utility of two actions, that counts as a
tie."""

ADMISSIBLE_TOLERANCE = 1e-9
"""Shortfall that counts as a tie where a game is solved, relative to twice that largest utility:
E-admissibility with a utility matrix, or over a hull. The game may add GAME_TOLERANCE."""

GAME_ELEMENTS = 1 << 18
"""Numbers that a block of games may hold: many games, for they pivot in step."""

EXPECTATION_ELEMENTS = 1 << 20
"""Bounds read at once by `expectation`: many rows, for it loops over actions in Python."""


def decide(
    lower: Array, upper: Array, rule: str, *, utility: Array | None = None, optimism: float = 0.5
) -> Mask | Indices:
    """Actions that a rule keeps, (n, A) bool, or the one that it takes, (n,) int, for every box.

    Parameters
    ----------
    lower, upper : (n, K) arrays
        Reachable bounds of non-empty boxes.
    rule : str
        One of `RULES`. The set rules return a mask.
    utility : (A, K) array, optional
        Finite utilities of A actions. Without it, 0/1 loss: actions are classes.
    optimism : float in [0, 1]
        Weight of the best case, for rule "hurwicz" only.

    Examples
    --------
    >>> lower, upper = np.array([[0.2, 0.1, 0.0]]), np.array([[0.8, 0.7, 0.15]])
    >>> decide(lower, upper, "e_admissible")
    array([[ True,  True, False]])
    >>> decide(lower, upper, "e_admissible", utility=abstention_utility(3, cost=0.6))
    array([[ True,  True, False, False]])
    """
    check_choice(rule, "rule", RULES)
    optimism = check_alpha(optimism, "optimism")
    if rule in BOX_RULES:
        return BOX_RULES[rule](lower, upper, utility)
    utility = None if utility is None else scaled(utility)
    worst, best = (lower, upper) if utility is None else expectation(lower, upper, utility)
    return RANGE_RULES[rule](worst, best, optimism, action_units(utility))


def interval_dominance(worst: Array, best: Array, *, unit: Unit = 1.0) -> Mask:
    """Actions whose best case reaches every other action's worst case: (n, A) bool.

    `worst` and `best` are (n, A); under 0/1 loss the box itself. TIE_TOLERANCE is relative to
    `unit`, the largest absolute utility, of all actions or (A,) of each. Never empty: the action
    with the best worst case is in it. O(A) per row.
    """
    tie = TIE_TOLERANCE / 2.0 * np.asarray(unit)  # of each of two actions
    floor: Array = (worst - tie).max(axis=-1, keepdims=True)
    return best + tie >= floor


def majority(upper: Array, point: Array | None = None) -> Mask:
    """Classes that may have a probability of one half, and the most probable one: (n, K) bool.

    The most probable one is that of the `point`; without one, that of the greatest upper bound.
    """
    kept: Mask = upper >= 0.5 - TIE_TOLERANCE
    best = (upper if point is None else point).argmax(axis=1)
    kept[np.arange(len(kept)), best] = True
    return kept


def hurwicz(worst: Array, best: Array, optimism: float) -> Indices:
    """The action with the best compromise optimism · best + (1 - optimism) · worst: (n,) int.

    optimism = 0 is Gamma-maximin, optimism = 1 is Gamma-maximax. `worst` and `best` are (n, A).
    """
    optimism = check_alpha(optimism, "optimism")
    return _first_largest(optimism * best + (1.0 - optimism) * worst)


def maximality(lower: Array, upper: Array, utility: Array | None = None) -> Mask:
    """Actions that no other action beats under every distribution of the box: (n, A) bool.

    Action a stays if, for each b, the least expectation of U_b - U_a is at most 0. Under 0/1 loss
    this is interval dominance: p_b can be at its lower bound while p_a is at its upper bound,
    because both bounds are reachable. O(K) per row then; with a utility, O(K log K) per pair of
    actions that interval dominance keeps.

    Examples
    --------
    Betting on heads and not betting at all overlap, but not betting is better whatever the coin:

    >>> coin = np.array([[0.1, 0.1]]), np.array([[0.9, 0.9]])
    >>> maximality(*coin, utility=np.array([[1.0, -0.5], [1.1, -0.4]]))
    array([[False,  True]])
    """
    if utility is None:
        return interval_dominance(lower, upper)
    kept, least, _ = _box_shortfalls(lower, upper, utility)
    return kept & (least <= TIE_TOLERANCE)


def minimax_regret(lower: Array, upper: Array, utility: Array | None = None) -> Indices:
    """The action that can turn out least inferior to the best one: (n,) int.

    It minimises max_b upper expectation of U_b - U_a. Under 0/1 loss that is max(0, max_{j != k}
    upper_j - lower_k), again because two bounds are reached together. The minimiser is maximal (an
    action that beats a everywhere has less regret) and so is the best reply b, so only actions that
    survive interval dominance are compared. Cost as for `maximality`.

    Examples
    --------
    >>> minimax_regret(np.array([[0.1, 0.2, 0.3]]), np.array([[0.5, 0.3, 0.4]]))
    array([2])
    """
    if utility is None:
        second, first = np.partition(upper, -2, axis=1)[:, -2:].T
        rival = np.where(upper == first[:, None], second[:, None], first[:, None])
        return _first_largest(np.minimum(lower - rival, 0.0))
    kept, _, greatest = _box_shortfalls(lower, upper, utility)
    return _first_largest(np.where(kept, -greatest, -np.inf))


def e_admissible(lower: Array, upper: Array, utility: Array | None = None) -> Mask:
    """Actions that are optimal under at least one distribution of the box: (n, A) bool.

    Under 0/1 loss class k is the most probable one somewhere in the box iff its upper bound reaches
    tau, the smallest maximum that a distribution of the box can have. O(K) per row.

    With a utility, action a is admissible iff max_p min_b E_p(U_a - U_b) >= 0. Only maximal actions
    can be, and only they need be compared: at any p some maximal action is best. What is left is a
    matrix game between a mixture of rivals and a distribution of the box, whose best reply to a
    mixture is a fractional knapsack. Games are solved in blocks, most of them in one step.

    Examples
    --------
    A hedge can be maximal and yet never optimal:

    >>> box = np.array([[0.2, 0.2]]), np.array([[0.8, 0.8]])
    >>> hedge = np.array([[1.0, 0.0], [0.0, 1.0], [0.45, 0.45]])
    >>> maximality(*box, utility=hedge)
    array([[ True,  True,  True]])
    >>> e_admissible(*box, utility=hedge)
    array([[ True,  True, False]])
    """
    if utility is None:
        return upper >= smallest_maximum(lower, upper)[:, None] - TIE_TOLERANCE
    utility = scaled(utility)
    kept = maximality(lower, upper, utility)
    admissible = kept.copy()
    for row, action, rivals in contested(kept, utility.size):
        reply = _favourable(lower[row], upper[row], leads(utility, action, rivals))
        shortfall, _ = bracket_values(reply, *rivals.shape, threshold=ADMISSIBLE_TOLERANCE)
        admissible[row, action] = shortfall < ADMISSIBLE_TOLERANCE
    return admissible


RangeRule = Callable[[Array, Array, float, Unit], Mask | Indices]
"""Of worst and best (n, A), optimism and the largest utilities: what the rule keeps or takes."""

BoxRule = Callable[[Array, Array, Array | None], Mask | Indices]
"""Of lower and upper (n, K) and a utility (A, K): what the rule keeps or takes."""

RANGE_RULES: dict[str, RangeRule] = {
    "interval_dominance": lambda worst, best, _, unit: interval_dominance(worst, best, unit=unit),
    "gamma_maximin": lambda worst, *_: _first_largest(worst),
    "gamma_maximax": lambda _worst, best, *_: _first_largest(best),
    "hurwicz": lambda worst, best, optimism, _: hurwicz(worst, best, optimism),
}
"""Rules that only see the range of each action's expected utility: the same for all credal sets."""

BOX_RULES: dict[str, BoxRule] = {
    "maximality": maximality,
    "e_admissible": e_admissible,
    "minimax_regret": minimax_regret,
}
"""All other rules, for boxes."""

RULES = (*RANGE_RULES, *BOX_RULES)
"""The names of all rules, which are the same for every kind of credal set."""


def smallest_maximum(lower: Array, upper: Array) -> Array:
    """Least probability that the most probable class can have: min over p of max_k p_k.

    It is the larger of max_k lower_k and of the level t at which sum_k min(upper_k, t) = 1.
    Class k can be a most probable one iff upper_k reaches it. O(K log K) time per row.
    """
    smallest = np.empty(len(upper))
    for rows in row_blocks(*upper.shape):
        smallest[rows] = smallest_maximum_of_sorted(lower[rows], np.sort(upper[rows], axis=1))
    return smallest


def smallest_maximum_of_sorted(lower: Array, ascending: Array) -> Array:
    """`smallest_maximum` of boxes whose upper bounds come sorted."""
    K = lower.shape[1]
    before = np.cumsum(ascending, axis=1) - ascending
    # Whatever k, leaving all but the k narrowest classes uncapped only adds mass: each of these
    # levels is too low, except the right one.
    level = (1.0 - before) / np.arange(K, 0, -1)
    return np.asarray(np.maximum(level.max(axis=1), lower.max(axis=1)))


def expectation(lower: Array, upper: Array, values: Array) -> tuple[Array, Array]:
    """Least and greatest expectation of values (K,) or (A, K), over each box: (n,) or (n, A) each.

    A fractional knapsack: beyond the lower bounds, mass goes to the cheapest classes first (or the
    dearest). The order depends on the values alone, so it is sorted once for all rows, and the
    classes that share the commonest value act as one: O(classes off the commonest value) per row
    and function. Does not need tightened bounds.

    Examples
    --------
    >>> lower, upper = np.array([[0.2, 0.1, 0.0]]), np.array([[0.8, 0.7, 0.15]])
    >>> least, greatest = expectation(lower, upper, np.array([0.0, 1.0, 2.0]))
    >>> float(least[0].round(12)), float(greatest[0].round(12))
    (0.2, 0.95)
    """
    return in_range(lambda v: _expectation(lower, upper, v), np.asarray(values, dtype=np.float64))


def in_range(
    expectation_of: Callable[[Array], tuple[Array, Array]], values: Array
) -> tuple[Array, Array]:
    """Least and greatest expectations of values of any size: neither overflows nor exceeds them."""
    v = scaled(values)
    low, high = v.min(axis=-1), v.max(axis=-1)
    least, greatest = (np.clip(bound, low, high) for bound in expectation_of(v))
    exponent = exponent_of(values)
    return np.ldexp(least, exponent), np.ldexp(greatest, exponent)


def _expectation(lower: Array, upper: Array, values: Array) -> tuple[Array, Array]:
    """`expectation` of values that cannot overflow."""
    table = np.atleast_2d(values)
    least = np.empty((len(lower), len(table)))
    greatest = np.empty_like(least)
    plans = [_plan(v) for v in table]
    for rows in row_blocks(len(lower), lower.shape[1], EXPECTATION_ELEMENTS):
        lo, hi = lower[rows], upper[rows]
        sum_lo, sum_hi = lo.sum(axis=1, keepdims=True), hi.sum(axis=1, keepdims=True)
        for a, (before, after, v) in enumerate(plans):
            least[rows, a], greatest[rows, a] = _range(
                _merge(lo, sum_lo, before, after), _merge(hi, sum_hi, before, after), v
            )
    return (least, greatest) if values.ndim == 2 else (least[:, 0], greatest[:, 0])


def probability(lower: Array, upper: Array, event: ArrayLike) -> tuple[Array, Array]:
    """Least and greatest probability of an event, (K,) bool, over each box: (n,) each.

    max(lower(B), 1 - upper(not B)) and min(upper(B), 1 - lower(not B)).

    Examples
    --------
    >>> lower, upper = np.array([[0.2, 0.1, 0.0]]), np.array([[0.8, 0.7, 0.15]])
    >>> least, greatest = probability(lower, upper, [True, False, True])
    >>> float(least[0].round(12)), float(greatest[0].round(12))
    (0.3, 0.9)
    """
    return as_probabilities(
        *expectation(lower, upper, np.asarray(event, dtype=bool).astype(np.float64))
    )


def as_probabilities(least: Array, greatest: Array) -> tuple[Array, Array]:
    """Bounds of a probability put between 0 and 1, and in order, against round-off."""
    least = np.clip(least, 0.0, 1.0)
    return least, np.clip(greatest, least, 1.0)


def abstention_utility(n_classes: int, *, cost: float) -> Array:
    """Utilities of naming a class, or abstaining: (K + 1, K), the last action abstains.

    Naming the right class earns 1, a wrong one 0, and abstaining 1 - cost whatever the class. With
    one distribution, abstaining is right iff the largest probability is below 1 - cost.

    Parameters
    ----------
    n_classes : int
        K, at least 2.
    cost : float in [0, 1]
        Of abstaining, where an error costs 1.

    Examples
    --------
    >>> abstention_utility(2, cost=0.25)
    array([[1.  , 0.  ],
           [0.  , 1.  ],
           [0.75, 0.75]])
    """
    K = check_count(n_classes, "n_classes", least=2)
    return np.vstack([np.eye(K), np.full(K, 1.0 - check_alpha(cost, "cost"))])


def exponent_of(values: Array) -> int:
    """The power of two just above all absolute values."""
    return int(np.frexp(np.abs(values).max())[1])


def scaled(values: Array) -> Array:
    """Values over a power of two, which changes no digit: below 1, so no difference overflows."""
    return np.asarray(np.ldexp(values, -exponent_of(values)))


def action_units(utility: Array | None) -> Array:
    """(A,) largest absolute utility of each action, a unit of tolerances; [1] for 0/1 loss."""
    return np.ones(1) if utility is None else np.abs(utility).max(axis=1)


def pair_units(units: Array, one: Indices, other: Indices) -> Array:
    """Largest absolute utility of each pair of actions; 1 where it is 0."""
    unit = np.maximum(units[one], units[other])
    return np.where(unit > 0.0, unit, 1.0)


def leads(utility: Array, action: Indices, rivals: Indices) -> Array:
    """(m, R, K) what rivals (m, R) earn beyond actions (m,), in units that make it [-1, 1]."""
    unit = pair_units(action_units(utility), action[:, None], rivals)
    return (utility[rivals] - utility[action][:, None]) / (2.0 * unit[:, :, None])


def shortfalls(
    kept: Mask,
    compare: Callable[[Indices, Indices, Indices], tuple[Array, Array]],
    units: Array,
    width: int,
) -> tuple[Array, Array]:
    """How far each kept action falls short of a rival, at least and at most: (n, A) each.

    least[a] is the greatest lower expectation of U_b - U_a over kept actions b, relative to the
    largest utility of the two; greatest[a] is the greatest upper one. b = a is among them, so
    neither is negative. `compare` gives the range of the expectation of U_b - U_a for rows, actions
    a and rivals b, (m,) each, and holds `width` numbers per pair; `units` (A,) as `action_units`.
    """
    least = np.zeros(kept.shape)
    greatest = np.zeros(kept.shape)
    rows, actions = np.nonzero(kept)
    # Kept action i is compared with those after it in its row; the range of U_a - U_b is the mirror
    # image. Pairs are numbered through, so that blocks need not respect rows.
    later = np.cumsum(kept.sum(axis=1))[rows] - np.arange(1, len(rows) + 1)
    last = np.cumsum(later)
    for block in row_blocks(int(later.sum()), width):
        pair = np.arange(block.start, block.stop)
        i = np.searchsorted(last, pair, side="right")
        j = i + 1 + pair - (last[i] - later[i])
        row, a, b = rows[i], actions[i], actions[j]
        low, high = compare(row, a, b)
        unit = pair_units(units, a, b)
        np.maximum.at(least, (row, a), low / unit)
        np.maximum.at(least, (row, b), -high / unit)
        np.maximum.at(greatest, (row, a), high)
        np.maximum.at(greatest, (row, b), -low)
    return least, greatest


def contested(kept: Mask, width: int) -> Iterator[tuple[Indices, Indices, Indices]]:
    """Blocks of kept actions that have kept rivals: rows (m,), actions (m,), rivals (m, R).

    R is the largest number of kept actions in the block, from many to few over the blocks. Rivals
    are padded with the action itself, against which nothing is won or lost. `width` numbers per
    action, and R², size the blocks.
    """
    counts = kept.sum(axis=1)
    rows, actions = np.nonzero(kept & (counts > 1)[:, None])
    if not len(rows):
        return
    order = np.argsort(-counts[rows], kind="stable")
    size = np.cumsum(width + counts[rows[order]] ** 2)
    for block in np.split(order, np.flatnonzero(np.diff(size // GAME_ELEMENTS)) + 1):
        row, action = rows[block], actions[block]
        count = counts[row][:, None]
        first = np.argsort(~kept[row], axis=1, kind="stable")[:, : count.max()]
        yield row, action, np.where(np.arange(first.shape[1]) < count, first, action[:, None])


def _box_shortfalls(lower: Array, upper: Array, utility: Array) -> tuple[Mask, Array, Array]:
    """Survivors of interval dominance, and `shortfalls` between them, over boxes."""
    utility = scaled(utility)
    units = action_units(utility)
    kept = interval_dominance(*expectation(lower, upper, utility), unit=units)

    def compare(row: Indices, a: Indices, b: Indices) -> tuple[Array, Array]:
        difference = utility[b] - utility[a]
        order = np.argsort(difference, axis=1)
        lo, hi, v = (
            np.take_along_axis(x, order, axis=1) for x in (lower[row], upper[row], difference)
        )
        return _range(lo, hi, v)

    return kept, *shortfalls(kept, compare, units, lower.shape[1])


def _favourable(lower: Array, upper: Array, lead: Array) -> Reply:
    """The box's reply to a mixture of rivals: the distribution that most favours the action."""

    def reply(game: Indices, weights: Array) -> Array:
        ahead = lead[game]
        order = np.argsort(np.matmul(weights[:, None], ahead)[:, 0], axis=1)
        p = np.empty(order.shape)
        p[np.arange(len(game))[:, None], order] = _fill(
            lower[game[:, None], order], upper[game[:, None], order]
        )
        return np.asarray(np.matmul(ahead, p[:, :, None])[:, :, 0])

    return reply


def _first_largest(scores: Array) -> Indices:
    """Index of the largest score in each row, the first of equals."""
    index: Indices = scores.argmax(axis=1)
    return index


def _range(lower: Array, upper: Array, values: Array) -> tuple[Array, Array]:
    """Least and greatest expectation of values that ascend along the classes."""
    least: Array = (_fill(lower, upper) * values).sum(axis=1)
    dearest_first = _fill(lower[:, ::-1], upper[:, ::-1])
    greatest: Array = (dearest_first * values[..., ::-1]).sum(axis=1)
    return least, greatest


def _fill(lower: Array, upper: Array) -> Array:
    """The distribution of each box with most mass on its first class, then on its second, ..."""
    spare: Array = np.maximum(1.0 - lower.sum(axis=1, keepdims=True), 0.0)
    taken = np.minimum(np.cumsum(upper - lower, axis=1), spare)
    taken[:, 1:] -= taken[:, :-1].copy()
    return lower + taken


def _plan(values: Array) -> tuple[Indices, Indices, Array]:
    """Classes below and above the commonest value, ascending, and all values with it merged."""
    order = np.argsort(values, kind="stable")
    v = values[order]
    start = np.flatnonzero(np.diff(v, prepend=-np.inf))
    stop = np.append(start[1:], len(v))
    run = (stop - start).argmax()
    before, after = order[: start[run]], order[stop[run] :]
    return before, after, np.concatenate([v[: start[run]], v[start[run], None], v[stop[run] :]])


def _merge(bound: Array, total: Array, before: Indices, after: Indices) -> Array:
    """Bounds in the order of `_plan`, those of the merged classes added up."""
    below, above = bound.take(before, axis=1), bound.take(after, axis=1)
    rest = total - below.sum(axis=1, keepdims=True) - above.sum(axis=1, keepdims=True)
    return np.concatenate([below, rest, above], axis=1)
