"""Large label sets: the most probable classes of every row, and the mass of all the others.

The classes not listed in a row share its remaining mass evenly. All results are those of the dense
matrix of that model, but no such matrix is ever made. If the remaining mass lies on few classes in
truth, these are understated in that row: a class that matters should be listed where it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import require_same_order
from decal._base.errors import InputError, require_all
from decal._base.numerics import Array, Logits, margins, row_blocks, sigmoid
from decal._base.row_checks import SUM_TOLERANCE, real_matrix, require_finite, to_numpy
from decal._base.settings import check_count
from decal.credal import IntervalCredalSet, row_index
from decal.directions._bins import BIN_WIDTH, WIDEST_BIN, bin_budget, repeated_bins, sparse_bins
from decal.directions._class_shifts import ShiftPlan, boxes_of_shifts
from decal.directions._direction import Endpoints
from decal.directions._margins import MarginSummary, merge

SMALLEST_REMAINDER = 1e-20  # mass that the classes not listed share at least: less changes nothing
PASS_ELEMENTS = 1 << 21  # margins binned at once
NEGLIGIBLE_WEIGHT = 1e-12  # share of all weight that rounding leaves in a bin that is empty
ROWS_SHOWN, CLASSES_SHOWN = 5, 4

Indices = NDArray[np.intp]


class TopLogits:
    """The m most probable classes of every row, of K in all, instead of a matrix of K columns.

    Accepted by `fit`, `partial_fit` and `predict` of a Decalibrator with reference="model" and
    class shifts only. The classes not listed in a row share its remaining mass evenly.

    Parameters
    ----------
    values : (n, m) array
        Log-probabilities; with `remainder` given, logits up to a constant per row.
    classes : (n, m) array
        Integers 0..K-1, the classes of these values, each once in a row, in any order.
    remainder : (n,) array, optional
        log of the sum of exp over the classes not listed, in the units of `values`. By default one
        minus the probabilities listed, but no less than the round-off of `values`.
    total_classes : int
        K, more than m.

    Examples
    --------
    >>> import numpy as np, decal
    >>> top = decal.TopLogits(np.log([[0.6, 0.3], [0.5, 0.2]]), [[7, 2], [2, 9]], total_classes=10)
    >>> decal.Decalibrator(alpha=0.9).fit(top, [7, 2]).predict(top)
    TopIntervals: 2 inputs, 2 of 10 classes
      0  7 [0.299, 0.977]  2 [0.017, 0.652]  others [0.006, 0.148]
      1  2 [0.249, 0.814]  9 [0.000, 0.343]  others [0.112, 0.652]
    """

    def __init__(
        self, values: Any, classes: Any, remainder: Any = None, *, total_classes: int
    ) -> None:
        self.total_classes = check_count(total_classes, "total_classes", least=2)
        require_same_order(values=values, classes=classes, remainder=remainder)
        z = _checked_values(values, self.total_classes)
        self.classes = _checked_classes(classes, z.shape, self.total_classes)
        rest, z = _checked_remainder(remainder, z), z.astype(np.float64)
        top = np.maximum(z.max(axis=1), rest)
        listed = np.exp(z - top[:, None]).sum(axis=1)
        total = top + np.log(listed + np.exp(rest - top))
        self.log_p: Array = z - total[:, None]
        self.log_remainder: Array = np.maximum(rest - total, np.log(SMALLEST_REMAINDER))

    def __len__(self) -> int:
        return len(self.log_p)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): rows, and classes in all."""
        return len(self), self.total_classes

    @property
    def remainder_probability(self) -> Array:
        """(n,) probability of all classes not listed together."""
        return np.exp(self.log_remainder)

    def __getitem__(self, rows: Any) -> TopLogits:
        """The chosen rows: an integer, a slice, a mask or a list of integers."""
        rows = row_index(rows, len(self))
        part = TopLogits.__new__(TopLogits)
        part.total_classes, part.classes = self.total_classes, self.classes[rows]
        part.log_p, part.log_remainder = self.log_p[rows], self.log_remainder[rows]
        return part

    def dense(self) -> Array:
        """(n, K) log-probabilities of the model as decal takes it. For small ones."""
        unlisted = self.total_classes - self.classes.shape[1]
        matrix = np.empty(self.shape)
        matrix[:] = (self.log_remainder - np.log(unlisted))[:, None]
        np.put_along_axis(matrix, self.classes, self.log_p, axis=1)
        return matrix

    def events(self) -> Array:
        """(n, m + 2) log-probabilities: classes listed, one that is not, and all others if any."""
        unlisted = self.total_classes - self.classes.shape[1]
        share = self.log_remainder - np.log(unlisted)
        columns = [self.log_p, share[:, None]]
        if unlisted > 1:
            columns.append((share + np.log(unlisted - 1))[:, None])
        return np.concatenate(columns, axis=1)


