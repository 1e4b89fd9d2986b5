"""What boxes and hulls answer, against exact rational arithmetic on all their vertices."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import decal
from helpers.attack import attack
from oracles import decisions as cases
from oracles import rational

CLOSE = 1e-12
"""Round-off of an answer, relative to the largest value in it."""

GAME = 4e-9
"""Margin at which a game's answer is not told apart from a tie."""

BOX_KINDS = ("dyadic", "tiny", "wide", "narrow", "point", "vacuous", "mixed")
UTILITIES = (*cases.UTILITY_KINDS, "large")
seeds = st.integers(0, 2**32 - 1)


def make_box(seed, K, kind):
    """Bounds (K,) of floats that some rational distribution satisfies exactly."""
    rng = np.random.default_rng(seed)
    digits = {"dyadic": 4, "point": 6, "narrow": 30}.get(kind, 40)
    parts = rng.multinomial(2**digits, rng.dirichlet(np.full(K, rng.choice([0.2, 1.0, 5.0]))))
    p = parts / 2.0**digits  # sums to one, exactly
    if kind == "point":
        return p, p
    if kind == "vacuous":
        return np.zeros(K), np.ones(K)
    down, up = rng.random((2, K))
    if kind == "dyadic":
        down, up = np.floor(4 * down) / 4, np.floor(4 * up) / 4
    elif kind == "narrow":
        down, up = 2.0**-20 * down, 2.0**-20 * up
    elif kind == "tiny":
        down, up = down ** rng.choice([1, 40, 400]), up ** rng.choice([1, 40, 400])
    elif kind == "mixed":
        down, up = down * (rng.random(K) < 0.5), up * (rng.random(K) < 0.5)
    lower, upper = p * (1 - down), p + (1 - p) * up
    return np.minimum(lower, p), np.minimum(np.maximum(upper, p), 1.0)


def make_utility(seed, K, kind):
    rng = np.random.default_rng(seed + 1)
    U = cases.random_utility(rng, K, "random" if kind == "large" else kind)[:5]
    return U * 10.0 ** rng.uniform(-200, 200) if kind == "large" else U


def earned_at(vertices, utility):
    """(M, A) expected utilities, and the largest utility."""
    rows = [rational.expectations(vertices, u) for u in utility]
    largest = max((abs(Fraction(float(u))) for u in utility.ravel()), default=Fraction(1))
    return list(zip(*rows, strict=True)), largest or Fraction(1)


def check_decisions(credal, vertices, utility):
    """Every rule keeps what the definition keeps, and takes what is best: ties either way."""
    earned, unit = earned_at(vertices, np.eye(credal.shape[1]) if utility is None else utility)
    actions = range(len(earned[0]))
    margins = {
        "interval_dominance": (rational.dominance_margin, CLOSE),
        "maximality": (rational.maximality_margin, CLOSE),
        "e_admissible": (rational.admissible_margin, GAME),
    }
    for rule, (margin, tie) in margins.items():
        kept = credal.decide(rule, utility=utility)[0]
        for a in actions:
            lead = float(margin(earned, a) / unit)
            if lead >= 0:
                assert kept[a], (rule, a, lead)
            elif lead < -4 * tie:
                assert not kept[a], (rule, a, lead)
    worst = [min(row[a] for row in earned) for a in actions]
    best = [max(row[a] for row in earned) for a in actions]
    middle = [(w + b) / 2 for w, b in zip(worst, best, strict=True)]
    regrets = [-rational.regret(earned, a) for a in actions]
    values = {
        "gamma_maximin": worst,
        "gamma_maximax": best,
        "hurwicz": middle,
        "minimax_regret": regrets,
    }
    for rule, value in values.items():
        taken = int(credal.decide(rule, utility=utility)[0])
        assert float((max(value) - value[taken]) / unit) <= 4 * CLOSE, (rule, taken)


def check_expectation(credal, vertices, values):
    earned = rational.expectations(vertices, values)
    found = credal.expectation(values)
    largest = float(np.abs(values).max())
    for bound, expected in zip(found, (min(earned), max(earned)), strict=True):
        assert abs(float(Fraction(float(bound[0])) - expected)) <= CLOSE * largest


@attack(
    "decisions over boxes",
    120,
    seed=seeds,
    K=st.integers(2, 4),
    kind=st.sampled_from(BOX_KINDS),
    utility=st.sampled_from((None, *UTILITIES)),
)
def test_boxes_decide_as_their_vertices_say(seed, K, kind, utility):
    lower, upper = make_box(seed, K, kind)
    vertices = rational.box_vertices(lower, upper)
    credal = decal.IntervalCredalSet(lower[None], upper[None])
    U = None if utility is None else make_utility(seed, K, utility)
    check_decisions(credal, vertices, U)
    check_expectation(credal, vertices, np.arange(K) if U is None else U[0])


