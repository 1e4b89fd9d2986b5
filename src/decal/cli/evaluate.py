"""decal evaluate: how good predictions are, by labels, by true distributions, or by both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

import decal
from decal._base.errors import InputError
from decal._base.numerics import Array, row_blocks
from decal._base.settings import check_choice
from decal.cli import options
from decal.cli.options import option
from decal.cli.run import all_rows, chunks_of_all
from decal.cli.terminal import output, say, table
from decal.credal import SET_RULES, CredalSet
from decal.evaluate import disagreement
from decal.io.folders import Folder, Layout
from decal.io.formats import TABLES
from decal.io.writers import check_output, write_columns
from decal.rows import Rows

PAPER_ALPHAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
"""The levels of the paper's tables of coverage and efficiency."""

PAPER_LEVELS = ",".join(f"{alpha:g}" for alpha in PAPER_ALPHAS)

CHUNK_ELEMENTS = 1 << 20  # logits of a file that is in memory, whose sets are held at once

EVALUATE_EXAMPLES = """Examples:
    decal evaluate model.npz test.csv
    decal evaluate model.npz test.npy --labels labels.npy --alpha 0.9,0.95
    decal evaluate model.npz test.csv --truth truth.csv
    decal evaluate model.npz cifar10h.npz --truth-key human -o table.csv
    decal evaluate model.npz reads.csv --annotators ann,bob,cy
Columns:
    efficiency: one minus the mean width of the intervals; 1 for points, 0 if nothing is excluded
    miss rate, set size (with labels): share of labels outside the decision set, the classes \
that --rule keeps, and the mean number of classes in it; with --annotators, the share of an \
input's labels, on average over inputs
    least, most disagreement (with --annotators): how often two people may differ about an input \
if its distribution is in its set, on average; how often they do is told below
    coverage (with truth): share of inputs whose true distribution lies in the credal set
"""


@options.with_reading("groups", "weights_key")
def evaluate(
    model: options.ModelArgument,
    logits: options.FilesArgument,
    labels: options.LabelsOption = None,
    annotators: options.AnnotatorsOption = "",
    truth: options.TruthOption = None,
    alpha: Annotated[
        str | None,
        option("Levels to compare.", "A,B,…", show_default=f"{PAPER_LEVELS} and MODEL's own"),
    ] = None,
    rule: Annotated[
        str | None,
        options.rule_option("Which classes a decision set keeps", "as MODEL promises"),
    ] = None,
    out: Annotated[
        Path | None,
        options.output_option("Also write the table: .csv or .parquet; - for standard output."),
    ] = None,
    *,
    reading: options.Reading,
    force: options.ForceOption = False,
) -> None:
    """Measure how good predictions are, at several levels.

    With labels: how often the decision set misses the label and how large it is, and the
    accuracy, calibration error and log-loss of the point prediction. With labels of several
    people: how many of them the decision set misses, and how often two may differ. With true
    distributions: how many of them the credal sets cover.
    """
    if out is not None:
        check_output(out, force=force, formats=TABLES)
    asked = None if alpha is None else options.levels(alpha)
    if rule is not None:
        check_choice(rule, "rule", SET_RULES)
    fitted = decal.Decalibrator.load(model)
    people = options.annotators_of(annotators, labels, logits)
    wanted = ("truth",) if people else ("labels", "truth")
    given: dict[str, Any] = {"labels": labels, "truth": truth, "annotators": people}
    folder = reading.folder(logits, fitted, *wanted, named=False, **given)
    alphas = asked or sorted({*PAPER_ALPHAS, fitted.alpha})
    promised = "" if fitted.promise is None else fitted.promise.rule
    scores = _Scores(fitted, alphas, rule or promised)
    layout = Layout(len(fitted.class_weights), fitted.classes)
    read = _voted_chunks(folder, layout, people) if people else None
    for chunk in read or chunks_of_all(folder, layout, "Evaluating"):
        if chunk.labels is None and chunk.votes is None and chunk.truth is None:
            fact = f"neither in {folder.path}"
            remedy = (
                "Give labels with --labels, --label-column or --annotators, true distributions "
                "with --truth."
            )
            raise InputError("labels or truth", "come with the logits", fact, remedy)
        scores.add(chunk)
    if not scores.rows:
        raise folder.without_rows()
    columns = scores.by_level()
    headings = ("alpha", *(name.replace("_", " ") for name in columns))
    numbers = zip(*columns.values(), strict=True)
    lines = [
        [f"{level:g}", *(f"{number:.3f}" for number in found)]
        for level, found in zip(alphas, numbers, strict=True)
    ]
    shown = table(None, headings, lines, Text(f"{model} has alpha {fitted.alpha:g}"))
    shown.columns[0].justify, shown.columns[0].style = "right", "bold"
    output.print(shown)
    if scores.point.rows:
        output.print(f"point prediction: {scores.point}", highlight=False, soft_wrap=True)
    same = scores.point.columns()
    if scores.differing:
        found = np.concatenate(scores.differing)
        same["disagreement"] = float(found.mean())
        said = f"two labels of one input differ in {found.mean():.3f} of pairs"
        output.print(f"people: {said}, by {len(found):,} inputs", highlight=False, soft_wrap=True)
    if out is not None:
        alike = {name: [value] * len(alphas) for name, value in same.items()}
        write_columns(out, {"alpha": alphas} | columns | alike)
        say(f"Wrote {out}", style="green")


