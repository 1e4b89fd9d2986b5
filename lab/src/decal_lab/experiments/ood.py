"""Out-of-distribution detection: AUROC of the uncertainty of sets against four sets of images.

A ResNet-20 for CIFAR-10 is decalibrated on its training logits; CIFAR-10's test images are in
distribution. The score is the upper minus the lower entropy, as in the paper, whose networks
(ResNet-18) and most of whose data are not available; the upper entropy alone and the mean width of
the same sets stand beside it (`scores` has all measures). To explain the paper's results at small
alphas, the published solver runs on a sample of the same logits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp, softmax

import decal
from decal_lab.experiments.harness import published_solver
from decal_lab.experiments.harness.experiment import Experiment, Findings, Request
from decal_lab.experiments.harness.logit_sets import require_file
from decal_lab.experiments.harness.published_detection import one_network_table
from decal_lab.experiments.harness.published_results import ALPHAS, Published
from decal_lab.experiments.harness.published_tables import OUT_SETS
from decal_lab.experiments.harness.reports import Claim, Report, Table, number, seeds_text, signed
from decal_lab.experiments.harness.rows import CELL, ORIGIN, Cell, Row, RowStore

Array = NDArray[np.float64]

FILE = "resnet20_cifar10.npz"
INSIDE = "cifar10_test"
OUTSIDE = {
    "tinyimagenet": "Tiny-ImageNet",
    "fashionmnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "notmnist": "notMNIST",
}
"""Out-of-distribution sets by their keys in the file."""

CLASS, BOTH = "class shifts", "temperature too"
SLSQP, EXACT, LOST = "SLSQP", "exact, sample", "upper endpoints lost"
DIRECTIONS = {CLASS: ("class",), BOTH: ("class", "temperature")}

BY = ", by "
MEASURES: dict[str, Callable[[decal.IntervalCredalSet], Array]] = {
    "upper entropy": lambda c: c.total(),
    "width": lambda c: c.epistemic("width"),
}
"""What else scores the sets; the paper's score is the difference of entropies."""

OTHERWISE = {f"{d}{BY}{m}": (d, m) for d in DIRECTIONS for m in MEASURES}
"""Methods with another score than the paper's: their directions and measure."""

PAPER = "difference of entropies"
BY_SETS = {d: (d, PAPER) for d in DIRECTIONS} | OTHERWISE
"""The directions and the score of every method that scores sets."""

FREE: dict[str, Callable[[Array], Array]] = {
    "maximum probability": lambda z: 1 - softmax(z, axis=1).max(axis=1),
    "entropy of the prediction": lambda z: np.asarray(entr(softmax(z, axis=1)).sum(axis=1)),
    "energy": lambda z: -np.asarray(logsumexp(z, axis=1)),
}
"""Scores that need no credal set. Their rows have alpha 1."""

SAMPLE_FIT, SAMPLE = 5000, 200
"""Number of training logits, and of inputs of each set, that the seed draws for SLSQP."""

SLSQP_ALPHAS = ALPHAS[1:]
QUICK_SLSQP_ALPHAS = (0.2, 0.8)
LOST_ALPHA = 0.2
"""Here the published sets hold everything: their published efficiency is exactly 0."""

STEADY, STEADY_WITHIN = (0.6, 0.95), 0.04

TOLERATED = 0.01
"""The largest loss in AUROC against the difference of entropies that does not count."""

COLUMNS = CELL | {"alpha": float, "auroc": float, "inside": int, "outside": int} | ORIGIN

