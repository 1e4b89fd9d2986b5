"""What a notebook shows of sets, models and choices."""

from xml.etree import ElementTree

import numpy as np
import pytest

import decal
from decal.choose import Choice, Promise


def cells(thing):
    """The texts of the table, row by row, and all text of the page."""
    page = ElementTree.fromstring(thing._repr_html_())
    rows = [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]
    return rows, "".join(page.itertext())


def test_a_set_is_a_line_per_class_likeliest_first():
    sets = decal.IntervalCredalSet(
        [[0.2, 0.1, 0.0]], [[0.8, 0.7, 0.15]], point=[[0.5, 0.4, 0.1]], classes=["<b>", "&", "c"]
    )
    rows, text = cells(sets)
    assert rows == [
        ["input", "class", "", "lower", "upper"],
        ["0", "<b>", "", "0.200", "0.800"],
        ["", "&", "", "0.100", "0.700"],
        ["", "c", "", "0.000", "0.150"],
    ]
    assert text.startswith("IntervalCredalSet: 1 input, 3 classes, mean width 0.450")
    assert "more" not in text
    assert sets._repr_html_().count("<path") == 3  # the point


@pytest.mark.parametrize("kind", ["box", "hull", "ball"])
def test_large_sets_of_every_kind_are_cut_short(kind):
    p = np.random.default_rng(0).dirichlet(np.ones(6), (9, 3))
    hull = decal.HullCredalSet(p)
    made = {"hull": hull, "ball": decal.KLCredalSet(p[:, 0], 0.1), "box": hull.box()}
    rows, text = cells(made[kind])
    assert len(rows) == 1 + 5 * 4
    assert text.endswith("and 4 more inputs, 2 more classes")
    assert "nothing" not in cells(made[kind][:0])[1]  # no inputs, no error


def test_a_model_lists_its_classes():
    logits, labels = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]], [0, 0, 1, 1]
    d = decal.decalibrate(logits, labels, alpha=0.9, classes=["<i>", "no"])
    rows, text = cells(d)
    shifts = d.shifts()
    assert rows[0] == ["class", "labels", "least shift", "greatest shift"]
    assert rows[1] == ["<i>", "2", f"{shifts.lower[0]:+.3f}", f"{shifts.upper[0]:+.3f}"]
    assert "fitted on 4 examples of 2 classes" in text
    local = decal.decalibrate(logits, labels, directions="local", alpha=0.8)
    assert cells(local)[0][0] == ["class", "labels"]
    assert "not fitted" in cells(decal.Decalibrator())[1]
    many = decal.decalibrate(2 * np.eye(30), np.arange(30), alpha=0.8)
    assert cells(many)[1].endswith("and 10 more classes")


def test_choices_are_tables():
    promise = Promise("miss", 0.1, 50, "e_admissible")
    choice = Choice(0.9, 0.08, promise, None)
    rows, text = cells(choice)
    assert rows[1] == ["0.9", "0.0800", "50"]
    assert text.startswith("Choice: alpha 0.9, miss 0.0800 on 50 rows, wanted at most 0.1")
    assert text.endswith(str(promise))
    few = Choice(0.0, 0.0, Promise("miss", 0.1, 5, notes=("5 are too few",)), None)
    both = Promise("miss", 0.1, 55, "e_admissible", "group")
    rows, _ = cells(Choice.of_parts({"<day>": choice, "night": few}, both))
    assert rows[1] == ["<day>", "0.9", "0.0800", "50", ""]
    assert rows[2] == ["night", "0", "0.0000", "5", "5 are too few"]
    many = Choice.of_parts(dict.fromkeys(range(20), choice), both)
    assert cells(many)[1].endswith(" 8 more groups")


def test_inputs_with_names_are_called_by_them():
    sets = decal.IntervalCredalSet([[0.2, 0.3], [0, 0.9]], [[0.7, 0.8], [0.1, 1]])
    rows, _ = cells(sets.with_index({"patient": ["<P-17>", "P-21"]})[::-1])
    assert [row[0] for row in rows[1:]] == ["P-21", "", "<P-17>", ""]
