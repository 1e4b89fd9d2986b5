"""Which inputs are foreign: AUROC of the epistemic uncertainty against four other sets of images.

A ResNet-20 for CIFAR-10, decalibrated on its training logits; in-distribution are CIFAR-10's test
images. The score is the upper minus the lower entropy, as in the paper, whose networks (ResNet-18)
and most of whose data are not at hand. So that its small alphas can be understood, the published
solver runs on a sample of the same logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp, softmax

import decal
from decal._experiments.harness import slsqp
from decal._experiments.harness.figures import save_all
from decal._experiments.harness.logit_sets import require_file
from decal._experiments.harness.published_detection import OUT_SETS
from decal._experiments.harness.published_results import ALPHAS, Published
from decal._experiments.harness.reports import (
    Claim,
    Report,
    Table,
    number,
    seeds_text,
    signed,
    write_tables,
)
from decal._experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore, Track, untracked

Array = NDArray[np.float64]

FILE = "resnet20_cifar10.npz"
INSIDE = "cifar10_test"
OUTSIDE = {
    "tinyimagenet": "Tiny-ImageNet",
    "fashionmnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "notmnist": "notMNIST",
}
"""Keys of the file, and what people call them."""

CLASS, BOTH = "class shifts", "temperature too"
SLSQP, EXACT, LOST = "SLSQP", "exact, sample", "upper ends lost"
DIRECTIONS = {CLASS: ("class",), BOTH: ("class", "temperature")}

FREE: dict[str, Callable[[Array], Array]] = {
    "maximum probability": lambda z: 1 - softmax(z, axis=1).max(axis=1),
    "entropy of the prediction": lambda z: np.asarray(entr(softmax(z, axis=1)).sum(axis=1)),
    "energy": lambda z: -np.asarray(logsumexp(z, axis=1)),
}
"""Scores that need no credal set; their rows have alpha 1."""

SAMPLE_FIT, SAMPLE = 5000, 200
"""Training logits, and inputs of each set, that SLSQP is given: drawn by the seed."""

SLSQP_ALPHAS = ALPHAS[1:]
QUICK_SLSQP_ALPHAS = (0.2, 0.8)
LOST_ALPHA = 0.2
"""Where the published sets hold everything: their published efficiency is exactly 0."""

STEADY, STEADY_WITHIN = (0.6, 0.95), 0.04

COLUMNS = CELL | {"alpha": float, "auroc": float, "inside": int, "outside": int} | ORIGIN

STYLES: dict[str, dict[str, Any]] = {
    CLASS: {"color": "#0072B2", "linewidth": 2.0, "marker": "o", "markersize": 4},
    BOTH: {"color": "#E69F00", "linewidth": 1.4, "marker": "s", "markersize": 3.5},
    SLSQP: {
        "color": "#D55E00",
        "linewidth": 1.4,
        "linestyle": (0, (4, 1.5)),
        "marker": "v",
        "markersize": 4.5,
    },
    LOST: {"color": "#D55E00", "linestyle": "none", "marker": "X", "markersize": 7},
    "energy": {"color": "#009E73", "linewidth": 1.2, "linestyle": (0, (1, 1))},
    "maximum probability": {"color": "#CC79A7", "linewidth": 1.2, "linestyle": (0, (1, 1))},
}
PUBLISHED_STYLE = {"color": "#8a8a8a", "linewidth": 1.4, "marker": ".", "markersize": 5}


def run(
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...] = (0,),
    quick: bool = False,
    track: Track = untracked,
) -> Report:
    """Compute the cells that are missing, then write the tables and figures of all there are.

    Parameters
    ----------
    data : folder that holds resnet20_cifar10.npz, and published.json if possible.
    out : folder of results, created if need be.
    seeds : draw the rows that SLSQP is given; the other scores use all rows, whatever the seed.
    quick : SLSQP at two alphas only.
    track : hands on the cells to compute, for a progress bar.
    """
    path = require_file(data, FILE)
    store = RowStore(out / "rows.csv", COLUMNS, level="alpha")
    absent = [title for name, title in OUT_SETS.items() if name != "fmnist"]
    needs = [f"{title} (a CIFAR-10 network's logits)" for title in absent]
    needs.append("trained ensembles, EDL and DDU networks for CIFAR-10 (see fashion-mnist)")
    scores = Scores(path)
    sampled = QUICK_SLSQP_ALPHAS if quick else SLSQP_ALPHAS
    levels: dict[str, tuple[float, ...]] = dict.fromkeys(DIRECTIONS, ALPHAS)
    levels |= dict.fromkeys(FREE, (1.0,))
    levels |= {SLSQP: sampled, EXACT: sampled, LOST: (LOST_ALPHA,)}
    for method, alphas in levels.items():
        cells = [Cell(name, method, seed) for seed in seeds for name in scores.outside]
        store.fill(cells, alphas, partial(scores.rows, alphas=alphas), track=track)
    return report(store, out, Published(data), seeds=seeds, needs=tuple(needs))


class Scores:
    """Scores of the inputs in a file of logits, each computed once.

    Parameters
    ----------
    path : the .npz file.
    """

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as archive:
            self.arrays = {name: archive[name] for name in archive.files}
        self.outside = [name for name in OUTSIDE if name in self.arrays]
        self._models: dict[str, decal.Decalibrator] = {}
        self._samples: dict[int, Sample] = {}

    def rows(self, cell: Cell, alphas: tuple[float, ...]) -> Iterator[Row]:
        """The AUROC of a cell's method against its set at each alpha."""
        for alpha in alphas:
            inside, outside = (
                self.score(cell.method, name, alpha, cell.seed) for name in (INSIDE, cell.data)
            )
            yield {
                "alpha": alpha,
                "auroc": decal.metrics.auroc(inside, outside),
                "inside": len(inside),
                "outside": len(outside),
            }

    def score(self, method: str, name: str, alpha: float, seed: int) -> Array:
        """(n,) scores of the inputs called `name`; higher means more likely foreign."""
        if method in FREE:
            return FREE[method](self.arrays[name].astype(np.float64))
        if method in DIRECTIONS:
            if method not in self._models:
                model = decal.Decalibrator(directions=DIRECTIONS[method])
                train = self.arrays["cifar10_train"], self.arrays["train_labels"]
                self._models[method] = model.fit(*train)
            sets = self._models[method].predict(self.arrays[name], alpha=alpha)
            return np.asarray(sets.epistemic())
        if seed not in self._samples:
            self._samples[seed] = Sample(self.arrays, seed)
        return self._samples[seed].score(method, name, alpha)


