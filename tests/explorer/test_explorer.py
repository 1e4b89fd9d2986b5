"""Explorations: levels, settings, bad input, class frequencies, and what makes them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import decal
from decal.explorer import explore, explore_credal, explore_shift
from decal.shift import p_text
from helpers.explorations import close, data, decoded, fitted


@pytest.mark.parametrize("likelihood", ["mean", "sum"])
def test_the_usual_levels_hold_those_of_the_paper_and_the_models_own(likelihood):
    model = fitted(3, alpha=0.123, likelihood=likelihood)
    header = explore(model, data(3, 3)[0]).payload.header
    levels = header["alphas"]
    assert 18 <= len(levels) <= 22
    assert levels == sorted(set(levels), reverse=True)
    assert {0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1, 0.123} <= set(levels)
    assert levels[header["own"]] == 0.123
    assert (sum(0 < level < 1e-3 for level in levels) > 5) == (likelihood == "sum")


def test_settings_and_summary_are_text():
    z, labels, _ = data(50, 3)
    model = fitted(3, directions=("class", "temperature"))
    shown = explore(model, z, labels=labels).payload.header["models"][0]
    accuracy = np.mean(np.argmax(z, axis=1) == labels)
    assert dict(shown["settings"])["examples"] == "120"
    assert dict(shown["settings"])["directions"] == "class, temperature"
    assert dict(shown["summary"])["accuracy"] == f"{100 * accuracy:.1f} %"
    assert dict(shown["summary"])["inputs"] == "50"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": [0, 1]}, "labels must be a vector with one label per row of logits, 6 in all"),
        ({"truth": np.ones((6, 3))}, "truth must sum to 1 in every row: got 3 in row 0"),
        ({"texts": ["a"]}, "texts must be 6, one for every input: got 1"),
        ({"texts": "abcdef"}, "texts must be a list, one for every input: got one text"),
        ({"texts": ["a"] * 5 + [3]}, "texts must be text, or pairs of text: got 3 at index 5"),
        ({"alphas": [0.5, 2]}, "alphas must lie between 0 and 1: got 2.0 at index 1"),
        ({"start": 1.5}, "start must lie between 0 and 1: got 1.5"),
        ({"rows": 0}, "rows must be a whole number, at least 1: got 0"),
        ({"rows": [6]}, "rows must lie in 0 to 5: got 6 at index 0"),
        ({"rows": [0.5]}, "rows must be a number of inputs or a list of row numbers"),
        ({"slots": 32}, "slots must be at most 31: got 32"),
        ({"images": np.ones((5, 8, 8))}, "images must be 6, one for every input: got 5"),
        ({"images": np.ones((6, 8))}, r"images must be \(n, height, width\), or with 3 or 4"),
        ({"images": np.ones((6, 3, 8, 8))}, "Move the axis of colours there"),
        ({"images": 16 * np.ones((6, 8, 8))}, "floats from 0 to 1: got 16 in row 0, dtype float64"),
        ({"images": ["no.png"] * 6}, "images must exist: got no.png for row 0"),
        ({"images": "nowhere"}, "images must be a folder, .*: got nowhere, which is no folder"),
    ],
)
def test_bad_input_is_named(options, message):
    pytest.importorskip("PIL", reason="needs decal[explore]")
    with pytest.raises(ValueError, match=message):
        explore(fitted(3), data(6, 3)[0], **options)


def test_methods_are_the_functions():
    z, model = data(5, 3)[0], fitted(3)
    assert model.explore(z, title="T").html() == explore(model, z, title="T").html()
    credal = model.predict(z)
    assert credal.explore(rows=2).html() == explore_credal(credal, rows=2).html()


def called(page):
    return page.payload.header["inputs"]["names"]


def test_inputs_are_called_by_the_index_of_their_frame():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    model = fitted(3, classes="abc")
    frame = pd.DataFrame(data(3, 3)[0], columns=list("abc"), index=["pat-7", "pat-3", "pat-9"])
    assert called(model.explore(frame)) == ["pat-7", "pat-3", "pat-9"]
    assert called(model.predict(frame).explore(rows=[0, 2])) == ["pat-7", "pat-9"]
    assert called(model.explore(frame, names=["x", "y", "z"])) == ["x", "y", "z"]
    assert called(model.explore(frame.reset_index(drop=True))) is None
    kept = frame.assign(site=["A", "B", "A"]).set_index("site", append=True)
    assert called(model.explore(kept)) == ["pat-7/A", "pat-3/B", "pat-9/A"]


def test_inputs_are_called_by_ids_as_in_predict():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    z, labels, _ = data(40, 3)
    model = fitted(3, classes="abc")
    frame = pd.DataFrame(z[:3], columns=list("abc")).assign(patient=[7, 3, 9], site=list("ABA"))
    page = model.explore(frame, ids=["patient", "site"], compare=(model, frame))
    assert called(page) == ["7/A", "3/B", "9/A"]
    assert called(model.explore(z[:3], ids=["p", "q", "r"])) == ["p", "q", "r"]
    shift = decal.LabelShift().fit(z, labels, classes="abc").observe(z)
    assert called(shift.explore(frame.drop(columns="site"), ids="patient")) == ["7", "3", "9"]


def test_the_page_holds_frequencies_and_what_was_predicted_before():
    z, labels, _ = data(300, 4)
    shift = decal.LabelShift().fit(z, labels, classes="abcd").observe(z[labels != 0])
    page = shift.explore(z[:30], labels=labels[:30], rows=12, slots=2, title="Clinic")
    header, arrays = decoded(page.payload.to_bytes())
    found, test = shift.frequencies, shift.test()
    said = header["frequencies"]
    for name in ("before", "estimate", "lower", "upper"):
        close(said[name], getattr(found, name))
    assert said["p_values"] == [p_text(p, 2) for p in test.p_values]
    assert (said["p_value"], said["changed"]) == (p_text(test.p_value), True)
    assert (said["order"], said["inputs"]) == (found.most_changed, len(z[labels != 0]))
    assert dict(header["models"][0]["settings"])["labels"] == "300"
    rows, slots = arrays["rows"], arrays["slots"]
    calibrated = shift.calibrated
    before = calibrated.odds(z[rows]) * calibrated.frequencies
    before /= before.sum(axis=1, keepdims=True)
    close(arrays["before"][:, :2], np.take_along_axis(before, slots, axis=1))
    close(arrays["before"].sum(axis=1), 1)
    close(arrays["0/point"][:, :2], np.take_along_axis(shift.point(z[rows]), slots, axis=1))


def test_many_classes_have_no_p_values_and_nothing_observed_is_an_error():
    z, labels, _ = data(2000, 30)
    shift = decal.LabelShift(region="own").fit(z, labels)
    with pytest.raises(decal.NotFittedError, match="observed unlabelled inputs"):
        explore_shift(shift, z)
    header = explore_shift(shift.observe(z[:200]), z[:5]).payload.header
    assert header["frequencies"]["p_values"] == [None] * 30
    json.dumps(header, allow_nan=False)
