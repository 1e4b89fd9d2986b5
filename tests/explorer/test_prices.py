"""What asking a person costs, counted input by input; and what is settled without asking."""

from __future__ import annotations

import numpy as np
import pytest

from decal.explorer import explore
from helpers.explorations import ALPHAS, data, fitted


@pytest.fixture(scope="module")
def asked():
    z, labels, _ = data(150, 4)
    model = fitted(4)
    header = explore(model, z, labels=labels, alphas=ALPHAS, rows=10).payload.header
    return model, z, labels, header


def test_the_cost_of_an_input_is_an_error_or_a_question(asked):
    model, z, labels, header = asked
    costs = header["models"][0]["costs"]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    for c, price in enumerate(costs["prices"]):
        alone = [
            float(q.argmax() != y) if q.max() >= 1 - price else price
            for q, y in zip(p, labels, strict=True)
        ]
        assert costs["alone"][c] == pytest.approx(np.mean(alone))
        for a, alpha in enumerate(ALPHAS):
            possible = model.predict(z, alpha=alpha).possible("e_admissible")
            paid = [
                float(left[0] != y) if len(left) == 1 else price
                for left, y in zip(possible, labels.tolist(), strict=True)
            ]
            assert costs["sets"][a][c] == pytest.approx(np.mean(paid))
    assert costs["nobody"] == pytest.approx(np.mean(p.argmax(axis=1) != labels))
    saved = np.subtract(costs["alone"], costs["sets"][header["start"]])
    assert saved[costs["best"]] == saved.max()


def test_what_is_settled_is_compared_at_equal_shares(asked):
    model, z, labels, header = asked
    curve = header["models"][0]["curve"]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    surest = sorted(range(len(p)), key=lambda i: -p[i].max())
    for a, alpha in enumerate(ALPHAS):
        possible = model.predict(z, alpha=alpha).possible("e_admissible")
        one = [i for i, left in enumerate(possible) if len(left) == 1]
        assert curve["single"][a] == pytest.approx(len(one) / len(p))
        wrong = sum(possible[i][0] != labels[i] for i in one)
        assert curve["settled_wrong"][a] == pytest.approx(wrong / max(len(one), 1))
        as_many = sum(p[i].argmax() != labels[i] for i in surest[: len(one)])
        assert curve["alone_wrong"][a] == pytest.approx(as_many / max(len(one), 1))


def test_without_labels_nothing_is_paid():
    model = explore(fitted(3), data(6, 3)[0]).payload.header["models"][0]
    assert model["costs"] is None
    assert model["curve"]["settled_wrong"] is model["curve"]["alone_wrong"] is None
