"""Vision-language models as zero-shot classifiers: CLIP, SigLIP, SigLIP-2, and open_clip's.

A label is turned into a text ("This is a photo of a cat"), text and image into vectors of length
one, and the logit of the label is

    z = scale * cos(image, text) + bias,

with the scale, and for SigLIP the bias, that the model has learnt. CLIP was trained with a softmax
over such logits. SigLIP was trained with a sigmoid for each of them; the softmax over a set of
labels is then a choice of one of them, and ignores the bias, which all labels share. These are the
logits that the paper published for either.
"""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import needs

with needs(
    "torch",
    "transformers",
    "PIL",
    message="decal.zeroshot needs transformers and PyTorch: pip install 'decal[zeroshot]'",
):
    import torch
    import transformers
    from PIL import Image, ImageOps, UnidentifiedImageError

from decal._base.checks import check_logits
from decal._base.numerics import Array, sigmoid, softmax
from decal._pretrained import (
    NEW_TRANSFORMERS,
    SINGLE_PRECISION,
    PretrainedClassifier,
    Scores,
    batches,
    choose_device,
    loading,
    require_weights,
)
from decal.credal import HullCredalSet

__all__ = [
    "TEMPLATES",
    "Encoder",
    "OpenClipEncoder",
    "TransformersEncoder",
    "ZeroShotClassifier",
]

TEMPLATES = {
    "en": "This is a photo of a {}",
    "fr": "Ceci est une photo de {}",
    "zh": "这是一张{}的照片",
    "sw": "Hii ni picha ya {}",
}
"""The paper's templates, by language."""

HEADS = {"clip": "softmax", "siglip": "sigmoid", "siglip2": "sigmoid"}
"""How a model was trained to read its logits, by the model type that its own config states."""

MODEL_FILES = (
    "config.json, model.safetensors, preprocessor_config.json or processor_config.json, "
    "tokenizer_config.json, and tokenizer.json or (SigLIP) spiece.model"
)
"""The files of a vision-language model."""

OPEN_CLIP_FILES = (
    "open_clip_config.json, open_clip_model.safetensors or open_clip_pytorch_model.bin, and the "
    "tokenizer's files; the config.json of the text model it names must be in the cache too"
)
"""The files of an open_clip model."""

TEXTS_PER_BATCH = 256

EIGHT_BITS = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr")
"""Pillow's modes of at most eight bits per channel, whose conversion to RGB loses no range."""

Labels = Sequence[str] | Mapping[str, str]
Templates = str | Sequence[str]
ImageLike = Any
"""A Pillow image, the path of an image file, or uint8 (height, width) or (height, width, 3)."""


class Encoder(Protocol):
    """A model with one tower for texts and one for images.

    Attributes
    ----------
    head : str
        "softmax" or "sigmoid", as the model itself states.
    scale, bias : float
        The scale and the bias of its logits; the bias is 0 for "softmax".
    """

    head: str
    scale: float
    bias: float

    def encode_texts(self, texts: list[str]) -> torch.Tensor:
        """(n, d) vectors, of any length."""

    def encode_images(self, images: list[Image.Image]) -> torch.Tensor:
        """(n, d) vectors of RGB images, of any length."""


