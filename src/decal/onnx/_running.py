"""Running an ONNX classifier over batches of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from decal._base.errors import InputError, listing, needs
from decal._base.row_checks import to_numpy
from decal._base.settings import check_choice, check_count
from decal.io.progress import on_terminal, tracked
from decal.onnx._endings import (
    LARGEST_FILE,
    Ending,
    choose_output,
    ending,
    expose_logits,
    find_output,
    read_model,
    unused_prefix,
)
from decal.schema import look_like_probabilities, warn_of_probabilities

NEEDED = "running ONNX models needs ONNX Runtime: pip install 'decal[onnx]'"

# NumPy's types of inputs, by ONNX Runtime's names. Text and others are passed as they are.
TYPES = {f"tensor({name})": name for name in ("float16", "int64", "int32", "int8", "uint8", "bool")}
TYPES |= {"tensor(float)": "float32", "tensor(double)": "float64"}


def run(
    model: Any,
    inputs: Any,
    *,
    output: str | None = None,
    read: str | None = None,
    batch_size: int = 256,
    providers: Iterable[Any] | None = None,
    progress: bool = True,
) -> NDArray[Any]:
    """The logits (n, K) that an ONNX classifier gives to inputs, in its precision.

    Those of pixels or tokens have more axes, and one size. If the graph ends in a Softmax or a
    Sigmoid, `read` has to say what is wanted.

    Parameters
    ----------
    model : path, bytes, onnx.ModelProto or onnxruntime.InferenceSession
        The classifier. Of a session, nothing before its output can be read.
    inputs : array, mapping of arrays, or iterable of batches
        An array (n, ...), for a model with one input; arrays (n, ...) by the names of the inputs;
        or batches, each of which is either. Converted within a kind, as float64 to float32.
    output : str, optional
        Which output; needed if several hold floats, not counting bounds of heads that decal wrote.
    read : str, optional
        "logits" reads what goes into a final Softmax or Sigmoid, which is more exact;
        "probabilities" reads what comes out of it, for models with probabilities=True.
    batch_size : int
        Inputs per call, where `inputs` is not in batches already and the model fixes no other size.
    providers : iterable, optional
        Execution providers of ONNX Runtime; by default its CPU.
    progress : bool
        Whether to draw a bar on stderr, if that is a terminal and rich is installed.

    Examples
    --------
    >>> import decal.onnx
    >>> from onnx import parser
    >>> model = parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 13]>
    ...     net (float[n, 2] x) => (float[n, 2] p) { z = Add(x, x)  p = Softmax(z) }
    ... ''')
    >>> decal.onnx.run(model, [[[1.0, 0.0]], [[0.0, 3.0]]], read="logits")
    array([[2., 0.],
           [0., 6.]], dtype=float32)
    """
    if read is not None:
        check_choice(read, "read", ("logits", "probabilities"))
    check_count(batch_size, "batch_size")
    session, name, is_seen = _opened(model, output, read, providers)
    found = [
        _scores(session.run([name], feed)[0], rows, name)
        for feed, rows in _feeds(session, inputs, batch_size, progress)
    ]
    if not found:
        raise InputError("inputs", "hold at least one batch", "none")
    if len({part.shape[1:] for part in found}) > 1:
        fact = f"{sorted({part.shape[1:] for part in found})}"
        remedy = "Run inputs of one size at a time."
        raise InputError("model", "give results of one shape to every batch", fact, remedy)
    values = np.concatenate(found)
    if read != "probabilities" and look_like_probabilities(values):
        way = "Pass read='probabilities'"
        if not is_seen:
            way = "Pass the path of the model with read='logits', or read='probabilities'"
        warn_of_probabilities(f"the output {name!r}", way)
    return values


def _opened(
    model: Any, output: str | None, read: str | None, providers: Iterable[Any] | None
) -> tuple[Any, str, bool]:
    """A session, the name of the output to read, and whether its graph could be seen."""
    with needs("onnxruntime", message=NEEDED):
        import onnxruntime  # type: ignore[import-untyped]
    if isinstance(model, onnxruntime.InferenceSession):
        return model, _session_output(model, output), False
    proto = read_model(model, weights=False)
    graph = proto.graph
    name = find_output(proto, output)
    end = ending(graph, name)
    _require_choice(end, name, read)
    if read == "logits" and end.logits:
        name = expose_logits(graph, end, unused_prefix(graph))
    elif end.kind:
        name = end.value
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only: not every weight that is left over
    chosen = ["CPUExecutionProvider"] if providers is None else list(providers)
    session = onnxruntime.InferenceSession(_content(proto, name, model), options, providers=chosen)
    return session, name, True


def _content(proto: onnx.ModelProto, name: str, model: Any) -> bytes | str:
    """What a session is made of: the file itself, or bytes if a new output had to be added."""
    as_it_is = name in {value.name for value in proto.graph.output}
    if isinstance(model, str | Path):
        if as_it_is:
            return str(model)
        onnx.load_external_data_for_model(proto, str(Path(model).absolute().parent))
    if not as_it_is:
        # its type is for the runtime to find
        proto.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    if proto.ByteSize() >= LARGEST_FILE:
        rule = "be smaller than 2 GB, unless its output is read as it is"
        remedy = "Pass read='probabilities', or export it without Softmax."
        raise InputError("model", rule, f"{proto.ByteSize():,} bytes", remedy)
    return bytes(proto.SerializeToString())


def _require_choice(end: Ending, output: str, read: str | None) -> None:
    """InputError if probabilities are not asked for, or logits that the graph does not have."""
    if end.kind == "probabilities" and read != "probabilities":
        fact = f"{read!r}, and {end.op} makes probabilities without logits"
        rule = f"be 'probabilities' for the output {output!r}"
        raise InputError("read", rule, fact, "Use them with probabilities=True.")
    if end.kind and read is None:
        rule = f"say what to take, as the output {output!r} is made by {end.op}"
        remedy = "Pass read='logits' for what goes into it, which is more exact, or "
        remedy += "read='probabilities', for models with probabilities=True."
        raise InputError("read", rule, "None", remedy)


def _session_output(session: Any, output: str | None) -> str:
    """The output of a session that holds numbers per class."""
    kinds = ("tensor(float)", "tensor(double)", "tensor(float16)")
    axes = dict.fromkeys((str(v.name) for v in session.get_outputs()), 0)
    for v in session.get_outputs():
        if v.type in kinds:
            axes[v.name] = len(v.shape or (0, 0))
        elif v.type.startswith("seq(map("):
            axes[v.name] = 2
    return choose_output(axes, session.get_modelmeta().custom_metadata_map, output)


# Inputs


def _feeds(
    session: Any, inputs: Any, batch_size: int, progress: bool
) -> Iterator[tuple[dict[str, Any], int]]:
    """What to feed, batch by batch, and how many rows of it count."""
    wanted = {value.name: value for value in session.get_inputs()}
    fixed = [v.shape[0] for v in wanted.values() if v.shape and isinstance(v.shape[0], int)]
    size = fixed[0] if fixed else None
    batches: Iterable[Any] = inputs
    if isinstance(inputs, Mapping) or hasattr(inputs, "shape"):
        whole, step = _feed(inputs, wanted), size or batch_size
        starts = range(0, len(next(iter(whole.values()))), step)
        batches = [{name: x[i : i + step] for name, x in whole.items()} for i in starts]
    for batch in tracked(batches, "logits", unit="batches", show=progress and on_terminal()):
        feed = _feed(batch, wanted)
        rows = len(next(iter(feed.values())))
        if size is not None and rows < size:
            feed = {
                name: np.concatenate([values, np.repeat(values[-1:], size - rows, axis=0)])
                for name, values in feed.items()
            }
        yield feed, rows


def _feed(batch: Any, wanted: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Arrays by the names of the model's inputs, of their types and of one length."""
    if not isinstance(batch, Mapping):
        if len(wanted) != 1:
            rule = f"be a mapping, as the model has {len(wanted)} inputs, {listing([*wanted])}"
            raise InputError("inputs", rule, f"a {type(batch).__name__}")
        batch = dict.fromkeys(wanted, batch)
    if set(batch) != set(wanted):
        given = listing([str(name) for name in batch]) or "none"
        raise InputError("inputs", f"be {listing([*wanted])}, as the model's", given)
    feed = {name: _typed(values, wanted[name]) for name, values in batch.items()}
    lengths = {name: len(values) for name, values in feed.items()}
    if len(set(lengths.values())) > 1:
        raise InputError("inputs", "have as many rows each", f"{lengths}")
    return feed


def _typed(values: Any, wanted: Any) -> NDArray[Any]:
    array = to_numpy(values, f"inputs[{wanted.name!r}]")
    if array.ndim == 0 or (wanted.shape and array.ndim != len(wanted.shape)):
        rule = f"have {len(wanted.shape)} axes for {wanted.name!r}, {wanted.shape}"
        remedy = "The first axis is that of the inputs."
        raise InputError("inputs", rule, f"shape {array.shape}", remedy)
    kind = TYPES.get(wanted.type)
    if kind is None or array.dtype == kind:
        return array
    if not np.can_cast(array.dtype, kind, "same_kind"):
        rule = f"be of type {kind} for {wanted.name!r}"
        raise InputError("inputs", rule, f"{array.dtype}", "Convert them first.")
    return array.astype(kind)


def _scores(found: Any, rows: int, name: str) -> NDArray[Any]:
    """(rows, ...) what the model gave to a batch; of dictionaries, their values."""
    if isinstance(found, list) and found and isinstance(found[0], Mapping):
        found = np.array([list(row.values()) for row in found])
    array = np.asarray(found)
    if array.ndim < 2 or len(array) < rows:
        rule = f"give a row per input and a column per class as {name!r}"
        fact = f"shape {array.shape} for {rows} inputs"
        raise InputError("model", rule, fact, "Choose another output=.")
    return array[:rows]
