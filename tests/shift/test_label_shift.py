"""LabelShift: calibration, observing, predicting, what if, files and bad input."""

import pickle

import numpy as np
import pytest
from scipy.stats import kstest

import decal
from decal.shift._observed import Observed


def draw(n, frequencies, rng, sharpness=2.0, bias=None):
    """Logits of a model that is right up to a scale and shifts, where classes have frequencies."""
    K = len(frequencies)
    y = rng.choice(K, p=frequencies, size=n)
    x = rng.normal(size=(n, K))
    x[np.arange(n), y] += sharpness
    logits = 1.7 * (sharpness * x) + (0 if bias is None else bias)
    return logits, y


@pytest.fixture(scope="module")
def shift():
    rng = np.random.default_rng(5)
    model = decal.LabelShift().fit(
        *draw(3000, [0.5, 0.3, 0.2], rng, bias=[0.3, 0, -1]), classes=["a", "b", "c"]
    )
    return model.observe(draw(1500, [0.1, 0.3, 0.6], rng, bias=[0.3, 0, -1])[0])


def test_frequencies_are_found(shift):
    found = shift.frequencies
    assert found.estimate == pytest.approx([0.1, 0.3, 0.6], abs=0.04)
    assert np.all(found.lower <= found.estimate)
    assert np.all(found.estimate <= found.upper)
    assert np.all((found.lower < [0.1, 0.3, 0.6]) & (found.upper > [0.1, 0.3, 0.6]))
    assert found.before == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    assert repr(found).splitlines()[0] == "Frequencies: 1,500 inputs, 3 classes, intervals at 0.95"


def test_the_test_sees_a_change_and_no_change(shift):
    changed = shift.test()
    assert changed.p_value < 1e-10
    assert changed.p_values[0] < 1e-6
    assert changed.p_values[1] > 1e-3
    rng = np.random.default_rng(6)
    labelled = draw(3000, [0.5, 0.3, 0.2], rng)
    same = decal.LabelShift().fit(*labelled).observe(draw(500, [0.5, 0.3, 0.2], rng)[0])
    assert same.test().p_value > 0.01


@pytest.fixture(scope="module")
def over_confident():
    """Logits and labels that gradient boosting, right in 66 %, is 88 % sure of."""
    ensemble = pytest.importorskip("sklearn.ensemble", reason="needs decal[sklearn]")
    rng = np.random.default_rng(0)
    y = rng.choice(3, p=[0.5, 0.3, 0.2], size=60_500)
    x = rng.normal(size=(60_500, 5))
    x[np.arange(60_500), y] += 1.2
    model = ensemble.HistGradientBoostingClassifier(early_stopping=False, random_state=0)
    model.fit(x[:500], y[:500])
    return np.log(model.predict_proba(x[500:])), y[500:]


CALIBRATED = {"reference": "best", "directions": ("class", "temperature")}


@pytest.mark.parametrize(
    ("settings", "accepted"),
    [
        ({}, False),
        ({"reference": "best"}, False),
        ({"directions": ("class", "temperature")}, False),
        (CALIBRATED | {"reference": "halfway"}, False),
        (CALIBRATED, True),
        (CALIBRATED | {"directions": ("local",)}, True),
    ],
)
def test_a_model_is_refused_or_finds_no_change_where_there_is_none(
    over_confident, settings, accepted
):
    z, y = over_confident
    truth, p_values, held = [0.5, 0.3, 0.2], [], []
    for seed in range(60):
        rows = np.random.default_rng(seed).permutation(len(y))
        labelled, new = rows[:1000], rows[1000:2000]
        model = decal.decalibrate(z[labelled], y[labelled], alpha=0.8, **settings)
        if not accepted:
            with pytest.raises(ValueError, match="model must be calibrated.*'best', directions="):
                decal.LabelShift.of(model)
            return
        found = decal.LabelShift.of(model).observe(z[new])
        p_values.append(found.test().p_value)
        held.append((found.frequencies.lower <= truth) & (truth <= found.frequencies.upper))
    assert np.mean(np.array(p_values) < 0.05) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
    assert kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(held) > 0.92


def test_sets_hold_the_adapted_prediction_and_regions_are_nested(shift):
    rng = np.random.default_rng(7)
    z, _ = draw(40, [0.1, 0.3, 0.6], rng, bias=[0.3, 0, -1])
    joint = shift.predict(z)
    calibrated = shift.calibrated
    truth = calibrated.odds(z) * [0.1, 0.3, 0.6]
    truth /= truth.sum(axis=1, keepdims=True)
    assert joint.contains(truth).all()
    own = decal.LabelShift(region="own")
    own._fitted = shift.fitted
    inner = own.predict(z)
    assert np.all(joint.lower <= inner.lower + 1e-9)
    assert np.all(joint.upper >= inner.upper - 1e-9)
    narrow = decal.LabelShift(confidence=0.5)
    narrow._fitted = shift.fitted
    assert np.all(narrow.predict(z).upper <= joint.upper + 1e-9)


