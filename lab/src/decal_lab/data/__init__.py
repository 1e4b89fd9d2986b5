"""Public data sets: downloaded once, checked and kept, or read from a folder of yours.

Every loader returns plain arrays in a frozen object. `available` lists what is there already. The
texts of `decal.datasets.languages` come with decal itself.

>>> from decal_lab import data
>>> images = data.fashion_mnist("test")  # doctest: +SKIP
>>> images  # doctest: +SKIP
ImageSet: 10,000 images of 28×28×1, 10 classes

Imports public names of decal.
"""

from decal_lab.data._catalogue import Availability, available
from decal_lab.data._data_sets import EmbeddingSet, HumanSet, ImageSet, LogitSet, TableSet, TextSet
from decal_lab.data._downloads import DamagedDataError, MissingDataError, cache_folder, fetch
from decal_lab.data._image_arrays import cifar10, cifar10h, cifar100, dermamnist, svhn
from decal_lab.data._image_folders import (
    ImageFolder,
    image_folder,
    imagenet,
    places365,
    qualitymri,
    tiny_imagenet,
)
from decal_lab.data._mnists import fashion_mnist, mnist, notmnist
from decal_lab.data._nli_texts import chaosnli, chaosnli_embeddings
from decal_lab.data._published_logits import published_logits, published_names
from decal_lab.data._tabarena import TABARENA, tabarena

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
