"""Which rows to label next: against greedy k-centre written out, and its guarantees."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal.evaluate.acquisition import most_informative, spread_out, standardised
from helpers.strategies import at_most


def greedy_centres(points, count):
    """Farthest-first traversal by its definition: again and again the point furthest from all."""
    chosen = [0]
    while len(chosen) < count:
        left = [i for i in range(len(points)) if i not in chosen]
        chosen.append(
            max(left, key=lambda i: (min(np.sum((points[i] - points[j]) ** 2) for j in chosen), -i))
        )
    return chosen


def radius(points, chosen):
    return max(min(np.linalg.norm(p - points[j]) for j in chosen) for p in points)


@at_most(60)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 3), st.booleans())
def test_centres_are_those_of_the_definition(seed, m, d, tied):
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 3, size=(m, d)).astype(float) if tied else rng.normal(size=(m, d))
    count = int(rng.integers(1, m + 1))
    assert spread_out(points, count).tolist() == greedy_centres(points, count)


def test_no_point_is_chosen_twice():
    with pytest.raises(ValueError, match="count must be at most the number of points, 3: got 4"):
        spread_out(np.zeros((3, 2)), 4)
    with pytest.raises(ValueError, match="count must be a whole number, at least 1: got 0"):
        spread_out(np.zeros((3, 2)), 0)


def test_the_radius_is_at_most_twice_the_least():
    rng = np.random.default_rng(1)
    for _ in range(20):
        points = rng.normal(size=(9, 2))
        least = min(radius(points, chosen) for chosen in combinations(range(9), 3))
        assert radius(points, spread_out(points, 3)) <= 2 * least + 1e-12


@pytest.fixture
def pool():
    rng = np.random.default_rng(2)
    logits, labels = rng.normal(size=(30, 4)) * 3, rng.integers(0, 4, 30)
    new = rng.normal(size=(50, 4)) * 3
    return decal.decalibrate(logits, labels, alpha=0.98).predict(new), new


@pytest.mark.parametrize("measure", ["zero_one", "width", "entropy", "total"])
def test_candidates_are_the_most_uncertain_rows_and_centres_are_taken_of_them(pool, measure):
    credal, logits = pool
    score = credal.total() if measure == "total" else credal.epistemic(measure)
    ranked = sorted(range(50), key=lambda i: -score[i])
    found = most_informative(credal, logits, 4, measure=measure, shortlist=5)
    z = logits - logits.mean(axis=1, keepdims=True)
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    candidates = ranked[:20]
    assert found.tolist() == [candidates[i] for i in greedy_centres(z[candidates], 4)]
    alone = most_informative(credal, logits, 4, measure=measure, shortlist=1)
    assert alone.tolist() == ranked[:4]


def test_constants_of_rows_do_not_count_and_masked_classes_are_allowed(pool):
    credal, logits = pool
    moved = logits + np.arange(50)[:, None]
    wanted = most_informative(credal, logits, 6)
    assert most_informative(credal, moved, 6).tolist() == wanted.tolist()
    masked = logits.copy()
    masked[::3, 1] = -np.inf
    assert np.isfinite(standardised(masked)).all()
    everywhere = logits.copy()
    everywhere[:, 1] = -np.inf
    assert np.isfinite(standardised(everywhere)).all()
    assert len(set(most_informative(credal, masked, 50))) == 50


def test_rows_that_coincide_are_each_taken_once():
    logits = np.zeros((8, 3))
    credal = decal.IntervalCredalSet(np.full((8, 3), 0.2), np.full((8, 3), 0.5))
    assert most_informative(credal, logits, 8).tolist() == list(range(8))


def test_rows_without_members_are_never_chosen():
    lower, upper = np.full((6, 2), 0.3), np.full((6, 2), 0.7)
    lower[[1, 4]] = 0.9
    credal = decal.IntervalCredalSet(lower, np.maximum(lower, upper))
    logits = np.arange(12.0).reshape(6, 2)
    assert sorted(most_informative(credal, logits, 4)) == [0, 2, 3, 5]
    with pytest.raises(ValueError, match="count must be at most .* members, 4 of 6: got 5"):
        most_informative(credal, logits, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((3, 2)), 1), r"logits must have the shape of the credal sets, \(50, 4\)"),
        ((np.full((50, 4), np.nan), 1), "logits must be"),
        ((np.zeros((50, 4)), 0), "count must be a whole number, at least 1: got 0"),
        ((np.zeros((50, 4)), 51), "count must be at most"),
    ],
)
def test_bad_input_is_named(pool, arguments, message):
    with pytest.raises(ValueError, match=message):
        most_informative(pool[0], *arguments)
    with pytest.raises(ValueError, match="shortlist must be a whole number"):
        most_informative(*pool, 2, shortlist=0)
    with pytest.raises(ValueError, match="measure must be one of"):
        most_informative(*pool, 2, measure="surprise")


def test_the_most_uncertain_rows_have_the_largest_sets_then_the_largest_upper_entropy():
    lower = [[0.0, 0.0, 0.9], [0.0, 0.3, 0.3], [0.1, 0.3, 0.2], [0.6, 0.6, 0.0], [0.0, 0.3, 0.3]]
    upper = [[0.1, 0.1, 1.0], [0.4, 0.6, 0.6], [0.2, 0.6, 0.6], [0.7, 0.7, 0.1], [0.4, 0.6, 0.6]]
    sets = decal.IntervalCredalSet(lower, upper)
    assert decal.evaluate.acquisition.most_uncertain(sets).tolist() == [1, 4, 2, 0, 3]
    # At the cap, where upper entropies are all ln K, the larger lower entropy comes first.
    wide = decal.IntervalCredalSet([[0.0, 0.0, 0.0], [0.2, 0.2, 0.2]], [[1.0] * 3, [0.6] * 3])
    assert decal.evaluate.acquisition.most_uncertain(wide).tolist() == [1, 0]
    assert decal.evaluate.acquisition.most_uncertain(sets, 2).tolist() == [1, 4]
    with pytest.raises(ValueError, match="count must be a whole number, at least 1: got 0"):
        decal.evaluate.acquisition.most_uncertain(sets, 0)
