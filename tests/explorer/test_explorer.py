"""The explorer without a browser: its numbers, its page, its server, its widget, its command."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html.parser
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from scipy.optimize import linprog

import decal
from decal.explorer import _page as page
from decal.explorer import _payload as payload
from decal.explorer import explore, explore_credal
from decal.explorer._server import PageServer, serve

ALPHAS = [1.0, 0.9, 0.3, 0.0]
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- {{payload}} {{title}} -->",
    "日本語 \u2028 \U0001f600 \ud800 \x00",
    "\"quoted\" & 'single' \\ \n\t",
    "__proto__",
]


def data(n, K, seed=0):
    """Logits, labels drawn from their softmax, and a truth near it."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((n, K))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    labels = np.argmax(p.cumsum(axis=1) > rng.random((n, 1)), axis=1)
    truth = 0.9 * p + 0.1 * rng.dirichlet(np.ones(K), n)
    return z, labels, truth


def fitted(K, seed=1, **settings):
    z, labels, _ = data(40 * K, K, seed)
    return decal.decalibrate(z, labels, **{"alpha": 0.9, "reference": "model"} | settings)


def decoded(data):
    """Header and arrays of a payload's bytes, by the letter of the format."""
    assert data[:8] == b"decal\x00\x00\x01"
    length = int.from_bytes(data[8:12], "little")
    assert (12 + length) % 8 == 0
    header = json.loads(data[12 : 12 + length].decode("utf-8"))
    body, arrays = data[12 + length :], {}
    for name, entry in header.pop("arrays").items():
        assert entry["offset"] % 8 == 0
        dtype = {"float32": "<f4", "int32": "<i4", "uint32": "<u4", "uint8": "u1"}[entry["dtype"]]
        count = int(np.prod(entry["shape"]))
        flat = np.frombuffer(body, dtype, count, entry["offset"])
        arrays[name] = flat.reshape(entry["shape"])
    return header, arrays


def close(found, expected):
    np.testing.assert_allclose(found, np.asarray(expected), rtol=0, atol=1e-6)


# Every number, against the credal set asked one input at a time


def check_numbers(result, sets, prefix="0/", labels=None, truth=None, rest=False):
    """All arrays of one model: `sets` has the credal sets of the shown inputs at every level."""
    header, arrays = decoded(result.payload.to_bytes())
    n, A, m = header["inputs"]["count"], len(header["alphas"]), header["slots"]
    slots = arrays["slots"]
    assert header["rest"] == rest
    mine = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
    seen = {"lower", "upper"}
    for a in range(A):
        for i in range(n):
            c = sets[a][i]
            close(mine["lower"][a, i], expected_ends(c, slots[i], rest)[0])
            close(mine["upper"][a, i], expected_ends(c, slots[i], rest)[1])
            for name in ("aleatoric", "epistemic", "total"):
                close(mine[name][a, i], getattr(c, name)(empty="nan")[0])
                seen.add(name)
            for rule in header["rules"]:
                key = rule["key"]
                action = c.decide(key, empty="nan")[0]
                if rule["kind"] == "set":
                    kept = {b for b in range(m) if action[slots[i, b]]}
                    bits = int(mine[f"kept/{key}"][a, i])
                    assert {b for b in range(32) if bits >> b & 1} == kept
                    assert mine[f"size/{key}"][a, i] == action.sum()
                    seen |= {f"kept/{key}", f"size/{key}"}
                else:
                    assert mine[f"takes/{key}"][a, i] == action
                    seen.add(f"takes/{key}")
            if labels is not None:
                kept = c.decide("e_admissible", empty="nan")[0]
                assert mine["hit"][a, i] == kept[labels[i]]
                seen.add("hit")
            if truth is not None:
                assert mine["covered"][a, i] == c.contains(truth[[i]])[0]
                seen.add("covered")
    point = sets[header["start"]].point
    if point is not None:
        close(mine["point"], [folded(p, s, rest) for p, s in zip(point, slots, strict=True)])
        assert mine["predicted"].tolist() == point.argmax(axis=1).tolist()
        seen |= {"point", "predicted"}
    if labels is not None:
        assert arrays["labels"].tolist() == list(labels)
    if truth is not None:
        close(arrays["truth"], [folded(p, s, rest) for p, s in zip(truth, slots, strict=True)])
    assert seen == set(mine)


def folded(p, slots, rest):
    others = [sum(p[k] for k in range(len(p)) if k not in slots)] if rest else []
    return [p[k] for k in slots] + others


