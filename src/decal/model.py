"""Model: what all estimators of decal do in one way, and `load`, which opens a file of any kind.

A kind of model supplies evidence and sets: what it lets in, what it learns from rows, what it
predicts for rows, and what of it goes into a file.
"""

from __future__ import annotations

import textwrap
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Generic, Self, TypeVar

import numpy as np

from decal._base.confidences import Confidences
from decal._base.data_frames import class_columns, is_frame, require_same_order
from decal._base.errors import InputError, NotFittedError
from decal._base.markup import table
from decal._base.row_checks import check_labels, check_logits
from decal._base.settings import FrozenSettings, check_alpha
from decal.credal import IntervalCredalSet
from decal.new_inputs import FEWEST_SETS, NewInputs
from decal.promise import Promise
from decal.rows import Rows, require_possible
from decal.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

    from decal.io.model_files import Arrays
    from decal.report import Report

__all__ = ["Model", "NewInputs", "Saved", "load", "predict_rows", "read_inputs", "require_classes"]

CLASSES_SHOWN = 20  # classes that a notebook lists
LINE = 96  # columns of a line that is printed
FAR_FROM_REFERENCE = 10.0  # budgets between a model and its reference that are worth a warning


E = TypeVar("E")


class Saved:
    """Something that is kept in one small file (.npz, no pickle)."""

    kind: ClassVar[str]
    """What the header of its file calls it, see `decal.io.model_files.KINDS`."""

    def packed(self) -> tuple[dict[str, Any], Arrays]:
        """Plain settings, and arrays, that `unpacked` takes."""
        raise NotImplementedError

    @classmethod
    def unpacked(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        """From such settings and arrays, which it takes out; ValueError if they are damaged."""
        raise NotImplementedError

    @classmethod
    def may_hold(cls, name: str, settings: dict[str, Any]) -> bool:
        """Whether a file with these settings may hold an array of this name."""
        raise NotImplementedError

    def save(self, path: str | Path | BinaryIO, *, compressed: bool = True) -> None:
        """Write all of it to one small file (.npz, no pickle).

        Parameters
        ----------
        path : path or file
            Where to; or a file open for writing bytes. A file that is there is replaced whole.
        compressed : bool
            To about three quarters of the size, which takes ten times as long.
        """
        from decal.io import model_files

        settings, arrays = self.packed()
        promise = getattr(self, "promise", None)
        if promise is not None:
            settings = settings | {"promise": promise.packed()}
        model_files.write(path, settings, arrays, kind=self.kind, compressed=compressed)

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Self:
        """Read what `save` wrote. Runs no code from the file, so files of strangers are safe.

        Parameters
        ----------
        path : path or file
            What `save` wrote; or such a file open for reading bytes.
        """
        from decal.io import model_files

        settings, arrays = model_files.read(path, cls.may_hold, kind=cls.kind)
        with model_files.intact(path):
            promise = settings.pop("promise", None)
            found = cls.unpacked(settings, arrays)
            if promise is not None:
                vars(found)["promise"] = Promise.unpacked(promise)
        unknown = sorted([*settings, *arrays])
        if unknown:
            raise InputError("path", "hold nothing unknown", f"{path} with {unknown}")
        return found


class Model(Saved, FrozenSettings, ABC, Generic[E]):
    """An estimator: it learns evidence from labelled rows, and predicts credal sets of new ones.

    Settings are frozen. Evidence never changes: it is replaced, under a lock, and readers take it
    once, so that models may be asked while they learn.
    """

    alpha: float

    takes_votes: ClassVar[bool] = False
    """Whether it learns from several labels per input, `decal.Votes`."""

    promise: Promise | None
    """What its sets promise of new inputs, if a wish was granted; gone when it learns more."""

    def __init__(self) -> None:
        self.promise = None
        self._fitted: E | None = None
        self._told: set[str] = set()
        self._lock = threading.Lock()

    # What a kind of model supplies, besides `packed` and `unpacked`

    @abstractmethod
    def schema(self, fitted: E | None) -> Schema:
        """What it lets in, before and after it was fitted."""

    @abstractmethod
    def learn(self, rows: Rows, *, whole: bool = False) -> E:
        """What labelled rows say; of the `whole` data it may keep them, and warn about them."""

    @abstractmethod
    def predict_rows(self, rows: Rows, *, alpha: Any = None) -> Any:
        """As `predict`, of rows that were read before; it warns of nothing."""

    def require_mergeable(self) -> None:
        """InputError if evidence of several data sets cannot be added."""
        raise InputError(type(self).__name__, "be fitted on all the data at once")

    @abstractmethod
    def described(self) -> tuple[str, str]:
        """Its settings and, once it was fitted, on what; for `repr`."""

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The names of the classes, or labels, if known."""
        return self.schema(self._fitted).classes

    # Learning

    def fit(
        self,
        logits: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        classes: Iterable[Any] | None = None,
        dim: int | None = None,
        ignore_index: int | None = None,
    ) -> Self:
        """Learn from labelled data, forgetting what was learnt before.

        Parameters
        ----------
        logits : (n, K) array
            float32 or float64: log-probabilities up to a constant per row, of any size. -inf masks
            a class in a row. Take held-out data if the model fits its training data much better
            than others. Or a `decal.TopLogits`: only the most probable classes of every row. Or a
            data frame (pandas, polars, PyArrow) with a column per class, named after it; or what a
            Hugging Face pipeline returns with top_k=None, by the names of its labels. Rows of
            probabilities get a warning, unless probabilities=True.
        labels : (n,) array
            Integers 0..K-1; or names of classes, if these are known. Of a data frame, also the name
            of a column; whole numbers are names there if a class is called by a whole number. A
            warning tells if they seem to be of other rows, or the columns in another order. For
            several labels per input (n, K): 1, 0, and -1 or NaN where nobody knows. Where several
            people said which class it is, a `decal.Votes`.
        sample_weight : (n,) array, optional
            A weight of 2 counts like two equal rows. Positive ones lie in 1e-100 to 1e100, and
            span at most twelve decades. Of a data frame, also the name of a column.
        classes : iterable, optional
            K names, in the order of the columns, handed on to the credal sets. Of a data frame they
            are the columns, in the order that you want; by default all that are not labels or
            weights.
        dim : int, optional
            The axis of the classes, if logits have more axes, as those of pixels: 1 for (images,
            classes, height, width). Labels have their shape without it. By default the only axis
            that fits labels and classes; InputError if two do. A list holds an array per image; of
            sentences, it needs `dim`.
        ignore_index : int, optional
            Inputs with this label are left out.

        Returns
        -------
        self
        """
        given: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes}
        rows = self.read_labelled(logits, labels, **given, dim=dim, ignore_index=ignore_index)
        return self.keep(self.learn(rows, whole=True))

    def partial_fit(
        self,
        logits: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        classes: Iterable[Any] | None = None,
        dim: int | None = None,
        ignore_index: int | None = None,
    ) -> Self:
        """Learn from one more chunk of labelled data; the result is that of `fit` on all of them.

        Only for reference="model": others need all the data at once. A chunk without rows changes
        nothing. Parameters are those of `fit`.
        """
        self.require_mergeable()
        known = self._fitted
        given: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes}
        given |= {"dim": dim, "ignore_index": ignore_index}
        rows = self.read_labelled(logits, labels, **given, fitted=known, whole=False)
        return self.add(self.learn(rows)) if len(rows) else self

    def merge(self, other: Self) -> Self:
        """Add what another model has learnt; the result is that of `fit` on both data sets.

        Only for reference="model": others need all the data at once.
        """
        kind = type(self).__name__
        if not isinstance(other, type(self)):
            raise InputError("other", f"be a {kind}", f"a {type(other).__name__}")
        self.require_mergeable()
        other.require_mergeable()
        for name in ("directions", "probabilities"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise InputError("other", f"have {name}={mine}", f"{theirs}")
        self._told |= other._told
        return self.add(other.fitted)

    def read_labelled(
        self,
        logits: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        classes: Iterable[Any] | None = None,
        fitted: E | None = None,
        whole: bool = True,
        dim: int | None = None,
        ignore_index: int | None = None,
    ) -> Rows:
        """Labelled rows after every check, of the classes that are known: what `fit_rows` takes."""
        # Masses learn in decal.llm.decalibrate.
        schema = replace(self.schema(fitted), masses=False, votes=self.takes_votes)
        rows = Rows.read(
            logits,
            labels,
            sample_weight=sample_weight,
            classes=classes,
            schema=schema,
            empty=not whole,
            whole=whole,
            dim=dim,
            ignore_index=ignore_index,
        )
        return require_possible(rows, schema, rows.place)

    def fit_rows(self, rows: Rows) -> Self:
        """As `fit`, of rows that were read before."""
        return self.keep(self.learn(rows, whole=True))

    def keep(self, fitted: E) -> Self:
        """Put evidence in the place of what was learnt before."""
        with self._lock:
            self._fitted, self._told, self.promise = fitted, set(), None
        return self

    def add(self, more: E) -> Self:
        """Add evidence of other data."""
        with self._lock:
            self._fitted = more if self._fitted is None else self._fitted + more  # type: ignore[operator]
            self.promise = None
        return self

    def unfitted(self) -> Self:
        """A model with these settings that has learnt nothing."""
        model = self.with_settings()
        model._fitted = model.promise = None
        return model

    def with_settings(self, **settings: Any) -> Self:
        """A copy with other settings, which promises nothing; what was learnt stays."""
        model = super().with_settings(**settings)
        if settings:
            model.promise = None
        return model

    def with_promise(self, choice: Any) -> Self:
        """A copy that predicts at the alpha of a `decal.Choice` and keeps its promise."""
        model = self.with_settings(alpha=choice.alpha)
        model.promise = choice.promise
        return model

    @property
    def fitted(self) -> E:
        """All that was learnt. Readers take it once: it may be replaced, but never changes."""
        fitted = self._fitted
        if fitted is None:
            kind = type(self).__name__
            raise NotFittedError(
                f"this {kind} must be fitted first: it has seen no data. Call fit."
            )
        return fitted

    # Asking

    def predict(
        self,
        logits: Any,
        *,
        alpha: Any = None,
        ids: Any = None,
        groups: Any = None,
        dim: int | None = None,
    ) -> Any:
        """The credal sets of new inputs.

        Parameters
        ----------
        logits : (n, K) array
            Of the same model, -inf where a class is masked; or a `decal.TopLogits`, or a
            `decal.llm.LabelMasses`. The columns of a data frame are found by the names of the
            classes, in whatever order they stand. No rows give no sets. A warning tells, once, if
            the model is surer of 100 inputs or more than of the labelled ones, or less sure.
        alpha : float or Choice, optional
            Level in [0, 1]; by default the one given at construction, or that of its promise.
        ids : str, list of str, or (n,) array, optional
            What names the inputs: columns of a data frame, or values. By default the index of a
            pandas DataFrame. They stay with the sets, see `CredalSet.index`.
        groups : (n,) array, optional
            The group of every input, if the promise holds in each group; in the shape of the
            inputs, or one for each entry of their first axes.
        dim : int, optional
            The axis of the classes, if logits have more axes; by default the only one that has as
            many entries as there are classes.

        Returns
        -------
        CredalSet
            With float64 bounds; its `point` is the reference model's prediction, and its `possible`
            classes are those of the promise. O(n K) time; if every class has an alpha of its own,
            for each of them. With `dim`, or of logits with more axes, `decal.CredalMaps` in their
            shape; of a list of arrays, a list of them.
        """
        level, promise = self._asked(alpha)
        if groups is not None:
            require_same_order(logits=logits, groups=groups)
        rows = self.read(logits, ids=ids, dim=dim)
        groups = rows.flat(groups)
        if promise is None and groups is None:
            sets = self.predict_rows(rows, alpha=level)
        else:
            sets = promised_sets(self, rows, level, promise, groups)
        # Label masses are as sure as their bounds, which differ; of few inputs nothing is told.
        if len(rows) >= FEWEST_SETS and not hasattr(rows.logits, "predicted_by"):
            NewInputs(self, level).add(rows, sets).warn()
        return sets if rows.grid is None else rows.grid.maps(sets)

    def _asked(self, alpha: Any) -> tuple[float, Promise | None]:
        """The level that is asked for, and what it promises."""
        if alpha is None:
            return self.alpha, self.promise
        promise = getattr(alpha, "promise", None)
        return (check_alpha(alpha), None) if promise is None else (alpha.alpha, promise)

    def read(
        self,
        logits: Any,
        labels: Any = None,
        *,
        ids: Any = None,
        empty: bool = True,
        dim: int | None = None,
        ignore_index: int | None = None,
        votes: bool = False,
    ) -> Rows:
        """New inputs, and labels if there are some, after every check: what `predict_rows` takes.

        Arguments are as for `predict` and `fit`; `empty` tells whether no rows are fine, `votes`
        whether several labels per input are.
        """
        schema = self.schema(self.fitted)
        return Rows.read(
            logits,
            labels,
            ids=ids,
            schema=replace(schema, votes=True) if votes else schema,
            empty=empty,
            dim=dim,
            ignore_index=ignore_index,
        )

    def report(
        self, logits: Any, *, ids: Any = None, check: Any = None, costs: Any = None, **options: Any
    ) -> Report:
        """One line per input, what a person needs, see `decal.report.report`."""
        from decal.report import report

        return report(self, logits, ids=ids, check=check, costs=costs, **options)

    def level(self, alpha: Any) -> float:
        """A level in [0, 1]; by default the one given at construction."""
        return self.alpha if alpha is None else check_alpha(alpha)

    def confidences(self) -> Confidences | None:
        """How sure the classifier was of the labelled rows, if that was kept."""
        return None

    # Keeping

    def __repr__(self) -> str:
        settings, fitted = self.described()
        told = f"{type(self).__name__}({settings}), {fitted or 'not fitted'}"
        if self.promise is None:
            return told
        lines = [*self.promise.lines(), f"By {told}."]
        return "\n".join(textwrap.fill(line, LINE, subsequent_indent="  ") for line in lines)

    def columns(self) -> dict[str, list[str]]:
        """What a notebook lists of every class, by its heading."""
        return {}

    def _repr_html_(self) -> str:
        columns = {} if self._fitted is None else self.columns()
        rows = list(zip(*columns.values(), strict=True))
        more = len(rows) - CLASSES_SHOWN
        each = "labels" if "label" in columns else "classes"
        note = f"and {more:,} more {each}" if more > 0 else ""
        return table(repr(self), [*columns], rows[:CLASSES_SHOWN], note=note)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())


def require_model_reference(reference: str) -> None:
    """InputError if evidence is measured from a reference that needs all the data at once."""
    if reference != "model":
        raise InputError(
            "reference",
            "be 'model' to merge or partial_fit",
            f"{reference!r}, whose recentering needs all the data at once",
            "Use fit.",
        )


def described_inputs(model: Any) -> str:
    """What `repr` says of directions other than class shifts, and of probabilities."""
    names = tuple(direction.name for direction in model.directions)
    text = "" if names == ("class",) else f", directions={names}"
    if model.probabilities:
        text += ", probabilities=True"
        text += "" if model.floor is None else f", floor={model.floor:g}"
    return text


def shift_columns(model: Any) -> dict[str, list[str]]:
    """How far the logit of every class may move, if it may, for a notebook."""
    if not any(direction.name == "class" for direction in model.directions):
        return {}
    shifts = model.shifts()
    ends = {"least shift": shifts.lower, "greatest shift": shifts.upper}
    return {heading: [f"{t:+.3f}" for t in values] for heading, values in ends.items()}


def read_inputs(
    model: Any,
    logits: Any,
    labels: Any = None,
    *,
    name: str = "logits",
    dim: int | None = None,
    ignore_index: int | None = None,
    votes: bool = False,
    **beside: Any,
) -> Rows:
    """Inputs, and their labels if given, of any model that predicts credal sets from logits.

    Of `beside`, which is what else there is of these rows, only the order is checked. A model that
    is not decal's own reads its logits itself.
    """
    require_takes_logits(model)
    if labels is not None:
        require_classes(model)
    if isinstance(logits, Rows):
        return logits
    require_same_order(**{name: logits}, labels=labels, **beside)
    if isinstance(model, Model):
        axes: dict[str, Any] = {"dim": dim, "ignore_index": ignore_index}
        return model.read(logits, labels, empty=False, **axes, votes=votes and model.takes_votes)
    if dim is not None or ignore_index is not None:
        raise InputError("dim and ignore_index", "go with a Decalibrator", type(model).__name__)
    classes = getattr(model, "classes", None)
    if is_frame(logits):
        logits, _ = class_columns(logits, classes, name=name)
    z = check_logits(logits, name=name, masked=True)
    if labels is not None:
        labels = check_labels(labels, rows=len(z), classes=z.shape[1], names=classes)
    return Rows(z, labels, classes=classes)


def predict_rows(model: Any, rows: Rows, alpha: float) -> Any:
    """The credal sets that any model predicts for rows that `read_inputs` read."""
    if isinstance(model, Model):
        return model.predict_rows(rows, alpha=alpha)
    return model.predict(rows.logits, alpha=alpha)


def promised_sets(
    model: Any, rows: Rows, alpha: float, promise: Promise | None, groups: Any = None
) -> Any:
    """The credal sets of rows that `read_inputs` read, and what a promise calls possible."""
    members = 0 if promise is None else promise.costs.get("members", 0)
    given = len(getattr(rows.logits, "members", ()))
    if members and given != members:
        rule = f"be the union of an ensemble of {members:g}, as those of the promise"
        fact = f"one of {given}" if given else "one matrix"
        raise InputError("logits", rule, fact, "Pass decal.ensemble(logits).union.")
    if groups is not None and (promise is None or promise.per != "group"):
        fact = "groups, but alpha was not chosen by groups"
        raise InputError("groups", "be left out", fact)
    if promise is not None and promise.per == "group":
        alphas = promise.alphas(groups, len(rows))
        low, high, point = np.empty((3, *rows.shape))
        for level in np.unique(alphas):
            some = np.flatnonzero(alphas == level)
            found = predict_rows(model, rows[some], float(level))
            low[some], high[some], point[some] = found.lower, found.upper, found.point
        sets: Any = IntervalCredalSet.unchecked(low, high, point, rows.classes)
        sets = sets.with_index(rows.ids).with_tree(getattr(model, "tree", None))
        sets = sets.with_order() if rows.order else sets
    elif promise is not None and promise.per == "label":
        sets = model.predict_rows(rows, alpha=np.array(list(promise.levels.values())))
    else:
        sets = predict_rows(model, rows, alpha)
    if promise is None or not promise.rule or not hasattr(sets, "promised"):
        return sets
    kept = None
    if promise.per == "class":
        kept = promise.kept(
            lambda level: predict_rows(model, rows, level).decide(promise.rule), rows.shape
        )
    return sets.promised(promise.rule, kept)


def require_takes_logits(model: Any) -> None:
    """InputError about a model that predicts from features, as a CredalClassifier does."""
    if hasattr(model, "predict_logits"):
        fact = f"{type(model).__name__}, which takes features"
        remedy = (
            "Of a CredalClassifier pass clf.decalibrator_, and clf.predict_logits(X) as logits."
        )
        raise InputError("model", "be a Decalibrator", fact, remedy)


def answers_labels(model: Any) -> bool:
    """Whether a model answers a question per label, instead of telling classes apart."""
    return isinstance(model, Model) and model.schema(None).answers


def require_classes(
    model: Any, remedy: str = "Fit a Decalibrator per label, on the logits [0, z]."
) -> None:
    """InputError about a model that does not predict one of several classes from logits."""
    require_takes_logits(model)
    if answers_labels(model):
        rule = "tell classes that exclude each other"
        fact = f"a {type(model).__name__}, which answers a question per label"
        raise InputError("model", rule, fact, remedy)


def load(path: str | Path | BinaryIO, *, estimator: Any = None) -> Any:
    """The model, triage or classifier in a file that `save` wrote, of whatever kind.

    Runs no code from the file, so files of strangers are safe.

    Parameters
    ----------
    path : path or file
        What `save` wrote; or such a file open for reading bytes.
    estimator : object, optional
        For a `decal.sklearn.CredalClassifier`: the one that it was saved with.
    """
    from decal.io import model_files

    kind = model_files.kind_of(path)
    if (kind == "classifier") != (estimator is not None):
        rule = "go with a CredalClassifier, which is saved without it"
        fact = "none" if estimator is None else f"one for a {kind}"
        raise InputError("estimator", rule, fact)
    module, _, name = model_files.KINDS[kind].rpartition(".")
    found = getattr(import_module(module), name)
    return found.load(path, *([] if estimator is None else [estimator]))
