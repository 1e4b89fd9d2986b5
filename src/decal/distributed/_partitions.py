"""Evidence that travels: what partitions say, as bytes that merge, or what is wrong with them.

Nothing here knows an engine. Every function is pure: an engine may run it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import check_class_names, to_numpy
from decal._base.numerics import Array, Logits
from decal.credal._boxes import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.directions._direction import require

FAN_IN = 8
"""Summaries merged by one task."""

CHUNK_ELEMENTS = 1 << 22
"""Logits learnt from at once, where a partition arrives in batches: 16 MB of float32."""

LISTED = 10
"""How many bad partitions a message lists."""


class BadPartitionError(ValueError):
    """Something is wrong with the rows of one partition; the message says what, and where."""


@dataclass(frozen=True)
class Place:
    """Where rows lie: a partition, and the number of the first of them in it."""

    partition: int
    start: int = 0

    def __str__(self) -> str:
        return f"partition {self.partition}"

    def row(self, row: int | np.integer[Any], column: str | None = None) -> str:
        """One of the rows, and perhaps a column of it."""
        beside = "" if column is None else f", column {column}"
        return f"{self}, row {self.start + row}{beside}"


@dataclass(frozen=True)
class Recipe:
    """How every partition is learnt from: the settings of the Decalibrator, and class names."""

    alpha: float
    settings: dict[str, Any]
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        model = self.decalibrator()
        if model.reference != "model":
            raise ValueError(
                f"reference must be 'model' on a cluster: got {model.reference!r}, whose "
                "recentring needs all the data at once. Fit on one machine with decal.decalibrate."
            )
        advice = "Fit on one machine with decal.decalibrate."
        require(model.directions, "streams", "a cluster", advice)
        if self.classes is not None:
            check_class_names(self.classes, len(self.classes))

    def decalibrator(self) -> Decalibrator:
        """One that has learnt nothing yet."""
        return Decalibrator(self.alpha, **self.settings)


class Batch(NamedTuple):
    """Checked rows: logits (n, K), labels (n,) and weights (n,) or None."""

    logits: Logits
    labels: NDArray[np.intp]
    weights: Array | None


class Evidence(NamedTuple):
    """What some partitions say.

    Attributes
    ----------
    model : the bytes of a saved Decalibrator; None without a row of positive weight.
    first : the first partition that has such rows.
    rows : how many rows were seen, of any weight.
    problems : (partition, message) for everything that is wrong.
    """

    model: bytes | None = None
    first: int = -1
    rows: int = 0
    problems: tuple[tuple[int, str], ...] = ()


# One partition


def summarise(batches: Iterable[Batch], partition: int, recipe: Recipe) -> Evidence:
    """What one partition says; a BadPartitionError of its batches becomes a problem."""
    model, rows = None, 0
    try:
        for batch in _gathered(batches):
            rows += len(batch.labels)
            if batch.weights is None or batch.weights.any():
                model = model or recipe.decalibrator()
                model.partial_fit(
                    batch.logits,
                    batch.labels,
                    sample_weight=batch.weights,
                    classes=recipe.classes,
                )
    except BadPartitionError as error:
        return Evidence(rows=rows, problems=((partition, str(error)),))
    return Evidence(None if model is None else to_bytes(model), partition, rows)


def checked(
    logits: Any,
    labels: Any,
    weights: Any,
    *,
    place: Place,
    classes: int | None,
    names: tuple[str, ...] | None = None,
    columns: tuple[str, ...] | None = None,
) -> Batch:
    """Rows of a partition as arrays, after every check.

    Parameters
    ----------
    logits, labels, weights : (n, K), (n,) and (n,) or None. Labels may be text if there are names.
    place : of these rows, for messages.
    classes : K if it is known.
    names : of the classes.
    columns : names of the columns of logits, if they have any.
    """
    z = checked_logits(logits, place=place, classes=classes, columns=columns)
    n, K = z.shape
    y = to_numpy(labels, "labels")
    w = None if weights is None else to_numpy(weights, "sample_weight")
    for name, vector in (("labels", y), ("sample_weight", w)):
        if vector is not None and vector.shape != (n,):
            raise BadPartitionError(
                f"{name} must be a vector with one entry per row of logits, {n} in {place}: "
                f"got shape {vector.shape}."
            )
    return Batch(z, _label_numbers(y, K, names, place), _weights(w, place))


def checked_logits(
    logits: Any, *, place: Place, classes: int | None, columns: tuple[str, ...] | None = None
) -> Logits:
    """Finite logits (n, K), n >= 0."""
    z = to_numpy(logits, "logits")
    if z.ndim != 2 or z.shape[1] != (classes or z.shape[1]) or z.shape[1] < 2:
        wanted = f"{classes} columns" if classes else "two columns or more"
        raise BadPartitionError(
            f"logits must have {wanted}, one per class: got shape {z.shape} in {place}."
        )
    if z.dtype.kind not in "iufb":
        raise BadPartitionError(f"logits must be real numbers: got dtype {z.dtype} in {place}.")
    finite = np.isfinite(z)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        where = place.row(row, repr(columns[column]) if columns else str(column))
        raise BadPartitionError(
            f"logits must be finite: got {z[row, column]} in {where}. "
            "Mask or repair such rows first."
        )
    return z


def _label_numbers(
    labels: NDArray[Any], K: int, names: tuple[str, ...] | None, place: Place
) -> NDArray[np.intp]:
    if labels.dtype.kind in "OUT" and names:
        number = {name: k for k, name in enumerate(names)}
        values, inverse = np.unique(labels.astype(str), return_inverse=True)
        y = np.array([number.get(value, -1) for value in values], dtype=np.intp)[inverse]
        requirement = f"be one of the classes {', '.join(names[:LISTED])}"
        requirement += ", …" if K > LISTED else ""
    elif labels.dtype.kind in "iu":
        y, requirement = labels, f"lie in 0 to {K - 1}, the columns of logits"
    else:
        raise BadPartitionError(
            f"labels must be integers 0 to {K - 1}: got dtype {labels.dtype} in {place}. "
            "Turn names into column numbers first, or give them as classes."
        )
    wrong = np.flatnonzero((y < 0) | (y >= K))
    if wrong.size:
        row = wrong[0]
        value = repr(str(labels[row])) if labels.dtype.kind in "OUT" else labels[row]
        raise BadPartitionError(f"labels must {requirement}: got {value} in {place.row(row)}.")
    return y.astype(np.intp)


def _weights(weights: NDArray[Any] | None, place: Place) -> Array | None:
    if weights is None:
        return None
    if weights.dtype.kind not in "iufb":
        raise BadPartitionError(
            f"sample_weight must be numbers: got dtype {weights.dtype} in {place}."
        )
    w = weights.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if wrong.size:
        raise BadPartitionError(
            "sample_weight must be finite and not negative: "
            f"got {w[wrong[0]]} in {place.row(wrong[0])}."
        )
    return w


def _gathered(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The same rows in chunks of some CHUNK_ELEMENTS logits, without empty ones."""
    held: list[Batch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.logits.size for b in held) >= CHUNK_ELEMENTS:
            yield _joined(held)
            held = []
    if any(len(b.labels) for b in held):
        yield _joined(held)


