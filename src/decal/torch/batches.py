"""Running PyTorch models over batches, for `decal.torch` and for trainers of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from decal._base.errors import IN_ARRAY, InputError, Place, listing
from decal._base.numerics import row_blocks
from decal._base.row_checks import (
    ONE_SCORE,
    check_labels,
    check_logits,
    to_numpy,
)
from decal._base.settings import check_choice
from decal.evaluate import Evaluation
from decal.grids import Grid, GridPlace, check_ignored, class_axis
from decal.io.progress import on_terminal, tracked
from decal.model import Model, promised_sets, require_classes
from decal.votes import Votes

__all__ = [
    "at_least_float32",
    "check_rows",
    "evaluating",
    "label_tensor",
    "labelled_logits",
    "logits_of",
    "model_logits",
    "move",
    "require_classes_last",
    "split_batch",
]

EVALUATED_ELEMENTS = 1 << 20  # logits whose sets are held at once: 8 MB for each of their arrays
VOTES = ("annotations", "counts")  # what labels of several people may be
SEVERAL_LABELS = (
    "Of one-hot rows take labels.argmax(axis=1). If an input may have several labels, use "
    "decal.MultiLabelDecalibrator; if several people said which one it has, pass "
    "votes='annotations' or votes='counts' to decal.torch.decalibrate_model."
)


# Running a model


@contextmanager
def evaluating(
    model: Callable[..., Any] | None, device: torch.device | str | None = None
) -> Iterator[torch.device | None]:
    """A model in evaluation mode, on a device, until the end; yields the device of its inputs."""
    if not isinstance(model, nn.Module):
        yield None if device is None else torch.device(device)
        return
    modes = [(module, module.training) for module in model.modules()]
    tensor = next(model.parameters(), next(model.buffers(), None))
    home = torch.device("cpu") if tensor is None else tensor.device
    try:
        if device is not None:
            model.to(device)
        model.eval()
        yield home if device is None else torch.device(device)
    finally:
        for module, training in modes:
            module.training = training
        if device is not None:
            model.to(home)


class Batch(NamedTuple):
    """Logits with classes on some axis, and labels of their shape without it; on the CPU.

    Labels are a tensor, or Votes for logits (n, K).
    """

    logits: Tensor
    labels: Any
    axis: int

    def rows(self, ignore_index: int | None = None) -> tuple[Tensor, Any, Tensor]:
        """Logits (n, K), labels (n,) and numbers of images (n,) of all that is not ignored.

        Images, or sentences, are the first axis; all is one image if that holds the classes.
        """
        z, y = self.logits.movedim(self.axis, -1), self.labels
        if isinstance(y, Votes):
            return z, y, torch.arange(len(y))
        first = torch.arange(len(y)) if self.axis else torch.zeros(len(y), dtype=torch.int64)
        units = first.repeat_interleave(y[:1].numel())
        if ignore_index is None:
            return z.reshape(-1, z.shape[-1]), y.flatten(), units
        known = y != ignore_index
        return z[known], y[known], units[known.flatten()]

    def place(self, first: int, ignore_index: int | None) -> Place:
        """Where rows stand among all inputs of a loader, if these are the images from `first`."""
        voted = isinstance(self.labels, Votes)
        if voted or (self.labels.ndim == 1 and ignore_index is None):
            return Place(first)
        n, *others = self.labels.shape
        first = first if self.axis else 0
        known = np.arange(self.labels.numel())
        if ignore_index is not None:
            known = np.flatnonzero(self.labels != ignore_index)
        numbers = first * self.labels[:1].numel() + known
        return GridPlace(grid=Grid(((first + n, *others),), self.axis, known=numbers))


def labelled_logits(
    model: Callable[..., Any] | None,
    loader: Iterable[Any],
    device: torch.device | None,
    progress: bool,
    *,
    dim: int | None = None,
    ignore_index: int | None = None,
    votes: str | None = None,
) -> Iterator[Batch]:
    """Checked logits and labels of every batch, in the precision that the model gives."""
    check_ignored(ignore_index)
    if votes is not None:
        check_choice(votes, "votes", VOTES)
        for name, value in (("dim", dim), ("ignore_index", ignore_index)):
            if value is not None:
                remedy = "Of pixels and tokens, pass one label each."
                raise InputError(name, "be left out with votes", f"{value}", remedy)
    first, K, known, axis = 0, None, 0, dim
    batches = tracked(loader, "logits", unit="batches", show=progress and on_terminal())
    for number, batch in enumerate(batches):
        inputs, y = split_batch(batch)
        labels = label_tensor(y, dense=True) if votes is None else y
        one_each = votes is not None or (labels.ndim == 1 and dim is None)
        # Entered for each batch: a generator must not leave its caller in inference mode.
        with torch.inference_mode(), _explained(inputs, number):
            output = run_batch(model, move(inputs, device))
            logits = logits_of(output, len(labels) if one_each else None)
        if votes is not None:
            labels = votes_of(labels, votes, logits.shape[1], f"batch {number}")
        found = batch_of(logits, labels, axis)
        axis = found.axis  # of later batches, too: their sizes may fit other axes as well
        classes = found.logits.shape[axis]
        if K not in (None, classes):
            rule = f"return {K} columns for every batch, as for the first"
            raise InputError("model", rule, f"{classes} from row {first} on")
        K, place = classes, found.place(first, ignore_index)
        known += check_batch(found, place, ignore_index)
        first += len(labels) if axis else 1
        yield found
    if K is None:
        remedy = "An iterator yields its batches once."
        raise InputError("loader", "yield at least one batch", "none", remedy)
    if not known:
        raise InputError("labels", "not all be ignored", f"only {ignore_index}")


def votes_of(labels: Any, kind: str, K: int, where: str) -> Votes:
    """The labels of a batch that are annotations, or counts, of K classes; InputError if not."""
    given = to_numpy(labels, "labels")
    if kind == "counts" and given.ndim == 2 and given.shape[1] != K:
        fact = f"{given.shape[1]} in {where}"
        remedy = "If a column is one person's labels, pass votes='annotations'."
        raise InputError("counts", f"have a column per class, {K}", fact, remedy)
    try:
        if kind == "annotations":
            return Votes.of_annotations(given, classes=K)
        return Votes.of_counts(given)
    except InputError as error:
        fact_there = (error.fact, f" of {where}")
        raise InputError(error.argument, error.rule, fact_there, error.remedy) from None


def batch_of(logits: Tensor, labels: Any, dim: int | None) -> Batch:
    """Logits that were found, brought to the CPU, with labels; InputError if shapes do not fit."""
    if isinstance(labels, Votes):
        return Batch(logits.cpu(), labels, 1)
    shape = tuple(logits.shape)
    if labels.ndim != 1 and logits.ndim <= 2:
        label_tensor(labels)  # says what these are
    axis = class_axis([shape], [tuple(labels.shape)], dim)
    if shape[axis] < 2:
        fact = f"shape {shape}"
        raise InputError("model", "return one column per class, two or more", fact, ONE_SCORE)
    return Batch(logits.cpu(), labels, axis)


def check_batch(batch: Batch, place: Place, ignore_index: int | None) -> int:
    """How many labels are not ignored; InputError about these, or their logits."""
    z, y, _ = batch.rows(ignore_index)
    if not isinstance(y, Votes):
        check_labels(y, rows=len(y), classes=z.shape[1], place=place)
    check_rows(z, place)
    return len(y)


def joined(batches: Sequence[Batch]) -> tuple[Any, Any, int | None]:
    """All logits, labels, and the axis of the classes; None of a matrix.

    Images of one size are one tensor, images of several sizes a list, of an entry each.
    """
    logits, labels = [b.logits for b in batches], [b.labels for b in batches]
    dim = batches[0].axis
    # Outside of inference mode: what is made here may enter other computations.
    if dim and len({z.shape[1:] for z in logits}) == 1:
        return torch.cat(logits), together(labels), None if logits[0].ndim == 2 else dim
    if dim:
        logits, labels = ([one for batch in part for one in batch] for part in (logits, labels))
    return [z.clone() for z in logits], labels, max(dim - 1, 0)


def together(parts: Sequence[Any]) -> Any:
    """The tensors, or the Votes, of several batches in one."""
    if isinstance(parts[0], Votes):
        return Votes(np.concatenate([votes.counts for votes in parts]))
    return torch.cat([*parts])


def evaluations(
    decalibrator: Any, batches: Iterable[Batch], ignore_index: int | None
) -> Iterator[Evaluation]:
    """What the sets of each batch keep and miss; of a batch, some rows are held at a time."""
    for batch in batches:
        z, y, units = batch.rows(ignore_index)
        found, missed = [], []
        y = y if isinstance(y, Votes) else y.numpy()
        dense = not isinstance(y, Votes) and batch.labels.ndim > 1
        for some in row_blocks(len(z), z.shape[1], EVALUATED_ELEMENTS):
            sets = promised(decalibrator, z[some])
            kept, guess = sets.possible_mask(), z[some].argmax(dim=1).numpy()
            found.append(Evaluation.of(sets, kept, y[some], guess, decalibrator.promise))
            if dense:
                missed.append(~kept[np.arange(len(kept)), y[some]])
        if found:
            total = Evaluation.total(found)
            yield total.with_units(np.concatenate(missed), units.numpy()) if dense else total


def require_decalibrator(decalibrator: Any) -> None:
    """An error about anything but a model of decal that tells classes apart."""
    require_classes(decalibrator)
    if not isinstance(decalibrator, Model):
        raise TypeError(
            f"decalibrator must be a Decalibrator: got a {type(decalibrator).__name__}. "
            "evaluate_model takes a model, a decalibrator and a loader."
        )


def promised(decalibrator: Any, logits: Tensor, dim: int | None = None) -> Any:
    """The sets of logits by the promise of a model, if it has one; maps if they have more axes."""
    rows = decalibrator.read(at_least_float32(logits.detach()).cpu(), dim=dim)
    sets = promised_sets(decalibrator, rows, decalibrator.alpha, decalibrator.promise)
    return sets if rows.grid is None else rows.grid.maps(sets)


@contextmanager
def _explained(inputs: Any, number: int) -> Iterator[None]:
    """Complaints of a model about its inputs say what these are."""
    try:
        yield
    except RuntimeError as error:
        found = f"The model's inputs in batch {number}: {_described(inputs)}."
        error.add_note(f"{found} If the loader yields logits already, pass None as the model.")
        raise
    except (TypeError, AttributeError) as error:
        several = inputs if isinstance(inputs, tuple | list) else [inputs]
        given = [("", value) for value in several]
        advice = "Wrap the model in a function that takes them."
        if isinstance(inputs, Mapping):
            given = [(f"{name}=", value) for name, value in inputs.items()]
            advice = "A mapping is passed by keyword: leave out what the model does not take."
        if any(isinstance(value, np.ndarray) for _, value in given):
            advice = "Turn arrays into tensors, as a DataLoader does."
        shown = [name + _described(value) for name, value in given]
        raise TypeError(
            f"model must take the inputs that loader yields: got {', '.join(shown)} in batch "
            f"{number}, and {type(error).__name__}: {str(error).rstrip('.')}. {advice}"
        ) from error


def _described(value: Any) -> str:
    """The type of an input, and its shape."""
    shape = getattr(value, "shape", None)
    return type(value).__name__ + ("" if shape is None else f" {tuple(shape)}")


def model_logits(model: Callable[..., Any], inputs: Any, rows: int) -> Tensor:
    """(rows, K) logits that a model returns for one batch of inputs."""
    return logits_of(run_batch(model, inputs), rows)


def run_batch(model: Callable[..., Any] | None, inputs: Any) -> Any:
    """What a model returns for one batch of inputs, which without a model are logits already."""
    if model is None:
        found = inputs.get("logits") if isinstance(inputs, Mapping) else inputs
        if not isinstance(found, Tensor):
            rule = "yield tensors (logits, labels), or mappings with 'logits', if model is None"
            raise InputError("loader", rule, _described(inputs))
        return found
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, tuple | list):
        return model(*inputs)
    return model(inputs)


# Batches and tensors


def split_batch(batch: Any) -> tuple[Any, Any]:
    """Inputs and labels of a batch: a pair, or a mapping with the key "labels" or "label".

    A third item may name the examples, by text or by numbers none of which is there twice: it is
    left out. Any other could be weights, or a mask before the labels, and is refused.
    """
    if isinstance(batch, Mapping):
        keys = [name for name in ("labels", "label") if name in batch]
        if len(keys) != 1:
            rule = "yield mappings with 'labels' or 'label', one of them"
            raise InputError("loader", rule, f"keys {list(batch)}")
        inputs = {name: v for name, v in batch.items() if name not in keys}
        return inputs, _several(batch[keys[0]])
    items = batch if isinstance(batch, tuple | list) else ()
    if len(items) == 2 or (len(items) == 3 and _name_examples(items[2], items[1])):
        return items[0], _several(items[1])
    rule, remedy = "yield (inputs, labels) or mappings with 'labels'", ""
    if len(items) == 3:
        rule = "yield (inputs, labels), or with a third item that names examples"
        remedy = "Yield ((input, mask), labels) for a model of two inputs; leave weights out."
    size = f" of {len(items)}" if items else ""
    raise InputError("loader", rule, f"a {type(batch).__name__}{size}", remedy)


def _name_examples(values: Any, labels: Any) -> bool:
    """Whether values are names of examples, or numbers that tell each from all others."""
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    if array.ndim != 1 or len(array) != len(labels):
        return False
    return array.dtype.kind in "TU" or (
        array.dtype.kind in "iu" and len(np.unique(array)) == len(array)
    )


def _several(labels: Any) -> Any:
    """The labels; InputError for the one label of a single example."""
    if isinstance(labels, int) or getattr(labels, "ndim", None) == 0:
        fact = "single examples, with one label each"
        remedy = "Wrap the data set in a torch.utils.data.DataLoader."
        raise InputError("loader", "yield batches", fact, remedy)
    return labels


def move(inputs: Any, device: torch.device | None) -> Any:
    """Inputs on a device: tensors, and those inside of mappings, tuples and lists."""
    if device is None:
        return inputs
    if isinstance(inputs, Tensor):
        return inputs.to(device, non_blocking=True)
    if isinstance(inputs, Mapping):
        return {name: move(value, device) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return [move(value, device) for value in inputs]
    return inputs


def at_least_float32(tensor: Tensor) -> Tensor:
    """A tensor as it is, but half precision as float32."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


