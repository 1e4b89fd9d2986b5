"""What labelled data say about shifting all logits at once: the loss of likelihood, in batches.

Measured from the best shift c*, adding c to the logits loses

    D(c) = sum_n w_n log sum_l o_nl exp(c_l) - sum_l N_l c_l      nats of log-likelihood,

where o_nl is the probability of class l for example n at c*, and N_l the weight of the examples
labelled l. D is convex, smallest and zero at c = 0; labels enter through N alone. With the o_nl in
memory, the losses of many shifts are one matrix product and one logarithm per example and shift.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits, log_sum_exp, row_blocks
from decal.directions import WEIGHT_ROUND_OFF, best_model

POINTS_AT_ONCE = 32  # shifts evaluated together
# Multiplications of one matrix product. BLAS would spread larger ones over all cores, which are
# busy with other shifts: its threads would wait for one another, and take ten times as long.
PRODUCT_SIZE = 1 << 18
PAIR_ELEMENTS = 1 << 24  # products of odds kept for the Hessian; beyond, it is formed each time
WIDEST_LINEAR = 200.0  # shifts that differ by more among classes are evaluated in logarithms
VANISHING = 1e-9  # eigenvalues below this share of the largest count as zero
ROUND_OFF = 16 * float(np.finfo(np.float64).eps)  # error of a loss, as a share of its terms


@dataclass(frozen=True)
class Evaluated:
    """Shifts (P, K) with loss (P,), gradient (P, K) and Hessian (P, K, K), or (P, 0, 0) if none."""

    shift: Array
    loss: Array
    gradient: Array
    hessian: Array

    def __getitem__(self, rows: Any) -> Self:
        return type(self)(*(getattr(self, f.name)[rows] for f in fields(self)))

    def put(self, rows: Any, other: Evaluated) -> None:
        """Replace the rows by others."""
        for f in fields(self):
            getattr(self, f.name)[rows] = getattr(other, f.name)


@dataclass(frozen=True)
class ShiftLoss:
    """The loss D of labelled logits."""

    # (n, K) log o_nl. A class that never occurs has no best shift: its odds are those of its logit,
    # moved so that the largest of all examples is 1.
    log_odds: Array
    weights: Array  # (n,) positive
    label_weight: Array  # (K,) N_l
    center: Array  # (K,) what c = 0 adds to the model's own logits

    @classmethod
    def from_data(
        cls, logits: Logits, labels: NDArray[np.intp], weights: Array
    ) -> tuple[ShiftLoss, float]:
        """The loss of labelled logits, and what their best shift gains on them, in nats."""
        z = logits.astype(np.float64)
        K = z.shape[1]
        label_weight = np.bincount(labels, weights, minlength=K).astype(np.float64)
        present = label_weight > 0
        center = np.zeros(K)
        if present.sum() > 1:
            center[present] = best_model(z, labels, weights, scale=False).center[present]
        each = np.arange(len(z))
        before = z[each, labels] - log_sum_exp(z)
        z += center
        log_odds = z - log_sum_exp(z[:, present])[:, None]
        gain = float(weights @ (log_odds[each, labels] - before))
        offset = np.where(present, 0.0, log_odds.max(axis=0))
        return cls(log_odds - offset, weights, label_weight, center - offset), max(gain, 0.0)

    def parts(self) -> dict[str, Array]:
        """Arrays for a model file."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def part_names(cls) -> set[str]:
        """The names of `parts`."""
        return {f.name for f in fields(cls)}

    @classmethod
    def from_parts(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """The loss of arrays from `parts`; ValueError if they cannot come from labelled data."""
        if arrays.keys() != cls.part_names():
            raise ValueError(f"it holds {', '.join(sorted(arrays))}")
        found = cls(**arrays)
        n, K = found.log_odds.shape
        shapes = {"log_odds": (n, K), "weights": (n,), "label_weight": (K,), "center": (K,)}
        for name, shape in shapes.items():
            array = arrays[name]
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite numbers of shape {shape}")
        present = found.label_weight > 0
        ones = np.exp(found.log_odds[:, present]).sum(axis=1)
        sound = n > 0 and (found.weights > 0).all() and (found.label_weight >= 0).all()
        sound = sound and np.isclose(found.weights.sum(), found.total_weight)
        if not sound or not np.allclose(ones, 1):
            raise ValueError("its numbers are not of labelled data")
        expected = found.weights @ np.exp(found.log_odds[:, present])
        off = np.abs(expected - found.label_weight[present]).max()
        highest = found.log_odds.max(axis=0)[~present]
        if off > WEIGHT_ROUND_OFF * found.total_weight or not np.allclose(highest, 0):
            raise ValueError("its numbers are not of the best shift")
        return found

    def subset(self, columns: NDArray[np.intp]) -> ShiftLoss:
        """The loss while all other classes, none of which occurs, are left out."""
        log_odds = np.ascontiguousarray(self.log_odds[:, columns])
        return ShiftLoss(log_odds, self.weights, self.label_weight[columns], self.center[columns])

    @property
    def total_weight(self) -> float:
        """Sum of all sample weights."""
        return float(self.label_weight.sum())

    @cached_property
    def best(self) -> Evaluated:
        """The best shift itself, c = 0, as one row."""
        return self.evaluate(np.zeros((1, len(self.center))))

    @cached_property
    def metric(self) -> Array:
        """(K, K) Hessian at the best shift, made regular: all classes together may move freely."""
        return np.asarray(self.best.hessian[0] + self.gauge)

    @cached_property
    def inverse_metric(self) -> Array:
        """(K, K) inverse of `metric`; inf-like where the data do not bend the loss at all."""
        return safe_inverse(self.metric)

    @property
    def gauge(self) -> float:
        """What is added to every entry of a Hessian to make it regular."""
        return self.total_weight / len(self.center) ** 2

    @cached_property
    def odds(self) -> Array:
        """(n, K) o_nl."""
        return np.exp(self.log_odds)

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Array] | None:
        """Products of the odds of every pair of classes, (n, K (K + 1) / 2), if they fit."""
        n, K = self.log_odds.shape
        if n * K * (K + 1) // 2 > PAIR_ELEMENTS:
            return None
        first, second = np.triu_indices(K)
        return first, second, self.odds[:, first] * self.odds[:, second]

    def round_off(self, shift: Array) -> Array:
        """(P,) bound of the error of the loss at the shifts (P, K), in nats."""
        return np.asarray(ROUND_OFF * self.total_weight * (1.0 + np.abs(shift).max(axis=1)))

    def loss(self, shift: Array) -> Array:
        """(P,) losses of the shifts (P, K)."""
        return self._evaluate(shift, 0)[0]

    def evaluate(self, shift: Array, *, curvature: bool = True) -> Evaluated:
        """Losses and derivatives at the shifts (P, K)."""
        return Evaluated(shift, *self._evaluate(shift, 2 if curvature else 1))

    def _evaluate(self, shift: Array, derivatives: int) -> tuple[Array, Array, Array]:
        P, K = shift.shape
        loss, gradient = np.zeros(P), np.zeros((P, K))
        hessian = np.zeros((P, K, K) if derivatives == 2 else (P, 0, 0))
        deep = np.ptp(shift, axis=1) > WIDEST_LINEAR
        for points in row_blocks(P, 1, POINTS_AT_ONCE):
            c = np.where(deep[points, None], 0.0, shift[points])
            top = c.max(axis=1)
            factor = np.exp(c - top[:, None])
            self._add_block(factor, loss[points], gradient[points], hessian[points])
            loss[points] += top * self.total_weight
        for i in np.flatnonzero(deep):
            loss[i], gradient[i], h = self._evaluate_in_logarithms(shift[i])
            hessian[i] = h[: hessian.shape[1], : hessian.shape[2]]
        if derivatives == 2:
            diagonal = np.arange(K)
            hessian[:, diagonal, diagonal] += gradient
        loss -= shift @ self.label_weight
        gradient -= self.label_weight
        return loss, gradient, hessian

    def _add_block(self, factor: Array, loss: Array, gradient: Array, hessian: Array) -> None:
        """Add what the data contribute at the factors e^c (P, K), without the linear terms."""
        K, curvature = len(self.center), hessian.shape[1] > 0
        pairs = self.pairs if curvature else None
        moment = np.zeros((len(factor), 0 if pairs is None else pairs[2].shape[1]))
        widest = max(K, moment.shape[1])
        step = max(16, PRODUCT_SIZE // (POINTS_AT_ONCE * widest))
        for rows in row_blocks(len(self.weights), 1, step):
            odds, w = self.odds[rows], self.weights[rows]
            total = factor @ odds.T
            loss += np.log(total) @ w
            share = np.divide(1.0, total, out=total)
            weighted = share * w
            gradient += weighted @ odds
            if pairs is not None:
                moment += np.multiply(weighted, share, out=weighted) @ pairs[2][rows]
            elif curvature:
                for i, s in enumerate(weighted * share):
                    hessian[i] -= (odds * s[:, None]).T @ odds
        gradient *= factor
        if pairs is not None:
            hessian[:, pairs[0], pairs[1]] = hessian[:, pairs[1], pairs[0]] = -moment
        if curvature:
            hessian *= factor[:, :, None] * factor[:, None, :]

    def _evaluate_in_logarithms(self, shift: Array) -> tuple[float, Array, Array]:
        """One shift, without the linear terms, however far apart its classes are."""
        K = len(shift)
        value, slopes, hessian = 0.0, np.zeros(K), np.zeros((K, K))
        for rows in row_blocks(len(self.weights), K):
            moved = self.log_odds[rows] + shift
            w = self.weights[rows]
            total = log_sum_exp(moved)
            q = np.exp(moved - total[:, None])
            value += float(w @ total)
            slopes += w @ q
            hessian -= (q * w[:, None]).T @ q
        return value, slopes, hessian


def safe_inverse(matrices: Array) -> Array:
    """(..., K, K) inverses; where round-off hides an eigenvalue, that of the inverse is huge."""
    values, vectors = np.linalg.eigh(matrices)
    largest = values[..., -1:]
    values = np.where(values > VANISHING * largest, values, VANISHING**3 * largest)
    return np.asarray((vectors / values[..., None, :]) @ vectors.swapaxes(-1, -2))
