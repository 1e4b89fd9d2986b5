"""What the two usual conformal sets would cost at the same miss rate: LAC and APS.

LAC keeps the classes of at least some probability (Sadinle, Lei and Wasserman, 2019), APS the most
probable ones until they reach some probability together (Romano, Sesia and Candès, 2020). Both keep
the most probable class, whatever its probability, so that no set is empty.
"""

from __future__ import annotations

import numpy as np

from decal._base.numerics import Array, Indices, Mask, softmax
from decal.choose._order import allowed

ROWS_COMPARED = 5000  # so many rows tell mean sizes


def plain_sizes(logits: Array, labels: Indices, miss: float) -> dict[str, float]:
    """Mean numbers of classes that LAC and APS keep of (n, K) logits, and the plain error."""
    y, p = labels, softmax(logits.astype(np.float64))
    order = np.argsort(-p, axis=1, kind="stable")
    reached = np.empty_like(p)
    np.put_along_axis(reached, order, np.take_along_axis(p, order, axis=1).cumsum(axis=1), axis=1)
    top = p == p.max(axis=1, keepdims=True)
    return {
        "error": float((order[:, 0] != y).mean()),
        "lac": _mean_size(1 - p, top, y, miss),
        "aps": _mean_size(reached, top, y, miss),
    }


def _mean_size(scores: Array, top: Mask, labels: Indices, miss: float) -> float:
    """The mean number of classes whose score is at most that of enough labels, or which are top."""
    own = np.sort(scores[np.arange(len(labels)), labels])
    k = allowed(miss, len(labels))
    threshold = own[-k] if k else np.inf
    return float(((scores <= threshold) | top).sum(axis=1).mean())
