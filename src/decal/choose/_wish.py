"""decalibrate: a fitted model in one call, at an alpha or with a promise that grants a wish.

With a wish, rows that choose the kind of set and its reference are never rows that choose alpha, so
that the promise stands. Which rows are which is drawn at random, class by class or group by group
where the promise is: then what it rests on is exchangeable with new inputs, or with those of the
class or group.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from decal._base.confidences import Confidences
from decal._base.errors import DecalWarning, InputError, counted
from decal._base.numerics import Array, Indices, Mask, softmax
from decal._base.row_checks import check_groups
from decal._base.settings import check_alpha, check_count, check_keywords
from decal.choose._choosing import choose, require_labelled, require_options, rule_of
from decal.choose._hold import plan_for
from decal.choose._order import allowed
from decal.choose._plausibility import complement
from decal.choose._promises import Choice, one_wish
from decal.decalibrator import Decalibrator
from decal.directions import Local, find_reference, parse_directions
from decal.model import predict_rows, promised_sets
from decal.rows import Rows, in_units

CHOOSING_SHARE, CHOOSING_SHARE_PER_CLASS = 0.3, 0.15  # of the rows: those that fit and choose
CHOOSING_ROWS, CHOOSING_ROWS_PER_CLASS = 2000, 20  # at most so many in all, or times the classes
FEWEST_SPLIT = 100  # fewer rows, or units, are not split
FEWEST_ERRORS = 5  # that a class or group should expect, or rows are not split
COMPARED_ROWS, FEWEST_COMPARED = 2000, 60  # rows on which kinds of set are compared
WORTH_IT = 0.98  # of the cost of the first kind: another has to be this much better
MANY_CLASSES = 100  # of more, E-admissible ones can be very many: a majority says what is possible
MIX = 1e-3  # of equal probabilities in the centers of balls, for `hold`: bounds the loss
ROUND_OFF = 1e-9  # of products with a rate that are whole numbers, and of widths that are 0
ROWS_COMPARED = 5000  # so many rows tell what a promise costs
NEARLY_ALL = 0.9  # sets this large, or intervals this wide, are nearly vacuous


Kind = dict[str, Any]
"""A kind of set that may grant a wish: settings of a `Decalibrator`."""

MOVES = (("local",), ("class",), ("class", "temperature"))
MOVES_TO_HOLD = (Local(mix=MIX),), (Local(mix=MIX, by_entropy=0.05, root=True),)


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
    unit: str | None = None,
    tolerate: float | None = None,
    sample_weight: Any = None,
    classes: Iterable[Any] | None = None,
    dim: int | None = None,
    ignore_index: int | None = None,
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
    logits, labels, sample_weight, classes, dim, ignore_index
        As for `Decalibrator.fit`: rows that did not train the classifier. Weights count where sets
        are fitted; a promise counts every row once. With several labels per input, `decal.Votes`,
        `miss` is the share of a new input's labels that is missed, on average over inputs, and
        `hold` needs far narrower sets.
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
        need their groups, too. With `unit`, what each row is part of.
    unit : str, optional
        What rows come in, such as "image": `miss` is then about the labels of new images, on
        average over images, see `choose`. Units are the first axis of logits, or `groups`.
    tolerate : float, optional
        With `unit` or `Votes`: `miss` is about images, or inputs, of which more than this share of
        labels is missed.
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
    With a wish, three tenths of the rows (at most 2,000, or 20 per class; with per="class" half as
    many) fit and choose the kind of set: for `miss` the one that keeps fewest classes in
    cross-fitting, of local sets, class shifts, and class shifts with temperature, around an
    automatic reference, which may be the model as it is; for `hold` local sets, whose budgets may
    depend on the entropy of the prediction. Of more
    than 100 classes those are possible that may have a majority; of classes in an order, with
    order=True or labels that are an ordered categorical, an interval, see `CredalSet.decide`; with
    a `tree`, those of the most specific node that is sure, see `CredalSet.node`. The other rows
    choose alpha. Fewer than 100 rows or units, or classes or groups of too few, are not split:
    local sets around the model as it is need no labels, and all rows choose alpha. `width` takes
    local sets around the automatic reference, and all rows for both. The guarantee needs rows that
    are exchangeable with new inputs; with `unit`, units that are so with new ones. Proofs and
    measurements: docs/evidence_promises.md.

    Examples
    --------
    >>> import decal
    >>> known, new = decal.datasets.languages("fit"), decal.datasets.languages("test")
    >>> d = decal.decalibrate(known.logits, known.labels, miss=0.1, classes=known.classes)
    >>> print(d.promise)
    The true label is outside the kept classes for at most 1 new input in 10; guaranteed, by 1,269
    rows.
    >>> d.predict(new.logits[126:127]).possible()
    [['Spanish', 'Galician']]
    """
    check_keywords(settings, "decal.decalibrate", decalibrate, Decalibrator)
    given = {"alpha": alpha, "miss": miss, "width": width, "hold": hold}
    of_units: dict[str, Any] = {"unit": unit, "tolerate": tolerate}
    wish = Wish.of(**given, per=per, groups=groups, **of_units, seed=seed, settings=settings)
    shown: dict[str, Any] = {"sample_weight": sample_weight, "classes": classes}
    shown |= {"dim": dim, "ignore_index": ignore_index}
    if wish.name == "alpha":
        return Decalibrator(alpha, **settings).fit(logits, labels, **shown)
    told = ("probabilities", "floor", "order")
    read = {name: settings[name] for name in told if name in settings}
    rows = Decalibrator(0.5, **read).read_labelled(logits, labels, **shown)
    if groups is not None:
        groups = check_groups(groups if rows is logits else rows.flat(groups), len(rows))
    return wish.granted(rows, groups)


