"""What partitions say, as values that travel and add up, or what is wrong with them.

Nothing here knows an engine. Every function is pure: an engine may run it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import check_class_names, check_labels, check_weights
from decal._base.errors import InputError, TablePlace
from decal._base.inputs import (
    look_like_probabilities,
    require_possible_labels,
    warn_of_probabilities,
)
from decal._base.numerics import Array, Logits
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.directions import FitState, require_capability
from decal.model import load
from decal.rows import Rows, read_logits
from decal.shift import FrequencyEvidence, LabelShift, Likelihood

FAN_IN = 8
"""Summaries merged by one task."""

CHUNK_ELEMENTS = 1 << 22
"""Logits learnt from at once, where a partition arrives in batches: 16 MB of float32."""


class BadPartitionError(InputError):
    """Something is wrong with the rows of one partition; the message says what, and where."""


@dataclass(frozen=True, kw_only=True)
class PartitionPlace(TablePlace):
    """Names rows by their partition and by their number in it, counted from 0."""

    partition: int

    error: ClassVar[type[InputError]] = BadPartitionError

    @property
    def within(self) -> str:
        """Names the partition."""
        return f" in partition {self.partition}"

    def row(self, row: int) -> str:
        """Names the partition and the row."""
        return f"in partition {self.partition}, row {self.first_row + row}"


@dataclass(frozen=True)
class Recipe:
    """How every partition is learnt from: by the settings of a model that has learnt nothing."""

    model: Decalibrator
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        reference = self.model.reference
        if reference != "model":
            raise ValueError(
                f"reference must be 'model' on a cluster: got {reference!r}, whose "
                "recentering needs all the data at once. Fit on one machine with decal.decalibrate."
            )
        advice = "Fit on one machine with decal.decalibrate."
        require_capability(self.model.directions, "streams", "a cluster", advice)
        if self.classes is not None:
            check_class_names(self.classes, len(self.classes))

    def naming(self, columns: tuple[str, ...] | None) -> Recipe:
        """A recipe with the classes called like their columns unless they have names."""
        if columns is None:
            return self
        check_class_names(self.classes, len(columns))
        return replace(self, classes=self.classes or columns)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        """What tells recipes apart; without it, Dask would pickle and load each one to find out."""
        model = self.model
        settings = model.likelihood, model.box, repr(model.directions)
        return model.alpha, *settings, model.probabilities, model.floor, self.classes


class Batch(NamedTuple):
    """Checked rows: logits (n, K), labels (n,) and weights (n,) or None."""

    logits: Logits
    labels: NDArray[np.intp]
    weights: Array | None


class PartitionEvidence(NamedTuple):
    """What some partitions say: nothing is learnt without a row of positive weight.

    `first` is the first partition that has such rows; `rows` are counted of any weight, and are
    `suspect` if all look like probabilities. Every problem is a (partition, message).
    """

    learnt: FitState | None = None
    first: int = -1
    rows: int = 0
    problems: tuple[tuple[int, str], ...] = ()
    suspect: bool = False


# One partition


def summarise(batches: Iterable[Batch], partition: int, recipe: Recipe) -> PartitionEvidence:
    """What one partition says; a BadPartitionError of its batches becomes a problem."""
    learnt, rows, suspect = None, 0, True
    try:
        for logits, labels, weights in _gathered(batches):
            rows += len(labels)
            suspect = suspect and look_like_probabilities(logits)
            if weights is None or weights.any():
                more = recipe.model._learn_checked(logits, labels, weights, recipe.classes)
                learnt = more if learnt is None else learnt + more
    except BadPartitionError as error:
        return PartitionEvidence(rows=rows, problems=((partition, str(error)),))
    return PartitionEvidence(learnt, partition, rows, suspect=suspect)


def checked(
    logits: Any,
    labels: Any,
    weights: Any,
    *,
    place: PartitionPlace,
    classes: int | None,
    recipe: Recipe,
) -> Batch:
    """Logits (n, K), labels (n,) and weights (n,) or None, after every check; K may be known."""
    model, names = recipe.model, recipe.classes
    z = model._read(logits, classes, place=place, empty=True, warn=False)
    n, K = z.shape
    advice = "Turn names into column numbers first, or give them as classes."
    y = check_labels(labels, rows=n, classes=K, names=names, place=place, advice=advice)
    require_possible_labels(z, y, place, probabilities=model.probabilities, floor=model.floor)
    return Batch(z, y, check_weights(weights, rows=n, place=place, all_zero=True))


def _gathered(batches: Iterable[Batch]) -> Iterator[Batch]:
    """All rows in chunks of some CHUNK_ELEMENTS logits, without empty ones."""
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


def merged(parts: Iterable[PartitionEvidence]) -> PartitionEvidence:
    """What several partitions say together; their order does not matter."""
    parts = sorted(parts, key=lambda part: part.first)
    problems = [problem for part in parts for problem in part.problems]
    rows = sum(part.rows for part in parts)
    speaking = [(part.first, part.learnt) for part in parts if part.learnt is not None]
    if problems or not speaking:  # nothing will be learnt: there is no need to carry the rest
        return PartitionEvidence(rows=rows, problems=tuple(sorted(problems)))
    suspect = all(part.suspect for part in parts if part.learnt is not None)
    first, whole = speaking[0]
    K = len(whole.label_weight)
    for partition, more in speaking[1:]:
        if len(more.label_weight) == K:
            whole = whole + more
        else:
            message = (
                f"logits must have {K} entries in every row, as in partition {first}: "
                f"got {len(more.label_weight)} in partition {partition}."
            )
            problems.append((partition, message))
    return PartitionEvidence(None if problems else whole, first, rows, tuple(problems), suspect)


def finished(evidence: PartitionEvidence, recipe: Recipe) -> Decalibrator:
    """The Decalibrator of all partitions together; ValueError if something is wrong with them."""
    raise_problems(evidence.problems)
    if evidence.learnt is None:
        raise _silent(evidence.rows)
    if evidence.suspect:
        warn_of_probabilities()
    return recipe.model._unfitted()._add_and_look(evidence.learnt)


def _silent(rows: int) -> InputError:
    """The error about partitions of which none says anything, though they may have rows."""
    if rows:
        return InputError("sample_weight", "be positive somewhere", "only zeros")
    return InputError("data", "have at least one row", "only empty partitions")


def raise_problems(problems: Sequence[tuple[int, str]]) -> None:
    """ValueError about the first of (partition, message), if any, that lists the others."""
    if not problems:
        return
    (_, message), *others = problems
    if others:
        bad = ", ".join(str(partition) for partition, _ in others[:10])
        more = "s" if len(others) > 1 else ""
        message += f" Bad, too: partition{more} {bad}{', …' if len(others) > 10 else ''}."
    raise ValueError(message)


# Models as bytes

Model = Decalibrator | LabelShift
"""What predicts partitions."""


def class_count(model: Model) -> int:
    """The number of classes that a model was fitted on."""
    if isinstance(model, LabelShift):
        return len(model.calibrated.frequencies)
    return len(model.class_weights)


def to_bytes(model: Model, alpha: float | None) -> bytes:
    """What `save` of the model writes, uncompressed: zlib would take longer than the fit.

    What the model cannot predict is refused here, not on a worker.
    """
    K = class_count(model)
    model.predict_rows(Rows(np.full((1, K), 1 / K)), alpha=alpha)
    return _saved(model, compressed=False)


def _saved(model: Model, *, compressed: bool) -> bytes:
    file = BytesIO()
    model.save(file, compressed=compressed)
    return file.getvalue()


@lru_cache(maxsize=4)
def loaded(saved: bytes) -> Any:
    """The model, loaded once per process so that its endpoints are solved for once, too."""
    return load(BytesIO(saved))


def predicted(
    saved: bytes, logits: Any, alpha: float | None, *, place: PartitionPlace
) -> IntervalCredalSet:
    """The credal sets of the rows of one partition, n >= 0."""
    model = loaded(saved)
    K = class_count(model)
    z = read_logits(logits, model.schema(model.fitted), place=place, empty=True)
    if len(z) == 0:
        return IntervalCredalSet(*np.empty((2, 0, K)), point=np.empty((0, K)))
    sets: IntervalCredalSet = model.predict_rows(Rows(z), alpha=alpha)
    return sets


# Unlabelled partitions, for a LabelShift: K numbers of each input


class Unlabelled(NamedTuple):
    """Rows as they arrive: logits, weights or None, and where they stand."""

    logits: Any
    weights: Any
    place: PartitionPlace


class PartitionInputs(NamedTuple):
    """What the inputs of one partition say: no likelihood without a row of positive weight.

    `rows` are counted of any weight; they are `suspect` if all look like probabilities.
    """

    partition: int
    likelihood: Likelihood | None = None
    rows: int = 0
    problem: str | None = None
    suspect: bool = False


def as_bytes(shift: LabelShift) -> bytes:
    """A LabelShift that has observed nothing, as `LabelShift.save` writes it."""
    return _saved(shift.unobserved(), compressed=True)


def observed(rows: Iterable[Unlabelled], partition: int, saved: bytes) -> PartitionInputs:
    """What the rows of one partition say; a ValueError about them becomes a problem."""
    shift = loaded(saved)
    assert isinstance(shift, LabelShift)
    pieces: list[Likelihood] = []
    count, suspect = 0, True
    try:
        for logits, weights, place in rows:
            z = read_logits(logits, shift.schema(shift.fitted), place=place, empty=True, remedy="")
            w = check_weights(weights, rows=len(z), place=place, all_zero=True)
            count += len(z)
            suspect = suspect and look_like_probabilities(z)
            counted = Rows(z, weights=w).counted()
            if len(counted):
                pieces += shift.seen(counted).pieces
    except ValueError as error:
        text = str(error)
        where = "" if "partition" in text else f" This is in partition {partition}."
        return PartitionInputs(partition, rows=count, problem=text + where)
    suspect = suspect and not shift.probabilities
    return PartitionInputs(
        partition, Likelihood.joined(pieces) if pieces else None, count, None, suspect
    )


def add(shift: LabelShift, parts: Iterable[PartitionInputs]) -> LabelShift:
    """The LabelShift after it has observed all partitions; ValueError if one of them is bad."""
    ordered = sorted(parts, key=lambda part: part.partition)
    raise_problems([(p.partition, p.problem) for p in ordered if p.problem is not None])
    speaking = [part for part in ordered if part.likelihood is not None]
    if not speaking:
        raise _silent(sum(part.rows for part in ordered))
    if all(part.suspect for part in speaking):
        warn_of_probabilities()
    pieces = [part.likelihood for part in speaking if part.likelihood is not None]
    return shift.add(FrequencyEvidence(shift.calibrated, pending=(Likelihood.joined(pieces),)))
