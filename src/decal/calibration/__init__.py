"""Testing credal sets with labels only: can they be refuted, and how do methods compare?

Labels cannot show that sets hold the true distributions. They can refute it. `refute` compares
label frequencies with the bounds, per class and bin of inputs. "Not refuted" is not "valid". The
scores compare methods on the same labels; none of them can be strictly proper, for no real-valued
score of imprecise forecasts is (Seidenfeld, Schervish and Kadane, 2012). May import from `_base`,
`credal` and `decisions`.
"""

from decal.calibration._cells import Refutation, refute
from decal.calibration._imprecise_scores import (
    band_score,
    brier_scores,
    discounted_utility,
    log_scores,
)

__all__ = [
    "Refutation",
    "band_score",
    "brier_scores",
    "discounted_utility",
    "log_scores",
    "refute",
]
