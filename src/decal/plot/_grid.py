"""Several panels of one kind on one figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from decal._base.errors import InputError
from decal._base.settings import check_count, check_keywords
from decal.plot import style
from decal.plot._fonts import unit
from decal.plot._reliability import reliability, reliability_panels
from decal.plot._spider import spider, spider_panels
from decal.plot.style import Panels


def grid(
    draw: Callable[..., Any], *data: Any, ncols: int | None = None, **options: Any
) -> NDArray[Any]:
    """Panels of one kind side by side on a new figure, with one legend below.

    ``grid(spider, credal, rows)`` draws a column per model and a line per input; inputs of a single
    model fill one line after the other. Where names of classes are long and every spider has the
    same spokes, these are numbered, and a key at the right has the names. ``grid(reliability,
    refutation)`` draws a panel per class, those with the smallest p-values.

    Parameters
    ----------
    draw : callable
        What a panel shows: `spider` or `reliability`.
    data
        What `draw` takes; of spiders, one row or several. Models side by side may have different
        names for their classes, but not different meanings.
    ncols : int, optional
        Panels in a line. By default a spider for each of several models, or at most six inputs of
        one; at most four reliability diagrams.
    options
        As for `draw`: `top` (12) of reliability diagrams; `truth`, `top` and `joined` of spiders,
        which also have `titles`, one per row, by default the names or numbers of inputs, and
        `size`, inches per spider.

    Returns
    -------
    (lines, columns) array of axes
        Those that remain empty are not visible.

    Examples
    --------
    >>> import decal
    >>> from decal import plot
    >>> c = decal.IntervalCredalSet([[0.2, 0.6]] * 20, [[0.4, 0.8]] * 20, classes=["no", "yes"])
    >>> plot.grid(plot.spider, {"one": c, "another": c}, [0, 1, 2]).shape
    (3, 2)
    >>> axes = plot.grid(plot.reliability, decal.calibration.refute(c, [0] * 20))
    >>> [ax.get_title() for ax in axes.flat]
    ['no (p 4e-8)', 'yes (p 4e-8)']
    """
    from matplotlib import pyplot as plt

    kinds: dict[Any, Callable[..., Panels]] = {
        spider: spider_panels,
        reliability: reliability_panels,
    }
    if draw not in kinds:
        rule = "be decal.plot.spider or decal.plot.reliability"
        raise InputError("draw", rule, repr(getattr(draw, "__name__", draw)))
    check_keywords(options, "decal.plot.grid", grid, kinds[draw])
    panels = kinds[draw](*data, **options)
    count = len(panels.draw)
    columns = min(count, panels.columns if ncols is None else check_count(ncols, "ncols"))
    lines = -(-count // columns)
    (width, height), (beside, below) = panels.size, panels.around
    figure, axes = plt.subplots(
        lines, columns, squeeze=False, layout="constrained",
        figsize=((width * columns + beside) * unit(), (height * lines + below) * unit()),
        subplot_kw={"projection": "polar"} if panels.polar else {},
    )  # fmt: skip
    if panels.polar:  # a title stands apart from the spider above it
        figure.set_layout_engine("constrained", h_pad=0.08 * unit())
    for ax in axes.flat[count:]:
        ax.set_visible(False)
    for place, (ax, draw_panel) in enumerate(zip(axes.flat, panels.draw, strict=False)):
        draw_panel(ax)
        if panels.polar:
            continue
        lowest, first = place + columns >= count, place % columns == 0
        ax.tick_params(labelbottom=lowest, labelleft=first)
        if not lowest:
            ax.set_xlabel("")
        if not first:
            ax.set_ylabel("")
    if panels.key is not None:
        panels.key(figure)
    ink, around = style.inks(axes[0, 0])
    figure.legend(
        handles=panels.handles(ink), ncols=3 if panels.polar else 4 if columns > 2 else 2,
        loc="outside lower center", frameon=False, fontsize="small", labelcolor=around.text,
        handlelength=1.1,
    )  # fmt: skip
    return axes
