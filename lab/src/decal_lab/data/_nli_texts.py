"""ChaosNLI: pairs of sentences, judged by a hundred people each; as texts and as embeddings."""

from __future__ import annotations

import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

from decal_lab.checks import check_choice, check_distributions
from decal_lab.data._archives import existing_folder, file_in, intact, open_tree, read_all
from decal_lab.data._array_files import read_npz
from decal_lab.data._data_sets import EmbeddingSet, TextSet
from decal_lab.data._downloads import DamagedDataError, MissingDataError, Remote, cache_folder

CHAOSNLI = Remote(
    "chaosnli",
    "chaosNLI_v1.0.zip",
    ("https://www.dropbox.com/s/h4j7dqszmpt2679/chaosNLI_v1.0.zip?dl=1",),
    start=b"PK",
)
FILES = {
    "snli": "chaosNLI_snli.jsonl",
    "mnli": "chaosNLI_mnli_m.jsonl",
    "alphanli": "chaosNLI_alphanli.jsonl",
}
PARTS = {
    "snli": ("premise", "hypothesis"),
    "mnli": ("premise", "hypothesis"),
    "alphanli": ("obs1", "obs2", "hyp1", "hyp2"),
}
NLI_CLASSES = ("entailment", "neutral", "contradiction")
CODES = {"snli": ("e", "n", "c"), "mnli": ("e", "n", "c"), "alphanli": ("1", "2")}
CLASSES = {"snli": NLI_CLASSES, "mnli": NLI_CLASSES, "alphanli": ("hyp1", "hyp2")}

EMBEDDINGS = {"snli": "snli", "mnli": "mnli_m"}
EMBEDDING_LENGTH = 768


def chaosnli(
    subset: str = "snli", *, folder: str | Path | None = None, download: bool = True
) -> TextSet:
    """Pairs of sentences, each judged by 100 people: 1,514 of SNLI, 1,599 of MNLI, 1,532 of αNLI.

    By Nie, Zhou and Bansal (2020), CC BY-NC 4.0. No digest of the original is known to us: that of
    the first download is recorded, and expected of later ones.

    Parameters
    ----------
    subset : str
        "snli", "mnli" (matched) or "alphanli".
    folder : path, optional
        Holds chaosNLI_snli.jsonl and so on (also in chaosNLI_v1.0, data/chaosNLI_v1.0 or chaosnli),
        or chaosNLI_v1.0.zip. By default, ``chaosnli`` in the folder of the environment variable
        DECAL_DATA, if it is there.
    download : bool
        Whether to fetch what is not in the cache.

    Returns
    -------
    TextSet
        Texts are (premise, hypothesis) pairs, for αNLI (observation 1, observation 2, hypothesis 1,
        hypothesis 2); labels are the majority as published.
    """
    check_choice(subset, "subset", tuple(FILES))
    name = FILES[subset]
    under = ("", "chaosNLI_v1.0", "data/chaosNLI_v1.0", "chaosnli")
    if folder is None:
        shared = os.environ.get("DECAL_DATA")
        if shared and (Path(shared) / "chaosnli" / name).exists():
            folder = Path(shared) / "chaosnli"
    if folder is None:
        path = CHAOSNLI.get(download=download)
    else:
        path = file_in(existing_folder(folder), (name, CHAOSNLI.name), under)
    if path.suffix == ".zip":
        content, path = read_all(open_tree(path), (name,))[name], path / name
    else:
        content = path.read_bytes()
    return _parsed(content, path, subset)


