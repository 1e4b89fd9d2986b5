"""Draws the picture of docs/label_shift.md: python docs/label_shift_figure.py"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decal

STATIC = Path(__file__).parent / "_static" / "label_shift"
NAMES = ["healthy", "sick"]
FEATURES, TRAINED, LABELLED, UNLABELLED, SHARE = 2, 150, 250, 60, 0.12
SHOWN = (0.9, 0.6, 0.2)
"""Probabilities, where the model was calibrated, of the patients shown, as close as they come."""

THEMES = {
    "light": {"ink": "#262626", "band": "#9ecae1", "lines": ("#08519c", "#3182bd", "#6baed6")},
    "dark": {"ink": "#e6e6e6", "band": "#2a4f6e", "lines": ("#c6dbef", "#9ecae1", "#6baed6")},
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
    prevalence = np.linspace(0.002, 0.7, 300)
    curves = np.array(
        [shift.predict(logits[rows], frequencies=[1 - x, x]).point[:, 1] for x in prevalence]
    )
    credal = shift.predict(logits[rows])
    for theme, colour in THEMES.items():
        with plt.rc_context(
            {
                "text.color": colour["ink"],
                "axes.labelcolor": colour["ink"],
                "axes.facecolor": "none",
            }
        ):
            figure, (ax, side) = plt.subplots(
                1, 2, figsize=(7.6, 4.0), sharey=True, width_ratios=(4, 1.5), layout="constrained"
            )
            ax.axvspan(found.lower[1], found.upper[1], color=colour["band"], alpha=0.5, lw=0)
            ax.axvline(found.before[1], color=colour["ink"], lw=0.8, ls=(0, (2, 3)))
            for i, line in enumerate(colour["lines"]):
                low, high = credal.lower[i, 1], credal.upper[i, 1]
                ax.plot(prevalence, curves[:, i], color=line, lw=2)
                at = int((0.72 if i == 0 else 0.93) * len(prevalence))
                ax.annotate(
                    f"patient {i + 1}",
                    (prevalence[at], curves[at, i] + (-0.08 if i == 0 else 0.02)),
                    color=line,
                    ha="right",
                )
                side.plot([i, i], [low, high], color=line, lw=11, solid_capstyle="butt")
                side.annotate(f"{high:.2f}", (i, high + 0.015), ha="center", va="bottom")
                side.annotate(f"{low:.2f}", (i, low - 0.015), ha="center", va="top")
            ax.annotate("plausible from\n60 unlabelled\npatients", (found.upper[1] + 0.008, 0.58))
            ax.annotate("where the model\nwas calibrated", (found.before[1] + 0.008, 0.03))
            ax.set(xlim=(0, 0.7), ylim=(-0.06, 1), xlabel="share of patients who are sick")
            ax.set_ylabel("probability that this patient is sick")
            side.set(xlim=(-0.6, 2.6), xlabel="patient")
            side.set_xticks(range(3), ["1", "2", "3"])
            side.set_title("credal set", fontsize=10, color=colour["ink"])
            for axes in (ax, side):
                axes.tick_params(colors=colour["ink"], length=0)
                for where in ("top", "right", *(["left"] if axes is side else [])):
                    axes.spines[where].set_visible(False)
                for where in ("left", "bottom"):
                    axes.spines[where].set_color(colour["ink"])
            STATIC.mkdir(exist_ok=True, parents=True)
            figure.savefig(STATIC / f"prevalence_{theme}.svg", transparent=True)
            plt.close(figure)
    print(found)
    print(f"truly sick: {truth:.3f}")
    print(credal)


if __name__ == "__main__":
    main()
