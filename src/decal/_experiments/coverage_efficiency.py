"""Coverage against efficiency at the eight alphas of the paper, with its published curves beside.

CLIP, SigLIP and SigLIP-2 are the models of the paper. Their public logits are of the test images
only, so these fit and evaluate; the published run fitted on the training images. The networks and
the language models are others than the paper's: their curves are compared by eye, not by number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import decal
from decal._experiments.harness.curves import measure
from decal._experiments.harness.figures import Curve, save_all, tradeoffs
from decal._experiments.harness.logit_sets import (
    TITLES,
    Split,
    check_folder,
    human_labels,
    named,
    read,
    require_some,
)
from decal._experiments.harness.published_results import (
    ALPHAS,
    PUBLISHED_CURVE_WITHIN,
    Array,
    Published,
    PublishedCurve,
)
from decal._experiments.harness.reports import (
    Claim,
    Report,
    Sections,
    Table,
    number,
    seeds_text,
    signed,
    write_tables,
)
from decal._experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore, Track, untracked

METHODS: dict[str, dict[str, Any]] = {
    "class": {},
    "class + temperature": {"directions": ("class", "temperature")},
}
READINGS: dict[str, dict[str, Any]] = {
    "sum, not mean": {"likelihood": "sum"},
    "own box": {"box": "own"},
    "best reference": {"reference": "best"},
}
"""The paper's text, where its code differs: one setting of "class" each, for the paper's models."""

COLUMNS = {**CELL, "alpha": float, "coverage": float, "efficiency": float, **ORIGIN}

FALLING = tuple(sorted(ALPHAS, reverse=True))
INNER = ALPHAS[1:-1]
"""Without 0, where nothing is excluded, and 1."""


WORDS = {
    "same rows": "fitted and evaluated on the same",
    "halves": "one fits, the other evaluates",
    "own split": "fitted on the training part",
}
"""Splits, and what they are."""


@dataclass(frozen=True)
class Source:
    """A model and its data.

    Attributes
    ----------
    name, title : in rows and in tables.
    file : that holds the logits, without .npz.
    split : which rows fit and which evaluate, a key of WORDS.
    published : data and model of the published curve beside, and what tables call it.
    same_model : whether that is the very model.
    """

    name: str
    title: str
    file: str
    split: str
    published: tuple[str, str, str]
    same_model: bool = False

    def load(self, folder: Path, seed: int) -> Split | None:
        """The rows to fit and to evaluate on; None if the truth about them is not at hand."""
        if self.split == "halves":
            return named(self.name).load(folder, seed)
        path = folder / f"{self.file}.npz"
        if self.split == "same rows":
            logits, labels, human = read(path, "logits", "labels", "human")
            return Split(logits, labels, logits, human)
        if self.file == "resnet20_cifar10":
            keys = ("cifar10_train", "train_labels", "cifar10_test", "test_labels")
            logits, labels, new, new_labels = read(path, *keys)
            truth = human_labels(folder, new_labels)
            return None if truth is None else Split(logits, labels, new, truth)
        return Split(*read(path, "train_logits", "train_labels", "test_logits", "human"))


def _sources() -> dict[str, Source]:
    resnet18 = ("cifar10", "resnet", "ResNet-18")
    small = ("chaosnli", "fcnet", "small network on embeddings")
    models = [
        Source(
            f"{m}_cifar10_en", TITLES[m], f"{m}_cifar10_en", "same rows", ("cifar10", m, ""), True
        )
        for m in ("clip", "siglip", "siglip2")
    ]
    train = Source("resnet20_cifar10", "ResNet-20", "resnet20_cifar10", "own split", resnet18)
    networks = [
        Source(f"cnn_{n}", TITLES[n], f"cnn_{n}_test", "halves", resnet18)
        for n in (
            "densenet_BC_100_12",
            "resnet_basic_110",
            "resnet_preact_bottleneck_164",
            "resnext_29_8x64d",
            "vgg_15_BN_64",
        )
    ]
    texts = [
        Source(f"{c}_{m}/own", f"{TITLES[m]}, {c.upper()}", f"{c}_{m}", "own split", small)
        for c, m in (("snli", "roberta0"), ("snli", "bert0"), ("mnli", "roberta0"))
    ]
    return {source.name: source for source in (*models, train, *networks, *texts)}


SOURCES = _sources()
"""By name, in the order of tables."""

NEEDS = (
    "CIFAR-10's training logits of CLIP, SigLIP and SigLIP-2 (the published run fitted on them)",
    "a ResNet-18 trained on CIFAR-10 as in the paper, and its baselines (see networks-together)",
    "ChaosNLI's 768-dimensional embeddings, to train the paper's network on (see chaosnli)",
    "QualityMRI",
)


def run(
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...] = (0,),
    quick: bool = False,  # noqa: ARG001 - nothing to save: it takes a minute
    track: Track = untracked,
) -> Report:
    """Compute the cells that are missing, then write the tables and figures of all there are.

    Parameters
    ----------
    data : folder of logits; published.json in it for the published curves.
    out : folder of results, created if need be.
    seeds : each draws halves, where there are any; results are the mean over seeds.
    quick : the same as a full run.
    track : hands on the cells to compute, for a progress bar.
    """
    check_folder(data)
    present = {n: s for n, s in SOURCES.items() if (data / f"{s.file}.npz").exists()}
    absent = [f"{s.file}.npz" for n, s in SOURCES.items() if n not in present]
    require_some(present, "files of logits", data, needs=absent)
    store = RowStore(out / "rows.csv", COLUMNS, level="alpha")
    absent += compute(store, present, data, seeds=seeds, track=track)
    return report(store, out, Published(data), seeds=seeds, needs=(*absent, *NEEDS))


def methods_of(source: Source) -> dict[str, dict[str, Any]]:
    """Settings by name; of the paper's own models also other readings of the paper."""
    return METHODS | READINGS if source.same_model else METHODS


