"""The protocol of directions, and what passes between a direction and the Decalibrator.

A direction is one way in which the logits may move. It turns labelled logits into evidence,
evidence and budgets into endpoints, and endpoints and new logits into wider intervals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, for_each_block, softmax
from decal.directions._reference import Reference

Tensor = Any  # a tensor of PyTorch, or what stands for one in a graph of `decal.onnx`

TensorBounds = tuple[Tensor, Tensor]
T = TypeVar("T")

RESIDUAL_TOLERANCE = 1e-9  # nats per unit of weight by which an endpoint may miss the budget
WEIGHT_ROUND_OFF = 1e-6  # share by which sums of the same weights, perhaps float32, may differ


@dataclass(frozen=True)
class ReferenceLogits:
    """Scaled logits (n, K) and center (K,), apart: classes left out (-inf) may come back in."""

    logits: Logits
    center: Array

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """(K,) the classes that the reference does not leave out."""
        return np.isfinite(self.center)

    @cached_property
    def recentered(self) -> Logits:
        """Logits plus center; minus infinity for the classes left out."""
        return self.logits + self.center if self.center.any() else self.logits


@dataclass(frozen=True)
class LabelledLogits(ReferenceLogits):
    """What a direction learns from."""

    labels: NDArray[np.intp]  # (n,) integers 0..K-1
    weights: Array | None  # (n,) positive; None for ones
    may_be_kept: bool = True  # evidence may hold on to these data: not to one chunk of many


@dataclass(frozen=True)
class Inputs(ReferenceLogits):
    """What intervals are wanted for, and whether they are joint (`box="joint"`) or each its own.

    Bounds of many inputs may be kept in `dtype`, whatever they are computed in.
    """

    joint: bool
    dtype: type[np.floating[Any]] = np.float64


class TensorInputs(NamedTuple):
    """`Inputs` as tensors: logits (..., K) at the center, and the classes left out (K,)."""

    logits: Tensor
    absent: Tensor
    joint: bool
    xp: Any  # PyTorch, or what stands for it while `decal.onnx` writes a graph


@dataclass(frozen=True)
class Box:
    """Bounds and point (n, K) of some inputs. Directions widen `low` and `high` in place."""

    low: Array
    high: Array
    point: Array

    @classmethod
    def at_point(cls, inputs: Inputs) -> Self:
        """Intervals that hold the reference model's own prediction and nothing else."""
        point = np.empty(inputs.logits.shape, inputs.dtype)

        def predict(rows: slice) -> None:
            point[rows] = softmax(inputs.recentered[rows].astype(np.float64))

        for_each_block(predict, len(point), inputs.logits.shape[1])
        return cls(point.copy(), point.copy(), point)

    def include(self, low: Array, high: Array) -> None:
        """Widen the intervals until they hold these, too."""
        np.minimum(self.low, low, out=self.low)
        np.maximum(self.high, high, out=self.high)


@dataclass(frozen=True)
class Endpoints:
    """How far a direction may move, at a given alpha or at several.

    Attributes
    ----------
    lower, upper : float or array
        The plausible interval: of class shifts (K,), in nats from `center`, around 0; of scales,
        relative to `center`, around 1; of steps along a line, around 0. With a leading axis for
        several alphas. Infinite where the data cannot object, as for a class that never occurs.
    center : float or (K,) array
        The reference's shifts, its scale, or 0. Under reference="best" the shift of a class that
        never occurs is -inf, and its `upper` is measured from the model's own logit.
    alpha : float or (A,) array
        The level.
    residual : float
        By how much finite endpoints miss their budget at most, in nats per unit of weight.
    error : float
        How much the summary of the data may hide, in that unit: a proved bound for class shifts, an
        estimate for the temperature, 0 where the data themselves were used.
    """

    lower: Any
    upper: Any
    center: Any
    alpha: Any
    residual: float
    error: float = 0.0

    def once(self, prepare: Callable[[Endpoints], T]) -> T:
        """What `prepare` makes of these endpoints; called the first time, remembered afterwards."""
        known: dict[str, T] = vars(self)
        key = prepare.__qualname__
        if key not in known:
            known[key] = prepare(self)
        return known[key]

    def require_reached(self, direction: str) -> Endpoints:
        """These; ArithmeticError if they miss their budget."""
        if self.residual > RESIDUAL_TOLERANCE:
            raise ArithmeticError(
                f"the endpoints of {direction!r} miss their budget by {self.residual:.2g} nats per "
                "example. This should not happen: please report it with your data."
            )
        return self

    def first(self) -> Endpoints:
        """Those of the first of several alphas."""

        def pick(values: Array) -> Any:
            return values[0] if values.ndim > 1 else float(values[0])

        lower, upper = pick(self.lower), pick(self.upper)
        return Endpoints(lower, upper, self.center, float(self.alpha[0]), self.residual, self.error)