class TransformersEncoder:
    """CLIP, SigLIP or SigLIP-2 from transformers.

    Parameters
    ----------
    model : CLIPModel, SiglipModel or Siglip2Model
        The model. It is put into evaluation mode, and stays there.
    tokenizer, image_processor
        Those of the model.
    """

    def __init__(self, model: Any, tokenizer: Any, image_processor: Any) -> None:
        self.head = head_of(model.config)
        if hasattr(model, "logit_bias") != (self.head == "sigmoid"):
            raise ValueError(
                "model must have a logit_bias if and only if its head is a sigmoid: got model type "
                f"{model.config.model_type!r} for a {type(model).__name__}."
            )
        self.scale = float(model.logit_scale.detach().exp())
        self.bias = float(model.logit_bias.detach()) if self.head == "sigmoid" else 0.0
        self._limit = int(model.config.text_config.max_position_embeddings)
        # SigLIP reads a text at its last position, even if that is padding: it was trained on
        # texts padded to the full length, and its vectors of shorter texts are meaningless. CLIP
        # never reads beyond the end token.
        self._padding: dict[str, Any] = {"padding": "longest"}
        if self.head == "sigmoid":
            self._padding = {"padding": "max_length", "max_length": self._limit}
        self._model, self._tokenizer, self._images = model.eval(), tokenizer, image_processor

    def encode_texts(self, texts: list[str]) -> torch.Tensor:
        """(n, d) vectors of texts, each within the model's number of tokens."""
        for text, ids in zip(texts, self._tokenizer(texts)["input_ids"], strict=True):
            if len(ids) > self._limit:
                raise ValueError(
                    f"labels and templates must give texts of at most {self._limit} tokens: got "
                    f"{len(ids)} for {text!r}. Shorten them."
                )
        tokens = self._tokenizer(texts, return_tensors="pt", **self._padding)
        return _pooled(self._model.get_text_features(**tokens.to(self._model.device)))

    def encode_images(self, images: list[Image.Image]) -> torch.Tensor:
        """(n, d) vectors of RGB images."""
        inputs = self._images(images=images, return_tensors="pt").to(self._model.device)
        return _pooled(self._model.get_image_features(**inputs))


class OpenClipEncoder:
    """A model from open_clip, such as BiomedCLIP.

    Parameters
    ----------
    model : open_clip model
        It has encode_image, encode_text, logit_scale, and a logit_bias if it is a SigLIP. It is put
        into evaluation mode, and stays there.
    preprocess : callable
        Turns an image into a tensor.
    tokenizer : callable
        Turns texts into a tensor of tokens, padded and cut to the model's length.
    """

    def __init__(self, model: Any, preprocess: Any, tokenizer: Any) -> None:
        bias = getattr(model, "logit_bias", None)
        self.head = "softmax" if bias is None else "sigmoid"
        self.scale = float(model.logit_scale.detach().exp())
        self.bias = 0.0 if bias is None else float(bias.detach())
        self._model, self._preprocess, self._tokenizer = model.eval(), preprocess, tokenizer
        self._device = model.logit_scale.device

    def encode_texts(self, texts: list[str]) -> torch.Tensor:
        """(n, d) vectors of texts."""
        vectors: torch.Tensor = self._model.encode_text(self._tokenizer(texts).to(self._device))
        return vectors

    def encode_images(self, images: list[Image.Image]) -> torch.Tensor:
        """(n, d) vectors of RGB images."""
        pixels = torch.stack([self._preprocess(image) for image in images])
        vectors: torch.Tensor = self._model.encode_image(pixels.to(self._device))
        return vectors


