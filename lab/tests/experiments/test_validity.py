"""Promised and achieved coverage: on tiny files in the real formats, in worlds, on real data."""

from __future__ import annotations

import math

import numpy as np
import pytest

import decal
from decal_lab.experiments import validity
from decal_lab.experiments.harness import guaranteed_sets as sets
from decal_lab.experiments.harness.experiment import run, write
from decal_lab.experiments.harness.rows import Cell, RowStore, provenance
from decal_lab.experiments.harness.worlds import WORLDS
from lab_helpers.experiment_runs import table
from lab_helpers.undrawn import undrawn

NAMES = ["clip_cifar10_en", "cnn_vgg_15_BN_64", "snli_bert0/half", "tabpfn_MIC_46980_seed1"]
"""The data sets of the tiny folder: each file once."""


@pytest.fixture(scope="module")
def quick(every_family, tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "validity"
    return out, run(validity.experiment, every_family, out, quick=True)


def test_the_experiment_leaves_rows_tables_and_figures(quick):
    out, report = quick
    pytest.importorskip("matplotlib", reason="needs decal[plot]")
    names = {"rows.csv", "table.md", "table.tex"}
    names |= {f"validity{ending}" for ending in (".svg", ".png", "_dark.svg")}
    assert {path.name for path in out.iterdir()} == names
    rows = table(out / "rows.csv")
    assert list(rows[0]) == list(validity.COLUMNS)
    methods = {(row["data"], row["method"]) for row in rows}
    expected = {(name, method) for name in NAMES for method in validity.QUICK_METHODS}
    forms = (validity.ON_AVERAGE, validity.SURE)
    assert methods == expected | {(f"world: {w}", form) for w in WORLDS for form in forms}
    assert sum(len(section) for section in report.sections.values()) == len(NAMES)
    assert [t.title for t in report.tables[1:]] == [
        "From labels drawn from the truth",
        "From given labels",
        "From known distributions",
        "Worlds with a known truth",
    ]
    assert report.notes == ()


def test_rows_are_what_the_library_computes(quick, every_family):
    out, _ = quick
    with np.load(every_family / "cnn_vgg_15_BN_64_test.npz") as file:
        z, y, p = file["logits"], file["labels"].astype(int), file["human"].astype(float)
    p /= p.sum(axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(61)
    fit, choose, new = order[:18], order[18:42], order[42:]
    model = decal.decalibrate(z[fit], y[fit], alpha=0, directions=[decal.Local(mix=0.001)])
    e = np.exp(z[new].astype(float))
    c = 0.999 * e / e.sum(axis=1, keepdims=True) + 0.001 / 4
    distance = (p[new] * np.log(p[new] / c)).sum(axis=1)
    rows = {
        (r["method"], r["labels"], r["form"], float(r["delta"])): r
        for r in table(out / "rows.csv")
        if r["data"] == "cnn_vgg_15_BN_64"
    }
    for delta in (0.1, 0.3):
        choice = decal.choose(model, z[choose], y[choose], hold=1 - delta)
        row = rows["local", "given", "on average", delta]
        budget = -math.log(choice.alpha) if choice.alpha else math.inf
        credal = model.predict(z[new], alpha=choice)
        assert float(row["ball"]) == pytest.approx((distance <= budget).mean(), abs=1e-12)
        assert float(row["box"]) == decal.metrics.coverage(credal, p[new])
        assert float(row["efficiency"]) == pytest.approx(decal.metrics.efficiency(credal))
        assert (int(row["examples"]), int(row["new"])) == (24, 19)
        local = decal.decalibrate(z[fit], y[fit], alpha=0, directions="local")
        choice = decal.choose(
            local, z[choose], coverage=1 - delta, distributions=p[choose], guaranteed=True
        )
        row = rows["local box", "known", "on average", delta]
        credal = local.predict(z[new], alpha=choice)
        assert float(row["box"]) == decal.metrics.coverage(credal, p[new])
        assert math.isnan(float(row["ball"]))


def example(n=40, K=3):
    rng = np.random.default_rng(1)
    z = 2 * rng.normal(size=(n, K))
    truth = rng.dirichlet(np.ones(K), size=n)
    return sets.Labelled(z, (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), truth)


@pytest.mark.parametrize("score", sets.SCORES)
def test_conformal_balls_are_as_large_as_the_order_statistic_says(score):
    rows = example()
    known, new = rows[:29], rows[29:]
    model = decal.decalibrate(known.logits, known.labels, alpha=0, directions="local")

    def distance(p, z):
        c = np.exp(z) / np.exp(z).sum()
        if score == "KL ball":
            return sum(a * math.log(a / b) for a, b in zip(p, c, strict=True))
        gaps = [abs(a - b) for a, b in zip(p, c, strict=True)]
        return sum(gaps) / 2 if score == "TV ball" else max(gaps)

    scores = sorted(distance(p, z) for p, z in zip(known.truth, known.logits, strict=True))
    radius = scores[23]  # the 24th of 29: 24 / 30 = 0.8
    found = sets.of_conformal_balls(model, known, new, score, 0.2)
    inside = [distance(p, z) <= radius for p, z in zip(new.truth, new.logits, strict=True)]
    assert found.ball == pytest.approx(np.mean(inside))
    assert found.box >= found.ball
    vacuous = sets.of_conformal_balls(model, known[:3], new, score, 0.2)
    assert (vacuous.ball, vacuous.box) == (1, 1)
    assert vacuous.efficiency == pytest.approx(0)


def test_the_simpler_bound_is_that_of_markov_and_jensen():
    rows = example(2000)
    z = np.log(rows.truth) + 0.1 * rows.logits
    held_out = sets.Labelled(z, rows.labels, rows.truth)
    model = decal.decalibrate(z, rows.labels, alpha=0, directions=[decal.Local(mix=0.01)])
    alpha = sets.alpha_by_markov(model, held_out, 0.3, np.random.default_rng(0))
    e = np.exp(z - z.max(axis=1, keepdims=True))
    c = 0.99 * e / e.sum(axis=1, keepdims=True) + 0.01 / 3
    losses = -np.log(c[np.arange(2000), rows.labels])
    rest = losses[np.random.default_rng(0).permutation(2000)[600:]]
    most = math.log(300)
    budgets = [
        s + (np.maximum(rest - s, 0).sum() + most - s) / (1401 * 0.3)
        for s in np.linspace(0, most, 60, endpoint=False)
    ]
    assert any(alpha == pytest.approx(math.exp(-b), rel=1e-9) for b in budgets)
    assert -math.log(alpha) <= 1.05 * min(budgets)


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_are_what_they_say(name):
    for delta in (0.1, 0.3):
        world = WORLDS[name](delta, 0.01)
        assert world.share.sum() == pytest.approx(1)
        np.testing.assert_allclose(world.truth.sum(axis=1), 1)
        kinds, labels = world.draw((4000,), np.random.default_rng(0))
        for k in range(world.truth.shape[1]):
            expected = world.share @ world.truth[:, k]
            assert (labels == k).mean() == pytest.approx(expected, abs=0.035)
        assert (world.truth[kinds, labels] > 0).all()
    if name == "edges of balls":
        p = np.exp(world.logits)
        c = 0.99 * p / p.sum(axis=1, keepdims=True) + 0.01 / 5
        distance = sets.divergences(world.truth, c)
        assert (distance[:200] < 1).all()
        np.testing.assert_allclose(distance[200:], 1, rtol=1e-9)
        assert world.share[200:].sum() == pytest.approx(0.3)
    if name in ("certain labels", "two losses"):
        assert (world.truth.max(axis=1) == 1).all()
        wrong = world.truth.argmax(axis=1) != world.logits.argmax(axis=1)
        assert world.share @ wrong == pytest.approx(0.3)


def world_row(**changed):
    return {
        "labels": "simulated",
        "form": "on average",
        "delta": 0.1,
        "examples": 10,
        "new": 400,
        "ball": 0.89,
        "box": math.nan,
        "efficiency": math.nan,
        "error": 0.005,
        "wrong": 0.1,
        "decided": 1.0,
    } | changed


def test_broken_promises_are_found():
    assert not validity.violated(world_row())
    assert validity.violated(world_row(ball=0.88))
    assert not validity.violated(world_row(form="confidence 0.9", wrong=0.14))
    assert validity.violated(world_row(form="confidence 0.9", wrong=0.15))


@undrawn()
@pytest.mark.parametrize(("covered", "verdicts"), [(0.95, "1111111"), (0.8, "1000111")])
def test_claims_hold_or_fail(tmp_path, covered, verdicts):
    store = RowStore(tmp_path / "rows.csv", validity.COLUMNS, level="case")
    origin = provenance() | {"fingerprint": "", "seconds": 1.0, "seed": 0}

    def add(data, method, rows):
        same = {"data": data, "method": method, "case": "any"} | origin
        store.add(Cell(data, method, 0), [row | same for row in rows])

    def outcome(labels, efficiency):
        return world_row(labels=labels, ball=covered, box=covered, efficiency=efficiency, new=900)

    name = "cnn_vgg_15_BN_64"
    add(name, "local", [outcome("drawn", 0.7), outcome("given", 0.8)])
    add(name, "local, Markov", [outcome("drawn", 0.6), outcome("given", 0.7)])
    add(name, "local box", [outcome("known", 0.9)])
    for score in ("KL ball", "TV ball", "sup-norm ball"):
        add(name, score, [outcome("known", 0.8)])
    add("world: certain labels", "on average", [world_row()])
    for row in (row for rows in store.cells.values() for row in rows):
        row["examples"] = 900
    report = write(validity.findings(store, seeds=(0,)), store, tmp_path, seeds=(0,))
    found = "".join(str(int(claim.holds)) for claim in report.claims)
    assert found == verdicts + "1"


@pytest.mark.data
@pytest.mark.slow
def test_sets_from_labels_hold_the_truth_of_real_data(data_folder, tmp_path):
    for name in ("cnn_vgg_15_BN_64_test", "clip_cifar10_en"):
        (tmp_path / f"{name}.npz").symlink_to(data_folder.resolve() / f"{name}.npz")
    with undrawn():
        report = run(validity.experiment, tmp_path, tmp_path / "out", quick=True)
    by_text = {claim.text.partition(":")[0]: claim.holds for claim in report.claims}
    assert by_text["worlds"]
    assert by_text["labels drawn from the truth"]
    assert by_text["known distributions"]
