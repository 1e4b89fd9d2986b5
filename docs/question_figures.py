"""Draws the pictures of the question pages: python docs/question_figures.py [NAME ...]

All but one from the texts of `decal.datasets.languages` and the wish miss=0.1, for light and dark
pages, wide and narrow ones.
"""

import re
import sys
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from pictures import NARROW_INCHES
from scipy.special import softmax

import decal
from decal import plot
from decal.choose import triage
from decal.plot.style import Ink, ink_on

STATIC = Path(__file__).parent / "_static" / "questions"
THEMES = {"light": "white", "dark": "#131416"}  # the theme's backgrounds
ROWS = [770, 126, 1655]
"""Texts that all pages show."""

KNOWN, NEW = decal.datasets.languages("fit"), decal.datasets.languages("test")
CLASSES = list(NEW.classes)
SAYS = softmax(NEW.logits, axis=1)


def promised(miss: float = 0.1) -> decal.Decalibrator:
    return decal.decalibrate(KNOWN.logits, KNOWN.labels, miss=miss, classes=CLASSES)


def lines(ax: Axes, shown: list[tuple[int, list[str]]], ink: Ink) -> list[tuple[float, int, str]]:
    """A group of lines for each text, its name above them; the height of each line."""
    placed, y, ends = [], 0.0, []
    for row, names in shown:
        ax.text(0, y, f"“{NEW.texts[row]}”", fontweight="bold", va="center", color=ink.text)
        for name in names:
            y += 1
            placed.append((y, row, name))
        ends.append(y)
        y += 1.25
    ax.set(yticks=[y for y, _, _ in placed], ylim=(ends[-1] + 0.7, -0.7), xlim=(0, 1))
    ax.set_yticklabels([name for _, _, name in placed])
    return placed


def how_sure(ax: Axes, ink: Ink, narrow: bool) -> None:
    """What the network says of the first two languages of each text, and what the data allow."""
    credal = promised().predict(NEW.logits)
    shown = [(row, [CLASSES[k] for k in np.argsort(-credal.upper[row])[:2]]) for row in ROWS]
    for y, row, name in lines(ax, shown, ink):
        k = CLASSES.index(name)
        low, high = credal.lower[row, k], credal.upper[row, k]
        ax.plot([low, high], [y, y], lw=9, color=ink.tint(ink.models[0]), solid_capstyle="butt")
        ax.plot(SAYS[row, k], y, "o", ms=6, color=ink.text)
        ax.text(1.03, y, f"{low:.0%} to {high:.0%}", va="center", fontsize="small", color=ink.text)
    ax.set_title("● model says   ▬ data allow", color=ink.muted, fontsize="medium")
    percent(ax)


def promise(ax: Axes, ink: Ink, narrow: bool) -> None:
    """Languages kept, and languages missed, by what is promised."""
    levels = (0.3, 0.2, 0.1, 0.05, 0.02)
    for y, miss in enumerate(levels):
        kept = promised(miss).predict(NEW.logits).possible()
        size = np.mean([len(left) for left in kept])
        missed = np.mean([CLASSES[k] not in left for k, left in zip(NEW.labels, kept, strict=True)])
        colour = ink.models[0] if miss == 0.1 else ink.tint(ink.models[0])
        ax.barh(y, size, height=0.62, color=colour)
        words = f"{size:.1f} kept, {missed:.1%} missed"
        ax.text(size + 0.08, y, words, va="center", fontsize="small", color=ink.text)
    ax.set(ylim=(len(levels) - 0.5, -0.5), xlim=(0, 7.6 if narrow else 6.2), xticks=range(5))
    ax.set_yticks(range(len(levels)), [f"miss={miss}" for miss in levels])
    ax.set_xlabel("languages kept per text")
    ax.set_title("A stricter promise keeps more", color=ink.text)