class ZeroShotClassifier(PretrainedClassifier):
    """Images in, logits over your labels out, without training.

    Parameters
    ----------
    encoder : Encoder
        The model; `from_pretrained` and `from_open_clip` load one. `TransformersEncoder` and
        `OpenClipEncoder` make one of a model in memory.
    labels : sequence of str, or mapping
        The words for two or more classes; or a mapping from class names to words, which may repeat
        (Swahili "ndege" is both airplane and bird).
    templates : str or sequence of str, optional
        A text with {} where the word goes; or several, whose text vectors are averaged (`spread`
        keeps what each says); or a language of the paper's templates, "en" (default), "fr", "zh"
        or "sw".

    Attributes
    ----------
    classes : tuple of str
        The names of the K classes, column by column.
    templates : tuple of str
        The texts with {}.
    head : str
        "softmax" (CLIP) or "sigmoid" (SigLIP), as the model itself states.

    See Also
    --------
    decal.text.TextClassifier : The same for texts, with a classifier that was trained for them.

    Notes
    -----
    Every text is encoded only once: classifiers made by `subset` and `replace` share the vectors of
    texts. The vector of a class is the mean of its texts' unit vectors, scaled to length one.
    """

    def __init__(
        self,
        encoder: Encoder,
        labels: Labels,
        *,
        templates: Templates = "en",
    ) -> None:
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
        """Load CLIP, SigLIP or SigLIP-2 with its tokenizer and image processor.

        Parameters
        ----------
        name_or_path : str or path
            A folder that `save_pretrained` or `hf download` wrote, or a model of the hub, such as
            "openai/clip-vit-base-patch32" or "google/siglip2-base-patch16-224".
        labels, templates
            As for `ZeroShotClassifier`.
        device : torch.device or str, optional
            Where to compute; by default a GPU if PyTorch has one, else the CPU.
        **options
            Options of transformers: `revision`, `token`, `cache_dir`, `local_files_only`.

        Notes
        -----
        The model's own config states its kind, and so the meaning of its logits. Numbers are
        computed in float32. Pillow prepares the images, even if torchvision is installed: its
        interpolation gives other numbers.
        """
        words, texts = check_words(labels), check_templates(templates)
        name = str(name_or_path)
        with loading(name, MODEL_FILES, options):
            config = transformers.AutoConfig.from_pretrained(name, **options)
        head_of(config)  # refuse before downloading gigabytes
        if config.model_type == "siglip2" and not NEW_TRANSFORMERS:
            raise ImportError(
                f"{name}, a SigLIP-2 for images of any size, needs transformers 5, which reads its "
                f"texts in lower case as in training: got {transformers.__version__}. "
                "Try pip install --upgrade transformers."
            )
        with loading(name, MODEL_FILES, options):
            model, found = transformers.AutoModel.from_pretrained(
                name, config=config, **SINGLE_PRECISION, output_loading_info=True, **options
            )
            tokenizer, image_processor = _processors(name, options)
        require_weights(model, found, name)
        model = model.to(choose_device(device))
        encoder = TransformersEncoder(model, tokenizer, image_processor)
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
        """Load a model of the open_clip package, such as BiomedCLIP.

        open_clip prepares the images, and cuts texts to the model's length.

        Parameters
        ----------
        name_or_path : str or path
            A folder with open_clip_config.json, or a model of the hub, such as
            "microsoft/BiomedCLIP-PubMedBERT_256-vit_base_patch16_224".
        labels, templates, device
            As for `from_pretrained`.
        """
        words, texts = check_words(labels), check_templates(templates)
        message = "from_open_clip needs open_clip and torchvision: pip install open_clip_torch"
        with needs("open_clip", "torchvision", message=message):
            open_clip: Any = importlib.import_module("open_clip")
        name = str(name_or_path)
        address = f"local-dir:{name}" if Path(name).is_dir() else f"hf-hub:{name}"
        with loading(name, OPEN_CLIP_FILES, {}):
            model, preprocess = open_clip.create_model_from_pretrained(
                address, device=choose_device(device)
            )
            tokenizer = open_clip.get_tokenizer(address)
        return cls(OpenClipEncoder(model, preprocess, tokenizer), words, templates=texts)

    def __repr__(self) -> str:
        return (
            f"ZeroShotClassifier({len(self.classes)} classes, templates={list(self.templates)}, "
            f"head={self.head!r})"
        )

    # Labels

    def subset(self, classes: Iterable[str]) -> Self:
        """The same model for some of its classes, in the given order. No text is encoded."""
        chosen = list(classes)
        for index, name in enumerate(chosen):
            if name not in self._words:
                raise ValueError(
                    f"classes must be among {', '.join(self.classes)}: got {name!r} at index "
                    f"{index}. For other labels use replace."
                )
        if len(set(chosen)) != len(chosen):
            raise ValueError("classes must be distinct: got one more than once.")
        return self.replace({name: self._words[name] for name in chosen})

    def replace(
        self,
        labels: Labels | None = None,
        *,
        templates: Templates | None = None,
    ) -> Self:
        """The same model with other labels or templates. Only new texts are encoded."""
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
            3); or an array (n, height, width, 3). Photographs are turned upright by their EXIF tag.
        batch_size : int, optional
            The number of images per pass through the model; no more are opened at once.
        progress : bool, optional
            Whether to show a bar.
        """
        return np.concatenate(list(self._embedded(images, batch_size, progress)))

    def logits_from_embeddings(self, embeddings: Any) -> Scores:
        """(n, K) logits of images already embedded: scale * cos + bias."""
        vectors = _unit(check_logits(embeddings, name="embeddings"))
        if vectors.shape[1] != self._class_vectors.shape[1]:
            raise ValueError(
                f"embeddings must have {self._class_vectors.shape[1]} columns, as this model's: "
                f"got {vectors.shape[1]}."
            )
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

        Parameters
        ----------
        images, batch_size, progress
            As for `embeddings`. Every image is encoded once.
        others : iterable of ZeroShotClassifier, optional
            This model with other words for the same classes, as in other languages, made by
            `replace`. Each of their templates counts, too.
        """
        voices = [voice for one in (self, *others) for voice in one.apart()]
        for voice in voices:
            if voice.classes != self.classes or voice._encoder is not self._encoder:
                raise ValueError(
                    f"others must be this model for the classes {self.classes}: got {voice}. Make "
                    "them with replace(labels={class: word, …})."
                )
        vectors = self.embeddings(images, batch_size=batch_size, progress=progress)
        logits = [voice.logits_from_embeddings(vectors).astype(np.float64) for voice in voices]
        vertices = np.stack([softmax(z) for z in logits], axis=1)
        return HullCredalSet(vertices, axis=1, classes=self.classes)

    def match_probabilities(
        self, images: Iterable[ImageLike], *, batch_size: int = 32, progress: bool = False
    ) -> Array:
        """(n, K) probability that image and label belong together, for each label on its own.

        Only for a sigmoid head (SigLIP). Rows do not sum to one, and are no input for decal.
        """
        if self.head != "sigmoid":
            raise ValueError(
                "match_probabilities must be asked of a model with a sigmoid head: got a softmax "
                "head (CLIP), whose logits compare labels with each other. Use probabilities."
            )
        logits = self.logits(images, batch_size=batch_size, progress=progress)
        return sigmoid(logits.astype(np.float64))

    def _use(self, words: dict[str, str], templates: tuple[str, ...]) -> None:
        self._words, self.classes, self.templates = words, tuple(words), templates
        texts = [[t.replace("{}", word) for t in templates] for word in words.values()]
        new = list(dict.fromkeys(t for row in texts for t in row if t not in self._known))
        for _, batch in batches(new, TEXTS_PER_BATCH, unit="texts"):
            with torch.inference_mode():
                vectors = self._encoder.encode_texts(batch).float().cpu().numpy()
            self._known.update(zip(batch, _unit(vectors), strict=True))
        means = [np.mean([self._known[t] for t in row], axis=0) for row in texts]
        self._class_vectors = _unit(np.stack(means))

    def _embedded(
        self, images: Iterable[ImageLike], batch_size: int, progress: bool
    ) -> Iterator[Scores]:
        require_several(images)
        empty = True
        for start, batch in batches(images, batch_size, unit="images", progress=progress):
            opened = [to_rgb(image, index) for index, image in enumerate(batch, start)]
            with torch.inference_mode():
                vectors = self._encoder.encode_images(opened).float().cpu().numpy()
            empty = False
            yield _unit(vectors).astype(np.float32)
        if empty:
            raise ValueError("images must hold at least one image: got none.")


