"""Is a member calibrated? The kernel error, its p-value, and the search."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import decal
from decal_lab.members import calibrated_member
from decal_lab.members._calibrated_member import KernelError
from oracles import counts as oracles


def drawn(truth, rng):
    behind = (truth.cumsum(axis=1) < rng.random((len(truth), 1))).sum(axis=1)
    return np.minimum(behind, truth.shape[1] - 1)


def around(p, width):
    return decal.IntervalCredalSet(np.maximum(p - width, 0), np.minimum(p + width, 1), point=p)


@pytest.fixture
def example():
    rng = np.random.default_rng(5)
    q = rng.dirichlet(np.ones(3), size=14)
    return q, drawn(q, rng), KernelError.at(q, 5, rng)


def test_the_error_is_its_definition_over_pairs_relative_to_its_mean(example):
    q, y, error = example
    rng = np.random.default_rng(0)
    hits = (y == q.argmax(axis=1)).astype(int)
    two = np.stack([1 - q.max(axis=1), q.max(axis=1)], axis=1)

    def strong(labels):
        return oracles.kernel_error(q, labels, error.strong.places, error.strong.bandwidth)

    def confidence(labels):
        near = np.exp(
            -((np.sqrt(two[:, 1:]) - error.confidence.places[:, 0]) ** 2)
            / (2 * error.confidence.bandwidth**2)
        )
        return float(np.sum((near.T @ (labels - two[:, 1])) ** 2))

    chance = np.mean([strong(drawn(q, rng)) for _ in range(400)])
    top = np.mean([confidence(rng.random(14) < two[:, 1]) for _ in range(4000)])
    expected = (strong(y) / chance + confidence(hits) / top) / 2
    assert error.relative(q, y) == pytest.approx(expected, rel=0.15)


def test_its_slope_is_that_of_finite_differences(example):
    q, y, error = example
    value, slope = error.relative_with_slope(q, y)
    assert value == error.relative(q, y)
    expected = approx_fprime(q.ravel(), lambda x: error.relative(x.reshape(q.shape), y), 1e-7)
    assert slope.ravel() == pytest.approx(expected, abs=1e-4)


def test_p_values_of_a_calibrated_prediction_are_at_most_as_small_as_they_say():
    small = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, 1])
        q = rng.dirichlet(np.ones(3), size=40)
        error = KernelError.at(q, 8, rng)
        small += error.p_value(q, drawn(q, rng), rng.random((39, 40))) <= 0.2
    assert 0.02 < small / 200 <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 200)


def test_a_calibrated_member_is_refuted_no_more_often_than_the_level():
    refuted = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 2])
        z = rng.normal(size=(100, 3))
        p, truth = (np.exp(a) / np.exp(a).sum(axis=1, keepdims=True) for a in (z, 0.7 * z))
        credal = decal.IntervalCredalSet(np.minimum(p, truth), np.maximum(p, truth), point=p)
        found = calibrated_member(credal, drawn(truth, rng), draws=59, landmarks=12, seed=seed)
        refuted += found.p_value <= 0.2
    assert refuted / 12 <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 12)


@pytest.mark.parametrize(("kind", "seed"), [("box", 0), ("box", 1), ("box", 2), ("hull", 0)])
def test_gross_failures_are_refuted_and_the_truth_among_the_vertices_is_found(kind, seed):
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet([1, 1, 1], size=400)
    off = np.roll(truth, 1, axis=1)
    y = drawn(truth, rng)
    if kind == "box":
        wrong, right = around(off, 0.1), around(0.5 * truth + 0.5 * off, 0.5)
    else:
        wrong = decal.HullCredalSet(np.stack([off, 0.9 * off + 0.1 / 3], axis=1))
        right = decal.HullCredalSet(np.stack([off, truth], axis=1))
    failed, passed = (calibrated_member(c, y, draws=99) for c in (wrong, right))
    assert failed.refuted
    assert failed.p_value == pytest.approx(0.02)
    assert not passed.refuted
    assert passed.statistic < 2 < failed.statistic
    assert right.contains(passed.member).all()
    if kind == "hull":
        assert np.abs(passed.member - truth).mean() < 0.5 * np.abs(truth - off).mean()


def test_the_same_seed_gives_the_same_answer_and_it_says_what_it_means():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3), size=60)
    y = drawn(p, rng)
    one, other = (calibrated_member(around(p, 0.1), y, draws=49, seed=3) for _ in range(2))
    assert (one.p_value, one.statistic) == (other.p_value, other.statistic)
    assert np.array_equal(one.member, other.member)
    assert not one.member.flags.writeable
    assert "Not refuted is not valid" in repr(one)
    lost = calibrated_member(around(p, 0.01), (y + 1) % 3, draws=99)
    assert repr(lost).startswith("CalibratedMember: no member of the family is calibrated")
    assert "valid" not in repr(lost)


def test_other_kinds_and_few_inputs_get_an_answer():
    one = calibrated_member(around(np.array([[0.4, 0.6]]), 0.1), [0], draws=9)
    assert one.p_value > 0.05
    vacuous = decal.IntervalCredalSet(np.zeros((30, 3)), np.ones((30, 3)))
    assert not calibrated_member(vacuous, np.arange(30) % 3, draws=49).refuted
    certain = decal.IntervalCredalSet([[0.0, 1.0]] * 5, [[0.0, 1.0]] * 5)
    assert calibrated_member(certain, [1] * 5, draws=19).statistic == 0
    assert calibrated_member(certain, [0] * 5, draws=199).refuted


def test_bad_input_is_refused():
    credal = around(np.tile([0.5, 0.5], (4, 1)), 0.1)
    with pytest.raises(ValueError, match="labels must lie in 0 to 1"):
        calibrated_member(credal, [0, 1, 2, 0])
    with pytest.raises(ValueError, match="draws must be a whole number, at least 1: got 0"):
        calibrated_member(credal, [0] * 4, draws=0)
    with pytest.raises(ValueError, match="seed must be a whole number, at least 0: got -1"):
        calibrated_member(credal, [0] * 4, seed=-1)
    with pytest.raises(ValueError, match="level must be above 0 and below 1: got 1"):
        calibrated_member(credal, [0] * 4, level=1)


def test_labels_in_another_order_than_the_sets_are_refused():
    pd = pytest.importorskip("pandas")
    p = pd.DataFrame([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]], index=["a", "b", "c"])
    credal = decal.IntervalCredalSet(p, p)
    labels = pd.Series([0, 1, 0], index=["b", "a", "c"])
    with pytest.raises(ValueError, match="labels must be in the order of"):
        calibrated_member(credal, labels, draws=9)
