"""Logits with more axes than rows and classes: pixels of images, tokens of sentences.

They are put in rows where they are read, and sets back into the shape that the logits came in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import accumulate, pairwise
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, Place
from decal._base.numerics import Array, Indices, Mask
from decal._base.pixels import image_levels
from decal._base.row_checks import check_labels, check_rows, require_matrix, to_numpy
from decal._base.settings import check_count

__all__ = ["CredalMaps", "Grid"]

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Grid:
    """Where rows come from: arrays of inputs, of which all axes but that of the classes are one.

    Attributes
    ----------
    shapes : tuple of tuples of int
        The axes of each array, without that of the classes.
    axis : int
        How many of them stand before the classes.
    several : bool
        Whether the arrays came in a list, one for each image or sentence.
    known : (n,) array or None
        Which inputs are rows, if others were left out because their labels are ignored.
    """

    shapes: tuple[Shape, ...]
    axis: int
    several: bool = False
    known: Indices | None = None

    @property
    def ends(self) -> list[int]:
        """Where the inputs of each array begin, and where the last ones end."""
        return [0, *accumulate(map(math.prod, self.shapes))]

    @property
    def units(self) -> Indices | None:
        """(n,) the array of a list, or the place on the first axis, of every row; None of rows."""
        if self.several:
            counts = np.diff(self.ends)
        else:
            first, *others = self.shapes[0]
            counts = np.full(first if others else 0, math.prod(others))
        return self.rows([np.repeat(np.arange(len(counts)), counts)]) if len(counts) else None

    def flat(self, values: Any, name: str) -> NDArray[Any]:
        """(n,) values of the rows. Those of the first axes alone hold for all that is there."""
        found = []
        for array, shape in self._arrays(values, name):
            if array.shape != shape[: array.ndim] or not (array.ndim or self.several):
                raise _misshapen(name, array.shape, shape)
            array = array.reshape(array.shape + (1,) * (len(shape) - array.ndim))
            found.append(np.broadcast_to(array, shape).ravel())
        return self.rows(found)

    def in_rows(self, values: Any, name: str, width: int) -> NDArray[Any]:
        """(n, width) numbers of the classes, given in the shape that the logits came in."""
        found = []
        for array, axes in self._arrays(values, name):
            shape = (*axes[: self.axis], width, *axes[self.axis :])
            if array.shape != shape:
                rule = f"have the shape of the logits, {shape}"
                raise InputError(name, rule, f"shape {array.shape}")
            found.append(np.moveaxis(array, self.axis, -1).reshape(-1, width))
        return self.rows(found)

    def maps(self, sets: Any) -> Any:
        """Sets of all inputs as maps of their array; of a list of arrays, as a list."""
        if not self.several:
            return CredalMaps(sets, self.shapes[0], self.axis)
        parts = zip(self.shapes, pairwise(self.ends), strict=True)
        return [CredalMaps(sets[a:b], shape, self.axis) for shape, (a, b) in parts]

    def rows(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """What the arrays hold, flattened, of the inputs that are rows."""
        values = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return values if self.known is None else values[self.known]

    def _arrays(self, values: Any, name: str) -> Iterator[tuple[NDArray[Any], Shape]]:
        """What was given for each array, and the shape of its inputs."""
        parts = of_each(values, len(self.shapes), name) if self.several else [values]
        return zip((to_numpy(part, name) for part in parts), self.shapes, strict=True)


@dataclass(frozen=True, kw_only=True)
class GridPlace(Place):
    """Names rows and entries by their index in the arrays that they came in."""

    grid: Grid

    def row(self, row: int) -> str:
        """Names one input."""
        return self.entry(row)

    def entry(self, row: int, column: int | None = None) -> str:
        """Names one input, or a logit of it."""
        grid, number = self.grid, self.first_row + row
        number = number if grid.known is None else grid.known[number]
        part = int(np.searchsorted(grid.ends, number, side="right")) - 1
        index = [int(i) for i in np.unravel_index(number - grid.ends[part], grid.shapes[part])]
        if column is not None:
            index.insert(grid.axis, column)
        within = f"in array {part}, " if grid.several else ""
        return f"{within}at index {tuple(index) if len(index) > 1 else index[0]}"


@dataclass(frozen=True, eq=False, repr=False)
class CredalMaps:
    """Credal sets of an array of inputs, such as the pixels of images, indexed as the array is.

    Attributes
    ----------
    flat : CredalSet
        The sets of all inputs in a row, in the order of `numpy.ravel`: for every other question.
        `restored` puts its answers back into the shape.
    shape : tuple of int
        That of the inputs: of the logits, without the classes.
    axis : int
        The axis of the classes in `lower`, `upper`, `point` and `possible`, as in the logits.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> logits, labels = rng.normal(size=(8, 3, 5, 5)), rng.integers(0, 3, (8, 5, 5))
    >>> d = decal.Decalibrator(0.9).fit(logits, labels, dim=1)
    >>> maps = d.predict(logits, dim=1)
    >>> maps
    CredalMaps: 8 x 5 x 5 inputs, 3 classes, mean width 0.37...
    >>> maps[0].upper.shape, maps.width.shape, maps.restored(maps.flat.total()).shape
    ((3, 5, 5), (8, 5, 5), (8, 5, 5))
    """

    flat: Any
    shape: Shape
    axis: int

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, if known."""
        names: tuple[str, ...] | None = self.flat.classes
        return names

    @property
    def lower(self) -> Array:
        """The lower ends of the intervals, in the shape of the logits."""
        return self.restored(self.flat.lower)

    @property
    def upper(self) -> Array:
        """The upper ends of the intervals, in the shape of the logits."""
        return self.restored(self.flat.upper)

    @property
    def point(self) -> Array:
        """The prediction that the sets are around, in the shape of the logits."""
        return self.restored(self.flat.point)

    @property
    def prediction(self) -> Indices:
        """The most probable class of every input."""
        return self.restored(self.flat.point.argmax(axis=1))

    @property
    def width(self) -> Array:
        """The width of the widest interval of every input."""
        return self.restored((self.flat.upper - self.flat.lower).max(axis=1))

    @property
    def possible(self) -> Mask:
        """Whether each class is possible, in the shape of the logits."""
        return self.restored(self.flat.possible_mask())

    def restored(self, values: Any) -> NDArray[Any]:
        """Answers of `flat`, (n,) or (n, K), in the shape of the inputs or of the logits."""
        values = np.asarray(values)
        found = values.reshape(*self.shape, *values.shape[1:])
        return np.moveaxis(found, -1, self.axis) if values.ndim > 1 else found

    def in_rows(self, values: Any, name: str) -> NDArray[Any]:
        """(n, K) numbers of the classes, such as true distributions, in the shape of the logits."""
        return Grid((self.shape,), self.axis).in_rows(values, name, self.flat.shape[1])

    def labelled(self, labels: Any, ignore_index: int | None = None) -> tuple[Any, NDArray[Any]]:
        """The sets of inputs that are not ignored, and their labels, as all measures take them.

        Parameters
        ----------
        labels : array
            In the shape of the inputs.
        ignore_index : int, optional
            Inputs with this label are left out.
        """
        if np.shape(labels) != self.shape:
            raise _misshapen("labels", np.shape(labels), self.shape)
        y = to_numpy(labels, "labels").ravel()
        known = _known(y, ignore_index)
        return (self.flat, y) if known is None else (self.flat[known], y[known])

    def explore(self, **options: Any) -> Any:
        """An interactive page about these maps; options of `decal.explorer.explore_maps`."""
        from decal.explorer import explore_maps

        return explore_maps(self, **options)

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        """TypeError: maps are several arrays."""
        raise TypeError("CredalMaps. Pass their lower, upper, point or possible")

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """The maps of part of the inputs; the credal set, if it is one input."""
        places = index if isinstance(index, tuple) else (index,)
        plain = [isinstance(i, int | np.integer | slice | EllipsisType) for i in places]
        if index is None or (len(places) > 1 and not all(plain)):
            rule = "be whole numbers and slices, or one mask or list"
            raise InputError("the index of maps", rule, f"{index}")
        rows = np.arange(math.prod(self.shape)).reshape(self.shape)[index]
        if rows.ndim == 0:
            return self.flat[[int(rows)]]
        if all(plain) and Ellipsis in places:
            at = places.index(Ellipsis)
            every = (slice(None),) * (len(self.shape) - len(places) + 1)
            places = places[:at] + every + places[at + 1 :]
        gone = sum(isinstance(i, int | np.integer) for i in places[: self.axis])
        axis = min(self.axis - gone, rows.ndim)
        return replace(self, flat=self.flat[rows.ravel()], shape=rows.shape, axis=axis)

    def __repr__(self) -> str:
        size = " x ".join(f"{n:,}" for n in self.shape)
        n, K = self.flat.shape
        mean = float((self.flat.upper - self.flat.lower).mean()) if n else 0.0
        return f"CredalMaps: {size} inputs, {K:,} classes, mean width {mean:.3f}"


