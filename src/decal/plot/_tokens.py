"""The words of sentences, coloured by how unsure their predictions are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.text import Text
from numpy.typing import NDArray

from decal._base.settings import check_choice
from decal.grids import CredalMaps, Scene, Verdict, in_words, scenes
from decal.plot import style
from decal.plot._fonts import drawable, literal, unit, wrapped
from decal.plot.style import Ink

MOST_SENTENCES = 6
"""Sentences drawn if nobody says how many."""

MOST_POSSIBLE = 4
"""Words with so many possible classes, or more, have one colour."""

MOST_NAMED = 3
"""Possible classes that are named below a word; of more, their number is."""

ERRORS = (Verdict.WRONG, Verdict.MISSED)

STRONGEST = 0.55
"""How much colour the most doubtful word is on; more would hide it."""


def tokens(
    maps: CredalMaps | Sequence[CredalMaps],
    tokens: Any,
    *,
    labels: Any = None,
    rows: Any = None,
    ignore_index: int | None = None,
    by: str = "width",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Sentences whose words are coloured by the width of their widest interval.

    Below a word stand its possible classes, if there are several. With labels, words are underlined
    whose prediction is wrong though the truth is possible, and those whose truth is missed; the
    truth stands below them.

    Parameters
    ----------
    maps
        Of one sentence (T,), of several (N, T), or a list of sentences of different lengths.
    tokens
        The texts of each sentence. In (N, T) maps they may be fewer: the others are padding.
    labels : optional
        True classes, in the shape of the maps.
    rows : optional
        How many sentences to draw, or their numbers; by default the first six.
    ignore_index : int, optional
        Words with this label are not judged.
    by : str
        What words are coloured by: "width", or "possible", the number of possible classes.
    ax, legend
        As for all figures: see `decal.plot`. A new figure is as tall as its text.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> logits, labels = rng.normal(size=(20, 3, 3)), rng.integers(0, 3, (20, 3))
    >>> d = decal.Decalibrator(0.9).fit(logits, labels, dim=-1, classes=["O", "name", "place"])
    >>> ax = decal.plot.tokens(d.predict(logits[:1], dim=-1), [["Ada", "in", "Rome"]])
    >>> [text.get_text() for text in ax.texts][:2]
    ['Ada', 'O, name or place']
    """
    check_choice(by, "by", ("width", "possible"))
    shown, total = scenes(
        maps, 1, labels, tokens=tokens, rows=rows, ignore_index=ignore_index, most=MOST_SENTENCES
    )  # fmt: skip
    new = ax is None
    ax = style.axes_or_new(ax, 6.4, 3.0)
    ink, around = style.inks(ax)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.figure.figure.draw_without_rendering()  # the layout says how much room there is
    box = ax.get_window_extent()
    points = 72 / ax.figure.dpi
    room = box.width * points
    widest = max(float(scene.maps.width.max()) for scene in shown) or 1.0
    y = 0.0
    for scene in shown:
        y = _sentence(ax, scene, y, room, _shades(scene, by, widest), ink) + 8 * unit()
    ax.set(xlim=(0, room), ylim=(y, 0))
    if legend:
        style.legend_below(ax, _handles(by, widest, ink, labelled=labels is not None), drop=0.6)
    if len(shown) < total and rows is None:
        note = f"The first {len(shown)} of {total:,} sentences."
        ax.set_title(note, fontsize="small", color=around.muted, loc="left")
    ax.figure.figure.draw_without_rendering()
    spare = ax.get_window_extent().height * points - y
    if new:
        figure = ax.figure.figure
        figure.set_figheight(figure.get_figheight() - spare / 72)
    else:
        ax.set_ylim(max(y + spare, 1), 0)
    return ax


def _shades(scene: Scene, by: str, widest: float) -> NDArray[np.float64]:
    """(T,) how much colour each word is on."""
    if by == "width":
        return STRONGEST * scene.maps.width / widest
    counts = np.clip(scene.maps.flat.possible_mask().sum(axis=1), 1, MOST_POSSIBLE)
    return np.asarray(STRONGEST * (counts - 1) / (MOST_POSSIBLE - 1))


