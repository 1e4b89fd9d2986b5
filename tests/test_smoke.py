"""One fast test per integration: does it import, run, and say what the arrays say?

`make quick` runs these beside the tests of the core. Libraries are imported within the tests, so
that each is loaded by one process only; what they do in detail is tested in their own files.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import decal

pytestmark = pytest.mark.smoke

CLASSES = ("cat", "dog", "eel")


def drawn(rows=60, seed=0):
    """Logits of three classes, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((rows, 3))
    return logits, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


@pytest.fixture
def model():
    return decal.decalibrate(*drawn(), alpha=0.8, classes=CLASSES)


def assert_same(credal, expected, atol=1e-12):
    np.testing.assert_allclose(credal.lower, expected.lower, atol=atol, rtol=0)
    np.testing.assert_allclose(credal.upper, expected.upper, atol=atol, rtol=0)


def test_sklearn():
    pytest.importorskip("sklearn")
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    from decal.sklearn import CredalClassifier

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 3)), np.repeat(CLASSES, 40)
    X[np.arange(120), np.arange(120) // 40] += 2
    fitted = LogisticRegression().fit(X[::2], y[::2])
    classifier = CredalClassifier(FrozenEstimator(fitted), alpha=0.8).fit(X[1::2], y[1::2])
    logits, labels = fitted.decision_function(X[1::2]), np.arange(120)[1::2] // 40
    expected = decal.decalibrate(logits, labels, alpha=0.8).predict(fitted.decision_function(X))
    assert_same(classifier.predict_credal(X), expected)


def test_onnx_head(model, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from decal.onnx import export_head, run

    logits = drawn(seed=1)[0]
    path = export_head(model, tmp_path / "head.onnx", dtype="float64")
    bounds = {name: run(path, logits, output=name) for name in ("lower", "upper")}
    assert_same(SimpleNamespace(**bounds), model.predict(logits))


@pytest.mark.torch
def test_torch_head(model):
    torch = pytest.importorskip("torch")
    from decal.torch import CredalHead

    logits = drawn(seed=1)[0]
    lower, upper = CredalHead(model)(torch.tensor(logits))
    assert_same(SimpleNamespace(lower=lower, upper=upper), model.predict(logits))


def test_llm(model):
    verbaliser = decal.llm.Verbaliser(CLASSES, space=False)
    z = np.log([[0.5, 0.2, 0.1, 0.2]])
    masses = decal.llm.vocabulary_masses(z, [*CLASSES, "the"], verbaliser)
    assert_same(decal.llm.predict(model, masses), model.predict(z[:, :3]))


@pytest.mark.torch
def test_zeroshot():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    pytest.importorskip("PIL")
    from decal.zeroshot import ZeroShotClassifier

    encoder = SimpleNamespace(
        head="softmax",
        scale=10.0,
        bias=0.0,
        encode_texts=lambda texts: torch.eye(3)[: len(texts)],
        encode_images=lambda images: torch.tensor([[3.0, 4.0, 0.0]] * len(images)),
    )
    classifier = ZeroShotClassifier(encoder, CLASSES)
    logits = classifier.logits([np.zeros((4, 4), np.uint8)])
    np.testing.assert_allclose(logits, [[6.0, 8.0, 0.0]], rtol=1e-6)


def test_plot(model):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from decal import plot

    axes = Figure().add_subplot(projection="polar")
    assert plot.spider(model.predict(drawn()[0]), 0, ax=axes) is axes
    assert set(CLASSES) <= {text.get_text() for text in axes.texts}


def test_explorer_page(model, tmp_path):
    pytest.importorskip("PIL")
    from decal.explorer import explore

    logits, labels = drawn(8)
    page = tmp_path / "page.html"
    explore(model, logits, labels=labels, title="Three animals").save(page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<title>Three animals" in text


def test_dask():
    pytest.importorskip("distributed")
    da = pytest.importorskip("dask.array")
    from decal.distributed import fit

    logits, labels = drawn()
    expected = decal.decalibrate(logits, labels, alpha=0.8).shifts()
    chunks = da.from_array(logits, chunks=25), da.from_array(labels, chunks=25)
    found = fit(*chunks, alpha=0.8).shifts()
    np.testing.assert_allclose(found.upper, expected.upper, atol=1e-9)
    np.testing.assert_allclose(found.lower, expected.lower, atol=1e-9)


@pytest.fixture
def run(monkeypatch):
    """Runs the command that `pip` installs."""
    pytest.importorskip("typer")
    pytest.importorskip("pyarrow")
    from decal.__main__ import main

    def run_(*arguments):
        monkeypatch.setattr("sys.argv", ["decal", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0

    return run_


def test_command_line(run, model, tmp_path):
    logits, labels = drawn()
    np.savez(tmp_path / "logits.npz", logits=logits, labels=labels, classes=CLASSES)
    run("fit", tmp_path / "logits.npz", "--alpha", "0.8", "-o", tmp_path / "model.npz")
    loaded = decal.Decalibrator.load(tmp_path / "model.npz")
    assert_same(loaded.predict(logits), model.predict(logits))
