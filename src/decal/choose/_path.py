"""What every alpha would give on one set of examples: a table to look at, not to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from decal._base.errors import needs
from decal._base.numerics import Array
from decal._base.row_checks import check_distributions
from decal._base.settings import check_alphas, check_choice
from decal.choose._plausibility import Predictor, kept_classes
from decal.credal import SET_RULES
from decal.evaluate import metrics
from decal.model import predict_rows, read_inputs
from decal.promise import rows_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class AlphaPath:
    """What every alpha would give, on one set of examples: a table to read or to plot.

    Attributes
    ----------
    alpha : (A,) array
        Levels.
    efficiency : (A,) array
        One minus the mean width of the intervals.
    coverage, miss_rate : (A,) arrays or None
        Shares of rows whose distribution is in the credal set, and whose label is not in the
        decision set; None without distributions, or labels.
    set_size : (A,) array
        Mean number of classes in the decision set.
    examples, rule
        Number of rows, and the rule of the decision sets.
    """

    alpha: Array
    efficiency: Array
    coverage: Array | None
    miss_rate: Array | None
    set_size: Array
    examples: int
    rule: str

    def to_pandas(self) -> pd.DataFrame:
        """A DataFrame with one row per alpha."""
        with needs("pandas", message="to_pandas needs pandas: pip install 'decal[pandas]'"):
            import pandas as pd
        return pd.DataFrame(self._columns())

    def _columns(self) -> dict[str, Array]:
        names = ("alpha", "efficiency", "coverage", "miss_rate", "set_size")
        columns = {name: getattr(self, name) for name in names}
        return {name: values for name, values in columns.items() if values is not None}

    def __repr__(self) -> str:
        A, columns = len(self.alpha), self._columns()
        shown = np.unique(np.linspace(0, A - 1, min(A, 12)).round().astype(np.intp))
        lines = [f"AlphaPath: {A} alphas, {rows_text(self.examples)}, decisions {self.rule}"]
        lines.append("  " + "".join(f"{name.replace('_', ' '):>12}" for name in columns))
        for a in shown:
            numbers = (f"{values[a]:12.4f}" for name, values in columns.items() if name != "alpha")
            lines.append(f"  {self.alpha[a]:12.6g}" + "".join(numbers))
        if len(shown) < A:
            lines.append(f"  … {len(shown)} of {A} shown")
        return "\n".join(lines)


def path(
    model: Predictor,
    logits: Any,
    *,
    distributions: Any = None,
    labels: Any = None,
    alphas: Any = None,
    rule: str = "e_admissible",
    atol: float = 5e-4,
) -> AlphaPath:
    """What every alpha would give on these examples: efficiency, coverage, misses, set sizes.

    A table to look at, not to choose from: an alpha picked from it for its miss rate need not keep
    it on new examples. `decal.choose` guarantees that. One prediction of all rows per alpha.

    Parameters
    ----------
    model, logits
        A fitted Decalibrator, and (n, K) inputs.
    distributions : (n, K) array, optional
        Their true distributions, for the coverage.
    labels : (n,) integers, optional
        Their labels, for the miss rate.
    alphas : list of float, optional
        Levels, in any order. By default 41 from 1 to 0, dense near 1, where the curve moves.
    rule : str
        Of the decision sets: "e_admissible", "interval_dominance" or "maximality".
    atol : float
        Tolerance of the coverage.

    See Also
    --------
    decal.plot.tradeoff : Draws coverage against efficiency.

    Examples
    --------
    >>> import numpy as np, decal
    >>> from decal.choose import path
    >>> logits = np.array([[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]])
    >>> d = decal.decalibrate(logits, [0, 0, 1, 1], alpha=0.9, directions=("class",))
    >>> path(d, logits, labels=[0, 0, 1, 1], alphas=[1, 0.99, 0.9])
    AlphaPath: 3 alphas, 4 rows, decisions e_admissible
             alpha  efficiency   miss rate    set size
                 1      0.9297      0.0000      1.0000
              0.99      0.8686      0.0000      1.0000
               0.9      0.6365      0.0000      1.5000
    """
    data = read_inputs(model, logits, labels, distributions=distributions)
    check_choice(rule, "rule", SET_RULES)
    if alphas is None:  # budgets, -log alpha, in equal ratios
        levels = np.concatenate([[1.0], np.exp(-np.geomspace(1e-4, 20.0, 39)), [0.0]])
    else:
        levels = check_alphas(alphas)
    p, y = None, data.labels
    if distributions is not None:
        p = check_distributions(distributions, shape=data.shape, names=data.classes)
    size, efficiency, coverage, missed = np.empty((4, len(levels)))
    for a, alpha in enumerate(levels):
        credal = predict_rows(model, data, alpha)
        efficiency[a] = metrics.efficiency(credal)
        kept = kept_classes(credal, rule)
        size[a] = kept.sum(axis=1).mean()
        if p is not None:
            coverage[a] = metrics.coverage(credal, p, atol=atol)
        if y is not None:
            missed[a] = 1 - kept[np.arange(len(y)), y].mean()
    held, missing = None if p is None else coverage, None if y is None else missed
    return AlphaPath(levels, efficiency, held, missing, size, len(data), rule)
