"""decalibrate: a fitted model in one call, at an alpha or with a promise that grants a wish.

With a wish, rows that choose the kind of set and its reference are never rows that choose alpha, so
that the promise stands. Which rows are which is drawn at random, class by class or group by group
where the promise is: then what it rests on is exchangeable with new inputs, or with those of the
class or group.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decal._base.confidences import Confidences
from decal._base.errors import DecalWarning, InputError
from decal._base.numerics import Indices
from decal._base.row_checks import check_groups
from decal._base.settings import check_alpha, check_choice, check_count, check_keywords
from decal.choose._choosing import choose
from decal.choose._hold import threshold_for
from decal.choose._promises import Choice, one_wish
from decal.choose._rivals import ROWS_COMPARED, plain_sizes
from decal.decalibrator import Decalibrator
from decal.directions import Local
from decal.rows import Rows

CHOOSING_SHARE = 0.3  # of the rows: those that fit and choose the kind of set
CHOOSING_ROWS = 20_000  # how many these are at most
COMPARED_ROWS = 2_000  # of those, on how many the kinds are compared at most
FEWEST_COMPARED = 30  # with fewer, nothing is compared
MIX = 1e-3  # of equal probabilities in the centers of balls, for `hold`: bounds the loss
NEARLY_ALL = 0.9  # sets this large, or intervals this wide, are nearly vacuous


@dataclass(frozen=True)
class Kind:
    """A kind of set that may grant a wish: what moves, and where gains are measured from."""

    directions: Any
    reference: str

    def fit(self, rows: Rows, settings: dict[str, Any]) -> Decalibrator:
        """A model of this kind, fitted on these rows."""
        model = Decalibrator(0.5, directions=self.directions, reference=self.reference, **settings)
        return model.fit_rows(rows, warn=False)


MOVES = (("class",), ("class", "temperature"), ("local",))
REFERENCES = ("model", "auto")
NEEDS_NO_LABELS = Kind(("local",), "model")


def decalibrate(
    logits: Any,
    labels: Any,
    *,
    alpha: Any = None,
    miss: float | None = None,
    width: float | None = None,
    hold: float | None = None,
    per: str | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    classes: Iterable[Any] | None = None,
    seed: int = 0,
    **settings: Any,
) -> Decalibrator:
    """A model fitted on labelled logits, at an alpha or with a promise that grants a wish.

    Give exactly one of `alpha`, `miss`, `width` and `hold`. With `alpha` this is
    ``Decalibrator(alpha, **settings).fit(logits, labels)``, the published method. With a wish,
    decal chooses the kind of set, its reference and alpha, and the model carries a promise:
    ``print(d)`` tells it.

    Parameters
    ----------
    logits, labels, sample_weight, classes
        As for `Decalibrator.fit`: rows that did not train the classifier. Weights count where sets
        are fitted; a promise counts every row once.
    alpha : float
        Level in [0, 1]; smaller is more cautious.
    miss : float
        The true label of a new input is outside its `possible` classes with probability `miss` at
        most, guaranteed.
    width : float
        Intervals have this mean width.
    hold : float
        The set of a new input holds the whole distribution that its label is drawn from with
        probability `hold` at least, guaranteed.
    per : str, optional
        "class": `miss` holds for every class. One with too few rows is always possible, and a
        warning names it.
    groups : (n,) integers or text, optional
        Any function of the input: `miss` or `hold` is granted in every group. Predictions then
        need their groups, too.
    seed : int
        Of the random split.
    settings
        Of `Decalibrator`. With a wish, `directions` and `reference` leave decal less to choose.

    Returns
    -------
    Decalibrator
        Its `promise` is None with alpha.

    Notes
    -----
    With a wish, three tenths of the rows (at most 20,000) fit and choose the kind of set: for
    `miss` the one that keeps fewest classes in cross-fitting, of class shifts, class shifts with
    temperature, and local sets, around the model as it is and around an automatic reference; for
    `hold` the reference whose balls are narrowest. The other rows choose alpha. Where that would
    leave fewer than 30 to compare on, local sets around the model are taken, which need no labels,
    and all rows choose alpha. `width` takes local sets around the automatic reference, and all
    rows for both. The guarantee needs rows that are exchangeable with new inputs.

    Examples
    --------
    >>> import decal
    >>> known, new = decal.datasets.languages("fit"), decal.datasets.languages("test")
    >>> d = decal.decalibrate(known.logits, known.labels, miss=0.1, classes=known.classes)
    >>> print(d.promise)
    The true label is outside the kept classes for at most 1 new input in 10; guaranteed, by 1,271
    rows.
    >>> d.predict(new.logits[126:127]).possible()
    [['Spanish', 'Galician']]
    """
    check_keywords(settings, "decal.decalibrate", decalibrate, Decalibrator)
    wish, wanted = one_wish(alpha=alpha, miss=miss, width=width, hold=hold)
    for name, value, wishes in (("per", per, ("miss",)), ("groups", groups, ("miss", "hold"))):
        if value is not None and wish not in wishes:
            raise InputError(name, f"go with {' or '.join(wishes)}", wish)
    if wish == "alpha":
        model = Decalibrator(alpha, **settings)
        return model.fit(logits, labels, sample_weight=sample_weight, classes=classes)
    if per is not None:
        check_choice(per, "per", ("class",))
        if groups is not None:
            raise InputError("groups", "be left out with per='class'", "both")
    read = {name: settings[name] for name in ("probabilities", "floor") if name in settings}
    rows = Decalibrator(0.5, **read).read_labelled(
        logits, labels, sample_weight=sample_weight, classes=classes
    )
    split = Wish(wish, check_alpha(wanted, wish), per, check_count(seed, "seed", least=0), settings)
    return split.granted(rows, None if groups is None else check_groups(groups, len(rows)))


@dataclass(frozen=True)
class Wish:
    """A wish, and all that may be chosen to grant it."""

    name: str
    target: float
    per: str | None
    seed: int
    settings: dict[str, Any]

    def granted(self, rows: Rows, groups: Any) -> Decalibrator:
        """A model that was fitted and chosen on some rows, and promises by the others."""
        if not isinstance(rows.logits, np.ndarray):
            fact = type(rows.logits).__name__
            raise InputError("logits", f"be a matrix of all classes for {self.name}", fact)
        if rows.weights is not None and groups is not None:
            groups = groups[rows.weights > 0]
        rows = rows.counted()
        present = np.unique(rows.labels)
        if len(present) < 2:
            name = rows.classes[present[0]] if rows.classes else f"class {present[0]}"
            raise InputError("labels", "be of two classes or more for a wish", f"only {name}")
        confidences = Confidences.of(rows.logits, rows.labels, rows.weights)
        confidences.warn_of_other_order(rows.shape[1])
        if self.name == "width":
            model = self._kinds()[-1].fit(rows, self._fixed)
            return self._kept(model, choose(model, rows, width=self.target), rows, 0)
        self._require_enough(len(rows))
        chosen_on, promised_by = self._split(rows, groups)
        some = rows[chosen_on]
        kind = self._best_kind(some)
        model = kind.fit(some if len(some) else rows, self._fixed)
        rest = rows[promised_by]
        by = None if groups is None else groups[promised_by]
        return self._kept(model, self._chosen(model, rest, by, some), rest, len(some), by)

    @property
    def _fixed(self) -> dict[str, Any]:
        """Settings that the kind of set does not choose."""
        return {k: v for k, v in self.settings.items() if k not in ("directions", "reference")}

    def _kinds(self) -> list[Kind]:
        """The kinds of set that the settings leave to choose from; the last is that of `width`."""
        moves: Iterable[Any] = MOVES
        if self.name == "hold":
            moves = ([Local(mix=MIX)],)
        moves = (self.settings["directions"],) if "directions" in self.settings else moves
        at = (self.settings["reference"],) if "reference" in self.settings else REFERENCES
        return [Kind(directions, reference) for directions in moves for reference in at]

    def _require_enough(self, rows: int) -> None:
        """InputError if no number of misses is few enough."""
        needed = self._needed
        if rows < needed:
            least = math.ceil(1e4 / (rows + 1)) / 1e4
            side = f"at least {least:g}" if self.name == "miss" else f"at most {1 - least:g}"
            rule = f"be {side} with {rows:,} rows"
            raise InputError(self.name, rule, f"{self.target:g}", f"It needs {needed:,} rows.")

    @property
    def _needed(self) -> int:
        """How many rows a promise needs: 1 / (rows + 1) <= rate."""
        rate = self.target if self.name == "miss" else 1 - self.target
        if rate <= 0:
            raise InputError(self.name, "leave room for an error", f"{self.target:g}")
        return math.ceil(1 / rate - 1 - 1e-9)

    def _split(self, rows: Rows, groups: Any) -> tuple[Indices, Indices]:
        """Rows that fit and choose, and rows that alpha is chosen by.

        How many of each stratum are which depends on its size alone, and which they are on chance.
        """
        rng = np.random.default_rng(self.seed)
        strata = rows.labels if self.per == "class" else groups
        if strata is None:
            strata = np.zeros(len(rows), dtype=np.intp)
        share = min(CHOOSING_SHARE, CHOOSING_ROWS / len(rows))
        chosen_on = []
        for stratum in np.unique(strata):
            drawn = rng.permutation(np.flatnonzero(strata == stratum))
            count = min(int(share * len(drawn)), max(0, len(drawn) - self._needed))
            chosen_on.append(drawn[:count])
        first = np.sort(np.concatenate(chosen_on))
        if len(first) < FEWEST_COMPARED and len(self._kinds()) > 1 and self.name == "miss":
            first = first[:0]
        return first, np.setdiff1d(np.arange(len(rows)), first)

    def _best_kind(self, rows: Rows) -> Kind:
        """The kind of least cost, in cross-fitting on rows that alpha is not chosen by."""
        kinds = self._kinds()
        if len(kinds) == 1:
            return kinds[0]
        if len(rows) < FEWEST_COMPARED:
            return kinds[0] if NEEDS_NO_LABELS not in kinds else NEEDS_NO_LABELS
        rng = np.random.default_rng([self.seed, 1])
        half = rng.permutation(len(rows))[:COMPARED_ROWS]
        halves = half[::2], half[1::2]
        costs = []
        for kind in kinds:
            found = [self._cost(kind, rows[a], rows[b]) for a, b in (halves, halves[::-1])]
            costs.append(math.fsum(found))
        if min(costs) == math.inf:
            raise InputError("logits", "be such that some kind of set can be fitted", "none")
        return kinds[int(np.argmin(costs))]

    def _cost(self, kind: Kind, fitted_on: Rows, measured_on: Rows) -> float:
        """What a kind of set costs: classes kept, or the width of intervals."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DecalWarning)
                model = kind.fit(fitted_on, self._fixed)
                choice = self._chosen(model, measured_on, None, fitted_on)
                if self.name == "miss":
                    return float(choice.decide(measured_on).sum(axis=1).mean())
                sets = choice.predict(measured_on)
                return float((sets.upper - sets.lower).mean())
        except (ValueError, ArithmeticError):
            return math.inf

    def _chosen(self, model: Decalibrator, rows: Rows, groups: Any, planned_on: Rows) -> Choice:
        """The alpha that grants the wish, of a model that was fitted on other rows."""
        if self.name == "miss":
            return choose(model, rows, miss=self.target, per=self.per, groups=groups)
        threshold = threshold_for(model, planned_on, self.target, len(rows))
        return choose(model, rows, hold=self.target, threshold=threshold, groups=groups)

    def _kept(
        self, model: Decalibrator, choice: Choice, rows: Rows, chosen_on: int, groups: Any = None
    ) -> Decalibrator:
        """The model of a choice with its promise, and what that costs on the rows it rests on."""
        promise, K = choice.promise, rows.shape[1]
        if self.name == "hold" and choice.alpha == 0:
            fact = (
                f"{self.target:g}, and {promise.notes[0] if promise.notes else 'nothing is left'}"
            )
            remedy = "Wish for less, or for miss=, or label more rows."
            raise InputError("hold", "be what the labels can prove", fact, remedy)
        drawn = np.random.default_rng([self.seed, 2]).permutation(len(rows))[:ROWS_COMPARED]
        some, by = rows[drawn], None if groups is None else groups[drawn]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DecalWarning)
            sets = choice.predict(some, groups=by)
        width = float((sets.upper - sets.lower).mean())
        costs = {"classes": K, "width": width, "chosen_on": chosen_on}
        vacuous = width >= NEARLY_ALL
        if self.name == "miss":
            kept = sets.decide(promise.rule) if sets.kept is None else sets.kept
            size = kept.sum(axis=1)
            costs |= {"kept": float(size.mean()), "single": float((size == 1).mean())}
            costs |= plain_sizes(some.logits, some.labels, self.target)
            vacuous = costs["kept"] >= NEARLY_ALL * K
        notes = [*promise.notes]
        if vacuous:
            notes.append("these sets are nearly vacuous")
        if rows.weights is not None:
            notes.append("weights counted where sets were fitted, and not here")
        promise = replace(promise, notes=tuple(notes), costs=costs)
        return model.with_promise(replace(choice, promise=promise))
