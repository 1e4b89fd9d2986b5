"""Is some distribution within the sets calibrated? The test of Jürgens et al. (2025)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from decal.credal import CredalSet, HullCredalSet
from decal.evaluate.refutation import NOT_VALID, LabelledSets
from decal_lab.checks import Array, Indices, check_count, check_level, row_blocks
from decal_lab.members._families import Family, MixedVertices, TiltedBoxes

BANDWIDTH = 0.5
"""Of the kernel, relative to the median distance between landmarks."""

LEAST_PROBABILITY = 1e-12
"""A label that no member makes more probable than this costs as much as if one did."""

ITERATIONS, PRECISION = 40, 1e10
"""When a search stops: after so many steps, or when one gains less than this many roundings."""

TRIED, SEARCHED = 64, 3
"""The error has many local minima: members tried at random, and searches from the best of them."""

ROUND_OFF = 1e-12
"""Errors that differ by less, relatively, count as equal."""

DRAWN_ELEMENTS = 1 << 18
"""Numbers that a block of drawn label vectors may hold."""

Objective = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True, eq=False, repr=False)
class CalibratedMember:
    """The member that looks most calibrated, and whether labels refute that it is.

    Attributes
    ----------
    p_value : float
        Of "some member of the family is calibrated".
    statistic : float
        The squared kernel calibration error of the member, relative to what labels drawn from the
        member itself would give on average: about 1 if it is calibrated. The mean of that of all
        classes and that of the most probable class.
    member : (n, K) array
        The member, a distribution for each input.
    level : float
        The p-value up to which the labels refute.
    examples : int
        Number of labels.
    draws : int
        Label vectors drawn for the p-value.
    """

    p_value: float
    statistic: float
    member: Array
    level: float
    examples: int
    draws: int

    @property
    def refuted(self) -> bool:
        """Whether the labels refute that a member of the family is calibrated."""
        return self.p_value <= self.level

    def __repr__(self) -> str:
        said = "no member of the family is calibrated" if self.refuted else "not refuted"
        return (
            f"CalibratedMember: {said}, p-value {self.p_value:.3g} (level {self.level:g}), "
            f"{self.examples:,} examples\n"
            f"  calibration error {self.statistic:.3g} times what chance gives a calibrated member"
            + ("" if self.refuted else f"\n  {NOT_VALID}")
        )


def calibrated_member(
    credal: CredalSet,
    labels: Any,
    *,
    level: float = 0.05,
    draws: int = 499,
    landmarks: int = 32,
    seed: int = 0,
) -> CalibratedMember:
    """Whether labels refute that some distribution within the sets is calibrated.

    A predictor q(x) is calibrated (in distribution) if P(Y = k | q(X)) = q_k(X) for all classes.
    Sets that hold the truth hold a calibrated member, the truth. Jürgens et al. (2025) search for
    the member with the smallest calibration error and test it.

    **The null hypothesis**: some member *of the family* is calibrated. For boxes the family is one
    scale and K shifts of the prediction, each result brought into its box; for hulls, mixtures of
    the vertices whose weights depend on how sure each vertex is. Other kinds of sets are tested by
    their boxes, which hold them.

    **The test.** The statistic is the squared kernel calibration error of Widmann et al. (2019),
    the mean of k(q(x), q(x')) <e_y - q(x), e_y' - q(x')> over pairs, and the same for the most
    probable class alone. Given the member's predictions, and if it is calibrated, labels are
    independent draws from them: so the rank of each statistic among those of drawn labels gives an
    exact p-value for this member, at every n; the smaller of the two counts twice. The p-value
    reported is the largest found over the family, by minimising the log-loss and, from several
    members, the mean of the statistics. It is at least that of a calibrated member, if the search
    is as good as that member: a better search can only raise it.

    **What it does not say.** A small p-value says that no member of this family is calibrated; the
    truth may lie in the sets and outside the family. `refute` needs no family. A large p-value does
    not say that sets are valid: a calibrated member can be far from the truth at every input (the
    class frequencies, for all inputs, are calibrated).

    Parameters
    ----------
    credal : CredalSet
        n inputs, K classes; fixed without looking at these labels.
    labels : (n,) integers
        Their labels, not used to train or fit the model.
    level : float
        The p-value up to which the result says "refuted", in (0, 1).
    draws : int
        Label vectors drawn per p-value, which is at least 2 / (draws + 1).
    landmarks : int
        Predictions, taken at random, that the kernel compares with.
    seed : int
        Of the landmarks, the search and the draws. The result depends on nothing else.

    See Also
    --------
    refute : Needs no family; a refutation proves that sets miss the truth.

    Notes
    -----
    Differs from the paper in: no part of the data is set aside to find the member, for the largest
    p-value over the family needs none and the member of the paper, found on few data, is not
    calibrated itself even if another one is (its test rejects too often); the kernel is a sum over
    landmarks z of g(q, z) g(q', z), g a Gaussian of the Hellinger distance, which costs O(n)
    instead of O(n²); the family has a few parameters and is no neural network.

    Some hundred evaluations of O(n K landmarks) each, and draws × O(n landmarks).

    References
    ----------
    Jürgens, Mortier, Hüllermeier, Bengs, Waegeman, "A calibration test for evaluating set-based
    epistemic uncertainty representations", arXiv 2502.16299. Widmann, Lindsten, Zachariah,
    "Calibration tests in multi-class classification", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1, 1, 1], size=500)
    >>> y = (p.cumsum(axis=1) < rng.random((500, 1))).sum(axis=1)
    >>> around = decal.IntervalCredalSet(0.9 * p, 0.9 * p + 0.1, point=p)
    >>> decal.calibration.calibrated_member(around, y).refuted
    False
    >>> decal.calibration.calibrated_member(around, (y + 1) % 3).refuted
    True
    """
    data = LabelledSets.of(credal, labels)
    level = check_level(level)
    draws, landmarks = check_count(draws, "draws"), check_count(landmarks, "landmarks")
    rng = np.random.default_rng(check_count(seed, "seed", least=0))
    family: Family
    if isinstance(credal, HullCredalSet):
        family = MixedVertices.of(credal.vertices)
    else:
        family = TiltedBoxes.around(data.lower, data.upper, data.point)
    error = KernelError.at(data.point, landmarks, rng)
    found = _search(family, error, data.labels, rng)
    uniforms = rng.random((draws, len(data.labels)))
    tested = [
        (error.p_value(q, data.labels, uniforms), error.relative(q, data.labels), q) for q in found
    ]
    # Of members of equal p-values, that of the smallest error.
    p_value, statistic, member = max(tested, key=lambda test: (test[0], -test[1]))
    member.flags.writeable = False
    return CalibratedMember(p_value, statistic, member, level, len(credal), draws)


def _search(
    family: Family, error: KernelError, labels: Indices, rng: np.random.Generator
) -> list[Array]:
    """Members to test: the start, the one of the least log-loss, and those of the least error."""

    def calibration_error(parameters: Array) -> tuple[float, Array]:
        q = family.members(parameters)
        value, slope = error.relative_with_slope(q, labels)
        return value, family.pull_back(parameters, q, slope)

    starts = [family.start, most_likely(family, labels)]
    low, high = np.transpose(family.bounds)
    steps = rng.normal(size=(TRIED // len(starts), len(starts), len(low)))
    tried = [*starts, *np.clip(np.array(starts) + steps, low, high).reshape(-1, len(low))]
    tried.sort(key=lambda parameters: error.relative(family.members(parameters), labels))
    found = [_least(calibration_error, parameters, family) for parameters in tried[:SEARCHED]]
    return [family.members(parameters) for parameters in (*starts, *found)]


def most_likely(family: Family, labels: Indices) -> Array:
    """The parameters of the least log-loss."""
    rows = np.arange(len(labels))

    def log_loss(parameters: Array) -> tuple[float, Array]:
        q = family.members(parameters)
        right = np.maximum(q[rows, labels], LEAST_PROBABILITY)
        slope = np.zeros_like(q)
        slope[rows, labels] = -1 / (len(labels) * right)
        return float(-np.log(right).mean()), family.pull_back(parameters, q, slope)

    return _least(log_loss, family.start, family)


def _least(objective: Objective, start: Array, family: Family) -> Array:
    """Parameters at which a search from the start ends."""
    from scipy.optimize import fmin_l_bfgs_b  # imported here because it takes a while

    found = fmin_l_bfgs_b(
        objective, start, bounds=family.bounds, maxiter=ITERATIONS, factr=PRECISION
    )
    return np.asarray(found[0])


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Places that predictions are compared with: g(v, z) = exp(-|v - z|² / (2 h²)).

    Attributes
    ----------
    places : (m, d) array
        The landmarks z.
    bandwidth : float
        h.
    """

    places: Array
    bandwidth: float

    @classmethod
    def among(cls, places: Array) -> Landmarks:
        """Landmarks with a bandwidth by their median distance."""
        squares = np.maximum(_squared_distances(places, places), 0.0)
        apart = np.sqrt(squares[np.triu_indices(len(places), 1)])
        median = float(np.median(apart)) if len(apart) else 0.0
        return cls(places, BANDWIDTH * median if median > 0 else 1.0)

    def features(self, v: Array) -> Array:
        """(n, m) similarity of every row of v (n, d) to every landmark."""
        squares = np.maximum(_squared_distances(v, self.places), 0.0)
        similar: Array = np.exp(-squares / (2 * self.bandwidth**2))
        return similar

    def relative(self, v: Array, rest: Array, spread: Array) -> tuple[float, Array, Array, Array]:
        """The squared sums of residuals near the landmarks over what chance gives, and its slopes.

        Parameters
        ----------
        v : (n, d) array
            What is compared.
        rest : (n, c) array
            What happened minus what was expected.
        spread : (n,) array
            The expected square of each row of `rest`.

        Returns
        -------
        float and (n, d), (n, c), (n,) arrays
            The value, 0 if nothing is left to chance nor happened against it, and its slopes.
        """
        g = self.features(v)
        gaps = g.T @ rest
        weight = np.sum(g**2, axis=1)
        error, chance = float(np.sum(gaps**2)), float(weight @ spread)
        if chance <= 0:
            return (0.0 if error == 0 else np.inf), 0 * v, 0 * rest, 0 * spread
        value = error / chance
        pull = 2 * g * (rest @ gaps.T - value * g * spread[:, None]) / self.bandwidth**2
        by_place = pull @ self.places - pull.sum(axis=1, keepdims=True) * v
        return value, by_place / chance, 2 * g @ gaps / chance, -value * weight / chance


@dataclass(frozen=True, eq=False)
class KernelError:
    """Relative calibration errors: of all classes, and of the most probable one; their mean.

    A calibrated prediction has neither. With many classes, predictions that are too sure show in
    the second long before they show in the first.
    """

    strong: Landmarks
    confidence: Landmarks

    @classmethod
    def at(cls, predictions: Array, landmarks: int, rng: np.random.Generator) -> KernelError:
        """With some of the predictions as landmarks."""
        roots = np.sqrt(predictions[rng.permutation(len(predictions))[:landmarks]])
        return cls(Landmarks.among(roots), Landmarks.among(roots.max(axis=1, keepdims=True)))

    def relative(self, q: Array, labels: Indices) -> float:
        """The error over its mean if labels were drawn from q."""
        return self.relative_with_slope(q, labels)[0]

    def relative_with_slope(self, q: Array, labels: Indices) -> tuple[float, Array]:
        """The relative error, and its slope (n, K) in the members."""
        rows, top = np.arange(len(q)), q.argmax(axis=1)
        root = np.sqrt(np.maximum(q, LEAST_PROBABILITY))
        rest = -q
        rest[rows, labels] += 1
        all_classes, by_root, by_rest, by_spread = self.strong.relative(
            root, rest, 1 - np.sum(q**2, axis=1)
        )
        slope = by_root / (2 * root) - by_rest - 2 * by_spread[:, None] * q
        sure = q[rows, top]
        hit = (labels == top) - sure
        most_probable, by_root, by_rest, by_spread = self.confidence.relative(
            root[rows, top, None], hit[:, None], sure * (1 - sure)
        )
        slope[rows, top] += by_root[:, 0] / (2 * root[rows, top]) - by_rest[:, 0]
        slope[rows, top] += by_spread * (1 - 2 * sure)
        return (all_classes + most_probable) / 2, slope / 2

    def p_value(self, q: Array, labels: Indices, uniforms: Array) -> float:
        """Twice the smaller share, of the two errors, of label vectors drawn from q or given whose
        error is at least as large as that of the given ones: the test of either error.
        """
        from scipy.sparse import csc_array

        n, K = q.shape
        rows, top = np.arange(n), q.argmax(axis=1)
        root, sure = np.sqrt(np.maximum(q, LEAST_PROBABILITY)), q[rows, top]
        g, h = self.strong.features(root), self.confidence.features(root[rows, top, None])
        expected, top_expected = q.T @ g, sure @ h

        def errors(y: Indices) -> Array:
            """(2, D) both errors of D label vectors (D, n)."""
            D = len(y)
            ends, cells = np.arange(n + 1) * D, (np.arange(D) * K + y.T).ravel()
            ones = csc_array((np.ones(D * n), cells, ends), shape=(D * K, n))
            strong = np.sum(((ones @ g).reshape(D, K, -1) - expected) ** 2, axis=(1, 2))
            return np.stack([strong, np.sum(((y == top) @ h - top_expected) ** 2, axis=1)])

        given = errors(labels[None]) * (1 - ROUND_OFF)
        # One search in all rows' cumulative distributions: row i lies between i and i + 1.
        cumulative = np.cumsum(q, axis=1)
        cumulative = np.minimum(cumulative / cumulative[:, -1:], 1.0)
        shelves = (cumulative + rows[:, None]).ravel()
        as_large = np.ones(2)
        for block in row_blocks(len(uniforms), n + K * g.shape[1], elements=DRAWN_ELEMENTS):
            drawn = np.searchsorted(shelves, uniforms[block] + rows, side="right") - rows * K
            as_large += np.sum(errors(np.clip(drawn, 0, K - 1)) >= given, axis=1)
        return min(1.0, 2 * float(as_large.min()) / (1 + len(uniforms)))


def _squared_distances(one: Array, other: Array) -> Array:
    squares: Array = np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1) - 2 * one @ other.T
    return squares
