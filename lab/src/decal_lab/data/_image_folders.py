"""Images in folders, read when needed: Tiny-ImageNet, ImageNet, Places365, QualityMRI."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from decal_lab.checks import check_choice, check_count
from decal_lab.data._archives import (
    FolderTree,
    Tree,
    damaged,
    existing_folder,
    file_in,
    open_tree,
    read_all,
)
from decal_lab.data._data_sets import Images, ImageSet, Labels
from decal_lab.data._downloads import DamagedDataError, MissingDataError, Remote, cache_folder
from decal_lab.data._pictures import decode

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
FITS = ("crop", "stretch")

TINY_IMAGENET = Remote(
    "tiny-imagenet",
    "tiny-imagenet-200.zip",
    ("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
    md5="90528d7ca1a48142e341f4ef8d21d0de",
    size=248_100_043,
)
PLACES365_IMAGES = Remote(
    "places365",
    "val_256.tar",
    ("http://data.csail.mit.edu/places/places365/val_256.tar",),
    md5="e27b17d8d44f4af9a78502beb927f808",
)
PLACES365_LISTS = Remote(
    "places365",
    "filelist_places365-standard.tar",
    ("http://data.csail.mit.edu/places/places365/filelist_places365-standard.tar",),
    md5="35a0585fee1fa656440f3ab298f8479c",
)
QUALITYMRI = Remote(
    "qualitymri",
    "QualityMRI.zip",
    ("https://zenodo.org/records/7180818/files/QualityMRI.zip?download=1",),
    start=b"PK",
)


@dataclass(frozen=True, eq=False, repr=False)
class ImageFolder:
    """n image files with their labels; each is read and resized when needed.

    Attributes
    ----------
    names : tuple of str
        Names of the files inside the folder or archive.
    labels : (n,) array
        Numbers of classes.
    classes : tuple of str
        Their names, in the order of the labels.
    size : int or None
        Images are size × size; None leaves them as they are.
    fit : str
        "crop" scales the shorter side and cuts out the middle, "stretch" scales both sides.
    human : (n, K) array or None
        Shares of the annotators who chose each class, or None.
    files : Tree
        Where they are read from.
    """

    names: tuple[str, ...]
    labels: Labels
    classes: tuple[str, ...]
    size: int | None
    fit: str
    files: Tree
    human: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Images:
        """(H, W, 3) bytes of one image."""
        name = self.names[index]
        return decode(self.files.read(name), self.files.path / name, size=self.size, fit=self.fit)

    def __repr__(self) -> str:
        size = f"{self.size}×{self.size}×3" if self.size else "their own sizes"
        return f"ImageFolder: {len(self):,} images of {size}, {len(self.classes)} classes"

    def batches(self, rows: int = 256) -> Iterator[tuple[Images, Labels]]:
        """Images (b, H, W, 3) and labels (b,), at most `rows` at a time."""
        for start in range(0, len(self), check_count(rows, "rows")):
            part = range(start, min(start + rows, len(self)))
            yield self._stacked(part), self.labels[start : start + rows]

    def load(self, rows: Sequence[int] | NDArray[np.intp] | None = None) -> ImageSet:
        """All images, or the rows given, in memory."""
        chosen = np.arange(len(self)) if rows is None else np.asarray(rows, dtype=np.intp)
        human = None if self.human is None else self.human[chosen]
        return ImageSet(self._stacked(chosen), self.labels[chosen], self.classes, human)

    def _stacked(self, rows: Sequence[int] | NDArray[np.intp] | range) -> Images:
        images = [self[int(row)] for row in rows]
        shapes = sorted({image.shape for image in images})
        if len(shapes) != 1:
            raise ValueError(
                "size must be given for images of different sizes: "
                f"got {shapes[0]} and {shapes[-1]}."
                if shapes
                else "rows must name one image or more: got none."
            )
        return np.stack(images)


def image_folder(folder: str | Path, *, size: int | None, fit: str = "crop") -> ImageFolder:
    """The images of any folder, or .zip or .tar archive, with a sub-folder per class.

    Parameters
    ----------
    folder : path
        Each of its sub-folders is a class, named after it; images may lie deeper.
    size : int, optional
        Images become size × size; None leaves them as they are.
    fit : str
        "crop" or "stretch", see ImageFolder.
    """
    tree = open_tree(existing_folder(folder))
    return _by_subfolder(tree, _images_in(tree), size, fit)


def tiny_imagenet(
    split: str = "val",
    *,
    size: int | None = 64,
    fit: str = "crop",
    folder: str | Path | None = None,
    download: bool = True,
) -> ImageFolder:
    """200 classes of ImageNet: 100,000 images to train, 10,000 to validate, 64 × 64, colour.

    Classes are numbered by their WordNet ids, sorted, and named by words.txt if that is there.

    Parameters
    ----------
    split : str
        "train" or "val"; the test images have no public labels.
    size, fit
        See ImageFolder.
    folder : path, optional
        tiny-imagenet-200 itself, or holds it or tiny-imagenet-200.zip. The images of val are
        labelled by val_annotations.txt, or by sub-folders if somebody sorted them.
    download : bool
        Whether to fetch what is not in the cache (248 MB, md5 checked).
    """
    check_choice(split, "split", ("train", "val"))
    if folder is None:
        tree = open_tree(TINY_IMAGENET.get(download=download))
    else:
        home = existing_folder(folder)
        if home.is_dir() and not (home / split).is_dir():
            home = file_in(home, ("tiny-imagenet-200", TINY_IMAGENET.name))
        tree = open_tree(home)
    everything = tree.names()
    prefix = _prefix(everything, split, tree)
    images = [name for name in _images_in(tree) if name.startswith(f"{prefix}{split}/")]
    notes = f"{prefix}val/val_annotations.txt"
    if split == "val" and notes in everything:
        annotated = _table(tree, notes, columns=2)
        kinds = {f"{prefix}val/images/{name}": kind for name, kind, *_ in annotated}
    else:
        depth = len(PurePosixPath(f"{prefix}{split}").parts)
        kinds = {name: PurePosixPath(name).parts[depth] for name in images}
    words = {}
    if f"{prefix}words.txt" in everything:
        words = {row[0]: row[1] for row in _table(tree, f"{prefix}words.txt", columns=2)}
    return _labelled(tree, images, kinds, size, fit, words)


def imagenet(
    split: str = "val",
    *,
    size: int | None = 224,
    fit: str = "crop",
    folder: str | Path | None = None,
) -> ImageFolder:
    """ImageNet (ILSVRC 2012), 1,000 classes, 50,000 images to validate; yours, from a folder.

    It cannot be downloaded without an account at image-net.org, so it is looked for in `folder`
    or in ``imagenet`` in the cache.

    Parameters
    ----------
    split : str
        "train" or "val".
    size, fit
        See ImageFolder.
    folder : path, optional
        Holds the split's folder, in which each class (such as n01440764) has a sub-folder. Classes
        are named by LOC_synset_mapping.txt or words.txt if one is there.
    """
    check_choice(split, "split", ("train", "val"))
    home = cache_folder() / "imagenet" if folder is None else existing_folder(folder)
    if not (home / split).is_dir():
        raise MissingDataError(
            f"imagenet needs {split} with a sub-folder per class in {home}: get it from "
            "image-net.org (it asks for an account), and pass folder=…."
        )
    words = {}
    for listing in ("LOC_synset_mapping.txt", "words.txt"):
        if (home / listing).exists():
            lines = (home / listing).read_text(encoding="utf-8").splitlines()
            words = {line[:9]: line[10:] for line in lines if line}
            break
    tree = FolderTree(home / split)
    return _by_subfolder(tree, _images_in(tree), size, fit, words)


def places365(
    *,
    size: int | None = 256,
    fit: str = "crop",
    folder: str | Path | None = None,
    download: bool = True,
) -> ImageFolder:
    """Scenes of 365 kinds: the 36,500 images to validate, 256 × 256, colour.

    Parameters
    ----------
    size, fit
        See ImageFolder.
    folder : path, optional
        Holds val_256 (or val_256.tar), and places365_val.txt and categories_places365.txt (or
        filelist_places365-standard.tar with both).
    download : bool
        Whether to fetch what is not in the cache (about 500 MB, md5 checked).
    """
    lists = ("places365_val.txt", "categories_places365.txt")
    if folder is None:
        notes = open_tree(PLACES365_LISTS.get(download=download))
        tree = open_tree(PLACES365_IMAGES.get(download=download))
    else:
        home = existing_folder(folder)
        tree = open_tree(file_in(home, ("val_256", PLACES365_IMAGES.name)))
        packed = home / PLACES365_LISTS.name
        loose = all((home / name).exists() for name in lists)
        notes = open_tree(packed) if packed.exists() and not loose else FolderTree(home)
    texts = (
        {name: notes.read(name) for name in lists}
        if isinstance(notes, FolderTree)
        else read_all(notes, lists)
    )
    names = dict(line.split() for line in texts[lists[1]].decode().splitlines() if line)
    classes = tuple(sorted(names, key=lambda name: int(names[name])))
    listed = dict(line.split() for line in texts[lists[0]].decode().splitlines() if line)
    images = [name for name in _images_in(tree) if PurePosixPath(name).name in listed]
    if len(images) != len(listed):
        raise DamagedDataError(
            f"{tree.path} must hold the {len(listed):,} images of places365_val.txt: "
            f"got {len(images):,}."
        )
    labels = np.array([int(listed[PurePosixPath(name).name]) for name in images], dtype=np.intp)
    if labels.size and not 0 <= labels.min() <= labels.max() < len(classes):
        raise DamagedDataError(f"{notes.path} must number {len(classes)} classes from 0.")
    short = tuple(name.split("/", 2)[-1] for name in classes)  # /a/airfield
    return _folder(tree, images, labels, short, size, fit)


def qualitymri(
    *,
    size: int | None = None,
    fit: str = "stretch",
    folder: str | Path | None = None,
    download: bool = True,
) -> ImageFolder:
    """Quality of 310 MRI images as several people judged it, two classes.

    Part of the benchmark DCIC by Schmarje and others (2022). No digest of the original is known to
    us: that of the first download is recorded, and expected of later ones.

    Parameters
    ----------
    size, fit
        See ImageFolder; the paper stretches to 224.
    folder : path, optional
        QualityMRI itself, with annotations.json, or holds it or QualityMRI.zip.
    download : bool
        Whether to fetch what is not in the cache.

    Returns
    -------
    ImageFolder
        With human (n, 2), the shares of annotators; labels are what most chose, the first of
        equals. In the order of annotations.json.
    """
    if folder is None:
        tree = open_tree(QUALITYMRI.get(download=download))
    else:
        home = existing_folder(folder)
        if home.is_dir():
            home = file_in(home, ("annotations.json", "QualityMRI", QUALITYMRI.name))
            # Its image paths begin with the name of the folder that holds it.
            home = home.parent if home.name == "annotations.json" else home
        tree = open_tree(home)
    content = read_all(tree, ("annotations.json",))["annotations.json"]
    votes: dict[str, list[str]] = {}
    try:
        for entry in json.loads(content):
            for vote in entry["annotations"]:
                votes.setdefault(vote["image_path"], []).append(str(vote["class_label"]))
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(tree.path / "annotations.json", error) from error
    if not votes:
        raise DamagedDataError(f"{tree.path} must hold annotations.json with votes: got none.")
    classes = tuple(sorted({label for labels in votes.values() for label in labels}))
    counts = np.array([[labels.count(name) for name in classes] for labels in votes.values()])
    human = counts / counts.sum(axis=1, keepdims=True)
    everything = set(tree.names())
    images = [_found(name, everything, tree) for name in votes]
    return _folder(tree, images, counts.argmax(axis=1), classes, size, fit, human)


def _found(name: str, everything: set[str], tree: Tree) -> str:
    """The name in the tree of a listed image, with or without the first folder of the list."""
    for candidate in (name, name.partition("/")[2]):
        if candidate in everything:
            return candidate
    raise MissingDataError(f"{tree.path} must hold {name}: got no such file.")


def _prefix(names: list[str], split: str, tree: Tree) -> str:
    """The path before the split's folder: empty, or the folder that was packed."""
    for name in names:
        parts = PurePosixPath(name).parts
        if split in parts[:2]:
            return "" if parts[0] == split else f"{parts[0]}/"
    raise MissingDataError(f"{tree.path} must have a folder {split}: got none.")


