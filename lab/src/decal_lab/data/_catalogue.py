"""Which data sets are available, where, and what the others need."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from decal.io import gate
from decal_lab.data import _image_arrays as images
from decal_lab.data import _image_folders as folders
from decal_lab.data import _mnists as mnists
from decal_lab.data import _nli_texts as text
from decal_lab.data import _published_logits as published
from decal_lab.data import _tabarena as tabular
from decal_lab.data._array_files import read_npz
from decal_lab.data._downloads import Remote, cache_folder


@dataclass(frozen=True)
class Availability:
    """A data set, and whether it can be loaded now, without a network.

    Attributes
    ----------
    name : str
        Name of its function: `decal_lab.data.NAME`.
    rows : str
        Number of examples by split.
    where : path or None
        The file or folder that it would be read from; None if it is not available.
    needs : str
        How to get it; "" if it is available.
    """

    name: str
    rows: str
    where: Path | None
    needs: str

    def __str__(self) -> str:
        return f"{self.name} ({self.rows}): {self.where or 'needs ' + self.needs}"


def available() -> tuple[Availability, ...]:
    """All data sets: where they are, or how to get them. Nothing is downloaded or checked.

    >>> from decal_lab import data
    >>> [entry.name for entry in data.available()][:3]
    ['cifar10', 'cifar100', 'cifar10h']
    """
    return tuple(_entries())


def _entries() -> Iterator[Availability]:
    yield _one("cifar10", "50,000 train, 10,000 test", images.CIFAR10)
    yield _one("cifar100", "50,000 train, 10,000 test", images.CIFAR100)
    yield _one("cifar10h", "10,000 test", images.CIFAR10H)
    yield _one("svhn", "73,257 train, 26,032 test", images.SVHN["test"], images.SVHN["train"])
    yield _one("dermamnist", "7,007 train, 1,003 val, 2,005 test", images.DERMAMNIST)
    for collection in (mnists.FASHION_MNIST, mnists.MNIST):
        remotes = [collection.remote(name) for name in collection.digests]
        place = collection.installed("train") and collection.installed("test")
        name = collection.dataset.replace("-", "_")
        yield _one(name, "60,000 train, 10,000 test", *remotes, place=place)
    yield _one("notmnist", "18,724", mnists.NOTMNIST, extra="PIL")
    yield _one("tiny_imagenet", "100,000 train, 10,000 val", folders.TINY_IMAGENET, extra="PIL")
    yield _one(
        "places365",
        "36,500 val",
        folders.PLACES365_IMAGES,
        folders.PLACES365_LISTS,
        extra="PIL",
    )
    yield _one("qualitymri", "310", folders.QUALITYMRI, extra="PIL")
    home = cache_folder() / "imagenet"
    yield Availability(
        "imagenet",
        "50,000 val",
        home if (home / "val").is_dir() else None,
        "" if (home / "val").is_dir() else f"an account at image-net.org, and its val in {home}",
    )
    yield _chaosnli()
    yield _embeddings()
    yield from _tables()
    yield from _logits()


def _one(
    name: str, rows: str, *remotes: Remote, place: Path | None = None, extra: str | None = None
) -> Availability:
    if extra and importlib.util.find_spec(extra) is None:
        return Availability(name, rows, None, "Pillow: pip install 'decal[explore]'")
    if all(remote.path.exists() for remote in remotes):
        place = remotes[0].path if len(remotes) == 1 else remotes[0].home
    if place is not None:
        return Availability(name, rows, place, "")
    files = " and ".join(remote.name for remote in remotes if not remote.path.exists())
    return Availability(
        name, rows, None, f"a network, once, or {files} in {remotes[0].home}, or folder=…"
    )


def _chaosnli() -> Availability:
    rows = "1,514 snli, 1,599 mnli, 1,532 alphanli"
    shared = os.environ.get("DECAL_DATA")
    place = Path(shared) / "chaosnli" if shared else None
    has = place is not None and all((place / text.FILES[s]).exists() for s in ("snli", "mnli"))
    return _one("chaosnli", rows, text.CHAOSNLI, place=place if has else None)


def _embeddings() -> Availability:
    home = cache_folder() / text.CHAOSNLI.dataset
    names = [stem for stem in text.EMBEDDINGS.values() if _any(home, f"{stem}.npz", f"{stem}.pkl")]
    if len(names) == len(text.EMBEDDINGS):
        return Availability("chaosnli_embeddings", "1,514 snli, 1,599 mnli", home, "")
    needs = f"snli.npz and mnli_m.npz in {home}: no public address is known; compute them"
    return Availability("chaosnli_embeddings", "1,514 snli, 1,599 mnli", None, needs)


def _any(home: Path, *names: str) -> bool:
    return any((home / sub / name).exists() for sub in ("", "embeddings") for name in names)


def _tables() -> Iterator[Availability]:
    shared = os.environ.get("DECAL_DATA")
    for title, (number, _) in tabular.TABARENA.items():
        path = tabular.csv_in(Path(shared), title, number) if shared else None
        needs = "" if path else f"a network (OpenML {number}), or {title}_{number}.csv and folder=…"
        rows = _rows(path, _lines) if path else "table"
        yield Availability(f'tabarena("{title}")', rows, path, needs)


def _logits() -> Iterator[Availability]:
    home = published.shared_folder()
    names = published.published_names(home) if home else ()
    for name in names:
        path = (home or Path()) / f"{name}.npz"
        yield Availability(f'published_logits("{name}")', _rows(path, _npz_rows), path, "")
    if not names:
        needs = "DECAL_DATA set to a folder of .npz files; the zero-shot ones also a network, once"
        yield Availability("published_logits", "many", None, needs)


def _rows(path: Path, count: Callable[[Path], int]) -> str:
    return f"{count(path):,} rows"


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip()) - 1


def _npz_rows(path: Path) -> int:
    with gate.Archive(path) as archive:
        key = "labels" if "labels" in archive.names else "test_labels"
    return len(read_npz(path, [key])[key])
