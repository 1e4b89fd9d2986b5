"""The story: one prediction in five steps, from a point to a decision, as a small page of its own.

Its payload is the explorer's, of one level, and the likelihood curves of the three class shifts,
off which the page reads everything else with the explorer's own arithmetic.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from decal._base.errors import InputError
from decal._base.numerics import Array
from decal._base.settings import check_count
from decal.credal import CredalSet
from decal.decalibrator import Decalibrator
from decal.explorer._evidence import likelihood_curves
from decal.explorer._media import open_media
from decal.explorer._page import OfflinePage
from decal.explorer._payload import Payload, Side, collect
from decal.model import predict_rows, read_inputs

NODES = 201  # shifts at which the likelihood is stored: a cubic between them is exact to 1e-7


@dataclass(frozen=True, eq=False, repr=False)
class Story(OfflinePage):
    """A prediction in five steps: a file, an address on this machine, or a notebook's output."""

    entry = "story.js"

    def _repr_html_(self) -> str:
        """What a notebook shows: the page in a frame."""
        about = 'title="Story" width="100%" height="640" style="border: 0"'
        return f'<iframe {about} srcdoc="{html.escape(self.html())}"></iframe>'

    def __repr__(self) -> str:
        header = self.payload.header
        about = header["story"]
        return (
            f"Story: {header['title']}, input {about['input']} of {header['inputs']['count']:,}\n"
            '  .save("story.html") writes it as a file, .serve() opens it in a browser'
        )


def story(
    model: Decalibrator,
    logits: Any,
    *,
    labels: Any = None,
    texts: Any = None,
    images: Any = None,
    names: Iterable[Any] | None = None,
    row: int | None = None,
    noun: str | None = None,
    title: str = "From a point to a decision",
    link: tuple[str, str] | None = None,
) -> Story:
    """One prediction in five steps: the point, the likelihood, the interval, the set, the decision.

    The page is some 150 KB, loads nothing, and fits into a frame of another page.

    Parameters
    ----------
    model : Decalibrator
        Of three classes, with the settings of the paper, which are the default ones: class shifts,
        ``likelihood="mean"``, ``box="joint"``. Its alpha is where the cut starts.
    logits : (n, 3) array
        At most 500 inputs.
    labels, texts, images, names
        As for `explore`; a name, or a translation, stands below its text.
    row : int, optional
        The input told about first; by default that of `telling_row`.
    noun, title : str
        What an input is called, by default "text", "image" or "input"; and the page.
    link : tuple of two str, optional
        Words and address of a link on the last step, such as ("Explore all texts", "page.html").

    Examples
    --------
    >>> import numpy as np, decal
    >>> from decal.explorer import story
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=200)
    >>> logits = np.eye(3)[labels] + rng.standard_normal((200, 3))
    >>> model = decal.decalibrate(logits[:100], labels[:100], alpha=0.95, classes=["a", "b", "c"])
    >>> story(model, logits[100:], labels=labels[100:])
    Story: From a point to a decision, input 80 of 100
      .save("story.html") writes it as a file, .serve() opens it in a browser
    """
    _require_paper(model)
    rows = read_inputs(model, logits, labels, texts=texts, images=images, names=names)
    n = len(rows)
    if n > 500:
        raise InputError("logits", "have at most 500 rows", f"{n:,}", "Choose some.")
    media = open_media(names, texts, images, total=n)
    credal = predict_rows(model, rows, model.alpha)
    first = telling_row(credal, rows.labels) if row is None else check_count(row, "row", least=0)
    if first >= n:
        raise InputError("row", f"be below the number of inputs, {n}", f"{first}")
    levels = story_levels(model.alpha)
    curves = likelihood_curves(model, levels)
    side = Side("Model", lambda _level, rows: credal[rows], credal[:1], (), curves)
    payload = collect(
        [side], [model.alpha], 0, n, title=title, media=media, labels=rows.labels, rows=np.arange(n)
    )
    shifts = _shifts_in_view(model, levels[-1])
    usual = "text" if texts is not None else "image" if images is not None else "input"
    about = {
        "input": first,
        "alphas": levels,
        "start": levels.index(model.alpha),
        "shifts": [float(shifts[0]), float(shifts[-1]), NODES],
        "examples": int(model.examples),
        "best": model.reference == "best",
        "noun": noun or usual,
        "link": None if link is None else [link[0], _address(link[1])],
    }
    gains = model.gains("class", shifts).astype(np.float32)
    return Story(Payload({**payload.header, "story": about}, {**payload.arrays, "gains": gains}))


