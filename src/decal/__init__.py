"""Credal predictions from any classifier's logits: exact, fast, after the fact.

>>> import decal
>>> logits, labels = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]], [0, 0, 1, 1]
>>> decal.decalibrate(logits, labels, alpha=0.9).predict([[0.5, 0.0]])
IntervalCredalSet: 1 input, 2 classes, mean width 0.528
  0  0 [0.286, 0.814]  1 [0.186, 0.714]
"""

from decal import decisions, metrics, selection
from decal._base.checks import NotFittedError
from decal.coupled import CoupledCredalSet, CoupledDecalibrator
from decal.credal import BracketWarning, HullCredalSet, IntervalCredalSet
from decal.decalibrator import Decalibrator, ReferenceWarning, decalibrate
from decal.decisions import abstention_utility
from decal.directions._class_shifts import Shifts, Temperature
from decal.directions._lines import Direction
from decal.directions._temperature import Scales
from decal.directions._top_logits import TopIntervals, TopLogits
from decal.selection import alpha_from_confidence, confidence_from_alpha

__version__ = "0.1.0"

__all__ = [
    "BracketWarning",
    "CoupledCredalSet",
    "CoupledDecalibrator",
    "Decalibrator",
    "Direction",
    "HullCredalSet",
    "IntervalCredalSet",
    "NotFittedError",
    "ReferenceWarning",
    "Scales",
    "Shifts",
    "Temperature",
    "TopIntervals",
    "TopLogits",
    "abstention_utility",
    "alpha_from_confidence",
    "confidence_from_alpha",
    "decalibrate",
    "decisions",
    "metrics",
    "selection",
]
