"""Coupled shifts on nasty logits: no plausible shift that a search finds leaves a proved bound."""

import warnings

import numpy as np
from hypothesis import strategies as st
from scipy.special import softmax

import decal
from helpers.attack import attack
from helpers.nasty_logits import likelihoods, problems
from oracles.log_sums import log_sum_exp
from oracles.rays import reach

RAYS = 60
SURE = 1e-10
"""Nats per unit of weight, and relative, by which a shift must be plausible to count as such."""

ROUND_OFF = 1e-9
"""Of probabilities: what a shift so little inside the region may differ from its boundary."""

SIZES = (0.0, 1e-30, 0.1, 1.0, 3.0, 30.0, 300.0)


class Region:
    """The plausible shifts, by definition."""

    def __init__(self, problem, alpha, likelihood, reference):
        counted = problem.counted_weights > 0
        self.logits = problem.logits.astype(np.float64)[counted]
        self.labels, self.weights = problem.labels[counted], problem.counted_weights[counted]
        W = self.weights.sum()
        lost = -np.log(alpha) * (W if likelihood == "mean" else 1.0)
        start = self.log_likelihood(reference)
        self.level = start - lost + SURE * (W + abs(start) + lost)

    def log_likelihood(self, shifts):
        """Of shifts (..., K)."""
        moved = self.logits + np.asarray(shifts)[..., None, :]
        rows = moved[..., np.arange(len(self.labels)), self.labels] - log_sum_exp(moved)
        return rows @ self.weights

    def furthest(self, start, rays):
        """Where rays leave the region, and points on the way."""

        def plausible(t):
            return self.log_likelihood(start + t[:, None] * rays) >= self.level

        near = reach(plausible, len(rays))
        ends = start + near[:, None] * rays
        return np.concatenate([ends, start + 0.7 * near[:, None] * rays])


def draw_rays(rng, K):
    single = np.concatenate([np.eye(K), -np.eye(K)])
    signs = rng.choice([-1.0, 0.0, 1.0], (RAYS // 2, K))
    return np.concatenate([single, signs, rng.normal(size=(RAYS // 2, K))])


@attack(
    "coupled bounds",
    25,
    problem=problems(sizes=SIZES, masks=("-1e4",), max_rows=10, max_classes=4),
    alpha=st.sampled_from((0.99, 0.9, 0.5, 0.1, 1e-3)),
    likelihood=likelihoods,
    reference=st.sampled_from(("best", "model")),
    certify=st.sampled_from(("auto", "full", "none")),
)
def test_no_plausible_shift_leaves_a_proved_bound(problem, alpha, likelihood, reference, certify):
    rng = np.random.default_rng(problem.seed)
    K = problem.classes
    d = decal.CoupledDecalibrator(
        alpha, likelihood=likelihood, reference=reference, certify=certify, tol=1e-6
    )
    start, present = np.zeros(K), problem.present
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.FitWarning)
        d.fit(problem.logits, problem.labels, sample_weight=problem.weights)
        if reference == "best":
            # At the best shift classes without labels are left out: far down comes close to it.
            start = np.where(present, 0.0, -np.inf)
            if present.sum() > 1:
                one_at_a_time = decal.Decalibrator(0.5, reference="best")
                one_at_a_time.fit(problem.logits, problem.labels, sample_weight=problem.weights)
                start = one_at_a_time.reference_model.center
    region = Region(problem, alpha, likelihood, start)
    start = np.where(np.isneginf(start), -2e4 if "-1e4" in problem.mask else -500.0, start)
    queries = np.concatenate([problem.logits[:2].astype(np.float64), rng.normal(size=(1, K))])
    found = d.predict(queries)
    assert (found.lower_outer <= found.lower).all()
    assert (found.lower <= found.upper).all()
    assert (found.upper <= found.upper_outer).all()
    shifts = region.furthest(start, draw_rays(rng, K))
    shifts = shifts[region.log_likelihood(shifts) >= region.level]
    for row, low, high in zip(queries, found.lower_outer, found.upper_outer, strict=True):
        p = softmax(row + shifts, axis=1)
        assert (p >= low - ROUND_OFF).all(), (row, low, p.min(axis=0, initial=1))
        assert (p <= high + ROUND_OFF).all(), (row, high, p.max(axis=0, initial=0))
