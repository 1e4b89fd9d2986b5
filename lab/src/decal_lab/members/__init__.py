"""Is some distribution within the sets calibrated? A published test of credal predictors.

Imports public names of decal.
"""

from decal_lab.members._calibrated_member import CalibratedMember, calibrated_member

__all__ = ["CalibratedMember", "calibrated_member"]
