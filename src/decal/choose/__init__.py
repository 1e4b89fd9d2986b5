"""A wish in, a promise out: alpha for a reason, and which rows a person should check.

`choose` finds the alpha that grants a wish, and says what it promises; `triage` finds the rows to
hand over. Both rest on one property: predictions are nested, that is, a smaller alpha never removes
a distribution from a credal set, nor a class from a decision set. As `decal.choose` is the
function, import what else is here by ``from decal.choose import …``. May import from `_base`,
`grids`, `schema`, `votes`, `rows`, `io`, `credal`, `directions`, `promise`, `model`,
`decalibrator`, `multilabel` and `evaluate`.
"""

from __future__ import annotations

from decal.choose._choosing import choose
from decal.choose._doubt_scores import FLOOR, DoubtScores, Trial
from decal.choose._handover import Triage, TriageOutcome, triage
from decal.choose._label_wish import decalibrate_labels
from decal.choose._miss import PER_CLASS
from decal.choose._plausibility import (
    Predictor,
    alpha_from_confidence,
    contour_levels,
    plausibility,
)
from decal.choose._promises import Choice, one_wish
from decal.choose._wish import Wish as Wish
from decal.choose._wish import decalibrate
from decal.promise import Promise

__all__ = [
    "FLOOR",
    "PER_CLASS",
    "Choice",
    "DoubtScores",
    "Predictor",
    "Promise",
    "Triage",
    "TriageOutcome",
    "Trial",
    "alpha_from_confidence",
    "choose",
    "contour_levels",
    "decalibrate",
    "decalibrate_labels",
    "one_wish",
    "plausibility",
    "triage",
]
