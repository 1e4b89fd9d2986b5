"""Spiders of the paper's inputs, by three models, in four languages, and by two specialists.

The inputs are those of the paper's figures, and those of most epistemic and of most aleatoric
uncertainty by our exact entropies; a table counts how many of the published ones are among ours.
On CIFAR-10 the public logits are of test images only, so these also fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import decal
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import TITLES, available, read
from decal_lab.experiments.harness.published_tables import (
    COMPARED_IMAGES,
    DERMA_IMAGES,
    LANGUAGE_IMAGE,
    MOST_ALEATORIC,
    MOST_EPISTEMIC,
    SPIDERS,
)
from decal_lab.experiments.harness.reports import Report, Sections, Table, number
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

MODELS = ("clip", "siglip", "siglip2")
LANGUAGES = ("en", "fr", "zh", "sw")
CIFAR = tuple(f"{model}_cifar10_{language}" for model in MODELS for language in LANGUAGES)
DERMA = ("clip_dermamnist_en", "biomedclip_dermamnist_en")

SPIDER = "spider"
RANKINGS = {"most epistemic": MOST_EPISTEMIC, "most aleatoric": MOST_ALEATORIC}
RANKED_ALPHA = 0.8
RANKED = 100
"""Number of images in each ranking; figures show the first three."""

COLUMNS = {
    **CELL,
    "place": str,  # image, alpha and class; in rankings, the rank
    "image": int,
    "rank": int,  # by uncertainty, from 1; 0 outside rankings
    "alpha": float,
    "class": str,
    "lower": float,
    "upper": float,
    "point": float,
    "truth": float,
    "nats": float,  # the uncertainty; nan outside rankings
    **ORIGIN,
}

EMPTY: Row = {
    "class": "",
    "alpha": RANKED_ALPHA,
    **dict.fromkeys(("lower", "upper", "point", "truth"), np.nan),
}
"""Columns that have no value in rankings."""

NEEDS = (
    "CIFAR-10's and DermaMNIST's images, to show next to their spiders",
    "CIFAR-10's training logits (the published sets were fitted on them)",
)


def experiment(request: Request) -> Experiment:
    """The spiders of every available model and, for English prompts, its rankings.

    Nothing is drawn, so seeds are not used. A quick run is the same as a full run.
    """
    names, absent = available(request.data, (*CIFAR, *DERMA))

    @lru_cache(maxsize=1)
    def load(name: str) -> tuple[decal.Decalibrator, Any, Any]:
        return fitted(request.data / f"{name}.npz")

    def rows(cell: Cell) -> list[Row]:
        model, logits, truth = load(cell.data)
        if cell.method in RANKINGS:
            return _ranking(cell, model, logits, truth)
        pairs = [pair for pair in wanted(cell.data) if pair[0] < len(logits)]
        return [row for pair in pairs for row in _spokes(model, logits, truth, *pair)]

    return Experiment(
        columns=COLUMNS,
        level="place",
        cells=[
            Cell(name, method, 0)
            for method in (SPIDER, *RANKINGS)
            for name in names
            if method == SPIDER or (name in CIFAR and name.endswith("_en"))
        ],
        levels=_first_place,
        inputs=lambda cell: {"data": request.data / f"{cell.data}.npz"},
        rows=rows,
        findings=findings,
        seeds=(0,),
        needs=(*absent, *NEEDS),
    )


def _first_place(cell: Cell) -> tuple[str]:
    """The first row of a cell, which shows that it is there: a cell is complete or absent."""
    if cell.method in RANKINGS:
        return ("rank 1",)
    image, alpha = wanted(cell.data)[0]
    return (f"{image} {alpha:g} 0",)


def wanted(name: str) -> list[tuple[int, float]]:
    """The images of a model's spiders, and their alphas."""
    if name in DERMA:
        return [(image, 0.9) for image in DERMA_IMAGES]
    model, language = name.split("_cifar10_")
    pairs = [(LANGUAGE_IMAGE, 0.8), (LANGUAGE_IMAGE, 0.9)]
    if language == "en":
        pairs += [(image, 0.9) for image in COMPARED_IMAGES]
        pairs += [(image, alpha) for m, image, alpha in SPIDERS["main"] if m == model]
    return list(dict.fromkeys(pairs))


