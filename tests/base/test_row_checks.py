"""Rules for inputs, written once, and the places that name what breaks them."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal._base.errors import Place, TablePlace
from decal._base.row_checks import (
    check_labels,
    check_logits,
    check_probabilities,
    check_weights,
    label_numbers,
    to_numpy,
)

NAMES = ("cat", "dog", "eel")
PLACES = {
    "at index (7, 1)": Place(),
    "at index (107, 1)": Place(100),
    "in x.npy, row 107, column 1": TablePlace(100, source="x.npy"),
    "in x.csv, line 109, column dog": TablePlace(100, source="x.csv", lines=True, columns=NAMES),
    "in partition 4, row 107, column 1": TablePlace(100, source="partition 4"),
    "in partition 4, row 7, column dog": TablePlace(source="partition 4", columns=NAMES),
}


def raised(check, *arguments, **options):
    with pytest.raises(ValueError, match=" must ") as caught:
        check(*arguments, **options)
    return caught.value


@pytest.mark.parametrize("where", PLACES)
def test_one_rule_names_entries_rows_and_wholes_in_every_place(where):
    place = PLACES[where]
    logits = np.zeros((10, 3))
    logits[7, 1] = np.nan
    error = raised(check_logits, logits, place=place)
    assert str(error) == (
        f"logits must be finite: got nan {where}. Mask or repair such rows first."
    )
    entry = where.rpartition(", column")[0] or f"at index {place.first_row + 7}"
    labels = np.zeros(10, dtype=int)
    labels[7] = 3
    assert str(raised(check_labels, labels, rows=10, classes=3, place=place)) == (
        f"labels must lie in 0 to 2, the columns of logits: got 3 {entry}."
    )
    weights = np.ones(10)
    weights[7] = -1
    assert str(raised(check_weights, weights, rows=10, place=place)) == (
        f"sample_weight must be finite and not negative: got -1.0 {entry}."
    )
    row = where.rpartition(", column")[0] or f"in row {place.first_row + 7}"
    p = np.full((10, 2), 0.5)
    p[7] = 0.25
    assert str(raised(check_probabilities, p, place=place, advice="Divide.")) == (
        f"probabilities must sum to 1 in every row: got 0.5 {row}. Divide."
    )
    message = str(raised(check_logits, logits, classes=4, place=place))
    assert f"4 columns, one per class seen by fit: got shape (10, 3){place.within}." in message


def test_the_row_is_right_in_every_block():
    logits = np.zeros((50_000, 3))
    logits[45_000, 2] = np.inf
    assert "got inf at index (45100, 2)" in str(raised(check_logits, logits, place=Place(100)))


def test_nothing_may_be_missing_unless_it_may():
    assert check_logits(np.zeros((0, 3)), empty=True).shape == (0, 3)
    assert "at least one row" in str(raised(check_logits, np.zeros((0, 3))))
    assert not check_weights(np.zeros(3), rows=3, all_zero=True).any()
    assert "positive somewhere" in str(raised(check_weights, np.zeros(3), rows=3))


@pytest.mark.parametrize("dtype", [str, object])
def test_names_of_classes_become_numbers(dtype):
    labels = np.array(["eel", "cat", "eel"], dtype=dtype)
    assert label_numbers(labels, NAMES).tolist() == [2, 0, 2]
    assert check_labels(labels, rows=3, classes=3, names=NAMES).tolist() == [2, 0, 2]
    labels[1] = "fox"
    assert str(raised(label_numbers, labels, NAMES)) == (
        "labels must be one of the classes cat, dog, eel: got 'fox' at index 1."
    )


def test_labels_may_be_columns_unless_classes_are_called_by_numbers():
    assert label_numbers(np.array(["2", "cat"]), NAMES, columns=3).tolist() == [2, 0]
    assert label_numbers(np.array([1, 0]), (), columns=2).tolist() == [1, 0]
    assert label_numbers(np.array([5, 3]), ("3", "5"), columns=2).tolist() == [1, 0]
    error = raised(label_numbers, np.array([0]), ("3", "5"), columns=2)
    assert str(error) == "labels must be one of the classes 3, 5: got 0 at index 0."
    error = raised(label_numbers, np.array(["3"]), NAMES, columns=3)
    assert "classes cat, dog, eel or a column 0 to 2: got '3'" in str(error)


MASKED = {
    "a matrix": (np.ma.masked_equal(np.arange(6.0).reshape(3, 2), 5.0), "(2, 1)"),
    "a vector": (np.ma.masked_greater(np.arange(4), 1), "2"),
    "a list of rows": ([np.ma.masked_less([1.0, 2.0], 2.0), [3.0, 4.0]], "(0, 0)"),
    "one of a list": ([1.0, np.ma.masked], "1"),
}


@pytest.mark.parametrize("kind", MASKED)
def test_masked_entries_are_refused_for_their_values_are_hidden(kind):
    values, got = MASKED[kind]
    assert str(raised(to_numpy, values, "logits")) == (
        f"logits must not be masked: got a masked entry at index {got}. "
        "Leave such rows out, or fill them in, first."
    )


def test_masked_arrays_that_hide_nothing_are_arrays():
    values = np.arange(6.0).reshape(3, 2)
    for mask in (False, np.zeros((3, 2), bool)):
        found = to_numpy(np.ma.masked_array(values, mask=mask), "logits")
        assert type(found) is np.ndarray
        assert np.array_equal(found, values)
    assert to_numpy([np.ma.masked_array([1, 2])], "logits").tolist() == [[1, 2]]


def test_a_list_of_batches_is_refused_with_the_way_to_join_them():
    batches = [np.zeros((4, 3)), np.zeros((4, 3)), np.zeros((1, 3))]
    assert str(raised(to_numpy, batches, "logits")) == (
        "logits must be one array: got a list of 3, of shapes (4, 3), (4, 3), (1, 3). "
        "Join batches first: numpy.concatenate(logits). Of sentences, pass dim=-1."
    )
    labels = tuple(np.zeros(n, int) for n in (3, 2))
    assert str(raised(to_numpy, labels, "labels")) == (
        "labels must be one array: got a tuple of 2, of shapes (3,), (2,). "
        "Join batches first: numpy.concatenate(labels)."
    )
    # Of as many rows each, NumPy would make an array with an axis of batches.
    error = raised(check_labels, [np.zeros(3, int)] * 2, rows=6, classes=3)
    assert str(error).endswith("Join batches first: numpy.concatenate(labels).")
    error = raised(check_logits, batches[:2])
    assert str(error).endswith("Of an ensemble, pass decal.ensemble(logits).mean.")
    assert "argmax" in str(raised(check_labels, list(np.eye(3)), rows=3, classes=3))
    other = [np.zeros((4, 3)), np.zeros((4, 2))]  # which cannot be joined
    assert "Join" not in str(raised(to_numpy, other, "logits"))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_list_of_frames_is_refused_with_the_way_to_join_them(library):
    frames = pytest.importorskip(library)
    parts = [frames.DataFrame({"cat": [0.0] * n, "dog": [1.0] * n}) for n in (3, 2)]
    error = raised(decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.8).predict, parts)
    assert str(error).endswith(f"Join batches first: {library}.concat(logits).")


@pytest.mark.parametrize("name", ["logits", "labels", "sample_weight"])
def test_a_fit_refuses_each_masked_argument_by_its_name(name):
    data = {
        "logits": np.array([[2.0, 0.0], [0.0, 1.0]]),
        "labels": np.array([0, 1]),
        "sample_weight": np.ones(2),
    }
    mask = np.zeros_like(data[name], bool)
    mask[1] = True
    data[name] = np.ma.masked_array(data[name], mask=mask)
    with pytest.raises(ValueError, match=f"{name} must not be masked"):
        decal.Decalibrator().fit(**data)


@pytest.mark.parametrize("weight", [1e308, 1e101, 1e-101, 5e-324])
def test_weights_whose_sums_could_leave_the_range_of_floats_are_refused(weight):
    message = str(raised(check_weights, np.array([1.0, weight]), rows=2))
    assert message == (
        f"sample_weight must be 0 or lie in 1e-100 to 1e+100: got {weight} at index 1. "
        "Divide all weights by the largest."
    )


def test_weights_that_drown_in_the_round_off_of_others_are_refused():
    weights = np.array([3.0, 0.0, 1e-12, 2.0])
    assert str(raised(check_weights, weights, rows=4)) == (
        "sample_weight must be 0 or at least 1e-12 of the largest, 3.0: got 1e-12 at index 2. "
        "Set weights that should not count to 0."
    )
    weights[2] = 3.1e-12
    assert np.array_equal(check_weights(weights, rows=4), weights)


def test_long_lists_of_names_are_cut():
    names = [f"c{k}" for k in range(20)]
    assert "c11 and 8 more: got 'x'" in str(raised(label_numbers, np.array(["x"]), names))


@pytest.mark.parametrize(
    ("length", "classes", "advice"),
    [
        (200, None, "For a binary classifier with one score, stack it as [zeros, score]."),
        (200, 2, "For a binary classifier with one score, stack it as [zeros, score]."),
        (3, 3, "For one row, pass logits[None]."),
        (200, 3, ""),
    ],
)
def test_a_vector_is_one_score_or_one_row(length, classes, advice):
    message = str(raised(check_logits, np.zeros(length), classes=classes))
    assert message.endswith(f"a column per class: got shape ({length},). {advice}".strip())


@pytest.mark.parametrize("names", [None, NAMES])
@pytest.mark.parametrize("in_table", [False, True])
def test_a_missing_label_is_called_so(names, in_table):
    message = "labels must be known in every row: got a missing one (NaN) in row 2. Leave"
    given = {"rows": 3, "classes": 3, "names": names, "in_table": in_table}
    assert message in str(raised(check_labels, [0.0, 1.0, np.nan], **given))
    if names:
        for missing in (None, np.nan):
            labels = np.array(["cat", "dog", missing], dtype=object)
            assert message in str(raised(check_labels, labels, **given))
