"""What a MultiLabelDecalibrator learns: the answers of every label, as one value that adds up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import check_class_names, check_count
from decal._base.numerics import Array, Logits
from decal.directions import (
    WEIGHT_ROUND_OFF,
    Answers,
    Direction,
    Endpoints,
    LabelledLogits,
    LabelMargins,
    Local,
    Reference,
    ScaleSummary,
    Temperature,
    best_model,
    summarise_label_margins,
)

LABEL_ARRAYS = ("center", "scale", "distance", "present", "absent")
"""Arrays (L,) of every model file."""


@dataclass(frozen=True)
class LabelEvidence:
    """What answers say about L labels. Immutable: learning more makes a new one.

    Attributes
    ----------
    rows : int
        Inputs of positive weight.
    present, absent : (L,) arrays
        Weight of the inputs known to have, and known not to have, a label.
    center, scale : (L,) arrays
        The reference model: scale * logits + center.
    distance : (L,) array
        Nats per answer by which it is better than the model.
    margins : LabelMargins or None
        The evidence of shifts.
    ladders : tuple of ScaleSummary or None
        That of scales, per label; None of a label without an answer. Empty without a temperature.
    names : tuple of str, or None
        The names of the labels.
    """

    rows: int
    present: Array
    absent: Array
    center: Array
    scale: Array
    distance: Array
    margins: LabelMargins | None
    ladders: tuple[ScaleSummary | None, ...]
    names: tuple[str, ...] | None
    solved: dict[tuple[str, float], tuple[Endpoints, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(
        cls,
        directions: Iterable[Direction],
        z: Logits,
        y: Answers,
        w: Array | None,
        names: tuple[str, ...] | None,
        *,
        reference: str,
    ) -> Self:
        """Learn from checked data: logits and answers (n, L), positive weights (n,) or None."""
        directions, L = tuple(directions), z.shape[1]
        weights = np.ones(len(z)) if w is None else w
        present, absent = weights @ (y == 1), weights @ (y == 0)
        center, scale, distance = np.zeros(L), np.ones(L), np.zeros(L)
        if reference != "model":
            _require_both_answers(present, absent, names, reference)
            moves = any(direction.moves_scale for direction in directions)
            for k in range(L):
                found = _best(_one_label(z, y, w, k), moves, reference, called(names, k))
                center[k], scale[k] = found.center[1] - found.center[0], found.scale
                distance[k] = found.distance
        known = cls(len(z), present, absent, center, scale, distance, None, (), names)
        moved = z if reference == "model" else known.recentered(z)
        margins, ladders = None, []
        for direction in directions:
            if isinstance(direction, Temperature):
                for k in range(L):
                    data = _one_label(moved, y, w, k)
                    ladders.append(direction.summarise(data) if len(data.labels) else None)
            elif not isinstance(direction, Local):
                margins = summarise_label_margins(moved, y, w)
        return replace(known, margins=margins, ladders=tuple(ladders))

    @property
    def weight(self) -> Array:
        """(L,) weight of the inputs with an answer."""
        return self.present + self.absent

    def __add__(self, other: LabelEvidence) -> LabelEvidence:
        """What both data sets say together."""
        L = len(self.present)
        if len(other.present) != L:
            raise ValueError(f"other must have {L} labels: got {len(other.present)}.")
        if self.names and other.names and self.names != other.names:
            raise ValueError(f"other must have the labels {self.names}: got {other.names}.")
        margins = None
        if self.margins is not None and other.margins is not None:
            margins = self.margins + other.margins
        ladders = (
            a if b is None else b if a is None else a + b
            for a, b in zip(self.ladders, other.ladders, strict=True)
        )
        return replace(
            self,
            rows=self.rows + other.rows,
            present=self.present + other.present,
            absent=self.absent + other.absent,
            margins=margins,
            ladders=tuple(ladders),
            names=self.names or other.names,
            solved={},
        )

    def recentered(self, logits: Logits) -> Array:
        """(n, L) logits of the reference model."""
        found: Array = logits * self.scale + self.center
        return found

    # Keeping

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays; those of a direction's evidence begin with its name."""
        found: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in LABEL_ARRAYS}
        if self.margins is not None:
            found |= {f"class.{name}": array for name, array in self.margins.arrays().items()}
        for k, ladder in enumerate(self.ladders):
            if ladder is not None:
                found |= {f"temperature.{k}.{name}": a for name, a in ladder.arrays().items()}
        return found

    @classmethod
    def restore(
        cls,
        directions: Iterable[Direction],
        reference: str,
        rows: Any,
        names: Any,
        arrays: dict[str, NDArray[Any]],
    ) -> Self:
        """Take what was learnt out of the arrays; ValueError if they are damaged."""
        own = {name: arrays.pop(name) for name in LABEL_ARRAYS}
        _require_sound(own, reference)
        L, weights = len(own["center"]), np.concatenate([own["present"], own["absent"]])
        margins, ladders = None, []
        for direction in directions:
            if isinstance(direction, Temperature):
                parts = [_taken(arrays, f"temperature.{k}.") for k in range(L)]
                ladders = [direction.restore(part) if part else None for part in parts]
                totals = own["present"] + own["absent"]
                for ladder, total in zip(ladders, totals, strict=True):
                    found = 0.0 if ladder is None else ladder.weight
                    if abs(found - total) > WEIGHT_ROUND_OFF * total or (
                        ladder and len(ladder.seen) != 2
                    ):
                        raise ValueError("evidence and labels must be of the same data")
            elif not isinstance(direction, Local):
                margins = LabelMargins.from_arrays(_taken(arrays, "class."))
                weight = np.concatenate([margins.label_weight, margins.other_weight])
                if weight.shape != weights.shape or not np.allclose(
                    weight, weights, rtol=WEIGHT_ROUND_OFF
                ):
                    raise ValueError("evidence and labels must be of the same data")
                if reference == "best":
                    margins.require_best()
        named = check_class_names(names, L, name="names")
        return cls(
            rows=check_count(rows, "rows"),
            present=own["present"],
            absent=own["absent"],
            center=own["center"],
            scale=own["scale"],
            distance=own["distance"],
            margins=margins,
            ladders=tuple(ladders),
            names=named,
        )


