"""References that labels choose: the rule, and where labels say little."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

import decal
from decal.directions import _log_likelihood
from helpers.strategies import at_most
from oracles import chosen_reference as oracles

CHOSEN = ["auto", "consensus"]


def drawn(seed, n=120, K=3, *, scale=1.0, shifts=0.0, spread=2.0):
    """Labels drawn from scale * logits + shifts."""
    rng = np.random.default_rng(seed)
    logits = spread * rng.normal(size=(n, K))
    true = scale * logits + shifts * rng.normal(size=K)
    return logits, (true + rng.gumbel(size=true.shape)).argmax(axis=1)


def chosen(logits, labels, reference="auto", **settings):
    d = decal.Decalibrator(0.5, reference=reference, directions="local")
    return d.fit(logits, labels, **settings).reference_model


PROBLEMS = [
    *({"scale": s} for s in (0.05, 0.3, 0.8, 1.0, 1.1, 2.0)),
    *({"scale": s, "shifts": 1.0} for s in (0.0, 0.5, 1.0, 2.0)),
    {"shifts": 0.2, "K": 5},
    {"scale": 0.1, "shifts": 2.0, "n": 40},
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.filterwarnings("ignore::decal.FitWarning", "ignore::decal.InputWarning")
def test_the_references_are_those_of_the_rule(problem, weighted):
    logits, labels = drawn(3, **problem)
    weights = np.random.default_rng(0).random(len(labels)) + 0.1 if weighted else None
    each = np.ones(len(labels)) if weights is None else weights
    for name, expected in (
        ("auto", oracles.auto(logits, labels, each)),
        ("consensus", oracles.consensus(logits, labels, each)[0]),
    ):
        found = chosen(logits, labels, name, sample_weight=weights)
        assert found.name == name
        assert found.scale == pytest.approx(expected[1], abs=2e-4)
        np.testing.assert_allclose(found.center, expected[0], atol=2e-4)
        gained = oracles.losses(logits, labels, 0.0, 1.0)
        gained -= oracles.losses(logits, labels, found.center, found.scale)
        assert found.distance == pytest.approx(np.average(gained, weights=each), abs=1e-12)


def test_the_problems_meet_every_branch_of_the_rule():
    ways, families = set(), set()
    for problem in PROBLEMS:
        logits, labels = drawn(3, **problem)
        ways.add(oracles.consensus(logits, labels, np.ones(len(labels)))[1])
        center, scale = oracles.auto(logits, labels, np.ones(len(labels)))
        families.add((bool(center.any()), scale != 1))
    assert ways == {"full", "moved", "model"}
    assert families == {(False, False), (False, True), (True, True)}


@pytest.mark.filterwarnings("ignore::decal.FitWarning", "ignore::decal.InputWarning")
@at_most(15)
@given(st.integers(0, 10**6), st.sampled_from(CHOSEN))
def test_neither_constants_on_rows_nor_units_of_weight_nor_the_order_of_classes_matter(seed, name):
    logits, labels = drawn(seed, n=60, K=4, scale=0.5, shifts=1.0)
    weights, order = np.random.default_rng(seed).random((2, 60)), [2, 0, 3, 1]
    plain = chosen(logits, labels, name, sample_weight=weights[0])
    other = chosen(
        (logits + weights[1][:, None])[:, order],
        np.argsort(order)[labels],
        name,
        sample_weight=1e-6 * weights[0],
    )
    assert other.scale == pytest.approx(plain.scale, abs=1e-6)
    np.testing.assert_allclose(other.center, plain.center[order], atol=1e-6)


@pytest.mark.filterwarnings("ignore::decal.FitWarning", "ignore::decal.InputWarning")
def test_many_classes_are_recalibrated_as_few_are(monkeypatch):
    logits, labels = drawn(1, n=400, K=80, scale=0.7, shifts=1.0)
    found = chosen(logits, labels)
    monkeypatch.setattr(_log_likelihood, "DENSE_CLASSES", 100)
    dense = chosen(logits, labels)
    assert dense.center.any()
    assert found.scale == pytest.approx(dense.scale, abs=1e-6)
    np.testing.assert_allclose(found.center, dense.center, atol=1e-5)


# Where labels say little


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
@pytest.mark.parametrize("name", CHOSEN)
def test_a_class_without_labels_stays_possible(name):
    logits, labels = drawn(0, n=300, K=4, shifts=1.0)
    labels[labels == 2] = 0
    d = decal.Decalibrator(0.9, reference=name, directions="local").fit(logits, labels)
    center = d.reference_model.center
    assert np.isfinite(center).all()
    assert center[2] == center.min() < -1
    # Where it is, nothing is gained any more: its probabilities sum to what the ridge takes.
    p = softmax(d.reference_model.logits(logits), axis=1)
    assert p[:, 2].sum() == pytest.approx(-center[2], abs=1e-4)
    assert (d.predict(logits).upper[:, 2] > 0).all()


@pytest.mark.parametrize("name", CHOSEN)
def test_labels_that_say_nothing_leave_the_model_as_it_is(name):
    logits, labels = drawn(0, n=9, scale=0.3)
    for z, y in ((logits, labels), (np.repeat(logits, 9, axis=0), np.zeros(81, int))):
        d = decal.Decalibrator(0.9, reference=name, directions="local").fit(z, y)
        assert (d.reference_model.scale, d.distance) == (1, 0)
        assert not d.reference_model.center.any()
        assert "which chose the model as it is" in repr(d)


@pytest.mark.parametrize("name", CHOSEN)
def test_labels_that_are_all_predicted_have_a_finite_scale(name):
    logits, _ = drawn(0, n=50)
    labels = logits.argmax(axis=1)
    found = chosen(logits, labels, name)
    assert found.scale > 2
    # There, e times the scale gains about a nat in all.
    if not found.center.any():
        p = softmax(found.scale * logits, axis=1)
        slope = (logits[np.arange(50), labels] - (p * logits).sum(axis=1)).sum()
        assert found.scale * slope == pytest.approx(1.0, rel=1e-5)
    sure = 1e4 * np.eye(3)[labels]
    assert chosen(sure, labels, name).scale == 1


def test_logits_that_say_nothing_are_scaled_down_to_the_frequencies_of_the_labels():
    rng = np.random.default_rng(0)
    logits, labels = 3 * rng.normal(size=(2000, 3)), (rng.random(2000) < 0.2).astype(int)
    labels[:100] = 2
    for name in CHOSEN:
        with pytest.warns(decal.FitWarning, match="nats per example from its reference"):
            d = decal.Decalibrator(0.9, reference=name, directions="local").fit(-logits, labels)
        point = d.predict(logits).point
        shares = np.bincount(labels) / 2000
        assert 0 < d.reference_model.scale < 0.1
        np.testing.assert_allclose(point.mean(axis=0), shares, atol=0.01)


HARD = {
    "two classes": lambda z, y: (z[:, :2], y % 2),
    "one row": lambda z, y: (z[:1], y[:1]),
    "twelve rows": lambda z, y: (z[:12], y[:12]),
    "logits of 1e290": lambda z, y: (1e290 * z, y),
    "logits of 1e-290": lambda z, _: (1e-290 * z, z.argmax(axis=1)),
    "logits of 1e5": lambda z, y: (1e5 * z, y),
    "equal logits": lambda z, y: (0 * z, y),
    "ties": lambda z, y: (np.round(z / 4), y),
    "all wrong": lambda z, _: (z, z.argmin(axis=1)),
    "a class apart": lambda z, y: (np.where(np.arange(4) == 3, -np.inf, z), y % 3),
}


@pytest.mark.filterwarnings("ignore::decal.FitWarning", "ignore::decal.InputWarning")
@pytest.mark.filterwarnings("ignore::decal.AnswerWarning")
@pytest.mark.parametrize("directions", [("class",), ("class", "temperature"), ("local",)], ids=str)
@pytest.mark.parametrize("mask", [None, -np.inf, -1e15, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("case", HARD)
def test_wherever_there_is_a_model_there_is_a_reference(case, mask, directions):
    logits, labels = HARD[case](*drawn(5, n=60, K=4, scale=0.3))
    if mask is not None:
        masked = np.random.default_rng(0).random(logits.shape) < 0.3
        masked[np.arange(len(labels)), labels] = False
        logits = np.where(masked, mask, logits)
    weights = 10.0 ** np.random.default_rng(1).uniform(-8, 0, len(labels))
    if "290" in case:
        directions = [d for d in directions if d != "temperature"]  # whose products overflow
    for name in CHOSEN:
        for w in (None, weights):
            d = decal.Decalibrator(0.5, reference=name, directions=directions)
            d.fit(logits, labels, sample_weight=w)
            found = d.reference_model
            assert np.isfinite(found.center).all()
            assert 0 < found.scale < np.inf
            assert found.distance >= 0
            credal = d.predict(logits)
            assert (credal.lower <= credal.point).all()
            assert (credal.point <= credal.upper).all()


# Everywhere else


@pytest.mark.parametrize("name", CHOSEN)
def test_files_and_print_tell_what_was_chosen(name, tmp_path):
    logits, labels = drawn(0, n=500, scale=2.0, shifts=1.0)
    d = decal.decalibrate(logits, labels, alpha=0.5, reference=name, directions="local")
    found = d.reference_model
    assert f"which chose the scale {found.scale:.3g} and shifts from" in repr(d)
    d.save(tmp_path / "d.npz")
    again = decal.Decalibrator.load(tmp_path / "d.npz")
    assert again.reference == again.reference_model.name == name
    assert again.reference_model.scale == found.scale
    np.testing.assert_array_equal(again.predict(logits).lower, d.predict(logits).lower)
    np.testing.assert_allclose(
        np.log(d.predict(logits).point), log_softmax(found.logits(logits), axis=1), atol=1e-12
    )


def test_data_that_come_in_parts_are_refused():
    with pytest.raises(ValueError, match="reference must be 'model' to merge or partial_fit"):
        decal.Decalibrator(reference="auto").partial_fit(*drawn(0))


def test_each_label_of_several_is_recalibrated_by_itself():
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(300, 3))
    answers = (0.5 * logits + [1.0, -1.0, 0.0] + rng.logistic(size=(300, 3)) > 0).astype(int)
    answers[:, 2] = 1
    model = decal.MultiLabelDecalibrator(0.9, reference="auto").fit(logits, answers)
    for k in range(2):
        own = np.stack([np.zeros(300), logits[:, k]], axis=1)
        center, scale = oracles.auto(own, answers[:, k], np.ones(300))
        assert model.fitted.scale[k] == pytest.approx(scale, abs=2e-4)
        assert model.fitted.center[k] == pytest.approx(center[1] - center[0], abs=2e-4)
    assert (model.fitted.scale[2], model.fitted.center[2]) == (1, 0)


def test_new_inputs_unlike_the_labelled_ones_are_still_noticed():
    logits, labels = drawn(0, n=500, scale=0.5)
    d = decal.decalibrate(logits, labels, alpha=0.9, reference="auto", directions="local")
    with pytest.warns(decal.AnswerWarning, match="mean confidence of 0.51 on 500 inputs"):
        d.predict(0.3 * drawn(1, n=500)[0])
