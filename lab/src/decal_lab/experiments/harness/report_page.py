"""One page of all results: tables, claims, figures, needs and origins.

The page is a single .html file without scripts. It contains its figures, loads nothing, and its
content security policy forbids all else. All text is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from decal_lab.experiments.harness.reports import saved
from decal_lab.experiments.harness.rows import replacing_text

LARGEST_SVG = 3_000_000
"""An .svg figure of more bytes is shown as .png."""

LONG = 24
"""A table of more rows is folded."""

MIME = {".svg": "image/svg+xml", ".png": "image/png"}

ORIGINS = {
    "command": "command",
    "seeds": "seeds",
    "run_seconds": "seconds of the last run",
    "decal": "decal",
    "commit": "commit",
    "python": "Python",
    "numpy": "NumPy",
    "machine": "machine",
    "files": "files",
}
"""Entries of a report's origin, and the words for them."""


def write_page(page: Path, results: Path, order: Sequence[str]) -> list[str]:
    """Gather the reports in a folder and in the folders within it; returns their names.

    Parameters
    ----------
    page : path
        The .html file to write.
    results : path
        Folder of results.
    order : sequence of str
        Names of experiments in the order of the page. Others come last.
    """
    found = [(folder, report) for folder, report in saved(results) if "name" in report]
    if not found:
        raise ValueError(
            f"out must hold results of experiments: got none in {results}. "
            "Run some first: decal reproduce --all."
        )
    places = {name: place for place, name in enumerate(order)}
    found.sort(key=lambda item: places.get(item[1]["name"], len(places)))
    page.parent.mkdir(parents=True, exist_ok=True)
    with replacing_text(page) as file:
        file.write(page_of(found))
    return [report["name"] for _, report in found]


def page_of(found: Sequence[tuple[Path, dict[str, Any]]]) -> str:
    """The page as text: each report with the folder of its figures."""
    style = (files("decal_lab.experiments.harness") / "report_page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'"
    claims = [claim for _, report in found for claim in report["claims"]]
    kept = sum(claim["holds"] for claim in claims)
    summed = f"{kept} of {len(claims)} claims hold" if claims else "no claims"
    links = "".join(
        f'<li><a href="#{escape(report["name"])}">{escape(report["name"])}'
        f"{_score(report['claims'])}</a></li>"
        for _, report in found
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>decal reproduce</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<div class="frame">\n<nav aria-label="Experiments"><p>{summed}</p><ol>{links}</ol></nav>'
        "\n<main>\n<h1>decal reproduce</h1>\n"
        '<p class="lead">Experiments of “Efficient Credal Prediction through Decalibration” '
        "(Hofman et al., ICLR 2026) and beyond, on the data available. Published numbers stand "
        "next to ours. Data that are not available are listed, and every stand-in is named.</p>\n"
        + "\n".join(_experiment(folder, report) for folder, report in found)
        + "\n<footer>Written by <code>decal reproduce --report</code>. "
        "Tables and figures are rebuilt from rows.csv in the same folder.</footer>\n"
        "</main>\n</div>\n</body>\n</html>\n"
    )


def _experiment(folder: Path, report: dict[str, Any]) -> str:
    first = {key: report[key] for key in ("title", "headings", "sections", "caption")}
    tables = [first, *report["further"]]
    quick = ' <span class="pill none">quick run</span>' if report.get("quick") else ""
    return (
        f'<section class="experiment" id="{escape(report["name"])}">\n'
        f"<h2>{escape(report['name'])}{quick}</h2>\n"
        f'<p class="lead">{escape(report.get("summary", ""))}</p>\n'
        + _claims(report["claims"])
        + _figures(folder, report["files"])
        + "".join(_table(table) for table in tables)
        + _list("Not available", "needs", report["needs"])
        + _list("Notes", "notes", report["notes"])
        + _origin(report)
        + "</section>"
    )


def _score(claims: Sequence[dict[str, Any]]) -> str:
    if not claims:
        return ""
    kept = sum(claim["holds"] for claim in claims)
    kind = "pass" if kept == len(claims) else "fail"
    return f' <span class="pill {kind}">{kept}/{len(claims)}</span>'


def _claims(claims: Iterable[dict[str, Any]]) -> str:
    items = ""
    for claim in claims:
        verdict = "pass" if claim["holds"] else "fail"
        pill = f'<span class="pill {verdict}">{verdict}</span>'
        items += f"<li>{pill}<span>{escape(claim['text'])}</span></li>"
    return f'<ul class="claims">{items}</ul>\n' if items else ""


def _table(table: dict[str, Any]) -> str:
    columns = len(table["headings"])
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in table["headings"])
    body = ""
    for heading, rows in table["sections"].items():
        if heading:
            body += f'<tr><th colspan="{columns}" scope="rowgroup">{escape(heading)}</th></tr>'
        body += "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    whole = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table["title"])}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n"
        f'<p class="caption">{escape(table["caption"])}</p>\n'
    )
    count = sum(map(len, table["sections"].values()))
    if count > LONG:
        whole = f"<details><summary>{count} rows</summary>{whole}</details>\n"
    return f"<h3>{escape(table['title'])}</h3>\n{whole}"


def _cell(text: str) -> str:
    verdict = text.rpartition(" ")[2]
    kind = f' class="{verdict}"' if verdict in ("pass", "fail") else ""
    return f"<td{kind}>{escape(text)}</td>"


def _figures(folder: Path, files: Iterable[str]) -> str:
    """Every figure once: its .svg, or its .png; the dark one where the page is dark."""
    names = {Path(name).name for name in files}  # a report must not name files elsewhere
    shown = ""
    for stem in dict.fromkeys(Path(name).stem for name in files if Path(name).suffix in MIME):
        if stem.endswith("_dark"):
            continue
        light, dark = (_source(folder, f"{stem}{end}", names) for end in ("", "_dark"))
        if light is None:
            continue
        other = f'<source srcset="{dark}" media="(prefers-color-scheme: dark)">' if dark else ""
        title = escape(stem.replace("_", " ").replace("-", " "))
        shown += (
            f"<figure{'' if dark else ' class=light'}><picture>{other}"
            f'<img src="{light}" alt="{title}"></picture>'
            f"<figcaption>{title}</figcaption></figure>\n"
        )
    return shown


def _source(folder: Path, stem: str, names: set[str]) -> str | None:
    """A figure as a data address; None if there is no such figure."""
    paths = [folder / f"{stem}{suffix}" for suffix in MIME if f"{stem}{suffix}" in names]
    paths = [path for path in paths if path.is_file()]
    small = [p for p in paths if p.suffix != ".svg" or p.stat().st_size <= LARGEST_SVG]
    for path in small or paths:
        return f"data:{MIME[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
    return None


def _list(title: str, kind: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    lines = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f'<h3>{title}</h3>\n<ul class="{kind}">{lines}</ul>\n'


def _origin(report: dict[str, Any]) -> str:
    lines = ""
    for key, words in ORIGINS.items():
        value = report.get(key)
        if value in (None, "", []):
            continue
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        code = f"<code>{escape(text)}</code>" if key in ("command", "commit") else escape(text)
        lines += f"<dt>{words}</dt><dd>{code}</dd>"
    return f"<details><summary>Origin</summary><dl>{lines}</dl></details>\n"
