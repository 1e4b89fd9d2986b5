"""Label shift beside abstention and QuaPy: errors of frequencies, log-loss, intervals, seconds.

python benchmarks/label_shift_peers.py --data FOLDER

Peers that are not installed are left out (pip install abstention quapy, in an environment of their
own). FOLDER holds cnn_resnet_basic_110_test.npz and others, of CIFAR-10: half of the rows
calibrate; of the others, inputs are drawn with class frequencies from a flat Dirichlet
distribution. Seconds are of the processor, the median of all mixes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import softmax

import decal

FILES = {
    "ResNet-110": "cnn_resnet_basic_110_test",
    "VGG-15": "cnn_vgg_15_BN_64_test",
}
UNLABELLED = (200, 1000)
NEW = 1000
HALF = 0.5
"""Inputs of every class added to estimates before probabilities are adapted, for all methods."""

LEAST = 1e-12


def given(classes):
    """A fitted classifier for QuaPy, whose inputs are the logits of another."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Given(ClassifierMixin, BaseEstimator):
        def fit(self, *_):
            self.classes_ = np.arange(classes)
            return self

        def predict_proba(self, logits):
            return softmax(np.asarray(logits, dtype=float), axis=1)

        def predict(self, logits):
            return np.asarray(logits).argmax(axis=1)

    return Given().fit()


# Each method: from labelled logits and unlabelled ones to frequencies, intervals or None, and a
# function that calibrates logits.


def with_decal(z, y, unlabelled):
    shift = decal.LabelShift().fit(z, y).observe(unlabelled)
    found = shift.frequencies
    return found.estimate, (found.lower, found.upper), calibrated_by(shift)


def calibrated_by(shift):
    before = shift.frequencies.before
    return lambda logits: shift.predict(logits, frequencies=before).point


def bias_corrected(z, y):
    """Bias-corrected temperature scaling of abstention, as its authors recommend for EM."""
    from abstention.calibration import TempScaling

    return TempScaling(bias_positions="all")(z, np.eye(z.shape[1])[y])


def with_abstention(z, y, unlabelled):
    from abstention.label_shift import EMImbalanceAdapter

    calibrate = bias_corrected(z, y)
    adapt = EMImbalanceAdapter()(calibrate(unlabelled), calibrate(z))
    before = calibrate(z).mean(axis=0)
    return normalised(adapt.multipliers * before), None, calibrate


def with_abstention_bbse(z, y, unlabelled):
    from abstention.label_shift import BBSEImbalanceAdapter

    calibrate = bias_corrected(z, y)
    labels = np.eye(z.shape[1])[y]
    adapt = BBSEImbalanceAdapter(soft=True)(
        valid_labels=labels,
        tofit_initial_posterior_probs=calibrate(unlabelled),
        valid_posterior_probs=calibrate(z),
    )
    return normalised(adapt.multipliers * labels.mean(axis=0)), None, calibrate


def with_quapy(z, y, unlabelled):
    from quapy.method.aggregative import EMQ

    method = EMQ.EMQ_BCTS(given(z.shape[1]), fit_classifier=False, val_split=(z, y))
    method.fit(z, y)
    return method.predict(unlabelled), None, bias_corrected(z, y)


def with_quapy_density(z, y, unlabelled):
    from quapy.method.aggregative import KDEyML

    method = KDEyML(given(z.shape[1]), fit_classifier=False, val_split=(z, y))
    method.fit(z, y)
    return method.predict(unlabelled), None, None


def with_quapy_bootstrap(z, y, unlabelled):
    from quapy.method.aggregative import EMQ
    from quapy.method.confidence import AggregativeBootstrap

    inner = EMQ.EMQ_BCTS(given(z.shape[1]), fit_classifier=False, val_split=(z, y))
    method = AggregativeBootstrap(
        inner, n_train_samples=1, n_test_samples=200, confidence_level=0.95, region="intervals"
    )
    method.fit(z, y)
    estimate, region = method.predict_conf(unlabelled)
    low, high = region.I_low, region.I_high
    return np.asarray(estimate), (np.asarray(low), np.asarray(high)), None


METHODS = {
    "decal": with_decal,
    "abstention, EM": with_abstention,
    "abstention, BBSE": with_abstention_bbse,
    "QuaPy, EMQ-BCTS": with_quapy,
    "QuaPy, KDEy-ML": with_quapy_density,
    "QuaPy, EMQ-BCTS with bootstrap": with_quapy_bootstrap,
}


def normalised(v):
    v = np.maximum(v, 0)
    return v / v.sum()


def draw(logits, labels, N, seed):
    """Rows that calibrate, unlabelled ones, new ones, and the frequencies of the latter two."""
    rng = np.random.default_rng([seed, N])
    order = rng.permutation(len(labels))
    fit, rest = np.split(order, 2)
    K = logits.shape[1]
    v = rng.dirichlet(np.ones(K))
    weight = (v / np.bincount(labels[rest], minlength=K))[labels[rest]]
    unlabelled, new = (rng.choice(rest, p=weight / weight.sum(), size=m) for m in (N, NEW))
    return fit, unlabelled, new, v


def one(method, logits, labels, N, seed):
    """Mean absolute error of frequencies, adapted log-loss, coverage, width and seconds."""
    fit, unlabelled, new, v = draw(logits, labels, N, seed)
    z, y = logits[fit], labels[fit]
    begun = time.process_time()
    estimate, interval, calibrate = method(z, y, logits[unlabelled])
    seconds = time.process_time() - begun
    row = [np.abs(estimate - v).mean(), np.nan, np.nan, np.nan, seconds]
    if calibrate is not None:
        before = calibrate(z).mean(axis=0)
        counts = N * estimate + HALF
        p = calibrate(logits[new]) * (counts / counts.sum()) / before
        p /= p.sum(axis=1, keepdims=True)
        right = p[np.arange(NEW), labels[new]]
        row[1] = -np.log(np.maximum(right, LEAST)).mean()
    if interval is not None:
        low, high = interval
        row[2], row[3] = np.mean((low <= v) & (v <= high)), np.mean(high - low)
    return row


def available(method, logits, labels):
    """Whether what a method needs is installed; other errors are raised."""
    try:
        one(method, logits, labels, UNLABELLED[0], 0)
    except ModuleNotFoundError as error:
        print(f"left out: {error}", flush=True)
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--mixes", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sets = {}
    for title, file in FILES.items():
        with np.load(options.data / f"{file}.npz") as archive:
            sets[title] = archive["logits"].astype(float), archive["labels"].astype(int)
    usable = {
        name: method
        for name, method in METHODS.items()
        if available(method, *next(iter(sets.values())))
    }
    print("| data | N | method | error of frequencies | log-loss | covered | width | seconds |")
    print("|---|---:|---|---:|---:|---:|---:|---:|")
    for title, (logits, labels) in sets.items():
        for N in UNLABELLED:
            for name, method in usable.items():
                rows = [one(method, logits, labels, N, seed) for seed in range(options.mixes)]
                error, loss, covered, width, _ = np.mean(rows, axis=0)
                cells = [f"{error:.4f}", f"{loss:.4f}", f"{covered:.3f}", f"{width:.4f}"]
                cells = ["" if cell == "nan" else cell for cell in cells]
                median = np.median([row[-1] for row in rows])
                print(
                    f"| {title} | {N:,} | {name} | {' | '.join(cells)} | {median:.2f} |", flush=True
                )


if __name__ == "__main__":
    main()
