"""The experiments: on tiny files in the real formats, and on the real data where they are."""

from __future__ import annotations

import ast
import math
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import decal
from decal import _experiments as experiments
from decal._experiments import compare_directions as directions
from decal._experiments.harness.curves import Curve, levels
from decal._experiments.harness.logit_sets import SHARED_FILES, find, named
from decal._experiments.harness.rows import Cell, RowStore, provenance, untracked
from helpers.experiment_runs import Stopped, table

TABLES = ("table.csv", "table.md", "table.tex")
FIGURES = ("curves.svg", "curves.png")
NAMES = [
    "clip_cifar10_en",
    "cnn_vgg_15_BN_64",
    "snli_bert0/own",
    "snli_bert0/half",
    "tabpfn_MIC_46980_seed1",
]
"""The data sets of the tiny folder, in the order of tables."""


def draw(rng, rows, classes):
    """Logits in float32, labels and a truth that they are drawn from, as in the real files."""
    latent = rng.standard_normal((rows, classes))
    truth = np.exp(latent) / np.exp(latent).sum(axis=1, keepdims=True)
    labels = np.argmax(truth.cumsum(axis=1) > rng.random((rows, 1)), axis=1)
    logits = 2 * latent + rng.standard_normal((rows, classes))
    return logits.astype(np.float32), labels.astype(np.int16), truth.astype(np.float32)


def write_tiny(folder):
    rng = np.random.default_rng(0)
    for name in ("clip_cifar10_en", "cnn_vgg_15_BN_64_test"):
        logits, labels, human = draw(rng, 61, 4)
        np.savez(folder / name, logits=logits, labels=labels, human=human, classes=list("abcd"))
    for name, truth in (("snli_bert0", "human"), ("tabpfn_MIC_46980_seed1", "truth")):
        train, test = draw(rng, 50, 3), draw(rng, 40, 3)
        np.savez(
            folder / name,
            train_logits=train[0],
            train_labels=train[1],
            test_logits=test[0],
            test_labels=test[1],
            **{truth: test[2]},
        )
    # What the folder also holds, and no experiment on coverage can use.
    np.savez(folder / "clip_dermamnist_en", train_logits=train[0], train_labels=train[1])
    np.savez(folder / "resnet20_cifar10", cifar10_test=test[0], test_labels=test[1])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder of tiny files of every family."""
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny(folder)
    return folder


@pytest.fixture(scope="module")
def one(tiny, tmp_path_factory):
    """A folder with one of these files."""
    folder = tmp_path_factory.mktemp("one")
    shutil.copy(tiny / "clip_cifar10_en.npz", folder)
    return folder


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """The results of a quick run on the tiny folder, and what it reported."""
    out = tmp_path_factory.mktemp("results") / "directions"
    return out, directions.run(tiny, out, quick=True)


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of these results to change."""
    return Path(shutil.copytree(finished[0], tmp_path / "copy"))


# Data


def test_files_become_data_sets_by_their_names(tiny):
    found, absent = find(tiny)
    assert [d.name for d in found] == NAMES
    assert [d.title for d in found] == [
        "CLIP, English",
        "VGG 15",
        "BERT, SNLI, own split",
        "BERT, SNLI, halves",
        "MIC, seed 1",
    ]
    assert [named(d.name) for d in found] == found
    assert len(absent) == len(SHARED_FILES) - 4
    assert "siglip2_cifar10_en.npz" in absent
    assert "clip_cifar10_en.npz" not in absent


def test_files_of_other_people_are_found_too_and_come_last(tiny, tmp_path):
    for new in ("dinov9_cifar10_sw", "clip_cifar10_en"):
        shutil.copy(tiny / "clip_cifar10_en.npz", tmp_path / f"{new}.npz")
    assert [d.title for d in find(tmp_path)[0]] == ["CLIP, English", "dinov9, Swahili"]


