"""Verbaliser: which tokens, or sequences of tokens, say which label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from decal._base.errors import InputError
from decal._base.settings import FrozenSettings, check_choice, check_flag

Labels = Sequence[str] | Mapping[str, str | Sequence[str]]


class Verbaliser(FrozenSettings):
    """Labels, and the ways in which a language model spells them.

    Tokens are compared as text: "Ġyes" and "▁yes" are " yes". `decal.llm.label_logits` scores
    labels of several tokens.

    Parameters
    ----------
    labels : sequence of str, or mapping
        Names of two or more classes, which spell themselves; or names with one spelling or several.
    space, case : bool
        Add every spelling with a space before it, as most vocabularies have a token for either; and
        in lower case, in upper case, and with a capital.
    partial : str
        What a token means that only begins a spelling, as "ent" begins "entailment". "refuse": an
        error where such tokens outweigh all labels. "bound": they, and tokens not listed, may or
        may not belong to the labels that they begin: wider intervals. "ignore": nothing.

    Attributes
    ----------
    classes, spellings, texts : tuples of K
        Names of the classes, their spellings with all variants, and these as plain text of tokens.

    Examples
    --------
    >>> import decal
    >>> v = decal.llm.Verbaliser({"entailed": "yes", "open": ["maybe", "unclear"]}, case=True)
    >>> v
    Verbaliser(entailed: 'yes', open: 'maybe' or 'unclear')
    >>> v.label_of("ĠYes"), v.label_of("perhaps")
    (0, None)
    """

    def __init__(
        self, labels: Labels, *, space: bool = True, case: bool = False, partial: str = "refuse"
    ) -> None:
        given = check_spellings(labels)
        space, case = check_flag(space, "space"), check_flag(case, "case")
        self.partial = check_choice(partial, "partial", ("refuse", "bound", "ignore"))
        self.classes = tuple(given)
        self._given = tuple(given.values())
        self.spellings = tuple(
            tuple(dict.fromkeys(v for s in own for v in _variants(s, space, case)))
            for own in given.values()
        )
        self.texts = tuple(frozenset(map(plain_text, own)) for own in self.spellings)
        self._begun = self.texts
        self._label_of: dict[str, int] = {}
        for k, own in enumerate(self.spellings):
            for text in map(plain_text, own):
                other = self._label_of.setdefault(text, k)
                if other != k:
                    fact = f"{text!r} for {self.classes[other]!r} and for {self.classes[k]!r}"
                    raise InputError("labels", "have spellings of their own", fact)

    def __repr__(self) -> str:
        labels = (
            f"{name}: {' or '.join(map(repr, own))}"
            for name, own in zip(self.classes, self._given, strict=True)
        )
        return f"Verbaliser({', '.join(labels)})"

    def __len__(self) -> int:
        return len(self.classes)

    def label_of(self, token: str) -> int | None:
        """The number of the class that a token spells; None if it spells none."""
        return self._label_of.get(plain_text(token))

    def among(self, tokens: Iterable[str]) -> Verbaliser:
        """These labels without spellings that are no token: intervals are narrower without."""
        known = {plain_text(token) for token in tokens}
        kept = {
            name: [spelling for spelling in own if plain_text(spelling) in known]
            for name, own in zip(self.classes, self.spellings, strict=True)
        }
        for name, own in kept.items():
            if not own:
                remedy = "Spell it by a word that is one token, or score it with label_logits."
                rule = "hold a spelling of every label"
                raise InputError("tokens", rule, f"none of {name!r}", remedy)
        found = Verbaliser(kept, space=False, partial=self.partial)
        found._begun = self._begun
        return found

    def begun_by(self, token: str) -> tuple[int, ...]:
        """The classes with a spelling that a token begins, but not the one that it completes."""
        text = plain_text(token)
        return tuple(
            k
            for k, own in enumerate(self._begun)
            if text and k != self.label_of(text) and any(_begins(text, s) for s in own)
        )

    def begun_by_some(self) -> tuple[bool, ...]:
        """For every class, whether some token could begin it: not if its spellings are one byte."""
        return tuple(any(len(text.encode()) > 1 for text in own) for own in self._begun)


def _begins(text: str, spelling: str) -> bool:
    """Whether more tokens can make a spelling, or that after other white space, of a text."""
    if text.isspace() and spelling[:1].isspace():
        return True
    head = text.rstrip("�")  # how servers write a part of a character: some of its bytes
    if head == text:
        return spelling.startswith(text) and spelling != text
    return spelling.startswith(head) and not spelling[len(head) :][:1].isascii()


def plain_text(token: str) -> str:
    """A token as text: "Ġyes" and "▁yes" are " yes"; "Ċ" ends a line."""
    rest = token.lstrip("Ġ▁")  # leading spaces of byte-level vocabularies, and of SentencePiece
    return (" " * (len(token) - len(rest)) + rest).replace("Ċ", "\n")


def _variants(spelling: str, space: bool, case: bool) -> Iterable[str]:
    forms = [spelling]
    if case:
        capital = spelling[:1].upper() + spelling[1:]
        forms += [spelling.lower(), capital, spelling.upper()]
    for form in forms:
        yield form
        if space and not form[:1].isspace():
            yield " " + form


def check_spellings(labels: Any, *, several: bool = True) -> dict[str, tuple[str, ...]]:
    """The spellings of each class, perhaps `several`, by its name; two classes or more."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InputError("labels", "be a list of words", f"{labels!r}")
    pairs = list(labels.items()) if isinstance(labels, Mapping) else [(w, w) for w in labels]
    found: dict[str, tuple[str, ...]] = {}
    for index, (name, own) in enumerate(pairs):
        listed = several and isinstance(own, Iterable) and not isinstance(own, str)
        spellings = tuple(own) if listed else (own,)
        for spelling in (name, *spellings):
            if not isinstance(spelling, str) or not spelling.strip():
                raise InputError("labels", "be words", f"{spelling!r} at index {index}")
        if not spellings:
            raise InputError("labels", "each have a spelling", f"none for {name!r}")
        if name in found:
            shared = f"labels={{'one': {name!r}, 'other': {name!r}, …}}."
            remedy = "" if several else f"For classes that share a word name them: {shared}"
            raise InputError("labels", "be distinct", f"{name!r} more than once", remedy)
        found[name] = spellings
    if len(found) < 2:
        raise InputError("labels", "be two or more", f"{len(found)}")
    return found
