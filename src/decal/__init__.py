"""Credal predictions from any classifier's logits: exact, fast, after the fact.

>>> import decal
>>> logits, labels = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]], [0, 0, 1, 1]
>>> decal.decalibrate(logits, labels, alpha=0.9).predict([[0.5, 0.0]])
IntervalCredalSet: 1 input, 2 classes, mean width 0.528
  0  0 [0.286, 0.814]  1 [0.186, 0.714]
"""

import sys
from importlib import import_module
from typing import Any

from decal import (
    coupled,
    credal,
    directions,
    evaluate,
    multilabel,
    shift,
)
from decal._base.errors import (
    AnswerWarning,
    DecalWarning,
    FitWarning,
    InputError,
    InputWarning,
    NotFittedError,
)
from decal.choose import Choice, alpha_from_confidence, choose, confidence_from_alpha
from decal.coupled import CoupledCredalSet, CoupledDecalibrator
from decal.credal import (
    HullCredalSet,
    IntervalCredalSet,
    KLCredalSet,
    MultiLabelCredalSet,
    abstention_utility,
)
from decal.decalibrator import Decalibrator, decalibrate
from decal.directions import (
    Direction,
    Endpoints,
    Line,
    Local,
    Temperature,
    TopIntervals,
    TopLogits,
)
from decal.evaluate import calibration, metrics
from decal.model import load
from decal.multilabel import MultiLabelDecalibrator
from decal.rows import Rows, logits_from_probabilities
from decal.shift import LabelShift

__version__ = "0.1.0"

__all__ = [
    "AnswerWarning",
    "Choice",
    "CoupledCredalSet",
    "CoupledDecalibrator",
    "DecalWarning",
    "Decalibrator",
    "Direction",
    "Endpoints",
    "FitWarning",
    "HullCredalSet",
    "InputError",
    "InputWarning",
    "IntervalCredalSet",
    "KLCredalSet",
    "LabelShift",
    "Line",
    "Local",
    "MultiLabelCredalSet",
    "MultiLabelDecalibrator",
    "NotFittedError",
    "Rows",
    "Temperature",
    "TopIntervals",
    "TopLogits",
    "abstention_utility",
    "alpha_from_confidence",
    "choose",
    "confidence_from_alpha",
    "coupled",
    "credal",
    "decalibrate",
    "directions",
    "evaluate",
    "load",
    "logits_from_probabilities",
    "multilabel",
    "shift",
]

# Short names of two modules of decal.evaluate, also for `import decal.metrics`.
sys.modules |= {"decal.calibration": calibration, "decal.metrics": metrics}

ON_FIRST_USE = (
    "datasets",
    "distributed",
    "explorer",
    "llm",
    "onnx",
    "plot",
    "sklearn",
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
