"""One member, the mean, the union or the box of an ensemble: which to use, at equal cost.

    python benchmarks/ensembles.py [--data FOLDER] [--draws 10] [--rows 2000] [--out FILE]

Published logits with people's answers as the truth. In every draw some inputs are labelled, and the
others are judged; every method gets the same labels and runs the same M members for every input,
but for one member alone, and for the best one by its log-loss on the labelled inputs. Coverage is
that of people's distributions, at the mean width of the box of all members as they are, which is a
Credal Wrapper; "width for 90 %" is the mean width at which a method holds 90 % of them. "classes"
are those kept by sets that promise to miss 1 label in 10, or in 100, and beside them what they
miss; hull and box promise nothing, and keep what they keep. A dash: no alpha is as narrow.

--quick takes made-up members, for tests: numbers mean nothing.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

import decal

Array = NDArray[np.float64]
Labels = NDArray[np.intp]
Found = dict[str, dict[str, float]]

TRAINED = (
    "cnn_densenet_BC_100_12_test",
    "cnn_kerrigan_probs_test",
    "cnn_resnet_110_probs_test",
    "cnn_resnet_basic_110_test",
    "cnn_resnet_preact_bottleneck_164_test",
    "cnn_resnext_29_8x64d_test",
    "cnn_vgg_15_BN_64_test",
    "resnet20_cifar10",
)
SIGLIP = tuple(f"siglip_cifar10_{language}" for language in ("en", "fr", "zh", "sw"))
ZERO_SHOT = ("clip_cifar10_en", "siglip2_cifar10_en", "siglip_cifar10_en", "siglip_cifar10_zh")
NLI = ("snli_bert0", "snli_roberta0")
GROUPS = {
    "CIFAR-10H, 2 of 8 trained networks": (TRAINED, 2),
    "CIFAR-10H, 4 of 8 trained networks": (TRAINED, 4),
    "CIFAR-10H, 8 trained networks": (TRAINED, 8),
    "CIFAR-10H, 12 classifiers, 4 of them zero-shot": ((*TRAINED, *ZERO_SHOT), 12),
    "CIFAR-10H, SigLIP in 4 languages, one of which it hardly knows": (SIGLIP, 4),
    "ChaosNLI, 2 networks": (NLI, 2),
}
"""Files of published logits, and how many of them are drawn."""

HELD, MISSES = 0.9, (0.1, 0.01)


@dataclass(frozen=True)
class Answered:
    """Several members' logits (M, n, K) of inputs, their labels, and what people answer."""

    logits: Array
    labels: Labels
    truth: Array


def published(folder: Path, names: Sequence[str]) -> Answered:
    """What several networks say of the same inputs."""
    logits, labels, truth = [], [], []
    for name in names:
        with np.load(folder / f"{name}.npz") as file:
            logits += [
                file[key] for key in ("logits", "test_logits", "cifar10_test") if key in file
            ]
            labels += [file[key] for key in ("labels", "test_labels") if key in file]
            truth += [file["human"]] if "human" in file else []
    assert len(logits) == len(names)
    assert all(np.array_equal(each, labels[0]) for each in labels)  # they are of the same inputs
    people = truth[0].astype(np.float64)
    return Answered(np.stack(logits), labels[0], people / people.sum(axis=1, keepdims=True))


