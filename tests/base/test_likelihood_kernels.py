"""Compiled sums over rows are those of NumPy, and references do not depend on which were taken."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import decal
from decal.directions import _best_model, best_model
from decal.directions._log_likelihood import LogLikelihood
from helpers.compiled import both, using
from helpers.strategies import at_most, labelled_logits

pytest.importorskip("numba", reason="compiled loops need Numba")

FEW, MANY = 7, 90


def problem(K, *, seed=0, n=300, dtype=np.float32):
    """Logits with masks, labels, weights and shifts; the last column is not used."""
    rng = np.random.default_rng(seed)
    logits = (3 * rng.normal(size=(n, K + 1))).astype(dtype)
    labels = rng.integers(0, K, n)
    masked = rng.random(logits.shape) < 0.2
    masked[np.arange(n), labels] = False
    logits[masked] = -np.inf
    logits[1::7, 2] = np.where(labels[1::7] == 2, 0, -1e20)
    return logits, labels, rng.random(n), np.append(rng.normal(size=K), 0.7)


def assert_close(found, expected, *, rtol=1e-13):
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize(("K", "dense"), [(FEW, True), (FEW, False), (MANY, False)])
def test_sums_over_rows_agree(K, dense, part, dtype):
    logits, labels, weights, model = problem(K, dtype=dtype)
    vector = np.random.default_rng(1).normal(size=K + 1)

    def work():
        data = LogLikelihood(logits, labels, weights, np.arange(K), floor=-1e6, dense=dense)
        if part:
            data = data.part(np.arange(3, 250, 2))
        here = data(model)
        bent = data.product(model, data.levels(model), vector)
        return (here.value, here.gradient, here.hessian, data.losses(model), data.below), bent

    (compiled, rough), (expected, bent) = both(work)
    for a, b in zip(compiled, expected, strict=True):
        assert_close(a, b)
    assert_close(rough, bent, rtol=1e-6)  # in float32


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("reach", [0.0, 100.0])  # of shifts, with levels by row
def test_a_product_with_the_hessian_is_that_of_the_hessian(compiled, reach):
    logits, labels, weights, model = problem(FEW)
    model[1] += reach
    with using(compiled):
        data = LogLikelihood(logits, labels, weights, np.arange(FEW), floor=-1e6, ridge=0.3)
        here, vector = data(model), np.random.default_rng(1).normal(size=FEW + 1)
        found = data.product(model, data.levels(model), vector)
    assert_close(found, here.hessian @ vector, rtol=1e-5 if compiled else 1e-13)
    few = np.diag(here.hessian)
    assert_close(data.with_settings(dense=False)(model).hessian, few)


@at_most(40)
@given(labelled_logits(max_rows=20, max_classes=9), st.floats(0.01, 3))
def test_losses_and_slopes_agree(data, scale):
    logits, labels, weights = data
    n, K = logits.shape
    model = np.append(np.linspace(-1, 1, K), scale)
    w = np.ones(n) if weights is None else weights

    def work():
        likelihood = LogLikelihood(logits, labels, w, np.arange(K))
        return likelihood.losses(model), likelihood(model).gradient

    for a, b in zip(*both(work), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-12 * (1 + np.abs(logits).max()))


def drawn(n, K, *, spread=2.0, scale=0.7, seed=0):
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(n, K))
    true = scale * logits + rng.normal(size=K)
    return logits, (true + rng.gumbel(size=true.shape)).argmax(axis=1)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(("n", "K"), [(4000, 80), (250, 200)])
def test_the_best_model_of_many_classes_has_no_slope(n, K, scale, compiled):
    logits, labels = drawn(n, K)
    labels[:K] = np.arange(K)
    with using(compiled):
        best = best_model(logits, labels, None, scale=scale)
    p = softmax(best.logits(logits), axis=1)
    slopes = np.bincount(labels, minlength=K) - p.sum(axis=0)
    assert np.abs(slopes).max() <= 1e-11 * n
    if scale:
        own = logits[np.arange(n), labels]
        assert abs((own - (p * logits).sum(axis=1)).sum()) <= 1e-9 * n


@pytest.mark.filterwarnings("ignore::decal.FitWarning", "ignore::decal.InputWarning")
@pytest.mark.parametrize("K", [5, 80])
@pytest.mark.parametrize("name", ["best", "auto", "consensus"])
def test_references_are_the_same_compiled_or_not(name, K):
    logits, labels = drawn(1500, K)

    def work():
        model = decal.Decalibrator(0.9, reference=name, directions="local")
        return model.fit(logits, labels).reference_model

    compiled, expected = both(work)
    tolerance = 1e-10 if name == "best" else 1e-5
    assert compiled.scale == pytest.approx(expected.scale, abs=tolerance)
    np.testing.assert_allclose(compiled.center, expected.center, rtol=0, atol=tolerance)


@pytest.mark.parametrize("K", [10, 200])
def test_references_are_the_same_to_the_bit_on_any_number_of_threads(K):
    logits, labels = drawn(600_000 // K * 4, K)
    found = []
    for threads in (1, 3):
        with using(True, threads):
            found.append(best_model(logits, labels, None, scale=True))
    np.testing.assert_array_equal(found[0].center, found[1].center)
    assert found[0].scale == found[1].scale


@pytest.mark.parametrize(("seed", "n"), [(1, 150), (3, 100)])
def test_nearly_perfect_predictions_have_the_best_model_of_exact_steps(seed, n, monkeypatch):
    # Conjugate gradients alone end 5e-2 and 1e-4 away from it.
    rng = np.random.default_rng(seed)
    logits, labels = rng.normal(size=(n, 100)), np.arange(n) % 100
    logits[np.arange(n), labels] += 3.5
    with using(True):
        best = best_model(logits, labels, None, scale=True)
        monkeypatch.setattr(_best_model, "DENSE_CLASSES", 100)
        exact = best_model(logits, labels, None, scale=True)
    np.testing.assert_allclose(best.center, exact.center, rtol=0, atol=1e-8)
    assert best.scale == pytest.approx(exact.scale, abs=1e-8)


SMALL = """
import sys, numpy as np, decal
rng = np.random.default_rng(0)
z, y = rng.normal(size=(300, 10)), rng.integers(0, 10, 300)
for reference in ("auto", "consensus", "best"):
    decal.Decalibrator(reference=reference).fit(z, y)
print("numba" in sys.modules)
"""


def test_small_problems_load_no_compiler():
    command = [sys.executable, "-c", SMALL]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.split() == ["False"]
