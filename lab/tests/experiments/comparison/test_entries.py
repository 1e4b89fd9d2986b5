"""Rows gathered over seeds."""

import math

from decal_lab.experiments.comparison.entries import Entry, entries
from decal_lab.experiments.comparison.plan import CLASS, WRAPPER
from lab_helpers.comparison_rows import row


def test_entries_gather_seeds():
    rows = [row(WRAPPER, seed, accuracy=a) for seed, a in enumerate((0.8, 0.9, 0.85))]
    (entry,) = entries(rows)
    assert entry.text("accuracy") == "0.850 ± 0.050"
    assert entry.text("ece") == "–"
    slow = [row(WRAPPER, seed, train_seconds=t) for seed, t in enumerate((12.0, 11.04, 90.0))]
    assert entries(slow)[0].text("train_seconds", 1) == "11.0"
    assert entries(rows[:1])[0].text("accuracy") == "0.800"
    levels = entries([row(CLASS, 0, alpha, ece=0.1) for alpha in (0.5, 1.0, 0.95)])
    assert [e.level for e in levels] == ["1", "0.95", "0.5"]


def test_an_entry_without_numbers_has_none():
    assert math.isnan(Entry(CLASS, 0.5, {}).mean("coverage"))
