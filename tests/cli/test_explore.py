"""decal explore: the command exports and serves what the function makes."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import decal
from decal.explorer import explore
from decal.io.writers import write_columns
from helpers.explorations import data, decoded, fitted


@pytest.fixture
def files_available(tmp_path, monkeypatch):
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

    from decal.cli import app

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


@pytest.mark.usefixtures("files_available")
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


@pytest.mark.usefixtures("files_available")
def test_the_page_shows_what_the_model_promises():
    z, labels, _ = data(300, 3)
    model = decal.decalibrate(z, labels, miss=0.2, order=True, classes="abc")
    model.save("promised.npz")
    header, arrays = export("promised.npz", "logits.npz")
    assert header["promise"]["text"] == str(model.promise)
    with np.load("logits.npz") as at_hand:
        kept = model.predict(at_hand["logits"]).possible_mask()
    sizes = arrays["0/size/possible"][header["own"]]
    np.testing.assert_array_equal(sizes, kept.sum(axis=1))


@pytest.mark.usefixtures("files_available")
def test_pixels_and_tokens_of_files_are_shown_as_in_python():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(5, 3, 6, 4)).astype(np.float32)
    y = np.where(rng.random((5, 6, 4)) < 0.2, 255, z.argmax(axis=1))
    pictures = rng.random((5, 6, 4))
    for name, array in {"z": z, "y": y, "pictures": pictures, "tokens": z[:, :, :, 0]}.items():
        np.save(f"{name}.npy", array)
    model = decal.decalibrate(
        z, y, miss=0.3, unit="image", dim=1, ignore_index=255, classes=list("abc")
    )
    model.save("maps.npz")
    dense = ("--dim", 1, "--ignore-index", 255, "--labels", "y.npy")
    header, arrays = export("maps.npz", "z.npy", *dense, "--images", "pictures.npy")
    page = model.explore(z, dim=1, labels=y, ignore_index=255, images=pictures, title="z")
    assert header == page.payload.header
    for name, values in page.payload.arrays.items():
        np.testing.assert_array_equal(arrays[name], values)
    sentences = [" ".join("abcdef"[: k + 2]) for k in range(5)]
    Path("sentences.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    header, _ = export("maps.npz", "tokens.npy", "--dim", 1, "--texts", "sentences.txt")
    words = [sentence.split() for sentence in sentences]
    expected = model.explore(z[:, :, :, 0], dim=1, tokens=words, title="tokens")
    assert header == expected.payload.header
    out = ("-o", "x.html")
    assert "ignore-index must go with --dim" in fail(
        "maps.npz", "z.npy", "--ignore-index", 255, *out
    )
    assert "alphas must be left out with --dim" in fail(
        "maps.npz", "z.npy", "--dim", 1, "--alphas", "0.5,1", *out
    )


@pytest.mark.usefixtures("files_available")
def test_the_command_takes_no_index_of_a_table_for_a_class():
    from pathlib import Path

    from decal.io import writers

    z, labels, _ = data(20, 3)
    fitted(3).save("unnamed.npz")
    classes = {name: z[:, k] for k, name in enumerate("abc")}
    writers.write_columns(Path("x.csv"), {"": np.arange(20)} | classes | {"label": labels})
    expected = export("unnamed.npz", "logits.npz")[1]["0/point"]
    assert "got a column without a name in x.csv" in fail("unnamed.npz", "x.csv")
    for choice in (["--columns", "a,b,c"], ["--ignore", "Unnamed: 0"]):
        found = export("unnamed.npz", "x.csv", *choice)[1]["0/point"]
        np.testing.assert_allclose(found, expected, atol=1e-6)
    found = export("model.npz", "x.csv", "--columns", "c,a,b", "--compare", "model.npz")[1]
    np.testing.assert_allclose(found["0/point"], found["1/point"], atol=1e-6)


@pytest.mark.usefixtures("files_available")
def test_what_decal_shift_saved_is_explored_with_its_frequencies():
    z, labels, _ = data(300, 3, seed=2)
    shift = decal.LabelShift(probabilities=True)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    shift.fit(p, labels, classes="abc").observe(p[:90]).save("clinic.npz")
    np.savez("probabilities.npz", probabilities=p[:20], labels=labels[:20])
    header, arrays = export("clinic.npz", "probabilities.npz", "--rows", "15")
    assert header["frequencies"]["upper"] == pytest.approx(shift.frequencies.upper)
    assert header["models"][0]["name"] == "clinic"
    sets = shift.predict(p[:20])[arrays["rows"]]
    assert arrays["0/upper"][0] == pytest.approx(sets.tighten().upper, abs=1e-5)
    for options in (["--alphas", "1,0.5"], ["--start", "0.5"], ["--compare", "other.npz"]):
        assert "decal shift, whose sets have one level" in fail(
            "clinic.npz", "probabilities.npz", *options
        )


@pytest.mark.usefixtures("files_available")
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


@pytest.mark.usefixtures("files_available")
def test_the_command_calls_inputs_by_their_ids():
    with np.load("logits.npz") as at_hand:
        columns = dict(zip("abc", at_hand["logits"].T, strict=True))
    patients = [f"pat-{i}" for i in range(20)]
    write_columns(Path("logits.csv"), columns | {"patient": patients, "site": ["A", "B"] * 10})
    ids = ("--id-column", "patient,site")
    header, _ = export("model.npz", "logits.csv", "--compare", "model.npz", *ids)
    assert header["inputs"]["names"][:2] == ["pat-0/A", "pat-1/B"]


@pytest.mark.usefixtures("files_available")
def test_the_command_reads_texts_and_names_in_many_formats():
    from pathlib import Path

    from decal.io import writers

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
    nested = [{"example": {"a": a, "b": {"c": "b"}}, "uid": i} for i, a in enumerate(lines)]
    Path("nested.jsonl").write_text("\n".join(map(json.dumps, nested)))
    for key, expected in (("example.a", lines), ("example.a,example.b.c", pairs)):
        files = ("--texts", "nested.jsonl", "--texts-key", key)
        header, _ = export("model.npz", "logits.npz", *files)
        assert header["inputs"]["texts"] == expected
    message = fail("model.npz", "logits.npz", "--texts", "nested.jsonl", "--texts-key", "example.d")
    assert "texts must be found in nested.jsonl: got no example.d among example, uid." in message
    Path("sites.jsonl").write_text("\n".join(f'{{"site": {i % 2}, "at": "x"}}' for i in range(20)))
    files = ("--groups", "sites.jsonl", "--groups-key")
    header, arrays = export("model.npz", "logits.npz", *files, "site,at")
    assert [g["values"] for g in header["inputs"]["groups"]] == [["0", "1"], ["x"]]
    assert arrays["group/0"].tolist() == [0, 1] * 10
    message = fail("model.npz", "logits.npz", "--groups", "sites.jsonl")
    assert "groups-key must name the columns of sites.jsonl: got none." in message
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


def test_the_command_reads_pictures(files_available):
    Image = pytest.importorskip("PIL.Image", reason="needs decal[explore]")
    pixels = np.arange(20, dtype=np.uint8)[:, None, None] * np.ones((20, 4, 4), dtype=np.uint8)
    folder = files_available / "pictures"
    folder.mkdir()
    for row in range(20):
        Image.fromarray(pixels[row]).save(folder / f"{row}.png")
    np.save("pixels.npy", pixels)
    np.savez("pixels.npz", images=pixels, other=np.zeros(3))
    (files_available / "list.txt").write_text("".join(f"pictures/{row}.png\n" for row in range(20)))
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


def test_bad_input_of_the_command_ends_in_one_line(files_available):
    (files_available / "broken.npz").write_bytes((files_available / "model.npz").read_bytes()[:500])
    (files_available / "old.html").touch()
    for arguments, message in [
        (["broken.npz", "logits.npz"], "MODEL must be a file that a command of decal wrote: got"),
        (["logits.npz", "logits.npz"], "MODEL must be a file that a command of decal wrote: got"),
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
    assert (files_available / "old.html").read_bytes() == b""


@pytest.mark.usefixtures("files_available")
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
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            connection.request("GET", "/")
            assert "<title>logits</title>" in connection.getresponse().read().decode()
            connection.close()
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=300)
        finally:
            process.kill()
    assert (process.returncode, out, errors) == (0, "Stopped.\n", "")


@pytest.mark.usefixtures("files_available")
def test_the_command_has_help():
    result = run("--help")
    assert result.exit_code == 0
    assert "--compare-logits" in result.stdout
