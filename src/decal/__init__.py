"""Credal predictions from any classifier's logits: exact, fast, after the fact.

>>> import decal
>>> logits, labels = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]], [0, 0, 1, 1]
>>> decal.decalibrate(logits, labels, alpha=0.9).predict([[0.5, 0.0]])
IntervalCredalSet: 1 input, 2 classes, mean width 0.528
  0  0 [0.286, 0.814]  1 [0.186, 0.714]
"""

from importlib import import_module
from typing import Any

from decal import (
    acquisition,
    calibration,
    coupled,
    credal,
    directions,
    metrics,
    multilabel,
    selection,
    shift,
    triage,
)
from decal._base.checks import NotFittedError
from decal._base.inputs import LabelOrderWarning, ProbabilityWarning, logits_from_probabilities
from decal.coupled import CoupledCredalSet, CoupledDecalibrator
from decal.credal import (
    BracketWarning,
    HullCredalSet,
    IntervalCredalSet,
    KLCredalSet,
    MultiLabelCredalSet,
    SaturationWarning,
    abstention_utility,
)
from decal.decalibrator import Decalibrator, ReferenceWarning, decalibrate
from decal.directions import (
    Direction,
    Endpoints,
    Line,
    Local,
    Temperature,
    TopIntervals,
    TopLogits,
)
from decal.multilabel import MultiLabelDecalibrator
from decal.selection import alpha_from_confidence, confidence_from_alpha
from decal.shift import LabelShift

__version__ = "0.1.0"

__all__ = [
    "BracketWarning",
    "CoupledCredalSet",
    "CoupledDecalibrator",
    "Decalibrator",
    "Direction",
    "Endpoints",
    "HullCredalSet",
    "IntervalCredalSet",
    "KLCredalSet",
    "LabelOrderWarning",
    "LabelShift",
    "Line",
    "Local",
    "MultiLabelCredalSet",
    "MultiLabelDecalibrator",
    "NotFittedError",
    "ProbabilityWarning",
    "ReferenceWarning",
    "SaturationWarning",
    "Temperature",
    "TopIntervals",
    "TopLogits",
    "abstention_utility",
    "acquisition",
    "alpha_from_confidence",
    "calibration",
    "confidence_from_alpha",
    "coupled",
    "credal",
    "decalibrate",
    "directions",
    "logits_from_probabilities",
    "metrics",
    "multilabel",
    "selection",
    "shift",
    "triage",
]


ON_FIRST_USE = (
    "baselines",
    "datasets",
    "distributed",
    "explorer",
    "llm",
    "onnx",
    "plot",
    "sklearn",
    "text",
    "torch",
    "zeroshot",
)
"""Modules that need more than NumPy and SciPy, or are large: `import decal; decal.plot` works."""


def __getattr__(name: str) -> Any:
    if name in ON_FIRST_USE:
        return import_module(f"decal.{name}")
    raise AttributeError(f"module 'decal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *ON_FIRST_USE, "__version__"])