def test_observing_in_pieces_and_merging_is_observing_at_once(shift):
    rng = np.random.default_rng(8)
    labelled = draw(500, [0.5, 0.3, 0.2], rng)
    z, _ = draw(60, [0.2, 0.2, 0.6], rng)
    whole = decal.LabelShift().fit(*labelled).observe(z)
    pieces = decal.LabelShift().fit(*labelled).observe(z[:20])
    other = decal.LabelShift().fit(*labelled).observe(z[20:])
    assert np.allclose(
        pieces.merge(other).predict(z[:3]).upper, whole.predict(z[:3]).upper, atol=1e-7
    )
    with pytest.raises(ValueError, match="other must be fitted on the same data"):
        pieces.merge(shift)


def test_what_if_intervals_of_prevalence(shift):
    z = [[1.0, 0.5, 0.0]]
    calibrated, usual = shift.calibrated, shift.frequencies.estimate
    credal = shift.predict(z, frequencies={"c": (0.01, 0.1)})
    ends = []
    for x in (0.01, 0.1):
        v = np.array([*(usual[:2] / usual[:2].sum() * (1 - x)), x])
        p = calibrated.odds(np.array(z)) * v
        ends.append((p / p.sum())[0])
    assert credal.lower[0] == pytest.approx(np.min(ends, axis=0))
    assert credal.upper[0] == pytest.approx(np.max(ends, axis=0))
    fixed = shift.predict(z, frequencies=[0.2, 0.3, 0.5])
    assert fixed.upper == pytest.approx(fixed.lower)
    free = shift.predict(z, frequencies=[(0, 1), (0, 1), (0, 1)])
    assert free.lower[0] == pytest.approx(0)
    assert free.upper[0] == pytest.approx(1)


def test_files_keep_everything(shift, tmp_path):
    shift.save(tmp_path / "shift.npz")
    again = decal.LabelShift.load(tmp_path / "shift.npz")
    z = np.zeros((2, 3))
    assert np.array_equal(again.predict(z).upper, shift.predict(z).upper)
    assert again.predict(z).classes == ("a", "b", "c")
    with pytest.raises(ValueError, match="labelled must be given to bootstrapped"):
        again.bootstrapped()
    decal.decalibrate([[1.0, 0], [0, 1]], [0, 1], alpha=0.5).save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="must hold a LabelShift: got .* holds a Decalibrator"):
        decal.LabelShift.load(tmp_path / "model.npz")
    copy = pickle.loads(pickle.dumps(shift))
    assert np.array_equal(copy.predict(z).lower, shift.predict(z).lower)


def test_the_bootstrap_allows_for_few_labels():
    rng = np.random.default_rng(9)
    few = decal.LabelShift(corrected=False).fit(*draw(60, [0.5, 0.5], rng, sharpness=1.0))
    few.observe(draw(4000, [0.2, 0.8], rng, sharpness=1.0)[0])
    wider = few.bootstrapped(40)
    assert wider.fitted.bootstrapped[0] > 1.5
    narrow, wide = few.frequencies, wider.frequencies
    assert np.all(wide.upper - wide.lower > narrow.upper - narrow.lower)
    assert wider.test().p_value > few.test().p_value
    assert few.bootstrapped(40).fitted.bootstrapped == wider.fitted.bootstrapped
    wider.observe([[0.0, 0.0]])
    assert wider.fitted.bootstrapped is None


def test_classes_that_look_alike_are_told():
    rng = np.random.default_rng(10)
    z, y = draw(400, [0.5, 0.5], rng, sharpness=0.1)
    model = decal.LabelShift(calibrate=False)
    model.fit(0.01 * z, y, frequencies=[0.5, 0.5]).observe(0.01 * (z - z.mean(axis=0)))
    with pytest.warns(decal.AnswerWarning, match="hardly tells it from other classes"):
        _ = model.frequencies


def test_a_class_without_labels_is_taken_not_to_occur():
    rng = np.random.default_rng(11)
    z, y = draw(300, [0.5, 0.5, 0.0], rng)
    with pytest.warns(decal.AnswerWarning, match="no labelled example is of class 2"):
        model = decal.LabelShift().fit(z, y)
    credal = model.observe(z[:50]).predict(z[:4])
    assert np.array_equal(credal.upper[:, 2], np.zeros(4))
    with pytest.raises(ValueError, match="in which all of them are masked"):
        model.predict([[-np.inf, -np.inf, 0.0]])


