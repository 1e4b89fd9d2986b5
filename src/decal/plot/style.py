"""The look of figures: colours that follow the background, sizes that follow the font, legends.

`Ink` and `ink_on` are for figures of your own that match those of `decal.plot`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Colormap, ListedColormap, to_hex, to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from decal._base.numerics import Array
from decal.plot._fonts import ADVANCE, drawable, literal, text_width, unit

__all__ = ["Ink", "ink_on", "probability_axis"]

BLUE, SKY, GREEN, PURPLE = "#0072B2", "#56B4E9", "#009E73", "#CC79A7"
ORANGE, VERMILLION = "#E69F00", "#D55E00"
"""Of the palette of Okabe and Ito (2008), whose colours colour-blind readers can tell apart."""

LIME = "#A6D854"
"""In place of their yellow, which is pale in print and glares on dark pages."""

ON_LIGHT = (BLUE, ORANGE, GREEN, PURPLE, SKY)
ON_DARK = (SKY, ORANGE, GREEN, PURPLE, LIME)
"""Colours of models, in order. Vermillion is reserved for the truth and for errors."""

EIGHT_ON_LIGHT = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, "#000000", "#5E3C99")
EIGHT_ON_DARK = (SKY, ORANGE, GREEN, PURPLE, LIME, VERMILLION, "#FFFFFF", "#8A63FF")
"""Colours of lines and marks of up to eight methods, where there is no truth to show."""

DASHED, DOTTED = (0, (4, 3)), (0, (1, 2))


@dataclass(frozen=True)
class Panels:
    """Panels of one kind: how to draw each, and what `decal.plot.grid` must know of all."""

    draw: Sequence[Callable[[Any], None]]  # on given axes
    columns: int  # in a line, by default
    size: tuple[float, float]  # inches of a panel
    around: tuple[float, float]  # inches beside and below all panels
    handles: Callable[[Ink], list[Artist]]  # samples of the one legend
    key: Callable[[Figure], None] | None = None  # draws what else stands beside the panels
    polar: bool = False


@dataclass(frozen=True)
class Ink:
    """The colours to draw with on one background, as hex strings."""

    face: str
    text: str
    muted: str
    grid: str
    truth: str
    models: tuple[str, ...]
    dark: bool

    def tint(self, colour: str, share: float = 0.5) -> str:
        """A colour mixed into the background, opaque, so that marks stand out on it."""
        return mix(self.face, colour, share)

    def tints(self, colours: Sequence[str]) -> list[str]:
        """One colour per model's intervals; several differ in lightness, too, and so in grey."""
        if len(colours) == 1:
            return [self.tint(colours[0])]
        order = sorted(range(len(colours)), key=lambda m: lightness(colours[m]))
        span = (34.0, 56.0) if self.dark else (55.0, 80.0)  # L*, from the darkest
        wanted = np.linspace(*span, len(colours))
        found = dict(zip(order, wanted, strict=True))
        return [self._of_lightness(colour, found[m]) for m, colour in enumerate(colours)]

    def _of_lightness(self, colour: str, wanted: float) -> str:
        """The mixture of colour and background that comes closest to a lightness."""
        low, high = 0.0, 1.0
        rises = lightness(colour) > lightness(self.face)
        for _ in range(24):
            share = (low + high) / 2
            beyond = (lightness(self.tint(colour, share)) > wanted) == rises
            low, high = (low, share) if beyond else (share, high)
        return self.tint(colour, high)

    def colours(self, count: int, chosen: Sequence[str] | None) -> list[str]:
        """One colour per model: the caller's, or decal's."""
        palette = self.models if chosen is None else tuple(to_hex(c) for c in chosen)
        return [palette[m % len(palette)] for m in range(count)]

    def prediction(self, palette: Sequence[str]) -> str:
        """The colour of marks on intervals: the model's, or one that shows on those of several."""
        return palette[0] if len(palette) == 1 else self.text

    def colormap(self) -> Colormap:
        """Viridis without the colours that fade into the background."""
        span = (0.22, 1.0) if self.dark else (0.0, 0.88)
        return ListedColormap(mpl.colormaps["viridis"](np.linspace(*span, 256)))

    def halo(self) -> dict[str, Any]:
        """An edge in the colour of the background, so that a mark stands out on a bar."""
        return {"markeredgecolor": self.face, "markeredgewidth": 0.9 * unit()}

    def truth_mark(self) -> dict[str, Any]:
        """The style of the truth: an open diamond, which hides neither bar nor prediction."""
        return {
            "marker": "D", "markersize": 4.8 * unit(), "markerfacecolor": "none",
            "markeredgecolor": self.truth, "markeredgewidth": 1.4 * unit(),
            "path_effects": [withStroke(linewidth=3 * unit(), foreground=self.face)],
        }  # fmt: skip

    def truth_handle(self) -> Line2D:
        """The legend's sample of the truth."""
        return Line2D([], [], linestyle="", label="truth", **self.truth_mark())

    def mark_handle(self, name: str, colour: str, marker: str, *, size: float = 5.5) -> Line2D:
        """The legend's sample of a point."""
        edge = {"markeredgewidth": 1.6 * unit()} if marker in "|_" else self.halo()
        return Line2D(
            [], [], color=colour, marker=marker, linestyle="", label=name,
            markersize=size * unit(), **edge,
        )  # fmt: skip


