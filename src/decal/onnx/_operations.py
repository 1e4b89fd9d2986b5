"""What stands for PyTorch while a graph is written: every operation becomes a node of ONNX.

`directions._ranges` says once how bounds follow from logits. With PyTorch as its `xp`, tensors are
numbers; with `Operations`, they are names of values in a graph, and each operation appends its
node. Only what those formulas use is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OLDEST_OPSET = 13  # nodes are written for this version of ONNX's operators or any later one
AXES_ARE_INPUTS = 18  # the first version in which so are axes of all reductions, not sums alone

KINDS = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.bool_): TensorProto.BOOL,
}


def _operator(op: str, kind: Any = None, *, swapped: bool = False) -> Callable[..., GraphTensor]:
    """The method of an operator: a node, of another type than its inputs if said."""

    def method(self: GraphTensor, *other: Any) -> GraphTensor:
        operands = (*other, self) if swapped else (self, *other)
        return self.xp.elementwise(op, *operands, kind=kind)

    return method


def _reduction(op: str) -> Callable[..., GraphTensor]:
    """The method of a reduction along the last axis, which stays with length 1."""

    def method(self: GraphTensor, axis: int, *, keepdim: bool) -> GraphTensor:
        assert axis == -1
        assert keepdim
        if op == "ReduceSum" or self.xp.opset >= AXES_ARE_INPUTS:
            return self.xp.node(op, self, self.xp.vector([-1]), dtype=self.dtype, last=1)
        return self.xp.node(op, self, dtype=self.dtype, last=1, axes=[-1])

    return method


def _place(op: str) -> Callable[..., GraphTensor]:
    """The method that finds where an extreme number of every row is."""
    return lambda self, axis, *, keepdim: self.xp.node(
        op, self, dtype=np.int64, last=1, axis=axis, keepdims=int(keepdim)
    )


def _function(op: str, kind: Any = None) -> Callable[..., GraphTensor]:
    """A function of PyTorch that is an operator of ONNX."""
    return lambda self, *operands: self.elementwise(op, *operands, kind=kind)


class GraphTensor:
    """A value of a graph, its last axis known, with the methods of a tensor that are called."""

    __array_priority__ = 1000.0

    def __init__(self, xp: Operations, name: str, dtype: Any, last: int) -> None:
        self.xp, self.name, self.dtype, self.last = xp, name, np.dtype(dtype), last

    device = None

    @property
    def shape(self) -> tuple[Any, ...]:
        """The axes, of which only the last is known."""
        return (..., self.last)

    __add__, __radd__ = _operator("Add"), _operator("Add", swapped=True)
    __sub__, __rsub__ = _operator("Sub"), _operator("Sub", swapped=True)
    __mul__, __rmul__ = _operator("Mul"), _operator("Mul", swapped=True)
    __truediv__, __rtruediv__ = _operator("Div"), _operator("Div", swapped=True)
    __lt__, __le__ = _operator("Less", np.bool_), _operator("LessOrEqual", np.bool_)
    __gt__, __ge__ = _operator("Greater", np.bool_), _operator("GreaterOrEqual", np.bool_)
    __eq__ = _operator("Equal", np.bool_)  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __matmul__(self, other: GraphTensor) -> GraphTensor:
        return self.xp.node("MatMul", self, other, dtype=self.dtype, last=other.last)

    __and__, __or__ = _operator("And"), _operator("Or")
    __neg__, __invert__ = _operator("Neg"), _operator("Not")
    log, abs = _operator("Log"), _operator("Abs")
    amax, amin = _reduction("ReduceMax"), _reduction("ReduceMin")
    argmax, argmin = _place("ArgMax"), _place("ArgMin")
    _total = _reduction("ReduceSum")

    def __pow__(self, power: int) -> GraphTensor:
        assert power == 2
        return self * self

    def __getitem__(self, places: Any) -> GraphTensor:
        """A slice of the last axis, `t[..., :1]`."""
        _, part = places
        start, stop, _ = part.indices(self.last)
        ends = (self.xp.vector([n]) for n in (start, stop, -1))
        return self.xp.node("Slice", self, *ends, dtype=self.dtype, last=stop - start)

    def __iter__(self) -> Iterator[GraphTensor]:
        """The two parts of what `Operations.stack` made."""
        for index in range(2):
            place = self.xp.constant(index, np.int64)
            yield self.xp.node("Gather", self, place, dtype=self.dtype, last=self.last, axis=0)

    def detach(self) -> GraphTensor:
        """Itself: a graph has no gradients."""
        return self

    def to(self, dtype: Any) -> GraphTensor:
        """These numbers in another type."""
        kind = KINDS[np.dtype(dtype)]
        return self.xp.node("Cast", self, dtype=dtype, last=self.last, to=kind)

    def clamp(self, min: Any = None, max: Any = None) -> GraphTensor:  # noqa: A002
        """No less than `min` and no more than `max`."""
        found = self if min is None else self.xp.maximum(self, min)
        return found if max is None else self.xp.minimum(found, max)

    def masked_fill(self, mask: GraphTensor, value: float) -> GraphTensor:
        """With a value where the mask is true."""
        return self.xp.where(mask, value, self)

    def sum(self, axis: int, *, keepdim: bool) -> GraphTensor:
        """The sum along the last axis."""
        of = self.to(np.int64) if self.dtype == np.bool_ else self
        return of._total(axis, keepdim=keepdim)

    def gather(self, axis: int, places: GraphTensor) -> GraphTensor:
        """The entries of every row at these places."""
        return self.xp.node(
            "GatherElements", self, places, dtype=self.dtype, last=places.last, axis=axis
        )


class Operations:
    """A stand-in for the module `torch`: its functions append to `nodes` and `initializers`."""

    inf = math.inf
    int64, float64 = np.dtype(np.int64), np.dtype(np.float64)
    finfo = staticmethod(np.finfo)

    def __init__(self, prefix: str, opset: int, dtype: Any) -> None:
        self.prefix, self.opset, self.dtype = prefix, opset, np.dtype(dtype)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._known: dict[tuple[Any, ...], GraphTensor] = {}
        self.nn = SimpleNamespace(functional=SimpleNamespace(softplus=self._softplus))

    # Writing

    def node(self, op: str, *inputs: GraphTensor, dtype: Any, last: int, **how: Any) -> GraphTensor:
        """The output of a new node."""
        name = f"{self.prefix}{op}_{len(self.nodes)}"
        names = [value.name for value in inputs]
        self.nodes.append(helper.make_node(op, names, [name], name=name, **how))
        return GraphTensor(self, name, dtype, last)

    def constant(self, value: Any, dtype: Any = None) -> GraphTensor:
        """A constant, written once."""
        with np.errstate(over="ignore", under="ignore"):
            array = np.asarray(value).astype(self.dtype if dtype is None else dtype)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._known:
            name = f"{self.prefix}constant_{len(self.initializers)}"
            self.initializers.append(numpy_helper.from_array(array, name))
            last = array.shape[-1] if array.ndim else 1
            self._known[key] = GraphTensor(self, name, array.dtype, last)
        return self._known[key]

    def vector(self, numbers: Sequence[int]) -> GraphTensor:
        """A constant vector of whole numbers."""
        return self.constant(numbers, np.int64)

    def elementwise(self, op: str, *operands: Any, kind: Any = None) -> GraphTensor:
        """A node whose output has the shape that its inputs broadcast to."""
        dtype = next(x.dtype for x in operands if isinstance(x, GraphTensor))
        values = [self._value(x, dtype) for x in operands]
        last = max(value.last for value in values)
        return self.node(op, *values, dtype=kind or dtype, last=last)

    def _value(self, x: Any, dtype: Any) -> GraphTensor:
        return x if isinstance(x, GraphTensor) else self.constant(x, dtype)

    # Axes

    def classes_last(self, z: GraphTensor, dim: int) -> tuple[GraphTensor, GraphTensor]:
        """Logits with classes on the axis `dim` as (before, after, K), and their shape.

        The graph fails where that axis has another length.
        """
        K, whole = z.last, self.node("Shape", z, dtype=np.int64, last=1)
        at, count = self.vector([dim]), self.vector([K])
        wanted = self.node("ScatterElements", whole, at, count, dtype=np.int64, last=1)
        checked = self.node("Reshape", z, wanted, dtype=z.dtype, last=1)
        parts = self.node("Flatten", checked, dtype=z.dtype, last=1, axis=dim)
        parts = self.node("Reshape", parts, self.vector([0, K, -1]), dtype=z.dtype, last=1)
        return self.node("Transpose", parts, dtype=z.dtype, last=K, perm=[0, 2, 1]), whole

    def restored(self, x: GraphTensor, shape: GraphTensor) -> GraphTensor:
        """What `classes_last` took apart, in the shape that it had."""
        swapped = self.node("Transpose", x, dtype=x.dtype, last=1, perm=[0, 2, 1])
        return self.node("Reshape", swapped, shape, dtype=x.dtype, last=1)

    # The functions of PyTorch

    def where(self, condition: GraphTensor, chosen: Any, other: Any) -> GraphTensor:
        """One or the other, entry by entry."""
        given = [x for x in (chosen, other) if isinstance(x, GraphTensor)]
        dtype = given[0].dtype if given else self.dtype
        values = [condition, *(self._value(x, dtype) for x in (chosen, other))]
        return self.node("Where", *values, dtype=dtype, last=max(v.last for v in values))

    minimum, maximum, isinf = _function("Min"), _function("Max"), _function("IsInf", np.bool_)
    exp, log, sqrt = _function("Exp"), _function("Log"), _function("Sqrt")
    sigmoid, tanh = _function("Sigmoid"), _function("Tanh")

    def _softplus(self, x: GraphTensor, threshold: float) -> GraphTensor:  # noqa: ARG002
        """log(1 + exp(x)), of max(x, 0) and what is left: no runtime can lose its digits."""
        return self.maximum(x, 0.0) + self.log1p(self.exp(-x.abs()))

    def log1p(self, x: GraphTensor) -> GraphTensor:
        """log(1 + x) to all digits, by Kahan's rule; ONNX has no such operator."""
        u = x + 1.0
        tiny = u == 1.0
        return self.where(tiny, x, self.log(u) * x / (u - 1.0).masked_fill(tiny, 1.0))

    def softmax(self, x: GraphTensor, axis: int) -> GraphTensor:
        """Exponentials over their sum."""
        return self.node("Softmax", x, dtype=x.dtype, last=x.last, axis=axis)

    def arange(self, count: int, device: Any = None) -> GraphTensor:  # noqa: ARG002
        """0, 1, 2, ..."""
        return self.constant(np.arange(count), np.int64)

    def zeros_like(self, x: GraphTensor, dtype: Any) -> GraphTensor:
        """As many zeros."""
        shape = self.node("Shape", x, dtype=np.int64, last=1)
        value = numpy_helper.from_array(np.zeros(1, dtype))
        return self.node("ConstantOfShape", shape, dtype=dtype, last=x.last, value=value)

    def sort(self, x: GraphTensor, axis: int) -> tuple[GraphTensor, GraphTensor]:
        """In ascending order, and where it was."""
        values = self.node(
            "TopK", x, self.vector([x.last]), dtype=x.dtype, last=x.last, axis=axis, largest=0
        )
        places = GraphTensor(self, f"{values.name}_places", np.int64, x.last)
        self.nodes[-1].output.append(places.name)
        return values, places

    def cumsum(self, x: GraphTensor, axis: int) -> GraphTensor:
        """Sums of the entries so far."""
        return self.node("CumSum", x, self.constant(axis, np.int64), dtype=x.dtype, last=x.last)

    def cat(self, parts: Sequence[GraphTensor], axis: int) -> GraphTensor:
        """Joined along the last axis."""
        last = sum(part.last for part in parts)
        return self.node("Concat", *parts, dtype=parts[0].dtype, last=last, axis=axis)

    def stack(self, parts: Sequence[GraphTensor]) -> GraphTensor:
        """Joined along a new first axis."""
        first = self.vector([0])
        raised = [
            self.node("Unsqueeze", part, first, dtype=part.dtype, last=part.last) for part in parts
        ]
        return self.node("Concat", *raised, dtype=parts[0].dtype, last=parts[0].last, axis=0)
