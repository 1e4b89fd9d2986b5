"""ClassTree: classes in a tree, such as species or diagnoses, and the ranges of its nodes.

A node stands for the classes below it, so its probability is that of an event: every kind of credal
set bounds it exactly. Two nodes that exceed one half under every member share a class, because
disjoint ones would exceed 1 together. So all such nodes lie on one path from the root, and the last
of them is the most specific node that is sure: `ClassTree.sure`. Under the cost "steps between two
nodes of the tree" the best answer of a distribution is the last node above one half, so that the
best answers of all members are at or below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import column, column_names, is_frame
from decal._base.errors import InputError, listing
from decal._base.markup import span
from decal._base.numerics import Array, Indices, Mask
from decal._base.settings import check_alpha, check_tolerance
from decal.credal._interval_rows import IntervalRows
from decal.credal.decisions import TIE_TOLERANCE

ROOT = "any"  # what a root is called that was given no name
BETWEEN = " › "
"""What stands between the nodes of a path."""

LINES = 40  # of a tree that is printed
FORMS = (
    "be nested mappings of names, a list of pairs (child, parent), or a frame or matrix with a row "
    "per class, from the coarsest level to the class itself"
)


@dataclass(frozen=True, repr=False)
class ClassTree:
    """A tree whose leaves are the classes. It is read by `ClassTree.of`.

    Attributes
    ----------
    names : tuple of str
        All nodes, the root first, each before those below it.
    parents : tuple of int
        The number of the node above each; -1 for the root.
    classes : tuple of str
        The leaves, in the order of the classes.

    Examples
    --------
    >>> import decal
    >>> tree = decal.ClassTree.of({"mammal": ["cat", "dog"], "bird": ["owl", "wren"]})
    >>> tree
    ClassTree: 4 classes, 7 nodes, 2 deep
      mammal: cat, dog
      bird: owl, wren
    >>> tree.path("dog")
    ('mammal', 'dog')
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    classes: tuple[str, ...]

    @classmethod
    def of(cls, tree: Any) -> ClassTree:
        """A tree that was read before, or of what names its nodes; InputError if it is no tree.

        Parameters
        ----------
        tree
            Nested mappings, with lists or None at the ends: ``{"bird": ["owl", "wren"]}``. Or a
            list of pairs (child, parent). Or a data frame or a matrix with a row per class and a
            column per level, from the coarsest to the class itself; a level may be missing, or
            repeat the name before. Several nodes without a parent get a root called "any".
        """
        if isinstance(tree, ClassTree):
            return tree
        if isinstance(tree, Mapping):
            return cls._built(_nested(tree))
        if is_frame(tree):
            levels = [column(tree, name, "tree", "tree") for name in column_names(tree, "tree")]
            return cls._built(_by_levels(np.array(levels, dtype=object).T))
        if isinstance(tree, np.ndarray):
            if tree.ndim != 2:
                raise InputError("tree", FORMS, f"shape {tree.shape}")
            return cls._built(_by_levels(tree))
        if isinstance(tree, str) or not isinstance(tree, Iterable):
            raise InputError("tree", FORMS, f"a {type(tree).__name__}")
        return cls._built(_pairs(tree), "Pairs are (child, parent): turn them, or rename one.")

    @classmethod
    def _built(
        cls, edges: Iterable[tuple[str, str | None]], remedy: str = "Rename one."
    ) -> ClassTree:
        """Of the name of every node and the one above it, None if there is none.

        `remedy` is what to do about a name that comes twice.
        """
        parent: dict[str, str | None] = {}
        for child, above in edges:
            if child in parent:
                raise InputError("tree", "have every name once", f"{child!r} twice", remedy)
            parent[child] = above
        tops: list[str] = []
        below: dict[str, list[str]] = {}
        for child, above in parent.items():
            (tops if above is None else below.setdefault(above, [])).append(child)
        # Pairs need not name the nodes that have none above them.
        tops += [name for name in below if name not in parent]
        parent |= dict.fromkeys(tops)
        named = len(tops) == 1 and tops[0] in below
        if not named and ROOT in parent:
            rooted = "Give the tree a root of your own, or rename that node."
            raise InputError("tree", f"have no node {ROOT!r}, as its root is", ROOT, rooted)
        names: list[str] = []
        parents: list[int] = []
        waiting = [(tops[0] if named else ROOT, -1)]
        while waiting:
            name, above_at = waiting.pop()
            names.append(name)
            parents.append(above_at)
            children = tops if above_at < 0 and not named else below.get(name, [])
            waiting += [(child, len(names) - 1) for child in reversed(children)]
        lost = sorted(set(parent) - set(names))
        if lost:
            raise InputError("tree", "have no circle", f"one through {lost[0]!r}")
        return cls._checked(names, parents)

    @classmethod
    def _checked(cls, names: Sequence[str], parents: Sequence[int]) -> ClassTree:
        inner = {0, *parents}
        leaves = tuple(name for at, name in enumerate(names) if at not in inner)
        if len(leaves) < 2:
            raise InputError("tree", "have two classes or more", listing(leaves) or "none")
        return cls(tuple(names), tuple(parents), leaves)

    def ordered(self, classes: Sequence[str] | int) -> Self:
        """The tree with its leaves in the order of the classes; InputError if they are others.

        Classes without names, of which there are so many, are called by their numbers.
        """
        known = tuple(map(str, range(classes)) if isinstance(classes, int) else classes)
        if known == self.classes:
            return self
        missing = sorted(set(known) - set(self.classes))
        unknown = sorted(set(self.classes) - set(known))
        if missing:
            inner = ", a node with others below it" if missing[0] in self.names else ""
            fact = f"none for {listing(missing)}{inner}"
            remedy = f"Its other leaves are {listing(unknown)}." if unknown else ""
            raise InputError("tree", "have a leaf for every class", fact, remedy)
        if unknown:
            remedy = f"The classes are {listing(known)}."
            raise InputError("tree", "have no leaf but the classes", listing(unknown), remedy)
        return replace(self, classes=known)

    # What it says

    @cached_property
    def depth(self) -> Indices:
        """(nodes,) steps from the root."""
        steps = [0]
        for above in self.parents[1:]:
            steps.append(steps[above] + 1)
        return np.array(steps, dtype=np.intp)

    @cached_property
    def leaves(self) -> Mask:
        """(nodes, K) the classes of every node, in the order of `classes`."""
        where = {name: at for at, name in enumerate(self.names)}
        found = np.zeros((len(self.names), len(self.classes)), dtype=bool)
        for k, name in enumerate(self.classes):
            found[[0, *self.numbers_to(where[name])], k] = True
        return found

    def path(self, node: str | int) -> tuple[str, ...]:
        """The names from below the root down to a node, by name or number; the root is alone."""
        return tuple(self.names[at] for at in self.numbers_to(self._number(node)))

    def numbers_to(self, at: int) -> list[int]:
        """The numbers of the nodes from below the root down to one."""
        found = [at]
        while self.parents[found[-1]] > 0:
            found.append(self.parents[found[-1]])
        return found[::-1]

    def _number(self, node: str | int) -> int:
        if isinstance(node, int | np.integer) and 0 <= node < len(self.names):
            return int(node)
        if node not in self.names:
            remedy = f"Its nodes are {listing(self.names)}."
            raise InputError("node", "be one of the tree", f"{node!r}", remedy)
        return self.names.index(str(node))

    def paths(self, lower: Array, upper: Array, ends: Indices) -> NDArray[Any]:
        """(n,) text of the nodes from the top down to an end, with their ranges (n, nodes)."""
        steps = {at: self.numbers_to(at) for at in np.unique(ends).tolist()}
        found = [
            BETWEEN.join(f"{self.names[at]} {span(low[at], high[at])}" for at in steps[end])
            for low, high, end in zip(lower, upper, ends.tolist(), strict=True)
        ]
        return np.array([*found, None], dtype=object)[:-1]

    def sure(self, lower: Array, least: float = 0.5) -> Indices:
        """(n,) the most specific node whose lower probability suffices, of those (n, nodes).

        It exceeds one half, and is `least` or more: there is one path of such nodes. Smaller lower
        probabilities never lead to a node further down.
        """
        floor = max(check_alpha(least, "least") - TIE_TOLERANCE, 0.5 + TIE_TOLERANCE)
        return np.asarray(np.where(lower > floor, self.depth, -1).argmax(axis=1))

    def costs(self, *, wrong: float = 1.0) -> dict[str, dict[str, float]]:
        """What it costs to name each node if the class is another: by node, then by class.

        A step that is missing down to the class costs 1, a step down a wrong way `wrong`: a coarse
        answer costs less than a wrong one, and a near miss less than a far one. With one
        distribution, and `wrong` of 1 or more, the best answer is the last node of probability
        wrong / (1 + wrong) or more.

        Examples
        --------
        >>> import decal
        >>> tree = decal.ClassTree.of({"mammal": ["cat", "dog"], "bird": ["owl", "wren"]})
        >>> tree.costs(wrong=3)["cat"]
        {'cat': 0.0, 'dog': 4.0, 'owl': 8.0, 'wren': 8.0}
        >>> tree.costs(wrong=3)["mammal"]
        {'cat': 1.0, 'dog': 1.0, 'owl': 5.0, 'wren': 5.0}
        """
        wrong = check_tolerance(wrong, "wrong")
        steps = np.where(self.leaves, self.depth[:, None], 0).max(axis=0)  # down to every class
        table = {}
        for at, name in enumerate(self.names):
            shared = self.leaves[self.numbers_to(at)].sum(axis=0) if at else 0
            cost = (steps - shared) + wrong * (self.depth[at] - shared)
            table[name] = dict(zip(self.classes, cost.astype(float).tolist(), strict=True))
        return table

    def utility(self, *, wrong: float = 1.0) -> dict[str, dict[str, float]]:
        """What naming each node earns in each class, for `CredalSet.decide`: minus `costs`."""
        costs = self.costs(wrong=wrong)
        return {node: {k: -cost for k, cost in row.items()} for node, row in costs.items()}

    # How it reads, and files

    def __repr__(self) -> str:
        size = f"{len(self.classes):,} classes, {len(self.names):,} nodes, {self.depth.max()} deep"
        ends: dict[int, list[str]] = {at: [] for at in sorted({*self.parents} - {-1})}
        for at, above in enumerate(self.parents):
            if at not in ends:
                ends[above].append(self.names[at])
        lines = [f"ClassTree: {size}"]
        for at, leaves in [*ends.items()][1:]:
            text = ": ".join(filter(None, (self.names[at], ", ".join(leaves))))
            lines.append("  " * int(self.depth[at]) + text)
        lines += [f"  {', '.join(ends[0])}"] if ends[0] else []
        more = len(lines) - LINES
        return "\n".join(lines if more <= 0 else [*lines[:LINES], f"  … {more} more nodes"])

    def packed(self) -> dict[str, Any]:
        """Plain values that `unpacked` takes."""
        return {"names": list(self.names), "parents": list(self.parents)}

    @classmethod
    def unpacked(cls, plain: Any) -> ClassTree:
        """From such values; ValueError if they are damaged."""
        names, parents = plain["names"], plain["parents"]
        sound = len(names) == len(parents) == len(set(names)) and parents[:1] == [-1]
        sound = sound and all(isinstance(name, str) for name in names)
        below = enumerate(parents[1:], 1)
        if not sound or not all(type(above) is int and 0 <= above < at for at, above in below):
            raise ValueError("a tree must have names and parents that fit")
        return cls._checked(names, parents)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class NodeRanges(IntervalRows):
    """The ranges of the probabilities of nodes, (n, nodes): what `CredalSet.nodes` returns.

    `lower`, `upper` and `point` have a column per node, named by `classes`.
    """

    lower: Array
    upper: Array
    point: Array | None
    classes: tuple[str, ...] | None

    _of: ClassVar[str] = "node"


