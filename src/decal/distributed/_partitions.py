"""What partitions say, as values that travel and add up, or what is wrong with them.

Nothing here knows an engine. Every function is pure: an engine may run it again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from decal._base.errors import InputError, TablePlace, Words
from decal._base.row_checks import check_class_names, check_labels, check_weights
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.directions import require_capability
from decal.model import load
from decal.rows import Rows, require_possible
from decal.schema import Schema, look_like_probabilities, read_logits, warn_of_probabilities
from decal.shift import LabelShift

FAN_IN = 8  # summaries merged by one task
CHUNK_ELEMENTS = 1 << 22  # logits learnt from at once, of a partition in batches: 16 MB of float32

Model = Decalibrator | LabelShift


@dataclass(frozen=True)
class Recipe:
    """How partitions are learnt from: by a model that has learnt, or observed, nothing yet."""

    model: Model
    schema: Schema

    @classmethod
    def to_fit(cls, model: Decalibrator, classes: tuple[str, ...] | None = None) -> Recipe:
        """To learn from labelled partitions, of classes whose names may be known."""
        advice = "Fit on one machine with decal.decalibrate."
        if model.reference != "model":
            fact = f"{model.reference!r}, whose recentering needs all the data at once"
            raise InputError("reference", "be 'model' on a cluster", fact, advice)
        require_capability(model.directions, "streams", "a cluster", advice)
        recipe = cls(model, model.schema(None))
        return recipe if classes is None else recipe.with_width(len(classes), classes)

    @classmethod
    def to_observe(cls, shift: LabelShift) -> Recipe:
        """To observe partitions without labels."""
        model = shift.unobserved()
        return cls(model, model.schema(model.fitted))

    @property
    def labelled(self) -> bool:
        """Whether partitions have labels; what they say is then small, and merged in a tree."""
        return isinstance(self.model, Decalibrator)

    def with_width(self, width: int, names: tuple[str, ...] | None = None) -> Recipe:
        """With this number of classes, which are called so unless they have names."""
        known = check_class_names(self.schema.classes or names, width)
        return replace(self, schema=replace(self.schema, width=width, classes=known))

    def read(self, logits: Any, labels: Any, weights: Any, place: TablePlace) -> Rows:
        """Some rows of a partition, n >= 0, after every check; labels are None to observe."""
        schema = self.schema
        z = read_logits(logits, schema, place=place, empty=True, remedy="")
        n, K = z.shape
        w = check_weights(weights, rows=n, place=place, all_zero=True)
        if not self.labelled:
            return Rows(z, weights=w)
        advice = "Turn names into column numbers first, or give them as classes."
        y = check_labels(
            labels, rows=n, classes=K, names=schema.classes, place=place, advice=advice
        )
        return require_possible(Rows(z, y, w, schema.classes), schema, place)

    def learn(self, rows: Rows) -> Any:
        """What rows say, which can be added: a FitState, or a list of Likelihoods."""
        if isinstance(self.model, LabelShift):
            return self.model.seen(rows.counted()).pieces
        return self.model.learn(rows)

    def __dask_tokenize__(self) -> bytes:
        """What tells recipes apart; without it, Dask would pickle and load each one to find out."""
        return pickle.dumps((self.model, self.schema))


class PartitionEvidence(NamedTuple):
    """What some partitions say of K classes: nothing without a row of positive weight.

    `first` is the first partition that has such rows; `rows` are counted of any weight, and are
    `suspect` if all look like probabilities. Every problem is a (partition, message).
    """

    evidence: Any = None
    first: int = -1
    rows: int = 0
    problems: tuple[tuple[int, Words], ...] = ()
    suspect: bool = False
    K: int = 0


def summarise(batches: Iterable[Rows], partition: int, recipe: Recipe) -> PartitionEvidence:
    """What one partition says; a ValueError about its rows becomes a problem."""
    evidence, count, K, suspect = None, 0, 0, not recipe.schema.probabilities
    try:
        for rows in _gathered(batches):
            count, K = count + len(rows), rows.shape[1]
            suspect = suspect and look_like_probabilities(rows.logits)
            if rows.weights is None or rows.weights.any():
                more = recipe.learn(rows)
                evidence = more if evidence is None else evidence + more
    except ValueError as error:
        words = error.words if isinstance(error, InputError) else str(error)
        if "partition" not in str(error):
            words = words, f" This is in partition {partition}."
        return PartitionEvidence(rows=count, problems=((partition, words),))
    return PartitionEvidence(evidence, partition, count, (), suspect, K)


def _gathered(batches: Iterable[Rows]) -> Iterator[Rows]:
    """All rows in chunks of some CHUNK_ELEMENTS logits, without empty ones."""
    held: list[Rows] = []
    for rows in batches:
        held.append(rows)
        if sum(part.logits.size for part in held) >= CHUNK_ELEMENTS:
            yield Rows.join(held)
            held = []
    if any(map(len, held)):
        yield Rows.join(held)


def merged(parts: Iterable[PartitionEvidence]) -> PartitionEvidence:
    """What several partitions say together; their order does not matter."""
    parts = sorted(parts, key=lambda part: part.first)
    problems = [problem for part in parts for problem in part.problems]
    rows = sum(part.rows for part in parts)
    speaking = [part for part in parts if part.evidence is not None]
    if problems or not speaking:  # nothing will be learnt: there is no need to carry the rest
        return PartitionEvidence(rows=rows, problems=tuple(sorted(problems, key=lambda p: p[0])))
    first, *others = speaking
    whole, K = first.evidence, first.K
    for part in others:
        if part.K == K:
            whole = whole + part.evidence
        else:
            rule = f"have {K} entries in every row, as in partition {first.first}"
            error = InputError("logits", rule, f"{part.K} in partition {part.first}")
            problems.append((part.first, error.words))
    suspect = all(part.suspect for part in speaking)
    whole = None if problems else whole
    return PartitionEvidence(whole, first.first, rows, tuple(problems), suspect, K)


def all_evidence(whole: PartitionEvidence) -> Any:
    """What all partitions say; InputError about the first bad one, with a list of the others."""
    if whole.problems:
        (_, words), *others = whole.problems
        if others:
            bad = ", ".join(str(partition) for partition, _ in others[:10])
            more = "s" if len(others) > 1 else ""
            words = words, f" Bad, too: partition{more} {bad}{', …' if len(others) > 10 else ''}."
        raise InputError(words)
    if whole.evidence is None and whole.rows:
        raise InputError("sample_weight", "be positive somewhere", "only zeros")
    if whole.evidence is None:
        raise InputError("data", "have at least one row", "only empty partitions")
    if whole.suspect:
        warn_of_probabilities()
    return whole.evidence


# Predictions, by a model as bytes


def class_count(model: Model) -> int:
    """The number of classes that a model was fitted on."""
    K = model.schema(model.fitted).width  # type: ignore[arg-type]
    assert K is not None
    return K


def to_bytes(model: Model, alpha: float | None) -> bytes:
    """What `save` of the model writes, uncompressed: zlib would take longer than the fit."""
    K = class_count(model)
    model.predict_rows(Rows(np.full((1, K), 1 / K)), alpha=alpha)  # refused here, not on a worker
    file = BytesIO()
    model.save(file, compressed=False)
    return file.getvalue()


@lru_cache(maxsize=4)
def loaded(saved: bytes) -> Any:
    """The model, loaded once per process so that its endpoints are solved for once, too."""
    return load(BytesIO(saved))


def predicted(
    saved: bytes, logits: Any, alpha: float | None, *, place: TablePlace
) -> IntervalCredalSet:
    """The credal sets of the rows of one partition, n >= 0."""
    model = loaded(saved)
    z = read_logits(logits, model.schema(model.fitted), place=place, empty=True)
    sets: IntervalCredalSet = model.predict_rows(Rows(z), alpha=alpha)
    return sets