@dataclass(frozen=True)
class Wish:
    """A wish, and all that may be chosen to grant it."""

    name: str
    target: float
    per: str | None
    seed: int
    settings: dict[str, Any]
    unit: str | None = None
    tolerate: float | None = None

    @classmethod
    def of(
        cls,
        *,
        per: str | None = None,
        groups: Any = None,
        unit: str | None = None,
        tolerate: float | None = None,
        seed: int = 0,
        settings: dict[str, Any] | None = None,
        **given: Any,
    ) -> Self:
        """The one wish, or alpha, that is given; InputError if it, or what goes with it, is bad."""
        wish, wanted = one_wish(**given)
        options = {"per": per, "groups": groups, "unit": unit}
        require_options(wish, options)
        target, seed = check_alpha(wanted, wish), check_count(seed, "seed", least=0)
        share = None if tolerate is None else check_alpha(tolerate, "tolerate")
        return cls(wish, target, per, seed, settings or {}, unit, share)

    def _options(self, groups: Any) -> dict[str, Any]:
        """Those of `choose`, besides the wish."""
        return {"per": self.per, "groups": groups, "unit": self.unit, "tolerate": self.tolerate}

    def granted(self, rows: Rows, groups: Any = None) -> Decalibrator:
        """A model that was fitted and chosen on some rows, and promises by the others."""
        require_labelled(self.name, rows.votes is not None, self._options(groups))
        if not isinstance(rows.logits, np.ndarray) and not hasattr(rows.logits, "middle"):
            fact = type(rows.logits).__name__
            raise InputError("logits", f"be a matrix of all classes for {self.name}", fact)
        if rows.weights is not None and groups is not None:
            groups = groups[rows.weights > 0]
        rows = rows.counted()
        labelled = rows.by_label()
        present = np.unique(labelled.labels)
        if len(present) < 2:
            name = rows.classes[present[0]] if rows.classes else f"class {present[0]}"
            raise InputError("labels", "be of two classes or more for a wish", f"only {name}")
        confidences = Confidences.of(plain_logits(labelled), labelled.labels, labelled.weights)
        confidences.warn_of_other_order(rows.shape[1])
        if self.unit is not None:
            rows, groups = in_units(rows, groups, self.unit), None
        elif self.name != "width":
            rows.warn_of_units()
            rows = replace(rows, units=None)
        if self.name == "width":
            model = _fitted(rows, self._kinds()[0])
            return self._kept(model, self._chosen(model, rows), rows, 0)
        self._require_enough(self._count(rows))
        chosen_on, promised_by = self._split(rows, groups)
        some, rest = rows[chosen_on], rows[promised_by]
        kind = self._best_kind(some, len(rest)) if len(some) else self._without_labels
        if kind is None:
            fact = f"all {len(rows):,} needed for {self.name}={self.target:g}"
            raise InputError("labels", "leave rows to fit these sets on", fact, "Label more.")
        model = _fitted(some if len(some) else rows, kind)
        by = None if groups is None else groups[promised_by]
        choice = self._chosen(model, rest, by, some)
        found = self._kept(model, choice, rest, len(some), by)
        assert found.promise is not None
        found.promise = replace(found.promise, recalibration=self._recalibration(model, rows))
        return found

    def granted_by(self, model: Decalibrator, rows: Rows, groups: Any = None) -> Decalibrator:
        """A model that was fitted on other rows, and promises by all of these."""
        if self.unit is not None:
            rows, groups = in_units(rows, groups, self.unit), None
        if self.name != "width":
            self._require_enough(self._count(rows))
        groups = None if groups is None else check_groups(groups, len(rows))
        choice = self._chosen(model, rows, groups)
        return self._kept(model, choice, rows, model.examples, groups)

    def _recalibration(self, model: Decalibrator, rows: Rows) -> tuple[float, ...]:
        """From a model that some rows fitted to the reference that all rows choose.

        Empty if the settings leave none to choose, or centers of sets are mixtures.
        """
        name = self.settings.get("reference", "auto")
        if self.name != "miss" or name == "model" or not isinstance(rows.logits, np.ndarray):
            return ()
        here = model.reference_model
        given = rows.by_label()
        there = find_reference(given.logits, given.labels, given.weights, scale=True, name=name)
        scale = there.scale / here.scale
        found = np.append(there.center - scale * here.center, scale)
        return tuple(found.tolist()) if np.isfinite(found).all() else ()

    def _kinds(self) -> list[Kind]:
        """The kinds of set that the settings leave to choose from."""
        moves: tuple[Any, ...] = MOVES_TO_HOLD if self.name == "hold" else MOVES
        moves = moves[:1] if self.name == "width" or "directions" in self.settings else moves
        return [{"directions": each, "reference": "auto"} | self.settings for each in moves]

    def _require_enough(self, rows: int) -> None:
        """InputError if no number of errors is few enough."""
        needed = self.needed
        if rows < needed:
            least = math.ceil(1e4 / (rows + 1)) / 1e4
            side = f"at least {least:g}" if self.name == "miss" else f"at most {1 - least:g}"
            what = self.unit or "row"
            rule = f"be {side} with {counted(rows, what)}"
            remedy = f"It needs {counted(needed, what)}."
            raise InputError(self.name, rule, f"{self.target:g}", remedy)

    def _count(self, rows: Rows) -> int:
        """How many rows, or units, a promise can rest on."""
        return len(rows) if self.unit is None else len(np.unique(rows.units))

    @property
    def needed(self) -> int:
        """How many rows a promise needs: 1 / (rows + 1) <= the share of errors."""
        if not 0 < self._rate < 1:
            raise InputError(self.name, "lie between 0 and 1, and be neither", f"{self.target:g}")
        return math.ceil(1 / self._rate - ROUND_OFF) - 1

    @property
    def _rate(self) -> float:
        """The share of errors that is allowed."""
        return self.target if self.name == "miss" else complement(self.target)

    def _split(self, rows: Rows, groups: Any) -> tuple[Indices, Indices]:
        """Rows that fit and choose, and rows that alpha is chosen by.

        How many of each stratum are which depends on its size alone, and which they are on chance.
        Rows of one unit stay together.
        """
        if self.unit is not None:
            return self._split_units(rows)
        n, K = rows.shape
        every, rate, by_class = np.arange(n), self._rate, self.per == "class"
        strata = rows.labels if by_class else np.zeros(n, dtype=np.intp)
        strata = strata if groups is None else groups
        most = max(CHOOSING_ROWS, CHOOSING_ROWS_PER_CLASS * K)
        share = min(CHOOSING_SHARE_PER_CLASS if by_class else CHOOSING_SHARE, most / n)
        rng = np.random.default_rng(self.seed)
        chosen_on, errors = [], []
        for stratum in np.unique(strata):
            drawn = rng.permutation(every[strata == stratum])
            # Of k / rate - 1 rows as many errors are allowed as of a few more: these are to spare.
            k = max(1, math.floor((1 - share) * (len(drawn) + 1) * rate + ROUND_OFF))
            needed = math.ceil(k / rate - ROUND_OFF) - 1
            chosen_on.append(drawn[: max(0, len(drawn) - needed)])
            errors.append(k)
        too_few = n < FEWEST_SPLIT or (len(errors) > 1 and min(errors) < FEWEST_ERRORS)
        without = self._without_labels
        if without is not None and (too_few or self._kinds() == [without]):
            return every[:0], every
        first = np.sort(np.concatenate(chosen_on))
        return first, np.setdiff1d(every, first)

    def _split_units(self, rows: Rows) -> tuple[Indices, Indices]:
        """As `_split`, of whole units."""
        names, unit = np.unique(rows.units, return_inverse=True)
        n, every, without = len(names), np.arange(len(rows)), self._without_labels
        count = max(0, min(int(CHOOSING_SHARE * n), n - self.needed))
        if without is not None and (n < FEWEST_SPLIT or self._kinds() == [without]):
            count = 0
        drawn = np.random.default_rng(self.seed).permutation(n)[:count]
        chosen = np.isin(unit, drawn)
        return every[chosen], every[~chosen]

    @property
    def _without_labels(self) -> Kind | None:
        """Local sets around the model as it is: they need no labels, if the settings leave them."""
        first = self._kinds()[0]
        local = all(isinstance(each, Local) for each in parse_directions(first["directions"]))
        may_be = local and self.settings.get("reference", "model") == "model"
        return first | {"reference": "model"} if may_be else None

    def _best_kind(self, rows: Rows, examples: int) -> Kind:
        """The kind of least cost, on rows that alpha is not chosen by, for so many `examples`.

        For `miss` in cross-fitting; of balls only the reference is fitted.
        """

        def cost(kind: Kind) -> float:
            if self.name == "hold":
                return self._width_of(kind, rows, examples)
            return sum(self._kept_by(kind, *parts) for parts in halves(rows, self.seed))

        return best_of(self._kinds(), cost, len(rows))

    def _kept_by(self, kind: Kind, fitted_on: Rows, measured_on: Rows) -> float:
        """How many classes a kind of set keeps on average, at one alpha."""
        model = _fitted(fitted_on, kind)
        choice = choose(model, measured_on, miss=self.target, rule=_rule(measured_on, model))
        return float(choice.decide(measured_on).sum(axis=1).mean())

    def _width_of(self, kind: Kind, rows: Rows, examples: int) -> float:
        """How wide intervals are on average at the alpha that seems within reach."""
        model = _fitted(rows, kind)
        alpha, _ = plan_for(model, rows, self.target, examples)
        sets = predict_rows(model, rows[:COMPARED_ROWS], alpha)
        return float((sets.upper - sets.lower).mean())

    def _one_label(self, rows: Rows) -> Indices:
        """(n,) labels; of several per input, one of them by chance."""
        if rows.votes is None:
            labels: Indices = rows.labels
            return labels
        drawn = np.random.default_rng([self.seed, 3]).random((len(rows), 1))
        below: Indices = (rows.votes.shares.cumsum(axis=1)[:, :-1] <= drawn).sum(axis=1)
        return below

    def _chosen(
        self, model: Decalibrator, rows: Rows, groups: Any = None, planned_on: Rows | None = None
    ) -> Choice:
        """The alpha that grants the wish, of a model that was fitted on other rows."""
        wish = {self.name: self.target} | self._options(groups)
        if self.name == "hold" and planned_on is not None and len(planned_on):
            _, wish["threshold"] = plan_for(model, planned_on, self.target, len(rows))
        return choose(model, rows, rule=_rule(rows, model), **wish)

    def _kept(
        self, model: Decalibrator, choice: Choice, rows: Rows, chosen_on: int, groups: Any = None
    ) -> Decalibrator:
        """The model of a choice with its promise, and what that costs on the rows it rests on."""
        promise, classes = choice.promise, rows.shape[1]
        if self.name == "hold" and choice.alpha == 0:
            fact = f"{self.target:g}, and {', '.join(promise.notes)}"
            remedy = "Wish for less, or for miss=, or label more rows."
            raise InputError("hold", "be a share that these labels can prove", fact, remedy)
        drawn = np.random.default_rng([self.seed, 2]).permutation(len(rows))[:ROWS_COMPARED]
        some, by = rows[drawn], None if groups is None else groups[drawn]
        sets = promised_sets(model, some, choice.alpha, promise, by)
        width = float((sets.upper - sets.lower).mean())
        costs = {"classes": classes, "width": width, "chosen_on": chosen_on}
        vacuous = width >= NEARLY_ALL
        if self.name == "miss":
            size = sets.possible_mask().sum(axis=1)
            costs |= {"kept": float(size.mean()), "single": float((size == 1).mean())}
            costs |= plain_sizes(plain_logits(some), self._one_label(some), self.target)
            vacuous = costs["kept"] >= NEARLY_ALL * classes
        notes = [*promise.notes]
        if width <= ROUND_OFF:
            notes.append(
                "the prediction alone is within the wish, so that sets are points: for intervals, "
                f"wish for a smaller {self.name}"
            )
        if vacuous:
            notes.append("these sets are nearly vacuous")
        if hasattr(rows.logits, "members"):
            costs["members"] = len(rows.logits.members)
            notes.append(f"these are unions of the sets of {costs['members']} members")
        if rows.weights is not None:
            notes.append("weights counted where sets were fitted, and not here")
        promise = replace(promise, notes=tuple(notes), costs=costs)
        return model.with_promise(replace(choice, promise=promise))


