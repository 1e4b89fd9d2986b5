"""Sets of distributions and what can be asked of them. May import from `_base` and `decisions`.

`_credal_set` has what all kinds share, `_boxes`, `_hulls` and `_balls` one kind each; their
arithmetic, plain functions on arrays, is in the files named after the kind. `_label_sets` has sets
of another sort: probabilities of labels that do not exclude each other.
"""

from decal.credal._balls import KLCredalSet
from decal.credal._boxes import IntervalCredalSet
from decal.credal._credal_set import CredalSet
from decal.credal._hulls import HullCredalSet
from decal.credal._label_sets import MultiLabelCredalSet
from decal.credal._unions import union

__all__ = [
    "CredalSet",
    "HullCredalSet",
    "IntervalCredalSet",
    "KLCredalSet",
    "MultiLabelCredalSet",
    "union",
]
