"""What a selection returns: an alpha and its reason, or one for every group of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decal._base.checks import check_groups
from decal._base.data_frames import index_of
from decal._base.inputs import inputs_of
from decal._base.markup import table
from decal._base.numerics import Array
from decal.credal import IntervalCredalSet
from decal.selection._plausibility import Indices, Predictor

WANTED = {"coverage": "at least ", "miss rate": "at most ", "miss bound": "at most "}
"""On which side of the target a quantity should be."""

GROUPS_SHOWN = 12


@dataclass(frozen=True, repr=False)
class Choice:
    """An alpha, and what it was chosen for. It stands for the number itself: ``alpha=choice``.

    Attributes
    ----------
    alpha : float
        The level.
    achieved : float
        The efficiency, coverage, miss rate or miss bound at that level, on the examples given.
    target : float
        What was asked for.
    examples : int
        Number of rows it was chosen on.
    quantity : str
        "efficiency", "coverage", "miss rate" or "miss bound".
    note : str
        Empty, or why the choice is not what one would hope for.
    """

    alpha: float
    achieved: float
    target: float
    examples: int
    quantity: str
    note: str = ""

    def __float__(self) -> float:
        return self.alpha

    def __repr__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return (
            f"Choice: alpha {self.alpha:.6g}, {self.quantity} {self.achieved:.4f} "
            f"on {examples_text(self.examples)}, "
            f"wanted {WANTED.get(self.quantity, '')}{self.target:g}{note}"
        )

    def _repr_html_(self) -> str:
        title = f"Choice: {self.quantity}, wanted {WANTED.get(self.quantity, '')}{self.target:g}"
        return table(title, ("alpha", self.quantity, "examples"), [_cells(self)], note=self.note)


class GroupChoice(Mapping[Any, Choice]):
    """A `Choice` for every group of inputs, by the name of the group.

    Parameters
    ----------
    choices : mapping
        From the group to its choice.

    Examples
    --------
    >>> import decal
    >>> choice = decal.selection.Choice(0.9, 0.08, 0.1, 50, "miss rate")
    >>> decal.selection.GroupChoice({"day": choice, "night": choice})
    GroupChoice: 2 groups, miss rate, wanted at most 0.1
      group         alpha    miss rate    examples
      day             0.9       0.0800          50
      night           0.9       0.0800          50
    """

    def __init__(self, choices: Mapping[Any, Choice]) -> None:
        self._choices: dict[Any, Choice] = dict(choices)

    def __getitem__(self, group: Any) -> Choice:
        return self._choices[group]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def alphas(self, groups: Any) -> Array:
        """(n,) the alpha of every input.

        Parameters
        ----------
        groups : (n,) array
            The groups of the inputs. ValueError for one that no alpha was chosen for.
        """
        found, which = np.unique(check_groups(groups, len(groups)), return_inverse=True)
        unknown = [group for group in found.tolist() if group not in self]
        if unknown:
            raise ValueError(
                f"groups must be those that an alpha was chosen for: got {unknown[0]!r}. "
                "Predict such inputs with alpha=0, or choose again with examples of them."
            )
        return np.array([self[group].alpha for group in found.tolist()])[which]

    def predict(self, model: Predictor, logits: Any, groups: Any) -> IntervalCredalSet:
        """The credal sets of new inputs, each at the alpha of its group.

        Parameters
        ----------
        model : Decalibrator
            The one that the alphas were chosen for.
        logits : (n, K) array
            Inputs.
        groups : (n,) array
            Their groups.
        """
        z = inputs_of(model, logits, groups=groups)
        alphas = self.alphas(check_groups(groups, len(z)))
        low, high, point = np.empty((3, *z.shape))
        classes = None
        for alpha in np.unique(alphas):
            rows = np.flatnonzero(alphas == alpha)
            credal: Any = model.predict(z[rows], alpha=float(alpha))
            low[rows], high[rows], point[rows] = credal.lower, credal.upper, credal.point
            classes = credal.classes
        sets = IntervalCredalSet(low, high, point=point, classes=classes)
        return sets.with_index(index_of(logits, rows=len(z)))

    def __repr__(self) -> str:
        return choice_table("GroupChoice", "group", self)

    def _repr_html_(self) -> str:
        title, *_ = repr(self).splitlines()
        quantity = next((choice.quantity for choice in self.values()), "")
        notes = any(choice.note for choice in self.values())
        headings = ["group", "alpha", quantity, "examples", *[""] * notes]
        rows = [
            (str(group), *_cells(choice), *[choice.note] * notes)
            for group, choice in list(self.items())[:GROUPS_SHOWN]
        ]
        more = len(self) - len(rows)
        return table(title, headings, rows, note=f"and {more:,} more groups" if more else "")


def choice_table(title: str, kind: str, choices: Mapping[Any, Choice]) -> str:
    """Several choices as text: one line each, up to twelve."""
    if not choices:
        return f"{title}: no {plural(kind)}"
    first = next(iter(choices.values()))
    quantity = first.quantity
    width = max(7, *(len(str(name)) for name in choices)) + 2
    many = plural(kind) if len(choices) > 1 else kind
    lines = [
        f"{title}: {len(choices)} {many}, {quantity}, "
        f"wanted {WANTED.get(quantity, '')}{first.target:g}",
        f"  {kind:<{width}}{'alpha':>10}{quantity:>13}{'examples':>12}",
    ]
    for name, choice in list(choices.items())[:GROUPS_SHOWN]:
        note = f"  ({choice.note})" if choice.note else ""
        lines.append(
            f"  {name!s:<{width}}{choice.alpha:>10.6g}{choice.achieved:>13.4f}"
            f"{choice.examples:>12,}{note}"
        )
    if len(choices) > GROUPS_SHOWN:
        lines.append(f"  … {GROUPS_SHOWN} of {len(choices)} shown")
    return "\n".join(lines)


def plural(kind: str) -> str:
    """Of "group" or "class"."""
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def _cells(choice: Choice) -> tuple[str, str, str]:
    return f"{choice.alpha:.6g}", f"{choice.achieved:.4f}", f"{choice.examples:,}"


def in_groups(
    choose: Callable[[Indices], Choice], groups: Any, rows: int
) -> Any:  # a Choice without groups, a GroupChoice with them
    """The choice on all rows; or one on the rows of each group."""
    if groups is None:
        return choose(np.arange(rows))
    groups = check_groups(groups, rows)
    found = np.unique(groups).tolist()
    return GroupChoice({group: choose(np.flatnonzero(groups == group)) for group in found})


def called(k: int, names: Sequence[str] | None) -> str:
    """A class, by its name if it has one."""
    return f"class {k}" if names is None else names[k]


def examples_text(count: int) -> str:
    """A number of examples in words."""
    return "1 example" if count == 1 else f"{count:,} examples"
