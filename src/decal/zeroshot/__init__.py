"""Vision-language models as zero-shot classifiers: CLIP, SigLIP, SigLIP-2, and open_clip's.

A label becomes a text ("This is a photo of a cat"), and its logit for an image is

    z = scale * cos(image, text) + bias,

with the scale, and for SigLIP the bias, that the model has learnt. CLIP was trained with a softmax
over such logits, SigLIP with a sigmoid for each; the softmax over labels ignores the bias.

Imports from `_base`, `io`, `credal`, `decalibrator`, `choose` and `llm`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, needs
from decal._base.numerics import Array, softmax
from decal._base.row_checks import check_logits
from decal.credal import HullCredalSet

with needs(
    "torch",
    "transformers",
    "PIL",
    message="decal.zeroshot needs transformers and PyTorch: pip install 'decal[zeroshot]'",
):
    import torch

    from decal.llm import check_spellings
    from decal.zeroshot._encoders import (
        Encoder,
        ImageLike,
        OpenClipEncoder,
        TransformersEncoder,
        check_encoder,
        load_open_clip,
        load_transformers,
        require_several,
        to_rgb,
    )
    from decal.zeroshot._pretrained import PretrainedClassifier, Scores, batches

__all__ = ["TEMPLATES", "Encoder", "OpenClipEncoder", "TransformersEncoder", "ZeroShotClassifier"]

TEMPLATES = {
    "en": "This is a photo of a {}",
    "fr": "Ceci est une photo de {}",
    "zh": "这是一张{}的照片",
    "sw": "Hii ni picha ya {}",
}
"""The paper's templates, by language."""

Labels = Sequence[str] | Mapping[str, str]
Templates = str | Sequence[str]


