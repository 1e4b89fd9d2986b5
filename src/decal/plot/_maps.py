"""Predictions of pixels: what is predicted, how unsure, what is possible, what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal.grids import CredalMaps, Scene, Verdict, scenes
from decal.plot import style
from decal.plot._fonts import drawable, literal, unit, wrapped
from decal.plot.style import Ink

MOST_IMAGES = 6
"""Images drawn if nobody says how many."""

MOST_NAMES = 24
"""Classes in the legend, those of most pixels."""

MOST_POSSIBLE = 4
"""Pixels with so many possible classes, or more, have one colour."""

PANELS = ("image", "truth", "prediction", "width", "possible", "errors")


def maps(
    maps: CredalMaps | Sequence[CredalMaps],
    *,
    images: Any = None,
    labels: Any = None,
    rows: Any = None,
    ignore_index: int | None = None,
    panels: Sequence[str] | None = None,
    colors: Sequence[str] | None = None,
    legend: bool = True,
) -> NDArray[Any]:
    """Credal predictions of the pixels of images, on a new figure: a line of panels per image.

    The panels are the image; the prediction; the width of the widest interval; the number of
    possible classes; and, with labels, errors: where the prediction is wrong though the truth is
    possible, and where the truth is missed.

    Parameters
    ----------
    maps
        Of one image (H, W), of several (N, H, W), or a list of images of different sizes.
    images : optional
        One for every map, of its height and width: grey, or with 3 or 4 colours on the first or
        the last axis; uint8, or floats from 0 to 1.
    labels : optional
        True classes, in the shape of the maps.
    rows : optional
        How many images to draw, or their numbers; by default the first six.
    ignore_index : int, optional
        Pixels with this label are not judged.
    panels : sequence of str, optional
        Some of "image", "truth", "prediction", "width", "possible" and "errors", in their order;
        by default all that the data allow but the truth.
    colors : sequence, optional
        One for each class, instead of decal's. A class called "background" is grey without them.
    legend
        As for all figures: see `decal.plot`.

    Returns
    -------
    (images, panels) array of axes

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> logits, labels = rng.normal(size=(8, 3, 5, 5)), rng.integers(0, 3, (8, 5, 5))
    >>> d = decal.Decalibrator(0.9).fit(logits, labels, dim=1)
    >>> axes = decal.plot.maps(d.predict(logits, dim=1), labels=labels, rows=[2, 3])
    >>> [ax.get_title() for ax in axes[0]]
    ['prediction', 'width', 'possible classes', 'errors']
    """
    from matplotlib import pyplot as plt

    shown, total = scenes(
        maps, 2, labels, images=images, rows=rows, ignore_index=ignore_index, most=MOST_IMAGES
    )
    chosen = _panels(panels, images is not None, labels is not None)
    tall = [min(max(s.maps.shape[0] / s.maps.shape[1], 0.4), 3.0) for s in shown]
    across = 1.35 if len(chosen) > 1 else 3.0
    lines, columns = len(shown), len(chosen)
    told = 0.4 if "errors" in chosen else 0.08  # inches below every line
    high = 0.93 * across * sum(tall) + told * lines + 0.5
    figure, axes = plt.subplots(
        lines, columns, squeeze=False, layout="compressed", height_ratios=tall,
        figsize=(max(across * columns, 2.8) * unit(), high * unit()),
    )  # fmt: skip
    ink, around = style.inks(axes[0, 0])
    names = list(shown[0].maps.classes or map(str, range(shown[0].maps.flat.shape[1])))
    palette = style.class_colours(ink, names, colors)
    widest = max(float(scene.maps.width.max()) for scene in shown) or 1.0
    for line, scene in zip(axes, shown, strict=True):
        for ax, kind in zip(line, chosen, strict=True):
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
            if kind == "image":
                grey = {"cmap": "gray", "vmin": 0, "vmax": 255}
                ax.imshow(scene.levels, interpolation="nearest", **grey)
            elif kind == "width":
                ax.imshow(
                    scene.maps.width, cmap=ink.colormap(), vmin=0, vmax=widest,
                    interpolation="nearest",
                )  # fmt: skip
            else:
                _paint(ax, kind, scene, palette, ink)
        if "errors" in chosen:
            _count(line[chosen.index("errors")], scene, around)
        if total > 1:
            line[0].set_ylabel(f"image {scene.number}", color=around.text, fontsize="small")
    for ax, kind in zip(axes[0], chosen, strict=True):
        title = "possible classes" if kind == "possible" else kind
        ax.set_title(title, fontsize="small", color=around.text)
    if legend:
        _bars(axes[-1], chosen, widest, around)
        _legend(figure, shown, chosen, names, palette, ink, around)
    if lines < total and rows is None:
        note = f"The first {lines} of {total:,} images."
        figure.suptitle(note, fontsize="small", color=around.muted)
    return axes


def _panels(panels: Any, images: bool, labels: bool) -> list[str]:
    """What is drawn of each image, in order."""
    needs = {"image": images, "truth": labels, "errors": labels}
    if panels is None:
        return [kind for kind in PANELS if kind != "truth" and needs.get(kind, True)]
    chosen = [panels] if isinstance(panels, str) else list(panels)
    unknown = [kind for kind in chosen if kind not in PANELS]
    if unknown or not chosen:
        fact = repr(unknown[0]) if unknown else "none"
        raise InputError("panels", f"be of {', '.join(PANELS)}", fact)
    for kind in chosen:
        if not needs.get(kind, True):
            argument = "images" if kind == "image" else "labels"
            raise InputError(argument, f"be given for the panel {kind!r}", "None")
    return chosen


def _paint(ax: Axes, kind: str, scene: Scene, palette: Sequence[str], ink: Ink) -> None:
    """A map of whole numbers, each with its colour."""
    numbers, colours = scene.maps.prediction, [*palette]
    if kind == "possible":
        counts = scene.maps.possible.sum(axis=scene.maps.axis)
        numbers = np.clip(counts, 1, MOST_POSSIBLE) - 1
        colours = [ink.tint(ink.models[0], s) for s in np.linspace(0.08, 1, MOST_POSSIBLE)]
    elif kind == "truth":
        numbers = np.where(scene.verdicts == Verdict.IGNORED, len(palette), scene.labels)
        colours.append(ink.face)
    elif kind == "errors":
        numbers, colours = scene.verdicts, [*_verdict_colours(ink).values()]
    ax.imshow(
        numbers, cmap=ListedColormap(colours), vmin=-0.5, vmax=len(colours) - 0.5,
        interpolation="nearest", interpolation_stage="data", gid=kind,
    )  # fmt: skip


def _verdict_colours(ink: Ink) -> dict[Verdict, str]:
    return {
        Verdict.RIGHT: ink.tint(ink.text, 0.08),
        Verdict.WRONG: ink.tint(style.ORANGE, 0.75),
        Verdict.MISSED: ink.truth,
        Verdict.IGNORED: ink.face,
    }


def _count(ax: Axes, scene: Scene, around: Ink) -> None:
    """Write below the errors how many of the judged pixels they are."""
    judged, wrong, missed = scene.errors
    told = "all ignored"
    if judged:
        told = f"{wrong / judged:.1%} wrong\n{missed / judged:.1%} missed"
    ax.set_xlabel(told, fontsize="small", color=around.text)


def _bars(lowest: NDArray[Any], chosen: list[str], widest: float, around: Ink) -> None:
    """The colour bars of width and of the number of possible classes, below their columns."""
    for ax, kind in zip(lowest, chosen, strict=True):
        if kind not in ("width", "possible"):
            continue
        inches = ax.get_window_extent().height / ax.figure.dpi
        across = [0.06, -0.18 * unit() / inches, 0.88, 0.09 * unit() / inches]
        place = ax.inset_axes(across)
        made = ax.figure.colorbar(ax.images[0], cax=place, orientation="horizontal")
        made.outline.set_visible(False)
        if kind == "width":
            made.set_ticks([0, widest], labels=["0", f"{widest:.2g}"])
        else:
            told = [*map(str, range(1, MOST_POSSIBLE)), f"{MOST_POSSIBLE}+"]
            made.set_ticks(range(MOST_POSSIBLE), labels=told)
        place.tick_params(length=0, labelcolor=around.text, labelsize="small")


def _legend(
    figure: Figure, shown: list[Scene], chosen: list[str], names: list[str],
    palette: Sequence[str], ink: Ink, around: Ink,
) -> None:  # fmt: skip
    """Name the classes that are seen, and the two kinds of error."""
    handles = []
    if "prediction" in chosen or "truth" in chosen:
        counts = np.zeros(len(names), dtype=int)
        for scene in shown:
            counts += np.bincount(scene.maps.prediction.ravel(), minlength=len(names))
            if "truth" in chosen:
                counts += np.bincount(scene.labels.ravel(), minlength=len(names))
        seen = np.argsort(-counts, kind="stable")[: min(MOST_NAMES, np.count_nonzero(counts))]
        handles += [style.bar_handle(wrapped(names[k], 24, 1), palette[k]) for k in np.sort(seen)]
        if len(seen) < np.count_nonzero(counts):
            more = np.count_nonzero(counts) - len(seen)
            handles.append(style.bar_handle(f"and {more:,} others", "none"))
    if "errors" in chosen:
        colours = _verdict_colours(ink)
        handles.append(style.bar_handle("wrong, truth possible", colours[Verdict.WRONG]))
        handles.append(style.bar_handle("truth missed", colours[Verdict.MISSED]))
    if not handles:
        return
    labels, families = drawable(
        [str(handle.get_label()) for handle in handles], [f"class {k}" for k in range(len(handles))]
    )
    room = figure.get_size_inches()[0] * 72 / unit()
    longest = max(map(len, labels)) * 5 + 26
    made = figure.legend(
        handles=handles, labels=labels, loc="outside lower center", frameon=False,
        fontsize="small", labelcolor=around.text, handlelength=1.1, columnspacing=1.2,
        ncols=int(max(1, min(len(handles), room // longest))),
    )  # fmt: skip
    for text in made.get_texts():
        text.set(**literal(families))
    figure.set_figheight(figure.get_figheight() + made.get_window_extent().height / figure.dpi)