def expected_ends(credal, slots, rest):
    """Least and greatest probability of each slot, an event, by linear programming or vertices."""
    K = credal.shape[1]
    events = [[k] for k in slots]
    if rest:
        events.append([k for k in range(K) if k not in slots])
    ends = [extremes(credal, np.isin(np.arange(K), event)) for event in events]
    return [e[0] for e in ends], [e[1] for e in ends]


def extremes(credal, event):
    if isinstance(credal, decal.HullCredalSet):
        masses = [v[event].sum() for v in credal.vertices[0]]
        return min(masses), max(masses)
    if credal.is_empty[0]:
        return np.nan, np.nan
    bounds = np.column_stack([credal.lower[0], credal.upper[0]])
    ends = []
    for sign in (1, -1):
        found = linprog(sign * event, A_eq=np.ones((1, len(event))), b_eq=[1], bounds=bounds)
        assert found.status == 0
        ends.append(sign * found.fun)
    return ends


def test_every_number_is_what_the_credal_set_says():
    z, labels, truth = data(7, 4)
    model = fitted(4, directions=("class", "temperature"))
    result = explore(model, z, labels=labels, truth=truth, alphas=ALPHAS)
    sets = [model.predict(z, alpha=alpha) for alpha in ALPHAS]
    check_numbers(result, sets, labels=labels, truth=truth)
    header = result.payload.header
    assert header["alphas"] == ALPHAS
    assert header["start"] == 1
    assert result.payload.arrays["slots"].tolist() == [[0, 1, 2, 3]] * 7
    assert result.payload.arrays["rows"].tolist() == list(range(7))


def test_classes_beyond_the_slots_are_folded_exactly():
    z, labels, truth = data(6, 7)
    model = fitted(7)
    result = explore(model, z, labels=labels, truth=truth, alphas=ALPHAS, slots=3)
    sets = [model.predict(z, alpha=alpha) for alpha in ALPHAS]
    check_numbers(result, sets, labels=labels, truth=truth, rest=True)
    upper = sets[1].upper
    for slots, ends in zip(result.payload.arrays["slots"], upper, strict=True):
        assert slots.tolist() == sorted(range(7), key=lambda k: -ends[k])[:3]


def test_many_classes_are_stored_in_24_slots():
    z, _, _ = data(5, 40)
    result = explore(fitted(40), z, alphas=[1.0, 0.5])
    assert result.payload.header["slots"] == 24
    assert result.payload.header["rest"]
    assert result.payload.arrays["0/lower"].shape == (2, 5, 25)
    assert decoded(result.payload.to_bytes())[1]["0/upper"].max() <= 1
    all_stored = explore(fitted(31), data(5, 31)[0], alphas=[1.0])
    assert all_stored.payload.header["slots"] == 31
    assert not all_stored.payload.header["rest"]
    # At alpha = 0 nothing is excluded: all 31 bits are set.
    wide = explore(fitted(31), data(5, 31)[0], alphas=[0.0])
    assert set(wide.payload.arrays["0/kept/e_admissible"].ravel()) == {2**31 - 1}


def test_results_do_not_depend_on_the_blocks(monkeypatch):
    z, labels, truth = data(50, 8)
    arguments = {"labels": labels, "truth": truth, "slots": 3, "rows": 20}
    whole = explore(fitted(8), z, **arguments)
    monkeypatch.setattr(payload, "BLOCK_ELEMENTS", 7 * 8)
    parts = explore(fitted(8), z, **arguments)
    for name, array in whole.payload.arrays.items():
        np.testing.assert_allclose(parts.payload.arrays[name], array, rtol=0, atol=1e-7)
    for name, curve in whole.payload.header["models"][0]["curve"].items():
        close(parts.payload.header["models"][0]["curve"][name], curve)


def test_curves_are_over_all_inputs():
    z, labels, truth = data(60, 4)
    model = fitted(4)
    curve = explore(model, z, labels=labels, truth=truth, alphas=ALPHAS, rows=5).payload.header[
        "models"
    ][0]["curve"]
    for a, alpha in enumerate(ALPHAS):
        credal = model.predict(z, alpha=alpha)
        kept = credal.decide("e_admissible")
        assert curve["efficiency"][a] == pytest.approx(decal.metrics.efficiency(credal))
        assert curve["coverage"][a] == pytest.approx(decal.metrics.coverage(credal, truth))
        assert curve["size"][a] == pytest.approx(np.mean([row.sum() for row in kept]))
        missed = np.mean([not row[y] for row, y in zip(kept, labels, strict=True)])
        assert curve["missed"][a] == pytest.approx(missed)
    without = explore(model, z).payload
    assert without.header["models"][0]["curve"]["coverage"] is None
    assert without.header["models"][0]["curve"]["missed"] is None
    assert not {"labels", "truth", "0/hit", "0/covered"} & set(without.arrays)