def cells_of(source: Source, method: str, seeds: Iterable[int]) -> list[Cell]:
    """The cells of one curve: one per seed where halves are drawn, and else one, of seed 0."""
    drawn = seeds if source.split == "halves" else (0,)
    return [Cell(source.name, method, seed) for seed in drawn]


def compute(
    store: RowStore,
    present: Mapping[str, Source],
    folder: Path,
    *,
    seeds: Sequence[int],
    track: Track = untracked,
) -> list[str]:
    """Add the cells that are missing; returns what was found to be needed."""
    needs: list[str] = []
    loaded: dict[tuple[str, int], Split | None] = {}

    def work(cell: Cell) -> list[Row]:
        key = cell.data, cell.seed
        if key not in loaded:
            loaded.clear()
            loaded[key] = present[cell.data].load(folder, cell.seed)
        split = loaded[key]
        if split is None:
            needs.append(f"CIFAR-10H, to evaluate {present[cell.data].title}")
            return []
        model = decal.Decalibrator(**(METHODS | READINGS)[cell.method])
        curve = measure(model.fit(split.logits, split.labels), split, FALLING)
        numbers = np.column_stack([curve.alpha, curve.coverage, curve.efficiency]).tolist()
        return [{"alpha": a, "coverage": c, "efficiency": e} for a, c, e in numbers]

    cells = [c for s in present.values() for m in methods_of(s) for c in cells_of(s, m, seeds)]
    # Methods of one data set and seed follow each other, so that it is read once.
    cells.sort(key=lambda cell: (list(present).index(cell.data), cell.seed))
    store.fill(cells, ALPHAS, work, track=track)
    return list(dict.fromkeys(needs))


# Reporting


def report(
    store: RowStore,
    out: Path,
    published: Published,
    *,
    seeds: Sequence[int],
    needs: tuple[str, ...] = (),
) -> Report:
    """Write tables and figures of the mean over seeds, and sum them up for the terminal."""
    curves = {
        source: found for source in SOURCES.values() if (found := _mean(store, source, seeds))
    }
    beside = {source: published.coverage(*source.published[:2]) for source in curves}
    if not published.at_hand:
        needs = ("published.json, for the published curves", *needs)
    told = Report(
        title="Coverage and efficiency on CIFAR-10H, against the published run",
        headings=("alpha", "coverage", "publ.", "diff.", "efficiency", "publ.", "diff."),
        sections=_same(curves, beside),
        caption=(
            "class shifts, fitted and evaluated on the 10,000 test images; the published run was "
            "fitted on the 50,000 training images"
        ),
        claims=tuple(_claims(curves, beside)),
        needs=needs,
        further=(
            Table(
                title=f"Coverage/efficiency of all models by alpha, {seeds_text(seeds)}",
                headings=("method", *(f"{alpha:g}" for alpha in INNER)),
                sections=_others(curves, beside),
                caption=(
                    f"{'; '.join(f'{split}: {words}' for split, words in WORDS.items())}\n"
                    "published: class shifts, of the model named if it is another on these data"
                ),
            ),
            Table(
                title="Other readings of the paper: coverage/efficiency by alpha",
                headings=("reading", *(f"{alpha:g}" for alpha in INNER), "gap"),
                sections=_readings(curves, beside),
                caption=(
                    "class: mean of log-likelihoods, joint box, measured from the model as it is\n"
                    "gap: largest difference from the published curve at any of the eight alphas"
                ),
            ),
        ),
    )
    files, notes = save_all(
        {
            "paper_models": partial(tradeoffs, _panels(curves, beside, same=True)),
            "other_models": partial(tradeoffs, _panels(curves, beside, same=False)),
        },
        out,
    )
    written = [store.path, *write_tables(told, out), *files]
    return replace(told, notes=(*store.origins({0, *seeds}), *notes), files=tuple(written))


