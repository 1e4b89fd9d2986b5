"""The serving example: the same bounds over HTTP, in batches, and errors in decal's own words."""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import decal

pytest.importorskip("fastapi", reason="needs the packages of examples/serve")
pytest.importorskip("uvicorn", reason="needs the packages of examples/serve")
httpx = pytest.importorskip("httpx", reason="needs the packages of examples/serve")

EXAMPLE = Path(__file__).parents[2] / "examples" / "serve"
NAMES = ("cat", "dog", "eel")
NPY = {"Content-Type": "application/x-npy", "Accept": "application/x-npy"}


@pytest.fixture(scope="module")
def example():
    """Imports a module of the example, as if started in its folder."""
    before = set(sys.modules)
    sys.path.insert(0, str(EXAMPLE))
    yield importlib.import_module
    sys.path.remove(str(EXAMPLE))
    for name in {"app", "batching", "load", "models"} - before:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((300, 3))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    return decal.decalibrate(logits, labels, alpha=0.8, classes=NAMES), logits


@pytest.fixture(scope="module")
def path(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "model.npz"
    fitted[0].save(path)
    return path


@pytest.fixture(scope="module")
def server(example, path):
    """A client of a real uvicorn process on a free port."""
    with (
        example("load").serving(path) as address,
        httpx.Client(base_url=address, timeout=120) as client,
    ):
        yield client


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def test_json_gives_what_predict_gives(server, fitted):
    model, logits = fitted
    answer = server.post("/predict", json={"logits": logits[:5].tolist()}).json()
    expected = model.predict(logits[:5])
    np.testing.assert_allclose(answer["lower"], expected.lower, rtol=0, atol=1e-15)
    np.testing.assert_allclose(answer["upper"], expected.upper, rtol=0, atol=1e-15)


@pytest.mark.parametrize("where", ["body", "address"])
def test_every_alpha_can_be_asked_for(server, fitted, where):
    model, logits = fitted
    body, query = {"logits": logits[:2].tolist()}, {}
    (body if where == "body" else query)["alpha"] = 0.5
    answer = server.post("/predict", json=body, params=query).json()
    np.testing.assert_allclose(answer["upper"], model.predict(logits[:2], alpha=0.5).upper)


@pytest.mark.parametrize("dtype", ["<f4", "<f8", ">f4", "<i4"])
def test_npy_files_go_in_and_come_out(server, fitted, dtype):
    model, logits = fitted
    rows = np.asfortranarray((3 * logits[:4]).astype(dtype))
    answer = server.post("/predict", content=npy(rows), headers=NPY)
    found = np.load(io.BytesIO(answer.content), allow_pickle=False)
    expected = model.predict(rows.astype(rows.dtype.newbyteorder("=")))
    np.testing.assert_allclose(found, [expected.lower, expected.upper], rtol=0, atol=1e-15)


def test_bare_float32_go_in(server, fitted):
    model, logits = fitted
    rows = logits[:4].astype("<f4")
    headers = {"Content-Type": "application/octet-stream"}
    answer = server.post("/predict", content=rows.tobytes(), headers=headers).json()
    np.testing.assert_allclose(answer["lower"], model.predict(rows).lower, rtol=0, atol=1e-15)


def test_the_model_describes_itself(server, path):
    about = server.get("/model").json()
    assert about["classes"] == list(NAMES)
    assert (about["kind"], about["alpha"], about["examples"]) == ("decal", 0.8, 300)
    assert about["bytes"] == path.stat().st_size
    assert server.get("/healthz").json()["status"] == "ok"
    assert "/predict" in server.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize(
    ("logits", "status"),
    [([[0.0, float("nan"), 1.0]], 422), ([[0.0, 1.0]], 422), ([], 422)],
)
def test_wrong_logits_are_refused_in_the_words_of_decal(server, fitted, logits, status):
    answer = server.post("/predict", content=json.dumps({"logits": logits}))
    assert answer.status_code == status
    if logits:
        with pytest.raises(ValueError, match="logits must") as error:
            fitted[0].predict(logits)
        assert answer.json()["detail"] == str(error.value)
    else:
        assert "logits must be a matrix" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (b"{", "application/json", 400, "The body must be JSON"),
        (b"[" * 200_000, "application/json", 400, "The body must be JSON"),
        (b"[]", "application/json", 422, 'an object with "logits"'),
        (b'{"logits": [[1, 2], [3]]}', "application/json", 422, "must be an array of numbers"),
        (b'{"logits": [["a", 2, 3]]}', "application/json", 422, "must be a matrix"),
        (b'{"logits": [[1, 2, 3]], "alpha": 2}', "application/json", 422, "alpha must lie between"),
        (b'{"logits": [[1, 2, 3]], "alpha": "x"}', "application/json", 422, "alpha must be one"),
        (b"hello", "application/x-npy", 400, "must be an .npy file"),
        (npy(np.zeros((2, 3)))[:-1], "application/x-npy", 400, "must hold (2, 3) float64: got 47"),
        (npy(np.array([[None, 1, 2]])), "application/x-npy", 422, "must be a matrix of numbers"),
        (npy(np.zeros(3)), "application/x-npy", 422, "got shape (3,)"),
        (b"\0" * 13, "application/octet-stream", 422, "must have 3 columns"),
        (b"\0" * ((16 << 20) + 1), "application/octet-stream", 413, "at most 16,777,216 bytes"),
        (b"\0" * 12 * 65_537, "application/octet-stream", 413, "at most 65,536 rows: got 65537"),
        (b"a,b", "text/csv", 415, "got text/csv"),
    ],
)
def test_other_bodies_are_refused_with_the_reason(server, content, kind, status, message):
    answer = server.post("/predict", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert message in answer.json()["detail"]


def test_no_rows_have_no_bounds(server):
    answer = server.post("/predict", content=npy(np.zeros((0, 3))), headers=NPY)
    assert np.load(io.BytesIO(answer.content)).shape == (2, 0, 3)


def test_a_header_that_promises_terabytes_takes_no_memory(server):
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 3)}
    np.lib.format.write_array_header_1_0(file, header)
    answer = server.post("/predict", content=file.getvalue(), headers=NPY)
    assert answer.status_code == 400
    assert "got 0 bytes" in answer.json()["detail"]


