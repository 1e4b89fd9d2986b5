"""decal choose: the alpha that grants a wish, as a number, a table or a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import decal
from decal._base.errors import InputError
from decal._base.settings import check_choice
from decal.choose import Choice
from decal.cli import options
from decal.cli.options import option
from decal.cli.run import all_rows
from decal.cli.terminal import in_options, output, progress_bar, say
from decal.credal import SET_RULES
from decal.io.folders import Layout, open_folder
from decal.io.formats import TABLES
from decal.io.writers import check_output, write_columns

CHOOSE_EXAMPLES = """Examples:
    decal choose model.npz heldout.csv --miss 0.05
    decal choose model.npz heldout.npz --coverage 0.9 --guaranteed -o chosen.npz
    decal choose model.npz logits.npy --width 0.2 -o choice.csv
    decal predict model.npz new.csv -o sets.csv \\
        --alpha $(decal choose model.npz heldout.csv --miss 0.05)
Which wish needs what:
    --miss: labels that neither trained nor fitted the model. The kept classes of new inputs miss \
the label at most so often, guaranteed; with --unit image on average over images.
    --width: logits alone. The intervals have this mean width.
    --hold: such labels, and a model of local sets (decal fit --directions local --mix 0.001). \
The sets of new inputs hold the whole true distribution at least so often, guaranteed.
    --coverage: true distributions. So many of them lie in their sets; with --guaranteed, those of \
new inputs do, with this probability.
Output:
    The number alone on standard output, what it promises on standard error. With -o also a file: \
.npz is the model with this alpha and its promise, .csv and .parquet hold the choice.
"""


@options.with_reading("weights_key")
def choose(
    model: options.ModelArgument,
    logits: options.LogitsArgument,
    miss: options.MissOption = None,
    width: options.WidthOption = None,
    hold: options.HoldOption = None,
    coverage: Annotated[
        float | None, option("Wanted share of known distributions inside, 0 to 1.", "SHARE")
    ] = None,
    guaranteed: Annotated[
        bool, option("With --coverage: of new inputs, not of these.", None, "--guaranteed")
    ] = False,
    per: options.PerOption = None,
    unit: options.UnitOption = None,
    tolerate: options.TolerateOption = None,
    rule: Annotated[
        str | None,
        options.rule_option("With --miss, the classes that a set keeps", "by what MODEL knows"),
    ] = None,
    confidence: Annotated[
        float | None, option("With --hold: over the draw of these labels, not on average.", "SHARE")
    ] = None,
    seed: Annotated[int, option("Seed that orders the labels, with --hold.", "N", min=0)] = 0,
    out: Annotated[
        Path | None,
        options.output_option(
            "Also write the model with this promise, .npz; or the choice, .csv or .parquet."
        ),
    ] = None,
    labels: options.LabelsOption = None,
    annotators: options.AnnotatorsOption = "",
    truth: options.TruthOption = None,
    *,
    reading: options.Reading,
    force: options.ForceOption = False,
) -> None:
    """Find the alpha that grants a wish on held-out rows.

    Name one wish: how often to be wrong, a width, or what sets hold. Take inputs that
    the model was not fitted on.
    """
    wishes: dict[str, Any] = {"miss": miss, "width": width, "hold": hold, "coverage": coverage}
    wish = options.one_wish(**wishes)
    _require_wish("guaranteed", guaranteed, wish, "coverage")
    _require_wish("confidence", confidence is not None, wish, "hold")
    if rule is not None:
        check_choice(rule, "rule", SET_RULES)
    if out is not None:
        check_output(out, force=force, formats=(".npz", *TABLES))
    fitted = decal.Decalibrator.load(model)
    if wish == "hold":
        _require_local(fitted)
    people = options.annotators_of(annotators, labels, logits)
    if people and wish not in ("miss", "hold"):
        raise InputError("annotators", "go with --miss or --hold", f"--{wish}")
    of_rows = () if people else ("labels",)
    needed: tuple[str, ...] = {"width": (), "coverage": ("truth",)}.get(wish, of_rows)
    if reading.ignore_index is not None:
        needed = (*needed, *({"labels"} - {*needed}))
    folder = open_folder(
        logits,
        labels=labels if "labels" in needed else None,
        truth=truth if "truth" in needed else None,
        classes=fitted.classes,
        wanted=(),
        needed=needed,
        **reading.places(*needed, named=False, annotators=people),
        **reading.meaning(fitted),
    )
    layout = Layout(len(fitted.class_weights), fitted.classes)
    data, groups = reading.grouped(all_rows(folder, layout))
    data = options.voted(data, people)
    with progress_bar("Choosing"):
        choice = decal.choose(
            fitted,
            data,
            **wishes,
            per=per,
            groups=groups,
            unit=unit,
            tolerate=tolerate,
            rule=rule,
            distributions=data.truth if wish == "coverage" else None,
            guaranteed=guaranteed,
            confidence=confidence,
            seed=seed,
        )
    say(in_options(str(choice)), style="yellow" if choice.promise.notes else "green")
    output.print(repr(choice.alpha), highlight=False)
    if out is not None:
        _write(out, choice)
        say(f"Wrote {out}", style="green")


def _require_wish(option: str, given: bool, wish: str, wanted: str) -> None:
    if given and wish != wanted:
        raise InputError(option, f"go with --{wanted}", f"--{wish}")


def _require_local(model: decal.Decalibrator) -> None:
    if not any(isinstance(d, decal.Local) and d.mix for d in model.directions):
        fact = ", ".join(d.name for d in model.directions)
        remedy = "Fit it anew with --directions local --mix 0.001."
        raise InputError("model", "have local sets with a positive mix for --hold", fact, remedy)


def _write(out: Path, choice: Choice) -> None:
    if out.suffix.lower() == ".npz":
        choice.promised().save(out)
        return
    promise = choice.promise
    found = {
        "alpha": choice.alpha,
        "wish": promise.kind,
        "target": promise.target,
        "achieved": choice.achieved,
        "rows": promise.rows,
        "promise": str(promise),
        "notes": in_options("; ".join(promise.notes)),
    }
    write_columns(out, {name: [value] for name, value in found.items()})