def made_up(n: int = 400, members: int = 3, classes: int = 4) -> Answered:
    """Members that err together and alone."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (n, classes))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    shared = z + rng.normal(0, 0.7, z.shape)
    logits = 1.5 * (shared + rng.normal(0, 0.7, (members, *z.shape)))
    return Answered(logits, labels, softmax(z, axis=1))


def log_loss(logits: Array, labels: Labels) -> float:
    return float(-log_softmax(logits, axis=1)[np.arange(len(labels)), labels].mean())


def recalibrated(known: Any, labels: Labels, new: Any) -> Any:
    """An ensemble of members whose predictions were recalibrated, each by itself."""
    points = []
    for z, z_new in zip(known.members, new.members, strict=True):
        d = decal.Decalibrator(1.0, directions=("local",), reference="auto").fit(z, labels)
        points.append(d.predict(z_new).point)
    return decal.ensemble(points, probabilities=True, axis=0)


def judged(data: Answered, members: int, rows: int, seed: int) -> Found:
    """What every method reaches in one draw of members and of labelled inputs."""
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(data.logits))[:members]
    old, new = np.split(rng.permutation(len(data.labels)), [min(rows, len(data.labels) // 2)])
    every = decal.ensemble(data.logits[chosen], axis=0)
    known, rest = every[old], every[new]
    y, y_new, truth = data.labels[old], data.labels[new], data.truth[new]
    best = int(np.argmin([log_loss(z, y) for z in known.members]))
    box, hull, fair = rest.box(), rest.hull(), recalibrated(known, y, rest).box()
    width = 1 - decal.metrics.efficiency(box)
    found = {
        "one member": granted(known.members[0], y, rest.members[0], y_new, truth, width),
        "the best member": granted(known.members[best], y, rest.members[best], y_new, truth, width),
        "the mean": granted(known.mean, y, rest.mean, y_new, truth, width),
        "the mean of logits": granted(
            known.members.mean(axis=0), y, rest.members.mean(axis=0), y_new, truth, width
        ),
        "the union": granted(known.union, y, rest.union, y_new, truth, width),
    }
    for name, sets in (("box as it is", box), ("box, members recalibrated", fair)):
        own = 1 - decal.metrics.efficiency(sets)
        found[name] = {"coverage": decal.metrics.coverage(sets, truth), "width": own}
        found[name] |= sizes(sets, y_new, MISSES)
    covered = decal.metrics.coverage(hull, truth)
    found["hull as it is"] = {"coverage": covered, "width": width, **sizes(hull, y_new, MISSES)}
    return found


def granted(
    known: Any, labels: Labels, new: Any, new_labels: Labels, truth: Array, width: float
) -> dict[str, float]:
    """What sets reach that were decalibrated, at this width and with promises."""
    d = decal.Decalibrator(0.5, directions=("local",), reference="auto").fit(known, labels)
    found = {"width": width}
    try:
        sets = decal.choose(d, new, width=width).predict(new)
        found["coverage"] = decal.metrics.coverage(sets, truth)
    except decal.InputError:  # even alpha = 1 is wider
        found["coverage"] = np.nan
    enough = decal.choose(d, new, coverage=HELD, distributions=truth).predict(new)
    found["enough"] = 1 - decal.metrics.efficiency(enough)
    for miss in MISSES:
        promised = decal.decalibrate(known, labels, miss=miss)
        found |= sizes(promised.predict(new), new_labels, (miss,))
    return found


def sizes(sets: Any, labels: Labels, misses: Sequence[float]) -> dict[str, float]:
    """How many classes are possible on average, and how many labels are not."""
    possible = [set(map(str, kept)) for kept in sets.possible()]
    size = float(np.mean([len(kept) for kept in possible]))
    missed = float(np.mean([str(y) not in kept for y, kept in zip(labels, possible, strict=True)]))
    return {f"size {m:g}": size for m in misses} | {f"miss {m:g}": missed for m in misses}


def table(draws: Sequence[Found]) -> Iterator[str]:
    """Means over draws, in Markdown."""
    heads = ["", "coverage", "width", "width for 90 %"]
    yield "| " + " | ".join([*heads, *(f"classes, miss={miss:g}" for miss in MISSES)]) + " |"
    yield "|" + "---|" * (len(heads) + len(MISSES))
    for name in draws[0]:
        mean = {
            key: float(np.mean([found[name][key] for found in draws])) for key in draws[0][name]
        }
        cells = [f"{mean.get(key, np.nan):.3f}" for key in ("coverage", "width", "enough")]
        cells += [f"{mean[f'size {m:g}']:.2f} ({mean[f'miss {m:g}']:.3f})" for m in MISSES]
        yield f"| {name} | " + " | ".join(cells).replace("nan", "–") + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for every group of members, and write all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DECAL_DATA"))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2000, help="labelled inputs, at most half")
    parser.add_argument("--only", default="", help="groups whose names hold this")
    parser.add_argument("--out", type=Path, help="file for the tables")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of sets that are points, which the tables show
    groups: dict[str, tuple[Callable[[], Answered], int]] = {"made up": (made_up, 3)}
    if not options.quick:
        if options.data is None:
            parser.error("--data, or DECAL_DATA, must name the folder of published logits")
        groups = {
            name: (partial(published, Path(options.data), files), members)
            for name, (files, members) in GROUPS.items()
            if options.only in name
        }
    told = []
    for name, (load, members) in groups.items():
        data, draws = load(), 1 if options.quick else options.draws
        found = [judged(data, members, options.rows, seed) for seed in range(draws)]
        for line in ["", f"**{name}**", "", *table(found)]:
            told.append(line)
            print(line, flush=True)
    if options.out:
        options.out.write_text("\n".join(told[1:]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