def test_two_models_stand_side_by_side():
    z, labels, _ = data(6, 5)
    other_z = data(6, 5, seed=9)[0]
    first = fitted(5)
    cal = data(200, 5, seed=3)
    second = decal.decalibrate(*cal[:2], alpha=0.5, classes="一二三四五")
    result = explore(
        first, z, labels=labels, alphas=ALPHAS, compare=(second, other_z, "Chinese"), slots=2
    )
    header, arrays = result.payload.header, result.payload.arrays
    assert [m["name"] for m in header["models"]] == ["Model A", "Chinese"]
    assert header["models"][0]["classes"] == list("01234")
    assert header["models"][1]["classes"] == list("一二三四五")
    assert ["alpha", "0.5"] in header["models"][1]["settings"]
    pairs = [(first, z), (second, other_z)]
    for i, (model, logits) in enumerate(pairs):
        sets = [model.predict(logits, alpha=alpha) for alpha in ALPHAS]
        check_numbers(result, sets, f"{i}/", labels=labels, rest=True)
    upper = np.max([m.predict(x, alpha=0.9).upper for m, x in pairs], axis=0)
    for slots, ends in zip(arrays["slots"], upper, strict=True):
        assert slots.tolist() == sorted(range(5), key=lambda k: -ends[k])[:2]


def test_a_second_model_must_fit():
    z, _, _ = data(6, 3)
    model = fitted(3, classes="abc")
    with pytest.raises(ValueError, match=r"compare's logits must have the shape of logits, \(6, 3"):
        explore(model, z, compare=(model, z[:4]))
    message = "classes in the same order: got 'c' where the first model has 'a', in column 0"
    with pytest.raises(ValueError, match=message):
        explore(model, z, compare=(fitted(3, classes="cba"), z))


def test_credal_sets_without_a_level_and_empty_ones():
    lower = [[0.1, 0.2, 0.3], [0.6, 0.6, 0.0], [0.0, 0.1, 0.1]]
    upper = [[0.5, 0.6, 0.7], [0.7, 0.7, 0.2], [0.2, 0.3, 0.4]]
    credal = decal.IntervalCredalSet(lower, upper, classes="abc")
    assert credal.is_empty.tolist() == [False, True, True]
    labels, truth = [0, 1, 2], np.array([[0.3, 0.3, 0.4]] * 3)
    result = credal.explore(labels=labels, truth=truth, title="Some sets")
    check_numbers(result, [credal], labels=labels, truth=truth)
    header, arrays = result.payload.header, result.payload.arrays
    assert header["alphas"] == [None]
    assert header["models"][0]["settings"] == []
    assert "point" not in [rule["key"] for rule in header["rules"]]
    assert np.isnan(arrays["0/total"][0, 1:]).all()
    assert np.isnan(arrays["0/lower"][0, 1:]).all()
    assert arrays["0/takes/hurwicz"][0, 1:].tolist() == [-1, -1]
    assert arrays["0/size/e_admissible"][0, 1:].tolist() == [0, 0]
    assert ["empty sets", "2 at first"] in header["models"][0]["summary"]
    assert repr(result).startswith("Exploration: Some sets, 3 inputs, 3 classes\n")
    only_empty = credal[1:].explore(slots=2)
    assert np.isnan(only_empty.payload.arrays["0/upper"]).all()


@pytest.mark.parametrize("slots", [None, 2])
def test_hulls_are_shown_as_hulls(slots):
    rng = np.random.default_rng(0)
    hull = decal.HullCredalSet(rng.dirichlet(np.ones(5), (6, 3)))
    truth = hull.point
    result = explore_credal(hull, truth=truth, slots=slots)
    check_numbers(result, [hull], truth=truth, rest=slots is not None)
    # A box's event bounds would be wider than the hull's own.
    assert "interval_dominance" in [rule["key"] for rule in result.payload.header["rules"]]


def test_any_predictor_will_do():
    class Halves:
        """Widens a softmax towards certainty of anything, the more so the smaller alpha."""

        def predict(self, logits, *, alpha=None):
            p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            return decal.HullCredalSet(
                np.stack([p, alpha * p + (1 - alpha) / p.shape[1]], axis=1), classes="xyz"
            )

    z = data(4, 3)[0]
    result = explore(Halves(), z)
    levels = result.payload.header["alphas"]
    assert levels[result.payload.header["start"]] == 0.8
    check_numbers(result, [Halves().predict(z, alpha=alpha) for alpha in levels])


