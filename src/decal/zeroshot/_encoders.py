"""Models with a tower for texts and one for images, and the images that they take."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from decal._base.errors import InputError, needs
from decal.zeroshot._pretrained import (
    NEW_TRANSFORMERS,
    SINGLE_PRECISION,
    choose_device,
    loading,
    require_weights,
)

HEADS = {"clip": "softmax", "siglip": "sigmoid", "siglip2": "sigmoid"}

EIGHT_BITS = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr")
"""Pillow's modes of at most eight bits per channel, whose conversion to RGB loses no range."""

ImageLike = Any
"""A Pillow image, the path of an image file, or uint8 (height, width) or (height, width, 3)."""


class Encoder(Protocol):
    """A tower for texts and one for images, whose logits are scale * cos(image, text) + bias."""

    head: str  # "softmax" or "sigmoid", as the model itself states
    scale: float
    bias: float  # 0 for "softmax"

    def encode_texts(self, texts: list[str]) -> torch.Tensor:
        """(n, d) vectors, of any length."""

    def encode_images(self, images: list[Image.Image]) -> torch.Tensor:
        """(n, d) vectors of RGB images, of any length."""


class TransformersEncoder:
    """CLIP, SigLIP or SigLIP-2 from transformers; the model is put into evaluation mode."""

    def __init__(self, model: Any, tokenizer: Any, image_processor: Any) -> None:
        self.head = head_of(model.config)
        if hasattr(model, "logit_bias") != (self.head == "sigmoid"):
            fact = f"model type {model.config.model_type!r} for a {type(model).__name__}"
            rule = "have a logit_bias if and only if its head is a sigmoid"
            raise InputError("model", rule, fact)
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
                rule = f"give texts of at most {self._limit} tokens"
                fact = f"{len(ids)} for {text!r}"
                raise InputError("labels and templates", rule, fact, "Shorten them.")
        tokens = self._tokenizer(texts, return_tensors="pt", **self._padding)
        return _pooled(self._model.get_text_features(**tokens.to(self._model.device)))

    def encode_images(self, images: list[Image.Image]) -> torch.Tensor:
        """(n, d) vectors of RGB images."""
        inputs = self._images(images=images, return_tensors="pt").to(self._model.device)
        return _pooled(self._model.get_image_features(**inputs))


