"""Decalibrator: learn from logits and labels how far each logit may move, predict credal sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from decal._base.confidences import Confidences
from decal._base.errors import FitWarning, InputError, Setting
from decal._base.numerics import Array, Mask, budget
from decal._base.row_checks import check_steps
from decal._base.settings import DEFAULT_ALPHA, check_alpha, check_choice, check_flag
from decal.credal import ClassTree, CredalSet, IntervalCredalSet, KLCredalSet
from decal.directions import (
    CHOSEN,
    REFERENCES,
    Direction,
    Endpoints,
    FitState,
    Inputs,
    LabelledLogits,
    Local,
    Reference,
    TopIntervals,
    TopLogits,
    direction_named,
    find_reference,
    local_balls,
    parse_directions,
    require_capability,
    require_masks_taken,
    summarise_top,
    taken,
    top_box,
)
from decal.grids import CredalMaps
from decal.model import (
    FAR_FROM_REFERENCE,
    Model,
    described_inputs,
    require_classes,
    require_model_reference,
    shift_columns,
)
from decal.rows import Rows
from decal.schema import Schema, check_floor

if TYPE_CHECKING:
    from decal.io.model_files import Arrays

__all__ = ["Decalibrator", "published"]

PUBLISHED: Mapping[str, Any] = MappingProxyType(
    {"likelihood": "mean", "reference": "model", "box": "joint", "directions": ("class",)}
)
"""The settings of the published method."""


class Decalibrator(Model[FitState]):
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
        data grow, as in the published numbers. "sum" bounds the ratio for the whole data set, the
        paper's formula: tiny for thousands of examples; see `alpha_from_confidence`.
    reference : str
        "model" measures likelihoods against the model as it is. "best" first recenters the logits
        at their maximum-likelihood shifts (and scale, with "temperature" or "local"), so that
        alpha = 1 is a point. "halfway" takes the mean of the logits of both. "auto" lets the rows
        choose, by cross-validation: the scale, or shifts and scale, and how far to go there from
        the model. "consensus" does so for gold labels, on which people agreed: it never softens,
        and moves only if that clearly pays.
    box : str
        "joint" takes the range of each probability over the shifts of all classes, as published;
        "own" over the class's own shift only, the paper's corollary. "joint" contains "own".
    directions : iterable
        What may move. "class", one logit at a time, as published; "temperature", the scale of all
        logits, which gives better sets on nearly all data we tried; "local", each prediction by
        itself, alone; or objects of your own, see `decal.Direction`. The box is taken over all.
    probabilities : bool
        Whether this model is given probabilities instead of logits, to learn from and to predict.
    floor : float, optional
        With probabilities: smaller ones are raised to it. By default zeros become 2e-308, unless
        one belongs to a label, which is refused.
    order : bool
        Whether classes have an order, that of the columns, as grades have. Its credal sets then
        name an interval of possible classes, see `CredalSet.with_order`. An ordered categorical of
        pandas as labels says so by itself.
    tree : optional
        Of the classes, by their names: what `decal.ClassTree.of` reads, such as nested mappings.
        The sets then know the ranges of its nodes, and `miss` promises the most specific node.

    Notes
    -----
    Fitting is one pass over the data, O(n K) time, and memory that does not grow with n: the
    margins of each class are kept as a binned summary, exact to about 1e-12 nats per example.
    Summaries of several data sets add up (`partial_fit`, `merge`).

    Differs from the paper in: endpoints are found to machine precision by Newton's method on a
    concave function of one variable, instead of SLSQP on all the data; they may be infinite.

    Examples
    --------
    >>> import numpy as np, decal
    >>> logits = np.array([[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]])
    >>> d = decal.Decalibrator(alpha=0.9).fit(logits, [0, 0, 1, 1])
    >>> d.predict([[0.5, 0.0]])
    IntervalCredalSet: 1 input, 2 classes, mean width 0.528
      0  0 [0.286, 0.814]  1 [0.186, 0.714]
    """

    takes_votes = True

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
        order: bool = False,
        tree: Any = None,
    ) -> None:
        self.alpha = check_alpha(alpha)
        self.likelihood = check_choice(likelihood, "likelihood", ("mean", "sum"))
        self.reference = check_choice(reference, "reference", REFERENCES)
        self.box = check_choice(box, "box", ("joint", "own"))
        self.directions = parse_directions(directions)
        self.probabilities = check_flag(probabilities, "probabilities")
        self.floor = check_floor(floor, self.probabilities)
        self.order = check_flag(order, "order")
        self.tree = None if tree is None else ClassTree.of(tree)
        if self.order and self.tree is not None:
            raise InputError("tree", "be left out of classes in an order", "both")
        super().__init__()

    # Learning

    def schema(self, fitted: FitState | None) -> Schema:
        """What it lets in: logits or probabilities of all classes, and masks."""
        return Schema(
            len(fitted.label_weight) if fitted else None,
            fitted.classes if fitted else None,
            self.probabilities,
            self.floor,
            top_logits=True,
            masses=fitted is not None,
            axes=True,
            order=self.order or (fitted is not None and fitted.order),
        )

    def learn(self, rows: Rows, *, whole: bool = False, warn: bool = True) -> FitState:
        """What labelled rows say; a reference other than the model is that of the `whole` data.

        Of these it may `warn` if labels seem to be of other rows, or the reference is far away.
        """
        if hasattr(rows.logits, "learnt_by"):
            state: FitState = rows.logits.learnt_by(self, rows.labels)
            return state
        if hasattr(rows.logits, "in_turn"):
            rows = replace(rows, logits=rows.logits.in_turn())
        self._require_taken(rows)
        if self.tree is not None:
            self.tree.ordered(rows.classes or rows.shape[1])
        n, rows = len(rows.counted()), rows.by_label()
        confidences = Confidences.of(rows.logits, rows.labels, rows.weights, rows.units)
        if whole and warn:
            confidences.warn_of_other_order(rows.shape[1])
        rows, classes = rows.counted(), rows.classes
        logits, labels, weights = rows.logits, rows.labels, rows.weights
        K = rows.shape[1]
        label_weight = np.bincount(labels, weights, minlength=K).astype(np.float64)
        at = Reference(np.zeros(K))
        if isinstance(logits, TopLogits):
            evidence: tuple[Any, ...] = (summarise_top(logits, labels, weights),)
        else:
            require_masks_taken(self.directions, logits)
            if whole and self.reference != "model":
                scale = any(direction.moves_scale for direction in self.directions)
                at = find_reference(logits, labels, weights, scale=scale, name=self.reference)
            data = LabelledLogits(at.scaled(logits), at.center, labels, weights, whole)
            evidence = tuple(direction.summarise(data) for direction in self.directions)
        order = self.order or rows.order
        found = FitState(
            self.directions, at, n, label_weight, evidence, classes, confidences, order
        )
        if whole and warn:
            self._warn_if_far(found)
        return found

    def _require_taken(self, rows: Rows) -> None:
        """InputError about TopLogits that the settings do not allow, or of other classes."""
        if not isinstance(rows.logits, TopLogits):
            return
        if self.probabilities:
            remedy = "Leave ", Setting("probabilities", True), " out."
            fact = "TopLogits, which are logits"
            raise InputError("logits", "be probabilities of all classes", fact, remedy)
        if self.reference != "model":
            need = "be a matrix of all classes, unless ", Setting("reference", "model")
            raise InputError("logits", need, f"TopLogits with {self.reference!r}")
        advice = "Pass a matrix of all classes, or directions=('class',)."
        require_capability(self.directions, "takes_top_logits", "TopLogits", advice)
        known = self._fitted
        if known is not None and rows.shape[1] != len(known.label_weight):
            rule = f"have {len(known.label_weight)} classes in all, as seen by fit"
            raise InputError(
                "logits", rule, f"{rows.shape[1]}", "Use the logits of the same model."
            )

    def fit_rows(self, rows: Rows, *, warn: bool = True) -> Self:
        """As `fit`, of rows that were read before; `warn` of labels that seem to be of others."""
        return self.keep(self.learn(rows, whole=True, warn=warn))

    def keep(self, fitted: FitState) -> Self:
        """Put evidence in the place of what was learnt before, of whose labels `learn` warned."""
        found, K = fitted.confidences, len(fitted.label_weight)
        wrong = found is not None and found.in_other_order(K)
        with self._lock:
            self._fitted, self._told = fitted, {"order"} if wrong else set()
            self.promise = None
        return self

    def add(self, more: FitState) -> Self:
        """Add evidence of other data, and look at all labels whenever these have about doubled."""
        before = 0 if self._fitted is None else self._fitted.rows
        fitted = super().add(more).fitted
        look = fitted.rows.bit_length() > before.bit_length() and "order" not in self._told
        found, K = fitted.confidences, len(fitted.label_weight)
        if look and found is not None and found.warn_of_other_order(K):
            self._told.add("order")
        return self

    def require_mergeable(self) -> None:
        """InputError if the reference, or a direction, needs all the data at once."""
        require_model_reference(self.reference)
        require_capability(self.directions, "streams", "merge and partial_fit", "Use fit.")

    def forget_confidences(self) -> Self:
        """Compare no inputs with the labelled ones, whose logits another model gave."""
        with self._lock:
            self._fitted = replace(self.fitted, confidences=None)
        return self

    def _warn_if_far(self, fitted: FitState) -> None:
        """Warn if the reference is much further from the model than anything may move."""
        allowed = float(budget(self.alpha))
        allowed /= fitted.total_weight if self.likelihood == "sum" else 1.0
        distance = fitted.reference.distance
        if 0 < allowed < distance / FAR_FROM_REFERENCE:
            FitWarning.warn(
                f"the model is {distance:.3g} nats per example from its reference, and alpha = "
                f"{self.alpha:g} allows {allowed:.2g}: its own predictions are implausible, and "
                "the credal sets will hardly contain them"
            )

    # Asking

    def shifts(self, alpha: Any = None) -> Endpoints:
        """How far each class's logit may move, as `steps`; needs "class" among the directions."""
        return self.steps("class", alpha)

    def scales(self, alpha: Any = None) -> Endpoints:
        """By how much the logits may be scaled, as `steps`; needs "temperature"."""
        return self.steps("temperature", alpha)

    def steps(self, name: str, alpha: Any = None) -> Endpoints:
        """How far the direction of this name may move: the plausible interval of its parameter.

        `alpha` is a level in [0, 1], or a sequence of levels; by default the one given at
        construction.
        """
        fitted = self.fitted
        which = fitted.position_of(name)
        if np.ndim(alpha) == 1 and not isinstance(alpha, Mapping):
            levels = np.array([check_alpha(a) for a in alpha])
            return fitted.at(which, self.likelihood, levels)
        return fitted.at(which, self.likelihood, self.level(alpha))

    def gains(self, name: str, values: Any) -> Array:
        """The log-likelihood gained by moving a direction, (T, K) or (T,), 0 at the reference.

        Nats per unit of weight with ``likelihood="mean"``, and in all with "sum". For the
        temperature, with its default evidence, minus the expected loss. `decal.plot.likelihood`
        draws it.

        Parameters
        ----------
        name : str
            "class" or "temperature".
        values : (T,) array
            Finite shifts of a class's logit from the reference, in nats; or scales relative to that
            of the reference, at least 0.

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
        """The gain at which alpha cuts: what `gains` is at a finite endpoint."""
        direction, evidence, total = self._measured(name)
        budgets = budget([self.level(alpha)]) * total
        return float(-direction.allowed(evidence, budgets)[0] / total)

    def _measured(self, name: str) -> tuple[Any, Any, float]:
        """A direction whose gain is known, its evidence, and the weight that gains are per."""
        fitted = self.fitted
        which = fitted.position_of(name)
        direction = fitted.directions[which]
        if not hasattr(direction, "gains"):
            raise ValueError(f"name must be 'class' or 'temperature': got {name!r}.")
        total = fitted.total_weight if self.likelihood == "mean" else 1.0
        return direction, fitted.evidence[which], total

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # nobody says dim=None
        def predict(
            self, logits: TopLogits, *, alpha: Any = None, ids: Any = None, groups: Any = None
        ) -> TopIntervals: ...
        @overload
        def predict(
            self, logits: Any, *, dim: int, alpha: Any = None, ids: Any = None, groups: Any = None
        ) -> CredalMaps: ...
        @overload
        def predict(
            self, logits: Any, *, alpha: Any = None, ids: Any = None, groups: Any = None
        ) -> IntervalCredalSet: ...
        def predict(
            self,
            logits: Any,
            *,
            alpha: Any = None,
            ids: Any = None,
            groups: Any = None,
            dim: int | None = None,
        ) -> Any:
            """As of every model; TopLogits give TopIntervals."""

    def predict_rows(self, rows: Rows, *, alpha: Any = None) -> Any:
        """As `predict`, of rows that were read before: one direction after the other widens sets.

        It warns of nothing.
        """
        fitted, level, logits = self.fitted, self.level(alpha), rows.logits
        if hasattr(logits, "predicted_by"):
            found = logits.predicted_by(self, alpha=level)
        elif isinstance(logits, TopLogits):
            self._require_taken(rows)
            shifts = fitted.at(0, self.likelihood, level)
            found = top_box(logits, shifts.lower, shifts.upper, joint=self.box == "joint")
        else:
            require_masks_taken(self.directions, logits)
            inputs, box = self._inputs(rows, fitted), None
            for i, direction in enumerate(self.directions):
                box = direction.widen(box, inputs, fitted.at(i, self.likelihood, level))
            assert box is not None
            found = IntervalCredalSet.unchecked(box.low, box.high, box.point, fitted.classes)
        if isinstance(found, CredalSet):
            found = found.with_tree(self.tree)
            found = found.with_order() if fitted.order else found
        return found if rows.ids is None else found.with_index(rows.ids)

    def _inputs(self, rows: Rows, fitted: FitState) -> Inputs:
        """Rows as the reference model has them."""
        reference = fitted.reference
        reference.require_rivals(rows.logits)
        return Inputs(reference.scaled(rows.logits), reference.center, self.box == "joint")

    def predict_ball(self, logits: Any, *, alpha: Any = None, ids: Any = None) -> KLCredalSet:
        """The balls of new inputs, of which `predict` returns the boxes; for local sets only.

        Smaller than their boxes, and sharper in their answers. The center, and point, is the
        reference model's softmax, with `decal.Local(mix=...)` the mixture. Arguments as for
        `predict`.

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
        fitted, level = self.fitted, self.level(alpha)
        rows = Rows.read(logits, ids=ids, schema=replace(self.schema(fitted), axes=False))
        if not isinstance(rows.logits, np.ndarray):
            fact = f"a {type(rows.logits).__name__}"
            raise InputError("logits", "be a matrix of all classes for balls", fact)
        endpoints = fitted.at(0, self.likelihood, level)
        balls = local_balls(self._inputs(rows, fitted), endpoints, local)
        found = KLCredalSet.unchecked(*balls, fitted.classes).with_tree(self.tree)
        found = found.with_index(rows.ids)
        return found.with_order() if fitted.order else found

    @property
    def leaves(self) -> Mask:
        """(nodes, K) the classes of every node of its tree, in the order of the classes."""
        if self.tree is None:
            raise InputError("decalibrator", "have a tree", "none", "Pass tree= when you make it.")
        return self.tree.ordered(self.classes or len(self.class_weights)).leaves

    def confidences(self) -> Confidences | None:
        """How sure the classifier was of the labelled rows; older files do not hold it."""
        return self.fitted.confidences

    @property
    def examples(self) -> int:
        """Number of labelled examples, of positive weight, learnt from."""
        return self.fitted.rows

    @property
    def class_weights(self) -> Array:
        """(K,) total weight of the labels of each class; their counts without sample weights."""
        return self.fitted.label_weight.copy()

    @property
    def reference_model(self) -> Reference:
        """Where gains are measured from: the shifts and the scale of the reference model."""
        return self.fitted.reference

    @property
    def distance(self) -> float:
        """Nats per example by which the reference is better than the model; 0 if they are one."""
        return self.fitted.reference.distance

    def explore(self, logits: Any, **options: Any) -> Any:
        """An interactive page about these predictions, see `decal.explorer.explore`."""
        from decal.explorer import explore

        return explore(self, logits, **options)

    # Keeping

    def described(self) -> tuple[str, str]:
        """Its settings and, once it was fitted, on what; for `repr`."""
        settings = (
            f"alpha={self.alpha:g}, likelihood={self.likelihood!r}, "
            f"reference={self.reference!r}, box={self.box!r}"
        )
        settings += described_inputs(self)
        if self.tree is not None:
            settings += f", tree of {len(self.tree.names):,} nodes"
        if self._fitted is None:
            return settings, ""
        K = len(self._fitted.label_weight)
        ordered = " ordered" if self._fitted.order else ""
        text = f"fitted on {self.examples:,} examples of {K:,}{ordered} classes"
        if self.reference in CHOSEN:
            text += f", which chose {self.reference_model.described()}"
        moves_scale = any(direction.name == "temperature" for direction in self.directions)
        if moves_scale and self.alpha > 0 and self.scales().lower == 0:
            text += ". At this alpha every scale down to 0 is plausible: all sets hold the "
            text += "uniform distribution"
        return settings, text

    def columns(self) -> dict[str, list[str]]:
        """What a notebook lists of every class."""
        weights = self.class_weights
        names = self.classes or tuple(str(k) for k in range(len(weights)))
        columns = {"class": list(names), "labels": [f"{weight:,.6g}" for weight in weights]}
        return columns | shift_columns(self)

    kind = "decalibrator"

    @classmethod
    def may_hold(cls, name: str, settings: dict[str, Any]) -> bool:
        """Whether a file with these settings may hold an array of this name."""
        return FitState.is_known(name, settings)

    def packed(self) -> tuple[dict[str, Any], Arrays]:
        """Plain settings, and arrays, that `unpacked` takes."""
        fitted = self.fitted
        require_capability(self.directions, "saves", "save", "Fit again where you need it.")
        settings = {"alpha": self.alpha, "likelihood": self.likelihood, "box": self.box}
        if self.probabilities:
            settings |= {"probabilities": True, "floor": self.floor}
        if self.tree is not None:
            settings["tree"] = self.tree.packed()
        return settings | fitted.settings(), fitted.arrays()

    @classmethod
    def unpacked(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        """From such settings and arrays, which it takes out; ValueError if they are damaged."""
        FitState.upgrade(settings, arrays)
        tree = settings.pop("tree", None)
        model = cls(
            settings.pop("alpha"),
            likelihood=settings.pop("likelihood"),
            reference=settings["reference"],
            box=settings.pop("box"),
            directions=[direction_named(*d) for d in settings.pop("directions")],
            probabilities=settings.pop("probabilities", False),
            floor=settings.pop("floor", None),
            order=settings.get("order", False),
            tree=None if tree is None else ClassTree.unpacked(tree),
        )
        evidence = []
        for direction in model.directions:
            own = taken(arrays, f"{direction.name}.")
            evidence.append(direction.restore(own))
            if own:
                raise ValueError(f"unknown arrays {sorted(own)}")
        fitted = FitState.restore(model.directions, evidence, settings, arrays)
        if model.tree is not None:
            model.tree.ordered(fitted.classes or len(fitted.label_weight))
        model._fitted = fitted
        return model


def published(alpha: float) -> Decalibrator:
    """A model that is not fitted yet, with the settings of the paper's experiments.

    Shifts of one logit at a time, judged by their mean effect on the labelled data, around the
    model as it is. It promises nothing.

    Examples
    --------
    >>> import decal
    >>> decal.published(0.8)
    Decalibrator(alpha=0.8, likelihood='mean', reference='model', box='joint'), not fitted
    """
    return Decalibrator(alpha, **PUBLISHED)


def require_decalibrator(model: Any, name: str = "model") -> None:
    """ValueError about a model that is no Decalibrator."""
    require_classes(model)
    if not isinstance(model, Decalibrator):
        raise InputError(name, "be a Decalibrator", f"a {type(model).__name__}")
