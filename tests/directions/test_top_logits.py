"""Many classes: lists of the most probable ones mean what they say, and memory stays bounded."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from helpers.strategies import at_most
from oracles.class_shifts import _shifted_softmax, box, budget, plausible_interval

LEVELS = (0.0, 0.4, 0.9)


@st.composite
def top_lists(draw, *, max_rows=8, max_classes=7):
    """(values, classes, remainder, K): log-probabilities of some classes of each row."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, K = draw(st.integers(1, max_rows)), draw(st.integers(2, max_classes))
    m = draw(st.integers(1, K - 1))
    scale = draw(st.sampled_from([0.0, 0.5, 3.0, 12.0]))
    events = rng.normal(size=(n, m + 1)) * scale
    events[:, m] = np.maximum(events[:, m], events.max(axis=1) - 40)  # less is taken as 1e-20
    classes = np.array([rng.permutation(K)[:m] for _ in range(n)])
    constant = rng.normal(size=n) * 100  # logits up to a constant per row, when all are given
    return events[:, :m] + constant[:, None], classes, events[:, m] + constant, K


def spread(values, classes, remainder, K):
    """The dense logits, one entry after the other: what is not listed shares the remainder."""
    n, m = values.shape
    dense = np.empty((n, K))
    for i in range(n):
        for k in range(K):
            at = np.flatnonzero(classes[i] == k)
            dense[i, k] = values[i, at[0]] if at.size else remainder[i] - np.log(K - m)
    return dense


@at_most(25)
@given(top_lists(max_rows=6, max_classes=5), st.booleans(), st.data())
def test_fitting_lists_is_fitting_the_spread_matrix(lists, weighted, draws):
    values, classes, remainder, K = lists
    n = len(values)
    labels = np.array(draws.draw(st.lists(st.integers(0, K - 1), min_size=n, max_size=n)))
    rng = np.random.default_rng(n)
    weights = rng.uniform(0.5, 2, n) if weighted else None
    if weighted and n > 1:
        weights[draws.draw(st.integers(1, n - 1))] = 0.0
    top = decal.TopLogits(values, classes, remainder, total_classes=K)
    dense = spread(values, classes, remainder, K)
    np.testing.assert_allclose(
        top.dense(), dense - np.logaddexp.reduce(dense, axis=1)[:, None], atol=1e-10
    )
    ours = decal.Decalibrator().fit(top, labels, sample_weight=weights).shifts(LEVELS)
    total = n if weights is None else weights.sum()
    for i, alpha in enumerate(LEVELS):
        for k in range(K):
            b = budget(alpha, "mean", total)
            low, high = plausible_interval(dense, labels, k, b, weights)
            assert ours.lower[i, k] == pytest.approx(low, rel=1e-7, abs=1e-7)
            assert ours.upper[i, k] == pytest.approx(high, rel=1e-7, abs=1e-7)
    matrix = decal.Decalibrator().fit(dense, labels, sample_weight=weights).shifts(LEVELS)
    finite = np.isfinite(matrix.lower)
    np.testing.assert_allclose(ours.lower[finite], matrix.lower[finite], rtol=1e-9, atol=1e-9)


@at_most(60)
@given(top_lists(), st.sampled_from(["joint", "own"]), st.sampled_from([0.0, 0.5, 0.9]))
def test_intervals_of_lists_are_those_of_every_moved_model(lists, kind, alpha):
    values, classes, remainder, K = lists
    n, m = values.shape
    labels = np.random.default_rng(n).integers(0, K, n)
    top = decal.TopLogits(values, classes, remainder, total_classes=K)
    model = decal.Decalibrator(alpha, box=kind).fit(top, labels)
    shifts, found = model.shifts(), model.predict(top)
    dense = spread(values, classes, remainder, K)
    low, high = box(dense, shifts.lower, shifts.upper, kind)
    np.testing.assert_allclose(found.lower, np.take_along_axis(low, classes, 1), atol=1e-10)
    np.testing.assert_allclose(found.upper, np.take_along_axis(high, classes, 1), atol=1e-10)
    for i in range(n):
        unlisted = np.setdiff1d(np.arange(K), classes[i])
        movers = range(K) if kind == "joint" else unlisted
        sums = [
            _shifted_softmax(dense[i], k, t)[unlisted].sum()
            for k in movers
            for t in (0.0, shifts.lower[k], shifts.upper[k])
        ]
        assert found.others_lower[i] == pytest.approx(min(sums), abs=1e-10)
        assert found.others_upper[i] == pytest.approx(max(sums), abs=1e-10)
        assert found.others_point[i] == pytest.approx(sums[0], abs=1e-10)
    events = found.events()
    assert events.shape == (n, m + 1)
    assert not events.is_empty.any()
    np.testing.assert_allclose(events.point.sum(axis=1), 1.0)