def _checked_values(values: Any, count: int) -> Logits:
    """Finite (n, m) values of the m classes listed in every row, 1 <= m < count."""
    array = real_matrix(to_numpy(values, "values"), "values")
    if 0 in array.shape or array.shape[1] >= count:
        rule = f"list one or more of the {count} classes in every row, but not all"
        remedy = "Pass a matrix of all classes as logits."
        raise InputError("values", rule, f"shape {array.shape}", remedy)
    require_finite(array, "values")
    return array


def _checked_classes(classes: Any, shape: tuple[int, ...], count: int) -> Indices:
    """Integers 0..count-1 of the given shape, (n, m), none twice in a row."""
    array = to_numpy(classes, "classes")
    if array.shape != shape or array.dtype.kind not in "iu":
        rule = f"be integers of the shape of values, {shape}"
        raise InputError("classes", rule, f"shape {array.shape}, dtype {array.dtype}")
    require_all((array >= 0) & (array < count), array, "classes", f"lie in 0 to {count - 1}")
    ordered = np.sort(array, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if twice.size:
        row, column = twice[0]
        fact = f"{ordered[row, column]} twice in row {row}"
        raise InputError("classes", "be distinct in every row", fact)
    return array.astype(np.intp)


def _checked_remainder(remainder: Any, values: Logits) -> Array:
    """(n,) finite logarithms of the mass not listed; of log-probabilities `values` if None."""
    if remainder is None:
        with np.errstate(over="ignore"):
            listed = np.exp(values.astype(np.float64)).sum(axis=1)
        wrong = np.flatnonzero(listed > 1 + SUM_TOLERANCE)
        if wrong.size:
            raise InputError(
                "values",
                "be log-probabilities, if no remainder is given",
                f"a sum of {listed[wrong[0]]:.6g} in row {wrong[0]}",
                "Give the remainder, or subtract the log-sum-exp of all classes first.",
            )
        least = float(np.finfo(values.dtype).eps)
        return np.asarray(np.log(np.maximum(1.0 - listed, least)))
    array = to_numpy(remainder, "remainder")
    if array.shape != (len(values),) or array.dtype.kind not in "iuf":
        rule = f"be {len(values)} numbers, one per row of values"
        raise InputError("remainder", rule, f"shape {array.shape}, dtype {array.dtype}")
    array = array.astype(np.float64)
    advice = "It is the log of the mass of the classes not listed."
    require_all(np.isfinite(array), array, "remainder", "be finite", advice=advice)
    return array


def summarise_top(top: TopLogits, labels: Indices, weights: Array | None) -> MarginSummary:
    """The binned margins of all K classes: O(n m) time, and O(K) times the bins that rows share.

    Every class gets the margins of classes not listed first; where listed, its own replace them.
    """
    (n, K), m = top.shape, top.classes.shape[1]
    shared = np.empty(n)
    blocks, found = list(row_blocks(n, m, PASS_ELEMENTS)), []
    for rows in blocks:
        z = top[rows].events()
        each = margins(z, np.zeros(z.shape[1]))
        shared[rows] = each[m]
        found.append(each[:m])
    width = BIN_WIDTH
    while K * len(np.unique(np.floor(shared / width))) > bin_budget(K) and width < WIDEST_BIN:
        width *= 2
    zero = np.zeros(1, dtype=np.intp)
    everyone = sparse_bins(zero, shared, weights, width)
    parts = [MarginSummary.of_bins(width, *repeated_bins(*everyone, K), K)]
    for rows, listed in zip(blocks, found, strict=True):
        klass = top.classes[rows].T
        w = None if weights is None else weights[rows]
        instead = np.broadcast_to(shared[rows], listed.shape)
        keys, moments = sparse_bins(klass, instead, w, width)
        parts.append(MarginSummary.of_bins(width, keys, -moments, K))
        parts.append(MarginSummary.of_bins(width, *sparse_bins(klass, listed, w, width), K))
    whole = merge(parts, max_bins=sum(len(p.keys) for p in parts))
    label_weight = np.bincount(labels, weights, minlength=K).astype(np.float64)
    kept = whole.moments[0] > NEGLIGIBLE_WEIGHT * label_weight.sum()
    keys, moments = whole.keys[kept], whole.moments[:, kept]
    summary = MarginSummary.of_bins(width, keys, moments, K)
    return merge([replace(summary, label_weight=label_weight)])


@dataclass(frozen=True, eq=False)
class TopIntervals:
    """Probability intervals of the classes listed in each row, and of all others as one event.

    Attributes
    ----------
    classes, lower, upper, point : (n, m) arrays
        The classes listed, their intervals, and the model's own probabilities.
    others_lower, others_upper, others_point : (n,) arrays
        Of the event that none of them is true.
    total_classes : int
        K.
    """

    classes: Indices
    lower: Array
    upper: Array
    point: Array
    others_lower: Array
    others_upper: Array
    others_point: Array
    total_classes: int

    def __len__(self) -> int:
        return len(self.lower)

    def events(self) -> IntervalCredalSet:
        """Credal sets over m + 1 outcomes: the classes in the order listed, then all others as one.

        Which class is in which column differs from row to row.
        """
        stacked = [
            np.concatenate([listed, others[:, None]], axis=1)
            for listed, others in (
                (self.lower, self.others_lower),
                (self.upper, self.others_upper),
                (self.point, self.others_point),
            )
        ]
        names = [*(f"listed {i}" for i in range(self.lower.shape[1])), "others"]
        return IntervalCredalSet(*stacked[:2], point=stacked[2], classes=names)

    def __repr__(self) -> str:
        n, m = self.lower.shape
        lines = [
            f"TopIntervals: {n:,} input{'s' * (n != 1)}, {m} of {self.total_classes:,} classes"
        ]
        for i in range(min(n, ROWS_SHOWN)):
            order = np.argsort(-self.point[i], kind="stable")[:CLASSES_SHOWN]
            shown = [
                f"{self.classes[i, j]} [{self.lower[i, j]:.3f}, {self.upper[i, j]:.3f}]"
                for j in order
            ]
            shown += ["…"] * (m > CLASSES_SHOWN)
            shown.append(f"others [{self.others_lower[i]:.3f}, {self.others_upper[i]:.3f}]")
            lines.append(f"  {i}  " + "  ".join(shown))
        return "\n".join([*lines, *([f"  … {n - ROWS_SHOWN} more"] * (n > ROWS_SHOWN))])


def top_box(top: TopLogits, lower: Array, upper: Array, *, joint: bool) -> TopIntervals:
    """The range of every listed probability, and of all others together, as `shift_box` has it."""
    n, m = top.classes.shape
    low, high, point = (np.empty((n, m)) for _ in range(3))
    others_low, others_high = np.empty(n), np.empty(n)
    # Of the classes not listed, all have the same probability: the one that moves furthest counts.
    furthest_up = _first_unlisted(top.classes, np.argsort(-upper, kind="stable"))
    furthest_down = _first_unlisted(top.classes, np.argsort(lower, kind="stable"))
    for rows in row_blocks(n, m + 1):
        part = top[rows]
        z = part.events()
        each = margins(z, np.zeros(z.shape[1])).T
        down, up = np.zeros((2, *z.shape))  # of all others but one, no shift is asked for
        down[:, :m], up[:, :m] = lower[part.classes], upper[part.classes]
        down[:, m], up[:, m] = lower[furthest_down[rows]], upper[furthest_up[rows]]
        plan = ShiftPlan.of(Endpoints(down, up, np.zeros(z.shape[1]), None, 0.0))
        found = boxes_of_shifts(z, plan, joint=joint)
        low[rows], high[rows], point[rows] = (bound[:, :m] for bound in found)
        # The others: odds of r - q + q e^t to 1 - r, when one of them, of probability q, moves by t
        log_listed = np.logaddexp.reduce(z[:, :m], axis=1)
        still = z[:, m + 1] if z.shape[1] > m + 1 else np.full(len(z), -np.inf)
        extremes = [
            sigmoid(np.logaddexp(still, z[:, m] + t[:, m]) - log_listed) for t in (down, up)
        ]
        r = sigmoid(part.log_remainder - log_listed)
        if joint:  # r / D, when a listed class moves
            log_p, log_rest = -np.logaddexp(0.0, -each[:, :m]), -np.logaddexp(0.0, each[:, :m])
            most = np.logaddexp(log_rest, log_p + up[:, :m]).max(axis=1)
            least = np.logaddexp(log_rest, log_p + down[:, :m]).min(axis=1)
            extremes[0] = np.minimum(extremes[0], r * np.exp(-np.maximum(most, 0.0)))
            extremes[1] = np.maximum(extremes[1], r * np.exp(-np.minimum(least, 0.0)))
        others_low[rows] = np.minimum(extremes[0], r)
        others_high[rows] = np.minimum(np.maximum(extremes[1], r), 1.0)
    others = others_low, others_high, top.remainder_probability
    return TopIntervals(top.classes, low, high, point, *others, top.total_classes)


def _first_unlisted(classes: Indices, order: Indices) -> Indices:
    """(n,) the first class of `order` that a row of `classes` (n, m) does not hold."""
    found = np.full(len(classes), -1, dtype=np.intp)
    left = np.arange(len(classes))
    for candidate in order:  # at most m + 1 of them
        listed = (classes[left] == candidate).any(axis=1)
        found[left[~listed]] = candidate
        left = left[listed]
        if not left.size:
            break
    return found
