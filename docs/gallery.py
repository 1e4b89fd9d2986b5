"""Draws the pictures of the gallery, light and dark: python docs/gallery.py [NAME ...]

From the logits of CLIP, SigLIP-2 and RoBERTa where the environment variable DECAL_DATA names their
folder; else from handwritten digits, which needs nothing but scikit-learn.
"""

import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from pictures import NARROW_INCHES, SMALLEST
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import decal
from decal import plot
from decal.choose import AlphaPath, triage
from decal.choose import path as path_of

FOLDER = Path(__file__).parent / "_static" / "gallery"
DPI = 130
SIDE_BY_SIDE = ("spiders", "alpha_paths", "reliabilities")
"""Figures of many panels, which are wider than a telephone."""

LIGHT = {"figure.facecolor": "white", "axes.facecolor": "white"}
DARK = {"figure.facecolor": "#131416", "axes.facecolor": "#131416"}  # the theme's background


@dataclass(frozen=True)
class Example:
    """Half of a data set to decalibrate on, and the other half to look at."""

    model: decal.Decalibrator
    logits: np.ndarray
    labels: np.ndarray
    truth: np.ndarray

    def predict(self, alpha: float = 0.9) -> decal.IntervalCredalSet:
        return self.model.predict(self.logits, alpha=alpha)

    @property
    def contested(self) -> np.ndarray:
        """Rows by the entropy of their true distribution, greatest first."""
        return np.argsort((self.truth * np.log(np.clip(self.truth, 1e-9, 1))).sum(axis=1))


def half(name: str, folder: Path, **settings: object) -> Example:
    """CIFAR-10 images: decalibrated on the first half, shown on the second."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as data:
        logits, labels, classes = data["logits"], data["labels"], data["classes"]
        human = data["human"] / data["human"].sum(axis=1, keepdims=True)
    n = len(logits) // 2
    model = decal.decalibrate(logits[:n], labels[:n], alpha=0.9, classes=classes, **settings)
    return Example(model, logits[n:], labels[n:], human[n:])


def entailment(folder: Path) -> Example:
    """Sentence pairs judged by 100 people each."""
    with np.load(folder / "snli_roberta0.npz", allow_pickle=False) as data:
        model = decal.decalibrate(
            data["train_logits"], data["train_labels"], alpha=0.9, classes=data["classes"]
        )
        human = data["human"] / data["human"].sum(axis=1, keepdims=True)
        return Example(model, data["test_logits"], data["test_labels"], human)


def digits() -> Example:
    """Handwritten digits, whose labels are drawn from a forest's probabilities: the truth."""
    X, y = load_digits(return_X_y=True)
    truth = RandomForestClassifier(max_depth=5, random_state=0).fit(X, y).predict_proba(X)
    rng = np.random.default_rng(0)
    labels = np.argmax(truth.cumsum(axis=1) > rng.random((len(X), 1)), axis=1)
    train, calibration, test = np.split(rng.permutation(len(X)), [900, 1350])
    model = LogisticRegression(C=0.15, max_iter=1000).fit(X[train] / 16, labels[train])
    logits = model.decision_function(X / 16)
    names = [str(digit) for digit in range(10)]
    fitted = decal.decalibrate(logits[calibration], labels[calibration], classes=names, alpha=0.8)
    return Example(fitted, logits[test], labels[test], truth[test])


def three(example: Example) -> Example:
    """The same for its first three classes only."""
    rows = example.labels < 3
    truth = example.truth[rows, :3] / example.truth[rows, :3].sum(axis=1, keepdims=True)
    logits, labels = example.logits[rows, :3], example.labels[rows]
    names = example.model.classes[:3]
    return Example(
        decal.decalibrate(logits, labels, alpha=0.9, classes=names), logits, labels, truth
    )


