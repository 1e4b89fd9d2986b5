"""The ladder of scales holds the log-partition functions of the data, and adds up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import decal
from decal.directions._ladder import merge_scales, summarise_scales
from helpers.archives import read_npz
from helpers.sealed_files import write_sealed
from helpers.strategies import at_most, labelled_logits
from oracles.log_sums import log_sum_exp

BOTH = ("class", "temperature")
LABELS = ("class", decal.Temperature(evidence="labels"))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(400, 4)) * 2.5
    labels = np.array([rng.choice(4, p=p) for p in softmax(0.6 * logits, axis=1)])
    return logits, labels


def partition_sum(logits, s):
    d = logits - logits.max(axis=1, keepdims=True)
    return log_sum_exp(s * d).sum()


@at_most(60)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 1.0, 30.0, 1e4]), st.integers(2, 30))
def test_the_ladder_holds_the_sum_of_log_partition_functions(seed, spread, K):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(20, K)) * spread
    ladder = summarise_scales(logits, rng.integers(0, K, 20), None)
    s = np.exp(rng.uniform(-9, 9, 30)) / spread
    value, rate = ladder(s)
    d = logits - logits.max(axis=1, keepdims=True)
    for i in range(len(s)):
        assert value[i] == pytest.approx(partition_sum(logits, s[i]), abs=20 * 3e-5)
        exact_rate = (softmax(s[i] * d, axis=1) * d).sum()
        assert s[i] * rate[i] == pytest.approx(s[i] * exact_rate, abs=20 * 3e-4)


def test_the_ladder_of_many_rows_is_accurate_to_eight_digits(data):
    logits, labels = data
    ladder = summarise_scales(np.tile(logits, (5, 1)), np.tile(labels, 5), None)
    for s in (1e-4, 0.01, 0.3, 1.0, 1.7, 12.0, 300.0, 1e9):
        value, _ = ladder(np.array([s]))
        assert value[0] / 2000 == pytest.approx(partition_sum(logits, s) / 400, abs=3e-8)


@at_most(40)
@given(labelled_logits(max_rows=20, scales=(0.5, 3.0, 30.0, 1e4)), st.integers(2, 5))
def test_ladders_of_parts_add_up_to_that_of_the_whole(data, parts):
    logits, labels, weights = data
    weights = np.ones(len(labels)) if weights is None else weights + 1
    whole = summarise_scales(logits, labels, weights)
    split = [
        summarise_scales(logits[rows], labels[rows], weights[rows])
        for rows in np.array_split(np.arange(len(labels)), parts)
        if rows.size
    ]
    for merged in (merge_scales(split), merge_scales(split[::-1])):
        s = np.exp(np.linspace(-8, 6, 40))
        np.testing.assert_allclose(merged(s)[0], whole(s)[0], atol=2e-5 * weights.sum())
        assert merged.label_sum == pytest.approx(whole.label_sum)
        assert merged.weight == pytest.approx(whole.weight)


@pytest.mark.parametrize(
    "name", ["temperature.rungs", "temperature.at_zero", "temperature.numbers"]
)
def test_a_damaged_ladder_is_noticed(tmp_path, data, name):
    path = tmp_path / "m.npz"
    decal.Decalibrator(0.9, directions=BOTH).fit(*data).save(path)
    arrays = read_npz(path)
    for damaged in (arrays[name] * np.nan, arrays[name][:1], -np.abs(arrays[name])):
        if name != "temperature.numbers" and not np.isnan(damaged).any() and len(damaged) > 1:
            continue  # only the numbers have signs to check
        write_sealed(path, {**arrays, name: damaged})
        with pytest.raises(ValueError, match="intact model file"):
            decal.Decalibrator.load(path)


def test_what_a_model_claims_to_know_adds_up_and_is_read_from_older_files(tmp_path, data):
    path = tmp_path / "m.npz"
    logits, labels = data[0] * np.repeat([[1e-3], [1.0]], 200, axis=0), data[1]
    d = decal.Decalibrator(0.9, directions=["temperature"]).fit(logits, labels)
    p = softmax(logits, axis=1)
    known = np.log(4) + (p * np.log(p)).sum(axis=1)
    assert summarise_scales(logits, labels, None).knowledge == pytest.approx(known.mean())
    d.save(path)
    arrays = read_npz(path)
    write_sealed(path, {**arrays, "temperature.numbers": arrays["temperature.numbers"][:5]})
    older = decal.Decalibrator.load(path).scales()
    assert older.lower == pytest.approx(d.scales().lower, rel=1e-9)
    assert older.upper == pytest.approx(d.scales().upper, rel=1e-9)
    for impossible in (-1.0, 1e9):
        numbers = np.append(arrays["temperature.numbers"][:5], impossible)
        write_sealed(path, {**arrays, "temperature.numbers": numbers})
        with pytest.raises(ValueError, match="intact model file"):
            decal.Decalibrator.load(path)
