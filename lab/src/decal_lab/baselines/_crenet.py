"""CreNet: a network that predicts probability intervals, trained against the worst of its data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, softplus

from decal import IntervalCredalSet, NotFittedError
from decal.torch.batches import model_logits
from decal_lab.baselines._model_outputs import ensemble_logits
from decal_lab.baselines._trainer import Trainer, Training, train_members
from decal_lab.checks import Array, check_alpha, check_count

__all__ = ["CreNet", "IntervalHead", "int_softmax"]


def int_softmax(center: Tensor, half_width: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds (lower, upper) of every probability, from intervals of logits.

    With a = center - half_width and b = center + half_width,

        lower_k = exp(a_k) / (exp(a_k) + sum over j != k of exp((a_j + b_j) / 2)),

    and upper_k the same with b_k: class k is taken at its endpoint, all others at their centers. So
    both are the sigmoid of a log-odds against all others, and computed as such: logits may be of
    any size, and gradients are finite.

    The bounds contain softmax(center), hence never contradict each other, and equal it if all
    widths are zero. They do *not* contain the softmax of every logit vector between a and b, in
    which the others move too.

    Parameters
    ----------
    center, half_width : (..., K) arrays
        half_width >= 0.

    Returns
    -------
    lower, upper : (..., K) arrays

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import int_softmax
    >>> lower, upper = int_softmax(torch.zeros(3), torch.tensor([0.0, 0.0, 1.0]))
    >>> lower, upper
    (tensor([0.3333, 0.3333, 0.1554]), tensor([0.3333, 0.3333, 0.5761]))
    """
    margin = center - _log_sum_of_others(center)
    return torch.sigmoid(margin - half_width), torch.sigmoid(margin + half_width)


def _log_sum_of_others(logits: Tensor) -> Tensor:
    """(..., K) logsumexp of all logits but k's."""
    # The sum of those before k and the sum of those after: subtracting k's term from the sum of
    # all would cancel digits.
    none = torch.full_like(logits[..., :1], -torch.inf)
    before = torch.logcumsumexp(logits, -1)[..., :-1]
    after = torch.logcumsumexp(logits.flip(-1), -1).flip(-1)[..., 1:]
    return torch.logaddexp(torch.cat([none, before], -1), torch.cat([after, none], -1))


