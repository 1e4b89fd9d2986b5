"""Pieces of HTML for notebooks: tables and bars that suit light and dark pages.

Colours are inherited from the page, but for one blue that reads on both. All styles are inline, as
notebooks strip others, and every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

BLUE = "#4a8fe7"
BAR_WIDTH, BAR_HEIGHT = 150, 12

CELL = "padding:1px 8px;text-align:{side};border:0;background:none;white-space:nowrap"
LINE = "border-top:1px solid rgba(127,127,127,.35)"


class Raw(str):
    """A text that is HTML already."""

    __slots__ = ()


def span(lower: float, upper: float) -> str:
    """A range of probabilities in little room: "[.48, 1.00]"."""
    low, high = (f"{end:.2f}".removeprefix("0") for end in (lower, upper))
    return f"[{low}, {high}]"


def bar(lower: float, upper: float, point: float | None = None) -> Raw:
    """An interval of [0, 1] as a small picture, with a tick at the point."""
    x, width = BAR_WIDTH * lower, max(1.0, BAR_WIDTH * (upper - lower))
    tick = ""
    if point is not None:
        at = min(max(BAR_WIDTH * point, 1.0), BAR_WIDTH - 1.0)
        tick = f'<path d="M{at:.1f} 0V{BAR_HEIGHT}" stroke="currentColor" stroke-width="1.5"/>'
    says = f"{lower:.3f} to {upper:.3f}"
    return Raw(
        f'<svg width="{BAR_WIDTH}" height="{BAR_HEIGHT}" role="img" aria-label="{says}" '
        'style="vertical-align:middle">'
        f'<rect width="{BAR_WIDTH}" height="{BAR_HEIGHT}" rx="2" fill="currentColor" '
        'fill-opacity=".1"/>'
        f'<rect x="{x:.1f}" y="2" width="{width:.1f}" height="{BAR_HEIGHT - 4}" rx="1" '
        f'fill="{BLUE}"/>{tick}</svg>'
    )


def table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    note: str = "",
    left: int = 1,
) -> str:
    """A table with a title and, below it, a note.

    Cells are texts, or `Raw`. A line is drawn above a row whose first cell is not empty; so many
    columns are aligned to the `left`, the others to the right.
    """

    def cell(tag: str, value: object, column: int, *styles: str) -> str:
        side = CELL.format(side="left" if column < left else "right")
        text = value if isinstance(value, Raw) else escape(str(value))
        return f'<{tag} style="{";".join([side, *styles])}">{text}</{tag}>'

    head = "".join(cell("th", text, c) for c, text in enumerate(headings))
    body = "".join(
        "<tr>"
        + "".join(cell("td", v, c, *[LINE] * bool(row[0])) for c, v in enumerate(row))
        + "</tr>"
        for row in rows
    )
    below = f'<div style="opacity:.7;padding:2px 8px">{escape(note)}</div>' if note else ""
    return (
        f'<div style="overflow-x:auto"><div style="padding:2px 8px"><b>{escape(title)}</b></div>'
        '<table style="border-collapse:collapse;border:0;margin:0">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"
    )
