"""Options that several commands share mean the same in all of them."""

from __future__ import annotations

import csv

import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

from helpers.archives import read_npz
from helpers.commands import refused, succeed
from helpers.logit_files import NAMES

COLUMNS = ("--id-column", "patient", "--label-column", "outcome")


@pytest.fixture(autouse=True)
def tables(logit_files):  # noqa: ARG001
    """rows.csv with names of inputs and outcomes, new.csv without outcomes, and models of them."""
    z, y = (read_npz("logits.npz")[name] for name in ("logits", "labels"))
    lines = [
        [f"p{i}", *map(float, row), NAMES[k]] for i, (row, k) in enumerate(zip(z, y, strict=True))
    ]
    for name, last in (("rows.csv", 5), ("new.csv", 4)):
        with open(name, "w", newline="") as file:
            table = [["patient", *NAMES, "outcome"], *lines]
            csv.writer(file).writerows(line[:last] for line in table)
    succeed("fit", "--alpha=0.8", "rows.csv", *COLUMNS, "-o", "model.npz")
    best = ("--reference", "best", "--directions", "class,temperature")
    succeed("fit", "--alpha=0.8", "rows.csv", *COLUMNS, *best, "-o", "best.npz")


def patients(path):
    with open(path, newline="") as file:
        return list(dict.fromkeys(line["patient"] for line in csv.DictReader(file)))


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("predict", ["model.npz", "new.csv"]),
        ("report", ["model.npz", "new.csv"]),
        ("triage", ["rows.csv", "new.csv", "--budget", "0.1"]),
        ("shift", ["best.npz", "new.csv", "--bootstrap", "20", "--labelled", "rows.csv"]),
    ],
)
def test_names_stand_beside_what_is_written_and_outcomes_are_no_classes(command, files):
    succeed(command, *files, *COLUMNS, "-o", "out.csv")
    assert patients("out.csv") == [f"p{i}" for i in range(200)]


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("evaluate", ["model.npz", "rows.csv"]),
        ("choose", ["model.npz", "rows.csv", "--miss", "0.2"]),
        ("choose", ["model.npz", "new.csv", "--width", "0.5"]),
        ("explore", ["model.npz", "rows.csv", "--compare", "best.npz", "-o", "page.html"]),
    ],
)
def test_commands_that_write_no_rows_take_them_too(command, files):
    succeed(command, *files, *COLUMNS)


def test_labels_that_a_command_is_to_use_must_be_there():
    for command, *files in (["evaluate", "model.npz"], ["choose", "model.npz"], ["triage"]):
        purpose = {"choose": ["--miss", "0.2"], "triage": ["--cost", "0.1"]}
        asked = purpose.get(command, [])
        message = refused(command, *files, "new.csv", *asked, *COLUMNS)
        assert "labels must be found in new.csv: got no outcome" in message


@pytest.mark.parametrize("command", ["predict", "shift"])
def test_names_need_an_output_with_room_for_them(command):
    message = refused(command, "best.npz", "new.csv", "--id-column", "patient", "-o", "out.npy")
    assert "output must be .npz, .csv or .parquet with --id-column: got .npy" in message