def is_dense(logits: Any) -> bool:
    """Whether logits have other axes than rows and classes, or are a list of images.

    A list of matrices may as well hold batches, and one of arrays with more axes, too: only the
    axis of the classes, if it is given, makes them sentences or volumes.
    """
    return _axes(logits) == 3 if isinstance(logits, list | tuple) else _axes(logits) > 2


def _axes(logits: Any) -> int:
    """The axes of an array, or of the first array of a list; 0 of what is neither."""
    listed = isinstance(logits, list | tuple) and len(logits) > 0
    return int(getattr(logits[0] if listed else logits, "ndim", 0))


def flattened(
    logits: Any,
    labels: Any = None,
    weights: Any = None,
    *,
    dim: int | None = None,
    ignore_index: int | None = None,
    width: int | None = None,
) -> tuple[Any, Any, Any, Grid]:
    """Logits (n, K), labels and weights (n,), and where these rows come from.

    Classes may be on any axis of the logits, and labels have their shape without it. A list holds
    arrays of different sizes. Inputs whose label is `ignore_index` are left out. A fitted model
    knows the number of classes, its `width`, which helps to find their axis.
    """
    several = isinstance(logits, list | tuple) and _axes(logits) > 1
    arrays = [to_numpy(part, "logits") for part in (logits if several else [logits])]
    shapes, answers = [z.shape for z in arrays], None
    if labels is not None:
        given = of_each(labels, len(arrays), "labels") if several else [labels]
        answers = [to_numpy(y, "labels").shape for y in given]
        if dim is None and len(answers[0]) < 2:
            require_matrix(logits, labels)  # which says what else it may be
    axis = class_axis(shapes, answers, dim, width, several=several)
    if len({shape[axis] for shape in shapes}) > 1:
        fact = f"{sorted({shape[axis] for shape in shapes})} on axis {axis}"
        raise InputError("logits", "have as many classes in every array", fact)
    grid = Grid(tuple(_without(shape, axis) for shape in shapes), axis, several)
    y = None if labels is None else grid.flat(labels, "labels")
    known = _known(y, ignore_index)
    if known is not None and y is not None:
        y, grid = y[known], replace(grid, known=known)
    z = grid.rows([np.moveaxis(z, axis, -1).reshape(-1, z.shape[axis]) for z in arrays])
    return z, y, None if weights is None else grid.flat(weights, "sample_weight"), grid


