"""What credal sets warn about, when, and which line the warning names."""

import warnings

import numpy as np
import pytest

import decal
from decal.credal._saturation import FEWEST_RANKED, rank_correlation

N = 2 * FEWEST_RANKED


def sets(wide, n=N):
    """n sets of three classes; the first `wide` of them hold almost everything."""
    lower, upper = np.full((n, 3), 0.1), np.full((n, 3), 0.2)
    lower[:, 0], upper[:, 0] = 0.7, 0.8
    lower[:wide], upper[:wide] = 0.001, 0.999
    return decal.IntervalCredalSet(lower, upper)


@pytest.mark.parametrize("measure", ["entropy", "zero_one"])
def test_a_measure_that_is_at_its_cap_for_most_inputs_warns_once(measure):
    with pytest.warns(decal.AnswerWarning) as caught:
        sets(N // 2 + 1).epistemic(measure)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    assert f"at its cap for {N // 2 + 1} of {N} inputs" in text
    assert text.startswith(f"epistemic({measure!r}) should not rank these inputs")
    assert "epistemic('width')" in text


@pytest.mark.parametrize("measure", ["entropy", "zero_one"])
def test_half_of_the_inputs_or_few_inputs_do_not(measure):
    sets(N // 2).epistemic(measure)
    few = FEWEST_RANKED - 1
    sets(few, n=few).epistemic(measure)


def test_the_total_variation_warns_once_it_is_one_for_most_inputs_and_not_before():
    sets(N).epistemic("total_variation")  # near 1, and still different
    vacuous = decal.IntervalCredalSet(np.zeros((N, 3)), np.ones((N, 3)))
    with pytest.warns(decal.AnswerWarning, match=f"it is at its cap for {N} of {N} inputs"):
        vacuous.epistemic("total_variation")
    corners = decal.HullCredalSet(np.broadcast_to(np.eye(3), (N, 3, 3)))
    with pytest.warns(decal.AnswerWarning):
        corners.epistemic("total_variation")


def test_shifts_of_many_classes_saturate_at_an_ordinary_alpha():
    # Half a nat a row is 50 nats for each row of one class of a hundred: enough to rule it out.
    rng = np.random.default_rng(0)
    logits = rng.normal(0.0, 2.0, (500, 100))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:100] = np.arange(100)
    credal = decal.decalibrate(logits, labels, alpha=0.6).predict(logits)
    for measure in ("entropy", "total_variation"):
        with pytest.warns(decal.AnswerWarning):
            credal.epistemic(measure)


@pytest.mark.parametrize("measure", ["hartley", "width"])
def test_measures_that_keep_their_order_never_warn(measure):
    sets(N).epistemic(measure)
    sets(N).total()


def test_impossible_classes_lower_the_cap_of_the_entropy():
    lower, upper = np.zeros((N, 4)), np.ones((N, 4))
    upper[:, 2:] = 0.0
    with pytest.warns(decal.AnswerWarning, match="the upper entropy is at its cap for 20"):
        decal.IntervalCredalSet(lower, upper).epistemic()
    upper[:, 1:] = 0.0  # one class is left: nothing is uncertain, and nothing saturates
    assert (decal.IntervalCredalSet(lower, upper).epistemic() == 0.0).all()


def test_hulls_warn_too():
    corners = np.broadcast_to(np.eye(3), (N, 3, 3))
    for measure in ("entropy", "zero_one"):
        with pytest.warns(decal.AnswerWarning):
            decal.HullCredalSet(corners).epistemic(measure)


def test_a_measure_that_rises_with_the_confidence_warns_before_it_is_at_its_cap():
    # Wide and sure against narrow and unsure: the regret of the first is greater.
    lower, upper = np.tile([0.4, 0.4, 0.1], (N, 1)), np.tile([0.5, 0.5, 0.12], (N, 1))
    lower[: N // 2], upper[: N // 2] = [0.46, 0.0, 0.0], [0.8, 0.5, 0.3]
    c = decal.IntervalCredalSet(lower, upper)
    for measure in ("entropy", "zero_one"):
        with pytest.warns(decal.AnswerWarning, match=r"rank correlation \+1\.00"):
            c.epistemic(measure)
    c.epistemic("width")


@pytest.mark.parametrize("tied", [False, True])
def test_the_rank_correlation_is_spearmans(tied):
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, (2, 30)).astype(float) if tied else rng.normal(size=(2, 30))
    assert rank_correlation(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)
    assert rank_correlation(a, a**3) == pytest.approx(1.0)
    assert rank_correlation(a, np.ones(30)) == 0.0


def test_empty_sets_are_not_counted():
    lower, upper = np.full((N, 2), 0.4), np.full((N, 2), 0.6)
    lower[:15] = 0.9  # empty
    lower[15:], upper[15:] = 0.0, 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = decal.IntervalCredalSet(lower, upper).epistemic(empty="nan")
    assert np.isnan(found).sum() == 15
