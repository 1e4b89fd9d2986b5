"""Budgets of several shapes against their formula, and Bernoulli prediction sets against APS."""

import math

import numpy as np
import pytest

import decal
from decal_lab.experiments.harness import unhelpful_sets, voted_inputs
from lab_helpers.experiment_files import as_votes, draw


def test_constant_budgets_are_those_of_markov_and_jensen():
    rng = np.random.default_rng(1)
    z, _, truth = draw(rng, 1400, 3)
    z = z + 0.0
    known = voted_inputs.Voted(z[:400], as_votes(rng, truth[:400], 5).astype(float), counted=True)
    new = voted_inputs.Voted(z[400:], truth[400:].astype(float), counted=False)
    votes = known.drawn("all", rng)
    arguments = (known.logits, votes, new, 0.2, 0)
    found = unhelpful_sets.budgeted(*arguments, kind=unhelpful_sets.CONSTANT)
    first, rest = np.split(np.random.default_rng([0, 7]).permutation(400), [120])
    model = decal.decalibrate(
        known.logits[first],
        votes[first],
        alpha=0.5,
        directions=[decal.Local(mix=0.001)],
        reference="auto",
    )
    c, p = model.predict_ball(known.logits).center, votes.shares
    v = np.where(p > 0, p * np.log(np.where(p > 0, p, 1) / c), 0).sum(axis=1)
    most = math.log(3 / 0.001)
    budgets = [
        s + (np.maximum(v[rest] - s, 0).sum() + most - s) / (281 * 0.2)
        for s in np.linspace(0, most, 1000, endpoint=False)
    ]
    best = decal.KLCredalSet(model.predict_ball(new.logits).center, min(budgets))
    assert found["efficiency"] == pytest.approx(decal.metrics.efficiency(best), abs=0.01)
    assert found["held"] >= 0.8
    pytest.importorskip("sklearn")
    for kind in (unhelpful_sets.BY_ENTROPY, unhelpful_sets.LEARNT):
        assert unhelpful_sets.budgeted(*arguments, kind=kind)["held"] >= 0.8


def test_bernoulli_sets_with_one_radius_are_those_of_aps():
    rng = np.random.default_rng(2)
    z, _, truth = draw(rng, 1000, 5)
    people = voted_inputs.Voted(z, as_votes(rng, truth, 10).astype(float), counted=True)
    assert unhelpful_sets.same_as_aps(people[:500], people[500:], 0) == 1
