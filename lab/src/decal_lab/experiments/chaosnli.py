"""All credal methods on ChaosNLI: pairs of sentences, each judged by a hundred people.

As in the paper, small networks learn labels drawn from people's judgements of four fifths of the
pairs, and credal sets should hold the judgements of the others. The inputs of the networks are the
paper's embeddings if these are available; else the three logits of a RoBERTa that was trained for
such pairs stand in. Decalibration is fitted on the pairs that its network was trained on, as
published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal_lab.data import MissingDataError, chaosnli_embeddings
from decal_lab.experiments.comparison.entries import Entry, curves, entries, paths
from decal_lab.experiments.comparison.plan import (
    BOTH,
    CLASS,
    DRAWN,
    PUBLISHED,
    STYLES,
    InputSplit,
    Plan,
)
from decal_lab.experiments.comparison.summary import (
    DRAWN_COLUMNS,
    HULL_NOTE,
    coverage_claims,
    csv_text,
    notes_of,
    rows_of,
    shown,
    tabled,
)
from decal_lab.experiments.comparison.workers import comparison
from decal_lab.experiments.harness.curves import Curve
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.figures import tradeoff
from decal_lab.experiments.harness.logit_sets import check_folder, draw_labels, read, require_file
from decal_lab.experiments.harness.published_results import ALPHAS, Published, PublishedCurve
from decal_lab.experiments.harness.reports import (
    Report,
    Sections,
    Table,
    number,
    seeds_text,
    signed,
)
from decal_lab.experiments.harness.rows import RowStore

CORPORA = ("snli", "mnli")
EMBEDDINGS, LOGITS = "embeddings", "roberta0"
"""Kinds of inputs: the paper's, and the stand-in, by the second part of its files' names."""

STAND_IN = (
    "the paper's embeddings of ChaosNLI, snli and mnli_m as .npz or .pkl: RoBERTa's logits stand in"
)

TEST_SHARE = 0.2
WIDE = (*DRAWN_COLUMNS, ("train_seconds", "training, s", "train", 1))
NARROW = tuple(column for column in WIDE if column[0] not in ("accuracy", "ece"))


@dataclass(frozen=True, kw_only=True)
class ChaosPlan(Plan):
    """The comparison on pairs of sentences.

    Attributes
    ----------
    inputs : str
        EMBEDDINGS or LOGITS.
    title, question : str
        Of tables and of the figure.
    published : pair of str
        The data and the model of the published curve.
    """

    source: str = "chaosnli"
    title: str = "ChaosNLI"
    question: str = "Who holds people's answers?"
    published: tuple[str, str] = ("chaosnli", "fcnet")
    classes: int = 3
    epochs: int = 20
    learning_rate: float = 1e-3
    inputs: str = LOGITS

    def prepare(self, labels: str, seed: int, folder: Path, out: Path) -> InputSplit:  # noqa: ARG002
        """Pairs in random order, with labels drawn from judgements; one part trains and fits."""
        rng = np.random.default_rng(seed)
        x, human = self.judged(folder)
        order = rng.permutation(len(x))
        drawn = draw_labels(human, rng)
        test, train = np.split(order, [round(TEST_SHARE * len(x))])
        spread = x[train].std(axis=0)
        x = (x - x[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
        x = np.ascontiguousarray(x, dtype=np.float32)
        fitted = x[train], drawn[train]
        return InputSplit(fitted, fitted, (x[test], drawn[test]), human[test], {})

    def contents(self, labels: str, folder: Path) -> dict[str, Any]:  # noqa: ARG002
        """What was judged, and people's judgements of it."""
        return {"data": self.judged(folder)}

    def judged(self, folder: Path) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """(n, d) inputs, and (n, K) people's judgements of them."""
        return pairs(folder, self.inputs)

    @property
    def seen(self) -> str:
        """What the networks see, in words."""
        what = "its embedding" if self.inputs == EMBEDDINGS else "three logits of RoBERTa"
        return f"for a pair, {what}"

    def data(self, labels: str) -> str:
        """The name of the data in rows, which includes the kind of inputs."""
        return "/".join(filter(None, (self.source, self.inputs, labels, self.name)))


FULL = ChaosPlan()
QUICK = ChaosPlan(name="quick", seeds=1, members=3)


