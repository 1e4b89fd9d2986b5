"""decal decide: what to do with each input, by a rule and what actions earn."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

import decal
from decal._base.errors import InputError, listing
from decal._base.numerics import Array
from decal._base.set_checks import ACTION
from decal._base.settings import check_alpha, check_choice
from decal.cli import options
from decal.cli.options import option
from decal.cli.terminal import output, progress_bar, say, table
from decal.credal import RULES, SET_RULES, abstention_utility
from decal.io.folders import Layout
from decal.io.formats import TABLES, load_array, open_file, open_table
from decal.io.writers import check_output, column_writer

DECIDE_EXAMPLES = """[bold]Examples[/]
    decal decide model.npz new.csv
    decal decide model.npz new.csv --rule gamma_maximin --abstention-cost 0.3 -o decisions.csv
    decal decide model.npz new.csv --rule minimax_regret --utility utility.csv -o decisions.csv
    [bold]Rules[/]
    keep every action that may be right: e_admissible, maximality, interval_dominance
    take one: gamma_maximin (best at worst), gamma_maximax (best at best), hurwicz (between, see \
--optimism), minimax_regret (least to regret), point (best by the point prediction)
    [bold]Utilities[/]
    a .csv or .parquet with a column per class, named after it, and a column action; or an .npy of \
shape actions × classes. Without it actions are classes: 1 if right, 0 if wrong. \
--abstention-cost C adds the action abstain, which earns 1 - C whatever the class.
    [bold]Output[/]
    .csv or .parquet: a line per input and action kept with row, kept (how many actions are), \
action, and the lower and upper bound of what it earns on average; .npz: arrays of these names
    """


@options.with_reading("truth_key", "weights_key")
def decide(
    model: options.ModelArgument,
    logits: options.LogitsArgument,
    rule: Annotated[
        str, options.choice_option("How to decide; see below.", "RULE", (*RULES, "point"))
    ] = "e_admissible",
    utility: Annotated[
        Path | None, options.file_option("What each action earns in each class; see below.")
    ] = None,
    abstention_cost: Annotated[
        float | None, option("Allow to abstain at this cost, 0 to 1.", "COST")
    ] = None,
    optimism: Annotated[float, option("Weight of the best case, 0 to 1, for hurwicz.")] = 0.5,
    alpha: options.AlphaOption = None,
    out: Annotated[
        Path | None,
        options.output_option(
            "Write the decisions: .csv, .parquet or .npz; - for standard output."
        ),
    ] = None,
    *,
    reading: options.Reading,
    force: options.ForceOption = False,
) -> None:
    """Decide for every input: which classes to keep, which one to name, or what to do.

    Prints how often each action was kept or taken.
    """
    check_choice(rule, "rule", (*RULES, "point"))
    check_alpha(optimism, "optimism")
    if out is not None:
        check_output(out, force=force, formats=(*TABLES, ".npz"))
    fitted = decal.Decalibrator.load(model)
    level = fitted.alpha if alpha is None else check_alpha(alpha)
    K = len(fitted.class_weights)
    classes = list(fitted.classes or map(str, range(K)))
    actions, earnings = _actions(classes, utility, abstention_cost)
    folder = reading.folder(logits, fitted)
    kept = np.zeros(len(actions), dtype=np.intp)
    alone = np.zeros(len(actions), dtype=np.intp)
    rows, part = 0, folder.parts[0]
    with (
        folder.open(part, Layout(K, fitted.classes)) as source,
        nullcontext() if out is None else column_writer(out) as append,
        progress_bar("Deciding", source.rows) as bar,
    ):
        for chunk in part.chunks(source):
            credal = fitted.predict_rows(chunk, alpha=level)
            mask = credal.decide(rule, utility=earnings, optimism=optimism)
            if mask.ndim == 1:  # one is taken
                mask = mask[:, None] == np.arange(len(actions))
            if append is not None:
                append(_lines(credal, mask, actions, earnings, rows))
            kept += mask.sum(axis=0)
            alone += mask[mask.sum(axis=1) == 1].sum(axis=0)
            rows += len(chunk)
            bar.advance(len(chunk))
    _print_counts(rule, actions, kept, alone, rows)
    if out is not None:
        say(f"Wrote {out}: {rows:,} inputs at alpha {level:g}", style="green")


def _actions(
    classes: list[str], utility: Path | None, cost: float | None
) -> tuple[list[str], Array | None]:
    """The names of the actions, and what they earn in each class; None for 0/1 loss."""
    if utility is not None and cost is not None:
        rule, remedy = "go without --utility", "Give the file a line abstain."
        raise InputError("abstention-cost", rule, "both", remedy)
    if utility is not None:
        return _read_utility(utility, classes)
    if cost is None:
        return classes, None
    return [*classes, "abstain"], abstention_utility(len(classes), cost=cost)


def _read_utility(path: Path, classes: list[str]) -> tuple[list[str], Array]:
    """The names of the actions in a file, and what they earn in each class."""
    file = open_file(path)
    if not file.is_table:
        if file.format != ".npy":
            raise InputError("utility", "be in a .csv, .parquet or .npy", f"{path}")
        matrix = load_array("utility", file, None)
        if matrix.ndim != 2 or matrix.shape[1] != len(classes):
            rule = f"have {len(classes)} columns, one per class"
            raise InputError("utility", rule, f"shape {matrix.shape} in {path}")
        # As many actions as classes: most likely they are the classes.
        same = len(matrix) == len(classes)
        return classes if same else [str(a) for a in range(len(matrix))], matrix.astype(float)
    missing = [name for name in classes if name not in file.names]
    if missing:
        fact = f"none for {listing(missing)} in {path}, which holds {listing(file.names)}"
        raise InputError("utility", "have a column for every class", fact)
    if ACTION not in file.names:
        raise InputError("utility", f"have a column {ACTION}", f"{listing(file.names)} in {path}")
    blocks = list(open_table("utility", file, tuple(classes)).read())
    texts = list(open_table("utility", file, (ACTION,), text=True).read())
    if not blocks:
        raise InputError("utility", "have a line for every action", f"none in {path}")
    names = [str(name) for block in texts for name in block[:, 0]]
    return names, np.concatenate(blocks)


def _lines(
    credal: decal.IntervalCredalSet,
    mask: NDArray[np.bool_],
    actions: list[str],
    earnings: Array | None,
    first_row: int,
) -> dict[str, NDArray[Any]]:
    """Columns with an entry for every input and action kept."""
    tight = credal.tighten()
    low, high = (tight.lower, tight.upper) if earnings is None else credal.expectation(earnings)
    row, action = np.nonzero(mask)
    ids = {name: values[row].astype(str) for name, values in (credal.index or {}).items()}
    return {
        "row": first_row + row,
        **ids,
        "kept": mask.sum(axis=1)[row],
        "action": np.array(actions)[action],
        "lower": low[row, action],
        "upper": high[row, action],
    }


def _print_counts(
    rule: str, actions: list[str], kept: NDArray[np.intp], alone: NDArray[np.intp], rows: int
) -> None:
    """How often each action is kept, and kept alone, or taken; the most frequent first."""
    shown = np.argsort(-kept, kind="stable")[:20]
    more = len(actions) - len(shown)
    counts = {"kept": kept, "kept alone": alone} if rule in SET_RULES else {"taken": kept}
    lines = [[actions[a], *(f"{count[a]:,}" for count in counts.values())] for a in shown]
    caption = f"and {more:,} more actions" if more else None
    output.print(table(f"{rule}, {rows:,} inputs", ("action", *counts), lines, caption))
