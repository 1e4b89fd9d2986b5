"""Sets of distributions and what can be asked of them. May import from `_base`.

`_credal_set` has what all kinds share, `_expectations` what of it is linear, `_boxes`, `_hulls` and
`_balls` one kind each; their arithmetic, plain functions on arrays, is in the files named after the
kind, and `decisions` has the rules. `_class_tree` has trees of classes. `_label_sets` has sets of
another sort: probabilities of labels that do not exclude each other.
"""

from decal._base.data_frames import require_same_order as require_same_order
from decal.credal import decisions
from decal.credal._ball_support import extreme_member as extreme_member
from decal.credal._balls import KLCredalSet
from decal.credal._box_entropy import disagreement_range as disagreement_range
from decal.credal._box_entropy import entropy_terms as entropy_terms
from decal.credal._boxes import IntervalCredalSet, union
from decal.credal._class_tree import BETWEEN as BETWEEN
from decal.credal._class_tree import ClassTree
from decal.credal._credal_set import CredalSet
from decal.credal._hulls import HullCredalSet
from decal.credal._interval_rows import row_index as row_index
from decal.credal._label_sets import MultiLabelCredalSet
from decal.credal._ordered import ordered_utility
from decal.credal._saturation import warn_of_width as warn_of_width
from decal.credal.decisions import RULES as RULES
from decal.credal.decisions import SET_RULES as SET_RULES
from decal.credal.decisions import abstention_utility

# What is imported under its own name is for other rooms of decal, and has no page in the reference.
__all__ = [
    "ClassTree",
    "CredalSet",
    "HullCredalSet",
    "IntervalCredalSet",
    "KLCredalSet",
    "MultiLabelCredalSet",
    "abstention_utility",
    "decisions",
    "ordered_utility",
    "union",
]
