"""Files of logits as named data sets: logits to fit on, and others whose truth is known.

What a folder may hold, by file name:

* ``MODEL_cifar10_LANGUAGE.npz``, ``cnn_NETWORK_test.npz``: logits, labels and CIFAR-10H's human
  distributions of the CIFAR-10 test images. Half to fit, half to evaluate.
* ``snli_MODEL.npz``, ``mnli_MODEL.npz``: ChaosNLI items with the distributions of 100 annotators,
  and other items with labels. Two data sets: fitted on the other items ("own"), and half and half.
* ``tabpfn_SET_seedN.npz``: tables with semi-synthetic truth, fitted on the training rows.
* ``fer_ferplus.npz``: logits, labels and the votes of about ten people on faces. Half and half.

Two more, for experiments that ask for everything:

* ``resnet20_cifar10.npz``: a network on CIFAR-10's training and test images, with CIFAR-10H from
  another file. Two data sets: fitted on the training images ("training"), and half and half.
* ``MODEL_dermamnist_en.npz``: training and test logits, with a forest as the truth, see
  `forest_split`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal_lab.experiments.harness.forest_truth import forest

FAMILIES = {
    "zero-shot": "Zero-shot, CIFAR-10H",
    "cnn": "CNNs, CIFAR-10H",
    "nli": "ChaosNLI",
    "faces": "Faces, FER+",
    "derma": "DermaMNIST, forest truth",
    "tabpfn": "TabPFN, semi-synthetic",
}
"""Kinds of data sets, in the order of tables and figures."""

PATTERNS = {
    "zero-shot": r"(?P<model>[^_]+)_cifar10_(?P<language>[^_]+)",
    "cnn": r"cnn_(?P<network>.+)_test",
    "nli": r"(?P<corpus>snli|mnli)_(?P<model>[^_]+)",
    "faces": r"(?P<model>[^_]+)_ferplus",
    "tabpfn": r"tabpfn_(?P<table>.+)_(?P<number>\d+)_seed(?P<seed>\d+)",
}
"""Names of files, without .npz."""

RESNET20 = "resnet20_cifar10"
"""The file, without .npz, of a network on CIFAR-10's training and test images."""

MORE_PATTERNS = {"resnet20": RESNET20, "derma": r"(?P<model>[^_]+)_dermamnist_en"}
"""Names of files whose truth is not in them: of another file, or made by a forest."""

HELD_OUT, ELSEWHERE, TRAINING = "held-out", "elsewhere", "training"
FITTED_ON = {
    HELD_OUT: "Fitted on held-out rows",
    ELSEWHERE: "Fitted on rows of another kind",
    TRAINING: "Fitted on training rows",
}
"""What a data set's model is fitted on: rows like those evaluated, which it has not seen; NLI items
on which people agree more; or the rows that the model itself was trained on."""

SHARED_FILES = (
    *(f"clip_cifar10_{language}" for language in ("en", "fr", "zh", "sw")),
    *(f"siglip_cifar10_{language}" for language in ("en", "fr", "zh", "sw")),
    "siglip2_cifar10_en",
    "cnn_densenet_BC_100_12_test",
    "cnn_resnet_basic_110_test",
    "cnn_resnet_preact_bottleneck_164_test",
    "cnn_resnext_29_8x64d_test",
    "cnn_vgg_15_BN_64_test",
    "snli_roberta0",
    "snli_bert0",
    "mnli_roberta0",
    "fer_ferplus",
    *(
        f"tabpfn_{table}_seed{seed}"
        for table in (
            "anneal_46906",
            "maternal_health_risk_46941",
            "splice_46958",
            "students_dropout_46960",
            "website_phishing_46963",
            "MIC_46980",
        )
        for seed in (1, 2)
    ),
)
"""The files of the project's own experiments, in the order of tables; others may be added."""

MORE_FILES = (RESNET20, "biomedclip_dermamnist_en", "clip_dermamnist_en")
"""Those of the experiments that ask for everything."""

