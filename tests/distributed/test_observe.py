"""LabelShift on Dask: partitions are observed where they lie, with the results of one machine."""

import numpy as np
import pytest

import decal

pytest.importorskip("dask", reason="needs decal[distributed]")
pa = pytest.importorskip("pyarrow", reason="needs decal[distributed]")
pd = pytest.importorskip("pandas", reason="needs decal[distributed]")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

from decal.distributed import observe, predict  # noqa: E402

NAMES = ("cat", "dog", "eel")


@pytest.fixture(autouse=True)
def threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    logits = 2 * np.eye(3)[y] + rng.normal(size=(400, 3))
    return logits[:300], y[:300], logits[300:], rng.integers(0, 3, size=100).astype(float)


def fitted(inputs):
    return decal.LabelShift().fit(inputs[0], inputs[1], classes=NAMES)


BOUNDS = 2e-3
"""How far bounds may differ that are found in other blocks."""


def same(found, expected, new):
    assert found.frequencies.inputs == expected.frequencies.inputs
    assert found.frequencies.estimate == pytest.approx(expected.frequencies.estimate)
    seen, wanted = (x.fitted.require_observed().likelihood for x in (found, expected))
    assert np.array_equal(seen.ratios, wanted.ratios)
    assert np.array_equal(seen.weights, wanted.weights)
    assert found.point(new[:3]) == pytest.approx(expected.point(new[:3]))


def test_arrays_are_observed_as_on_one_machine(inputs):
    _, _, new, weights = inputs
    z = da.from_array(new, chunks=(17, 2))
    shift = fitted(inputs)
    assert observe(shift, z) is shift
    same(shift, fitted(inputs).observe(new), new)
    weighted = observe(fitted(inputs), z, sample_weight=weights)
    kept = weights > 0
    expected = fitted(inputs).observe(new[kept], sample_weight=weights[kept])
    same(weighted, expected, new)
    lazy = predict(shift, z)
    assert lazy.compute().upper == pytest.approx(shift.predict(new).upper, abs=BOUNDS)
    with pytest.raises(ValueError, match="alpha must be None for a LabelShift"):
        predict(shift, z, alpha=0.5)
    with pytest.raises(decal.NotFittedError, match="must have observed"):
        predict(fitted(inputs), z)


@pytest.mark.parametrize("columns", ["logits", ("eel", "cat", "dog")])
def test_dataframes_are_observed_as_on_one_machine(inputs, columns):
    _, _, new, _ = inputs
    lists = pd.Series(list(new), dtype=pd.ArrowDtype(pa.list_(pa.float64())))
    frame = pd.DataFrame(new, columns=NAMES).assign(logits=lists, id=np.arange(len(new)))
    data = dd.from_pandas(frame, npartitions=4)
    shift = observe(fitted(inputs), data, logits=columns)
    same(shift, fitted(inputs).observe(new), new)
    found = predict(shift, data, logits=columns).compute()
    upper = np.stack(found["upper"].tolist())
    assert upper == pytest.approx(shift.predict(new).upper, abs=BOUNDS)


def test_bad_partitions_are_named_and_nothing_is_observed(inputs):
    _, _, new, _ = inputs
    shift = fitted(inputs).observe(new[:10])
    bad = new.copy()
    bad[40, 1] = bad[90, 0] = np.nan
    with pytest.raises(ValueError, match=r"in partition 2, row 0.*Bad, too: partition 4"):
        observe(shift, da.from_array(bad, chunks=(20, 3)))
    with pytest.raises(ValueError, match="data must have 3 columns"):
        observe(shift, da.from_array(new[:, :2], chunks=(20, 2)))
    with pytest.raises(ValueError, match="only empty partitions"):
        observe(shift, da.from_array(new[:0], chunks=(20, 3)))
    with pytest.raises(ValueError, match="sample_weight must be positive somewhere"):
        observe(shift, da.from_array(new, chunks=(20, 3)), sample_weight=np.zeros(100))
    with pytest.raises(ValueError, match="data must be a Dask array"):
        observe(shift, new)
    assert shift.frequencies.inputs == 10
    p = np.exp(new) / np.exp(new).sum(axis=1, keepdims=True)
    with pytest.warns(decal.InputWarning, match="must not be probabilities"):
        observe(shift, da.from_array(p, chunks=(20, 3)))
