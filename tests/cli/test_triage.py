"""decal triage, as a user runs it."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow.csv as pc

from decal.choose import Triage, triage
from helpers.archives import read_npz
from helpers.commands import refused, succeed
from helpers.logit_files import NAMES

pytestmark = pytest.mark.usefixtures("logit_files")


def choose(**wish):
    data = read_npz("logits.npz")
    return triage(data["logits"], data["labels"], **wish)


@pytest.mark.parametrize(
    ("options", "wish"),
    [
        (("--cost", "0.1"), {"cost": 0.1}),
        (("--budget", "0.1"), {"budget": 0.1}),
        (("--budget", "12"), {"budget": 12}),
        (("--error-rate", "0.2"), {"error_rate": 0.2}),
        (("--error-rate", "0.2", "--confidence", "0"), {"error_rate": 0.2, "confidence": None}),
        (("--slip-rate", "0.1", "--seed", "3"), {"slip_rate": 0.1, "seed": 3}),
    ],
)
def test_the_lines_are_those_of_python(options, wish):
    result = succeed("triage", "logits.csv", "logits.npy", *options, "-o", "handed.npz")
    wanted, z = choose(**wish), read_npz("logits.npz")["logits"]
    assert result.stdout.startswith(repr(wanted).split("  …")[0])
    for name, trial in wanted.trials.items():
        assert f"  {name:<31}{trial.curve.area:>9.4f}" in result.stdout
    found = read_npz("handed.npz")
    np.testing.assert_array_equal(found["hand_over"], wanted.hand_over(z))
    np.testing.assert_allclose(found["doubt"], wanted.doubt(z), rtol=1e-12)
    assert found["predicted"].tolist() == [NAMES[k] for k in wanted.predict(z)]
    assert f"{found['hand_over'].sum()} of {len(z)} rows for a person" in result.stderr


def test_score_and_threshold_can_be_kept_for_other_rows():
    succeed("triage", "logits.npz", "--budget", "0.2", "--save", "t.npz", "--score", "entropy")
    succeed("triage", "t.npz", "logits.npz", "-o", "kept.csv")
    succeed(
        "triage",
        "logits.npz",
        "logits.npz",
        "--budget",
        "0.2",
        "--score",
        "entropy",
        "-o",
        "anew.csv",
    )
    assert pc.read_csv("kept.csv").equals(pc.read_csv("anew.csv"))
    assert Triage.load("t.npz").score == "entropy"


def test_probabilities_names_and_pipes():
    z = read_npz("logits.npz")["logits"]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    labels = read_npz("logits.npz")["labels"]
    lines = ["id," + ",".join(NAMES) + ",label"]
    lines += [
        f"patient {i},{','.join(map(repr, map(float, row)))},{NAMES[label]}"
        for i, (row, label) in enumerate(zip(p, labels, strict=True))
    ]
    text = "\n".join(lines) + "\n"
    options = ("--probabilities", "--id-column", "id", "--label-column", "label")
    with open("p.csv", "w") as file:
        file.write(text)
    result = succeed("triage", "p.csv", "-", *options, "--budget", "0.1", "-o", "-", stdin=text)
    table = pc.read_csv(io.BytesIO(result.stdout_bytes))
    assert table.column_names == ["row", "id", "predicted", "doubt", "hand_over"]
    assert table["id"].to_pylist()[:2] == ["patient 0", "patient 1"]
    assert table["predicted"].to_pylist() == [NAMES[k] for k in z.argmax(axis=1)]
    rows = ("triage", "p.csv", "p.csv", *options, "--budget", "12", "-o", "rows.csv")
    succeed(*rows)
    assert pc.read_csv("rows.csv")["id"].to_pylist() == table["id"].to_pylist()
    succeed("triage", "p.csv", *options, "--budget", "0.1", "--save", "t.npz")
    saved = Triage.load("t.npz")
    np.testing.assert_array_equal(saved.hand_over(p), table["hand_over"].to_numpy() == 1)


def test_a_saved_triage_remembers_the_floor():
    z, labels = (read_npz("logits.npz")[name] for name in ("logits", "labels"))
    p = np.exp(9 * z) / np.exp(9 * z).sum(axis=1, keepdims=True)
    np.savez("p.npz", probabilities=p, labels=labels)
    wish = ("--budget", "0.2", "--score", "entropy", "--probabilities", "--floor", "0.01")
    succeed("triage", "p.npz", "p.npz", *wish, "--save", "t.npz", "-o", "now.npz")
    succeed("triage", "t.npz", "p.npz", "-o", "later.npz")
    q = np.maximum(p, 0.01)
    q /= q.sum(axis=1, keepdims=True)
    for file in ("now.npz", "later.npz"):
        doubt = -(q * np.log(q)).sum(axis=1)
        np.testing.assert_allclose(read_npz(file)["doubt"], doubt, rtol=1e-9)
    message = refused("triage", "logits.npz", "--budget", "0.2", "--floor", "0.01")
    assert "floor must go with probabilities: got 0.01 for logits. Add --probabilities" in message


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("logits.npz",), "one of --cost, --budget, --error-rate and --slip-rate must be given"),
        (("logits.npz", "--cost", "0.1", "--budget", "0.1"), "got cost and budget"),
        (("logits.npz", "--budget", "many"), "budget must be a share, such as 0.1, or a number"),
        (("logits.npz", "logits.npz", "--cost", "0.1"), "must be given together.*got NEW alone"),
        (("logits.npz", "--cost", "0.1", "-o", "x.csv"), "got --output alone"),
        (("logits.npz", "--cost", "0.1", "--score", "luck"), "score must be one of"),
        (("logits.npy", "--cost", "0.1"), "labels"),
    ],
)
def test_bad_wishes_are_refused(arguments, reason):
    message = refused("triage", *arguments)
    assert re.search(reason, message), message
