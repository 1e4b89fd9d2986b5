"""How sure a model is of rows, and how often it is right: small sums that add up over chunks.

They tell of labels that do not belong to their logits, and of new inputs unlike the labelled ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputWarning
from decal._base.numerics import Array, Logits, row_blocks, sigmoid

ROWS_COMPARED = 10_000
"""Rows that are looked at, at most, evenly spaced: more would make trifles significant."""

LOGITS_COMPARED = 1 << 24  # logits that are looked at, at most: where classes are many, fewer rows

BINS = 384
LOWEST, BIN_WIDTH = -12.0, 0.125
"""Log-odds of the largest probability are counted in BINS bins of this width, from LOWEST on."""

BUCKETS = 32  # classes are told apart up to this number; of more, every BUCKETS-th shares a bucket
FEWEST_ROWS = 30  # fewer rows prove nothing

FAR_BELOW_CHANCE = 6.0
"""Standard errors below 1 / K at which labels contradict the logits, however unsure these are."""

FAR_ABOVE = 0.15
"""By how much the mean confidence exceeds the accuracy if the labels seem to be of other rows."""

ABOVE_CHANCE = 4.0
"""Standard errors above what shuffling gives at which labels do go with the logits..."""

CLAIMED = 1 / 3, 3.0
"""...as do those that may have this share of the gain claimed, within so many standard errors."""

DEPENDENT = 6.0
"""Standard deviations at which labels do depend on predictions, if not as they should."""

FEWEST_NEW_ROWS = 100
"""So many new rows are compared with the labelled ones..."""

UNLIKE = 1e-3
"""...and are unlike them if they differ so much with at most this probability by chance."""

REORDERED = 0.75
"""Share of the gain claimed that another order of the columns must give to be the explanation."""


@dataclass(frozen=True, eq=False)
class Confidences:
    """What is kept of labelled or new rows.

    Tables are of the class predicted and the label, both modulo B. There is one; or one for each of
    the labels, of which an input may have several. The sums are that of squared weights, which
    tells how many equal rows these are worth; the weight of the rows predicted right, ties counted
    as right; the sum of the largest probabilities; and that of the squared weights of units, such
    as images, whose rows are alike.
    """

    histogram: Array  # (BINS,) weight of the rows by the log-odds of their largest probability
    tables: Array  # (G, B, B) weights
    sums: Array  # (4,)

    @classmethod
    def of(
        cls,
        logits: Any,
        labels: NDArray[np.intp] | None = None,
        weights: Array | None = None,
        units: NDArray[Any] | None = None,
    ) -> Self:
        """Of logits (n, K) or TopLogits, n >= 1; without labels, all rows count as right.

        Rows of one of the units (n,), such as an image, are no independent evidence.
        """
        n, K = logits.shape
        counted = np.arange(n) if weights is None else np.flatnonzero(weights)
        columns = logits.classes.shape[1] if hasattr(logits, "classes") else K
        some = counted[_evenly(len(counted), max(FEWEST_NEW_ROWS, LOGITS_COMPARED // columns))]
        y = None if labels is None else labels[some]
        blocks = [
            _largest(logits[some[rows]], None if y is None else y[rows])
            for rows in row_blocks(len(some), columns)
        ]
        predicted, right, log_odds = (np.concatenate(part) for part in zip(*blocks, strict=True))
        w = np.ones(len(some)) if weights is None else weights[some]
        w = w * ((n if weights is None else weights.sum()) / w.sum())
        y = predicted if y is None else y
        found = cls._counted(predicted, y, right, log_odds, w, K)
        if units is not None:
            of_units = np.bincount(np.unique(units[some], return_inverse=True)[1], w)
            found.sums[3] = of_units @ of_units
        return found

    @classmethod
    def of_answers(cls, logits: Logits, answers: NDArray[np.int8], weights: Array | None) -> Self:
        """Of multi-label data: logits (n, L), and 1, 0 or, where unknown, -1."""
        some = _evenly(len(answers), LOGITS_COMPARED // answers.shape[1])
        row, label = np.nonzero(answers[some] >= 0)
        row = some[row]
        z, y = logits[row, label].astype(np.float64), answers[row, label].astype(np.intp)
        w = np.ones(len(row)) if weights is None else weights[row]
        predicted = (z > 0.0).astype(np.intp)
        right = (predicted == y) | (z == 0.0)
        return cls._counted(predicted, y, right, np.abs(z), w, 2, label, answers.shape[1])

    @classmethod
    def _counted(
        cls,
        predicted: NDArray[np.intp],
        labels: NDArray[np.intp],
        right: NDArray[np.bool_],
        log_odds: Array,
        weights: Array,
        classes: int,
        group: Any = 0,
        groups: int = 1,
    ) -> Self:
        B = min(classes, BUCKETS)
        bins = np.clip((log_odds - LOWEST) / BIN_WIDTH, 0, BINS - 1).astype(np.intp)
        cell = (group * B + predicted % B) * B + labels % B
        squares = weights @ weights
        return cls(
            _sums(bins, weights, BINS),
            _sums(cell, weights, groups * B * B).reshape(groups, B, B),
            np.array([squares, weights[right].sum(), weights @ sigmoid(log_odds), squares]),
        )

    def __add__(self, other: Confidences) -> Confidences:
        return Confidences(
            self.histogram + other.histogram, self.tables + other.tables, self.sums + other.sums
        )

    @property
    def weight(self) -> float:
        """Of all rows."""
        return float(self.histogram.sum())

    @property
    def rows(self) -> float:
        """How many rows of equal weight are worth as much."""
        return self.weight**2 / float(self.sums[0]) if self.weight else 0.0

    @property
    def units(self) -> float:
        """How many units of equal weight are worth as much; without any, rows."""
        return self.weight**2 / float(self.sums[3])

    @property
    def accuracy(self) -> float:
        """Share of the rows predicted right."""
        return float(self.sums[1]) / self.weight

    @property
    def mean(self) -> float:
        """Mean of the largest probabilities."""
        return float(self.sums[2]) / self.weight

    # Labels and logits that do not belong together

    def warn_of_other_order(self, classes: int | None) -> bool:
        """Warn, and say so, if labels and logits seem to be in different orders."""
        if not self.in_other_order(classes):
            return False
        agree, sure = f"{self.accuracy:.0%}", f"{self.mean:.0%}"
        InputWarning.warn(
            f"labels agree with the largest logit in {agree} of {self.rows:,.0f} rows, though the "
            f"model is {sure} sure on average, as if they were of other rows or columns. Are the "
            "columns of logits in the order of the labels? And the rows? A loader that shuffles "
            "gives another order at every pass: take logits and labels from the same pass."
        )
        return True

    def in_other_order(self, classes: int | None) -> bool:
        """Whether labels agree far more rarely than in 1 / K of the rows, or as if shuffled.

        K is None for several labels per input, whose sign may be a matter of threshold.

        Shuffling keeps the frequencies of labels and of predictions, which give the expected
        agreement and its variance (Hoeffding 1951). The gain over it that the model claims is that
        of its confidence, or of what these frequencies allow if that is less. A model that always
        predicts one class claims none, and one that is not sure claims too little to miss. Where
        labels do depend on predictions, the rows belong together, and the model knows little:
        unless another order of the columns would give what it claims.
        """
        if classes is not None:
            error = np.sqrt((1 - 1 / classes) / classes / self.rows)
            if self.accuracy < 1 / classes - FAR_BELOW_CHANCE * error:
                return True
        n = self.rows / len(self.tables)
        if n < FEWEST_ROWS or self.mean - self.accuracy < FAR_ABOVE:
            return False
        tables = self.tables * (self.rows / self.weight)
        sizes = tables.sum(axis=(1, 2))
        tables, sizes = tables[sizes > 1], sizes[sizes > 1]
        p, q = tables.sum(axis=2) / sizes[:, None], tables.sum(axis=1) / sizes[:, None]
        chance = (p * q).sum(axis=1)
        variance = chance - (p * q * (p + q)).sum(axis=1) + chance**2
        error = np.sqrt(np.maximum(variance, 0.0) * sizes**2 / (sizes - 1)).sum()
        by_chance = (sizes * chance).sum()
        possible = (sizes * np.minimum(p, q).sum(axis=1)).sum()
        gain = min(self.mean * sizes.sum(), possible) - by_chance
        excess = np.trace(tables, axis1=1, axis2=2).sum() - by_chance
        share, errors = CLAIMED
        if excess >= min(ABOVE_CHANCE * error, share * gain - errors * error):
            return False
        if self.tables.shape[1] == BUCKETS or not _dependent(tables, p, q, sizes):
            return True
        from scipy.optimize import linear_sum_assignment

        best = sum(table[linear_sum_assignment(-table)].sum() for table in tables)
        return bool(best - by_chance > REORDERED * gain)

    # New rows unlike the labelled ones

    def p_value(self, other: Confidences) -> float:
        """Of the Kolmogorov-Smirnov test that both have the same distribution of confidences.

        Bins hide some of the difference, so it is an upper bound.
        """
        from scipy.special import kolmogorov

        n, m = (min(each.units, ROWS_COMPARED) for each in (self, other))
        return float(kolmogorov(self.distance(other) * np.sqrt(n * m / (n + m))))

    def distance(self, other: Confidences) -> float:
        """The largest difference of the two distribution functions, at the edges of bins."""
        shares = (np.cumsum(each.histogram) / each.weight for each in (self, other))
        return float(np.abs(np.subtract(*shares)).max())

    # Keeping

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays."""
        return {"histogram": self.histogram, "tables": self.tables, "sums": self.sums}

    @classmethod
    def restore(cls, arrays: dict[str, NDArray[Any]], classes: int) -> Self:
        """From such arrays of K classes; ValueError if they cannot be."""
        found = cls(**{name: np.asarray(array, np.float64) for name, array in arrays.items()})
        if found.sums.shape == (3,):  # as older files have it, which knew of no units
            found = replace(found, sums=np.append(found.sums, found.sums[0]))
        B = min(classes, BUCKETS)
        shapes = found.histogram.shape, found.tables.shape, found.sums.shape
        if shapes != ((BINS,), (1, B, B), (4,)):
            raise ValueError(f"confidences must be of {classes} classes: got shapes {shapes}")
        if any(not np.all((array >= 0) & (array < np.inf)) for array in found.arrays().values()):
            raise ValueError("confidences must be counts")
        if not (found.weight > 0 and found.sums[0] > 0 and found.sums[3] > 0):
            raise ValueError("confidences must be of some rows")
        return found


