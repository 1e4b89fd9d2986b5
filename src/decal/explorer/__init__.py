"""The explorer: an interactive page about credal predictions, in a browser or a notebook.

It works offline. One slider moves between levels of alpha. The page itself contains the intervals,
decisions and costs of every input at each level, which decal has computed beforehand.

Imports from `_base`, `choose`, `credal`, `evaluate`, `grids`, `io`, `model`, `promise`, `report`,
`rows` and `shift`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decal._base.data_frames import (
    Index,
    Numbers,
    class_columns,
    id_columns,
    index_of,
    is_frame,
    name_of,
    require_same_order,
)
from decal._base.errors import InputError, counted, needs
from decal._base.numerics import Array, softmax
from decal._base.row_checks import check_distributions
from decal._base.settings import check_keywords
from decal.choose import Predictor
from decal.credal import CredalSet
from decal.explorer._levels import levels_of, opening
from decal.explorer._media import open_groups, open_media, rows_of_groups
from decal.explorer._page import OfflinePage, style, widget_script
from decal.explorer._payload import Payload, Side, collect, fold_columns
from decal.explorer._scenes import scene_payload
from decal.grids import CredalMaps, is_dense
from decal.model import Model, predict_rows, promised_sets, read_inputs, require_classes
from decal.promise import Promise
from decal.rows import Rows
from decal.shift import LabelShift, p_text

__all__ = [
    "Exploration",
    "Payload",
    "explore",
    "explore_credal",
    "explore_maps",
    "explore_shift",
]

TITLE = "Credal predictions"


@dataclass(frozen=True, eq=False, repr=False)
class Exploration(OfflinePage):
    """A page about credal predictions: a file, an address on this machine, a notebook's output."""

    entry = "main.js"

    def widget(self) -> Any:
        """The page as an anywidget, for notebooks; needs anywidget."""
        message = "decal.explorer's notebook widget needs anywidget: pip install 'decal[explore]'"
        with needs("anywidget", "traitlets", message=message):
            import anywidget
            import traitlets

        entry = self.entry

        class ExplorerWidget(anywidget.AnyWidget):
            _esm = widget_script(entry)
            _css = style(entry)
            payload = traitlets.Bytes().tag(sync=True)

        return ExplorerWidget(payload=self.compressed)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """What a notebook shows: the widget or, without anywidget, how to get it."""
        try:
            return self.widget()._repr_mimebundle_(**options)
        except ImportError as error:
            return {"text/plain": f"{self!r}\n  {error}"}

    def __repr__(self) -> str:
        header = self.payload.header
        count, total = header["inputs"]["count"], header["inputs"]["total"]
        inputs = f"{count:,} inputs" if count == total else f"{count:,} of {total:,} inputs"
        models = f", {len(header['models'])} models" if len(header["models"]) > 1 else ""
        levels = f", {len(header['alphas'])} levels" if len(header["alphas"]) > 1 else ""
        classes = len(header["models"][0]["classes"])
        return (
            f"Exploration: {header['title']}, {inputs}, {classes:,} classes{models}{levels}\n"
            '  .save("page.html") writes it as a file, .serve() opens it in a browser'
        )


class SceneExploration(Exploration):
    """A page about images or sentences."""

    entry = "scenes.js"

    def __repr__(self) -> str:
        header = self.payload.header
        part = "pixel" if header["kind"] == "image" else "token"
        inputs = counted(header["inputs"]["count"], part)
        scenes, classes = counted(len(header["scenes"]), header["kind"]), len(header["classes"])
        return (
            f"Exploration: {header['title']}, {scenes}, {inputs}, {classes:,} classes\n"
            '  .save("page.html") writes it as a file, .serve() opens it in a browser'
        )


