"""A direction that another package brings goes every way that decal's own go.

`tests/fixtures/two_groups` is such a package: one file, and one line that registers it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

import decal

PACKAGE = Path(__file__).parents[1] / "fixtures" / "two_groups"
ALPHA = 0.9
NAME = "two-groups"
SETTINGS = {"alpha": ALPHA, "directions": ("class", NAME)}


@pytest.fixture(autouse=True)
def _installed(monkeypatch):
    """The package is on the path, of this process and of those that it starts."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), *sys.path]))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    logits = rng.normal(size=(90, 4)) * 2
    labels = np.array([rng.choice(4, p=p) for p in softmax(0.7 * logits, axis=1)])
    return logits, labels


@pytest.fixture
def model(data):
    return decal.decalibrate(*data, **SETTINGS)


def log_likelihood(logits, labels):
    return np.log(softmax(logits, axis=1)[np.arange(len(labels)), labels]).sum()


def same(credal, expected, atol=1e-12):
    np.testing.assert_allclose(credal.lower, expected.lower, rtol=0, atol=atol)
    np.testing.assert_allclose(credal.upper, expected.upper, rtol=0, atol=atol)


def test_it_is_found_by_name_and_does_what_it_says(model, data):
    logits, labels = data
    steps = model.steps(NAME)
    even = np.arange(4) % 2 == 0
    low = high = softmax_rows(logits)
    for theta in (steps.lower, steps.upper):
        moved = logits + theta * even
        lost = log_likelihood(logits, labels) - log_likelihood(moved, labels)
        assert lost == pytest.approx(-90 * np.log(ALPHA), abs=1e-8)
        low, high = np.minimum(low, softmax_rows(moved)), np.maximum(high, softmax_rows(moved))
    alone = decal.decalibrate(logits, labels, alpha=ALPHA, directions=[NAME]).predict(logits)
    np.testing.assert_allclose(alone.lower, low, atol=1e-9)
    np.testing.assert_allclose(alone.upper, high, atol=1e-9)
    classes = decal.decalibrate(logits, labels, alpha=ALPHA).predict(logits)
    both = model.predict(logits)
    np.testing.assert_array_equal(both.lower, np.minimum(alone.lower, classes.lower))
    np.testing.assert_array_equal(both.upper, np.maximum(alone.upper, classes.upper))


def softmax_rows(logits):
    return softmax(logits, axis=1)


def test_it_streams_merges_and_is_saved(model, data, tmp_path):
    logits, labels = data
    streamed = decal.Decalibrator(**SETTINGS)
    other = decal.Decalibrator(**SETTINGS).fit(logits[60:], labels[60:])
    for rows in (slice(0, 20), slice(20, 60)):
        streamed.partial_fit(logits[rows], labels[rows])
    streamed.merge(other)
    same(streamed.predict(logits), model.predict(logits), 1e-9)
    streamed.save(tmp_path / "m.npz")
    loaded = decal.Decalibrator.load(tmp_path / "m.npz")
    assert loaded.directions == model.directions
    same(loaded.predict(logits), streamed.predict(logits))


def test_its_settings_come_back_from_a_model_file(data, tmp_path):
    from two_groups import TwoGroups

    wide = decal.decalibrate(*data, alpha=ALPHA, directions=[TwoGroups(ratio=3.0)])
    wide.save(tmp_path / "m.npz")
    assert decal.Decalibrator.load(tmp_path / "m.npz").directions == (TwoGroups(ratio=3.0),)


def test_a_model_file_that_names_an_unknown_direction_is_refused(model, tmp_path, monkeypatch):
    model.save(tmp_path / "m.npz")
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(PACKAGE)])
    with pytest.raises(ValueError, match="'class', 'temperature', 'local': got 'two-groups'"):
        decal.Decalibrator.load(tmp_path / "m.npz")


