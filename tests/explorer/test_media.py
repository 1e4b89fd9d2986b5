"""Names, texts, pictures and groups of the inputs."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

import decal
from decal.explorer import explore
from helpers.explorations import ALPHAS, HOSTILE, close, data, fitted


def pictures(result):
    """The pictures of a payload, cut out of its sheets."""
    from PIL import Image

    images, arrays = result.payload.header["inputs"]["images"], result.payload.arrays
    for at, (width, height) in enumerate(arrays["picture_sizes"].tolist()):
        sheet, place = divmod(at, images["per"])
        line, column = divmod(place, images["columns"])
        x, y = column * images["cells"][sheet][0], line * images["cells"][sheet][1]
        with Image.open(io.BytesIO(arrays[f"sheet/{sheet}"].tobytes())) as opened:
            assert opened.format == images["kind"].removeprefix("image/").upper()
            assert not opened.getexif()
            yield np.asarray(opened.crop((x, y, x + width, y + height)))


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
        expected = pixels[[0, 2]] if len(shape) == 3 else np.repeat(pixels[[0, 2], ..., None], 3, 3)
        np.testing.assert_array_equal(found, expected)


def test_many_pictures_stand_on_several_sheets_and_large_sheets_lose_a_little(monkeypatch):
    pytest.importorskip("PIL", reason="needs decal[explore]")
    from decal.explorer import _media

    across = np.linspace(0, 1, 12)[:, None, None]  # smooth, as photographs are
    pixels = np.random.default_rng(0).uniform(0, 120, (600, 1, 1, 3)) + 100 * across[None]
    pixels = np.repeat(pixels, 12, axis=2).astype(np.uint8)
    options = {"images": pixels, "alphas": [1, 0.9]}
    exact = explore(fitted(3), data(600, 3)[0], **options)
    assert len(exact.payload.header["inputs"]["images"]["cells"]) == 3
    np.testing.assert_array_equal(list(pictures(exact))[::37], pixels[::37])
    monkeypatch.setattr(_media, "LOSSLESS_BYTES", 1000)
    lossy = list(pictures(explore(fitted(3), data(600, 3)[0], **options)))[::37]
    error = np.abs(np.asarray(lossy, dtype=float) - pixels[::37])
    assert 0 < error.mean() < 12


def test_without_webp_sheets_are_png(monkeypatch):
    features = pytest.importorskip("PIL.features", reason="needs decal[explore]")
    monkeypatch.setattr(features, "check", lambda feature: feature != "webp")
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 5), dtype=np.uint8)
    found = explore(fitted(3), data(3, 3)[0], images=pixels)
    assert found.payload.header["inputs"]["images"]["kind"] == "image/png"
    np.testing.assert_array_equal(list(pictures(found)), pixels)


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
        assert [int(picture[0, 0, 0]) for picture in found] == [10, 20, 30]
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
    assert [picture.shape for picture in found] == [(4, 4, 4), (8, 4, 4), (4, 4, 4)]
    assert [int(picture[0, 0, 3]) for picture in found] == [255, 255, 0]


def test_without_pillow_pictures_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"images need Pillow: pip install 'decal\[explore\]'"):
        explore(fitted(3), data(3, 3)[0], images=np.ones((3, 8, 8)))


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
