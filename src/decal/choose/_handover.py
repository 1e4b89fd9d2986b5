"""Which rows should a person check? A score and a threshold, chosen by labels, with guarantees.

`triage` takes labelled rows and one purpose: what a check costs, how many rows may be checked, or
how many errors may remain. One part of the rows chooses the score, the other sets the threshold, so
that what is promised of the threshold holds whatever score was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.checks import (
    check_alpha,
    check_choice,
    check_class_names,
    check_count,
    check_flag,
    check_labels,
    check_scores,
)
from decal._base.confidences import Confidences
from decal._base.data_frames import class_columns, is_frame, require_same_order
from decal._base.errors import InputError
from decal._base.inputs import check_floor, read_logits, require_classes
from decal._base.numerics import Array
from decal.choose._doubt_scores import (
    CONFIDENCE,
    FLOOR,
    RECALIBRATED,
    DoubtScores,
    Labels,
    Recalibration,
    Trial,
    best_of,
    cross_scored,
    trials,
)
from decal.choose._plausibility import Mask, Predictor
from decal.choose._promises import one_wish
from decal.choose._thresholds import Rule, read_rule, rule_for
from decal.decalibrator import Decalibrator
from decal.evaluate.metrics import RiskCoverage
from decal.io import model_files
from decal.io.model_files import Arrays

PURPOSES = ("cost", "budget", "error_rate", "slip_rate")

LEAST_ROWS = 8
SCORES_SHOWN = 6
"""How many scores `repr` lists."""

KIND = "triage"
"""What the header of a file says that it is."""

SCALARS = ("score", "purpose", "target", "confidence", "note")
OUTCOME = ("rows", "handed_over", "error_rate", "slip_rate")
CURVE = "curve "
"""How names of arrays with the curves of scores begin; the number of the score follows."""


@dataclass(frozen=True)
class TriageOutcome:
    """What handing over did on labelled rows.

    Attributes
    ----------
    rows : int
        How many there are.
    handed_over : float
        Share of the rows that go to a person.
    error_rate : float
        Share of the rows kept that are wrong; 0 if none is kept.
    slip_rate : float
        Share of all rows that are kept and wrong.
    """

    rows: int
    handed_over: float
    error_rate: float
    slip_rate: float

    @classmethod
    def of(cls, kept: Mask, wrong: Mask) -> TriageOutcome:
        """Of rows that are kept or not, and wrong or not."""
        slips = int((kept & wrong).sum())
        n = len(kept)
        return cls(n, 1 - float(kept.mean()), slips / max(1, int(kept.sum())), slips / n)


@dataclass(frozen=True, eq=False, repr=False)
class Triage:
    """A score and a threshold: says of new rows which of them a person should check.

    `triage` makes it.

    Attributes
    ----------
    score : str
        Name of the score chosen.
    threshold : float
        Rows whose score reaches it are handed over. NaN if that depends on the batch.
    purpose : str
        "cost", "budget", "error_rate" or "slip_rate".
    target : float
        What was asked for.
    confidence : float or None
        Of a promised error rate.
    trials : dict of Trial
        How every score did on the rows that chose it, by name, the best first.
    outcome : TriageOutcome
        On the rows that set the threshold.
    note : str
        Empty, or why this is not what one would hope for.
    """

    score: str
    threshold: float
    purpose: str
    target: float
    confidence: float | None
    trials: dict[str, Trial]
    outcome: TriageOutcome
    note: str
    _rule: Rule
    _doubts: DoubtScores
    _probabilities: bool
    _floor: float | None
    _names: tuple[str, ...] | None
    _classes: int

    @property
    def curves(self) -> dict[str, RiskCoverage]:
        """The risk-coverage curve of every score, by name, the best first."""
        return {name: trial.curve for name, trial in self.trials.items()}

    def hand_over(self, logits: Any, *, scores: Mapping[str, Any] | None = None) -> Mask:
        """(n,) True for the rows that a person should check.

        Parameters
        ----------
        logits : (n, K) array
            New rows; probabilities if `triage` was given probabilities.
        scores : mapping, optional
            Your own scores of these rows, by name, if `triage` was given some.
        """
        return self._rule.handed(self.doubt(logits, scores=scores))

    def predict(self, logits: Any) -> NDArray[Any]:
        """(n,) the predicted classes that the score doubts, of the recalibrated model if it is its.

        By name if the classes have names, else numbers of columns.

        Parameters
        ----------
        logits : (n, K) array
            New rows.
        """
        predicted = self._predicted(logits)
        return predicted if self._names is None else np.array(self._names)[predicted]

    def _predicted(self, logits: Any) -> Labels:
        """(n,) the predicted classes as numbers of columns."""
        name = self.score if self.score in self._doubts.names else CONFIDENCE
        return self._doubts.score(name, self._logits(logits))[1]

    def doubt(self, logits: Any, *, scores: Mapping[str, Any] | None = None) -> Array:
        """(n,) the scores of new rows, higher where a check is needed more.

        Parameters
        ----------
        logits : (n, K) array
            New rows.
        scores : mapping, optional
            Your own scores of these rows, by name.
        """
        require_same_order(logits=logits, **_called(scores))
        z = self._logits(logits)
        if self.score in self._doubts.names:
            return self._doubts.score(self.score, z)[0]
        given = _own_scores(scores, len(z))
        if self.score not in given:
            rule = f"hold {self.score!r}, the score that was chosen"
            raise InputError("scores", rule, f"{', '.join(given) or None}")
        return given[self.score]

    def _logits(self, values: Any) -> Array:
        floor = self._floor if self._probabilities else None
        return _as_logits(values, self._probabilities, floor, self._classes, self._names)

    def _taking(self, *, probabilities: bool, floor: float | None = None) -> Triage:
        """A triage of rows that are probabilities, with this floor, or logits."""
        return replace(self, _probabilities=probabilities, _floor=floor)

    def save(self, path: str | Path | BinaryIO) -> None:
        """Write score, threshold and trials to one file (.npz, no pickle).

        Parameters
        ----------
        path : path or file
            Where to. A file that is there is replaced.
        """
        settings, arrays = _pack(self)
        file = Path(path) if isinstance(path, str) else path
        model_files.write(file, settings, arrays, kind=KIND, compressed=True)

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Self:
        """Read what `save` wrote. Runs no code from the file, so files of strangers are safe.

        Parameters
        ----------
        path : path or file
            What `save` wrote.
        """
        file = Path(path) if isinstance(path, str) else path
        settings, arrays = model_files.read(file, _is_known, kind=KIND)
        with model_files.intact(file):
            return cls(**_unpack(settings, arrays))

    def __repr__(self) -> str:
        return self._described(SCORES_SHOWN)

    def _described(self, scores: int) -> str:
        """What was chosen and how it did, and so many of the scores."""
        done = self.outcome
        wanted = {
            "cost": f"a check costs {self.target:g} of an error",
            "budget": f"budget {self.target:g}",
            "error_rate": f"error rate of what is kept at most {self.target:g}",
            "slip_rate": f"kept and wrong at most {self.target:g} of all",
        }[self.purpose]
        if self.confidence is not None:
            wanted += f", with confidence {self.confidence:g}"
        wrong = f"{done.error_rate:.2%} of what is kept is wrong"
        lines = [
            f"Triage: {wanted}",
            f"  hands over {done.handed_over:.1%} of {done.rows:,} rows, by {self.score}; "
            + (wrong if done.handed_over < 1 else "nothing is kept"),
        ]
        if self.note:
            lines.append(f"  {self.note}")
        if self.score == CONFIDENCE != next(iter(self.trials)):
            lines.append(f"  no score is clearly better than {CONFIDENCE}, by two standard errors")
        new = self.trials.get(f"{RECALIBRATED} {CONFIDENCE}")
        if new is not None:
            old = self.trials[CONFIDENCE]
            lines.append(
                f"  recalibrating: {old.curve.risk[-1]:.2%} wrong becomes "
                f"{new.curve.risk[-1]:.2%}, area {old.curve.area:.4f} becomes {new.curve.area:.4f}"
            )
        lines.append(f"  {'score':<31}{'area':>9}{'excess':>9}{'all wrong':>11}")
        for name, trial in list(self.trials.items())[:scores]:
            curve = trial.curve
            lines.append(
                f"  {name:<31}{curve.area:>9.4f}{curve.excess:>9.4f}{curve.risk[-1]:>11.2%}"
            )
        if len(self.trials) > scores:
            lines.append(f"  … {len(self.trials) - scores} more in .trials")
        return "\n".join(lines)


def triage(
    logits: Any,
    labels: Any,
    *,
    cost: float | None = None,
    budget: float | None = None,
    error_rate: float | None = None,
    slip_rate: float | None = None,
    confidence: float | None = 0.9,
    score: str | None = None,
    scores: Mapping[str, Any] | None = None,
    model: Predictor | None = None,
    classes: Iterable[Any] | None = None,
    probabilities: bool = False,
    share: float = 0.5,
    seed: int = 0,
) -> Triage:
    """Which rows should a person check? A score and a threshold, chosen by labelled rows.

    Half of the rows, drawn at random, choose the score: the model's own confidence, unless the
    area under the risk-coverage curve of another is smaller by more than two standard errors.
    The scores are those of the model, of the recalibrated model, which also predicts anew, of its
    credal sets, and yours. The other half sets the threshold for one purpose:

    `cost` : what a check costs, as a share of the cost of an error. The threshold of the least
    cost on these rows; nothing is promised beyond.

    `budget` : the share of rows that may be handed over, a float in (0, 1). A new row is handed
    over with at most this probability. Or how many rows of every batch, an int of 1 or more:
    exactly these are handed over.

    `error_rate` : the share of *kept* rows that may be wrong. With probability `confidence` over
    the labelled rows, at most this share of all new rows that are kept are wrong. With
    confidence=None, on average over the labelled rows and a batch: the expected share of errors
    among what is kept of a batch is at most this; whole batches are then to be passed to
    `hand_over`, for of a batch of one row that says no more than `slip_rate` does.

    `slip_rate` : the share of *all* rows that may be kept and wrong. A new row is kept and wrong
    with at most this probability, by conformal risk control.

    All promises need labelled rows like the new ones: independent draws, on which neither the
    classifier nor `model` was fitted. They hold whatever the model and whichever score is chosen.
    Their proofs are in the documentation, "Which rows should a person check?".

    Parameters
    ----------
    logits : (n, K) array or data frame
        Labelled rows, n >= 8. The columns of a frame are found by name, here and in new rows.
    labels : (n,) integers
        Their classes; or the names of these, with `classes`, a frame or a model that has names.
    cost, budget, error_rate, slip_rate : float
        The purpose: one of them.
    confidence : float or None
        For `error_rate` only.
    score : str, optional
        Name of the score to take, instead of choosing one.
    scores : mapping, optional
        Scores of your own by name, (n,) each, higher where a check is needed more; such as the
        disagreement of an ensemble. They must not have been fitted on these rows.
    model : Decalibrator, optional
        Whose credal sets are asked; fitted on other rows. By default one is fitted here.
    classes : iterable, optional
        K names. By default those of the model, or of the columns of a frame.
    probabilities : bool
        Whether `logits` are probabilities; by default as for the model, and read with its floor.
        Without such a model, those below 1e-12 are raised to it.
    share : float
        Of the rows, those that choose the score.
    seed : int
        Of the draw of these rows.

    Returns
    -------
    Triage
        With `hand_over` for new rows, and `trials`, which says how every score did.

    See Also
    --------
    decal.metrics.risk_coverage : The curve of one score.
    decal.plot.risk_coverage : Draws the curves of all of them.

    Notes
    -----
    Scores are judged by models fitted on the other half of their part of the rows, then fitted on
    all of that part. Time is that of some twenty predictions of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from decal.choose import triage
    >>> rng = np.random.default_rng(0)
    >>> logits = 4 * rng.normal(size=(2000, 3))
    >>> labels = (logits + rng.gumbel(size=(2000, 3))).argmax(axis=1)
    >>> t = triage(logits[:1500], labels[:1500], error_rate=0.05)
    >>> t.score
    'confidence'
    >>> handed = t.hand_over(logits[1500:])
    >>> wrong = t.predict(logits[1500:]) != labels[1500:]
    >>> f"{handed.mean():.2f} handed over, {wrong[~handed].mean():.2f} of the others wrong"
    '0.38 handed over, 0.04 of the others wrong'
    """
    require_classes(model)
    require_same_order(logits=logits, labels=labels, **_called(scores))
    names, framed = getattr(model, "classes", None), is_frame(logits)
    if framed:
        logits, names = class_columns(logits, names)
    floor: float | None = FLOOR
    if isinstance(model, Decalibrator):
        if model.probabilities:
            probabilities, floor = True, model.floor
        model = model._taking_logits()
    z = _as_logits(logits, probabilities, floor if probabilities else None, None, names)
    names = names if classes is None else check_class_names(classes, z.shape[1])
    y = check_labels(labels, rows=len(z), classes=z.shape[1], names=names, in_table=framed)
    n = len(y)
    if n < LEAST_ROWS:
        raise InputError("logits", f"have {LEAST_ROWS} rows or more", f"{n}", "Label more.")
    Confidences.of(z, y).warn_of_other_order(z.shape[1])
    purpose, target = _purpose(cost=cost, budget=budget, error_rate=error_rate, slip_rate=slip_rate)
    level = _level(confidence) if purpose == "error_rate" else None
    given = _own_scores(scores, n)
    part = check_alpha(share, "share")
    count = min(max(round(part * n), 4), n - 1)
    order = np.random.default_rng(check_count(seed, "seed", least=0)).permutation(n)
    first, second = np.sort(order[:count]), np.sort(order[count:])

    some = {name: values[first] for name, values in given.items()}
    scored = cross_scored(z[first], y[first], model)
    taken = sorted(scored.keys() & given.keys())
    if taken:
        raise InputError("scores", "have names of their own", f"{taken[0]!r}", "Rename it.")
    tried = trials(
        scored | {name: (values, scored[CONFIDENCE][1]) for name, values in some.items()}
    )
    if score is not None:
        check_choice(score, "score", list(tried))
    name = best_of(tried) if score is None else score
    doubts = DoubtScores.of(z[first], y[first], model)
    if name not in given and name not in doubts.names:  # all rows together cannot be recalibrated
        name = CONFIDENCE

    def ask(rows: Labels) -> tuple[Array, Mask]:
        if name in given:
            return given[name][rows], z[rows].argmax(axis=1) != y[rows]
        values, predicted = doubts.score(name, z[rows])
        return values, predicted != y[rows]

    values, wrong = ask(second)
    rule = rule_for(purpose, target, level, values, wrong, plan=ask(first))
    handed = rule.handed(values)
    note = f"{len(second)} rows are too few, or too often wrong: all are handed over"
    return Triage(
        score=name,
        threshold=rule.threshold,
        purpose=purpose,
        target=target,
        confidence=level,
        trials=dict(sorted(tried.items(), key=lambda item: item[1].curve.area)),
        outcome=TriageOutcome.of(~handed, wrong),
        note=note if handed.all() else "",
        _rule=rule,
        _doubts=doubts,
        _probabilities=probabilities,
        _floor=floor,
        _names=names,
        _classes=z.shape[1],
    )


def _purpose(**given: float | None) -> tuple[str, float]:
    """The one purpose that is given, and its number."""
    name, value = one_wish(**given)
    if name == "budget" and isinstance(value, int | np.integer):
        return name, check_count(value, name)
    number = check_alpha(value, name)
    if not 0 < number < 1:
        advice = "A number of rows is a whole number, such as 1." if name == "budget" else ""
        raise InputError(name, "lie between 0 and 1, and be neither", f"{value}", advice)
    return name, number


def _level(confidence: float | None) -> float | None:
    level = None if confidence is None else check_alpha(confidence, "confidence")
    if level == 1:
        raise InputError("confidence", "be less than 1", "1", "Nothing is certain.")
    return level


def _called(scores: Mapping[str, Any] | None) -> dict[str, Any]:
    """Scores that the caller gives, by what messages call them."""
    return {f"scores[{name!r}]": values for name, values in (scores or {}).items()}


def _own_scores(scores: Mapping[str, Any] | None, rows: int) -> dict[str, Array]:
    """Scores that the caller gives, checked, by name."""
    found = {str(name): check_scores(values, str(name)) for name, values in (scores or {}).items()}
    for name, values in found.items():
        if len(values) != rows:
            rule = f"have one number for each of {rows} rows"
            raise InputError("scores", rule, f"{len(values)} of {name}")
    return found


def _as_logits(
    values: Any,
    probabilities: bool,
    floor: float | None,
    classes: int | None,
    names: tuple[str, ...] | None,
) -> Array:
    z = read_logits(values, probabilities=probabilities, floor=floor, names=names, classes=classes)
    return z.astype(np.float64)


# Files: settings and arrays, without pickle


def _is_known(name: str, settings: dict[str, Any]) -> bool:
    """Whether a file with these settings may hold an array of this name."""
    curves = {f"{CURVE}{i}" for i in range(len(settings["trials"]))}
    return name in curves or name in ("threshold", "slips", "shifts", "scale", "model")


def _pack(triage: Triage) -> tuple[dict[str, Any], Arrays]:
    """Settings and arrays of a Triage; InputError if its credal sets are not a Decalibrator's."""
    doubts = triage._doubts
    if not isinstance(doubts.model, Decalibrator):
        fact = type(doubts.model).__name__
        raise InputError("model", "be a Decalibrator to be saved", fact)
    file = BytesIO()
    doubts.model.save(file)
    arrays: Arrays = {"model": np.frombuffer(file.getvalue(), dtype=np.uint8)}
    arrays |= triage._rule.arrays()
    if doubts.best is not None:
        arrays |= {"scale": np.array(doubts.best.scale), "shifts": doubts.best.shifts}
    trials = []
    for i, (name, trial) in enumerate(triage.trials.items()):
        arrays[f"{CURVE}{i}"] = np.stack([trial.curve.risk, trial.curve.best])
        trials.append([name, trial.gain, trial.error])
    settings = {
        **{name: getattr(triage, name) for name in SCALARS},
        "outcome": [getattr(triage.outcome, name) for name in OUTCOME],
        "trials": trials,
        "probabilities": triage._probabilities,
        "floor": triage._floor,
        "classes": triage._names,
        "class_count": triage._classes,
    }
    return settings, arrays


