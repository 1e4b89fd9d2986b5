"""Credal predictions from any classifier's logits: exact, fast, without retraining.

>>> import decal
>>> logits, labels = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]], [0, 0, 1, 1]
>>> decal.decalibrate(logits, labels, alpha=0.9).predict([[0.5, 0.0]])
IntervalCredalSet: 1 input, 2 classes, mean width 0.528
  0  0 [0.286, 0.814]  1 [0.186, 0.714]
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from decal import credal as credal
from decal import directions as directions
from decal import evaluate
from decal._base.errors import AnswerWarning as AnswerWarning
from decal._base.errors import DecalWarning, InputError
from decal._base.errors import FitWarning as FitWarning
from decal._base.errors import InputWarning as InputWarning
from decal._base.errors import NotFittedError as NotFittedError
from decal.choose import Choice, choose, decalibrate
from decal.choose import alpha_from_confidence as alpha_from_confidence
from decal.choose import decalibrate_labels as decalibrate_labels
from decal.credal import ClassTree as ClassTree
from decal.credal import HullCredalSet, IntervalCredalSet, KLCredalSet, MultiLabelCredalSet
from decal.credal import abstention_utility as abstention_utility
from decal.decalibrator import Decalibrator, published
from decal.directions import Direction, Local, Temperature, TopLogits
from decal.directions import Endpoints as Endpoints
from decal.directions import Line as Line
from decal.directions import TopIntervals as TopIntervals
from decal.evaluate import calibration as calibration
from decal.evaluate import metrics as metrics
from decal.grids import CredalMaps as CredalMaps
from decal.model import load
from decal.rows import Rows
from decal.schema import logits_from_probabilities as logits_from_probabilities
from decal.votes import Votes

if TYPE_CHECKING:
    from decal import binning as binning
    from decal import coupled as coupled
    from decal import ensembles as ensembles
    from decal import multilabel as multilabel
    from decal import shift as shift
    from decal.binning import binned as binned
    from decal.coupled import CoupledCredalSet as CoupledCredalSet
    from decal.coupled import CoupledDecalibrator
    from decal.ensembles import Ensemble as Ensemble
    from decal.ensembles import ensemble as ensemble
    from decal.multilabel import MultiLabelDecalibrator
    from decal.report import Report
    from decal.shift import LabelShift

__version__ = "0.1.0"

# What is imported under its own name is there for those who know it, and not listed.
__all__ = [
    "Choice",
    "CoupledDecalibrator",
    "DecalWarning",
    "Decalibrator",
    "Direction",
    "HullCredalSet",
    "InputError",
    "IntervalCredalSet",
    "KLCredalSet",
    "LabelShift",
    "Local",
    "MultiLabelCredalSet",
    "MultiLabelDecalibrator",
    "Report",
    "Rows",
    "Temperature",
    "TopLogits",
    "Votes",
    "choose",
    "decalibrate",
    "evaluate",
    "load",
    "published",
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

HOLDING = {
    "CoupledCredalSet": "coupled",
    "CoupledDecalibrator": "coupled",
    "Ensemble": "ensembles",
    "LabelShift": "shift",
    "MultiLabelDecalibrator": "multilabel",
    "Report": "report",
    "binned": "binning",
    "ensemble": "ensembles",
}
"""Modules that fewer people use, by what they hold: they load on first use, too."""


def __getattr__(name: str) -> Any:
    if name in ON_FIRST_USE or name in HOLDING.values():
        return import_module(f"decal.{name}")
    if name in HOLDING:
        return getattr(import_module(f"decal.{HOLDING[name]}"), name)
    raise AttributeError(f"module 'decal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *ON_FIRST_USE, "__version__"])
