"""What a page about adapted sets says of class frequencies, and of predictions before."""

from __future__ import annotations

import json

import numpy as np
import pytest

import decal
from decal.explorer import explore_shift
from decal.shift import p_text
from helpers.explorations import close, data, decoded


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
    calibrated = shift._known.calibrated
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