class Sample:
    """The rows that SLSQP is given, and its scores."""

    def __init__(self, arrays: dict[str, Any], seed: int) -> None:
        rng = np.random.default_rng(seed)

        def draw(name: str, size: int) -> NDArray[np.intp]:
            return rng.permutation(len(arrays[name]))[:size]

        fit = draw("cifar10_train", SAMPLE_FIT)
        self.fit = arrays["cifar10_train"][fit], arrays["train_labels"][fit]
        names = [INSIDE, *(name for name in OUTSIDE if name in arrays)]
        self.logits = {name: arrays[name][draw(name, SAMPLE)] for name in names}
        self._known: dict[tuple[str, str, float], Array] = {}

    @cached_property
    def ends(self) -> Array:
        """(alphas, 2, K) what SLSQP returns."""
        return slsqp.ends(slsqp.Ratio(*self.fit), SLSQP_ALPHAS)

    @cached_property
    def exact(self) -> decal.Decalibrator:
        """Fitted on the same rows."""
        return decal.Decalibrator().fit(*self.fit)

    def score(self, method: str, name: str, alpha: float) -> Array:
        """(n,) difference of entropies: exact, or by SLSQP of SLSQP's sets."""
        key = method, name, alpha
        if key not in self._known:
            self._known[key] = self._score(*key)
        return self._known[key]

    def _score(self, method: str, name: str, alpha: float) -> Array:
        if method == EXACT:
            return np.asarray(self.exact.predict(self.logits[name], alpha=alpha).epistemic())
        ends = self.ends[SLSQP_ALPHAS.index(alpha) :]
        if method == LOST:
            ends = ends.copy()
            ends[0, 1] = np.where(abs(ends[0, 1]) > slsqp.DIVERGED, ends[0, 1], 1e31)
        return slsqp.entropy_difference(slsqp.moved_predictions(self.logits[name], ends))