# The forms that trees are given in, as pairs of a name and the one above it


def _nested(below: Any, parent: str | None = None) -> Iterator[tuple[str, str | None]]:
    """Of mappings; lists, names or nothing at their ends. Names are checked on the way: it ends."""
    if isinstance(below, Mapping):
        for name, under in below.items():
            yield _name(name), parent
            yield from _nested(under, str(name))
    elif isinstance(below, str) or not isinstance(below, Iterable):
        if not _missing(below):
            yield _name(below), parent
    else:
        for each in below:
            yield from (
                _nested(each, parent) if isinstance(each, Mapping) else [(_name(each), parent)]
            )


def _pairs(pairs: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for at, pair in enumerate(pairs):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise InputError("tree", FORMS, f"{pair!r:.60} at index {at} of a list")
        yield _name(pair[0]), _name(pair[1])


def _by_levels(levels: NDArray[Any]) -> Iterator[tuple[str, str | None]]:
    above: dict[str, str | None] = {}
    classes: set[str] = set()
    for row, line in enumerate(levels.tolist()):
        names = [_name(value) for value in line if not _missing(value)]
        names = [name for at, name in enumerate(names) if at == 0 or name != names[at - 1]]
        if not names or _missing(line[-1]):
            remedy = "The last column names the class; earlier ones may be empty."
            raise InputError("tree", "have a class in every row", f"none in row {row}", remedy)
        if names[-1] in classes:
            fact, remedy = f"{names[-1]!r} again in row {row}", "Drop duplicates of rows first."
            raise InputError("tree", "have a row per class", fact, remedy)
        classes.add(names[-1])
        for parent, name in zip([None, *names], names, strict=False):
            if name in above and above[name] != parent:
                fact = f"{name!r} below {above[name]!r} and, in row {row}, below {parent!r}"
                raise InputError("tree", "have every node below one other", fact, "Rename one.")
            above.setdefault(name, parent)
    inner = next((name for name in above.values() if name in classes), None)
    if inner is not None:
        fact, remedy = f"{inner!r} above another", "Rename the node, or the class."
        raise InputError("tree", "have nothing below a class", fact, remedy)
    yield from above.items()


def _missing(value: Any) -> bool:
    """Whether a cell holds no name: None, NaN, NA or an empty text."""
    return (
        value is None
        or (isinstance(value, str) and not value)
        or (isinstance(value, float) and np.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _name(value: Any) -> str:
    if not isinstance(value, str | int | np.str_ | np.integer) or isinstance(value, bool):
        rule = "have names that are text or whole numbers"
        raise InputError("tree", rule, f"{value!r:.60}", "Turn them into text.")
    return str(value)