def some_lists(n=300, K=50, m=6, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, K)) * 2
    log_p = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    classes = np.argsort(-log_p, axis=1)[:, :m]
    labels = np.where(rng.random(n) < 0.7, classes[:, 0], rng.integers(0, K, n))
    return np.take_along_axis(log_p, classes, 1), classes, labels, K


def test_one_list_is_picked_by_its_number():
    values, classes, _, K = some_lists()
    top = decal.TopLogits(values, classes, total_classes=K)
    for one in (1, np.array(1), [1]):
        assert top[one].shape == (1, K)
        np.testing.assert_array_equal(top[one].dense(), top.dense()[1:2])
    with pytest.raises(IndexError, match="rows must be a number, a slice, a mask or a list of"):
        top[None]


def test_the_order_within_a_list_means_nothing():
    values, classes, labels, K = some_lists()
    other = np.random.default_rng(1).permutation(values.shape[1])
    tops = [
        decal.TopLogits(values[:, at], classes[:, at], total_classes=K)
        for at in (slice(None), other)
    ]
    first, second = (decal.Decalibrator().fit(top, labels) for top in tops)
    np.testing.assert_allclose(first.shifts().upper, second.shifts().upper, rtol=1e-12)
    boxes = first.predict(tops[0]).lower[:, other], second.predict(tops[1]).lower
    np.testing.assert_allclose(*boxes, atol=1e-12)


def test_chunks_of_lists_add_up_and_are_kept_in_a_file(tmp_path):
    values, classes, labels, K = some_lists()
    top = decal.TopLogits(values, classes, total_classes=K)
    whole = decal.Decalibrator().fit(top, labels)
    parts = decal.Decalibrator()
    for rows in (slice(0, 10), slice(10, 200), slice(200, None)):
        parts.partial_fit(top[rows], labels[rows])
    parts.save(tmp_path / "model.npz")
    loaded = decal.Decalibrator.load(tmp_path / "model.npz")
    for other in (parts, loaded):
        np.testing.assert_allclose(other.shifts().lower, whole.shifts().lower, rtol=1e-10)
    # Lists and matrices are about the same classes: they may be learnt from together.
    both = decal.Decalibrator().partial_fit(top[:100], labels[:100])
    both.partial_fit(top[100:].dense(), labels[100:])
    np.testing.assert_allclose(both.shifts().upper, whole.shifts().upper, rtol=1e-9)


