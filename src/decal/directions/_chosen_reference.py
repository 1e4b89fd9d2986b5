"""References that labelled rows choose by cross-validation: what to recalibrate, and how far.

"auto" is for labels that are draws from what one wants to cover, "consensus" for gold labels, on
which several people agreed: log-loss then wants to sharpen and is not to be trusted to soften.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from decal._base.numerics import Array, Logits
from decal.directions._best_model import best_model
from decal.directions._log_likelihood import OUT_OF_REACH, LogLikelihood, climbed
from decal.directions._reference import CHOSEN, Reference

FOLDS = 5
FEWEST_ROWS = 10  # fewer choose nothing: the model stays as it is
SHARES = (0.25, 0.5, 0.75, 1.0)  # of the way from the model
RIDGE = 1.0  # on the shifts, in mean weights of a row: classes without labels stay possible
CLEARLY = 2.0  # standard errors by which a consensus must gain to move the model
LEAST_GAP = 1e-3  # nats between logits at the smallest scale, where they tell nothing
# Shifts of folds, in nats, and scales, in logarithms, that are close enough to compare losses.
CLOSE, CLOSE_SCALE = 1e-6, 1e-7
FLAT = 1e-6  # slope, per weight and nat, at which a search has ended well
MAX_SCALE_STEPS, MAX_OCTAVES = 100, 300
LARGEST = 1e90  # logits that differ by more, and larger scales, are no numbers to reckon with

Labels = NDArray[np.intp]
Family = Callable[[LogLikelihood], Array | None]


def find_reference(
    logits: Logits, labels: Labels, weights: Array | None, *, scale: bool, name: str
) -> Reference:
    """The reference of this name; `scale` says whether "best" and "halfway" seek one."""
    if name in CHOSEN:
        return chosen_reference(logits, labels, weights, name=name)
    return best_model(logits, labels, weights, scale=scale, name=name)


def chosen_reference(
    logits: Logits, labels: Labels, weights: Array | None, *, name: str = "auto"
) -> Reference:
    """The recalibration, or the model itself, that predicts rows of other folds best.

    "auto": the best scale, or the best shifts and scale, by log-loss with a ridge on the shifts;
    and a quarter, a half, three quarters or all of the way there from the model. "consensus": the
    best shifts, and scale if it exceeds 1, only if they gain clearly; or shifts and scale in full
    if frequencies of the classes alone predict better than the best scale. No shift is infinite.
    The model itself if there are fewer than ten rows, or labels of one class, or a search fails.
    """
    n, K = logits.shape
    unmoved = Reference(np.zeros(K), name=name)
    if n < FEWEST_ROWS or labels.min() == labels.max():
        return unmoved
    weights = np.ones(n) if weights is None else weights / weights.mean()
    whole = LogLikelihood(logits, labels, weights, np.arange(K), ridge=RIDGE)
    if whole.gap > LARGEST:
        return unmoved
    whole = replace(whole, floor=-OUT_OF_REACH * whole.gap)
    choose = _by_log_loss if name == "auto" else _by_consensus
    model = choose(whole, Folds(whole))
    if model is None or model[-1] > LARGEST:
        return unmoved
    before, after = (whole.losses(m) @ weights / n for m in (_the_model(K), model))
    return Reference(model[:K], float(model[K]), max(float(before - after), 0.0), name)


def _by_log_loss(whole: LogLikelihood, folds: Folds) -> Array | None:
    """Of all families and shares the model of the least log-loss on rows of other folds."""
    least = folds.loss(folds.of_model)
    chosen = None
    for family in (scale_alone, shifts_and_scale):
        found = folds.fits(family)
        for share in SHARES if found else ():
            loss = folds.loss(folds.losses(found, share))
            if loss < least:
                least, chosen = loss, (family, share)
    return None if chosen is None else _refitted(whole, *chosen)


def _by_consensus(whole: LogLikelihood, folds: Folds) -> Array | None:
    """Shifts, and scale above 1, if they gain clearly; in full, if logits tell less than counts."""
    scaled, plain = folds.fits(scale_alone), folds.fits(frequencies)
    if scaled and folds.loss(folds.losses(plain, 1.0)) < folds.loss(folds.losses(scaled, 1.0)):
        return shifts_and_scale(whole)
    found = folds.fits(sharpened)
    if not found:
        return None
    by_share = {share: folds.losses(found, share) for share in SHARES}
    share = min(by_share, key=lambda s: folds.loss(by_share[s]))
    gains, w = folds.of_model - by_share[share], whole.weights
    gain = w @ gains / w.sum()
    error = np.sqrt(w**2 @ (gains - gain) ** 2) / w.sum()
    return _refitted(whole, sharpened, share) if gain > CLEARLY * error else None


class Folds:
    """Rows in five parts at random, always the same, each predicted by models of the other four."""

    def __init__(self, whole: LogLikelihood) -> None:
        self.whole = whole
        n = len(whole.labels)
        fold = np.random.default_rng(0).permutation(n) % FOLDS
        self.rows = [np.flatnonzero(fold == f) for f in range(FOLDS)]
        weights = (np.where(fold == f, 0.0, whole.weights) for f in range(FOLDS))
        self.others = [whole.weighted(w) for w in weights]
        self.of_model = whole.losses(_the_model(len(whole.columns)))

    def loss(self, losses: Array) -> float:
        """The mean loss of all rows."""
        return float(self.whole.weights @ losses)

    def fits(self, family: Family) -> list[Array]:
        """What each part is predicted by; nothing if a search fails."""
        found = [family(other) for other in self.others]
        models = [model for model in found if model is not None]
        return models if len(models) == FOLDS else []

    def losses(self, models: Sequence[Array], share: float) -> Array:
        """(n,) losses of all rows, each part by its own model, so far from the model given."""
        found = np.empty(len(self.whole.labels))
        for rows, model in zip(self.rows, models, strict=True):
            part = replace(
                self.whole, logits=self.whole.logits[rows], labels=self.whole.labels[rows]
            )
            found[rows] = part.losses(_toward(model, share))
        return found


# Families: the best models of their kind, as shifts and scale; None if a search fails


def scale_alone(data: LogLikelihood) -> Array | None:
    """The best scale, without shifts."""
    scale = _best_scale(data)
    return None if scale is None else np.append(np.zeros(len(data.columns)), scale)


def shifts_and_scale(data: LogLikelihood) -> Array | None:
    """The best shifts and scale, with a ridge on the shifts."""
    scale = _best_scale(data)
    if scale is None:
        return None
    least, most = _least_scale(data), _largest_scale(data)
    start = np.append(np.zeros(len(data.columns)), scale)
    if scale in (least, most):
        found = climbed(data, start, shortest=CLOSE)
        if scale == most or found.gradient[-1] <= 0:
            return found.model if data.slope(found, scale=False) <= FLAT else None
    found = climbed(data, start, 1 / data.gap, CLOSE)
    if found.model[-1] < least:
        return _shifts(data, np.append(start[:-1], least))
    return found.model if data.slope(found, scale=True) <= FLAT else None


def sharpened(data: LogLikelihood) -> Array | None:
    """The best shifts, and scale if it exceeds 1."""
    found = shifts_and_scale(data)
    if found is not None and found[-1] > 1:
        return found
    return _shifts(data, _the_model(len(data.columns)))


def frequencies(data: LogLikelihood) -> Array:
    """A model of the labels' frequencies alone, each class counted once more."""
    K = len(data.columns)
    return np.append(np.log(1.0 + np.bincount(data.labels, data.weights, minlength=K)), 0.0)


