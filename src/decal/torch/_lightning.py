"""LightningDecalibration: a callback of Lightning that decalibrates after every validation."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from torch import Tensor

from decal._base.errors import needs
from decal.torch._after_validation import AfterValidation
from decal.torch.batches import run_batch, split_batch

with needs(
    *("lightning", "pytorch_lightning"),
    message="decal.torch.LightningDecalibration needs Lightning: pip install 'decal[lightning]'",
):
    if find_spec("lightning"):
        from lightning.pytorch import Callback
    else:
        from pytorch_lightning import Callback


class LightningDecalibration(AfterValidation, Callback):  # type: ignore[misc]
    """A callback of Lightning: it decalibrates at the end of every validation, and logs that.

    Logits are what `validation_step` returned under "logits", or as a tensor of them; else the
    module runs once more on the inputs of the batch. Logged are "decal/alpha" and, of a promise,
    its target ("decal/miss"), "decal/set_size", "decal/single" and "decal/width". The decalibrator
    is kept in checkpoints. It learns from the data of all processes: use as many inputs as these
    divide evenly, as samplers fill up the last batch with inputs that then count twice.

    Parameters
    ----------
    dim, ignore_index : int, optional
        As for `decal.torch.collect_logits`.
    wish
        As for `decal.torch.decalibrate_model`: miss=0.1, say.

    Attributes
    ----------
    decalibrator : Decalibrator or None
        That of the last validation.

    Examples
    --------
    >>> from decal.torch import LightningDecalibration
    >>> callback = LightningDecalibration(miss=0.1)  # Trainer(callbacks=[callback])
    >>> callback.decalibrator is None
    True
    """

    @property
    def state_key(self) -> str:
        """Names the callback in checkpoints, by its wish."""
        return str(self._generate_state_key(**{k: repr(v) for k, v in self.wish.items()}))

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Forget what an interrupted validation left."""
        self._batches = []

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,  # noqa: ARG002
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the logits of a batch of the first loader."""
        if trainer.sanity_checking or dataloader_idx:
            return
        inputs, labels = split_batch(batch)
        found = outputs.get("logits") if isinstance(outputs, Mapping) else outputs
        if not isinstance(found, Tensor) or found.ndim < 2:
            found = run_batch(pl_module, inputs)
        self.add(found, labels)

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Decalibrate, and log what it came to."""
        if not trainer.sanity_checking:
            found = self.finish()
            pl_module.log_dict({f"decal/{name}": value for name, value in found.items()})

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: the decalibrator, as bytes in a tensor."""
        return self.packed()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the decalibrator of a checkpoint."""
        self.unpack(state_dict)