@attack(
    "measures of boxes",
    120,
    seed=seeds,
    K=st.integers(2, 5),
    kind=st.sampled_from(BOX_KINDS),
)
def test_measures_of_boxes_are_those_of_their_vertices(seed, K, kind):
    lower, upper = make_box(seed, K, kind)
    vertices = rational.box_vertices(lower, upper)
    credal = decal.IntervalCredalSet(lower[None], upper[None])
    least, most = rational.reachable(vertices)
    tight = credal.tighten()
    for found, expected in ((tight.lower[0], least), (tight.upper[0], most)):
        np.testing.assert_allclose(found, [float(x) for x in expected], rtol=0, atol=CLOSE)
    width = sum(b - a for a, b in zip(least, most, strict=True)) / K
    assert credal.epistemic("width")[0] == pytest.approx(float(width), abs=CLOSE)
    assert credal.epistemic("zero_one")[0] == pytest.approx(
        float(rational.zero_one(vertices)), abs=4 * CLOSE
    )
    with mpmath.workdps(30):
        low, high = (x[0] for x in credal.entropy())
        assert low == pytest.approx(float(min(map(rational.entropy, vertices))), abs=CLOSE)
        level = rational.most_level(lower, upper)
        assert high == pytest.approx(float(rational.entropy(level)), abs=CLOSE)
        hartley = float(rational.hartley(least, most))
        assert credal.epistemic("hartley")[0] == pytest.approx(hartley, abs=16 * CLOSE)


def make_hull(seed, M, K, kind):
    """Vertices (M, K) of floats that sum to one exactly: multiples of 2^-40."""
    rng = np.random.default_rng(seed)
    v = cases.random_hulls(rng, 1, M, K, kind)[0]
    v = np.floor(v * 2.0**40) / 2.0**40
    v[np.arange(M), v.argmax(axis=1)] += 1.0 - v.sum(axis=1)
    return v


@attack(
    "decisions over hulls",
    80,
    seed=seeds,
    M=st.integers(1, 5),
    K=st.integers(2, 4),
    kind=st.sampled_from(cases.HULL_KINDS),
    utility=st.sampled_from((None, *UTILITIES)),
)
def test_hulls_decide_as_their_vertices_say(seed, M, K, kind, utility):
    v = make_hull(seed, M, K, kind)
    vertices = [tuple(rational.rationals(row)) for row in v]
    assume(all(sum(row) == 1 for row in vertices))
    credal = decal.HullCredalSet(v[None])
    U = None if utility is None else make_utility(seed, K, utility)
    check_decisions(credal, vertices, U)
    check_expectation(credal, vertices, np.arange(K) if U is None else U[0])
    expected = float(rational.zero_one(vertices))
    found = credal.epistemic("zero_one")[0]
    # A class that nearly is the most probable one somewhere may count, or not.
    margins = [abs(float(rational.admissible_margin(vertices, j))) for j in range(K)]
    if all(m == 0 or m > 4 * GAME for m in margins):
        assert found == pytest.approx(expected, abs=GAME)


def entropy_bracket(v, steps=100):
    """A value that some mixture attains and one that none exceeds, by Frank and Wolfe's method.

    For any q, the entropy of a mixture p is at most its cross-entropy against q, which is linear in
    p and so largest at a vertex.
    """
    v = v[:, v.any(axis=0)]
    w = np.full(len(v), 1 / len(v))
    attained, bound = 0.0, np.inf
    for _ in range(steps):
        p = np.maximum(w @ v, 1e-300)  # weights may have gone to 0
        entropy = float(-(p * np.log(p)).sum())
        cross = -(v * np.log(p)).sum(axis=1)
        attained, bound = max(attained, entropy), min(bound, float(cross.max()))
        if bound - attained < 1e-12:
            break
        used = np.flatnonzero(w > 0)
        to, away = int(cross.argmax()), int(used[cross[used].argmin()])
        direction = v[to] - v[away]
        low, high = 0.0, float(w[away])
        for _ in range(50):
            middle = (low + high) / 2
            q = p + middle * direction
            with np.errstate(divide="ignore", invalid="ignore"):
                rises = -np.nansum(direction * np.log(np.maximum(q, 1e-300))) > 0
            low, high = (middle, high) if rises else (low, middle)
        w[to] += low
        w[away] -= low
    return attained, bound


@attack(
    "entropies of hulls",
    60,
    seed=seeds,
    M=st.integers(1, 5),
    K=st.integers(2, 5),
    kind=st.sampled_from(cases.HULL_KINDS),
)
def test_entropies_of_hulls_lie_in_their_brackets(seed, M, K, kind):
    v = make_hull(seed, M, K, kind)
    credal = decal.HullCredalSet(v[None])
    low, high = (x[0] for x in credal.entropy())
    with mpmath.workdps(30):
        least = min(rational.entropy(rational.rationals(row)) for row in v)
    assert low == pytest.approx(float(least), abs=CLOSE)
    attained, bound = entropy_bracket(v)
    assert attained - 1e-9 <= high <= bound + 1e-9, (high, attained, bound)
    certified = credal.upper_entropy()
    assert float(certified.bound[0]) >= attained - CLOSE
