"""What is said of input that cannot be used: errors, warnings, and how they name things.

Messages read: <argument> must <rule>: got <fact>. <What to do next.> They name arguments as Python
writes them; another `Dialect`, such as that of the command line, tells them in its own words.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

NAMES_SHOWN = 12  # how many names a message lists


@dataclass(frozen=True)
class Setting:
    """An argument that a message mentions, with or without a value for it."""

    name: str
    value: object = None


Words: TypeAlias = "str | Setting | tuple[Words, ...]"
"""Part of a message: text, a setting, or pieces that stand next to each other."""


@dataclass(frozen=True)
class Dialect:
    """How messages name things: this one as Python does, subclasses otherwise.

    Parameters
    ----------
    phrases : mapping of str to str
        What is said instead of pieces of messages that would not help; pieces match as a whole.
    """

    phrases: Mapping[str, str] = field(default_factory=dict)

    def setting(self, name: str, value: object) -> str:
        """Writes an argument, with its value if that is not None."""
        return name if value is None else f"{name}={value!r}"

    def say(self, words: Words) -> str:
        """Writes part of a message."""
        if isinstance(words, str):
            return self.phrases.get(words, words)
        if isinstance(words, Setting):
            return self.setting(words.name, words.value)
        return "".join(map(self.say, words))


PYTHON = Dialect()


class InputError(ValueError):
    """Raised when an argument, or what stands in a file, is not as it must be.

    The `rule` says what the `argument` must do or be, the `fact` what was found and where, the
    `remedy` what to do next. Without a rule, the argument is the whole message. The `place` is
    where the data come from.
    """

    def __init__(
        self,
        argument: Words,
        rule: Words = "",
        fact: Words = "",
        remedy: Words = "",
        place: Place | None = None,
    ) -> None:
        self.argument, self.rule, self.fact = argument, rule, fact
        self.remedy, self.place = remedy, place
        super().__init__(self.told(PYTHON))

    @property
    def words(self) -> Words:
        """The whole message, to be told in a dialect or to be part of another."""
        if not self.rule:
            return self.argument
        got = (": got ", self.fact) if self.fact else ()
        then = (" ", self.remedy) if self.remedy else ()
        return self.argument, " must ", self.rule, got, ".", then

    def told(self, dialect: Dialect) -> str:
        """The message in the words of a dialect."""
        return dialect.say(self.words).rstrip()


class NotFittedError(InputError, AttributeError):
    """Raised when something is asked of a model that has seen no data."""


class DecalWarning(UserWarning):
    """What decal warns about; `told` writes the message in the words of a dialect."""

    def __init__(self, words: Words) -> None:
        self.words = words
        super().__init__(PYTHON.say(words))

    @classmethod
    def warn(cls, words: Words) -> None:
        """Warn, and name the line that called decal, however deep this arose."""
        package = os.path.dirname(os.path.dirname(__file__)) + os.sep
        frame, depth = sys._getframe(), 1
        while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
            frame, depth = frame.f_back, depth + 1
        warnings.warn(cls(words), stacklevel=depth)

    def told(self, dialect: Dialect) -> str:
        """The message in the words of a dialect."""
        return dialect.say(self.words).rstrip()


class InputWarning(DecalWarning):
    """Input is hardly what it was passed as.

    Logits look like probabilities or percentages, labels agree with logits as rarely as if they
    were of other rows or columns, or responses hold no answer.
    """


class FitWarning(DecalWarning):
    """What was learnt serves less than it should.

    The reference is far from the model, or classes have too few labels.
    """


class AnswerWarning(DecalWarning):
    """An answer says less than it seems to.

    Sets exclude next to nothing, a measure of them does not rank inputs as it should, an entropy is
    not proved to be the least, or new inputs are unlike the labelled ones.
    """


@dataclass(frozen=True)
class Place:
    """Names rows and entries in messages; this class by their index in an array.

    Parameters
    ----------
    first_row : int
        Number of the first row, where the array is one of several pieces of the data.
    """

    first_row: int = 0

    error: ClassVar[type[InputError]] = InputError
    """What is raised for data in such a place."""

    @property
    def within(self) -> str:
        """Names the place as a whole, for faults of shape or type; nothing to say of an array."""
        return ""

    def row(self, row: int) -> str:
        """Names a whole row."""
        return f"in row {self.first_row + row}"

    def entry(self, row: int, column: int | None = None) -> str:
        """Names an entry of a vector, or with a column that of a matrix."""
        number = self.first_row + row
        return f"at index {number if column is None else (number, column)}"

    def after(self, rows: int) -> Self:
        """What follows in this place after some rows."""
        return replace(self, first_row=self.first_row + rows)


IN_ARRAY = Place()


@dataclass(frozen=True, kw_only=True)
class TablePlace(Place):
    """Rows of a file or of a partition, numbered from 0; columns may have names."""

    source: str  # what messages call the file, or the partition
    lines: bool = False  # whether rows are named by their line, below a header
    columns: tuple[str, ...] | None = None  # the names; without them, columns are numbered from 0

    @property
    def within(self) -> str:
        """Names the file, or the partition."""
        return f" in {self.source}"

    def row(self, row: int) -> str:
        """Names it, and the row."""
        number = self.first_row + row
        return f"in {self.source}, " + (f"line {number + 2}" if self.lines else f"row {number}")

    def entry(self, row: int, column: int | None = None) -> str:
        """Names the row and, if there is one, the column."""
        if column is None:
            return self.row(row)
        return f"{self.row(row)}, column {self.columns[column] if self.columns else column}"


def require_all(
    fine: NDArray[np.bool_],
    values: NDArray[Any],
    name: str,
    rule: str,
    *,
    place: Place = IN_ARRAY,
    advice: Words = "",
) -> None:
    """Raise an error about the first of `values` (n,) or (n, K) that is not `fine`."""
    if fine.all():
        return
    index = tuple(int(i) for i in np.argwhere(~fine)[0])
    value = values[index]
    shown = repr(str(value)) if values.dtype.kind in "OSTU" else value
    raise place.error(name, rule, f"{shown} {place.entry(*index)}", advice, place)


def several(what: str, count: float = 2) -> str:
    """A word in the plural, such as "patches", unless it counts one."""
    if count == 1:
        return what
    if what.endswith("y") and what[-2:-1] not in "aeiou":
        return f"{what[:-1]}ies"
    return f"{what}es" if what.endswith(("s", "x", "z", "ch", "sh")) else f"{what}s"


def counted(count: float, what: str) -> str:
    """A number of things, such as "1 image" or "1,200 images"."""
    return f"{count:,.0f} {several(what, count)}"


def listing(names: Sequence[str]) -> str:
    """Names in a message, not too many of them."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def is_whole_number(name: str) -> bool:
    """Whether a name is a whole number."""
    return re.fullmatch(r"[+-]?\d+", name.strip()) is not None


@contextmanager
def needs(*packages: str, message: str) -> Iterator[None]:
    """Turn the failed import of a package into an ImportError that says how to install it.

    A package that these packages themselves miss is another problem: its error stays as it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in packages:
            raise
        raise ImportError(message, name=error.name) from error
