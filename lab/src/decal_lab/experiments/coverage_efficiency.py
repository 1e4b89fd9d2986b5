"""Coverage against efficiency at the eight alphas of the paper, next to its published curves.

CLIP, SigLIP and SigLIP-2 are the models of the paper. Their public logits are of the test images
only, so these both fit and evaluate; the published run was fitted on the training images. The
networks and the language models are not those of the paper: their curves are compared by eye, not
by number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import decal
from decal_lab.experiments.harness.curves import measure
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.figures import Tradeoff, tradeoffs
from decal_lab.experiments.harness.logit_sets import (
    RESNET20,
    TITLES,
    LogitSplit,
    available,
    contents,
    human_labels,
    named,
    own_split,
    read,
    resnet20_split,
    same_rows,
)
from decal_lab.experiments.harness.published_results import (
    ALPHAS,
    PUBLISHED_CURVE_WITHIN,
    Array,
    Published,
    PublishedCurve,
)
from decal_lab.experiments.harness.reports import (
    Claim,
    Report,
    Sections,
    Table,
    number,
    seeds_text,
    signed,
)
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

METHODS: dict[str, dict[str, Any]] = {
    "class": {},
    "class + temperature": {"directions": ("class", "temperature")},
}
READINGS: dict[str, dict[str, Any]] = {
    "sum, not mean": {"likelihood": "sum"},
    "own box": {"box": "own"},
    "best reference": {"reference": "best"},
}
"""Settings of "class" by which the paper's text differs from its code, for the paper's models."""

COLUMNS = {**CELL, "alpha": float, "coverage": float, "efficiency": float, **ORIGIN}

FALLING = tuple(sorted(ALPHAS, reverse=True))
INNER = ALPHAS[1:-1]
"""The alphas of tables: at 0 a set holds everything, at 1 the model alone."""

WORDS = {
    "same rows": "fitted and evaluated on the same",
    "halves": "one fits, the other evaluates",
    "own split": "fitted on the training part",
}
"""Splits, and what fits and evaluates in each."""


@dataclass(frozen=True)
class CurveSource:
    """A model and its data.

    Attributes
    ----------
    name, title : str
        Names in rows and in tables.
    file : str
        The file of logits, without .npz.
    split : str
        Which rows fit and which evaluate, a key of WORDS.
    published : tuple of str
        Data and model of the published curve to compare with, and its name in tables.
    same_model : bool
        Whether the published curve is of the same model.
    """

    name: str
    title: str
    file: str
    split: str
    published: tuple[str, str, str]
    same_model: bool = False

    def load(self, folder: Path, seed: int) -> LogitSplit:
        """The rows to fit and to evaluate on."""
        if self.split == "halves":
            return named(self.name).load(folder, seed)
        if self.split == "same rows":
            return same_rows(folder, self.file)
        return resnet20_split(folder) if self.file == RESNET20 else own_split(folder, self.file)

    def seeds(self, asked: Iterable[int]) -> Iterable[int]:
        """The seeds asked for if halves are drawn, and else only 0."""
        return asked if self.split == "halves" else (0,)

    def methods(self) -> dict[str, dict[str, Any]]:
        """Settings by name; for the paper's own models also other readings of the paper."""
        return METHODS | READINGS if self.same_model else METHODS


