"""What commands say is about files and options, not about Python."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

from rich.console import Console

import decal
from decal.cli import terminal
from helpers.archives import read_npz
from helpers.commands import run, succeed
from helpers.logit_files import NAMES

PYTHON = re.compile(
    r"\bdecal\.[a-z]\w*(?!\w*\.(csv|npz))|\bnp\.|\bpandas|read_csv"  # modules
    r"|\b[a-z_]+=(?![A-Z])|\w\(|\[None\]|\.(load|save|trials|predict|fit)\b"  # keywords and calls
    r"|Decalibrator|LabelShift|CredalClassifier|alpha_for_|`save`|\bPass (?!--)|\bCall\b"
)


@pytest.fixture(autouse=True)
def prepared(model):  # noqa: ARG001
    """Models of every kind, and files that are wrong in every likely way."""
    z, y = (read_npz("logits.npz")[name] for name in ("logits", "labels"))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    zero = np.where(p < 0.1, 0.0, p)
    zero /= zero.sum(axis=1, keepdims=True)
    np.savez("probabilities.npz", logits=p, labels=y)
    np.savez("percent.npz", logits=100 * p, labels=y)
    np.savez("zeros.npz", probabilities=zero, labels=y)
    np.savez("nan.npz", logits=np.where(z == z[3, 1], np.nan, z), labels=y)
    np.savez("masked.npz", logits=np.where(z == z[3, y[3]], -np.inf, z), labels=y)
    np.savez("one.npz", logits=z, labels=np.zeros(200, dtype=int))
    np.savez("perfect.npz", logits=z, labels=z.argmax(axis=1))
    np.savez("worst.npz", logits=z, labels=z.argmin(axis=1))
    np.savez("far.npz", logits=z + np.array([40.0, 0.0, 0.0]), labels=y)
    np.savez("cube.npz", logits=z.reshape(20, 10, 3), labels=y)
    np.savez("hot.npz", logits=z, labels=np.eye(3, dtype=int)[y])
    np.savez("high.npz", logits=z, labels=y + 1)
    likely = z.argmax(axis=1) != 2
    never = np.cumsum(likely & (z.argmin(axis=1) == 2)) <= 15
    never &= z.argmin(axis=1) == 2
    np.savez("neglected.npz", logits=z[likely], labels=np.where(never, 2, z.argmax(axis=1))[likely])
    np.savez("few.npz", logits=z[:5], labels=y[:5])
    np.savez("columns.npz", logits=z[:, :1], labels=y)
    lines = [";".join(NAMES), *(";".join(f"{v:.3f}" for v in row) for row in z)]
    with open("semicolons.csv", "w") as file:
        file.write("\n".join(lines))
    with open("decimals.csv", "w") as file:
        file.write("\n".join(lines).replace(".", ","))
    with open("european.csv", "w") as file:
        file.writelines([",".join(NAMES) + ",label\n", '"0,5",1,2,cat\n'])
    best = ("--reference", "best", "--directions", "class,temperature")
    succeed("fit", "--alpha=0.8", "logits.npz", *best, "-o", "best.npz")
    succeed("fit", "--alpha=0.8", "logits.npz", "--likelihood", "sum", "-o", "sum.npz")
    succeed("fit", "--alpha=0.8", "logits.npz", "--directions", "local", "-o", "local.npz")
    succeed("fit", "--alpha=0.8", "logits.npz", "--directions", "temperature", "-o", "scale.npz")
    succeed(
        "fit", "--alpha=0.8", "zeros.npz", "--probabilities", "--floor", "0.01", "-o", "of_p.npz"
    )
    succeed("shift", "best.npz", "logits.npz", "--save", "clinic.npz")
    succeed("triage", "logits.npz", "--cost", "0.1", "--save", "triage.npz")
    decal.MultiLabelDecalibrator().fit(z, np.eye(3, dtype=int)[y]).save("labels.npz")
    decal.CoupledDecalibrator(0.8, likelihood="mean").fit(z, y).save("coupled.npz")
    np.save("utility.npy", np.ones((2, 5)))
    np.savez("grouped_rows.npz", logits=z, labels=y, site=np.arange(200) % 2)
    succeed("fit", "grouped_rows.npz", "--miss", 0.2, "--groups", "site", "-o", "grouped.npz")
    with open("costs.csv", "w") as file:
        file.write("action,cat,dog\nfeed,1,2\n")


COMMANDS = """
fit probabilities.npz -o new.npz --alpha 0.8
fit percent.npz -o new.npz --alpha 0.8
fit nan.npz -o new.npz --alpha 0.8
fit masked.npz -o new.npz --alpha 0.8
fit one.npz -o new.npz --alpha 0.8
fit cube.npz -o new.npz --alpha 0.8
fit hot.npz -o new.npz --alpha 0.8
fit high.npz -o new.npz --alpha 0.8
fit columns.npz -o new.npz --alpha 0.8
fit one.npz -o new.npz --reference best --directions class,temperature --alpha 0.8
fit perfect.npz -o new.npz --reference best --directions class,temperature --alpha 0.8
fit worst.npz -o new.npz --reference best --directions class,temperature --alpha 0.8
fit far.npz -o new.npz --reference best --directions class,temperature --alpha 0.8
fit zeros.npz -o new.npz --probabilities --alpha 0.8
fit logits.npz -o new.npz --probabilities --alpha 0.8
fit logits.npz -o new.npz --floor 0.1 --alpha 0.8
fit semicolons.csv -o new.npz --alpha 0.8
fit decimals.csv -o new.npz --alpha 0.8
fit european.csv -o new.npz --alpha 0.8
fit logits.npz -o new.npz --alpha 2
fit logits.npz -o new.npz --reference mean --alpha 0.8
fit logits.npz -o new.npz --directions shape --alpha 0.8
fit logits.npz -o new.npz --directions class,class --alpha 0.8
fit logits.npz -o new.npz --directions local,temperature --alpha 0.8
fit logits.npz -o new.npz --mix 0.1 --alpha 0.8
fit logits.npy -o new.npz --alpha 0.8
fit logits.npz -o new.npz
fit logits.npz -o new.npz --alpha 0.8 --miss 0.1
fit logits.npz -o new.npz --alpha 0.8 --per class
fit logits.npz -o new.npz --width 0.2 --per class
fit logits.npz -o new.npz --miss 0.1 --per group
fit logits.npz -o new.npz --miss 0.001
fit logits.npz -o new.npz --miss 2
fit logits.npz -o new.npz --miss 0.1 --groups site
fit logits.npz -o new.npz --hold 0.99
fit few.npz -o new.npz --miss 0.3 --per class
fit worst.npz -o new.npz --miss 0.1
fit neglected.npz -o new.npz --miss 0.2
fit one.npz -o new.npz --miss 0.1
fit zeros.npz -o new.npz --miss 0.1 --probabilities
predict labels.npz logits.npz -o new.npz
predict coupled.npz logits.npz -o new.npz
predict triage.npz logits.npz -o new.npz
predict clinic.npz logits.npz -o new.npz
predict logits.npz logits.npz -o new.npz
predict model.npz columns.npz -o new.npz
predict model.npz nan.npz -o new.npz
predict model.npz cube.npz -o new.npz
predict model.npz semicolons.csv -o new.npz
predict model.npz probabilities.npz -o new.npz
predict of_p.npz logits.npz -o new.npz
predict scale.npz masked.npz -o new.npz
predict local.npz masked.npz -o new.npz
evaluate model.npz logits.npy
evaluate model.npz logits.npz --alpha 0.5,2
evaluate model.npz logits.npz --rule best
choose model.npz logits.npz
choose model.npz logits.npz --width 0.001
choose sum.npz logits.npz --width 0.9
choose model.npz logits.npz --coverage 1
choose model.npz logits.npz --coverage 0.9 --guaranteed
choose model.npz few.npz --miss 0.05
choose model.npz logits.npz --miss 0.2
choose scale.npz logits.npz --miss 0.001
choose scale.npz worst.npz --miss 0.2
choose model.npz logits.npz --hold 0.9
choose local.npz logits.npz --hold 0.9
choose model.npz neglected.npz --miss 0.2
report model.npz logits.npz --rule best --costs costs.csv
report model.npz logits.npz --rule best
report model.npz logits.npz --costs costs.csv
report model.npz logits.npz --costs utility.npy
report model.npz logits.npz --check 2
report grouped.npz logits.npz
report grouped.npz logits.npz --groups other
report model.npz logits.npz --groups labels
predict grouped.npz logits.npz -o new.npz
triage logits.npz --cost 0.1
triage logits.npz --cost 0.1 --budget 0.1
triage logits.npz --cost 2
triage logits.npz --error-rate 0.1 --confidence 1
triage logits.npz --cost 0.1 --score luck
triage few.npz --cost 0.1
triage model.npz
triage probabilities.npz --cost 0.1
triage logits.npz columns.npz --cost 0.1 -o new.csv
shift model.npz logits.npz
shift best.npz logits.npz --no-observe
shift best.npz logits.npz --kl 0.1 --around observed -o new.npz
shift best.npz logits.npz --kl 0.1 --ratio 2 -o new.npz
shift best.npz logits.npz --kl -1 -o new.npz
shift best.npz logits.npz --what-if cat=0.9,dog=0.9 -o new.npz
shift best.npz logits.npz --what-if cow=0.9 -o new.npz
shift best.npz logits.npz --bootstrap 20 --labelled few.npz
shift best.npz probabilities.npz
explore model.npz logits.npz -o new.html --alphas 2
explore clinic.npz logits.npz -o new.html --alphas 0.5
explore model.npz columns.npz -o new.html
explore triage.npz logits.npz -o new.html
"""


@pytest.mark.filterwarnings("default")
def test_what_is_said_names_options_and_not_python():
    of_python = {}
    for command in COMMANDS.strip().splitlines():
        for file in Path().glob("new.*"):
            file.unlink()
        result = run(*command.split())
        assert result.exception is None or isinstance(result.exception, SystemExit), command
        said = [line for line in result.output.splitlines() if not line.startswith("Wrote")]
        if PYTHON.search("\n".join(said)):
            of_python[command] = said
    assert not of_python


def test_a_terminal_breaks_messages_between_words(monkeypatch):
    screen = Console(file=StringIO(), force_terminal=True, no_color=True, width=30)
    monkeypatch.setattr(terminal, "messages", screen)
    message = "decal fit: LOGITS must exist: got folder_of_logits/with_a_long_name.parquet."
    terminal.say(message, style="none")
    lines = screen.file.getvalue().splitlines()
    assert len(lines) > 2
    assert " ".join(line.strip() for line in lines) == message