def explore(
    model: Predictor,
    logits: Any,
    *,
    labels: Any = None,
    truth: Any = None,
    texts: Any = None,
    images: Any = None,
    names: Iterable[Any] | None = None,
    ids: Any = None,
    groups: Mapping[str, Any] | None = None,
    alphas: Any = None,
    start: float | None = None,
    rows: Any = None,
    slots: int | None = None,
    name: str | None = None,
    compare: tuple[Predictor, Any] | tuple[Predictor, Any, str] | None = None,
    title: str | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    dim: int | None = None,
    tokens: Any = None,
    ignore_index: int | None = None,
) -> Exploration:
    """An interactive page about a model's credal predictions at many levels of alpha.

    Every level is one prediction of all inputs, and exact entropies and decisions of those shown.

    Parameters
    ----------
    model : Predictor
        A fitted Decalibrator, or anything with ``predict(logits, alpha=...)`` that returns credal
        sets.
    logits : (n, K) array
        Inputs. Logits of pixels or tokens make a page of images or sentences, see `explore_maps`.
    labels, truth : (n,) and (n, K) arrays, optional
        True classes, and true distributions.
    texts
        n texts, or pairs (premise, hypothesis).
    images
        (n, H, W) or (n, H, W, 3 or 4), uint8 or floats from 0 to 1; n paths; or a folder of files
        named by row, such as 17.png. The page holds thumbnails.
    names, ids : optional
        Names of the n inputs; by default their `ids`, as for `Decalibrator.predict`.
    groups : mapping, optional
        Columns of metadata by name, such as {"site": sites}: n values each, at most 100 distinct.
        The page filters and colours by them, and shows how good the sets are in each group.
    alphas
        Levels of the slider; by default some 20, among them 1, 0 and the model's own.
    start : float, optional
        The level shown first; by default the model's own, at which its promise holds.
    rows
        How many inputs to show, drawn at random by `seed`, or their numbers. By default as many as
        make a page of some 32 MB, usually all. The curves are of all n in any case.
    slots : int, optional
        Classes of each input shown one by one, by default all up to 31, 24 of more; others as one.
    name, title : str, optional
        Of the model, and of the page.
    compare : tuple, optional
        (model, logits) or (model, logits, name): a second model on the same inputs. Its classes are
        the same, in the same order, but may be named differently.
    progress : callable, optional
        Called now and then with the work done and the work in all.
    dim, tokens, ignore_index : optional
        Of pixels and tokens: the axis of the classes, see `Decalibrator.fit`, and as for
        `explore_maps`. The page has one level, `start`.

    Examples
    --------
    >>> import numpy as np, decal
    >>> logits = np.array([[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]])
    >>> d = decal.decalibrate(logits, [0, 0, 1, 1], alpha=0.9, classes=["cat", "dog"])
    >>> d.explore(logits, labels=[0, 0, 1, 1], title="Cats and dogs")
    Exploration: Cats and dogs, 4 inputs, 2 classes, 20 levels
      .save("page.html") writes it as a file, .serve() opens it in a browser
    """
    if dim is not None or tokens is not None or ignore_index is not None or is_dense(logits):
        unknown = {"truth": truth, "texts": texts, "ids": ids, "groups": groups, "alphas": alphas,
                   "slots": slots, "compare": compare}  # fmt: skip
        for argument, value in unknown.items():
            if value is not None:
                remedy = "Pass the words as tokens." if argument == "texts" else ""
                raise InputError(argument, "be left out for pixels and tokens", "one", remedy)
        return _explore_dense(
            model, logits, dim, start, labels=labels, images=images, tokens=tokens, names=names,
            rows=rows, ignore_index=ignore_index, title=title or name,
        )  # fmt: skip
    beside = {"labels": labels, "truth": truth, "texts": texts, "images": images, "names": names}
    require_same_order(logits=logits, **beside, **rows_of_groups(groups))
    inputs = _read(model, logits, labels, ids)
    n, K = inputs.shape
    own = getattr(model, "alpha", None)
    levels = levels_of(getattr(model, "likelihood", "mean"), own, alphas, K)
    first = opening(levels, own, start)
    called = name or ("Model A" if compare else "Model")
    sides = [_side(model, inputs, called, levels, first, groups)]
    if compare is not None:
        other, other_logits, *other_name = compare
        require_same_order(logits=logits, **{"compare's logits": other_logits})
        others = _read(other, other_logits, None, ids, "compare's logits")
        if others.shape != (n, K):
            rule = f"have the shape of logits, {(n, K)}"
            raise InputError("compare's logits", rule, f"{others.shape}")
        second = other_name[0] if other_name and other_name[0] else "Model B"
        sides.append(_side(other, others, second, levels, first, groups))
        _require_same_order(*(side.classes for side in sides))
    if truth is not None:
        known = sides[0].first.classes
        truth = check_distributions(truth, shape=(n, K), name="truth", names=known)
    names = _names(names, index_of(logits, ids, rows=n), n)
    payload = collect(
        sides, levels, first, n, title=str(title or name or TITLE), labels=inputs.labels,
        truth=truth, media=open_media(names, texts, images, total=n),
        groups=open_groups(groups, total=n), rows=rows, slots=slots, seed=seed,
        own=levels.index(own) if own in levels else None, progress=progress,
    )  # fmt: skip
    return Exploration(payload)


