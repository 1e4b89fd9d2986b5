"""Credal sets: for every input, the probability vectors that remain plausible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decal._arrays import check_bounds, check_class_names, check_distributions, check_tolerance
from decal._numerics import Array

if TYPE_CHECKING:
    import pandas as pd

FEASIBILITY_TOLERANCE = 1e-12
"""Round-off allowed, per class, in the sums of bounds that should just admit a distribution."""

ROWS_SHOWN = 5
CLASSES_SHOWN = 4


@dataclass(frozen=True, eq=False, repr=False, init=False)
class IntervalCredalSet:
    """Probability intervals, one per input and class.

    For every input it stands for the box of distributions { p : lower <= p <= upper, sum p = 1 }.

    Parameters
    ----------
    lower, upper : (n, K) bounds in [0, 1].
    point : (n, K), optional. The prediction the intervals surround.
    classes : K names, optional.

    Notes
    -----
    The arrays are read-only. Rows are picked as from an array: ``c[3]``, ``c[:10]``, ``c[mask]``
    are credal sets again. Bounds that no distribution satisfies are kept; `is_empty` tells.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.1, 0.5, 0.0]], [[0.3, 0.8, 0.2]], classes=["a", "b", "c"])
    >>> c.contains([[0.2, 0.7, 0.1]])
    array([ True])
    >>> c
    IntervalCredalSet: 1 input, 3 classes, mean width 0.233
      0  b [0.500, 0.800]  a [0.100, 0.300]  c [0.000, 0.200]
    """

    lower: Array
    upper: Array
    point: Array | None
    classes: tuple[str, ...] | None

    def __init__(
        self, lower: Any, upper: Any, *, point: Any = None, classes: Iterable[Any] | None = None
    ) -> None:
        low, high, middle = check_bounds(lower, upper, point)
        self._hold(low, high, middle, check_class_names(classes, low.shape[1]))

    @classmethod
    def _trusted(
        cls, lower: Array, upper: Array, point: Array | None, classes: tuple[str, ...] | None
    ) -> IntervalCredalSet:
        """A credal set of arrays that decal itself computed; nothing is copied or checked."""
        credal = cls.__new__(cls)
        credal._hold(lower, upper, point, classes)
        return credal

    def _hold(
        self, lower: Array, upper: Array, point: Array | None, classes: tuple[str, ...] | None
    ) -> None:
        for name, array in (("lower", lower), ("upper", upper), ("point", point)):
            if array is not None:
                array = array.view()
                array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "classes", classes)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): inputs and classes."""
        n, K = self.lower.shape
        return n, K

    def __len__(self) -> int:
        return len(self.lower)

    def __iter__(self) -> Iterator[IntervalCredalSet]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, rows: Any) -> IntervalCredalSet:
        """The credal set of the chosen rows: an integer, a slice, a mask or a list of integers."""
        if isinstance(rows, tuple):
            raise IndexError("a credal set is indexed by rows only: use .lower[row, class]")
        if isinstance(rows, int | np.integer):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"row {rows} is out of range for {len(self)} inputs")
            rows = [rows]
        point = None if self.point is None else self.point[rows]
        return self._trusted(self.lower[rows], self.upper[rows], point, self.classes)

    @property
    def is_empty(self) -> NDArray[np.bool_]:
        """(n,) True where no distribution satisfies the bounds."""
        slack = FEASIBILITY_TOLERANCE * self.shape[1]
        empty: NDArray[np.bool_] = np.any(self.lower > self.upper, axis=1)
        empty |= self.lower.sum(axis=1) > 1 + slack
        empty |= self.upper.sum(axis=1) < 1 - slack
        return empty

    def contains(self, distributions: Any, *, atol: float = 5e-4) -> NDArray[np.bool_]:
        """(n,) True where the row's distribution lies within the bounds, give or take `atol`.

        The default tolerance is that of the published numbers, whose bounds are rounded to three
        decimals.
        """
        p = check_distributions(distributions, shape=self.shape)
        atol = check_tolerance(atol, "atol")
        inside: NDArray[np.bool_] = (p >= self.lower - atol) & (p <= self.upper + atol)
        return np.asarray(inside.all(axis=1))

    def tighten(self) -> IntervalCredalSet:
        """The same sets with reachable bounds: every bound is attained by some member.

        Bounds of empty rows are returned as they are.
        """
        room_up = 1 - self.lower.sum(axis=1, keepdims=True)
        room_down = self.upper.sum(axis=1, keepdims=True) - 1
        empty = self.is_empty[:, None]
        upper = np.where(empty, self.upper, np.minimum(self.upper, self.lower + room_up))
        lower = np.where(empty, self.lower, np.maximum(self.lower, self.upper - room_down))
        # Round-off in the two sums may let ends that coincide cross by an ulp.
        crossed = ~empty & (lower > upper)
        lower[crossed] = upper[crossed]
        return self._trusted(lower, upper, self.point, self.classes)

    def intersection_probability(self) -> Array:
        """(n, K) the distribution that lies at the same fraction of every interval.

        l + d (1 - sum l) / (sum u - sum l) with d = u - l: the one point of the line from lower to
        upper that sums to one. NaN for empty rows.
        """
        low, width = self.lower, self.upper - self.lower
        missing = 1 - low.sum(axis=1, keepdims=True)
        total = width.sum(axis=1, keepdims=True)
        share = np.divide(missing, total, out=np.zeros_like(total), where=total > 0)
        p: Array = low + width * share
        p[self.is_empty] = np.nan
        return p

    def to_pandas(self) -> pd.DataFrame:
        """A tidy DataFrame: one row per input and class, columns lower, upper (and point)."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install decal[pandas]") from error
        n, K = self.shape
        index = pd.MultiIndex.from_product(
            [range(n), self.classes or range(K)], names=["row", "class"]
        )
        columns = {"lower": self.lower.ravel(), "upper": self.upper.ravel()}
        if self.point is not None:
            columns["point"] = self.point.ravel()
        return pd.DataFrame(columns, index=index)

    def __repr__(self) -> str:
        n, K = self.shape
        inputs = "1 input" if n == 1 else f"{n:,} inputs"
        width = f", mean width {np.mean(self.upper - self.lower):.3f}" if n else ""
        names = self.classes or tuple(str(k) for k in range(K))
        lines = [f"{type(self).__name__}: {inputs}, {K:,} classes{width}"]
        for row in range(min(n, ROWS_SHOWN)):
            likely = np.argsort(-self.upper[row], kind="stable")[:CLASSES_SHOWN]
            spans = (
                f"{names[k]} [{self.lower[row, k]:.3f}, {self.upper[row, k]:.3f}]" for k in likely
            )
            lines.append(f"  {row}  " + "  ".join(spans) + ("  …" if K > CLASSES_SHOWN else ""))
        if n > ROWS_SHOWN:
            lines.append(f"  … {n - ROWS_SHOWN:,} more")
        return "\n".join(lines)
