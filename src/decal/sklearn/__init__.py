"""scikit-learn estimators around scikit-learn estimators: credal sets, and sets under label shift.

Imports from `_base`, `schema`, `votes`, `rows`, `io`, `credal`, `decalibrator`, `directions`,
`choose`, `report` and `shift`.
"""

from decal._base.errors import needs

with needs("sklearn", message="decal.sklearn needs scikit-learn: pip install 'decal[sklearn]'"):
    from decal.sklearn._credal_classifier import CredalClassifier
    from decal.sklearn._shift_adapted import ShiftAdaptedClassifier

__all__ = ["CredalClassifier", "ShiftAdaptedClassifier"]