# Checks of tensors. Those of arrays are in `decal._base.row_checks`.


def logits_of(output: Any, rows: int | None) -> Tensor:
    """Logits in what a model returned: (rows, K), unless rows are None.

    A tensor, the `.logits` of an object, or what a mapping has as "logits" or "out".
    """
    logits, fact = output, f"a {type(output).__name__}"
    if isinstance(output, Mapping):
        logits = output.get("logits", output.get("out"))
        fact += f" with {listing([repr(key) for key in output]) or 'nothing'}"
    elif not isinstance(output, Tensor):
        logits = getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        rule = "return a tensor of logits, or have it as .logits, ['logits'] or ['out']"
        raise InputError("model", rule, fact, "Wrap the model in a function that picks them.")
    if rows is None:
        return logits
    fact, remedy = f"shape {tuple(logits.shape)}", ""
    if logits.ndim != 2 or logits.shape[0] != rows:
        if logits.ndim > 2:
            remedy = "Labels of pixels or tokens have the shape of the logits without the classes."
        rule = f"return logits of shape ({rows}, K), a row per label and a column per class"
        raise InputError("model", rule, fact, remedy)
    if logits.shape[1] < 2:
        raise InputError("model", "return one column per class, two or more", fact, ONE_SCORE)
    return logits


