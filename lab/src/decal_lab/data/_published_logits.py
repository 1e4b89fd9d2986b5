"""Published logits, by the names of their files: zero-shot models, networks, text, TabPFN.

The zero-shot logits are public in the paper's repository and can be downloaded from it, as .csv.
No address of the others is known to us: they are read from a folder of .npz files.
"""

from __future__ import annotations

import csv
import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal.io import gate
from decal_lab.checks import check_distributions, check_labels, check_logits
from decal_lab.data._archives import damaged, existing_folder, intact
from decal_lab.data._array_files import read_npz
from decal_lab.data._data_sets import Labels, LogitSet
from decal_lab.data._downloads import DamagedDataError, MissingDataError, Remote
from decal_lab.data._image_arrays import cifar10h

REPOSITORY = "pwhofman/efficient-credal-prediction"
COMMIT = "731e8291e1c115ac11ebe74a979f0509f2c990a9"
MODELS = {"clip": "Clip", "siglip": "SigLIP", "siglip2": "SigLIP2", "biomedclip": "BiomedCLIP"}
LANGUAGES = {"en": "", "fr": "-FRENCH", "zh": "-CHINESE", "sw": "-SWAHILI"}
OUTSIDE = ("tinyimagenet", "fashionmnist", "mnist", "notmnist")
"""The out-of-distribution sets in resnet20_cifar10.npz."""

Parts = dict[str, NDArray[Any]]


def published_logits(
    name: str, *, folder: str | Path | None = None, download: bool = True
) -> LogitSet:
    """Logits of a published classifier, and the truth about the examples.

    Parameters
    ----------
    name : str
        Name of the file, without .npz:

        * "MODEL_cifar10_LANGUAGE": zero-shot logits of CLIP ("clip"), SigLIP ("siglip") or
          SigLIP-2 ("siglip2") on the CIFAR-10 test images, prompts in English ("en"), French,
          Chinese or Swahili ("fr", "zh", "sw"), with CIFAR-10H as the truth.
        * "MODEL_dermamnist_en": the same models, and "biomedclip", on DermaMNIST.
        * "cnn_NETWORK_test", "resnet20_cifar10": networks on CIFAR-10; the latter also on four
          out-of-distribution sets, in `other`.
        * "snli_MODEL", "mnli_MODEL": on ChaosNLI, with the share of 100 annotators as the truth.
        * "tabpfn_TABLE_NUMBER_seedN": TabPFN on TabArena with semi-synthetic truth.
        * "fer_ferplus": a network for emotions on faces, with the votes of about ten people (FER+).
    folder : path, optional
        Holds NAME.npz, or the paper's .csv files (also in logits). By default, the folder of the
        environment variable DECAL_DATA, if the file is there.
    download : bool
        Whether to fetch the zero-shot logits if they are not here. Their address names a commit,
        whose files never change; the digest of the first download is recorded.
    """
    home = existing_folder(folder) if folder is not None else shared_folder()
    if home is not None and (home / f"{name}.npz").exists():
        return _from_npz(home / f"{name}.npz")
    sheets = _sheets(name)
    if folder is not None:
        paths = {part: _sheet_in(Path(folder), sheet.name) for part, sheet in sheets.items()}
        if not sheets or None in paths.values():
            raise MissingDataError(f"folder must hold {name}.npz: got {folder}.")
        return _from_sheets(name, {k: p for k, p in paths.items() if p}, Path(folder), download)
    if not sheets:
        raise MissingDataError(
            f"{name} needs {name}.npz, of which no public address is known: set DECAL_DATA to a "
            "folder that holds it, or pass folder=…."
        )
    fetched = {part: sheet.get(download=download) for part, sheet in sheets.items()}
    return _from_sheets(name, fetched, None, download)


def published_names(folder: str | Path | None = None) -> tuple[str, ...]:
    """The names of the logits in a folder, by default in that of DECAL_DATA, sorted."""
    home = existing_folder(folder) if folder is not None else shared_folder()
    if home is None:
        return ()
    found = []
    for path in sorted(home.glob("*.npz")):
        with intact(path), gate.Archive(path) as archive:
            keys = set(archive.names)
        if keys & {"logits", "test_logits", "cifar10_test"}:
            found.append(path.stem)
    return tuple(found)


def shared_folder() -> Path | None:
    """The folder of the environment variable DECAL_DATA, if it exists."""
    shared = os.environ.get("DECAL_DATA")
    return Path(shared) if shared and Path(shared).is_dir() else None


