"""`CredalHead`: intervals from logits, as a layer of a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual

from decal._base.errors import DecalWarning, InputError
from decal._base.settings import check_alpha, check_axis, check_choice
from decal.credal import IntervalCredalSet
from decal.credal.decisions import HEAD_RULES
from decal.decalibrator import Decalibrator
from decal.directions import (
    BUILT_IN,
    Box,
    Endpoints,
    Inputs,
    Reference,
    TensorInputs,
    direction_named,
    head_bounds,
    is_masked,
    is_traced,
    kept_classes,
    label_bounds,
    logs_of_probabilities,
    require_capability,
)
from decal.model import load
from decal.multilabel import MultiLabelDecalibrator
from decal.torch.batches import at_least_float32, require_classes_last, require_real_tensor

ENDS = ("lower", "upper")
# Settings that not every state has: by default, these.
OUTPUTS = {"dim": -1, "kept": None, "answers": False}


class CredalHead(nn.Module):
    """Logits (..., K) to the bounds (lower, upper) of every probability, of the same shape.

    What `Decalibrator.predict` computes, at one alpha, as a layer that trains, compiles and
    exports. Works in the precision of the logits, at least float32, in O(K) time and memory per
    row; on a CPU and without gradients at the speed of `predict`. NaN in, NaN out. Inputs are the
    first axis and classes the last; no axis between may be as long, unless it is dynamic.

    Parameters
    ----------
    decalibrator, alpha : Decalibrator, float
        A fitted one, with directions that export, as all of decal's do; and the level, by default
        the decalibrator's. At that a promise holds, in every group too; not per class, whose
        possible classes go by alphas of their own. A `MultiLabelDecalibrator` gives the bounds of
        every label by itself, also where it promises per label.
    dim : int
        The axis of the classes.
    kept : str, optional
        "e_admissible", "interval_dominance", "majority", "ordered_majority" or, of a model with a
        tree, "node": the head returns (lower, upper, kept), kept the classes, True or False, as
        `predict(...).decide(kept)` has them; of NaN, none. For several labels "answers": 1 yes, 0
        no, -1 undecided, as their `decide()` has it.

    Attributes
    ----------
    center, scale, class_lower, class_upper, temperature_lower, temperature_upper : tensors
        Buffers: shifts (K,) and scale () of the reference model, and the endpoints of each
        direction, constants in float64 until you convert them, and never below float32.
    alpha, joint, directions, probabilities, floor, dim, kept
        Settings, as they were at construction. They are in the state_dict, and one of other
        settings is refused; `CredalHead.empty` makes a head that takes all of them from there.

    Examples
    --------
    >>> import decal, torch
    >>> from decal.torch import CredalHead
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    >>> lower, upper = CredalHead(d)(torch.tensor([[0.5, 0.0]]))
    >>> lower.numpy().round(3), upper.numpy().round(3)
    (array([[0.179, 0.245]], dtype=float32), array([[0.755, 0.821]], dtype=float32))
    """

    center: Tensor
    scale: Tensor
    dim: int = -1
    kept: str | None = None
    answers: bool = False  # of several labels, each with a logit against its absence
    _known: tuple[list[bytes], Reference, list[Endpoints]] | None = None  # see `_prepared`

    def __init__(
        self,
        decalibrator: Decalibrator | MultiLabelDecalibrator,
        alpha: float | None = None,
        *,
        dim: int = -1,
        kept: str | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(decalibrator, Decalibrator | MultiLabelDecalibrator):
            raise TypeError(
                f"decalibrator must be a Decalibrator: got a {type(decalibrator).__name__}, which "
                "has no CredalHead. Use its predict."
            )
        level = decalibrator.alpha if alpha is None else check_alpha(alpha)
        self._adopt(decalibrator, level)
        self._shape_outputs(dim, kept)
        reference: Any
        others: dict[str, Any] = {}
        if isinstance(decalibrator, MultiLabelDecalibrator):  # whose alpha may be one per label
            reference, others["unknown"] = decalibrator.fitted, decalibrator.unknown(alpha)
        else:
            reference, alpha = decalibrator.reference_model, level
            if kept == "node":
                others["leaves"] = decalibrator.leaves
        numbers = {"center": reference.center, "scale": reference.scale} | others
        for direction in self.directions:
            endpoints = decalibrator.steps(direction.name, alpha)
            numbers |= {f"{direction.name}_{end}": getattr(endpoints, end) for end in ENDS}
        for name, values in numbers.items():
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))

    @classmethod
    def from_file(cls, path: str | Path, alpha: float | None = None, **options: Any) -> Self:
        """A head from a file that `save` of a decalibrator wrote."""
        return cls(load(path), alpha, **options)

    @classmethod
    def empty(cls) -> Self:
        """A head without settings and numbers: it takes both from the first state_dict it loads.

        Examples
        --------
        >>> import decal
        >>> from decal.torch import CredalHead
        >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
        >>> CredalHead.empty().load_state_dict(CredalHead(d).state_dict())
        <All keys matched successfully>
        """
        head = cls.__new__(cls)
        nn.Module.__init__(head)
        head.register_buffer("center", torch.empty(0, dtype=torch.float64))
        head.register_buffer("scale", torch.ones((), dtype=torch.float64))
        return head

    @property
    def _is_empty(self) -> bool:
        return len(self.center) == 0

    def forward(self, logits: Tensor) -> tuple[Tensor, ...]:
        """Bounds of the probabilities, and kept classes if asked for, in the shape of logits."""
        if self._is_empty:
            raise InputError("head", "be loaded first", "an empty one", "Call load_state_dict.")
        K, dim = len(self.center), self.dim
        if dim == -1:
            require_classes_last(logits, K)
            return self._of_rows(logits)
        require_real_tensor(logits)
        if not -logits.ndim <= dim < logits.ndim or logits.shape[dim] != K:
            rule = f"have {K} entries in axis {dim}, one per class seen by fit"
            raise InputError("logits", rule, f"shape {tuple(logits.shape)}")
        last, dim = logits.ndim - 1, dim % logits.ndim  # a traced axis cannot count from the end
        return tuple(found.movedim(last, dim) for found in self._of_rows(logits.movedim(dim, last)))

    def _of_rows(self, logits: Tensor) -> tuple[Tensor, ...]:
        """As `forward`, with classes in the last axis."""
        z = at_least_float32(logits)
        if self.answers:
            return self._of_labels(z)
        if self.probabilities:
            z = logs_of_probabilities(torch, z, self.floor)
        return self._from_arrays(z) or self._from_tensors(z)

    def _of_labels(self, z: Tensor) -> tuple[Tensor, ...]:
        """Bounds of several labels, and answers if asked for."""
        if self.probabilities:
            floor = self.floor or 0.0
            parts = (p.clamp(floor, 1.0 - floor) for p in (z, 1.0 - z))
            yes, no = (logs_of_probabilities(torch, p, self.floor) for p in parts)
            z = yes - no
        r = z * self.scale.to(z.dtype) + self.center.to(z.dtype)
        unknown = self.get_buffer("unknown") > 0
        low, high = label_bounds(torch, r, unknown, self._endpoints(z.dtype))
        if self.kept is None:
            return low, high
        undecided = torch.full_like(low, -1.0)
        answers = torch.where(low > 0.5, 1.0, torch.where(high < 0.5, 0.0, undecided))
        return low, high, answers.to(torch.int8)

    def _endpoints(self, dtype: torch.dtype) -> list[Any]:
        """Every direction, with its endpoints."""
        steps: list[Any] = []
        for direction in self.directions:
            ends = (self.get_buffer(f"{direction.name}_{end}").to(dtype) for end in ENDS)
            steps.append((direction, *ends))
        return steps

    def _from_arrays(self, z: Tensor) -> tuple[Tensor, ...] | None:
        """Bounds as `Decalibrator.predict` finds them; None where only tensors will do."""
        views = _unrecorded((z, *self._buffers.values()))
        if views is None or not all(BUILT_IN.get(d.name) is type(d) for d in self.directions):
            return None
        logits, *numbers = views
        rows = logits.reshape(-1, logits.shape[-1])
        reference, steps = self._prepared(numbers)
        if not _has_predictions(rows, reference):
            return None
        box: Box | None = None
        dtype = np.float32 if z.dtype == torch.float32 and self.kept is None else np.float64
        inputs = Inputs(reference.scaled(rows), reference.center, self.joint, dtype)
        for direction, endpoints in zip(self.directions, steps, strict=True):
            box = direction.widen(box, inputs, endpoints)
        assert box is not None
        low, high = (torch.from_numpy(b).to(z.dtype).reshape(z.shape) for b in (box.low, box.high))
        if self.kept is None:
            return low, high
        if self.kept == "node":
            low64, high64, point = (torch.from_numpy(b) for b in (box.low, box.high, box.point))
            found = kept_classes(torch, low64, high64, point, self.kept, self._leaves())
            return low, high, found.reshape(z.shape)
        kept = IntervalCredalSet.unchecked(box.low, box.high, box.point).decide(self.kept)
        return low, high, torch.from_numpy(kept).reshape(z.shape)

    def _leaves(self) -> tuple[Tensor, Tensor] | None:
        """The classes of every node of the tree, for "node"."""
        if self.kept != "node":
            return None
        leaves = self.get_buffer("leaves")
        return leaves, leaves.T

    def _prepared(self, numbers: list[NDArray[Any]]) -> tuple[Reference, list[Endpoints]]:
        """The reference and endpoints in the buffers, made again whenever a number changes."""
        key, known = [array.tobytes() for array in numbers], self._known
        if known is None or known[0] != key:
            copies = (np.array(array, np.float64)[()] for array in numbers)
            named: dict[str, Any] = dict(zip(self._buffers, copies, strict=True))
            center = named["center"]
            steps = []
            for direction in self.directions:
                lower, upper = (named[f"{direction.name}_{end}"] for end in ENDS)
                steps.append(Endpoints(lower, upper, center, self.alpha, residual=0.0))
            known = self._known = key, Reference(center, float(named["scale"])), steps
        return known[1:]

    def __getstate__(self) -> dict[str, Any]:
        """All but what `_prepared` keeps, for copies and pickles."""
        return {name: value for name, value in self.__dict__.items() if name != "_known"}

    def _from_tensors(self, z: Tensor) -> tuple[Tensor, ...]:
        """Bounds out of operations that record gradients, compile, export, and run anywhere."""
        center = self.center.to(z.dtype)
        inputs = TensorInputs(z, is_masked(torch, center), self.joint, torch)
        scale = self.scale.to(z.dtype)
        steps = self._endpoints(z.dtype)
        return head_bounds(inputs, center, scale, steps, self.kept, self._leaves())

    # The state: numbers and the settings they belong to

    def _adopt(self, settings: Decalibrator | MultiLabelDecalibrator, alpha: float) -> None:
        """Take over settings; those of a decalibrator, which has checked them."""
        advice = "Use Decalibrator.predict."
        require_capability(settings.directions, "exports", "a CredalHead", advice)
        self.answers = isinstance(settings, MultiLabelDecalibrator)
        self.alpha, self.joint = alpha, getattr(settings, "box", "own") == "joint"
        self.directions = settings.directions
        self.probabilities, self.floor = settings.probabilities, settings.floor

    def _shape_outputs(self, dim: int = -1, kept: str | None = None) -> None:
        """Take over how logits come and what is returned."""
        self.dim = check_axis(dim)
        rules = ("answers",) if self.answers else HEAD_RULES
        self.kept = None if kept is None else check_choice(kept, "kept", rules)

    def _settings(self) -> dict[str, Any]:
        """Settings as plain values, by their names in `Decalibrator`; none of an empty head."""
        if self._is_empty:
            return {}
        found = {
            "alpha": self.alpha,
            "box": "joint" if self.joint else "own",
            "directions": [[d.name, d.settings()] for d in self.directions],
            "probabilities": self.probabilities,
            "floor": self.floor,
        }
        # Only what is asked for, so that older states are those of heads that ask for nothing.
        given = {name: getattr(self, name) for name in OUTPUTS}
        return found | {name: value for name, value in given.items() if value != OUTPUTS[name]}

    def get_extra_state(self) -> Tensor:
        """The settings, written as JSON: bytes in a tensor, which any file of tensors can hold."""
        text = json.dumps(self._settings())
        return torch.tensor(list(text.encode()), dtype=torch.uint8, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Do nothing: settings are compared, or taken over, before numbers are loaded."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Load the numbers of a head with the same settings; an empty head takes the settings."""
        key = f"{prefix}_extra_state"
        try:
            if key in state_dict:
                self._match(state_dict, prefix)
            elif f"{prefix}center" in state_dict:
                self._match_older()
                state_dict[key] = self.get_extra_state()  # or it would be reported as missing
        except ValueError as error:
            rest[-1].append(f"{key} must hold the head's settings: got {error}")  # messages
            return
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _match(self, state_dict: dict[str, Any], prefix: str) -> None:
        """ValueError unless the settings of a state are the head's; an empty one takes them."""
        mine = json.loads(json.dumps(self._settings()))
        with _readable():
            found = dict(json.loads(bytes(state_dict[f"{prefix}_extra_state"].byte().tolist())))
        if found == mine:
            return
        if not found:
            raise ValueError("none, as the state is of an empty head.")
        if not self._is_empty:
            theirs, own = OUTPUTS | found, OUTPUTS | mine
            names = [name for name in own | theirs if theirs.get(name) != own.get(name)]
            there, here = (
                ", ".join(f"{name}={settings.get(name)!r}" for name in names)
                for settings in (theirs, own)
            )
            raise ValueError(
                f"{there} for {here}. Load the state into CredalHead.empty(), or build the head "
                "from a decalibrator with the settings of the state."
            )
        with _readable():
            directions = [direction_named(*direction) for direction in found["directions"]]
            outputs = {name: found.pop(name) for name in OUTPUTS if name in found}
            buffers = ["center", *(f"{d.name}_{end}" for d in directions for end in ENDS)]
            kind: Any = Decalibrator
            if outputs.pop("answers", False):
                found.pop("box")
                kind, buffers = MultiLabelDecalibrator, [*buffers, "scale", "unknown"]
            settings = kind(**(found | {"directions": directions}))
            buffers += ["leaves"] if outputs.get("kept") == "node" else []
            shapes = {name: state_dict[prefix + name].shape for name in buffers}
            self._adopt(settings, settings.alpha)
            self._shape_outputs(**outputs)
        for name, shape in shapes.items():
            self.register_buffer(name, self.center.new_empty(shape))

    def _match_older(self) -> None:
        """Warn that the settings of a state are unknown; ValueError if the head has none either."""
        if self._is_empty:
            raise ValueError(
                "none, as an older decal wrote the state. Build the head from its decalibrator."
            )
        DecalWarning.warn(
            "the state has no settings, as an older decal wrote it: it is taken for one of a head "
            f"with {self.extra_repr()}. Save it again."
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Convert the buffers as .to() and its relatives ask, but never below float32."""

        def moved(buffer: Tensor) -> Tensor:
            try:
                found = fn(buffer)
            except TypeError:  # a device without float64, such as Apple's
                found = fn(buffer.float())
            return found if found.dtype.itemsize >= 4 else buffer.to(found.device, torch.float32)

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self

    def extra_repr(self) -> str:
        """The settings that repr shows."""
        if self._is_empty:
            return "empty"
        box = "joint" if self.joint else "own"
        names = tuple(direction.name for direction in self.directions)
        more = "" if names == ("class",) else f", directions={names}"
        more += ", probabilities=True" if self.probabilities else ""
        more += "" if self.dim == -1 else f", dim={self.dim}"
        more += "" if self.kept is None else f", kept={self.kept!r}"
        if self.answers:
            return f"{len(self.center)} labels, alpha={self.alpha:g}{more}"
        return f"{len(self.center)} classes, alpha={self.alpha:g}, box={box!r}{more}"


def _unrecorded(tensors: tuple[Any, ...]) -> list[NDArray[Any]] | None:
    """Views of tensors as arrays; None if anything traces or records what is done with them."""
    # Modes are those of make_fx, of fake tensors, and whatever else sees every operation.
    if is_traced(torch) or torch._C._len_torch_dispatch_stack():
        return None
    records = torch.is_grad_enabled()
    for t in tensors:
        if type(t) is not Tensor or not t.is_cpu or (records and t.requires_grad):
            return None
        if unpack_dual(t).tangent is not None:  # type: ignore[no-untyped-call]
            return None
    try:
        return [t.detach().numpy() for t in tensors]
    except RuntimeError:  # inside of a transform of torch.func
        return None


def _has_predictions(rows: NDArray[Any], reference: Reference) -> bool:
    """Whether the model has a prediction for every row: no NaN, no inf, not all classes masked."""
    if not rows.size or not np.isfinite(np.maximum.reduce(rows, axis=1)).all():
        return False
    return bool(np.isfinite(reference.center).all() or rows.min() > -np.inf)


@contextmanager
def _readable() -> Iterator[None]:
    """ValueError about a state that is damaged."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"a state that cannot be read ({error}).") from error