# Levels, rows, settings


@pytest.mark.parametrize("likelihood", ["mean", "sum"])
def test_the_usual_levels_hold_those_of_the_paper_and_the_models_own(likelihood):
    model = fitted(3, alpha=0.123, likelihood=likelihood)
    header = explore(model, data(3, 3)[0]).payload.header
    levels = header["alphas"]
    assert 18 <= len(levels) <= 22
    assert levels == sorted(set(levels), reverse=True)
    assert {0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1, 0.123} <= set(levels)
    assert levels[header["start"]] == 0.123
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


def test_too_many_inputs_are_sampled_in_order(monkeypatch):
    z, labels, truth = data(300, 3)
    model = fitted(3)
    whole = explore(model, z, labels=labels, truth=truth, alphas=ALPHAS)
    size = sum(array.nbytes for array in whole.payload.arrays.values())
    monkeypatch.setattr(payload, "BYTE_BUDGET", size // 3)
    few = explore(model, z, labels=labels, truth=truth, alphas=ALPHAS)
    rows = few.payload.arrays["rows"]
    assert few.payload.header["inputs"]["count"] == len(rows) == 100
    assert few.payload.header["inputs"]["total"] == 300
    assert np.all(np.diff(rows) > 0)
    assert "100 of 300 inputs" in repr(few)
    for name in ("labels", "truth", "0/point"):
        np.testing.assert_array_equal(few.payload.arrays[name], whole.payload.arrays[name][rows])
    for name in ("0/lower", "0/kept/maximality", "0/total", "0/covered"):
        found, expected = few.payload.arrays[name], whole.payload.arrays[name][:, rows]
        np.testing.assert_array_equal(found, expected)
    again = explore(model, z, alphas=ALPHAS, labels=labels, truth=truth)
    np.testing.assert_array_equal(again.payload.arrays["rows"], rows)
    other = explore(model, z, alphas=ALPHAS, labels=labels, truth=truth, seed=1)
    assert set(other.payload.arrays["rows"]) != set(rows)
    with_texts = explore(model, z, alphas=ALPHAS, texts=["long " * 100] * 300)
    assert with_texts.payload.header["inputs"]["count"] < 100
    assert len(explore(model, z, rows=250).payload.arrays["rows"]) == 250
    chosen = explore(model, z, rows=[7, 3, 7], names=range(300)).payload
    assert chosen.arrays["rows"].tolist() == [3, 7]
    assert chosen.header["inputs"]["names"] == ["3", "7"]


def test_progress_is_told():
    seen = []
    explore(
        fitted(3),
        data(30, 3)[0],
        alphas=ALPHAS,
        progress=lambda done, all_: seen.append((done, all_)),
    )
    assert seen[-1] == (30 * 4, 30 * 4)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": [0, 1]}, "labels must be a vector with one label per row of logits, 6 in all"),
        ({"truth": np.ones((6, 3))}, "truth must sum to 1 in every row: got 3 in row 0"),
        ({"texts": ["a"]}, "texts must be 6, one for every input: got 1"),
        ({"texts": "abcdef"}, "texts must be a list, one for every input: got one text"),
        ({"texts": ["a"] * 5 + [3]}, "texts must be text, or pairs of text: got 3 at index 5"),
        ({"alphas": [0.5, 2]}, "alphas must lie between 0 and 1: got 2.0 at index 1"),
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


# Texts and pictures


def pictures(result):
    """The pictures of a payload, decoded."""
    from PIL import Image

    for address in result.payload.header["inputs"]["images"]:
        kind, _, text = address.partition(";base64,")
        assert kind == "data:image/png"
        with Image.open(io.BytesIO(base64.b64decode(text))) as picture:
            assert not picture.getexif()
            yield np.asarray(picture)


def test_pairs_of_texts_are_two_lines():
    z, model = data(3, 3)[0], fitted(3)
    texts = [("A man sleeps.", "He is awake."), "one", ["a", "b"]]
    shown = explore(model, z, texts=texts).payload.header["inputs"]["texts"]
    assert shown == ["A man sleeps.\nHe is awake.", "one", "a\nb"]
    table = np.array([["a", "b"], ["c", "d"], ["e", "f"]])
    shown = explore(model, z, texts=table, names=table[:, 0]).payload.header["inputs"]
    assert (shown["texts"], shown["names"]) == (["a\nb", "c\nd", "e\nf"], ["a", "c", "e"])


@pytest.mark.parametrize("shape", [(8, 8), (5, 7, 3), (4, 4, 4)])
def test_small_pictures_are_kept_as_they_are(shape):
    pytest.importorskip("PIL", reason="needs decal[explore]")
    pixels = np.random.default_rng(0).integers(0, 256, (3, *shape), dtype=np.uint8)
    for images in (pixels, pixels / 255, pixels.astype(np.int64)):
        found = list(pictures(explore(fitted(3), data(3, 3)[0], images=images, rows=[0, 2])))
        np.testing.assert_array_equal(found, pixels[[0, 2]])


def test_large_pictures_become_thumbnails():
    Image = pytest.importorskip("PIL.Image", reason="needs decal[explore]")
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    images = [Image.new("RGB", (400, 200), colour) for colour in colours]
    found = list(pictures(explore(fitted(3), data(3, 3)[0], images=images)))
    assert [picture.shape for picture in found] == [(48, 96, 3)] * 3
    assert [tuple(picture[20, 50]) for picture in found] == colours
    assert images[0].size == (400, 200)


def test_pictures_come_from_files_named_by_row_or_listed(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="needs decal[explore]")
    for row, grey in enumerate((10, 20, 30)):
        Image.new("L", (6, 6), grey).save(tmp_path / f"{row:03}.{'png' if row else 'bmp'}")
    z, model = data(3, 3)[0], fitted(3)
    paths = sorted(tmp_path.iterdir())
    for images in (tmp_path, paths, [str(path) for path in paths]):
        found = pictures(explore(model, z, images=images))
        assert [int(picture[0, 0]) for picture in found] == [10, 20, 30]
    (tmp_path / "002.png").write_bytes(b"not a picture")
    with pytest.raises(ValueError, match=r"images must be pictures: got .*002.png for row 2"):
        explore(model, z, images=tmp_path)
    (tmp_path / "002.png").unlink()
    with pytest.raises(ValueError, match=r"for every row, 0 to 2: got none for row 2 in .* 2.png"):
        explore(model, z, images=tmp_path)
    (tmp_path / "1.png").touch()
    with pytest.raises(ValueError, match=r"one file for every row: got 001.png and 1.png"):
        explore(model, z, images=tmp_path)


def test_modes_that_a_png_lacks_are_converted_and_pictures_turned_upright(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="needs decal[explore]")
    Image.new("CMYK", (4, 4), (0, 255, 255, 0)).save(tmp_path / "0.jpg")
    turned = Image.new("RGB", (8, 4))
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "1.jpg", exif=exif)
    see_through = Image.new("P", (4, 4))
    see_through.save(tmp_path / "2.png", transparency=0)
    found = list(pictures(explore(fitted(3), data(3, 3)[0], images=tmp_path)))
    assert [picture.shape for picture in found] == [(4, 4, 3), (8, 4, 3), (4, 4, 4)]


