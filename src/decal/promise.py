"""Promise: what holds for new inputs, on how many rows that rests, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from decal._base.errors import InputError, counted, listing, several
from decal._base.numerics import Array, Mask, softmax
from decal._base.row_checks import check_groups
from decal._base.settings import check_alpha, check_choice, check_count, check_flag
from decal.credal import SET_RULES

__all__ = ["Promise"]

KINDS = ("miss", "width", "hold", "coverage")
SIDES = {"miss": "at most ", "width": "", "hold": "at least ", "coverage": "at least "}
"""On which side of its target a quantity should be."""


@dataclass(frozen=True)
class Promise:
    """What is promised of new inputs; its text is one sentence.

    Attributes
    ----------
    kind, target : str and float
        The wish: "miss", "width", "hold" or "coverage", and its value.
    rows : int
        Number of rows it rests on.
    rule : str
        The rule by which classes are kept, for "miss"; else empty.
    per : str or None
        "class", "group" or "label" if it holds within each of them.
    notes : tuple of str
        Why this is not what one would hope for.
    guaranteed : bool
        Whether it is proved of new inputs. Else "miss" and "hold" are approximate, and "width" and
        "coverage" are about these rows only.
    confidence : float or None
        With which probability over the rows it holds; None for their average.
    levels : mapping
        The alpha of every class or label, in their order, or of every group; empty without `per`.
    costs : mapping
        What was found on these rows, by name: the mean number of classes kept, the mean width, the
        error of the plain prediction, and so on; empty if it was not asked for.
    unit : str or None
        What is promised of, if not of single inputs: "image", say. `rows` then counts units.
    tolerate : float or None
        The share of a unit's labels that may be missed; None if it is their mean that is promised.
    recalibration : tuple of float
        What turns the logarithm of the model's prediction, fitted on some rows, into that of a
        prediction fitted on all of them: a shift for every class, and a scale; or empty. Costs
        choose actions by it, which are not promised.
    """

    kind: str
    target: float
    rows: int
    rule: str = ""
    per: str | None = None
    notes: tuple[str, ...] = ()
    guaranteed: bool = True
    confidence: float | None = None
    levels: Mapping[Any, float] = field(default_factory=dict, hash=False)
    costs: Mapping[str, float] = field(default_factory=dict, hash=False, compare=False)
    unit: str | None = None
    tolerate: float | None = None
    recalibration: tuple[float, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name in ("levels", "costs"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __str__(self) -> str:
        rows = self.counted
        if self.unit is not None:
            return self._of_units(self.unit)
        if self.kind == "width":
            return f"Intervals are {self.target:g} wide on average, as on these {rows}."
        if self.kind == "coverage" and not self.guaranteed:
            share = f"{self.target:.4g}".rstrip(".")
            return f"The set holds the known distribution in {share} of these {rows}, or more."
        certain = self.target == (0.0 if self.kind == "miss" else 1.0)
        often = ("" if certain else SIDES[self.kind]) + _often(self.target)
        if self.kind != "miss":
            whole = "whole " if self.kind == "hold" else ""
            said = f"the set holds the {whole}true distribution for {often}"
        else:
            of_class = " of this class" if self.per == "class" else ""
            kept = "node" if self.rule == "node" else "classes"
            said = f"the true label is outside the kept {kept} for {often}{of_class}"
            if self.per == "label":
                said = f"the wrong answer is decided for {often}"
        where = {None: "", "group": "in every group, "}.get(self.per, f"for every {self.per}, ")
        where = f"at every depth, {where}" if self.rule == "node" else where
        sure = "" if self.confidence is None else f" with confidence {self.confidence:g}"
        held = f"guaranteed{sure}" if self.guaranteed else "approximately"
        said = f"{where}{said}; {held}, by {rows}."
        return said[0].upper() + said[1:]

    @property
    def brief(self) -> str:
        """The promise in a few words, such as "misses at most 1 in 10"."""
        if self.kind == "width":
            return f"ranges are {self.target:.3g} wide on average"
        said = {"miss": "misses", "hold": "holds all of it for", "coverage": "holds it for"}
        often = _often(self.target).replace(" new inputs", "").replace(" new input", "")
        if self.tolerate is not None:
            often = _often(self.target, self.unit or "")
            return f"misses more than {self.tolerate:.4g} of the labels of at most {often}"
        if self.unit is not None:
            often = _often(self.target, "label")
        return f"{said[self.kind]} {SIDES[self.kind]}{often}"

    def _of_units(self, unit: str) -> str:
        """The sentence about images, or whatever else holds several inputs."""
        if self.tolerate is None:
            often = _often(self.target, "label")
            verb = "is" if often.startswith(("1 ", "every ", "no ")) else "are"
            said = f"On average over new {several(unit)}, at most {often} {verb}"
        else:
            often = _often(self.target, f"new {unit}")
            said = f"For at most {often}, more than {self.tolerate:.4g} of the labels are"
        return f"{said} outside the kept classes; guaranteed, by {self.counted}."

    @property
    def counted(self) -> str:
        """What it rests on: "1,269 rows", or so many images."""
        if self.unit is None:
            return rows_text(self.rows)
        return counted(self.rows, self.unit)

    def lines(self) -> list[str]:
        """The promise, what it costs, and notes: a sentence or two each."""
        return [str(self), *self._costs(), *(f"{n[0].upper()}{n[1:]}." for n in self.notes)]

    def _costs(self) -> list[str]:
        """What was found on the rows it rests on, in words."""
        found, said = self.costs, []
        if "kept" in found:
            said.append(
                f"There {found['kept']:.3g} of {found['classes']:,g} classes are kept on average, "
                f"one alone for {found['single']:.0%}; LAC keeps {found['lac']:.3g} and APS "
                f"{found['aps']:.3g}, and the plain prediction errs on {found['error']:.1%}."
            )
        if "decided" in found:
            said.append(
                f"There {found['decided']:.0%} of the answers are decided, {found['wrong']:.1%} "
                f"wrongly; the plain prediction errs on {found['error']:.1%}."
            )
        if "width" in found and self.kind != "width":
            said.append(f"Intervals are {found['width']:.3g} wide on average.")
        return said

    def __reduce__(self) -> Any:
        return type(self).unpacked, (self.packed(),)

    # Keeping it

    def recalibrated(self, point: Array | None) -> Array | None:
        """(n, K) predictions fitted on all rows, of those that the sets are around."""
        if not self.recalibration or point is None:
            return None
        *shifts, scale = self.recalibration
        with np.errstate(divide="ignore"):
            return softmax(scale * np.log(point) + np.array(shifts))

    def alphas(self, groups: Any, rows: int) -> Array:
        """(n,) the alpha of every input, by (n,) groups that an alpha was chosen for."""
        if groups is None:
            remedy = "Pass groups=", f", of {listing([*map(str, self.levels)])}."
            raise InputError("groups", "be given, as alpha was chosen by groups", "none", remedy)
        found, which = np.unique(check_groups(groups, rows), return_inverse=True)
        levels = {str(name): alpha for name, alpha in self.levels.items()}  # files hold text
        unknown = [group for group in found.tolist() if str(group) not in levels]
        if unknown:
            raise InputError(
                "groups",
                "be those that an alpha was chosen for",
                f"{unknown[0]!r}",
                "Predict such inputs with alpha=0, or choose again with examples of them.",
            )
        return np.array([levels[str(group)] for group in found.tolist()])[which]

    def kept(self, decide: Any, shape: tuple[int, int]) -> Mask:
        """(n, K) whether class k is kept at its own alpha; `decide` says what one alpha keeps.

        A class whose alpha is 0 is always kept.
        """
        alphas = np.array(list(self.levels.values()))
        kept = np.ones(shape, dtype=bool)
        for alpha in np.unique(alphas[alphas > 0]):
            columns = alphas == alpha
            kept[:, columns] = decide(float(alpha))[:, columns]
        return kept

    # Files

    def packed(self) -> dict[str, Any]:
        """Plain values that `unpacked` takes."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {
            "notes": list(self.notes),
            "levels": [[name, float(alpha)] for name, alpha in self.levels.items()],
            "costs": dict(self.costs),
            "recalibration": list(self.recalibration),
        }

    @classmethod
    def unpacked(cls, plain: dict[str, Any]) -> Self:
        """From such values; ValueError if they are damaged."""
        older = {"recalibration": (), "unit": None, "tolerate": None}  # files hold none of these
        plain = older | plain
        if set(plain) != {f.name for f in fields(cls)}:
            raise ValueError(f"a promise must have its fields: got {sorted(plain)}")
        check_choice(plain["kind"], "kind", KINDS)
        check_choice(plain["rule"], "rule", ("", *SET_RULES))
        if plain["per"] is not None:
            check_choice(plain["per"], "per", ("class", "group", "label"))
        check_flag(plain["guaranteed"], "guaranteed")
        for name in ("confidence", "tolerate"):
            if plain[name] is not None:
                check_alpha(plain[name], name)
        checked = {
            "target": check_alpha(plain["target"], "target"),
            "unit": None if plain["unit"] is None else str(plain["unit"]),
            "rows": check_count(plain["rows"], "rows", least=0),
            "notes": tuple(str(note) for note in plain["notes"]),
            "levels": {_key(name): check_alpha(alpha) for name, alpha in plain["levels"]},
            "costs": {str(name): float(value) for name, value in plain["costs"].items()},
            "recalibration": tuple(float(value) for value in plain["recalibration"]),
        }
        return cls(**plain | checked)


def _key(name: Any) -> Any:
    if not isinstance(name, str | int):
        raise ValueError(f"names of classes and groups must be text or numbers: got {name!r}")
    return name


def _often(share: float, what: str = "new input") -> str:
    """A share of new inputs, or of something else, in words: "1 new input in 10"."""
    if share in (0.0, 1.0):
        return f"every {what}" if share else f"no {what}"
    one_in = round(1 / share)
    for whole in (one_in, 10, 100, 1000):
        count = round(share * whole)
        if count and abs(share * whole - count) <= 1e-9:
            return f"{count} {several(what, count)} in {whole}"
    return f"{share:.4%} of {several(what)}"


def rows_text(count: int) -> str:
    """A number of rows in words."""
    return "1 row" if count == 1 else f"{count:,} rows"
