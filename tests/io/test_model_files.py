"""Model files: arrays and JSON, replaced in one step, and nothing else is read."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import contextmanager, suppress

import numpy as np
import pytest

import decal
from decal.io import model_files
from helpers.memory import limited_memory


@pytest.mark.parametrize("compressed", [True, False])
def test_settings_and_arrays_come_back_from_a_path_and_from_an_open_file(tmp_path, compressed):
    settings, arrays = {"alpha": 0.8, "classes": ["a", "b"]}, {"center": np.arange(3.0)}
    opened = io.BytesIO()
    for file in (tmp_path / "model.npz", opened):
        model_files.write(file, settings, arrays, kind="decalibrator", compressed=compressed)
    opened.seek(0)
    for file in (tmp_path / "model.npz", opened):
        found, read = model_files.read(file, lambda *_: True, kind="decalibrator")
        assert found == settings | {"version": model_files.VERSION}
        np.testing.assert_array_equal(read["center"], arrays["center"])


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    with pytest.raises(FileNotFoundError):
        model_files.read(path, lambda *_: True, kind="decalibrator")
    path.write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"a file that `save` wrote: got .*x.npz, which is not"):
        model_files.read(path, lambda *_: True, kind="decalibrator")
    for header, message in [
        ({"format": "other"}, "got .*, of another format"),
        ({"format": model_files.FORMAT, "version": 99}, "got .*, of format 99. Upgrade decal"),
    ]:
        np.savez(path, header=np.array(json.dumps(header)))
        with pytest.raises(ValueError, match=message):
            model_files.read(path, lambda *_: True, kind="decalibrator")
    np.savez(path, header=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="which is not one, or is damaged"):
        model_files.read(path, lambda *_: True, kind="decalibrator")


@pytest.mark.parametrize("directions", [("class",), ("temperature",), ("class", "temperature")])
@pytest.mark.parametrize("scale", [0.0, 1e-9, 1.0, 30.0, 1e4, 1e12, 1e15])
@pytest.mark.parametrize("mask", [None, -np.inf, -1e9, -1e15])
def test_whatever_was_fitted_is_read_again(directions, scale, mask):
    rng = np.random.default_rng(0)
    logits, labels = scale * rng.standard_normal((50, 4)), rng.integers(4, size=50)
    weights = 10 ** rng.uniform(-6, 0, 50)
    if mask is not None:
        masked = rng.random(logits.shape) < 0.3
        masked[np.arange(50), labels] = False
        masked[0] = np.arange(4) != labels[0]  # only one class is left
        logits[masked] = mask
    model = decal.Decalibrator(0.8, directions=directions)
    model.fit(logits, labels, sample_weight=weights)
    opened = io.BytesIO()
    model.save(opened)
    opened.seek(0)
    found = decal.Decalibrator.load(opened).predict(logits)
    np.testing.assert_array_equal(found.lower, model.predict(logits).lower)


# Models of strangers


@pytest.fixture
def model(tmp_path):
    """The path of a saved model, and its settings and arrays."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((200, 3))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    fitted = decal.Decalibrator(
        0.8, reference="best", directions=("class", "temperature"), likelihood="mean"
    )
    path = tmp_path / "model.npz"
    fitted.fit(logits, labels).save(path)
    return path, *model_files.read(path, lambda *_: True, kind="decalibrator")


def changed(model, **numbers):
    """Save the model again with other settings, or with arrays of which one number is another."""
    path, settings, arrays = model
    settings, arrays = dict(settings), {k: v.copy() for k, v in arrays.items()}
    for name, value in numbers.items():
        name = name.replace("__", ".")
        if name in settings:
            settings[name] = value
        else:
            arrays[name].reshape(-1)[0] = value
    settings.pop("version")
    model_files.write(path, settings, arrays, kind="decalibrator", compressed=True)
    return path


IMPOSSIBLE = [
    *({"scale": x} for x in (np.nan, -1.0, 0.0, np.inf, 1e308, "1", True, None)),
    *({"distance": x} for x in (np.nan, -1.0, np.inf)),
    *({"reference": x} for x in (0, "yes", None)),
    {"reference": "model"},
    *({"rows": x} for x in (0, -1, 1.5, 10**400)),
    *({"alpha": x} for x in (np.nan, 2, "x", 10**400)),
    *({"center": x} for x in (np.nan, np.inf, 1e308)),
    *({"label_weight": x} for x in (np.nan, -1.0, 1e308, 1e6)),
    *({"class__bin_width": x} for x in (np.nan, 2.0**-600, 2.0**600, 0.1)),
    *({"class__moments": x} for x in (np.nan, -1.0, 0.0, 1e308)),
    *({"class__keys": x} for x in (-(2**62), 2**62)),
    *({"class__label_weight": x} for x in (np.nan, -1.0, 1e6)),
    *({"temperature__numbers": x} for x in (np.nan, 1e15, -1e15, 0.5)),
    *({"temperature__rungs": x} for x in (np.nan, np.inf, 1e308, -1e4)),
    *({"temperature__at_zero": x} for x in (np.nan, 1e308)),
    {"directions": [["class", {}]]},
    {"directions": [["temperature", {"ratio": -1}]]},
    {"directions": "class"},
    {"classes": ["a", "a", "b"]},
    {"classes": 7},
]


@pytest.mark.parametrize("wrong", IMPOSSIBLE, ids=lambda wrong: str(wrong)[:40])
def test_numbers_that_no_fit_writes_are_refused_by_name(model, wrong):
    path = changed(model, **wrong)
    with pytest.raises(ValueError, match=r"model\.npz"):
        decal.Decalibrator.load(path)