def _voted_chunks(folder: Folder, layout: Layout, people: Sequence[str]) -> Iterator[Rows]:
    """Chunks of the only file, with the labels of several people."""
    rows = options.voted(all_rows(folder, layout), people)
    for some in row_blocks(*rows.shape, CHUNK_ELEMENTS):
        yield rows[some]


class PointScores:
    """Accuracy, calibration error and log-loss of the point predictions seen so far."""

    def __init__(self) -> None:
        self.rows = 0
        self.right = 0
        self.loss = 0.0
        self.gaps: Any = 0.0

    def add(self, point: Array, labels: NDArray[np.intp]) -> None:
        """Count more rows: probabilities (n, K) and labels (n,)."""
        n = len(point)
        self.rows += n
        self.right += int((point.argmax(axis=1) == labels).sum())
        with np.errstate(divide="ignore"):
            self.loss -= float(np.log(point[np.arange(n), labels]).sum())
        self.gaps = self.gaps + decal.metrics.calibration_gaps(point, labels)

    def columns(self) -> dict[str, float]:
        """What a table of scores holds; nothing without rows."""
        if not self.rows:
            return {}
        return {
            "accuracy": self.right / self.rows,
            "calibration_error": float(np.abs(self.gaps).sum()) / self.rows,
            "log_loss": self.loss / self.rows,
        }

    def __str__(self) -> str:
        found = self.columns()
        return (
            f"accuracy {found['accuracy']:.3f}, expected calibration error "
            f"{found['calibration_error']:.3f}, log-loss {found['log_loss']:.3f} nats"
        )


@dataclass
class _Scores:
    """Sums over the rows seen so far, at every level, and of the point prediction."""

    model: decal.Decalibrator
    alphas: list[float]
    rule: str  # empty: that of the sets
    rows: int = 0
    with_labels: int = 0
    with_truth: int = 0
    point: PointScores = field(default_factory=PointScores)
    sums: dict[str, Any] = field(default_factory=dict)
    differing: list[Array] = field(default_factory=list)  # how often two labels of an input do

    def add(self, chunk: Rows) -> None:
        """Count the rows of one more chunk."""
        n = len(chunk)
        self.rows += n
        labelled = chunk.labels is not None or chunk.votes is not None
        self.with_labels += n * labelled
        self.with_truth += n * (chunk.truth is not None)
        for a, alpha in enumerate(self.alphas):
            credal = self.model.predict_rows(chunk, alpha=alpha)
            self._add("efficiency", n * decal.metrics.efficiency(credal), a)
            if chunk.truth is not None:
                self._add("coverage", n * decal.metrics.coverage(credal, chunk.truth), a)
            if labelled:
                kept = credal.decide(self.rule or credal.rule)
                self._add("set_size", kept.sum(), a)
            if chunk.labels is not None:
                self._add("miss_rate", n - kept[np.arange(n), chunk.labels].sum(), a)
            if chunk.votes is not None:
                self._add("miss_rate", chunk.votes.missed(kept).sum(), a)
                self._disagree(credal, chunk.votes, a)
        if chunk.labels is not None and credal.point is not None:
            self.point.add(credal.point, chunk.labels)

    def _disagree(self, credal: CredalSet, votes: decal.Votes, level: int) -> None:
        if (votes.number > 1).any():
            found = disagreement(credal, votes)
            self._add("least_disagreement", found.lower.sum(), level)
            self._add("most_disagreement", found.upper.sum(), level)
            self.differing += [] if level else [found.observed]

    def _add(self, name: str, value: Any, level: int) -> None:
        self.sums.setdefault(name, np.zeros(len(self.alphas)))[level] += value

    def by_level(self) -> dict[str, list[float]]:
        """The columns of the table, by name."""
        counts = {
            "coverage": self.with_truth,
            "efficiency": self.rows,
            "miss_rate": self.with_labels,
            "set_size": self.with_labels,
        }
        pairs = sum(map(len, self.differing))
        counts |= dict.fromkeys(("least_disagreement", "most_disagreement"), pairs)
        return {k: (self.sums[k] / rows).tolist() for k, rows in counts.items() if rows}
