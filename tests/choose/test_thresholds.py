"""Thresholds against their definitions, and what they promise in worlds that are known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decal.choose._order import allowed, needed, share_threshold, slip_threshold
from decal.choose._thresholds import (
    Threshold,
    cost_threshold,
    kept_of_batch,
    rate_threshold,
    tail,
)
from oracles import triage as oracle

RATES = st.sampled_from([1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4])
VALUES = np.array([-math.inf, -1.0, 0.0, 0.5, 1.0, 2.0, math.inf])


@st.composite
def labelled(draw):
    """Few rows, with many ties; drawn by a seed, which is quicker than number by number."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = int(rng.integers(1, 13))
    return rng.choice(VALUES, n), rng.random(n) < rng.choice([0.1, 0.5, 1.0])


def kept_by(threshold, scores):
    return ~Threshold(threshold).handed(scores)


def ranks(scores):
    """Whole numbers in the order of the scores: above all of them there is always a threshold."""
    return np.unique(scores, return_inverse=True)[1]


@settings(max_examples=80)
@given(labelled(), RATES)
def test_the_slip_threshold_keeps_the_most_that_its_definition_allows(rows, rate):
    scores, wrong = rows
    found = slip_threshold(scores, wrong, rate)
    wanted = oracle.largest_for_slips(ranks(scores).tolist(), wrong.tolist(), rate)
    assert (kept_by(found, scores) == (ranks(scores) < wanted)).all()


@settings(max_examples=80)
@given(labelled(), RATES)
def test_the_cost_threshold_costs_least(rows, cost):
    scores, wrong = rows
    found = cost_threshold(scores, wrong, cost)
    kept = kept_by(found, scores)
    spent = (wrong & kept).sum() + cost * (~kept).sum()
    assert spent == float(oracle.least_cost(ranks(scores).tolist(), wrong.tolist(), cost))


@settings(max_examples=80)
@given(labelled(), RATES)
def test_a_share_hands_over_no_more_than_it_may(rows, share):
    scores, _ = rows
    found = share_threshold(scores, share)
    handed = (~kept_by(found, scores)).sum()
    if found > -math.inf:
        assert handed + 1 <= max(1, share * (len(scores) + 1))
    else:
        assert share * (len(scores) + 1) > len(scores)


@pytest.mark.parametrize("rate", [1 / 64, 0.5, 0.75])
@pytest.mark.parametrize(("errors", "rows"), [(0, 0), (0, 7), (3, 7), (7, 7), (9, 7), (2, 30)])
def test_the_tail_is_that_of_a_binomial(errors, rows, rate):
    found = tail(errors, rows, rate)
    assert found == pytest.approx(oracle.binomial_tail(min(errors, rows), rows, rate), abs=1e-12)


@settings(max_examples=80)
@given(labelled(), labelled(), RATES)
def test_batches_are_selected_by_benjamini_and_hochberg(rows, batch, rate):
    scores, wrong = rows
    found = kept_of_batch(batch[0], scores[wrong], len(scores), rate)
    assert found.tolist() == oracle.selected(batch[0], scores, wrong, rate)


@settings(max_examples=100)
@given(st.integers(1, 2000), st.floats(1e-6, 1, exclude_max=True))
def test_as_many_are_allowed_as_the_rate_says(rows, rate):
    k = allowed(rate, rows)
    assert k / (rows + 1) <= rate < (k + 1) / (rows + 1)


def test_a_rate_that_no_count_can_show_hands_everything_over():
    scores, wrong = np.arange(100.0), np.zeros(100, dtype=bool)
    found = rate_threshold(scores, wrong, 0.01, 0.9, plan=(scores, wrong))
    assert found == -math.inf  # 0.99^100 is 0.37


def test_a_rate_is_met_with_as_few_rows_as_theory_needs():
    scores, wrong = np.arange(230.0), np.zeros(230, dtype=bool)
    found = rate_threshold(scores, wrong, 0.01, 0.9, plan=(scores, wrong))
    assert found == math.inf  # 0.99^230 is 0.099
    scores[-50:] = math.inf  # which a threshold of inf keeps, too, and so does its test
    found = rate_threshold(scores, wrong, 0.01, 0.9, plan=(scores, wrong))
    assert kept_by(found, scores).all()


