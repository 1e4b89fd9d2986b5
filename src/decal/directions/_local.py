"""Local sets: every distribution that stays close to the prediction, judged at the input itself.

With c the reference's prediction at an input and b = -log alpha, the set is the ball

    { q : KL(q || c) <= b },

the distributions against which the model, on data drawn from them at this input, keeps a
geometric-mean likelihood ratio of at least alpha: the paper's criterion with every distribution a
candidate. Shifting the logit of class k alone reaches the ends of its interval, so each interval is
a question about two outcomes, k and not k, see `bernoulli`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.arrays import place_of, put, sum_without, take
from decal._base.bernoulli import TABLE_BUDGETS, EndpointTable, largest_log_odds
from decal._base.errors import InputError
from decal._base.numerics import (
    BLOCK_ELEMENTS,
    Array,
    Indices,
    compiled,
    for_each_block,
    margins,
    sigmoid,
    softmax,
    softplus,
)
from decal._base.settings import check_flag, check_share, check_tolerance
from decal.directions._direction import (
    WEIGHT_ROUND_OFF,
    Box,
    Direction,
    Endpoints,
    Inputs,
    LabelledLogits,
    TensorBounds,
    TensorInputs,
)
from decal.directions._ranges import local_bounds, wider
from decal.directions._reference import Reference

DEEPEST = -450.0  # logits below the largest; exponentials of smaller ones may sum to nothing
READ_ELEMENTS = 1 << 13  # per block of rows that are read off by NumPy
NONE = np.empty(0, np.intp)


@dataclass(frozen=True)
class TotalWeight:
    """All that local sets take from labelled data, besides the reference: how much there is."""

    value: float

    def __add__(self, other: TotalWeight) -> TotalWeight:
        return TotalWeight(self.value + other.value)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The weight as an array."""
        return {"weight": np.array(self.value)}


