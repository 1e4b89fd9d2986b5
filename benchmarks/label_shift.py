"""Label shift: coverage in simulation, what adapting gains on real logits, and speed.

python benchmarks/label_shift.py coverage --draws 500
python benchmarks/label_shift.py factors
python benchmarks/label_shift.py real --data FOLDER
python benchmarks/label_shift.py speed
python benchmarks/label_shift.py speed --classes 10 --labels 1000
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # decal's own threads share the work

import numpy as np

import decal
from decal.shift import most_likely

LABELLED = 1000
SIZES = (50, 200, 1000, 5000)
CLASSES = (2, 3, 10)
NEW = 5
"""New inputs per draw."""

FILES = {
    "ResNet-110, CIFAR-10": "cnn_resnet_basic_110_test",
    "VGG-15, CIFAR-10": "cnn_vgg_15_BN_64_test",
    "CLIP, CIFAR-10": "clip_cifar10_en",
    "SigLIP, CIFAR-10": "siglip_cifar10_en",
    "RoBERTa, SNLI": "snli_roberta0",
    "RoBERTa, MNLI": "mnli_roberta0",
    "FER network, FER2013": "fer_ferplus",
    "CLIP, DermaMNIST": "clip_dermamnist_en",
    "TabPFN, students dropout": "tabpfn_students_dropout_46960_seed1",
    "TabPFN, splice": "tabpfn_splice_46958_seed1",
}
MIXES, REAL_UNLABELLED = 10, (200, 1000)
ABSTAIN = 0.2
"""What it costs to decide nothing, in errors."""


# A world with a known truth: a Gaussian cloud for every class.


def draw(n, frequencies, rng, apart=2.0):
    """Logits that are right where all classes are equally frequent, and labels."""
    K = len(frequencies)
    y = rng.choice(K, p=frequencies, size=n)
    x = rng.normal(size=(n, K))
    x[np.arange(n), y] += apart
    return apart * x, y


def posterior(logits, frequencies):
    """What is right where classes have these frequencies."""
    with np.errstate(divide="ignore"):
        z = logits + np.log(frequencies)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def mixes(K, rng):
    """Mixes of classes: from a flat Dirichlet, and one with a class that is nearly absent."""
    rare = rng.dirichlet(np.ones(K - 1)) * 0.995 if K > 2 else np.array([0.995])
    return {
        "Dirichlet": rng.dirichlet(np.ones(K)),
        "one class nearly absent": np.append(rare, 0.005),
    }


COLUMNS = (
    "frequencies", "at once", "adapted",
    "without rows: frequencies", "without rows: at once",
    "uncorrected: frequencies", "uncorrected: at once", "uncorrected: adapted",
    "bootstrap: frequencies", "bootstrap: at once",
    "adapted, own", "true posterior", "width",
)  # fmt: skip
SOME = 20
"""Every twentieth draw is also bootstrapped, and bounds are solved for even if all is certain."""

FREQUENCIES_TESTED = 2


def coverage(draws, classes, bootstraps):
    """How often intervals hold the true frequencies, and sets the prediction adapted with them."""
    print(f"| K | mix | N | {' | '.join(COLUMNS)} |")
    print("|---:|---|" + "---:|" * (len(COLUMNS) + 1))
    for K in classes:
        for mix in ("Dirichlet", "one class nearly absent"):
            for N in SIZES:
                found = [one_draw(K, mix, N, seed, bootstraps) for seed in range(draws)]
                mean = np.nanmean(np.array(found), axis=0)
                print(f"| {K} | {mix} | {N:,} | {cells(mean)} |", flush=True)


def cells(means):
    """Of a line of a table."""
    return " | ".join("–" if np.isnan(mean) else f"{mean:.3f}" for mean in means)


def one_draw(K, mix, N, seed, bootstraps):
    """Shares of frequencies and of new inputs that are held, in the order of COLUMNS."""
    rng = np.random.default_rng([seed, K, N])
    v = mixes(K, rng)[mix]
    labelled = draw(LABELLED, np.full(K, 1 / K), rng)
    unlabelled, new = draw(N, v, rng)[0], draw(NEW, v, rng)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shift = decal.LabelShift(region="joint").fit(*labelled).observe(unlabelled)
        adapted = shift.predict(new, frequencies=v).point
        lost = {k: profile_statistic(shift, v, k) for k in rng.permutation(K)[:FREQUENCIES_TESTED]}
        uncorrected = shift.with_settings(corrected=False)
        narrow = plausible(uncorrected, v, lost)
        corrected = plausible(shift, v, lost)
        sets = holding(uncorrected, narrow, new, adapted)
        adapted_held = sets if sets == 1.0 else holding(shift, corrected, new, adapted)
        bootstrap, others = [np.nan] * 2, [np.nan] * 3
        if seed % SOME == 0:
            if bootstraps:
                bootstrap = plausible(shift.bootstrapped(bootstraps, seed=seed), v, lost)
            credal = shift.predict(new)
            others = [
                alone(shift).predict(new).contains(adapted).mean(),
                credal.contains(posterior(new, v)).mean(),
                (credal.upper - credal.lower).mean(),
            ]
    return [
        *corrected, adapted_held, *plausible(without_rows(shift), v, lost),
        *narrow, sets, *bootstrap, *others,
    ]  # fmt: skip


def alone(shift):
    """The same, moving one frequency at a time."""
    return shift.with_settings(region="own")


def profile_statistic(shift, v, k):
    """Twice the likelihood that the true frequency of class k loses, whatever the others are."""
    observed = shift.fitted.require_observed()
    fixed = most_likely(observed.likelihood.without(k, v[k]))
    return 2 * (observed.maximum.value - fixed.value)


def without_rows(shift):
    """The same, as if the labelled rows were not at hand: like `LabelShift.of` a Decalibrator."""
    result = shift.with_settings()
    known = shift.fitted
    result._fitted = replace(known, calibrated=replace(known.calibrated, covariance=None))
    return result


def plausible(shift, v, lost):
    """Shares of true frequencies in their intervals, and of all at once in the region.

    A frequency lies in its interval if its statistic is below the quantile.
    """
    known = shift.fitted
    nats = known.observed.maximum.value - known.observed.likelihood.at(v[None])[0]
    depths = shift._quantile(1) / 2 * shift._factors(known)[1]
    single = np.mean([statistic / 2 <= depths[k] for k, statistic in lost.items()])
    return [single, float(nats <= shift.depth(known))]


def holding(shift, held, new, adapted):
    """Share of sets that hold the adapted prediction: all, if the true frequencies are plausible.

    Only otherwise bounds are solved for.
    """
    return 1.0 if held[1] == 1.0 else shift.predict(new).contains(adapted).mean()


FEW = ((10, 1000, 5000), (3, 300, 3000), (2, 100, 5000))
"""Classes, labels and unlabelled inputs."""


def factors(bootstraps=200):
    """By how much the statistic of all frequencies exceeds what theory says, in three ways."""
    print("| K | labels | N | corrected | without rows | bootstrap |")
    print("|---:|---:|---:|---:|---:|---:|")
    for K, labels, N in FEW:
        rng = np.random.default_rng(1)
        labelled = draw(labels, np.full(K, 1 / K), rng)
        unlabelled, _ = draw(N, rng.dirichlet(np.ones(K)), rng)
        shift = decal.LabelShift().fit(*labelled).observe(unlabelled)
        models = shift, without_rows(shift), shift.bootstrapped(bootstraps)
        found = " | ".join(f"{model._factors(model.fitted)[0]:.1f}" for model in models)
        print(f"| {K} | {labels:,} | {N:,} | {found} |", flush=True)


# Real logits


REAL_COLUMNS = (
    *(f"{loss}: {by}" for loss in ("log-loss", "error", "ECE")
      for by in ("as it is", "BBSE", "decal", "true mix")),
    "held", "held, uncorrected",
    "decided", "error there", "point, as many",
    "cost: as it is", "decal's point", "worst case", "worst case, uncorrected",
)  # fmt: skip


def real(data):
    """Log-loss, error and calibration before and after; what sets hold, and what they decide."""
    print(f"| data | N | {' | '.join(REAL_COLUMNS)} |")
    print("|---|---:|" + "---:|" * len(REAL_COLUMNS))
    for title, file in FILES.items():
        logits, labels = read(data / f"{file}.npz")
        for N in REAL_UNLABELLED:
            rows = [one_mix(logits, labels, N, seed) for seed in range(MIXES)]
            rows = [row for row in rows if row is not None]
            if rows:
                mean = np.nanmean(rows, axis=0)
                print(f"| {title} | {N:,} | {cells(mean)} |", flush=True)


def read(path):
    with np.load(path) as archive:
        prefix = "" if "logits" in archive else "test_"
        return archive[f"{prefix}logits"].astype(float), archive[f"{prefix}labels"].astype(int)


def one_mix(logits, labels, N, seed):
    """One mix of classes, drawn from rows that did not calibrate."""
    rng = np.random.default_rng([seed, N])
    order = rng.permutation(len(labels))
    half = len(order) // 2
    fit, rest = order[:half], order[half:]
    K = logits.shape[1]
    v = rng.dirichlet(np.ones(K))
    if len(np.unique(labels[fit])) < K or len(np.unique(labels[rest])) < K:
        return None
    weight = (v / np.bincount(labels[rest], minlength=K))[labels[rest]]
    unlabelled, new = (rng.choice(rest, p=weight / weight.sum(), size=m) for m in (N, 500))
    shift = decal.LabelShift(region="joint").fit(logits[fit], labels[fit])
    shift.observe(logits[unlabelled])
    known = shift.calibrated
    y = labels[new]

    def adapted(frequencies):
        p = known.odds(logits[new]) * frequencies
        return p / p.sum(axis=1, keepdims=True)

    by_bbse = adapted(bbse(known, logits[fit], labels[fit], logits[unlabelled]))
    now, best = adapted(shift.fitted.require_observed().smoothed), adapted(v)
    sides = adapted(known.frequencies), by_bbse, now, best
    sets = [shift.predict(logits[new])]
    sets.append(shift.with_settings(corrected=False).predict(logits[new]))
    return [
        *(measure(p, y) for measure in (log_loss, error, ece) for p in sides),
        *(np.mean(credal.contains(best)) for credal in sets),
        *decided(sets[0], now, y),
        *(cost(p, y) for p in (sides[0], now, *(credal.lower for credal in sets))),
    ]  # fmt: skip


def decided(credal, point, y):
    """Inputs for which one class is better than all others under all frequencies: share, error.

    And the error of the point on as many inputs: those of which it is most certain.
    """
    left = credal.decide("maximality")
    alone = left.sum(axis=1) == 1
    if not alone.any():
        return [0.0, np.nan, np.nan]
    wrong = ~left[np.arange(len(y)), y]
    surest = np.argsort(-point.max(axis=1), kind="stable")[: alone.sum()]
    return [alone.mean(), wrong[alone].mean(), error(point[surest], y[surest])]


def cost(least, y):
    """Of the class with the largest probability, or the largest least one, if it is worth it.

    An error costs 1, to abstain ABSTAIN: the best choice in the worst case that the numbers allow.
    """
    sure = least.max(axis=1) >= 1 - ABSTAIN
    return float(np.where(sure, least.argmax(axis=1) != y, ABSTAIN).mean())


def bbse(known, logits, labels, unlabelled):
    """Frequencies by the confusion of hard predictions (Lipton et al. 2018), least squares."""
    from scipy.optimize import nnls

    K = logits.shape[1]

    def predicted(z):
        return np.argmax(known.odds(z) * known.frequencies, axis=1)

    confusion = np.zeros((K, K))
    np.add.at(confusion, (predicted(logits), labels), 1.0)
    confusion /= confusion.sum(axis=0, keepdims=True)
    share = np.bincount(predicted(unlabelled), minlength=K) / len(unlabelled)
    found, _ = nnls(confusion, share)
    counts = len(unlabelled) * found / found.sum() + 0.5  # smoothed as decal's
    return counts / counts.sum()


def log_loss(p, y):
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean())


def error(p, y):
    return float((p.argmax(axis=1) != y).mean())


def ece(p, y, bins=10):
    """Expected calibration error of the most probable class, equal bins of confidence."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    which = np.minimum((sure * bins).astype(int), bins - 1)
    parts = [which == b for b in range(bins) if (which == b).any()]
    return float(sum(abs(sure[b].mean() - right[b].mean()) * b.mean() for b in parts))


