"""How often people disagree, and how much of that sets account for."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import decal
from decal import InputError, Votes
from decal.credal import disagreement_range
from decal.evaluate import disagreement
from oracles import votes as oracle
from oracles.decisions import BOX_KINDS, random_boxes


@pytest.mark.parametrize("kind", BOX_KINDS)
def test_the_range_in_a_box_is_that_of_its_corners_and_its_level_member(kind):
    rng = np.random.default_rng(BOX_KINDS.index(kind))
    for K in (2, 3, 5, 7):
        lower, upper = random_boxes(rng, 8, K, kind)[:2]
        credal = decal.IntervalCredalSet(lower, upper)
        credal = credal[~credal.is_empty].tighten()
        least, most = disagreement_range(credal.lower, credal.upper)
        for row in range(len(credal)):
            box = credal.lower[row], credal.upper[row]
            assert least[row] == pytest.approx(oracle.least_disagreement(*box), abs=1e-9)
            assert most[row] == pytest.approx(oracle.greatest_disagreement(*box), abs=1e-9)


def test_the_greatest_is_that_of_a_quadratic_program():
    lower, upper = np.array([0.05, 0.3, 0.0, 0.1]), np.array([0.2, 0.8, 0.1, 0.6])
    found = minimize(
        lambda p: p @ p,
        np.full(4, 0.25),
        bounds=list(zip(lower, upper, strict=True)),
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
    )
    box = decal.IntervalCredalSet([lower], [upper]).tighten()
    assert disagreement_range(box.lower, box.upper)[1][0] == pytest.approx(1 - found.fun, abs=1e-6)


def test_hundreds_of_classes_are_done_exactly():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(300, 0.05), 4)
    box = decal.IntervalCredalSet(0.7 * p, np.minimum(p + 0.05, 1)).tighten()
    least, most = disagreement_range(box.lower, box.upper)
    for row in range(4):
        level = oracle.greatest_disagreement(box.lower[row], box.upper[row])
        assert most[row] == pytest.approx(level, abs=1e-9)
        assert 0 <= least[row] <= 1 - (p[row] ** 2).sum() <= most[row]


def sample(seed, n=300, K=3, m=5):
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(K), n)
    counts = np.array([rng.multinomial(m, p) for p in truth])
    return truth, counts


def test_what_is_observed_is_the_share_of_pairs_that_differ():
    truth, counts = sample(1)
    counts[:3] = [[1, 0, 0], [2, 0, 0], [1, 1, 1]]
    low, high = np.maximum(truth - 1e-3, 0), np.minimum(truth + 1e-3, 1)
    credal = decal.IntervalCredalSet(low, high, point=truth)
    found = disagreement(credal, Votes.of_counts(counts))
    np.testing.assert_array_equal(found.inputs, np.arange(1, 300))
    expected = [oracle.pairs_that_differ(row) for row in counts[1:]]
    np.testing.assert_allclose(found.observed, expected, atol=1e-12)
    np.testing.assert_allclose(found.expected, 1 - (truth[1:] ** 2).sum(axis=1))
    assert abs(found.remains) <= 3 * found.error  # the sets hold the truth
    assert found.error == pytest.approx(np.std(expected, ddof=1) / np.sqrt(299))


def test_on_average_labels_differ_as_their_distribution_says():
    p = np.array([0.5, 0.3, 0.2])
    average = sum(w * oracle.pairs_that_differ(counts) for counts, w in oracle.draws(4, p))
    assert average == pytest.approx(1 - p @ p)
    shares = disagreement(decal.IntervalCredalSet([p], [p]), Votes.of_distributions([p]))
    assert shares.observed[0] == pytest.approx(1 - p @ p)


def test_sets_that_are_too_sure_leave_disagreement_unexplained():
    _, counts = sample(2)
    sure = np.tile([[0.98, 0.01, 0.01]], (300, 1))
    credal = decal.IntervalCredalSet(sure, sure, point=sure)
    found = disagreement(credal, Votes.of_counts(counts))
    assert found.remains == pytest.approx(found.observed.mean() - (1 - (sure[0] ** 2).sum()))
    level = np.full((300, 3), 1 / 3)
    found = disagreement(decal.IntervalCredalSet(level, level), Votes.of_counts(counts))
    assert found.remains < 0
    assert "plain prediction" not in repr(found)
    wide = decal.IntervalCredalSet(np.zeros((300, 3)), np.ones((300, 3)))
    found = disagreement(wide, Votes.of_counts(counts))
    assert found.remains == 0
    np.testing.assert_allclose((found.lower, found.upper), ([0.0] * 300, [2 / 3] * 300), atol=1e-9)


def test_balls_and_hulls_stand_for_their_boxes():
    truth, counts = sample(3, n=20)
    votes = Votes.of_counts(counts)
    for credal in (
        decal.KLCredalSet(truth, 0.1),
        decal.HullCredalSet(np.stack([truth, truth[:, ::-1]], axis=1)),
    ):
        found, of_box = disagreement(credal, votes), disagreement(credal.box(), votes)
        np.testing.assert_array_equal(found.lower, of_box.lower)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([[1, 2]], "votes must be decal.Votes: got a list"),
        (Votes.of_counts([[1, 2, 0]]), "votes must be of 1 input and 2 classes: got Votes: 1 inp"),
        (Votes.of_counts([[1, 2]], classes="ba"), "be of the classes a, b: got votes for b, a"),
        (Votes.of_counts([[1, 0]]), "votes must hold two labels of an input: got one of each"),
    ],
)
def test_other_votes_are_refused(votes, message):
    credal = decal.IntervalCredalSet([[0.2, 0.3]], [[0.7, 0.8]], classes=["a", "b"])
    with pytest.raises(decal.InputError, match=message):
        disagreement(credal, votes)


def test_votes_must_be_in_the_order_of_the_sets():
    names = np.array(["P-1", "P-2"])
    credal = decal.IntervalCredalSet(np.zeros((2, 2)), np.ones((2, 2))).with_index(names)
    frame = pd.DataFrame([[2, 1], [0, 3]], columns=["a", "b"], index=names)
    assert disagreement(credal, Votes.of_counts(frame)).inputs.tolist() == [0, 1]
    with pytest.raises(InputError, match="votes must .*order"):
        disagreement(credal, Votes.of_counts(frame[::-1]))
