"""SmolLM2 as a judge: ratings from 1 to 5, of texts whose right rating is known.

    python examples/llm_judge.py --data FOLDER

Two tasks, so that the judge can be judged. Reviews are built here from words that say how good a
thing was. Sentences are premises of ChaosNLI in which a known share of the words trades places:
none for a rating of 5, a quarter for 4, half for 3, three quarters for 2, all for 1. Half of the
texts fit decal; for the others there are intervals of the expected rating, of the probability of at
least 4, and of the mean rating of all texts that deserve the same.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import numpy as np
import smollm2

import decal

ASK = {
    "judge": "Rate how well this sentence is written, from 1 (scrambled words) to 5 (perfect "
    "English). Answer with one digit.\nSentence: {}",
    "reviews": "Rate this review from 1 (very negative) to 5 (very positive). Answer with one "
    "digit.\nReview: {}",
}
THINGS = ("food", "room", "service", "film", "music", "book", "coffee", "hotel")
WORDS = {
    5: ("excellent", "wonderful", "perfect"),
    4: ("good", "nice", "pleasant"),
    3: ("okay", "average", "acceptable"),
    2: ("bad", "poor", "disappointing"),
    1: ("terrible", "awful", "horrible"),
}
RATINGS = decal.llm.Verbaliser(["1", "2", "3", "4", "5"])
WORTH = [1, 2, 3, 4, 5]
ALPHA = 0.95
TOPS = (5, 20, None)
SENTENCES = 200


def reviews() -> tuple[list[str], np.ndarray]:
    """Reviews of one sentence, and the rating that each deserves."""
    pairs = [
        (f"The {thing} was {own[i]}.", rating)
        for i in range(3)
        for thing in THINGS
        for rating, own in WORDS.items()
    ]
    return [text for text, _ in pairs], np.array([rating for _, rating in pairs])


def sentences(items: list[dict]) -> tuple[list[str], np.ndarray]:
    """Sentences with words out of place, and the rating that each deserves."""
    rng, found = np.random.default_rng(1), []
    for number, item in enumerate(items):
        words = item["example"]["premise"].split()
        count = round(number % 5 / 4 * len(words))
        if count >= 2:
            places = rng.choice(len(words), size=count, replace=False)
            moved = [words[i] for i in rng.permutation(places)]
            for place, word in zip(np.sort(places), moved, strict=True):
                words[place] = word
        found.append(" ".join(words))
    return found, 5 - np.arange(len(found)) % 5


def main() -> None:
    """Run the example."""
    arguments = smollm2.parser(__doc__).parse_args()
    items = smollm2.chaosnli(arguments.data)[:SENTENCES]
    for task, (texts, deserved) in {"reviews": reviews(), "judge": sentences(items)}.items():
        texts, deserved = texts[: arguments.limit], deserved[: arguments.limit]
        prompts = [ASK[task].format(text) for text in texts]
        log_p, tokens = smollm2.next_tokens(task, prompts, Path(arguments.cache))
        begun = time.perf_counter()
        print(f"{task}, for example: {texts[0]!r}")
        results = judged(log_p, tokens, deserved)
        print(f"{len(texts)} texts, {time.perf_counter() - begun:.1f} s")
        out = Path(arguments.out)
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{task}.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
        for theme in smollm2.THEMES:
            draw(results["means"], out / f"{task}_{theme}.svg", theme)


def judged(log_p: np.ndarray, tokens: list[str], deserved: np.ndarray) -> dict:
    """What the judge says, as numbers and as intervals."""
    masses = decal.llm.vocabulary_masses(log_p, tokens, RATINGS)
    raw = decal.llm.label_probabilities(masses).expectation(WORTH)[0]
    said = np.exp(masses.lower).sum(axis=1)
    correlation = float(np.corrcoef(raw, deserved)[0, 1])
    print(f"digits have {said.mean():.2f} of the probability")
    print(f"correlation of the expected with the deserved rating: {correlation:.2f}")
    fit = np.arange(len(deserved)) // 5 % 2 == 0  # every rating as often
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.FitWarning)
        d = decal.llm.decalibrate(masses[fit], deserved[fit] - 1, alpha=ALPHA, reference="best")
    results: dict = {"correlation": correlation, "alpha": ALPHA, "means": []}
    print("| deserved | judge alone | tokens | mean, interval | 95 % of sampling | at least 4 |")
    print("|---|---|---|---|---|---|")
    for top in TOPS:
        listed = decal.llm.vocabulary_masses(log_p[~fit], tokens, RATINGS, top=top)
        credal = decal.llm.predict(d, listed)
        for rating in (5, 4, 3, 2, 1):
            rows = deserved[~fit] == rating
            high_ratings = [float(end.mean()) for end in credal[rows].probability(["4", "5"])]
            alone = float(raw[~fit][rows].mean())
            ends = credal[rows].expectation(WORTH)
            mean = [float(end.mean()) for end in ends]
            room = [1.96 * float(end.std(ddof=1)) / rows.sum() ** 0.5 for end in ends]
            sampling = [max(1.0, mean[0] - room[0]), min(5.0, mean[1] + room[1])]
            intervals = " | ".join(
                f"[{low:.3f}, {high:.3f}]" for low, high in (mean, sampling, high_ratings)
            )
            print(f"| {rating} | {alone:.2f} | {'all' if top is None else top} | {intervals} |")
            found = {"deserved": rating, "top": top, "alone": alone, "mean": mean}
            results["means"].append(found | {"sampling": sampling, "at_least_4": high_ratings})
    return results


def draw(means: list[dict], path: Path, theme: str) -> None:
    """The mean rating of the texts that deserve the same."""
    import matplotlib.pyplot as plt

    colours = smollm2.THEMES[theme]
    styles = {None: ("blue", "all tokens", -0.15), 20: ("red", "20 tokens listed", 0.0)}
    styles[5] = ("grey", "5 tokens listed", 0.15)
    with plt.rc_context(smollm2.themed(theme)):
        figure, ax = plt.subplots(figsize=(4.1, 3.6), layout="constrained")
        for top, (colour, label, offset) in styles.items():
            rows = [row for row in means if row["top"] == top]
            x = np.array([row["deserved"] for row in rows]) + offset
            low, high = np.array([row["mean"] for row in rows]).T
            ax.vlines(x, low, high, color=colours[colour], lw=5, label=label)
        rows = [row for row in means if row["top"] is None]
        x, y = (np.array([row[name] for row in rows]) for name in ("deserved", "alone"))
        ax.plot(x - 0.3, y, "o", color=colours["ink"], ms=4, label="the judge alone")
        ax.plot([1, 5], [1, 5], ls=(0, (2, 3)), color=colours["ink"], lw=0.8, label="as deserved")
        ax.set(xlim=(0.6, 5.4), ylim=(0.9, 5.1), xticks=range(1, 6), yticks=range(1, 6))
        ax.set_xlabel("rating that the texts deserve")
        ax.set_ylabel("mean rating")
        figure.legend(frameon=False, fontsize=9, ncols=2, loc="outside lower center")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
