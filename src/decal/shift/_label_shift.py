"""LabelShift: what a model predicts where the classes are more, or less, frequent than before."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from decal._base.checks import (
    check_choice,
    check_count,
    check_flag,
    check_share,
    check_weights,
)
from decal._base.confidences import Confidences
from decal._base.data_frames import (
    by_name,
    class_columns,
    id_columns,
    index_of,
    is_frame,
    require_same_order,
)
from decal._base.errors import IN_ARRAY, AnswerWarning, NotFittedError, Place
from decal._base.inputs import (
    REMEDY,
    check_floor,
    read_labelled,
    read_logits,
    require_possible_labels,
)
from decal._base.numerics import Array, Logits
from decal._base.settings import FrozenSettings
from decal.credal import IntervalCredalSet
from decal.decalibrator import Decalibrator, require_decalibrator
from decal.io import model_files
from decal.shift._calibrated import Calibrated, calibrate, check_sums_to_one, is_calibrated
from decal.shift._frequency_evidence import SETTINGS, FrequencyEvidence, read_shift, write_shift
from decal.shift._likelihood import Likelihood, most_likely
from decal.shift._nearby import supposed
from decal.shift._observed import Observed
from decal.shift._results import Frequencies, ShiftTest
from decal.shift._scatter import Labelled, from_counts, from_labels, inflated
from decal.shift._what_if import adapted, class_number

JOINT_CLASSES, JOINT_WORK = 12, 250_000
"""With more classes, and their square times observed inputs larger than this, region="auto" moves
one frequency at a time."""

REGIONS = ("auto", "joint", "own")


class LabelShift(FrozenSettings):
    """Credal sets where the classes have other frequencies, from unlabelled inputs.

    If only the frequencies of the classes change, from pi to v, while inputs of each class look as
    before, the probabilities of a calibrated model become r_k v_k / pi_k, normalised. Unlabelled
    inputs tell which v are plausible, and the credal set of an input holds what all of them
    predict.

    Parameters
    ----------
    confidence : float
        Of the plausible frequencies, in (0, 1): the region of the likelihood ratio that holds the
        true frequencies so often, for many inputs.
    calibrate : bool
        Whether `fit` first calibrates the logits by the best shifts and scale. Without, the model
        must be calibrated.
    region : str
        "joint", all frequencies at once. "own", one frequency at a time while the others keep their
        proportions: smaller, a part of the region. "auto" is "joint" for up to 12 classes, and for
        more while their squared number times that of observed inputs is at most 250,000.
    error : float
        How much wider than exact bounds of "joint" may be, in (0, 1): an upper bound is never below
        the exact one, and above it by at most so much. The smaller, the longer it takes; from
        1e-6 down Newton's method solves every problem.
    corrected : bool
        Whether regions and p-values allow for the labels being few. Without, they suppose that the
        calibration has no error, and are too narrow with more unlabelled inputs than labels.
    probabilities, floor
        As for `Decalibrator`: what is given are probabilities, and how small they may be.

    Notes
    -----
    **What it supposes.** Inputs of a class look the same as where the model was calibrated (label
    shift), and shifts and scale suffice to calibrate the model there. The level of the region
    holds for many inputs and labels: Wilks' theorem, with the covariance of the calibration's
    errors to first order. With a hundred labels or fewer, `bootstrapped` is better.

    Probabilities are linear-fractional in the frequencies, and plausible frequencies a convex set,
    so both bounds of "joint" are global: at most `error` too wide, and never too narrow.

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
        self._learnt: FrequencyEvidence | None = None
        self._learning = threading.Lock()

    @classmethod
    def of(
        cls, model: Decalibrator, confidence: float = 0.95, *, region: str = "auto"
    ) -> LabelShift:
        """From a Decalibrator: its reference model, and the labels it has seen.

        Parameters
        ----------
        model : Decalibrator
            Fitted with reference="best" and directions=("class", "temperature"), which calibrates
            as `fit` does. Others are refused: what they take an input for is not calibrated, and
            they do not hold the rows that would calibrate it.
        confidence, region
            As for `LabelShift`.

        Notes
        -----
        A Decalibrator does not hold its labelled rows. How large the errors of its calibration are
        is found from the number of its labels, and from the inputs observed: it supposes that the
        calibrated model is right, where `fit` need not.
        """
        require_decalibrator(model)
        if not is_calibrated(model):
            names = ", ".join(direction.name for direction in model.directions)
            raise ValueError(
                "model must be calibrated, in shifts and scale: got a Decalibrator with reference="
                f"{model.reference!r} that moves {names}. Fit it with reference='best', "
                "directions=('class', 'temperature'), or use LabelShift().fit(logits, labels); "
                "with calibrate=False if the classifier is calibrated already."
            )
        shift = cls(
            confidence,
            region=region,
            probabilities=model.probabilities,
            floor=model.floor,
        )
        weights, reference = model.class_weights, model.reference_model
        total = float(weights.sum())
        calibrated = Calibrated(
            reference.center, reference.scale, weights / total, total, model.classes
        )
        calibrated.warn_of_absent()
        shift._learnt = FrequencyEvidence(calibrated)
        return shift

    # Learning

    def fit(
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
        logits : (n, K) array
            Of examples that the model was not trained on; or a data frame with a column per class.
        labels : (n,) array
            Integers 0..K-1, or names of classes.
        sample_weight : (n,) array, optional
            A weight of 2 counts like two equal rows.
        classes : iterable, optional
            K names.
        frequencies : (K,) array, mapping or Series, optional
            The class frequencies that the model supposes, with calibrate=False; by name in a
            mapping or a Series. By default those of the labels.

        Returns
        -------
        self
        """
        z, y, w, names = read_labelled(logits, labels, sample_weight, classes, self._read)
        require_possible_labels(z, y, probabilities=self.probabilities, floor=self.floor)
        Confidences.of(z, y, w).warn_of_other_order(z.shape[1])
        try:
            calibrated = calibrate(z, y, w, names, self.calibrate)
        except ValueError as error:
            raise ValueError(_in_own_words(str(error))) from error
        if frequencies is not None:
            if self.calibrate:
                raise ValueError(
                    "frequencies must not be given with calibrate=True, which takes those of the "
                    "labels. Use LabelShift(calibrate=False)."
                )
            given = check_sums_to_one(by_name(frequencies, names, z.shape[1], "frequencies"))
            if len(given) != z.shape[1]:
                raise ValueError(
                    f"frequencies must have one number per class, {z.shape[1]}: got {len(given)}."
                )
            covariance = np.zeros(2 * (len(given) + 1,))  # nothing is estimated
            calibrated = replace(calibrated, frequencies=given, covariance=covariance)
        elif self.calibrate:
            calibrated = replace(calibrated, covariance=from_labels(calibrated, (z, y, w)))
        else:
            calibrated = replace(calibrated, covariance=from_counts(calibrated))
        calibrated.warn_of_absent()
        with self._learning:
            self._learnt = FrequencyEvidence(calibrated, (z, y, w))
        return self

    def observe(self, logits: Any, *, sample_weight: Any = None) -> Self:
        """Take note of unlabelled inputs, besides those observed before.

        Parameters
        ----------
        logits : (N, K) array
            Of the same model.
        sample_weight : (N,) array, optional
            A weight of 2 counts like two equal rows.

        Returns
        -------
        self
        """
        calibrated = self._fitted.calibrated
        require_same_order(logits=logits, sample_weight=sample_weight)
        z = self._read(logits, calibrated)
        return self._add(self._observed_checked(z, check_weights(sample_weight, rows=len(z))))

    def _observed_checked(self, logits: Logits, weights: Array | None = None) -> Likelihood:
        """What inputs say that were checked where they were read: K numbers of each."""
        odds = self._fitted.calibrated.odds(logits)
        return Likelihood(odds, np.ones(len(odds)) if weights is None else weights)

    def merge(self, other: LabelShift) -> Self:
        """Take note of what another LabelShift, fitted on the same data, has observed."""
        if not isinstance(other, LabelShift):
            raise ValueError(f"other must be a LabelShift: got {type(other).__name__}.")
        if not self._fitted.calibrated.equals(other._known.calibrated):
            raise ValueError(
                "other must be fitted on the same data: got one that is calibrated otherwise. "
                "Fit one LabelShift, and let copies of it observe."
            )
        inputs = other._known.observed
        return self if inputs is None else self._add(inputs.likelihood)

    def _add(self, more: Likelihood) -> Self:
        with self._learning:
            self._learnt = self._fitted.with_inputs(more)
        return self

    def _unobserved(self) -> LabelShift:
        """A copy that has observed nothing, and does not hold the labelled data."""
        result = copy(self)
        result._learnt = FrequencyEvidence(self._fitted.calibrated)
        return result

    def _taking_logits(self) -> LabelShift:
        """A copy for logits that were converted where they were read."""
        return self._with(probabilities=False, floor=None)

    # Asking

    @property
    def frequencies(self) -> Frequencies:
        """How frequent the classes are among the inputs observed, with intervals.

        Each interval is that of the profile likelihood with one degree of freedom; for
        region="own", along the segment on which the others keep their proportions. That of a class
        without labels is [0, 1]: nothing tells its inputs from others.
        """
        known = self._known
        calibrated, observed = known.calibrated, known.require_observed()
        lower, upper = observed.intervals(self._depths(known), joint=self._joint(observed))
        absent = calibrated.frequencies == 0
        width = np.where(absent, 0.0, upper - lower)
        lower, upper = np.where(absent, 0.0, lower), np.where(absent, 1.0, upper)
        if observed.likelihood.total >= 100 and np.any(width > 0.5):  # classes look alike
            k = int(np.argmax(width))
            warnings.warn(
                f"the frequency of class {calibrated.classes[k]} may be anything from "
                f"{lower[k]:.2g} to {upper[k]:.2g}: the model hardly tells it from other classes",
                AnswerWarning,
                stacklevel=2,
            )
        return Frequencies(
            observed.maximum.frequencies,
            lower,
            upper,
            calibrated.frequencies,
            self.confidence,
            observed.likelihood.total,
            calibrated.classes,
        )

    def test(self) -> ShiftTest:
        """Whether the frequencies differ from those where the model was calibrated.

        The likelihood-ratio test with K - 1 degrees of freedom, and one for each class; statistics
        are divided by the factor that regions are enlarged by. With corrected=False and very many
        inputs it finds that the calibration was not perfect.
        """
        from scipy.stats import chi2

        known = self._known
        calibrated, observed = known.calibrated, known.require_observed()
        best, likelihood = observed.maximum, observed.likelihood
        seen, freedom = calibrated.frequencies > 0, calibrated.freedom
        single = self._inflations(known)

        def lost(value: float) -> float:
            return max(2 * (best.value - value), 0.0)

        statistic = lost(float(likelihood.at(calibrated.frequencies[None])[0]))
        each = np.full(len(seen), np.nan)
        if self._joint(observed):
            for k in map(int, np.flatnonzero(seen)):
                rest = most_likely(likelihood.without(k, float(calibrated.frequencies[k])))
                each[k] = chi2.sf(lost(rest.value) / single[k], 1)
        p_value = float(chi2.sf(statistic / self._inflation(known), freedom)) if freedom else 1.0
        return ShiftTest(statistic, p_value, each, calibrated.classes)

    def predict(
        self, logits: Any, *, frequencies: Any = None, ids: Any = None
    ) -> IntervalCredalSet:
        """The credal sets of inputs where the classes have other frequencies.

        Parameters
        ----------
        logits : (n, K) array
            Of the same model; or a data frame, with columns named after the classes.
        frequencies : mapping, Series, array or Near, optional
            What if? The least and largest frequency of classes, by name or number; the classes not
            named keep their proportions to each other. A single number fixes a frequency. Or a
            (K, 2) array of bounds, or (K,) frequencies; or all near some, see `decal.shift.Near`.
            Nothing needs to be observed then.
        ids : str, list of str, or (n,) array, optional
            What names the inputs, as for `Decalibrator.predict`.

        Returns
        -------
        IntervalCredalSet
            Its point is the prediction at the most likely frequencies, with half an input of every
            class added, or at the middle of what is supposed. If a class is supposed to occur that
            had no labels, any input may be of it: lower bounds are 0, and its upper bound is 1.
        """
        known = self._known
        calibrated, matrix = known.calibrated, logits
        if is_frame(logits):
            others = id_columns(logits, ids)
            matrix, _ = class_columns(logits, calibrated.names, others=others)
        z = self._read(matrix, calibrated)
        sets = self._predict_checked(z, frequencies, known)
        return sets.with_index(index_of(logits, ids, rows=len(z)))

    def _predict_checked(
        self, logits: Logits, frequencies: Any = None, known: FrequencyEvidence | None = None
    ) -> IntervalCredalSet:
        """`predict` of logits (n, K) that were checked where they were read."""
        known = known or self._known
        calibrated = known.calibrated
        odds = calibrated.odds(logits)
        if frequencies is not None:
            low, high, point = supposed(odds, frequencies, known)
        else:
            observed = known.require_observed()
            depth = self._depth(known)
            low, high = observed.box(odds, depth, joint=self._joint(observed), error=self.error)
            point = adapted(odds, observed.smoothed)
        return IntervalCredalSet(
            np.minimum(low, point), np.maximum(high, point), point=point, classes=calibrated.names
        )

    def explore(self, logits: Any, **options: Any) -> Any:
        """An interactive page about these predictions, see `decal.explorer.explore_shift`."""
        from decal.explorer import explore_shift

        return explore_shift(self, logits, **options)

    def point(self, logits: Any) -> Array:
        """(n, K) the prediction alone: the point of `predict`, without its bounds.

        Parameters
        ----------
        logits : (n, K) array
            Of the same model; or a data frame, with columns named after the classes.
        """
        known = self._known
        known.require_observed()
        return self._point_checked(self._read(logits, known.calibrated), known)

    def _point_checked(self, logits: Logits, known: FrequencyEvidence | None = None) -> Array:
        """`point` of checked logits; at the frequencies before if nothing was observed."""
        known = known or self._known
        observed, calibrated = known.observed, known.calibrated
        at = calibrated.frequencies if observed is None else observed.smoothed
        return adapted(calibrated.odds(logits), at)

    def _read(
        self,
        logits: Any,
        known: Calibrated | None = None,
        *,
        place: Place = IN_ARRAY,
        empty: bool = False,
        warn: bool = True,
    ) -> Logits:
        """Logits of all classes, if these are known; the columns of a frame by name."""
        return read_logits(
            logits,
            probabilities=self.probabilities,
            floor=self.floor,
            names=None if known is None else known.names,
            classes=None if known is None else len(known.frequencies),
            place=place,
            empty=empty,
            remedy=REMEDY if warn else None,
        )

    def _joint(self, observed: Observed) -> bool:
        """Whether all frequencies move at once."""
        rows, K = observed.likelihood.ratios.shape
        small = K <= JOINT_CLASSES or K * K * rows <= JOINT_WORK
        return self.region == "joint" or (self.region == "auto" and small)

    def _depth(self, known: FrequencyEvidence) -> float:
        """Nats that plausible frequencies may lose, all at once."""
        freedom = known.calibrated.freedom
        return self._quantile(freedom) / 2 * self._inflation(known) if freedom else 0.0

    def _depths(self, known: FrequencyEvidence) -> Array:
        """(K,) nats that plausible values of each frequency may lose."""
        return self._quantile(1) / 2 * self._inflations(known)

    def _quantile(self, freedom: int) -> float:
        from scipy.stats import chi2

        return float(chi2.ppf(self.confidence, freedom))

    def _inflation(self, known: FrequencyEvidence) -> float:
        """By how much larger the statistic of all frequencies is than theory says."""
        if known.bootstrapped is not None:
            return known.bootstrapped[0]
        return known.scatter.joint(self.confidence) if self.corrected else 1.0

    def _inflations(self, known: FrequencyEvidence) -> Array:
        """(K,) by how much larger the statistic of each frequency alone is than theory says."""
        ones = np.ones(len(known.calibrated.frequencies))
        if known.bootstrapped is not None:
            return known.bootstrapped[1] * ones
        return known.scatter.single if self.corrected else ones

    def bootstrapped(
        self, draws: int = 200, *, seed: int = 0, labelled: tuple[Any, ...] | None = None
    ) -> LabelShift:
        """A copy with regions that allow for few labels by the bootstrap, not to first order.

        Labelled and unlabelled data are drawn again; each time the model is calibrated anew, and
        the likelihood that the frequencies found here lose there is compared with theory. Regions
        and p-values of the result are scaled by the factor that makes its quantile right, instead
        of that of `corrected`.

        Parameters
        ----------
        draws : int
            How often.
        seed : int
            Of the draws.
        labelled : tuple, optional
            The logits and labels, and weights if there were any, that this was fitted on. Needed
            only if it comes from a file, or from `of`: neither holds them.

        Returns
        -------
        LabelShift
            With the same data. Observing more undoes it.
        """
        draws = check_count(draws, "draws", least=20)
        seed = check_count(seed, "seed", least=0)
        if labelled is None:
            return self._bootstrapped_checked(draws, seed)
        if not isinstance(labelled, tuple | list) or len(labelled) not in (2, 3):
            raise ValueError(
                "labelled must be (logits, labels) or (logits, labels, weights): got "
                f"{type(labelled).__name__}."
            )
        calibrated = self._fitted.calibrated
        z, y, w, _ = read_labelled(
            labelled[0],
            labelled[1],
            labelled[2] if len(labelled) == 3 else None,
            calibrated.names,
            lambda values: self._read(values, calibrated),
        )
        return self._bootstrapped_checked(draws, seed, (z, y, w))

    def _bootstrapped_checked(
        self, draws: int, seed: int, labelled: Labelled | None = None
    ) -> LabelShift:
        """`bootstrapped` with labelled data, if any, that were checked where they were read."""
        known = self._known
        known = replace(known, labelled=labelled or known.labelled)
        if known.labelled is None:
            raise ValueError(
                "labelled must be given to bootstrapped: got none, and neither model files nor "
                "Decalibrators hold labelled data. Pass labelled=(logits, labels)."
            )
        _, y, w = known.labelled
        total, before = float(len(y) if w is None else w.sum()), known.calibrated.weight
        if not np.isclose(total, before):
            raise ValueError(
                f"labelled must be the {before:,.6g} examples that this was fitted on: got "
                f"{total:,.6g}."
            )
        bootstrapped = inflated(
            known.calibrated,
            known.require_observed(),
            known.labelled,
            anew=self.calibrate,
            confidence=self.confidence,
            draws=draws,
            # Not the stream of numbers that somebody may have drawn the data with.
            rng=np.random.default_rng([seed, 19]),
        )
        result = copy(self)
        result._learnt = replace(known, bootstrapped=bootstrapped)
        return result

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes, if they have any."""
        return self._fitted.calibrated.names

    def _class(self, name: Any) -> tuple[int, str]:
        """The number and the name of a class, given by either; of the last one, for None."""
        classes = self._fitted.calibrated.classes
        k = len(classes) - 1 if name is None else class_number(name, classes, "of")
        return k, classes[k]

    @property
    def _fitted(self) -> FrequencyEvidence:
        """All that was learnt, as it lies; readers of inputs take `_known`."""
        learnt = self._learnt
        if learnt is None:
            raise NotFittedError(
                "this LabelShift must be fitted first: it has seen no labelled data. Call fit."
            )
        return learnt

    @property
    def _known(self) -> FrequencyEvidence:
        """All that was learnt. Readers take it once: it may be replaced, but never changes."""
        learnt = self._fitted
        if learnt.pending:
            with self._learning:
                learnt = self._learnt = self._fitted.gathered
        return learnt

    # Keeping

    def __repr__(self) -> str:
        settings = f"confidence={self.confidence:g}, region={self.region!r}"
        if self._learnt is None:
            return f"LabelShift({settings}), not fitted"
        calibrated, inputs = self._learnt.calibrated, self._learnt.inputs
        return (
            f"LabelShift({settings}), fitted on {calibrated.weight:,.0f} examples of "
            f"{len(calibrated.frequencies):,} classes, {inputs:,.0f} unlabelled inputs observed"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_learning"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _learning=threading.Lock())

    def save(self, path: str | Path | BinaryIO, *, compressed: bool = True) -> None:
        """Write calibration and unlabelled inputs to one file (.npz, no pickle).

        Parameters
        ----------
        path : path or file
            Where to; or a file open for writing bytes. Of each observed input, K numbers.
        compressed : bool
            Whether to compress it.
        """
        settings = {name: getattr(self, name) for name in SETTINGS}
        write_shift(path, settings, self._known, compressed=compressed)

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Self:
        """Read what `save` wrote. Runs no code from the file, so files of strangers are safe."""
        settings, known = read_shift(path)
        with model_files.intact(Path(path) if isinstance(path, str) else path):
            model = cls(**settings)
        model._learnt = known
        return model


def _in_own_words(message: str) -> str:
    """What a Decalibrator says about data that cannot be calibrated, as settings of LabelShift."""
    for theirs, ours in (
        ("reference='best' with the temperature or local sets", "calibrate=True"),
        ("reference='best'", "calibrate=True"),
        ("reference='model'", "calibrate=False"),
    ):
        message = message.replace(theirs, ours)
    return message