def _unpack(settings: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """The arguments of Triage; ValueError if they are damaged."""
    purpose = check_choice(settings["purpose"], "purpose", PURPOSES)
    target, confidence = settings["target"], settings["confidence"]
    check_count(target, "target") if isinstance(target, int) else check_alpha(target, "target")
    if confidence is not None:
        check_alpha(confidence, "confidence")
    K = check_count(settings["class_count"], "class_count", least=2)
    names = settings["classes"]
    rows, *shares = settings["outcome"]
    outcome = TriageOutcome(
        check_count(rows, "rows"), *(check_alpha(share, "outcome") for share in shares)
    )
    doubts = _read_doubts(arrays, K)
    trials = {
        str(n): _read_trial(arrays[f"{CURVE}{i}"], *numbers)
        for i, (n, *numbers) in enumerate(settings["trials"])
    }
    if settings["score"] not in trials:
        raise ValueError("its score was never tried")
    rule = read_rule(purpose, target, rows, arrays)
    return {
        **{name: settings[name] for name in SCALARS},
        "threshold": rule.threshold,
        "trials": trials,
        "outcome": outcome,
        "_rule": rule,
        "_doubts": doubts,
        "_probabilities": check_flag(settings["probabilities"], "probabilities"),
        "_floor": check_floor(settings.get("floor", FLOOR)),  # older files do not say
        "_names": None if names is None else check_class_names(names, K),
        "_classes": K,
    }


def _read_doubts(arrays: Arrays, classes: int) -> DoubtScores:
    model = Decalibrator.load(BytesIO(arrays["model"].tobytes()))
    if len(model.class_weights) != classes:
        raise ValueError("its model has other classes")
    if "shifts" not in arrays:
        return DoubtScores(model, None)
    scale, shifts = float(arrays["scale"]), arrays["shifts"].astype(np.float64)
    if shifts.shape != (classes,) or not np.isfinite(shifts).all() or not 0 <= scale < math.inf:
        raise ValueError("its recalibration is damaged")
    return DoubtScores(model, Recalibration(scale, shifts))


def _read_trial(curve: Any, gain: float, error: float) -> Trial:
    risk, best = curve.astype(np.float64)
    if risk.ndim != 1 or not len(risk) or not ((curve >= 0) & (curve <= 1)).all():
        raise ValueError("its curves are damaged")
    if not (math.isfinite(gain) and 0 <= error < math.inf):
        raise ValueError("its gains are damaged")
    coverage = np.arange(1, len(risk) + 1) / len(risk)
    return Trial(RiskCoverage(coverage, risk, best), float(gain), float(error))