@dataclass(frozen=True)
class Local(Direction):
    """Every distribution close to the prediction: `directions=("local",)`.

    The intervals are the exact projections of the ball KL(q || c) <= -log alpha around the
    reference's prediction c. `decal.KLCredalSet` is the ball itself.

    Parameters
    ----------
    mix : float
        Share in [0, 1) of equal probabilities mixed into c, which bounds its log-loss: guarantees
        for finite samples need it, see `decal.choose` with `hold`.
    by_entropy : float, optional
        Multiply the budget of an input by H(c) + by_entropy, in nats: inputs of which the model is
        sure get narrower sets.
    root : bool
        Multiply it by the square root of that instead.

    Examples
    --------
    >>> import decal
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9, directions="local")
    >>> d.predict([[0.5, 0.0]])
    IntervalCredalSet: 1 input, 2 classes, mean width 0.437
      0  0 [0.395, 0.832]  1 [0.168, 0.605]
    """

    mix: float = 0.0
    by_entropy: float | None = None
    root: bool = False
    name = "local"
    exports = True
    takes_masks = True
    moves_scale = True

    def __post_init__(self) -> None:
        check_share(self.mix, "mix")
        if self.by_entropy is not None and not check_tolerance(self.by_entropy, "by_entropy"):
            raise ValueError(f"by_entropy must be a positive number: got {self.by_entropy!r}.")
        if check_flag(self.root, "root") and self.by_entropy is None:
            raise InputError("root", "go with by_entropy", "None")

    def __str__(self) -> str:
        return self.name if self == Local() else repr(self)

    def __repr__(self) -> str:
        root = ", root=True" if self.root else ""
        return f"Local(mix={self.mix!r}, by_entropy={self.by_entropy!r}{root})"

    def settings(self) -> dict[str, Any]:
        """Mix and by_entropy; and root, which older files do not have, if it is set."""
        root = {"root": True} if self.root else {}
        return {"mix": self.mix, "by_entropy": self.by_entropy} | root

    def factor(self, entropy: Any, xp: Any = np) -> Any:
        """What the budget of inputs with this entropy is multiplied by."""
        factor = entropy + self.by_entropy
        return xp.sqrt(factor) if self.root else factor

    def summarise(self, data: LabelledLogits) -> TotalWeight:
        """The total weight."""
        return TotalWeight(float(len(data.labels) if data.weights is None else data.weights.sum()))

    def restore(self, arrays: dict[str, NDArray[Any]]) -> TotalWeight:
        """The weight from its array."""
        return TotalWeight(float(arrays.pop("weight")))

    def matches(self, evidence: TotalWeight, label_weight: Array) -> bool:
        """Whether the weight is the same."""
        weight = float(label_weight.sum())
        return abs(evidence.value - weight) <= WEIGHT_ROUND_OFF * weight

    def endpoints(
        self,
        evidence: TotalWeight,
        budgets: Array,
        reference: Reference,  # noqa: ARG002
    ) -> Endpoints:
        """Divergences (A,) from the reference's prediction: from 0 to the budget of an example."""
        most = budgets / evidence.value
        return Endpoints(np.zeros_like(most), most, 0.0, None, 0.0)

    def widen(self, box: Box | None, inputs: Inputs, endpoints: Endpoints) -> Box:
        """Widen to the range of every probability in the ball, and to its center."""
        found = local_box(inputs, endpoints, self)
        if box is None:
            return found
        box.include(found.low, found.high)
        return box

    def losses(self, inputs: Inputs) -> tuple[Array, Array]:
        """(n, K) -log c_k of the balls' centers, inf for masks, and (n,) factors on the budgets."""
        m = log_odds_of_centers(inputs, slice(None), self.mix)
        factor = np.ones(len(m)) if self.by_entropy is None else self.factor(_entropy(m))
        return softplus(-m), factor

    def largest_loss(self, classes: int) -> float:
        """No loss of an unmasked class is larger: all that `mix` leaves it is its share of that."""
        return float(np.log(classes) - np.log(self.mix)) if self.mix else np.inf

    def least_factor(self) -> float:
        """The smallest factor of an input with two unmasked classes or more: one that is sure."""
        if self.by_entropy is None:
            return 1.0
        smaller = self.mix / 2
        least = _entropy(np.log([[smaller, 1 - smaller]]) - np.log([[1 - smaller, smaller]]))[0]
        return float(self.factor(float(least) if self.mix else 0.0))

    def widen_tensors(
        self, bounds: TensorBounds, inputs: TensorInputs, lower: Any, upper: Any
    ) -> TensorBounds:
        """As `widen`, for PyTorch tensors."""
        del lower  # the divergence begins at 0
        z, absent, _, xp = inputs
        found = local_bounds(xp, z, absent, upper, self)
        return wider(xp, *bounds, *found)


def local_balls(inputs: Inputs, endpoints: Endpoints, local: Local) -> tuple[Array, Array]:
    """Log-probabilities (n, K) of the balls' centers, and their radii (n,) in nats."""
    n, K = inputs.logits.shape
    log_center, radius = np.empty((n, K)), np.full(n, float(endpoints.upper))

    def block(rows: slice) -> None:
        m = log_odds_of_centers(inputs, rows, local.mix)
        if local.by_entropy is not None:
            radius[rows] *= local.factor(_entropy(m))
        log_center[rows] = -softplus(-m)

    for_each_block(block, n, K)
    return log_center, radius