def _the_model(K: int) -> Array:
    return np.append(np.zeros(K), 1.0)


def _toward(model: Array, share: float) -> Array:
    """So far from the model as it is."""
    return share * model + (1 - share) * _the_model(len(model) - 1)


def _refitted(whole: LogLikelihood, family: Family, share: float) -> Array | None:
    found = family(whole)
    return None if found is None else _toward(found, share)


def _shifts(data: LogLikelihood, start: Array) -> Array | None:
    """The best shifts at a scale."""
    found = climbed(data, start, shortest=CLOSE)
    return found.model if data.slope(found, scale=False) <= FLAT else None


def _least_scale(data: LogLikelihood) -> float:
    """Of logits that tell nothing: a scale of 0 would leave no order of the classes."""
    return LEAST_GAP / data.gap


def _largest_scale(data: LogLikelihood) -> float:
    """Infinite, but where all labels have the largest logits: the best one would be infinite.

    There it is where e times the scale gains about a nat in all, as the weight of a row allows, or
    1 if that is less.
    """
    if data.below[data.weights > 0].any():
        return np.inf

    def excess(log_scale: float) -> float:
        scale = np.exp(log_scale)
        return float(scale * data.at_scale(scale)[1] - 1.0)

    octave = 0
    while octave < MAX_OCTAVES and excess(np.log(2.0) * octave) > 0:
        octave += 1
    if octave in (0, MAX_OCTAVES):
        return 2.0**octave
    ends = np.log(2.0) * (octave - 1), np.log(2.0) * octave
    return float(np.exp(brentq(excess, *ends, xtol=CLOSE_SCALE)))


def _best_scale(data: LogLikelihood) -> float | None:
    """Newton's method in the logarithm of the scale, within a bracket."""
    low, high = _least_scale(data), _largest_scale(data)
    if data.at_scale(low)[1] <= 0:
        return low
    if np.isfinite(high):
        return high
    scale = 1.0
    for _ in range(MAX_SCALE_STEPS):
        _, slope, curvature = data.at_scale(scale)
        if slope > 0:
            low = scale
        else:
            high = scale
        bend = scale * curvature - slope
        step = np.clip(slope / bend, -4.0, 4.0) if bend > 0 else 4.0 * np.sign(slope)
        if abs(step) <= CLOSE_SCALE:
            return scale
        better = scale * float(np.exp(step))
        scale = better if low < better < high else float(np.sqrt(low * high))
    return None