def _ranking(cell: Cell, model: decal.Decalibrator, logits: Any, truth: Any) -> list[Row]:
    """The most uncertain images, the ranks of the published ones, and the first three spiders."""
    lower, upper = model.predict(logits, alpha=RANKED_ALPHA).entropy()
    nats = upper - lower if cell.method == "most epistemic" else lower
    order = [int(image) for image in np.argsort(-nats, kind="stable")]
    ranks = {image: rank for rank, image in enumerate(order, start=1)}
    theirs = RANKINGS[cell.method][cell.data.split("_")[0]]
    places = {f"rank {rank}": image for rank, image in enumerate(order[:RANKED], start=1)}
    places |= {f"published {i}": image for i, image in enumerate(theirs, start=1)}
    ranked = [
        {**EMPTY, "place": p, "image": i, "rank": ranks[i], "nats": float(nats[i])}
        for p, i in places.items()
        if i in ranks
    ]
    drawn = [row for i in order[:3] for row in _spokes(model, logits, truth, i, RANKED_ALPHA)]
    return ranked + drawn


def fitted(path: Path) -> tuple[decal.Decalibrator, Any, Any]:
    """A fitted model, logits to predict, and their true distributions.

    Classes of the same name are numbered: in Swahili, two of CIFAR-10's have the same name.
    """
    with np.load(path, allow_pickle=False) as archive:
        derma = "train_logits" in archive.files
    if derma:
        keys = ("train_logits", "train_labels", "test_logits", "test_labels", "classes")
        fit, labels, logits, right, classes = read(path, *keys)
        truth = np.eye(logits.shape[1])[right]
    else:
        logits, labels, truth, classes = read(path, "logits", "labels", "human", "classes")
        fit = logits
    texts = [str(name) for name in classes]
    names = [f"{t} ({k})" if texts.count(t) > 1 else t for k, t in enumerate(texts)]
    return decal.Decalibrator().fit(fit, labels, classes=names), logits, truth


def _spokes(
    model: decal.Decalibrator, logits: Any, truth: Any, image: int, alpha: float
) -> list[Row]:
    credal = model.predict(logits[image : image + 1], alpha=alpha)
    names = credal.classes or ()
    assert credal.point is not None
    return [
        {
            "place": f"{image} {alpha:g} {k}",
            "image": image,
            "rank": 0,
            "alpha": alpha,
            "class": names[k],
            "lower": float(credal.lower[0, k]),
            "upper": float(credal.upper[0, k]),
            "point": float(credal.point[0, k]),
            "truth": float(truth[image, k]),
            "nats": np.nan,
        }
        for k in range(len(names))
    ]


# Reporting


SMALL, LARGE = (3.15, 3.2), (5.0, 4.2)
LONG_NAME = 15
"""Inches of a spider, and the length of a class name from which it is drawn large."""

Spider = tuple[str, decal.IntervalCredalSet | None, Any]
"""A title, the credal set of one input, and its true distribution; None leaves a gap."""


def findings(store: RowStore) -> Findings:
    """Tables and figures of all rows."""
    report = Report(
        title="Images of the paper's spiders: the two classes of largest upper probability",
        headings=("model, image", "foremost", "next", "label"),
        sections=_believed(store),
        caption="intervals of class shifts; with the label, the share of people who chose it",
        further=(
            Table(
                title=f"Most uncertain images at alpha {RANKED_ALPHA:g}, and the published lists",
                headings=("model", "our first five", "in our 20", "median rank", "last"),
                sections=_overlaps(store),
                caption=(
                    "of the twenty published: how many are among our first twenty, the median "
                    "and the last of their ranks among 10,000 images\n"
                    "published: fitted on training logits, entropies by SLSQP; ours: fitted on "
                    "test logits, entropies exact"
                ),
            ),
        ),
    )
    pages = {name: page for name, page in pages_of(store).items() if page}
    return Findings(report, {name: partial(_draw, page) for name, page in pages.items()})


def spider_of(
    store: RowStore, name: str, image: int, alpha: float, *, method: str = SPIDER, title: str = ""
) -> Spider | None:
    """One spider, rebuilt from its rows; None if it has no rows."""
    rows = [
        row
        for row in store.cells.get(Cell(name, method, 0), ())
        if row["image"] == image and row["alpha"] == alpha and row["class"]
    ]
    if not rows:
        return None
    lower, upper, point, truth = (
        np.array([[row[key] for row in rows]]) for key in ("lower", "upper", "point", "truth")
    )
    classes = [row["class"] for row in rows]
    point /= point.sum()
    return title, decal.IntervalCredalSet(lower, upper, point=point, classes=classes), truth[0]


Wanted = tuple[str, int, float, str]
"""The file of a model, an image, an alpha and a title."""


def pages_of(store: RowStore) -> dict[str, list[list[Spider]]]:
    """Lines of spiders by the name of their figure; lines without any spider are left out."""
    pages = {name: (SPIDER, lines) for name, lines in _paper_pages().items()}
    for method in RANKINGS:
        lines = [
            [
                (f"{m}_cifar10_en", image, RANKED_ALPHA, f"{TITLES[m]} · image {image}")
                for image in ranking(store, m, method)[:3]
            ]
            for m in MODELS
        ]
        pages[method.replace(" ", "_")] = method, lines
    drawn: dict[str, list[list[Spider]]] = {}
    for page, (method, lines) in pages.items():
        spiders = [
            [
                spider_of(store, name, image, alpha, method=method, title=title)
                or (title, None, None)
                for name, image, alpha, title in line
            ]
            for line in lines
        ]
        drawn[page] = [line for line in spiders if any(c is not None for _, c, _ in line)]
    return drawn


