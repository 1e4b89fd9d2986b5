"""Which rows should a person check: the whole, on rows whose truth is known."""

import io
import re

import numpy as np
import pytest

import decal
from decal.choose import Triage, triage


def skewed(rng, n):
    """Logits that are too large and favour a class: recalibrating helps, and a person is needed."""
    z = rng.normal(size=(n, 4)) * 4
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return 3 * z + [9.0, 0.0, 0.0, -9.0], y


@pytest.fixture(scope="module")
def rows():
    return skewed(np.random.default_rng(0), 3000)


def judged(t, z, y):
    handed = t.hand_over(z)
    wrong = t.predict(z) != y
    return handed.mean(), wrong[~handed].mean() if (~handed).any() else 0.0, wrong


def test_recalibration_is_chosen_where_it_helps(rows):
    z, y = rows
    t = triage(z[:1500], y[:1500], error_rate=0.1)
    assert t.score == "recalibrated confidence"
    assert next(iter(t.trials)) in ("recalibrated confidence", "recalibrated entropy")
    handed, error_rate, wrong = judged(t, z[1500:], y[1500:])
    assert error_rate < 0.13
    assert 0.05 < handed < 0.6
    assert wrong.mean() < (z[1500:].argmax(axis=1) != y[1500:]).mean() - 0.02
    assert "recalibrating: " in repr(t)


def test_a_score_can_be_named_and_yours_can_win(rows):
    z, y = rows
    named = triage(z, y, budget=0.2, score="width, alpha 0.9")
    assert named.score == "width, alpha 0.9"
    rng = np.random.default_rng(1)
    told = (z.argmax(axis=1) != y) + 0.1 * rng.random(len(y))
    mine = triage(z, y, slip_rate=0.02, scores={"oracle": told}, score="oracle")
    assert mine.score == "oracle"
    new = rng.random(len(z))
    assert (mine.hand_over(z, scores={"oracle": new}) == (new >= mine.threshold)).all()
    assert (mine.predict(z) == z.argmax(axis=1)).all()
    with pytest.raises(ValueError, match="scores must hold 'oracle', the score that was chosen"):
        mine.hand_over(z)
    with pytest.raises(ValueError, match="score must be one of 'confidence', "):
        triage(z, y, budget=0.2, score="luck")


def test_a_cost_hands_over_what_is_likelier_wrong_than_that(rows):
    z, y = rows
    few, many = (triage(z, y, cost=cost).outcome.handed_over for cost in (0.6, 0.1))
    assert few < many
    assert triage(z, y, cost=0.999).outcome.handed_over < 0.05


def test_a_number_of_rows_is_handed_over_exactly(rows):
    z, y = rows
    t = triage(z, y, budget=7)
    handed = t.hand_over(z[:50])
    assert handed.sum() == 7
    assert t.doubt(z[:50])[handed].min() >= t.doubt(z[:50])[~handed].max()
    assert np.isnan(t.threshold)
    assert t.hand_over(z[:3]).all()


def test_a_budget_holds_where_many_scores_are_infinite_or_tie(rows):
    z, y = rows
    for most in (np.inf, 1.0):
        mine = np.where(np.arange(len(y)) % 5 < 2, most, np.random.default_rng(7).random(len(y)))
        for budget in (0.1, 100):
            t = triage(z, y, budget=budget, scores={"mine": mine}, score="mine")
            handed = t.hand_over(z, scores={"mine": mine})
            assert handed.sum() <= (100 if budget == 100 else 0.1 * len(y))
            assert t.outcome.handed_over <= 0.1
    with pytest.raises(ValueError, match="mine must not contain NaN: got NaN at index 0"):
        t.hand_over(z, scores={"mine": np.full(len(y), np.nan)})


def test_probabilities_give_what_their_logits_give(rows):
    z, y = rows
    z = z / 4  # no probability is less than 1e-12, which is where they are cut off
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    by_logits = triage(z, y, budget=0.25)
    by_p = triage(p, y, budget=0.25, probabilities=True)
    assert by_p.score == by_logits.score
    assert (by_p.hand_over(p) == by_logits.hand_over(z)).mean() > 0.999
    certain = np.eye(4)[y[:200]]
    t = triage(certain, y[:200], slip_rate=0.1, probabilities=True)
    assert not t.hand_over(certain).any()