STYLES: dict[str, dict[str, Any]] = {
    CLASS: {"color": "#0072B2", "linewidth": 2.0, "marker": "o", "markersize": 4},
    BOTH: {"color": "#E69F00", "linewidth": 1.4, "marker": "s", "markersize": 3.5},
    f"{CLASS}{BY}width": {"color": "#0072B2", "linewidth": 1.2, "linestyle": (0, (3, 1))},
    f"{BOTH}{BY}width": {"color": "#E69F00", "linewidth": 1.2, "linestyle": (0, (3, 1))},
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


def experiment(request: Request) -> Experiment:
    """AUROC of all scores against every set of images in the file.

    Seeds draw the rows for SLSQP; the other scores use all rows, whatever the seed. A quick run
    calls SLSQP at two alphas only.
    """
    path = require_file(request.data, FILE)
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    sampled = QUICK_SLSQP_ALPHAS if request.quick else SLSQP_ALPHAS
    alphas: dict[str, tuple[float, ...]] = dict.fromkeys((*DIRECTIONS, *OTHERWISE), ALPHAS)
    alphas |= dict.fromkeys(FREE, (1.0,))
    alphas |= {SLSQP: sampled, EXACT: sampled, LOST: (LOST_ALPHA,)}
    score = scorer(arrays)

    def rows(cell: Cell) -> Iterator[Row]:
        for alpha in alphas[cell.method]:
            inside, outside = (
                score(cell.method, name, alpha, cell.seed) for name in (INSIDE, cell.data)
            )
            yield {
                "alpha": alpha,
                "auroc": decal.metrics.auroc(in_scores=inside, out_scores=outside),
                "inside": len(inside),
                "outside": len(outside),
            }

    absent = [title for name, title in OUT_SETS.items() if name != "fmnist"]
    return Experiment(
        columns=COLUMNS,
        level="alpha",
        cells=[
            Cell(name, method, seed)
            for method in alphas
            for seed in request.seeds
            for name in OUTSIDE
            if name in arrays
        ],
        levels=lambda cell: alphas[cell.method],
        inputs=lambda cell: {"data": path, "settings": settings(cell.method)},
        rows=rows,
        findings=partial(findings, published=Published(request.data), seeds=request.seeds),
        seeds=request.seeds,
        needs=(
            *(f"{title} (a CIFAR-10 network's logits)" for title in absent),
            "trained ensembles, EDL and DDU networks for CIFAR-10 (see fashion-mnist)",
        ),
    )


def settings(method: str) -> Any:
    """What the rows of a method depend on besides the data."""
    if method in OTHERWISE:
        directions, measure = OTHERWISE[method]
        return DIRECTIONS[directions], measure
    return DIRECTIONS.get(method)


def scorer(arrays: dict[str, Any]) -> Callable[[str, str, float, int], Array]:
    """A function from method, set, alpha and seed to scores (n,), each computed once.

    Higher scores mean that inputs are more likely out of distribution.

    Parameters
    ----------
    arrays : mapping of str to array
        Logits and labels of the file.
    """
    samples = cache(partial(Sample, arrays))

    @cache
    def model(method: str) -> decal.Decalibrator:
        training = arrays["cifar10_train"], arrays["train_labels"]
        return decal.Decalibrator(directions=DIRECTIONS[method]).fit(*training)

    # All scores of the same sets: to predict these takes longer than to score them.
    of_sets: dict[tuple[str, str, float], dict[str, Array]] = {}

    @cache
    def score(method: str, name: str, alpha: float, seed: int) -> Array:
        if method in FREE:
            return FREE[method](arrays[name].astype(np.float64))
        if method in BY_SETS:
            directions, measure = BY_SETS[method]
            if (directions, name, alpha) not in of_sets:
                credal = model(directions).predict(arrays[name], alpha=alpha)
                scores = {PAPER: difference(credal)} | {m: of(credal) for m, of in MEASURES.items()}
                of_sets[directions, name, alpha] = scores
            return of_sets[directions, name, alpha][measure]
        sample = samples(seed)
        logits = sample.logits[name]
        if method == EXACT:
            return difference(sample.exact.predict(logits, alpha=alpha))
        endpoints = sample.endpoints[SLSQP_ALPHAS.index(alpha) :].copy()
        if method == LOST:
            upper = endpoints[0, 1]
            endpoints[0, 1] = np.where(abs(upper) > published_solver.DIVERGED, upper, 1e31)
        models = published_solver.moved_predictions(logits, endpoints)
        return published_solver.entropy_difference(models)

    return score


def difference(credal: decal.IntervalCredalSet) -> Array:
    """(n,) upper minus lower entropy; that it may be at its cap is for the tables to show."""
    lower, upper = credal.entropy()
    return np.asarray(np.maximum(upper - lower, 0.0))


class Sample:
    """The rows that a seed draws for SLSQP, and two fits on them."""

    def __init__(self, arrays: dict[str, Any], seed: int) -> None:
        rng = np.random.default_rng(seed)

        def draw(name: str, size: int) -> NDArray[np.intp]:
            return rng.permutation(len(arrays[name]))[:size]

        fit = draw("cifar10_train", SAMPLE_FIT)
        self.fit = arrays["cifar10_train"][fit], arrays["train_labels"][fit]
        names = [INSIDE, *(name for name in OUTSIDE if name in arrays)]
        self.logits = {name: arrays[name][draw(name, SAMPLE)] for name in names}

    @cached_property
    def endpoints(self) -> Array:
        """(alphas, 2, K) the endpoints that SLSQP returns."""
        return published_solver.endpoints(published_solver.Ratio(*self.fit), SLSQP_ALPHAS)

    @cached_property
    def exact(self) -> decal.Decalibrator:
        """A Decalibrator fitted on the same rows."""
        return decal.Decalibrator().fit(*self.fit)


# Reporting


def findings(store: RowStore, *, published: Published, seeds: tuple[int, ...]) -> Findings:
    """Tables, figures and claims of the mean over seeds."""
    means = aurocs(store, seeds)
    sections: dict[str, list[tuple[str, ...]]] = {}
    for name, title in OUTSIDE.items():
        lines = []
        for method in (CLASS, BOTH, *OTHERWISE, SLSQP, EXACT, LOST):
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
    report = Report(
        title=f"AUROC by the difference of entropies and otherwise, {seeds_text(seeds)}",
        headings=("score", *(f"{alpha:g}" for alpha in ALPHAS)),
        sections=sections,
        caption=(
            "columns: alpha; ResNet-20 for CIFAR-10, fitted on its training logits\n"
            f"{BOTH}: class shifts and the scale; published: ResNet-18\n"
            f"{SLSQP}: as published, on {SAMPLE_FIT:,} logits to fit and {SAMPLE} inputs a set; "
            f"{EXACT}: on those\n"
            f"{LOST}: as if all of them had diverged (published efficiency at 0.2: 0.000)"
        ),
        claims=tuple(_claims(means)),
        further=(
            *_free_table(means),
            *_published_table(published),
            *one_network_table(published, ours=_ours_on_fashion(means)),
        ),
    )
    return Findings(report, {"auroc": partial(_draw, means, published)} if means else {})


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
    for measure in MEASURES:
        gains = {
            (n, d, a): means[n, f"{d}{BY}{measure}", a] - means[n, d, a]
            for n in names for d in DIRECTIONS for a in ALPHAS
        }  # fmt: skip
        (n, d, a), least = min(gains.items(), key=lambda item: item[1])
        yield Claim(
            f"the {measure} detects as well as the difference of entropies at every alpha: least "
            f"gain {signed(least)} ({OUTSIDE[n]}, {d}, {a:g}; wanted {-TOLERATED:g} or more), mean "
            f"{signed(float(np.mean(list(gains.values()))))}",
            least >= -TOLERATED,
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
        (f"{method}, {alpha:g}", *(number(means.get((n, method, alpha), np.nan)) for n in OUTSIDE))
        for method in (CLASS, f"{CLASS}{BY}width")
        for alpha in (0.8, 0.9, 0.95)
    ]
    if means:
        yield Table("Against scores that need no set", ("score", *OUTSIDE.values()), {"": rows})


def _ours_on_fashion(means: dict[tuple[str, str, float], float]) -> dict[str, dict[str, float]]:
    """Our AUROC on the only set that the paper has too, by score."""
    shown = (
        (CLASS, 0.95, "class shifts, 0.95"),
        (CLASS, 1.0, "class shifts, 1"),
        (f"{CLASS}{BY}width", 0.95, "width, 0.95"),
        ("energy", 1.0, "energy"),
    )
    return {
        f"ours: {title}": {"fmnist": means["fashionmnist", method, alpha]}
        for method, alpha, title in shown
        if ("fashionmnist", method, alpha) in means
    }


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
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return figure