def with_header(text, data=b"\0" * 48):
    """An .npy file of version 1 with this text for a header."""
    header = text.encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


BAD_HEADERS = {
    "a bracket too many": "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), } }",
    "a bracket too few": "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3",
    "no dtype": "{'descr': '<,8', 'fortran_order': False, 'shape': (2, 3), }",
    "keys that cannot be sorted": "{'descr': '<f8', b'x': False, 'shape': (2, 3), }",
    "a list for a dictionary": "['descr', 'fortran_order', 'shape']",
    "two negative numbers": "{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -3), }",
    "a calculation": "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3**1), }",
    "deep brackets": "(" * 4000 + ")" * 4000,
}


@pytest.mark.parametrize("header", BAD_HEADERS)
def test_headers_that_cannot_be_are_refused(server, header):
    answer = server.post("/predict", content=with_header(BAD_HEADERS[header]), headers=NPY)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("The body must")


@pytest.mark.parametrize("columns", [10**30, 10**18])
def test_empty_matrices_of_any_width_are_refused(server, columns):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': (0, {columns}), }}"
    answer = server.post("/predict", content=with_header(text, b""), headers=NPY)
    assert answer.status_code in (400, 422)
    assert " must " in answer.json()["detail"]


@pytest.mark.parametrize("alpha", ["1" + 400 * "0", "-1" + 400 * "0", "1e400", "NaN", "true"])
def test_every_number_that_is_no_alpha_is_refused(server, alpha):
    body = f'{{"logits": [[1, 2, 3]], "alpha": {alpha}}}'
    answer = server.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("alpha must")
    answer = server.post("/predict", json={"logits": [[1, 2, 3]]}, params={"alpha": alpha})
    assert answer.status_code == 422


def test_a_body_that_does_not_come_is_not_waited_for(example, path, monkeypatch):
    monkeypatch.setenv("DECAL_BODY_SECONDS", "0.5")
    with example("load").serving(path) as address, httpx.Client(base_url=address) as client:
        server = httpx.URL(address)
        with socket.create_connection((server.host, server.port), timeout=60) as slow:
            slow.sendall(
                b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b'Content-Length: 1000\r\n\r\n{"logits": '
            )
            assert client.get("/healthz").status_code == 200  # nobody else waits
            answer = b"".join(iter(lambda: slow.recv(4096), b""))  # until the server hangs up
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(body)["detail"] == "The body must arrive within 0.5 s: got 11 bytes."
        assert client.post("/predict", json={"logits": [[1, 2, 3]]}).status_code == 200