def require_real_tensor(logits: Any) -> None:
    """TypeError about anything but a tensor of real numbers."""
    if not isinstance(logits, Tensor):
        raise TypeError(
            f"logits must be a tensor: got a {type(logits).__name__}. Use torch.as_tensor, or the "
            ".logits of what a model returned."
        )
    if logits.is_complex():
        raise TypeError(f"logits must be real numbers: got dtype {logits.dtype}.")


def require_classes_last(logits: Any, K: int) -> None:
    """InputError about what are not clearly logits (..., K); dynamic axes may be anything."""
    require_real_tensor(logits)
    shape: tuple[Any, ...] = logits.shape
    *others, columns = shape or (None,)
    exporting = getattr(torch.compiler, "is_exporting", bool)()  # PyTorch 2.7 and later tell
    if exporting and torch.compiler.is_dynamo_compiling():  # strictly: any axis may be dynamic
        others = []
    alike = [axis for axis, n in enumerate(others) if not isinstance(n, torch.SymInt) and n == K]
    if columns != K:
        advice = "Use the logits of the same model."
        if alike:
            advice = f"If the classes are axis {alike[0]}, build the head with dim={alike[0]}."
        rule = f"have {K} columns, one per class seen by fit"
        raise InputError("logits", rule, f"shape {tuple(shape)}", advice)
    between = [axis for axis in alike if axis > 0]  # the first axis counts inputs
    if between:
        other, last = between[0], len(shape) - 1
        raise InputError(
            "logits",
            "have classes in the last axis, and no axis between as long",
            f"shape {tuple(shape)}, where axes {other} and {last} have {K} entries",
            f"Build the head with dim={other} if that axis has the classes, dim={last} if the last "
            "one has.",
        )