def local_box(inputs: Inputs, endpoints: Endpoints, local: Local) -> Box:
    """The ball's range of every probability, at one alpha, and the reference's prediction."""
    n, K = inputs.logits.shape
    mix = local.mix
    budget = float(endpoints.upper)
    least, most = TABLE_BUDGETS
    shared = local.by_entropy is None and least <= budget <= most
    table = endpoints.once(_table) if shared else None
    whole = None if table is None or compiled(n * K) is None else table.whole()
    dtype = np.float64 if whole is None else inputs.dtype
    found = np.empty((3, n, K), dtype)

    def by_search(rows: Any) -> None:
        m = log_odds_of_centers(inputs, rows, mix)
        each = 1.0 if local.by_entropy is None else local.factor(_entropy(m))[:, None]
        up, down = largest_log_odds(np.stack([m, -m]), budget * each)
        found[:, rows] = sigmoid(-down), sigmoid(up), sigmoid(m)

    def by_kernels(rows: slice, whole: tuple[float, int, Array]) -> Indices:
        from decal._base import local_kernels

        z, offset = inputs.logits[rows], inputs.center
        if mix:
            z, offset = log_centers(inputs, rows, mix), np.zeros(K)
        bounds = found[:, rows] if dtype is np.float64 else np.empty((3, *z.shape))
        part = np.ascontiguousarray(z), offset, *whole, DEEPEST, *bounds
        left: Indices = local_kernels.local_boxes(*part)
        if dtype is not np.float64:
            found[:, rows] = bounds
        return left

    def block(rows: slice) -> None:
        if table is None:
            by_search(rows)
        else:
            if whole is not None:
                left = by_kernels(rows, whole)
            else:
                left = _read_off(log_centers(inputs, rows, mix), table, found[:, rows])
            if left.size:
                by_search(rows.start + left)
        if mix:
            low, high, point = found[:, rows]
            point[:] = softmax(inputs.recentered[rows].astype(np.float64))
            np.minimum(low, point, out=low)
            np.maximum(high, point, out=high)

    for_each_block(block, n, K, READ_ELEMENTS if whole is None else BLOCK_ELEMENTS)
    return Box(*found)


def _table(endpoints: Endpoints) -> EndpointTable:
    return EndpointTable.of(float(endpoints.upper))


def _read_off(z: Array, table: EndpointTable, found: Array) -> Indices:
    """Low, high and point of logits z (n, K) into `found` (3, n, K); the rows that it cannot do.

    Those have a class below DEEPEST that is not masked, or only one that is not masked.
    """
    if len(z) == 1:
        z, found = z[0], found[:, 0]
    top = place_of(z, largest=True)
    d = z - take(z, top)
    left, masked = NONE, None
    if np.minimum.reduce(d, axis=None, initial=0.0) < DEEPEST:
        masked = d < DEEPEST
        alone = masked.sum(axis=-1) == z.shape[-1] - 1
        left = np.flatnonzero(alone | (masked & (d > -np.inf)).any(axis=-1))
        np.maximum(d, DEEPEST, out=d)
    e = np.exp(d)
    others = sum_without(np, e, top)
    point = np.divide(e, 1.0 + others, out=found[2])
    # -log c and -log(1 - c). The largest class is compared with the sum of the others alone.
    nats = np.empty((2, *z.shape))
    np.subtract(np.log1p(others), d, out=nats[0])
    np.negative(point, out=e)
    np.negative(np.log1p(put(np, e, top, 0.0), out=e), out=nats[1])
    put(np, nats[1], top, np.log1p(1.0 / others))
    nats -= table.budget
    found[1], found[0] = table.ends(nats)
    if masked is not None:
        found[:, masked] = 0.0
    return left


def log_centers(inputs: Inputs, rows: Any, mix: float) -> Array:
    """Logits (n, K) of the balls' centers: predictions with equal probabilities mixed in."""
    z: Array = inputs.recentered[rows].astype(np.float64)
    if not mix:
        return z
    unmasked = inputs.logits[rows] > -np.inf
    floor = mix / unmasked.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.log(np.where(unmasked, (1 - mix) * softmax(z) + floor, 0.0))


def log_odds_of_centers(inputs: Inputs, rows: Any, mix: float) -> Array:
    """(n, K) log-odds of every class in the balls' centers; -inf for those without probability."""
    return margins(log_centers(inputs, rows, mix), np.zeros(inputs.logits.shape[1])).T


def _entropy(m: Array) -> Array:
    """(n,) entropies of the distributions with log-odds m (n, K), in nats."""
    surprise = np.where(np.isneginf(m), 0.0, softplus(-m))
    entropy: Array = (sigmoid(m) * surprise).sum(axis=1)
    return entropy
