"""Active learning: which rows are chosen, and what is reported."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import decal
from decal_lab.acquisition import most_informative
from decal_lab.experiments import (
    active_learning,
)
from decal_lab.experiments.harness import tabular_models as tables
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.harness.logit_sets import NoDataAvailableError
from lab_helpers.experiment_runs import Stopped, numbers, table
from lab_helpers.undrawn import undrawn
from oracles import boxes as box_oracles
from oracles import class_shifts as oracles

needs_sklearn = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn"
)

FOREVER = 10_000


@pytest.fixture
def task(tables_folder):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    return active_learning.TableTask(tables.load(tables_folder, 46941), tables.logistic())


@pytest.fixture(scope="module")
def finished(tables_folder, tmp_path_factory):
    """The results of a run, and its report."""
    out = tmp_path_factory.mktemp("results") / "active"
    return out, run(active_learning.experiment, tables_folder, out, seeds=(1, 2))


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

    (strategy,) = (
        s for s in active_learning.STRATEGIES if (s.measure, s.shortlist) == (measure, 1)
    )
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


def test_other_rules_take_small_margins_or_uncertain_rows_that_differ():
    rng = np.random.default_rng(0)
    logits, pool = rng.normal(size=(12, 3)), rng.normal(size=(40, 3))
    labels = np.arange(12) % 3
    by_name = {s.name: s for s in active_learning.STRATEGIES}
    p = np.exp(pool) / np.exp(pool).sum(axis=1, keepdims=True)
    margins = [sorted(row)[-1] - sorted(row)[-2] for row in p]
    found = active_learning.choose(by_name["margin"], logits, labels, pool, 5)
    assert found.tolist() == sorted(range(40), key=margins.__getitem__)[:5]
    for measure, name in (("zero_one", "zero-one"), ("width", "width")):
        strategy = by_name[f"{name}, 0.98, spread out"]
        credal = decal.decalibrate(logits, labels, alpha=0.98).predict(pool)
        wanted = most_informative(credal, pool, 5, measure=measure)
        found = active_learning.choose(strategy, logits, labels, pool, 5)
        assert found.tolist() == wanted.tolist()


def test_random_choice_takes_the_pool_in_its_random_order(task):
    (row, second, *_) = task.curve(active_learning.RANDOM, 1, FOREVER)
    labelled, pool, test = task.split(np.random.default_rng(1))
    more = np.concatenate([labelled, pool[:6]])
    for rows, found in ((labelled, row), (more, second)):
        fitted = tables.logistic().fit(task.X[rows], task.y[rows], 3, 1)
        right = fitted(task.X[test]).argmax(axis=1) == task.y[test]
        assert found["accuracy"] == right.mean()


@needs_sklearn
def test_a_killed_run_resumes_and_the_same_seeds_give_the_same_rows(
    finished, tables_folder, tmp_path
):
    (once, report), twice = finished, tmp_path / "twice"
    with pytest.raises(KeyboardInterrupt):
        run(active_learning.experiment, tables_folder, twice, seeds=(1, 2), track=Stopped(after=2))
    text = (twice / "rows.csv").read_text()
    (twice / "rows.csv").write_text(text[:-15])
    counted = Stopped()
    with undrawn():  # the same rows as those of `finished`, whose figures are drawn
        run(active_learning.experiment, tables_folder, twice, seeds=(1, 2), track=counted)
    assert len(counted.cells) == 2 * len(active_learning.STRATEGIES) - 1
    assert sorted(numbers(twice / "rows.csv"), key=str) == sorted(
        numbers(once / "rows.csv"), key=str
    )
    assert "tabular/NAME_46930.csv" in report.needs
    assert "tabular/NAME_46963.csv" in report.needs


@needs_sklearn
def test_gains_over_random_stand_beside_the_published_ones(finished):
    out, report = finished
    means = active_learning.means_of(
        active_learning.RowStore(out / "rows.csv", active_learning.COLUMNS, level="labelled"),
        (1, 2),
    )
    curves = {}
    for row in table(out / "rows.csv"):
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
def test_by_alpha_there_are_six_alphas_and_random(tables_folder, tmp_path):
    report = run(active_learning.by_alpha, tables_folder, tmp_path, seeds=(0, 1))
    lines = next(iter(report.sections.values()))
    assert [line[0] for line in lines] == [
        *(f"zero-one, alpha {a}" for a in (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)),
        "random",
    ]
    assert {path.name for path in report.files} <= {path.name for path in tmp_path.iterdir()}


def test_without_tables_nothing_is_learnt(tmp_path):
    with pytest.raises(NoDataAvailableError, match="data must hold tables: got none"):
        run(active_learning.experiment, tmp_path, tmp_path / "out")