# The page


class Elements(html.parser.HTMLParser):
    """The text of every script, style and title, and the attributes of every tag."""

    def __init__(self):
        super().__init__()
        self.texts, self.tags, self.open = [], [], None

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open = tag

    def handle_endtag(self, _tag):
        self.open = None

    def handle_data(self, data):
        if self.open in ("script", "style", "title"):
            self.texts.append((self.tags[-1], data))


@pytest.fixture(scope="module")
def hostile():
    z, labels, _ = data(5, 5)
    return explore(
        fitted(5, classes=HOSTILE),
        z,
        labels=labels,
        texts=HOSTILE,
        names=HOSTILE,
        name=HOSTILE[0],
        title=HOSTILE[0] + HOSTILE[1],
        alphas=[1.0, 0.9],
    )


def test_a_page_holds_the_payload_and_nothing_breaks_out_of_it(hostile, tmp_path):
    hostile.save(tmp_path / "page.html")
    found = Elements()
    found.feed((tmp_path / "page.html").read_text(encoding="utf-8"))
    tags = [tag for tag, _ in found.tags]
    assert (tags.count("script"), tags.count("style"), tags.count("title")) == (2, 1, 1)
    texts = {attributes.get("id", tag): text for (tag, attributes), text in found.texts}
    assert texts["title"] == HOSTILE[0] + HOSTILE[1]
    bytes_ = gzip.decompress(base64.b64decode(texts["payload"], validate=True))
    assert bytes_ == hostile.payload.to_bytes()
    header, _ = decoded(bytes_)
    assert header["inputs"]["texts"] == header["inputs"]["names"] == HOSTILE
    assert header["models"][0]["classes"] == HOSTILE
    assert header["title"] == HOSTILE[0] + HOSTILE[1]