def explore_credal(
    credal: CredalSet,
    *,
    labels: Any = None,
    truth: Any = None,
    texts: Any = None,
    images: Any = None,
    names: Iterable[Any] | None = None,
    groups: Mapping[str, Any] | None = None,
    rows: Any = None,
    slots: int | None = None,
    name: str | None = None,
    title: str | None = None,
    seed: int = 0,
) -> Exploration:
    """An interactive page about credal sets as they are: boxes or hulls, at one level.

    Empty sets are shown as such, and inputs are called by their index. Arguments are those of
    `explore`.

    Examples
    --------
    >>> import decal
    >>> c = decal.IntervalCredalSet([[0.1, 0.5, 0.0]], [[0.3, 0.8, 0.2]], classes=["a", "b", "c"])
    >>> c.explore(title="Three classes").payload.header["models"][0]["classes"]
    ['a', 'b', 'c']
    """
    n = len(credal)
    if n == 0:
        raise InputError("credal", "have at least one input", "none")
    beside = {"texts": texts, "images": images, "names": names}
    require_same_order(credal=credal, **beside, **rows_of_groups(groups))
    side = Side(name or "Credal sets", lambda _level, rows: credal[rows], credal[0])
    payload = collect(
        [side], [None], 0, n, title=str(title or name or TITLE),
        labels=None if labels is None else credal.check_labels(labels),
        truth=None if truth is None else credal.check_distributions(truth, "truth"),
        media=open_media(_names(names, credal.index, n), texts, images, total=n),
        groups=open_groups(groups, total=n), rows=rows, slots=slots, seed=seed,
    )  # fmt: skip
    return Exploration(payload)


