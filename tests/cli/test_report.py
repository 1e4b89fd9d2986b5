"""decal report, as a user runs it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow.parquet as pq

import decal
from decal.io.writers import write_columns
from helpers.archives import read_npz
from helpers.commands import refused, succeed
from helpers.logit_files import NAMES

pytestmark = pytest.mark.usefixtures("logit_files")

COSTS = "action,eel,cat,dog\nfeed,1,-1,-0.5\nflee,-1,0,0\n"
TABLE = {"feed": {"cat": -1, "dog": -0.5, "eel": 1}, "flee": {"cat": 0, "dog": 0, "eel": -1}}


@pytest.fixture
def promising(logit_files):  # noqa: ARG001
    """The name of a model that misses at most one label in five."""
    succeed("fit", "logits.csv", "--miss", 0.2, "-o", "promising.npz")
    return "promising.npz"


def in_memory(name, **options):
    """What Python reports."""
    return decal.Decalibrator.load(name).report(np.load("logits.npy"), **options)


def lines_in(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def in_csv(report):
    """The lines of a report, with possible classes as a .csv holds them."""
    return [{**line, "possible": " | ".join(line["possible"])} for line in report]


def assert_same(found, expected):
    assert [list(line) for line in found[:1]] == [list(line) for line in expected[:1]]
    for mine, wanted in zip(found, expected, strict=True):
        for name, value in wanted.items():
            if isinstance(value, float):
                assert float(mine[name]) == pytest.approx(value, abs=1e-12)
            elif isinstance(value, bool):
                assert mine[name] == str(value).lower()
            else:
                assert mine[name] == str(value)


def test_it_writes_what_python_reports(promising):
    Path("c.csv").write_text(COSTS)
    options = ("--check", 0.1, "--costs", "c.csv")
    result = succeed("report", promising, "logits.csv", *options, "-o", "r.csv")
    expected = in_memory(promising, check=0.1, costs=TABLE)
    assert expected.check.sum() == 20
    assert {*expected.action} == {"feed", "flee"}
    assert_same(lines_in("r.csv"), in_csv(expected))
    assert result.stderr == "Wrote r.csv: 200 inputs, 20 to check\n"
    assert result.stdout == ""
    succeed("report", promising, "logits.npz", *options, "-o", "r.parquet")
    table = pq.read_table("r.parquet").to_pydict()
    assert table["possible"] == [*expected.possible]
    assert table["check"] == expected.check.tolist()
    succeed("report", promising, "logits.npy", *options, "-o", "r.html")
    expected.save("python.html")
    assert Path("r.html").read_text("utf-8") == Path("python.html").read_text("utf-8")


def test_it_prints_what_python_prints(promising):
    result = succeed("report", promising, "logits.csv", "--check", 0.05)
    assert result.stdout == f"{in_memory(promising, check=0.05)!r}\n"
    assert "for at most 1 new input in 5; guaranteed" in result.stdout.replace("\n", " ")
    result = succeed("report", promising, "logits.csv", "--alpha", 0.5)
    assert result.stdout == f"{in_memory(promising, alpha=0.5)!r}\n"
    assert "guaranteed" not in result.stdout


@pytest.mark.parametrize("rule", ["gamma_maximin", "minimax_regret", "maximality", "point"])
def test_costs_choose_by_a_rule(model, rule):
    Path("c.csv").write_text(COSTS)
    options = ("--costs", "c.csv", "--rule", rule, "--alpha", 0.95)
    succeed("report", model, "logits.csv", *options, "-o", "r.csv")
    actions = [line["action"] for line in lines_in("r.csv")]
    assert actions == in_memory(model, alpha=0.95, costs=TABLE, rule=rule).action.tolist()
    usual = in_memory(model, alpha=0.95, costs=TABLE).action.tolist()
    assert (actions != usual) == (rule in ("gamma_maximin", "minimax_regret"))


def test_a_folder_is_one_report(promising):
    lines = Path("logits.csv").read_text().splitlines()
    Path("in").mkdir()
    for part, (start, stop) in enumerate([(1, 8), (8, 90), (90, 201)]):
        Path(f"in/{part}.csv").write_text("\n".join([lines[0], *lines[start:stop]]) + "\n")
    succeed("report", promising, "in", "--check", 0.1, "-o", "parts.csv")
    succeed("report", promising, "logits.csv", "--check", 0.1, "-o", "whole.csv")
    assert Path("parts.csv").read_bytes() == Path("whole.csv").read_bytes()
    succeed("report", promising, "in", "-o", "parts.html")
    assert Path("parts.html").read_text("utf-8").count("<tr>") > 200
    printed = succeed("report", promising, "in").stdout
    assert printed == succeed("report", promising, "logits.csv").stdout
    Path("empty").mkdir()
    Path("empty/0.csv").write_text(lines[0] + "\n")
    for more in ((), ("--check", 0.1)):
        message = refused("report", promising, "empty", *more)
        assert "empty must hold at least one row: got 1 empty file." in message


def test_every_class_or_group_keeps_its_promise():
    data = read_npz("logits.npz")
    groups = np.array(["east", "west"])[np.arange(200) % 2]
    columns = dict(zip(NAMES, data["logits"].T, strict=True))
    labels = np.array(NAMES)[data["labels"]]
    write_columns(Path("s.csv"), {"site": groups, **columns, "label": labels})
    asked = ("s.csv", "--groups", "site", "--miss", 0.2)
    succeed("fit", *asked, "-o", "g.npz")
    by_group = decal.Decalibrator.load("g.npz")
    expected = decal.decalibrate(
        data["logits"], data["labels"], miss=0.2, groups=groups, classes=NAMES
    )
    assert by_group.promise == expected.promise
    assert [*by_group.promise.levels] == ["east", "west"]
    sets = by_group.predict(data["logits"], groups=groups)
    for more, first in (((), "row"), (("--id-column", "site"), "site")):
        succeed("report", "g.npz", "s.csv", "--groups", "site", *more, "-o", "r.csv", "-f")
        found = lines_in("r.csv")
        assert next(iter(found[0])) == first
        assert [line["possible"].split(" | ") for line in found] == sets.possible()
    result = succeed("predict", "g.npz", "s.csv", "--groups", "site", "-o", "p.npz")
    assert "at the alphas of 2 groups" in result.stderr
    np.testing.assert_allclose(read_npz("p.npz")["lower"], sets.lower, rtol=0, atol=1e-12)
    at = by_group.predict(data["logits"], alpha=0.7)
    succeed("predict", "g.npz", "s.csv", "--alpha", 0.7, "-o", "a.npz")
    np.testing.assert_allclose(read_npz("a.npz")["lower"], at.lower, rtol=0, atol=1e-12)
    for command in (["report"], ["predict", "-o", "x.npz"]):
        message = refused(command[0], "g.npz", "s.csv", *command[1:])
        assert "got none. Give --alpha, or their column with --groups, of east, west." in message
    write_columns(Path("t.csv"), {"site": np.full(200, "north"), **columns})
    message = refused("report", "g.npz", "t.csv", "--groups", "site")
    assert "got 'north'. Predict such inputs with --alpha 0" in message
    succeed("fit", "s.csv", "--ignore", "site", "--miss", 0.2, "--per", "class", "-o", "c.npz")
    by_class = decal.Decalibrator.load("c.npz")
    succeed("report", "c.npz", "s.csv", "-o", "c.csv")
    possible = by_class.predict(data["logits"]).possible()
    assert [line["possible"].split(" | ") for line in lines_in("c.csv")] == possible
    message = refused("report", "c.npz", "s.csv", "--groups", "site")
    assert "groups must be left out" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("action,eel,cat\nfeed,1,2\n", "costs must"),
        ("eel,cat,dog\n1,2,0.5\n", "costs must have a column action: got eel, cat, dog in c.csv"),
        ("action,eel,cat,dog\n", "costs must have a line for every action: got none in c.csv."),
        ("action,eel,cat,dog\na,1,x,2\n", "costs must be numbers: got 'x' in c.csv, line 2"),
        ("action,eel,cat,dog\na,1,nan,2\n", "costs must be finite"),
        ("action,eel,cat,dog\na,1,1,2\na,1,2,2\n", "distinct actions: got 'a' more than once"),
    ],
)
def test_bad_costs_are_refused(model, text, message):
    Path("c.csv").write_text(text)
    assert message in refused("report", model, "logits.csv", "--costs", "c.csv")


def test_bad_options_are_refused(model):
    Path("c.csv").write_text(COSTS)
    np.save("c.npy", np.zeros((2, 3)))
    for options, message in [
        (["--costs", "c.npy"], "costs must be a table, .csv or .parquet: got c.npy."),
        (["--costs", "c.csv", "--rule", "hurwicz"], "rule must be one of"),
        (["--rule", "point"], "rule must go with --costs: got point alone."),
        (["--check", 0], "check must be above 0 and at most 1: got 0."),
        (["--alpha", 2], "alpha must lie between 0 and 1: got 2.0."),
        (["-o", "x.npz"], "output must end in .csv, .parquet or .html: got x.npz."),
        (["--groups", "site"], "must be a column of logits.csv: got 'site'"),
    ]:
        assert message in refused("report", model, "logits.csv", *options)


def test_an_error_in_the_middle_leaves_nothing_behind(model):
    logits = np.load("logits.npy")
    logits[150, 2] = np.nan
    np.save("bad.npy", logits)
    message = refused("report", model, "bad.npy", "-o", "out.csv")
    assert "got nan in bad.npy, row 150, column 2." in message
