"""decal decide, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow.csv as pc
import pyarrow.parquet as pq

import decal
from helpers.archives import read_npz
from helpers.commands import refused, succeed
from helpers.logit_files import NAMES

pytestmark = pytest.mark.usefixtures("logit_files")

UTILITY = "action,eel,cat,dog\nfeed,-1,1,0.5\nflee,1,0,0\n"
TABLE = np.array([[1, 0.5, -1], [0, 0, 1]])  # in the order of NAMES


@pytest.fixture
def credal(model):
    return decal.Decalibrator.load(model).predict(np.load("logits.npy"), alpha=0.95)


def decided(model, *options, out="d.csv"):
    return succeed("decide", model, "logits.csv", "--alpha", 0.95, *options, "-o", out, "--force")


def lines_of(kept, low, high, names):
    """A line for every row and action kept, written out."""
    return [
        (row, int(kept[row].sum()), names[a], low[row, a], high[row, a])
        for row in range(len(kept))
        for a in range(len(names))
        if kept[row, a]
    ]


def assert_lines(table, expected):
    assert table.column_names == ["row", "kept", "action", "lower", "upper"]
    found = list(zip(*table.to_pydict().values(), strict=True))
    assert [line[:3] for line in found] == [line[:3] for line in expected]
    np.testing.assert_allclose(
        [line[3:] for line in found], [line[3:] for line in expected], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("rule", ["e_admissible", "interval_dominance"])
def test_sets_of_classes_are_written_line_by_line(model, credal, rule):
    decided(model, "--rule", rule)
    tight = credal.tighten()
    expected = lines_of(credal.decide(rule), tight.lower, tight.upper, NAMES)
    assert len(expected) > 200
    assert_lines(pc.read_csv("d.csv"), expected)


def test_one_action_is_taken_and_abstaining_is_one(model, credal):
    result = decided(model, "--rule", "gamma_maximin", "--abstention-cost", 0.4, out="d.parquet")
    utility = decal.abstention_utility(3, cost=0.4)
    taken = credal.decide("gamma_maximin", utility=utility)
    kept = np.eye(4, dtype=bool)[taken]
    expected = lines_of(kept, *credal.expectation(utility), (*NAMES, "abstain"))
    assert_lines(pq.read_table("d.parquet"), expected)
    assert "taken" in result.stdout
    assert f"│ abstain │   {(taken == 3).sum():>3} │" in result.stdout


@pytest.mark.parametrize("rule", ["minimax_regret", "hurwicz", "e_admissible"])
def test_utilities_are_found_by_the_names_of_classes(model, credal, rule):
    Path("u.csv").write_text(UTILITY)
    decided(model, "--rule", rule, "--utility", "u.csv", "--optimism", 0.9)
    chosen = credal.decide(rule, utility=TABLE, optimism=0.9)
    kept = chosen if chosen.ndim == 2 else np.eye(2, dtype=bool)[chosen]
    assert_lines(pc.read_csv("d.csv"), lines_of(kept, *credal.expectation(TABLE), ("feed", "flee")))


def test_utilities_may_be_an_array(model):
    Path("u.csv").write_text(UTILITY)
    np.save("u.npy", TABLE)
    decided(model, "--utility", "u.csv", out="a.npz")
    decided(model, "--utility", "u.npy", out="b.npz")
    a, b = read_npz("a.npz"), read_npz("b.npz")
    np.testing.assert_allclose(a["upper"], b["upper"], rtol=0, atol=1e-12)
    assert set(a["action"]) == {"feed", "flee"}
    assert set(b["action"]) == {"0", "1"}


def test_without_a_file_the_counts_are_printed(model, credal):
    result = succeed("decide", model, "logits.csv", "--alpha", 0.95)
    kept = credal.decide("e_admissible")
    alone = kept[kept.sum(axis=1) == 1].sum(axis=0)
    for k, name in enumerate(NAMES):
        row = next(line for line in result.stdout.splitlines() if f" {name} " in line)
        assert [int(cell) for cell in row.split("│")[2:4]] == [kept[:, k].sum(), alone[k]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("action,eel,cat\nfeed,1,2\n", "utility must have a column for every class: got none for"),
        ("eel,cat,dog\n1,2,0.5\n", "utility must have a column action: got eel, cat, dog in u.csv"),
        ("action,eel,cat,dog\n", "utility must have a line for every action: got none in u.csv."),
        ("action,eel,cat,dog\na,1,x,2\n", "utility must be numbers: got 'x' in u.csv, line 2"),
        ("action,eel,cat,dog\na,1,nan,2\n", "utility must be finite"),
    ],
)
def test_bad_utilities_are_refused(model, text, message):
    Path("u.csv").write_text(text)
    assert message in refused("decide", model, "logits.csv", "--utility", "u.csv")


def test_bad_options_are_refused(model):
    Path("u.csv").write_text(UTILITY)
    np.save("u.npy", np.zeros((2, 2)))
    for options, message in [
        (["--utility", "u.csv", "--abstention-cost", 0.3], "must go without --utility"),
        (["--utility", "u.npy"], "utility must have 3 columns, one per class: got shape (2, 2)"),
        (["--abstention-cost", 3], "cost must lie between 0 and 1: got 3"),
        (["--rule", "guess"], "rule must be one of"),
        (["-o", "x.npy"], "output must end in .csv, .parquet or .npz: got x.npy."),
    ]:
        assert message in refused("decide", model, "logits.csv", *options)