def explore_maps(
    maps: CredalMaps | Sequence[CredalMaps],
    *,
    images: Any = None,
    tokens: Any = None,
    labels: Any = None,
    names: Iterable[Any] | None = None,
    rows: Any = None,
    ignore_index: int | None = None,
    title: str | None = None,
) -> Exploration:
    """An interactive page about the pixels of images, or the tokens of sentences, at one level.

    It shows what is predicted, how unsure, what is possible and what is wrong; of a pixel or token
    its possible classes, of a token their ranges. Images and sentences stand in the order in which
    they are worth a look: first those of most errors or, without labels, of most doubts.

    Parameters
    ----------
    maps
        Of one image (H, W), of several (N, H, W), or a list of images of different sizes. With
        tokens, of one sentence (T,), of several (N, T), or a list.
    images : optional
        As for `decal.plot.maps`.
    tokens : optional
        The texts of each sentence. In (N, T) maps they may be fewer: the others are padding.
    labels : optional
        True classes, in the shape of the maps.
    names : optional
        Of the images or sentences.
    rows : optional
        How many of the first to show, or their numbers. By default as many as make a page of some
        3 MB. Of images with more than 256 pixels a side, some lines are left out.
    ignore_index : int, optional
        Pixels or tokens with this label are not judged.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> logits, labels = rng.normal(size=(8, 3, 5, 5)), rng.integers(0, 3, (8, 5, 5))
    >>> d = decal.Decalibrator(0.9).fit(logits, labels, dim=1)
    >>> d.explore(logits, dim=1, labels=labels)
    Exploration: Credal predictions, 8 images, 200 pixels, 3 classes
      .save("page.html") writes it as a file, .serve() opens it in a browser
    >>> sentences = d.predict(logits[:2, :, 0], dim=1).explore(tokens=[["a"] * 5, ["b"] * 4])
    >>> sentences.payload.header["scenes"][1]["tokens"]
    ['b', 'b', 'b', 'b']
    """
    return SceneExploration(
        scene_payload(
            maps, images=images, tokens=tokens, labels=labels, rows=rows,
            names=None if names is None else [*map(str, names)], ignore_index=ignore_index,
            title=str(title or TITLE),
        )
    )  # fmt: skip


def _explore_dense(
    model: Any, logits: Any, dim: int | None, start: float | None, **shown: Any
) -> Exploration:
    """The page of maps that a model predicts, at its own level unless another one is asked for."""
    own, promise = getattr(model, "alpha", None), getattr(model, "promise", None)
    if not isinstance(model, Model):
        read_inputs(model, logits, dim=dim)  # which says what such a model takes
    if dim is None and shown["tokens"] is not None:
        dim = -1
    level = {} if start is None else {"alpha": start}
    page = explore_maps(model.predict(logits, dim=dim, **level), **shown)
    header = dict(page.payload.header)
    header["alpha"] = own if start is None else start
    if promise is not None and header["alpha"] == own:
        header["promise"] = {"brief": promise.brief, "text": str(promise)}
    return SceneExploration(Payload(header, page.payload.arrays))


def explore_shift(
    shift: LabelShift, logits: Any, *, ids: Any = None, **options: Any
) -> Exploration:
    """An interactive page about sets adapted to other class frequencies, and these frequencies.

    The LabelShift has observed unlabelled inputs; logits (n, K) are of inputs to show, perhaps
    those, and the options are those of `explore_credal`.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(2, size=200)
    >>> logits = 2 * np.eye(2)[labels] + rng.normal(size=(200, 2))
    >>> shift = decal.LabelShift().fit(logits, labels).observe(logits[labels == 0])
    >>> shift.explore(logits).payload.header["frequencies"]["changed"]
    True
    """
    options = {"name": "Adapted", "title": "Adapted to other class frequencies"} | options
    check_keywords(options, "decal.explorer.explore_shift", explore_shift, explore_credal)
    page = explore_credal(shift.predict(logits, ids=ids), **options)
    return Exploration(_with_frequencies(page.payload, shift, logits, ids))


def _with_frequencies(payload: Payload, shift: LabelShift, logits: Any, ids: Any) -> Payload:
    """A payload with class frequencies before and now, and the predictions (n, K) before."""
    found, test = shift.frequencies, shift.test()
    before = shift.predict(logits, frequencies=found.before, ids=ids).point
    assert before is not None
    rows, slots = payload.arrays["rows"], payload.arrays["slots"]
    header = dict(payload.header)
    header["frequencies"] = {
        "before": found.before.tolist(),
        "estimate": found.estimate.tolist(),
        "lower": found.lower.tolist(),
        "upper": found.upper.tolist(),
        "p_values": [None if np.isnan(p) else p_text(p, 2) for p in test.p_values],
        "p_value": p_text(test.p_value),
        "changed": test.p_value < 1 - found.confidence,
        "order": found.most_changed,
        "confidence": found.confidence,
        "inputs": found.inputs,
    }
    settings = [
        ["labels", f"{shift.calibrated.weight:,.6g}"],
        ["observed", f"{found.inputs:,.6g}"],
        ["confidence", f"{found.confidence:g}"],
        ["region", shift.region],
        ["corrected", "yes" if shift.corrected else "no"],
    ]
    header["models"] = [{**model, "settings": settings} for model in header["models"]]
    folded = fold_columns(before[rows], slots).astype(np.float32)
    return Payload(header, {**payload.arrays, "before": folded})