def test_halves_are_disjoint_and_the_seed_draws_them(tiny):
    (data,) = (d for d in find(tiny)[0] if d.name == "clip_cifar10_en")
    with np.load(tiny / "clip_cifar10_en.npz") as file:
        whole = file["logits"]
    first, again, other = (data.load(tiny, seed) for seed in (0, 0, 1))
    both = np.concatenate([first.logits, first.new_logits])
    np.testing.assert_array_equal(np.sort(both, axis=0), np.sort(whole, axis=0))
    np.testing.assert_array_equal(first.logits, again.logits)
    assert (first.logits != other.logits).any()
    assert (len(first.logits), len(first.new_logits)) == (30, 31)


def test_a_file_without_a_truth_is_refused(tiny, tmp_path):
    with np.load(tiny / "clip_cifar10_en.npz") as whole:
        np.savez(tmp_path / "clip_cifar10_en.npz", logits=whole["logits"], labels=whole["labels"])
    with pytest.raises(ValueError, match=r"must hold logits, labels, human: got no human\."):
        find(tmp_path)[0][0].load(tmp_path, 0)


# Curves


def test_levels_are_dense_near_one_and_quick_ones_are_among_all():
    every, quick = levels(), levels(quick=True)
    assert every[0] == quick[0] == 1
    assert every[-1] == quick[-1] == 0
    assert every == sorted(set(every), reverse=True)
    assert set(quick) < set(every)
    assert len(quick) < 0.4 * len(every)
    assert sum(alpha > 0.99 for alpha in every) > 40


def test_a_curve_is_read_between_its_points_and_not_beyond_its_ends():
    curve = Curve(np.array([1, 0.5, 0]), np.array([0.2, 0.6, 1.0]), np.array([0.9, 0.7, 0.1]))
    assert curve.at(0.8) == pytest.approx(0.4)
    assert curve.at(0.1) == 1
    assert curve.at(0.9) == 0.2
    assert math.isnan(curve.at(0.95))
    assert math.isnan(curve.at(0.05))


# Rows


def test_rows_read_back_as_the_same_numbers(tmp_path):
    cell, columns = Cell("d", "a, b", 0), {"data": str, "method": str, "seed": int, "x": float}
    store = RowStore(tmp_path / "rows.csv", columns, level="x")
    rows = [{"data": "d", "method": "a, b", "seed": 0, "x": x} for x in (1 / 3, 1e-300, 0.1)]
    store.add(cell, rows)
    again = RowStore(tmp_path / "rows.csv", columns, level="x")
    assert again.cells == {cell: rows}
    assert again.finished(cell, [0.1, 1 / 3])
    assert not again.finished(cell, [0.1, 0.2])
    assert not again.finished(Cell("d", "a, b", 1), [0.1])


def test_a_number_that_was_cut_off_is_not_taken_for_another(tmp_path):
    columns = {"data": str, "method": str, "seed": int, "x": float}
    (tmp_path / "rows.csv").write_text("data,method,seed,x\na,m,0,0.25\nb,m,0,0.5")  # of 0.53
    store = RowStore(tmp_path / "rows.csv", columns, level="x")
    assert store.finished(Cell("a", "m", 0), [0.25])
    assert not store.finished(Cell("b", "m", 0), [0.5])
    store.add(Cell("c", "m", 0), [{"data": "c", "method": "m", "seed": 0, "x": 1.0}])
    text = (tmp_path / "rows.csv").read_text()
    assert text == "data,method,seed,x\na,m,0,0.25\nc,m,0,1.0\n"


def test_a_file_of_other_rows_is_left_alone(tiny, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"rows\.csv must hold the columns data, method, .* got"):
        directions.run(tiny, tmp_path, quick=True)
    assert (tmp_path / "rows.csv").read_text() == "a,b\n1,2\n"


def test_rows_say_what_computed_them(finished, monkeypatch):
    row = table(finished[0] / "rows.csv")[0]
    assert (row["decal"], row["numpy"]) == (decal.__version__, np.__version__)
    assert float(row["seconds"]) > 0
    monkeypatch.setenv("PATH", "")  # no git
    assert provenance()["commit"] == ""


# The experiment