def _sums(cells: NDArray[np.intp], weights: Array, count: int) -> Array:
    return np.bincount(cells, weights, minlength=count).astype(np.float64)


def _evenly(rows: int, most: int) -> NDArray[np.intp]:
    """All row numbers, or as many of them as are compared."""
    return np.linspace(0, rows - 1, min(rows, most, ROWS_COMPARED)).astype(np.intp)


def _largest(
    logits: Any, labels: NDArray[np.intp] | None
) -> tuple[NDArray[np.intp], NDArray[np.bool_], Array]:
    """(n,) the class of the largest logit, whether the label's is as large, and its log-odds."""
    top = hasattr(logits, "events")  # TopLogits: the columns listed, then events that are no class
    z = np.asarray(logits.events() if top else logits, dtype=np.float64)
    listed = z[:, : logits.classes.shape[1]] if top else z
    each, column = np.arange(len(z)), listed.argmax(axis=1)
    highest = listed[each, column]
    predicted = logits.classes[each, column] if top else column
    if labels is None:
        right = np.ones(len(z), dtype=np.bool_)
    elif top:
        wanted = logits.classes == labels[:, None]
        right = (wanted & (listed == highest[:, None])).any(axis=1)
    else:
        right = z[each, labels] == highest
    others = np.exp(z - highest[:, None])
    others[each, column] = 0.0
    with np.errstate(divide="ignore"):
        return predicted, right, -np.log(others.sum(axis=1))


def _dependent(tables: Array, p: Array, q: Array, sizes: Array) -> bool:
    """Whether rows and columns of tables (G, B, B) with shares p and q (G, B) are dependent."""
    n = sizes[:, None, None]
    expected = n * p[:, :, None] * q[:, None, :]
    variance = expected * (1 - p)[:, :, None] * (1 - q)[:, None, :] * n / (n - 1)
    # As Pearson's, but cells in which less than one row is expected cannot dominate it.
    found = ((tables - expected) ** 2 / (expected + 1)).sum()
    usual = variance / (expected + 1)
    return bool(found - usual.sum() > DEPENDENT * np.sqrt(2 * (usual**2).sum()))
