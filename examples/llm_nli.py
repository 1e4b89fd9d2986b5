"""SmolLM2 on ChaosNLI: do its credal sets hold what 100 people answered?

    python examples/llm_nli.py --data FOLDER

The labels are words, Yes, Maybe and No; the masses of their tokens are the logits. Half of the
items fit decal, with the majority of 100 people as label, the other half is evaluated: the share of
items whose distribution of 100 answers lies in the set (coverage), at equal mean width
(efficiency). A RoBERTa that was fine-tuned for the task is treated in the same way, and so are the
frequencies of the labels, without any model. Two orders of the options make two templates, whose
spread is kept.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import numpy as np
import smollm2

import decal

ASK = "Premise: {premise}\nHypothesis: {hypothesis}\nIs the hypothesis true? Answer with one word: "
TEMPLATES = {"nli_a": ASK + "Yes, Maybe or No.", "nli_b": ASK + "No, Maybe or Yes."}
LABELS = {"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"}
VERBALISER = decal.llm.Verbaliser(LABELS, case=True)
EFFICIENCIES = (0.3, 0.5, 0.7, 0.8)
ALPHAS = np.concatenate([1 - np.geomspace(1e-4, 0.8, 60), np.geomspace(0.19, 1e-5, 40), [0.0]])
SETTINGS = {
    "class": {"directions": ("class",)},
    "class, best reference": {"directions": ("class",), "reference": "best"},
    "class, temperature, best reference": {
        "directions": ("class", "temperature"),
        "reference": "best",
    },
    "local, best reference": {"directions": ("local",), "reference": "best"},
    "local, best shifts": {"directions": ("local",)},
}
SHIFTED = "local, best shifts"
"""Around logits with the best shift of each class, but their own scale."""


def prompt(template: str, item: dict) -> str:
    """The message to the model about an item."""
    example = item["example"]
    return template.format(premise=example["premise"], hypothesis=example["hypothesis"])


def main() -> None:
    """Run the example."""
    parser = smollm2.parser(__doc__)
    parser.add_argument("--second", type=int, default=300, help="prompts of the second template")
    arguments = parser.parse_args()
    items = smollm2.chaosnli(arguments.data)[: arguments.limit]
    human = np.array([item["label_dist"] for item in items])
    labels = human.argmax(axis=1)
    logits = smollm2_logits("nli_a", items, Path(arguments.cache))
    models = {
        "RoBERTa": roberta(arguments.data, items),
        "SmolLM2": logits,
        "frequencies": np.zeros_like(logits),
    }
    begun = time.perf_counter()
    curves = {}
    for name, z in models.items():
        if z.any():
            accuracy = (z.argmax(axis=1) == labels).mean()
            print(f"{name}: {accuracy:.3f} of {len(items)} majorities are its first choice")
        for setting in SETTINGS:
            found = curve(z, labels, human, setting)
            if found is not None:
                curves[name, setting] = found
    print(f"the most frequent majority is {np.bincount(labels).max() / len(labels):.3f} of all")
    table(curves)
    several = templates(items[: arguments.second], human, logits, Path(arguments.cache))
    print(f"all curves in {time.perf_counter() - begun:.0f} s")
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    results = {f"{m}: {s}": np.transpose(c).tolist() for (m, s), c in curves.items()}
    (out / "nli.json").write_text(
        json.dumps({"items": len(items), "curves": results, "templates": several}, indent=1)
    )
    for theme in smollm2.THEMES:
        draw(curves, out / f"nli_{theme}.svg", theme)


def smollm2_logits(name: str, items: list[dict], cache: Path) -> np.ndarray:
    """(n, 3) logits: logarithms of the mass of each label's tokens."""
    prompts = [prompt(TEMPLATES[name], item) for item in items]
    log_p, tokens = smollm2.next_tokens(name, prompts, cache)
    masses = decal.llm.vocabulary_masses(log_p, tokens, VERBALISER)
    said = np.exp(masses.lower).sum(axis=1)
    print(f"{name}: the labels have {said.mean():.2f} of the probability, {said.min():.2f} or more")
    return masses.logits()


def roberta(data: str, items: list[dict]) -> np.ndarray:
    """(n, 3) published logits of a fine-tuned RoBERTa for the same items."""
    file = np.load(Path(data) / "snli_roberta0.npz", allow_pickle=False)
    row = {uid: i for i, uid in enumerate(file["test_uid"].tolist())}
    names = [str(name)[:1] for name in file["classes"]]
    columns = [names.index(letter) for letter in "enc"]
    rows = [row[item["uid"]] for item in items]
    return file["test_logits"][rows][:, columns].astype(np.float64)


def curve(z, labels, human, setting) -> tuple[np.ndarray, np.ndarray] | None:
    """Efficiency and coverage of the second half, at every alpha, of a fit on the first.

    None if decal refuses: the logits of a model that knows nothing have no best scale.
    """
    half = len(z) // 2
    try:
        if setting == SHIFTED:
            best = fitted(z[:half], labels[:half], {"reference": "best"})
            z = z + best.reference_model.center
        d = fitted(z[:half], labels[:half], SETTINGS[setting])
    except ValueError as refusal:
        print(f"  {setting}: refused. {str(refusal).split(': ')[1]}")
        return None
    sets = [d.predict(z[half:], alpha=alpha) for alpha in ALPHAS]
    efficiency = [decal.metrics.efficiency(credal) for credal in sets]
    coverage = [decal.metrics.coverage(credal, human[half:]) for credal in sets]
    return np.array(efficiency), np.array(coverage)


def fitted(z, labels, options) -> decal.Decalibrator:
    """A Decalibrator; that SmolLM2 is far from the best shifts is known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.FitWarning)
        return decal.decalibrate(z, labels, classes=list(LABELS), **{"alpha": 0.8} | options)


def table(curves: dict) -> None:
    """Coverage at equal efficiency."""
    print("| model | directions, reference |" + "".join(f" at {e} |" for e in EFFICIENCIES))
    print("|---|---|" + "---|" * len(EFFICIENCIES))
    for (model, setting), (efficiency, coverage) in curves.items():
        order = np.argsort(efficiency)
        found = np.interp(
            EFFICIENCIES, efficiency[order], coverage[order], right=np.nan, left=np.nan
        )
        shown = ["–" if np.isnan(value) else f"{value:.2f}" for value in found]
        print(f"| {model} | {setting} |" + "".join(f" {text} |" for text in shown))


def templates(items, human, logits, cache: Path) -> dict[str, float]:
    """What the order of the options changes, and what is gained by keeping both."""
    count = len(items)
    other = smollm2_logits("nli_b", items, cache)
    both = np.stack([logits[:count], other])
    hull = decal.llm.spread(both, classes=list(LABELS))
    p = hull.vertices
    flipped = (p[:, 0].argmax(axis=1) != p[:, 1].argmax(axis=1)).mean()
    change = np.abs(p[:, 0] - p[:, 1]).max(axis=1).mean()
    print(
        f"two orders of the options, {count} items: the first choice changes in {flipped:.0%}, "
        f"and a probability by {change:.2f} on average"
    )
    half, labels = count // 2, human.argmax(axis=1)
    found = {"items": count, "flipped": float(flipped), "change": float(change)}
    for alpha in (0.95, 0.9, 0.8):
        sets = []
        for z in both:
            d = fitted(z[:half], labels[:half], {"alpha": alpha, "reference": "best"})
            sets.append(d.predict(z[half:]))
        names = ("Yes first", "No first", "union")
        for name, credal in zip(names, [*sets, decal.llm.union(sets)], strict=True):
            covered = decal.metrics.coverage(credal, human[half:count])
            efficiency = decal.metrics.efficiency(credal)
            print(f"alpha {alpha}, {name}: coverage {covered:.2f}, efficiency {efficiency:.2f}")
            found[f"{name}, alpha {alpha}"] = [float(covered), float(efficiency)]
    return found


def draw(curves: dict, path: Path, theme: str) -> None:
    """Coverage against efficiency."""
    import matplotlib.pyplot as plt

    colours = smollm2.THEMES[theme]
    shown = {
        "RoBERTa": ("blue", "RoBERTa, fine-tuned", (10, 6)),
        "SmolLM2": ("red", "SmolLM2,\nasked", (10, 0)),
        "frequencies": ("grey", "frequencies\nof the labels", (-88, -22)),
    }
    with plt.rc_context(smollm2.themed(theme)):
        figure, ax = plt.subplots(figsize=(4.1, 3.4), layout="constrained")
        for model, (colour, label, place) in shown.items():
            efficiency, coverage = curves[model, SHIFTED]
            order = np.argsort(efficiency)
            ax.plot(efficiency[order], coverage[order], color=colours[colour], lw=2)
            at = order[np.searchsorted(efficiency[order], 0.5).clip(0, len(order) - 1)]
            where = efficiency[at], coverage[at]
            options = {"xytext": place, "textcoords": "offset points"}
            ax.annotate(label, where, color=colours[colour], **options)
        ax.set(xlim=(0, 1), ylim=(0, 1.02))
        ax.set_xlabel("efficiency (1 − mean width)")
        ax.set_ylabel("coverage of 100 people's answers")
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
