"""HullCredalSet: what an ensemble says, as a credal set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from decal._base.data_frames import is_frame
from decal._base.numerics import Array, Indices, Mask
from decal._base.row_checks import check_class_names
from decal._base.set_checks import check_vertices, read_frames
from decal._base.settings import check_tolerance
from decal.credal import _hull_decisions as hull_decisions
from decal.credal import _hull_entropy as hull_entropy
from decal.credal._boxes import NonemptySet
from decal.credal._ordered import hull_growing
from decal.credal._total_variation import hull_total_variation


@dataclass(frozen=True, eq=False, repr=False, init=False)
class HullCredalSet(NonemptySet):
    """Convex hulls of probability vectors: for every input, all mixtures of M predictions.

    What an ensemble says: every member's prediction is a vertex. It answers all questions of
    IntervalCredalSet; `lower` and `upper` are the smallest box around each hull, `point` the mean.

    Parameters
    ----------
    vertices : (n, M, K) array
        M distributions for each input.
    axis : int, optional
        Where the members are: 1, or 0 if `vertices` is (M, n, K), as np.stack of the members'
        predictions is. By default 1, and a warning if there are more members than inputs and more
        than 30.
    classes : list of str, optional
        K names.

    Notes
    -----
    Expectations, the lower entropy and most decisions are found at vertices; the upper entropy by
    an interior-point method with a certificate of 1e-10 nats; E-admissibility and membership as
    small matrix games. "hartley" is that of the box around the hull.

    Examples
    --------
    >>> import decal
    >>> h = decal.HullCredalSet([[[0.9, 0.1, 0.0], [0.5, 0.2, 0.3]]], classes=["a", "b", "c"])
    >>> h
    HullCredalSet: 1 input, 2 vertices, 3 classes, mean width 0.267
      0  a [0.500, 0.900]  c [0.000, 0.300]  b [0.100, 0.200]
    >>> h.contains([[0.7, 0.15, 0.15]]), h.box().contains([[0.8, 0.2, 0.0]])
    (array([ True]), array([ True]))
    """

    vertices: Array
    classes: tuple[str, ...] | None

    _measures: ClassVar[dict[str, Callable[..., Array]]] = {
        "zero_one": hull_decisions.zero_one,
        "total_variation": hull_total_variation,
    }
    _rules: ClassVar[dict[str, Callable[..., Mask | Indices]]] = {
        "maximality": hull_decisions.maximality,
        "e_admissible": hull_decisions.e_admissible,
        "minimax_regret": hull_decisions.minimax_regret,
    }

    def __init__(
        self, vertices: Any, *, axis: int | None = None, classes: Iterable[Any] | None = None
    ) -> None:
        index = None
        if isinstance(vertices, list | tuple) and any(map(is_frame, vertices)):
            frames = {f"vertices[{m}]": member for m, member in enumerate(vertices)}
            vertices, classes, index = read_frames(classes, **frames)
        array = check_vertices(vertices, axis)
        names = check_class_names(classes, array.shape[2])
        self._hold(vertices=array, classes=names, _index=index if axis == 0 else None)

    @cached_property
    def lower(self) -> Array:  # type: ignore[override]
        """(n, K) least probability of each class."""
        return np.asarray(self.vertices.min(axis=1))

    @cached_property
    def upper(self) -> Array:  # type: ignore[override]
        """(n, K) greatest probability of each class."""
        return np.asarray(self.vertices.max(axis=1))

    @cached_property
    def point(self) -> Array:  # type: ignore[override]
        """(n, K) the mean of the vertices."""
        return np.asarray(self.vertices.mean(axis=1))

    def contains(self, distributions: Any, *, atol: float = 5e-4) -> Mask:
        """(n,) True where some mixture of the vertices is within `atol` of (n, K) distributions."""
        p = self.check_distributions(distributions)
        return hull_decisions.contains(self.vertices, p, atol=check_tolerance(atol, "atol"))

    def upper_entropy(self) -> hull_entropy.UpperEntropy:
        """The upper entropy with its certificate: value, bound, weights and gap."""
        return hull_entropy.upper_entropy(self.vertices)

    def _size(self) -> str:
        M = self.vertices.shape[1]
        return "1 vertex, " if M == 1 else f"{M:,} vertices, "

    @property
    def _arrays(self) -> tuple[Array]:
        return (self.vertices,)

    def _lower_entropy(self) -> Array:
        return hull_entropy.lower_entropy(self.vertices)

    def _upper_entropy(self) -> Array:
        return hull_entropy.upper_entropy(self.vertices).value

    def _expectation(self, values: Array) -> tuple[Array, Array]:
        return hull_decisions.expectation(self.vertices, values)

    def _growing(self, order: Indices | None) -> tuple[Array, Array]:
        return hull_growing(self.vertices, order)
