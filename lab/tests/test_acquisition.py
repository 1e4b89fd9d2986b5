"""Which rows to label next: against greedy k-centre written out, and its guarantees."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal_lab.acquisition import most_informative, spread_out, standardised
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


def test_logits_of_a_frame_are_found_by_name_and_must_be_in_the_order_of_the_sets(pool):
    pandas = pytest.importorskip("pandas")
    credal, logits = pool
    names, rows = ["a", "b", "c", "d"], [f"P-{i}" for i in range(50)]
    sets = decal.IntervalCredalSet(credal.lower, credal.upper, classes=names).with_index(rows)
    table = pandas.DataFrame(logits, columns=names, index=rows)
    # Distances do not depend on the order of columns; what has no such column is another model's.
    wanted = most_informative(sets, logits, 5).tolist()
    assert most_informative(sets, table[names[::-1]], 5).tolist() == wanted
    with pytest.raises(ValueError, match="logits must have a column for each of the 4 classes"):
        most_informative(sets, table.rename(columns={"a": "hat"}), 5)
    with pytest.raises(ValueError, match=r"must be in the order of .*: got .* in row 0, where"):
        most_informative(sets, table.iloc[::-1], 5)
