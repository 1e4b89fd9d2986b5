"""What may move: one file per direction, with its evidence, endpoints and box.

Imports from `_base`, `schema` and `credal`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from decal._base.settings import check_choice
from decal.directions._best_model import best_model
from decal.directions._chosen_reference import find_reference
from decal.directions._class_shifts import ClassShifts
from decal.directions._direction import (
    WEIGHT_ROUND_OFF,
    Box,
    Direction,
    Endpoints,
    Inputs,
    LabelledLogits,
    TensorInputs,
    require_capability,
    require_masks_taken,
    taken,
)
from decal.directions._fit_state import FitState
from decal.directions._kept_classes import kept_classes
from decal.directions._ladder import ScaleSummary
from decal.directions._lines import Line
from decal.directions._local import Local, local_balls, local_box
from decal.directions._margins import MarginSummary
from decal.directions._ranges import (
    head_bounds,
    is_masked,
    is_traced,
    label_bounds,
    logs_of_probabilities,
)
from decal.directions._reference import CHOSEN, REFERENCES, Reference
from decal.directions._summarise import BoundedMargins, LabelMargins, summarise_label_margins
from decal.directions._temperature import Temperature
from decal.directions._top_logits import TopIntervals, TopLogits, summarise_top, top_box

__all__ = [
    "BUILT_IN",
    "CHOSEN",
    "REFERENCES",
    "WEIGHT_ROUND_OFF",
    "BoundedMargins",
    "Box",
    "ClassShifts",
    "Direction",
    "Endpoints",
    "FitState",
    "Inputs",
    "LabelMargins",
    "LabelledLogits",
    "Line",
    "Local",
    "MarginSummary",
    "Reference",
    "ScaleSummary",
    "Temperature",
    "TensorInputs",
    "TopIntervals",
    "TopLogits",
    "best_model",
    "direction_named",
    "find_reference",
    "head_bounds",
    "is_masked",
    "is_traced",
    "kept_classes",
    "label_bounds",
    "local_balls",
    "local_box",
    "logs_of_probabilities",
    "parse_directions",
    "require_capability",
    "require_masks_taken",
    "summarise_label_margins",
    "summarise_top",
    "taken",
    "top_box",
]

BUILT_IN: Mapping[str, type[Direction]] = {
    direction.name: direction for direction in (ClassShifts, Temperature, Local)
}
"""decal's own directions by name; packages add theirs by entry points "decal.directions"."""


def direction_named(name: str, settings: Mapping[str, Any] | None = None) -> Direction:
    """The direction of this name, as in `directions=`; settings are its constructor's arguments.

    It is decal's own, or that of an installed package with an entry point for it.

    Examples
    --------
    >>> from decal.directions import direction_named
    >>> direction_named("temperature", {"ratio": 2.0})
    Temperature(ratio=2.0, evidence='model')
    """
    kind: Any = BUILT_IN.get(name) if isinstance(name, str) else None
    if kind is None:
        from importlib.metadata import entry_points  # takes long to load

        installed = {point.name: point for point in entry_points(group="decal.directions")}
        kind = installed[check_choice(name, "directions", (*BUILT_IN, *installed))].load()
    return _require_direction(kind(**(settings or {})))


def parse_directions(directions: str | Iterable[str | Direction]) -> tuple[Direction, ...]:
    """Names and objects as objects, each once."""
    given = (directions,) if isinstance(directions, str | Direction) else directions
    found = tuple(
        direction_named(d) if isinstance(d, str) else _require_direction(d) for d in given
    )
    names = [direction.name for direction in found]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"directions must be one or more, each once: got {names}.")
    return found


def _require_direction(found: Any) -> Direction:
    if not isinstance(found, Direction):
        raise ValueError(
            "directions must be names or objects of a subclass of decal.Direction or decal.Line: "
            f"got {found!r}."
        )
    return found
