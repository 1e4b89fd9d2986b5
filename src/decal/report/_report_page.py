"""A report as HTML: a table for notebooks, and a page that loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from typing import Any

from decal._base.markup import Raw, bar, table
from decal.credal import BETWEEN
from decal.report._printout import shortened

IN_NOTEBOOK = 20
"""Lines that a notebook shows."""

SCRIPT = """
for (const table of document.querySelectorAll("table.decal-report:not([data-sorts])")) {
  table.dataset.sorts = "";
  const body = table.tBodies[0], given = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  heads.forEach((head, column) => {
    const button = document.createElement("button"), name = head.textContent;
    button.append(...head.childNodes);
    button.style.cssText = "font:inherit;color:inherit;background:none;border:0;padding:0";
    head.append(button);
    const value = (row) => {
      const cell = row.cells[column], sorted = cell.querySelector("[data-sort]");
      return sorted ? sorted.dataset.sort : cell.textContent;
    };
    button.addEventListener("click", () => {
      const order = next[head.ariaSort ?? "none"], sign = order === "ascending" ? 1 : -1;
      const compare = (a, b) => value(a).localeCompare(value(b), undefined, { numeric: true });
      heads.forEach((other) => {
        other.ariaSort = "none";
        other.firstChild.textContent = other.firstChild.textContent.replace(/ [↑↓]$/, "");
      });
      head.ariaSort = order;
      if (order !== "none") button.textContent = `${name} ${sign > 0 ? "↑" : "↓"}`;
      body.append(...(order === "none" ? given : [...given].sort((a, b) => sign * compare(a, b))));
    });
  });
}
"""

STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 20px 12px; max-width: 1100px;
  font: 14px/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
table { width: 100%; }
td { padding-block: 5px !important; white-space: normal !important; }
td, [data-sort] { overflow-wrap: break-word; }
thead { position: sticky; top: 0; background: Canvas; }
@media (max-width: 700px) {
  table, tbody, thead { display: block; }
  tr { display: flex; flex-wrap: wrap; gap: 0 4px; padding: 5px 0;
    border-top: 1px solid rgba(127, 127, 127, .35); }
  td, th { border: 0 !important; white-space: normal !important; overflow-wrap: anywhere; }
  td:empty, td:has(> [data-name]:empty) { display: none; }
  [data-name]::before { content: attr(data-name) ": "; opacity: .7; }
}
"""


def cells(report: Any) -> dict[str, Any]:
    """Columns of a report on a page; what is possible sorts by its size."""
    found: dict[str, Any] = report.columns
    found["possible"] = [
        _sorted(len(names), escape(" | ".join(shortened(names, report.ordered))))
        for names in report.possible
    ]
    found |= {name: [f"{value:.3f}" for value in found[name]] for name in ("lower", "upper")}
    if report.path is not None:
        del found["node"], found["possible"]  # the path ends at what is possible
        found["path"] = [in_pieces(path.split(BETWEEN), BETWEEN) for path in report.path]
    ends = zip(report.lower, report.upper, strict=True)
    found["interval"] = [_sorted(f"{high - low:.6f}", bar(low, high)) for low, high in ends]
    return found


def sortable(title: str, cells: dict[str, Any], note: str) -> str:
    """A table of columns, sorted by a click on a heading."""
    found = table(title, [*cells], zip(*cells.values(), strict=True), note=note, left=len(cells))
    script = f"<script>{SCRIPT}</script>"
    return found.replace("<table ", '<table class="decal-report" ', 1) + script


def page(title: str, body: str) -> str:
    """One page of a sortable table that loads nothing."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def in_pieces(pieces: Sequence[str], between: str, *, name: str = "") -> Raw:
    """A cell whose lines break between its pieces only; narrow pages tell its name, if any."""
    html = between.join(escape(piece).replace(" ", "&nbsp;") for piece in pieces)
    cell = _sorted(escape(between.join(pieces)), html)
    return Raw(cell.replace("<div ", f'<div data-name="{name}" ', 1)) if name else cell


def _sorted(by: object, html: str) -> Raw:
    return Raw(f'<div data-sort="{by}" style="white-space:normal;min-width:9em">{html}</div>')
