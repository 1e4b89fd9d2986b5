"""Regions that allow for few labels: against the jackknife, the bootstrap and a simulation."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import decal
from decal.rows import Rows
from decal.shift._scatter import from_counts, from_inputs, from_labels, scatter
from helpers.sealed_files import write_sealed
from oracles.label_shift import scatters


def draw(n, frequencies, rng):
    K = len(frequencies)
    y = rng.choice(K, p=frequencies, size=n)
    x = rng.normal(size=(n, K))
    x[np.arange(n), y] += 1.5
    return 1.5 * x, y


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    labelled = draw(300, [0.5, 0.3, 0.2], rng)
    new = draw(900, [0.2, 0.2, 0.6], rng)[0]
    return labelled, new, decal.LabelShift().fit(*labelled).observe(new)


def contrasts(V):
    """Variances of the scale, and of what tells two classes from each other."""
    K = len(V) - 1
    pairs = [(i, j) for i in range(K) for j in range(i)]
    return np.array([V[i, i] + V[j, j] - 2 * V[i, j] for i, j in pairs] + [V[K, K]])


def uncorrected(model):
    plain = decal.LabelShift(model.confidence, region=model.region, corrected=False)
    plain._fitted = model.fitted
    return plain


def test_factors_are_those_of_the_jackknife():
    """Which calibrates and maximises anew, with SciPy and EM, when a row counts more or less."""
    rng = np.random.default_rng(2)
    z, y = draw(40, [0.4, 0.3, 0.3], rng)
    new = draw(80, [0.3, 0.3, 0.4], rng)[0]
    by_label, by_input = scatters(z, y, new)
    found = decal.LabelShift().fit(z, y).observe(new).fitted.scatter
    single = 1 + np.diag(by_label) / np.diag(by_input)
    assert single.min() > 1.5
    assert found.single == pytest.approx(single, rel=0.04)
    free = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])
    ratio = np.linalg.solve(free @ by_input @ free.T, free @ by_label @ free.T)
    assert np.sort(found.variances) == pytest.approx(
        1 + np.sort(np.linalg.eigvals(ratio)), rel=0.04
    )


def test_factors_are_about_those_of_the_bootstrap(data):
    _, _, model = data
    joint, _ = model.bootstrapped(100).fitted.bootstrapped
    assert model.fitted.scatter.joint(0.95) > 1.5
    assert model.fitted.scatter.joint(0.95) == pytest.approx(joint, rel=0.3)


def test_intervals_hold_the_truth_as_often_as_they_say_with_many_more_inputs_than_labels():
    v, held = np.array([0.3, 0.7]), np.zeros((3, 60))
    for seed in range(60):
        rng = np.random.default_rng([seed, 1])
        labelled, new = draw(200, [0.5, 0.5], rng), draw(3000, v, rng)[0]
        model = decal.LabelShift(0.9).fit(*labelled).observe(new)
        best = decal.Decalibrator(reference="best", directions=("class", "temperature"))
        without_rows = decal.LabelShift.of(best.fit(*labelled), 0.9).observe(new)
        for i, which in enumerate((model, without_rows, uncorrected(model))):
            found = which.frequencies
            held[i, seed] = found.lower[0] <= v[0] <= found.upper[0]
    assert held[0].mean() == pytest.approx(0.9, abs=0.08)
    assert held[1].mean() == pytest.approx(0.9, abs=0.08)
    assert held[2].mean() < 0.65


def test_every_frequency_has_its_own_factor(data):
    _, _, model = data
    factors, plain = model.fitted.scatter.single, uncorrected(model)
    assert np.ptp(factors) > 0.1
    likelihood, best = (
        model.fitted.require_observed().likelihood,
        model.fitted.require_observed().maximum,
    )
    found, narrow = model.frequencies, plain.frequencies
    assert np.all((found.lower < narrow.lower) & (found.upper > narrow.upper))
    for k in range(3):  # at the endpoints the profile likelihood has lost what the factor says
        for end in (found.lower[k], found.upper[k]):
            rest = decal.shift._likelihood.most_likely(likelihood.without(k, end))
            assert 2 * (best.value - rest.value) == pytest.approx(3.841459 * factors[k], rel=1e-4)
    assert np.all(model.test().p_values > plain.test().p_values)
    assert model.test().p_value > plain.test().p_value
    own = decal.LabelShift(region="own")
    own._fitted = model.fitted
    assert np.all(own.frequencies.lower <= uncorrected(own).frequencies.lower)


def test_weights_count_like_rows_and_many_labels_change_nothing(data):
    (z, y), new, model = data
    calibrated = model.calibrated
    twice = decal.LabelShift().fit(z, y, sample_weight=np.full(len(y), 2.0))
    doubled = decal.LabelShift().fit(np.tile(z, (2, 1)), np.tile(y, 2))
    assert twice.calibrated.covariance == pytest.approx(doubled.calibrated.covariance, abs=1e-9)
    heavy = from_labels(replace(calibrated, weight=3e8), Rows(z, y, np.full(len(y), 1e6)))
    many = replace(calibrated, weight=3e8, covariance=heavy)
    assert scatter(many, model.fitted.require_observed()).joint(0.95) == pytest.approx(1, abs=1e-3)
    left_out = np.append(np.ones(len(y)), 0.0)
    masked = np.append(z, [[0.0, -np.inf, -np.inf]], axis=0)
    some = decal.LabelShift().fit(masked, np.append(y, 0), sample_weight=left_out)
    assert some.calibrated.covariance == pytest.approx(calibrated.covariance)
    assert model.frequencies.upper == pytest.approx(some.observe(new).frequencies.upper)


def test_without_the_labelled_rows_inputs_tell_the_covariance():
    """If the calibrated model is right: drawn from another mix, they are weighted back."""
    rng = np.random.default_rng(4)
    labelled = draw(4000, [0.5, 0.3, 0.2], rng)
    model = decal.LabelShift().fit(*labelled).observe(draw(4000, [0.2, 0.2, 0.6], rng)[0])
    calibrated = model.calibrated
    known = contrasts(calibrated.covariance)
    assert contrasts(from_inputs(calibrated, model.fitted.require_observed())) == pytest.approx(
        known, rel=0.1
    )
    fixed = from_inputs(replace(calibrated, scale=1.0), model.fitted.require_observed())
    assert not fixed[3].any()


def test_counted_frequencies_are_uncertain_and_given_ones_are_not(data):
    (z, y), new, _ = data
    counted = decal.LabelShift(calibrate=False).fit(z, y)
    pi = counted.calibrated.frequencies
    counts = np.random.default_rng(1).multinomial(len(y), pi, size=40_000)
    V = np.cov(np.log(counts / len(y)).T)
    V = np.pad(V, ((0, 1), (0, 1)))
    assert contrasts(from_counts(counted.calibrated)) == pytest.approx(contrasts(V), rel=0.06)
    counted.observe(new)
    assert counted.fitted.scatter.joint(0.95) > 1.2
    bootstrapped = counted.bootstrapped(60).fitted.bootstrapped
    assert bootstrapped[0] == pytest.approx(counted.fitted.scatter.joint(0.95), rel=0.3)
    given = decal.LabelShift(calibrate=False).fit(z, y, frequencies=pi).observe(new)
    assert given.fitted.scatter.joint(0.95) == 1
    assert given.frequencies.upper == pytest.approx(uncorrected(given).frequencies.upper)


def test_files_keep_the_covariance_and_the_setting_and_old_ones_are_corrected_too(data, tmp_path):
    _, _, model = data
    model.save(tmp_path / "new.npz")
    again = decal.LabelShift.load(tmp_path / "new.npz")
    assert np.array_equal(again.frequencies.upper, model.frequencies.upper)
    uncorrected(model).save(tmp_path / "plain.npz")
    assert decal.LabelShift.load(tmp_path / "plain.npz").corrected is False
    with np.load(tmp_path / "new.npz") as archive:
        arrays = {name: archive[name] for name in archive if name != "covariance"}
    header = next(name for name in arrays if arrays[name].dtype.kind == "U")
    settings = json.loads(str(arrays[header]))
    del settings["corrected"]
    settings["floor"] = 0.1  # which was taken for logits, too, and ignored
    settings["inflations"] = ["1.0", "1.0"]
    settings["version"] = 2
    np.savez(tmp_path / "old.npz", **{**arrays, header: np.array(json.dumps(settings))})
    old = decal.LabelShift.load(tmp_path / "old.npz")
    assert old.frequencies.upper == pytest.approx(model.frequencies.upper, abs=0.02)
    assert np.all(old.frequencies.upper > uncorrected(model).frequencies.upper)
    arrays["covariance"] = np.ones((2, 2))
    write_sealed(tmp_path / "bad.npz", arrays)
    with pytest.raises(ValueError, match="its covariance is damaged"):
        decal.LabelShift.load(tmp_path / "bad.npz")


def test_copies_and_merged_ones_are_corrected_for_all_that_was_observed(data):
    labelled, new, model = data
    pieces = decal.LabelShift().fit(*labelled).observe(new[:400])
    few = pieces.fitted.scatter.joint(0.95)
    other = pieces.unobserved().observe(new[400:])
    pieces.merge(other)
    assert pieces.fitted.scatter.joint(0.95) == pytest.approx(model.fitted.scatter.joint(0.95))
    assert pieces.fitted.scatter.joint(0.95) > few


@pytest.mark.parametrize("K", [2, 3, 7])
def test_few_inputs_few_labels_and_absent_classes_are_no_problem(K):
    rng = np.random.default_rng(K)
    z, y = draw(60, np.full(K, 1 / K), rng)
    model = decal.LabelShift().fit(z, y).observe(z[:1])  # fewer inputs than classes
    assert model.fitted.scatter.joint(0.95) == pytest.approx(1, abs=0.2)
    once = np.append(y, np.arange(K))[-K - 4 :]  # a label or two of each class
    least = decal.LabelShift().fit(rng.normal(size=(len(once), K)) + np.eye(K)[once], once)
    assert least.observe(z).fitted.scatter.joint(0.95) > 1.4
    assert np.all(least.frequencies.upper <= 1)
    wide = np.column_stack([z, rng.normal(size=60)])
    with pytest.warns(decal.AnswerWarning, match="no labelled example"):
        absent = decal.LabelShift().fit(wide, y)
    assert absent.observe(wide).fitted.scatter.joint(0.95) == pytest.approx(
        decal.LabelShift().fit(z, y).observe(z).fitted.scatter.joint(0.95)
    )
    assert absent.frequencies.upper[K] == 1


def test_classes_that_look_alike_are_not_told_apart_by_few_labels():
    """Half an input of each class in the curvature made the labels' errors look half as large."""
    means = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 0.3]])
    held, factors = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)

        def alike(n, frequencies, rng=rng):
            y = rng.choice(3, n, p=frequencies)
            x = means[y] + rng.normal(size=(n, 2))
            return -0.5 * np.sum((x[:, None] - means) ** 2, axis=2), y

        truth = np.array([0.4, 0.59, 0.01])
        shift = decal.LabelShift().fit(*alike(400, [1 / 3] * 3)).observe(alike(3000, truth)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", decal.AnswerWarning)  # they look alike
            found = shift.frequencies
        held.append((found.lower <= truth) & (truth <= found.upper))
        factors.append(shift.fitted.scatter.single)
    assert np.mean(held) >= 0.9
    assert np.median(factors, axis=0)[1:].min() > 6
