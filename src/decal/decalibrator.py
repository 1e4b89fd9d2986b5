"""Decalibrator: learn from logits and labels how far each logit may move, predict credal sets."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Self, overload

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import (
    NotFittedError,
    check_alpha,
    check_center,
    check_choice,
    check_class_names,
    check_labels,
    check_logits,
    check_weights,
)
from decal._base.numerics import Array, Logits
from decal._io import model_files as storage
from decal.credal._boxes import IntervalCredalSet
from decal.directions._best_model import best_model
from decal.directions._class_shifts import (
    Shifts,
    Temperature,
    described,
    parse_directions,
    restored,
    shift_box,
)
from decal.directions._lines import Direction, plausible_steps, widen_along
from decal.directions._margins import (
    BIN_WIDTH,
    LabelledLogits,
    MarginSummary,
    merge,
    plausible_shifts,
)
from decal.directions._peaks import widen_by_scale
from decal.directions._temperature import (
    Scales,
    ScaleSummary,
    merge_scales,
    plausible_scales,
    summarise_scales,
)
from decal.directions._top_logits import TopIntervals, TopLogits, summarise_top, top_box

DWARFED = 10.0
"""How many budgets away a model may be from its best shift before that is worth a warning."""

RESIDUAL_TOLERANCE = 1e-9
"""Nats per example by which the gain at an end may miss the budget."""


class ReferenceWarning(UserWarning):
    """The reference model is much further from the model than alpha lets anything move."""


class Decalibrator:
    """Turns logits into credal sets: intervals of probabilities that the labelled data tolerate.

    A shift of one class's logit is plausible at level alpha if the likelihood of the labelled data
    under the shifted model, relative to the reference model, is at least alpha. The credal set of
    an input holds all that plausible models predict for it.

    Parameters
    ----------
    alpha : level in [0, 1]. Smaller is more cautious: 0 excludes nothing. After one fit every other
        alpha is available through the `alpha` argument of `shifts` and `predict`.
    likelihood : "mean" bounds the geometric-mean likelihood ratio per example, so sets keep their
        size as data grow: this is what the paper's published numbers use. "sum" bounds the ratio
        for the whole data set, the paper's formula: a classical likelihood-ratio region, tiny for
        thousands of examples; see `alpha_from_confidence`.
    reference : "model" measures likelihoods against the model as it is. "best" first recentres the
        logits at their maximum-likelihood shifts, so that alpha = 1 is a point.
    box : "joint" takes the range of each probability over the shifts of all classes, as published;
        "own" over the class's own shift only, the paper's corollary. "joint" contains "own".
    directions : what may move. "class", one logit at a time, as published; "temperature", the
        scale of all logits, which gives better sets on nearly all data we tried (see the
        documentation); or objects of your own, see `decal.Direction` and `decal.Temperature`. The
        box is taken over all of them.

    Notes
    -----
    Fitting is one pass over the data, O(n K) time, and memory that does not grow with n: the
    margins of each class are kept as a binned summary, exact to about 1e-12 nats per example.
    Summaries of several data sets add up (`partial_fit`, `merge`).

    Differs from the paper in: ends are found to machine precision by Newton's method on a concave
    function of one variable, instead of SLSQP on all the data; ends may be infinite.

    Examples
    --------
    >>> import numpy as np, decal
    >>> logits = np.array([[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]])
    >>> d = decal.Decalibrator(alpha=0.9).fit(logits, [0, 0, 1, 1])
    >>> d.predict([[0.5, 0.0]])
    IntervalCredalSet: 1 input, 2 classes, mean width 0.528
      0  0 [0.286, 0.814]  1 [0.186, 0.714]
    """

    def __init__(
        self,
        alpha: float = 0.8,
        *,
        likelihood: str = "mean",
        reference: str = "model",
        box: str = "joint",
        directions: Iterable[str | Temperature | Direction] = ("class",),
    ) -> None:
        self.alpha = check_alpha(alpha)
        self.likelihood = check_choice(likelihood, "likelihood", ("mean", "sum"))
        self.reference = check_choice(reference, "reference", ("model", "best"))
        self.box = check_choice(box, "box", ("joint", "own"))
        self.directions = parse_directions(directions)
        self._temperature = next((d for d in self.directions if isinstance(d, Temperature)), None)
        self._lines = [d for d in self.directions if not isinstance(d, str | Temperature)]
        self._learn(None, None)

    def _learn(
        self,
        summary: MarginSummary | None,
        center: Array | None,
        *,
        scale: float = 1.0,
        distance: float = 0.0,
        ladder: ScaleSummary | None = None,
        classes: tuple[str, ...] | None = None,
        data: LabelledLogits | None = None,
    ) -> None:
        """Replace all that was learnt, at once."""
        self._summary, self._center, self._scale = summary, center, scale
        self._distance, self._ladder, self._data = distance, ladder, data
        self._solved: dict[float, Shifts] = {}
        self._solved_scales: dict[float, Scales] = {}
        self.classes = classes

    # Learning

    def fit(
        self,
        logits: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        classes: Iterable[Any] | None = None,
    ) -> Self:
        """Learn from labelled data, forgetting what was learnt before.

        Parameters
        ----------
        logits : (n, K) finite numbers, float32 or float64: log-probabilities up to a constant per
            row. Take held-out data if the model fits its training data much better than others.
            Or a `decal.TopLogits`: only the most probable classes of every row.
        labels : (n,) integers 0..K-1.
        sample_weight : (n,), optional. A weight of 2 counts like two equal rows.
        classes : K names, optional, handed on to the credal sets.

        Returns
        -------
        self
        """
        z = logits if isinstance(logits, TopLogits) else check_logits(logits)
        y = check_labels(labels, rows=len(z), classes=z.shape[1])
        w = check_weights(sample_weight, rows=len(z))
        names = check_class_names(classes, z.shape[1])
        if w is not None and not w.all():
            z, y, w = z[w > 0], y[w > 0], w[w > 0]
        if isinstance(z, TopLogits):
            self._require_plain()
            self._learn(summarise_top(z, y, w), np.zeros(z.shape[1]), classes=names)
            return self
        center, scale, distance = np.zeros(z.shape[1]), 1.0, 0.0
        if self.reference == "best":
            weights = np.ones(len(z)) if w is None else w
            best = best_model(z, y, weights, scale=self._temperature is not None)
            center, scale, distance = best.center, best.scale, best.gain
            self._compare(distance, float(weights.sum()))
            if scale != 1:
                z = z * scale
        if self._lines and np.isneginf(center).any():
            raise ValueError(
                "labels must contain every class for reference='best' with directions of your own: "
                f"got none of class {np.isneginf(center).argmax()}. Use reference='model'."
            )
        data = LabelledLogits(z, y, w, center)
        summary = data.summarise()
        ladder = None
        if self._temperature is not None:
            ladder = summarise_scales(*_without_absent(_recentred(z, center), y, center), w)
        kept = data if summary.bin_width > BIN_WIDTH or self._lines else None
        self._learn(
            summary, center, scale=scale, distance=distance, ladder=ladder, classes=names, data=kept
        )
        return self

    def partial_fit(
        self,
        logits: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        classes: Iterable[Any] | None = None,
    ) -> Self:
        """Learn from one more chunk of labelled data; the result is that of `fit` on all of them.

        Not for reference="best", whose recentring needs all the data at once.
        """
        self._require_mergeable()
        part = Decalibrator(self.alpha, likelihood=self.likelihood, directions=self.directions)
        if self._summary is not None:
            logits = self._checked(logits)
        return self.merge(part.fit(logits, labels, sample_weight=sample_weight, classes=classes))

    def merge(self, other: Decalibrator) -> Self:
        """Add what another Decalibrator has learnt; the result is that of `fit` on both data sets.

        Not for reference="best", whose recentring needs all the data at once.
        """
        self._require_mergeable()
        other._require_mergeable()
        added, center = other._fitted()
        if (self._temperature is None) != (other._temperature is None):
            raise ValueError(
                f"other must have the directions {self.directions}: got {other.directions}."
            )
        if self._summary is None:
            self._learn(added, center, ladder=other._ladder, classes=other.classes)
            return self
        K = len(center)
        if len(self._summary.label_weight) != K:
            raise ValueError(f"other must have {len(self._summary.label_weight)} classes: got {K}.")
        if self.classes and other.classes and self.classes != other.classes:
            raise ValueError(f"other must have the classes {self.classes}: got {other.classes}.")
        ladder = None
        if self._ladder is not None and other._ladder is not None:
            ladder = merge_scales([self._ladder, other._ladder])
        names = self.classes or other.classes
        self._learn(merge([self._summary, added]), center, ladder=ladder, classes=names)
        return self

    def _checked(self, logits: Any) -> Logits | TopLogits:
        """Logits of as many classes as were learnt from."""
        K = len(self._fitted()[1])
        if not isinstance(logits, TopLogits):
            return check_logits(logits, classes=K)
        self._require_plain()
        if logits.total_classes != K:
            raise ValueError(
                f"logits must have {K} classes in all, as seen by fit: got "
                f"{logits.total_classes}. Use the logits of the same model."
            )
        return logits

    def _require_plain(self) -> None:
        if self.reference != "model" or self.directions != ("class",):
            raise ValueError(
                "logits must be a matrix of all classes, unless reference='model' and "
                f"directions=('class',): got TopLogits with {self.reference!r}, {self.directions}."
            )

    def _require_mergeable(self) -> None:
        if self.reference != "model":
            raise ValueError(
                f"reference must be 'model' to merge or partial_fit: got {self.reference!r}, "
                "whose recentring needs all the data at once. Use fit."
            )
        if self._lines:
            raise ValueError(
                "directions must be 'class' or 'temperature' to merge or partial_fit: got "
                f"{self._lines[0].name!r}, whose evidence is the data themselves. Use fit."
            )

    def _compare(self, distance: float, weight: float) -> None:
        """Warn if the reference model is much further from the model than anything may move."""
        budget = -np.log(self.alpha) if self.alpha > 0 else np.inf
        budget /= weight if self.likelihood == "sum" else 1.0
        if 0 < budget < distance / DWARFED:
            warnings.warn(
                f"the model is {distance:.3g} nats per example from its best shift, and alpha = "
                f"{self.alpha:g} allows {budget:.2g}: its own predictions are implausible, and the "
                "credal sets will hardly contain them",
                ReferenceWarning,
                stacklevel=3,
            )

    # Asking

    def shifts(self, alpha: Any = None) -> Shifts:
        """How far each class's logit may move.

        Parameters
        ----------
        alpha : level in [0, 1], or a sequence of levels; by default the one given at construction.
        """
        levels = self._levels(alpha)
        if np.ndim(alpha) == 1:
            return self._solve(levels)
        level = float(levels[0])
        if level not in self._solved:
            s = self._solve(levels)
            self._solved[level] = Shifts(
                s.lower[0], s.upper[0], s.center, level, s.residual, s.error
            )
        return self._solved[level]

    @overload
    def predict(self, logits: TopLogits, *, alpha: Any = None) -> TopIntervals: ...

    @overload
    def predict(self, logits: Any, *, alpha: Any = None) -> IntervalCredalSet: ...

    def predict(self, logits: Any, *, alpha: Any = None) -> IntervalCredalSet | TopIntervals:
        """The credal sets of new inputs.

        Parameters
        ----------
        logits : (n, K) finite numbers, of the same model; or a `decal.TopLogits`.
        alpha : level in [0, 1]; by default the one given at construction.

        Returns
        -------
        IntervalCredalSet with float64 bounds; its `point` is the reference model's softmax.
        O(n K) time. Of TopLogits, `decal.TopIntervals`.
        """
        shifts = self.shifts(alpha)
        center, lower, upper = shifts.center, shifts.lower, shifts.upper
        z = self._checked(logits)
        if isinstance(z, TopLogits):
            return top_box(z, lower, upper, joint=self.box == "joint")
        if self._scale != 1:
            z = z * self._scale
        if "class" not in self.directions:
            lower = upper = np.where(np.isfinite(center), 0.0, -np.inf)
        low, high, point = shift_box(z, center, lower, upper, joint=self.box == "joint")
        if self._temperature is not None:
            scales = self.scales(alpha)
            ends = float(scales.lower), float(scales.upper)
            present = np.flatnonzero(np.isfinite(center))
            widen_by_scale(low, high, _recentred(z, center), *ends, present)
        for line in self._lines:
            widen_along(low, high, _recentred(z, center), line.move, *self.steps(line.name, alpha))
        return IntervalCredalSet._trusted(low, high, point, self.classes)

    def scales(self, alpha: Any = None) -> Scales:
        """By how much the logits may be scaled; needs "temperature" among the directions.

        Parameters
        ----------
        alpha : level in [0, 1], or a sequence of levels; by default the one given at construction.
        """
        self._fitted()
        if self._temperature is None or self._ladder is None:
            raise ValueError(
                f"directions must include 'temperature' for scales: got {self.directions}."
            )
        levels = self._levels(alpha)
        if np.ndim(alpha) == 1:
            return self._solve_scales(self._temperature, self._ladder, levels)
        level = float(levels[0])
        if level not in self._solved_scales:
            s = self._solve_scales(self._temperature, self._ladder, levels)
            lower, upper = float(np.ravel(s.lower)[0]), float(np.ravel(s.upper)[0])
            self._solved_scales[level] = Scales(lower, upper, s.center, level, s.residual, s.error)
        return self._solved_scales[level]

    def _solve_scales(
        self, temperature: Temperature, ladder: ScaleSummary, levels: Array
    ) -> Scales:
        loss, ratio = ladder.judged_by(temperature.evidence, temperature.ratio)
        # At alpha = 0 everything is plausible, even of a model that knows nothing.
        spent = -self._budgets(np.where(levels == 0, 1.0, levels))
        found = plausible_scales(ladder, loss, np.where(levels == 0, np.inf, ratio * spent))
        _require_met("scales", found.residual)
        return Scales(found.lower, found.upper, self._scale, levels, found.residual, found.error)

    def steps(self, name: str, alpha: Any = None) -> tuple[float, float]:
        """The plausible interval of the parameter of a direction of your own.

        Parameters
        ----------
        name : of the direction.
        alpha : level in [0, 1]; by default the one given at construction.
        """
        self._fitted()
        line = next((d for d in self._lines if d.name == name), None)
        if line is None or self._data is None:
            known = [d.name for d in self._lines]
            raise ValueError(f"name must be one of your own directions, {known}: got {name!r}.")
        data = self._data
        weights = np.ones(len(data.labels)) if data.weights is None else data.weights
        budgets = line.ratio * self._budgets(self._levels(alpha))
        lower, upper, _ = plausible_steps(
            _recentred(data.logits, data.center), data.labels, weights, line, budgets
        )
        return float(lower[0]), float(upper[0])

    def _levels(self, alpha: Any) -> Array:
        if np.ndim(alpha) == 1:
            return np.array([check_alpha(a) for a in alpha])
        return np.array([self.alpha if alpha is None else check_alpha(alpha)])

    def _budgets(self, levels: Array) -> Array:
        """Log-likelihood (A,) that a class shift may lose in all: negative, -inf at alpha = 0."""
        with np.errstate(divide="ignore"):
            budgets: Array = np.log(levels)
        if self.likelihood == "mean":
            budgets *= self._fitted()[0].total_weight
        return budgets

    @property
    def examples(self) -> int:
        """Number of labelled examples, of positive weight, learnt from."""
        return self._fitted()[0].rows

    @property
    def class_weights(self) -> Array:
        """(K,) total weight of the labels of each class; their counts without sample weights."""
        return self._fitted()[0].label_weight.copy()

    @property
    def distance(self) -> float:
        """Nats per example between the model and its best shift; 0 with reference="model"."""
        self._fitted()
        return self._distance

    def _fitted(self) -> tuple[MarginSummary, Array]:
        if self._summary is None or self._center is None:
            raise NotFittedError(
                "this Decalibrator must be fitted first: it has seen no data. Call fit."
            )
        return self._summary, self._center

    def _solve(self, levels: Array) -> Shifts:
        summary, center = self._fitted()
        found = plausible_shifts(
            summary,
            self._budgets(levels),
            at_best=self.reference == "best",
            exact=None if self._data is None else self._data.softplus_sum,
        )
        _require_met("ends", found.residual)
        return Shifts(found.lower, found.upper, center, levels, found.residual, found.error)

    def explore(self, logits: Any, **options: Any) -> Any:
        """An interactive page about these predictions, see `decal.explorer.explore`."""
        from decal.explorer import explore

        return explore(self, logits, **options)

    # Keeping

    def __repr__(self) -> str:
        settings = (
            f"alpha={self.alpha:g}, likelihood={self.likelihood!r}, "
            f"reference={self.reference!r}, box={self.box!r}"
        )
        if self.directions != ("class",):
            settings += f", directions={self.directions}"
        if self._summary is None:
            return f"Decalibrator({settings}), not fitted"
        K = len(self._summary.label_weight)
        return f"Decalibrator({settings}), fitted on {self.examples:,} examples of {K:,} classes"

    def save(self, path: str | Path | BinaryIO, *, compressed: bool = True) -> None:
        """Write the fitted model to one small file (.npz, no pickle).

        Parameters
        ----------
        path : where to; or a file open for writing bytes.
        compressed : to about half the size, which takes ten times as long.
        """
        summary, center = self._fitted()
        settings = {
            "alpha": self.alpha,
            "likelihood": self.likelihood,
            "reference": self.reference,
            "box": self.box,
            "directions": [described(d) for d in self.directions],
            "classes": self.classes,
            "distance": self._distance,
            "rows": summary.rows,
            "bin_width": summary.bin_width,
            "scale": self._scale,
        }
        arrays = {
            "center": center,
            "keys": summary.keys,
            "moments": summary.moments,
            "label_weight": summary.label_weight,
        }
        if self._lines:
            raise ValueError(
                "directions must be 'class' or 'temperature' to save: got "
                f"{self._lines[0].name!r}, whose code no model file can hold."
            )
        if self._ladder is not None:
            arrays |= self._ladder.parts()
        file = Path(path) if isinstance(path, str) else path
        storage.write(file, settings, arrays, compressed=compressed)

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Self:
        """Read what `save` wrote. Runs no code from the file, so files of strangers are safe."""
        settings, arrays = storage.read(Path(path) if isinstance(path, str) else path)
        try:
            model = cls(
                settings.pop("alpha"),
                likelihood=settings.pop("likelihood"),
                reference=settings.pop("reference"),
                box=settings.pop("box"),
                directions=[restored(d) for d in settings.pop("directions")],
            )
            summary = MarginSummary.from_parts(
                settings.pop("bin_width"),
                arrays.pop("keys"),
                arrays.pop("moments"),
                arrays.pop("label_weight"),
                settings.pop("rows"),
            )
            K = len(summary.label_weight)
            model.classes = check_class_names(settings.pop("classes"), K)
            model._distance = float(settings.pop("distance"))
            model._center = check_center(arrays.pop("center"), K)
            model._scale = float(settings.pop("scale"))
            if model._temperature is not None:
                model._ladder = ScaleSummary.from_parts(arrays)
            model._summary = summary
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"path must be an intact model file: got {path} ({error}).") from error
        unknown = sorted([*settings, *arrays])
        if unknown:
            raise ValueError(f"path must hold nothing unknown: got {path} with {unknown}.")
        return model


def _require_met(what: str, residual: float) -> None:
    if residual > RESIDUAL_TOLERANCE:
        raise ArithmeticError(
            f"{what} miss their budget by {residual:.2g} nats per example. "
            "This should not happen: please report it with your data."
        )


def _recentred(logits: Logits, center: Array) -> Logits:
    return logits + center if center.any() else logits


def _without_absent(
    logits: Logits, labels: NDArray[np.intp], center: Array
) -> tuple[Logits, NDArray[np.intp]]:
    """Logits and labels counted without the classes that the reference model leaves out."""
    present = np.isfinite(center)
    if present.all():
        return logits, labels
    return logits[:, present], np.cumsum(present)[labels] - 1


def decalibrate(
    logits: Any,
    labels: Any,
    *,
    alpha: float,
    sample_weight: Any = None,
    classes: Iterable[Any] | None = None,
    **settings: Any,
) -> Decalibrator:
    """A Decalibrator fitted on labelled logits, in one call.

    Parameters
    ----------
    logits, labels, sample_weight, classes : as for `Decalibrator.fit`.
    alpha, **settings : as for `Decalibrator`.

    Examples
    --------
    >>> import decal
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    >>> d.shifts().upper.round(3)
    array([0.624, 2.024])
    """
    model = Decalibrator(alpha, **settings)
    return model.fit(logits, labels, sample_weight=sample_weight, classes=classes)
