"""Testing credal sets with labels only: can they be refuted, and how do methods compare?

Labels cannot show that sets hold the true distributions. They can refute it. `refute` compares
label frequencies with the bounds, per class and bin of inputs; `calibrated_member` asks whether
some distribution within the sets is calibrated. "Not refuted" is not "valid". The scores compare
methods on the same labels; none of them can be strictly proper, for no real-valued score of
imprecise forecasts is (Seidenfeld, Schervish and Kadane, 2012). May import from `_base` and
`credal`.
"""

from decal.calibration._cells import Refutation, refute
from decal.calibration._imprecise_scores import (
    band_score,
    brier_scores,
    discounted_utility,
    log_scores,
)
from decal.calibration._members import CalibratedMember, calibrated_member

__all__ = [
    "CalibratedMember",
    "Refutation",
    "band_score",
    "brier_scores",
    "calibrated_member",
    "discounted_utility",
    "log_scores",
    "refute",
]
