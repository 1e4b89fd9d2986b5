"""Class frequencies before and now, and predictions before, for a page about adapted sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from decal.explorer._payload import Payload, _fold
from decal.shift import LabelShift, p_text


def with_frequencies(payload: Payload, shift: LabelShift, logits: Any, ids: Any = None) -> Payload:
    """The payload of a LabelShift's sets, with what it has found and what it said before.

    Parameters
    ----------
    payload : Payload
        Of the sets of these inputs.
    shift : LabelShift
        Which predicted them.
    logits : (n, K) array
        The inputs.
    ids : optional
        What names them, as for `LabelShift.predict`.
    """
    found, test = shift.frequencies, shift.test()
    before = shift.predict(logits, frequencies=found.before, ids=ids).point
    assert before is not None
    rows, slots = payload.arrays["rows"], payload.arrays["slots"]
    header = dict(payload.header)
    header["frequencies"] = {
        **{name: column.tolist() for name, column in found._columns().items()},
        "p_values": [None if np.isnan(p) else p_text(p, 2) for p in test.p_values],
        "p_value": p_text(test.p_value),
        "changed": test.p_value < 1 - found.confidence,
        "order": found.most_changed,
        "confidence": found.confidence,
        "inputs": found.inputs,
    }
    settings = [
        ["labels", f"{shift._fitted.calibrated.weight:,.6g}"],
        ["observed", f"{found.inputs:,.6g}"],
        ["confidence", f"{found.confidence:g}"],
        ["region", shift.region],
        ["corrected", "yes" if shift.corrected else "no"],
    ]
    header["models"] = [{**model, "settings": settings} for model in header["models"]]
    folded = _fold(before[rows], slots).astype(np.float32)
    return Payload(header, {**payload.arrays, "before": folded})
