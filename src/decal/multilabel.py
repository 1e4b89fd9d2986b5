"""MultiLabelDecalibrator: classifiers that answer a question per label, with a sigmoid each.

The logit of a label is its log-odds against its absence. Shifting it is a decalibration of two
classes, so every label has an interval of its own, learnt from the inputs whose answer is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.confidences import Confidences
from decal._base.errors import FitWarning, InputError
from decal._base.numerics import Array, Logits, Mask, budget, for_each_block, sigmoid
from decal._base.row_checks import check_class_names
from decal._base.settings import DEFAULT_ALPHA, check_alpha, check_choice, check_count, check_flag
from decal.credal import MultiLabelCredalSet
from decal.directions import (
    BUILT_IN,
    CHOSEN,
    REFERENCES,
    WEIGHT_ROUND_OFF,
    ClassShifts,
    Direction,
    Endpoints,
    Inputs,
    LabelledLogits,
    LabelMargins,
    Local,
    Reference,
    ScaleSummary,
    Temperature,
    direction_named,
    find_reference,
    local_box,
    parse_directions,
    summarise_label_margins,
    taken,
)
from decal.io.model_files import Arrays
from decal.model import (
    FAR_FROM_REFERENCE,
    Model,
    described_inputs,
    require_model_reference,
    shift_columns,
)
from decal.rows import Rows
from decal.schema import Answers, Schema, check_floor

__all__ = ["MultiLabelDecalibrator"]

LABEL_ARRAYS = ("center", "scale", "distance", "present", "absent")
"""Arrays (L,) of every model file."""


class MultiLabelDecalibrator(Model["LabelEvidence"]):
    """Turns logits of labels that do not exclude each other into intervals of their probabilities.

    For models with a sigmoid per label: tags of a photograph, topics of a text, findings of a scan.
    A shift of one label's logit is plausible at level alpha if the likelihood of that label's
    answers under the shifted model, relative to the reference model, is at least alpha. Equal to a
    `Decalibrator` per label, on the logits [0, z], but all labels are learnt at once: O(n L) time,
    memory that does not grow with n. Scales, and reference="best", take a pass per label.

    Parameters
    ----------
    alpha : float
        Level in [0, 1]. Smaller is more cautious. Every other alpha is available in `predict`.
    likelihood : str
        "mean" bounds the geometric-mean likelihood ratio per answer of a label, "sum" that of all
        its answers, as for `Decalibrator`.
    reference : str
        "model", "best", "halfway", "auto" or "consensus", as for `Decalibrator`, for each label by
        itself.
    directions : iterable
        What may move: "class", the logit of a label by a shift; "temperature", by a factor;
        "local", anything close to the prediction. Also `decal.Temperature` and `decal.Local`.
    probabilities : bool
        Whether this model is given probabilities, each of its label, instead of logits.
    floor : float, optional
        With probabilities: these are kept so far from 0 and from 1. By default only 0 and 1
        themselves change, by 2e-308, unless an answer contradicts them.

    Examples
    --------
    >>> import decal
    >>> logits = [[2.0, -1.0], [1.5, 0.3], [-0.3, 0.9], [-1.0, -2.0]]
    >>> answers = [[1, 0], [1, -1], [0, 1], [1, 0]]  # -1: nobody knows
    >>> d = decal.MultiLabelDecalibrator(alpha=0.9).fit(logits, answers, classes=["dog", "cat"])
    >>> d.predict([[0.5, 0.0]])
    MultiLabelCredalSet: 1 input, 2 labels, mean width 0.492
      0  dog [0.492, 0.958]  cat [0.197, 0.715]
    """

    def __init__(
        self,
        alpha: float = DEFAULT_ALPHA,
        *,
        likelihood: str = "mean",
        reference: str = "model",
        directions: Iterable[str | Direction] = ("class",),
        probabilities: bool = False,
        floor: float | None = None,
    ) -> None:
        self.alpha = check_alpha(alpha)
        self.likelihood = check_choice(likelihood, "likelihood", ("mean", "sum"))
        self.reference = check_choice(reference, "reference", REFERENCES)
        self.directions = parse_directions(directions)
        foreign = [d.name for d in self.directions if type(d) not in BUILT_IN.values()]
        if foreign:
            rule = f"be of {', '.join(BUILT_IN)} for labels"
            raise InputError("directions", rule, ", ".join(foreign))
        self.probabilities = check_flag(probabilities, "probabilities")
        self.floor = check_floor(floor, self.probabilities)
        super().__init__()

    # Learning

    def schema(self, fitted: LabelEvidence | None) -> Schema:
        """What it lets in: a logit, or probability, and an answer per label."""
        return Schema(
            len(fitted.present) if fitted else None,
            fitted.classes if fitted else None,
            self.probabilities,
            self.floor,
            answers=True,
            zeros_seen=fitted is not None and bool(fitted.absent.any()),
        )

    def learn(self, rows: Rows, *, whole: bool = False) -> LabelEvidence:
        """What the answers of rows say, for each label by itself."""
        rows = rows.counted()
        if whole or self._fitted is None:
            found = Confidences.of_answers(rows.logits, rows.labels, rows.weights)
            found.warn_of_other_order(None)
        learnt = LabelEvidence.of(self.directions, rows, reference=self.reference)
        self._warn_if_far(learnt)
        return learnt

    def require_mergeable(self) -> None:
        """InputError if the reference needs all the data at once."""
        require_model_reference(self.reference)

    def _warn_if_far(self, learnt: LabelEvidence) -> None:
        """Warn if the reference of a label is much further away than anything may move."""
        allowed = np.full(len(learnt.weight), budget(self.alpha))
        if self.likelihood == "sum":
            allowed /= np.where(learnt.weight > 0, learnt.weight, 1.0)
        far = np.flatnonzero((allowed > 0) & (allowed < learnt.distance / FAR_FROM_REFERENCE))
        if far.size:
            k = int(far[0])
            FitWarning.warn(
                f"the model is {learnt.distance[k]:.3g} nats per answer from its reference for "
                f"label {called(learnt.classes, k)!r}, and alpha = {self.alpha:g} allows "
                f"{allowed[k]:.2g}: its own predictions are implausible for {far.size} of "
                f"{len(allowed)} labels"
            )

    # Asking

    def shifts(self, alpha: Any = None) -> Endpoints:
        """How far each label's logit may move, (L,); needs "class" among the directions."""
        return self.steps("class", alpha)

    def scales(self, alpha: Any = None) -> Endpoints:
        """By how much each label's logit may be scaled, (L,); needs "temperature"."""
        return self.steps("temperature", alpha)

    def steps(self, name: str, alpha: Any = None) -> Endpoints:
        """How far the direction of this name may move, (L,), by default as promised."""
        names = [direction.name for direction in self.directions]
        if name not in names:
            raise InputError("directions", f"include {name!r}", ", ".join(names))
        return self._solved(self.fitted, self._levels(alpha))[names.index(name)]

    def _levels(self, alpha: Any) -> float | Array:
        """One level; or (L,) as given, or as promised by default, one for every label."""
        if isinstance(alpha, np.ndarray):
            return alpha
        if alpha is None and self.promise is not None and self.promise.per == "label":
            return np.array(list(self.promise.levels.values()))
        return self.level(alpha)

    def _solved(self, learnt: LabelEvidence, alpha: float | Array) -> tuple[Endpoints, ...]:
        """The endpoints of every direction, solved for once: (L,) each."""
        key = self.likelihood, tuple(np.atleast_1d(alpha).tolist())
        found = learnt.solved.get(key)
        if found is None:
            budgets = np.zeros(len(learnt.present)) + budget(alpha)
            if self.likelihood == "mean":
                budgets[learnt.weight > 0] *= learnt.weight[learnt.weight > 0]
            found = tuple(
                label_endpoints(d, learnt, budgets, alpha, self.reference).require_reached(d.name)
                for d in self.directions
            )
            for oldest in [*learnt.solved][: max(0, len(learnt.solved) - 15)]:  # 16 are kept
                learnt.solved.pop(oldest, None)
            learnt.solved[key] = found
        return found

    def predict_rows(self, rows: Rows, *, alpha: Any = None) -> MultiLabelCredalSet:
        """As `predict`, of rows that were read before; a label without any answer gets [0, 1].

        With an array (L,) every label has an alpha of its own, and gets [0, 1] where that is 0.
        """
        fitted, levels = self.fitted, self._levels(alpha)
        z, steps = rows.logits, self._solved(fitted, levels)
        low, high, point = np.empty((3, *z.shape))
        unknown = self.unknown(levels)

        def block(some: slice) -> None:
            r = fitted.recentered(z[some].astype(np.float64))
            point[some] = sigmoid(r)
            low[some], high[some] = point[some], point[some]
            for direction, found in zip(self.directions, steps, strict=True):
                least, greatest = probability_range(direction, r, found)
                np.minimum(low[some], least, out=low[some])
                np.maximum(high[some], greatest, out=high[some])
            if unknown.any():
                low[some, unknown], high[some, unknown] = 0.0, 1.0

        for_each_block(block, *z.shape)
        found = MultiLabelCredalSet.unchecked(low, high, point, fitted.classes)
        return found.with_index(rows.ids)

    def unknown(self, alpha: Any = None) -> Mask:
        """(L,) the labels that get [0, 1]: those without any answer, or with an own alpha of 0."""
        levels, without = self._levels(alpha), self.fitted.weight == 0
        return np.asarray(without | (levels == 0) if isinstance(levels, np.ndarray) else without)

    @property
    def examples(self) -> int:
        """Number of inputs, of positive weight, learnt from."""
        return self.fitted.rows

    @property
    def answers(self) -> tuple[Array, Array]:
        """(absent, present), (L,) each: total weight of the answers 0 and 1 of each label."""
        return self.fitted.absent.copy(), self.fitted.present.copy()

    # Keeping

    def described(self) -> tuple[str, str]:
        """Its settings and, once it was fitted, on what; for `repr`."""
        settings = (
            f"alpha={self.alpha:g}, likelihood={self.likelihood!r}, reference={self.reference!r}"
        ) + described_inputs(self)
        if self._fitted is None:
            return settings, ""
        L = len(self._fitted.present)
        return settings, f"fitted on {self.examples:,} examples of {L:,} label{'s' * (L != 1)}"

    def columns(self) -> dict[str, list[str]]:
        """What a notebook lists of every label."""
        absent, present = self.answers
        names = self.classes or tuple(str(k) for k in range(len(present)))
        answers = {"yes": present, "no": absent}
        columns = {heading: [f"{w:,.6g}" for w in found] for heading, found in answers.items()}
        return {"label": list(names)} | columns | shift_columns(self)

    kind = "multilabel"

    @classmethod
    def may_hold(cls, name: str, settings: dict[str, Any]) -> bool:  # noqa: ARG003
        """Whether a file may hold an array of this name."""
        return name in LABEL_ARRAYS or name.startswith(("class.", "temperature."))

    def packed(self) -> tuple[dict[str, Any], Arrays]:
        """Plain settings, and arrays, that `unpacked` takes."""
        fitted = self.fitted
        plain = ("alpha", "likelihood", "reference", "probabilities", "floor")
        settings = {name: getattr(self, name) for name in plain}
        settings["directions"] = [[d.name, d.settings()] for d in self.directions]
        settings |= {"rows": fitted.rows, "classes": fitted.classes}
        return settings, fitted.arrays()

    @classmethod
    def unpacked(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        """From such settings and arrays, which it takes out; ValueError if they are damaged."""
        version, rows = settings.pop("version"), settings.pop("rows")
        names = settings.pop("classes" if version > 3 else "names")
        directions = [direction_named(*d) for d in settings.pop("directions")]
        given = {name: settings.pop(name) for name in [*settings]}
        model = cls(given.pop("alpha"), directions=directions, **given)
        model._fitted = LabelEvidence.restore(model, rows, names, arrays)
        return model


@dataclass(frozen=True)
class LabelEvidence:
    """What answers say about L labels. Immutable: learning more makes a new one."""

    rows: int  # inputs of positive weight
    present: Array  # (L,) weight of the inputs known to have the label
    absent: Array  # (L,) and known not to have it
    center: Array  # (L,) the reference model: scale * logits + center
    scale: Array  # (L,)
    distance: Array  # (L,) nats per answer by which it is better than the model
    margins: LabelMargins | None  # the evidence of shifts
    ladders: tuple[ScaleSummary | None, ...]  # of scales, if these move; None without an answer
    classes: tuple[str, ...] | None
    solved: dict[tuple[str, tuple[float, ...]], tuple[Endpoints, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(cls, directions: Iterable[Direction], rows: Rows, *, reference: str) -> Self:
        """What rows of positive weight say: logits and answers (n, L)."""
        directions, (n, L) = tuple(directions), rows.shape
        z, y, w, names = rows.logits, rows.labels, rows.weights, rows.classes
        weights = np.ones(n) if w is None else w
        present, absent = weights @ (y == 1), weights @ (y == 0)
        center, scale, distance = np.zeros(L), np.ones(L), np.zeros(L)
        if reference != "model":
            if reference not in CHOSEN:
                _require_both_answers(present, absent, names, reference)
            moves = any(direction.moves_scale for direction in directions)
            for k in range(L):
                found = _best(_one_label(z, y, w, k), moves, reference, called(names, k))
                center[k], scale[k] = found.center[1] - found.center[0], found.scale
                distance[k] = found.distance
        known = cls(n, present, absent, center, scale, distance, None, (), names)
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
            raise InputError("other", f"have {L} labels", f"{len(other.present)}")
        if self.classes and other.classes and self.classes != other.classes:
            raise InputError("other", f"have the labels {self.classes}", f"{other.classes}")
        mine, theirs = self.margins, other.margins
        ladders = (
            a if b is None else b if a is None else a + b
            for a, b in zip(self.ladders, other.ladders, strict=True)
        )
        return replace(
            self,
            rows=self.rows + other.rows,
            present=self.present + other.present,
            absent=self.absent + other.absent,
            margins=mine + theirs if mine and theirs else None,
            ladders=tuple(ladders),
            classes=self.classes or other.classes,
            solved={},
        )

    def recentered(self, logits: Logits) -> Array:
        """(n, L) logits of the reference model."""
        return np.asarray(logits * self.scale + self.center)

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
    def restore(cls, model: MultiLabelDecalibrator, rows: Any, names: Any, arrays: Arrays) -> Self:
        """Take what was learnt out of the arrays; ValueError if they are damaged."""
        own = {name: arrays.pop(name) for name in LABEL_ARRAYS}
        _require_sound(own, model.reference)
        L, weights = len(own["center"]), np.concatenate([own["present"], own["absent"]])
        margins, ladders = None, []
        for direction in model.directions:
            if isinstance(direction, Temperature):
                parts = [taken(arrays, f"temperature.{k}.") for k in range(L)]
                ladders = [direction.restore(part) if part else None for part in parts]
                for ladder, total in zip(ladders, own["present"] + own["absent"], strict=True):
                    found, seen = (ladder.weight, len(ladder.seen)) if ladder else (0.0, 2)
                    if abs(found - total) > WEIGHT_ROUND_OFF * total or seen != 2:
                        raise ValueError("evidence and labels must be of the same data")
            elif not isinstance(direction, Local):
                margins = LabelMargins.from_arrays(taken(arrays, "class."))
                margins.require_margins()
                weight = np.concatenate([margins.label_weight, margins.other_weight])
                same = weight.shape == weights.shape
                if not same or not np.allclose(weight, weights, rtol=WEIGHT_ROUND_OFF):
                    raise ValueError("evidence and labels must be of the same data")
                if model.reference == "best":
                    margins.require_best()
        center, scale, distance, present, absent = own.values()
        named = check_class_names(names, L)
        of = (check_count(rows, "rows"), present, absent, center, scale, distance)
        return cls(*of, margins, tuple(ladders), named)


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
        return find_reference(data.logits, data.labels, data.weights, scale=scale, name=reference)
    except (ValueError, ArithmeticError) as error:
        raise type(error)(f"label {name!r}: {error}") from error


def _require_both_answers(
    present: Array, absent: Array, names: tuple[str, ...] | None, reference: str
) -> None:
    one = np.flatnonzero((present == 0) | (absent == 0))
    if one.size:
        name = called(names, int(one[0]))
        fact = f"one at most for label {name!r}, one of {len(one)} such labels"
        rule = f"have both answers, 0 and 1, for reference={reference!r}"
        raise InputError("labels", rule, fact, "Leave it out, or use reference='model'.")


# How far every label may move, and where its probability gets to: two classes, in closed form


def label_endpoints(
    direction: Direction,
    learnt: LabelEvidence,
    budgets: Array,
    alpha: float | Array,
    reference: str,
) -> Endpoints:
    """(L,) how far a direction may move for every label, within budgets (L,) in nats."""
    if isinstance(direction, Local):
        weight = np.where(learnt.weight > 0, learnt.weight, 1.0)
        return Endpoints(np.zeros_like(budgets), budgets / weight, 0.0, alpha, 0.0)
    if isinstance(direction, Temperature):
        return _scale_endpoints(direction, learnt, budgets, alpha)
    assert learnt.margins is not None
    at = Reference(learnt.center, name=reference)
    found = ClassShifts().endpoints(learnt.margins, budgets[None], at)
    return replace(found, lower=found.lower[0], upper=found.upper[0], alpha=alpha)


def _scale_endpoints(
    direction: Temperature, learnt: LabelEvidence, budgets: Array, alpha: float | Array
) -> Endpoints:
    """Plausible scales (L,), relative to those of the reference."""
    lower, upper = np.zeros_like(budgets), np.full_like(budgets, np.inf)
    residual = error = 0.0
    for k, ladder in enumerate(learnt.ladders):
        if ladder is None:
            continue
        reference = Reference(np.zeros(2), float(learnt.scale[k]))
        one = direction.endpoints(ladder, budgets[k : k + 1], reference)
        lower[k], upper[k] = one.lower[0], one.upper[0]
        residual, error = max(residual, one.residual), max(error, one.error)
    return Endpoints(lower, upper, learnt.scale, alpha, residual, error)


def probability_range(direction: Direction, r: Array, found: Endpoints) -> tuple[Array, Array]:
    """The least and greatest probability (n, L) while one direction moves."""
    if isinstance(direction, Local):
        return _local_range(direction, r, found)
    # With two classes a probability is monotone in the scale, too: there is no peak in between.
    scaled = isinstance(direction, Temperature)
    still = np.isinf(r) | (scaled & (r == 0))
    with np.errstate(invalid="ignore"):
        moved = ((t * r if scaled else t + r) for t in (found.lower, found.upper))
        ends = [sigmoid(np.where(still, r, m)) for m in moved]
    return np.minimum(*ends), np.maximum(*ends)


def _local_range(direction: Local, r: Array, found: Endpoints) -> tuple[Array, Array]:
    """Those of the balls, of all labels with the same radius together."""
    low, high = np.empty((2, *r.shape))
    for labels, ends in found.once(_by_radius):
        inputs = Inputs(two_classes(r[:, labels].ravel()), np.zeros(2), joint=False)
        box = local_box(inputs, ends, direction)
        low[:, labels] = box.low[:, 1].reshape(len(r), -1)
        high[:, labels] = box.high[:, 1].reshape(len(r), -1)
    return low, high


def _by_radius(found: Endpoints) -> list[tuple[Mask, Endpoints]]:
    """The labels (L,) of every radius, and what `local_box` takes."""
    return [
        (found.upper == radius, Endpoints(0.0, float(radius), 0.0, None, 0.0))
        for radius in np.unique(found.upper)
    ]
