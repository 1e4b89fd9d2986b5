"""MNIST, Fashion-MNIST and notMNIST: small grey images of ten classes, 28 × 28."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from decal_lab.checks import check_choice
from decal_lab.data._archives import GZIP, Tree, existing_folder, file_in, open_tree
from decal_lab.data._array_files import read_idx
from decal_lab.data._data_sets import ImageSet
from decal_lab.data._downloads import DamagedDataError, MissingDataError, Remote, cache_folder
from decal_lab.data._pictures import decode

SIDE = 28
PREFIXES = {"train": "train", "test": "t10k"}


@dataclass(frozen=True)
class _Idx:
    """A data set of four IDX files.

    Attributes
    ----------
    dataset : str
        Its name in the cache.
    classes : tuple of str
        Names of the ten classes.
    mirrors : tuple of str
        Addresses, the file names to be added.
    digests : dict
        md5 of each file.
    under : tuple of str
        Sub-folders of a user's folder that may hold the files.
    places : tuple of path
        Folders where systems install them.
    """

    dataset: str
    classes: tuple[str, ...]
    mirrors: tuple[str, ...]
    digests: dict[str, str]
    under: tuple[str, ...]
    places: tuple[Path, ...] = ()

    def remote(self, name: str) -> Remote:
        urls = tuple(mirror + name for mirror in self.mirrors)
        return Remote(self.dataset, name, urls, md5=self.digests[name])

    def installed(self, split: str) -> Path | None:
        """A folder with both files that was not downloaded: unpacked in the cache, or installed."""
        for place in (cache_folder() / self.dataset, *self.places):
            if all(any(_variants(place, stem)) for stem in _stems(split)):
                return place
        return None

    def load(self, split: str, folder: str | Path | None, download: bool) -> ImageSet:
        check_choice(split, "split", tuple(PREFIXES))
        names = [f"{stem}.gz" for stem in _stems(split)]
        if folder is None and not all(self.remote(name).path.exists() for name in names):
            folder = self.installed(split)
        if folder is None:
            paths = [self.remote(name).get(download=download) for name in names]
        else:
            home = existing_folder(folder)
            paths = [file_in(home, (name, name[:-3]), self.under) for name in names]
        return _image_set(paths, self.classes)


MNIST = _Idx(
    "mnist",
    tuple("0123456789"),
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
    {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
    under=("", "data", "raw", "MNIST/raw"),
)

FASHION_MNIST = _Idx(
    "fashion-mnist",
    (
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
    under=("", "data", "raw", "FashionMNIST/raw"),
    places=(Path("/usr/share/datasets/fashion-mnist"),),  # Debian's dataset-fashion-mnist
)

NOTMNIST = Remote(
    "notmnist",
    "notMNIST_small.tar.gz",
    # Its author's own page, yaroslavvb.com, has no https, and no digest is known to us.
    ("https://commondatastorage.googleapis.com/books1000/notMNIST_small.tar.gz",),
    size=8_458_043,
    start=GZIP,
)

LETTERS = tuple("ABCDEFGHIJ")
UNREADABLE = frozenset(
    {
        "A/RGVtb2NyYXRpY2FCb2xkT2xkc3R5bGUgQm9sZC50dGY=.png",
        "F/Q3Jvc3NvdmVyIEJvbGRPYmxpcXVlLnR0Zg==.png",
    }
)
"""Two files of the original notMNIST_small that hold no image: 18,724 remain."""


def mnist(
    split: str = "test", *, folder: str | Path | None = None, download: bool = True
) -> ImageSet:
    """Handwritten digits: 60,000 to train and 10,000 to test, 28 × 28, grey.

    Parameters
    ----------
    split : str
        "train" or "test".
    folder : path, optional
        Holds the IDX files (such as t10k-images-idx3-ubyte, plain or .gz), or has them in data, raw
        or MNIST/raw. Nothing is downloaded then.
    download : bool
        Whether to fetch what is not in the cache, md5 checked; otherwise MissingDataError.

    Returns
    -------
    ImageSet
        Images (n, 28, 28, 1); classes "0" to "9".
    """
    return MNIST.load(split, folder, download)


def fashion_mnist(
    split: str = "test", *, folder: str | Path | None = None, download: bool = True
) -> ImageSet:
    """Articles of clothing: 60,000 to train and 10,000 to test, 28 × 28, grey.

    Debian's package dataset-fashion-mnist is used where it is installed. MIT licence.

    Parameters
    ----------
    split : str
        "train" or "test".
    folder : path, optional
        Holds the IDX files, plain or .gz, or has them in data, raw or FashionMNIST/raw.
    download : bool
        Whether to fetch what is not here, md5 checked; otherwise MissingDataError.

    Returns
    -------
    ImageSet
        Images (n, 28, 28, 1); classes "T-shirt/top" to "Ankle boot".
    """
    return FASHION_MNIST.load(split, folder, download)


def notmnist(*, folder: str | Path | None = None, download: bool = True) -> ImageSet:
    """Letters A to J in 18,724 strange typefaces, 28 × 28, grey: inputs foreign to MNIST models.

    No digest of the original is known to us, so it is only fetched over https: its length is
    checked, and the digest of the first download recorded and expected of later ones. Needs Pillow.

    Parameters
    ----------
    folder : path, optional
        Has sub-folders A to J of images (or holds notMNIST_small with them, or the archive
        notMNIST_small.tar.gz), or the archive itself, or a folder of IDX files t10k-….
    download : bool
        Whether to fetch what is not in the cache; otherwise MissingDataError.

    Returns
    -------
    ImageSet
        Images (n, 28, 28, 1), sorted by letter, then by file name.
    """
    if folder is None:
        return _letters(open_tree(NOTMNIST.get(download=download)))
    home = existing_folder(folder)
    if not home.is_dir():
        return _letters(open_tree(home))
    if any((home / letter).is_dir() for letter in LETTERS):
        return _letters(open_tree(home))
    for name in ("notMNIST_small", NOTMNIST.name):
        if (home / name).exists():
            return _letters(open_tree(home / name))
    try:
        paths = [
            file_in(home, (f"{stem}.gz", stem), ("", "data", "raw")) for stem in _stems("test")
        ]
    except MissingDataError as error:
        raise MissingDataError(
            f"folder must have sub-folders A to J, or hold {NOTMNIST.name} or IDX files: "
            f"got {home}."
        ) from error
    return _image_set(paths, LETTERS)


def _variants(place: Path, stem: str) -> Iterator[Path]:
    return (path for path in (place / f"{stem}.gz", place / stem) if path.exists())


def _stems(split: str) -> tuple[str, str]:
    prefix = PREFIXES[split]
    return f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"


def _image_set(paths: list[Path], classes: tuple[str, ...]) -> ImageSet:
    images, labels = paths
    pixels, numbers = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or pixels.shape[1:] != (SIDE, SIDE):
        raise DamagedDataError(f"{images} must hold n images of 28 × 28: got {pixels.shape}.")
    if numbers.shape != pixels.shape[:1]:
        raise DamagedDataError(
            f"{labels} must hold {len(pixels):,} labels, one per image: got {numbers.shape}."
        )
    if numbers.size and numbers.max() >= len(classes):
        raise DamagedDataError(
            f"{labels} must hold labels 0 to {len(classes) - 1}: got {numbers.max()}."
        )
    return ImageSet(pixels[..., None], numbers.astype(np.intp), classes)


def _letters(tree: Tree) -> ImageSet:
    images, keys = [], []
    for name in tree.names():
        path = PurePosixPath(name)
        letter, key = path.parent.name, f"{path.parent.name}/{path.name}"
        if letter not in LETTERS or path.suffix != ".png" or key in UNREADABLE:
            continue
        image = decode(tree.read(name), tree.path / name, grey=True)
        if image.shape != (SIDE, SIDE, 1):
            raise DamagedDataError(
                f"{tree.path / name} must be 28 × 28: got {image.shape[0]} × {image.shape[1]}."
            )
        images.append(image)
        keys.append(key)
    if not images:
        raise MissingDataError(f"{tree.path} must have images in folders A to J: got none.")
    order = sorted(range(len(keys)), key=keys.__getitem__)
    labels = [LETTERS.index(keys[i][0]) for i in order]
    return ImageSet(np.stack([images[i] for i in order]), np.array(labels, dtype=np.intp), LETTERS)