def _fitted(rows: Rows, kind: Kind) -> Decalibrator:
    """A model of a kind, whose alpha nobody has chosen yet."""
    return Decalibrator(0.5, **kind).fit_rows(rows, warn=False)


def halves(rows: Rows, seed: int) -> list[tuple[Rows, Rows]]:
    """Two halves of some rows, drawn by chance, as those that fit and measure, both ways."""
    drawn = np.random.default_rng([seed, 1]).permutation(len(rows))[:COMPARED_ROWS]
    one, other = rows[drawn[::2]], rows[drawn[1::2]]
    return [(one, other), (other, one)]


def best_of(kinds: Sequence[Kind], cost: Callable[[Kind], float], rows: int) -> Kind:
    """The kind of least cost; the first unless another is clearly better, or rows are few.

    One that cannot be fitted costs infinitely much.
    """

    def tried(kind: Kind) -> float:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DecalWarning)
                return cost(kind)
        except (ValueError, ArithmeticError):
            return math.inf

    first, *others = kinds
    if not others or rows < FEWEST_COMPARED:
        return first
    costs = [tried(kind) for kind in others]
    best = int(np.argmin(costs))
    return others[best] if costs[best] < WORTH_IT * tried(first) else first


def _rule(rows: Rows, model: Decalibrator) -> str:
    """The rule that says which of so many classes are possible."""
    rule = rule_of(model, rows)
    return "majority" if rule == "e_admissible" and rows.shape[1] > MANY_CLASSES else rule


