"""All that a Decalibrator learns: the evidence of its directions, as one value that adds up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.confidences import Confidences
from decal._base.numerics import Array, budget
from decal._base.row_checks import check_center, check_class_names, check_label_weight
from decal._base.settings import check_choice, check_count, check_flag
from decal.directions._direction import RESIDUAL_TOLERANCE, Direction, Endpoints, taken
from decal.directions._margins import MarginSummary
from decal.directions._reference import REFERENCES, Reference

KEPT_LEVELS, KEPT_NUMBERS = 64, 1 << 21  # levels whose endpoints are kept, of so many numbers
LARGEST = 1e100  # no shift or scale of a reference is larger, or it would not be of logits
Labels = NDArray[np.intp]

FORMAT_1 = {"center", "label_weight", "keys", "moments", "ladder", "at_zero", "ladder_numbers"}
"""The arrays of a model file of format 1."""


@dataclass(frozen=True)
class FitState:
    """What labelled data say about some directions. Immutable: learning more makes a new one."""

    directions: tuple[Direction, ...]
    reference: Reference
    rows: int  # examples of positive weight
    label_weight: Array  # (K,) total weight of the labels of each class
    evidence: tuple[Any, ...]  # of every direction, in their order
    classes: tuple[str, ...] | None = None
    confidences: Confidences | None = None  # None if an older model file does not hold them
    order: bool = False  # whether classes are in an order, that of the columns
    _solved: dict[tuple[int, str, float], Endpoints] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __add__(self, other: FitState) -> FitState:
        """What both data sets say together; ValueError if they are of different models."""
        K = len(self.label_weight)
        if len(other.label_weight) != K:
            raise ValueError(f"other must have {K} classes: got {len(other.label_weight)}.")
        if self.classes and other.classes and self.classes != other.classes:
            raise ValueError(f"other must have the classes {self.classes}: got {other.classes}.")
        mine, theirs = self.confidences, other.confidences
        return replace(
            self,
            rows=self.rows + other.rows,
            label_weight=self.label_weight + other.label_weight,
            evidence=tuple(a + b for a, b in zip(self.evidence, other.evidence, strict=True)),
            classes=self.classes or other.classes,
            confidences=mine + theirs if mine and theirs else None,
            order=self.order or other.order,
            _solved={},
        )

    @cached_property
    def total_weight(self) -> float:
        """Sum of all sample weights."""
        return float(self.label_weight.sum())

    def position_of(self, name: str) -> int:
        """The position of a direction; ValueError if there is none of this name."""
        names = [direction.name for direction in self.directions]
        if name not in names:
            raise ValueError(f"directions must include {name!r}: got {', '.join(names)}.")
        return names.index(name)

    def at(self, which: int, likelihood: str, alpha: float | Array) -> Endpoints:
        """The endpoints of one direction at one level, solved for once; or at several (A,)."""
        if not isinstance(alpha, np.ndarray):
            known = self._solved.get((which, likelihood, alpha))
            if known is not None:
                return known
        levels = np.atleast_1d(alpha)
        direction = self.directions[which]
        budgets = budget(levels)
        if likelihood == "mean":
            budgets *= self.total_weight
        found = direction.endpoints(self.evidence[which], budgets, self.reference)
        found = replace(found.require_reached(direction.name), alpha=levels)
        if isinstance(alpha, np.ndarray):
            return found
        room = min(KEPT_LEVELS, max(2, KEPT_NUMBERS // len(self.label_weight)))
        room *= len(self.directions)
        for oldest in list(self._solved)[: max(0, len(self._solved) - room + 1)]:
            self._solved.pop(oldest, None)
        return self._solved.setdefault((which, likelihood, alpha), found.first())

    # Keeping

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays; those of a direction's evidence begin with its name."""
        found = {"center": self.reference.center, "label_weight": self.label_weight}
        for direction, evidence in zip(self.directions, self.evidence, strict=True):
            for name, array in evidence.arrays().items():
                found[f"{direction.name}.{name}"] = array
        if self.confidences is not None:
            for name, array in self.confidences.arrays().items():
                found[f"confidences.{name}"] = array
        return found

    def settings(self) -> dict[str, Any]:
        """Plain values that go with the arrays."""
        return {
            "directions": [[d.name, d.settings()] for d in self.directions],
            "reference": self.reference.name,
            "scale": self.reference.scale,
            "distance": self.reference.distance,
            "rows": self.rows,
            "classes": self.classes,
        } | ({"order": True} if self.order else {})  # older versions read all other models

    @classmethod
    def restore(
        cls,
        directions: tuple[Direction, ...],
        evidence: Iterable[Any],
        settings: dict[str, Any],
        arrays: dict[str, NDArray[Any]],
    ) -> Self:
        """Of evidence, and of settings and arrays, which it takes out; ValueError if damaged."""
        label_weight = check_label_weight(arrays.pop("label_weight"))
        K = len(label_weight)
        reference = _restored_reference(check_center(arrays.pop("center"), K), settings)
        evidence = tuple(evidence)
        for direction, found in zip(directions, evidence, strict=True):
            if not direction.matches(found, label_weight):
                raise ValueError("evidence and labels must be of the same data")
            if reference.is_best and isinstance(found, MarginSummary):
                found.require_best()
        classes = check_class_names(settings.pop("classes"), K)
        rows = check_count(settings.pop("rows"), "rows")
        if rows > np.iinfo(np.int64).max:
            raise ValueError(f"rows must be a number of examples: got {rows:.3g}")
        kept = taken(arrays, "confidences.")
        confidences = Confidences.restore(kept, K) if kept else None
        order = check_flag(settings.pop("order", False), "order")
        return cls(directions, reference, rows, label_weight, evidence, classes, confidences, order)

    @staticmethod
    def is_known(name: str, settings: dict[str, Any]) -> bool:
        """Whether a model file with these settings may hold an array of this name."""
        if settings["version"] == 1:
            return name in FORMAT_1
        prefixes = *(f"{direction}." for direction, _ in settings["directions"]), "confidences."
        return name in ("center", "label_weight") or name.startswith(prefixes)

    @staticmethod
    def upgrade(settings: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Bring what an older model file holds into the form of today's, in place."""
        best = settings.pop("best", None)
        if type(best) is bool:
            settings.setdefault("reference", "best" if best else "model")
        if settings.pop("version") > 1:
            return
        settings["directions"] = [
            ["temperature", d] if isinstance(d, dict) else [d, {}] for d in settings["directions"]
        ]
        # Format 1 always held the margins, whether or not classes may move.
        margins = {"bin_width": np.array(float(settings.pop("bin_width")))}
        margins |= {name: arrays.pop(name) for name in ("keys", "moments")}
        margins["label_weight"] = arrays["label_weight"]
        if ["class", {}] in settings["directions"]:
            arrays |= {f"class.{name}": array for name, array in margins.items()}
        renamed = {"ladder": "rungs", "at_zero": "at_zero", "ladder_numbers": "numbers"}
        for old, new in renamed.items():
            if old in arrays:
                arrays[f"temperature.{new}"] = arrays.pop(old)


def _restored_reference(center: Array, settings: dict[str, Any]) -> Reference:
    """The reference of a saved model; ValueError if its numbers cannot be."""
    name, scale, distance = (settings.pop(name) for name in ("reference", "scale", "distance"))
    check_choice(name, "reference", REFERENCES)
    ranges = {"scale": (scale, 1 / LARGEST), "distance": (distance, -RESIDUAL_TOLERANCE)}
    for number, (value, least) in ranges.items():
        if type(value) not in (int, float) or not least <= value <= LARGEST:
            raise ValueError(
                f"{number} must be a number from {least:g} to {LARGEST:g}: got {value}"
            )
    if np.abs(center[np.isfinite(center)]).max() > LARGEST:
        raise ValueError(f"center must hold shifts up to {LARGEST:g}")
    if name == "model" and (center.any() or scale != 1 or distance != 0):
        raise ValueError("center, scale and distance must be those of the model itself")
    return Reference(center, float(scale), float(distance), name)
