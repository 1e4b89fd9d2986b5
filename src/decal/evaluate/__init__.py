"""How good credal sets are. May import from `_base`, `grids` and `credal`.

Coverage, efficiency and errors are in metrics; tests with labels alone, and scores that compare
methods, in calibration. An `Evaluation` counts what sets keep and miss.
"""

from decal.evaluate import calibration, metrics
from decal.evaluate._evaluation import Evaluation

__all__ = ["Evaluation", "calibration", "metrics"]
