"""Sets of distributions and what can be asked of them. Imports from `_base` and `decisions`."""

from decal.credal._boxes import BracketWarning, CredalSet, IntervalCredalSet
from decal.credal._hulls import HullCredalSet

__all__ = ["BracketWarning", "CredalSet", "HullCredalSet", "IntervalCredalSet"]
