"""Local sets: balls around the prediction, their boxes by definition, references, every path."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax

import decal
from decal._base.numerics import margins
from decal.decalibrator import Decalibrator
from helpers.compiled import both, using
from helpers.strategies import alphas, at_most, labelled_logits
from oracles.balls import event_range
from oracles.divergences import is_largest
from oracles.log_sums import log_sum_exp

LOCAL = ("local",)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    logits = 2 * rng.normal(size=(300, 4))
    labels = (0.5 * logits + [1.0, 0, 0, -1] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels


def fitted(data, alpha=0.9, **settings):
    return decal.Decalibrator(alpha, directions=LOCAL, **settings).fit(*data)


# The box of the ball


@at_most(60)
@given(st.integers(2, 5), st.floats(0.01, 0.999), st.integers(0, 10**6))
def test_members_of_the_ball_are_in_the_box(K, alpha, seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(1, K)) * rng.choice([0.3, 2, 8])
    c = softmax(z, axis=1)[0]
    box = decal.decalibrate(z, [0], alpha=alpha, directions="local").predict(z)
    # Distributions at every distance: between the center and others, on both sides of the border.
    others = np.concatenate([rng.dirichlet(np.full(K, a), 50) for a in (0.1, 1.0)] + [np.eye(K)])
    q = c + rng.random((3, len(others), 1)) * (others - c)
    members = q[rel_entr(q, c).sum(axis=2) <= -np.log(alpha)]
    assert (members >= box.lower - 1e-12).all()
    assert (members <= box.upper + 1e-12).all()


@given(labelled_logits(max_rows=3, max_classes=5), st.floats(0.05, 0.999))
def test_every_end_is_reached_by_shifting_one_logit(data, alpha):
    logits = data[0].astype(np.float64)
    n, K = logits.shape
    box = decal.decalibrate(*data[:2], alpha=alpha, directions="local").predict(logits)
    log_c = logits - log_sum_exp(logits)[:, None]
    for end in (box.lower, box.upper):
        for i, k in np.ndindex(n, K):
            if not 1e-12 < end[i, k] < 1 - 1e-12:
                continue
            shift = np.log(end[i, k]) - np.log1p(-end[i, k]) - margin(logits[i], k)
            moved = logits[i] + shift * (np.arange(K) == k)
            log_q = moved - log_sum_exp(moved)
            divergence = np.sum(np.exp(log_q) * (log_q - log_c[i]))
            # The end itself is known to a rounding, which moves the divergence by its slope.
            room = 1e-9 + 1e-15 * abs(shift) / min(end[i, k], 1 - end[i, k])
            assert divergence == pytest.approx(-np.log(alpha), abs=room, rel=1e-9)


def margin(row, k):
    return row[k] - log_sum_exp(np.delete(row, k))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("K", [2, 49_152])
def test_endpoints_in_log_odds(K, compiled):
    pytest.importorskip("numba") if compiled else None
    rng = np.random.default_rng(K)
    z = (4 * rng.normal(size=(40 if K == 2 else 1, K))).astype(np.float32)
    z[0, 0] = 60.0
    m = margins(z, np.zeros(K)).T
    for alpha in (0.3, 0.95):
        with using(compiled):
            box = decal.decalibrate(
                z, np.zeros(len(z), int), alpha=alpha, directions="local"
            ).predict(z)
        for i, k in zip(*np.unravel_index(rng.choice(m.size, 40), m.shape), strict=True):
            if 1e-300 < box.upper[i, k] < 0.5:
                x = np.log(box.upper[i, k]) - np.log1p(-box.upper[i, k])
                assert is_largest(x, m[i, k], -np.log(alpha), room=1e-12 * abs(x) + 1e-12)


def test_the_limits_are_points_and_everything(data):
    d = fitted(data)
    z = np.array([[1.0, 0.0, -np.inf, 3.0]])
    point = softmax(z, axis=1)
    np.testing.assert_allclose(d.predict(z, alpha=1.0).lower, point, atol=1e-15)
    np.testing.assert_allclose(d.predict(z, alpha=1.0).upper, point, atol=1e-15)
    np.testing.assert_array_equal(d.predict(z, alpha=0.0).lower, np.zeros((1, 4)))
    np.testing.assert_array_equal(d.predict(z, alpha=0.0).upper, [[1, 1, 0, 1]])
    assert d.steps("local", 0.9).upper == pytest.approx(-np.log(0.9), rel=1e-14)


@at_most(60)
@given(
    labelled_logits(max_rows=9, max_classes=6),
    alphas,
    st.sampled_from([decal.Local(), decal.Local(by_entropy=0.2), decal.Local(mix=0.05)]),
    st.floats(-1, 2).map(lambda e: 10**e),
)
def test_compiled_loops_and_numpy_agree(data, alpha, direction, scale):
    pytest.importorskip("numba")
    logits = data[0] * np.float64(scale)
    d = decal.decalibrate(*data[:2], alpha=alpha, directions=[direction])
    fast, slow = both(lambda: d.predict(logits))
    for name in ("lower", "upper", "point"):
        np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("reference", ["best", "halfway"])
def test_a_class_without_labels_is_left_out_even_where_its_logit_is_the_largest(
    reference, compiled
):
    pytest.importorskip("numba") if compiled else None
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(300, 4))
    labels = (logits[:, :3] + 3 * rng.gumbel(size=(300, 3))).argmax(axis=1)
    d = decal.decalibrate(logits, labels, directions="local", reference=reference, alpha=0.8)
    new = np.array([[0.0, 1.0, -1.0, 5.0], [2.0, 1.0, 0.0, 1.9]])
    at = d.reference_model
    c = softmax(at.scale * new[:, :3] + at.center[:3], axis=1)
    ranges = np.array([[event_range(p, -np.log(0.9)) for p in row] for row in c])
    with using(compiled):
        box = d.predict(new, alpha=0.9)
    np.testing.assert_allclose(box.point[:, :3], c, atol=1e-12)
    np.testing.assert_allclose(box.lower[:, :3], ranges[..., 0], atol=1e-10)
    np.testing.assert_allclose(box.upper[:, :3], ranges[..., 1], atol=1e-10)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_class_that_is_all_but_certain_keeps_its_lower_end_at_tiny_alphas(compiled):
    """What tests/attack found: 1 - c and 1 - alpha both round to 1."""
    model = fitted(([[0.0, 1.0], [1.0, 0.0]], [0, 1]), alpha=1e-27)
    with using(compiled):
        found = model.predict([[381.0, 0.0]])
    # kl(q || c) is (1 - q) 381 less an entropy.
    q, budget = found.lower[0, 0], -np.log(1e-27)
    assert 381 * (1 - q) + q * np.log(q) + (1 - q) * np.log(1 - q) == pytest.approx(budget)


def test_sets_are_nested(data):
    d = fitted(data)
    sets = [d.predict(data[0], alpha=a) for a in (1.0, 0.999, 0.9, 0.5, 0.1, 1e-9, 0.0)]
    for narrow, wide in itertools.pairwise(sets):
        assert (wide.lower <= narrow.lower + 1e-15).all()
        assert (wide.upper >= narrow.upper - 1e-15).all()


# The center and the budgets


def test_masked_classes_stay_out_and_others_do_not_notice(data):
    d = fitted(data)
    z = np.array([[1.0, 0.5, -2.0, -np.inf]])
    box = d.predict(z)
    three = decal.decalibrate(z[:, :3], [0], alpha=0.9, directions="local").predict(z[:, :3])
    np.testing.assert_allclose(box.lower[:, :3], three.lower, rtol=1e-14)
    np.testing.assert_allclose(box.upper[:, :3], three.upper, rtol=1e-14)
    assert not box.upper[:, 3].any()


def test_a_share_of_equal_probabilities_bounds_the_loss(data):
    mixed = decal.Decalibrator(0.9, directions=[decal.Local(mix=0.01)]).fit(*data)
    z = np.array([[50.0, 0.0, 0.0, -np.inf]])
    c = 0.99 * softmax(z, axis=1) + 0.01 * np.array([[1, 1, 1, 0]]) / 3
    by_hand = decal.decalibrate(np.log(c[:, :3]), [0], alpha=0.9, directions="local")
    wanted = by_hand.predict(np.log(c[:, :3]))
    found = mixed.predict(z)
    np.testing.assert_allclose(found.upper[:, :3], np.maximum(wanted.upper, found.point[:, :3]))
    np.testing.assert_allclose(found.lower[:, :3], np.minimum(wanted.lower, found.point[:, :3]))
    assert found.upper[0, 3] == 0


def test_budgets_may_follow_the_entropy(data):
    z = data[0][:20]
    found = decal.Decalibrator(0.9, directions=[decal.Local(by_entropy=0.1)]).fit(*data).predict(z)
    p = softmax(z, axis=1)
    entropy = -(p * np.log(p)).sum(axis=1)
    for i in range(20):
        alpha = 0.9 ** (entropy[i] + 0.1)
        alone = fitted(data).predict(z[i : i + 1], alpha=alpha)
        np.testing.assert_allclose(found.lower[i], alone.lower[0], rtol=1e-10)
        np.testing.assert_allclose(found.upper[i], alone.upper[0], rtol=1e-10)


def test_halfway_is_the_mean_of_the_logits(data):
    best, halfway = (fitted(data, reference=r) for r in ("best", "halfway"))
    at = best.reference_model
    assert at.scale != 1
    z = (data[0] + at.scale * data[0] + at.center) / 2
    np.testing.assert_allclose(halfway.predict(data[0]).point, softmax(z, axis=1), rtol=1e-12)
    log_p = [m.predict(data[0]).point for m in (fitted(data), best)]
    mean = np.sqrt(log_p[0] * log_p[1])
    mean /= mean.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(halfway.predict(data[0]).point, mean, rtol=1e-10)
    assert 0 < halfway.distance < best.distance
    each = np.arange(len(data[1]))
    gained = np.log(mean)[each, data[1]].mean() - np.log(log_p[0])[each, data[1]].mean()
    assert halfway.distance == pytest.approx(gained, abs=1e-12)


def test_class_shifts_may_be_measured_from_halfway(data):
    d = decal.Decalibrator(0.9, reference="halfway").fit(*data)
    z = data[0] + d.reference_model.center
    there = decal.Decalibrator(0.9).fit(z, data[1])
    np.testing.assert_allclose(d.shifts().lower, there.shifts().lower, atol=1e-9)
    np.testing.assert_allclose(d.shifts().upper, there.shifts().upper, atol=1e-9)


# Every path


def test_it_streams_merges_and_is_saved(data, tmp_path):
    logits, labels = data
    direction = decal.Local(mix=0.01, by_entropy=0.3)
    whole = decal.decalibrate(logits, labels, alpha=0.8, directions=["class", direction])
    parts = Decalibrator(0.8, directions=["class", direction])
    parts.partial_fit(logits[:100], labels[:100])
    parts.merge(Decalibrator(0.8, directions=["class", direction]).fit(logits[100:], labels[100:]))
    parts.save(tmp_path / "m.npz")
    loaded = Decalibrator.load(tmp_path / "m.npz")
    assert loaded.directions == whole.directions
    for model in (parts, loaded):
        np.testing.assert_allclose(
            model.predict(logits).lower, whole.predict(logits).lower, atol=1e-9
        )
    best = fitted(data, reference="halfway")
    best.save(tmp_path / "h.npz")
    again = Decalibrator.load(tmp_path / "h.npz")
    assert again.reference == "halfway"
    np.testing.assert_array_equal(again.predict(logits).upper, best.predict(logits).upper)


def test_other_directions_widen_it(data):
    z = data[0]
    together = decal.decalibrate(*data, alpha=0.9, directions=("local", "class")).predict(z)
    alone = [
        decal.decalibrate(*data, alpha=0.9, directions=d).predict(z) for d in ("local", "class")
    ]
    np.testing.assert_array_equal(together.lower, np.minimum(alone[0].lower, alone[1].lower))
    np.testing.assert_array_equal(together.upper, np.maximum(alone[0].upper, alone[1].upper))


@pytest.mark.parametrize("mix", [-0.1, 1.0, np.nan, "0.1", True, None])
def test_impossible_shares_are_refused(mix):
    with pytest.raises(ValueError, match="mix must"):
        decal.Local(mix=mix)


@pytest.mark.parametrize("by_entropy", [0.0, -1.0, np.inf, np.nan, "1", True])
def test_impossible_budgets_are_refused(by_entropy):
    with pytest.raises(ValueError, match="by_entropy must be a"):
        decal.Local(by_entropy=by_entropy)


def test_the_reference_must_be_a_known_one():
    with pytest.raises(
        ValueError, match="'model', 'halfway', 'best', 'auto', 'consensus': got 'middle'"
    ):
        decal.Decalibrator(reference="middle")


def test_confident_predictions_keep_their_digits():
    z = np.array([[0.0, -690.0, -30.0]])
    box = decal.decalibrate(z, [0], alpha=0.99, directions="local").predict(z)
    assert 0 < box.point[0, 1] < 1e-299
    x = np.log(box.upper[0, 1]) - np.log1p(-box.upper[0, 1])
    m = margins(z, np.zeros(3))[1, 0]
    assert is_largest(x, m, -np.log(0.99), room=1e-12 * abs(x))