def test_many_at_once_get_their_own_answers(server, fitted):
    model, logits = fitted
    expected = model.predict(logits)

    def ask(row):
        return server.post("/predict", json={"logits": [logits[row].tolist()]}).json()["upper"][0]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(100)))
    np.testing.assert_allclose(found, expected.upper[:100], rtol=0, atol=1e-15)


# Batching


def test_what_waits_is_computed_together_and_one_bad_request_spoils_no_other(example, fitted):
    batching = example("batching")
    model, logits = fitted
    sizes = []

    def compute(rows, alpha):
        credal = model.predict(rows, alpha=alpha)
        sizes.append(len(rows))
        return credal.lower, credal.upper

    async def ask():
        batcher = batching.Batcher(compute)
        bad = logits[8:10].copy()
        bad[1, 2] = np.inf
        parts = [logits[:3], logits[3:8], bad, logits[10:11].astype(np.float32), logits[11:13]]
        alphas = [None, None, None, None, 0.5]
        pairs = zip(parts, alphas, strict=True)
        jobs = [asyncio.create_task(batcher.submit(part, alpha)) for part, alpha in pairs]
        again = [asyncio.create_task(batcher.submit(logits[13:15], None)) for _ in range(2)]
        await asyncio.sleep(0)  # everybody waits before the work begins
        await batcher.start()
        answers = await asyncio.gather(*jobs, *again, return_exceptions=True)
        await batcher.stop()
        return answers, batcher

    answers, batcher = asyncio.run(ask())
    assert (batcher.requests, batcher.batches) == (7, 3)
    assert sizes == [3, 5, 2, 2, 1, 2]  # the first batch failed, and then each had its own
    assert "got inf at index (1, 2)" in str(answers[2])
    np.testing.assert_array_equal(answers[1][0], model.predict(logits[3:8]).lower)
    np.testing.assert_array_equal(answers[4][1], model.predict(logits[11:13], alpha=0.5).upper)


def test_a_batch_is_one_computation(example):
    batching = example("batching")
    sizes = []

    def compute(rows, _):
        sizes.append(len(rows))
        return rows, rows + 1

    async def ask():
        batcher = batching.Batcher(compute, max_rows=6, max_waiting=5)
        parts = [np.full((2, 3), i) for i in range(5)]
        jobs = [asyncio.create_task(batcher.submit(part, None)) for part in parts]
        await asyncio.sleep(0)
        with pytest.raises(batching.OverloadedError):
            await batcher.submit(parts[0], None)
        await batcher.start()
        answers = await asyncio.gather(*jobs)
        await batcher.stop()
        return answers

    answers = asyncio.run(ask())
    assert sizes == [6, 4]
    for i, (lower, upper) in enumerate(answers):
        np.testing.assert_array_equal(lower, np.full((2, 3), i))
        np.testing.assert_array_equal(upper, np.full((2, 3), i + 1))


# The ONNX file


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.filterwarnings(  # PyTorch 2.13 calls its own deprecated names when it exports
    "ignore:.*LeafSpec:FutureWarning", "ignore:.*is deprecated:DeprecationWarning"
)
def test_an_onnx_file_serves_the_same_bounds(example, fitted, path, tmp_path):
    for package in ("torch", "onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    models = example("models")
    target = tmp_path / "model.onnx"
    models.export(path, target)
    served, (model, logits) = models.load(target), fitted
    assert served.about["classes"] == list(NAMES)
    assert served.columns == 3
    lower, upper = served.predict(logits, None)
    expected = model.predict(logits)
    np.testing.assert_allclose(lower, expected.lower, rtol=0, atol=1e-6)
    np.testing.assert_allclose(upper, expected.upper, rtol=0, atol=1e-6)
    assert served.predict(logits[:0], None)[0].shape == (0, 3)
    for bad in (np.zeros((2, 4)), np.array([[0, np.nan, 0]])):
        with pytest.raises(ValueError, match="logits must") as ours:
            served.predict(bad, None)
        with pytest.raises(ValueError, match="logits must") as theirs:
            model.predict(bad)
        assert str(ours.value) == str(theirs.value)
    with pytest.raises(ValueError, match="alpha must be 0.8, for which the file was exported"):
        served.predict(logits, 0.5)
