"""MissRate, SetSize and CredalCoverage: metrics of torchmetrics, counted on every process."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from decal._base.errors import InputError, needs
from decal.grids import CredalMaps
from decal.torch.batches import (
    batch_of,
    check_batch,
    label_tensor,
    promised,
    require_decalibrator,
)

with needs(
    "torchmetrics",
    message="decal.torch.MissRate, SetSize and CredalCoverage need torchmetrics: "
    "pip install 'decal[torchmetrics]'",
):
    from torchmetrics import Metric


class CountedMetric(Metric):  # type: ignore[misc]
    """A mean over inputs: a sum and a number of inputs, which add up over processes."""

    is_differentiable = False
    full_state_update = False
    total: Tensor
    rows: Tensor

    def __init__(
        self,
        decalibrator: Any = None,
        *,
        dim: int | None = None,
        ignore_index: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if decalibrator is not None:
            require_decalibrator(decalibrator)
        self.decalibrator, self.dim, self.ignore_index = decalibrator, dim, ignore_index
        for name in ("total", "rows"):
            self.add_state(name, torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def compute(self) -> Tensor:
        """The mean over all inputs; NaN without any."""
        return self.total / self.rows

    def _count(self, values: Tensor) -> None:
        self.total += int(values.sum())
        self.rows += len(values)

    def _kept(self, preds: Tensor, labels: Any) -> tuple[Tensor, Tensor]:
        """(n, K) classes kept, and labels (n,), of all inputs that are not ignored."""
        y = label_tensor(labels, dense=True)
        batch = batch_of(preds.detach(), y, self.dim)
        if (self.decalibrator is None) != (preds.dtype == torch.bool):
            rule = "be logits with a decalibrator, and kept classes, True or False, without"
            raise InputError("preds", rule, f"dtype {preds.dtype}")
        check_batch(batch, batch.place(0, self.ignore_index), self.ignore_index)
        rows, y, _ = batch.rows(self.ignore_index)
        if self.decalibrator is None:
            return rows, y
        return torch.tensor(promised(self.decalibrator, rows).possible_mask()), y


class MissRate(CountedMetric):
    """The share of labels outside the kept classes: what `miss` promises.

    With a decalibrator, `update(logits, labels)` keeps classes by its promise. Without,
    `update(kept, labels)` takes those that a `CredalHead(..., kept=)` returned.

    Parameters
    ----------
    decalibrator : Decalibrator, optional
        A fitted one; not one that promises by groups.
    dim, ignore_index : int, optional
        As for `decal.torch.collect_logits`.
    options
        Of `torchmetrics.Metric`.

    Examples
    --------
    >>> import torch
    >>> from decal.torch import MissRate
    >>> metric = MissRate()
    >>> metric.update(torch.tensor([[True, False], [True, True]]), torch.tensor([1, 1]))
    >>> metric.compute()
    tensor(0.5000)
    """

    higher_is_better = False

    def update(self, preds: Tensor, labels: Any) -> None:
        """Count logits, or kept classes, and labels of their shape without the classes."""
        kept, y = self._kept(preds, labels)
        self._count(~kept.gather(1, y[:, None])[:, 0])


class SetSize(CountedMetric):
    """The mean number of classes that are kept; arguments are those of `MissRate`.

    Examples
    --------
    >>> import torch
    >>> from decal.torch import SetSize
    >>> metric = SetSize()
    >>> metric.update(torch.tensor([[True, False], [True, True]]), torch.tensor([1, 1]))
    >>> metric.compute()
    tensor(1.5000)
    """

    higher_is_better = False

    def update(self, preds: Tensor, labels: Any) -> None:
        """Count logits, or kept classes, and labels of their shape without the classes."""
        self._count(self._kept(preds, labels)[0].sum(dim=1))


class CredalCoverage(CountedMetric):
    """The share of inputs whose true distribution lies in the credal set, see `metrics.coverage`.

    `update(logits, distributions)` takes two tensors of one shape. True distributions are known
    where several people labelled each input, for instance.

    Parameters
    ----------
    decalibrator : Decalibrator
        A fitted one; not one that promises by groups.
    dim : int, optional
        The axis of the classes, if logits have more axes than rows and classes.
    atol : float
        A tolerance on every bound.
    options
        Of `torchmetrics.Metric`.

    Examples
    --------
    >>> import decal, torch
    >>> from decal.torch import CredalCoverage
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    >>> metric = CredalCoverage(d)
    >>> metric.update(torch.tensor([[0.5, 0.0]]), torch.tensor([[0.6, 0.4]]))
    >>> metric.compute()
    tensor(1.)
    """

    higher_is_better = True

    def __init__(
        self, decalibrator: Any, *, dim: int | None = None, atol: float = 5e-4, **options: Any
    ) -> None:
        require_decalibrator(decalibrator)
        super().__init__(decalibrator, dim=dim, ignore_index=None, **options)
        self.atol = atol

    def update(self, logits: Tensor, distributions: Any) -> None:
        """Count logits and true distributions, of one shape."""
        sets = promised(self.decalibrator, logits, self.dim)
        if isinstance(sets, CredalMaps):
            sets, distributions = sets.flat, sets.in_rows(distributions, "distributions")
        self._count(torch.from_numpy(sets.contains(distributions, atol=self.atol)))
