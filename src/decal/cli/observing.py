"""Unlabelled files, observed one after the other: all of their inputs, or a random sample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import decal
from decal._base.errors import InputError, Words
from decal._base.numerics import Logits
from decal.cli.terminal import progress_bar
from decal.io.folders import Folder, Layout, Part, Survey, UnreadableError
from decal.io.progress import ProgressBar
from decal.rows import Rows

SAMPLE_SEED = 0
"""The same files give the same sample."""


def observe_folder(
    shift: decal.LabelShift,
    folder: Folder,
    layout: Layout,
    *,
    sample: int | None = None,
    skip_bad: bool = False,
) -> tuple[int, dict[str, Words]]:
    """Let a LabelShift observe all files of a folder, each of them whole or not at all.

    It keeps K numbers of each input: a likelihood has no smaller summary that serves all
    frequencies. What must not grow with the files is bounded by a `sample` of so many inputs, drawn
    evenly from all files in one pass. Returns how many rows the files have, and what is wrong with
    those left out, by name.
    """
    survey = folder.survey(folder.parts, layout)
    faults = dict(survey.faults)
    if faults and not skip_bad:
        raise _refusal(next(iter(faults.values())), folder)
    drawn = None if sample is None else Reservoir(sample)
    rows = 0
    with progress_bar("Observing", survey.total) as bar:
        for part in folder.parts:
            if part.name in faults:
                continue
            before = drawn.copy() if drawn is not None and skip_bad else drawn
            found, seen = shift.unobserved(), 0
            try:
                for logits in _chunks(part, survey, bar):
                    seen += len(logits)
                    if drawn is None:
                        found.add(found.seen(Rows(logits)))
                    else:
                        drawn.add(logits)
            except UnreadableError as error:
                if not skip_bad:
                    raise _refusal(error.words, folder) from error
                faults[part.name], drawn = error.words, before
                continue
            shift.merge(found)
            rows += seen
    if not rows and not faults:
        raise folder.without_rows()
    if not rows:
        raise folder.all_bad("read", faults)
    if drawn is not None:
        shift.add(shift.seen(Rows(drawn.rows)))
    return rows, faults


def _chunks(part: Part, survey: Survey, bar: ProgressBar) -> Iterator[Logits]:
    """The logits of one file; UnreadableError if it is bad."""
    with survey.open(part) as source:
        for chunk in part.chunks(source):
            yield chunk.logits
            bar.advance(len(chunk))
    part.require_unchanged()


def _refusal(fault: Words, folder: Folder) -> InputError:
    """An error about a bad file that says what can be done."""
    several = len(folder.parts) > 1
    return InputError((fault, " Repair or remove it, or add --skip-bad.") if several else fault)


class Reservoir:
    """A random sample of `size` rows that arrive in pieces, each with the same chance."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen = 0
        self._kept: Logits | None = None
        self._rng = np.random.default_rng(SAMPLE_SEED)

    @property
    def rows(self) -> Logits:
        """Those kept."""
        assert self._kept is not None
        return self._kept[: self.seen]

    def add(self, rows: Logits) -> None:
        """Take note of further rows."""
        if self._kept is None:
            self._kept = np.empty((self.size, rows.shape[1]), dtype=rows.dtype)
        first = min(len(rows), max(self.size - self.seen, 0))
        self._kept[self.seen : self.seen + first] = rows[:first]
        # Row number t takes the place of one of t + 1 rows, itself among them.
        places = self._rng.integers(0, self.seen + 1 + np.arange(first, len(rows)))
        taken = places < self.size
        self._kept[places[taken]] = rows[first:][taken]
        self.seen += len(rows)

    def copy(self) -> Reservoir:
        """Another, with the same rows."""
        other = Reservoir(self.size)
        other.seen = self.seen
        other._kept = None if self._kept is None else self._kept.copy()
        other._rng.bit_generator.state = self._rng.bit_generator.state
        return other
