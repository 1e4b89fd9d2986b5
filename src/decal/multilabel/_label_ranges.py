"""How far every label may move, and where its probability gets to: two classes, in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from decal._base.numerics import Array, sigmoid
from decal.directions import (
    RESIDUAL_TOLERANCE,
    Direction,
    Endpoints,
    Inputs,
    Local,
    Reference,
    Temperature,
    local_box,
    plausible_shifts,
)
from decal.multilabel._label_evidence import LabelEvidence, two_classes


def endpoints(
    direction: Direction, learnt: LabelEvidence, budgets: Array, alpha: float, reference: str
) -> Endpoints:
    """How far a direction may move for every label: (L,) each.

    Parameters
    ----------
    direction : Direction
        One of decal's own.
    learnt : LabelEvidence
        The evidence.
    budgets : (L,) array
        Log-likelihood that may be lost over the answers of each label, in nats.
    alpha : float
        What they were made from.
    reference : str
        Where gains are measured from.
    """
    if isinstance(direction, Local):
        weight = np.where(learnt.weight > 0, learnt.weight, 1.0)
        return Endpoints(np.zeros_like(budgets), budgets / weight, 0.0, alpha, 0.0)
    if isinstance(direction, Temperature):
        return _scale_endpoints(direction, learnt, budgets, alpha)
    assert learnt.margins is not None
    found = plausible_shifts(
        learnt.margins, budgets[None], Reference(learnt.center, name=reference)
    )
    _require_solved(found.residual)
    return replace(found, lower=found.lower[0], upper=found.upper[0], alpha=alpha)


def _require_solved(residual: float) -> None:
    if residual > RESIDUAL_TOLERANCE:
        raise ArithmeticError(
            f"the endpoints miss their budget by {residual:.2g} nats per example. This should not "
            "happen: please report it with your data."
        )


def _scale_endpoints(
    direction: Temperature, learnt: LabelEvidence, budgets: Array, alpha: float
) -> Endpoints:
    """Plausible scales (L,), relative to those of the reference."""
    lower, upper = np.zeros_like(budgets), np.full_like(budgets, np.inf)
    residual = error = 0.0
    for k, ladder in enumerate(learnt.ladders):
        if ladder is None:
            continue
        reference = Reference(np.zeros(2), float(learnt.scale[k]))
        one = direction.endpoints(ladder, budgets[k : k + 1], reference)
        lower[k], upper[k] = one.lower[0], one.upper[0]
        residual, error = max(residual, one.residual), max(error, one.error)
    _require_solved(residual)
    return Endpoints(lower, upper, learnt.scale, alpha, residual, error)


def probability_range(direction: Direction, r: Array, found: Endpoints) -> tuple[Array, Array]:
    """The least and greatest probability (n, L) while one direction moves."""
    if isinstance(direction, Local):
        return _local_range(direction, r, found)
    # With two classes a probability is monotone in the scale, too: there is no peak in between.
    scaled = isinstance(direction, Temperature)
    still = np.isinf(r) | (scaled & (r == 0))
    with np.errstate(invalid="ignore"):
        moved = ((t * r if scaled else t + r) for t in (found.lower, found.upper))
        ends = [sigmoid(np.where(still, r, m)) for m in moved]
    return np.minimum(*ends), np.maximum(*ends)


def _local_range(direction: Local, r: Array, found: Endpoints) -> tuple[Array, Array]:
    """Those of the balls, a label at a time only if their radii differ."""
    settings = direction.mix, direction.by_entropy

    def box(z: Array, radius: float) -> tuple[Array, Array]:
        inputs = Inputs(two_classes(z.ravel()), np.zeros(2), joint=False)
        ends = Endpoints(0.0, radius, 0.0, None, 0.0)
        bounds = local_box(inputs, ends, *settings)
        return bounds.low[:, 1].reshape(z.shape), bounds.high[:, 1].reshape(z.shape)

    radii = np.unique(found.upper)
    if len(radii) == 1:
        return box(r, float(radii[0]))
    low, high = np.empty((2, *r.shape))
    for radius in radii:
        labels = found.upper == radius
        low[:, labels], high[:, labels] = box(r[:, labels], float(radius))
    return low, high
