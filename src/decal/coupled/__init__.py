"""CoupledDecalibrator: all logits move at once, with certificates.

`Decalibrator` moves one class's logit at a time. Here the shifts of all classes vary together, over
the whole region that the labelled data tolerate, and the interval of a class is the range of its
probability over that region. The upper endpoint is a convex program. The lower endpoint is not, and
the paper leaves it open; here every endpoint comes with an inner value that some plausible shift
attains and an outer value that none exceeds.

May import from `_base`, `schema`, `rows`, `io`, `credal`, `directions` and `model`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from decal._base.confidences import Confidences
from decal._base.errors import FitWarning
from decal._base.numerics import Array, budget, sigmoid
from decal._base.row_checks import check_class_names
from decal._base.settings import (
    DEFAULT_ALPHA,
    check_alpha,
    check_choice,
    check_flag,
    check_tolerance,
)
from decal.coupled._absent import PlausibleModels, log_odds_of_rest
from decal.coupled._bounds import CERTIFIED, STATUS_NAMES, Bounds, Status
from decal.coupled._loss import ShiftLoss
from decal.credal import IntervalCredalSet
from decal.io.model_files import Arrays
from decal.model import FAR_FROM_REFERENCE, Model
from decal.rows import Rows
from decal.schema import Schema, check_floor

__all__ = ["CoupledCredalSet", "CoupledDecalibrator", "Diagnostics"]

SLACK = 1e-12  # probability by which outer endpoints are widened, as certificates are rounded
SETTINGS = ("alpha", "likelihood", "reference", "tol", "certify", "probabilities", "floor")

CARRIED = tuple(
    f"{end}_{what}" for what in ("outer", "status", "shifts") for end in ("lower", "upper")
)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class CoupledCredalSet(IntervalCredalSet):
    """Probability intervals over all plausible shifts, with how well each endpoint is known.

    `lower` and `upper` are attained, each by some plausible shift of all logits. Take `outer()`
    where a set must contain every plausible model.

    Attributes
    ----------
    lower_outer, upper_outer : (n, K) arrays
        Proved bounds, which no plausible shift leaves: they contain [lower, upper].
    lower_status, upper_status : (n, K) str arrays
        How the endpoint is known: "closed form", within tol, without a search; "convex", the
        optimum of a convex program; "theorem", a local optimum, and all of them are global;
        "certificate", a local optimum, proved global for this input; "bracket", the best found and
        a proved bound; "unbounded", 0 or 1 in the limit of infinite shifts; "point", the only one.
    lower_shifts, upper_shifts : (n, K, K) arrays or None
        Row k is what is added to the model's logits to attain the endpoint of class k; -inf leaves
        a class out.
    """

    lower_outer: Array
    upper_outer: Array
    lower_status: NDArray[np.str_]
    upper_status: NDArray[np.str_]
    lower_shifts: Array | None
    upper_shifts: Array | None

    @classmethod
    def _with(cls, box: IntervalCredalSet, **carried: Any) -> Self:
        """A box with what is known of its endpoints."""
        credal = cls.unchecked(box.lower, box.upper, box.point, box.classes).with_index(box)
        credal._hold(**carried)
        return credal

    def tighten(self) -> Self:
        """Every bound is attained by some member; what is known of the endpoints stays as it is."""
        box = IntervalCredalSet.unchecked(self.lower, self.upper, self.point, self.classes)
        carried = {name: getattr(self, name) for name in CARRIED}
        return self._with(box.with_index(self).tighten(), **carried)

    def outer(self) -> IntervalCredalSet:
        """The proved bounds, as a credal set that contains what every plausible model predicts."""
        proved = IntervalCredalSet.unchecked(
            self.lower_outer, self.upper_outer, self.point, self.classes
        )
        return proved.with_index(self)

    @property
    def gap(self) -> Array:
        """(n, K) how far inner and outer values are apart, at the worse of both endpoints."""
        return np.maximum(self.lower - self.lower_outer, self.upper_outer - self.upper)

    @property
    def status(self) -> NDArray[np.str_]:
        """(n, K) how each interval is known: as its lower endpoint; "bracket" if either is one."""
        bracket = STATUS_NAMES[Status.BRACKET]
        return np.where(self.upper_status == bracket, bracket, self.lower_status)

    def __repr__(self) -> str:
        gap, bracket = self.gap, self.status == STATUS_NAMES[Status.BRACKET]
        known = max(CERTIFIED, float(np.max(gap, where=~bracket, initial=0.0)))
        note = f"  endpoints known to {known:.0e}"
        if bracket.any():
            widest = float(np.max(gap, where=bracket, initial=0.0))
            note += f"; {bracket.mean():.1%} of the intervals only to {widest:.2g}"
        return f"{super().__repr__()}\n{note}"


@dataclass(frozen=True)
class Diagnostics:
    """What a fit says about the region of plausible shifts; `print` it.

    Attributes
    ----------
    alpha, likelihood, reference, classes
        The level, the settings of the model, and the names of the classes.
    examples, label_weight : int, (K,) array
        Number of labelled examples of positive weight, and total weight of each class.
    gain, budget : float
        Nats of log-likelihood that the best shift gains on the model, and that a plausible shift
        may lose against the best one; inf at alpha = 0.
    radius : float
        The most that a plausible shift moves two classes apart, not counting classes that never
        occur: no label limits their shifts.
    rho : (K,) array
        Below 1 where every local optimum of the lower endpoint is global, whatever the input.
    """

    alpha: float
    likelihood: str
    reference: str
    examples: int
    label_weight: Array
    gain: float
    budget: float
    radius: float
    rho: Array
    classes: tuple[str, ...] | None

    def __str__(self) -> str:
        names = self.classes or tuple(str(k) for k in range(len(self.label_weight)))
        W = self.label_weight.sum()
        counted = np.where(self.label_weight > 0, self.label_weight, np.inf)
        rarest, worst = int(counted.argmin()), int(self.rho.argmax())
        absent = [names[k] for k in np.flatnonzero(self.label_weight == 0)]
        everywhere = (self.rho < 1).all()
        theorem = "are global for every input" if everywhere else "need a certificate each"
        lines = {
            "examples": f"{self.examples:,} of {len(names):,} classes",
            "rarest class": f"{names[rarest]}, {counted[rarest]:g} examples",
            "absent classes": ", ".join(absent) if absent else "none",
            "best shift gains": f"{self.gain:.4g} nats, {self.gain / W:.3g} per example",
            "budget": f"{self.budget:.4g} nats, {self.budget / W:.3g} per example",
            "range": f"two classes move apart by at most {self.radius:.3g} nats",
            "largest rho": f"{self.rho[worst]:.3g} (class {names[worst]}): local optima {theorem}",
        }
        title = f"Coupled shifts at alpha = {self.alpha:g}, {self.likelihood} likelihood, "
        title += f"reference {self.reference!r}"
        return "\n".join([title, *(f"  {name:<18}{text}" for name, text in lines.items())])


@dataclass(frozen=True, eq=False)
class CoupledEvidence:
    """The labelled data, recentered at their best shift, and what it gains on the model in nats."""

    data: ShiftLoss
    gain: float
    classes: tuple[str, ...] | None
    solved: dict[float, PlausibleModels] = field(default_factory=dict)


class CoupledDecalibrator(Model[CoupledEvidence]):
    """Turns logits into intervals over all shifts of all logits that the labelled data tolerate.

    Shifts are plausible at level alpha if the likelihood of the labelled data under the shifted
    model, relative to the reference model, is at least alpha. The intervals contain those of
    `Decalibrator` with the same settings, and are nested in alpha up to the gap between inner and
    outer values. The labelled data are kept. Takes 2 to 6 ms per input at 10 classes and 5,000
    examples. Certificates are floating point, widened by 1e-12, not interval arithmetic.

    Parameters
    ----------
    alpha : float
        Level in [0, 1]. Smaller is more cautious: 0 excludes nothing.
    likelihood : str
        "mean" bounds the geometric-mean likelihood ratio per example, "sum" the ratio for the whole
        data set, as for `Decalibrator`.
    reference : str
        "best" measures likelihoods from the best shift, so that alpha = 1 is a point; "model" from
        the model as it is, with a FitWarning where that is much less likely.
    tol : float
        Probability by which endpoints in closed form may be off; those that are not proved to be
        that good are solved for, to about 1e-9.
    certify : str
        "auto" proves the lower endpoints that are solved for as far as it can. "full" solves for
        and proves all of them, whatever tol. "none" leaves them unproved, with closed-form outer
        bounds.
    probabilities, floor
        As for `Decalibrator`: what is given are probabilities, and how small they may be.

    Examples
    --------
    >>> import decal
    >>> logits = [[2.0, 0.0], [1.5, 0.2], [0.3, 0.9], [-1.0, 1.0]]
    >>> d = decal.coupled.CoupledDecalibrator(0.9, likelihood="mean").fit(logits, [0, 0, 1, 1])
    >>> d.predict([[0.5, 0.0]])
    CoupledCredalSet: 1 input, 2 classes, mean width 0.520
      0  0 [0.290, 0.811]  1 [0.189, 0.710]
      endpoints known to 1e-06
    """

    def __init__(
        self,
        alpha: float = DEFAULT_ALPHA,
        *,
        likelihood: str,
        reference: str = "best",
        tol: float = 1e-3,
        certify: str = "auto",
        probabilities: bool = False,
        floor: float | None = None,
    ) -> None:
        self.alpha = check_alpha(alpha)
        self.likelihood = check_choice(likelihood, "likelihood", ("mean", "sum"))
        self.reference = check_choice(reference, "reference", ("best", "model"))
        self.tol = check_tolerance(tol, "tol")
        self.certify = check_choice(certify, "certify", ("auto", "none", "full"))
        self.probabilities = check_flag(probabilities, "probabilities")
        self.floor = check_floor(floor, self.probabilities)
        super().__init__()

    def schema(self, fitted: CoupledEvidence | None) -> Schema:
        """What it lets in: finite logits, or probabilities, of all classes."""
        width, classes = (len(fitted.data.center), fitted.classes) if fitted else (None, None)
        return Schema(width, classes, self.probabilities, self.floor, masks=False)

    def learn(self, rows: Rows, *, whole: bool = True) -> CoupledEvidence:  # noqa: ARG002
        """The best shift for labelled rows, which are kept."""
        Confidences.of(rows.logits, rows.labels, rows.weights).warn_of_other_order(rows.shape[1])
        rows = rows.counted()
        w = np.ones(len(rows)) if rows.weights is None else rows.weights
        data, gain = ShiftLoss.from_data(rows.logits, rows.labels, w)
        learnt = CoupledEvidence(data, gain, rows.classes)
        allowed = self._budget(self.alpha, learnt)
        if self.reference == "model" and 0 < allowed < gain / FAR_FROM_REFERENCE:
            FitWarning.warn(
                f"the best shift gains {gain:.3g} nats on the model, and alpha = {self.alpha:g} "
                f"allows to lose {allowed:.2g}: the intervals will show how far the model is from "
                "its best shift rather than what the data leave open. Use reference='best'."
            )
        return learnt

    def predict(  # type: ignore[override]  # one alpha for all inputs
        self, logits: Any, *, alpha: Any = None, ids: Any = None, shifts: bool = False
    ) -> CoupledCredalSet:
        """The credal sets of new inputs, as from `Decalibrator.predict`.

        Parameters
        ----------
        logits, alpha, ids
            As for `Decalibrator.predict`; finite numbers (n, K).
        shifts : bool
            Whether to return the shifts that attain the endpoints too, 2 n K^2 numbers.
        """
        if not shifts:
            sets: CoupledCredalSet = super().predict(logits, alpha=alpha, ids=ids)
            return sets
        return self.predict_rows(self.read(logits, ids=ids), alpha=alpha, shifts=True)

    def predict_rows(
        self, rows: Rows, *, alpha: Any = None, shifts: bool = False
    ) -> CoupledCredalSet:
        """As `predict`, of rows that were read before; it warns of nothing."""
        fitted, alpha = self.fitted, self.level(alpha)
        z, reference = rows.logits + fitted.data.center, self._reference(fitted)
        B = self._room(alpha, fitted)
        if np.isinf(B):
            found = _vacuous(*z.shape)
        elif B == 0:
            found = _single(z, reference)
        else:
            found = self._solve(alpha, fitted).bounds(z, self.tol, self.certify)
        point = sigmoid(-log_odds_of_rest(z, reference))
        return _credal(found, point, fitted, shifts).with_index(rows.ids)

    def diagnostics(self, alpha: Any = None) -> Diagnostics:
        """What the region of plausible shifts looks like at a level; made to be printed."""
        fitted, level = self.fitted, self.level(alpha)
        data, B = fitted.data, self._room(level, fitted)
        K = len(data.center)
        radius, rho = (np.inf, np.full(K, np.inf)) if np.isinf(B) else (0.0, np.zeros(K))
        if 0 < B < np.inf:
            region = self._solve(level, fitted).region
            radius, rho[data.label_weight > 0] = region.radius, region.rho
        about = level, self.likelihood, self.reference, len(data.weights)
        weight, gain = data.label_weight.copy(), fitted.gain
        return Diagnostics(*about, weight, gain, B, radius, rho, fitted.classes)

    def _budget(self, alpha: float, fitted: CoupledEvidence) -> float:
        """Log-likelihood, on all data, that may be lost against the reference."""
        b = float(budget(alpha))
        return b * fitted.data.total_weight if self.likelihood == "mean" else b

    def _room(self, alpha: float, fitted: CoupledEvidence) -> float:
        """Log-likelihood that may be lost against the best shift."""
        lost = fitted.gain if self.reference == "model" else 0.0
        return lost + self._budget(alpha, fitted)

    def _reference(self, fitted: CoupledEvidence) -> Array:
        """(K,) shifts of the reference model, from the best shift; -inf for classes left out."""
        if self.reference == "model":
            return -fitted.data.center
        return np.where(fitted.data.label_weight > 0, 0.0, -np.inf)

    def _solve(self, alpha: float, fitted: CoupledEvidence) -> PlausibleModels:
        """The plausible models at a level, found once."""
        solved = fitted.solved
        if alpha not in solved:
            for oldest in [*solved][: max(0, len(solved) - 15)]:  # 16 levels are kept
                solved.pop(oldest, None)
            solved[alpha] = PlausibleModels.of(
                fitted.data, self._room(alpha, fitted), self._reference(fitted)
            )
        return solved[alpha]

    # Keeping

    kind = "coupled"

    def described(self) -> tuple[str, str]:
        """Its settings and, once it was fitted, on what; for `repr`."""
        settings = (
            f"alpha={self.alpha:g}, likelihood={self.likelihood!r}, "
            f"reference={self.reference!r}, tol={self.tol:g}, certify={self.certify!r}"
        )
        if self._fitted is None:
            return settings, ""
        n, K = self._fitted.data.log_odds.shape
        return settings, f"fitted on {n:,} examples of {K:,} classes"

    @classmethod
    def may_hold(cls, name: str, settings: dict[str, Any]) -> bool:  # noqa: ARG003
        """Whether a file may hold an array of this name."""
        return name in ShiftLoss.part_names()

    def packed(self) -> tuple[dict[str, Any], Arrays]:
        """Plain settings, and arrays, which are the labelled data; `unpacked` takes them."""
        fitted = self.fitted
        settings = {name: getattr(self, name) for name in SETTINGS}
        settings |= {"classes": fitted.classes, "gain": fitted.gain}
        return settings, fitted.data.parts()

    @classmethod
    def unpacked(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        """From such settings and arrays, which it takes out; ValueError if they are damaged."""
        del settings["version"]
        names, gain = settings.pop("classes"), float(settings.pop("gain"))
        if not 0 <= gain < np.inf:
            raise ValueError(f"gain must be finite and not negative: got {gain}")
        model = cls(**{name: settings.pop(name) for name in SETTINGS if name in settings})
        data = ShiftLoss.from_parts(arrays)
        arrays.clear()
        names = check_class_names(names, len(data.center))
        model._fitted = CoupledEvidence(data, gain, names)
        return model


def _credal(found: Bounds, point: Array, fitted: CoupledEvidence, shifts: bool) -> CoupledCredalSet:
    """The sets with these bounds, and with the shifts that attain them if these are wanted."""
    inner, outer = sigmoid(-found.inner), sigmoid(-found.outer)
    # Sound by construction; this only settles ties at round-off.
    lower, upper = np.minimum(inner[:, :, 0], point), np.maximum(inner[:, :, 1], point)
    exact = found.status <= Status.POINT
    slack = np.where(exact, 0.0, SLACK)
    names = STATUS_NAMES[found.status]
    moved = found.shift + fitted.data.center if shifts else None
    return CoupledCredalSet._with(
        IntervalCredalSet.unchecked(lower, upper, point, fitted.classes),
        lower_outer=np.clip(outer[:, :, 0] - slack[:, :, 0], 0.0, lower),
        upper_outer=np.clip(outer[:, :, 1] + slack[:, :, 1], upper, 1.0),
        lower_status=names[:, :, 0],
        upper_status=names[:, :, 1],
        lower_shifts=None if moved is None else np.ascontiguousarray(moved[:, :, 0]),
        upper_shifts=None if moved is None else np.ascontiguousarray(moved[:, :, 1]),
    )


def _vacuous(n: int, K: int) -> Bounds:
    """Bounds when everything is plausible: every probability, in the limit."""
    g = np.broadcast_to([np.inf, -np.inf], (n, K, 2))
    own = np.eye(K, dtype=bool)
    shift = np.stack([np.where(own, -np.inf, 0.0), np.where(own, 0.0, -np.inf)], axis=1)
    status = np.full((n, K, 2), Status.UNBOUNDED, dtype=np.int8)
    return Bounds(g, g, status, np.broadcast_to(shift, (n, K, 2, K)))


def _single(logits: Array, shift: Array) -> Bounds:
    """Bounds when only one model is plausible."""
    n, K = logits.shape
    g = np.repeat(log_odds_of_rest(logits, shift)[:, :, None], 2, axis=2)
    status = np.full((n, K, 2), Status.POINT, dtype=np.int8)
    return Bounds(g, g, status, np.broadcast_to(shift, (n, K, 2, K)))
