"""TrainerDecalibration: a callback of Hugging Face's Trainer that decalibrates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from decal._base.errors import needs
from decal.torch._after_validation import AfterValidation
from decal.torch.batches import evaluating, labelled_logits

with needs(
    "transformers",
    message="decal.torch.TrainerDecalibration needs transformers: pip install 'decal[llm]'",
):
    from transformers import TrainerCallback


class TrainerDecalibration(AfterValidation, TrainerCallback):  # type: ignore[misc]
    """A callback of a transformers.Trainer: it decalibrates after every evaluation.

    The model runs once more over the evaluation data. What `evaluate` returns has then also
    "eval_decal_alpha" and, of a promise, its target ("eval_decal_miss"), "eval_decal_set_size",
    "eval_decal_single" and "eval_decal_width", by which a best model may be chosen; so has the log
    history. Every checkpoint gets a file decal.npz, for `decal.load`.

    Parameters
    ----------
    dim, ignore_index : int, optional
        As for `decal.torch.collect_logits`. For token classification, ignore_index=-100.
    wish
        As for `decal.torch.decalibrate_model`: miss=0.1, say.

    Attributes
    ----------
    decalibrator : Decalibrator or None
        That of the last evaluation.

    Examples
    --------
    >>> from decal.torch import TrainerDecalibration
    >>> callback = TrainerDecalibration(miss=0.1)  # Trainer(..., callbacks=[callback])
    >>> callback.decalibrator is None
    True
    """

    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        """Decalibrate by the evaluation data, and add what it came to."""
        model, loader = given["model"], given["eval_dataloader"]
        options: dict[str, Any] = {"dim": self.dim, "ignore_index": self.ignore_index}
        with evaluating(model) as home:
            self._batches = list(labelled_logits(model, loader, home, False, **options))
        found = {f"eval_decal_{name}": value for name, value in self.finish().items()}
        given["metrics"] |= found
        if state.log_history:
            state.log_history[-1] |= found

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:  # noqa: ARG002
        """Write the decalibrator into the folder of the checkpoint."""
        if self.decalibrator is not None and state.is_world_process_zero:
            folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
            self.decalibrator.save(folder / "decal.npz")