def person(ax: Axes, ink: Ink, narrow: bool) -> None:
    """Errors among the texts that nobody checks, by how many those are."""
    checks = triage(KNOWN.logits, KNOWN.labels, error_rate=0.1)
    report = promised().report(NEW.logits, check=True)
    truth = np.array(CLASSES)[NEW.labels]
    by_confidence = -SAYS.max(axis=1), SAYS.argmax(axis=1) != NEW.labels
    by_triage = checks.doubt(NEW.logits), checks.predict(NEW.logits) != NEW.labels
    called = "network's\nconfidence" if narrow else "network's confidence"
    for (doubt, wrong), name, at, up, side, colour in (
        (by_confidence, called, 0.36, 0.04 if narrow else 0.03, "right", ink.muted),
        (by_triage, "triage", 0.78, -0.035, "left", ink.models[0]),
    ):
        order = np.argsort(doubt, kind="stable")
        count = np.arange(1, len(order) + 1)
        error = wrong[order].cumsum() / count
        seen = count >= 0.02 * len(order)
        ax.plot((count / len(order))[seen], error[seen], color=colour, lw=2)
        height = error[int(at * len(order))] + up
        ax.text(at, height, name, ha=side, va="center", color=colour)
    kept, wrong = ~report.check, report.prediction != truth
    x, y = kept.mean(), wrong[kept].mean()
    ax.plot(x, y, "D", ms=8, color=ink.truth)
    words = f"check=True:\n{x:.0%} unchecked,\n{y:.1%} of them wrong"
    ax.text(x + 0.04, y - 0.012, words, va="top", color=ink.truth)
    ax.set(xlim=(0, 1), ylim=(0, 0.35), xlabel="texts that nobody checks")
    ax.set_ylabel("wrong among these")
    ax.set_title("Half go unchecked, a tenth of these wrong", color=ink.text)
    percent(ax)
    ax.yaxis.set_major_formatter("{x:.0%}")
    ax.set_yticks([0, 0.1, 0.2, 0.3])


def decisions(ax: Axes, ink: Ink, narrow: bool) -> None:
    """What actions may cost, of a text that can be filed and of one that cannot."""
    model = promised()
    credal = model.predict(NEW.logits)
    best = model.promise.recalibrated(credal.point)
    shown = [
        (770, ["file as Polish", "ask"]),
        (126, ["file as Spanish", "file as Galician", "ask"]),
    ]
    for y, row, name in lines(ax, shown, ink):
        low = high = point = 0.2
        if name != "ask":
            k = CLASSES.index(name.removeprefix("file as "))
            low, high = 1 - credal.upper[row, k], 1 - credal.lower[row, k]
            point = 1 - best[row, k]
        surest = best[row].argmax()
        taken = f"file as {CLASSES[surest]}" if best[row, surest] > 0.8 else "ask"
        colour = ink.models[0] if name == taken else ink.muted
        ax.plot([low, high], [y, y], lw=9, color=ink.tint(colour), solid_capstyle="butt")
        ax.plot(point, y, "o", ms=7, color=colour)
        words = f"{low:.2f} to {high:.2f}" if high > low else f"{low:.2f}"
        ax.text(1.03, y, words, va="center", fontsize="small", color=ink.text)
    ax.set_xlabel("expected cost")
    ax.set_title("The report takes the blue action", color=ink.muted, fontsize="medium")


def label_shift(ax: Axes, ink: Ink, narrow: bool) -> None:
    """Shares of languages where the model was calibrated, and on a Danish site."""
    shift = decal.LabelShift().fit(KNOWN.logits, KNOWN.labels, classes=CLASSES)
    plot.frequencies(shift.observe(NEW.logits[site()]).frequencies, ax=ax, top=6, sort="now")


