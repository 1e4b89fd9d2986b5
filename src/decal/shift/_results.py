"""What is said about class frequencies: estimates with intervals, and whether they changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from decal._base.extras import needs
from decal._base.numerics import Array

ROWS_SHOWN = 12


@dataclass(frozen=True, eq=False, repr=False)
class Frequencies:
    """How frequent the classes are among unlabelled inputs.

    Attributes
    ----------
    estimate : (K,) array
        The most likely frequencies.
    lower, upper : (K,) arrays
        Interval of each frequency, for itself.
    before : (K,) array
        The frequencies where the model was calibrated.
    confidence : float
        Of each interval.
    inputs : float
        How many unlabelled inputs.
    classes : tuple of str
        Names.
    """

    estimate: Array
    lower: Array
    upper: Array
    before: Array
    confidence: float
    inputs: float
    classes: tuple[str, ...]

    def __repr__(self) -> str:
        lines = [
            f"Frequencies: {self.inputs:,.0f} inputs, {len(self.classes):,} classes, "
            f"intervals at {self.confidence:g}"
        ]
        order = np.argsort(-np.abs(self.estimate - self.before).round(9), kind="stable")
        width = max(5, *(len(name) for name in self.classes))
        lines.append(f"  {'class':<{width}}  before  now    interval")
        lines += [
            f"  {self.classes[k]:<{width}}  {self.before[k]:.3f}   {self.estimate[k]:.3f}  "
            f"[{self.lower[k]:.3f}, {self.upper[k]:.3f}]"
            for k in order[:ROWS_SHOWN]
        ]
        left = len(order) - ROWS_SHOWN
        return "\n".join([*lines, f"  … and {left:,} that changed less"] if left > 0 else lines)

    def to_pandas(self) -> Any:
        """A data frame with a row for each class: before, estimate, lower, upper."""
        with needs("pandas", message="to_pandas needs pandas: pip install 'decal[pandas]'"):
            import pandas
        columns = ("before", "estimate", "lower", "upper")
        return pandas.DataFrame(
            {name: getattr(self, name) for name in columns},
            index=pandas.Index(self.classes, name="class"),
        )


@dataclass(frozen=True, eq=False, repr=False)
class ShiftTest:
    """Whether the class frequencies changed.

    Attributes
    ----------
    statistic : float
        Twice the log-likelihood that the frequencies where the model was calibrated lose against
        the most likely ones.
    p_value : float
        How often chance gives as much, if nothing changed.
    p_values : (K,) array
        The same of each class's frequency, whatever the others are; NaN where not computed.
    classes : tuple of str
        Names.
    """

    statistic: float
    p_value: float
    p_values: Array
    classes: tuple[str, ...]

    def __repr__(self) -> str:
        text = f"ShiftTest: p-value {self.p_value:.3g}, statistic {self.statistic:.4g}"
        known = np.flatnonzero(~np.isnan(self.p_values))
        if len(known):
            order = known[np.argsort(self.p_values[known], kind="stable")][:ROWS_SHOWN]
            shown = ", ".join(f"{self.classes[k]} {self.p_values[k]:.2g}" for k in order)
            text += f"\n  by class, smallest first: {shown}"
        return text
