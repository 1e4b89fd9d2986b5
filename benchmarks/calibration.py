"""Size and power of the tests of `decal.calibration`, and what they pass on real data.

Run with: python benchmarks/calibration.py size | power | real [--repetitions 500] [--tests cells]

`size`: how often sets that hold the truth are refuted, which must be at most 5 % (but for `split`,
the published way to test a member, for comparison). `power`: how often sets that miss it are.
`real`: on data of DECAL_DATA whose distributions people gave, the narrowest local sets that each
test lets pass, and the share of distributions that they hold. Everything is drawn from seeds: two
runs print the same.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from decal.calibration import refute
from numpy.typing import NDArray
from scipy.special import softmax

import decal
from decal_lab.members import calibrated_member
from decal_lab.members._calibrated_member import KernelError, most_likely
from decal_lab.members._families import TiltedBoxes, into_boxes

Array = NDArray[np.float64]
Labels = NDArray[np.intp]
Test = Callable[[decal.IntervalCredalSet, Labels, int], bool]

LEVEL = 0.05
CLASSES = (2, 3, 10)
SIZES = (200, 1000)
MEMBER_SIZES = {"size": (200,), "power": (200, 1000)}
"""Those at which a calibrated member is searched for, which takes long."""

BUDGETS = np.geomspace(1e-4, 5.0, 61)
"""Of the real data: local sets are tried at these, -log alpha, from the narrowest."""

NETWORKS = (
    "cnn_densenet_BC_100_12_test",
    "cnn_resnet_basic_110_test",
    "cnn_resnet_preact_bottleneck_164_test",
    "cnn_resnext_29_8x64d_test",
    "cnn_vgg_15_BN_64_test",
    "clip_cifar10_en",
    "siglip2_cifar10_en",
    "fer_ferplus",
)
PAIRS = ("snli_roberta0", "snli_bert0", "mnli_roberta0")


def split(credal: decal.IntervalCredalSet, labels: Labels, seed: int) -> bool:
    """As published: the likeliest member of one half, tested on the other as if it were given."""
    tight, half = credal.tighten(), len(labels) // 2
    assert credal.point is not None
    families = [
        TiltedBoxes.around(tight.lower[rows], tight.upper[rows], credal.point[rows])
        for rows in (slice(None, half), slice(half, None))
    ]
    rng = np.random.default_rng(seed)
    member = families[1].members(most_likely(families[0], labels[:half]))
    error = KernelError.at(credal.point[half:], 32, rng)
    return error.p_value(member, labels[half:], rng.random((199, len(member)))) <= LEVEL


TESTS: dict[str, Test] = {
    "cells": lambda credal, y, _: refute(credal, y, level=LEVEL).refuted,
    "top": lambda credal, y, _: refute(credal, y, by="top", level=LEVEL).refuted,
    "member": lambda credal, y, seed: (
        calibrated_member(credal, y, level=LEVEL, draws=199, seed=seed).refuted
    ),
    "split": split,
}
SLOW = ("member", "split")


def drawn(truth: Array, rng: np.random.Generator) -> Labels:
    """A label from every distribution."""
    behind = (truth.cumsum(axis=1) < rng.random((len(truth), 1))).sum(axis=1)
    return np.asarray(np.minimum(behind, truth.shape[1] - 1))


def local(logits: Array, alpha: float) -> decal.IntervalCredalSet:
    """Local sets around the predictions themselves."""
    labels = np.arange(len(logits)) % logits.shape[1]  # they are not looked at
    model = decal.decalibrate(logits, labels, alpha=alpha, directions=("local",), reference="model")
    return model.predict(logits)


# Sets that hold the truth

Made = tuple[decal.IntervalCredalSet, Array]


def points(z: Array, _: np.random.Generator) -> Made:
    p = softmax(z, axis=1)
    return decal.IntervalCredalSet(p, p, point=p), p


def edge(z: Array, _: np.random.Generator) -> Made:
    """The truth gives class 0 as much as each set allows."""
    credal = local(z, 0.98).tighten()
    wanted = np.full(z.shape, -20.0)
    wanted[:, 0] = 0.0
    return credal, into_boxes(wanted, credal.lower, credal.upper)


def family(z: Array, rng: np.random.Generator) -> Made:
    """The truth is the model, rescaled and shifted within the sets."""
    credal = local(z, 0.98).tighten()
    tilt = np.concatenate([[0.2], rng.normal(0, 0.3, z.shape[1])])
    around = TiltedBoxes.around(credal.lower, credal.upper, softmax(z, axis=1))
    return credal, around.members(tilt)


def anywhere(z: Array, rng: np.random.Generator) -> Made:
    """The truth lies anywhere in each set, at random."""
    credal = local(z, 0.98).tighten()
    r = rng.dirichlet(np.ones(z.shape[1]), size=len(z))
    return credal, into_boxes(np.log(np.maximum(r, 1e-300)), credal.lower, credal.upper)


# Sets that miss it


def shifted(z: Array, _: np.random.Generator) -> Made:
    """The truth has one logit more of class 0."""
    return local(z, 0.98), softmax(z + np.eye(z.shape[1])[0], axis=1)


def narrow(z: Array, rng: np.random.Generator) -> Made:
    """The truth lies, with class 0 as high as can be, in sets of twenty times the budget."""
    _, truth = edge(z, rng)
    p = softmax(z, axis=1)
    return local(z, 0.999), into_boxes(np.log(truth), 0 * p, np.ones_like(p))


def temperature(z: Array, _: np.random.Generator) -> Made:
    """The model is twice as sure as it should be."""
    return local(z, 0.98), softmax(z / 2, axis=1)


def one_class(z: Array, _: np.random.Generator) -> Made:
    """Half of class 0 is class 1 in truth."""
    truth = softmax(z, axis=1)
    moved = truth[:, 0] / 2
    truth[:, 0] -= moved
    truth[:, 1] += moved
    return local(z, 0.98), truth


def unseen(z: Array, rng: np.random.Generator) -> Made:
    """The truth leaves nearly every set, to one side or the other at random, on average nowhere."""
    truth = softmax(z, axis=1)
    rows = np.arange(len(z))
    one, other = np.argsort(-truth, axis=1)[:, :2].T
    moved = 0.95 * truth[rows, other] * rng.choice([-1, 1], size=len(z))
    truth[rows, one] += moved
    truth[rows, other] -= moved
    return local(z, 0.98), truth


HOLDING: tuple[Callable[..., Made], ...] = (points, edge, family, anywhere)
MISSING: tuple[Callable[..., Made], ...] = (shifted, narrow, temperature, one_class, unseen)


def rates(what: str, tests: dict[str, Test], repetitions: int, sets: list[str] | None) -> None:
    """Print the share of repetitions in which each test refutes."""
    print(f"{'sets':12s}{'K':>4s}{'n':>7s}" + "".join(f"{name:>9s}" for name in tests), flush=True)
    kinds = {"size": HOLDING, "power": MISSING}[what]
    for kind in (kind for kind in kinds if sets is None or kind.__name__ in sets):
        for K in CLASSES:
            for n in SIZES:
                hits = np.zeros(len(tests))
                for repetition in range(repetitions):
                    rng = np.random.default_rng([K, n, repetition])
                    credal, truth = kind(1.5 * rng.normal(size=(n, K)), rng)
                    y = drawn(truth, rng)
                    for t, (name, test) in enumerate(tests.items()):
                        if name not in SLOW or n in MEMBER_SIZES[what]:
                            hits[t] += test(credal, y, repetition)
                        else:
                            hits[t] = np.nan
                shares = "".join(f"{hit / repetitions:9.3f}" for hit in hits)
                print(f"{kind.__name__:12s}{K:4d}{n:7,d}{shares}", flush=True)


# Real data


def real_data(folder: Path) -> Iterator[tuple[str, Array, Labels, Array]]:
    """Name, logits, labels and people's distributions; of ten thousand images the second half."""
    for name in (*NETWORKS, *PAIRS):
        prefix = "test_" if name in PAIRS else ""
        with np.load(folder / f"{name}.npz", allow_pickle=False) as data:
            logits, labels = data[f"{prefix}logits"].astype(np.float64), data[f"{prefix}labels"]
            human = data["human"] / data["human"].sum(axis=1, keepdims=True)
        rows = slice(len(logits) // 2 if len(logits) == 10_000 else 0, None)
        yield name, logits[rows], labels[rows].astype(np.intp), human[rows]


def narrowest(logits: Array, labels: Labels, test: Test) -> decal.IntervalCredalSet | None:
    """The local sets of the largest alpha, of the budgets tried, that the test does not refute."""
    refuted, passes = -1, len(BUDGETS)  # refuted at every narrower budget, passes at every wider
    while passes - refuted > 1:
        middle = (refuted + passes) // 2
        credal = local(logits, float(np.exp(-BUDGETS[middle])))
        if test(credal, labels, 0):
            refuted = middle
        else:
            passes = middle
    return None if passes == len(BUDGETS) else local(logits, float(np.exp(-BUDGETS[passes])))


def real(folder: Path, tests: dict[str, Test]) -> None:
    """Print, per data set and test, the narrowest sets that pass, and what they hold."""
    columns = f"{'data':40s}{'labels':>8s}{'n':>7s}"
    print(columns + "".join(f"{name + ': cov':>13s}{'eff':>6s}" for name in tests), flush=True)
    for name, logits, given, human in real_data(folder):
        rng = np.random.default_rng(0)
        for kind, labels in (("given", given), ("drawn", drawn(human, rng))):
            line = f"{name:40s}{kind:>8s}{len(logits):7,d}"
            for test in tests.values():
                credal = narrowest(logits, labels, test)
                if credal is None:
                    line += f"{'none':>13s}{'':6s}"
                    continue
                held = decal.metrics.coverage(credal, human)
                line += f"{held:13.2f}{decal.metrics.efficiency(credal):6.2f}"
            print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("size", "power", "real"))
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--tests", nargs="+", choices=tuple(TESTS), default=list(TESTS)[:3])
    every = [kind.__name__ for kind in (*HOLDING, *MISSING)]
    parser.add_argument(
        "--sets", nargs="+", choices=every, help="of size and power; by default all"
    )
    arguments = parser.parse_args()
    tests = {name: TESTS[name] for name in arguments.tests}
    if arguments.what == "real":
        real(Path(os.environ["DECAL_DATA"]), tests)
    else:
        rates(arguments.what, tests, arguments.repetitions, arguments.sets)


if __name__ == "__main__":
    main()
