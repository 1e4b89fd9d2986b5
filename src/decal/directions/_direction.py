"""The protocol of directions, and what passes between a direction and the Decalibrator.

A direction is one way in which the logits may move. It turns labelled logits into evidence,
evidence and budgets into endpoints, and endpoints and new logits into wider intervals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, for_each_block, softmax
from decal.directions._reference import Reference

Tensor = Any  # a tensor of PyTorch, or what stands for one in a graph of `decal.onnx`

TensorBounds = tuple[Tensor, Tensor]
T = TypeVar("T")

WEIGHT_ROUND_OFF = 1e-6  # share by which sums of the same weights, perhaps float32, may differ


@dataclass(frozen=True)
class ReferenceLogits:
    """Logits (n, K) of the reference model, its scale applied and its center (K,) still apart.

    Apart, because classes that the reference leaves out (center -inf) may still come back in.
    """

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
    """What a direction learns from.

    Attributes
    ----------
    labels : (n,) array
        Integers 0..K-1.
    weights : (n,) array or None
        Positive; None for ones.
    may_be_kept : bool
        Evidence may hold on to these data. False for one chunk of many.
    """

    labels: NDArray[np.intp]
    weights: Array | None
    may_be_kept: bool = True


@dataclass(frozen=True)
class Inputs(ReferenceLogits):
    """What intervals are wanted for, and whether they are joint (`box="joint"`) or each its own."""

    joint: bool


class TensorInputs(NamedTuple):
    """`Inputs` as PyTorch tensors: logits (..., K) at the center, and the classes left out (K,).

    `xp` is PyTorch, or what stands for it while `decal.onnx` writes operations into a graph.
    """

    logits: Tensor
    absent: Tensor
    joint: bool
    xp: Any


@dataclass(frozen=True)
class Box:
    """Bounds and point (n, K) of some inputs. Directions widen `low` and `high` in place."""

    low: Array
    high: Array
    point: Array

    @classmethod
    def at_point(cls, inputs: Inputs) -> Self:
        """Intervals that hold the reference model's own prediction and nothing else."""
        point = np.empty(inputs.logits.shape)

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
        The plausible interval of the direction's parameter. Class shifts: (K,), in nats, measured
        from `center`, lower <= 0 <= upper. Temperature: scales relative to `center`,
        0 <= lower <= 1 <= upper. A line: steps, lower <= 0 <= upper. For A alphas all of them have
        a leading axis of length A. Infinite where the data cannot object: for instance -inf for the
        shift of a class that never occurs, and everything at alpha = 0.
    center : float or (K,) array
        Where the reference model stands: its shifts, its scale, or step 0. The shift of a class
        that never occurs is -inf under reference="best"; its `upper` is then measured from the
        model's own logit.
    alpha : float or (A,) array
        The level.
    residual : float
        By how much the gain at a finite endpoint misses the budget at most, in nats per unit of
        weight.
    error : float
        How much the summary of the data may hide from that gain, in the same unit: a proved bound
        for class shifts, an estimate for the temperature, 0 where the data themselves were used.
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

    def first(self) -> Endpoints:
        """Those of the first of several alphas."""

        def pick(values: Array) -> Any:
            return values[0] if values.ndim > 1 else float(values[0])

        lower, upper = pick(self.lower), pick(self.upper)
        return Endpoints(lower, upper, self.center, float(self.alpha[0]), self.residual, self.error)


class Evidence(Protocol):
    """What labelled data say about one direction. Evidence of two data sets adds up."""

    def __add__(self, other: Any) -> Self:
        """The evidence of both data sets together."""
        ...

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays from which `Direction.restore` makes the same evidence again."""
        ...


class Direction(ABC):
    """One way in which the logits may move, with one parameter per class or in all.

    Subclass it for a direction of your own; for one that adds a multiple of some function of the
    logits to them, `decal.Line` has done all the work but `move`.

    Attributes
    ----------
    name : str
        What `directions=`, messages and model files call it.
    streams : bool
        Its evidence is a summary that adds up. False if it has to keep the data: then
        `partial_fit`, `merge`, folders of files and clusters refuse it.
    saves : bool
        Its settings and evidence can be written into a model file. Reading one back looks the name
        up among decal's own directions and the entry points "decal.directions" of other packages.
    exports : bool
        It can widen boxes of PyTorch tensors, see `widen_tensors`. `decal.torch.CredalHead` needs
        that.
    takes_top_logits : bool
        It can learn from `decal.TopLogits`.
    takes_masks : bool
        Logits may be -inf, where a class is masked. False for directions that need numbers.
    moves_scale : bool
        With reference="best", the best scale is sought together with the best shifts.

    See Also
    --------
    decal.Line : A direction of your own in one method.
    decal.Temperature : The scale of the logits.
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
        """The evidence of labelled data, with `+` and `arrays()` as `Evidence` has them."""

    @abstractmethod
    def restore(self, arrays: dict[str, NDArray[Any]]) -> Any:
        """Evidence from its arrays, taken out of the dictionary; ValueError if they are damaged."""

    def matches(self, evidence: Any, label_weight: Array) -> bool:  # noqa: ARG002
        """Whether restored evidence can be of data whose labels have these weights (K,)."""
        return True

    @abstractmethod
    def endpoints(self, evidence: Any, budgets: Array, reference: Reference) -> Endpoints:
        """How far this direction may move, for every budget.

        Parameters
        ----------
        evidence : object
            What `summarise` returned, or a sum of such.
        budgets : (A,) array
            Log-likelihood that may be lost over all data, each in [0, inf], in nats.
        reference : Reference
            Where the gains are measured from.

        Returns
        -------
        Endpoints
            With a leading axis of length A. `alpha` is filled in by the caller.
        """

    @abstractmethod
    def widen(self, box: Box | None, inputs: Inputs, endpoints: Endpoints) -> Box:
        """The box, widened to the range of every probability while this direction moves.

        Parameters
        ----------
        box : Box or None
            What other directions have reached; None if this is the first one.
        inputs : Inputs
            The inputs.
        endpoints : Endpoints
            At one alpha.
        """

    def widen_tensors(
        self, bounds: TensorBounds, inputs: TensorInputs, lower: Tensor, upper: Tensor
    ) -> TensorBounds:
        """As `widen`, for PyTorch tensors, out of operations that export to ONNX.

        The bounds, low and high (..., K), are the point itself at first.
        """
        raise NotImplementedError


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
