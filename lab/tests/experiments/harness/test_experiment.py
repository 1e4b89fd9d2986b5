"""What all experiments share: cells are computed once, runs resume, results are written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import decal
from decal_lab.experiments import compare_directions as directions
from decal_lab.experiments import (
    coverage_efficiency,
    single_models,
    solvers,
    spider_gallery,
)
from decal_lab.experiments import zero_shot_models as zero_shot
from decal_lab.experiments.harness.curves import levels
from decal_lab.experiments.harness.experiment import Request, run
from decal_lab.experiments.harness.fingerprints import Fingerprints
from decal_lab.experiments.harness.logit_sets import NoDataAvailableError
from decal_lab.experiments.harness.rows import RowStore
from lab_helpers.experiment_runs import COARSE_EXPONENTS, Stopped, coarse, numbers, table
from lab_helpers.undrawn import undrawn

TABLES = ("table.csv", "table.md", "table.tex")

FIGURES = ("curves.svg", "curves.png", "curves_dark.svg")

EVERY = [coverage_efficiency, solvers, zero_shot, spider_gallery, single_models]

TEXTS = {"rows.csv", "table.md", "table.tex"}


@pytest.fixture(autouse=True)
def few_levels():
    with coarse():
        yield


@pytest.mark.slow
def test_a_second_run_computes_nothing_and_changes_nothing(every_family, directions_copy):
    before = {path.name: path.read_bytes() for path in directions_copy.iterdir()}
    counted = Stopped()
    run(directions.experiment, every_family, directions_copy, quick=True, track=counted)
    assert counted.cells == []
    assert {path.name: path.read_bytes() for path in directions_copy.iterdir()} == before


@pytest.mark.slow
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


@undrawn()
def test_rows_of_another_version_are_kept_and_said(every_family, directions_copy):
    text = (directions_copy / "rows.csv").read_text()
    old = text.replace(f",{decal.__version__},", ",0.0.1,", 5)
    (directions_copy / "rows.csv").write_text(old)
    report = run(directions.experiment, every_family, directions_copy, quick=True)
    (note,) = (note for note in report.notes if "matplotlib" not in note)
    assert "rows were computed by decal 0.0.1" in note
    assert f"and decal {decal.__version__}" in note
    assert (directions_copy / "rows.csv").read_text() == old


def changed(folder, target, name="clip_cifar10_en.npz"):
    """A copy of a folder of data in which one file has other logits, of the same size and time."""
    copy = Path(shutil.copytree(folder, target))
    with np.load(copy / name) as archive:
        arrays = dict(archive)
    arrays["logits"] = arrays["logits"][::-1]
    before = (copy / name).stat()
    np.savez(copy / name, **arrays)
    os.utime(copy / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    return copy


@pytest.mark.slow
@undrawn()
def test_cells_of_changed_data_are_computed_again_and_others_are_not(
    every_family, directions_copy, tmp_path
):
    other = changed(every_family, tmp_path / "other")
    counted = Stopped()
    report = run(directions.experiment, other, directions_copy, quick=True, track=counted)
    assert {cell.data for cell in counted.cells} == {"clip_cifar10_en"}
    assert len(counted.cells) == len(directions.METHODS)
    (note,) = report.notes
    assert note == (
        "4 cells of an earlier run were computed again, as their data or settings had changed: "
        "clip_cifar10_en"
    )
    run(directions.experiment, other, tmp_path / "fresh", quick=True)
    for name in TABLES:
        assert (directions_copy / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()
    assert sorted(map(str, numbers(directions_copy / "rows.csv"))) == sorted(
        map(str, numbers(tmp_path / "fresh" / "rows.csv"))
    )
    counted = Stopped()
    assert run(directions.experiment, other, directions_copy, quick=True, track=counted).notes == ()
    assert counted.cells == []


@undrawn()
def test_rows_of_data_that_are_gone_are_told(one_file, directions_copy):
    report = run(directions.experiment, one_file, directions_copy, quick=True)
    (note,) = report.notes
    assert note.startswith("rows of cnn_vgg_15_BN_64, ")
    assert note.endswith("are of an earlier run: their data are not here to be compared")


@undrawn()
def test_cells_of_changed_settings_are_computed_again(one_file, tmp_path, monkeypatch):
    run(directions.experiment, one_file, tmp_path, quick=True)
    method = next(iter(directions.METHODS))
    other = directions.METHODS | {method: ("temperature",)}
    monkeypatch.setattr(directions, "METHODS", other)
    counted = Stopped()
    run(directions.experiment, one_file, tmp_path, quick=True, track=counted)
    assert [cell.method for cell in counted.cells] == [method]


@undrawn()
def test_rows_without_a_fingerprint_are_computed_again(one_file, tmp_path):
    run(directions.experiment, one_file, tmp_path, quick=True)
    wanted = numbers(tmp_path / "rows.csv")
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[0].endswith(",fingerprint")
    old = "".join(line.rpartition(",")[0] + "\n" for line in lines)
    (tmp_path / "rows.csv").write_text(old)
    counted = Stopped()
    run(directions.experiment, one_file, tmp_path, quick=True, track=counted)
    assert len(counted.cells) == len(directions.METHODS)
    assert numbers(tmp_path / "rows.csv") == wanted


@pytest.mark.parametrize("module", EVERY)
def test_every_cell_depends_on_some_file_and_no_file_concerns_all(paper_folder, module, tmp_path):
    def fingerprints():
        found = module.experiment(Request(copy, tmp_path, quick=True))
        return {cell: Fingerprints().of(found.inputs(cell)) for cell in found.cells}

    copy = Path(shutil.copytree(paper_folder, tmp_path / "copy"))
    before, noticed = fingerprints(), set()
    for path in copy.glob("*.npz"):
        content = path.read_bytes()
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("more", "")
        different = {cell for cell, now in fingerprints().items() if now != before[cell]}
        assert len({cell.data for cell in different}) <= 2  # files of NLI hold two data sets
        noticed |= different
        path.write_bytes(content)
    assert noticed == before.keys()


RUNNING = (
    "import sys; from pathlib import Path\n"
    "from decal_lab.experiments.compare_directions import experiment\n"
    "from decal_lab.experiments.harness import curves\n"
    "from decal_lab.experiments.harness.experiment import run\n"
    f"curves.QUICK_EXPONENTS = {COARSE_EXPONENTS}\n"
    "def track(cells):\n"
    "    print('running', flush=True); sys.stdin.readline(); yield from cells\n"
    "run(experiment, Path(sys.argv[1]), Path(sys.argv[2]), quick=True, track=track)\n"
)


def test_of_two_runs_at_once_the_second_is_refused(one_file, tmp_path):
    pytest.importorskip("fcntl", reason="Windows has no such locks")
    first = subprocess.Popen(
        [sys.executable, "-c", RUNNING, one_file, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert first.stdout.readline() == b"running\n"
        with pytest.raises(ValueError, match="must be written by one run at a time"):
            run(directions.experiment, one_file, tmp_path, quick=True)
        first.communicate(b"\n")
        assert first.returncode == 0
    finally:
        first.kill()
        first.communicate()
    rows = [tuple(row.values())[:4] for row in table(tmp_path / "rows.csv")]
    assert len(rows) == len(set(rows))
    assert len(rows) == len(directions.METHODS) * len(levels(quick=True))


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


@pytest.mark.slow
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


@pytest.mark.slow
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