def head_of(config: Any) -> str:
    """The head of a model by its config; refuses models of other kinds."""
    head = HEADS.get(config.model_type)
    if head is None:
        raise ValueError(
            f"model type must be one of {', '.join(HEADS)}: got {config.model_type!r} from the "
            "model's config. For models of open_clip (BiomedCLIP) use from_open_clip."
        )
    return head


def check_encoder(encoder: Encoder) -> Encoder:
    """The encoder, if it has all that an Encoder has."""
    parts = ("head", "scale", "bias", "encode_texts", "encode_images")
    missing = [name for name in parts if not hasattr(encoder, name)]
    if missing:
        advice = (
            "Pass TransformersEncoder(model, tokenizer, image_processor) for a model of "
            "transformers, OpenClipEncoder(model, preprocess, tokenizer) for one of open_clip."
        )
        if isinstance(encoder, str | os.PathLike):
            advice = "Load a model with ZeroShotClassifier.from_pretrained."
        raise TypeError(
            f"encoder must have {', '.join(parts)}: got a {type(encoder).__name__} without "
            f"{missing[0]}. {advice}"
        )
    return encoder


def check_words(labels: Labels) -> dict[str, str]:
    """The word of each class, by the name of the class; at least two classes."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise ValueError(f"labels must be a list of words: got {labels!r}.")
    pairs = list(labels.items()) if isinstance(labels, Mapping) else [(w, w) for w in labels]
    for index, (name, word) in enumerate(pairs):
        if not isinstance(name, str) or not isinstance(word, str) or not word.strip():
            raise ValueError(f"labels must be words: got {word!r} at index {index}.")
    words = dict(pairs)
    if len(words) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"labels must be distinct: got {twice!r} more than once. For classes that share a word "
            f"name them: labels={{'one': {twice!r}, 'other': {twice!r}, …}}."
        )
    if len(words) < 2:
        raise ValueError(f"labels must be two or more: got {len(words)}.")
    return words


def check_templates(templates: Templates) -> tuple[str, ...]:
    """Texts with one {} each; the name of a language selects the paper's template."""
    texts = (templates,) if isinstance(templates, str) else tuple(templates)
    if not texts:
        raise ValueError("templates must be one text or more: got none.")
    for text in texts:
        if text not in TEMPLATES and text.count("{}") != 1:
            languages = ", ".join(repr(name) for name in TEMPLATES)
            raise ValueError(
                f"templates must hold {{}} once, where the label goes: got {text!r}. The paper's "
                f"templates go by {languages}."
            )
    return tuple(TEMPLATES.get(text, text) for text in texts)


