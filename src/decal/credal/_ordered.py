"""Classes in an order: how an interval of classes grows, which one is kept, and ordered losses.

Write F(k) for the probability of the first k classes. Its range over a credal set is a p-box, and
bounds every quantile. An interval of classes grows from the most probable one, always towards the
more probable of its two neighbours. A two-sided walk that takes the larger head first visits the
classes by the *least* probability between them and the start, so that growing is sorting.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from decal._base.errors import InputError
from decal._base.numerics import Array, Indices, Mask, row_sums
from decal._base.row_checks import to_numpy
from decal._base.settings import check_choice, check_count

LOSSES = ("absolute", "squared", "asymmetric")


def box_growing(lower: Array, upper: Array, order: Indices | None) -> tuple[Array, Array]:
    """Range of the probability of the first 1, ..., K classes of an order, over boxes: (n, K) each.

    `order` (n, K) has the classes of each row, the first one first; None is their own order.
    """
    low, high = (_cumulative(bound, order) for bound in (lower, upper))
    rest_low, rest_high = row_sums(lower)[:, None] - low, row_sums(upper)[:, None] - high
    least, most = np.maximum(low, 1.0 - rest_high), np.minimum(high, 1.0 - rest_low)
    least, most = np.clip(least, 0.0, 1.0), np.clip(most, 0.0, 1.0)
    least[:, -1] = most[:, -1] = 1.0
    return np.minimum(least, most), most


def hull_growing(vertices: Array, order: Indices | None) -> tuple[Array, Array]:
    """As `box_growing`, over hulls of vertices (n, M, K)."""
    each = np.clip(_cumulative(vertices, None if order is None else order[:, None]), 0.0, 1.0)
    each[..., -1] = 1.0
    return np.asarray(each.min(axis=1)), np.asarray(each.max(axis=1))


def _cumulative(values: Array, order: Indices | None) -> Array:
    if order is not None:
        values = np.take_along_axis(values, np.broadcast_to(order, values.shape), axis=-1)
    return np.asarray(np.cumsum(values, axis=-1))


def growing_order(point: Array) -> Indices:
    """(n, K) the classes in which an interval grows from the most probable one.

    Always by the more probable neighbour; of equal ones by the nearer, then by the lower class.
    """
    K = point.shape[1]
    k, start = np.arange(K), point.argmax(axis=1)[:, None]
    right = np.minimum.accumulate(np.where(k >= start, point, np.inf), axis=1)
    left = np.minimum.accumulate(np.where(k <= start, point, np.inf)[:, ::-1], axis=1)[:, ::-1]
    least = np.where(k >= start, right, left)
    return np.lexsort((np.abs(k - start), -least), axis=1)


def until_majority(least: Array, order: Indices, tie: float) -> Mask:
    """(n, K) the first classes of an order, until they have a lower probability of one half.

    `least` (n, K) are lower probabilities of the first 1, ..., K classes.
    """
    kept = np.empty(least.shape, dtype=bool)
    before = np.concatenate([np.zeros((len(least), 1)), least[:, :-1]], axis=1)
    np.put_along_axis(kept, order, before < 0.5 - tie, axis=1)
    return kept


def interval_hull(kept: Mask) -> Mask:
    """(n, K) the kept classes and all between them."""
    reached = np.logical_or.accumulate(kept, axis=1)
    ahead = np.logical_or.accumulate(kept[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(reached & ahead)


def class_values(names: Sequence[str] | None, count: int) -> Array:
    """(K,) what the classes are worth by default: their names if all are numbers, else 0 to K - 1.

    Numbers must rise: else they are names of something else.
    """
    try:
        values = np.array([float(name) for name in names or ()])
    except ValueError:
        values = np.array([])
    rising = len(values) == count and np.isfinite(values).all() and (np.diff(values) > 0).all()
    return values if rising else np.arange(float(count))


def ordered_utility(
    n_classes: int,
    loss: str = "absolute",
    *,
    values: Sequence[float] | None = None,
    over: float = 1.0,
    under: float = 1.0,
) -> Array:
    """Utilities (K, K) of naming a class of several in an order: minus what the distance costs.

    With one distribution, "absolute" names its median, "squared" the class nearest to its mean, and
    "asymmetric" its quantile under / (over + under).

    Parameters
    ----------
    n_classes : int
        K, at least 2.
    loss : str
        "absolute", "squared", or "asymmetric", in which naming too high a class costs `over` times
        the distance, and too low a one `under` times.
    values : (K,) numbers, optional
        Where the classes stand; by default 0 to K - 1.
    over, under : float
        Positive, for "asymmetric".

    Examples
    --------
    >>> import decal
    >>> decal.credal.ordered_utility(3, "asymmetric", under=4)
    array([[-0., -4., -8.],
           [-1., -0., -4.],
           [-2., -1., -0.]])
    """
    K = check_count(n_classes, "n_classes", least=2)
    check_choice(loss, "loss", LOSSES)
    v = np.arange(float(K)) if values is None else to_numpy(values, "values").astype(np.float64)
    if v.shape != (K,) or not np.isfinite(v).all():
        raise InputError("values", f"be {K} finite numbers, one per class", f"shape {v.shape}")
    for name, weight in (("over", over), ("under", under)):
        if not 0 < weight < np.inf:
            raise InputError(name, "be positive and finite", f"{weight}")
        if loss != "asymmetric" and weight != 1.0:
            raise InputError(name, "go with loss='asymmetric'", f"{weight} with {loss!r}")
    apart = v[:, None] - v
    if loss == "squared":
        return -(apart**2)
    return -np.abs(apart) * np.where(apart > 0, over, under)
