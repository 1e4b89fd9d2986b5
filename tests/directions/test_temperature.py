"""The scale of the logits as a direction: evidence on a ladder, plausible scales, exact boxes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import rel_entr, softmax

import decal
from decal.directions._ladder import summarise_scales
from decal.directions._peaks import widen_by_scale
from decal.directions._temperature import ExpectedLoss, plausible_scales
from helpers.strategies import alphas, at_most, labelled_logits
from oracles import class_shifts as oracles
from oracles import exact

AROUND = 1 - 1e-15, 1 + 1e-15
BOTH = ("class", "temperature")
LABELS = ("class", decal.Temperature(evidence="labels"))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(400, 4)) * 2.5
    labels = np.array([rng.choice(4, p=p) for p in softmax(0.6 * logits, axis=1)])
    return logits, labels


def expected_loss(logits, s):
    """Sum over rows of KL(sharper || softer), the definition."""
    p, q = softmax(logits, axis=1), softmax(s * logits, axis=1)
    sharp, soft = (p, q) if s < 1 else (q, p)
    return float(np.sum(rel_entr(sharp, soft)))


# Plausible scales


def test_scales_reach_their_budget_as_the_sharper_model_would_count_it(data):
    logits, labels = data
    d = decal.Decalibrator(directions=BOTH).fit(logits, labels)
    p = softmax(logits, axis=1)
    knowledge = np.log(4) + np.mean(np.sum(p * np.log(p), axis=1))
    for alpha in (0.99, 0.95, 0.9):
        scales = d.scales(alpha)
        budget = -400 * 4 * knowledge * np.log(alpha)
        for s in (scales.lower, scales.upper):
            if 0 < s < np.inf:
                assert expected_loss(logits, s) == pytest.approx(budget, abs=400 * 1e-7)
            elif s == 0:
                assert 400 * knowledge <= budget
            else:
                assert expected_loss(logits, 1e4) <= budget
        assert scales.residual < 1e-12
        assert scales.error < 1e-6
    assert 0 < d.scales(0.95).lower < 1 < d.scales(0.99).upper < np.inf


@pytest.mark.parametrize("ratio", [1.0, 16.0])
def test_scales_judged_by_labels_reach_the_likelihood_ratio(data, ratio):
    logits, labels = data
    temperature = decal.Temperature(ratio=ratio, evidence="labels")
    d = decal.Decalibrator(directions=("class", temperature)).fit(logits, labels)

    def gain(s):
        return oracles.log_likelihood(s * logits, labels) - oracles.log_likelihood(logits, labels)

    best = brentq(lambda s: gain(s + 1e-4) - gain(s - 1e-4), 0.1, 3)
    for alpha in (1.0, 0.99, 0.9, 0.5):
        scales, b = d.scales(alpha), ratio * 400 * np.log(alpha)
        assert scales.lower <= min(1, best + 1e-3)
        assert scales.upper >= max(1, best - 1e-3)
        for s in (scales.lower, scales.upper):
            if s not in (0, 1):
                assert gain(s) == pytest.approx(b, abs=400 * 1e-6)
    assert d.scales(0.1).lower == 0.0


def test_separated_labels_never_object_to_a_larger_scale():
    logits = np.repeat(3.0 * np.eye(3), 5, axis=0) + np.linspace(0, 1, 15)[:, None]
    labels = np.repeat(np.arange(3), 5)
    judged = decal.decalibrate(logits, labels, alpha=0.9, directions=LABELS)
    assert judged.scales().upper == np.inf
    assert judged.scales(1.0).upper == np.inf
    d = decal.decalibrate(logits, labels, alpha=0.5, directions=BOTH)
    assert d.scales().upper == np.inf
    credal = d.predict(logits)
    assert np.isfinite(credal.lower).all()
    np.testing.assert_allclose(credal.upper[np.arange(15), labels], 1.0)
    np.testing.assert_array_equal(credal.lower[np.arange(15), (labels + 1) % 3], 0.0)


def test_the_ends_of_alpha(data):
    d = decal.Decalibrator(directions=BOTH).fit(*data)
    all_ = d.scales(0.0)
    assert (all_.lower, all_.upper) == (0.0, np.inf)
    none = d.scales(1.0)
    assert (none.lower, none.upper) == (1.0, 1.0)
    several = d.scales([0.0, 0.95, 1.0])
    np.testing.assert_allclose(several.lower, [0.0, d.scales(0.95).lower, 1.0])
    sums = decal.Decalibrator(directions=BOTH, likelihood="sum").fit(*data).scales(0.5)
    assert 0.8 < sums.lower < 1 < sums.upper < 1.2


# Boxes


def scanned_box(logits, first, last, count=4001):
    """Range of the softmax over a dense scan of scales."""
    last = min(last, 1e4)
    scan = np.concatenate([np.linspace(first, 1, count), np.geomspace(1, last, count)])
    p = softmax(scan[:, None, None] * logits, axis=2)
    return p.min(axis=0), p.max(axis=0)


@at_most(60)
@given(st.integers(0, 10**6), st.floats(0.3, 0.999), st.sampled_from([BOTH, ("temperature",)]))
def test_boxes_are_the_range_over_all_plausible_scales_and_shifts(seed, alpha, directions):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 6))
    logits = np.round(rng.normal(size=(30, K)) * 3, 1)  # ties occur
    labels = rng.integers(0, K, 30)
    d = decal.decalibrate(logits, labels, alpha=alpha, directions=directions)
    scales = d.scales()
    low, high = scanned_box(logits, scales.lower, scales.upper)
    if "class" in directions:
        shifts = d.shifts()
        class_low, class_high = oracles.box(logits, shifts.lower, shifts.upper, "joint")
        low, high = np.minimum(low, class_low), np.maximum(high, class_high)
    credal = d.predict(logits)
    np.testing.assert_allclose(credal.lower, low, atol=1e-3)
    assert (credal.lower <= low + 1e-9).all()
    np.testing.assert_allclose(credal.upper, high, atol=1e-3)
    assert (credal.upper >= high - 1e-9).all()


@at_most(60)
@given(
    labelled_logits(),
    alphas,
    alphas,
    st.sampled_from([BOTH, ("temperature",), LABELS]),
    st.sampled_from(["own", "joint"]),
)
def test_smaller_alpha_never_narrows_and_nasty_logits_stay_finite(data, a, b, directions, box):
    logits, labels, weights = data
    d = decal.Decalibrator(directions=directions, box=box)
    d.fit(logits, labels, sample_weight=weights)
    wide, narrow = d.predict(logits, alpha=min(a, b)), d.predict(logits, alpha=max(a, b))
    assert (wide.lower <= narrow.lower + 1e-7).all()
    assert (wide.upper >= narrow.upper - 1e-7).all()
    for credal in (wide, narrow):
        assert (credal.lower <= credal.point + 1e-12).all()
        assert (credal.upper >= credal.point - 1e-12).all()
        assert not credal.is_empty.any()


@at_most(40)
@given(labelled_logits(scales=(0.5, 3.0, 30.0)), st.floats(0.3, 0.99), st.randoms())
def test_constants_and_class_names_do_not_matter(data, alpha, random):
    logits, labels, weights = data
    order = list(range(logits.shape[1]))
    random.shuffle(order)
    place = np.argsort(order)
    a, b, c = (decal.Decalibrator(alpha, directions=BOTH) for _ in range(3))
    a.fit(logits, labels, sample_weight=weights)
    b.fit(logits[:, order], place[labels], sample_weight=weights)
    c.fit(logits + np.float32(7.5), labels, sample_weight=weights)
    expected = a.predict(logits)
    np.testing.assert_allclose(
        b.predict(logits[:, order]).upper, expected.upper[:, order], atol=1e-7
    )
    # Scaling commutes with a constant per row, which softmax does not see.
    np.testing.assert_allclose(c.predict(logits + np.float32(7.5)).lower, expected.lower, atol=1e-7)


@at_most(60)
@given(labelled_logits(max_rows=30, weighted=True), st.floats(0.3, 0.999), st.randoms())
def test_partition_and_order_of_merging_do_not_matter(data, alpha, random):
    logits, labels, weights = data
    order = list(range(len(labels)))
    random.shuffle(order)
    whole = decal.Decalibrator(alpha, directions=BOTH).fit(logits, labels, sample_weight=weights)
    merged = decal.Decalibrator(alpha, directions=BOTH)
    while order:
        rows = [order.pop() for _ in range(random.randint(1, len(order)))]
        if weights[rows].any():
            part = decal.Decalibrator(alpha, directions=BOTH)
            merged.merge(part.fit(logits[rows], labels[rows], sample_weight=weights[rows]))
    a, b = merged.scales(), whole.scales()
    assert a.lower == pytest.approx(b.lower, abs=1e-9)
    assert a.upper == pytest.approx(b.upper, rel=1e-9)


# Keeping, and bad input


def test_a_saved_model_keeps_its_scales(tmp_path, data):
    for directions in (BOTH, LABELS, ("temperature",)):
        d = decal.Decalibrator(0.9, directions=directions).fit(*data)
        d.save(tmp_path / "m.npz")
        again = decal.Decalibrator.load(tmp_path / "m.npz")
        assert again.directions == d.directions
        assert repr(again) == repr(d)
        assert again.scales(0.97) == d.scales(0.97)
        np.testing.assert_array_equal(again.predict(data[0]).upper, d.predict(data[0]).upper)


def test_bad_directions_are_refused(data):
    with pytest.raises(ValueError, match="directions must be one or more, each once"):
        decal.Decalibrator(directions=("class", "class"))
    with pytest.raises(ValueError, match="directions must be one or more, each once"):
        decal.Decalibrator(directions=())
    with pytest.raises(ValueError, match=r"objects of a subclass of decal.Direction"):
        decal.Decalibrator(directions=("class", 3))
    with pytest.raises(ValueError, match="evidence must be one of 'model', 'labels'"):
        decal.Temperature(evidence="both")
    for ratio in (-1, "-1", True, np.nan):
        with pytest.raises(ValueError, match="ratio must be a finite number, not negative: got "):
            decal.Temperature(ratio=ratio)
    with pytest.raises(ValueError, match="directions must include 'temperature': got class"):
        decal.Decalibrator().fit(*data).scales()
    with pytest.raises(ValueError, match="other must have directions="):
        decal.Decalibrator().merge(decal.Decalibrator(directions=BOTH).fit(*data))


@pytest.mark.parametrize("rows", [np.zeros((1, 5)), np.full((3, 2), 7.3)])
@pytest.mark.parametrize("alpha", [1e-6, 0.5, 0.999])
def test_rows_without_any_contrast_have_scales_that_change_nothing(rows, alpha):
    for evidence, ends in (("model", (1.0, 1.0)), ("labels", (0.0, np.inf))):
        directions = (decal.Temperature(evidence=evidence),)
        d = decal.Decalibrator(alpha, directions=directions)
        scales = d.fit(rows, np.zeros(len(rows), dtype=int)).scales()
        assert (scales.lower, scales.upper) == ends
        np.testing.assert_allclose(d.predict(rows).upper, 1 / rows.shape[1])


def test_plausible_scales_of_rows_without_any_contrast():
    ladder = summarise_scales(np.zeros((5, 3)), np.zeros(5, dtype=int), None)
    (at_one,), (rate,) = ladder(np.ones(1))
    found = plausible_scales(ladder, ExpectedLoss(at_one, rate), np.array([0.0, 1.0]))
    np.testing.assert_array_equal(found.lower, [1.0, 0.0])
    np.testing.assert_array_equal(found.upper, [1.0, np.inf])


# Masked classes


def masked_rows(rows, K, seed):
    rng = np.random.default_rng(seed)
    logits = 2.5 * rng.normal(size=(rows, K))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    masked = rng.random(logits.shape) < 0.3
    masked[np.arange(rows), labels] = False
    return np.where(masked, -np.inf, logits), labels


def of_possible(logits, s):
    """softmax(s z) of every row, over its unmasked classes; a list, as they differ in number."""
    return [softmax(s * row[np.isfinite(row)]) for row in logits]


@pytest.mark.parametrize("K", [5, 30])  # with many classes, the loops are compiled
def test_masked_classes_count_at_no_scale(K):
    logits, labels = masked_rows(36_000 // K, K, seed=3)
    d = decal.Decalibrator(directions=BOTH).fit(logits, labels)
    p = of_possible(logits, 1.0)
    knowledge = np.mean([np.log(len(row)) + row @ np.log(row) for row in p])
    for alpha in (0.999, 0.99):
        scales = d.scales(alpha)
        budget = -len(logits) * K * knowledge * np.log(alpha)
        for s in (scales.lower, scales.upper):
            assert 0 < s < np.inf
            q = of_possible(logits, s)
            pairs = zip(p, q, strict=True) if s < 1 else zip(q, p, strict=True)
            loss = sum(np.sum(rel_entr(sharp, soft)) for sharp, soft in pairs)
            assert loss == pytest.approx(budget, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.99, 0.9, 0.0])
def test_boxes_of_masked_rows_are_those_of_the_classes_left(alpha):
    logits, labels = masked_rows(60, 5, seed=4)
    d = decal.decalibrate(logits, labels, alpha=alpha, directions=("temperature",))
    scales, credal = d.scales(), d.predict(logits)
    for i, row in enumerate(logits):
        left = np.isfinite(row)
        low, high = scanned_box(row[None, left], scales.lower, scales.upper)
        np.testing.assert_allclose(credal.lower[i, left], low[0], atol=1e-6)
        np.testing.assert_allclose(credal.upper[i, left], high[0], atol=1e-6)
        assert not credal.upper[i, ~left].any()


# What tests/attack found


def test_where_labels_ask_for_a_slightly_smaller_scale_one_is_no_endpoint():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(60, 3))
    labels = np.argmax(0.97 * logits + rng.gumbel(size=logits.shape), axis=1)
    best = decal.Decalibrator(directions=BOTH, reference="best").fit(logits, labels)
    flat = best.reference_model.scale
    # From a model a little sharper, or softer, than its best scale, what is better is plausible.
    for sharper in (1.01, 0.99):
        z = sharper * flat * logits + best.reference_model.center
        d = decal.Decalibrator(1.0, directions=[decal.Temperature(1.0, "labels")]).fit(z, labels)
        ends = sorted((float(d.scales().lower), float(d.scales().upper)), key=lambda s: abs(s - 1))
        assert ends[0] == 1.0
        assert ends[1] == pytest.approx(1 / sharper**2, rel=1e-3)


@pytest.mark.parametrize("size", [1e6, 1e9, 1e15, 1e30])
def test_scales_of_huge_logits_are_as_exact_as_they_can_be_written(size):
    logits = size * np.array([[1.0, 0.0, -1.0], [0.3, 0.5, -0.2], [0.1, 0.0, 0.2]])
    d = decal.Decalibrator(0.5, directions=[decal.Temperature(1.0, "labels")])
    scales = d.fit(logits, [1, 1, 0]).scales()
    assert 0 <= scales.lower <= 1 <= scales.upper
    with exact.precise(logits):
        for s in (float(scales.lower), float(scales.upper)):
            near = [exact.loss_of_labels(logits, [1, 1, 0], np.ones(3), s * x) for x in AROUND]
            low, high = sorted(float(x) for x in near)
            assert low - 1e-8 <= 3 * np.log(2) <= high + 1e-8 or (s == 0 and high <= 3 * np.log(2))


def test_a_tiny_scale_of_huge_logits_is_not_zero():
    low, high = np.ones((1, 3)), np.zeros((1, 3))
    logits = np.array([[1e30, 0.0, -2e30]])
    widen_by_scale(low, high, logits, 1e-30, 1.0, np.arange(3))
    at_first = np.exp([1.0, 0.0, -2.0]) / np.exp([1.0, 0.0, -2.0]).sum()
    np.testing.assert_allclose(high[0, 1:], at_first[1:], rtol=1e-12)
    np.testing.assert_allclose(low[0, 0], at_first[0], rtol=1e-12)


def test_equal_logits_have_the_same_probability_at_every_scale():
    for row in ([1e5] * 3, [1e9, 1e9, float(np.finfo(np.float32).min)], [0.0, 0.0, -np.inf]):
        low, high = np.ones((1, 3)), np.zeros((1, 3))
        widen_by_scale(low, high, np.array([row]), 0.5, 80.0, np.arange(3))
        expected = np.array(row) == max(row)
        np.testing.assert_allclose(low[0], expected / expected.sum(), atol=1e-12)
        np.testing.assert_allclose(high[0], expected / expected.sum(), atol=1e-12)


def test_what_a_model_knows_is_not_lost_in_round_off():
    # Its budget was 0 where knowledge of 1e-16 nats is multiplied by a sum over tiny weights.
    rng = np.random.default_rng(0)
    for size, strong in ((1e-8, 0.0), (1e-5, 0.0), (1e-5, 3.0)):
        logits = size * rng.normal(size=(4, 3))
        logits[0] += strong * rng.normal(size=3)
        weights = np.array([1e-18 if strong else 1e-8, 1e-8, 2e-8, 3e-8])
        d = decal.Decalibrator(0.5, likelihood="sum", directions=["temperature"])
        scales = d.fit(logits, [0, 1, 2, 0], sample_weight=weights).scales()
        with exact.precise(logits):
            allowed = 3 * exact.knowledge(logits, weights) * np.log(2)
            upper = float(scales.upper)
            lost = exact.loss_of_the_softer(logits, weights, upper) if upper < np.inf else 0
        assert scales.lower == 0
        if float(allowed) < weights.sum() * np.log(3):
            assert float(lost) == pytest.approx(float(allowed), abs=1e-10 * weights.sum())


@pytest.mark.parametrize("reference", ["model", "best", "halfway"])
@pytest.mark.parametrize("evidence", ["model", "labels"])
def test_a_column_that_is_masked_in_every_row_is_no_class(reference, evidence):
    logits, labels = masked_rows(200, 4, seed=7)
    wider = np.column_stack([logits[:, :2], np.full(200, -np.inf), logits[:, 2:]])
    settings = {"reference": reference, "directions": (decal.Temperature(evidence=evidence),)}
    alone = decal.decalibrate(logits, labels, alpha=0.9, **settings)
    beside = decal.decalibrate(wider, labels + (labels >= 2), alpha=0.9, **settings)
    for end in ("lower", "upper"):
        ends = getattr(alone.scales(), end), getattr(beside.scales(), end)
        np.testing.assert_allclose(*ends, rtol=1e-9)
    np.testing.assert_allclose(
        beside.predict(wider).upper[:, [0, 1, 3, 4]], alone.predict(logits).upper, atol=1e-9
    )


def test_a_column_that_some_chunk_does_not_mask_is_a_class_of_all(tmp_path):
    logits, labels = masked_rows(200, 4, seed=7)
    first, second = labels[:100] != 1, labels[100:] != 0
    logits[:100][first, 1], logits[100:][second, 0] = -np.inf, -np.inf
    parts = [
        (logits[:100][first], labels[:100][first]),
        (logits[100:][second], labels[100:][second]),
    ]
    whole = decal.Decalibrator(0.9, directions=BOTH)
    whole.fit(*(np.concatenate(both) for both in zip(*parts, strict=True)))
    chunks = decal.Decalibrator(0.9, directions=BOTH)
    for part in parts:
        chunks.partial_fit(*part)
        chunks.save(tmp_path / "chunks.npz")
        chunks = decal.Decalibrator.load(tmp_path / "chunks.npz")
    assert chunks.scales().upper == pytest.approx(whole.scales().upper, rel=1e-9)
    one = decal.Decalibrator(0.9, directions=BOTH).fit(*parts[0])
    three = decal.Decalibrator(0.9, directions=BOTH)
    three.fit(parts[0][0][:, [0, 2, 3]], np.searchsorted([0, 2, 3], parts[0][1]))
    assert one.scales().upper == pytest.approx(three.scales().upper, rel=1e-9)
