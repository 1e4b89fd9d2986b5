"""What may move, compared: on tiny files in the real formats, and on the real data."""

from __future__ import annotations

import math

import numpy as np
import pytest

import decal
from decal_lab.experiments import compare_directions as directions
from decal_lab.experiments.harness.curves import Curve, levels
from decal_lab.experiments.harness.experiment import run, write
from decal_lab.experiments.harness.logit_sets import named
from decal_lab.experiments.harness.rows import Cell, RowStore, provenance
from lab_helpers.experiment_runs import coarse, table
from lab_helpers.undrawn import undrawn

TABLES = ("table.csv", "table.md", "table.tex")

FIGURES = ("curves.svg", "curves.png", "curves_dark.svg")

NAMES = [
    "clip_cifar10_en",
    "cnn_vgg_15_BN_64",
    "snli_bert0/own",
    "snli_bert0/half",
    "tabpfn_MIC_46980_seed1",
]
"""The data sets of the tiny folder, in the order of tables."""


@coarse()
def test_the_experiment_leaves_rows_tables_and_figures(directions_run):
    out, report = directions_run
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
@coarse()
def test_rows_and_tables_are_what_the_library_computes(directions_run, every_family, name, method):
    out, _ = directions_run
    with np.load(every_family / f"{named(name).file}") as file:
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


@undrawn()
@coarse()
def test_several_seeds_are_averaged(one_file, tmp_path):
    columns = [f"coverage at efficiency {e:g}" for e in (0.5, 0.8)]
    single = []
    for seed in (0, 1):
        run(directions.experiment, one_file, tmp_path, seeds=(seed,), quick=True)
        single.append(table(tmp_path / "table.csv"))
    report = run(directions.experiment, one_file, tmp_path, seeds=(0, 1), quick=True)
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
        store.add(cell, [same | end | provenance() | {"fingerprint": ""} for end in ends])
    report = write(directions.findings(store, seeds=(0,)), store, tmp_path, seeds=(0,))
    assert "".join(str(int(claim.holds)) for claim in report.claims) == verdicts
    ((row,),) = report.sections.values()
    assert row[-1] == ("0.85 pass" if verdicts == "11" else "0.85 fail")
    assert row[2] == "–"  # no curve of temperature
    assert f"**{'pass' if verdicts == '11' else 'fail'}**" in (tmp_path / "table.md").read_text()


@pytest.mark.data
@pytest.mark.slow
@undrawn()
def test_both_directions_reach_the_targets_on_real_data(data_folder, tmp_path, monkeypatch):
    compared = directions.CLASS, directions.BOTH  # nothing is claimed of the other methods
    methods = {name: directions.METHODS[name] for name in compared}
    monkeypatch.setattr(directions, "METHODS", methods)
    files = (
        "clip_cifar10_en",
        "siglip2_cifar10_en",
        "cnn_vgg_15_BN_64_test",
        "cnn_densenet_BC_100_12_test",
    )
    for name in files:
        (tmp_path / f"{name}.npz").symlink_to(data_folder.resolve() / f"{name}.npz")
    report = run(directions.experiment, tmp_path, tmp_path / "out", quick=True)
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