# What is promised. Worlds are made to be hard: the error rate of what is kept is what was asked
# for just where a threshold would be set, scores may tie, and the score may mislead.


def world(kind, rng, n):
    s = rng.random(n)
    if kind == "ties":
        s = np.ceil(10 * s) / 10
    chance = {"even": 0.2 + 0 * s, "backwards": 0.4 * (1 - s)}.get(kind, 0.4 * s)
    wrong = rng.random(n) < chance
    return np.where(s > 0.6, math.inf, s) if kind == "infinite" else s, wrong


def risk(kind, threshold, most=200_001):
    """Error rate below a threshold, and share of rows kept and wrong, nearly exactly."""
    s = (np.arange(most) + 0.5) / most
    values = np.ceil(10 * s) / 10 if kind == "ties" else s
    base = values if kind == "ties" else s
    chance = {"even": 0.2 + 0 * s, "backwards": 0.4 * (1 - s)}.get(kind, 0.4 * base)
    kept = values < threshold
    slip = float(chance[kept].sum() / most)
    return slip / max(float(kept.mean()), 1e-12), slip


WORLDS = ["rising", "ties", "even", "backwards"]


@pytest.mark.parametrize("kind", WORLDS)
def test_new_rows_slip_as_rarely_as_promised(kind):
    rng = np.random.default_rng(1)
    rates = [risk(kind, slip_threshold(*world(kind, rng, 59), 0.1), 20_001)[1] for _ in range(400)]
    assert np.mean(rates) <= 0.1 + 3 * np.std(rates) / 20
    if kind == "rising":  # and not for want of trying: 6 of 60 is just 0.1
        assert np.mean(rates) >= 0.1 - 4 * np.std(rates) / 20


@pytest.mark.parametrize("kind", WORLDS)
def test_error_rates_hold_with_the_confidence_promised(kind):
    rng = np.random.default_rng(2)
    broken = 0
    for _ in range(300):
        plan, rows = world(kind, rng, 150), world(kind, rng, 150)
        found = rate_threshold(*rows, 0.15, 0.8, plan=plan)
        broken += risk(kind, found, 20_001)[0] > 0.15 if found > -math.inf else 0
    assert broken / 300 <= 0.2 + 3 * math.sqrt(0.2 * 0.8 / 300)


@pytest.mark.parametrize("kind", WORLDS)
def test_batches_hold_no_more_errors_than_promised(kind):
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(600):
        scores, wrong = world(kind, rng, 60)
        batch, bad = world(kind, rng, 25)
        kept = kept_of_batch(batch, scores[wrong], 60, 0.15)
        shares.append(bad[kept].mean() if kept.any() else 0.0)
    assert np.mean(shares) <= 0.15 + 3 * np.std(shares) / math.sqrt(600)


@pytest.mark.parametrize("kind", ["rising", "ties", "infinite"])
def test_new_rows_are_handed_over_no_more_often_than_the_budget(kind):
    rng = np.random.default_rng(4)
    handed = []
    for _ in range(400):
        found = share_threshold(world(kind, rng, 39)[0], 0.25)
        handed.append(1 - kept_by(found, world(kind, rng, 200)[0]).mean())
    assert np.mean(handed) <= 0.25 + 3 * np.std(handed) / 20
    if kind == "rising":
        assert np.mean(handed) >= 0.25 - 4 * np.std(handed) / 20


@given(st.floats(0, 1), st.integers(1, 400))
def test_whole_numbers_of_rows_are_the_last_allowed_and_the_first_enough(share, rows):
    k = allowed(share, rows)
    assert k / (rows + 1) <= share < (k + 1) / (rows + 1)
    k = needed(share, rows)
    assert k / rows >= share
    assert k == 0 or (k - 1) / rows < share