def _read(model: Predictor, logits: Any, labels: Any, ids: Any, name: str = "logits") -> Rows:
    """Inputs and labels; of a frame, without the columns that name the inputs."""
    require_classes(model)
    if is_frame(logits):
        classes, others = getattr(model, "classes", None), id_columns(logits, ids)
        logits, _ = class_columns(logits, classes, others=others, name=name)
    return read_inputs(model, logits, labels, name=name)


def _names(names: Iterable[Any] | None, index: Index | None, rows: int) -> Iterable[Any] | None:
    """The names given, or else those of the index."""
    if names is not None or index is None or isinstance(index, Numbers):
        return names
    return [name_of(index, row) for row in range(rows)]


def _side(
    model: Predictor,
    inputs: Rows,
    name: str,
    levels: list[float],
    start: int,
    groups: Mapping[str, Any] | None,
) -> Side:
    promise, own = getattr(model, "promise", None), getattr(model, "alpha", None)
    of_promise = _promised_groups(promise, groups)

    def predict(level: int, rows: slice) -> CredalSet:
        alpha, some = levels[level], inputs[rows]
        if promise is not None and alpha == own:
            by = None if of_promise is None else of_promise[rows]
            sets: CredalSet = promised_sets(model, some, alpha, promise, by)
            return sets
        sets = predict_rows(model, some, alpha)
        return sets.promised(promise.rule) if promise is not None and promise.rule else sets

    def answers(rows: slice) -> Array:
        return softmax(inputs.logits[rows])

    held = [(at, promise) for at, alpha in enumerate(levels) if alpha == own and promise]
    dense = isinstance(inputs.logits, np.ndarray)  # of top logits the others are not known
    return Side(
        name, predict, predict(start, slice(0, 1)), _settings(model),
        answers=answers if dense else None, promise=held[0] if held else None,
    )  # fmt: skip


def _promised_groups(promise: Promise | None, groups: Mapping[str, Any] | None) -> Any:
    """Of a promise that holds in every group, the column of these groups; None of others."""
    if promise is None or promise.per != "group":
        return None
    known = {str(value) for value in promise.levels}
    columns = (np.asarray(values) for values in (groups or {}).values())
    return next((c for c in columns if {str(v) for v in c.tolist()} <= known), None)


def _settings(model: Predictor) -> tuple[tuple[str, str], ...]:
    """Settings of a Decalibrator, and the number of its examples, as pairs of text."""
    told: dict[str, Callable[[Any], str]] = {
        "alpha": "{:g}".format, "likelihood": str, "reference": str, "box": str,
        "directions": lambda several: ", ".join(map(str, several)), "examples": "{:,}".format,
    }  # fmt: skip
    return tuple((k, text(getattr(model, k))) for k, text in told.items() if hasattr(model, k))


def _require_same_order(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    """Classes may have other names in a second model, but not the same ones shuffled."""
    if first != second and set(first) == set(second):
        at = next(k for k in range(len(first)) if first[k] != second[k])
        fact = f"{second[at]!r} where the first model has {first[at]!r}, in column {at}"
        remedy = "Reorder its columns before fitting."
        raise InputError("compare", "have its classes in the same order", fact, remedy)
