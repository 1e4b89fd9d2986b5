"""Guaranteed sets by the number of labels per input, on small files like the published ones."""

import math

import numpy as np
import pytest

import decal
from decal_lab.experiments import ordered, raters
from decal_lab.experiments.harness import voted_inputs
from decal_lab.experiments.harness.experiment import Request, run, write
from decal_lab.experiments.harness.logit_sets import named
from decal_lab.experiments.harness.rows import Cell, RowStore, provenance
from lab_helpers.experiment_files import as_votes, draw
from lab_helpers.experiment_runs import table
from lab_helpers.undrawn import undrawn

CNN, NLI, FACES = "cnn_vgg_15_BN_64", "snli_bert0/half", "fer_ferplus"
PEOPLE = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Networks whose votes are in another file, faces with theirs, and sentences with shares."""
    path = tmp_path_factory.mktemp("raters")
    rng = np.random.default_rng(0)
    logits, labels, truth = draw(rng, 600, 4)
    votes = as_votes(rng, truth, PEOPLE)
    human = (votes / PEOPLE).astype(np.float32)
    np.savez(path / "cnn_vgg_15_BN_64_test", logits=logits, labels=labels, human=human)
    np.savez(path / "clip_cifar10_en", logits=logits, labels=labels, human=human[::-1])
    other = {"logits": logits + 1, "labels": labels, "human": human, "votes": votes}
    np.savez(path / "cnn_kerrigan_probs_test", **other)
    votes = as_votes(rng, truth, 8)
    faces = {"logits": logits, "labels": labels, "human": votes / 8, "votes": votes}
    np.savez(path / "fer_ferplus", **faces)
    logits, labels, truth = draw(rng, 600, 3)
    shares = as_votes(rng, truth, 100) / 100
    nli = {"test_logits": logits, "test_labels": labels, "human": shares.astype(np.float32)}
    np.savez(path / "snli_bert0", **nli, train_logits=logits, train_labels=labels)
    return path


def test_the_experiment_leaves_rows_tables_and_a_figure(folder, tmp_path):
    pytest.importorskip("matplotlib", reason="needs decal[plot]")
    report = run(raters.experiment, folder, tmp_path / "out", quick=True)
    names = {"rows.csv", "table.md", "table.tex"}
    names |= {f"raters{ending}" for ending in (".svg", ".png", "_dark.svg")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    rows = table(tmp_path / "out" / "rows.csv")
    assert list(rows[0]) == list(raters.COLUMNS)
    assert {row["data"] for row in rows} == {
        *(CNN, NLI, FACES, "cnn_kerrigan_probs", "clip_cifar10_en")
    }
    assert "lidc/lidc_nodules.csv" in report.needs
    shown = [line[0] for line in report.sections["promised 0.8"]]
    assert shown == [raters.SNLI, raters.FACES, raters.NETWORKS, raters.ZERO_SHOT]


def test_votes_come_from_the_file_that_has_them(folder):
    network = raters.load(CNN, folder, 0)
    assert network.counted
    assert (network.votes.sum(axis=1) == PEOPLE).all()
    sentences = raters.load(NLI, folder, 0)
    assert sentences.counted
    assert (sentences.votes.sum(axis=1) == 100).all()
    zero_shot = raters.load("clip_cifar10_en", folder, 0)  # no file has votes of these shares
    assert not zero_shot.counted
    np.testing.assert_allclose(zero_shot.shares[::-1], network.shares, atol=1e-6)


def test_votes_that_are_no_hundredths_are_not_guessed():
    data = named(NLI)
    assert raters.votes_of(data, [], np.array([[0.25, 0.5, 0.25]])).tolist() == [[25, 50, 25]]
    assert raters.votes_of(data, [], np.array([[1 / 3, 1 / 3, 1 / 3]])) is None


def test_rows_are_what_the_library_computes(folder, tmp_path):
    design = raters.experiment(Request(folder, tmp_path, quick=True))
    rows = {row["raters"]: row for row in design.rows(Cell(FACES, raters.HOLD, 0))}
    with np.load(folder / "fer_ferplus.npz") as file:
        z, votes = file["logits"], file["votes"]
    order = np.random.default_rng(0).permutation(600)
    known, new = order[:300], order[300:]
    model = decal.decalibrate(z[known], decal.Votes.of_counts(votes[known]), hold=0.8, seed=0)
    credal, p = model.predict(z[new]), votes[new] / 8
    center, b = model.predict_ball(z[new]).center, -math.log(float(model.alpha))
    distance = np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / center), 0).sum(axis=1)
    found = rows[raters.ALL]
    assert found["efficiency"] == pytest.approx(1 - (credal.upper - credal.lower).mean())
    assert found["held"] == pytest.approx((distance <= b).mean(), abs=1 / 300)
    assert (found["examples"], found["new"], found["refused"]) == (300, 300, 0)
    assert rows["1"]["efficiency"] < found["efficiency"]


def test_what_nothing_can_be_promised_of_excludes_nothing():
    rng = np.random.default_rng(0)
    z, _, truth = draw(rng, 20, 3)
    new = voted_inputs.Voted(z, as_votes(rng, truth, 5), counted=True)
    found = raters.promised(z, new.drawn("1", rng), new, 0.1, 0)
    assert found == {"held": 1.0, "efficiency": 0.0, "proved": 1.0, "refused": 1.0}


@undrawn()
@pytest.mark.parametrize(("held", "ten", "verdicts"), [(0.95, 0.5, "11111"), (0.7, 0.15, "00001")])
def test_claims_hold_or_fail(tmp_path, held, ten, verdicts):
    store = RowStore(tmp_path / "rows.csv", raters.COLUMNS, level="case")
    origin = provenance() | {"fingerprint": "", "seconds": 1.0, "seed": 0}

    def add(method, rows):
        same = {"data": NLI, "method": method, "examples": 900, "new": 900, "held": held}
        same |= {"proved": 0.8, "refused": 0.0, "same": 1.0, "efficiency": 0.2, "delta": 0.2}
        filled = [
            same | {"case": f"{row['raters']}, {row.get('delta', 0.2)}"} | row | origin
            for row in rows
        ]
        store.add(Cell(NLI, method, 0), filled)

    add(raters.HOLD, [{"raters": "1"}, {"raters": "10", "efficiency": ten}])
    budgets = {raters.CONSTANT: 0.2, raters.BY_ENTROPY: 0.1, raters.LEARNT: ten}
    for kind, efficiency in budgets.items():
        add(kind, [{"raters": "1", "efficiency": efficiency}])
    add(raters.BERNOULLI, [{"raters": raters.ALL, "delta": raters.MISS}])
    report = write(raters.findings(store, seeds=(0,)), store, tmp_path, seeds=(0,))
    found = [claim.holds for claim in report.claims]
    # Held; twice on SNLI; never wider; learnt ones are narrower; Bernoulli.
    assert "".join(str(int(holds)) for holds in found) == verdicts


@pytest.mark.data
def test_rated_data_are_read_with_all_their_votes(data_folder):
    if not all((data_folder / file).exists() for file in ordered.FILES["LIDC"]):
        pytest.skip("needs lidc/lidc_nodules.csv")
    nodules = raters.load("LIDC", data_folder, 0)
    assert len(nodules.votes) == 2670
    assert nodules.counted