# Reporting


def report(
    store: RowStore,
    out: Path,
    published: Published,
    *,
    seeds: tuple[int, ...],
    needs: tuple[str, ...] = (),
) -> Report:
    """Write the tables and figures of the rows of these seeds, and sum them up."""
    means = aurocs(store, seeds)
    sections: dict[str, list[tuple[str, ...]]] = {}
    for name, title in OUTSIDE.items():
        lines = []
        for method in (CLASS, BOTH, SLSQP, EXACT, LOST):
            values = [means.get((name, method, alpha), np.nan) for alpha in ALPHAS]
            if not np.isnan(values).all():
                lines.append((method, *map(number, values)))
        curve = published.ood("cifar10", "fmnist", "resnet") if name == "fashionmnist" else None
        if curve is not None and lines:
            theirs = [curve.at("auroc", alpha) for alpha in ALPHAS]
            ours = [means.get((name, CLASS, alpha), np.nan) for alpha in ALPHAS]
            lines.append(("published", *map(number, theirs)))
            gaps = [signed(a - b) for a, b in zip(ours, theirs, strict=True)]
            lines.append(("difference", *gaps))
        if lines:
            sections[title] = lines
    result = Report(
        title=f"AUROC by the difference of entropies, {seeds_text(seeds)}",
        headings=("score", *(f"{alpha:g}" for alpha in ALPHAS)),
        sections=sections,
        caption=(
            "columns: alpha; ResNet-20 for CIFAR-10, fitted on its training logits\n"
            f"{BOTH}: class shifts and the scale; published: ResNet-18\n"
            f"{SLSQP}: as published, on {SAMPLE_FIT:,} logits to fit and {SAMPLE} inputs a set; "
            f"{EXACT}: on those\n"
            f"{LOST}: as if all had diverged (published efficiency at 0.2: 0.000)"
        ),
        claims=tuple(_claims(means)),
        needs=needs,
        notes=tuple(store.origins(seeds)),
        further=(*_free_table(means), *_published_table(published)),
    )
    files = [store.path, *write_tables(result, out)]
    drawn, notes = save_all({"auroc": lambda: _draw(means, published)} if means else {}, out)
    return replace(result, files=(*files, *drawn), notes=(*result.notes, *notes))


def aurocs(store: RowStore, seeds: tuple[int, ...]) -> dict[tuple[str, str, float], float]:
    """AUROC by set, method and alpha: the mean over the seeds."""
    found: dict[tuple[str, str, float], list[float]] = {}
    for cell, rows in store.cells.items():
        if cell.seed in seeds:
            for row in rows:
                found.setdefault((cell.data, cell.method, row["alpha"]), []).append(row["auroc"])
    return {key: float(np.mean(values)) for key, values in found.items()}


def _claims(means: dict[tuple[str, str, float], float]) -> Iterator[Claim]:
    names = [name for name in OUTSIDE if (name, CLASS, 0.9) in means]
    if not names:
        return
    gain = min(means[n, CLASS, 0.9] - means[n, "entropy of the prediction", 1.0] for n in names)
    yield Claim(
        f"class shifts at alpha 0.9 beat the entropy of the prediction on every set: "
        f"least gain {signed(gain)}",
        gain > 0,
    )
    gap = min(means[n, CLASS, 0.9] - means[n, "energy", 1.0] for n in names)
    yield Claim(f"and match the energy, the best free score: least gain {signed(gap)}", gap > -0.01)
    inner = [alpha for alpha in ALPHAS if STEADY[0] <= alpha <= STEADY[1]]
    spread = max(np.ptp([means[n, CLASS, alpha] for alpha in inner]) for n in names)
    yield Claim(
        f"class shifts are steady from alpha {STEADY[0]:g} to {STEADY[1]:g}: "
        f"AUROC moves by {spread:.3f} at most (wanted {STEADY_WITHIN:g} or less)",
        bool(spread <= STEADY_WITHIN),
    )
    lost = [means[n, LOST, LOST_ALPHA] for n in names if (n, LOST, LOST_ALPHA) in means]
    if lost:
        yield Claim(
            "sets that hold everything leave SLSQP's noise to tell inputs apart, as in the "
            f"published 0.47: AUROC {min(lost):.3f} to {max(lost):.3f}",
            min(lost) > 0.35 and max(lost) < 0.65,
        )


