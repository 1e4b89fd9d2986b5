"""Writing a decalibrator's predictions as nodes of an ONNX graph, behind a classifier or alone."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnx
from onnx import TensorProto, helper, version_converter
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from decal._base.errors import InputError, Setting, listing
from decal._base.settings import check_alpha, check_axis, check_choice
from decal.credal.decisions import HEAD_RULES
from decal.decalibrator import Decalibrator
from decal.directions import (
    BUILT_IN,
    TensorInputs,
    head_bounds,
    is_masked,
    logs_of_probabilities,
    require_capability,
)
from decal.io.whole_files import replacing
from decal.onnx._endings import (
    FLOATS,
    LARGEST_FILE,
    Ending,
    ending,
    expose_logits,
    find_output,
    head_key,
    head_outputs,
    read_model,
    unused_prefix,
)
from decal.onnx._operations import KINDS, OLDEST_OPSET, GraphTensor, Operations

HEAD_OPSET, HEAD_IR = 18, 8  # of heads alone: versions that runtimes since 2022 read


def append_head(
    model: Any,
    decalibrator: Decalibrator,
    out: str | Path,
    *,
    alpha: float | None = None,
    output: str | None = None,
    names: tuple[str, ...] = ("lower", "upper"),
    kept: str | None = None,
    dim: int = -1,
) -> Path:
    """The path of a classifier with a credal head: inputs in, lower and upper probabilities out.

    The new file has the classifier's inputs and outputs and two outputs more, in the shape of the
    logits: those of `decalibrator.predict`. It runs without decal and PyTorch, in float32, or in
    float64 if the classifier's output is. A head for logits attaches to what goes into a final
    Softmax.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
        The classifier. It is not changed. Operators older than version 13 are converted.
    decalibrator : Decalibrator
        Fitted on outputs of this classifier, with decal's own directions.
    out : path
        The .onnx file to write, not that of the classifier. Weights that lie in other files, or
        are more than 2 GB, go to a file of the same name with `.data` at its end.
    alpha : float, optional
        The level, in [0, 1]; by default the decalibrator's, at which a promise holds as it does for
        a `CredalHead`. For another one append another head.
    output : str, optional
        Which output of the classifier has the logits; needed if several could.
    names : pair of str
        Names of the new outputs; a third one is that of the kept classes, by default "kept".
    kept : str, optional
        "e_admissible", "interval_dominance", "majority", "ordered_majority" or, of a model with a
        tree, "node": one output more, of bool, the classes that this rule keeps, as
        `decalibrator.predict(...).decide(rule)` has them.
    dim : int
        The axis of the classes: 1 behind a network that labels pixels, (n, K, height, width).

    Examples
    --------
    >>> import decal, decal.onnx, tempfile
    >>> from onnx import parser
    >>> model = parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 13]>
    ...     net (float[n, 2] x) => (float[n, 2] z) { z = Identity(x) }
    ... ''')
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    >>> path = decal.onnx.append_head(model, d, f"{tempfile.mkdtemp()}/credal.onnx")
    >>> decal.onnx.run(path, [[[0.5, 0.0]]], output="lower").round(3)
    array([[0.179, 0.245]], dtype=float32)
    """
    head = Head.of(decalibrator, alpha, names, kept, dim)
    weights = _weight_files(model)
    _require_kept(model, weights, Path(out))
    proto = _recent(read_model(model))
    graph = proto.graph
    found = find_output(proto, output)
    _require_no_bound(proto, found)
    end = ending(graph, found)
    _require_new(head.names, graph, 2 if kept is None else 3)
    prefix = unused_prefix(graph)
    value = _attachment(graph, end, prefix, found, decalibrator)
    declared = next(v.type.tensor_type for v in graph.output if v.name == found)
    K = len(decalibrator.class_weights)
    _require_classes(declared, K, found, dim)
    double = declared.elem_type == TensorProto.DOUBLE
    (opset,) = (entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))
    ops = Operations(prefix, opset, np.float64 if double else np.float32)
    shape = _shape(declared)
    if dim == -1:
        *rows, columns = shape or [None, None]
        shape = [*rows, K]
        if columns != K:  # unknown: a graph that gives anything but n rows of K columns fails
            wanted = GraphTensor(ops, value, ops.dtype, K), ops.vector([0, K])
            value = ops.node("Reshape", *wanted, dtype=ops.dtype, last=K).name
    outputs = head.write(ops, value, shape or None)
    graph.node.extend(ops.nodes)
    graph.initializer.extend(ops.initializers)
    graph.output.extend(outputs)
    head.tell(proto)
    return _save(proto, Path(out), beside=bool(weights))


def export_head(
    decalibrator: Decalibrator,
    out: str | Path,
    *,
    alpha: float | None = None,
    dtype: str = "float32",
    kept: str | None = None,
    dim: int = -1,
) -> Path:
    """The path of a decalibrator's predictions as an ONNX file: logits in, bounds out.

    Its input is "logits", or "probabilities" if the decalibrator takes these; its outputs are
    "lower" and "upper", and "kept" if asked for: (n, K) each, or with `dim` of as many axes as the
    logits: 1 for pixels, 2 for tokens (n, T, K). `dtype`, "float32" or "float64", is that of all
    numbers. The other parameters are those of `append_head`.

    Examples
    --------
    >>> import decal, decal.onnx, tempfile
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    >>> path = decal.onnx.export_head(d, f"{tempfile.mkdtemp()}/head.onnx", dtype="float64")
    >>> decal.onnx.run(path, [[[0.5, 0.0]]], output="upper").round(3)
    array([[0.755, 0.821]])
    """
    head = Head.of(decalibrator, alpha, ("lower", "upper"), kept, dim)
    if dtype not in ("float32", "float64"):
        raise InputError("dtype", "be 'float32' or 'float64'", repr(dtype))
    ops = Operations("", HEAD_OPSET, dtype)
    name = "probabilities" if decalibrator.probabilities else "logits"
    shape: list[Any] | None = ["n", len(decalibrator.class_weights)] if dim == -1 else None
    given = helper.make_tensor_value_info(name, KINDS[ops.dtype], shape)
    outputs = head.write(ops, name, shape)
    graph = helper.make_graph(ops.nodes, "decal", [given], outputs, ops.initializers)
    opsets = [helper.make_opsetid("", HEAD_OPSET)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=HEAD_IR)
    proto.producer_name = "decal"
    head.tell(proto)
    return _save(proto, Path(out), beside=False)


@dataclass(frozen=True)
class Head:
    """What a head computes, and what its outputs are called."""

    decalibrator: Decalibrator
    alpha: float
    names: tuple[str, ...]
    kept: str | None
    dim: int

    @classmethod
    def of(
        cls,
        decalibrator: Decalibrator,
        alpha: float | None,
        names: tuple[str, ...],
        kept: str | None,
        dim: Any,
    ) -> Self:
        """A head after every check of what is asked for."""
        _require_writable(decalibrator)
        alpha = decalibrator.alpha if alpha is None else check_alpha(alpha)
        if kept is not None:
            check_choice(kept, "kept", HEAD_RULES)
            names = (*names, "kept") if len(names) == 2 else names
        return cls(decalibrator, alpha, names, kept, check_axis(dim))

    def write(self, ops: Operations, value: str, shape: list[Any] | None) -> list[Any]:
        """Append the nodes that lead from a value of the graph to the outputs, and declare these.

        Their shape is told if it is known.
        """
        model, dim = self.decalibrator, self.dim
        K, reference = len(model.class_weights), model.reference_model
        z: Any = GraphTensor(ops, value, ops.dtype, K).to(ops.dtype)
        if dim != -1:
            z, axes = ops.classes_last(z, dim)
        if model.probabilities:
            z = logs_of_probabilities(ops, z, model.floor)
        center: Any = ops.constant(reference.center)
        scale: Any = None if reference.scale == 1 else ops.constant(reference.scale)
        steps: list[Any] = []
        for direction in model.directions:
            ends = model.steps(direction.name, self.alpha)
            steps.append((direction, ops.constant(ends.lower), ops.constant(ends.upper)))
        inputs = TensorInputs(z, is_masked(ops, center), model.box == "joint", ops)
        leaves: Any = None
        if self.kept == "node":
            leaves = tuple(ops.constant(part) for part in (model.leaves, model.leaves.T))
        made: Any = head_bounds(inputs, center, scale, steps, self.kept, leaves)
        if dim != -1:
            made = [ops.restored(found, axes) for found in made]
        for name, found in zip(self.names, made, strict=True):
            node = helper.make_node("Identity", [found.name], [name], f"{ops.prefix}{name}")
            ops.nodes.append(node)
        return [
            helper.make_tensor_value_info(name, KINDS[found.dtype], shape)
            for name, found in zip(self.names, made, strict=True)
        ]

    def tell(self, proto: onnx.ModelProto) -> None:
        """Add what the head is to the model's properties, below those of heads appended before."""
        import decal

        model = self.decalibrator
        said = {
            "alpha": self.alpha,
            "classes": model.classes or [str(k) for k in range(len(model.class_weights))],
            "examples": model.examples,
            "settings": repr(model),
            "decal": decal.__version__,
        }
        said |= {} if self.kept is None else {"kept": self.kept}
        said |= {} if self.dim == -1 else {"dim": self.dim}
        entry = proto.metadata_props.add()
        entry.key, entry.value = head_key(*self.names[:2]), json.dumps(said)


def _require_writable(decalibrator: Decalibrator) -> None:
    """An error if this is no Decalibrator, or has directions that make no nodes."""
    if not isinstance(decalibrator, Decalibrator):
        raise TypeError(
            f"decalibrator must be a Decalibrator: got a {type(decalibrator).__name__}. Use its "
            "predict; of several labels, torch.onnx.export writes a decal.torch.CredalHead."
        )
    require_capability(decalibrator.directions, "exports", "ONNX", "Use Decalibrator.predict.")
    foreign = [d.name for d in decalibrator.directions if type(d) not in BUILT_IN.values()]
    if foreign:
        remedy = "Export a decal.torch.CredalHead with torch.onnx.export instead."
        rule = f"be decal's own, {', '.join(BUILT_IN)}"
        raise InputError("directions", rule, ", ".join(foreign), remedy)
    decalibrator.reference_model  # noqa: B018  refuses what is not fitted


def _attachment(
    graph: onnx.GraphProto, end: Ending, prefix: str, output: str, decalibrator: Decalibrator
) -> str:
    """The value that the head takes: logits or probabilities, as the decalibrator was fitted on."""
    if end.kind == "sigmoid":
        fact = f"{output!r}, which a Sigmoid makes, a separate question per label"
        remedy = "Use decal.MultiLabelDecalibrator on its logits."
        raise InputError("output", "be a choice between classes", fact, remedy)
    if decalibrator.probabilities:
        if not end.kind:
            rule = f"take logits, as the graph's output {output!r} is no Softmax"
            found = "one with ", Setting("probabilities", True)
            raise InputError("decalibrator", rule, found, "Fit it on what decal.onnx.run returns.")
        return end.value
    if end.kind == "probabilities":
        rule = f"take probabilities, as {end.op} makes them in this graph"
        on = " on run(..., read='probabilities')"
        advice = "Fit it with ", Setting("probabilities", True), on, "."
        raise InputError("decalibrator", rule, "one for logits", advice)
    return expose_logits(graph, end, prefix) if end.kind else end.value


def _require_kept(model: Any, weights: set[Path], out: Path) -> None:
    """InputError if writing would replace the classifier, or its weights."""
    read = {Path(model), *weights} if isinstance(model, str | Path) else set()
    for new in (out, out.with_name(f"{out.name}.data")):
        if new.exists() and any(old.exists() and new.samefile(old) for old in read):
            fact = f"{out}, which would write over {new}"
            raise InputError("out", "not replace the classifier", fact, "Choose another name.")


def _require_no_bound(proto: onnx.ModelProto, output: str) -> None:
    bounds = head_outputs(proto)
    if output in bounds:
        others = [value.name for value in proto.graph.output if value.name not in bounds]
        rule = f"be one of the classifier's, {listing(others) or 'of which none is left'}"
        raise InputError("output", rule, f"{output!r}, a bound that a head of decal gives")


def _require_new(names: tuple[str, ...], graph: onnx.GraphProto, count: int) -> None:
    known = {name for node in graph.node for name in (*node.input, *node.output)}
    known |= {value.name for value in graph.output}
    taken = [name for name in names if name in known]
    if len(names) != count or len(set(names)) < count or taken:
        fact = f"{taken[0]!r}, which is in the graph" if taken else repr(names)
        others = ", ".join(f"'credal_{name}'" for name in ("lower", "upper", "kept")[:count])
        remedy = f"Pass others, such as names=({others})."
        rule = f"be {'two' if count == 2 else 'three'} that the graph does not have"
        raise InputError(Setting("names"), rule, fact, remedy)


def _require_classes(declared: Any, K: int, output: str, dim: int) -> None:
    """InputError if an output has not the K classes on this axis, by what the file says of it."""
    if declared.elem_type not in (TensorProto.UNDEFINED, TensorProto.BFLOAT16, *FLOATS):
        kind = TensorProto.DataType.Name(declared.elem_type).lower()
        raise InputError("output", "hold floats", f"{output!r} of type {kind}")
    shape = _shape(declared)
    if not shape:
        return  # the graph itself checks it
    *others, columns = shape
    fact = f"{output!r} with shape ({', '.join('?' if n is None else str(n) for n in shape)})"
    if not others:
        raise InputError("output", "be a matrix with a row per input", fact)
    if dim != -1:
        if not -len(shape) <= dim < len(shape):
            rule = f"be an axis of {output!r}, of which there are {len(shape)}"
            raise InputError("dim", rule, f"{dim}")
        if isinstance(shape[dim], int) and shape[dim] != K:
            raise InputError("dim", f"be the axis of the {K} classes", f"{dim} of {fact}")
        return  # one of unknown length is checked by the graph
    if K in others[1:]:
        remedy = f"Pass dim={others.index(K, 1)} if that axis has the classes, "
        remedy += f"dim={len(others)} if the last one has."
        rule = "have classes in the last axis, and no axis between as long"
        raise InputError("output", rule, f"{fact}, and {K} classes", remedy)
    if isinstance(columns, int) and columns != K:
        rule = f"have {columns} classes, the columns of {output!r}"
        raise InputError("decalibrator", rule, f"{K}", "Fit it on outputs of this classifier.")
    if len(shape) > 2 and columns != K:
        remedy = "Export the classifier with the number of classes in its shape."
        raise InputError("output", f"have {K} entries in the last axis", fact, remedy)


def _recent(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model with its operators in version OLDEST_OPSET or later."""
    versions = [entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions:
        proto.opset_import.append(helper.make_opsetid("", OLDEST_OPSET))
        return proto
    if versions[0] >= OLDEST_OPSET:
        return proto
    try:
        return version_converter.convert_version(proto, OLDEST_OPSET)
    except Exception as error:
        why = str(error).splitlines()[0]
        fact = f"version {versions[0]}, and onnx cannot convert it ({why})"
        rule = f"use version {OLDEST_OPSET} of ONNX's operators or later"
        remedy = "Export the classifier again with a later opset."
        raise InputError("model", rule, fact, remedy) from error


def _shape(declared: Any) -> list[Any]:
    """All axes, by number, name or None; no axis if nothing is known."""
    dims = declared.shape.dim
    return [d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in dims]


def _weight_files(model: Any) -> set[Path]:
    """The files beside that of a model which hold weights of it."""
    if not isinstance(model, str | Path):
        return set()
    proto = read_model(model, weights=False)
    return {
        Path(model).parent / ExternalDataInfo(tensor).location
        for tensor in proto.graph.initializer
        if uses_external_data(tensor)
    }


def _save(proto: onnx.ModelProto, path: Path, *, beside: bool) -> Path:
    """Write a file, and one of weights beside it if there was one, or if they are too many."""
    if not beside and proto.ByteSize() < LARGEST_FILE:
        with replacing(path) as partial:
            partial.write_bytes(proto.SerializeToString())
        return path
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".onnx") as folder:
        written = Path(folder, path.name)
        onnx.save(
            proto,
            written,
            save_as_external_data=True,
            all_tensors_to_one_file=True,
            location=f"{path.name}.data",
        )
        for file in sorted(Path(folder).iterdir(), reverse=True):  # the weights first
            shutil.move(file, path.parent / file.name)
    return path