def test_the_experiment_leaves_rows_tables_and_figures(finished):
    out, report = finished
    pytest.importorskip("matplotlib", reason="needs decal[plot]")
    assert {path.name for path in out.iterdir()} == {"rows.csv", *TABLES, *FIGURES}
    assert {path.name for path in report.files} == {"rows.csv", *TABLES, *FIGURES}
    assert report.notes == ()
    rows = table(out / "rows.csv")
    assert list(rows[0]) == list(directions.COLUMNS)
    cells = len(NAMES) * len(directions.METHODS)
    assert len(rows) == cells * len(levels(quick=True))
    assert [(r["data"], r["method"]) for r in table(out / "table.csv")] == [
        (name, method) for name in NAMES for method in directions.METHODS
    ]
    assert (out / "table.md").read_text().count("\n| ") == cells + 2 * 4  # four families
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", directions.METHODS)
def test_rows_and_tables_are_what_the_library_computes(finished, tiny, name, method):
    out, _ = finished
    with np.load(tiny / f"{named(name).file}") as file:
        data = dict(file)
    if name == "snli_bert0/own" or name.startswith("tabpfn"):
        fit = data["train_logits"], data["train_labels"]
        z, q = data["test_logits"], data["truth" if name.startswith("tabpfn") else "human"]
    else:
        test = "test_" if name.startswith("snli") else ""
        n = len(data["human"])
        order = np.random.default_rng(0).permutation(n)
        a, b = order[: n // 2], order[n // 2 :]
        fit = data[f"{test}logits"][a], data[f"{test}labels"][a]
        z, q = data[f"{test}logits"][b], data["human"][b]
    moving = {
        "class": ["class"],
        "temperature": ["temperature"],
        "class + temperature": ["class", "temperature"],
        "class + temperature, labels": ["class", decal.Temperature(16, evidence="labels")],
    }
    model = decal.Decalibrator(directions=moving[method]).fit(*fit)
    points = []
    for row in table(out / "rows.csv"):
        if (row["data"], row["method"]) == (name, method):
            c = model.predict(z, alpha=float(row["alpha"]))
            inside = (q >= c.lower - 5e-4) & (q <= c.upper + 5e-4)
            expected = inside.all(axis=1).mean(), 1 - (c.upper - c.lower).mean()
            found = float(row["coverage"]), float(row["efficiency"])
            assert found == pytest.approx(expected, abs=1e-12)
            points.append(found)
    assert len(points) == len(levels(quick=True))
    (line,) = (r for r in table(out / "table.csv") if (r["data"], r["method"]) == (name, method))
    for e in directions.EFFICIENCIES:
        text = line[f"coverage at efficiency {e:g}"]
        above = [p for p in points if p[1] >= e]
        below = [p for p in points if p[1] <= e]
        if not above or not below:
            assert text == ""
            continue
        (c1, e1), (c0, e0) = above[-1], below[0]
        expected = c0 if e1 == e0 else c0 + (c1 - c0) * (e - e0) / (e1 - e0)
        assert float(text) == pytest.approx(expected, abs=1e-6)


def test_a_second_run_computes_nothing_and_changes_nothing(tiny, copied):
    before = {path.name: path.read_bytes() for path in copied.iterdir()}
    counted = Stopped()
    directions.run(tiny, copied, quick=True, track=counted)
    assert counted.cells == []
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == before


def test_a_run_whose_rows_were_cut_off_resumes_to_the_same_tables(tiny, copied):
    wanted = {path.name: path.read_bytes() for path in copied.iterdir()}
    rows = wanted.pop("rows.csv")
    for path in copied.iterdir():
        path.unlink()
    (copied / "rows.csv").write_bytes(rows[: len(rows) // 2 + 7])  # within a line
    counted = Stopped()
    directions.run(tiny, copied, quick=True, track=counted)
    assert 8 < len(counted.cells) < 12  # of 20
    for name, content in wanted.items():
        assert (copied / name).read_bytes() == content, name
    assert len(table(copied / "rows.csv")) == rows.count(b"\n") - 1


def test_a_run_without_every_other_row_resumes_to_the_same_tables(one, tmp_path):
    directions.run(one, tmp_path, quick=True)
    lines = (tmp_path / "rows.csv").read_text().splitlines(keepends=True)
    wanted = [(tmp_path / name).read_bytes() for name in TABLES]
    (tmp_path / "rows.csv").write_text("".join([lines[0], *lines[1::2]]))
    directions.run(one, tmp_path, quick=True)
    assert [(tmp_path / name).read_bytes() for name in TABLES] == wanted
    assert len(table(tmp_path / "rows.csv")) == len(lines) - 1


def test_a_stopped_run_loses_no_finished_cell(one, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        directions.run(one, tmp_path, quick=True, track=Stopped(after=2))
    store = RowStore(tmp_path / "rows.csv", directions.COLUMNS, level="alpha")
    assert len(store.cells) == 2
    assert all(store.finished(cell, levels(quick=True)) for cell in store.cells)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_a_full_run_replaces_quick_cells_and_a_quick_run_keeps_full_ones(tiny, copied):
    store = RowStore(copied / "rows.csv", directions.COLUMNS, level="alpha")
    found = find(tiny)[0][-1:]
    full = [*levels(quick=True)[:-1], 1e-9, 0.0]
    counted = Stopped()
    directions.compute(store, found, tiny, seeds=(0,), alphas=full, track=counted)
    assert len(counted.cells) == len(directions.METHODS)
    directions.compute(store, found, tiny, seeds=(0,), alphas=levels(quick=True), track=counted)
    assert len(counted.cells) == len(directions.METHODS)
    kept = RowStore(copied / "rows.csv", directions.COLUMNS, level="alpha")
    assert kept.cells == store.cells
    assert {len(rows) for rows in kept.cells.values()} == {len(full), len(full) - 1}


def test_seeds_do_not_mix(one, tmp_path):
    tables = []
    for seed in (0, 1, 0):
        directions.run(one, tmp_path, seeds=(seed,), quick=True)
        tables.append((tmp_path / "table.csv").read_text())
        assert {row["seeds"] for row in table(tmp_path / "table.csv")} == {str(seed)}
    assert tables[0] == tables[2]
    assert len({text.replace(",1,", ",0,") for text in tables}) == 2  # other halves


def test_rows_of_another_version_are_kept_and_said(tiny, copied):
    text = (copied / "rows.csv").read_text()
    old = text.replace(f",{decal.__version__},", ",0.0.1,", 5)
    (copied / "rows.csv").write_text(old)
    report = directions.run(tiny, copied, quick=True)
    (note,) = (note for note in report.notes if "matplotlib" not in note)
    assert "rows were computed by decal 0.0.1" in note
    assert f"and decal {decal.__version__}" in note
    assert (copied / "rows.csv").read_text() == old


def test_without_matplotlib_the_tables_are_still_written(tiny, copied, monkeypatch):
    for name in FIGURES + TABLES:
        (copied / name).unlink(missing_ok=True)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report = directions.run(tiny, copied, quick=True)
    assert report.notes == ("figures need matplotlib: pip install 'decal[plot]'",)
    assert {path.name for path in copied.iterdir()} == {"rows.csv", *TABLES}
    assert {path.name for path in report.files} == {"rows.csv", *TABLES}


# The claims


def line(top, *, reach=1.0):
    """A curve of coverage `top` at every efficiency up to `reach`."""
    return Curve(np.array([1.0, 0.0]), np.array([top, top]), np.array([reach, 0.0]))


def test_targets_are_of_the_data_sets_they_were_set_for():
    targets = {name: directions.target_of(named(name)) for name in NAMES}
    assert list(targets.values()) == [0.80, 0.85, None, None, None]
    assert directions.target_of(named("siglip2_cifar10_en")) == 0.88


def test_the_least_gain_counts_what_only_class_reaches_as_lost():
    before, both = directions.CLASS, directions.BOTH
    assert directions.least_gain({before: line(0.5), both: line(0.75)}) == (0.25, 0.3)
    assert directions.least_gain({before: line(0.5), both: line(0.75, reach=0.6)}) == (-0.5, 0.7)
    gain, where = directions.least_gain({before: line(0.5, reach=0.4), both: line(0.75)})
    assert (gain, where) == (0.25, 0.3)
    assert math.isnan(directions.least_gain({before: line(0.5)})[0])


@pytest.mark.parametrize(("reached", "before", "verdicts"), [(0.9, 0.5, "11"), (0.7, 0.8, "00")])
def test_claims_hold_or_fail(tmp_path, reached, before, verdicts):
    store = RowStore(tmp_path / "rows.csv", directions.COLUMNS, level="alpha")
    for method, top in ((directions.CLASS, before), (directions.BOTH, reached)):
        cell = Cell("cnn_vgg_15_BN_64", method, 0)
        same = {"data": cell.data, "method": method, "seed": 0, "coverage": top, "seconds": 1.0}
        ends = [{"alpha": 1.0, "efficiency": 1.0}, {"alpha": 0.0, "efficiency": 0.0}]
        store.add(cell, [same | end | provenance() for end in ends])
    report = directions.report(store, tmp_path, seeds=(0,))
    assert "".join(str(int(claim.holds)) for claim in report.claims) == verdicts
    ((row,),) = report.sections.values()
    assert row[-1] == ("0.85 pass" if verdicts == "11" else "0.85 fail")
    assert row[2] == "–"  # no curve of temperature
    assert f"**{'pass' if verdicts == '11' else 'fail'}**" in (tmp_path / "table.md").read_text()


def test_experiments_use_public_names_only():
    for path in Path(experiments.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("decal"):
                if not node.module.startswith("decal._experiments"):
                    names = {*node.module.split("."), *(alias.name for alias in node.names)}
                    assert not any(name.startswith("_") for name in names), path
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "decal":
                known = [*decal.__all__, "__version__", "__file__"]
                assert node.attr in known, f"{path}: decal.{node.attr}"


def test_every_experiment_can_be_found():
    for name, experiment in experiments.EXPERIMENTS.items():
        assert callable(experiment.run), name


def test_several_seeds_are_averaged(one, tmp_path):
    columns = [f"coverage at efficiency {e:g}" for e in (0.5, 0.8)]
    single = []
    for seed in (0, 1):
        directions.run(one, tmp_path, seeds=(seed,), quick=True)
        single.append(table(tmp_path / "table.csv"))
    report = directions.run(one, tmp_path, seeds=(0, 1), quick=True)
    assert report.title.endswith("seeds 0, 1")
    for first, second, mean in zip(*single, table(tmp_path / "table.csv"), strict=True):
        assert mean["seeds"] == "0 1"
        for name in columns:
            if first[name] and second[name]:
                low, high = sorted((float(first[name]), float(second[name])))
                assert low - 0.02 <= float(mean[name]) <= high + 0.02
        for name in ("least efficiency", "largest efficiency"):
            of_both = (float(first[name]) + float(second[name])) / 2
            assert float(mean[name]) == pytest.approx(of_both, abs=1e-6)


def test_cells_are_handed_on_in_order():
    cells = [Cell("a", "b", seed) for seed in range(3)]
    assert list(untracked(cells)) == cells


# The real data


@pytest.mark.data
@pytest.mark.slow
def test_both_directions_reach_the_targets_on_real_data(data_folder, tmp_path):
    files = (
        "clip_cifar10_en",
        "siglip2_cifar10_en",
        "cnn_vgg_15_BN_64_test",
        "cnn_densenet_BC_100_12_test",
    )
    for name in files:
        (tmp_path / f"{name}.npz").symlink_to(data_folder.resolve() / f"{name}.npz")
    report = directions.run(tmp_path, tmp_path / "out", quick=True)
    assert len(report.claims) == 4 + 2
    assert all(claim.holds for claim in report.claims), report.claims
    found = {(r["data"], r["method"]): r for r in table(tmp_path / "out" / "table.csv")}

    def coverage(name, method, efficiency):
        return float(found[name, method][f"coverage at efficiency {efficiency:g}"])

    targets = dict(zip(files, (0.80, 0.88, 0.85, 0.85), strict=True))
    for file, target in targets.items():
        name = file.removesuffix("_test")
        assert coverage(name, "class + temperature", 0.8) >= target
        for e in (0.3, 0.5, 0.7, 0.8):
            assert coverage(name, "class + temperature", e) >= coverage(name, "class", e) - 0.04
