"""How good credal sets are. May import from `_base`, `grids` and `credal`.

Coverage, efficiency and errors are in metrics; tests with labels alone, and scores that compare
methods, in calibration.
"""

from decal.evaluate import calibration, metrics

__all__ = ["calibration", "metrics"]
