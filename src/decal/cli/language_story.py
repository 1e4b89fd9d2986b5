"""The story of a text in one of three close languages: on the first page of the documentation."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import decal
from decal.datasets import LanguageSet, languages
from decal.explorer import Story, story, telling_row

RELATIVES = ("Danish", "Norwegian", "Swedish")
ALPHA = 0.95


def write_story(path: str | Path, *, link: tuple[str, str] | None = None) -> None:
    """Write the page to a file.

    Parameters
    ----------
    path : path
        An .html file, which is replaced.
    link : tuple of two str, optional
        Words and address of the link on the last step.
    """
    language_story(link=link).save(path)


def language_story(*, link: tuple[str, str] | None = None) -> Story:
    """Texts in Danish, Norwegian and Swedish, given that they are in one of the three.

    The text told about first is a whole sentence, as its last character shows, and among these the
    one that `decal.explorer.story` would choose.
    """
    fit, new = _among(languages("fit")), _among(languages("test"))
    model = decal.decalibrate(
        fit.logits, fit.labels, alpha=ALPHA, reference="best", classes=RELATIVES
    )
    sentences = np.flatnonzero([text.endswith(".") for text in new.texts])
    first = telling_row(model.predict(new.logits[sentences]), new.labels[sentences])
    return story(
        model,
        new.logits,
        labels=new.labels,
        texts=new.texts,
        names=new.meanings,
        row=int(sentences[first]),
        title="Which language is it?",
        link=link,
    )


def _among(texts: LanguageSet) -> LanguageSet:
    """The texts in one of the three languages, with their logits given that."""
    columns = [texts.classes.index(name) for name in RELATIVES]
    some = texts[np.isin(texts.labels, columns)]
    labels = np.searchsorted(columns, some.labels)
    return LanguageSet(some.texts, some.meanings, some.logits[:, columns], labels, RELATIVES)