def test_the_reference_may_be_the_best_model(data):
    logits, labels = data
    best = decal.decalibrate(logits, labels, alpha=ALPHA, reference="best", directions=[NAME])
    steps = best.steps(NAME)
    moved = [logits + best.reference_model.center]
    moved.append(moved[0] + steps.upper * (np.arange(4) % 2 == 0))
    lost = log_likelihood(moved[0], labels) - log_likelihood(moved[1], labels)
    assert lost == pytest.approx(-90 * np.log(ALPHA), abs=1e-8)


@pytest.mark.slow
def test_the_command_line_takes_it_for_files_and_folders(model, data, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    pytest.importorskip("typer")
    from helpers.commands import succeed

    logits, labels = data
    monkeypatch.chdir(tmp_path)

    def in_a_process(*arguments):
        command = [sys.executable, "-m", "decal", *map(str, arguments)]
        found = subprocess.run(command, capture_output=True, text=True)
        assert found.returncode == 0, found.stderr

    (tmp_path / "parts").mkdir()
    for i, rows in enumerate((slice(0, 40), slice(40, 90))):
        np.savez(tmp_path / f"parts/{i}.npz", logits=logits[rows], labels=labels[rows])
    np.savez(tmp_path / "all.npz", logits=logits, labels=labels)
    expected = model.predict(logits)
    # A new program finds the direction too, so one of these runs is one.
    for source, run in (("all.npz", succeed), ("parts", in_a_process)):
        directions = ("--directions", f"class,{NAME}")
        run("fit", source, "-o", "m.npz", "--alpha", ALPHA, "--force", *directions)
        succeed("predict", "m.npz", "all.npz", "-o", "credal.npz", "--force")
        with np.load(tmp_path / "credal.npz") as credal:
            np.testing.assert_allclose(credal["lower"], expected.lower, atol=1e-9)
            np.testing.assert_allclose(credal["upper"], expected.upper, atol=1e-9)
    succeed("explore", "m.npz", "all.npz", "--export", "page.html")
    assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.slow
def test_dask_workers_in_processes_of_their_own_find_it(model, data):
    da = pytest.importorskip("dask.array")
    distributed = pytest.importorskip("distributed")
    import decal.distributed

    logits, labels = data
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
    )
    with cluster, distributed.Client(cluster):
        rows = da.from_array(logits, chunks=(30, 4))
        fitted = decal.distributed.fit(rows, labels, **SETTINGS)
        same(decal.distributed.predict(fitted, rows).compute(), model.predict(logits), 1e-9)


def test_integrations_take_it(data, model):
    linear = pytest.importorskip("sklearn.linear_model")
    from decal.sklearn import CredalClassifier

    logits, labels = data
    classifier = CredalClassifier(linear.LogisticRegression(), cv=2, **SETTINGS)
    sets = classifier.fit(logits, labels).predict_credal(logits)
    assert not sets.is_empty.any()
    assert NAME in repr(classifier.decalibrator_)
    page = model.explore(logits, labels=labels)
    shown = json.dumps(page.payload.header["models"][0]["settings"])
    assert NAME in shown


def test_a_torch_head_exports_it(data, model):
    torch = pytest.importorskip("torch")
    from decal.torch import CredalHead

    lower, upper = CredalHead(model)(torch.tensor(data[0]))
    credal = model.predict(data[0])
    np.testing.assert_allclose(lower.numpy(), credal.lower, atol=1e-9)
    np.testing.assert_allclose(upper.numpy(), credal.upper, atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_onnx_runtime_runs_it(data, model):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    from decal.torch import CredalHead

    # Without the exporter's own rewriting, which tests/test_torch.py has.
    program = torch.onnx.export(
        CredalHead(model).eval(), (torch.zeros(2, 4),), dynamo=True, verbose=False, optimize=False
    )
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    (name,) = (i.name for i in session.get_inputs())
    rows = data[0][:2].astype(np.float32)
    lower, upper = session.run(None, {name: rows})
    credal = model.predict(rows)
    np.testing.assert_allclose(lower, credal.lower, atol=1e-6)
    np.testing.assert_allclose(upper, credal.upper, atol=1e-6)
