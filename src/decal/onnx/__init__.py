"""ONNX: the logits of a classifier in a file, and files that return credal sets.

`run` takes inputs through an ONNX classifier to logits; `append_head` writes a decalibrator behind
it, so that one file goes from inputs to lower and upper probabilities; `export_head` writes the
decalibrator alone. Imports from all layers below.
"""

from decal._base.errors import needs

with needs("onnx", message="decal.onnx needs the package onnx: pip install 'decal[onnx]'"):
    import onnx  # noqa: F401

from decal.onnx._endings import head_outputs
from decal.onnx._heads import append_head, export_head
from decal.onnx._running import run

__all__ = ["append_head", "export_head", "head_outputs", "run"]