def test_the_policy_allows_this_script_and_this_style_and_no_connection(hostile):
    found = Elements()
    found.feed(hostile.html())
    policies = [a["content"] for tag, a in found.tags if tag == "meta" and "http-equiv" in a]
    assert len(policies) == 1
    rules = dict(rule.split(" ", 1) for rule in policies[0].split("; "))
    for (tag, attributes), text in found.texts:
        if attributes.get("type") == "module" or tag == "style":
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["connect-src"] == "'none'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data: blob:"
    addresses = [a for _, a in found.tags if {"src", "href", "style", "onload"} & set(a)]
    assert addresses == []


def test_the_same_numbers_give_the_same_page():
    z = data(5, 3)[0]
    first, second = (explore(fitted(3), z, title="Same") for _ in range(2))
    assert first.html() == second.html()
    assert first.compressed[4:8] == bytes(4)  # where gzip would put the time


def test_modules_are_bundled_in_the_order_of_their_imports(monkeypatch):
    sources = {
        "main.js": 'import { b } from "./b.js";\nimport { a, c } from "./a.js";\n'
        "export function mount() { return a + b; }\nexport async function inflate() {}\n",
        "b.js": 'import { a } from "./a.js";\nexport const b = a + 1;\nexport class C {}\n',
        "a.js": "const text = 'export default';\nexport const a = 1;\nexport const c = 2;\n",
    }
    monkeypatch.setattr(page, "read_static", sources.__getitem__)
    bundle = page.bundle("main.js")
    assert re.findall(r"^// (\w+\.js)", bundle, re.MULTILINE) == ["a.js", "b.js", "main.js"]
    assert bundle.count("const a = 1;") == 1
    assert not re.search(r"^(import|export)\b", bundle, re.MULTILINE)
    assert "async function inflate() {}" in bundle
    assert "'export default'" in bundle
    for wrong in ('import x from "./a.js";\n', "export default 3;\n", "export { a };\n"):
        monkeypatch.setitem(sources, "a.js", wrong)
        with pytest.raises(ValueError, match=r"a.js must keep to the form that page.py bundles"):
            page.bundle("main.js")
    monkeypatch.setitem(sources, "a.js", 'import { b } from "./b.js";\n')
    with pytest.raises(ValueError, match="must not import in circles"):
        page.bundle("main.js")


def test_no_module_is_forgotten():
    folder = page.files("decal.explorer").joinpath("static")
    modules = {path.name for path in folder.iterdir() if path.name.endswith(".js")}
    assert set(re.findall(r"^// ([\w-]+\.js)$", page.bundle("main.js"), re.MULTILINE)) == modules


# The server


@contextmanager
def running(text):
    with PageServer(text) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def test_the_server_serves_one_page_to_this_machine():
    with running("<p>äöü</p>") as server:
        assert server.server_address[0] == "127.0.0.1"
        for path in ("/", "/?a=1"):
            answer, text = ask(server, path)
            assert (answer.status, text) == (200, "<p>äöü</p>")
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert ask(server, "/", "HEAD")[1] == ""
        assert ask(server, "/../etc/passwd")[0].status == 404
        assert ask(server, "/page.html")[0].status == 404
        assert ask(server, "/", "POST")[0].status == 501


def test_the_server_refuses_names_that_others_let_point_here():
    with running("secret") as server:
        port = server.server_port
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", "LOCALHOST:8888", "localhost"):
            assert ask(server, Host=host)[0].status == 200
        for host in ("evil.example", f"evil.example:{port}", "", f"127.0.0.1.evil:{port}"):
            answer, text = ask(server, Host=host)
            assert answer.status == 403
            assert "secret" not in text
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b"403" in raw.recv(100)


def test_a_port_in_use_is_named():
    with running("") as server:
        taken = server.server_port
        with pytest.raises(ValueError, match=rf"port must be free, 0 to 65535: got {taken}"):
            serve("", port=taken)
    with pytest.raises(ValueError, match="port must be free, 0 to 65535: got 70000"):
        serve("", port=70000)


# The widget


def test_the_widget_holds_the_same_payload_and_the_same_script(hostile):
    pytest.importorskip("anywidget", reason="needs decal[explore]")
    widget = hostile.widget()
    assert gzip.decompress(widget.payload) == hostile.payload.to_bytes()
    script = str(widget._esm)
    assert page.bundle("main.js") in script
    assert script.rstrip().endswith("};")
    assert "export default {" in script
    assert str(widget._css) == page.style()
    assert "payload" in widget.get_state()
    shown = hostile._repr_mimebundle_()
    bundle = shown[0] if isinstance(shown, tuple) else shown
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_without_anywidget_a_notebook_says_what_to_install(hostile, monkeypatch):
    monkeypatch.delitem(sys.modules, "decal.explorer._widget", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ImportError, match=r"needs anywidget: pip install 'decal\[explore\]'"):
        hostile.widget()
    assert "pip install 'decal[explore]'" in hostile._repr_mimebundle_()["text/plain"]


