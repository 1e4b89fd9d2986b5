"""How good credal sets are: metrics, tests and scores with labels, and what to label next.

Coverage, efficiency and errors are in metrics; tests with labels alone, and scores that compare
methods, in calibration; which inputs to label next, in acquisition. May import from `_base` and
`credal`.
"""

from decal.evaluate import acquisition, calibration, metrics

__all__ = ["acquisition", "calibration", "metrics"]
