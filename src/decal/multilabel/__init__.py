"""MultiLabelDecalibrator: classifiers that answer a question per label, with a sigmoid each.

The logit of a label is its log-odds against its absence. Shifting it is a decalibration of two
classes, so every label has an interval of its own, learnt from the inputs whose answer is known.
Imports from `_base`, `io`, `credal`, `directions` and `decalibrator`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from decal._base.checks import (
    DEFAULT_ALPHA,
    check_alpha,
    check_choice,
    check_class_names,
    check_flag,
    check_weights,
)
from decal._base.confidences import Confidences
from decal._base.data_frames import column_names, index_of, is_frame, require_same_order
from decal._base.errors import FitWarning, NotFittedError
from decal._base.inputs import check_floor, frames_within_decal
from decal._base.label_checks import check_answers, read_label_logits, require_possible_answers
from decal._base.markup import table
from decal._base.numerics import Array, Logits, budget, for_each_block, sigmoid
from decal._base.settings import FrozenSettings
from decal.credal import MultiLabelCredalSet, warn_if_vacuous
from decal.decalibrator import FAR_FROM_REFERENCE
from decal.directions import (
    BUILT_IN,
    REFERENCES,
    Answers,
    Direction,
    Endpoints,
    direction_named,
    parse_directions,
)
from decal.io import model_files
from decal.multilabel._label_evidence import LabelEvidence, called, is_known
from decal.multilabel._label_ranges import endpoints, probability_range

__all__ = ["MultiLabelDecalibrator"]

KIND = "decal-multilabel-model"
"""What the header of its model files calls their format."""

LABELS_SHOWN = 20
"""Labels that a notebook lists."""

KEPT_LEVELS = 16
"""Levels whose endpoints are kept, so that they are not solved for again."""


class MultiLabelDecalibrator(FrozenSettings):
    """Turns logits of labels that do not exclude each other into intervals of their probabilities.

    For models with a sigmoid per label: tags of a photograph, topics of a text, findings of a scan.
    A shift of one label's logit is plausible at level alpha if the likelihood of that label's
    answers under the shifted model, relative to the reference model, is at least alpha.

    Parameters
    ----------
    alpha : float
        Level in [0, 1]. Smaller is more cautious. Every other alpha is available in `predict`.
    likelihood : str
        "mean" bounds the geometric-mean likelihood ratio per answer of a label, "sum" that of all
        its answers, as for `Decalibrator`.
    reference : str
        "model", "best" or "halfway", as for `Decalibrator`, for each label by itself.
    directions : iterable
        What may move: "class", the logit of a label by a shift; "temperature", by a factor;
        "local", anything close to the prediction. Also `decal.Temperature` and `decal.Local`.
    probabilities : bool
        Whether this model is given probabilities, each of its label, instead of logits.
    floor : float, optional
        With probabilities: these are kept so far from 0 and from 1. By default only 0 and 1
        themselves change, by 2e-308, unless an answer contradicts them.

    See Also
    --------
    Decalibrator : For inputs that belong to one of several classes.
    MultiLabelCredalSet : What `predict` returns.

    Notes
    -----
    Equal to a `Decalibrator` per label, on the logits [0, z], but shifts of all labels are learnt
    and solved for at once: one pass over the data, O(n L) time, memory that does not grow with n.
    Scales, and reference="best", take a pass per label.

    Examples
    --------
    >>> import decal
    >>> logits = [[2.0, -1.0], [1.5, 0.3], [-0.3, 0.9], [-1.0, -2.0]]
    >>> answers = [[1, 0], [1, -1], [0, 1], [1, 0]]  # -1: nobody knows
    >>> d = decal.MultiLabelDecalibrator(alpha=0.9).fit(logits, answers, names=["dog", "cat"])
    >>> d.predict([[0.5, 0.0]])
    MultiLabelCredalSet: 1 input, 2 labels, mean width 0.492
      0  dog [0.492, 0.958]  cat [0.197, 0.715]
    """

    def __init__(
        self,
        alpha: float = DEFAULT_ALPHA,
        *,
        likelihood: str = "mean",
        reference: str = "model",
        directions: Iterable[str | Direction] = ("class",),
        probabilities: bool = False,
        floor: float | None = None,
    ) -> None:
        self.alpha = check_alpha(alpha)
        self.likelihood = check_choice(likelihood, "likelihood", ("mean", "sum"))
        self.reference = check_choice(reference, "reference", tuple(REFERENCES))
        self.directions = parse_directions(directions)
        foreign = [d.name for d in self.directions if type(d) not in BUILT_IN.values()]
        if foreign:
            raise ValueError(
                f"directions must be of {', '.join(BUILT_IN)} for labels: got {', '.join(foreign)}."
            )
        self.probabilities = check_flag(probabilities, "probabilities")
        self.floor = check_floor(floor, self.probabilities)
        self._learnt: LabelEvidence | None = None
        self._said: set[str] = set()

    # Learning

    def fit(
        self,
        logits: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        names: Iterable[Any] | None = None,
    ) -> Self:
        """Learn from inputs with answers, forgetting what was learnt before.

        Parameters
        ----------
        logits : (n, L) array or data frame
            What goes into the sigmoid of each label; ±inf where a label is certain. With
            probabilities=True, what comes out of it.
        labels : (n, L) array or data frame
            1 where the input has the label, 0 where it has not, -1 or NaN where nobody knows.
        sample_weight : (n,) array, optional
            A weight of 2 counts like two equal rows.
        names : iterable, optional
            L names of the labels; of a data frame, its columns.

        Returns
        -------
        self
        """
        self._learnt = self._learn(*self._check(logits, labels, sample_weight, names, None))
        return self

    def partial_fit(
        self,
        logits: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        names: Iterable[Any] | None = None,
    ) -> Self:
        """Learn from one more chunk of data; the result is that of `fit` on all of them.

        Only for reference="model": others need all the data at once.
        """
        self._require_mergeable()
        known = self._learnt
        more = self._learn(*self._check(logits, labels, sample_weight, names, known, chunk=True))
        self._learnt = more if known is None else known + more
        return self

    def merge(self, other: MultiLabelDecalibrator) -> Self:
        """Add what another one has learnt; the result is that of `fit` on both data sets."""
        if not isinstance(other, MultiLabelDecalibrator):
            raise ValueError(
                f"other must be a MultiLabelDecalibrator: got a {type(other).__name__}."
            )
        self._require_mergeable()
        other._require_mergeable()
        for name in ("directions", "probabilities"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(f"other must have {name}={mine}: got {theirs}.")
        more = other._known
        self._learnt = more if self._learnt is None else self._learnt + more
        return self

    def _require_mergeable(self) -> None:
        if self.reference != "model":
            raise ValueError(
                f"reference must be 'model' to merge or partial_fit: got {self.reference!r}, "
                "whose recentering needs all the data at once. Use fit."
            )

    def _check(
        self,
        logits: Any,
        labels: Any,
        weights: Any,
        names: Any,
        known: LabelEvidence | None,
        *,
        chunk: bool = False,
    ) -> tuple[Logits, Answers, Array | None, tuple[str, ...] | None]:
        """Data after every check, without rows of weight zero."""
        if names is None and known is not None:
            names = known.names
        if names is None and is_frame(logits):
            names = column_names(logits)
        require_same_order(logits=logits, labels=labels, sample_weight=weights)
        given = None if names is None else tuple(str(name) for name in names)
        L = None if known is None else len(known.present)
        z = self._read(logits, given, L)
        known_as = check_class_names(given, z.shape[1], name="names")
        zeros_seen = known is not None and bool(known.absent.any())
        y = check_answers(labels, z.shape, known_as, chunk=chunk, zeros_seen=zeros_seen)
        require_possible_answers(z, y, probabilities=self.probabilities, floor=self.floor)
        w = check_weights(weights, rows=len(z))
        if w is not None and not w.all():
            z, y, w = z[w > 0], y[w > 0], w[w > 0]
        if known is None:
            Confidences.of_answers(z, y, w).warn_of_other_order(None)
        return z, y, w, known_as

    def _read(self, logits: Any, names: tuple[str, ...] | None, labels: int | None) -> Logits:
        settings = {"probabilities": self.probabilities, "floor": self.floor}
        return read_label_logits(logits, names=names, labels=labels, **settings)  # type: ignore[arg-type]

    def _learn(self, *data: Any) -> LabelEvidence:
        learnt = LabelEvidence.of(self.directions, *data, reference=self.reference)
        self._warn_if_far(learnt)
        return learnt

    def _warn_if_far(self, learnt: LabelEvidence) -> None:
        """Warn if the reference of a label is much further away than anything may move."""
        allowed = np.full(len(learnt.weight), budget(self.alpha))
        if self.likelihood == "sum":
            allowed /= np.where(learnt.weight > 0, learnt.weight, 1.0)
        far = np.flatnonzero((allowed > 0) & (allowed < learnt.distance / FAR_FROM_REFERENCE))
        if far.size:
            k = int(far[0])
            warnings.warn(
                f"the model is {learnt.distance[k]:.3g} nats per answer from its reference for "
                f"label {called(learnt.names, k)!r}, and alpha = {self.alpha:g} allows "
                f"{allowed[k]:.2g}: its own predictions are implausible for {far.size} of "
                f"{len(allowed)} labels",
                FitWarning,
                stacklevel=frames_within_decal(),
            )

    # Asking

    def shifts(self, alpha: Any = None) -> Endpoints:
        """How far each label's logit may move, (L,); needs "class" among the directions.

        Parameters
        ----------
        alpha : float, optional
            Level in [0, 1]; by default the one given at construction.
        """
        return self._steps("class", alpha)

    def scales(self, alpha: Any = None) -> Endpoints:
        """By how much each label's logit may be scaled, (L,); needs "temperature".

        Parameters
        ----------
        alpha : float, optional
            Level in [0, 1]; by default the one given at construction.
        """
        return self._steps("temperature", alpha)

    def _steps(self, name: str, alpha: Any) -> Endpoints:
        names = [direction.name for direction in self.directions]
        if name not in names:
            raise ValueError(f"directions must include {name!r}: got {', '.join(names)}.")
        return self._solved(self._known, self._level(alpha))[names.index(name)]

    def _level(self, alpha: Any) -> float:
        return self.alpha if alpha is None else check_alpha(alpha)

    def _solved(self, learnt: LabelEvidence, alpha: float) -> tuple[Endpoints, ...]:
        """The endpoints of every direction, solved for once: (L,) each."""
        key = self.likelihood, alpha
        found = learnt.solved.get(key)
        if found is None:
            budgets = np.full(len(learnt.present), budget(alpha))
            if self.likelihood == "mean":
                known = learnt.weight > 0
                budgets[known] *= learnt.weight[known]
            found = tuple(
                endpoints(d, learnt, budgets, alpha, self.reference) for d in self.directions
            )
            for oldest in [*learnt.solved][: max(0, len(learnt.solved) - KEPT_LEVELS + 1)]:
                learnt.solved.pop(oldest, None)
            learnt.solved[key] = found
        return found

    def predict(self, logits: Any, *, alpha: Any = None, ids: Any = None) -> MultiLabelCredalSet:
        """The intervals of new inputs.

        Parameters
        ----------
        logits : (n, L) array or data frame
            Of the same model.
        alpha : float, optional
            Level in [0, 1]; by default the one given at construction.
        ids : (n,) array, optional
            What names the inputs. By default the index of a pandas DataFrame.

        Returns
        -------
        MultiLabelCredalSet
            Its `point` is the reference model's sigmoid. A label without any answer has the
            interval [0, 1].
        """
        learnt, level = self._known, self._level(alpha)
        z = self._read(logits, learnt.names, len(learnt.present))
        steps = self._solved(learnt, level)
        low, high, point = np.empty((3, *z.shape))
        unknown = learnt.weight == 0

        def block(rows: slice) -> None:
            r = learnt.recentered(z[rows].astype(np.float64))
            point[rows] = sigmoid(r)
            low[rows], high[rows] = point[rows], point[rows]
            for direction, found in zip(self.directions, steps, strict=True):
                least, greatest = probability_range(direction, r, found)
                np.minimum(low[rows], least, out=low[rows])
                np.maximum(high[rows], greatest, out=high[rows])
            if unknown.any():
                low[rows, unknown], high[rows, unknown] = 0.0, 1.0

        for_each_block(block, *z.shape)
        sets = MultiLabelCredalSet.unchecked(low, high, point, learnt.names)
        warn_if_vacuous(sets, level, self._said)
        return sets.with_index(index_of(logits, ids, rows=len(z)))

    @property
    def _known(self) -> LabelEvidence:
        if self._learnt is None:
            raise NotFittedError(
                "this MultiLabelDecalibrator must be fitted first: it has seen no data. Call fit."
            )
        return self._learnt

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the labels, if known."""
        return None if self._learnt is None else self._learnt.names

    @property
    def examples(self) -> int:
        """Number of inputs, of positive weight, learnt from."""
        return self._known.rows

    @property
    def answers(self) -> tuple[Array, Array]:
        """(absent, present), (L,) each: total weight of the answers 0 and 1 of each label."""
        return self._known.absent.copy(), self._known.present.copy()

    # Keeping

    def __repr__(self) -> str:
        settings = (
            f"alpha={self.alpha:g}, likelihood={self.likelihood!r}, reference={self.reference!r}"
        )
        names = tuple(direction.name for direction in self.directions)
        settings += "" if names == ("class",) else f", directions={names}"
        if self.probabilities:
            settings += ", probabilities=True"
            settings += "" if self.floor is None else f", floor={self.floor:g}"
        if self._learnt is None:
            return f"MultiLabelDecalibrator({settings}), not fitted"
        L = len(self._learnt.present)
        said = f"{self.examples:,} examples of {L:,} label{'' if L == 1 else 's'}"
        return f"MultiLabelDecalibrator({settings}), fitted on {said}"

    def _repr_html_(self) -> str:
        if self._learnt is None:
            return table(repr(self), (), ())
        absent, present = self.answers
        names = self.names or tuple(str(k) for k in range(len(present)))
        columns = [names, *([f"{w:,.6g}" for w in weights] for weights in (present, absent))]
        headings = ["label", "yes", "no"]
        if any(direction.name == "class" for direction in self.directions):
            shifts = self.shifts()
            headings += ["least shift", "greatest shift"]
            columns += [[f"{t:+.3f}" for t in ends] for ends in (shifts.lower, shifts.upper)]
        more = len(names) - LABELS_SHOWN
        note = f"and {more:,} more labels" if more > 0 else ""
        rows = list(zip(*columns, strict=True))[:LABELS_SHOWN]
        return table(repr(self), headings, rows, note=note)

    def save(self, path: str | Path | BinaryIO, *, compressed: bool = True) -> None:
        """Write the fitted model to one small file (.npz, no pickle).

        Parameters
        ----------
        path : path or file
            Where to; or a file open for writing bytes.
        compressed : bool
            To about half the size, which takes ten times as long.
        """
        learnt = self._known
        settings = {
            "alpha": self.alpha,
            "likelihood": self.likelihood,
            "reference": self.reference,
            "directions": [[d.name, d.settings()] for d in self.directions],
            "probabilities": self.probabilities,
            "floor": self.floor,
            "rows": learnt.rows,
            "names": learnt.names,
        }
        file = Path(path) if isinstance(path, str) else path
        model_files.write(file, settings, learnt.arrays(), compressed=compressed, kind=KIND)

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Self:
        """Read what `save` wrote. Runs no code from the file, so files of strangers are safe."""
        file = Path(path) if isinstance(path, str) else path
        settings, arrays = model_files.read(file, is_known, kind=KIND)
        with model_files.intact(file):
            del settings["version"]
            rows, names = settings.pop("rows"), settings.pop("names")
            directions = [direction_named(*d) for d in settings.pop("directions")]
            model = cls(settings.pop("alpha"), directions=directions, **settings)
            told = model.reference, rows, names, arrays
            model._learnt = LabelEvidence.restore(model.directions, *told)
        if arrays:
            raise ValueError(f"path must hold nothing unknown: got {path} with {sorted(arrays)}.")
        return model