def _paper_pages() -> dict[str, list[list[Wanted]]]:
    """The spiders of the paper's figures, by the name of the figure."""
    main: list[Wanted] = [
        (f"{m}_cifar10_en", image, alpha, f"{TITLES[m]} · image {image} · α = {alpha:g}")
        for m, image, alpha in SPIDERS["main"]
    ]
    pages = {"main_paper": [main[:4], main[4:]]}
    pages["models"] = [
        [(f"{m}_cifar10_en", image, 0.9, f"{TITLES[m]} · image {image}") for m in MODELS]
        for image in COMPARED_IMAGES
    ]
    for alpha in (0.8, 0.9):
        pages[f"languages_{alpha:g}"] = [
            [
                (f"{m}_cifar10_{x}", LANGUAGE_IMAGE, alpha, f"{TITLES[m]} · {TITLES[x]}")
                for x in LANGUAGES
            ]
            for m in MODELS
        ]
    pages["dermamnist"] = [
        [(name, image, 0.9, f"{TITLES[name.split('_')[0]]} · image {image}") for name in DERMA]
        for image in DERMA_IMAGES
    ]
    return pages


def ranking(store: RowStore, model: str, method: str) -> list[int]:
    """The images of a model's ranking, the most uncertain first."""
    rows = store.cells.get(Cell(f"{model}_cifar10_en", method, 0), ())
    return [row["image"] for row in rows if row["place"].startswith("rank ")]


def _believed(store: RowStore) -> Sections:
    sections: Sections = {}
    for name in (*CIFAR, *DERMA):
        for image, alpha in wanted(name):
            spider = spider_of(store, name, image, alpha)
            if spider:
                _, credal, truth = spider
                assert credal is not None
                names = credal.classes or ()
                first = np.argsort(-credal.upper[0], kind="stable")[:2]
                texts = [
                    f"{_short(names[k])} {credal.lower[0, k]:.2f}–{credal.upper[0, k]:.2f}"
                    for k in first
                ]
                right = int(truth.argmax())
                model, data, language = name.split("_")
                heading = "DermaMNIST" if data == "dermamnist" else TITLES[language]
                sections.setdefault(f"{heading}, alpha {alpha:g}", []).append(
                    (
                        f"{TITLES[model]}, {image}",
                        *texts,
                        f"{_short(names[right])} {number(truth[right], 2)}",
                    )
                )
    return sections


def _overlaps(store: RowStore) -> Sections:
    sections: Sections = {}
    for method in RANKINGS:
        for model in MODELS:
            ours = ranking(store, model, method)
            rows = store.cells.get(Cell(f"{model}_cifar10_en", method, 0), ())
            ranks = [row["rank"] for row in rows if row["place"].startswith("published ")]
            if ranks:
                row = (
                    TITLES[model],
                    " ".join(map(str, ours[:5])),
                    f"{sum(rank <= len(ranks) for rank in ranks)} of {len(ranks)}",
                    f"{np.median(ranks):.0f}",
                    str(max(ranks)),
                )
                sections.setdefault(method, []).append(row)
    return sections


def _short(name: str) -> str:
    return name if len(name) <= 11 else f"{name[:10]}…"


def _draw(page: Sequence[Sequence[Spider]]) -> Any:
    """Lines of spiders, and one legend below."""
    from matplotlib import pyplot as plt

    from decal import plot

    columns = max(map(len, page))
    names = {name for line in page for _, c, _ in line if c is not None for name in c.classes or ()}
    width, height = SMALL if max(map(len, names)) < LONG_NAME else LARGE
    figure = plt.figure(figsize=(width * columns, height * len(page) + 0.4), layout="constrained")
    grid = figure.add_gridspec(len(page), columns)
    handles: list[Any] = []
    for line, spiders in enumerate(page):
        for column, (title, credal, truth) in enumerate(spiders):
            ax = figure.add_subplot(grid[line, column], projection="polar")
            if credal is None:
                ax.set_axis_off()
                ax.text(0, 0, f"{title}\nnot available", ha="center", va="center", alpha=0.6)
                continue
            plot.spider(credal, ax=ax, truth=truth, legend=not handles)
            above = ax.texts[0].get_text().count("\n") + 1
            ax.set_title(title, fontsize="medium", pad=9 + 10 * above)
            legend = ax.get_legend()
            if legend is not None:
                handles = list(legend.legend_handles)
                legend.remove()
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure
