"""How much do the tokens that a server does not list matter? SmolLM2's whole vocabulary knows.

    python examples/llm_truncation.py --data FOLDER --limit 600

Prompts of ChaosNLI. The first hundred, with the majority of 100 people as label, fit the models; of
the others SmolLM2's top 5, 20, 100 and 1,000 tokens are taken as a server's list, and the outer box
of each is compared with the box of all 49,152 tokens.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import llm_nli
import numpy as np
import smollm2

import decal

TOPS = (5, 20, 100, 1000)
FITTED = 100
ALPHA = 0.9
ROUNDING = 1e-9
LISTS = "class, fitted on such lists"
"""The labelled answers are lists of the same length, too, rather than the whole vocabulary."""

SETTINGS = {
    "none": None,
    "class, best reference": {"directions": ("class",), "reference": "best"},
    "temperature": {"directions": ("temperature",)},
    "class, temperature": {"directions": ("class", "temperature")},
    "local": {"directions": ("local",)},
    LISTS: {"directions": ("class",)},
}
"""What may move; "none" are the probabilities of the labels themselves."""


def main() -> None:
    """Run the example."""
    arguments = smollm2.parser(__doc__).parse_args()
    items = smollm2.chaosnli(arguments.data)[: arguments.limit]
    if len(items) <= FITTED:
        sys.exit(f"--limit must be more than {FITTED}: the first ones fit the models")
    prompts = [llm_nli.prompt(llm_nli.TEMPLATES["nli_a"], item) for item in items]
    log_p, tokens = smollm2.next_tokens("nli_a", prompts, Path(arguments.cache))
    labels = np.array(["enc".index(item["majority_label"]) for item in items])
    begun = time.perf_counter()
    rows = list(compared(log_p, tokens, labels))
    print(f"{len(items) - FITTED} prompts, {time.perf_counter() - begun:.0f} s")
    print(
        "| what moves | tokens listed | box inside | mean width | nothing known | labels listed |"
    )
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['directions']} | {row['top']:,} | {row['inside']} of {row['prompts']} | "
            f"{row['width']:.3f} | {row['vacuous']:.0%} | {row['listed']:.0%} |"
        )
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "truncation.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def compared(log_p, tokens, labels):
    """One row per choice of directions and number of tokens."""
    v = llm_nli.VERBALISER
    full = decal.llm.vocabulary_masses(log_p, tokens, v)
    lists = {top: decal.llm.vocabulary_masses(log_p, tokens, v, top=top) for top in TOPS}
    lists[len(tokens)] = full
    for name, settings in SETTINGS.items():
        truth = box_of(full, labels, settings)(full[FITTED:])
        for top, masses in lists.items():
            learnt_from = masses if name == LISTS else full
            outer = box_of(learnt_from, labels, settings)(masses[FITTED:])
            inside = (outer.lower <= truth.lower + ROUNDING) & (
                outer.upper >= truth.upper - ROUNDING
            )
            width = outer.upper - outer.lower
            yield {
                "directions": name,
                "top": top,
                "prompts": len(outer),
                "inside": int(inside.all(axis=1).sum()),
                "width": float(width.mean()),
                "vacuous": float((width > 1 - ROUNDING).all(axis=1).mean()),
                "listed": float(np.isfinite(masses.lower[FITTED:]).all(axis=1).mean()),
            }


def box_of(masses, labels, settings):
    """The function from masses to boxes, fitted on the first answers."""
    if settings is None:
        return decal.llm.label_probabilities
    with warnings.catch_warnings():  # SmolLM2 is far from its best shifts
        warnings.simplefilter("ignore", decal.FitWarning)
        d = decal.llm.decalibrate(
            masses[:FITTED], labels[:FITTED], alpha=ALPHA, unlisted="bounds", **settings
        )
    return partial(decal.llm.predict, d)


if __name__ == "__main__":
    main()
