"""Figures of experiments, for light and for dark pages; the same rows give the same file."""

from __future__ import annotations

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


def tradeoff(curves: Mapping[str, Tradeoff], styles: Mapping[str, tuple[str, str]]) -> Any:
    """A figure of coverage against efficiency, of several methods with a mark and a colour each."""
    from matplotlib import pyplot as plt

    from decal import plot

    figure, ax = plt.subplots(figsize=(4.3, 4.7))
    # Alpha means something else for every method: no lines join points of one alpha.
    colours = [styles[name][1] for name in curves]
    plot.tradeoff(curves, ax=ax, mark=(), front=False, colors=colours)
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
