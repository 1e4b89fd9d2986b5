"""Figures of experiments, for light and for dark pages; the same rows give the same file."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal.io import replacing

LIGHT = {"figure.facecolor": "white", "axes.facecolor": "white"}
DARK = (
    dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "#131416")
    | dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), "#e3e4e6")
    | dict.fromkeys(("xtick.color", "ytick.color", "axes.edgecolor"), "#a3a5aa")
)
DOTS_PER_INCH = 150
NARROW_INCHES = 4.1
"""Width of a figure whose small text can be read on a telephone."""

ROOM_ABOVE = 0.1
"""Inches around panels, so that a title stands apart from the axis above it."""


GREY = "#8a8a8a"
"""Of what other marks are compared with: readable on light and on dark."""

HEADLINE: dict[str, Any] = {"fontsize": 10, "fontweight": "bold"}
LETTERS, LETTERS_IF_NARROW = 78, 44
"""In a line of a headline."""

NARROW_SETS = 0.3
"""The range of efficiencies below which a method has points rather than a curve."""


def headline(text: str, *, narrow: bool = False) -> str:
    """What a figure shows, in lines that fit above it."""
    return textwrap.fill(text, LETTERS_IF_NARROW if narrow else LETTERS)


def on_page(colour: str) -> str:
    """The colour, or on a dark page a lighter one, in which text can be read."""
    from matplotlib import rcParams
    from matplotlib.colors import to_hex, to_rgb

    if sum(to_rgb(rcParams["axes.facecolor"])) > 1.5:
        return colour
    red, green, blue = (0.7 * channel + 0.3 for channel in to_rgb(colour))
    return to_hex((red, green, blue))


def bare(ax: Any) -> None:
    """Axes at the left and below, and a faint grid behind all marks."""
    ax.grid(color=GREY, alpha=0.25, linewidth=0.5)
    ax.set_axisbelow(True)
    ax.tick_params(which="both", labelsize=9, length=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)


def legend_above(figure: Any, handles: Sequence[Any], text: str, *, narrow: bool = False) -> None:
    """The headline at the upper left, and below it what marks and lines mean."""
    figure.legend(
        handles=handles,
        title=headline(text, narrow=narrow),
        title_fontproperties={"size": HEADLINE["fontsize"], "weight": HEADLINE["fontweight"]},
        alignment="left",
        loc="outside upper left",
        ncols=1 if narrow else len(handles),
        frameon=False,
        fontsize=9,
        borderaxespad=0,
        borderpad=0,
    )


def name_ends(ax: Any, ends: Mapping[str, tuple[float, str]], gap: float) -> None:
    """Write names at the right of the axes, in their colours, at heights at least `gap` apart."""
    names = sorted(ends, key=lambda name: ends[name][0])
    for name, y in zip(names, apart([ends[name][0] for name in names], gap), strict=True):
        ax.annotate(
            name,
            (1, y),
            xytext=(5, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=ends[name][1],
        )


def apart(rising: Sequence[float], gap: float) -> NDArray[np.float64]:
    """Rising numbers, moved as little as it takes to be at least `gap` apart."""
    from scipy.optimize import isotonic_regression

    steps = gap * np.arange(len(rising))
    return np.asarray(isotonic_regression(np.asarray(rising) - steps).x + steps)


def need_matplotlib() -> None:
    """Raise an ImportError that names the install command if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise ImportError("figures need matplotlib: pip install 'decal[plot]'") from error


def save(draw: Callable[[], Any], folder: Path, name: str) -> list[Path]:
    """Draw and save NAME.svg and NAME.png, and NAME_dark.svg for dark pages.

    Parameters
    ----------
    draw : callable
        Makes a figure in the colours that are set when it is called. (`decal.plot` follows the
        background of the axes.)
    folder : path
        Folder to write into.
    name : str
        Name of the files, without suffix.
    """
    need_matplotlib()
    from matplotlib import pyplot as plt
    from matplotlib import rc_context, rcParams

    # So that the same rows give the same file: no date, and fixed names of its parts.
    fixed: dict[Any, Any] = {"svg.hashsalt": "decal"}
    fixed |= {"figure.constrained_layout.h_pad": ROOM_ABOVE}
    # No engine of layouts in place of the one that has done its work.
    fixed |= {"figure.autolayout": False, "figure.constrained_layout.use": False}
    written = []
    for theme, suffixes in ((LIGHT, (".svg", ".png")), (DARK, ("_dark.svg",))):
        with rc_context(fixed | theme):
            figure = draw()
            # Laid out once for all files: `bbox_inches="tight"`, or any engine, even the one called
            # "none", would draw twice for each of them.
            figure.set_dpi(DOTS_PER_INCH)
            figure.draw_without_rendering()
            figure.set_layout_engine(None)
            area = figure.get_tightbbox().padded(rcParams["savefig.pad_inches"])
            for suffix in suffixes:
                path = folder / f"{name}{suffix}"
                dated = {"Date": None} if path.suffix == ".svg" else None
                with replacing(path) as partial:
                    figure.savefig(
                        partial,
                        format=path.suffix[1:],
                        dpi=DOTS_PER_INCH,
                        metadata=dated,
                        bbox_inches=area,
                    )
                written.append(path)
            plt.close(figure)
    return written


