"""Experiments on tables: TabPFN's logits and active learning, on tiny files in the real formats."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

from decal._experiments import active_learning, tabpfn
from decal._experiments.harness import tabular_models as tables
from decal._experiments.harness.logit_sets import NothingAtHandError
from decal._experiments.harness.published_results import ALPHAS
from helpers.experiment_runs import Stopped, numbers, table
from oracles import boxes as box_oracles
from oracles import class_shifts as oracles

needs_sklearn = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn"
)
FOREVER = 10_000


def write_table(folder, rows=60):
    """A table in the format of maternal_health_risk_46941.csv: numbers, a gap, text, a target."""
    rng = np.random.default_rng(0)
    (folder / "tabular").mkdir(parents=True, exist_ok=True)
    lines = ["Age,BS,Ward,RiskLevel"]
    for i in range(rows):
        y = i % 3
        age = "" if i == 7 else f"{30 + 8 * y + 5 * rng.standard_normal():.1f}"
        ward = "abc"[rng.integers(3) if rng.random() < 0.4 else y]
        name = ("high risk", "low risk", "mid risk")[y]
        lines.append(f"{age},{rng.normal(y):.2f},{ward},{name}")
    path = folder / "tabular" / "maternal_health_risk_46941.csv"
    path.write_text("\n".join(lines) + "\n")


def write_logits(folder, seed):
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, rows in (("train", 40), ("test", 30)):
        arrays[f"{part}_logits"] = (2 * rng.standard_normal((rows, 3))).astype(np.float32)
        arrays[f"{part}_labels"] = rng.integers(3, size=rows)
    arrays["truth"] = rng.dirichlet(np.ones(3), size=30)
    np.savez(folder / f"tabpfn_MIC_46980_seed{seed}.npz", **arrays)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    write_table(folder)
    for seed in (1, 2):
        write_logits(folder, seed)
    curve = {"alpha": list(ALPHAS), "coverage": [0.5] * 8, "efficiency": [0.25] * 8}
    other = curve | {"coverage": [0.7] * 8}
    counts = [6.0, 12.0, 18.0, 24.0]
    learnt = {
        f"al_46941_{name}": {
            "seeds": 3,
            "n_labelled": counts,
            "accuracy_mean": [0.5 + step * i for i in range(4)],
            "accuracy_sem": [0.01] * 4,
        }
        for name, step in (("random", 0.0), ("entropy_0.8_mle", 0.1), ("zero_one_0.8_mle", 0.05))
    }
    runs = {"cov_eff_46980_tabpfn_1": curve, "cov_eff_46980_tabpfn_2": other}
    (folder / "published.json").write_text(json.dumps({"effcre": runs, "active_learning": learnt}))
    return folder


# Tables


def test_features_are_places_in_order_or_standardised_numbers(tiny):
    loaded = tables.load(tiny, 46941)
    places = tables.ordinal(loaded)
    ages = loaded.columns["Age"]
    assert np.isnan(places[7, 0])
    known = [i for i in range(60) if i != 7]
    for i in known[:10]:
        assert places[i, 0] == len({ages[j] for j in known if ages[j] < ages[i]})
    X = tables.standardised(loaded)
    assert X.shape == (60, 2 + 3)
    assert X[7, 0] == 0
    assert X[:, 1].mean() == pytest.approx(0, abs=1e-12)
    np.testing.assert_array_equal(X[:, 2:].sum(axis=1), 1)


def test_a_table_that_is_not_there_is_none(tiny):
    assert tables.load(tiny, 46930) is None


@needs_sklearn
def test_classes_that_were_not_seen_are_all_but_impossible(tiny):
    model = tables.logistic()
    X = model.encode(tables.load(tiny, 46941))[:20]
    logits = model.fit(X, np.array([0, 2] * 10), 3, 0)(X)
    assert logits.shape == (20, 3)
    np.testing.assert_array_equal(logits[:, 1], tables.UNSEEN)


@pytest.mark.skipif(importlib.util.find_spec("tabpfn") is not None, reason="TabPFN is here")
def test_without_tabpfn_the_reason_is_told(tiny):
    assert tables.tabpfn(tiny, members=1) == (None, "the package tabpfn, with its weights")


# TabPFN's logits


def test_rows_are_coverage_and_efficiency_by_definition(tiny, tmp_path):
    tabpfn.run(tiny, tmp_path)
    found = {
        (row["seed"], float(row["alpha"])): (float(row["coverage"]), float(row["efficiency"]))
        for row in table(tmp_path / "rows.csv")
    }
    assert len(found) == 2 * len(ALPHAS)
    with np.load(tiny / "tabpfn_MIC_46980_seed2.npz") as file:
        data = dict(file)
    fit = data["train_logits"], data["train_labels"]
    for alpha in (0.2, 0.8, 0.95):
        b = oracles.budget(alpha, "mean", 40)
        ends = np.array([oracles.plausible_interval(*fit, k, b) for k in range(3)])
        lower, upper = oracles.box(data["test_logits"], *ends.T, "joint")
        inside = (data["truth"] >= lower - 5e-4) & (data["truth"] <= upper + 5e-4)
        coverage, efficiency = found["2", alpha]
        assert coverage == pytest.approx(inside.all(axis=1).mean(), abs=1e-12)
        assert efficiency == pytest.approx(1 - (upper - lower).mean(), abs=1e-6)


def test_the_published_mean_over_the_same_seeds_stands_beside(tiny, tmp_path):
    report = tabpfn.run(tiny, tmp_path)
    ((heading, lines),) = report.sections.items()
    assert heading == "MIC (46980), seeds 1, 2"
    by_name = {}
    for name, *cells in lines:
        by_name.setdefault(name, cells)
    assert by_name["coverage, published"] == ["0.600"] * 8
    assert by_name["efficiency, published"] == ["0.250"] * 8
    assert by_name["difference"][0] == "+0.400"  # everything is covered at alpha 0
    assert any("seed 3" in need for need in report.needs)
    assert any("tabpfn_anneal_46906_seed1.npz" in need for need in report.needs)


def test_without_logits_there_is_nothing_to_report(tmp_path):
    with pytest.raises(NothingAtHandError, match="data must hold logits of TabPFN: got none"):
        tabpfn.run(tmp_path, tmp_path / "out")


@needs_sklearn
def test_semi_synthetic_labels_are_drawn_from_the_forest(tiny):
    loaded = tables.load(tiny, 46941)
    seen = {}

    def fit(X, y, classes, seed):  # noqa: ARG001
        seen["labels"] = y
        return lambda new: np.zeros((len(new), classes))

    encode = tables.logistic().encode
    model = tables.Model("none", encode, fit)
    split = tabpfn.semi_synthetic(loaded, model, 3)
    assert split.new_logits.shape == split.truth.shape == (18, 3)
    assert len(split.logits) == len(seen["labels"]) == 42
    np.testing.assert_allclose(split.truth.sum(axis=1), 1)
    again = tabpfn.semi_synthetic(loaded, model, 3)
    np.testing.assert_array_equal(again.labels, split.labels)
    np.testing.assert_array_equal(again.truth, split.truth)


# Active learning


@pytest.fixture
def task(tiny):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    return active_learning.Task(tables.load(tiny, 46941), tables.logistic())


def test_the_split_has_two_of_each_class_a_test_share_and_the_rest(task):
    first, pool, test = task.split(np.random.default_rng(5))
    assert np.bincount(task.y[first]).tolist() == [2, 2, 2]
    assert np.bincount(task.y[test]).tolist() == [6, 6, 6]  # 30 % of 60, class by class
    assert sorted(np.concatenate([first, pool, test])) == list(range(60))
    assert task.counts(FOREVER) == [6, 12, 18, 24, 30, 36]  # 36 in the pool, 6 per round
    assert task.counts(20) == [6, 12, 18]


@pytest.mark.parametrize("measure", ["entropy", "zero_one"])
def test_every_round_asks_for_the_most_uncertain_rows(task, measure):
    from sklearn.linear_model import LogisticRegression

    (strategy,) = (s for s in active_learning.STRATEGIES if s.measure == measure)
    rows = list(task.curve(strategy, 3, FOREVER))
    labelled, pool, test = (list(part) for part in task.split(np.random.default_rng(3)))
    for row in rows[:3]:
        assert row["labelled"] == len(labelled)
        model = LogisticRegression(C=1.0, solver="newton-cholesky")
        model.fit(task.X[labelled], task.y[labelled])
        assert row["accuracy"] == model.score(task.X[test], task.y[test])
        logits, y = model.decision_function(task.X[labelled]), task.y[labelled]
        b = oracles.budget(0.8, "mean", len(y))
        ends = np.array([oracles.plausible_interval(logits, y, k, b) for k in range(3)])
        new = model.decision_function(task.X[pool])
        boxes = box_oracles.tighten(*oracles.box(new, *ends.T, "joint"))
        if measure == "entropy":
            score = box_oracles.upper_entropy(*boxes) - box_oracles.lower_entropy(*boxes)
        else:
            score = [box_oracles.zero_one(*pair) for pair in zip(*boxes, strict=True)]
        chosen = sorted(range(len(pool)), key=lambda i: -score[i])[:6]
        labelled += [pool[i] for i in chosen]
        pool = [row for i, row in enumerate(pool) if i not in chosen]


def test_random_choice_takes_the_pool_in_its_random_order(task):
    (row, second, *_) = task.curve(active_learning.RANDOM, 1, FOREVER)
    labelled, pool, test = task.split(np.random.default_rng(1))
    more = np.concatenate([labelled, pool[:6]])
    for rows, found in ((labelled, row), (more, second)):
        fitted = tables.logistic().fit(task.X[rows], task.y[rows], 3, 1)
        right = fitted(task.X[test]).argmax(axis=1) == task.y[test]
        assert found["accuracy"] == right.mean()


def test_a_lone_seed_stands_for_several_and_others_for_themselves():
    assert active_learning.drawn((4,), 3) == (4, 5, 6)
    assert active_learning.drawn((0, 7), 3) == (0, 7)


@needs_sklearn
def test_a_killed_run_resumes_and_the_same_seeds_give_the_same_rows(tiny, tmp_path):
    once, twice = tmp_path / "once", tmp_path / "twice"
    report = active_learning.run(tiny, once, seeds=(1, 2))
    with pytest.raises(KeyboardInterrupt):
        active_learning.run(tiny, twice, seeds=(1, 2), track=Stopped(after=2))
    text = (twice / "rows.csv").read_text()
    (twice / "rows.csv").write_text(text[:-15])
    counted = Stopped()
    active_learning.run(tiny, twice, seeds=(1, 2), track=counted)
    assert len(counted.cells) == 2 * 3 - 1
    assert sorted(numbers(twice / "rows.csv"), key=str) == sorted(
        numbers(once / "rows.csv"), key=str
    )
    assert "tabular/NAME_46930.csv" in report.needs
    assert "tabular/NAME_46963.csv" in report.needs


@needs_sklearn
def test_gains_over_random_stand_beside_the_published_ones(tiny, tmp_path):
    report = active_learning.run(tiny, tmp_path, seeds=(1, 2))
    means = active_learning.means_of(
        active_learning.RowStore(tmp_path / "rows.csv", active_learning.COLUMNS, level="labelled"),
        (1, 2),
    )
    curves = {}
    for row in table(tmp_path / "rows.csv"):
        name = row["method"].partition(": ")[2]
        curves.setdefault((name, row["seed"]), []).append(float(row["accuracy"]))
    pair = np.array([curves["entropy, alpha 0.8", seed] for seed in "12"])
    mean = means[46941, "logistic regression", "entropy, alpha 0.8"]
    np.testing.assert_allclose(mean.mean, pair.mean(axis=0))
    np.testing.assert_allclose(mean.error, abs(pair[0] - pair[1]) / 2)
    ((rows,),) = (t.sections.values() for t in report.further)
    first = rows[0]
    ours = pair[:, :4].mean() - np.mean([curves["random", seed][:4] for seed in "12"])
    assert first[0] == "maternal health, logistic regression: entropy, alpha 0.8"
    assert first[1] == "24"  # where the published curve ends
    assert first[2:4] == (f"{ours:+.3f}", "+0.150")


@needs_sklearn
def test_by_alpha_there_are_six_alphas_and_random(tiny, tmp_path):
    report = active_learning.run_alphas(tiny, tmp_path, seeds=(0, 1))
    lines = next(iter(report.sections.values()))
    assert [line[0] for line in lines] == [
        *(f"zero-one, alpha {a}" for a in (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)),
        "random",
    ]
    assert {path.name for path in report.files} <= {path.name for path in tmp_path.iterdir()}


def test_without_tables_nothing_is_learnt(tmp_path):
    with pytest.raises(NothingAtHandError, match="data must hold tables: got none"):
        active_learning.run(tmp_path, tmp_path / "out")


# The real data


@pytest.mark.data
def test_efficiency_on_stored_logits_is_near_the_published(data_folder, tmp_path):
    tabpfn.run(data_folder, tmp_path, quick=True)
    with (data_folder / "published.json").open() as file:
        published = json.load(file)["effcre"]
    ours = {}
    for row in table(tmp_path / "rows.csv"):
        ours.setdefault((row["data"], row["seed"]), []).append(
            (float(row["alpha"]), float(row["efficiency"]))
        )
    assert len(ours) == 12
    for (number, seed), pairs in ours.items():
        theirs = published[f"cov_eff_{number}_tabpfn_{seed}"]["efficiency"]
        gaps = [abs(e - t) for (_, e), t in zip(sorted(pairs), theirs, strict=True)]
        assert max(gaps) < (0.04 if number in ("46941", "46963", "46960") else 0.12), number