def of_each(values: Any, count: int, name: str) -> list[Any]:
    """Values of each of several arrays: a list, or an array or tensor of them."""
    several = isinstance(values, list | tuple) or getattr(values, "ndim", 0) > 0
    found = [*values] if several else []
    if len(found) != count:
        fact = f"{len(found)}" if found else type(values).__name__
        raise InputError(name, f"be a list of {count}, as logits are", fact)
    return found


def _known(labels: NDArray[Any] | None, ignore_index: int | None) -> Indices | None:
    """Which labels are not ignored; None if that are all."""
    check_ignored(ignore_index)
    if ignore_index is None or labels is None:
        return None
    known = labels != ignore_index
    if len(labels) and not known.any():
        raise InputError("labels", "not all be ignored", f"only {ignore_index}")
    return None if known.all() else np.flatnonzero(known)


def check_ignored(ignore_index: Any) -> None:
    """InputError about anything but one label, or none."""
    if isinstance(ignore_index, bool):
        raise InputError("ignore_index", "be one label", f"{ignore_index}")
    if np.ndim(ignore_index):
        remedy = "Give several one number: labels[numpy.isin(labels, several)] = several[0]."
        raise InputError("ignore_index", "be one label", f"{ignore_index!r}", remedy)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def class_axis(
    shapes: Sequence[Shape],
    labels: Sequence[Shape] | None,
    dim: int | None = None,
    width: int | None = None,
    *,
    several: bool = False,
) -> int:
    """The axis of the classes: the one given, or the only one that fits labels and width."""
    n = len(shapes[0])
    if n < 2 or any(len(shape) != n for shape in shapes):
        fact = f"shapes {', '.join(map(str, sorted(set(shapes))[:3]))}"
        raise InputError("logits", "have two axes or more, as many in every array", fact)
    if dim is not None:
        return _given_axis(shapes, labels, dim, width)
    matrix = n == 2 and not several
    fits = [
        axis
        for axis in ([1] if matrix else range(n))
        if labels in (None, [_without(shape, axis) for shape in shapes])
        and (matrix or all(width in (None, shape[axis]) for shape in shapes))
    ]
    if len(fits) > 1:
        remedy = "Pass dim=1 for (images, classes, height, width), dim=-1 for classes last."
        fact = _shown(shapes, labels)
        raise InputError("dim", "say which axis holds the classes", fact, remedy)
    if not fits:
        raise _no_axis(shapes, labels, width)
    return fits[0]


