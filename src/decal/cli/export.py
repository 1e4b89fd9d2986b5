"""decal export: a model as an ONNX file, alone or behind a classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import decal
from decal._base.errors import InputError
from decal.cli import options
from decal.cli.terminal import say
from decal.credal.decisions import HEAD_RULES
from decal.io.writers import check_output

EXPORT_EXAMPLES = """Examples:
    decal export model.npz classifier.onnx -o credal.onnx
    decal export model.npz net.onnx -o credal.onnx --classifier-output logits
    decal export model.npz -o head.onnx --kept e_admissible
    decal export model.npz unet.onnx -o credal.onnx --dim 1
Output:
    the classifier's own inputs and outputs, and two outputs more, lower and upper, in the shape \
of the logits; with \
--kept also kept, true for the possible classes. \
Without CLASSIFIER, a file that takes logits.
"""


def export(
    model: options.ModelArgument,
    classifier: Annotated[
        Path | None,
        typer.Argument(metavar="CLASSIFIER", help="An .onnx file that gives the logits."),
    ] = None,
    out: Annotated[Path, options.output_option("The .onnx file to write.")] = ...,  # type: ignore[assignment]
    alpha: options.AlphaOption = None,
    output: Annotated[
        str | None,
        options.option(
            "The output with the logits, if there are several.", "NAME", "--classifier-output"
        ),
    ] = None,
    kept: Annotated[
        str | None,
        options.choice_option(
            f"Also return the classes that a rule keeps: {', '.join(HEAD_RULES)}.",
            "RULE",
            HEAD_RULES,
        ),
    ] = None,
    dim: Annotated[
        int,
        options.option(
            "Axis of the classes, behind a network of pixels: 1 for N × K × H × W.", "AXIS"
        ),
    ] = -1,
    force: options.ForceOption = False,
) -> None:
    """Write an ONNX file that returns probability ranges.

    It returns lower and upper probabilities wherever ONNX Runtime runs, without Python, at one
    level. A model of logits attaches to what goes into a final Softmax of the classifier.
    """
    from decal.onnx import append_head, export_head, head_outputs

    check_output(out, force=force, formats=(".onnx",))
    fitted = decal.Decalibrator.load(model)
    level = fitted.alpha if alpha is None else alpha
    if classifier is None:
        export_head(fitted, out, alpha=level, kept=kept, dim=dim)
    else:
        bounds = head_outputs(classifier)
        if {"lower", "upper"} & set(bounds):
            rule, remedy = "have no head yet", "Give the classifier that the head was added to."
            raise InputError("CLASSIFIER", rule, f"{classifier} with {', '.join(bounds)}", remedy)
        append_head(classifier, fitted, out, alpha=level, output=output, kept=kept, dim=dim)
    behind = "alone" if classifier is None else f"behind {classifier}"
    outputs = "lower and upper" if kept is None else "lower, upper and kept"
    say(f"Wrote {out}: {outputs} at alpha {level:g}, {behind}", style="green")
