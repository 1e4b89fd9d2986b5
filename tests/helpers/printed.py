"""Compares what an example prints with what its page promises: words exactly, numbers nearly.

Solvers and BLAS differ in their last digits between machines, so a number may differ by its
rounding plus one unit in the last place that the page prints. Integers have no such excuse.
"""

from __future__ import annotations

import doctest
import re
from dataclasses import dataclass
from itertools import pairwise

NUMPY_DECIMALS = 8
"""NumPy prints so many decimals and drops zeros at the end: `1.` means 1.00000000."""

TOKEN = re.compile(
    r"""
    (?P<ellipsis> \.\.\. )
    | (?P<number>
        # A hyphen after a word or a number is no sign, and digits within a word are no number.
        (?: (?<! [\w.] ) | (?<= \.\.\. ) )
        [-+]? (?: \d+ (?: \.(?!\.) \d* )? | \.\d+ ) (?: [eE] [-+]? \d+ )?
        (?! [\d_] | \.\d )
      )
    | (?P<space> \s+ )
    | (?P<character> . )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Number:
    """A number as it was printed."""

    text: str
    decimals: int | None
    """How many decimals count for the comparison; None for integers, which must be equal."""

    def agrees(self, printed: object) -> bool:
        """Is the other number this one, up to the rounding of this one's digits and one unit?"""
        if not isinstance(printed, Number):
            return False
        if self.decimals is None or printed.decimals is None:
            return self.text == printed.text
        expected, found = float(self.text), float(printed.text)
        tolerance = 1.5 * 10.0**-self.decimals
        return expected * found >= 0 and abs(expected - found) <= tolerance * (1 + 1e-9)


ELLIPSIS = object()


def decimals(text: str) -> int | None:
    """How many decimals a number is printed with: 3 for 0.125, 5 for 1.5e-4, None for integers."""
    mantissa, _, exponent = text.lower().partition("e")
    _, point, fraction = mantissa.partition(".")
    if not point and not exponent:
        return None
    if point and not fraction and not exponent:
        return NUMPY_DECIMALS
    return len(fraction) - int(exponent or 0)


def tokens(text: str, *, ellipsis: bool = False) -> list[object]:
    """The numbers, single characters and spaces of a text, and where anything may stand.

    Spaces next to numbers, commas, brackets and ellipses do not count: NumPy aligns its columns.
    """
    found: list[object] = []
    for match in TOKEN.finditer(text.strip()):
        if match.lastgroup == "number":
            found.append(Number(match[0], decimals(match[0])))
        elif match.lastgroup == "ellipsis":
            found += [ELLIPSIS] if ellipsis else "..."
        else:
            found.append(" " if match.lastgroup == "space" else match[0])
    padded = [",", *found, ","]
    around = zip(padded[:-2], found, padded[2:], strict=True)
    return _aligned([t for before, t, after in around if t != " " or not _sticks(before, after)])


def _sticks(*neighbors: object) -> bool:
    return any(t is ELLIPSIS or isinstance(t, Number) or t in set(",[](){}") for t in neighbors)


def _aligned(found: list[object]) -> list[object]:
    """The same tokens, with the decimals of the longest number for all of one array.

    NumPy prints the numbers of an array alike and drops the zeros that all of them end in, and
    lists hold floats with all their digits; so 0.5 beside 0.25 is known to two decimals as well.
    """
    depth, start = 0, 0
    out = list(found)
    for i, token in enumerate(found):
        if token == "[":
            start = i if depth == 0 else start
            depth += 1
        elif token == "]" and depth:
            depth -= 1
            if depth == 0:
                out[start:i] = _alike(found[start:i])
    return out


def _alike(array: list[object]) -> list[object]:
    floats = [t for t in array if isinstance(t, Number) and t.decimals is not None]
    # `1.` says nothing about its neighbors, except that they have decimals.
    known = [t.decimals for t in floats if not t.text.endswith(".")]
    if not known:
        return array
    return [
        Number(t.text, max(known)) if isinstance(t, Number) and t.decimals is not None else t
        for t in array
    ]


def agree(expected: str, printed: str, *, ellipsis: bool = False) -> bool:
    """Whether `printed` is what `expected` promises: the same words, and nearly the same numbers.

    With `ellipsis`, three dots in `expected` stand for anything.
    """
    wanted, found = tokens(expected, ellipsis=ellipsis), tokens(printed)
    gaps = [i for i, token in enumerate(wanted) if token is ELLIPSIS]
    pieces = [wanted[a + 1 : b] for a, b in pairwise([-1, *gaps, len(wanted)])]
    if len(pieces) == 1:
        return _begins(found, pieces[0]) and len(found) == len(pieces[0])
    first, *middle, last = pieces
    end = len(found) - len(last)
    if len(first) > end or not _begins(found, first) or not _begins(found[end:], last):
        return False
    # The leftmost place for each piece leaves the most room to the next.
    place = len(first)
    for piece in middle:
        while place + len(piece) <= end and not _begins(found[place:], piece):
            place += 1
        place += len(piece)
    return place <= end


def _begins(found: list[object], piece: list[object]) -> bool:
    return len(found) >= len(piece) and all(
        wanted.agrees(token) if isinstance(wanted, Number) else wanted == token
        for wanted, token in zip(piece, found, strict=False)
    )


def lines_agree(expected: str, printed: str) -> bool:
    """Whether the two texts have as many lines and `agree` line by line."""
    wanted, found = expected.rstrip().splitlines(), printed.rstrip().splitlines()
    return len(wanted) == len(found) and all(map(agree, wanted, found))


class NearlyEqualNumbers(doctest.OutputChecker):
    """Lets doctest compare words exactly and numbers nearly."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether an example printed what its docstring says."""
        if super().check_output(want, got, optionflags):
            return True
        promised = want.replace(doctest.BLANKLINE_MARKER, "")
        return agree(promised, got, ellipsis=bool(optionflags & doctest.ELLIPSIS))