class OpenClipEncoder:
    """A model from open_clip, such as BiomedCLIP, which is put into evaluation mode.

    `preprocess` turns an image into a tensor, and `tokenizer` texts into one of tokens, cut to the
    model's length. A model with a logit_bias is a SigLIP.
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


def head_of(config: Any) -> str:
    """The head of a model by its config; InputError about models of other kinds."""
    if config.model_type not in HEADS:
        fact = f"{config.model_type!r} from the model's config"
        remedy = "For models of open_clip (BiomedCLIP) use from_open_clip."
        raise InputError("model type", f"be one of {', '.join(HEADS)}", fact, remedy)
    return HEADS[config.model_type]


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


def _pooled(output: Any) -> torch.Tensor:
    """The vectors of a tower, which transformers 4 returns themselves."""
    vectors: torch.Tensor = getattr(output, "pooler_output", output)
    return vectors


# Loading


def load_transformers(name: str, device: Any, options: dict[str, Any]) -> TransformersEncoder:
    """CLIP, SigLIP or SigLIP-2 of a folder or of the hub, with options of transformers."""
    files = (
        "config.json, model.safetensors, preprocessor_config.json or processor_config.json, "
        "tokenizer_config.json, and tokenizer.json or (SigLIP) spiece.model"
    )
    with loading(name, files, options):
        config = transformers.AutoConfig.from_pretrained(name, **options)
    head_of(config)  # refuse before downloading gigabytes
    if config.model_type == "siglip2" and not NEW_TRANSFORMERS:
        raise ImportError(
            f"{name}, a SigLIP-2 for images of any size, needs transformers 5, which reads its "
            f"texts in lower case as in training: got {transformers.__version__}. "
            "Try pip install --upgrade transformers."
        )
    with loading(name, files, options):
        model, found = transformers.AutoModel.from_pretrained(
            name, config=config, **SINGLE_PRECISION, output_loading_info=True, **options
        )
        tokenizer, image_processor = _processors(name, options)
    require_weights(model, found, name)
    return TransformersEncoder(model.to(choose_device(device)), tokenizer, image_processor)


def _processors(name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """The tokenizer, and the image processor that works with Pillow."""
    auto: Any = transformers  # whose classes have no types
    if NEW_TRANSFORMERS:
        both = auto.AutoProcessor.from_pretrained(name, backend="pil", **options)
        return both.tokenizer, both.image_processor
    # Together, version 4 would take the slow tokenizer as well.
    images = auto.AutoImageProcessor.from_pretrained(name, use_fast=False, **options)
    return auto.AutoTokenizer.from_pretrained(name, **options), images


def load_open_clip(name: str, device: Any) -> OpenClipEncoder:
    """A model of open_clip, of a folder or of the hub."""
    message = "from_open_clip needs open_clip and torchvision: pip install open_clip_torch"
    with needs("open_clip", "torchvision", message=message):
        open_clip: Any = importlib.import_module("open_clip")
    address = f"local-dir:{name}" if Path(name).is_dir() else f"hf-hub:{name}"
    files = (
        "open_clip_config.json, open_clip_model.safetensors or open_clip_pytorch_model.bin, and "
        "the tokenizer's files; the config.json of the text model it names must be in the cache too"
    )
    with loading(name, files, {}):
        device = choose_device(device)
        model, preprocess = open_clip.create_model_from_pretrained(address, device=device)
        tokenizer = open_clip.get_tokenizer(address)
    return OpenClipEncoder(model, preprocess, tokenizer)


# Images


def require_several(images: Any) -> None:
    """InputError about what looks like a single image."""
    if isinstance(images, str | os.PathLike | Image.Image):
        raise InputError("images", "be a list of images", "one image", "Put it in a list.")
    if hasattr(images, "ndim") and images.ndim not in (1, 4):
        rule = "be a list of images or an array (n, height, width, 3)"
        fact = f"shape {tuple(images.shape)}"
        raise InputError("images", rule, fact, "Put a single image in a list.")


def to_rgb(image: ImageLike, index: int) -> Image.Image:
    """The image in RGB, upright."""
    if isinstance(image, str | os.PathLike):
        try:
            with Image.open(image) as file:
                return to_rgb(file, index)
        except FileNotFoundError as error:
            fact = f"{os.fspath(image)!r} at index {index}"
            raise FileNotFoundError(f"images must be files that exist: got {fact}.") from error
        except UnidentifiedImageError as error:
            fact = f"{os.fspath(image)!r} at index {index}"
            raise InputError("images", "be files of images", fact) from error
    if isinstance(image, np.ndarray):
        image = Image.fromarray(_pixels(image, index))
    if not isinstance(image, Image.Image):
        rule = "be Pillow images, paths, or uint8 arrays (height, width, 3)"
        raise InputError("images", rule, f"{type(image).__name__} at index {index}")
    if image.mode not in EIGHT_BITS:
        rule, fact = "have eight bits per channel", f"mode {image.mode!r} at index {index}"
        raise InputError("images", rule, fact, "Scale it to 0..255 first.")
    return ImageOps.exif_transpose(image).convert("RGB")


def _pixels(image: NDArray[Any], index: int) -> NDArray[np.uint8]:
    flat = image.ndim == 3 and image.shape[2] == 1
    shaped = image.ndim == 2 or (image.ndim == 3 and image.shape[2] in (1, 3, 4))
    if image.dtype != np.uint8 or not shaped:
        rule = "be uint8 arrays (height, width) or (height, width, 3)"
        fact = f"{image.dtype} of shape {image.shape} at index {index}"
        raise InputError("images", rule, fact, "Scale it to 0..255, with channels last.")
    return image[:, :, 0] if flat else image