Numbers = dict[float, tuple[float, float]]
"""Coverage and efficiency by alpha."""


def _mean(store: RowStore, source: Source, seeds: Sequence[int]) -> dict[str, Numbers]:
    found: dict[str, Numbers] = {}
    for method in methods_of(source):
        rows = [r for c in cells_of(source, method, seeds) for r in store.cells.get(c, ())]
        for alpha in ALPHAS:
            at = [(r["coverage"], r["efficiency"]) for r in rows if r["alpha"] == alpha]
            if at:
                coverage, efficiency = np.mean(at, axis=0)
                found.setdefault(method, {})[alpha] = float(coverage), float(efficiency)
    return found


def _same(
    curves: Mapping[Source, dict[str, Numbers]], beside: Mapping[Source, PublishedCurve | None]
) -> Sections:
    sections: Sections = {}
    for source, by_method in curves.items():
        if source.same_model:
            rows: list[tuple[str, ...]] = []
            for alpha, (coverage, efficiency) in by_method["class"].items():
                theirs = _theirs(beside[source], alpha)
                pairs = zip((coverage, efficiency), theirs, strict=True)
                texts = [(number(a), number(b), signed(a - b, 4)) for a, b in pairs]
                rows.append((f"{alpha:g}", *texts[0], *texts[1]))
            sections[source.title] = rows
    return sections


def _others(
    curves: Mapping[Source, dict[str, Numbers]], beside: Mapping[Source, PublishedCurve | None]
) -> Sections:
    sections: Sections = {}
    for source, by_method in curves.items():
        theirs = {alpha: _theirs(beside[source], alpha) for alpha in INNER}
        lines = {name: by_method[name] for name in METHODS if name in by_method}
        lines[f"published {source.published[2]}".strip()] = theirs
        sections[f"{source.title}, {source.split}"] = [
            (method, *(_pair(at.get(alpha)) for alpha in INNER)) for method, at in lines.items()
        ]
    return sections


def _readings(
    curves: Mapping[Source, dict[str, Numbers]], beside: Mapping[Source, PublishedCurve | None]
) -> Sections:
    sections: Sections = {}
    for source, by_method in curves.items():
        if source.same_model:
            sections[source.title] = [
                (
                    name,
                    *(_pair(by_method[name].get(alpha)) for alpha in INNER),
                    number(_gaps(by_method[name], beside[source]).max()),
                )
                for name in ("class", *READINGS)
                if name in by_method
            ]
    return sections


def _claims(
    curves: Mapping[Source, dict[str, Numbers]], beside: Mapping[Source, PublishedCurve | None]
) -> list[Claim]:
    claims = []
    for source, by_method in curves.items():
        theirs = beside[source]
        if not source.same_model or theirs is None:
            continue
        gaps = np.array(
            [
                np.abs(np.subtract(ours, _theirs(theirs, a)))
                for a, ours in by_method["class"].items()
            ]
        )
        coverage, efficiency = gaps.max(axis=0)
        text = (
            f"{source.title}: within {PUBLISHED_CURVE_WITHIN:g} of the published curve at all "
            f"eight alphas (largest difference: coverage {coverage:.4f}, "
            f"efficiency {efficiency:.4f})"
        )
        holds = len(gaps) == len(ALPHAS) and float(gaps.max()) <= PUBLISHED_CURVE_WITHIN
        claims.append(Claim(text, holds))
    return claims


def _gaps(ours: Numbers, theirs: PublishedCurve | None) -> Array:
    """(A, 2) differences of coverage and efficiency from the published ones; NaN without these."""
    return np.abs([np.subtract(ours[alpha], _theirs(theirs, alpha)) for alpha in ours])


def _theirs(curve: PublishedCurve | None, alpha: float) -> tuple[float, float]:
    if curve is None:
        return math.nan, math.nan
    return curve.at("coverage", alpha), curve.at("efficiency", alpha)


def _pair(numbers: tuple[float, float] | None) -> str:
    if numbers is None or math.isnan(numbers[0]):
        return "–"
    return "/".join(f"{x:.2f}".removeprefix("0") for x in numbers)


# Figures


def _panels(
    curves: Mapping[Source, dict[str, Numbers]],
    beside: Mapping[Source, PublishedCurve | None],
    *,
    same: bool,
) -> dict[str, dict[str, Curve]]:
    """By title, the curves of each method and the published one: alpha, coverage, efficiency."""
    panels: dict[str, dict[str, Curve]] = {}
    for source, by_method in curves.items():
        if source.same_model == same:
            lines: dict[str, Curve] = {
                method: (list(at), [c for c, _ in at.values()], [e for _, e in at.values()])
                for method, at in by_method.items()
                if method in METHODS
            }
            theirs = beside[source]
            if theirs is not None:
                lines["published" if same else "published, another model"] = theirs.path()
            panels[source.title] = lines
    return panels
