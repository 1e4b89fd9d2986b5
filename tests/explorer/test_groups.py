"""Columns of metadata: checked, stored, and how good the sets are in each group."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal.explorer import explore
from helpers.explorations import ALPHAS, HOSTILE, close, data, fitted


def test_each_group_has_its_means_over_all_inputs():
    z, labels, truth = data(90, 4)
    model = fitted(4)
    site = np.array(["north", "south", "east"])[np.arange(90) % 3]
    options = {"labels": labels, "truth": truth, "alphas": ALPHAS, "rows": 20}
    page = explore(model, z, groups={"site": site, "year": [2019, 2020.0] * 45}, **options)
    header, arrays = page.payload.header, page.payload.arrays
    assert [g["name"] for g in header["grouped"]] == ["site", "year", "label"]
    assert header["inputs"]["groups"][0]["values"] == ["east", "north", "south"]
    assert header["inputs"]["groups"][1]["values"] == ["2019", "2020"]
    shown = arrays["rows"]
    names = np.array(header["inputs"]["groups"][0]["values"])
    assert names[arrays["group/0"]].tolist() == site[shown].tolist()
    columns = {"site": site, "year": np.array(["2019", "2020"] * 45), "label": labels.astype(str)}
    for group, rows in zip(header["grouped"], header["models"][0]["groups"], strict=True):
        for value, found in zip(group["values"], rows, strict=True):
            inside = columns[group["name"]] == value
            assert found["inputs"] == inside.sum()
            for a, alpha in enumerate(ALPHAS):
                credal = model.predict(z[inside], alpha=alpha)
                kept = credal.decide("e_admissible")
                y = labels[inside]
                close(found["missed"][a], np.mean(~kept[np.arange(len(y)), y]))
                close(found["coverage"][a], decal.metrics.coverage(credal, truth[inside]))
                close(found["efficiency"][a], decal.metrics.efficiency(credal))
                close(found["size"][a], kept.sum(axis=1).mean())
                close(found["accuracy"][a], np.mean(credal.point.argmax(axis=1) == y))


def test_names_of_groups_may_be_anything_and_missing_values_are_said():
    groups = {HOSTILE[0]: [*HOSTILE[:3], None, float("nan"), 10]}
    page = explore(fitted(3), data(6, 3)[0], groups=groups)
    found = page.payload.header["inputs"]["groups"][0]
    assert found["name"] == HOSTILE[0]
    assert set(found["values"]) == {*HOSTILE[:3], "unknown", "10"}
    numbers = explore(fitted(3), data(4, 3)[0], groups={"n": [10, 9, 100, 9]}).payload
    assert numbers.header["inputs"]["groups"][0]["values"] == ["9", "10", "100"]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"site": ["a"] * 5}, r"groups\['site'\] must have 200 values, one for every input: got 5"),
        ({"id": range(200)}, r"groups\['id'\] must have at most 100 distinct values: got 200. Put"),
        (["a"] * 200, r"groups must map names to one value for every input: got list. Pass"),
    ],
)
def test_bad_groups_are_named(groups, message):
    with pytest.raises(ValueError, match=message):
        explore(fitted(3), data(200, 3)[0], groups=groups)
