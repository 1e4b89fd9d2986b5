"""What all experiments share: cells are computed once, runs resume, results are written."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import decal
from decal._experiments import compare_directions as directions
from decal._experiments import (
    coverage_efficiency,
    single_models,
    solvers,
    spider_gallery,
)
from decal._experiments import zero_shot_models as zero_shot
from decal._experiments.harness.curves import levels
from decal._experiments.harness.experiment import Request, run
from decal._experiments.harness.logit_sets import NoDataAvailableError
from decal._experiments.harness.rows import RowStore
from helpers.experiment_runs import Stopped, numbers, table
from helpers.undrawn import undrawn

TABLES = ("table.csv", "table.md", "table.tex")

FIGURES = ("curves.svg", "curves.png", "curves_dark.svg")

EVERY = [coverage_efficiency, solvers, zero_shot, spider_gallery, single_models]

TEXTS = {"rows.csv", "table.md", "table.tex"}


def test_a_second_run_computes_nothing_and_changes_nothing(every_family, directions_copy):
    before = {path.name: path.read_bytes() for path in directions_copy.iterdir()}
    counted = Stopped()
    run(directions.experiment, every_family, directions_copy, quick=True, track=counted)
    assert counted.cells == []
    assert {path.name: path.read_bytes() for path in directions_copy.iterdir()} == before


def test_a_run_whose_rows_were_cut_off_resumes_to_the_same_tables(every_family, directions_copy):
    wanted = {path.name: path.read_bytes() for path in directions_copy.iterdir()}
    rows = wanted.pop("rows.csv")
    for path in directions_copy.iterdir():
        path.unlink()
    (directions_copy / "rows.csv").write_bytes(rows[: len(rows) // 2 + 7])  # within a line
    counted = Stopped()
    run(directions.experiment, every_family, directions_copy, quick=True, track=counted)
    assert 8 < len(counted.cells) < 12  # of 20
    for name, content in wanted.items():
        assert (directions_copy / name).read_bytes() == content, name
    assert len(table(directions_copy / "rows.csv")) == rows.count(b"\n") - 1


@undrawn()
def test_a_run_without_every_other_row_resumes_to_the_same_tables(one_file, tmp_path):
    run(directions.experiment, one_file, tmp_path, quick=True)
    lines = (tmp_path / "rows.csv").read_text().splitlines(keepends=True)
    wanted = [(tmp_path / name).read_bytes() for name in TABLES]
    (tmp_path / "rows.csv").write_text("".join([lines[0], *lines[1::2]]))
    run(directions.experiment, one_file, tmp_path, quick=True)
    assert [(tmp_path / name).read_bytes() for name in TABLES] == wanted
    assert len(table(tmp_path / "rows.csv")) == len(lines) - 1


def test_a_stopped_run_loses_no_finished_cell(one_file, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(directions.experiment, one_file, tmp_path, quick=True, track=Stopped(after=2))
    store = RowStore(tmp_path / "rows.csv", directions.COLUMNS, level="alpha")
    assert len(store.cells) == 2
    assert all(store.finished(cell, levels(quick=True)) for cell in store.cells)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


@undrawn()
def test_a_full_run_replaces_quick_cells_and_a_quick_run_keeps_full_ones(
    every_family, directions_copy, tmp_path, monkeypatch
):
    last = "tabpfn_MIC_46980_seed1.npz"
    (tmp_path / "data").mkdir()
    shutil.copy(every_family / last, tmp_path / "data")
    full = [*levels(quick=True)[:-1], 1e-9, 0.0]
    alphas = {True: levels(quick=True), False: full}
    monkeypatch.setattr(directions, "levels", lambda quick: alphas[quick])
    for quick in (False, True):
        counted = Stopped()
        run(
            directions.experiment,
            tmp_path / "data",
            directions_copy,
            quick=quick,
            track=counted,
        )
        assert len(counted.cells) == (0 if quick else len(directions.METHODS))
    kept = RowStore(directions_copy / "rows.csv", directions.COLUMNS, level="alpha")
    assert {len(rows) for rows in kept.cells.values()} == {len(full), len(full) - 1}


@undrawn()
def test_seeds_do_not_mix(one_file, tmp_path):
    tables = []
    for seed in (0, 1, 0):
        run(directions.experiment, one_file, tmp_path, seeds=(seed,), quick=True)
        tables.append((tmp_path / "table.csv").read_text())
        assert {row["seeds"] for row in table(tmp_path / "table.csv")} == {str(seed)}
    assert tables[0] == tables[2]
    assert len({text.replace(",1,", ",0,") for text in tables}) == 2  # other halves


def test_rows_of_another_version_are_kept_and_said(every_family, directions_copy):
    text = (directions_copy / "rows.csv").read_text()
    old = text.replace(f",{decal.__version__},", ",0.0.1,", 5)
    (directions_copy / "rows.csv").write_text(old)
    report = run(directions.experiment, every_family, directions_copy, quick=True)
    (note,) = (note for note in report.notes if "matplotlib" not in note)
    assert "rows were computed by decal 0.0.1" in note
    assert f"and decal {decal.__version__}" in note
    assert (directions_copy / "rows.csv").read_text() == old


def test_without_matplotlib_the_tables_are_still_written(
    every_family, directions_copy, monkeypatch
):
    for name in FIGURES + TABLES:
        (directions_copy / name).unlink(missing_ok=True)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report = run(directions.experiment, every_family, directions_copy, quick=True)
    assert report.notes == ("figures need matplotlib: pip install 'decal[plot]'",)
    assert {path.name for path in directions_copy.iterdir()} == {"rows.csv", *TABLES}
    assert {path.name for path in report.files} == {"rows.csv", *TABLES}


def test_a_lone_seed_stands_for_several_and_others_for_themselves():
    assert Request(Path(), Path(), (4,)).extended_seeds(3) == (4, 5, 6)
    assert Request(Path(), Path(), (0, 7)).extended_seeds(3) == (0, 7)


@pytest.mark.parametrize("module", EVERY)
def test_rows_tables_and_figures_are_left_and_told(paper_runs, module):
    pytest.importorskip("matplotlib", reason="needs decal[plot]")
    out, report = paper_runs[module]
    assert {path.name for path in report.files} == {path.name for path in out.iterdir()}
    written = {path.name for path in out.iterdir()}
    assert written >= TEXTS
    pictures = {name for name in written - TEXTS if name.endswith(".png")}
    assert pictures
    for name in pictures:
        assert {name.replace(".png", ".svg"), name.replace(".png", "_dark.svg")} <= written
    assert report.notes == ()
    for told in report.tables:
        assert told.sections
        for rows in told.sections.values():
            assert all(len(row) == len(told.headings) for row in rows)
            assert all(isinstance(cell, str) for row in rows for cell in row)


@pytest.mark.parametrize("module", EVERY)
def test_a_second_run_computes_nothing_and_the_same_seed_gives_the_same_rows(
    paper_runs, module, paper_folder, tmp_path
):
    out, _ = paper_runs[module]
    before = (out / "rows.csv").read_bytes()
    computed = []

    def track(cells):
        computed.extend(cells)
        yield from cells

    again = tmp_path / "again"
    again.mkdir()
    shutil.copy(out / "rows.csv", again)  # the figures of the first run stay as they are
    with undrawn():
        run(module.experiment, paper_folder, again, quick=True, track=track)
        assert computed == []
        assert (again / "rows.csv").read_bytes() == before
        run(module.experiment, paper_folder, tmp_path, quick=True)
    assert numbers(tmp_path / "rows.csv") == numbers(out / "rows.csv")


@pytest.mark.parametrize("module", [coverage_efficiency, zero_shot, single_models])
def test_a_killed_run_resumes_to_the_same_tables(paper_runs, module, paper_folder, tmp_path):
    out, _ = paper_runs[module]
    whole = (out / "rows.csv").read_bytes()
    (tmp_path / "rows.csv").write_bytes(whole[: len(whole) // 2 + 3])  # within a line
    with undrawn():
        run(module.experiment, paper_folder, tmp_path, quick=True)
    for name in ("table.md", "table.tex"):
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes()
    assert len(table(tmp_path / "rows.csv")) == len(table(out / "rows.csv"))


@pytest.mark.parametrize("module", EVERY)
def test_an_empty_folder_is_refused_and_what_is_needed_is_named(module, tmp_path):
    with pytest.raises(NoDataAvailableError, match=r"got none in .*\. Needs .*\.npz"):
        run(module.experiment, tmp_path, tmp_path / "out")