def ordered(ax: Axes, ink: Ink, narrow: bool) -> None:
    """Possible grades of some patients, and the range of their mean grade."""
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import LogisticRegression

    from decal.sklearn import CredalClassifier

    X, y = load_diabetes(return_X_y=True)
    grades = decal.binned(y, [0, 75, 125, 175, 225, 350]).labels + 1
    model = LogisticRegression(C=100, max_iter=1000, tol=1e-8)
    clf = CredalClassifier(model, miss=0.2, order=True).fit(X[:342], grades[:342])
    patients = [350, 354, 346, 342, 349, 352, 361]
    sets = clf.predict_credal(X[patients])
    (low, high), point = sets.mean(), sets.point @ np.arange(1, 6)
    for place, row in enumerate(np.argsort(point)):
        names = [int(name) for name in sets[row].possible()[0]]
        span = [names[0] - 0.42, names[-1] + 0.42]
        wide = {"solid_capstyle": "butt", "zorder": 2}
        ax.plot(span, [place] * 2, lw=13, color=ink.tint(ink.models[0]), **wide)
        ax.plot([low[row], high[row]], [place] * 2, lw=4, color=ink.models[0], **wide)
        ax.plot(grades[patients[row]], place, "D", ms=6, color=ink.text, zorder=4)
        said = f"{names[0]} to {names[-1]}" if len(names) > 1 else str(names[0])
        ax.text(5.6, place, said, va="center", fontsize="small", color=ink.text)
    numbers = [f"patient {patients[row]}" for row in np.argsort(point)]
    ax.set(xlim=(0.5, 5.5), xticks=range(1, 6), xlabel="grade", ylim=(len(patients) - 0.5, -0.5))
    ax.set_yticks(range(len(patients)), numbers)
    words = ["▬ possible grades", "━ range of the mean", "◆ true grade"]
    title = "\n".join(words) if narrow else "   ".join(words)
    ax.set_title(title, color=ink.muted, fontsize="medium")


def raters(ax: Axes, ink: Ink, narrow: bool) -> None:
    """How many readers may call some tumours malignant, learnt from one reader and from five."""
    page = Path(__file__).parent / "raters.md"
    told: dict[str, Any] = {}
    exec(re.search(r"```python\n(.+?)```", page.read_text("utf-8"), re.DOTALL)[1], told)
    said, logits, known = told["said"], told["logits"], told["known"]
    order = 469 + np.argsort(told["share"][469:])
    shown = order[[2, 40, 65, 70, 76, 84, 97]]
    names = ["benign", "malignant"]
    for readers, width, colour in ((1, 13, ink.tint(ink.models[0])), (5, 5, ink.models[0])):
        votes = decal.Votes.of_annotations(said[known, :readers], classes=names)
        credal = decal.decalibrate(logits[known], votes, hold=0.8).predict(logits[shown])
        for y, (low, high) in enumerate(zip(credal.lower[:, 1], credal.upper[:, 1], strict=True)):
            ax.plot([low, high], [y, y], lw=width, color=colour, solid_capstyle="butt")
    ax.plot(told["share"][shown], range(len(shown)), "D", ms=6, color=ink.text, zorder=4)
    ax.set(xlim=(0, 1), ylim=(len(shown) - 0.5, -0.5))
    ax.set_yticks(range(len(shown)), [f"tumour {row}" for row in shown])
    ax.set_xlabel("readers who call it malignant")
    words = ["▬ learnt from one reader", "━ from five", "◆ all readers"]
    title = "\n".join(words) if narrow else "   ".join(words)
    ax.set_title(title, color=ink.muted, fontsize="medium")
    percent(ax)


