"""Compiled loops and NumPy give the same numbers, on one thread or many, and neither is needed."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import decal
from decal._base.numerics import margins
from decal.directions import _ladder as temperature
from decal.directions._class_shifts import ClassShifts, ShiftPlan, boxes_of_shifts
from decal.directions._direction import LabelledLogits
from decal.directions._margins import MarginSummary, merge
from decal.directions._peaks import scale_peaks, widen_by_scale
from decal.directions._summarise import Summariser
from helpers.compiled import both, using
from helpers.strategies import at_most, labelled_logits

kernels = pytest.importorskip("decal._base.kernels", reason="needs Numba", exc_type=ImportError)
from decal._base import elementary, likelihood_kernels, local_kernels, scale_kernels  # noqa: E402

LEVELS = (0.0, 0.3, 0.8, 0.95, 1.0)


def random_logits(n, K, *, scale=3.0, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return (scale * rng.standard_normal((n, K))).astype(dtype), rng.integers(0, K, n)


def compiled_margins(logits, center):
    m = np.full((logits.shape[1], len(logits) + 3), np.nan)
    kernels.margins(logits, center, np.flatnonzero(np.isneginf(center)), m, 2)
    assert np.isnan(m[:, :2]).all()
    assert np.isnan(m[:, -1]).all()
    return m[:, 2:-1]


@st.composite
def centers(draw, K):
    """(K,) shifts, some of them -inf but at least two finite."""
    center = np.array(draw(st.lists(st.floats(-3, 3), min_size=K, max_size=K)))
    for k in draw(st.sets(st.integers(0, K - 1), max_size=K - 2)):
        center[k] = -np.inf
    return center


ends = st.one_of(st.sampled_from([0.0, 1e-9, 400.0, np.inf]), st.floats(0, 30))


@given(labelled_logits(max_rows=20, max_classes=9), st.data())
def test_margins_agree(data, draws):
    logits = data[0]
    center = draws.draw(centers(logits.shape[1]))
    expected = margins(logits, center)
    round_off = 1e-14 * (1 + np.abs(logits).max())
    np.testing.assert_allclose(
        compiled_margins(logits, center), expected, rtol=1e-13, atol=round_off
    )


def test_margins_of_certain_classes_do_not_cancel():
    # p is 1 - 3e-18, and 1 - exp(-1000): neither is seen in p.
    rows = np.array([[40.0, -0.5, -0.5], [1000.0, 0.0, -1.0]])
    m = compiled_margins(rows, np.zeros(3))
    assert m[0, 0] == pytest.approx(40.5 - np.log(2), rel=1e-15)
    assert m[0, 1] == pytest.approx(1000 - np.log1p(np.exp(-1)), rel=1e-15)


@given(labelled_logits(max_rows=9, max_classes=9), st.booleans(), st.data())
def test_boxes_agree_whatever_the_shifts(data, joint, draws):
    logits = data[0]
    K = logits.shape[1]
    center = draws.draw(centers(K))
    lower = -np.array(draws.draw(st.lists(ends, min_size=K, max_size=K)))
    upper = np.array(draws.draw(st.lists(ends, min_size=K, max_size=K)))
    lower[np.isneginf(center)] = -np.inf
    plan = ShiftPlan.of(decal.Endpoints(lower, upper, center, 0.8, 0.0))
    fast, slow = both(lambda: boxes_of_shifts(logits, plan, joint=joint))
    for ours, theirs in zip(fast, slow, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    low, high, point = fast
    assert (low <= point).all()
    assert (point <= high).all()


@at_most(150)
@example((np.float32([[0, -30, -30], [-30, 0, -30]]), np.array([0, 1]), None), "model")
@given(labelled_logits(), st.sampled_from(["model", "best"]))
def test_fits_agree(data, reference):
    logits, labels, weights = data
    used = labels if weights is None else labels[weights > 0]
    assume(reference == "model" or len(set(used)) > 1)

    def work():
        model = decal.Decalibrator(reference=reference)
        model._warn_if_far = lambda *_: None  # tested elsewhere
        model.fit(logits, labels, sample_weight=weights)
        return model.shifts(LEVELS), model.distance, model

    (fast, gained, _), (slow, gained_slowly, model) = both(work)
    scale = 1 + float(np.abs(logits).max())
    assert gained == pytest.approx(gained_slowly, abs=1e-12 * scale)
    # Where the likelihood is flat to the last bit, there are several best models, and gains are
    # measured from another one.
    assume(np.allclose(fast.center, slow.center, rtol=1e-9, atol=1e-9 * scale))
    np.testing.assert_array_equal(np.isinf(fast.lower), np.isinf(slow.lower))
    np.testing.assert_array_equal(np.isinf(fast.upper), np.isinf(slow.upper))
    assert fast.residual <= 1e-12 * scale
    for name in ("lower", "upper"):
        ours, theirs = getattr(fast, name), getattr(slow, name)
        below_one = np.isfinite(ours) & (np.array(LEVELS) < 1)[:, None]
        np.testing.assert_allclose(ours[below_one], theirs[below_one], rtol=1e-9, atol=1e-9 * scale)
        # At alpha = 1 an end may lie where the gain is flat, and be known to the root of round-off.
        at_one = np.isfinite(ours) & (np.array(LEVELS) == 1)[:, None]
        for k in at_one.any(axis=0).nonzero()[0]:
            ends = ours[at_one[:, k], k][0], theirs[at_one[:, k], k][0]
            gains = model.gains("class", ends)[:, k]
            assert (
                ends[0] == pytest.approx(ends[1], abs=1e-6 * scale)
                or abs(gains[0] - gains[1]) <= 1e-12 * scale
            )


@at_most(150)
@given(labelled_logits(max_rows=30))
def test_ladders_of_scales_agree(data):
    logits, labels, weights = data
    if weights is not None:
        logits, labels, weights = (a[weights > 0] for a in (*data[:2], weights))
    fast, slow = both(lambda: temperature.summarise_scales(logits, labels, weights))
    assert (fast.first, fast.ties, fast.label_sum) == (slow.first, slow.ties, slow.label_sum)
    index = np.arange(fast.first, max(fast.last, slow.last) + 1)
    for ours, theirs in zip(fast.rungs(index), slow.rungs(index), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * fast.weight)


def test_ladders_of_many_rows_and_of_hardly_different_logits_agree():
    logits, labels = random_logits(4000, 100)
    logits[7, 1] = np.nextafter(logits[7, 0], np.float32(9))  # some forty octaves to climb
    fast, slow = both(lambda: temperature.summarise_scales(logits, labels, None))
    assert fast.last - fast.first > 40
    index = np.arange(fast.first, max(fast.last, slow.last) + 1)
    for ours, theirs in zip(fast.rungs(index), slow.rungs(index), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * 4000)


def test_peaks_agree():
    logits, _ = random_logits(30, 80, dtype=np.float64)
    d = logits - logits.mean(axis=1, keepdims=True)
    row, j = np.nonzero((d > 0) & (logits < logits.max(axis=1, keepdims=True)))
    fast, slow = both(lambda: scale_peaks(logits, row, j, 0.0, np.inf))
    np.testing.assert_allclose(fast, slow, rtol=1e-12)


@pytest.mark.parametrize("K", [4, 20, 21, 300])
@pytest.mark.parametrize(("first", "last"), [(0.0, np.inf), (0.6, 1.7), (0.2, np.inf), (1.0, 1.0)])
def test_boxes_over_scales_agree_with_masks_and_with_classes_left_out(K, first, last):
    logits, _ = random_logits(50, K)
    logits[::3, 1] = -np.inf
    logits[5, : K - 1] = -np.inf
    logits[7] = 1.0
    columns = np.delete(np.arange(K), 2)

    def boxes():
        low, high = np.full((2, 50, K), [[[0.4]], [[0.41 / K]]])
        widen_by_scale(low, high, logits, first, last, columns)
        return low, high

    for fast, slow in zip(*both(boxes), strict=True):
        np.testing.assert_allclose(fast, slow, rtol=2e-10, atol=1e-300)
        assert (fast[:, 2] == slow[:, 2]).all()


bins = st.dictionaries(st.integers(-5, 5), st.floats(-9, 9), max_size=8)


@at_most(100)
@given(bins, st.lists(bins, min_size=1, max_size=4))
def test_bins_are_added_key_by_key(first, others):
    def summary(values):
        keys = np.array(sorted(values), dtype=np.int64)
        moments = np.array([[(j + 1) * values[k] for k in keys] for j in range(6)])
        return MarginSummary(1 / 8, keys, moments.reshape(6, len(keys)), *np.ones((3, 2)))

    first = first or {0: 1.0}
    total = {}
    for part in (first, *others):
        for key, value in part.items():
            total[key] = total.get(key, 0.0) + value
    for merged in both(lambda: merge([summary(part) for part in (first, *others)])):
        assert merged.keys.tolist() == sorted(total)
        for j, moments in enumerate(merged.moments):
            expected = [(j + 1) * total[key] for key in sorted(total)]
            np.testing.assert_allclose(moments, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "K"), [(3000, 40), (400, 1000), (1, 5000), (9, 2)])
def test_fits_and_predictions_of_real_size_agree(n, K, weighted):
    logits, labels = random_logits(n, K)
    weights = np.random.default_rng(1).integers(0, 4, n) + 1.0 * (np.arange(n) == 0)
    w = weights if weighted else None
    fast, slow = both(lambda: decal.Decalibrator().fit(logits, labels, sample_weight=w))
    ours, theirs = fast.shifts(LEVELS), slow.shifts(LEVELS)
    for name in ("lower", "upper"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-9)
    boxes = both(lambda: slow.predict(logits[:50]))
    for name in ("lower", "upper", "point"):
        np.testing.assert_allclose(*(getattr(b, name) for b in boxes), rtol=0, atol=1e-13)


@pytest.mark.parametrize("compiled", [True, False])
def test_results_are_the_same_to_the_bit_on_any_number_of_threads(compiled):
    logits, labels = random_logits(5000, 200)
    found = []
    for threads in (1, 2, 3):
        with using(compiled, threads):
            model = decal.Decalibrator().fit(logits, labels)
            found.append((model.shifts(LEVELS), model.predict(logits)))
    for shifts, boxes in found[1:]:
        np.testing.assert_array_equal(shifts.lower, found[0][0].lower)
        np.testing.assert_array_equal(shifts.upper, found[0][0].upper)
        np.testing.assert_array_equal(boxes.lower, found[0][1].lower)


@pytest.mark.parametrize("compiled", [True, False])
def test_margins_outside_the_grid_of_the_first_block_are_not_lost(compiled):
    rng = np.random.default_rng(0)
    m = rng.normal(size=(5, 4000)) * 3
    m[[0, 3], [3900, 3950]] = [80.0, -1e5]  # two strays, in the last block
    labels, weights = rng.integers(0, 5, 4000), rng.integers(1, 4, 4000) * 1.0
    t = np.array([[-79.0, 0.5, 1.0, 99_999.5, 2.0]])
    for w in (None, weights):
        with using(compiled):
            summariser = Summariser(5)
            for part in np.array_split(np.arange(4000), 4):
                block = np.ascontiguousarray(m[:, part])
                summariser.add(block, labels[part], None if w is None else w[part])
            summary = summariser.summary()
            value = summary.series.softplus_sum(t)[0][0] + summary.series.hinges[0]
        expected = np.logaddexp(0, m + t.T) @ (np.ones(4000) if w is None else w)
        np.testing.assert_allclose(value, expected, rtol=1e-11)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("writeable", [True, False])
def test_any_memory_layout_will_do(order, writeable):
    logits, labels = random_logits(300, 20)
    other = np.array(logits, order=order)
    other.flags.writeable = writeable
    data = [LabelledLogits(z, np.zeros(20), labels, None) for z in (logits, other)]
    with using(True):
        first, second = map(ClassShifts().summarise, data)
        np.testing.assert_allclose(first.moments, second.moments, rtol=0, atol=1e-13)
        model = decal.Decalibrator().fit(logits, labels)
        boxes = [model.predict(z).lower for z in (logits, other)]
        np.testing.assert_allclose(*boxes, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "module", [kernels, likelihood_kernels, local_kernels, scale_kernels, elementary]
)
def test_a_kernel_has_the_same_bits_whether_just_compiled_or_read_from_disk(module):
    # What a kernel calls and does not contain exists twice in the process that compiles: alone, and
    # within the kernel, optimised again with sums in another order. Which one runs there is not
    # which one runs from disk. So helpers become part of the kernels, which alone are kept.
    compiled = {name: f for name, f in vars(module).items() if hasattr(f, "targetoptions")}
    assert compiled
    for name, function in compiled.items():
        options = function.targetoptions
        forced = options.get("forceinline", False) or options.get("inline") == "always"
        kept = "NullCache" not in type(function._cache).__name__
        assert forced != kept, f"{name} must be either a helper, inlined, or a kernel, cached"


def run(code):
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


SMALL_AND_LARGE = """
import sys
import numpy as np, decal
{prepare}
rng = np.random.default_rng(0)
def fit(n):
    z = rng.standard_normal((n, 50), dtype=np.float32)
    return decal.Decalibrator().fit(z, np.arange(n) % 50).predict(z).upper.mean()
fit(200)
print("numba" in sys.modules and sys.modules["numba"] is not None)
for _ in range(9):  # many small problems are no large one
    fit(200)
print("decal._base.kernels" in sys.modules)
fit(3000)
print("decal._base.kernels" in sys.modules)
"""


def test_numba_is_loaded_only_when_there_is_enough_to_do():
    assert run(SMALL_AND_LARGE.format(prepare="")) == ["False", "False", "True"]


def test_without_numba_everything_still_works():
    hide = "sys.modules['numba'] = None"  # importing it then raises ImportError
    assert run(SMALL_AND_LARGE.format(prepare=hide)) == ["False", "False", "False"]