# Numbers that could each be true, but not together


def fitted_file(path, K, reference="model", likelihood="mean"):
    """A model file of K classes, with both kinds of evidence; its settings and arrays."""
    rng = np.random.default_rng(K)
    logits = 2 * rng.standard_normal((300, K))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    directions = ("class", "temperature")
    settings = {"reference": reference, "directions": directions, "likelihood": likelihood}
    decal.Decalibrator(0.8, **settings).fit(logits, labels).save(path)
    settings, arrays = model_files.read(path, lambda *_: True, kind="decalibrator")
    del settings["version"]
    return settings, {name: array.copy() for name, array in arrays.items()}


def flattened(rungs):
    rungs[:] = rungs.mean(axis=1, keepdims=True)


LADDERS = {
    "reversed": lambda a: np.copyto(a["temperature.rungs"], a["temperature.rungs"][:, ::-1].copy()),
    "negated": lambda a: np.negative(a["temperature.rungs"], out=a["temperature.rungs"]),
    "zeroed": lambda a: a["temperature.rungs"].fill(0.0),
    "halved": lambda a: np.divide(a["temperature.rungs"], 2, out=a["temperature.rungs"]),
    "flattened": lambda a: flattened(a["temperature.rungs"]),
    "without slopes": lambda a: a["temperature.rungs"][1].fill(0.0),
    "moved up a rung": lambda a: np.add.at(a["temperature.numbers"], 0, 1),
    "moved down a rung": lambda a: np.subtract.at(a["temperature.numbers"], 0, 1),
    "with another limit": lambda a: np.add.at(a["temperature.numbers"], 2, 30.0),
    "with half of its claims": lambda a: np.multiply.at(a["temperature.numbers"], 5, 0.5),
    "steeper at 0": lambda a: np.multiply.at(a["temperature.at_zero"], 1, 2.0),
    "flatter at 0": lambda a: np.multiply.at(a["temperature.at_zero"], 1, 0.5),
    "lower at 0": lambda a: np.multiply.at(a["temperature.at_zero"], 0, 0.5),
}


@pytest.mark.parametrize("reference", ["model", "best", "halfway"])
@pytest.mark.parametrize("change", LADDERS)
def test_a_ladder_that_no_logits_have_is_refused(tmp_path, change, reference):
    path = tmp_path / "model.npz"
    settings, arrays = fitted_file(path, 4, reference)
    LADDERS[change](arrays)
    model_files.write(path, settings, arrays, kind="decalibrator", compressed=True)
    with pytest.raises(ValueError, match=r"intact model file: got .*model\.npz"):
        decal.Decalibrator.load(path)


MARGINS = {
    "wider bins": lambda a: np.multiply(a["class.bin_width"], 2, out=a["class.bin_width"]),
    "much wider bins": lambda a: np.multiply(a["class.bin_width"], 16, out=a["class.bin_width"]),
    "bins moved by one": lambda a: np.add(a["class.keys"], 1, out=a["class.keys"]),
    "bins mirrored": lambda a: np.copyto(a["class.moments"], a["class.moments"][:, ::-1].copy()),
}


@pytest.mark.parametrize(
    ("K", "reference"), [(3, "model"), (5, "halfway"), (2, "best"), (6, "best")]
)
@pytest.mark.parametrize("change", MARGINS)
def test_margins_of_classes_whose_probabilities_do_not_sum_to_one_are_refused(
    tmp_path, change, K, reference
):
    path = tmp_path / "model.npz"
    settings, arrays = fitted_file(path, K, reference)
    MARGINS[change](arrays)
    model_files.write(path, settings, arrays, kind="decalibrator", compressed=True)
    with pytest.raises(ValueError, match=r"intact model file: got .*model\.npz"):
        decal.Decalibrator.load(path)


def test_what_was_not_changed_is_read(model):
    assert decal.Decalibrator.load(changed(model)).examples == 200


def write_archive(path, arrays):
    """An .npz of arrays, or of headers of arrays followed by so many zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                if isinstance(array, np.ndarray):
                    np.save(member, array)
                    continue
                shape, megabytes = array
                header = {"descr": "<f8", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
                for _ in range(megabytes):
                    member.write(bytes(1 << 20))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"label_weight": ((10**9,), 0)}, "got .*model.npz.*it says that it holds 8,000,000,000"),
        ({"surprise": ((1 << 25,), 256)}, "nothing unknown: got .*model.npz with .*surprise"),
        ({"class.keys": ((1 << 25,), 256)}, "got .*model.npz.*it says that .* bytes unpack to"),
    ],
)
def test_a_small_model_file_cannot_fill_the_memory(model, extra, message):
    path, _, arrays = model
    with np.load(path) as archive:
        header = archive["header"]
    write_archive(path, {"header": header, **arrays, **extra})
    assert path.stat().st_size < 1 << 21
    with limited_memory(128), pytest.raises(ValueError, match=message):
        decal.Decalibrator.load(path)


class NamedError(Exception):
    """An error whose message names the file."""


@contextmanager
def named(name):
    try:
        yield
    except ValueError as error:
        if name in str(error):
            raise NamedError from error
        raise


@pytest.mark.parametrize("where", ["path", "file"])
def test_any_damage_becomes_one_error_that_names_the_file(model, where):
    path, *_ = model
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        # Bits that nothing depends on, such as the time of a member, may be anything.
        with suppress(NamedError), path.open("rb") as opened, named("model.npz"):
            decal.Decalibrator.load(path if where == "path" else opened)
