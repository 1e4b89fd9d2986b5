"""Draws figures of experiments: python docs/experiment_figures.py

From rows of full runs of `decal reproduce` and examples/llm_nli.py, which take from minutes to
hours; a new look of the figures should not. The rows, means over seeds, were read back from the
figures of those runs and rounded to three or four digits. Those of time, one_against_ten, auroc and
nli agree with the tables of those runs in every cell; those of tradeoff and curves with new runs.
"""

from collections.abc import Callable, Iterator
from csv import DictReader
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from decal_lab.experiments import local_against_wrapper, local_sets, raters, validity
from decal_lab.experiments.comparison import fashion_figures
from decal_lab.experiments.comparison.plan import STYLES
from decal_lab.experiments.harness import curves, figures, score_tables

STATIC = Path(__file__).parent / "_static"
Row = dict[str, str]
ASKED = "A small language model holds about as much as label frequencies"
ASKED_STYLES = ("", "#0072B2"), ("", "#D55E00"), ("", figures.GREY)


def rows(name: str, by: str) -> dict[str, list[Row]]:
    """The rows of a file, by one of its columns."""
    found: dict[str, list[Row]] = {}
    with open(STATIC / f"{name}.csv", newline="", encoding="utf-8") as file:
        for row in DictReader(file):
            found.setdefault(row[by], []).append(row)
    return found


def numbers(found: list[Row], *columns: str) -> np.ndarray:
    """Columns as an array of as many rows; 0 where there is no number."""
    return np.array([[float(row[column] or 0) for row in found] for column in columns])


def tradeoff(narrow: bool) -> Any:
    """Coverage against efficiency of every method."""
    methods = rows("comparison/tradeoff", "method").items()
    points = {m: tuple(numbers(found, "alpha", "coverage", "efficiency")) for m, found in methods}
    return figures.tradeoff(points, STYLES, fashion_figures.HELD, narrow=narrow)


def time(narrow: bool) -> Any:
    """AUROC and seconds."""
    columns = "seconds", "auroc", "standard_deviation"
    methods = rows("comparison/time", "method").items()
    points = {method: tuple(numbers(found, *columns).tolist()) for method, found in methods}
    return fashion_figures.draw_time({"auroc_mnist": points}, narrow=narrow)


def local_curves(narrow: bool) -> Any:
    """Coverage against efficiency of local and other sets, on six data sets."""
    panels = []
    for title, found in rows("local/curves", "data").items():
        lines = {}
        for method in local_against_wrapper.FEW_STYLES:
            own = numbers([r for r in found if r["method"] == method], "coverage", "efficiency")
            lines[method] = curves.Curve(np.zeros(len(own[0])), *own)
        panels.append(curves.Panel(title, lines))
    styles = local_against_wrapper.FEW_STYLES
    return curves.draw({"": panels}, styles, local_sets.HELD, narrow=narrow)


def one_against_ten(narrow: bool) -> Any:
    """Each network alone against the Wrapper of all."""
    panels = {}
    for title, found in rows("local/one_against_ten", "panel").items():
        covered: dict[str, dict[str, float]] = {}
        for row in found:
            covered.setdefault(row["name"], {})[row["method"]] = float(row["coverage"])
        panels[title] = [
            (name, own["Wrapper"], {m: own.get(m, np.nan) for m in local_against_wrapper.METHODS})
            for name, own in covered.items()
        ]
    return local_against_wrapper.draw(panels, narrow=narrow)


def guaranteed(narrow: bool) -> Any:
    """Coverage against its nominal value, and efficiency."""
    means: dict[Any, dict[Any, Any]] = {}
    for data, found in rows("local/validity", "data").items():
        means[data] = {
            (row["method"], row["labels"], validity.ON_AVERAGE, float(row["delta"])): {
                "ball": float(row["coverage"]),
                "efficiency": float(row["efficiency"]),
            }
            for row in found
        }
    return validity.draw(means, validity.DELTAS, narrow=narrow)


def people(narrow: bool) -> Any:
    """Efficiency and share held by the number of labels per input."""
    shown: dict[float, dict[str, raters.Line]] = {delta: {} for delta in raters.DELTAS}
    for group, found in rows("raters/raters", "group").items():
        for delta, groups in shown.items():
            groups[group] = [
                (row["raters"], float(row["efficiency"]), float(row["held"]))
                for row in found
                if float(row["promised"]) == 1 - delta
            ]
    return raters.draw(shown, narrow=narrow)


def scores(narrow: bool) -> Any:
    """AUROC of every score, by alpha."""
    found = [row for each in rows("scores/auroc", "target").values() for row in each]
    means = {
        ("", row["kind"], float(row["alpha"]), row["score"], row["target"]): float(row["auroc"])
        for row in found
    }
    kinds = tuple(dict.fromkeys(row["kind"] for row in found if row["kind"]))
    alphas = tuple(dict.fromkeys(float(row["alpha"]) for row in found if row["kind"]))
    tables = score_tables.ScoreTables(
        means, {}, kinds, (), ("", ()), alphas, {"unfamiliar inputs": ""}, ()
    )
    return tables.draw(narrow=narrow)


def asked(narrow: bool) -> Any:
    """A language model asked for labels, a fine-tuned one, and none."""
    styles = dict(zip(rows("llm/nli", "model"), ASKED_STYLES, strict=True))
    points = {
        model: (np.zeros(len(found)), *numbers(found, "coverage", "efficiency"))
        for model, found in rows("llm/nli", "model").items()
    }
    return figures.tradeoff(points, styles, ASKED, narrow=narrow)


def drawings() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of files, and what draws them."""
    for name, draw in {
        "comparison/tradeoff": tradeoff,
        "comparison/time": time,
        "local/curves": local_curves,
        "local/one_against_ten": one_against_ten,
        "local/validity": guaranteed,
        "raters/raters": people,
        "scores/auroc": scores,
        "llm/nli": asked,
    }.items():
        yield name, partial(draw, narrow=False)
        yield f"{name}_narrow", partial(draw, narrow=True)


if __name__ == "__main__":
    for name, draw in drawings():
        for path in figures.save(draw, STATIC, name):
            if path.suffix == ".png":  # for reports; pages show the .svg
                path.unlink()