TITLES = {
    "clip": "CLIP",
    "siglip": "SigLIP",
    "siglip2": "SigLIP-2",
    "en": "English",
    "fr": "French",
    "zh": "Chinese",
    "sw": "Swahili",
    "densenet_BC_100_12": "DenseNet-BC 100-12",
    "resnet_basic_110": "ResNet 110",
    "resnet_preact_bottleneck_164": "ResNet 164, pre-act",
    "resnext_29_8x64d": "ResNeXt 29, 8×64d",
    "vgg_15_BN_64": "VGG 15",
    "bert0": "BERT",
    "roberta0": "RoBERTa",
    "biomedclip": "BiomedCLIP",
    "fer": "fer's network",
    "maternal_health_risk": "maternal health",
}
"""Parts of file names, as people write them."""


class NoDataAvailableError(ValueError):
    """The folder holds none of the data that an experiment can use."""


def require_some(found: Sized, what: str, folder: Path, *, needs: Iterable[str]) -> None:
    """Raise NoDataAvailableError, and say what is needed, if nothing was found."""
    if not found:
        raise NoDataAvailableError(
            f"data must hold {what}: got none in {folder}. Needs {', '.join(needs)}."
        )


def require_file(folder: Path, name: str) -> Path:
    """The path of a file in the folder; NoDataAvailableError if it is not there."""
    check_folder(folder)
    path = folder / name
    if not path.exists():
        raise NoDataAvailableError(f"data must hold {name}: got none in {folder}.")
    return path


def available(folder: Path, files: Iterable[str]) -> tuple[list[str], tuple[str, ...]]:
    """Which files of logits a folder holds, and the names of those that it lacks.

    Parameters
    ----------
    folder : path
        Folder of data. NoDataAvailableError if it holds none of the files.
    files : iterable of str
        Names of files, without .npz.
    """
    check_folder(folder)
    wanted = list(dict.fromkeys(files))
    found = [name for name in wanted if (folder / f"{name}.npz").exists()]
    absent = tuple(f"{name}.npz" for name in wanted if name not in found)
    require_some(found, "files of logits", folder, needs=absent)
    return found, absent


@dataclass(frozen=True)
class LogitSplit:
    """A data set in two parts, one to fit on and one to evaluate on.

    Attributes
    ----------
    logits : (m, K) array
        Logits to fit on.
    labels : (m,) array
        Their labels.
    new_logits : (n, K) array
        Logits to evaluate on.
    truth : (n, K) array
        The true distribution of each of these rows.
    """

    logits: NDArray[Any]
    labels: NDArray[Any]
    new_logits: NDArray[Any]
    truth: NDArray[Any]


@dataclass(frozen=True)
class DataSet:
    """A file of logits and one way to split it.

    Attributes
    ----------
    name : str
        Its name in rows of results.
    title : str
        Its name in tables and figures, within its family.
    family : str
        A key of FAMILIES.
    file : str
        The name of the file.
    halves : bool
        Whether one half of the rows with a truth is for fitting and the other for evaluation. If
        not, all of them are for evaluation, and the file's training rows for fitting.
    """

    name: str
    title: str
    family: str
    file: str
    halves: bool

    @property
    def stem(self) -> str:
        """The name of the file without .npz."""
        return Path(self.file).stem

    @property
    def drawn(self) -> bool:
        """Whether the seed matters: it draws halves, or a forest and labels."""
        return self.halves or self.family == "derma"

    @property
    def fitted_on(self) -> str:
        """What it is fitted on, a key of FITTED_ON."""
        if self.drawn:
            return HELD_OUT
        return ELSEWHERE if self.family == "nli" else TRAINING

    def load(self, folder: Path, seed: int) -> LogitSplit:
        """Read the file; the seed draws the halves, or the forest and its labels."""
        if self.family == "derma":
            return forest_split(folder, self.stem, seed)
        if self.stem == RESNET20:
            whole = resnet20_split(folder)
            if not self.halves:
                return whole
            (labels,) = read(folder / self.file, "test_labels")
            return in_halves(whole.new_logits, labels, whole.truth, seed)
        prefix = "test_" if self.family in ("nli", "tabpfn") else ""
        truth = "truth" if self.family == "tabpfn" else "human"
        fit = () if self.halves else ("train_logits", "train_labels")
        keys = (f"{prefix}logits", f"{prefix}labels", truth, *fit)
        logits, labels, truths, *rest = read(folder / self.file, *keys)
        if not self.halves:
            return LogitSplit(rest[0], rest[1], logits, truths)
        return in_halves(logits, labels, truths, seed)