def _sentence(
    ax: Axes, scene: Scene, top: float, room: float, shades: NDArray[np.float64], ink: Ink
) -> float:
    """Write one sentence below `top`, in points; returns where it ends."""
    beneath = [_below(scene, t) for t in range(len(scene.tokens))]
    words, families = drawable(scene.tokens, [f"word {t}" for t in range(len(beneath))])
    notes, of_notes = drawable(
        [text for texts, _ in beneath for text in texts],
        [f"class {n}" for n in range(sum(len(texts) for texts, _ in beneath))],
    )
    left, line, pad = iter(notes), 13 * unit(), 3 * unit()
    x, y, below = pad, top, 0
    for t, (word, (texts, verdict)) in enumerate(zip(words, beneath, strict=True)):
        colour = ink.tint(ink.models[0], float(shades[t]))
        ground = {"facecolor": colour, "edgecolor": "none", "boxstyle": "square,pad=0.2"}
        on = max((ink.text, "#000000", "#ffffff"), key=partial(style.contrast, colour))
        lines = [ax.text(0, 0, word, color=on, va="top", bbox=ground, **literal(families))]
        for n, _ in enumerate(texts):
            of_truth = verdict in ERRORS and n == len(texts) - 1
            lines.append(
                ax.text(
                    0, 0, next(left), color=ink.text if of_truth else ink.muted, va="top",
                    fontsize="small", weight="bold" if of_truth else "normal",
                    **literal(of_notes),
                )
            )  # fmt: skip
        for text in lines:
            text.set_in_layout(False)  # the layout is what the lines go by
        if _width(lines[0]) > room - 2 * pad:
            lines[0].set_text(
                wrapped(word, max(int(len(word) * room / _width(lines[0])) - 2, 4), 1)
            )
        across = max(map(_width, lines))
        if x > pad and x + across + pad > room:
            x, y, below = pad, y + line * (1.65 + 0.8 * below), 0
        for n, text in enumerate(lines):
            text.set_position((x, y + (2 * unit() if n == 0 else line * (0.85 + 0.75 * n))))
        if verdict in ERRORS:
            under = y + line * 1.22
            ax.plot(
                [x, x + _width(lines[0])], [under, under], color=_error_colour(verdict, ink),
                lw=2 * unit(), solid_capstyle="butt", gid=Verdict(verdict).name, clip_on=False,
            )  # fmt: skip
        x, below = x + across + 3 * pad, max(below, len(texts))
    return y + line * (1.65 + 0.8 * below)


def _below(scene: Scene, t: int) -> tuple[list[str], Verdict]:
    """What stands below a word: its possible classes, and the truth of an error."""
    flat = scene.maps.flat
    names = list(flat.classes or map(str, range(flat.shape[1])))
    verdict = Verdict.RIGHT if scene.verdicts is None else Verdict(scene.verdicts[t])
    (kept,) = flat[[t]].possible_mask()
    found = [names[k] for k in np.flatnonzero(kept)]
    said = in_words(found, ordered=flat.ordered, most=MOST_NAMED)
    texts = [said] if verdict in ERRORS or len(found) > 1 else []
    if verdict in ERRORS:
        texts.append(f"is {names[scene.labels[t]]}")
    return [wrapped(text, 32, 1) for text in texts], verdict


def _width(text: Text) -> float:
    """The width of a text in points."""
    return float(text.get_window_extent().width) * 72 / text.figure.dpi


def _error_colour(verdict: int, ink: Ink) -> str:
    return ink.truth if verdict == Verdict.MISSED else style.ORANGE


def _handles(by: str, widest: float, ink: Ink, *, labelled: bool) -> list[Artist]:
    """What the colours mean."""
    if by == "width":
        steps = {"certain": 0.0, f"widest range {widest:.2g}": 1.0}
    else:
        names = ["1 class", *map(str, range(2, MOST_POSSIBLE)), f"{MOST_POSSIBLE} or more"]
        steps = {name: n / (MOST_POSSIBLE - 1) for n, name in enumerate(names)}
    found: list[Artist] = []
    for name, share in steps.items():
        patch = style.bar_handle(name, ink.tint(ink.models[0], STRONGEST * share))
        patch.set(edgecolor=ink.grid)
        found.append(patch)
    if labelled:
        errors = {"wrong, truth possible": Verdict.WRONG, "truth missed": Verdict.MISSED}
        found += [style.line_handle(n, _error_colour(v, ink), width=2) for n, v in errors.items()]
    return found
