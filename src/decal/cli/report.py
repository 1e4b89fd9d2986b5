"""decal report: one line per input, what a person needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import decal
from decal._base.errors import InputError, listing
from decal._base.set_checks import ACTION, check_utility
from decal._base.settings import check_choice
from decal.cli import options
from decal.cli.options import option
from decal.cli.run import Asked, chunks_of_all
from decal.cli.terminal import output, say
from decal.credal import CredalSet
from decal.io.folders import Layout
from decal.io.formats import arrow, open_file, open_table
from decal.io.writers import check_output, column_writer
from decal.new_inputs import NewInputs
from decal.report import ACTION_RULES, SAVED, Report, in_parts, printed, titled

SHOWN = 20  # lines that are enough for the terminal

REPORT_EXAMPLES = """Examples:
    decal report model.npz new.csv
    decal report model.npz new.csv --check 0.1 --id-column id -o report.html
    decal report model.npz new.csv --costs costs.csv --rule gamma_maximin
Costs:
    a .csv or .parquet with a column action and a column per class, named after it: what each \
action costs if the class is true
Rules:
    keep actions that may be best, and take the cheapest of them at the point prediction: \
e_admissible (the default), maximality, interval_dominance
    take one: gamma_maximin (cheapest at worst), gamma_maximax (at best), minimax_regret (least \
to regret), point (at the point prediction)
Output:
    a line per input: row, or the columns of --id-column; prediction; possible (classes); lower \
and upper (of the predicted class); node and path, of a tree; check and action, if asked for. An \
.html page works offline, and is held in memory
"""


@options.with_reading("truth_key", "weights_key", "ignore_index")
def report(
    model: options.ModelArgument,
    logits: options.FilesArgument,
    check: Annotated[
        float | None, option("A person should see this share of the inputs.", "SHARE")
    ] = None,
    costs: Annotated[
        Path | None, options.file_option("What each action costs in each class; see below.")
    ] = None,
    rule: Annotated[
        str | None,
        options.choice_option("How costs choose the action; see below.", "RULE", ACTION_RULES),
    ] = None,
    alpha: options.AlphaOption = None,
    out: Annotated[
        Path | None,
        options.output_option("Write all lines: .csv, .parquet or .html; - for standard output."),
    ] = None,
    *,
    reading: options.Reading,
    force: options.ForceOption = False,
) -> None:
    """Tell what is possible for each input, and what to do.

    A line per input, with the rows that a person should check. Prints the first lines, and what
    the model promises.
    """
    if out is not None:
        check_output(out, force=force, formats=SAVED)
    if rule is not None and costs is None:
        raise InputError("rule", "go with --costs", f"{rule} alone")
    if check is not None and not 0 < check <= 1:
        raise InputError("check", "be above 0 and at most 1", f"{check:g}")
    fitted = decal.Decalibrator.load(model)
    asked = Asked(fitted, alpha, reading)
    layout = Layout(len(fitted.class_weights), fitted.classes)
    told: dict[str, Any] = {"check": check, "promise": asked.promise}
    if costs is not None:
        chosen = check_choice(rule or "e_admissible", "rule", ACTION_RULES)
        told |= {"costs": _costs(costs, layout), "rule": chosen}
    folder = reading.folder(logits, fitted)

    def sets() -> Iterator[CredalSet]:
        noticed, predict = NewInputs(fitted, asked.level), asked.predict()
        for chunk in chunks_of_all(folder, layout, "Reporting"):
            found = predict(chunk)
            noticed.add(chunk, found)
            yield found
        if not noticed.rows:
            raise folder.without_rows()
        noticed.warn()

    first, rows, found = _written(in_parts(sets, **told), out)
    marked = None if check is None else found
    if out is None:
        text = printed(first, f"Report: {titled(rows, marked)}", rows)
        output.print(text, highlight=False, markup=False, soft_wrap=True)
    else:
        say(f"Wrote {out}: {titled(rows, marked)}", style="green")


def _written(parts: Iterator[Report], out: Path | None) -> tuple[Report, int, int]:
    """The first lines of a report that is written to a file, if one is named; its size, and marks.

    A page is held whole; of all else, what is printed.
    """
    kind = None if out is None else out.suffix.lower()
    held: list[Report] = []
    rows = marked = 0
    with column_writer(out) if out is not None and kind != ".html" else nullcontext() as append:
        for part in parts:
            if append is not None:
                append(part.arrow_columns(lists=kind == ".parquet"))
            if kind == ".html" or rows < SHOWN:
                held.append(part if kind == ".html" else part[:SHOWN])
            rows += len(part)
            marked += part.marked or 0
    first = Report.join(held)
    if out is not None and kind == ".html":
        first.save(out)
    return first, rows, marked


def _costs(path: Path, layout: Layout) -> Any:
    """A table of what each action costs in each class."""
    file = open_file(path)
    if not file.is_table:
        raise InputError("costs", "be a table, .csv or .parquet", f"{path}")
    if ACTION not in file.names:
        fact = f"{listing(file.names)} in {path}"
        raise InputError("costs", f"have a column {ACTION}", fact)
    columns = tuple(name for name in file.names if name != ACTION)
    numbers = list(open_table("costs", file, columns).read())
    names = [block[:, 0] for block in open_table("costs", file, (ACTION,), text=True).read()]
    if not numbers:
        raise InputError("costs", "have a line for every action", f"none in {path}")
    matrix = np.concatenate(numbers)
    table = arrow().table(
        {ACTION: np.concatenate(names)} | dict(zip(columns, matrix.T.copy(), strict=True))
    )
    check_utility(table, layout.width, layout.classes, "costs")
    return table