def plain_logits(rows: Rows) -> Array:
    """(n, K) logits; of `decal.llm.LabelMasses`, those halfway; of an ensemble, of its mean."""
    logits: Array = getattr(rows.logits, "middle", rows.logits)
    return logits


# What the two usual conformal sets would cost at the same miss rate


def plain_sizes(logits: Array, labels: Indices, miss: float) -> dict[str, float]:
    """Mean numbers of classes that LAC and APS keep of (n, K) logits, and the plain error.

    LAC keeps the classes of at least some probability (Sadinle, Lei and Wasserman, 2019), APS the
    most probable ones until they reach some probability together (Romano, Sesia and Candès, 2020).
    Both keep the most probable class, whatever its probability, so that no set is empty.
    """
    y, p = labels, softmax(logits.astype(np.float64))
    order = np.argsort(-p, axis=1, kind="stable")
    reached = np.empty_like(p)
    np.put_along_axis(reached, order, np.take_along_axis(p, order, axis=1).cumsum(axis=1), axis=1)
    top = p == p.max(axis=1, keepdims=True)
    return {
        "error": float((order[:, 0] != y).mean()),
        "lac": _mean_size(1 - p, top, y, miss),
        "aps": _mean_size(reached, top, y, miss),
    }


def _mean_size(scores: Array, top: Mask, labels: Indices, miss: float) -> float:
    """The mean number of classes whose score is at most that of enough labels, or which are top."""
    own = np.sort(scores[np.arange(len(labels)), labels])
    k = allowed(miss, len(labels))
    threshold = own[-k] if k else np.inf
    return float(((scores <= threshold) | top).sum(axis=1).mean())