def _given_axis(
    shapes: Sequence[Shape], labels: Sequence[Shape] | None, dim: Any, width: int | None
) -> int:
    """The axis that `dim` names, if it fits classes and labels."""
    n = len(shapes[0])
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or not -n <= dim < n:
        raise InputError("dim", f"be an axis of logits, of which there are {n}", f"{dim!r}")
    axis = int(dim) % n
    if width not in (None, shapes[0][axis]):
        fact = f"{dim}, of {shapes[0][axis]} entries, for logits of shape {shapes[0]}"
        raise InputError("dim", f"be the axis of the {width} classes", fact)
    for shape, known in zip(shapes, labels or (), strict=labels is not None):
        if known != _without(shape, axis):
            raise _misshapen("labels", known, _without(shape, axis))
    return axis


def _misshapen(name: str, got: Shape, shape: Shape) -> InputError:
    """The error about values that have not the shape of the inputs."""
    rule = f"have the shape of the logits without their classes, {shape}"
    remedy = _label_remedy(got, [shape]) if name == "labels" else ""
    return InputError(name, rule, f"shape {got}", remedy)


def _no_axis(
    shapes: Sequence[Shape], labels: Sequence[Shape] | None, width: int | None
) -> InputError:
    """The error about arrays none of whose axes can be that of the classes."""
    if labels is None:
        return InputError("logits", f"have an axis of {width} classes", f"shape {shapes[0]}")
    rule = "have the shape of the logits without one axis, that of the classes"
    remedy = "If they are one-hot, use labels.argmax(), along the axis of the classes."
    if labels[0] != shapes[0]:
        others = [_without(shapes[0], axis) for axis in range(len(shapes[0]))]
        remedy = _label_remedy(labels[0], others)
    return InputError("labels", rule, _shown(shapes, labels), remedy)


def _label_remedy(got: Shape, wanted: Sequence[Shape]) -> str:
    """What to do about labels of a shape that is none of those wanted."""
    spare = [axis for axis in range(len(got)) if _without(got, axis) in wanted]
    if spare:
        way = f"squeeze({spare[0]})" if got[spare[0]] == 1 else f"argmax({spare[0]})"
        return f"If axis {spare[0]} is the label's own, use labels.{way}."
    alike = (shape for shape in wanted if len(shape) == len(got) and shape[:1] == got[:1])
    if any(sorted(shape) != sorted(got) for shape in alike):
        return "Scale the logits to the size of the labels, as the loss does in training."
    return ""


def _shown(shapes: Sequence[Shape], labels: Sequence[Shape] | None) -> str:
    return f"logits of shape {shapes[0]}" + (f", labels of {labels[0]}" if labels else "")


# Images and sentences one by one, as pictures show them


class Verdict(IntEnum):
    """How the set of one input fares against its label."""

    RIGHT = 0
    WRONG = 1  # though the truth is possible
    MISSED = 2
    IGNORED = 3


@dataclass(frozen=True, eq=False)
class Scene:
    """One image or sentence: its number among all, its maps, labels, verdicts on them, its words.

    Labels and verdicts are arrays in the shape of the maps, or None.
    """

    number: int
    maps: CredalMaps
    labels: Any = None
    verdicts: Any = None
    tokens: tuple[str, ...] = ()
    image: Any = None

    @property
    def levels(self) -> NDArray[np.uint8]:
        """The image in 8 bits, (H, W) or (H, W, colours)."""
        return image_levels(self.image, self.maps.shape, self.number)

    @property
    def errors(self) -> tuple[int, int, int]:
        """How many inputs are judged, are wrong, and are missed."""
        verdicts = () if self.verdicts is None else self.verdicts.ravel()
        right, wrong, missed, _ = np.bincount(verdicts, minlength=len(Verdict)).tolist()
        return right + wrong + missed, wrong + missed, missed


