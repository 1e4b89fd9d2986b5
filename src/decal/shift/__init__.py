"""Class frequencies that change: credal sets from unlabelled inputs, or from what one supposes.

May import from `_base`, `io`, `credal`, `directions` and `decalibrator`.
"""

from decal.shift._label_shift import LabelShift
from decal.shift._nearby import Near
from decal.shift._results import Frequencies, ShiftTest

__all__ = ["Frequencies", "LabelShift", "Near", "ShiftTest"]