def test_too_few_rows_hand_everything_over_and_say_so(rows):
    z, y = rows
    t = triage(z[:40], y[:40], error_rate=0.01)
    assert t.hand_over(z).all()
    assert "20 rows are too few, or too often wrong: all are handed over" in repr(t)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "one of cost, budget, error_rate, slip_rate must be given: got none."),
        ({"cost": 0.1, "budget": 5}, "must be given: got cost and budget."),
        ({"budget": 1.0}, "budget must lie between 0 and 1, and be neither: got 1.0. A number of"),
        ({"budget": 0}, "budget must be a whole number, at least 1: got 0"),
        ({"cost": 2}, "cost must lie between 0 and 1: got 2"),
        ({"error_rate": float("nan")}, "error_rate must lie between 0 and 1: got nan"),
        ({"error_rate": 0.1, "confidence": 1}, "confidence must be less than 1"),
        ({"budget": 0.1, "scores": {"a": [1.0]}}, "one number for each of 30 rows: got 1 of a."),
        (
            {"budget": 0.1, "scores": {"entropy": np.ones(30)}},
            "scores must have names of their own: got 'entropy'.",
        ),
    ],
)
def test_bad_purposes_are_refused_by_name(rows, change, message):
    z, y = rows
    with pytest.raises(ValueError, match=re.escape(message)):
        triage(z[:30], y[:30], **change)


def test_bad_rows_are_refused_by_name(rows):
    z, y = rows
    with pytest.raises(ValueError, match="logits must have 8 rows or more: got 7"):
        triage(z[:7], y[:7], budget=0.1)
    with pytest.raises(ValueError, match="logits must be finite"):
        triage(np.where(z == z[3, 1], np.nan, z), y, budget=0.1)
    with pytest.raises(ValueError, match="labels must"):
        triage(z, y + 1, budget=0.1)
    t = triage(z, y, budget=0.1)
    with pytest.raises(ValueError, match="logits"):
        t.hand_over(z[:, :3])


def test_the_draw_decides_which_rows_choose_and_nothing_else(rows):
    z, y = rows
    one, same, other = (triage(z, y, slip_rate=0.1, seed=seed) for seed in (0, 0, 1))
    assert one.threshold == same.threshold != other.threshold
    assert one.outcome.rows == 1500


def test_the_fewest_rows_and_one_class_are_answered():
    z = np.random.default_rng(5).normal(size=(8, 2))
    for y in (np.zeros(8, dtype=int), z.argmax(axis=1), np.arange(8) % 2):
        t = triage(z, y, slip_rate=0.5)
        assert t.hand_over(z).shape == (8,)


@pytest.mark.slow
@pytest.mark.parametrize("purpose", ["slip_rate", "error_rate", "batch"])
def test_promises_hold_although_the_score_is_chosen(purpose):
    """Small samples, on which another score may win by luck every time."""
    rng = np.random.default_rng(6)
    found = []
    for _ in range(60):
        z, y = skewed(rng, 200)
        new, labels = skewed(rng, 40 if purpose == "batch" else 2000)
        if purpose == "batch":
            t = triage(z, y, error_rate=0.1, confidence=None)
        else:
            t = triage(z, y, **{purpose: 0.1})
        handed, error_rate, wrong = judged(t, new, labels)
        if purpose == "slip_rate":
            found.append((wrong & ~(t.hand_over(new))).mean())
        elif purpose == "batch":
            found.append(error_rate)
        else:
            found.append(error_rate > 0.1)
        assert 0 <= handed <= 1
    assert np.mean(found) <= 0.1 + 3 * max(np.std(found), 0.03) / np.sqrt(60)


def test_a_decalibrator_that_was_fitted_elsewhere_is_asked(rows):
    z, y = rows
    model = decal.Decalibrator(0.9, directions=("temperature",)).fit(z[:500], y[:500])
    t = triage(z[500:], y[500:], budget=0.2, model=model, score="width, alpha 0.9")
    width = model.predict(z[:500], alpha=0.9).epistemic("width")
    assert np.allclose(t.doubt(z[:500]), width)


@pytest.mark.parametrize("floor", [None, 0, 0.01])
def test_probabilities_are_read_as_the_model_reads_them(rows, floor):
    z, y = rows
    p = np.exp(z - z.max(axis=1, keepdims=True)).round(3)  # with many zeros
    p = p / p.sum(axis=1, keepdims=True)
    fine = p[np.arange(len(y)), y] > 0
    p, y = p[fine], y[fine]
    model = decal.decalibrate(
        p[:500], y[:500], alpha=0.9, directions="temperature", probabilities=True, floor=floor
    )
    asked = {"model": model, "score": "width, alpha 0.9", "budget": 0.2}
    by_model = triage(p[500:], y[500:], **asked)
    with io.BytesIO() as file:
        by_model.save(file)
        file.seek(0)
        loaded = Triage.load(file)
    own = model.predict(p[:500])
    for t in (by_model, loaded):
        width = (own.upper - own.lower).mean(axis=1)
        np.testing.assert_allclose(t.doubt(p[:500]), width, rtol=1e-9)
