"""Models to explore, and the format of the explorer's payload."""

import json

import numpy as np

import decal

ALPHAS = [1.0, 0.9, 0.3, 0.0]

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- {{payload}} {{title}} -->",
    "日本語 \u2028 \U0001f600 \ud800 \x00",
    "\"quoted\" & 'single' \\ \n\t",
    "__proto__",
]


def data(n, K, seed=0):
    """Logits, labels drawn from their softmax, and a truth near it."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((n, K))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    labels = np.argmax(p.cumsum(axis=1) > rng.random((n, 1)), axis=1)
    truth = 0.9 * p + 0.1 * rng.dirichlet(np.ones(K), n)
    return z, labels, truth


def fitted(K, seed=1, **settings):
    z, labels, _ = data(40 * K, K, seed)
    return decal.decalibrate(z, labels, **{"alpha": 0.9, "reference": "model"} | settings)


def decoded(data):
    """Header and arrays of a payload's bytes, by the letter of the format."""
    assert data[:8] == b"decal\x00\x00\x01"
    length = int.from_bytes(data[8:12], "little")
    assert (12 + length) % 8 == 0
    header = json.loads(data[12 : 12 + length].decode("utf-8"))
    body, arrays = data[12 + length :], {}
    for name, entry in header.pop("arrays").items():
        assert entry["offset"] % 8 == 0
        kinds = {"float32": "<f4", "int32": "<i4", "uint32": "<u4", "uint16": "<u2", "uint8": "u1"}
        dtype = kinds[entry["dtype"]]
        count = int(np.prod(entry["shape"]))
        flat = np.frombuffer(body, dtype, count, entry["offset"])
        arrays[name] = flat.reshape(entry["shape"])
    return header, arrays


def close(found, expected):
    np.testing.assert_allclose(found, np.asarray(expected), rtol=0, atol=1e-6)