def test_many_classes_and_one_input():
    rng = np.random.default_rng(12)
    K = 60
    z, y = draw(3000, np.full(K, 1 / K), rng, sharpness=3.0)
    model = decal.LabelShift().fit(z, y).observe(z[:300])
    credal = model.predict(z[:5])
    assert not model._joint(model.fitted.require_observed())
    assert np.all((credal.lower >= 0) & (credal.upper <= 1) & (credal.lower <= credal.point))
    assert np.isnan(model.test().p_values).all()
    lone = decal.LabelShift().fit(*draw(200, [0.6, 0.4], rng)).observe([[5.0, 0.0]])
    assert lone.frequencies.upper[0] == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: decal.LabelShift(1.0), "confidence must be above 0 and below 1: got 1"),
        (lambda _: decal.LabelShift(region="both"), "region must be"),
        (lambda s: s.observe([[0.0, 1.0]]), "logits must have 3"),
        (lambda s: s.observe([[np.nan, 1.0, 0.0]]), "logits"),
        (lambda s: s.predict([[0, 0, 0.0]], frequencies={"d": 0.5}), "must name classes: got 'd'"),
        (lambda s: s.predict([[0, 0, 0.0]], frequencies={"a": (0.5, 0.1)}), "the smaller first"),
        (lambda s: s.predict([[0, 0, 0.0]], frequencies={"a": 0.7, "b": 0.6}), "sum of one"),
        (lambda s: s.predict([[0, 0, 0.0]], frequencies=[0.5, 0.5]), "or a \\(3, 2\\) array"),
        (lambda s: s.bootstrapped(3), "draws must be a whole number, at least 20: got 3"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_lost(shift, call, message):
    before = shift.predict([[0, 0, 0.0]]).upper
    with pytest.raises(ValueError, match=message):
        call(shift)
    assert np.array_equal(shift.predict([[0, 0, 0.0]]).upper, before)


def test_nothing_is_said_before_it_is_known():
    with pytest.raises(decal.NotFittedError, match="seen no data"):
        decal.LabelShift().predict([[0.0, 1.0]])
    model = decal.LabelShift().fit([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 1, 1])
    with pytest.raises(decal.NotFittedError, match="observed unlabelled inputs"):
        model.predict([[0.0, 1.0]])
    known = model.predict([[0.0, 1.0]], frequencies={1: 0.5})
    assert known.upper == pytest.approx(known.lower)
    with pytest.raises(ValueError, match="calibrate=False"):
        model.fit([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 1, 1], frequencies=[0.5, 0.5])


def test_a_region_is_what_it_says():
    observed = Observed(decal.shift._likelihood.Likelihood(np.eye(2), np.array([30.0, 70.0])))
    region = observed.region(2.0)
    upper, _ = region.largest_probability(np.eye(2), 1 - np.eye(2))
    for x in (upper[0], 1 - upper[1]):
        lost = 30 * np.log(x / 0.3) + 70 * np.log((1 - x) / 0.7)
        assert lost == pytest.approx(-2, abs=1e-5)


def test_frames_names_and_probabilities_go_through_the_gate():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    rng = np.random.default_rng(13)
    z, y = draw(300, [0.5, 0.3, 0.2], rng)
    names = np.array(["a", "b", "c"])
    frame = pandas.DataFrame(z, columns=names)
    model = decal.LabelShift().fit(frame, names[y]).observe(frame[["c", "a", "b"]])
    plain = decal.LabelShift().fit(z, y, classes=names).observe(z)
    assert model.predict(frame[["b", "c", "a"]]).upper == pytest.approx(
        plain.predict(z).upper, abs=1e-7
    )
    p = np.exp(z - z.max(axis=1, keepdims=True))
    with pytest.warns(decal.InputWarning, match="must not be probabilities"):
        decal.LabelShift().fit(p / p.sum(axis=1, keepdims=True), y)


def test_it_takes_no_wishes_and_says_so_and_reports(shift):
    z, y = draw(50, [0.1, 0.3, 0.6], np.random.default_rng(1))
    for wish in ({"miss": 0.1}, {"width": 0.1}, {"hold": 0.5}):
        message = f"model must have an alpha, to grant {next(iter(wish))}: got a LabelShift, whose"
        with pytest.raises(ValueError, match=message):
            decal.choose(shift, z, y, **wish)
    report = shift.report(z, check=0.1)
    assert set(report.prediction) <= {"a", "b", "c"}
    assert report.check.sum() == 5
    assert report.promise == ""
