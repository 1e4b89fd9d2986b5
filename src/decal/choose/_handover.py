"""Which rows should a person check? A score and a threshold, chosen by labels, with guarantees.

`triage` takes labelled rows and one purpose: what a check costs, how many rows may be checked, or
how many errors may remain. One part of the rows chooses the score, the other sets the threshold, so
that what is promised of the threshold holds whatever score was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.confidences import Confidences
from decal._base.data_frames import require_same_order
from decal._base.errors import InputError
from decal._base.numerics import Array
from decal._base.row_checks import check_class_names, check_scores
from decal._base.settings import check_alpha, check_choice, check_count, check_flag
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
from decal.model import Model, Saved, require_classes
from decal.rows import Rows
from decal.schema import Schema, check_floor

if TYPE_CHECKING:
    from decal.io.model_files import Arrays

PURPOSES = ("cost", "budget", "error_rate", "slip_rate")

LEAST_ROWS = 8
SCALARS = ("score", "purpose", "target", "confidence", "note")
OUTCOME = ("rows", "handed_over", "error_rate", "slip_rate")
CURVE = "curve "  # begins names of arrays with curves; the number of the score follows


@dataclass(frozen=True)
class TriageOutcome:
    """What handing over did on labelled rows: how many, and the share that goes to a person.

    And the shares that are kept and wrong: of the rows kept, 0 if there is none; and of all rows.
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
class Triage(Saved):
    """A score and a threshold, made by `triage`: which new rows a person should check.

    Attributes
    ----------
    score : str
        Name of the score chosen.
    purpose, target, confidence
        "cost", "budget", "error_rate" or "slip_rate", its number, and the confidence or None.
    trials : dict of Trial
        How every score did on the rows that chose it, by name, the best first.
    outcome : TriageOutcome
        On the rows that set the threshold.
    note : str
        Empty, or why this is not what one would hope for.
    probabilities, floor
        Whether rows are probabilities, and what smaller ones are raised to.
    classes, class_count
        The names of the classes, if known, and their number.
    """

    score: str
    purpose: str
    target: float
    confidence: float | None
    trials: dict[str, Trial]
    outcome: TriageOutcome
    note: str
    probabilities: bool
    floor: float | None
    classes: tuple[str, ...] | None
    class_count: int
    _rule: Rule
    _doubts: DoubtScores

    @property
    def threshold(self) -> float:
        """Rows whose score reaches it are handed over. NaN if that depends on the batch."""
        return self._rule.threshold

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
        """(n,) the predicted classes of (n, K) new rows that the score doubts, by name or number.

        They are those of the recalibrated model if the score is.
        """
        name = self.score if self.score in self._doubts.names else CONFIDENCE
        predicted = self._doubts.score(name, self._logits(logits))[1]
        return predicted if self.classes is None else np.array(self.classes)[predicted]

    def doubt(self, logits: Any, *, scores: Mapping[str, Any] | None = None) -> Array:
        """(n,) the scores of new rows, as for `hand_over`: higher where a check is needed more."""
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
        schema = Schema(self.class_count, self.classes, self.probabilities, self.floor)
        z: Array = Rows.read(values, schema=schema).logits.astype(np.float64)
        return z

    def taking(self, *, probabilities: bool, floor: float | None = None) -> Triage:
        """A triage of rows that are logits, or probabilities with this floor."""
        return replace(self, probabilities=probabilities, floor=floor)

    kind = "triage"

    @classmethod
    def may_hold(cls, name: str, settings: dict[str, Any]) -> bool:
        """Whether a file with these settings may hold an array of this name."""
        curves = {f"{CURVE}{i}" for i in range(len(settings["trials"]))}
        return name in curves or name in ("threshold", "slips", "shifts", "scale", "model")

    def packed(self) -> tuple[dict[str, Any], Arrays]:
        """Plain settings, and arrays, that `unpacked` takes; its model must be a Decalibrator."""
        from decal.io import model_files

        doubts = self._doubts
        if not isinstance(doubts.model, Decalibrator):
            fact = type(doubts.model).__name__
            raise InputError("model", "be a Decalibrator to be saved", fact)
        arrays: Arrays = {"model": model_files.packed(doubts.model), **self._rule.arrays()}
        if doubts.best is not None:
            arrays |= {"scale": np.array(doubts.best.scale), "shifts": doubts.best.shifts}
        trials = []
        for i, (name, trial) in enumerate(self.trials.items()):
            arrays[f"{CURVE}{i}"] = np.stack([trial.curve.risk, trial.curve.best])
            trials.append([name, trial.gain, trial.error])
        alike = (*SCALARS, "probabilities", "floor", "classes", "class_count")
        settings = {name: getattr(self, name) for name in alike}
        outcome = [getattr(self.outcome, name) for name in OUTCOME]
        return settings | {"outcome": outcome, "trials": trials}, arrays

    @classmethod
    def unpacked(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        """From such settings and arrays, which it takes out; ValueError if they are damaged."""
        del settings["version"]
        found = {name: settings.pop(name) for name in SCALARS}
        target, confidence = found["target"], found["confidence"]
        check_choice(found["purpose"], "purpose", PURPOSES)
        check_count(target, "target") if isinstance(target, int) else check_alpha(target, "target")
        if confidence is not None:
            check_alpha(confidence, "confidence")
        K = check_count(settings.pop("class_count"), "class_count", least=2)
        names = settings.pop("classes")
        rows, *shares = settings.pop("outcome")
        shares = [check_alpha(share, "outcome") for share in shares]
        trials = {
            str(name): _read_trial(arrays.pop(f"{CURVE}{i}"), *numbers)
            for i, (name, *numbers) in enumerate(settings.pop("trials"))
        }
        if found["score"] not in trials:
            raise ValueError("its score was never tried")
        return cls(
            **found,
            trials=trials,
            outcome=TriageOutcome(check_count(rows, "rows"), *shares),
            probabilities=check_flag(settings.pop("probabilities"), "probabilities"),
            floor=check_floor(settings.pop("floor", FLOOR)),  # older files do not say
            classes=None if names is None else check_class_names(names, K),
            class_count=K,
            _rule=read_rule(found["purpose"], target, rows, arrays),
            _doubts=_read_doubts(arrays, K),
        )

    def __repr__(self) -> str:
        return self.described(scores=6)

    def described(self, scores: int) -> str:
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

    Half of the rows, drawn at random, choose the score: the model's own confidence, unless the area
    under the risk-coverage curve of another, of the recalibrated model, of credal sets, or yours,
    is smaller by more than two standard errors. The other half sets the threshold for one purpose:

    `cost` : what a check costs, as a share of the cost of an error. The threshold of the least cost
    on these rows; nothing is promised beyond.

    `budget` : the share of rows that may be handed over, a float in (0, 1): the probability of a
    new row to be handed over is at most this. Or how many rows of every batch, an int: exactly
    these are handed over.

    `error_rate` : at most this share of all new rows that are *kept* are wrong, with probability
    `confidence` over the labelled rows. With confidence=None, on average over the labelled rows and
    a batch; whole batches are then to be passed to `hand_over`.

    `slip_rate` : a new row is kept and wrong with at most this probability.

    Promises hold whatever the model and the score, if labelled rows and new ones are independent
    draws alike, and neither the classifier nor `model` was fitted on them. Proofs:
    docs/evidence_promises.md.

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
        Scores of your own by name, (n,) each, higher where a check is needed more; not fitted on
        these rows.
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
    floor: float | None = FLOOR
    if isinstance(model, Model) and getattr(model, "probabilities", False):
        probabilities, floor = True, model.floor  # type: ignore[attr-defined]
    schema = Schema(None, getattr(model, "classes", None), probabilities, floor)
    rows = Rows.read(logits, labels, classes=classes, schema=schema)
    z, y, (n, K) = rows.logits.astype(np.float64), rows.labels, rows.shape
    if n < LEAST_ROWS:
        raise InputError("logits", f"have {LEAST_ROWS} rows or more", f"{n}", "Label more.")
    Confidences.of(z, y).warn_of_other_order(K)
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
        purpose=purpose,
        target=target,
        confidence=level,
        trials=dict(sorted(tried.items(), key=lambda item: item[1].curve.area)),
        outcome=TriageOutcome.of(~handed, wrong),
        note=note if handed.all() else "",
        probabilities=probabilities,
        floor=floor,
        classes=rows.classes,
        class_count=K,
        _rule=rule,
        _doubts=doubts,
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


def _read_doubts(arrays: Arrays, classes: int) -> DoubtScores:
    """The scores that a file holds; ValueError if they are damaged."""
    from decal.io import model_files

    model = model_files.unpacked(arrays.pop("model"), Decalibrator.load)
    if len(model.class_weights) != classes:
        raise ValueError("its model has other classes")
    if "shifts" not in arrays:
        return DoubtScores(model, None)
    scale, shifts = float(arrays.pop("scale")), arrays.pop("shifts").astype(np.float64)
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
