"""Every number that the explorer's page shows: the page only draws.

All is computed by the public methods of credal sets, at every level of the slider, and written as
a JSON header and raw arrays, which a browser reads without parsing numbers.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal._base.numerics import Array, Indices, Mask, for_each_block, row_blocks
from decal._base.row_checks import check_rows
from decal._base.settings import check_count
from decal.credal import ClassTree, CredalSet, HullCredalSet, IntervalCredalSet, KLCredalSet
from decal.explorer._level_curves import ConfidenceCounts, Curves
from decal.explorer._levels import worth_a_look
from decal.explorer._media import PER_SHEET, SHEET_COLUMNS, GroupColumn, Media
from decal.explorer._prices import Prices
from decal.promise import Promise
from decal.report import assurance, share_to_check

Arrays = dict[str, NDArray[Any]]
Layout = dict[str, tuple[str, tuple[int, ...]]]

MAGIC = b"decal\x00\x00\x01"

MOST_SLOTS = 31  # classes stored per input: decisions are the bits of a 32-bit integer
BYTE_BUDGET = 32 << 20  # of a payload; if all inputs need more, a sample is shown by default
BLOCK_ELEMENTS = 1 << 19  # bounds computed at a time, so that memory does not grow with the inputs
EXACT_INPUTS = 20_000  # of more, bounds travel in steps of 1.5e-5: half the page, opened faster
INPUTS = -1  # the axis of inputs in a layout, whose length is not known yet

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)  # of all inputs, to hand over: bits of a byte

RULES = (
    ("possible", "Possible classes", "set", "as the promise has it, or else E-admissible"),
    ("e_admissible", "E-admissible", "set", "most probable under some plausible distribution"),
    ("maximality", "Maximality", "set", "no other class is more probable under all of them"),
    ("interval_dominance", "Interval dominance", "set",
     "could be as probable as every other class is for certain"),
    ("gamma_maximin", "Γ-maximin", "one", "largest lower probability: the best worst case"),
    ("gamma_maximax", "Γ-maximax", "one", "largest upper probability: the best best case"),
    ("hurwicz", "Hurwicz", "one", "largest mean of lower and upper probability"),
    ("minimax_regret", "Minimax regret", "one", "least that another class could be more probable"),
    ("point", "Point", "one", "most probable by the point prediction"),
)  # fmt: skip
"""Rules of decision: key, title, whether they leave a set of classes or one, and meaning."""

POSSIBLE_BY = {
    "ordered_majority": "an interval: all plausible distributions give it half or more",
    "node": "those below the last node that is probable under all plausible distributions",
}
"""What is possible of ordered classes and of a tree."""


@dataclass(frozen=True, eq=False)
class Payload:
    """Titles, names, levels and curves of a page in a header; arrays, most with a row per input."""

    header: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    def to_bytes(self) -> bytes:
        """Magic, length of the header, header as JSON, then the arrays, each 8-byte aligned."""
        places: dict[str, Any] = {}
        parts: list[bytes] = []
        offset = 0
        coarse = self.header["inputs"]["count"] > EXACT_INPUTS
        for name, kept in self.arrays.items():
            array = _as_shares(kept) if coarse and name.endswith(("/lower", "/upper")) else kept
            data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
            data += b"\x00" * (-len(data) % 8)
            shape = list(array.shape)
            places[name] = {"dtype": array.dtype.name, "shape": shape, "offset": offset}
            parts.append(data)
            offset += len(data)
        # ASCII only: any text survives, even half a surrogate pair.
        text = json.dumps({**self.header, "arrays": places}, allow_nan=False).encode("ascii")
        text += b" " * (-(len(MAGIC) + 4 + len(text)) % 8)
        return b"".join([MAGIC, len(text).to_bytes(4, "little"), text, *parts])


@dataclass(frozen=True)
class Side:
    """One model's credal sets of all inputs, at every level, and its name on the page."""

    name: str
    predict: Callable[[int, slice], CredalSet]  # of a level's number and a slice of inputs
    first: CredalSet  # of the first input: whether there are names and a point prediction
    settings: tuple[tuple[str, str], ...] = ()  # names and values
    answers: Callable[[slice], Array] | None = None  # (n, K) the classifier's own probabilities
    promise: tuple[int, Promise] | None = None  # and the number of the level at which it holds

    @property
    def has_point(self) -> bool:
        """Whether there is a point prediction."""
        return self.first.point is not None

    def says(self, credal: CredalSet, rows: slice) -> Array | None:
        """(n, K) what the classifier says of some inputs; by default the point of their sets."""
        return credal.point if self.answers is None else self.answers(rows)

    def promise_at(self, level: int) -> Promise | None:
        """What is promised at a level."""
        return self.promise[1] if self.promise is not None and self.promise[0] == level else None

    @property
    def tree(self) -> ClassTree | None:
        """The tree of the classes, if a node of it says what is possible."""
        return self.first.tree if self.first.rule == "node" else None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; their numbers if they have no names."""
        return self.first.classes or tuple(str(k) for k in range(self.first.shape[1]))


def collect(
    sides: Sequence[Side],
    levels: Sequence[float | None],
    start: int,
    total: int,
    *,
    title: str,
    media: Media,
    labels: Indices | None = None,
    truth: Array | None = None,
    groups: Sequence[GroupColumn] = (),
    rows: Any = None,
    slots: int | None = None,
    seed: int = 0,
    own: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Payload:
    """Everything about one or two models' credal sets of the same `total` inputs.

    Levels are falling alphas, or None for sets without alpha; the page opens at number `start`, and
    `own` is the number of the model's own. Labels (total,) and truth (total, K) are checked. `rows`
    says how many inputs to show, or which; None, as many as BYTE_BUDGET allows. A step of
    `progress` is a row at one level of one model.
    """
    K = sides[0].first.shape[1]
    m = _slot_count(slots, K)
    rules = _rules(sides)
    layout = _layout(sides, rules, len(levels), m, m < K, labels is not None, truth is not None)
    row_bytes = sum(
        np.dtype(kind).itemsize * math.prod(size for size in shape if size != INPUTS)
        for kind, shape in layout.values()
    )
    shown = choose_rows(rows, total, row_bytes + media.row_bytes(total), seed)
    arrays: Arrays = {
        name: np.zeros([len(shown) if size == INPUTS else size for size in shape], dtype)
        for name, (dtype, shape) in layout.items()
    }
    arrays["rows"][:] = shown
    arrays["slots"][:] = np.arange(K) if m == K else _likeliest(sides, start, shown, total, m)
    if labels is not None:
        arrays["labels"][:] = labels[shown]
    if truth is not None:
        arrays["truth"][:] = fold_columns(truth[shown], arrays["slots"])
    grouped = list(groups)
    if labels is not None and K <= MOST_SLOTS:
        grouped.append(GroupColumn("label", sides[0].classes, labels.astype(np.uint8)))
    curves = _sweep(sides, len(levels), start, total, arrays, labels, truth, grouped, progress)
    arrays |= {f"group/{at}": group.codes[shown] for at, group in enumerate(groups)}
    answers = [arrays[f"{i}/says"] for i, side in enumerate(sides) if side.has_point]
    arrays["alike"][:] = _alike(answers, len(shown))
    arrays["look"][:], first = _worth_a_look(arrays, start)
    pictures = _with_pictures(arrays, media, shown)
    promise = None if own is None else sides[0].promise_at(own)
    header = {
        "title": title,
        "alphas": list(levels),
        "start": start,
        "first": first,
        "own": own,
        "promise": promise and {"brief": promise.brief, "text": str(promise)},
        "view": "classes",  # what is drawn of one input: detail.js has a drawing for each name
        "shares": list(SHARES),
        "inputs": {
            "count": len(shown),
            "total": total,
            **media.pick(shown),
            "images": pictures,
            "groups": _listed(groups),
        },
        "grouped": _listed(grouped),
        "slots": m,
        "rest": m < K,
        "rules": rules,
        "models": [
            _described(side, curve, start) for side, curve in zip(sides, curves, strict=True)
        ],
    }
    return Payload(header, arrays)


def _listed(groups: Sequence[GroupColumn]) -> list[dict[str, Any]]:
    return [{"name": group.name, "values": list(group.values)} for group in groups]


def _described(side: Side, curve: Curves, start: int) -> dict[str, Any]:
    """What the header says of one model."""
    return {
        "name": side.name,
        "classes": list(side.classes),
        "ordered": side.first.ordered,
        "nodes": None if side.tree is None else list(side.tree.names),
        "settings": [list(pair) for pair in side.settings],
        "summary": curve.summary(start),
        "curve": curve.means(),
        "groups": [[part.group() for part in parts] for parts in curve.parts],
        "reliability": None if curve.counts is None else curve.counts.summary(),
        "costs": curve.costs(start),
    }


def _sweep(
    sides: Sequence[Side],
    A: int,
    start: int,
    total: int,
    arrays: Arrays,
    labels: Indices | None,
    truth: Array | None,
    groups: Sequence[GroupColumn],
    progress: Callable[[int, int], None] | None,
) -> list[Curves]:
    """Predict all inputs at all A levels, once: fill the arrays of those shown, and sum up all."""
    shown, stored = arrays["rows"], arrays["slots"]
    of_side = [
        {name.removeprefix(f"{i}/"): a for name, a in arrays.items() if name.startswith(f"{i}/")}
        for i in range(len(sides))
    ]
    K = sides[0].first.shape[1]
    curves = [_curves(side, A, groups, labelled=labels is not None) for side in sides]
    blocks = [*row_blocks(total, K, BLOCK_ELEMENTS)]
    sure = np.empty((len(sides), total))  # how sure predictions are, at one level
    steps = itertools.product(range(A), range(len(blocks)), range(len(sides)))
    done, work = 0, total * A * len(sides)
    for a, b, i in steps:
        block = blocks[b]
        credal = sides[i].predict(a, block)
        y = None if labels is None else labels[block]
        p = None if truth is None else truth[block]
        kept, said = _possible(credal), sides[i].says(credal, block)
        curves[i].add(a, credal, said, kept, y, p, [group.codes[block] for group in groups])
        here = slice(*np.searchsorted(shown, [block.start, block.stop]))
        inside = shown[here] - block.start
        if len(inside):
            y, p = (None if known is None else known[inside] for known in (y, p))
            found = credal[inside], kept[inside], stored[here], y, p
            _fill(of_side[i], (a, here), *found)
            if a == start and said is not None:
                _fill_answers(of_side[i], here, credal[inside], said[inside], stored[here])
        if credal.point is not None:
            sure[i, block] = assurance(credal, sides[i].promise_at(a))
            if b == len(blocks) - 1:
                of_side[i]["asked"][a] = _asked(sure[i], shown)
        done += block.stop - block.start
        if progress is not None:
            progress(done, work)
    return curves


def _curves(side: Side, A: int, groups: Sequence[GroupColumn], *, labelled: bool) -> Curves:
    """What is summed up of one model, at A levels; nothing yet."""
    K = side.first.shape[1]
    counts = ConfidenceCounts(A, K, confusions=K <= MOST_SLOTS) if labelled else None
    prices = Prices() if labelled and side.has_point else None
    return Curves(A, [len(group.values) for group in groups], counts, prices)


def _asked(sure: Array, shown: Indices) -> NDArray[np.uint8]:
    """At which shares a person is asked about the inputs shown, a bit each."""
    marked = [share_to_check(sure, share)[shown] for share in SHARES]
    return np.packbits(marked, axis=0, bitorder="little")


def _possible(credal: CredalSet) -> Mask:
    """(n, K) the classes that the promise calls possible; of empty sets none."""
    if credal.kept is not None:
        return credal.kept
    kept: Mask = credal.decide(credal.rule, empty="nan")
    return kept


def _of_predicted(values: Array, point: Array) -> Array:
    """(n,) the values of the class that is most probable at the point."""
    return np.take_along_axis(values, point.argmax(axis=1)[:, None], axis=1)[:, 0]


def _alike(answers: Sequence[NDArray[np.float32]], rows: int) -> Indices:
    """(n,) for every input the first one with the same answers of all models: often itself."""
    if not answers:
        return np.arange(rows)
    bits = np.ascontiguousarray(np.hstack(answers)).view(np.uint8).reshape(rows, -1)
    whole = bits.view(np.dtype((np.void, bits.shape[1]))).ravel()
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    return np.asarray(first[which])


def _worth_a_look(arrays: Arrays, start: int) -> tuple[Indices, int]:
    """The order of `worth_a_look`, by the first model, and the input on which a page opens.

    That is the first of the order; or the first error in two classes of which the model is surer
    than the data allow, if there is one.
    """
    size = arrays["0/size/possible"][start]
    if "0/said" not in arrays:
        order = worth_a_look(size)
        return order, int(order[0])
    said, sure = arrays["0/said"], arrays["0/sure"]
    wrong = caught = None
    if "labels" in arrays:
        wrong = said != arrays["labels"]
        caught = wrong & (arrays["0/hit"][start] == 1)
    order = worth_a_look(size, sure, arrays["0/least"][start], wrong, caught)
    if caught is None:
        return order, int(order[0])
    excess = (said == arrays["0/predicted"]) & (sure > arrays["0/most"][start])
    return order, int(order[np.argmax((caught & (size == 2) & excess)[order])])


def _with_pictures(arrays: Arrays, media: Media, shown: Indices) -> dict[str, Any] | None:
    """Add the thumbnails to the arrays; returns what the page must know to cut them out."""
    sheets = media.sheets(shown)
    if sheets is None:
        return None
    arrays["picture_sizes"] = sheets.sizes
    for at, file in enumerate(sheets.files):
        arrays[f"sheet/{at}"] = np.frombuffer(file, dtype=np.uint8)
    return {"kind": sheets.kind, "cells": sheets.cells, "columns": SHEET_COLUMNS, "per": PER_SHEET}


def choose_rows(rows: Any, total: int, row_bytes: int, seed: int) -> Indices:
    """The inputs to show, in their order: those asked for, or a uniform sample of a given size."""
    if rows is not None and np.ndim(rows) > 0:
        return check_rows(rows, total)
    count = max(1, BYTE_BUDGET // row_bytes) if rows is None else check_count(rows, "rows")
    if count >= total:
        return np.arange(total)
    return np.sort(np.random.default_rng(seed).choice(total, count, replace=False))


def fold(credal: CredalSet, slots: Indices) -> CredalSet:
    """Sets, none empty, seen more coarsely: (n, m) classes `slots`, and all others as one event.

    Exact: whatever the m probabilities are, those of the others can sum to anything between the
    sums of their bounds; and merging classes of a ball leaves a ball of the same radius.
    """
    if isinstance(credal, HullCredalSet):
        members = credal.vertices.swapaxes(0, 1)
        return HullCredalSet(np.stack([fold_columns(p, slots) for p in members], axis=1), axis=1)
    if isinstance(credal, KLCredalSet):
        return KLCredalSet(fold_columns(credal.center, slots), credal.radius)
    lower, upper = fold_columns(credal.lower, slots), fold_columns(credal.upper, slots)
    return IntervalCredalSet(lower, upper).tighten()


def fold_columns(values: Array, slots: Indices) -> Array:
    """(n, m) chosen columns of each row and, if any are left, the sum of the others."""
    chosen = np.take_along_axis(values, slots, axis=1)
    if slots.shape[1] == values.shape[1]:
        return chosen
    others = values.copy()
    np.put_along_axis(others, slots, 0.0, axis=1)
    return np.column_stack([chosen, np.minimum(others.sum(axis=1), 1.0)])


def _fill(
    arrays: Arrays,
    at: tuple[int, slice],
    credal: CredalSet,
    kept: Mask,
    slots: Indices,
    labels: Indices | None,
    truth: Array | None,
) -> None:
    """Write the numbers of one model for some inputs at one level."""
    full = ~credal.is_empty
    bounds = fold(credal[full], slots[full])
    for name, values in (("lower", bounds.lower), ("upper", bounds.upper)):
        arrays[name][at] = np.nan
        arrays[name][at][full] = values
    least, greatest = _entropies(credal)
    arrays["aleatoric"][at], arrays["total"][at] = least, greatest
    arrays["epistemic"][at] = np.maximum(greatest - least, 0.0)
    bits = np.uint32(1) << np.arange(slots.shape[1], dtype=np.uint32)
    for name, array in arrays.items():
        kind, _, rule = name.partition("/")
        if kind == "size":
            mask = kept if rule == "possible" else credal.decide(rule, empty="nan")
            array[at] = mask.sum(axis=1)
            arrays[f"kept/{rule}"][at] = np.where(
                np.take_along_axis(mask, slots, axis=1), bits, np.uint32(0)
            ).sum(axis=1, dtype=np.uint32)
        elif kind == "takes":
            array[at] = credal.decide(rule, empty="nan")
        elif kind == "node":
            assert credal.tree is not None
            array[at][full] = [credal.tree.names.index(name) for name in credal[full].node()]
    if labels is not None:
        arrays["hit"][at] = kept[np.arange(len(kept)), labels]
    if truth is not None:
        arrays["covered"][at] = credal.contains(truth)
    if credal.point is not None:
        arrays["least"][at] = _of_predicted(credal.lower, credal.point)
        arrays["most"][at] = _of_predicted(credal.upper, credal.point)


def _fill_answers(
    arrays: Arrays, here: slice, credal: CredalSet, said: Array, slots: Indices
) -> None:
    """Write what one model says of some inputs, and the points of their sets."""
    assert credal.point is not None
    arrays["point"][here] = fold_columns(credal.point, slots)
    arrays["predicted"][here] = credal.point.argmax(axis=1)
    arrays["says"][here] = fold_columns(said, slots)
    arrays["said"][here] = said.argmax(axis=1)
    arrays["sure"][here] = said.max(axis=1)


def _entropies(credal: CredalSet) -> tuple[Array, Array]:
    """Lower and upper entropy, on all cores: the longest part of a page of many classes."""
    least, greatest = np.empty((2, len(credal)))

    def of_block(rows: slice) -> None:
        least[rows], greatest[rows] = credal[rows].entropy(empty="nan")

    for_each_block(of_block, *credal.shape)
    return least, greatest


def _rules(sides: Sequence[Side]) -> list[dict[str, str]]:
    """The decision rules to show: of boxes, interval dominance is maximality under 0/1 loss."""
    left_out = set()
    if not any(isinstance(side.first, HullCredalSet | KLCredalSet) for side in sides):
        left_out.add("interval_dominance")
    if not all(side.has_point for side in sides):
        left_out.add("point")
    columns = "key", "title", "kind", "meaning"
    found = [dict(zip(columns, rule, strict=True)) for rule in RULES if rule[0] not in left_out]
    found[0]["meaning"] = POSSIBLE_BY.get(sides[0].first.rule, found[0]["meaning"])
    return found


def _layout(
    sides: Sequence[Side],
    rules: Sequence[Mapping[str, str]],
    A: int,
    m: int,
    rest: bool,
    has_labels: bool,
    has_truth: bool,
) -> Layout:
    """Every array of the payload: dtype and shape."""
    n, s = INPUTS, m + rest
    layout: Layout = dict.fromkeys(("rows", "alike", "look"), ("int32", (n,)))
    layout["slots"] = ("int32", (n, m))
    if has_labels:
        layout["labels"] = ("int32", (n,))
    if has_truth:
        layout["truth"] = ("float32", (n, s))

    def of_one(side: Side) -> Iterator[tuple[str, tuple[str, tuple[int, ...]]]]:
        yield from ((name, ("float32", (A, n, s))) for name in ("lower", "upper"))
        if side.has_point:
            yield from ((name, ("float32", (n, s))) for name in ("point", "says"))
            yield from ((name, ("int32", (n,))) for name in ("predicted", "said"))
            yield "sure", ("float32", (n,))
            yield from ((name, ("float32", (A, n))) for name in ("least", "most"))
            yield "asked", ("uint8", (A, n))
        yield from ((name, ("float32", (A, n))) for name in ("aleatoric", "epistemic", "total"))
        if side.tree is not None:
            yield "node", ("int32", (A, n))
        for rule in rules:
            if rule["kind"] == "set":
                yield f"size/{rule['key']}", ("int32", (A, n))
                yield f"kept/{rule['key']}", ("uint32", (A, n))
            else:
                yield f"takes/{rule['key']}", ("int32", (A, n))
        if has_truth:
            yield "covered", ("uint8", (A, n))
        if has_labels:
            yield "hit", ("uint8", (A, n))

    for i, side in enumerate(sides):
        layout |= {f"{i}/{name}": entry for name, entry in of_one(side)}
    return layout


def _slot_count(slots: int | None, K: int) -> int:
    if slots is None:
        return K if K <= MOST_SLOTS else 24
    if check_count(slots, "slots") > MOST_SLOTS:
        raise InputError("slots", f"be at most {MOST_SLOTS}", f"{slots}")
    return min(int(slots), K)


def _likeliest(sides: Sequence[Side], start: int, shown: Indices, total: int, m: int) -> Indices:
    """(n, m) the classes of largest upper probability under any model, the largest first."""
    K = sides[0].first.shape[1]
    found = np.empty((len(shown), m), dtype=np.intp)
    for block in row_blocks(total, K, BLOCK_ELEMENTS):
        here = slice(*np.searchsorted(shown, [block.start, block.stop]))
        inside = shown[here] - block.start
        if len(inside):
            upper = np.max([s.predict(start, block)[inside].tighten().upper for s in sides], axis=0)
            found[here] = np.argsort(-upper, axis=1, kind="stable")[:, :m]
            if sides[0].first.ordered:
                found[here].sort(axis=1)
    return found


def _as_shares(bounds: NDArray[Any]) -> NDArray[np.uint16]:
    """Probabilities as whole numbers of 65,534; 65,535 stands for a bound that does not exist."""
    shares = np.where(np.isnan(bounds), 65_535, np.rint(np.nan_to_num(bounds) * 65_534))
    return shares.astype(np.uint16)
