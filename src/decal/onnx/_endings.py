"""Where a classifier's graph ends: in logits, or in probabilities made of them, and of what.

A final Softmax or Sigmoid is found by walking back from the output, also if it is written out as
exponentials over their sum. Whoever wants logits then reads what goes into it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import onnx

from decal._base.errors import InputError, Setting, listing

# Operators that hand on the numbers of their first input, and those between a sum of exponentials
# and the division by it.
UNCHANGED = ("Cast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
SPREAD = ("Cast", "Expand", "Identity", "Reshape", "Unsqueeze")
LARGEST_FILE = (1 << 31) - (1 << 20)  # bytes; larger models keep their weights beside it
FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)


@dataclass(frozen=True)
class Ending:
    """What an output of a classifier is."""

    # "softmax" or "sigmoid" of logits in the graph, "probabilities" of a model without logits, such
    # as a tree, or "" for anything else, which counts as logits.
    kind: str
    op: str  # what makes the probabilities
    value: str  # the name of the output, or of the matrix behind a ZipMap
    logits: str = ""  # what goes into the Softmax or Sigmoid
    after: tuple[onnx.NodeProto, ...] = ()  # from there to the output: they only reshape or cast


def find_output(model: onnx.ModelProto, output: str | None) -> str:
    """The output that holds scores: the one named, or the only one but for bounds of heads."""
    graph, makers = model.graph, producers(model.graph)
    axes = {str(value.name): _axes_of_scores(value, makers) for value in graph.output}
    told = [entry.key for entry in model.metadata_props]
    return choose_output(axes, told, output)


def choose_output(axes: dict[str, int], told: Iterable[str], output: str | None) -> str:
    """The output named, or the only one with scores that is no bound by metadata keys `told`.

    `axes` are those of each output of floats, and 0 of others: matrices come before pixels.
    """
    present = [*axes]
    if output is not None:
        if output not in present:
            rule = f"be one of the model's, {listing(present)}"
            raise InputError(Setting("output"), rule, repr(output))
        return output
    bounds = _bounds_of_heads(present, told)
    others = [name for name in present if name not in bounds]
    found = [name for name in others if axes[name] == 2]
    found = found or [name for name in others if axes[name] > 2]
    if len(found) != 1:
        but = f", where {listing(bounds)} are bounds of a head" if bounds else ""
        fact = f"{listing(found) or 'none'} of {listing(present)}{but}"
        rule = "be given if not one output alone holds numbers per class"
        raise InputError(Setting("output"), rule, fact, "Pass output=.")
    return found[0]


def head_key(lower: str, upper: str) -> str:
    """The key, in a model's metadata, of a head whose bounds have these names."""
    return f"decal.{lower}.{upper}"


def head_outputs(model: Any) -> list[str]:
    """The outputs of a model (path, bytes or ModelProto) that are bounds of heads of decal."""
    proto = model if isinstance(model, onnx.ModelProto) else read_model(model, weights=False)
    present = [str(value.name) for value in proto.graph.output]
    return _bounds_of_heads(present, (entry.key for entry in proto.metadata_props))


def _bounds_of_heads(present: list[str], told: Iterable[str]) -> list[str]:
    """The outputs that are bounds of heads, of which the keys of the metadata tell."""
    keys = set(told)
    heads = [pair for pair in permutations(present, 2) if head_key(*pair) in keys]
    return [name for pair in heads for name in pair]


