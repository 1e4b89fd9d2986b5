"""Public data sets: downloaded once, checked, kept; or read from a folder of yours.

Every loader returns plain arrays in a frozen object. `available` tells what is here.

>>> from decal import datasets
>>> images = datasets.fashion_mnist("test")  # doctest: +SKIP
>>> images  # doctest: +SKIP
ImageSet: 10,000 images of 28×28×1, 10 classes
"""

from decal.datasets.catalogue import Availability, available
from decal.datasets.folders import (
    ImageFolder,
    image_folder,
    imagenet,
    places365,
    qualitymri,
    tiny_imagenet,
)
from decal.datasets.images import cifar10, cifar10h, cifar100, dermamnist, svhn
from decal.datasets.mnists import fashion_mnist, mnist, notmnist
from decal.datasets.published import published_logits, published_names
from decal.datasets.sets import EmbeddingSet, HumanSet, ImageSet, LogitSet, TableSet, TextSet
from decal.datasets.store import DamagedDataError, MissingDataError, cache_folder, fetch
from decal.datasets.tabular import TABARENA, tabarena
from decal.datasets.text import chaosnli, chaosnli_embeddings

__all__ = [
    "TABARENA",
    "Availability",
    "DamagedDataError",
    "EmbeddingSet",
    "HumanSet",
    "ImageFolder",
    "ImageSet",
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
