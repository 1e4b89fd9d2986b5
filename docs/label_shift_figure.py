"""Draws the picture of docs/label_shift.md: python docs/label_shift_figure.py"""

from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pictures import NARROW_INCHES
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decal
from decal import plot

STATIC = Path(__file__).parent / "_static" / "label_shift"
NAMES = ["healthy", "sick"]
FEATURES, TRAINED, LABELLED, UNLABELLED, SHARE = 2, 150, 250, 60, 0.12
SHOWN = (0.9, 0.6, 0.2)
"""Probabilities, where the model was calibrated, of the patients shown, as close as they come."""

THEMES = {
    "light": {"text.color": "#262626", "figure.facecolor": "white", "axes.facecolor": "white"},
    "dark": {"text.color": "#e6e6e6", "figure.facecolor": "#131416", "axes.facecolor": "#131416"},
}


def patients() -> tuple[decal.LabelShift, np.ndarray, float]:
    """A model calibrated where 37 % are sick that has observed others, of whom 12 % are."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:, :FEATURES], 1 - y
    order = np.random.default_rng(1).permutation(len(X))
    X, y = X[order], y[order]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:TRAINED], y[:TRAINED])
    logits = np.stack([np.zeros(len(X)), model.decision_function(X)], axis=1)
    labelled = slice(TRAINED, TRAINED + LABELLED)
    rest = np.arange(TRAINED + LABELLED, len(X))
    sick, healthy = rest[y[rest] == 1], rest[y[rest] == 0]
    n = round(UNLABELLED * SHARE)
    other = np.concatenate([sick[:n], healthy[: UNLABELLED - n]])
    shift = decal.LabelShift().fit(logits[labelled], y[labelled], classes=NAMES)
    return shift.observe(logits[other]), logits, n / UNLABELLED


def main() -> None:
    shift, logits, truth = patients()
    found = shift.frequencies
    before = shift.predict(logits, frequencies=found.before).point[:, 1]
    rows = [int(np.argmin(np.abs(before - p))) for p in SHOWN]
    names = [f"patient {i + 1}" for i in range(len(rows))]
    STATIC.mkdir(exist_ok=True, parents=True)
    sizes = {"prevalence": (6.6, 4.0), "prevalence_narrow": (NARROW_INCHES, 4.0)}
    for (theme, colours), (name, size) in product(THEMES.items(), sizes.items()):
        with plt.rc_context({**colours, "svg.hashsalt": "decal"}):
            figure, ax = plt.subplots(figsize=size, layout="constrained")
            plot.prevalence(shift, logits[rows], "sick", ax=ax, names=names, largest=0.7)
            figure.savefig(
                STATIC / f"{name}_{theme}.svg", transparent=True, metadata={"Date": None}
            )
            plt.close(figure)
    credal = shift.predict(logits[rows])
    print(found)
    print(f"truly sick: {truth:.3f}")
    print(credal)


if __name__ == "__main__":
    main()