def _sources() -> dict[str, CurveSource]:
    resnet18 = ("cifar10", "resnet", "ResNet-18")
    small = ("chaosnli", "fcnet", "small network on embeddings")
    models = [
        CurveSource(
            f"{m}_cifar10_en", TITLES[m], f"{m}_cifar10_en", "same rows", ("cifar10", m, ""), True
        )
        for m in ("clip", "siglip", "siglip2")
    ]
    train = CurveSource(RESNET20, "ResNet-20", RESNET20, "own split", resnet18)
    networks = [
        CurveSource(f"cnn_{n}", TITLES[n], f"cnn_{n}_test", "halves", resnet18)
        for n in (
            "densenet_BC_100_12",
            "resnet_basic_110",
            "resnet_preact_bottleneck_164",
            "resnext_29_8x64d",
            "vgg_15_BN_64",
        )
    ]
    texts = [
        CurveSource(f"{c}_{m}/own", f"{TITLES[m]}, {c.upper()}", f"{c}_{m}", "own split", small)
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


def experiment(request: Request) -> Experiment:
    """Curves of the available models, next to the published ones if published.json is available.

    Seeds draw halves, where there are any; results are the mean over seeds. A quick run is the same
    as a full run.
    """
    files, absent = available(request.data, [source.file for source in SOURCES.values()])
    if RESNET20 in files and not _humans_of_resnet20(request.data):
        files.remove(RESNET20)
        absent += ("CIFAR-10H, to evaluate ResNet-20",)
    found = {name: source for name, source in SOURCES.items() if source.file in files}

    @lru_cache(maxsize=1)  # the cells of a data set and seed follow each other
    def load(name: str, seed: int) -> LogitSplit:
        return found[name].load(request.data, seed)

    def rows(cell: Cell) -> list[Row]:
        split = load(cell.data, cell.seed)
        model = decal.Decalibrator(**(METHODS | READINGS)[cell.method])
        return measure(model.fit(split.logits, split.labels), split, FALLING).rows()

    published = Published(request.data)
    curves = () if published.available else ("published.json, for the published curves",)
    return Experiment(
        columns=COLUMNS,
        level="alpha",
        cells=[
            Cell(name, method, seed)
            for name, source in found.items()
            for seed in source.seeds(request.seeds)
            for method in source.methods()
        ],
        levels=lambda _: ALPHAS,
        inputs=lambda cell: {
            "data": contents(request.data, found[cell.data].file),
            "settings": (METHODS | READINGS)[cell.method],
        },
        rows=rows,
        findings=partial(findings, published=published, seeds=request.seeds),
        seeds=(0, *request.seeds),
        needs=(*curves, *absent, *NEEDS),
    )


def _humans_of_resnet20(folder: Path) -> bool:
    """Whether CIFAR-10H is available for the images that ResNet-20 was tested on."""
    (labels,) = read(folder / f"{RESNET20}.npz", "test_labels")
    return human_labels(folder, labels) is not None


# Reporting


def findings(store: RowStore, *, published: Published, seeds: Sequence[int]) -> Findings:
    """Tables, figures and claims of the mean over seeds."""
    curves = {
        source: found for source in SOURCES.values() if (found := _mean(store, source, seeds))
    }
    theirs = {source: published.coverage(*source.published[:2]) for source in curves}
    report = Report(
        title="Coverage and efficiency on CIFAR-10H, against the published run",
        headings=("alpha", "coverage", "publ.", "diff.", "efficiency", "publ.", "diff."),
        sections=_same(curves, theirs),
        caption=(
            "class shifts, fitted and evaluated on the 10,000 test images; the published run was "
            "fitted on the 50,000 training images"
        ),
        claims=tuple(_claims(curves, theirs)),
        further=(
            Table(
                title=f"Coverage/efficiency of all models by alpha, {seeds_text(seeds)}",
                headings=("method", *(f"{alpha:g}" for alpha in INNER)),
                sections=_others(curves, theirs),
                caption=(
                    f"{'; '.join(f'{split}: {words}' for split, words in WORDS.items())}\n"
                    "published: class shifts, of the model named if it is another on these data"
                ),
            ),
            Table(
                title="Other readings of the paper: coverage/efficiency by alpha",
                headings=("reading", *(f"{alpha:g}" for alpha in INNER), "gap"),
                sections=_readings(curves, theirs),
                caption=(
                    "class: mean of log-likelihoods, joint box, measured from the model as it is\n"
                    "gap: largest difference from the published curve at any of the eight alphas"
                ),
            ),
        ),
    )
    return Findings(
        report,
        {
            "paper_models": partial(tradeoffs, _panels(curves, theirs, same=True)),
            "other_models": partial(tradeoffs, _panels(curves, theirs, same=False)),
        },
    )


Numbers = dict[float, tuple[float, float]]
"""Coverage and efficiency by alpha."""

Ours = Mapping[CurveSource, Mapping[str, Numbers]]
Theirs = Mapping[CurveSource, PublishedCurve | None]
"""Curves by model and method; published curves by the model that is compared with them."""


def _mean(store: RowStore, source: CurveSource, seeds: Sequence[int]) -> dict[str, Numbers]:
    found: dict[str, Numbers] = {}
    for method in source.methods():
        cells = [Cell(source.name, method, seed) for seed in source.seeds(seeds)]
        rows = [row for cell in cells for row in store.cells.get(cell, ())]
        for alpha in ALPHAS:
            at = [(r["coverage"], r["efficiency"]) for r in rows if r["alpha"] == alpha]
            if at:
                coverage, efficiency = np.mean(at, axis=0)
                found.setdefault(method, {})[alpha] = float(coverage), float(efficiency)
    return found


def _same(curves: Ours, published: Theirs) -> Sections:
    sections: Sections = {}
    for source, by_method in curves.items():
        if source.same_model:
            rows: list[tuple[str, ...]] = []
            for alpha, (coverage, efficiency) in by_method["class"].items():
                theirs = _theirs(published[source], alpha)
                pairs = zip((coverage, efficiency), theirs, strict=True)
                texts = [(number(a), number(b), signed(a - b, 4)) for a, b in pairs]
                rows.append((f"{alpha:g}", *texts[0], *texts[1]))
            sections[source.title] = rows
    return sections


def _others(curves: Ours, published: Theirs) -> Sections:
    sections: Sections = {}
    for source, by_method in curves.items():
        theirs = {alpha: _theirs(published[source], alpha) for alpha in INNER}
        lines = {name: by_method[name] for name in METHODS if name in by_method}
        lines[f"published {source.published[2]}".strip()] = theirs
        sections[f"{source.title}, {source.split}"] = [
            (method, *(_pair(at.get(alpha)) for alpha in INNER)) for method, at in lines.items()
        ]
    return sections


def _readings(curves: Ours, published: Theirs) -> Sections:
    sections: Sections = {}
    for source, by_method in curves.items():
        if source.same_model:
            sections[source.title] = [
                (
                    name,
                    *(_pair(by_method[name].get(alpha)) for alpha in INNER),
                    number(_gaps(by_method[name], published[source]).max()),
                )
                for name in ("class", *READINGS)
                if name in by_method
            ]
    return sections


def _claims(curves: Ours, published: Theirs) -> list[Claim]:
    claims = []
    for source, by_method in curves.items():
        theirs = published[source]
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
    """(A, 2) differences of coverage and efficiency from the published ones, or NaN."""
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
    curves: Ours,
    published: Theirs,
    *,
    same: bool,
) -> dict[str, dict[str, Tradeoff]]:
    """By title, the curves of each method and the published one: alpha, coverage, efficiency."""
    panels: dict[str, dict[str, Tradeoff]] = {}
    for source, by_method in curves.items():
        if source.same_model == same:
            lines: dict[str, Tradeoff] = {
                method: (list(at), [c for c, _ in at.values()], [e for _, e in at.values()])
                for method, at in by_method.items()
                if method in METHODS
            }
            theirs = published[source]
            if theirs is not None:
                lines["published" if same else "published, another model"] = theirs.path()
            panels[source.title] = lines
    return panels