def telling_row(credal: CredalSet, labels: Any = None) -> int:
    """The number of the input that shows best what a set is good for.

    It is the model's surest error that the set catches: two labels are plausible, the true one is
    among them, and no class is below 10 %. Without such an error, or without labels (n,), it is the
    surest prediction with two plausible labels; without one, that with the widest intervals.
    """
    p = np.asarray(credal.point)
    kept = credal.decide("e_admissible")
    two = kept.sum(axis=1) == 2
    caught = np.zeros_like(two)
    if labels is not None:
        caught = (p.argmax(axis=1) != labels) & kept[np.arange(len(p)), labels]
    seen = p.min(axis=1) >= 0.1
    for candidates in (two & caught & seen, two & seen, two):
        if candidates.any():
            return int(np.argmax(np.where(candidates, p.max(axis=1), -1.0)))
    return int(np.argmax((credal.upper - credal.lower).sum(axis=1)))


def story_levels(alpha: float) -> list[float]:
    """Falling levels from 1 to 2.5 times alpha's budget, in round steps, alpha among them."""
    least = alpha**2.5
    # The largest step that makes at least 40 positions.
    steps = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
    step = next((s for s in steps if (1 - least) / s >= 40), steps[-1])
    count = math.floor((1 - least) / step)
    round_ = {float(f"{1 - j * step:.6g}") for j in range(count + 1)}
    return sorted(round_ | {alpha}, reverse=True)


def _shifts_in_view(model: Decalibrator, least: float) -> Array:
    """Evenly spaced between whole hundredths, as far as the lowest level allows, or 8 nats."""
    ends = model.shifts(least)
    low = math.floor(100 * max(ends.lower.min(), -8.0)) / 100
    high = math.ceil(100 * min(ends.upper.max(), 8.0)) / 100
    return np.linspace(low, high, NODES)


def _require_paper(model: Decalibrator) -> None:
    if not isinstance(model, Decalibrator):
        raise TypeError(f"model must be a Decalibrator: got {type(model).__name__}.")
    weights = list(model.class_weights)
    if len(weights) != 3:
        rule = "have three classes, the corners of a triangle"
        keep = "Keep the columns of three classes, and the rows labelled with them"
        raise InputError("model", rule, f"{len(weights)}", f"{keep}, and fit on these.")
    directions = tuple(d.name for d in model.directions)
    if (directions, model.likelihood, model.box) != (("class",), "mean", "joint"):
        paper = "directions=('class',), likelihood='mean' and box='joint'"
        fact = f"{directions}, {model.likelihood!r} and {model.box!r}"
        raise InputError("model", f"have {paper}, which the story explains", fact)
    if not all(weight > 0 for weight in weights):
        rule = "have seen every class among its labels, so that shifts have two ends"
        raise InputError("model", rule, f"labels per class {weights}")
    if not 0 < model.alpha < 1:
        rule = "lie between 0 and 1, so that there is a cut"
        raise InputError("model's alpha", rule, f"{model.alpha:g}")


def _address(address: str) -> str:
    """A relative address, or one of the web: nothing that would run."""
    if urlsplit(address.strip()).scheme not in ("", "http", "https"):
        raise InputError("link", "be a relative address or http(s)", f"{address!r}")
    return address
