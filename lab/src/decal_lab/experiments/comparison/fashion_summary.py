"""Tables, figures and claims of the comparison on images, made from rows alone."""

from __future__ import annotations

from dataclasses import replace

from decal_lab.experiments.comparison.entries import Entry, entries
from decal_lab.experiments.comparison.fashion_figures import drawings
from decal_lab.experiments.comparison.fashion_images import FashionPlan
from decal_lab.experiments.comparison.plan import (
    BOTH,
    CLASS,
    DRAWN,
    ENERGY,
    ENTROPY,
    OTHER_AUROC,
    OTHER_SCORES,
    OUTSIDE,
    REAL,
    SEVERAL_NETWORKS,
)
from decal_lab.experiments.comparison.summary import (
    DRAWN_COLUMNS,
    HULL_NOTE,
    Columns,
    coverage_claims,
    csv_text,
    notes_of,
    rows_of,
    shown,
    tabled,
)
from decal_lab.experiments.harness.experiment import Findings
from decal_lab.experiments.harness.reports import Claim, Report, Table, seeds_text
from decal_lab.experiments.harness.rows import RowStore

TIMES_FASTER = 5
AUROC_TOLERANCE = 0.02
"""The largest difference in AUROC that does not count."""


def findings(
    store: RowStore, *, plan: FashionPlan, seeds: tuple[int, ...], published: tuple[Table, ...] = ()
) -> Findings:
    """Tables, figures and claims of the rows of a plan; published tables come last."""
    rows = {labels: rows_of(store, plan, seeds, labels) for labels in (REAL, DRAWN)}
    real, drawn = entries(rows[REAL]), entries(rows[DRAWN])
    parts = (plan, seeds, real, shown(drawn), published)
    return Findings(
        replace(_tables(*parts, narrow=True), claims=tuple(_claims(real, drawn))),
        drawings(real, drawn),
        in_files=_tables(*parts, narrow=False),
        texts={"table.csv": csv_text({REAL: real, DRAWN: drawn})},
        notes=tuple(notes_of([*rows[REAL], *rows[DRAWN]])),
    )


REAL_COLUMNS: Columns = (
    ("accuracy", "accuracy", "acc.", 3),
    ("ece", "ECE", "ECE", 3),
    ("auroc_mnist", "AUROC MNIST", "MNIST", 3),
    ("auroc_notmnist", "AUROC notMNIST", "notMNIST", 3),
    ("train_seconds", "training, s", "train", 1),
    ("predict_seconds", "prediction, s", "predict", 2),
)


SCORE_COLUMNS: Columns = tuple(
    (f"{column}{end}", f"{name} by {title}", f"{name} {short}", 3)
    for column, name in OUTSIDE.items()
    for end, title, short in (
        ("", "difference of entropies", "difference"),
        *((f"_{end}", title, end) for end, title in OTHER_SCORES.items()),
    )
)


def _tables(
    plan: FashionPlan,
    seeds: tuple[int, ...],
    real: list[Entry],
    drawn: list[Entry],
    published: tuple[Table, ...],
    *,
    narrow: bool,
) -> Report:
    """All tables; narrow ones fit a terminal, and have few standard deviations."""
    headings, sections = tabled(real, REAL_COLUMNS, narrow=narrow)
    scored = [entry for entry in real if entry.values.keys() & OTHER_AUROC.keys()]
    score_headings, score_sections = tabled(scored, SCORE_COLUMNS, narrow=narrow)
    drawn_headings, drawn_sections = tabled(drawn, DRAWN_COLUMNS, narrow=narrow)
    over = "Mean ± standard deviation over seeds" if len(seeds) > 1 else "One seed"
    return Report(
        title=f"Fashion-MNIST, {seeds_text(seeds)}: detection and time",
        headings=headings,
        sections=sections,
        caption=(
            f"{over}\n"
            f"{plan.train:,} images to train each of {plan.members} networks, "
            f"in {plan.epochs} epochs\n"
            f"{plan.held_out:,} others to fit decalibration; {plan.test:,} to test, "
            f"{plan.outside:,} of other kinds\n"
            "AUROC: by the difference of entropies, or by the method's own score\n"
            "Seconds of one core, least over seeds: to train all networks needed; to score the "
            "test images"
        ),
        further=(
            Table(
                title="AUROC by other measures of the same sets",
                headings=score_headings,
                sections=score_sections,
            ),
            Table(
                title="Labels drawn from a forest: are its probabilities in the set?",
                headings=drawn_headings,
                sections=drawn_sections,
                caption=HULL_NOTE,
            ),
            *published,
        ),
    )


# Claims


def _claims(real: list[Entry], drawn: list[Entry]) -> list[Claim]:
    """What the paper and the theory lead one to expect, and whether it holds."""
    claims = []
    by_method: dict[str, list[Entry]] = {}
    for entry in real:
        by_method.setdefault(entry.method, []).append(entry)
    ensembles = {m: by_method[m] for m in SEVERAL_NETWORKS if m in by_method}
    if CLASS in by_method and ensembles:
        own = by_method[CLASS][0].seconds("train_seconds")
        fastest = min(ensembles, key=lambda m: ensembles[m][0].seconds("train_seconds"))
        ratio = ensembles[fastest][0].seconds("train_seconds") / own
        text = (
            f"Decalibration is ready {ratio:.1f} times sooner than the fastest method of several "
            f"networks, {fastest} (expected {TIMES_FASTER} or more)"
        )
        claims.append(Claim(text, ratio >= TIMES_FASTER))
    for column, name in OUTSIDE.items():
        claims += _detection_claims(by_method, ensembles, column, name)
    return claims + coverage_claims(drawn)


def _detection_claims(
    by_method: dict[str, list[Entry]], ensembles: dict[str, list[Entry]], column: str, name: str
) -> list[Claim]:
    best = {
        method: max(found, key=lambda e: e.mean(column))
        for method, found in by_method.items()
        if all(column in e.values for e in found)
    }
    ours = [best[m] for m in (CLASS, BOTH) if m in best]
    if not ours:
        return []
    own = max(ours, key=lambda e: e.mean(column))
    named = f"decalibration's best ({own.method.partition(', ')[2]}, alpha {own.level})"
    claims = []
    rivals = [best[m] for m in ensembles if m in best]
    if rivals:
        rival = max(rivals, key=lambda e: e.mean(column))
        text = (
            f"{name}: {named} detects as well as several networks' best, {_named(rival)}: "
            f"{own.mean(column):.3f} against {rival.mean(column):.3f}"
        )
        claims.append(Claim(text, own.mean(column) >= rival.mean(column) - AUROC_TOLERANCE))
    for method in (ENTROPY, ENERGY):
        if method in best:
            text = (
                f"{name}: {named} detects better than the {method.lower()} of the same network: "
                f"{own.mean(column):.3f} against {best[method].mean(column):.3f}"
            )
            claims.append(Claim(text, own.mean(column) > best[method].mean(column)))
    return claims


def _named(entry: Entry) -> str:
    return f"{entry.method} ({entry.level})" if entry.level else entry.method
