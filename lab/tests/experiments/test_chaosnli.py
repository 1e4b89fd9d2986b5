"""The comparison on ChaosNLI: end to end on tiny files in the real formats."""

from __future__ import annotations

import json
import pickle
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lab_helpers.experiment_runs import Stopped, in_one_thread, table
from lab_helpers.undrawn import undrawn

pytest.importorskip("sklearn")
torch = pytest.importorskip("torch")

from decal_lab.baselines import mlp  # noqa: E402
from decal_lab.experiments import chaosnli  # noqa: E402
from decal_lab.experiments.chaosnli import ChaosPlan  # noqa: E402
from decal_lab.experiments.comparison.plan import (  # noqa: E402
    CREDAL,
    DRAWN,
    WRAPPER,
)
from decal_lab.experiments.harness.experiment import run  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]

TINY = ChaosPlan(name="tiny", seeds=1, members=2, epochs=2, batch=25)
SEED = 4
SIZES = {"snli": 70, "mnli": 80}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with in_one_thread():
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Logits of both corpora, and a published curve."""
    folder = tmp_path_factory.mktemp("logits")
    rng = np.random.default_rng(0)
    for corpus, n in SIZES.items():
        z = rng.normal(size=(n, 3)).astype(np.float32)
        human = rng.dirichlet((1, 1, 1), n)
        np.savez(folder / f"{corpus}_roberta0.npz", test_logits=z, human=human)
    curve = {"alpha": [0.0, 0.8, 1.0], "coverage": [1.0, 0.5, 0.0], "efficiency": [0.0, 0.5, 1.0]}
    text = json.dumps({"effcre": {"cov_eff_chaosnli_fcnet_4": curve}})
    (folder / "published.json").write_text(text)
    return folder


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("results") / "chaosnli"
    return out, run(partial(chaosnli.experiment, plan=TINY), data, out, seeds=(SEED,))


def test_every_credal_method_is_judged_by_what_people_said(finished):
    rows = table(finished[0] / "rows.csv")
    assert {row["method"] for row in rows} == set(CREDAL)
    assert {row["data"] for row in rows} == {"chaosnli/roberta0/drawn/tiny"}
    assert {row["test_inputs"] for row in rows} == {"30"}
    assert all(0 <= float(row["coverage"]) <= 1 for row in rows)


def test_the_wrapper_agrees_with_boxes_around_its_stored_networks(finished, data):
    files = [np.load(data / f"{corpus}_roberta0.npz") for corpus in SIZES]
    z = np.concatenate([file["test_logits"] for file in files]).astype(float)
    human = np.concatenate([file["human"] for file in files])
    order = np.random.default_rng(SEED).permutation(150)
    test, train = order[:30], order[30:]
    z = (z - z[train].mean(axis=0)) / z[train].std(axis=0)
    boxes = []
    for index in (0, 1):
        net = mlp(3, inputs=3)
        (path,) = finished[0].glob(f"members/chaosnli-roberta0-drawn-tiny-{SEED}-*/ensemble")
        net.load_state_dict(torch.load(path / f"member-{index:03}.pt", weights_only=True))
        with torch.no_grad():
            scores = net.eval()(torch.tensor(z[test], dtype=torch.float32)).double().numpy()
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        boxes.append(e / e.sum(axis=1, keepdims=True))
    low, high = np.min(boxes, axis=0), np.max(boxes, axis=0)
    inside = [
        all(a - 5e-4 <= t <= b + 5e-4 for a, t, b in zip(*row, strict=True))
        for row in zip(low, human[test], high, strict=True)
    ]
    (row,) = (r for r in table(finished[0] / "rows.csv") if r["method"] == WRAPPER)
    assert float(row["coverage"]) == np.mean(inside)
    assert float(row["efficiency"]) == pytest.approx(1 - np.mean(high - low), abs=1e-6)


def test_labels_are_drawn_and_the_test_part_is_apart(data):
    split = TINY.prepare(DRAWN, SEED, data, data)
    assert split.train is split.held_out
    assert len(split.train[0]) == 120
    assert len(split.test[0]) == len(split.truth) == 30
    together = {row.tobytes() for row in split.train[0]} & {row.tobytes() for row in split.test[0]}
    assert not together
    np.testing.assert_allclose(split.train[0].mean(axis=0), 0, atol=1e-6)
    other = TINY.prepare(DRAWN, SEED + 1, data, data)
    assert (other.train[1] != split.train[1]).any()


def test_the_published_curve_and_the_stand_in_are_named(finished):
    out, told = finished
    assert told.needs == (chaosnli.STAND_IN,)
    (rows,) = told.further[0].sections.values()
    assert rows[3][:3] == ("0.8", "0.500", "0.500")
    assert "class + temperature" in (out / "table.md").read_text()
    assert {path.name for path in told.files} >= {"tradeoff.svg", "table.csv", "table.tex"}


def test_an_interrupted_run_goes_on_and_ends_in_the_same_rows(finished, data, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(
            partial(chaosnli.experiment, plan=TINY),
            data,
            tmp_path,
            seeds=(SEED,),
            track=Stopped(after=2),
        )
    with undrawn():  # the same rows as those of `finished`, whose figures are drawn
        run(partial(chaosnli.experiment, plan=TINY), data, tmp_path, seeds=(SEED,))
    unlike = ("train_seconds", "predict_seconds", "commit")
    once, twice = (
        [{k: v for k, v in row.items() if k not in unlike} for row in table(folder / "rows.csv")]
        for folder in (finished[0], tmp_path)
    )
    assert once == twice


@undrawn()
def test_networks_trained_on_other_data_are_not_taken_for_these(finished, data, tmp_path):
    out = Path(shutil.copytree(finished[0], tmp_path / "out"))
    other = Path(shutil.copytree(data, tmp_path / "data"))
    with np.load(other / "snli_roberta0.npz") as archive:
        arrays = dict(archive)
    np.savez(other / "snli_roberta0.npz", **arrays | {"human": arrays["human"][::-1]})
    design = partial(chaosnli.experiment, plan=TINY)
    report = run(design, other, out, seeds=(SEED,))
    assert any("were computed again, as their data" in note for note in report.notes)
    assert len(list((out / "members").iterdir())) == 2
    run(design, other, tmp_path / "fresh", seeds=(SEED,))

    def measured(folder):
        rows = [(r["method"], r["alpha"], r["coverage"]) for r in table(folder / "rows.csv")]
        return sorted(rows)

    assert measured(out) == measured(tmp_path / "fresh")
    assert measured(out) != measured(finished[0])


@undrawn()
def test_the_papers_embeddings_are_used_where_they_are(tmp_path):
    rng = np.random.default_rng(1)
    (tmp_path / "embeddings").mkdir()
    for name, n in (("snli", 30), ("mnli_m", 25)):
        arrays = {
            "embedding": rng.normal(size=(n, 768)).astype(np.float32),
            "label_dist": rng.dirichlet((1, 1, 1), n),
        }
        with (tmp_path / "embeddings" / f"{name}.pkl").open("wb") as file:
            pickle.dump(arrays, file)
    plan = ChaosPlan(name="tiny", seeds=1, members=2, epochs=1)
    told = run(partial(chaosnli.experiment, plan=plan), tmp_path, tmp_path / "out", seeds=(0,))
    assert told.needs == ()
    assert "its embedding" in told.caption
    rows = table(tmp_path / "out" / "rows.csv")
    assert {row["data"] for row in rows} == {"chaosnli/embeddings/drawn/tiny"}
    assert told.further[0].sections == {}


def test_without_logits_it_says_which(tmp_path):
    with pytest.raises(ValueError, match=r"data must hold snli_roberta0.npz: got none"):
        run(chaosnli.experiment, tmp_path, tmp_path / "out")