def label_tensor(labels: Any, *, dense: bool = False) -> Tensor:
    """(n,) labels as a tensor of int64 on the CPU; `dense` ones have any shape."""
    given = labels if isinstance(labels, Tensor) else to_numpy(labels, "labels")
    try:
        tensor = torch.as_tensor(given).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        remedy = "Turn names into column numbers first."
        raise InputError("labels", "be integers", f"{labels!r:.60}", remedy) from error
    if tensor.ndim != 1 and not dense:
        advice = "Flatten them, and let the model return a row of logits per label."
        if tensor.ndim == 2:
            advice = "Use labels.squeeze(1)." if tensor.shape[1] == 1 else SEVERAL_LABELS
        rule = "be a vector with one label per row of logits"
        raise InputError("labels", rule, f"shape {tuple(tensor.shape)}", advice)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        remedy = SEVERAL_LABELS if tensor.ndim == 2 else ""
        raise InputError("labels", "be integers", f"dtype {tensor.dtype}", remedy)
    return tensor.to(torch.int64)


def check_rows(logits: Tensor, place: Place = IN_ARRAY) -> None:
    """InputError about logits (n, K) that are NaN or inf, or of which a row is -inf alone."""
    if not torch.isfinite(logits.sum()):  # which may also overflow
        check_logits(logits, place=place, masked=True)
