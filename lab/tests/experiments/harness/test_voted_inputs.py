"""Labels drawn from people's votes, and what their votes prove."""

import numpy as np
import pytest

import decal
from decal_lab.experiments.harness import voted_inputs
from lab_helpers.experiment_files import as_votes, softmax


def test_labels_are_drawn_without_replacement_where_votes_are_counted():
    votes = np.array([[3.0, 1.0, 0.0], [1.0, 0.0, 1.0]] * 2000)
    people = voted_inputs.Voted(np.zeros_like(votes), votes, counted=True)
    drawn = people.drawn("2", np.random.default_rng(0))
    assert (drawn.number == 2).all()
    assert (drawn.counts <= votes).all()
    assert (drawn.counts[1::2] == votes[1::2]).all()  # two of two
    # Hypergeometric: both of class 0 with probability (3/4)(2/3).
    assert (drawn.counts[::2, 0] == 2).mean() == pytest.approx(0.5, abs=0.04)
    all_of_them = people.drawn("10", np.random.default_rng(0))
    assert (all_of_them.counts == people.drawn("all", np.random.default_rng(0)).counts).all()
    shares = voted_inputs.Voted(people.logits, people.shares, counted=False)
    assert not shares.drawn("all", np.random.default_rng(0)).counted
    twice = shares.drawn("2", np.random.default_rng(0))
    # With replacement: (3/4)^2.
    assert (twice.counts[::2, 0] == 2).mean() == pytest.approx(9 / 16, abs=0.04)


def test_what_is_proved_holds_of_the_truth():
    """In a world with a known truth and a quarter of the balls too small: no more are proved."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(3), size=4000)
    z = np.log(truth)
    z[::4, 0] += 2
    votes = as_votes(rng, truth, 20)
    new = voted_inputs.Voted(z, votes.astype(float), counted=True)
    ball = decal.KLCredalSet(softmax(z), 0.15)
    held = ball.contains(truth, atol=0).mean()
    assert 0.75 <= held < 0.9
    assert voted_inputs.proved(ball, new) < held + 0.01
    v, thresholds = ball.divergence(new.shares), [0.15 * i / 60 for i in range(60)]

    def missed(rows, s):
        return np.maximum(v[rows] - s, 0).mean() / (0.15 - s)

    even, odd = slice(0, None, 2), slice(1, None, 2)
    found = [
        missed(one, min(thresholds, key=lambda s: missed(other, s)))
        for one, other in ((even, odd), (odd, even))
    ]
    assert voted_inputs.proved(ball, new) == pytest.approx(1 - np.mean(found))
    assert voted_inputs.proved(decal.KLCredalSet(softmax(z), 30.0), new) > 0.97