def _require_sound(own: dict[str, NDArray[Any]], reference: str) -> None:
    """ValueError if arrays of L numbers each cannot be those of a model."""
    L = len(own["center"])
    for name, array in own.items():
        if array.shape != (L,) or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"{name} must be {L} finite numbers")
    negative = (own["present"] < 0).any() or (own["absent"] < 0).any()
    if L == 0 or (own["scale"] <= 0).any() or negative:
        raise ValueError("weights must not be negative, and scales positive")
    moved = own["center"].any() or own["distance"].any() or (own["scale"] != 1).any()
    if reference == "model" and moved:
        raise ValueError("center, scale and distance must be those of the model itself")
    if (own["distance"] < -WEIGHT_ROUND_OFF).any():
        raise ValueError("distance must not be negative")


def is_known(name: str, _: dict[str, Any]) -> bool:
    """Whether a model file may hold an array of this name."""
    return name in LABEL_ARRAYS or name.startswith(("class.", "temperature."))


def _taken(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin so, taken out of the dictionary."""
    mine = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in mine}


# One label at a time


def called(names: tuple[str, ...] | None, k: int) -> str:
    """The name of a label, or its number."""
    return names[k] if names else str(k)


def two_classes(z: Array) -> Array:
    """(..., 2) logits of the absence and the presence of a label, finite or -inf."""
    sure = np.isposinf(z)
    return np.stack([np.where(sure, -np.inf, 0.0), np.where(sure, 0.0, z)], axis=-1)


def _one_label(z: Logits, y: Answers, w: Array | None, k: int) -> LabelledLogits:
    """The inputs with an answer for one label, as a problem of two classes."""
    known = y[:, k] >= 0
    logits = two_classes(z[known, k].astype(np.float64))
    weights = None if w is None else w[known]
    return LabelledLogits(logits, np.zeros(2), y[known, k].astype(np.intp), weights)


def _best(data: LabelledLogits, scale: bool, reference: str, name: str) -> Reference:
    try:
        return best_model(data.logits, data.labels, data.weights, scale=scale, name=reference)
    except (ValueError, ArithmeticError) as error:
        raise type(error)(f"label {name!r}: {error}") from error


def _require_both_answers(
    present: Array, absent: Array, names: tuple[str, ...] | None, reference: str
) -> None:
    one = np.flatnonzero((present == 0) | (absent == 0))
    if one.size:
        k = int(one[0])
        raise ValueError(
            f"labels must have both answers, 0 and 1, for reference={reference!r}: got one at most "
            f"for label {called(names, k)!r}, one of {len(one)} such labels. Leave it out, or use "
            "reference='model'."
        )