def in_halves(
    logits: NDArray[Any], labels: NDArray[Any], truth: NDArray[Any], seed: int
) -> LogitSplit:
    """Rows in two halves at random. The same seed and number of rows give the same halves."""
    order = np.random.default_rng(seed).permutation(len(logits))
    first, second = np.split(order, [len(order) // 2])
    return LogitSplit(logits[first], labels[first], logits[second], truth[second])


def read(path: Path, *keys: str) -> list[NDArray[Any]]:
    """These arrays of an .npz file."""
    with np.load(path, allow_pickle=False) as archive:
        absent = [key for key in keys if key not in archive.files]
        if absent:
            raise ValueError(
                f"{path} must hold {', '.join(keys)}: got no {' and no '.join(absent)}."
            )
        return [archive[key] for key in keys]


def draw_labels(truth: NDArray[Any], rng: np.random.Generator) -> NDArray[np.intp]:
    """(n,) a label from each of the distributions (n, K)."""
    shares = truth.cumsum(axis=1)
    beyond = shares / shares[:, -1:] > rng.random((len(truth), 1))
    return np.asarray(beyond.argmax(axis=1))


def human_labels(folder: Path, labels: NDArray[Any]) -> NDArray[Any] | None:
    """CIFAR-10H, (10,000, 10), from any file that holds it for test images with these labels."""
    for pattern in ("*_cifar10_*.npz", "cnn_*_test.npz"):
        for path in sorted(folder.glob(pattern)):
            with np.load(path, allow_pickle=False) as archive:
                if "human" in archive.files and np.array_equal(archive["labels"], labels):
                    return np.asarray(archive["human"])
    return None


def contents(folder: Path, file: str) -> tuple[Any, ...]:
    """What the splits of a file, without .npz, are made of: itself, and what they take elsewhere.

    ResNet-20's file has no truth of its own, see `resnet20_split`.
    """
    path = folder / f"{file}.npz"
    if file != RESNET20:
        return (path,)
    (labels,) = read(path, "test_labels")
    return path, human_labels(folder, labels)


def same_rows(folder: Path, file: str) -> LogitSplit:
    """All rows of a file to fit on and, with CIFAR-10H, to evaluate on."""
    logits, labels, human = read(folder / f"{file}.npz", "logits", "labels", "human")
    return LogitSplit(logits, labels, logits, human)


def own_split(folder: Path, file: str) -> LogitSplit:
    """The training rows of an NLI model to fit on, and ChaosNLI's items to evaluate on."""
    keys = ("train_logits", "train_labels", "test_logits", "human")
    return LogitSplit(*read(folder / f"{file}.npz", *keys))


def resnet20_split(folder: Path) -> LogitSplit:
    """ResNet-20's training logits to fit on, and its test logits to evaluate on.

    The truth is CIFAR-10H if any file holds it, and else the labels.
    """
    keys = ("cifar10_train", "train_labels", "cifar10_test", "test_labels")
    logits, labels, new, new_labels = read(folder / f"{RESNET20}.npz", *keys)
    truth = human_labels(folder, new_labels)
    if truth is None:
        truth = np.eye(logits.shape[1])[new_labels]
    return LogitSplit(logits, labels, new, truth)


def forest_split(folder: Path, file: str, seed: int) -> LogitSplit:
    """Training logits to fit on, and test logits to evaluate on; the truth is a random forest.

    The published recipe for tables, with the logits as the features: a forest of depth 5 learns the
    given labels of the training rows, and is the truth from then on. Labels to fit on are drawn
    from it. The model is zero-shot and has seen none of these labels. Since the truth depends on
    the logits alone, it says how well sets hold what can be known from them, not what a physician
    would say.
    """
    z, given, new = read(folder / f"{file}.npz", "train_logits", "train_labels", "test_logits")
    truth = forest(z, given, z.shape[1], seed)
    labels = draw_labels(truth(z), np.random.default_rng(seed))
    return LogitSplit(z, labels, new, truth(new))


def check_folder(folder: Path) -> None:
    """Raise unless the folder of data exists."""
    if not folder.is_dir():
        raise ValueError(
            f"data must be a folder of logits: got {folder}, which is none. "
            "Give it with --data or the environment variable DECAL_DATA."
        )


def find(folder: Path, *, everything: bool = False) -> tuple[list[DataSet], list[str]]:
    """The data sets in a folder, in the order of tables, and the names of the files it lacks.

    Parameters
    ----------
    folder : path
        Folder of data.
    everything : bool
        Also data sets whose truth is not in their file: ResNet-20, if another file holds the truth
        of its images, and DermaMNIST, if scikit-learn is installed.
    """
    check_folder(folder)
    present = {path.stem for path in folder.glob("*.npz")}
    wanted = list(SHARED_FILES)
    if everything:
        wanted += MORE_FILES
    absent = [f"{stem}.npz" for stem in wanted if stem not in present]
    found = in_order(data for stem in present for data in described(stem, everything=everything))
    if any(d.family == "derma" for d in found) and find_spec("sklearn") is None:
        found = [d for d in found if d.family != "derma"]
        absent.append("scikit-learn, for the forest that is the truth of DermaMNIST")
    if any(d.stem == RESNET20 for d in found) and contents(folder, RESNET20)[1] is None:
        found = [d for d in found if d.stem != RESNET20]
        absent.append(f"CIFAR-10H, for {RESNET20}.npz")
    return found, absent


def in_order(data: Iterable[DataSet]) -> list[DataSet]:
    """Data sets by family; within a family those of SHARED_FILES first, then others by name."""

    def place(d: DataSet) -> tuple[int, int, str, bool]:
        order = (*SHARED_FILES, *MORE_FILES)
        known = order.index(d.stem) if d.stem in order else len(order)
        return list(FAMILIES).index(d.family), known, d.stem, d.halves

    return sorted(data, key=place)


def named(name: str) -> DataSet:
    """The data set of this name in rows of results, whether or not its file is available."""
    stem = name.partition("/")[0]
    for candidate in (stem, f"{stem}_test"):
        for data in described(candidate, everything=True):
            if data.name == name:
                return data
    raise ValueError(f"name must be of a data set: got {name!r}.")


def described(stem: str, *, everything: bool = False) -> Iterator[DataSet]:
    """The data sets in a file `stem`.npz: two for NLI and ResNet-20, and one for others."""
    for family, pattern in (PATTERNS | (MORE_PATTERNS if everything else {})).items():
        match = re.fullmatch(pattern, stem)
        if match is None:
            continue
        file, part = f"{stem}.npz", {k: TITLES.get(v, v) for k, v in match.groupdict().items()}
        if family == "zero-shot":
            yield DataSet(stem, f"{part['model']}, {part['language']}", family, file, True)
        elif family == "cnn":
            yield DataSet(stem.removesuffix("_test"), part["network"], family, file, True)
        elif family == "resnet20":
            yield DataSet(f"{stem}/training", "ResNet-20, training rows", "cnn", file, False)
            yield DataSet(f"{stem}/half", "ResNet-20, halves", "cnn", file, True)
        elif family == "nli":
            title = f"{part['model']}, {part['corpus'].upper()}"
            yield DataSet(f"{stem}/own", f"{title}, own split", family, file, False)
            yield DataSet(f"{stem}/half", f"{title}, halves", family, file, True)
        elif family == "tabpfn":
            title = f"{part['table'].replace('_', ' ')}, seed {part['seed']}"
            yield DataSet(stem, title, family, file, False)
        else:
            yield DataSet(stem, part["model"], family, file, family == "faces")