def trees(ax: Axes, ink: Ink, narrow: bool) -> None:
    """The ranges of nodes of one text: the path that is sure, and what is below and beside it."""
    model = decal.decalibrate(
        KNOWN.logits, KNOWN.labels, miss=0.1, classes=CLASSES, tree=KNOWN.tree
    )
    row = 126
    credal = model.predict(NEW.logits[[row]])
    nodes, tree = credal.nodes(), model.tree.ordered(CLASSES)
    sure = tree.path(credal.node()[0])
    shown = ["Romance", "Iberian", "Spanish", "Galician", "Catalan", "Portuguese", "Germanic"]
    shown += ["Slavic", "Malayic"]
    depths = [int(tree.depth[tree.names.index(name)]) - 1 for name in shown]
    indent, left = (0.12, -0.72) if narrow else (0.07, -0.42)
    for y, (name, depth) in enumerate(zip(shown, depths, strict=True)):
        at = tree.names.index(name)
        low, high = nodes.lower[0, at], nodes.upper[0, at]
        colour = ink.models[0] if name in sure else ink.muted
        x = left + indent * depth
        weight = "bold" if name in sure else "normal"
        ax.text(x, y, name, va="center", color=ink.text, fontweight=weight)
        if depth:  # an elbow from the node above
            above = max(i for i in range(y) if depths[i] == depth - 1)
            elbow = x - 0.7 * indent, x - 0.15 * indent
            ax.plot([elbow[0], *elbow], [above + 0.35, y, y], color=colour, lw=1.2)
        ax.plot([low, max(high, low + 0.004)], [y, y], lw=9, color=ink.tint(colour),
                solid_capstyle="butt")  # fmt: skip
        words = f"{low:.0%} to {high:.0%}" if high >= 0.005 else "next to 0"
        ax.text(1.03, y, words, va="center", fontsize="small", color=ink.text)
    ax.plot([0.5, 0.5], [-0.6, len(shown) - 0.4], ls=":", lw=1, color=ink.muted)
    ax.set(ylim=(len(shown) - 0.4, -0.6), xlim=(left, 1), yticks=[])
    ax.spines["left"].set_visible(False)
    ax.spines["bottom"].set_bounds(0, 1)
    title = f"“{NEW.texts[row]}”: sure down to {sure[-1]}"
    ax.set_title(title, color=ink.text, loc="left")
    percent(ax)


def site() -> np.ndarray:
    """The page's rows: a Danish site, with some English and Swedish."""
    counts = {"Danish": 90, "English": 30, "Swedish": 20}
    rows = [np.flatnonzero(NEW.labels == CLASSES.index(k))[:n] for k, n in counts.items()]
    return np.concatenate(rows)


def percent(ax: Axes) -> None:
    ax.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])


PICTURES = {
    how_sure: ((6.4, 3.9), 4.4),
    promise: ((6.4, 2.7), 3.0),
    person: ((6.4, 3.6), 3.8),
    decisions: ((6.4, 3.1), 3.4),
    label_shift: ((6.6, 3.8), 4.0),
    ordered: ((6.4, 3.3), 3.9),
    raters: ((6.4, 3.3), 3.9),
    trees: ((6.4, 3.4), 3.6),
}
"""Inches of the wide drawing, and the height of the narrow one."""


def main(names: list[str]) -> None:
    STATIC.mkdir(exist_ok=True)
    drawn = {draw: sizes for draw, sizes in PICTURES.items() if draw.__name__ in names or not names}
    for (draw, (wide, tall)), (theme, face) in product(drawn.items(), THEMES.items()):
        ink = ink_on(face)
        colours = dict.fromkeys(("text.color", "axes.labelcolor", "ytick.labelcolor"), ink.text)
        muted = dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), ink.muted)
        faces = {"figure.facecolor": face, "axes.facecolor": face}
        for end, size in (("", wide), ("_narrow", (NARROW_INCHES, tall))):
            with plt.rc_context(colours | muted | faces | {"svg.hashsalt": "decal"}):
                figure, ax = plt.subplots(figsize=size, layout="constrained")
                ax.spines[["top", "right"]].set_visible(False)
                draw(ax, ink, bool(end))
                path = STATIC / f"{draw.__name__}{end}_{theme}.svg"
                figure.savefig(path, transparent=True, metadata={"Date": None})
                plt.close(figure)


if __name__ == "__main__":
    main(sys.argv[1:])
