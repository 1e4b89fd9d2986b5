"""How good credal sets are. May import from `_base`, `grids`, `votes` and `credal`.

Coverage, efficiency and errors are in metrics; tests with labels alone, and scores that compare
methods, in calibration. An `Evaluation` counts what sets keep and miss, and `disagreement` tells
how much of the spread of people's labels they account for.
"""

from decal.evaluate import calibration, metrics
from decal.evaluate._disagreement import Disagreement, disagreement
from decal.evaluate._evaluation import Evaluation

__all__ = ["Disagreement", "Evaluation", "calibration", "disagreement", "metrics"]
