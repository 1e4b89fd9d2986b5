"""All credal methods on ChaosNLI: pairs of sentences, each judged by a hundred people.

As in the paper, small networks learn labels drawn from what the people said about four fifths of
the pairs, and sets should hold what they said about the others. The networks see the paper's
embeddings if these are at hand; else, as a stand-in, the three logits of a RoBERTa that was trained
for such pairs. Decalibration is fitted on the pairs that its network was trained on, as published.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._experiments.comparison.entries import curves, entries, paths
from decal._experiments.comparison.plan import BOTH, CLASS, COLUMNS, DRAWN, Plan, Split
from decal._experiments.comparison.running import compute
from decal._experiments.comparison.summary import (
    DRAWN_COLUMNS,
    HULL_NOTE,
    coverage_claims,
    notes_of,
    rows_of,
    shown,
    tabled,
    write_csv,
)
from decal._experiments.harness.curves import Curve
from decal._experiments.harness.figures import save_all, tradeoff
from decal._experiments.harness.logit_sets import check_folder, draw_labels, read, require_file
from decal._experiments.harness.published_results import ALPHAS, Published, PublishedCurve
from decal._experiments.harness.reports import (
    Report,
    Sections,
    Table,
    number,
    seeds_text,
    signed,
    write_tables,
)
from decal._experiments.harness.rows import RowStore, Track, replacing, untracked
from decal.datasets import MissingDataError, chaosnli_embeddings

CORPORA = ("snli", "mnli")
EMBEDDINGS, LOGITS = "embeddings", "roberta0"
"""Kinds of inputs: the paper's, and the stand-in, the second part of its files' names."""

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
    inputs : EMBEDDINGS or LOGITS.
    """

    source: str = "chaosnli"
    classes: int = 3
    epochs: int = 20
    learning_rate: float = 1e-3
    inputs: str = LOGITS

    def prepare(self, labels: str, seed: int, folder: Path, out: Path) -> Split:  # noqa: ARG002
        """Pairs in random order, labels drawn from their judges; one part trains and fits."""
        rng = np.random.default_rng(seed)
        x, human = pairs(folder, self.inputs)
        order = rng.permutation(len(x))
        drawn = draw_labels(human, rng)
        test, train = np.split(order, [round(TEST_SHARE * len(x))])
        spread = x[train].std(axis=0)
        x = (x - x[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
        x = np.ascontiguousarray(x, dtype=np.float32)
        fitted = x[train], drawn[train]
        return Split(fitted, fitted, (x[test], drawn[test]), human[test], {})

    def data(self, labels: str) -> str:
        """What rows call the data: also by the kind of inputs."""
        return "/".join(filter(None, (self.source, self.inputs, labels, self.name)))


FULL = ChaosPlan()
QUICK = ChaosPlan(name="quick", seeds=1, members=3)


def pairs(folder: Path, inputs: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """(n, d) numbers that stand for pairs of both corpora, and (n, 3) what people said of them."""
    parts: list[list[NDArray[Any]]]
    if inputs == EMBEDDINGS:
        sets = [chaosnli_embeddings(corpus, folder=folder) for corpus in CORPORA]
        parts = [[found.embeddings, found.human] for found in sets]
    else:
        paths = [require_file(folder, f"{corpus}_{inputs}.npz") for corpus in CORPORA]
        parts = [read(path, "test_logits", "human") for path in paths]
    x, human = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return x, human.astype(np.float64)


def run(
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...] = (0,),
    quick: bool = False,
    track: Track = untracked,
    plan: ChaosPlan | None = None,
) -> Report:
    """Compute the cells that are missing, then write the tables and figures of all there are.

    Parameters
    ----------
    data : folder with snli_roberta0.npz and mnli_roberta0.npz, or with the paper's embeddings as
        `decal.datasets.chaosnli_embeddings` reads them; published.json if possible.
    out : folder of results, created if need be; also holds all trained networks, in members.
    seeds : of splits, labels and trainings. One stands for itself and the two that follow.
    quick : one seed, three members: a trial, not a result.
    track : hands on the cells to compute, for a progress bar.
    plan : sizes of your own, in place of `quick`.
    """
    check_folder(data)
    plan = plan or (QUICK if quick else FULL)
    needs: tuple[str, ...] = ()
    try:
        pairs(data, EMBEDDINGS)
        plan = replace(plan, inputs=EMBEDDINGS)
    except MissingDataError:
        needs = (STAND_IN,)
        pairs(data, LOGITS)
    seeds = plan.all_seeds(seeds)
    store = RowStore(out / "rows.csv", COLUMNS, level="alpha")
    compute(store, plan, data, out, seeds=seeds, kinds=(DRAWN,), track=track)
    return report(store, out, Published(data), plan=plan, seeds=seeds, needs=needs)


# Reporting


def report(
    store: RowStore,
    out: Path,
    published: Published,
    *,
    plan: ChaosPlan,
    seeds: tuple[int, ...],
    needs: tuple[str, ...] = (),
) -> Report:
    """Write the tables and figures of a plan's rows, and sum them up for the terminal."""
    rows = rows_of(store, plan, seeds, DRAWN)
    found = entries(rows)
    lines = curves(found)
    theirs = published.coverage("chaosnli", "fcnet")

    def told(*, narrow: bool) -> Report:
        headings, sections = tabled(shown(found), NARROW if narrow else WIDE, narrow=narrow)
        over = "Mean ± standard deviation over seeds" if len(seeds) > 1 else "One seed"
        seen = "its embedding" if plan.inputs == EMBEDDINGS else "three logits of RoBERTa"
        return Report(
            title=f"ChaosNLI, {seeds_text(seeds)}: is what people say in the set?",
            headings=headings,
            sections=sections,
            caption=(
                f"{over}. Each of {plan.members} networks sees of a pair {seen}\n{HULL_NOTE}\n"
                "Seconds of one core, least over seeds: to train all networks needed"
            ),
            claims=tuple(coverage_claims(found)),
            needs=needs,
            further=(
                Table(
                    title="Coverage at the efficiencies of the published run",
                    headings=(
                        "alpha",
                        "efficiency",
                        "published",
                        "class",
                        "diff.",
                        "both",
                        "diff.",
                    ),
                    sections=_beside(lines, theirs),
                    caption=(
                        "published: decalibration of the paper's network on its embeddings; "
                        "alpha is its own\nboth: class + temperature"
                    ),
                ),
            ),
        )

    files = [store.path, *write_tables(told(narrow=False), out), out / "table.csv"]
    with replacing(files[-1]) as file:
        write_csv(file, {DRAWN: found})
    beside = {} if theirs is None else {"published": theirs.path()}
    drawn, notes = save_all({"tradeoff": lambda: tradeoff(paths(lines) | beside)}, out)
    return replace(
        told(narrow=True),
        notes=(*notes_of(rows), *store.origins(seeds), *notes),
        files=(*files, *drawn),
    )


def _beside(lines: dict[str, Curve], theirs: PublishedCurve | None) -> Sections:
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