def _sheets(name: str) -> dict[str, Remote]:
    """The paper's .csv files that hold these logits, by part; empty if there are none."""
    match = re.fullmatch(r"([^_]+)_(cifar10|dermamnist)_([^_]+)", name)
    if not match or match[1] not in MODELS or match[3] not in LANGUAGES:
        return {}
    model, language = MODELS[match[1]], LANGUAGES[match[3]]
    if match[2] == "cifar10" and (match[1] != "biomedclip" or not language):
        return {"test": _sheet(f"{model}_CIFAR10_CIFAR10{language}_test.csv")}
    if match[2] == "dermamnist" and not language:
        names = {part: f"{model}_DermaMNIST_DermaMNIST_{part}.csv" for part in ("train", "test")}
        return {part: _sheet(sheet) for part, sheet in names.items()}
    return {}


def _sheet(name: str) -> Remote:
    url = f"https://raw.githubusercontent.com/{REPOSITORY}/{COMMIT}/logits/{name}"
    return Remote("published-logits", name, (url,))


def _sheet_in(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / name, folder / "logits" / name) if p.exists()), None)


def _from_npz(path: Path) -> LogitSet:
    parts: Parts = read_npz(path)
    if "cifar10_test" in parts:
        renamed = {"cifar10_test": "test_logits", "cifar10_train": "train_logits"}
        parts = {renamed.get(key, key): array for key, array in parts.items()}
    prefix = "test_" if "test_logits" in parts else ""
    for key in (f"{prefix}logits", f"{prefix}labels"):
        if key not in parts:
            raise DamagedDataError(f"{path} must hold {key}: got {sorted(parts)}.")
    try:
        return _checked(path.stem, parts, prefix)
    except ValueError as error:
        raise DamagedDataError(f"{path}: {error}") from error


def _checked(name: str, parts: Parts, prefix: str) -> LogitSet:
    logits, labels = _pair(parts, prefix)
    truth = parts.get("human", parts.get("truth"))
    if truth is not None:
        check_distributions(truth, shape=(len(logits), logits.shape[1]), name="truth")
    train_logits, train_labels = _pair(parts, "train_") if "train_logits" in parts else (None, None)
    K = logits.shape[1]
    other = {
        key: _float32(check_logits(parts[key], classes=K, name=key))
        for key in OUTSIDE
        if key in parts
    }
    return LogitSet(
        name=name,
        logits=logits,
        labels=labels,
        truth=None if truth is None else _float32(truth),
        classes=_texts(parts.get("classes")),
        train_logits=train_logits,
        train_labels=train_labels,
        other=other or None,
        uids=_texts(parts.get("test_uid")),
    )


def _pair(parts: Parts, prefix: str) -> tuple[NDArray[np.float32], Labels]:
    logits = check_logits(parts[f"{prefix}logits"], name=f"{prefix}logits")
    labels = check_labels(parts[f"{prefix}labels"], rows=len(logits), classes=logits.shape[1])
    return _float32(logits), labels


def _from_sheets(
    name: str, paths: dict[str, Path], folder: Path | None, download: bool
) -> LogitSet:
    parts: Parts = {}
    for part, path in paths.items():
        classes, logits, labels = _read_sheet(path)
        parts |= {f"{part}_logits": logits, f"{part}_labels": labels, "classes": classes}
    if "_cifar10_" in name:
        try:
            human = cifar10h(folder=folder, download=download).human
        except MissingDataError:
            human = cifar10h(download=download).human  # the paper's repository does not hold it
        if human.shape == parts["test_logits"].shape:
            parts["human"] = human
    try:
        return _checked(name, parts, "test_")
    except ValueError as error:
        raise DamagedDataError(f"{paths['test']}: {error}") from error


def _read_sheet(path: Path) -> tuple[NDArray[Any], NDArray[np.float32], Labels]:
    """Class names, logits and labels of one of the paper's .csv files."""
    with intact(path):
        text = path.read_text(encoding="utf-8-sig")
        header = next(csv.reader(io.StringIO(text)), [])
    if header[-2:] != ["target-0", "instance_id"]:
        raise DamagedDataError(
            f"{path} must end with the columns target-0 and instance_id: got {header[-2:]}."
        )
    try:
        rows = np.loadtxt(io.StringIO(text), delimiter=",", skiprows=1, ndmin=2)
    except ValueError as error:
        raise damaged(path, error) from error
    if rows.shape[1] != len(header) or (rows[:, -1] != np.arange(len(rows))).any():
        raise DamagedDataError(f"{path} must count its instances from 0 in the last column.")
    return np.array(header[:-2]), rows[:, :-2].astype(np.float32), rows[:, -2].astype(np.intp)


def _float32(array: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(array, dtype=np.float32)


def _texts(array: NDArray[Any] | None) -> tuple[str, ...] | None:
    return None if array is None else tuple(str(text) for text in array)
