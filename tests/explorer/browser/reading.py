"""What a page shows, read back as numbers; and the same numbers, asked of credal sets."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

INSTALL = "make .venv/.test .venv/.browser"
PLAYWRIGHT = f"needs Playwright: {INSTALL}"

WITHIN = 5e-4  # how far outside its interval a true probability counts as covered

SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def drawn_data(n, K, seed=0):
    """Logits, labels drawn from their softmax, and a truth near it."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.standard_normal((n, K))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    labels = np.argmax(p.cumsum(axis=1) > rng.random((n, 1)), axis=1)
    return z, labels, 0.8 * p + 0.2 * rng.dirichlet(np.ones(K), n)


@dataclass
class Case:
    """A page, and what it was made of: sets[model][level] has the credal sets of its inputs."""

    path: Path
    alphas: list
    classes: list
    sets: list
    labels: Any
    truth: Any
    texts: Any = None
    rows: Any = None
    all_sets: Any = None
    all_labels: Any = None
    all_truth: Any = None

    def __post_init__(self):
        if self.rows is None:
            self.rows = np.arange(len(self.labels))
        if self.all_sets is None:
            self.all_sets, self.all_labels, self.all_truth = self.sets, self.labels, self.truth

    def means(self, level, model=0):
        """What the readouts show, over all inputs, by their definitions."""
        credal = self.all_sets[model][level]
        low, high, n = credal.lower, credal.upper, len(self.all_labels)
        kept = credal.decide("e_admissible")
        inside = (self.all_truth >= low - WITHIN) & (self.all_truth <= high + WITHIN)
        return {
            "efficiency": 100 * (high - low).sum() / low.size,
            "coverage": 100 * sum(row.all() for row in inside) / n,
            "missed": 100 * sum(not kept[i, k] for i, k in enumerate(self.all_labels)) / n,
            "size": kept.sum() / n,
        }

    def columns(self, level, model=0):
        """The numbers of every input by the keys of the table's columns."""
        credal = self.sets[model][level]
        return {
            "input": self.rows,
            "says": credal.point.argmax(axis=1),
            "sure": credal.point.max(axis=1),
            "size": credal.decide("e_admissible").sum(axis=1),
            "label": np.asarray(self.labels),
        }

    def wrong(self, model=0):
        """Whether what a model says is not the label."""
        return self.columns(0, model)["says"] != self.labels

    def look(self, start=3):
        """The order in which inputs are worth a look."""
        return look(self.sets[0][start], self.labels)


def look(credal, labels):
    """The order in which inputs are worth a look, by its definition."""
    kept = credal.decide("e_admissible")

    def place(i):
        sure, best = credal.point[i].max(), credal.point[i].argmax()
        two, wrong = kept[i].sum() == 2, best != labels[i]
        if wrong:
            return (0 if two and kept[i, labels[i]] else 1), -sure
        return (2, -sure) if two else (3, credal.lower[i, best])

    return sorted(range(len(labels)), key=place)


def agrees(text, expected, spare=1e-5):
    """Whether a printed number is the expected one, to the digits it has."""
    text = text.replace("\xa0", " ")
    digits = re.fullmatch(r"[+−]?\d+(?:\.(\d+))?(?: %)?", text)
    if not digits:
        return False
    found = float(text.replace("−", "-").removesuffix(" %"))
    return abs(found - expected) <= 0.5 * 10.0 ** -len(digits[1] or "") + spare


def ends_agree(text, low, high):
    """Whether a range's text, in percent, is the expected one."""
    ends = text.removesuffix("\xa0%").split("–")
    return all(
        agrees(end, 100 * p) for end, p in zip((ends[0], ends[-1]), (low, high), strict=True)
    )


def set_level(page, level):
    """Move the slider to a level."""
    page.get_by_test_id("caution").fill(str(level))
    page.evaluate(SETTLED)


def table(page):
    """The rows drawn: by row number, in their order, their cells."""
    return page.get_by_test_id("table").evaluate(
        """(table) => [...table.querySelectorAll("tbody tr[data-row]")].map((tr) =>
            [Number(tr.dataset.row), [...tr.cells].map((cell) => cell.textContent)])"""
    )


def order(page):
    """The row numbers drawn, in their order."""
    return [row for row, _ in table(page)]


def axes(page, testid):
    """Functions from pixels to numbers of a chart with two axes, by its grid and tick labels."""
    ticks = page.get_by_test_id(testid).evaluate(
        """(chart) => {
          const lines = [...chart.querySelectorAll("line.grid")].map((line) =>
            ["x1", "x2", "y1", "y2"].map((name) => Number(line.getAttribute(name))));
          const texts = (kind) =>
            [...chart.querySelectorAll(`.tick.${kind}`)].map((text) => Number(text.textContent));
          return {
            x: [lines.filter(([a, b]) => a === b).map(([a]) => a), texts("middle")],
            y: [lines.filter(([, , a, b]) => a === b).map(([, , a]) => a), texts("end")],
          };
        }"""
    )
    found = []
    for pixels, numbers in (ticks["x"], ticks["y"]):
        slope, offset = np.polyfit(pixels, numbers, 1)
        np.testing.assert_allclose(slope * np.array(pixels) + offset, numbers, atol=1e-9)
        found.append(lambda pixel, slope=slope, offset=offset: slope * np.asarray(pixel) + offset)
    return found


def lines(page, testid, kind):
    """Ends of the lines of a class, (count, 2, 2)."""
    return np.array(
        page.get_by_test_id(testid).evaluate(
            """(chart, kind) => [...chart.querySelectorAll(`line.${kind}`)].map((line) =>
                [["x1", "y1"], ["x2", "y2"]].map((end) =>
                  end.map((name) => Number(line.getAttribute(name)))))""",
            kind,
        )
    )


def circles(page, testid, kind):
    """Centre and radius of the circles of a class, (count, 3)."""
    return np.array(
        page.get_by_test_id(testid).evaluate(
            """(chart, kind) => [...chart.querySelectorAll(`circle.${kind}`)].map((circle) =>
                ["cx", "cy", "r"].map((name) => Number(circle.getAttribute(name))))""",
            kind,
        )
    )


def corners(page, testid, kind):
    """Corners of the paths of a class, a list of (corners, 2)."""
    paths = page.get_by_test_id(testid).evaluate(
        """(chart, kind) => [...chart.querySelectorAll(`path.${kind}`)].map((path) =>
            path.getAttribute("d"))""",
        kind,
    )
    return [
        np.array([float(x) for x in re.findall(r"-?[\d.]+(?:e-?\d+)?", path)]).reshape(-1, 2)
        for path in paths
    ]


def texts(page, testid, selector):
    """The texts that match within a part, without the titles of SVG texts."""
    return page.get_by_test_id(testid).evaluate(
        """(part, selector) => [...part.querySelectorAll(selector)].map((element) =>
            element.firstChild.textContent)""",
        selector,
    )


def exported(page):
    """The bytes that the export hands over, and the name of its file."""
    with page.expect_download() as started:
        page.get_by_test_id("export-csv").click()
    download = started.value
    return Path(download.path()).read_bytes(), download.suggested_filename


def exported_table(page):
    """The export as CSV: a dictionary for every line."""
    data, _ = exported(page)
    return list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))
