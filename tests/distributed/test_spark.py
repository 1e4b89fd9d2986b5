"""Spark: a real local session, the same results as on one machine."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import decal

pytest.importorskip("pyspark", reason="needs PySpark: pip install pyspark")
pa = pytest.importorskip("pyarrow", reason="needs decal[distributed]")
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    pytest.skip("needs Java, on which Spark runs", allow_module_level=True)

from pyspark.errors import PythonException  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from decal.distributed import fit, predict  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    # PySpark 4.3 says of itself that it is not yet ready for all of pandas 3.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

NAMES = ["cat", "dog", "eel.one", "fox"]
EVERY = ("class", "temperature", "local")
TOLERANCE = 1e-9


@pytest.fixture(scope="module")
def spark():
    """A session of two threads that tries a failed task again."""
    before = {name: os.environ.get(name) for name in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON")}
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    builder = SparkSession.builder.master("local[2,2]").appName("decal")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
        "spark.ui.showConsoleProgress": "false",
        # A virtual machine that lives for a minute: optimising its code costs more than it saves.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def labelled(n=500, seed=0):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((n, 4))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    return logits, labels, rng.integers(0, 3, n).astype(float)


def table(logits, labels, weights):
    columns = {name: logits[:, k] for k, name in enumerate(NAMES)}
    lists = pa.array(list(logits), pa.list_(pa.float64()))
    return pa.table(
        columns
        | {"logits": lists, "label": labels, "weight": weights, "id": np.arange(len(labels))}
    )


def in_partitions(spark, arrow, count):
    """A Spark DataFrame whose partitions are consecutive rows, as many in each."""
    schema = spark.createDataFrame(arrow.slice(0, 1)).schema
    rows = [tuple(row.values()) for row in arrow.to_pylist()]
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, count), schema)


def assert_same(model, expected):
    assert model.examples == expected.examples
    np.testing.assert_array_equal(model.class_weights, expected.class_weights)
    for alpha in (0.5, 0.9):
        found, wanted = model.shifts(alpha), expected.shifts(alpha)
        np.testing.assert_allclose(found.lower, wanted.lower, atol=TOLERANCE, rtol=0)
        np.testing.assert_allclose(found.upper, wanted.upper, atol=TOLERANCE, rtol=0)


def test_a_spark_dataframe_gives_what_one_machine_gives(spark):
    logits, labels, weights = labelled()
    data = spark.createDataFrame(table(logits, labels, weights)).repartition(9)
    expected = decal.decalibrate(logits, labels, alpha=0.8, sample_weight=weights, directions=EVERY)
    model = fit(data, sample_weight="weight", alpha=0.8, directions=EVERY, classes="abcd")
    assert_same(model, expected)
    assert model.classes == ("a", "b", "c", "d")
    found, wanted = model.scales(0.97), expected.scales(0.97)
    assert found.lower == pytest.approx(wanted.lower, abs=TOLERANCE)
    assert found.upper == pytest.approx(wanted.upper, rel=TOLERANCE)


def test_a_direction_of_another_package_travels_as_a_file(spark, tmp_path, monkeypatch):
    package = Path(__file__).parents[1] / "fixtures" / "two_groups"
    archive = shutil.make_archive(str(tmp_path / "two_groups"), "zip", package)
    monkeypatch.setattr(sys, "path", [*sys.path])  # Spark adds the file here, too
    spark.sparkContext.addPyFile(archive)
    logits, labels, weights = labelled()
    settings = {"alpha": 0.9, "directions": ("class", "two-groups")}
    data = spark.createDataFrame(table(logits, labels, weights)).repartition(3)
    model = fit(data, **settings)
    found = predict(model, data).orderBy("id").select("lower", "upper").toArrow()
    expected = decal.decalibrate(logits, labels, **settings).predict(logits)
    for name in ("lower", "upper"):
        values = np.array(found[name].to_pylist())
        np.testing.assert_allclose(values, getattr(expected, name), rtol=0, atol=TOLERANCE)


def test_predictions_are_lazy_and_keep_the_other_columns(spark):
    logits, labels, weights = labelled()
    model = decal.decalibrate(logits, labels, alpha=0.8)
    data = spark.createDataFrame(table(logits, labels, weights)).repartition(3)
    lazy = predict(model, data, logits=NAMES, alpha=0.7)
    assert lazy.columns == ["logits", "label", "weight", "id", "lower", "upper", "point"]
    found = lazy.orderBy("id").select("lower", "upper", "point").toArrow()
    expected = model.predict(logits, alpha=0.7)
    for name in ("lower", "upper", "point"):
        values = np.array(found[name].to_pylist())
        np.testing.assert_allclose(values, getattr(expected, name), rtol=0, atol=1e-12)


def test_columns_per_class_may_have_dots_and_partitions_may_be_empty(spark):
    logits, labels, weights = labelled()
    data = in_partitions(spark, table(logits, labels, weights), 4).where("id < 100")
    model = fit(data, logits=NAMES, alpha=0.8)
    assert model.classes == tuple(NAMES)
    assert_same(model, decal.decalibrate(logits[:100], labels[:100], alpha=0.8))
    with pytest.raises(ValueError, match="at least one row: got only empty partitions"):
        fit(data.where("id < 0"), logits=NAMES, alpha=0.8)


def test_bad_rows_are_named_by_partition_row_and_column(spark):
    logits, labels, weights = labelled()
    bad, wrong = logits.copy(), labels.copy()
    bad[482, 2] = np.nan  # row 107 of the last of four partitions, in its second batch of 64
    wrong[[130, 300]] = 4
    data = in_partitions(spark, table(bad, labels, weights), 4)
    with pytest.raises(
        ValueError, match=r"finite or -inf: got nan in partition 3, row 107, column eel\.one"
    ):
        fit(data, logits=NAMES, alpha=0.8)
    model = decal.decalibrate(logits, labels, alpha=0.8)
    with pytest.raises(PythonException, match="got nan in partition 3, row 107, column 2"):
        predict(model, data).count()
    data = in_partitions(spark, table(logits, wrong, weights), 4)
    with pytest.raises(ValueError, match=r"got 4 in partition 1, row 5\. Bad, too: partition 2\.$"):
        fit(data, alpha=0.8)
    with pytest.raises(ValueError, match="labels must be in the column 'y': got no such column"):
        fit(data, "y", alpha=0.8)
    with pytest.raises(ValueError, match="reference must be 'model' on a cluster"):
        fit(data, alpha=0.8, reference="best")


def test_lists_of_another_length_and_missing_labels_are_named(spark):
    rows = [(i, [0.0, 1.0, 2.0], i % 3) for i in range(20)]
    schema = "id int, logits array<float>, label int"
    rows[13] = (13, [0.0, 1.0], 1)
    data = spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), schema)
    with pytest.raises(ValueError, match="3 numbers, one per class: got 2 in partition 1, row 3"):
        fit(data, alpha=0.8)
    rows[13] = (13, [0.0, 1.0, 2.0], None)
    data = spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), schema)
    with pytest.raises(ValueError, match="labels must be in every row: got none in partition 1, r"):
        fit(data, alpha=0.8)


def test_a_killed_worker_neither_loses_nor_doubles_evidence(spark, tmp_path):
    logits, labels, weights = labelled()
    data = in_partitions(spark, table(logits, labels, weights), 6)
    folder = str(tmp_path)

    def dying_once(batches):
        """Hands rows on; the first process to have sent some of partition 2 is killed."""
        from pyspark import TaskContext

        for i, batch in enumerate(batches):
            marker = Path(folder, "killed")
            if TaskContext.get().partitionId() == 2 and i == 1 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    plain = data.select("logits", "label", "weight")
    model = fit(plain.mapInArrow(dying_once, plain.schema), sample_weight="weight", alpha=0.8)
    assert Path(folder, "killed").exists()
    assert_same(model, decal.decalibrate(logits, labels, alpha=0.8, sample_weight=weights))


def test_a_label_shift_observes_and_predicts_where_the_partitions_lie(spark):
    logits, labels, weights = labelled()
    whole = table(logits, labels, weights)
    shift = decal.LabelShift().fit(logits, labels, classes=NAMES)
    expected = decal.LabelShift().fit(logits, labels, classes=NAMES).observe(logits[:60])
    data = in_partitions(spark, whole.slice(0, 60), 4)
    decal.distributed.observe(shift, data, logits=NAMES[::-1])
    assert shift.frequencies.estimate == pytest.approx(expected.frequencies.estimate)
    found = sorted(predict(shift, data.select("id", "logits")).collect(), key=lambda row: row.id)
    upper = np.array([row.upper for row in found])
    np.testing.assert_allclose(upper, expected.predict(logits[:60]).upper, atol=2e-3)