def _table(tree: Tree, name: str, *, columns: int) -> list[list[str]]:
    lines = tree.read(name).decode().splitlines()
    rows = [line.split("\t") for line in lines if line]
    if not rows or any(len(row) < columns for row in rows):
        raise DamagedDataError(f"{tree.path / name} must have {columns} columns divided by tabs.")
    return rows


def _images_in(tree: Tree) -> list[str]:
    return sorted(name for name in tree.names() if name.lower().endswith(SUFFIXES))


def _by_subfolder(
    tree: Tree, images: list[str], size: int | None, fit: str, words: dict[str, str] | None = None
) -> ImageFolder:
    kinds = {n: PurePosixPath(n).parts[0] for n in images if len(PurePosixPath(n).parts) > 1}
    return _labelled(tree, [n for n in images if n in kinds], kinds, size, fit, words or {})


def _labelled(
    tree: Tree,
    images: list[str],
    kinds: dict[str, str],
    size: int | None,
    fit: str,
    words: dict[str, str],
) -> ImageFolder:
    without = [name for name in images if name not in kinds]
    if without:
        raise DamagedDataError(f"{tree.path} must tell the class of every image: not {without[0]}.")
    order = sorted(set(kinds.values()))
    labels = np.array([order.index(kinds[name]) for name in images], dtype=np.intp)
    return _folder(tree, images, labels, tuple(words.get(k, k) for k in order), size, fit)


def _folder(
    tree: Tree,
    images: list[str],
    labels: Labels,
    classes: tuple[str, ...],
    size: int | None,
    fit: str,
    human: NDArray[np.float64] | None = None,
) -> ImageFolder:
    check_choice(fit, "fit", FITS)
    if size is not None:
        check_count(size, "size")
    if not images:
        raise MissingDataError(f"{tree.path} must hold images in sub-folders: got none.")
    return ImageFolder(tuple(images), labels, classes, size, fit, tree, human)
