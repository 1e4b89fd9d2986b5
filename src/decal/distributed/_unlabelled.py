"""What unlabelled partitions say to a LabelShift: K numbers of each input, or what is wrong.

Nothing here knows an engine. Every function is pure: an engine may run it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from io import BytesIO
from typing import Any, NamedTuple

from decal._base.checks import check_weights
from decal._base.inputs import look_like_probabilities, warn_of_probabilities
from decal.distributed._partitions import PartitionPlace, raise_problems
from decal.shift import LabelShift, Likelihood


class Unlabelled(NamedTuple):
    """Rows as they arrive: logits, weights or None, and where they stand."""

    logits: Any
    weights: Any
    place: PartitionPlace


class PartitionInputs(NamedTuple):
    """What the inputs of one partition say.

    Attributes
    ----------
    partition : int
        Its number.
    likelihood : Likelihood or None
        None without a row of positive weight.
    rows : int
        How many rows were seen, of any weight.
    problem : str or None
        What is wrong.
    suspect : bool
        Whether all rows, of which there are enough to tell, look like probabilities.
    """

    partition: int
    likelihood: Likelihood | None = None
    rows: int = 0
    problem: str | None = None
    suspect: bool = False


def as_bytes(shift: LabelShift) -> bytes:
    """A LabelShift that has observed nothing, as `LabelShift.save` writes it."""
    file = BytesIO()
    shift._unobserved().save(file)
    return file.getvalue()


@lru_cache(maxsize=4)
def _shift(saved: bytes) -> LabelShift:
    return LabelShift.load(BytesIO(saved))


def observed(rows: Iterable[Unlabelled], partition: int, saved: bytes) -> PartitionInputs:
    """What the rows of one partition say; a ValueError about them becomes a problem."""
    shift = _shift(saved)
    calibrated = shift._fitted.calibrated
    pieces: list[Likelihood] = []
    count, suspect = 0, True
    try:
        for logits, weights, place in rows:
            z = shift._read(logits, calibrated, place=place, empty=True, warn=False)
            w = check_weights(weights, rows=len(z), place=place, all_zero=True)
            count += len(z)
            suspect = suspect and look_like_probabilities(z)
            kept = slice(None) if w is None else w > 0
            if len(z[kept]):
                pieces.append(shift._observed_checked(z[kept], None if w is None else w[kept]))
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
    if not any(part.rows for part in ordered):
        raise ValueError("data must have at least one row: got only empty partitions.")
    if not speaking:
        raise ValueError("sample_weight must be positive somewhere: got only zeros.")
    if all(part.suspect for part in speaking):
        warn_of_probabilities()
    return shift._add(
        Likelihood.joined([p.likelihood for p in speaking if p.likelihood is not None])
    )
