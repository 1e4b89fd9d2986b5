"""Model files of every kind: each is read by its own loader, and only as it was written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import decal
from decal.choose import Triage

FORMAT_2 = Path(__file__).parents[1] / "fixtures" / "models_of_format_2"
"""Files without a checksum, and what the decal that wrote them predicted for "logits"."""

KINDS = {
    "class": decal.Decalibrator,
    "local_best": decal.Decalibrator,
    "temperature_halfway": decal.Decalibrator,
    "multilabel": decal.MultiLabelDecalibrator,
    "coupled": decal.CoupledDecalibrator,
    "label_shift": decal.LabelShift,
    "triage": Triage,
}
LOADERS = {
    "class": ("Decalibrator", "decal.Decalibrator.load"),
    "multilabel": ("MultiLabelDecalibrator", "decal.MultiLabelDecalibrator.load"),
    "coupled": ("CoupledDecalibrator", "decal.CoupledDecalibrator.load"),
    "label_shift": ("LabelShift", "decal.LabelShift.load"),
    "triage": ("Triage", "decal.choose.Triage.load"),
    "classifier": ("CredalClassifier", "decal.sklearn.CredalClassifier.load"),
}


@pytest.fixture(scope="module")
def expected():
    with np.load(FORMAT_2 / "expected.npz") as archive:
        return dict(archive)


def asked(model, new):
    """What a model of any kind says of inputs."""
    if isinstance(model, Triage):
        return model.doubt(new)
    sets = model.predict(new)
    return np.stack([sets.lower, sets.upper])


# What was changed since


def rewritten(kind, path, change):
    """Save a model, and pack its members anew, changed, without another checksum."""
    KINDS[kind].load(FORMAT_2 / f"{kind}.npz").save(path)
    with np.load(path) as archive:
        members = dict(archive)
    change(members)
    np.savez(path, **members)
    return path


def nothing(members):
    assert "header" in members


def a_number(members):
    name = max(members.keys() - {"header"}, key=lambda name: members[name].size)
    flat = members[name].reshape(-1)
    flat[-1] = np.nextafter(flat[-1], np.inf) if flat.dtype.kind == "f" else flat[-1] + 1


def a_shape(members):
    name = "center" if "center" in members else "model"
    members[name] = members[name][None]


def a_setting(members):
    header = json.loads(str(members["header"]))
    header["alpha" if "alpha" in header else "confidence"] = 0.5
    members["header"] = np.array(json.dumps(header))


def the_checksum(members):
    header = json.loads(str(members["header"]))
    del header["checksum"]
    members["header"] = np.array(json.dumps(header))


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_was_packed_anew_is_read(kind, tmp_path, expected):
    path = rewritten(kind, tmp_path / "same.npz", nothing)
    found = asked(KINDS[kind].load(path), expected["logits"])
    wanted = expected[kind] if kind == "triage" else expected[kind][:2]
    error = 1e-3 if kind == "label_shift" else 2e-6  # bounds of label shift: LabelShift.error
    np.testing.assert_allclose(found, wanted, atol=error)


@pytest.mark.parametrize("change", [a_number, a_setting, a_shape, the_checksum])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_was_changed_since_does_not_fit_the_checksum(kind, change, tmp_path):
    path = rewritten(kind, tmp_path / "changed.npz", change)
    with pytest.raises(ValueError, match=r"changed\.npz, which was changed since: its checksum"):
        KINDS[kind].load(path)


# The loader of another kind


def loads(held, loader):
    return held == loader or KINDS.get(held) is KINDS.get(loader, ...)


PAIRS = [(a, b) for a in LOADERS for b in [*KINDS, "classifier"] if not loads(a, b)]


@pytest.mark.parametrize(("held", "loader"), PAIRS)
def test_the_loader_of_another_kind_says_what_a_file_holds_and_how_to_load_it(
    held, loader, tmp_path
):
    paths = [FORMAT_2 / f"{held}.npz"]
    if held in KINDS:
        paths.append(tmp_path / f"{held}.npz")
        KINDS[held].load(paths[0]).save(paths[1])
    name, call = LOADERS[held]
    message = rf"got .*{held}\.npz, which holds a {name}\. Load it with {call}\."
    for path in paths:
        with pytest.raises(ValueError, match=message):
            load(loader, path)


def load(kind, path):
    if kind != "classifier":
        return KINDS[kind].load(path)
    pytest.importorskip("sklearn")
    from decal.sklearn import CredalClassifier

    return CredalClassifier.load(path, None)
