"""Class frequencies that change: credal sets from unlabelled inputs, or from what one supposes.

May import from `_base`, `io`, `credal`, `directions`, `schema`, `rows`, `model` and `decalibrator`.
"""

from decal.shift._calibrated import is_calibrated
from decal.shift._frequency_evidence import FrequencyEvidence
from decal.shift._label_shift import REGIONS, LabelShift
from decal.shift._likelihood import most_likely
from decal.shift._nearby import Near
from decal.shift._results import Frequencies, ShiftTest, p_text
from decal.shift._what_if import class_number

__all__ = [
    "REGIONS",
    "Frequencies",
    "FrequencyEvidence",
    "LabelShift",
    "Near",
    "ShiftTest",
    "class_number",
    "is_calibrated",
    "most_likely",
    "p_text",
]