def require_several(images: Any) -> None:
    """Refuse what looks like a single image."""
    if isinstance(images, str | os.PathLike | Image.Image):
        raise ValueError("images must be a list of images: got one image. Put it in a list.")
    if hasattr(images, "ndim") and images.ndim not in (1, 4):
        raise ValueError(
            f"images must be a list of images or an array (n, height, width, 3): got shape "
            f"{tuple(images.shape)}. Put a single image in a list."
        )


def to_rgb(image: ImageLike, index: int) -> Image.Image:
    """The image in RGB, upright."""
    if isinstance(image, str | os.PathLike):
        try:
            with Image.open(image) as file:
                return to_rgb(file, index)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"images must be files that exist: got {os.fspath(image)!r} at index {index}."
            ) from error
        except UnidentifiedImageError as error:
            raise ValueError(
                f"images must be files of images: got {os.fspath(image)!r} at index {index}."
            ) from error
    if isinstance(image, np.ndarray):
        image = Image.fromarray(_pixels(image, index))
    if not isinstance(image, Image.Image):
        raise ValueError(
            "images must be Pillow images, paths, or uint8 arrays (height, width, 3): got "
            f"{type(image).__name__} at index {index}."
        )
    if image.mode not in EIGHT_BITS:
        raise ValueError(
            f"images must have eight bits per channel: got mode {image.mode!r} at index {index}. "
            "Scale it to 0..255 first."
        )
    return ImageOps.exif_transpose(image).convert("RGB")


def _pixels(image: NDArray[Any], index: int) -> NDArray[np.uint8]:
    flat = image.ndim == 3 and image.shape[2] == 1
    shaped = image.ndim == 2 or (image.ndim == 3 and image.shape[2] in (1, 3, 4))
    if image.dtype != np.uint8 or not shaped:
        raise ValueError(
            "images must be uint8 arrays (height, width) or (height, width, 3): got "
            f"{image.dtype} of shape {image.shape} at index {index}. Scale it to 0..255, with "
            "channels last."
        )
    return image[:, :, 0] if flat else image


def _processors(name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """The tokenizer, and the image processor that works with Pillow."""
    auto: Any = transformers  # whose classes have no types
    if NEW_TRANSFORMERS:
        both = auto.AutoProcessor.from_pretrained(name, backend="pil", **options)
        return both.tokenizer, both.image_processor
    # Together, version 4 would take the slow tokenizer as well.
    images = auto.AutoImageProcessor.from_pretrained(name, use_fast=False, **options)
    return auto.AutoTokenizer.from_pretrained(name, **options), images


def _pooled(output: Any) -> torch.Tensor:
    # transformers 4 returns the vectors themselves.
    vectors: torch.Tensor = getattr(output, "pooler_output", output)
    return vectors


def _unit(vectors: NDArray[Any]) -> Array:
    """(n, d) vectors scaled to length one, in float64: a logit may be a hundred times a cosine."""
    rows = vectors.astype(np.float64)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
