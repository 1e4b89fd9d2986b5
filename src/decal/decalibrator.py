"""Decalibrator: learn from logits and labels how far each logit may move, predict credal sets."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Self, overload

import numpy as np

from decal._base.checks import (
    DEFAULT_ALPHA,
    check_alpha,
    check_choice,
    check_flag,
    check_keywords,
    check_steps,
)
from decal._base.confidences import FEWEST_NEW_ROWS, UNLIKE, Confidences
from decal._base.data_frames import class_columns, id_columns, index_of, is_frame
from decal._base.errors import IN_ARRAY, AnswerWarning, FitWarning, NotFittedError, Place
from decal._base.inputs import (
    REMEDY,
    asked_by_a_search,
    check_floor,
    frames_within_decal,
    read_labelled,
    read_logits,
    require_classes,
    require_possible_labels,
)
from decal._base.markup import table
from decal._base.numerics import Array, Logits, budget
from decal._base.settings import FrozenSettings
from decal.credal import IntervalCredalSet, KLCredalSet, warn_if_vacuous
from decal.directions import (
    REFERENCES,
    Box,
    Direction,
    Endpoints,
    FitState,
    Inputs,
    Labels,
    Local,
    Reference,
    TopIntervals,
    TopLogits,
    direction_named,
    local_balls,
    parse_directions,
    require_capability,
    require_masks_taken,
    top_box,
)
from decal.io import model_files

__all__ = ["Decalibrator", "decalibrate"]

CLASSES_SHOWN = 20
"""Classes that a notebook lists."""

SAME_ROWS = 1e-9
"""Distribution functions that differ by less are of the same rows."""

FAR_FROM_REFERENCE = 10.0
"""Budgets between a model and its reference that are worth a warning."""


class Decalibrator(FrozenSettings):
    """Turns logits into credal sets: intervals of probabilities that the labelled data tolerate.

    A shift of one class's logit is plausible at level alpha if the likelihood of the labelled data
    under the shifted model, relative to the reference model, is at least alpha. The credal set of
    an input holds all that plausible models predict for it.

    Parameters
    ----------
    alpha : float
        Level in [0, 1]. Smaller is more cautious: 0 excludes nothing. After one fit every other
        alpha is available through the `alpha` argument of `shifts` and `predict`.
    likelihood : str
        "mean" bounds the geometric-mean likelihood ratio per example, so sets keep their size as
        data grow: this is what the paper's published numbers use. "sum" bounds the ratio for the
        whole data set, the paper's formula: a classical likelihood-ratio region, tiny for thousands
        of examples; see `alpha_from_confidence`.
    reference : str
        "model" measures likelihoods against the model as it is. "best" first recenters the logits
        at their maximum-likelihood shifts (and scale, with "temperature" or "local"), so that
        alpha = 1 is a point. "halfway" takes the mean of the logits of both.
    box : str
        "joint" takes the range of each probability over the shifts of all classes, as published;
        "own" over the class's own shift only, the paper's corollary. "joint" contains "own".
    directions : iterable
        What may move. "class", one logit at a time, as published; "temperature", the scale of all
        logits, which gives better sets on nearly all data we tried (see the documentation);
        "local", each prediction by itself, alone; or objects of your own, see `decal.Direction`
        and `decal.Temperature`. The box is taken over all of them.
    probabilities : bool
        Whether this model is given probabilities instead of logits, to learn from and to predict.
        Their logarithms are taken. A saved model remembers it.
    floor : float, optional
        With probabilities: smaller ones are raised to it. By default zeros become 2e-308, unless
        one belongs to a label, which is refused. See `decal.logits_from_probabilities`.

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
        alpha: float = DEFAULT_ALPHA,
        *,
        likelihood: str = "mean",
        reference: str = "model",
        box: str = "joint",
        directions: Iterable[str | Direction] = ("class",),
        probabilities: bool = False,
        floor: float | None = None,
    ) -> None:
        self.alpha = check_alpha(alpha)
        self.likelihood = check_choice(likelihood, "likelihood", ("mean", "sum"))
        self.reference = check_choice(reference, "reference", tuple(REFERENCES))
        self.box = check_choice(box, "box", ("joint", "own"))
        self.directions = parse_directions(directions)
        self.probabilities = check_flag(probabilities, "probabilities")
        self.floor = check_floor(floor, self.probabilities)
        self._learnt: FitState | None = None
        self._said: set[str] = set()
        self._learning = threading.Lock()

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
        logits : (n, K) array
            float32 or float64: log-probabilities up to a constant per row, of any size. -inf masks
            a class in a row. Take held-out data if the model fits its training data much better
            than others. Or a `decal.TopLogits`: only the most probable classes of every row. Or a
            data frame (pandas, polars, PyArrow) with a column per class, named after it. Rows of
            probabilities get an InputWarning, unless probabilities=True.
        labels : (n,) array
            Integers 0..K-1; or names of classes, if these are known. Of a data frame, also the name
            of a column; whole numbers are names there if a class is called by a whole number. A
            InputWarning tells if they seem to be of other rows, or the columns in another
            order.
        sample_weight : (n,) array, optional
            A weight of 2 counts like two equal rows. Positive ones lie in 1e-100 to 1e100, and
            span at most twelve decades. Of a data frame, also the name of a column.
        classes : iterable, optional
            K names, in the order of the columns, handed on to the credal sets. Of a data frame they
            are the columns, in the order that you want; by default all that are not labels or
            weights.

        Returns
        -------
        self
        """
        return self._fit_checked(*self._check(logits, labels, sample_weight, classes, None))

    def _fit_checked(self, *data: Any) -> Self:
        """Learn from logits, labels, weights and classes that were checked where they were read."""
        confidences = Confidences.of(*data[:3])
        K = data[0].shape[1]
        wrong = not asked_by_a_search() and confidences.warn_of_other_order(K)
        learnt = FitState.of(
            self.directions,
            *data,
            reference=self.reference,
            may_be_kept=True,
            confidences=confidences,
        )
        self._warn_if_far(learnt)
        with self._learning:
            self._learnt, self._said = learnt, {"order"} if wrong else set()
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

        Only for reference="model": others need all the data at once. A chunk without rows changes
        nothing.
        """
        self._require_mergeable()
        data = self._check(logits, labels, sample_weight, classes, self._learnt, whole=False)
        return self._add_and_look(FitState.of(self.directions, *data)) if len(data[0]) else self

    def merge(self, other: Decalibrator) -> Self:
        """Add what another Decalibrator has learnt; the result is that of `fit` on both data sets.

        Only for reference="model": others need all the data at once.
        """
        require_decalibrator(other, "other")
        self._require_mergeable()
        other._require_mergeable()
        if self.directions != other.directions:
            raise ValueError(
                f"other must have the directions {self.directions}: got {other.directions}."
            )
        if self.probabilities != other.probabilities:
            raise ValueError(
                f"other must have probabilities={self.probabilities}: got {other.probabilities}."
            )
        known = other._known
        self._said |= other._said
        return self._add_and_look(known)

    def _check(
        self,
        logits: Any,
        labels: Any,
        sample_weight: Any,
        classes: Any,
        known: FitState | None,
        whole: bool = True,
    ) -> tuple[Logits | TopLogits, Labels, Array | None, tuple[str, ...] | None]:
        """Labelled data after every check; of the classes that are `known`, if there are some."""
        K, names = (len(known.label_weight), known.classes) if known else (None, None)
        z, y, w, names = read_labelled(
            logits,
            labels,
            sample_weight,
            names if classes is None else classes,
            lambda values: self._checked(values, K, empty=not whole),
            whole=whole,
        )
        if not isinstance(z, TopLogits):
            require_possible_labels(z, y, probabilities=self.probabilities, floor=self.floor)
        return z, y, w, names

    def _learn_checked(
        self,
        logits: Logits,
        labels: Labels,
        weights: Array | None,
        classes: tuple[str, ...] | None,
    ) -> FitState:
        """What one chunk says that was checked where it was read."""
        return FitState.of(self.directions, logits, labels, weights, classes)

    def _read(
        self,
        logits: Any,
        K: int | None,
        *,
        place: Place = IN_ARRAY,
        empty: bool = False,
        warn: bool = True,
    ) -> Logits:
        """Logits, of K classes if that is known, from what this model is given."""
        return read_logits(
            logits,
            probabilities=self.probabilities,
            floor=self.floor,
            classes=K,
            place=place,
            empty=empty,
            remedy=REMEDY if warn else None,
        )

    def _checked(self, logits: Any, K: int | None, *, empty: bool = False) -> Logits | TopLogits:
        """The same; TopLogits are left as they are."""
        if not isinstance(logits, TopLogits):
            return self._read(logits, K, empty=empty)
        if self.probabilities:
            raise ValueError(
                "logits must be probabilities of all classes: got TopLogits, which are logits. "
                "Leave probabilities=True out."
            )
        if self.reference != "model":
            raise ValueError(
                "logits must be a matrix of all classes, unless reference='model': "
                f"got TopLogits with {self.reference!r}."
            )
        advice = "Pass a matrix of all classes, or directions=('class',)."
        require_capability(self.directions, "takes_top_logits", "TopLogits", advice)
        if K is not None and logits.total_classes != K:
            raise ValueError(
                f"logits must have {K} classes in all, as seen by fit: got "
                f"{logits.total_classes}. Use the logits of the same model."
            )
        return logits

    def _add(self, more: FitState) -> Self:
        """Learn what other data say, too."""
        with self._learning:
            self._learnt = more if self._learnt is None else self._learnt + more
        return self

    def _add_and_look(self, more: FitState) -> Self:
        """The same, and look at the labels of all data whenever these have about doubled."""
        before = 0 if self._learnt is None else self._learnt.rows
        rows = self._add(more)._known.rows
        found, K = self._known.confidences, len(self._known.label_weight)
        look = rows.bit_length() > before.bit_length() and "order" not in self._said
        if look and found is not None and found.warn_of_other_order(K):
            self._said.add("order")
        return self

    def _require_mergeable(self) -> None:
        if self.reference != "model":
            raise ValueError(
                f"reference must be 'model' to merge or partial_fit: got {self.reference!r}, "
                "whose recentering needs all the data at once. Use fit."
            )
        require_capability(self.directions, "streams", "merge and partial_fit", "Use fit.")

    def _warn_if_far(self, learnt: FitState) -> None:
        """Warn if the reference is much further from the model than anything may move."""
        allowed = float(budget(self.alpha))
        allowed /= learnt.total_weight if self.likelihood == "sum" else 1.0
        distance = learnt.reference.distance
        if 0 < allowed < distance / FAR_FROM_REFERENCE:
            warnings.warn(
                f"the model is {distance:.3g} nats per example from its reference, and alpha = "
                f"{self.alpha:g} allows {allowed:.2g}: its own predictions are implausible, and "
                "the credal sets will hardly contain them",
                FitWarning,
                stacklevel=frames_within_decal(),
            )

    # Asking

    def shifts(self, alpha: Any = None) -> Endpoints:
        """How far each class's logit may move; needs "class" among the directions.

        Parameters
        ----------
        alpha : float or sequence of float, optional
            Level in [0, 1], or a sequence of levels; by default the one given at construction.
        """
        return self.steps("class", alpha)

    def scales(self, alpha: Any = None) -> Endpoints:
        """By how much the logits may be scaled; needs "temperature" among the directions.

        Parameters
        ----------
        alpha : float or sequence of float, optional
            Level in [0, 1], or a sequence of levels; by default the one given at construction.
        """
        return self.steps("temperature", alpha)

    def steps(self, name: str, alpha: Any = None) -> Endpoints:
        """How far a direction may move: the plausible interval of its parameter.

        Parameters
        ----------
        name : str
            Name of the direction.
        alpha : float or sequence of float, optional
            Level in [0, 1], or a sequence of levels; by default the one given at construction.
        """
        learnt = self._known
        which = learnt.named(name)
        if np.ndim(alpha) == 1 and not isinstance(alpha, Mapping):
            levels = np.array([check_alpha(a) for a in alpha])
            return learnt.solve(which, self.likelihood, levels)
        return learnt.at(which, self.likelihood, self._level(alpha))

    def gains(self, name: str, values: Any) -> Array:
        """The log-likelihood gained by moving a direction, whose cut the plausible interval is.

        Parameters
        ----------
        name : str
            "class" or "temperature".
        values : (T,) array
            Finite shifts of a class's logit from the reference, in nats; or scales relative to that
            of the reference, at least 0.

        Returns
        -------
        (T, K) or (T,) array
            Nats per unit of weight with ``likelihood="mean"``, and in all with "sum"; 0 at the
            reference. For the temperature, with its default evidence, minus the expected loss.

        See Also
        --------
        decal.plot.likelihood : Draws it, with the cut.

        Examples
        --------
        >>> import numpy as np, decal
        >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9], [1.0, 0.0]], [0, 1, 1], alpha=0.8)
        >>> end = d.shifts().upper[0]
        >>> float(d.gains("class", [end])[0, 0].round(6)), float(np.log(0.8).round(6))
        (-0.223144, -0.223144)
        """
        direction, evidence, total = self._measured(name)
        at = check_steps(values, "values", least=0.0 if name == "temperature" else -np.inf)
        return np.asarray(direction.gains(evidence, at) / total)

    def least_gain(self, name: str, alpha: Any = None) -> float:
        """The gain at which alpha cuts: what `gains` is at a finite endpoint.

        Parameters
        ----------
        name : str
            "class" or "temperature".
        alpha : float, optional
            Level in [0, 1]; by default the one given at construction.
        """
        direction, evidence, total = self._measured(name)
        budgets = budget([self._level(alpha)]) * total
        return float(-direction.allowed(evidence, budgets)[0] / total)

    def _measured(self, name: str) -> tuple[Any, Any, float]:
        """A direction whose gain is known, its evidence, and the weight that gains are per."""
        learnt = self._known
        which = learnt.named(name)
        direction = learnt.directions[which]
        if not hasattr(direction, "gains"):
            raise ValueError(f"name must be 'class' or 'temperature': got {name!r}.")
        total = learnt.total_weight if self.likelihood == "mean" else 1.0
        return direction, learnt.evidence[which], total

    @overload
    def predict(self, logits: TopLogits, *, alpha: Any = None, ids: Any = None) -> TopIntervals: ...

    @overload
    def predict(self, logits: Any, *, alpha: Any = None, ids: Any = None) -> IntervalCredalSet: ...

    def predict(
        self, logits: Any, *, alpha: Any = None, ids: Any = None
    ) -> IntervalCredalSet | TopIntervals:
        """The credal sets of new inputs.

        Parameters
        ----------
        logits : (n, K) array
            Of the same model, -inf where a class is masked; or a `decal.TopLogits`. The columns of
            a data frame are found by the names of the classes, in whatever order they stand. No
            rows give no sets. Or a `decal.llm.LabelMasses`, see `decal.llm.predict`. A
            `decal.AnswerWarning` tells, once, if the model is surer of 100 inputs or more than
            of the labelled ones, or less sure.
        alpha : float, optional
            Level in [0, 1]; by default the one given at construction.
        ids : str, list of str, or (n,) array, optional
            What names the inputs: columns of a data frame, or values. By default the index of a
            pandas DataFrame. They stay with the sets, see `CredalSet.index`.

        Returns
        -------
        IntervalCredalSet
            With float64 bounds; its `point` is the reference model's softmax. O(n K) time. Of
            TopLogits, `decal.TopIntervals`.
        """
        learnt, level = self._known, self._level(alpha)
        if isinstance(logits, TopLogits):
            self._checked(logits, len(learnt.label_weight))
            shifts = learnt.at(0, self.likelihood, level)
            listed = top_box(logits, shifts.lower, shifts.upper, joint=self.box == "joint")
            self._look_at(logits, listed, level)
            return listed
        if hasattr(logits, "predicted_by"):
            found: IntervalCredalSet = logits.predicted_by(self, alpha=level)
            return found if ids is None else found.with_index(ids)
        z = self._new_inputs(logits, ids, learnt)
        sets = self._predict_checked(z, level, learnt)
        self._look_at(z, sets, level)
        return sets.with_index(index_of(logits, ids, rows=len(z)))

    def _look_at(self, logits: Any, sets: IntervalCredalSet | TopIntervals, alpha: float) -> None:
        """Warn, once each, of inputs unlike the labelled ones and of sets that exclude nothing."""
        enough = len(logits) >= FEWEST_NEW_ROWS
        if enough and "unlike" not in self._said and not asked_by_a_search():
            self._warn_if_unlike(Confidences.of(logits))
        warn_if_vacuous(sets, alpha, self._said)

    def _forget_confidences(self) -> None:
        """Compare no inputs with the labelled ones, whose logits another model gave."""
        with self._learning:
            self._learnt = replace(self._known, confidences=None)

    def _warn_if_unlike(self, new: Confidences) -> None:
        """Warn of new inputs of which the model is surer, or less sure, than of the labelled ones.

        The first that are not the labelled ones settle it.
        """
        fitted = self._known.confidences
        if fitted is None or new.rows < FEWEST_NEW_ROWS or fitted.distance(new) < SAME_ROWS:
            return
        self._said.add("unlike")
        p = fitted.p_value(new)
        if p < UNLIKE:
            warnings.warn(
                f"logits must come as those that fit was given: got a mean confidence of "
                f"{new.mean:.2f} on {new.rows:,.0f} inputs, and {fitted.mean:.2f} on the labelled "
                f"ones (p = {p:.1g}). If the model was trained on these, fit on held-out data; if "
                "the inputs are of another kind, the labels say little about them.",
                AnswerWarning,
                stacklevel=frames_within_decal(),
            )

    def _new_inputs(
        self, logits: Any, ids: Any = None, learnt: FitState | None = None, *, empty: bool = True
    ) -> Logits:
        """Logits to predict from; those of a frame by the names of the classes."""
        matrix, learnt = logits, learnt or self._known
        if is_frame(logits):
            matrix, _ = class_columns(logits, learnt.classes, others=id_columns(logits, ids))
        return self._read(matrix, len(learnt.label_weight), empty=empty)

    def predict_ball(self, logits: Any, *, alpha: Any = None, ids: Any = None) -> KLCredalSet:
        """The balls of new inputs, of which `predict` returns the boxes; for local sets only.

        Parameters
        ----------
        logits, alpha, ids
            As for `predict`.

        Returns
        -------
        KLCredalSet
            Smaller than its box, and sharper in its answers. Its center, and point, is the
            reference model's softmax, with `decal.Local(mix=...)` the mixture. O(n K) time.

        Examples
        --------
        >>> import decal
        >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9, directions="local")
        >>> d.predict_ball([[0.5, 0.0]])
        KLCredalSet: 1 input, radius 0.105, 2 classes, mean width 0.437
          0  0 [0.395, 0.832]  1 [0.168, 0.605]
        """
        local = self.directions[0]
        if len(self.directions) != 1 or not isinstance(local, Local):
            names = ", ".join(direction.name for direction in self.directions)
            raise ValueError(
                f"directions must be 'local', and nothing else, for balls: got {names}. "
                "Use predict, or directions=('local',)."
            )
        learnt, level = self._known, self._level(alpha)
        z = self._new_inputs(logits, ids, learnt)
        reference = learnt.reference
        reference.require_rivals(z)
        inputs = Inputs(reference.scaled(z), reference.center, self.box == "joint")
        endpoints = learnt.at(0, self.likelihood, level)
        balls = local_balls(inputs, endpoints, local.mix, local.by_entropy)
        sets = KLCredalSet.unchecked(*balls, learnt.classes)
        return sets.with_index(index_of(logits, ids, rows=len(z)))

    def _predict_checked(
        self, logits: Logits, alpha: float, learnt: FitState | None = None
    ) -> IntervalCredalSet:
        """The same of logits (n, K) that were checked where they were read."""
        learnt = learnt or self._known
        reference = learnt.reference
        reference.require_rivals(logits)
        require_masks_taken(self.directions, logits)
        inputs = Inputs(reference.scaled(logits), reference.center, self.box == "joint")
        box: Box | None = None
        for i, direction in enumerate(self.directions):
            box = direction.widen(box, inputs, learnt.at(i, self.likelihood, alpha))
        assert box is not None
        return IntervalCredalSet.unchecked(box.low, box.high, box.point, learnt.classes)

    def _level(self, alpha: Any) -> float:
        return self.alpha if alpha is None else check_alpha(alpha)

    @property
    def _known(self) -> FitState:
        """All that was learnt. Readers take it once: it may be replaced, but never changes."""
        learnt = self._learnt
        if learnt is None:
            raise NotFittedError(
                "this Decalibrator must be fitted first: it has seen no data. Call fit."
            )
        return learnt

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, if known."""
        return None if self._learnt is None else self._learnt.classes

    @property
    def examples(self) -> int:
        """Number of labelled examples, of positive weight, learnt from."""
        return self._known.rows

    @property
    def class_weights(self) -> Array:
        """(K,) total weight of the labels of each class; their counts without sample weights."""
        return self._known.label_weight.copy()

    @property
    def reference_model(self) -> Reference:
        """Where gains are measured from: the shifts and the scale of the reference model."""
        return self._known.reference

    @property
    def distance(self) -> float:
        """Nats per example by which the reference is better than the model; 0 if they are one."""
        return self._known.reference.distance

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
        names = tuple(direction.name for direction in self.directions)
        if names != ("class",):
            settings += f", directions={names}"
        if self.probabilities:
            settings += ", probabilities=True"
            settings += "" if self.floor is None else f", floor={self.floor:g}"
        if self._learnt is None:
            return f"Decalibrator({settings}), not fitted"
        K = len(self._learnt.label_weight)
        text = f"Decalibrator({settings}), fitted on {self.examples:,} examples of {K:,} classes"
        if "temperature" in names and self.alpha > 0 and self.scales().lower == 0:
            text += ". At this alpha every scale down to 0 is plausible: all sets hold the "
            text += "uniform distribution"
        return text

    def _repr_html_(self) -> str:
        title, classes = repr(self), CLASSES_SHOWN
        if self._learnt is None:
            return table(title, (), ())
        names = self.classes or tuple(str(k) for k in range(len(self.class_weights)))
        columns = [names, [f"{weight:,.6g}" for weight in self.class_weights]]
        headings = ["class", "labels"]
        if any(direction.name == "class" for direction in self.directions):
            shifts = self.shifts()
            headings += ["least shift", "greatest shift"]
            columns += [[f"{t:+.3f}" for t in ends] for ends in (shifts.lower, shifts.upper)]
        more = len(names) - classes
        note = f"and {more:,} more classes" if more > 0 else ""
        return table(title, headings, list(zip(*columns, strict=True))[:classes], note=note)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_learning"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _learning=threading.Lock())

    def _unfitted(self) -> Self:
        """A Decalibrator with the same settings that has learnt nothing."""
        model = self._with()
        model._learnt = None
        return model

    def _taking_logits(self) -> Self:
        """The same model for logits that were converted where they were read."""
        return self._with(probabilities=False, floor=None) if self.probabilities else self

    def save(self, path: str | Path | BinaryIO, *, compressed: bool = True) -> None:
        """Write the fitted model to one small file (.npz, no pickle).

        Parameters
        ----------
        path : path or file
            Where to; or a file open for writing bytes.
        compressed : bool
            To about three quarters of the size, which takes ten times as long.
        """
        learnt = self._known
        require_capability(self.directions, "saves", "save", "Fit again where you need it.")
        settings = {"alpha": self.alpha, "likelihood": self.likelihood, "box": self.box}
        if self.probabilities:  # a decal that does not know of them must refuse the file
            settings |= {"probabilities": True, "floor": self.floor}
        file = Path(path) if isinstance(path, str) else path
        model_files.write(
            file, settings | learnt.settings(), learnt.arrays(), compressed=compressed
        )

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Self:
        """Read what `save` wrote. Runs no code from the file, so files of strangers are safe."""
        file = Path(path) if isinstance(path, str) else path
        settings, arrays = model_files.read(file, FitState.is_known)
        with model_files.intact(file):
            FitState.upgrade(settings, arrays)
            model = cls(
                settings.pop("alpha"),
                likelihood=settings.pop("likelihood"),
                reference=settings["reference"],
                box=settings.pop("box"),
                directions=[direction_named(*d) for d in settings.pop("directions")],
                probabilities=settings.pop("probabilities", False),
                floor=settings.pop("floor", None),
            )
            model._learnt = FitState.restore(model.directions, settings, arrays)
        unknown = sorted([*settings, *arrays])
        if unknown:
            raise ValueError(f"path must hold nothing unknown: got {path} with {unknown}.")
        return model


def require_decalibrator(model: Any, name: str = "model") -> None:
    """ValueError about a model that is no Decalibrator."""
    require_classes(model)
    if not isinstance(model, Decalibrator):
        raise ValueError(f"{name} must be a Decalibrator: got a {type(model).__name__}.")


def decalibrate(
    logits: Any,
    labels: Any,
    *,
    alpha: float = DEFAULT_ALPHA,
    sample_weight: Any = None,
    classes: Iterable[Any] | None = None,
    **settings: Any,
) -> Decalibrator:
    """A Decalibrator fitted on labelled logits, in one call.

    Parameters
    ----------
    logits, labels, sample_weight, classes
        As for `Decalibrator.fit`.
    alpha, **settings
        As for `Decalibrator`.

    Examples
    --------
    >>> import decal
    >>> d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    >>> d.shifts().upper.round(3)
    array([0.624, 2.024])
    """
    check_keywords(settings, "decal.decalibrate", decalibrate, Decalibrator)
    model = Decalibrator(alpha, **settings)
    return model.fit(logits, labels, sample_weight=sample_weight, classes=classes)
