"""Public data sets: downloaded once, checked and kept, or read from a folder of yours.

Every loader returns plain arrays in a frozen object. `available` lists what is there already;
`languages` comes with decal.

>>> from decal import datasets
>>> images = datasets.fashion_mnist("test")  # doctest: +SKIP
>>> images  # doctest: +SKIP
ImageSet: 10,000 images of 28×28×1, 10 classes

Imports from `_base` and `io`.
"""

from decal.datasets._catalogue import Availability, available
from decal.datasets._data_sets import EmbeddingSet, HumanSet, ImageSet, LogitSet, TableSet, TextSet
from decal.datasets._downloads import DamagedDataError, MissingDataError, cache_folder, fetch
from decal.datasets._image_arrays import cifar10, cifar10h, cifar100, dermamnist, svhn
from decal.datasets._image_folders import (
    ImageFolder,
    image_folder,
    imagenet,
    places365,
    qualitymri,
    tiny_imagenet,
)
from decal.datasets._languages import LanguageSet, language_logits, languages
from decal.datasets._mnists import fashion_mnist, mnist, notmnist
from decal.datasets._nli_texts import chaosnli, chaosnli_embeddings
from decal.datasets._published_logits import published_logits, published_names
from decal.datasets._tabarena import TABARENA, tabarena

__all__ = [
    "TABARENA",
    "Availability",
    "DamagedDataError",
    "EmbeddingSet",
    "HumanSet",
    "ImageFolder",
    "ImageSet",
    "LanguageSet",
    "LogitSet",
    "MissingDataError",
    "TableSet",
    "TextSet",
    "available",
    "cache_folder",
    "chaosnli",
    "chaosnli_embeddings",
    "cifar10",
    "cifar10h",
    "cifar100",
    "dermamnist",
    "fashion_mnist",
    "fetch",
    "image_folder",
    "imagenet",
    "language_logits",
    "languages",
    "mnist",
    "notmnist",
    "places365",
    "published_logits",
    "published_names",
    "qualitymri",
    "svhn",
    "tabarena",
    "tiny_imagenet",
]