def chaosnli_embeddings(subset: str = "snli", *, folder: str | Path | None = None) -> EmbeddingSet:
    """ChaosNLI's pairs as vectors of 768 numbers, from which the paper's networks learn.

    They are the last hidden states of the model cross-encoder/nli-deberta-base, averaged over the
    tokens of a pair. No address of the files is known to us: they are written by
    chaosNLI_embedding.py of the public repository alireza-javanmardi/conformal-credal-sets.

    Parameters
    ----------
    subset : str
        "snli" or "mnli".
    folder : path, optional
        Holds snli.npz or snli.pkl (mnli_m for "mnli"), also in embeddings, with the arrays
        embedding (n, 768), label_dist (n, 3) and, optionally, premise and hypothesis (n,). By
        default, ``chaosnli`` in the cache. A pickle may hold arrays and text only: anything else in
        it is refused, never run.
    """
    check_choice(subset, "subset", tuple(EMBEDDINGS))
    stem = EMBEDDINGS[subset]
    names = (f"{stem}.npz", f"{stem}.pkl")
    home = cache_folder() / CHAOSNLI.dataset if folder is None else existing_folder(folder)
    try:
        path = file_in(home, names, ("", "embeddings", "chaosnli/embeddings"))
    except MissingDataError as error:
        raise MissingDataError(
            f"chaosnli embeddings need {names[0]} or {names[1]} in {home}: compute them (the mean "
            "of the last hidden states of cross-encoder/nli-deberta-base), or pass folder=…."
        ) from error
    arrays = read_npz(path) if path.suffix == ".npz" else _pickled_arrays(path)
    missing = [key for key in ("embedding", "label_dist") if key not in arrays]
    if missing:
        raise DamagedDataError(f"{path} must hold {missing[0]}: got {sorted(arrays)}.")
    vectors = np.asarray(arrays["embedding"])
    if vectors.ndim != 2 or vectors.shape[1] != EMBEDDING_LENGTH or vectors.dtype.kind != "f":
        raise DamagedDataError(
            f"{path} must hold embedding of n × 768 numbers: got {vectors.shape}, {vectors.dtype}."
        )
    shape = (len(vectors), len(NLI_CLASSES))
    try:
        human = check_distributions(arrays["label_dist"], shape=shape, name="label_dist")
    except ValueError as error:
        raise DamagedDataError(f"{path}: {error}") from error
    texts = None
    if "premise" in arrays and "hypothesis" in arrays:
        pairs = zip(arrays["premise"], arrays["hypothesis"], strict=True)
        texts = tuple((str(premise), str(hypothesis)) for premise, hypothesis in pairs)
    return EmbeddingSet(vectors.astype(np.float32), human, texts, NLI_CLASSES)


def _parsed(content: bytes, path: Path, subset: str) -> TextSet:
    codes, parts = CODES[subset], PARTS[subset]
    texts, labels, counts, uids, old = [], [], [], [], []
    with intact(path):
        lines = content.decode("utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            texts.append(tuple(str(item["example"][part]) for part in parts))
            labels.append(codes.index(str(item["majority_label"])))
            old.append(codes.index(str(item["old_label"])))
            counts.append([int(item["label_counter"].get(code, 0)) for code in codes])
            uids.append(str(item["uid"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedDataError(
                f"{path} must hold a ChaosNLI item in every line: got {error!r} in line {number}."
            ) from error
        if not sum(counts[-1]):
            raise DamagedDataError(f"{path} must count votes: got none in line {number}.")
    if not texts:
        raise DamagedDataError(f"{path} must hold ChaosNLI items: got none.")
    if len(set(uids)) != len(uids):
        twice = next(uid for uid in uids if uids.count(uid) > 1)
        raise DamagedDataError(f"{path} must hold every item once: got {twice!r} twice.")
    votes = np.array(counts, dtype=np.intp)
    return TextSet(
        texts=tuple(texts),
        labels=np.array(labels, dtype=np.intp),
        human=votes / votes.sum(axis=1, keepdims=True),
        counts=votes,
        uids=tuple(uids),
        classes=CLASSES[subset],
        old_labels=np.array(old, dtype=np.intp),
    )


class _ArraysOnly(pickle.Unpickler):
    """Reads a pickle of NumPy arrays and plain values; whatever else it asks for is refused."""

    ALLOWED = frozenset(
        (f"numpy{core}.{module}", name)
        for core in (".core", "._core")
        for module, name in (("multiarray", "_reconstruct"), ("numeric", "_frombuffer"))
    ) | {("numpy", "ndarray"), ("numpy", "dtype")}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no array")
        here = "numpy._core" if hasattr(np, "_core") else "numpy.core"  # NumPy 2, NumPy 1
        return super().find_class(re.sub(r"^numpy\._?core", here, module), name)


def _pickled_arrays(path: Path) -> dict[str, Any]:
    with intact(path), path.open("rb") as file:
        content = _ArraysOnly(file).load()
    if not isinstance(content, dict):
        raise DamagedDataError(f"{path} must hold a dictionary: got {type(content).__name__}.")
    return content
