"""What may move, one file per direction. Imports from `_base` and `credal`."""

from decal.directions._class_shifts import Shifts, Temperature
from decal.directions._lines import Direction
from decal.directions._temperature import Scales
from decal.directions._top_logits import TopIntervals, TopLogits

__all__ = ["Direction", "Scales", "Shifts", "Temperature", "TopIntervals", "TopLogits"]
