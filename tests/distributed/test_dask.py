"""Dask: the same results as on one machine, whatever the partitions and whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal._base.errors import PYTHON
from decal.rows import Rows
from helpers.strategies import at_most
from oracles import class_shifts as oracles

pytest.importorskip("dask", reason="needs decal[distributed]")
pytest.importorskip("distributed", reason="needs decal[distributed]")
pa = pytest.importorskip("pyarrow", reason="needs decal[distributed]")
pd = pytest.importorskip("pandas", reason="needs decal[distributed]")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
from dask.distributed import Client, LocalCluster  # noqa: E402

from decal.distributed import _frames, _partitions, fit, predict  # noqa: E402
from decal.distributed import dask as on_dask  # noqa: E402

pytestmark = [
    # dask 2026.8 still asks pandas 3.1 to set an index in place when it writes Parquet files.
    pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning"),
]

NAMES = ("cat", "dog", "eel", "fox")
TOLERANCE = 1e-9


@pytest.fixture(autouse=True)
def threads():
    """A few threads in this process, unless a test has a client of its own."""
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


def labelled(n=600, K=4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    logits = (2 * rng.standard_normal((n, K))).astype(dtype)
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    return logits, labels, rng.uniform(0, 3, n).round()


def frame(logits, labels, weights, partitions=5):
    lists = pd.Series(list(logits), dtype=pd.ArrowDtype(pa.list_(pa.float64())))
    whole = pd.DataFrame(logits, columns=NAMES[: logits.shape[1]]).assign(
        logits=lists, label=labels, weight=weights, id=np.arange(len(labels))
    )
    return dd.from_pandas(whole, npartitions=partitions)


def from_partitions(parts):
    """A Dask DataFrame of these very partitions, whatever they hold."""
    return dd.from_map(lambda i: parts[i], range(len(parts)), meta=parts[0].iloc[:0])


def assert_same(model, expected):
    assert model.examples == expected.examples
    assert model.directions == expected.directions
    for direction in model.directions:
        for alpha in (0.5, 0.8, 0.99):
            found, wanted = (m.steps(direction.name, alpha) for m in (model, expected))
            np.testing.assert_allclose(found.lower, wanted.lower, atol=TOLERANCE, rtol=0)
            np.testing.assert_allclose(found.upper, wanted.upper, atol=TOLERANCE, rtol=TOLERANCE)


# The same results


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"likelihood": "sum", "box": "own"},
        {"directions": ("class", "temperature", "local")},
        {"directions": (decal.Temperature(ratio=4.0, evidence="labels"),)},
    ],
    ids=str,
)
def test_arrays_give_what_one_machine_gives(options):
    logits, labels, weights = labelled(dtype=np.float32)
    expected = decal.decalibrate(logits, labels, alpha=0.8, sample_weight=weights, **options)
    chunked = da.from_array(logits, chunks=(77, 3))
    model = fit(
        chunked,
        da.from_array(labels, chunks=200),
        alpha=0.8,
        sample_weight=weights,
        classes=NAMES,
        **options,
    )
    assert_same(model, expected)
    assert model.classes == NAMES
    assert (model.likelihood, model.box) == (expected.likelihood, expected.box)


def test_ends_are_those_of_the_definition():
    logits, labels, weights = labelled(n=120)
    model = fit(da.from_array(logits, chunks=50), labels, alpha=0.7, sample_weight=weights)
    b = oracles.budget(0.7, "mean", weights.sum())
    for k in range(4):
        lower, upper = oracles.plausible_interval(logits, labels, k, b, weights)
        assert model.shifts().lower[k] == pytest.approx(lower, abs=1e-8)
        assert model.shifts().upper[k] == pytest.approx(upper, abs=1e-8)


@pytest.mark.parametrize("columns", ["logits", NAMES])
def test_dataframes_give_what_one_machine_gives(columns):
    logits, labels, weights = labelled()
    data = frame(logits, labels, weights)
    model = fit(data, "label", logits=columns, sample_weight="weight", alpha=0.8)
    assert_same(model, decal.decalibrate(logits, labels, alpha=0.8, sample_weight=weights))
    assert model.classes == (None if columns == "logits" else NAMES)


def test_labels_of_dataframes_may_be_names_of_classes():
    logits, labels, weights = labelled()
    data = frame(logits, np.array(NAMES)[labels], weights)
    expected = decal.decalibrate(logits, labels, alpha=0.8)
    assert_same(fit(data, logits=NAMES, alpha=0.8), expected)
    assert_same(fit(data, classes=NAMES, alpha=0.8), expected)


@at_most(25)
@given(st.data())
def test_neither_partitions_nor_the_order_of_merging_change_results(data):
    logits, labels, weights = labelled(n=60)
    cuts = sorted(data.draw(st.lists(st.integers(0, 60), max_size=8)))
    both = {"directions": ("class", "temperature")}
    recipe = _partitions.Recipe.to_fit(decal.Decalibrator(0.8, **both))
    pieces = []
    for i, rows in enumerate(np.split(np.arange(60), cuts)):
        batch = Rows(logits[rows], labels[rows], weights[rows])
        pieces.append(_partitions.summarise([batch], i, recipe))
    while len(pieces) > 1:  # any tree of any shape
        pieces = [pieces[i] for i in data.draw(st.permutations(range(len(pieces))))]
        taken = data.draw(st.integers(2, len(pieces)))
        pieces = [_partitions.merged(pieces[:taken]), *pieces[taken:]]
    expected = decal.decalibrate(logits, labels, alpha=0.8, sample_weight=weights, **both)
    assert_same(recipe.model.add(_partitions.all_evidence(pieces[0])), expected)


def test_a_partition_that_arrives_in_batches_is_learnt_from_in_chunks(monkeypatch):
    logits, labels, weights = labelled()
    monkeypatch.setattr(_partitions, "CHUNK_ELEMENTS", 500)
    rows = np.array_split(np.arange(len(labels)), 17)
    batches = [Rows(logits[r], labels[r], weights[r]) for r in rows]
    recipe = _partitions.Recipe.to_fit(decal.Decalibrator(0.8))
    found = _partitions.summarise(batches, 0, recipe)
    expected = decal.decalibrate(logits, labels, alpha=0.8, sample_weight=weights)
    assert_same(recipe.model.add(_partitions.all_evidence(found)), expected)


def test_small_files_with_other_columns_keep_their_numbers(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    logits, labels, _ = labelled(n=40)
    for i in range(4):
        rows = slice(10 * i, 10 * i + 10)
        wide = labels[rows].copy()
        wide[7] = 9 if i == 3 else wide[7]
        table = {"logits": pa.array(list(logits[rows])), "label": wide, "text": ["x" * 500] * 10}
        pq.write_table(pa.table(table), tmp_path / f"{i}.parquet")
    with pytest.raises(ValueError, match=r"got 9 in partition 3, row 7\.$"):
        fit(dd.read_parquet(tmp_path), alpha=0.8)
    assert fit(dd.read_parquet(tmp_path).partitions[:3], alpha=0.8).examples == 30


# Predictions


def test_predictions_for_arrays_are_lazy_and_the_same():
    logits, labels, _ = labelled()
    model = decal.decalibrate(logits, labels, alpha=0.8, classes=NAMES)
    asked = []

    def counted(block):
        asked.append(len(block))
        return block

    chunked = da.from_array(logits, chunks=(150, 2)).map_blocks(counted, meta=np.empty((0, 0)))
    asked.clear()
    lazy = predict(model, chunked, alpha=0.6)
    assert asked == []
    assert lazy.lower.shape == (600, 4)
    found, expected = lazy.compute(), model.predict(logits, alpha=0.6)
    assert len(asked) == 8  # every block once, for all three arrays together
    for name in ("lower", "upper", "point"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-15)
    assert found.classes == NAMES


@pytest.mark.parametrize("columns", ["logits", NAMES])
def test_predictions_for_dataframes_keep_the_other_columns(columns, tmp_path):
    logits, labels, weights = labelled(n=100)
    model = decal.decalibrate(logits, labels, alpha=0.8)
    data = frame(logits, labels, weights)
    if columns == NAMES:  # lists of an Arrow type, which pandas can write but not read
        data = data.drop(columns="logits")
    lazy = predict(model, data, logits=columns)
    assert isinstance(lazy, dd.DataFrame)
    lazy.to_parquet(tmp_path, schema=None)
    expected = model.predict(logits)
    for found in (lazy.compute(), pd.read_parquet(tmp_path)):
        dropped = {columns} if isinstance(columns, str) else set(columns)
        kept = [c for c in data.columns if c not in dropped]
        assert list(found.columns) == [*kept, "lower", "upper", "point"]
        np.testing.assert_array_equal(found["id"], np.arange(100))
        for name in ("lower", "upper", "point"):
            np.testing.assert_allclose(
                np.stack(found[name]), getattr(expected, name), rtol=0, atol=1e-15
            )


def test_columns_are_matched_to_the_classes_by_name():
    logits, labels, weights = labelled()
    data = frame(logits, labels, weights)
    model = fit(data, alpha=0.8, logits=NAMES)
    expected = model.predict(logits)
    found = predict(model, data, logits=NAMES[::-1]).compute()
    np.testing.assert_allclose(np.stack(found["lower"]), expected.lower, rtol=0, atol=TOLERANCE)
    with pytest.raises(ValueError, match="the columns of the classes cat, dog, eel, fox: got cat,"):
        predict(model, data, logits=["cat", "dog", "eel", "weight"])
    other = decal.decalibrate(logits, labels, alpha=0.8, classes="abcd")  # names of its own
    found = predict(other, data, logits=NAMES).compute()
    np.testing.assert_allclose(np.stack(found["lower"]), expected.lower, rtol=0, atol=TOLERANCE)


def test_probabilities_give_what_their_logits_give_and_are_noticed():
    logits, labels, weights = labelled()
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    blocks = da.from_array(p, chunks=(100, 4))
    expected = decal.decalibrate(p, labels, alpha=0.8, probabilities=True)
    model = fit(blocks, labels, alpha=0.8, probabilities=True)
    assert model.probabilities
    assert_same(model, expected)
    lazy = predict(model, blocks)
    wanted = expected.predict(p).lower
    np.testing.assert_allclose(lazy.lower.compute(), wanted, rtol=0, atol=TOLERANCE)
    framed = predict(model, frame(p, labels, weights)).compute()
    np.testing.assert_allclose(np.stack(framed["lower"]), wanted, rtol=0, atol=TOLERANCE)
    with pytest.warns(decal.InputWarning, match="Pass probabilities=True") as found:
        fit(blocks, labels, alpha=0.8)
    assert [w.filename for w in found] == [__file__]
    mixed = da.from_array(np.vstack([p[:300], logits[300:]]), chunks=(100, 4))
    fit(mixed, labels, alpha=0.8)


def test_models_without_class_shifts_predict_too():
    logits, labels, weights = labelled(n=100)
    local = {"alpha": 0.8, "directions": ["local"]}
    model = fit(da.from_array(logits, chunks=30), labels, **local)
    wanted = decal.decalibrate(logits, labels, **local).predict(logits)
    found = predict(model, da.from_array(logits, chunks=30)).compute()
    np.testing.assert_allclose(found.upper, wanted.upper, rtol=0, atol=1e-12)
    rows = predict(model, frame(logits, labels, weights), logits=NAMES).compute()
    np.testing.assert_allclose(np.stack(rows["upper"]), wanted.upper, rtol=0, atol=1e-12)


def test_predictions_name_bad_rows_too():
    logits, labels, weights = labelled(n=100)
    model = decal.decalibrate(logits, labels, alpha=0.8)
    bad = logits.copy()
    bad[67, 1] = np.nan
    with pytest.raises(ValueError, match="got nan in partition 3, row 7, column 1"):
        predict(model, da.from_array(bad, chunks=20)).compute()
    with pytest.raises(ValueError, match="got nan in partition 3, row 7, column dog"):
        predict(model, frame(bad, labels, weights), logits=NAMES).compute()
    with pytest.raises(ValueError, match="lists of 4 numbers, one per class: got 3 in part"):
        predict(model, frame(logits[:, :3], labels % 3, weights)).compute()
    with pytest.raises(ValueError, match="data must have 4 columns, one per class seen by fit"):
        predict(model, da.zeros((5, 3)))
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1: got 2"):
        predict(model, da.zeros((5, 4)), alpha=2)
    with pytest.raises(ValueError, match="must not have a column 'upper' yet"):
        predict(model, frame(logits, labels, weights).rename(columns={"id": "upper"}))


def test_empty_partitions_predict_nothing():
    logits, labels, weights = labelled(n=20)
    model = decal.decalibrate(logits, labels, alpha=0.8)
    data = frame(logits, labels, weights, partitions=2)
    assert len(predict(model, data[data["id"] < 5]).compute()) == 5
    chunked = da.from_array(logits, chunks=10)
    chosen = chunked[da.from_array(np.arange(20) < 5, chunks=10)]  # sizes are unknown
    assert len(predict(model, chosen).lower.compute()) == 5


# What may be missing, and what may be wrong


def test_empty_partitions_are_fine_unless_all_are():
    logits, labels, weights = labelled()
    expected = decal.decalibrate(logits[:100], labels[:100], alpha=0.8)
    data = frame(logits, labels, weights)
    assert_same(fit(data[data["id"] < 100], alpha=0.8), expected)
    chosen = da.from_array(np.arange(600) < 100, chunks=150)
    z, y = da.from_array(logits, chunks=150)[chosen], da.from_array(labels, chunks=150)[chosen]
    assert_same(fit(z, y, alpha=0.8), expected)
    with pytest.raises(ValueError, match="at least one row: got only empty partitions"):
        fit(data[data["id"] < 0], alpha=0.8)


def test_weights_may_be_zero_in_a_partition_but_not_everywhere():
    logits, labels, _ = labelled()
    chunked = da.from_array(logits, chunks=100)
    weights = (np.arange(600) >= 100).astype(float)
    expected = decal.decalibrate(logits[100:], labels[100:], alpha=0.8)
    assert_same(fit(chunked, labels, sample_weight=weights, alpha=0.8), expected)
    with pytest.raises(ValueError, match="positive somewhere: got only zeros"):
        fit(chunked, labels, sample_weight=0 * weights, alpha=0.8)


def spoilt(values, row, value):
    values = values.copy()
    values[row] = value
    return values


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda z, y, w: (spoilt(z, (307, 2), np.nan), y, w),
            "logits must be finite or -inf: got nan in partition 3, row 7, column 2",
        ),
        (
            lambda z, y, w: (z, spoilt(y, 307, 4), w),
            "labels must lie in 0 to 3, the columns of logits: got 4 in partition 3, row 7",
        ),
        (
            lambda z, y, w: (z, spoilt(y, 307, -1), w),
            "labels must lie in 0 to 3, the columns of logits: got -1 in partition 3, row 7",
        ),
        (
            lambda z, y, w: (z, y, spoilt(w, 307, -2)),
            "sample_weight must be finite and not negative: got -2.0 in partition 3, row 7",
        ),
        (
            lambda z, y, w: (z, y.astype(float), w),
            "labels must be integers 0 to 3: got dtype float64 in partition 0",
        ),
        (
            lambda z, y, w: (z.astype(complex), y, w),
            "logits must be real numbers: got dtype complex128 in partition 0",
        ),
        (lambda z, y, w: (z, y[1:], w), "one entry per row of data, 600 in all: got shape"),
        (lambda z, y, w: (z[:, 0], y, w), "data must be a matrix"),
        (lambda z, y, w: (z[:, :1], y, w), "two columns or more"),
    ],
)
def test_what_is_wrong_in_an_array_is_named_by_partition_row_and_column(change, message):
    logits, labels, weights = change(*labelled())
    with pytest.raises(ValueError, match=message):
        fit(da.from_array(logits, chunks=100), labels, sample_weight=weights, alpha=0.8)


def test_a_block_of_another_width_than_promised_is_named():
    logits, labels, _ = labelled(n=40)
    blocks = [logits[:10], logits[10:20], logits[20:30, :3], logits[30:]]
    parts = [da.from_delayed(dask.delayed(b), shape=(10, 4), dtype=float) for b in blocks]
    with pytest.raises(ValueError, match=r"4 columns.* got shape \(10, 3\) in partition 2"):
        fit(da.concatenate(parts), labels, alpha=0.8)


def parts_with(change):
    """Three partitions of ten rows, the second of them changed."""
    whole = frame(*labelled(n=30)).compute()
    parts = [whole.iloc[i : i + 10].reset_index(drop=True) for i in (0, 10, 20)]
    return [parts[0], change(parts[1]), parts[2]]


def narrower(part):
    short = pd.Series([[0.0, 1.0]] * 10, dtype=part["logits"].dtype)
    return part.assign(logits=part["logits"].where(np.arange(10) != 7, short))


@pytest.mark.parametrize(
    ("change", "columns", "message"),
    [
        (
            lambda p: p.assign(eel=p["eel"].where(p.index != 7)),
            NAMES,
            "logits must be finite or -inf: got nan in partition 1, row 7, column eel",
        ),
        (lambda p: p.drop(columns="label"), "logits", "no such column in partition 1 among cat"),
        (lambda p: p.drop(columns="eel"), NAMES, "column 'eel': got no such column in partition 1"),
        (narrower, "logits", "lists of 4 numbers, one per class: got 2 in partition 1, row 7"),
        (
            lambda p: p.assign(logits=p["logits"].where(p.index != 7)),
            "logits",
            "lists of 4 numbers, one per class: got none in partition 1, row 7",
        ),
        (
            lambda p: p.assign(label=p["label"].where(p.index != 7)),
            "logits",
            "labels must be in every row: got none in partition 1, row 7",
        ),
        (
            lambda p: p.assign(dog="x"),
            NAMES,
            "logits must be numbers: got the type .*string in partition 1, column dog",
        ),
        (lambda p: p.assign(logits="x"), "logits", "lists of numbers: got .*string in partition 1"),
        (
            lambda p: p.assign(
                logits=pd.Series([[0.0, 1.0, 2.0]] * 10, dtype=p["logits"].dtype), label=0
            ),
            "logits",
            "4 entries in every row, as in partition 0: got 3 in partition 1",
        ),
    ],
)
def test_what_is_wrong_in_a_dataframe_is_named(change, columns, message):
    with pytest.raises(ValueError, match=message):
        fit(from_partitions(parts_with(change)), logits=columns, alpha=0.8)


def test_rows_are_counted_through_all_batches_of_a_partition():
    logits, labels, _ = labelled(n=30)
    lists = pa.array(list(logits))
    whole = pa.table({"logits": lists, "label": spoilt(labels, 27, 4)})
    parts = [whole.slice(0, 20), whole.slice(20, 0), whole.slice(20)]
    recipe = _partitions.Recipe.to_fit(decal.Decalibrator(0.8))
    batches = _frames.batches(parts, _frames.Columns("logits", "label"), 3, recipe)
    found = _partitions.summarise(batches, 3, recipe)
    assert "got 4 in partition 3, row 27." in PYTHON.say(found.problems[0][1])


def test_a_label_that_is_no_class_is_named():
    logits, labels, weights = labelled(n=30)
    names = np.array(NAMES)[labels].astype(object)
    names[27] = "gnu"
    with pytest.raises(ValueError, match="one of the classes cat, dog, eel, fox: got 'gnu' in"):
        fit(frame(logits, names, weights), logits=NAMES, alpha=0.8)


def test_all_bad_partitions_are_listed():
    logits, labels, _ = labelled()
    bad = spoilt(labels, [150, 320, 599], 7)
    with pytest.raises(ValueError, match=r"partition 1, row 50\. Bad, too: partitions 3, 5\.$"):
        fit(da.from_array(logits, chunks=100), bad, alpha=0.8)


def test_what_cannot_be_added_up_is_refused_with_the_reason():
    z, y = da.zeros((4, 2)), [0, 1, 0, 1]
    with pytest.raises(ValueError, match="reference must be 'model' on a cluster: got 'best'"):
        fit(z, y, alpha=0.8, reference="best")

    class Mine(decal.Line):
        name = "mine"

        def move(self, logits):
            return logits

    with pytest.raises(ValueError, match="must all support a cluster: got 'mine'"):
        fit(z, y, alpha=0.8, directions=[Mine()])


def test_what_is_no_collection_is_refused():
    for data in (np.zeros((2, 2)), pd.DataFrame({"logits": []}), "logits.npz"):
        with pytest.raises(ValueError, match="data must be a Dask array, a Dask DataFrame or a S"):
            fit(data, [0, 1], alpha=0.8)
    data = frame(*labelled(n=30))
    with pytest.raises(ValueError, match="labels must be in the column 'y': got no such column am"):
        fit(data, "y", alpha=0.8)
    with pytest.raises(ValueError, match="Or name the class columns: logits="):
        fit(data.rename(columns={"logits": "z"}), "label", alpha=0.8)
    with pytest.raises(ValueError, match="labels must be the name of a column .* got a ndarray"):
        fit(data, np.zeros(30), alpha=0.8)
    with pytest.raises(ValueError, match="classes must be 4 names"):
        fit(da.zeros((3, 4)), [0, 1, 2], alpha=0.8, classes="abc")


@pytest.mark.parametrize(
    ("package", "code", "message"),
    [
        ("dask", "import decal.distributed.dask", "pip install 'decal[distributed]'"),
        ("pyspark", "import decal.distributed.spark", "needs PySpark for Spark"),
        ("pyarrow", "import decal.distributed._frames", "pip install 'decal[distributed]'"),
    ],
)
def test_absent_packages_are_named_with_the_command_that_installs_them(package, code, message):
    script = f"import sys; sys.modules[{package!r}] = None; import decal.distributed; {code}"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert message in found.stderr.splitlines()[-1]


# A cluster of processes


@pytest.fixture(scope="module")
def client():
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_processes_give_what_one_machine_gives(client):
    logits, labels, weights = labelled()
    with client.as_current(), dask.config.set(scheduler=client.get):
        model = fit(frame(logits, labels, weights), logits=NAMES, alpha=0.8)
        assert_same(model, decal.decalibrate(logits, labels, alpha=0.8))
        found = predict(model, da.from_array(logits, chunks=100)).compute()
    np.testing.assert_allclose(found.upper, model.predict(logits).upper, rtol=0, atol=1e-15)


def test_a_killed_worker_neither_loses_nor_doubles_evidence(client, tmp_path):
    logits, labels, weights = labelled()
    folder = str(tmp_path)

    def slowly(block, block_info=None):
        """The block itself, after a while; leaves a file that says who read it."""
        import pathlib
        import uuid

        time.sleep(0.2)
        number = block_info[0]["chunk-location"][0]
        pathlib.Path(folder, f"{number}-{os.getpid()}-{uuid.uuid4()}").touch()
        return block

    chunked = da.from_array(logits, chunks=(50, 4)).map_blocks(slowly, meta=np.empty((0, 0)))
    for file in tmp_path.iterdir():
        file.unlink()
    result = []

    def run():
        with client.as_current(), dask.config.set(scheduler=client.get):
            result.append(fit(chunked, labels, sample_weight=weights, alpha=0.8))

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 300
    while len(list(tmp_path.iterdir())) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    # Whoever read this block holds its evidence: the merge of eight has to wait for the others.
    seen = [file.name.split("-") for file in tmp_path.iterdir()]
    assert len({number for number, *_ in seen}) < 7
    os.kill(int(seen[0][1]), signal.SIGKILL)
    thread.join(timeout=300)

    expected = decal.decalibrate(logits, labels, alpha=0.8, sample_weight=weights)
    assert_same(result[0], expected)
    np.testing.assert_array_equal(result[0].class_weights, expected.class_weights)
    reads = [file.name.split("-")[0] for file in tmp_path.iterdir()]
    assert set(reads) == {str(i) for i in range(12)}
    assert len(reads) > 12  # the dead worker's blocks were read again


def test_the_tree_merges_eight_at_a_time():
    leaves = [dask.delayed(_partitions.PartitionEvidence(rows=1)) for _ in range(70)]
    root = on_dask._tree(leaves)
    merges = [key for key in dict(root.__dask_graph__()) if str(key).startswith("merged")]
    assert len(merges) == 9 + 2 + 1
    assert root.compute().rows == 70
