"""Images and sentences, as plain data: what static/scenes.js draws.

A page holds one level: numbers of every pixel at twenty levels would be too large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal._base.numerics import Array, Indices
from decal.explorer._payload import Arrays, Payload
from decal.grids import CredalMaps, Scene, Verdict, chosen, in_words, scenes

MOST = {2: 400_000, 1: 20_000}
"""Pixels, or tokens, that one page holds: 2 to 3 MB, of nothing but noise in many classes 5."""

MOST_SCENES = 200
LONGEST_SIDE = 256  # pixels: of longer images some lines are left out
COARSEST = 8  # of so many lines at least one is drawn
FOREMOST = 6  # classes of a token whose ranges are shown
MOST_IN_LEGEND = 24
ORDERS = {"Errors first": "wrong", "Misses first": "missed", "Doubts first": "one class left"}


def scene_payload(
    maps: Any,
    *,
    images: Any,
    tokens: Any,
    labels: Any,
    names: Sequence[str] | None,
    rows: Any,
    ignore_index: int | None,
    title: str,
) -> Payload:
    """Everything about images (without tokens) or sentences, of which as many are shown as fit.

    Shares are of all pixels or tokens of each image or sentence, shown or not.
    """
    axes = 2 if tokens is None else 1
    found, total = scenes(
        maps, axes, labels, images=images, tokens=tokens, ignore_index=ignore_index
    )
    if names is not None and len(names) != total:
        raise InputError("names", f"be {total}, one for each", f"{len(names)}")
    counts = np.array([_counts(scene) for scene in found], dtype=float)
    shares = [_shares(of_one, labelled=labels is not None) for of_one in counts]
    orders = _orders(shares)
    shown, step = _taken(found, rows, orders[0][1])
    place = {scene.number: at for at, scene in enumerate(shown)}
    thin = (slice(None, None, step),) * axes
    cut = [scene.maps[thin] for scene in shown]
    codes, sets = _distinct_sets(cut)
    predicted = np.concatenate([part.prediction.ravel() for part in cut])
    arrays: Arrays = {
        "prediction": _small(predicted),
        "sure": _percent([part.flat.point.max(axis=1) for part in cut]),
        "width": _percent([part.width.ravel() for part in cut]),
        "set": _small(codes),
    }
    for name in () if labels is None else ("labels", "verdicts"):
        values = [getattr(scene, name)[thin].ravel() for scene in shown]
        arrays[name] = _small(np.concatenate(values))
    if axes == 1:
        arrays |= _foremost(cut, predicted, arrays)
    first, K = shown[0].maps, shown[0].maps.flat.shape[1]
    channels = []
    for at, scene in enumerate(shown if images is not None else ()):
        levels = np.atleast_3d(scene.levels[thin])
        arrays[f"picture/{at}"] = levels
        channels.append(levels.shape[2])
    kind = "image" if axes == 2 else "sentence"
    header = {
        "title": title,
        "kind": kind,
        "classes": list(first.classes or map(str, range(K))),
        "legend": _legend(predicted, K),
        "promise": None,  # of sets as they are nothing is known
        "alpha": None,
        "partly": _partly(len(shown), total, kind, step, chosen=rows is not None),
        "shares": _shares(counts.sum(axis=0), labelled=labels is not None),
        "orders": [[name, [place[n] for n in order if n in place]] for name, order in orders],
        "sets": sets,
        "widest": int(arrays["width"].max()),
        "slots": min(K, FOREMOST),
        "inputs": {"count": len(predicted), "total": total},
        "channels": channels,
        "scenes": [
            {
                "name": f"{kind.capitalize()} {s.number}" if names is None else names[s.number],
                "shape": list(part.shape),
                "tokens": list(s.tokens),
                "shares": shares[s.number],
            }
            for s, part in zip(shown, cut, strict=True)
        ],
    }  # fmt: skip
    return Payload(header, arrays)


def _counts(scene: Scene) -> tuple[float, ...]:
    """Inputs, the sum of their widths, those with one class left; judged, wrong, missed ones."""
    alone = scene.maps.flat.possible_mask().sum(axis=1) == 1
    return len(alone), scene.maps.width.sum(), alone.sum(), *scene.errors


def _shares(counts: Array, *, labelled: bool) -> dict[str, float]:
    n, width, alone, judged, wrong, missed = counts.tolist()
    found = {"width": width / n, "one class left": alone / n}
    errors = {"wrong": wrong / max(judged, 1), "missed": missed / max(judged, 1)}
    return found | (errors if labelled else {})


def _orders(shares: Sequence[Mapping[str, float]]) -> list[tuple[str, list[int]]]:
    """The orders that a page offers, that of what is worth a look first."""
    every = [*range(len(shares))]
    found = []
    for title, key in ORDERS.items():
        if key in shares[0]:
            sign = 1 if key == "one class left" else -1
            ranks = [(sign * of_one[key], -of_one["width"]) for of_one in shares]
            found.append((title, sorted(every, key=ranks.__getitem__)))
    return [*found, ("In their order", every)]


def _taken(found: list[Scene], rows: Any, look: list[int]) -> tuple[list[Scene], int]:
    """What is shown, and of how many lines one is."""
    axes = len(found[0].maps.shape)
    most = MOST[axes]

    def size(scene: Scene, step: int) -> int:
        return int(np.prod([-(-side // step) for side in scene.maps.shape]))

    if rows is None:
        longest = max(side for scene in found for side in scene.maps.shape)
        step = -(-longest // LONGEST_SIDE) if axes == 2 else 1
        ends = np.cumsum([size(found[n], step) for n in look])
        count = min(MOST_SCENES, max(1, int(np.searchsorted(ends, most, side="right"))))
        taken = sorted(look[:count])
    else:
        taken, step = chosen(rows, len(found)), 1
        while sum(size(found[n], step) for n in taken) > most and step < COARSEST and axes == 2:
            step += 1
    count = sum(size(found[n], step) for n in taken)
    if count > most:
        noun = "pixels, with one line in eight" if axes == 2 else "tokens"
        raise InputError("rows", f"leave at most {most:,} {noun}", f"{count:,}", "Choose fewer.")
    return [found[n] for n in taken], step


def _partly(shown: int, total: int, kind: str, step: int, *, chosen: bool) -> str:
    """What the page leaves out, in a sentence."""
    said = []
    if shown < total:
        which = "" if chosen else ", those most worth a look"
        said.append(f"{shown:,} of {total:,} {kind}s{which}; shares are of all.")
    if step > 1:
        said.append(f"One pixel in {step} of one line in {step} is drawn.")
    return " ".join(said)


def _distinct_sets(parts: list[CredalMaps]) -> tuple[Indices, list[list[Any]]]:
    """(n,) the set of each input by its number, and of each distinct set its words and size."""
    kept = np.concatenate([part.flat.possible_mask() for part in parts])
    bits = np.packbits(kept, axis=1)
    whole = bits.view(np.dtype((np.void, bits.shape[1]))).ravel()  # sorted faster than by columns
    _, rows, codes = np.unique(whole, return_index=True, return_inverse=True)
    flat, names = parts[0].flat, parts[0].classes or tuple(map(str, range(kept.shape[1])))
    ends = np.cumsum([0, *(len(part.flat) for part in parts)])

    def described(row: int) -> list[Any]:
        found, node = [names[k] for k in np.flatnonzero(kept[row])], ""
        if flat.rule == "node":
            part = int(np.searchsorted(ends, row, side="right")) - 1
            (name,) = parts[part].flat[[row - ends[part]]].node()
            node = "" if name == flat.tree.names[0] else str(name)
        return [in_words(found, ordered=flat.ordered, node=node), len(found)]

    return codes, [described(int(row)) for row in rows]


def _foremost(
    parts: list[CredalMaps], predicted: Indices, arrays: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """The classes of every token with the largest upper probability, and their ranges.

    The predicted and the true class are always among them; ordered classes stand in their order.
    """
    low, high, point = (
        np.concatenate([getattr(part.flat, name) for part in parts])
        for name in ("lower", "upper", "point")
    )
    reach = high.copy()
    reach[np.arange(len(high)), predicted] += 1
    if "labels" in arrays:
        known = np.flatnonzero(arrays["verdicts"] != Verdict.IGNORED)
        reach[known, arrays["labels"][known]] += 1
    order = np.argsort(-reach, axis=1, kind="stable")[:, :FOREMOST]
    reach = np.take_along_axis(high, order, axis=1)
    by = order if parts[0].flat.ordered else -reach
    order = np.take_along_axis(order, np.argsort(by, axis=1, kind="stable"), axis=1)
    found: dict[str, NDArray[Any]] = {"slots": order.astype(np.int32)}
    for name, values in (("lower", low), ("upper", high), ("point", point)):
        found[name] = np.take_along_axis(values, order, axis=1).astype(np.float32)
    return found


def _legend(predicted: Indices, K: int) -> list[int]:
    """The classes that are predicted most often, in their order."""
    counts = np.bincount(predicted, minlength=K)
    most = np.argsort(-counts, kind="stable")[:MOST_IN_LEGEND]
    return sorted(int(k) for k in most if counts[k])


def _small(numbers: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in a byte each, if they fit."""
    return numbers.astype(np.uint8 if numbers.max() < 256 else np.int32)


def _percent(shares: list[Array]) -> NDArray[np.uint8]:
    return np.asarray(np.rint(100 * np.concatenate(shares)), dtype=np.uint8)
