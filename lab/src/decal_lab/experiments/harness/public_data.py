"""What data the experiments need, what of them is here, and fetching those that are public.

Logits of zero-shot models are public in the paper's repository, and images at their own addresses:
`decal_lab.data` knows these, shows progress, checks digests and resumes. Logits are kept as .npz in
the folder of data, in the format of `logit_sets`; images in the cache of `decal_lab.data`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal.io import replacing, write_npz
from decal_lab import data as datasets
from decal_lab.experiments.harness.logit_sets import MORE_FILES, RESNET20, SHARED_FILES

FOLDER = "reproduce"
"""The folder of the cache that takes the place of --data."""


@dataclass(frozen=True)
class Need:
    """Data of one kind that experiments can use.

    Attributes
    ----------
    files : tuple of str
        Names in the folder of data, or patterns of such names.
    images : tuple of str
        Names of functions of `decal_lab.data`.
    public : bool
        Whether decal knows where to get them.
    """

    files: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    public: bool = False

    def here(self, folder: Path) -> list[str]:
        """Those that are available."""
        loaded = (
            {entry.name for entry in datasets.available() if entry.where} if self.images else ()
        )
        found = [file for file in self.files if any(folder.glob(file))]
        return found + [name for name in self.images if name in loaded]

    def missing(self, folder: Path) -> list[str]:
        """Those that are not."""
        present = self.here(folder)
        return [name for name in (*self.files, *self.images) if name not in present]


def _npz(*beginnings: str) -> tuple[str, ...]:
    every = (*SHARED_FILES, *MORE_FILES)
    return tuple(f"{stem}.npz" for stem in every if stem.startswith(beginnings))


NEEDS = {
    "zero-shot logits": Need(_npz("clip_cifar10", "siglip"), public=True),
    "DermaMNIST logits": Need(_npz("biomedclip", "clip_derma"), public=True),
    "CNN logits": Need(_npz("cnn_")),
    "ResNet-20 logits": Need((f"{RESNET20}.npz",)),
    "NLI logits": Need(_npz("snli_", "mnli_")),
    "FER+ logits": Need(_npz("fer_")),
    "TabPFN logits": Need(_npz("tabpfn_")),
    "tables": Need(("tabular/*.csv",)),
    "MRI ratings": Need(("mriqc/x_abide.csv", "mriqc/labels_abide_allraters.csv")),
    "ordered ratings": Need(("lidc/lidc_nodules.csv", "lewidi/CSC_*.json")),
    "X-ray findings": Need(("chexpert/chexpert_raters.npz",)),
    "images": Need(images=("fashion_mnist", "mnist", "notmnist"), public=True),
}
"""Kinds of data by name."""


def default_folder() -> Path:
    """The folder of data if none is given: in the cache, where downloads are kept."""
    return datasets.cache_folder() / FOLDER


def status(needs: Iterable[str], folder: Path) -> str:
    """What is here of each kind, in words."""
    parts = []
    for name in needs:
        need = NEEDS[name]
        total, count = len(need.files) + len(need.images), len(need.here(folder))
        state = "here" if count == total else f"{count} of {total} here"
        if count < total:
            state += ", can be downloaded" if need.public else ", needs --data"
        parts.append(f"{name} ({state})")
    return "; ".join(parts)


def downloadable(needs: Iterable[str], folder: Path) -> list[str]:
    """Names of missing files and images that are public."""
    kinds = [NEEDS[name] for name in dict.fromkeys(needs) if NEEDS[name].public]
    return [name for need in kinds for name in need.missing(folder)]


def download(names: Sequence[str], folder: Path) -> None:
    """Fetch public data: logits into the folder, which is made, images into the cache.

    Parameters
    ----------
    names : sequence of str
        As `downloadable` names them.
    folder : path
        Folder of data.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name.endswith(".npz"):
            _keep_logits(Path(name).stem, folder / name)
        elif name == "notmnist":
            datasets.notmnist()
        else:
            for split in ("train", "test"):
                getattr(datasets, name)(split)


def _keep_logits(stem: str, path: Path) -> None:
    """Download published logits, and write them as the experiments read them."""
    found = datasets.published_logits(stem)
    prefix = "" if found.train_logits is None else "test_"
    arrays: dict[str, NDArray[Any] | None] = {
        f"{prefix}logits": found.logits,
        f"{prefix}labels": found.labels,
        "train_logits": found.train_logits,
        "train_labels": found.train_labels,
        "human": found.truth,
        "classes": None if found.classes is None else np.array(found.classes),
    }
    with replacing(path) as partial:
        write_npz(partial, {k: v for k, v in arrays.items() if v is not None}, compressed=True)