def test_without_pillow_pictures_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"images need Pillow: pip install 'decal\[explore\]'"):
        explore(fitted(3), data(3, 3)[0], images=np.ones((3, 8, 8)))


def test_methods_are_the_functions():
    z, model = data(5, 3)[0], fitted(3)
    assert model.explore(z, title="T").html() == explore(model, z, title="T").html()
    credal = model.predict(z)
    assert credal.explore(rows=2).html() == explore_credal(credal, rows=2).html()


# The command


@pytest.fixture
def files_at_hand(tmp_path, monkeypatch):
    """The current folder: model.npz, other.npz, logits.npz with labels, classes and truth."""
    pytest.importorskip("typer", reason="needs decal[cli]")
    pytest.importorskip("pyarrow", reason="needs decal[cli]")
    monkeypatch.chdir(tmp_path)
    z, labels, truth = data(20, 3)
    np.savez("logits.npz", logits=z, labels=labels, classes=list("abc"), truth=truth)
    fitted(3, classes="abc").save("model.npz")
    fitted(3, seed=5, classes="xyz").save("other.npz")
    return tmp_path


def run(*arguments):
    from typer.testing import CliRunner

    from decal._cli import app

    return CliRunner().invoke(app, ["explore", *(str(a) for a in arguments)])


def export(*arguments):
    """The header and arrays of the page that the command writes."""
    result = run(*arguments, "--export", "page.html", "--force")
    assert result.exit_code == 0, result.output
    assert re.match(r"Wrote page.html, \d+\.\d MB: Exploration: ", result.stderr)
    with open("page.html", encoding="utf-8") as file:
        text = re.search(r'id="payload">([^<]*)<', file.read())[1]
    return decoded(gzip.decompress(base64.b64decode(text)))


def fail(*arguments):
    before = sorted(os.listdir())
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert sorted(os.listdir()) == before
    return result.stderr


@pytest.mark.usefixtures("files_at_hand")
def test_the_command_exports_what_the_function_makes():
    header, arrays = export("model.npz", "logits.npz", "--alphas", "1,0.9,0", "--rows", 7)
    with np.load("logits.npz") as at_hand:
        expected = explore(
            decal.Decalibrator.load("model.npz"),
            at_hand["logits"],
            labels=at_hand["labels"],
            truth=at_hand["truth"],
            alphas=[1, 0.9, 0],
            rows=7,
            name="model",
            title="logits",
        )
    assert header == expected.payload.header
    for name, array in expected.payload.arrays.items():
        np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.usefixtures("files_at_hand")
def test_the_command_compares_and_names():
    np.savez("zh.npz", logits=np.zeros((20, 3)))
    names = ("--name", "English", "--compare-name", "Chinese", "--title", "Both")
    second = ("--compare", "other.npz", "--compare-logits", "zh.npz")
    header, arrays = export("model.npz", "logits.npz", *second, *names)
    assert [m["name"] for m in header["models"]] == ["English", "Chinese"]
    assert [m["classes"] for m in header["models"]] == [list("abc"), list("xyz")]
    assert header["title"] == "Both"
    assert np.ptp(arrays["1/point"]) < 1e-7
    # Without logits of its own the second model gets the same; columns then go by position.
    np.save("logits.npy", np.load("logits.npz")["logits"])
    header, arrays = export("model.npz", "logits.npy", "--compare", "other.npz")
    assert [m["name"] for m in header["models"]] == ["model", "other"]
    np.testing.assert_array_equal(arrays["0/point"], arrays["1/point"])