def ink_on(background: Any) -> Ink:
    """The colours for a background, light or dark."""
    face = to_hex(background)
    dark = contrast(face, "white") > contrast(face, "black")
    pole = "white" if dark else "black"
    return Ink(
        face=face,
        text=mix(face, pole, 0.87),
        muted=mix(face, pole, 0.62),
        grid=mix(face, pole, 0.26 if dark else 0.16),
        truth=mix(VERMILLION, "white", 0.15) if dark else VERMILLION,
        models=ON_DARK if dark else ON_LIGHT,
        dark=dark,
    )


def class_colours(ink: Ink, names: Sequence[str], chosen: Sequence[str] | None) -> list[str]:
    """One colour per class: the caller's, or decal's, paler and darker where these run out."""
    if chosen is not None:
        return ink.colours(len(names), chosen)
    base = EIGHT_ON_DARK if ink.dark else EIGHT_ON_LIGHT
    rounds = [
        [*base],
        [mix(c, "#ffffff", 0.55) for c in base],
        [mix(c, "#000000", 0.4) for c in base],
    ]
    palette = [colour for one in rounds for colour in one]
    places = iter(range(len(names)))
    return [
        ink.grid if name.lower() == "background" else palette[next(places) % len(palette)]
        for name in names
    ]


def inks(ax: Axes) -> tuple[Ink, Ink]:
    """The colours within the axes and around them."""
    whole = _over(ax.figure.figure.get_facecolor(), "white")  # of a subfigure, the figure it is in
    around = _over(ax.figure.get_facecolor(), whole)
    return ink_on(_over(ax.get_facecolor(), around)), ink_on(around)


def contrast(one: Any, other: Any) -> float:
    """Contrast ratio of two opaque colours, 1 to 21, as web accessibility defines it."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def lightness(colour: Any) -> float:
    """How light a colour appears, from 0 (black) to 100 (white): L* of CIE Lab."""
    y = _luminance(colour)
    return 116 * y ** (1 / 3) - 16 if y > 216 / 24389 else y * 24389 / 27


def mix(one: str, other: str, share: float) -> str:
    """A colour between the two: `share` of the other."""
    r, g, b = ((1 - share) * x + share * y for x, y in zip(to_rgb(one), to_rgb(other), strict=True))
    return to_hex((r, g, b))


def axes_or_new(ax: Axes | None, width: float, height: float, **kind: Any) -> Axes:
    """The caller's axes, or those of a new figure; inches are at the usual font size."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    inches = width * unit(), height * unit()
    return plt.subplots(figsize=inches, layout="constrained", subplot_kw=kind)[1]


