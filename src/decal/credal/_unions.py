"""Several credal sets of the same inputs as one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from decal._base.data_frames import order_of, require_same_order
from decal.credal._boxes import IntervalCredalSet
from decal.credal._credal_set import CredalSet


def union(sets: Iterable[CredalSet]) -> IntervalCredalSet:
    """The smallest intervals that hold several credal sets of the same inputs.

    What several prompts, templates, languages or models say of an input, when nothing tells which
    of them is right. Its point is the mean of their points.

    Parameters
    ----------
    sets : iterable of CredalSet
        One or more, each of the same n inputs and K classes. Inputs with the same index in another
        order are matched by it; with another index, they are refused.

    Returns
    -------
    IntervalCredalSet
        Its bounds are the least lower and the greatest upper ones. As a set of distributions it
        also holds the mixtures of the sets.

    Examples
    --------
    >>> import decal
    >>> one = decal.IntervalCredalSet([[0.6, 0.2]], [[0.8, 0.4]], classes=["yes", "no"])
    >>> other = decal.IntervalCredalSet([[0.5, 0.4]], [[0.6, 0.5]], classes=["yes", "no"])
    >>> decal.credal.union([one, other])
    IntervalCredalSet: 1 input, 2 classes, mean width 0.300
      0  yes [0.500, 0.800]  no [0.200, 0.500]
    """
    found = list(sets)
    if not found:
        raise ValueError("sets must be one or more: got none.")
    first = found[0]
    for index, credal in enumerate(found):
        if not isinstance(credal, CredalSet):
            raise ValueError(
                f"sets must be credal sets: got {type(credal).__name__} at index {index}."
            )
        if credal.shape != first.shape:
            raise ValueError(
                f"sets must be of the same inputs and classes: got {credal.shape} at index {index} "
                f"and {first.shape} before."
            )
        if credal.classes != first.classes:
            raise ValueError(
                f"sets must have the classes {first.classes}: got {credal.classes} at index "
                f"{index}."
            )
        if credal.is_empty.any():
            raise ValueError(
                f"sets must have members: got an empty one at index {index}, row "
                f"{int(credal.is_empty.argmax())}."
            )
        order = order_of(first, credal)
        found[index] = credal if order is None else credal[order]
        require_same_order(**{"sets[0]": first, f"sets[{index}]": found[index]})
    bounds = [credal._reachable for credal in found]
    low = np.minimum.reduce([lower for lower, _ in bounds])
    high = np.maximum.reduce([upper for _, upper in bounds])
    points = [credal.point for credal in found]
    known = [point for point in points if point is not None]
    point = np.mean(known, axis=0) if len(known) == len(points) else None
    return IntervalCredalSet._trusted(low, high, point, first.classes)._named(first._index)