class ZeroShotClassifier(PretrainedClassifier):
    """Images in, logits over your labels out, without training.

    Every text is encoded once: classifiers made by `subset` and `replace` share its vector.

    Parameters
    ----------
    encoder : Encoder
        The model; `from_pretrained` and `from_open_clip` load one. `TransformersEncoder` and
        `OpenClipEncoder` make one of a model in memory.
    labels : sequence of str, or mapping
        The words for two or more classes; or names of classes with words, which may repeat (Swahili
        "ndege" is both airplane and bird).
    templates : str or sequence of str, optional
        A text with {} where the word goes; or several, whose unit vectors are averaged (`spread`
        keeps what each says); or a language of `TEMPLATES`, "en", "fr", "zh" or "sw".

    Attributes
    ----------
    classes, templates : tuples of str
        The names of the K classes, column by column; and the texts with {}.
    head : str
        "softmax" (CLIP) or "sigmoid" (SigLIP), as the model itself states.
    """

    def __init__(self, encoder: Encoder, labels: Labels, *, templates: Templates = "en") -> None:
        self.head = check_encoder(encoder).head
        self._encoder = encoder
        self._known: dict[str, Array] = {}
        self._use(check_words(labels), check_templates(templates))

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        labels: Labels,
        *,
        templates: Templates = "en",
        device: Any = None,
        **options: Any,
    ) -> Self:
        """Load CLIP, SigLIP or SigLIP-2; computes in float32, with images prepared by Pillow.

        From a folder that `save_pretrained` or `hf download` wrote, or from the hub, as
        "openai/clip-vit-base-patch32"; by default to a GPU if PyTorch has one. Options are those of
        transformers: `revision`, `token`, `cache_dir`, `local_files_only`.
        """
        words, texts = check_words(labels), check_templates(templates)
        encoder = load_transformers(str(name_or_path), device, options)
        return cls(encoder, words, templates=texts)

    @classmethod
    def from_open_clip(
        cls,
        name_or_path: str | Path,
        labels: Labels,
        *,
        templates: Templates = "en",
        device: Any = None,
    ) -> Self:
        """Load a model of the open_clip package, which cuts texts to the model's length.

        From a folder with open_clip_config.json, or from the hub, as
        "microsoft/BiomedCLIP-PubMedBERT_256-vit_base_patch16_224".
        """
        words, texts = check_words(labels), check_templates(templates)
        return cls(load_open_clip(str(name_or_path), device), words, templates=texts)

    def __repr__(self) -> str:
        settings = f"templates={list(self.templates)}, head={self.head!r}"
        return f"ZeroShotClassifier({len(self.classes)} classes, {settings})"

    # Labels

    def subset(self, classes: Iterable[str]) -> Self:
        """A classifier for some of the classes, in the given order. No text is encoded."""
        chosen = list(classes)
        for index, name in enumerate(chosen):
            if name not in self._words:
                rule, fact = f"be among {', '.join(self.classes)}", f"{name!r} at index {index}"
                raise InputError("classes", rule, fact, "For other labels use replace.")
        if len(set(chosen)) != len(chosen):
            raise InputError("classes", "be distinct", "one more than once")
        return self.replace({name: self._words[name] for name in chosen})

    def replace(self, labels: Labels | None = None, *, templates: Templates | None = None) -> Self:
        """A classifier with other labels or templates. Only new texts are encoded."""
        other = copy.copy(self)  # shares the vectors of texts
        other._use(
            self._words if labels is None else check_words(labels),
            self.templates if templates is None else check_templates(templates),
        )
        return other

    def apart(self) -> tuple[Self, ...]:
        """One classifier for each template, with the same labels. No text is encoded."""
        return tuple(self.replace(templates=text) for text in self.templates)

    # Images

    def embeddings(
        self, images: Iterable[ImageLike], *, batch_size: int = 32, progress: bool = False
    ) -> Scores:
        """(n, d) unit vectors of images; `logits_from_embeddings` turns them into logits.

        Parameters
        ----------
        images : iterable
            Pillow images, paths of image files, or uint8 arrays (height, width) or (height, width,
            3); or an array (n, height, width, 3). EXIF tags turn photographs upright.
        batch_size, progress : int, bool
            The number of images opened and encoded at once, and whether to show a bar.
        """
        return np.concatenate(list(self._embedded(images, batch_size, progress)))

    def logits_from_embeddings(self, embeddings: Any) -> Scores:
        """(n, K) logits of images already embedded: scale * cos + bias."""
        vectors = _unit(check_logits(embeddings, name="embeddings"))
        width = self._class_vectors.shape[1]
        if vectors.shape[1] != width:
            rule = f"have {width} columns, as this model's"
            raise InputError("embeddings", rule, f"{vectors.shape[1]}")
        cosines = vectors @ self._class_vectors.T
        return np.asarray(self._encoder.scale * cosines + self._encoder.bias, dtype=np.float32)

    def logits(
        self, images: Iterable[ImageLike], *, batch_size: int = 32, progress: bool = False
    ) -> Scores:
        """(n, K) logits of images: scale * cos + bias. Parameters as for `embeddings`."""
        parts = self._embedded(images, batch_size, progress)
        return np.concatenate([self.logits_from_embeddings(part) for part in parts])

    def spread(
        self,
        images: Iterable[ImageLike],
        *,
        others: Iterable[ZeroShotClassifier] = (),
        batch_size: int = 32,
        progress: bool = False,
    ) -> HullCredalSet:
        """All mixtures of what each template says alone: a credal set instead of an average.

        `others` are this model with other words for the classes, made by `replace`; each of their
        templates counts, too. Every image is encoded once.
        """
        each = [single for one in (self, *others) for single in one.apart()]
        for single in each:
            if single.classes != self.classes or single._encoder is not self._encoder:
                rule = f"be this model for the classes {self.classes}"
                remedy = "Make them with replace(labels={class: word, …})."
                raise InputError("others", rule, f"{single}", remedy)
        vectors = self.embeddings(images, batch_size=batch_size, progress=progress)
        logits = [single.logits_from_embeddings(vectors).astype(np.float64) for single in each]
        vertices = np.stack([softmax(z) for z in logits], axis=1)
        return HullCredalSet(vertices, axis=1, classes=self.classes)

    def _use(self, words: dict[str, str], templates: tuple[str, ...]) -> None:
        """Take words and templates, and encode their texts unless they are known."""
        self._words, self.classes, self.templates = words, tuple(words), templates
        texts = [[t.replace("{}", word) for t in templates] for word in words.values()]
        new = list(dict.fromkeys(t for row in texts for t in row if t not in self._known))
        for _, batch in batches(new, 256, unit="texts"):
            with torch.inference_mode():
                vectors = self._encoder.encode_texts(batch).float().cpu().numpy()
            self._known.update(zip(batch, _unit(vectors), strict=True))
        means = [np.mean([self._known[t] for t in row], axis=0) for row in texts]
        self._class_vectors = _unit(np.stack(means))

    def _embedded(
        self, images: Iterable[ImageLike], batch_size: int, progress: bool
    ) -> Iterator[Scores]:
        """Unit vectors (b, d) of the images of each batch."""
        require_several(images)
        start = None
        for start, batch in batches(images, batch_size, unit="images", progress=progress):
            opened = [to_rgb(image, index) for index, image in enumerate(batch, start)]
            with torch.inference_mode():
                vectors = self._encoder.encode_images(opened).float().cpu().numpy()
            yield _unit(vectors).astype(np.float32)
        if start is None:
            raise InputError("images", "hold at least one image", "none")


def check_words(labels: Labels) -> dict[str, str]:
    """The word of each class, by its name; two classes or more."""
    return {name: word for name, (word,) in check_spellings(labels, several=False).items()}


def check_templates(templates: Templates) -> tuple[str, ...]:
    """Texts with one {} each; the name of a language selects the paper's template."""
    texts = (templates,) if isinstance(templates, str) else tuple(templates)
    if not texts:
        raise InputError("templates", "be one text or more", "none")
    for text in texts:
        if text not in TEMPLATES and text.count("{}") != 1:
            remedy = f"The paper's templates go by {', '.join(map(repr, TEMPLATES))}."
            rule = "hold {} once, where the label goes"
            raise InputError("templates", rule, f"{text!r}", remedy)
    return tuple(TEMPLATES.get(text, text) for text in texts)


def _unit(vectors: NDArray[Any]) -> Array:
    """(n, d) unit vectors in float64: a logit may be a hundred times a cosine."""
    rows = vectors.astype(np.float64)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