@pytest.mark.usefixtures("files_at_hand")
def test_the_command_reads_texts_and_names_in_many_formats():
    from pathlib import Path

    from decal._io import writers

    lines = [f"text {i}, \u2028 ü" for i in range(20)]
    pairs = [f"{line}\nb" for line in lines]
    with open("t.txt", "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    with open("t.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"a": line, "b": "b"}) + "\n" for line in lines)
    with open("pairs.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps([line, "b"]) + "\n" for line in lines)
    np.savez("t.npz", text=lines, b=["b"] * 20)
    np.save("t.npy", lines)
    writers.write_columns(Path("t.csv"), {"text": lines, "b": ["b"] * 20})
    writers.write_columns(Path("t.parquet"), {"name": lines, "b": ["b"] * 20})
    for path, key, expected in [
        ("t.txt", None, lines),
        ("t.jsonl", "a", lines),
        ("t.jsonl", "a,b", pairs),
        ("pairs.jsonl", None, pairs),
        ("t.npz", None, lines),
        ("t.npz", "text,b", pairs),
        ("t.npy", None, lines),
        ("t.csv", None, lines),
        ("t.csv", "text,b", pairs),
        ("t.parquet", "name", lines),
    ]:
        chosen = () if key is None else ("--texts-key", key)
        header, _ = export("model.npz", "logits.npz", "--texts", path, *chosen)
        assert header["inputs"]["texts"] == expected
    header, _ = export("model.npz", "logits.npz", "--names", "t.parquet")
    assert header["inputs"]["names"] == lines
    message = fail("model.npz", "logits.npz", "--texts", "t.jsonl")
    assert "texts must be found in t.jsonl: got no usual name among a, b. Choose with" in message
    message = fail("model.npz", "logits.npz", "--texts", "t.csv", "--texts-key", "c")
    assert "texts must be found in t.csv: got no c among text, b." in message
    (Path("bad.jsonl")).write_text('"a"\n{\n')
    message = fail("model.npz", "logits.npz", "--texts", "bad.jsonl")
    assert "texts must be JSON in every line: got line 2 of bad.jsonl" in message
    (Path("latin.txt")).write_bytes("é\n".encode("latin-1"))
    message = fail("model.npz", "logits.npz", "--texts", "latin.txt")
    assert "texts must be in UTF-8: got latin.txt" in message


def test_the_command_reads_pictures(files_at_hand):
    Image = pytest.importorskip("PIL.Image", reason="needs decal[explore]")
    pixels = np.arange(20, dtype=np.uint8)[:, None, None] * np.ones((20, 4, 4), dtype=np.uint8)
    folder = files_at_hand / "pictures"
    folder.mkdir()
    for row in range(20):
        Image.fromarray(pixels[row]).save(folder / f"{row}.png")
    np.save("pixels.npy", pixels)
    np.savez("pixels.npz", images=pixels, other=np.zeros(3))
    (files_at_hand / "list.txt").write_text("".join(f"pictures/{row}.png\n" for row in range(20)))
    found = {
        str(export("model.npz", "logits.npz", "--images", images)[0]["inputs"]["images"])
        for images in ("pictures", "pixels.npy", "pixels.npz", "list.txt")
    }
    assert len(found) == 1
    message = fail("model.npz", "logits.npz", "--images", "logits.npz", "--images-key", "z")
    assert "images must be found in logits.npz: got no z among" in message
    assert "images must be a folder, or end in" in fail(
        "model.npz", "logits.npz", "--images", "page.html"
    )


def test_bad_input_of_the_command_ends_in_one_line(files_at_hand):
    (files_at_hand / "broken.npz").write_bytes((files_at_hand / "model.npz").read_bytes()[:500])
    (files_at_hand / "old.html").touch()
    for arguments, message in [
        (["broken.npz", "logits.npz"], "path must be a file that `save` wrote: got"),
        (["logits.npz", "logits.npz"], "path must be a file that `save` wrote: got"),
        (["model.npz", "logits.npz", "--alphas", "1,x"], "alpha must be numbers from 0 to 1"),
        (["model.npz", "logits.npz", "--export", "page.txt"], "output must end in .html: got"),
        (["model.npz", "logits.npz", "--export", "old.html"], "Overwrite it with --force."),
        (["model.npz", "logits.npz", "--compare-name", "x"], "compare must be given with"),
        (["model.npz", "logits.npz", "--truth-key", "x"], "truth must be found in logits.npz"),
        (
            ["model.npz", "logits.npz", "--compare", "other.npz"],
            "logits must have one column for every class: got no column 'x'",
        ),
    ]:
        assert message in fail(*arguments)
    assert (files_at_hand / "old.html").read_bytes() == b""


@pytest.mark.usefixtures("files_at_hand")
def test_the_command_serves_until_interrupted():
    command = [sys.executable, "-m", "decal.__main__", "explore", "model.npz", "logits.npz"]
    with subprocess.Popen(
        [*command, "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever started the tests in the background had shells ignore the signal for all below.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            line = process.stdout.readline()
            port = int(re.search(r"The explorer is at http://127\.0\.0\.1:(\d+)/ ", line)[1])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/")
            assert "<title>logits</title>" in connection.getresponse().read().decode()
            connection.close()
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out, errors) == (0, "Stopped.\n", "")


@pytest.mark.usefixtures("files_at_hand")
def test_the_command_has_help():
    result = run("--help")
    assert result.exit_code == 0
    assert "--compare-logits" in result.stdout