def _joined(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    weights = [b.weights for b in batches if b.weights is not None]
    return Batch(
        np.concatenate([b.logits for b in batches]),
        np.concatenate([b.labels for b in batches]),
        np.concatenate(weights) if weights else None,
    )


# Several partitions


def merged(parts: Iterable[Evidence]) -> Evidence:
    """What several partitions say together; their order does not matter."""
    parts = sorted(parts, key=lambda part: part.first)
    problems = [problem for part in parts for problem in part.problems]
    rows = sum(part.rows for part in parts)
    speaking = [(part.first, part.model) for part in parts if part.model is not None]
    if problems or not speaking:  # nothing will be learnt: there is no need to carry the rest
        return Evidence(rows=rows, problems=tuple(sorted(problems)))
    first, whole = speaking[0]
    if len(speaking) == 1:
        return Evidence(whole, first, rows)
    model = from_bytes(whole)
    K = len(model.class_weights)
    for partition, more in speaking[1:]:
        other = from_bytes(more)
        if len(other.class_weights) == K:
            model.merge(other)
        else:
            message = (
                f"logits must have {K} entries in every row, as in partition {first}: "
                f"got {len(other.class_weights)} in partition {partition}."
            )
            problems.append((partition, message))
    return Evidence(None if problems else to_bytes(model), first, rows, tuple(problems))


def finished(evidence: Evidence) -> Decalibrator:
    """The Decalibrator of all partitions together; ValueError if something is wrong with them."""
    if evidence.problems:
        (_, message), *others = evidence.problems
        if others:
            bad = ", ".join(str(partition) for partition, _ in others[:LISTED])
            more = "s" if len(others) > 1 else ""
            message += f" Bad, too: partition{more} {bad}{', …' if len(others) > LISTED else ''}."
        raise ValueError(message)
    if evidence.model is None and evidence.rows:
        raise ValueError("sample_weight must be positive somewhere: got only zeros.")
    if evidence.model is None:
        raise ValueError("data must have at least one row: got only empty partitions.")
    return from_bytes(evidence.model)


# Models as bytes


def to_bytes(model: Decalibrator) -> bytes:
    """What `Decalibrator.save` writes, uncompressed: zlib would take longer than the fit."""
    file = BytesIO()
    model.save(file, compressed=False)
    return file.getvalue()


def from_bytes(saved: bytes) -> Decalibrator:
    """What `Decalibrator.load` reads: arrays and JSON, no code."""
    return Decalibrator.load(BytesIO(saved))


@lru_cache(maxsize=4)
def loaded(saved: bytes) -> Decalibrator:
    """Loaded once per process, so that its ends are solved for once, too."""
    return from_bytes(saved)


def predicted(
    saved: bytes,
    logits: Any,
    alpha: float | None,
    *,
    place: Place,
    columns: tuple[str, ...] | None = None,
) -> IntervalCredalSet:
    """The credal sets of the rows of one partition, n >= 0."""
    model = loaded(saved)
    K = len(model.class_weights)
    z = checked_logits(logits, place=place, classes=K, columns=columns)
    if len(z) == 0:
        return IntervalCredalSet(*np.empty((2, 0, K)), point=np.empty((0, K)))
    return model.predict(z, alpha=alpha)
