"""References that labelled rows choose by cross-validation: what to recalibrate, and how far.

"auto" is for labels that are draws from what one wants to cover, "consensus" for gold labels, on
which several people agreed: log-loss then wants to sharpen and is not to be trusted to soften.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decal._base.numerics import Array, Logits
from decal.directions import _log_likelihood
from decal.directions._best_model import best_model
from decal.directions._log_likelihood import (
    OUT_OF_REACH,
    SAMPLE,
    LikelihoodAt,
    LogLikelihood,
    climbed,
    the_model,
)
from decal.directions._reference import CHOSEN, Reference

FOLDS = 5
FEWEST_ROWS = 10  # fewer choose nothing: the model stays as it is
SHARES = (0.75, 0.5, 0.25)  # of the way from the model, if not all of it
RIDGE = 1.0  # on the shifts, in mean weights of a row: classes without labels stay possible
CLEARLY = 2.0  # standard errors by which a consensus must gain to move the model
LEAST_GAP = 1e-3  # nats between logits at the smallest scale, where they tell nothing
# Shifts of folds, in nats, and scales, in logarithms, that are close enough to compare losses.
CLOSE, CLOSE_SCALE = 1e-6, 1e-7
FLAT = 1e-6  # slope, per weight and nat, at which a search has ended well
MANY_SAMPLES = 8  # of so many rows, a sample says where to start
MAX_SCALE_STEPS, MAX_OCTAVES = 100, 300
LARGEST = 1e90  # logits that differ by more, and larger scales, are no numbers to reckon with

Labels = NDArray[np.intp]
Family = Callable[[LogLikelihood, float | None, LikelihoodAt | None], Array | None]


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

    About 20 passes over the rows for few classes, and up to 150 for many.
    """
    n, K = logits.shape
    unmoved = Reference(np.zeros(K), name=name)
    if n < FEWEST_ROWS or labels.min() == labels.max():
        return unmoved
    weights = np.ones(n) if weights is None else weights / weights.mean()
    dense = K <= _log_likelihood.DENSE_CLASSES
    whole = LogLikelihood(logits, labels, weights, np.arange(K), ridge=RIDGE, dense=dense)
    if whole.gap > LARGEST:
        return unmoved
    folds = Folds(whole.with_settings(floor=-OUT_OF_REACH * whole.gap))
    model = (_by_log_loss if name == "auto" else _by_consensus)(folds)
    if model is None or model[-1] > LARGEST:
        return unmoved
    gained = folds.loss(folds.of_model) - folds.loss(folds.whole.losses(model))
    return Reference(model[:K], float(model[K]), max(gained / n, 0.0), name)


def _by_log_loss(folds: Folds) -> Array | None:
    """Of all families and shares the model of the least log-loss on rows of other folds."""
    least, chosen = folds.loss(folds.of_model), None
    for family in (scale_alone, shifts_and_scale):
        fits = folds.fits(family)
        if fits:
            share, losses = folds.best_share(fits[1:])
            if folds.loss(losses) < least:
                least, chosen = folds.loss(losses), _toward(fits[0], share)
    return chosen


def _by_consensus(folds: Folds) -> Array | None:
    """Shifts, and scale above 1, if they gain clearly; in full, if logits tell less than counts."""
    scaled = folds.fits(scale_alone)[1:]
    plain = [frequencies(other) for other in folds.others]
    if scaled and folds.loss(folds.losses(plain, 1.0)) < folds.loss(folds.losses(scaled, 1.0)):
        return shifts_and_scale(folds.whole, folds.scales[0])
    fits = folds.fits(sharpened)
    if not fits:
        return None
    share, losses = folds.best_share(fits[1:])
    gains, w = folds.of_model - losses, folds.whole.weights
    gain = (w * gains).sum() / w.sum()
    error = np.sqrt(((w * (gains - gain)) ** 2).sum()) / w.sum()
    return _toward(fits[0], share) if gain > CLEARLY * error else None


class Folds:
    """Rows in five parts at random, always the same, each predicted by models of the other four.

    These models are close to that of all rows: from there, one or two of Newton's steps suffice.
    """

    def __init__(self, whole: LogLikelihood) -> None:
        self.whole = whole
        fold = np.random.default_rng(0).permutation(len(whole.labels)) % FOLDS
        self.rows = [np.flatnonzero(fold == f) for f in range(FOLDS)]
        self.own = [whole.part(rows) for rows in self.rows]
        self.others = [whole.part(np.flatnonzero(fold != f)) for f in range(FOLDS)]
        self.of_model = whole.losses(the_model(len(whole.columns)))

    def loss(self, losses: Array) -> float:
        """The sum of the losses of all rows."""
        return float((self.whole.weights * losses).sum())

    @cached_property
    def scales(self) -> list[float | None]:
        """The best scale of all rows, and of the others of each part."""
        scale = _best_scale(self.whole)
        if scale is None:
            return [None] * (1 + FOLDS)
        starts = self._others_at(_scaled(self.whole, scale), dense=False)
        return [scale, *map(_best_scale, self.others, starts)]

    def fits(self, family: Family) -> list[Array]:
        """What is best for all rows, and for the others of each part; nothing if a search fails."""
        first, *scales = self.scales
        model = family(self.whole, first, None)
        if model is None:
            return []
        near: Sequence[LikelihoodAt | None] = [None] * FOLDS
        if model[:-1].any():
            near = self._others_at(model, dense=self.whole.dense)
        found = [m for m in map(family, self.others, scales, near) if m is not None]
        return [model, *found] if len(found) == FOLDS else []

    def _others_at(self, model: Array, *, dense: bool) -> list[LikelihoodAt]:
        """At a model, the log-likelihoods of the others of each part, of one pass over the rows."""
        sums = np.array([own.with_settings(dense=dense).sums(model) for own in self.own])
        others = [other.with_settings(dense=dense) for other in self.others]
        return [o.at(model, np.delete(sums, f, 0).sum(axis=0)) for f, o in enumerate(others)]

    def best_share(self, models: Sequence[Array]) -> tuple[float, Array]:
        """The share of the way to models of the least loss, and the losses.

        The loss is a convex function of the share: once it rises, it goes on to.
        """
        best = 1.0, self.losses(models, 1.0)
        for share in SHARES:
            losses = self.losses(models, share)
            if self.loss(losses) > self.loss(best[1]):
                break
            best = share, losses
        return best

    def losses(self, models: Sequence[Array], share: float) -> Array:
        """(n,) losses of all rows, each part by its own model, so far from the model given."""
        found = np.empty(len(self.whole.labels))
        for rows, own, model in zip(self.rows, self.own, models, strict=True):
            found[rows] = own.losses(_toward(model, share))
        return found