def ending(graph: onnx.GraphProto, output: str) -> Ending:
    """What the output of this name is."""
    makers, value = producers(graph), output
    if value in makers and makers[value].op_type == "ZipMap":
        value = makers[value].input[0]
    name, after = value, []
    while name in makers and makers[name].op_type in UNCHANGED:
        after.append(makers[name])
        name = makers[name].input[0]
    node = makers.get(name)
    if node is None:
        return Ending("", "", value)
    between = tuple(reversed(after))
    if node.op_type in ("Softmax", "Sigmoid"):
        return Ending(node.op_type.lower(), node.op_type, value, node.input[0], between)
    exponentials = _divided_exponentials(node, makers)
    if exponentials is not None:
        said = "Exp and Div, a Softmax written out"
        return Ending("softmax", said, value, exponentials.input[0], between)
    if node.domain == "ai.onnx.ml" or value != output:  # as models of scikit-learn are converted
        return Ending("probabilities", node.op_type, value)
    return Ending("", node.op_type, value)


def producers(graph: onnx.GraphProto) -> dict[str, onnx.NodeProto]:
    """The node that makes each value."""
    return {name: node for node in graph.node for name in node.output if name}


def _divided_exponentials(
    node: onnx.NodeProto, makers: dict[str, onnx.NodeProto]
) -> onnx.NodeProto | None:
    """The Exp of a node that divides exponentials by their sum; None of any other node."""
    if node.op_type != "Div":
        return None
    above, below = (makers.get(name) for name in node.input)
    while below is not None and below.op_type in SPREAD:
        below = makers.get(below.input[0])
    if above is None or below is None or (above.op_type, below.op_type) != ("Exp", "ReduceSum"):
        return None
    return above if below.input[0] == above.output[0] else None


def _axes_of_scores(value: onnx.ValueInfoProto, makers: dict[str, onnx.NodeProto]) -> int:
    """How many axes an output of floats has; 2 if unknown, or of dictionaries, as ZipMap makes."""
    if value.name in makers and makers[value.name].op_type == "ZipMap":
        return 2
    tensor = value.type.tensor_type
    if tensor.elem_type not in FLOATS:
        return 0
    return len(tensor.shape.dim) if tensor.HasField("shape") else 2


def expose_logits(graph: onnx.GraphProto, end: Ending, prefix: str) -> str:
    """The value before a Softmax or Sigmoid, through copies of what reshapes or casts after it."""
    name = end.logits
    for number, node in enumerate(end.after):
        again = onnx.NodeProto()
        again.CopyFrom(node)
        again.name = f"{prefix}logits_{number}"
        again.input[0] = name
        del again.output[:]
        again.output.append(again.name)
        graph.node.append(again)
        name = again.name
    return name


def read_model(model: Any, *, weights: bool = True) -> onnx.ModelProto:
    """A model from a path, with or without weights in other files; from bytes; or a copy."""
    if isinstance(model, onnx.ModelProto):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return copy
    if isinstance(model, bytes):
        return _parsed(onnx.load_model_from_string, model, "bytes that are none, or damaged")
    if not isinstance(model, str | Path):
        rule = "be the path of an .onnx file, or a model of the package onnx"
        remedy = "A session does not show its graph."
        raise InputError("model", rule, f"a {type(model).__name__}", remedy)
    path = Path(model)
    if not path.is_file():
        raise FileNotFoundError(f"model must be an .onnx file: got {path}, which does not exist.")

    load = partial(onnx.load, load_external_data=weights)
    return _parsed(load, path, f"{path}, which is none, or is damaged")


def _parsed(load: Any, source: Any, fact: str) -> onnx.ModelProto:
    try:
        found: onnx.ModelProto = load(source)
    except Exception as error:  # of protobuf, whose classes differ between its versions
        why = str(error).strip().partition("\n")[0]
        raise InputError("model", "be a model of ONNX", f"{fact} ({why})") from error
    if not found.graph.node:
        raise InputError("model", "be a model of ONNX", fact)
    return found


def unused_prefix(graph: onnx.GraphProto) -> str:
    """What no name in the graph begins with."""
    names = {name for node in graph.node for name in (node.name, *node.input, *node.output)}
    names |= {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    prefix, number = "decal/", 1
    while any(name.startswith(prefix) for name in names):
        number += 1
        prefix = f"decal{number}/"
    return prefix