# Speed


CASES = (
    (2, 10_000, 10_000), (3, 10_000, 10_000), (10, 200, 10_000), (10, 1000, 10_000),
    (10, 10_000, 10_000), (10, 100_000, 10_000), (30, 10_000, 100),
    (100, 10_000, 0), (1000, 10_000, 0),
)  # fmt: skip
"""Classes, observed inputs, and inputs whose joint bounds are found."""

EXACT_INPUTS, OWN_INPUTS = 2, 100


def speed(labels, classes):
    """Processor seconds of all threads, and how they grow with classes and observed inputs.

    Few labels make regions larger, and bounds slower. Without a number of them, nothing is
    corrected, though what the correction itself takes is told.
    """
    print(
        "| K | N | most likely mix | correction | region | inputs | joint | on the clock | "
        "µs per bound | to 1e-8 | times slower | own | one softmax |"
    )
    print("|---:|---:|" + "---:|" * 11)
    first = draw(50, np.full(3, 1 / 3), np.random.default_rng(0))  # imports what is needed
    decal.LabelShift().fit(*first).observe(first[0]).predict(first[0])
    for K, N, inputs in CASES:
        if classes and K not in classes:
            continue
        rng = np.random.default_rng(0)
        v = rng.dirichlet(np.ones(K))
        labelled = draw(labels or max(LABELLED, 30 * K), np.full(K, 1 / K), rng)
        shift = decal.LabelShift(region="joint", corrected=labels is not None)
        shift.fit(*labelled).observe(draw(N, v, rng)[0])
        new = draw(inputs or OWN_INPUTS, v, rng)[0]
        observed = shift.fitted.require_observed()
        likely, _ = clock(lambda o=observed: o.maximum)
        corrected, _ = clock(lambda s=shift: s.fitted.scatter)
        numbers = ["", f"{len(new):,}", "", "", "", "", ""]
        if inputs:
            region = observed.region(shift.depth(shift.fitted))
            fitted, _ = clock(lambda r=region: r.surrogate)
            joint, wall = clock(lambda s=shift, z=new: s.predict(z))
            finer = shift.with_settings(error=1e-8)
            few, _ = clock(lambda s=finer, z=new: s.predict(z[:EXACT_INPUTS]))
            exact = few / EXACT_INPUTS * inputs if K > 2 else np.nan
            numbers = [
                f"{fitted:.3f}", f"{inputs:,}", f"{joint:.2f}", f"{wall:.2f}",
                f"{1e6 * joint / (2 * K * inputs):.1f}", f"{exact:,.0f}", f"{exact / joint:,.0f}",
            ]  # fmt: skip
        one, _ = clock(lambda s=shift, z=new: alone(s).predict(z))
        plain, _ = clock(lambda z=new, v=v: posterior(z, v))
        numbers += [f"{one:.2f}", f"{plain:.4f}"]
        numbers = [f"{likely:.3f}", f"{corrected:.3f}", *numbers]
        print(f"| {K:,} | {N:,} | {' | '.join(numbers)} |", flush=True)


def clock(call):
    """Processor and wall-clock seconds of a call."""
    start = time.process_time(), time.perf_counter()
    call()
    return time.process_time() - start[0], time.perf_counter() - start[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["coverage", "factors", "real", "speed"])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--bootstraps", type=int, default=40, help="0 for none")
    parser.add_argument("--labels", type=int, help="of speed, with the correction")
    parser.add_argument("--classes", type=int, nargs="*", help="of coverage and speed")
    parser.add_argument("--data", type=Path, default=os.environ.get("DECAL_DATA"))
    options = parser.parse_args()
    if options.what == "real" and options.data is None:
        sys.exit("Name the folder of logits with --data.")
    if options.what == "coverage":
        coverage(options.draws, options.classes or CLASSES, options.bootstraps)
    elif options.what == "factors":
        factors()
    elif options.what == "real":
        real(Path(options.data))
    else:
        speed(options.labels, options.classes)


if __name__ == "__main__":
    main()
