"""The networks of the paper's experiments, each a body and one linear layer on top.

All of them start from PyTorch's default weights, drawn from its global generator: seed it, or let
`train_members` do so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from decal_lab.checks import check_alpha, check_count

__all__ = ["Classifier", "mlp", "resnet18", "small_conv"]

RESNET_WIDTHS = (64, 128, 256, 512)
BLOCKS_PER_WIDTH = 2


class Classifier(nn.Module):
    """A network with a name for its parts: logits are head(features(inputs)).

    Parameters
    ----------
    body : torch.nn.Module
        Inputs to features (n, F).
    head
        The last layer, features to logits (n, K).
    """

    def __init__(self, body: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.body = body
        self.head = head

    def features(self, inputs: Tensor) -> Tensor:
        """(n, F) inputs of the last layer."""
        found: Tensor = self.body(inputs)
        return found

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, K) logits."""
        logits: Tensor = self.head(self.features(inputs))
        return logits


def mlp(classes: int, inputs: int = 768, hidden: Sequence[int] = (256, 64, 16)) -> Classifier:
    """A perceptron with ReLU between its layers; inputs of more dimensions are flattened.

    The default is for embeddings of text with 768 numbers.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import mlp
    >>> mlp(3, inputs=4, hidden=(8, 5))(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """
    widths = [check_count(inputs, "inputs")]
    widths += [check_count(width, f"hidden[{i}]") for i, width in enumerate(hidden)]
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return Classifier(nn.Sequential(*layers), _head(widths[-1], classes))


def small_conv(classes: int, channels: int = 1, dropout: float = 0.25) -> Classifier:
    """A small convolutional network with dropout, for images of about 28×28 or 32×32.

    Two convolutions that halve the image each, 7×7 places and a layer of 128 features: 207,178
    parameters for 10 classes of grey images. Half a million multiplications per image of 28×28, so
    that 10,000 images take about a second per epoch on one core.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import small_conv
    >>> small_conv(10).features(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 128])
    """
    check_count(channels, "channels")
    dropout = check_alpha(dropout, "dropout")
    body = nn.Sequential(
        nn.Conv2d(channels, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(7),  # images of 28×28 have 7×7 places already
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(32 * 7 * 7, 128),
        nn.ReLU(),
        nn.Dropout(dropout),
    )
    return Classifier(body, _head(128, classes))


def resnet18(classes: int, channels: int = 3) -> Classifier:
    """ResNet-18 for small images, as is usual for CIFAR: a stem of 3×3, and no pooling after it.

    11,173,962 parameters for 10 classes of colour images. Features are (n, 512). Training it takes
    an accelerator.

    References
    ----------
    He, Zhang, Ren and Sun (2016), "Deep residual learning for image recognition".
    """
    check_count(channels, "channels")
    first = RESNET_WIDTHS[0]
    layers: list[nn.Module] = [
        nn.Conv2d(channels, first, 3, padding=1, bias=False),
        nn.BatchNorm2d(first),
        nn.ReLU(),
    ]
    before = first
    for width in RESNET_WIDTHS:
        for block in range(BLOCKS_PER_WIDTH):
            stride = 2 if block == 0 and width != first else 1
            layers.append(_Residual(before, width, stride))
            before = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return Classifier(nn.Sequential(*layers), _head(before, classes))


class _Residual(nn.Module):
    """Two convolutions of 3×3, added to a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.inner(x) + self.shortcut(x))


def _head(features: int, classes: int) -> nn.Linear:
    return nn.Linear(features, check_count(classes, "classes", least=2))