def tumours() -> tuple[decal.IntervalCredalSet, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    scaler = StandardScaler().fit(X[:200])
    score = LogisticRegression(C=0.01).fit(scaler.transform(X[:200]), y[:200])
    logits = score.decision_function(scaler.transform(X[200:]))
    logits = np.stack([np.zeros_like(logits), logits], axis=1)
    names = ["malignant", "benign"]
    model = decal.decalibrate(logits[:150], y[200:350], alpha=0.98, classes=names)
    return model.predict(logits[150:]), y[350:]


def shifted(example: Example) -> decal.LabelShift:
    """A model that has seen half of the images, and then fewer and fewer of the later classes."""
    n = len(example.labels) // 2
    shift = decal.LabelShift().fit(
        example.logits[:n], example.labels[:n], classes=example.model.classes
    )
    rest = np.arange(n, len(example.labels))
    kept = rest[np.random.default_rng(0).random(len(rest)) < 0.7 ** example.labels[rest]]
    return shift.observe(example.logits[kept[:400]])


def patients() -> tuple[decal.LabelShift, np.ndarray]:
    """Tumours, of which fewer are malignant than where the model was calibrated; and three."""
    X, y = load_breast_cancer(return_X_y=True)
    X, sick = X[:, :2], 1 - y
    scaler = StandardScaler().fit(X[:150])
    score = LogisticRegression().fit(scaler.transform(X[:150]), sick[:150])
    log_odds = score.decision_function(scaler.transform(X))
    logits = np.stack([np.zeros_like(log_odds), log_odds], axis=1)
    shift = decal.LabelShift().fit(logits[150:400], sick[150:400], classes=["benign", "malignant"])
    rest = np.arange(400, len(X))
    kept = rest[(sick[rest] == 0) | (rest % 3 == 0)]
    shown = [int(np.argmin(np.abs(log_odds - wanted))) for wanted in (3.5, 2, 0)]
    return shift.observe(logits[kept[:80]]), logits[shown]


def pictures() -> dict[str, Callable[[], Figure]]:
    """What to draw, by name of its file; panels of NAME_narrow are below each other."""
    folder = os.environ.get("DECAL_DATA")
    if folder:
        images, other = (
            half("clip_cifar10_en", Path(folder)),
            half("siglip2_cifar10_en", Path(folder)),
        )
        chinese = half("clip_cifar10_zh", Path(folder))
        scaled = half("clip_cifar10_en", Path(folder), directions=("class", "temperature"))
        near = half("clip_cifar10_en", Path(folder), directions=("local",))
        triples = entailment(Path(folder))
        panels = {"CLIP, English": images, "CLIP, Chinese": chinese, "SigLIP-2": other}
    else:
        images = digits()
        triples = three(images)
        panels = {"α = 0.9": images}
        other = chinese = scaled = near = images
    row = int(images.contested[3])
    rows = [row, int(images.contested[40])]
    pair = int(triples.contested[20])
    shown = min(len(images.logits), 2000)

    def path(example: Example) -> AlphaPath:
        return path_of(example.model, example.logits[:shown], distributions=example.truth[:shown])

    def spiders(**shape: float) -> Figure:
        axes = plot.grid(
            plot.spider,
            {name: e.predict() for name, e in panels.items()},
            rows,
            truth=images.truth,
            titles=["a bird?", "a plane?"] if folder else None,
            **shape,
        )
        return axes[0, 0].figure

    def paths_of_classes(ncols: int) -> Figure:
        truth = images.truth[row]
        axes = plot.grid(
            plot.alpha_path, images.model, images.logits[row], truth=truth, ncols=ncols
        )
        return axes[0, 0].figure

    two = {"CLIP": images.predict(), "SigLIP-2": other.predict()}
    if not folder:
        two = {"α = 0.95": images.predict(0.95), "α = 0.8": images.predict(0.8)}
    paths = {"class shifts": path(images), "and temperature": path(scaled)}
    if not folder:
        paths = {"class shifts": paths["class shifts"]}
    levels = {f"α = {a}": triples.predict(a) for a in (0.99, 0.95, 0.9, 0.8)}
    tumour, kind = tumours()
    clinic, chosen = patients()
    tested = decal.calibration.refute(near.predict(0.95), near.labels)
    checks = triage(images.logits, images.labels, error_rate=0.02 if folder else 0.1)
    return {
        "spider": lambda: plot.spider(images.predict(), row, truth=images.truth).figure,
        "spider_two": lambda: plot.spider(two, row, truth=images.truth).figure,
        "spiders": lambda: spiders(size=2.6),
        "spiders_narrow": lambda: spiders(ncols=1),
        "simplex": lambda: plot.simplex(levels, pair, truth=triples.truth, nested=True).figure,
        "intervals": lambda: plot.intervals(two, row, truth=images.truth, top=7).figure,
        "binary": lambda: plot.binary(tumour, labels=kind).figure,
        "tradeoff": lambda: plot.tradeoff(paths, mark=(0.8, 0.95), ax=axes_of(4.3)).figure,
        "risk_coverage": lambda: plot.risk_coverage(checks).figure,
        "decomposition": lambda: plot.decomposition(images.predict(), labels=images.labels).figure,
        "calibration_test": lambda: plot.calibration_test(tested, ax=axes_of(4.5)).figure,
        "reliabilities": lambda: plot.grid(plot.reliability, tested)[0, 0].figure,
        "reliabilities_narrow": lambda: plot.grid(plot.reliability, tested, ncols=2)[0, 0].figure,
        "frequencies": lambda: plot.frequencies(shifted(images).frequencies).figure,
        "prevalence": lambda: (
            plot.prevalence(
                clinic, chosen, "malignant", names=["tumour 1", "tumour 2", "tumour 3"]
            ).figure
        ),
        "alpha_path": lambda: (
            plot.alpha_path(images.model, images.logits[row], truth=images.truth[row]).figure
        ),
        "alpha_paths": lambda: paths_of_classes(3),
        "alpha_paths_narrow": lambda: paths_of_classes(2),
        "likelihood": lambda: plot.likelihood(images.model).figure,
    }


def axes_of(height: float) -> Axes:
    """Axes of the width that all can read."""
    return plt.subplots(figsize=(NARROW_INCHES, height), layout="constrained")[1]


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:]
    for name, draw in pictures().items():
        if wanted and name not in wanted:
            continue
        for mode, colours in (("light", LIGHT), ("dark", DARK)):
            with plt.rc_context(colours):
                figure = draw()
                if name not in SIDE_BY_SIDE:
                    width, height = figure.get_size_inches()
                    figure.set_size_inches(min(width, NARROW_INCHES), height)
                save(figure, FOLDER / f"{name}_{mode}.png")


def save(figure: Figure, path: Path) -> None:
    """A picture of 256 colours, a third of the size, which says how small its text is."""
    buffer, said = io.BytesIO(), PngInfo()
    figure.savefig(buffer, dpi=DPI)
    said.add_text(SMALLEST, f"{min(text.get_fontsize() for text in written(figure)):.2f}")
    plt.close(figure)
    picture = Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    picture.save(path, optimize=True, dpi=(DPI, DPI), pnginfo=said)


def written(figure: Figure) -> list[Text]:
    """All text that is seen."""
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]


if __name__ == "__main__":
    main()