def frame(ax: Axes, *, grid: bool = False) -> Ink:
    """Draw spines at the left and below only, in muted ink; returns the colours within the axes."""
    inside, around = inks(ax)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set(color=around.muted, linewidth=0.8 * unit())
    ax.tick_params(colors=around.muted, labelcolor=around.text, labelsize="small")
    for text in (ax.xaxis.label, ax.yaxis.label, ax.title):
        text.set_color(around.text)
    if grid:
        ax.xaxis.grid(True, color=inside.grid, linewidth=0.6 * unit())
        ax.set_axisbelow(True)
    return inside


def probability_axis(*axes: Axis) -> None:
    """Five ticks from 0 to 1, without needless zeros."""
    for axis in axes:
        axis.set_ticks((0, 0.25, 0.5, 0.75, 1), labels=("0", "0.25", "0.5", "0.75", "1"))


def horizontal_bars(
    ax: Axes, y: NDArray[Any], lower: Array, upper: Array, height: float, colour: str
) -> None:
    """Draw intervals (S,) as bars at heights (S,); the edge keeps one of no width visible."""
    ax.barh(
        y, upper - lower, left=lower, height=height, color=colour, edgecolor=colour,
        linewidth=0.7 * unit(),
    )  # fmt: skip


def write_title(
    ax: Axes, text: str, families: Sequence[str], size: str = "small", **where: Any
) -> None:
    """Write a name above the axes."""
    ax.set_title(text, fontsize=size, color=inks(ax)[1].text, **where, **literal(families))


def name_lines(ax: Axes, names: Sequence[str], families: Sequence[str]) -> None:
    """Give every line 0, 1, ... of a figure its name at the left, the first at the top."""
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_yticks(np.arange(len(names)), names)
    ax.tick_params(axis="y", length=0)
    for label in ax.get_yticklabels():
        label.set(**literal(families))


def bar_handle(name: str, colour: str) -> Patch:
    """The legend's sample of an interval."""
    return Patch(facecolor=colour, edgecolor="none", label=name)


def line_handle(name: str, colour: str, *, dotted: bool = False, width: float = 1.4) -> Line2D:
    """The legend's sample of a line."""
    made = Line2D([], [], color=colour, lw=width * unit(), label=name, solid_capstyle="butt")
    made.set_linestyle(":" if dotted else "-")
    return made


def legend_below(
    ax: Axes, handles: Sequence[Artist], *, drop: float | None = None, centered: bool = False
) -> None:
    """A frameless legend, `drop` font sizes below the axes; by default, below the axis' label."""
    size = float(mpl.rcParams["font.size"])
    if drop is None:
        # Ticks and paddings are in points, whatever the font: small fonts need more of their sizes.
        set_to = mpl.rcParams
        pads = set_to["xtick.major.size"], set_to["xtick.major.pad"], set_to["axes.labelpad"]
        drop = 2.4 + float(np.sum(pads)) / size
    small = size * 0.833
    names, families = drawable(
        [str(h.get_label()) for h in handles], [f"model {m + 1}" for m in range(len(handles))]
    )
    box = ax.get_window_extent()
    room = box.width * 72 / ax.figure.dpi + 2.5 * size
    # A sample and its margins are three sizes wide.
    widths = [(ADVANCE * text_width(name) + 3) * small for name in names]
    columns = len(names) if sum(widths) < room else max(1, int(room // max(widths)))
    shift = ScaledTranslation(0, -drop * size / 72, ax.figure.dpi_scale_trans)
    made = ax.legend(
        handles=handles, labels=names, loc="upper center" if centered else "upper left",
        bbox_to_anchor=(0.5, 0) if centered else (0, 0), bbox_transform=ax.transAxes + shift,
        ncols=columns, frameon=False, fontsize="small", labelcolor=inks(ax)[1].text,
        borderaxespad=0, borderpad=0, handlelength=1.1, handletextpad=0.5, columnspacing=1.4,
    )  # fmt: skip
    for text in made.get_texts():
        text.set(**literal(families))


def _over(colour: Any, background: Any) -> str:
    """The opaque colour that a transparent one appears as on a background."""
    red, green, blue, alpha = to_rgba(colour)
    return mix(to_hex(background), to_hex((red, green, blue)), alpha)


def _luminance(colour: Any) -> float:
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
