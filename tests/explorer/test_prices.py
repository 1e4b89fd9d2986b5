"""What asking a person costs, counted input by input; and what is settled without asking."""

from __future__ import annotations

import numpy as np
import pytest

from decal.explorer import explore
from helpers.explorations import ALPHAS, data, fitted


def answers(z):
    return np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)


@pytest.fixture(scope="module", params=["model", "best"])
def asked(request):
    """A model, its page, what it says and, if that differs, what its sets are around."""
    z, labels, _ = data(150, 4)
    model = fitted(4, reference=request.param)
    header = explore(model, 2 * z, labels=labels, alphas=ALPHAS, rows=10).payload.header
    sides = {"alone": answers(2 * z)}
    if request.param == "best":
        sides["recalibrated"] = model.predict(2 * z).point
    return model, 2 * z, labels, header, sides


def test_the_cost_of_an_input_is_an_error_or_a_question(asked):
    model, z, labels, header, sides = asked
    costs = header["models"][0]["costs"]
    assert set(costs["others"]) == {"nobody", *sides}
    for c, price in enumerate(costs["prices"]):
        for name, p in sides.items():
            paid = [
                float(q.argmax() != y) if q.max() >= 1 - price else price
                for q, y in zip(p, labels, strict=True)
            ]
            assert costs["others"][name][c] == pytest.approx(np.mean(paid))
        wrong = np.mean(sides["alone"].argmax(axis=1) != labels)
        assert costs["others"]["nobody"][c] == pytest.approx(wrong)
        for a, alpha in enumerate(ALPHAS):
            possible = model.predict(z, alpha=alpha).possible("e_admissible")
            paid = [
                float(left[0] != y) if len(left) == 1 else price
                for left, y in zip(possible, labels.tolist(), strict=True)
            ]
            assert costs["sets"][a][c] == pytest.approx(np.mean(paid))
    rival = np.min([*costs["others"].values()], axis=0)
    saved = 1 - np.array(costs["sets"][header["start"]]) / rival
    assert saved[costs["best"]] == pytest.approx(saved.max())


def test_what_is_settled_is_compared_at_equal_shares(asked):
    model, z, labels, header, sides = asked
    curve = header["models"][0]["curve"]
    assert ("recalibrated_wrong" in curve) == ("recalibrated" in sides)
    for a, alpha in enumerate(ALPHAS):
        possible = model.predict(z, alpha=alpha).possible("e_admissible")
        one = [i for i, left in enumerate(possible) if len(left) == 1]
        assert curve["single"][a] == pytest.approx(len(one) / len(z))
        wrong = sum(possible[i][0] != labels[i] for i in one)
        assert curve["settled_wrong"][a] == pytest.approx(wrong / max(len(one), 1))
        for name, p in sides.items():
            surest = sorted(range(len(p)), key=lambda i, p=p: -p[i].max())
            as_many = sum(p[i].argmax() != labels[i] for i in surest[: len(one)])
            assert curve[f"{name}_wrong"][a] == pytest.approx(as_many / max(len(one), 1))


def test_without_labels_nothing_is_paid():
    model = explore(fitted(3), data(6, 3)[0]).payload.header["models"][0]
    assert model["costs"] is None
    assert model["curve"]["settled_wrong"] is None
    assert "alone_wrong" not in model["curve"]