class Direction(ABC):
    """One way in which the logits may move, with one parameter per class or in all.

    Subclass it for a direction of your own; one that adds a multiple of some function of the logits
    to them is a `decal.Line`, in one method.

    Attributes
    ----------
    name : str
        What `directions=`, messages and model files call it.
    streams : bool
        Its evidence adds up. If not, `partial_fit`, `merge`, folders and clusters refuse it.
    saves : bool
        A model file can hold it. Reading one back looks the name up among decal's own directions
        and the entry points "decal.directions" of other packages.
    exports : bool
        It has `widen_tensors`, which `decal.torch.CredalHead` needs.
    takes_top_logits : bool
        It can learn from `decal.TopLogits`.
    takes_masks : bool
        Logits may be -inf, where a class is masked.
    moves_scale : bool
        With reference="best", the best scale is sought together with the best shifts.
    """

    name: str
    streams: ClassVar[bool] = True
    saves: ClassVar[bool] = True
    exports: ClassVar[bool] = False
    takes_top_logits: ClassVar[bool] = False
    takes_masks: ClassVar[bool] = False
    moves_scale: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.name

    def settings(self) -> dict[str, Any]:
        """Plain values from which the constructor makes the same direction again."""
        return {}

    @abstractmethod
    def summarise(self, data: LabelledLogits) -> Any:
        """The evidence of labelled data; `+` adds two, `arrays()` is what `restore` takes."""

    @abstractmethod
    def restore(self, arrays: dict[str, NDArray[Any]]) -> Any:
        """Evidence from its arrays, taken out of the dictionary; ValueError if they are damaged."""

    def matches(self, evidence: Any, label_weight: Array) -> bool:  # noqa: ARG002
        """Whether restored evidence can be of data whose labels have these weights (K,)."""
        return True

    @abstractmethod
    def endpoints(self, evidence: Any, budgets: Array, reference: Reference) -> Endpoints:
        """How far this direction may move, with a leading axis for the budgets (A,).

        Budgets are nats that may be lost over all data, in [0, inf], measured from the reference.
        Evidence is what `summarise` returned, or a sum of such. The caller fills in `alpha`.
        """

    @abstractmethod
    def widen(self, box: Box | None, inputs: Inputs, endpoints: Endpoints) -> Box:
        """The box, widened to the range of every probability while this direction moves.

        None stands for no box yet: this direction is the first. Endpoints are at one alpha.
        """

    def widen_tensors(
        self, bounds: TensorBounds, inputs: TensorInputs, lower: Tensor, upper: Tensor
    ) -> TensorBounds:
        """As `widen`, for tensors and bounds (..., K), out of operations that export to ONNX."""
        raise NotImplementedError


def taken(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin so, by the rest of their names, out of the dictionary."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}


REFUSALS = {
    "streams": "whose evidence is the data themselves",
    "saves": "whose code no model file can hold",
    "exports": "which cannot be written as PyTorch operations",
    "takes_top_logits": "which needs the logits of all classes",
    "takes_masks": "which needs a finite logit of every class",
}  # why a direction without a capability is refused


def require_masks_taken(directions: Iterable[Direction], logits: Logits) -> None:
    """ValueError if classes are masked and a direction cannot work with that."""
    for direction in directions:
        if not direction.takes_masks and np.isneginf(logits).any():
            advice = "Replace -inf by a large negative number, or leave this direction out."
            require_capability(
                [direction], "takes_masks", "masked classes (logits of -inf)", advice
            )


def require_capability(
    directions: Iterable[Direction], capability: str, purpose: str, advice: str
) -> None:
    """ValueError, with a sentence of advice, unless every direction has a key of `REFUSALS`."""
    for direction in directions:
        if not getattr(direction, capability):
            raise ValueError(
                f"directions must all support {purpose}: got {direction.name!r}, "
                f"{REFUSALS[capability]}. {advice}"
            )