class IntervalHead(nn.Module):
    """The last layer of a CreNet: features (n, F) to centers and half-widths of logits (n, 2 K).

    A linear layer and batch normalisation of all 2 K outputs; softplus of the second half makes
    half-widths, which are nonnegative.

    Parameters
    ----------
    features, classes : int
        F and K.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import IntervalHead
    >>> center, half_width = IntervalHead(8, classes=3)(torch.randn(5, 8)).chunk(2, dim=-1)
    >>> center.shape, bool((half_width >= 0).all())
    (torch.Size([5, 3]), True)
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, 2 * classes)
        self.norm = nn.BatchNorm1d(2 * classes)

    def forward(self, features: Tensor) -> Tensor:
        """(n, 2 K): centers, then half-widths."""
        center, width = self.norm(self.linear(features)).chunk(2, dim=-1)
        return torch.cat([center, softplus(width)], dim=-1)


class CreNet:
    """Networks that predict probability intervals (Wang et al., credal deep ensembles, 2024).

    The last layer gives an interval per logit; `int_softmax` makes probability intervals of them.
    Upper bounds are trained by cross-entropy on all data, as the prediction of an optimist; lower
    bounds on the worst `delta` of every batch only, as if future data were drawn from the hard part
    of those seen. The width is where the two disagree.

    Parameters
    ----------
    factory : callable
        Builds a fresh network whose last layer is the nn.Linear `.head`, as those of
        `decal_lab.baselines` have. It is replaced by an `IntervalHead`.
    members : int
        Networks to train. One is a CreNet; for more (a credal deep ensemble) lower and upper bounds
        are averaged.
    delta : float
        Share of each batch, in (0, 1], that lower bounds are trained on: the highest losses.
    trainer : Trainer, optional
        How to train. Batches need two rows or more, for the batch normalisation.
    folder : path, optional
        Where to keep the trained networks, as for `train_members`.

    Attributes
    ----------
    members, trainings
        The trained networks and their records.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import CreNet, Trainer, mlp
    >>> x = torch.linspace(-1, 1, 80)[:, None]
    >>> loader = [(x, (x[:, 0] > 0).long())]
    >>> method = CreNet(lambda: mlp(2, inputs=1, hidden=(8,)), trainer=Trainer(epochs=30))
    >>> credal = method.fit(loader).predict_credal(x)
    >>> credal.shape, bool(credal.is_empty.any())
    ((80, 2), False)
    """

    def __init__(
        self,
        factory: Callable[[], nn.Module],
        *,
        members: int = 1,
        delta: float = 0.5,
        trainer: Trainer | None = None,
        folder: Path | str | None = None,
    ) -> None:
        self.factory = factory
        self.size = check_count(members, "members")
        self.delta = check_alpha(delta, "delta")
        if self.delta == 0:
            raise ValueError("delta must be positive: got 0.")
        self.trainer = Trainer() if trainer is None else trainer
        self.folder = folder
        self.members: tuple[nn.Module, ...] = ()
        self.trainings: tuple[Training, ...] = ()

    def fit(self, loader: Iterable[Any], validation: Iterable[Any] | None = None) -> Self:
        """Train the networks on labelled batches."""
        trained = train_members(
            self._with_intervals,
            loader,
            members=self.size,
            trainer=self.trainer,
            folder=self.folder,
            loss=self._loss,
            validation=validation,
            predicted=lambda outputs: outputs.chunk(2, dim=-1)[0],
            settings={"delta": self.delta},
        )
        self.members = tuple(m.module for m in trained)
        self.trainings = tuple(m.training for m in trained)
        return self

    def predict_credal(self, inputs: Any) -> IntervalCredalSet:
        """Intervals, the mean over all networks; the point is their intersection probability."""
        if not self.members:
            raise NotFittedError("CreNet has seen no data. Call fit first.")
        outputs = torch.from_numpy(ensemble_logits(self.members, inputs))
        lower, upper = (b.mean(dim=1).numpy() for b in int_softmax(*outputs.chunk(2, dim=-1)))
        box = IntervalCredalSet(lower, upper)
        return IntervalCredalSet(lower, upper, point=box.intersection_probability())

    def predict_proba(self, inputs: Any) -> Array:
        """(n, K) the intersection probability: equally far up in every interval."""
        point = self.predict_credal(inputs).point
        assert point is not None
        return point

    def _with_intervals(self) -> nn.Module:
        module = self.factory()
        head = getattr(module, "head", None)
        if not isinstance(head, nn.Linear):
            raise ValueError(
                "factory must build a network whose last layer is the nn.Linear .head: got "
                f"{type(head).__name__}. Networks of decal_lab.baselines have one."
            )
        module.head = IntervalHead(head.in_features, head.out_features)
        return module

    def _loss(self, module: nn.Module, inputs: Any, labels: Tensor, epoch: int) -> Tensor:  # noqa: ARG002
        if module.training and len(labels) < 2:
            raise ValueError(
                "loader must yield two rows or more in every batch, for the batch normalisation: "
                "got a batch of 1. Use drop_last=True, or another batch size."
            )
        outputs = model_logits(module, inputs, len(labels))
        center, half_width = outputs.chunk(2, dim=-1)
        return interval_loss(center, half_width, labels, delta=self.delta)


def interval_loss(center: Tensor, half_width: Tensor, labels: Tensor, *, delta: float) -> Tensor:
    """Mean -log upper of the right class, plus mean -log lower over the worst share `delta`."""
    margin = (center - _log_sum_of_others(center)).gather(1, labels[:, None])[:, 0]
    width = half_width.gather(1, labels[:, None])[:, 0]
    pessimist = -logsigmoid(margin - width)
    worst = pessimist.topk(max(1, int(delta * len(labels)))).values
    return -logsigmoid(margin + width).mean() + worst.mean()