def _free_table(means: dict[tuple[str, str, float], float]) -> Iterator[Table]:
    rows = [
        (method, *(number(means.get((name, method, 1.0), np.nan)) for name in OUTSIDE))
        for method in FREE
    ]
    rows += [
        (f"{CLASS}, {alpha:g}", *(number(means.get((n, CLASS, alpha), np.nan)) for n in OUTSIDE))
        for alpha in (0.8, 0.9, 0.95)
    ]
    if means:
        yield Table("Against scores that need no set", ("score", *OUTSIDE.values()), {"": rows})


def _published_table(published: Published) -> Iterator[Table]:
    rows = []
    for name, title in OUT_SETS.items():
        curve = published.ood("cifar10", name, "resnet")
        if curve is not None:
            rows.append((title, *(number(curve.at("auroc", alpha)) for alpha in ALPHAS)))
    if rows:
        yield Table(
            "Published: the paper's ResNet-18, mean of three seeds",
            ("against", *(f"{alpha:g}" for alpha in ALPHAS)),
            {"": rows},
            "another network, trained by the authors: not to be compared cell by cell",
        )


def _draw(means: dict[tuple[str, str, float], float], published: Published) -> Any:
    from matplotlib import pyplot as plt

    places = dict(zip(ALPHAS, range(len(ALPHAS)), strict=True))
    names = [name for name in OUTSIDE if any(key[0] == name for key in means)]
    theirs = {
        title: curve
        for name, title in OUT_SETS.items()
        if (curve := published.ood("cifar10", name, "resnet")) is not None
    }
    panels = len(names) + bool(theirs)
    figure, axes = plt.subplots(
        1, panels, figsize=(2.5 * panels, 3.1), sharey=True, squeeze=False, layout="constrained"
    )
    for ax, name in zip(axes[0], names, strict=False):
        ax.set_title(OUTSIDE[name], fontsize=9)
        for method, style in STYLES.items():
            points = [(a, v) for (n, m, a), v in sorted(means.items()) if (n, m) == (name, method)]
            if not points:
                continue
            if method in FREE:
                ax.axhline(points[0][1], label=method, **style)
            else:
                ax.plot([places[a] for a, _ in points], [v for _, v in points], **style,
                        label=method)  # fmt: skip
    for i, (title, curve) in enumerate(theirs.items()):
        ax = axes[0, -1]
        ax.set_title("published, ResNet-18", fontsize=9)
        values = [curve.at("auroc", alpha) for alpha in ALPHAS]
        shade = {"linestyle": ("-", "--", ":", "-.", (0, (5, 1)))[i], "label": title}
        ax.plot(range(len(ALPHAS)), values, **PUBLISHED_STYLE | shade)
        ax.legend(frameon=False, fontsize=6.5, loc="lower right")
    for ax in axes[0]:
        ax.set_xticks(range(len(ALPHAS)), [f"{a:g}" for a in ALPHAS], fontsize=7)
        ax.tick_params(labelsize=7, length=0)
        ax.grid(color="#8a8a8a", alpha=0.25, linewidth=0.5)
        ax.set_ylim(0.2, 1.0)
        ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("alpha", fontsize=9)
    axes[0, 0].set_ylabel("AUROC", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=8
    )
    return figure