# Families: the best models of their kind, as shifts and scale; None if a search fails. `near` is
# the log-likelihood at the best model of more rows.


def scale_alone(data: LogLikelihood, scale: float | None, _: object = None) -> Array | None:
    """The best scale, without shifts."""
    return None if scale is None else _scaled(data, scale)


def shifts_and_scale(
    data: LogLikelihood, scale: float | None, near: LikelihoodAt | None = None
) -> Array | None:
    """The best shifts and scale, with a ridge on the shifts."""
    if scale is None:
        return None
    least, most = _least_scale(data), _largest_scale(data)
    start = _scaled(data, scale)
    if scale in (least, most):
        found = climbed(data, start, shortest=CLOSE)
        if scale == most or found.gradient[-1] <= 0:
            return found.model if data.slope(found, scale=False) <= FLAT else None
        near = None
    found = climbed(data, start if near is None else near, 1 / data.gap, CLOSE, tested=False)
    if found.model[-1] < least:
        return _shifts(data, _scaled(data, least))
    return found.model if data.slope(found, scale=True) <= FLAT else None


def sharpened(
    data: LogLikelihood, scale: float | None, near: LikelihoodAt | None = None
) -> Array | None:
    """The best shifts, and scale if it exceeds 1."""
    if near is not None and near.model[-1] == 1:
        found = climbed(data, near, 0.0, CLOSE, tested=False)
        if found.gradient[-1] <= 0:
            return found.model if data.slope(found, scale=False) <= FLAT else None
        near = None
    model = shifts_and_scale(data, scale, near)
    return model if model is not None and model[-1] > 1 else _shifts(data, _scaled(data, 1.0))


def frequencies(data: LogLikelihood) -> Array:
    """A model of the labels' frequencies alone, each class counted once more."""
    K = len(data.columns)
    return np.append(np.log(1.0 + np.bincount(data.labels, data.weights, minlength=K)), 0.0)


def _scaled(data: LogLikelihood, scale: float) -> Array:
    """A model without shifts."""
    return np.append(np.zeros(len(data.columns)), scale)


def _toward(model: Array, share: float) -> Array:
    """So far from the model as it is."""
    return share * model + (1 - share) * the_model(len(model) - 1)


def _shifts(data: LogLikelihood, start: Array) -> Array | None:
    """The best shifts at a scale."""
    found = climbed(data, start, shortest=CLOSE, tested=False)
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
        return float(scale * data(_scaled(data, scale)).gradient[-1] - 1.0)

    octave = 0
    while octave < MAX_OCTAVES and excess(np.log(2.0) * octave) > 0:
        octave += 1
    if octave in (0, MAX_OCTAVES):
        return 2.0**octave
    from scipy.optimize import brentq  # takes longer to load than all of decal

    ends = np.log(2.0) * (octave - 1), np.log(2.0) * octave
    return float(np.exp(brentq(excess, *ends, xtol=CLOSE_SCALE)))


def _best_scale(data: LogLikelihood, here: LikelihoodAt | None = None) -> float | None:
    """Newton's method in the logarithm of the scale, within a bracket."""
    data = data.with_settings(dense=False)
    low, high = _least_scale(data), _largest_scale(data)
    if np.isfinite(high):
        return high if _rises(data, low) else low
    n = len(data.labels)
    if here is None:
        few = n > MANY_SAMPLES * SAMPLE
        start = _best_scale(data.part(np.arange(0, n, n // SAMPLE))) if few else None
        here = data(_scaled(data, start or 1.0))
    above_least = False
    for _ in range(MAX_SCALE_STEPS):
        scale, slope = float(here.model[-1]), float(here.gradient[-1])
        if slope > 0:
            low, above_least = scale, True
        else:
            high = scale
        bend = scale * float(here.hessian[-1]) - slope
        step = float(np.clip(slope / bend, -4.0, 4.0) if bend > 0 else 4.0 * np.sign(slope))
        better = scale * float(np.exp(step))
        if step * step <= CLOSE_SCALE:  # the next one would be about that
            return better
        if better <= low and not above_least:
            if not _rises(data, low):
                return low
            above_least = True
        here = data(_scaled(data, better if low < better < high else float(np.sqrt(low * high))))
    return None


def _rises(data: LogLikelihood, scale: float) -> bool:
    """Whether more than this scale gains likelihood."""
    return bool(data(_scaled(data, scale)).gradient[-1] > 0)