def pairs(folder: Path, inputs: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """(n, d) inputs for the pairs of both corpora, and (n, 3) people's judgements of them."""
    parts: list[list[NDArray[Any]]]
    if inputs == EMBEDDINGS:
        sets = [chaosnli_embeddings(corpus, folder=folder) for corpus in CORPORA]
        parts = [[found.embeddings, found.human] for found in sets]
    else:
        paths = [require_file(folder, f"{corpus}_{inputs}.npz") for corpus in CORPORA]
        parts = [read(path, "test_logits", "human") for path in paths]
    x, human = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return x, human.astype(np.float64)


def experiment(request: Request, *, plan: ChaosPlan | None = None) -> Experiment:
    """All credal methods, next to the published curve if published.json is available.

    The folder of data must hold the paper's embeddings, as `decal_lab.data.chaosnli_embeddings`
    reads them, or snli_roberta0.npz and mnli_roberta0.npz. Seeds draw splits and labels and
    initialise trainings; if one seed is asked for, the two that follow it are used too. A quick run
    has one seed and three members: it is a trial, not a result.

    Parameters
    ----------
    request : Request
        What the user asked for.
    plan : ChaosPlan, optional
        Sizes of your own, in place of those of a full or a quick run.
    """
    check_folder(request.data)
    plan = plan or (QUICK if request.quick else FULL)
    needs: tuple[str, ...] = ()
    try:
        pairs(request.data, EMBEDDINGS)
        plan = replace(plan, inputs=EMBEDDINGS)
    except MissingDataError:
        needs = (STAND_IN,)
        pairs(request.data, LOGITS)
    tell = partial(findings, published=Published(request.data))
    return comparison(plan, request, tell, kinds=(DRAWN,), needs=needs)


# Reporting


def findings(
    store: RowStore, *, published: Published, plan: ChaosPlan, seeds: tuple[int, ...]
) -> Findings:
    """Tables, figures and claims of the rows of a plan."""
    rows = rows_of(store, plan, seeds, DRAWN)
    found = entries(rows)
    lines = curves(found)
    theirs = published.coverage(*plan.published)
    further = Table(
        title="Coverage at the efficiencies of the published run",
        headings=("alpha", "efficiency", "published", "class", "diff.", "both", "diff."),
        sections=_compared(lines, theirs),
        caption=(
            "published: decalibration of the paper's network on its own inputs; "
            "alpha is its own\nboth: class + temperature"
        ),
    )
    claims = tuple(coverage_claims(found))
    narrow, wide = (
        replace(_table(found, plan, seeds, narrow=narrow), claims=claims, further=(further,))
        for narrow in (True, False)
    )
    line = {} if theirs is None else {PUBLISHED: theirs.path()}
    return Findings(
        narrow,
        {"tradeoff": partial(tradeoff, paths(lines) | line, STYLES, plan.question)},
        in_files=wide,
        texts={"table.csv": csv_text({DRAWN: found})},
        notes=tuple(notes_of(rows)),
    )


def _table(found: list[Entry], plan: ChaosPlan, seeds: tuple[int, ...], *, narrow: bool) -> Report:
    headings, sections = tabled(shown(found), NARROW if narrow else WIDE, narrow=narrow)
    over = "Mean ± standard deviation over seeds" if len(seeds) > 1 else "One seed"
    return Report(
        title=f"{plan.title}, {seeds_text(seeds)}: are people's judgements in the set?",
        headings=headings,
        sections=sections,
        caption=(
            f"{over}. The input of each of {plan.members} networks is, {plan.seen}\n"
            f"{HULL_NOTE}\n"
            "Seconds of one core, least over seeds: to train all networks needed"
        ),
    )


def _compared(lines: dict[str, Curve], theirs: PublishedCurve | None) -> Sections:
    if theirs is None or not {CLASS, BOTH} <= lines.keys():
        return {}
    rows: list[tuple[str, ...]] = []
    for alpha in ALPHAS[1:-1]:
        efficiency, covered = (theirs.at(m, alpha) for m in ("efficiency", "coverage"))
        row = [f"{alpha:g}", number(efficiency), number(covered)]
        for method in (CLASS, BOTH):
            ours = lines[method].at(efficiency)
            row += [number(ours), signed(ours - covered)]
        rows.append(tuple(row))
    return {"": rows}