def test_the_remainder_is_what_the_listed_probabilities_leave():
    listed = np.log([[0.5, 0.25], [0.7, 0.1]])
    top = decal.TopLogits(listed, [[0, 1], [3, 2]], total_classes=6)
    np.testing.assert_allclose(top.remainder_probability, [0.25, 0.2])
    # Lists that round-off lets sum to one still leave something, and no interval is NaN.
    sure = np.float32([[-1e-7, -20.0]])
    top = decal.TopLogits(sure, [[0, 1]], total_classes=6)
    assert 0 < top.remainder_probability[0] < 1e-6
    found = decal.Decalibrator().fit(top, [0]).predict(top)
    assert np.isfinite([*found.lower[0], *found.upper[0], found.others_upper[0]]).all()
    deep = decal.TopLogits([[0.0]], [[1]], [-5000.0], total_classes=9)
    assert np.isfinite(decal.Decalibrator().fit(deep, [1]).predict(deep).upper).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [[-1.0, np.nan]]}, r"values must be finite: got nan at index \(0, 1\)"),
        ({"values": [-1.0, -2.0]}, "values must be a matrix"),
        ({"values": [[1.0, 2.0]]}, "values must be log-probabilities, if no remainder .* row 0"),
        ({"values": [[900.0, 2.0]]}, "values must be log-probabilities"),
        ({"classes": [[0, 5]]}, r"classes must lie in 0 to 4: got 5 at index \(0, 1\)"),
        ({"classes": [[3, 3]]}, "classes must be distinct in every row: got 3 twice in row 0"),
        ({"classes": [[0.0, 1.0]]}, "classes must be integers"),
        ({"classes": [[0, 1, 2]]}, r"classes must be integers of the shape of values, \(1, 2\)"),
        ({"total_classes": 2}, "values must list one or more of the 2 classes .* but not all"),
        ({"total_classes": 1.5}, "total_classes must be a whole number"),
        ({"remainder": [-np.inf]}, "remainder must be finite: got -inf at index 0"),
        ({"remainder": [0.0, 1.0]}, "remainder must be 1 numbers"),
    ],
)
def test_bad_lists_are_named(change, message):
    good = {"values": [[-1.0, -2.0]], "classes": [[0, 1]], "total_classes": 5}
    decal.TopLogits(**good)
    with pytest.raises(ValueError, match=message):
        decal.TopLogits(**(good | change))


def test_lists_of_another_model_and_other_directions_are_refused():
    top = decal.TopLogits([[-1.0, -2.0]], [[0, 1]], total_classes=5)
    with pytest.raises(ValueError, match=r"got TopLogits with 'best'"):
        decal.Decalibrator(reference="best").fit(top, [0])
    with pytest.raises(ValueError, match="directions=\\('class',\\)"):
        decal.Decalibrator(directions=("class", "temperature")).fit(top, [0])
    model = decal.Decalibrator().fit(top, [0])
    other = decal.TopLogits([[-1.0, -2.0]], [[0, 1]], total_classes=6)
    for call in (model.predict, lambda z: model.partial_fit(z, [0])):
        with pytest.raises(ValueError, match=r"logits must have 5 classes in all, .* got 6\."):
            call(other)
    with pytest.raises(ValueError, match="labels must lie in 0 to 4"):
        model.fit(top, [5])


MANY_CLASSES = """
import numpy as np, decal
K, rng = 20_000, np.random.default_rng(0)
model = decal.Decalibrator()
for _ in range(2):
    logits = rng.standard_normal((200, K), dtype=np.float32) * 3
    model.partial_fit(logits, rng.integers(0, K, 200))
shifts = model.shifts()
classes = np.argpartition(-logits, 20, axis=1)[:, :20]
values = np.take_along_axis(logits, classes, 1)
rest = np.exp(logits.astype(float)).sum(1) - np.exp(values.astype(float)).sum(1)
top = decal.TopLogits(values, classes, np.log(rest), total_classes=K)
listed = decal.Decalibrator().fit(top, rng.integers(0, K, 200))
assert len(listed.predict(top)) == 200 and listed.shifts().residual < 1e-9
status = open("/proc/self/status")  # its own peak: ru_maxrss begins with that of the parent
peak = next(line for line in status if line.startswith("VmHWM"))
status.close()
print(int(peak.split()[1]) // 1024, shifts.error, shifts.residual)
"""


@pytest.mark.slow
def test_many_classes_fit_in_bounded_memory_and_say_how_well_they_are_known():
    found = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-W", "ignore:labels agree"),
            *("-W", "ignore:credal sets exclude", "-c", MANY_CLASSES),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    megabytes, error, residual = map(float, found.stdout.split())
    assert 0 < megabytes < 1500
    assert error < 1e-7
    assert residual < 1e-9