def scenes(
    maps: Any,
    axes: int,
    labels: Any = None,
    *,
    images: Any = None,
    tokens: Any = None,
    rows: Any = None,
    ignore_index: int | None = None,
    most: int | None = None,
) -> tuple[list[Scene], int]:
    """Images (of 2 axes) or sentences (of 1) one by one, and how many there are in all.

    `rows` are those to take, see `chosen`; by default at most `most`. `tokens` are the words of
    each sentence. In a batch they may be fewer: the others are padding.
    """
    batch = isinstance(maps, CredalMaps) and len(maps.shape) == axes + 1
    several = batch or isinstance(maps, list | tuple)
    parts = list(maps) if several else [maps]
    for part in parts:
        if not isinstance(part, CredalMaps) or len(part.shape) != axes or 0 in part.shape:
            wanted = "(height, width)" if axes == 2 else "(tokens,)"
            got = f"shape {part.shape}" if isinstance(part, CredalMaps) else type(part).__name__
            rule = f"be of shape {wanted}, several of them on a first axis or in a list"
            remedy = "Pass the tokens of sentences." if axes == 2 else ""
            raise InputError("maps", rule, got, remedy)
    if len({(part.flat.shape[1], part.classes) for part in parts}) != 1:
        raise InputError("maps", "have the same classes, and be at least one", f"{len(parts)}")
    taken = range(len(parts))[:most] if rows is None else chosen(rows, len(parts))

    def each(values: Any, name: str) -> list[Any]:
        if values is None:
            return [None] * len(parts)
        return of_each(values, len(parts), name) if several else [values]

    answers, pictures = each(labels, "labels"), each(images, "images")
    found = [Scene(i, parts[i], image=pictures[i]) for i in taken]
    found = [_judged(scene, answers[scene.number], ignore_index) for scene in found]
    if tokens is not None:
        words = each(tokens, "tokens")
        found = [_worded(scene, words[scene.number], padded=batch) for scene in found]
    return found, len(parts)


def chosen(rows: Any, total: int) -> list[int]:
    """The numbers listed in `rows`, or those of so many first ones."""
    if np.ndim(rows) > 0:
        return [*check_rows(rows, total)]
    return [*range(total)][: check_count(rows, "rows")]


def in_words(names: Sequence[str], *, ordered: bool, node: str = "", most: int = 4) -> str:
    """Possible classes as "a or b", "2 to 4" if ordered, "5 classes of Iberian" of a tree."""
    if ordered and len(names) > 1:
        return f"{names[0]} to {names[-1]}"
    if len(names) > most:
        return f"{len(names):,} classes" + (f" of {node}" if node else "")
    return " or ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "none"


def _worded(scene: Scene, tokens: Any, *, padded: bool) -> Scene:
    """A sentence with its words, without what is padding."""
    where = f"tokens[{scene.number}]"
    if isinstance(tokens, str) or not all(isinstance(word, str) for word in tokens):
        raise InputError(where, "be a list of texts", repr(tokens)[:40])
    (room,), n = scene.maps.shape, len(tokens)
    if n > room or n == 0 or (n < room and not padded):
        raise InputError(where, f"be {room}, one for each of the logits", f"{n}")
    cut = {name: getattr(scene, name) for name in ("labels", "verdicts")}
    cut = {name: None if values is None else values[:n] for name, values in cut.items()}
    return replace(scene, maps=scene.maps[:n], tokens=tuple(tokens), **cut)


def _judged(scene: Scene, labels: Any, ignore_index: int | None) -> Scene:
    """The verdicts on one image or sentence, all of which may be ignored."""
    if labels is None:
        return scene
    maps, y = scene.maps, to_numpy(labels, "labels")
    if y.shape != maps.shape:
        raise _misshapen("labels", y.shape, maps.shape)
    K = maps.flat.shape[1]
    known = np.ones(y.shape, bool) if ignore_index is None else y != ignore_index
    truth = np.zeros(y.shape, dtype=np.intp)
    rows = int(known.sum())
    if rows:
        truth[known] = check_labels(y[known], rows=rows, classes=K, names=maps.classes)
    held = np.take_along_axis(np.moveaxis(maps.possible, maps.axis, -1), truth[..., None], -1)
    found = np.where(maps.prediction == truth, Verdict.RIGHT, Verdict.WRONG)
    found = np.where(held[..., 0], found, Verdict.MISSED)
    verdicts = np.where(known, found, Verdict.IGNORED).astype(np.uint8)
    return replace(scene, labels=truth, verdicts=verdicts)
