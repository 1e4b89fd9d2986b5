"""What is served: a model file of decal, or an ONNX file. Both answer with the same bounds."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


class Served(Protocol):
    """A fitted model that turns logits (n, K) into bounds; ValueError for logits that are wrong."""

    columns: int
    about: dict[str, Any]

    def predict(self, logits: NDArray[Any], alpha: float | None) -> tuple[Floats, Floats]:
        """Lower and upper bounds, (n, K) each, at the model's alpha or another."""


class DecalModel:
    """A file that `Decalibrator.save` wrote. Every alpha can be asked for."""

    def __init__(self, path: Path) -> None:
        import decal

        self._model = decal.Decalibrator.load(path)
        self._model.shifts()  # solved now, not during the first request
        self.columns = len(self._model.class_weights)
        self.about = {
            "kind": "decal",
            "alpha": self._model.alpha,
            "classes": self._model.classes or [str(k) for k in range(self.columns)],
            "likelihood": self._model.likelihood,
            "reference": self._model.reference,
            "box": self._model.box,
            "directions": [str(d) for d in self._model.directions],
            "examples": self._model.examples,
            "decal": decal.__version__,
            **_file(path),
        }

    def predict(self, logits: NDArray[Any], alpha: float | None) -> tuple[Floats, Floats]:
        """As `Decalibrator.predict`, which checks the logits."""
        credal = self._model.predict(logits, alpha=alpha)
        return credal.lower, credal.upper


class OnnxModel:
    """A file that `export` wrote: float32, one alpha, and neither PyTorch nor decal at run time."""

    def __init__(self, path: Path) -> None:
        import onnxruntime  # type: ignore[import-untyped]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # a head is small: threads that spin would cost more
        self._session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        told = self._session.get_modelmeta().custom_metadata_map
        self._input = self._session.get_inputs()[0].name
        self.columns = int(self._session.get_inputs()[0].shape[1])
        self._alpha = float(told["alpha"])
        self.about = {
            "kind": "onnx",
            "alpha": self._alpha,
            "classes": json.loads(told["classes"]),
            "examples": int(told["examples"]),
            "decal": told["decal"],
            **_file(path),
        }

    def predict(self, logits: NDArray[Any], alpha: float | None) -> tuple[Floats, Floats]:
        """The bounds; the head itself checks nothing, so it is done here, in decal's words."""
        if alpha is not None and alpha != self._alpha:
            raise ValueError(
                f"alpha must be {self._alpha:g}, for which the file was exported: got {alpha:g}. "
                "Export another, or serve the .npz file."
            )
        z = np.asarray(logits)
        if z.ndim != 2 or z.dtype.kind not in "iuf":
            raise ValueError(
                "logits must be a matrix with a row per example and a column per class: "
                f"got shape {z.shape}."
            )
        if z.shape[1] != self.columns:
            raise ValueError(
                f"logits must have {self.columns} columns, one per class seen by fit: "
                f"got shape {z.shape}. Use the logits of the same model."
            )
        with np.errstate(over="ignore"):
            narrow = np.ascontiguousarray(z, dtype=np.float32)
        fine = narrow < np.inf  # false for NaN, too; -inf masks a class
        if not fine.all():
            row, column = np.argwhere(~fine)[0]
            raise ValueError(
                f"logits must be finite or -inf: got {z[row, column]} at index ({row}, {column}). "
                "Mask or repair such rows first."
            )
        alone = np.isneginf(narrow).all(axis=1)
        if alone.any():
            raise ValueError(
                "logits must leave a class unmasked in every row: "
                f"got only -inf in row {alone.argmax()}. Mask or repair such rows first."
            )
        lower, upper = self._session.run(None, {self._input: narrow})
        return lower, upper


def load(path: Path) -> Served:
    """The model in a file, by its ending."""
    return OnnxModel(path) if path.suffix == ".onnx" else DecalModel(path)


def export(source: Path, target: Path, *, alpha: float | None = None) -> None:
    """Turn a model file of decal into an ONNX file: logits in, lower and upper bounds out.

    Needs PyTorch, onnx and onnxscript; the file that is written needs none of them. To put the
    classifier into the file as well, export `nn.Sequential(classifier, CredalHead(...))` instead.
    """
    import onnx
    import torch

    import decal
    from decal.torch import CredalHead

    model = decal.Decalibrator.load(source)
    head = CredalHead(model, alpha).eval()
    K = len(model.class_weights)
    program = torch.onnx.export(
        head,
        (torch.zeros(2, K),),
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("rows")},),
        input_names=["logits"],
        output_names=["lower", "upper"],
        verbose=False,
    )
    assert program is not None
    proto = program.model_proto
    told = {
        "alpha": repr(head.alpha),
        "classes": json.dumps(model.classes or [str(k) for k in range(K)]),
        "examples": str(model.examples),
        "decal": decal.__version__,
    }
    onnx.helper.set_model_props(proto, told)
    onnx.save(proto, target)


def _file(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


if __name__ == "__main__":
    import sys

    export(Path(sys.argv[1]), Path(sys.argv[2]))
