"""LabelShift: what a model predicts where the classes are more, or less, frequent than before."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from decal._base.confidences import Confidences
from decal._base.data_frames import by_name
from decal._base.errors import AnswerWarning, InputError
from decal._base.numerics import Array
from decal._base.settings import check_choice, check_count, check_flag, check_share
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator, require_decalibrator
from decal.io.model_files import Arrays
from decal.model import Model
from decal.rows import Rows
from decal.schema import Schema, check_floor
from decal.shift._calibrated import Calibrated, calibrate, check_sums_to_one, is_calibrated
from decal.shift._frequency_evidence import FrequencyEvidence
from decal.shift._likelihood import Likelihood, most_likely
from decal.shift._nearby import supposed
from decal.shift._observed import Observed
from decal.shift._results import Frequencies, ShiftTest
from decal.shift._scatter import from_counts, from_labels, inflated
from decal.shift._what_if import adapted

REGIONS = ("auto", "joint", "own")

SETTINGS = ("confidence", "calibrate", "region", "error", "corrected", "probabilities", "floor")


class LabelShift(Model[FrequencyEvidence]):
    """Credal sets where the classes have other frequencies, from unlabelled inputs.

    If only the frequencies of the classes change, from pi to v, while inputs of each class look as
    before, the probabilities r of a calibrated model become r_k v_k / pi_k, normalised. Unlabelled
    inputs tell which v are plausible; the credal set of an input holds what all of them predict.

    Parameters
    ----------
    confidence : float
        How often the region of plausible frequencies holds the true ones, in (0, 1).
    calibrate : bool
        Whether `fit` first calibrates the logits by the best shifts and scale.
    region : str
        "joint", all frequencies at once. "own", one frequency at a time while the others keep their
        proportions: smaller, a part of the region. "auto" is "joint" for up to 12 classes, and for
        more while their squared number times that of observed inputs is at most 250,000.
    error : float
        How much wider than exact bounds of "joint" may be, in (0, 1); they are never narrower. The
        smaller, the longer it takes; below 1e-6 Newton's method solves every problem.
    corrected : bool
        Whether regions and p-values allow for the labels being few. Without, they are too narrow
        with more unlabelled inputs than labels.
    probabilities, floor
        As for `Decalibrator`: what is given are probabilities, and how small they may be.

    Notes
    -----
    It supposes that inputs of a class look as where the model was calibrated, and that shifts and
    scale suffice to calibrate it there. The confidence holds for many inputs and labels (Wilks'
    theorem); with a hundred labels or fewer, `bootstrapped` is better.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> def draw(n, share):
    ...     sick = (rng.random(n) < share).astype(int)
    ...     return np.stack([np.zeros(n), 3 * sick - 2 + rng.normal(size=n)], axis=1), sick
    >>> shift = decal.LabelShift().fit(*draw(4000, 0.3), classes=["healthy", "sick"])
    >>> shift.observe(draw(2000, 0.1)[0]).frequencies
    Frequencies: 2,000 inputs, 2 classes, intervals at 0.95
      class    before  now    interval
      healthy  0.701   0.902  [0.886, 0.918]
      sick     0.299   0.098  [0.082, 0.114]
    >>> shift.predict([[0.0, 0.5]])
    IntervalCredalSet: 1 input, 2 classes, mean width 0.081
      0  sick [0.626, 0.707]  healthy [0.293, 0.374]
    """

    def __init__(
        self,
        confidence: float = 0.95,
        *,
        calibrate: bool = True,
        region: str = "auto",
        error: float = 1e-3,
        corrected: bool = True,
        probabilities: bool = False,
        floor: float | None = None,
    ) -> None:
        self.confidence = check_share(confidence, "confidence", positive=True)
        self.calibrate = check_flag(calibrate, "calibrate")
        self.region = check_choice(region, "region", REGIONS)
        self.error = check_share(error, "error", positive=True)
        self.corrected = check_flag(corrected, "corrected")
        self.probabilities = check_flag(probabilities, "probabilities")
        self.floor = check_floor(floor, self.probabilities)
        super().__init__()

    @classmethod
    def of(cls, model: Decalibrator, confidence: float = 0.95, *, region: str = "auto") -> Self:
        """From a Decalibrator: its reference model, and the labels it has seen.

        It must be fitted with reference="best" and directions=("class", "temperature"), which
        calibrates as `fit` does. Its errors follow from the number of its labels. `confidence` and
        `region` are as for `LabelShift`.
        """
        require_decalibrator(model)
        if not is_calibrated(model):
            names = ", ".join(direction.name for direction in model.directions)
            raise InputError(
                "model",
                "be calibrated, in shifts and scale",
                f"a Decalibrator with reference={model.reference!r} that moves {names}",
                "Fit it with reference='best', directions=('class', 'temperature'), or use "
                "LabelShift().fit(logits, labels); with calibrate=False if the classifier is "
                "calibrated already.",
            )
        shift = cls(confidence, region=region, probabilities=model.probabilities, floor=model.floor)
        weights, best = model.class_weights, model.reference_model
        total = float(weights.sum())
        calibrated = Calibrated(best.center, best.scale, weights / total, total, model.classes)
        calibrated.warn_of_absent()
        return shift._holding(FrequencyEvidence(calibrated))

    # Learning

    def schema(self, fitted: FrequencyEvidence | None) -> Schema:
        """What it lets in: logits or probabilities of all classes, and masks."""
        if fitted is None:
            return Schema(None, None, self.probabilities, self.floor)
        K, names = len(fitted.calibrated.frequencies), fitted.calibrated.names
        return Schema(K, names, self.probabilities, self.floor)

    def fit(  # type: ignore[override]  # of matrices alone
        self,
        logits: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        classes: Iterable[Any] | None = None,
        frequencies: Any = None,
    ) -> Self:
        """Calibrate on labelled data, and forget what was learnt before.

        Parameters
        ----------
        logits, labels, sample_weight, classes
            As for `Decalibrator.fit`, of examples that the model was not trained on.
        frequencies : (K,) array, mapping or Series, optional
            The class frequencies that the model supposes, with calibrate=False; by name in a
            mapping or a Series. By default those of the labels.
        """
        rows = self.read_labelled(logits, labels, sample_weight=sample_weight, classes=classes)
        fitted = self.learn(rows, whole=True, frequencies=frequencies)
        with self._lock:
            self._fitted = fitted
        return self

    def learn(
        self,
        rows: Rows,
        *,
        whole: bool = True,  # noqa: ARG002
        frequencies: Any = None,
    ) -> FrequencyEvidence:
        """The model calibrated on labelled rows, which are kept."""
        K = rows.shape[1]
        Confidences.of(rows.logits, rows.labels, rows.weights).warn_of_other_order(K)
        try:
            calibrated = calibrate(rows, self.calibrate)
        except ValueError as error:
            raise ValueError(_in_own_words(str(error))) from error
        if frequencies is not None:
            if self.calibrate:
                rule = "not be given with calibrate=True, which takes those of the labels"
                raise InputError("frequencies", rule, remedy="Use LabelShift(calibrate=False).")
            given = check_sums_to_one(by_name(frequencies, rows.classes, K, "frequencies"))
            if len(given) != K:
                raise InputError("frequencies", f"have one number per class, {K}", f"{len(given)}")
            covariance = np.zeros((K + 1, K + 1))  # nothing is estimated
            calibrated = replace(calibrated, frequencies=given, covariance=covariance)
        elif self.calibrate:
            calibrated = replace(calibrated, covariance=from_labels(calibrated, rows))
        else:
            calibrated = replace(calibrated, covariance=from_counts(calibrated))
        calibrated.warn_of_absent()
        return FrequencyEvidence(calibrated, rows)

    def observe(self, logits: Any, *, sample_weight: Any = None) -> Self:
        """Take note of unlabelled (N, K) logits, besides those observed before.

        A `sample_weight` (N,) of 2 counts like two equal rows.
        """
        schema = self.schema(super().fitted)
        return self.add(self.seen(Rows.read(logits, sample_weight=sample_weight, schema=schema)))

    def seen(self, rows: Rows) -> FrequencyEvidence:
        """What unlabelled rows say of class frequencies, which `add` takes note of."""
        calibrated = self.calibrated
        odds = calibrated.odds(rows.logits)
        weights = np.ones(len(odds)) if rows.weights is None else rows.weights
        return FrequencyEvidence(calibrated, pending=(Likelihood(odds, weights),))

    def merge(self, other: Self) -> Self:
        """Take note of what another LabelShift, fitted on the same data, has observed."""
        if not isinstance(other, LabelShift):
            raise InputError("other", "be a LabelShift", type(other).__name__)
        if not self.calibrated.equals(other.calibrated):
            raise InputError(
                "other",
                "be fitted on the same data",
                "one that is calibrated otherwise",
                "Fit one LabelShift, and let copies of it observe.",
            )
        return self.add(other.fitted)

    def unobserved(self) -> Self:
        """A copy that has observed nothing, and does not hold the labelled data."""
        return self._holding(FrequencyEvidence(self.calibrated))

    def _holding(self, fitted: FrequencyEvidence) -> Self:
        result = copy(self)
        result._fitted = fitted
        return result

    @property
    def fitted(self) -> FrequencyEvidence:
        """All that was learnt, of all inputs together."""
        fitted = super().fitted
        if fitted.pending:
            with self._lock:
                fitted = self._fitted = super().fitted.gathered
        return fitted

    @property
    def calibrated(self) -> Calibrated:
        """The model where it was calibrated, and the class frequencies there."""
        return super().fitted.calibrated

    # Asking

    @property
    def frequencies(self) -> Frequencies:
        """How frequent the classes are among the inputs observed, with intervals.

        Each interval is that of the profile likelihood; for region="own", of the segment on which
        the others keep their proportions. That of a class without labels is [0, 1].
        """
        fitted = self.fitted
        calibrated, observed = fitted.calibrated, fitted.require_observed()
        depths = self._quantile(1) / 2 * self._factors(fitted)[1]
        lower, upper = observed.intervals(depths, joint=self._joint(observed))
        absent = calibrated.frequencies == 0
        width = np.where(absent, 0.0, upper - lower)
        lower, upper = np.where(absent, 0.0, lower), np.where(absent, 1.0, upper)
        if observed.likelihood.total >= 100 and np.any(width > 0.5):  # classes look alike
            k = int(np.argmax(width))
            AnswerWarning.warn(
                f"the frequency of class {calibrated.classes[k]} may be anything from "
                f"{lower[k]:.2g} to {upper[k]:.2g}: the model hardly tells it from other classes"
            )
        estimate, before = observed.maximum.frequencies, calibrated.frequencies
        inputs, names = observed.likelihood.total, calibrated.classes
        return Frequencies(estimate, lower, upper, before, self.confidence, inputs, names)

    def test(self) -> ShiftTest:
        """Whether the frequencies differ from those where the model was calibrated.

        The likelihood-ratio test with K - 1 degrees of freedom, and one for each class. With
        corrected=False and very many inputs it finds that the calibration was not perfect.
        """
        from scipy.stats import chi2

        fitted = self.fitted
        calibrated, observed = fitted.calibrated, fitted.require_observed()
        best, likelihood = observed.maximum, observed.likelihood
        seen, freedom = calibrated.frequencies > 0, calibrated.freedom
        joint, single = self._factors(fitted)

        def lost(value: float) -> float:
            return max(2 * (best.value - value), 0.0)

        statistic = lost(float(likelihood.at(calibrated.frequencies[None])[0]))
        each = np.full(len(seen), np.nan)
        if self._joint(observed):
            for k in map(int, np.flatnonzero(seen)):
                rest = most_likely(likelihood.without(k, float(calibrated.frequencies[k])))
                each[k] = chi2.sf(lost(rest.value) / single[k], 1)
        p_value = float(chi2.sf(statistic / joint, freedom)) if freedom else 1.0
        return ShiftTest(statistic, p_value, each, calibrated.classes)

    def predict(  # type: ignore[override]  # its level is its confidence
        self, logits: Any, *, frequencies: Any = None, ids: Any = None
    ) -> IntervalCredalSet:
        """The credal sets of inputs where the classes have other frequencies.

        Parameters
        ----------
        logits : (n, K) array
            Of the same model; or a data frame, with columns named after the classes.
        frequencies : mapping, Series, array or Near, optional
            What if? The least and largest frequency of classes, by name or number, or one number;
            classes not named keep their proportions. Or a (K, 2) array of bounds, (K,) frequencies,
            or all near some, see `decal.shift.Near`. Nothing needs to be observed then.
        ids : str, list of str, or (n,) array, optional
            What names the inputs, as for `Decalibrator.predict`.

        Returns
        -------
        IntervalCredalSet
            Its point is the prediction at the most likely frequencies, with half an input of every
            class added, or at the middle of what is supposed. Of a class that is supposed to occur
            but had no labels any input may be: lower bounds are 0, and its upper bound is 1.
        """
        return self.predict_rows(self.read(logits, ids=ids), frequencies=frequencies)

    def predict_rows(
        self, rows: Rows, *, alpha: Any = None, frequencies: Any = None
    ) -> IntervalCredalSet:
        """As `predict`, of rows that were read before; there is no alpha."""
        fitted = self.fitted
        self.level(alpha)  # refuses any
        names, odds = fitted.calibrated.names, fitted.calibrated.odds(rows.logits)
        if frequencies is not None:
            low, high, point = supposed(odds, frequencies, fitted)
        else:
            observed = fitted.require_observed()
            depth, joint = self.depth(fitted), self._joint(observed)
            low, high = observed.box(odds, depth, joint=joint, error=self.error)
            point = adapted(odds, observed.smoothed)
        low, high = np.minimum(low, point), np.maximum(high, point)
        return IntervalCredalSet(low, high, point=point, classes=names).with_index(rows.ids)

    def level(self, alpha: Any) -> float:
        """One minus its confidence; it has no other level."""
        if alpha is not None:
            rule = "be None for a LabelShift, which has a confidence"
            raise InputError("alpha", rule, f"{alpha!r}")
        return 1 - self.confidence

    def explore(self, logits: Any, **options: Any) -> Any:
        """An interactive page about these predictions, see `decal.explorer.explore_shift`."""
        from decal.explorer import explore_shift

        return explore_shift(self, logits, **options)

    def point(self, logits: Any) -> Array:
        """(n, K) the prediction of logits (n, K) alone: the point of `predict`, without bounds."""
        fitted = self.fitted
        fitted.require_observed()
        return fitted.point(self.read(logits).logits)

    def _joint(self, observed: Observed) -> bool:
        """Whether all frequencies move at once."""
        rows, K = observed.likelihood.ratios.shape
        small = K <= 12 or K * K * rows <= 250_000
        return self.region == "joint" or (self.region == "auto" and small)

    def depth(self, fitted: FrequencyEvidence) -> float:
        """Nats that plausible frequencies may lose, all at once."""
        freedom = fitted.calibrated.freedom
        return self._quantile(freedom) / 2 * self._factors(fitted)[0] if freedom else 0.0

    def _quantile(self, freedom: int) -> float:
        from scipy.stats import chi2

        return float(chi2.ppf(self.confidence, freedom))

    def _factors(self, fitted: FrequencyEvidence) -> tuple[float, Array]:
        """By how much larger statistics of all frequencies, and of each, are than in theory."""
        ones = np.ones(len(fitted.calibrated.frequencies))
        if fitted.bootstrapped is not None:
            joint, single = fitted.bootstrapped
            return joint, single * ones
        if not self.corrected:
            return 1.0, ones
        return fitted.scatter.joint(self.confidence), fitted.scatter.single

    def bootstrapped(
        self, draws: int = 200, *, seed: int = 0, labelled: tuple[Any, ...] | Rows | None = None
    ) -> Self:
        """A copy with regions that allow for few labels by the bootstrap, not to first order.

        All data are drawn again, and the model is calibrated anew. How much more likelihood the
        frequencies found here lose there than in theory replaces the factor of `corrected`.
        Observing more undoes it.

        Parameters
        ----------
        draws, seed : int
            How often, and the seed of the random numbers.
        labelled : tuple or Rows, optional
            The logits and labels, and weights if there were any, that this was fitted on. Needed
            only if it comes from a file, or from `of`: neither holds them.
        """
        draws = check_count(draws, "draws", least=20)
        seed = check_count(seed, "seed", least=0)
        fitted = self.fitted
        rows = fitted.labelled if labelled is None else self._labelled_again(labelled)
        if rows is None:
            raise InputError(
                "labelled",
                "be given to bootstrapped",
                "none, and neither model files nor Decalibrators hold labelled data",
                "Pass labelled=(logits, labels).",
            )
        total = float(len(rows) if rows.weights is None else rows.weights.sum())
        if not np.isclose(total, fitted.calibrated.weight):
            rule = f"be the {fitted.calibrated.weight:,.6g} examples that this was fitted on"
            raise InputError("labelled", rule, f"{total:,.6g}")
        factors = inflated(
            fitted.calibrated,
            fitted.require_observed(),
            rows,
            anew=self.calibrate,
            confidence=self.confidence,
            draws=draws,
            # Not the stream of numbers that somebody may have drawn the data with.
            rng=np.random.default_rng([seed, 19]),
        )
        return self._holding(replace(fitted, labelled=rows, bootstrapped=factors))

    def _labelled_again(self, labelled: Any) -> Rows:
        """The labelled rows, which were read before or are a tuple of arrays."""
        if isinstance(labelled, Rows):
            return labelled
        if not isinstance(labelled, tuple | list) or len(labelled) not in (2, 3):
            rule = "be (logits, labels) or (logits, labels, weights)"
            raise InputError("labelled", rule, type(labelled).__name__)
        logits, labels, weights = (*labelled, None)[:3]
        schema = self.schema(self.fitted)
        return Rows.read(logits, labels, sample_weight=weights, schema=schema)

    # Keeping

    kind = "label shift"

    def described(self) -> tuple[str, str]:
        """Its settings and, once it was fitted, on what; for `repr`."""
        settings = f"confidence={self.confidence:g}, region={self.region!r}"
        if self._fitted is None:
            return settings, ""
        calibrated, inputs = self._fitted.calibrated, self._fitted.inputs
        return settings, (
            f"fitted on {calibrated.weight:,.0f} examples of {len(calibrated.frequencies):,} "
            f"classes, {inputs:,.0f} unlabelled inputs observed"
        )

    @classmethod
    def may_hold(cls, name: str, settings: dict[str, Any]) -> bool:  # noqa: ARG003
        """Whether a file may hold an array of this name."""
        return name in FrequencyEvidence.ARRAYS

    def packed(self) -> tuple[dict[str, Any], Arrays]:
        """Plain settings, and arrays, without labelled data; `unpacked` takes them."""
        settings, arrays = self.fitted.parts()
        return {name: getattr(self, name) for name in SETTINGS} | settings, arrays

    @classmethod
    def unpacked(cls, settings: dict[str, Any], arrays: Arrays) -> Self:
        """From such settings and arrays, which it takes out; ValueError if they are damaged."""
        del settings["version"]
        # Older files do not say whether to correct, and may have a floor of which nothing came.
        given = {name: settings.pop(name) for name in SETTINGS if name in settings}
        given["floor"] = given["floor"] if given["probabilities"] else None
        fitted = FrequencyEvidence.from_parts(settings, arrays, counted=not given["calibrate"])
        return cls(**given)._holding(fitted)


def _in_own_words(message: str) -> str:
    """What a Decalibrator says about data that cannot be calibrated, as settings of LabelShift."""
    message = message.replace(" with the temperature or local sets", "")
    message = message.replace("reference='best'", "calibrate=True")
    return message.replace("reference='model'", "calibrate=False")
