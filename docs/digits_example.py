"""Handwritten digits with a known truth, for the pictures of the documentation.

As in the paper's appendix: a random forest of depth 5 learns the digits, its probabilities are
declared to be the truth, and all labels are drawn from them.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import decal

TRAINING, CALIBRATION = 900, 450
"""Images to train the classifier and to decalibrate it; the other 447 are for testing."""


@dataclass(frozen=True)
class Digits:
    """A decalibrated logistic regression, and n test images."""

    model: decal.Decalibrator
    logits: np.ndarray
    labels: np.ndarray
    truth: np.ndarray
    images: np.ndarray


def semi_synthetic_digits(seed: int = 0) -> Digits:
    """Train, decalibrate and keep the test images."""
    digits = load_digits()
    forest = RandomForestClassifier(max_depth=5, random_state=seed)
    truth = forest.fit(digits.data, digits.target).predict_proba(digits.data)
    draw = np.random.default_rng([seed, 1]).random((len(truth), 1))
    labels = np.argmax(truth.cumsum(axis=1) > draw, axis=1)
    order = np.random.default_rng(seed).permutation(len(truth))
    train, calibration, test = np.split(order, [TRAINING, TRAINING + CALIBRATION])
    pixels = digits.data / 16
    penalties = {"C": (0.05, 0.15, 0.5, 1.5)}
    search = GridSearchCV(LogisticRegression(max_iter=1000), penalties, scoring="neg_log_loss")
    logits = search.fit(pixels[train], labels[train]).decision_function(pixels)
    names = [str(digit) for digit in range(10)]
    model = decal.decalibrate(logits[calibration], labels[calibration], classes=names)
    return Digits(model, logits[test], labels[test], truth[test], digits.images[test])