Numbers = Sequence[float] | NDArray[np.float64]
Tradeoff = tuple[Numbers, Numbers, Numbers]
"""Alpha, coverage and efficiency, as `decal.plot.tradeoff` takes them."""


def tradeoff(
    curves: Mapping[str, Tradeoff],
    styles: Mapping[str, tuple[str, str]],
    title: str,
    *,
    narrow: bool = False,
) -> Any:
    """A figure of coverage against efficiency of several methods, below a title.

    Methods whose sets can be narrow or wide have a curve. All others are grey points, and named
    together where they have none: at sets that are wide and hold little.
    """
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    figure, ax = plt.subplots(figsize=(NARROW_INCHES if narrow else 6.6, 4), layout="constrained")
    handles, few = [], []
    for name, (_, coverage, efficiency) in curves.items():
        if np.ptp(efficiency) < NARROW_SETS:
            few.append(name)
            ax.plot(efficiency, coverage, color=GREY, marker=styles[name][0], ls="", ms=5)
        else:
            look: dict[str, Any] = {"color": on_page(styles[name][1]), "lw": 2}
            order = np.argsort(efficiency)
            ax.plot(np.asarray(efficiency)[order], np.asarray(coverage)[order], **look)
            handles.append(Line2D([], [], label=name, **look))
    if few:
        ax.text(0.02, 0.03, "\n".join(["grey:", *few]), color=GREY, fontsize=9, va="bottom")
    ax.set(xlim=(0, 1.01), ylim=(-0.01, 1.02))
    ax.set(xlabel="efficiency (1 − mean width)", ylabel="coverage of the truth")
    bare(ax)
    legend_above(figure, handles, title, narrow=narrow)
    return figure


def tradeoffs(
    panels: Mapping[str, Mapping[str, Tradeoff]], *, columns: int = 3, front: bool = True
) -> Any:
    """A figure with a panel of coverage against efficiency for each model or data set.

    Parameters
    ----------
    panels : mapping of str to mapping of str to curve
        By title, curves by name. The legend is that of the panel with most curves; the colours of
        alpha are explained in the last panel.
    columns : int
        Number of panels in a line.
    front : bool
        Whether a line joins the points that no other point of the panel beats in both respects.
    """
    from matplotlib import pyplot as plt

    from decal import plot

    count = len(panels)
    columns = max(1, min(columns, count))
    lines = max(1, -(-count // columns))
    figure, grid = plt.subplots(
        lines, columns, figsize=(3.3 * columns, 3.25 * lines + 0.5), squeeze=False
    )
    for ax in grid.flat[count:]:
        ax.remove()
    fullest = max(range(count), key=lambda i: len(list(panels.values())[i]), default=0)
    for i, (ax, (title, curves)) in enumerate(zip(grid.flat, panels.items(), strict=False)):
        plot.tradeoff(curves, ax=ax, front=front, direct=False, legend=i in (fullest, count - 1))
        ax.set_title(title, fontsize="medium", loc="left", pad=8)
        for colours in list(ax.child_axes) if i < count - 1 else ():
            colours.remove()
        legend = ax.get_legend()
        if legend is not None:
            handles, labels = legend.legend_handles, [t.get_text() for t in legend.get_texts()]
            legend.remove()
            if i == fullest:
                figure.legend(
                    handles, labels, loc="outside lower center", ncols=len(labels), frameon=False
                )
        if i % columns:
            ax.set_ylabel("")
        if i + columns < count:
            ax.set_xlabel("")
    figure.set_layout_engine("constrained", h_pad=0.08, w_pad=0.06)
    return figure


def save_all(
    figures: Mapping[str, Callable[[], Any]], folder: Path
) -> tuple[list[Path], list[str]]:
    """Save several figures by name; returns the files, and a note if matplotlib is missing."""
    files: list[Path] = []
    try:
        for name, draw in figures.items():
            files += save(draw, folder, name)
    except ImportError as error:
        return files, [str(error)]
    return files, []
