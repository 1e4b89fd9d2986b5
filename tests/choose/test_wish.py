"""A wish in, a model with a promise out: what is split, what is chosen, and what is refused."""

import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import decal
from decal.choose import _wish
from decal.choose._wish import Wish, plain_sizes


def world(n, K=4, seed=0, sharp=2.0, confident=1.0):
    """Logits whose softmax the labels are drawn from, unless the model is too confident."""
    rng = np.random.default_rng(seed)
    logits = sharp * rng.normal(size=(n, K))
    return confident * logits, (logits + rng.gumbel(size=(n, K))).argmax(axis=1)


def missed(sets, labels):
    """(n,) whether the label is not among the possible classes."""
    return np.array([y not in names for y, names in zip(labels, sets.possible(), strict=True)])


# What is granted


def test_alpha_is_the_published_method():
    z, y = world(200)
    d = decal.decalibrate(z, y, alpha=0.9)
    same = decal.Decalibrator(0.9).fit(z, y)
    np.testing.assert_array_equal(d.predict(z).lower, same.predict(z).lower)
    assert d.promise is None
    assert repr(d) == repr(same)


def test_a_wish_promises_by_rows_that_fitted_and_chose_nothing():
    z, y = world(1000)
    d = decal.decalibrate(z, y, miss=0.1)
    wish = Wish("miss", 0.1, None, 0, {})
    chosen_on, promised_by = wish._split(d.read(z, y), None)
    assert sorted([*chosen_on, *promised_by]) == list(range(1000))
    assert d.examples == len(chosen_on) == d.promise.costs["chosen_on"] == 301
    assert d.promise.rows == len(promised_by)
    again = decal.Decalibrator(0.5, directions=d.directions, reference=d.reference)
    again.fit(z[chosen_on], y[chosen_on])
    rest, labels = z[promised_by], y[promised_by]
    np.testing.assert_array_equal(again.predict(rest, alpha=d.alpha).upper, d.predict(rest).upper)
    # The largest alpha at which (misses + 1) / (n + 1) <= miss.
    assert (missed(d.predict(rest), labels).sum() + 1) / (len(rest) + 1) <= 0.1
    narrower = again.predict(rest, alpha=d.alpha ** (1 - 1e-4))
    assert (missed(narrower, labels).sum() + 1) / (len(rest) + 1) > 0.1


@pytest.mark.parametrize("n", [60, 1000])
def test_costs_choose_by_a_prediction_that_all_rows_fitted(n, tmp_path):
    z, y = world(n + 200, confident=2.0)
    (z, new), y = np.split(z, [n]), y[:n]
    d = decal.decalibrate(z, y, miss=0.1)
    whole = decal.decalibrate(z, y, alpha=1.0, directions="local", reference="auto")
    p = whole.predict(new).point
    assert np.abs(p - d.predict(new).point).max() > 0.01
    np.testing.assert_allclose(d.promise.recalibrated(d.predict(new).point), p, atol=1e-12)
    costs = np.random.default_rng(0).exponential(size=(3, 4))
    expected = (p @ costs.T).argmin(axis=1)
    assert d.report(new, costs=costs).action.tolist() == expected.tolist()
    # A person checks where that prediction is least sure of the predicted class.
    sure = p[np.arange(200), d.predict(new).point.argmax(axis=1)]
    marked = np.flatnonzero(d.report(new, check=0.2).check)
    assert sorted(marked) == sorted(np.argsort(sure)[:40])
    d.save(tmp_path / "d.npz")
    again = decal.load(tmp_path / "d.npz").report(new, costs=costs)
    assert again.action.tolist() == expected.tolist()


def test_of_many_classes_those_are_possible_that_may_have_a_majority(monkeypatch):
    known, new = decal.datasets.languages("fit"), decal.datasets.languages("test")
    usual = decal.decalibrate(known.logits, known.labels, miss=0.1)
    assert usual.promise.rule == "e_admissible"
    monkeypatch.setattr(_wish, "MANY_CLASSES", 10)
    d = decal.decalibrate(known.logits, known.labels, miss=0.1)
    assert d.promise.rule == "majority"
    sets = d.predict(new.logits)
    kept = sets.upper >= 0.5
    kept[np.arange(len(kept)), sets.point.argmax(axis=1)] = True
    assert [sorted(names) for names in sets.possible()] == [
        np.flatnonzero(row).tolist() for row in kept
    ]
    assert kept.sum() < sum(len(names) for names in usual.predict(new.logits).possible())
    assert missed(sets, new.labels).mean() < 0.12


def test_which_rows_are_which_depends_on_chance_and_never_on_labels():
    z, y = world(500)
    d = decal.decalibrate(z, y, alpha=0.9)
    wish, other_seed = Wish("miss", 0.1, None, 0, {}), Wish("miss", 0.1, None, 1, {})
    first, _ = wish._split(d.read(z, y), None)
    np.testing.assert_array_equal(first, wish._split(d.read(z, (y + 1) % 4), None)[0])
    assert not np.array_equal(first, other_seed._split(d.read(z, y), None)[0])
    # By class and group, how many are which depends on their sizes alone.
    by_class, _ = Wish("miss", 0.1, "class", 0, {})._split(d.read(z, y), None)
    rest = np.bincount(y) - np.bincount(y[by_class])
    assert ((rest + 1) % 10 == 0).all()  # as many errors as of nine rows more
    assert (np.abs(rest / np.bincount(y) - 0.85) < 0.1).all()


def test_the_same_seed_gives_the_same_model():
    z, y = world(300)
    one, same = (decal.decalibrate(z, y, miss=0.1, seed=3) for _ in range(2))
    assert one.alpha == same.alpha
    assert one.promise == same.promise


def test_few_rows_take_sets_that_need_no_labels_and_all_rows_promise():
    z, y = world(60)
    d = decal.decalibrate(z, y, miss=0.1)
    assert d.promise.rows == 60
    assert [direction.name for direction in d.directions] == ["local"]
    assert d.reference == "model"
    assert missed(d.predict(z), y).sum() + 1 <= 6.1


def test_settings_leave_less_to_choose():
    z, y = world(400)
    d = decal.decalibrate(z, y, miss=0.1, directions="class", reference="best", box="own")
    assert [direction.name for direction in d.directions] == ["class"]
    assert (d.reference, d.box) == ("best", "own")
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    same = decal.decalibrate(p, y, miss=0.1, probabilities=True)
    assert same.predict(p).possible() == decal.decalibrate(z, y, miss=0.1).predict(z).possible()


def test_width_is_the_mean_width_wished_for():
    z, y = world(300)
    d = decal.decalibrate(z, y, width=0.2)
    sets = d.predict(z)
    assert (sets.upper - sets.lower).mean() == pytest.approx(0.2, abs=1e-5)
    assert not d.promise.guaranteed


def test_hold_promises_by_labels_what_local_sets_hold():
    z, y = world(3000, K=3, sharp=4.0)
    d = decal.decalibrate(z, y, hold=0.7)
    assert d.promise.kind == "hold"
    new, _ = world(500, K=3, seed=1, sharp=4.0)
    truth = np.exp(new) / np.exp(new).sum(axis=1, keepdims=True)
    assert d.predict_ball(new).contains(truth).mean() >= 0.7


def test_every_class_and_every_group_is_granted_its_own():
    z, y = world(2000, confident=2.0)
    rare = y == 3
    keep = ~rare | (np.cumsum(rare) <= 5)
    z, y = z[keep], y[keep]
    with pytest.warns(decal.FitWarning, match="1 of 4 classes have too few rows.*class 3 with"):
        d = decal.decalibrate(z, y, miss=0.1, per="class")
    new, labels = world(4000, seed=1, confident=2.0)
    wrong = missed(d.predict(new), labels)
    for k in range(3):
        assert wrong[labels == k].mean() <= 0.1 + 0.04
    assert not wrong[labels == 3].any()
    groups = np.where(z.max(axis=1) > np.median(z.max(axis=1)), "sure", "not")
    d = decal.decalibrate(z, y, miss=0.1, groups=groups)
    assert set(d.promise.levels) == {"sure", "not"}
    with pytest.raises(ValueError, match="groups must be given"):
        d.report(new)
    assert len(d.report(new, groups=["sure"] * len(new))) == len(new)


@pytest.mark.parametrize("n", [60, 200])
def test_the_whole_path_misses_no_more_than_wished(n):
    """Averaged over draws of rows: the simulation at length is benchmarks/wishes.py."""
    rates = []
    for draw in range(60):
        z, y = world(n, confident=3.0, seed=[draw, n])
        new, labels = world(400, confident=3.0, seed=[draw, n, 1])
        rates.append(
            missed(decal.decalibrate(z, y, miss=0.2, seed=draw).predict(new), labels).mean()
        )
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= 0.2 + 3 * error
    assert np.mean(rates) >= 0.1


# What it costs


def test_costs_are_measured_beside_lac_and_aps():
    z, y = world(500, K=5)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    k = int(0.1 * 501)

    def mean_size(score):  # (n, K): how strange every class is, by its definition
        own = sorted(score[i, y[i]] for i in range(500))
        kept = [
            {j for j in range(5) if score[i, j] <= own[-k]} | {int(p[i].argmax())}
            for i in range(500)
        ]
        return np.mean([len(classes) for classes in kept])

    reached = np.array([[sum(q for q in row if q >= row[j]) for j in range(5)] for row in p])
    found = plain_sizes(z, y, 0.1)
    assert found["lac"] == pytest.approx(mean_size(1 - p))
    assert found["aps"] == pytest.approx(mean_size(reached))
    assert found["error"] == pytest.approx((p.argmax(axis=1) != y).mean())
    d = decal.decalibrate(z, y, miss=0.1)
    said = " ".join(repr(d).split())
    assert f"There {d.promise.costs['kept']:.3g} of 5 classes are kept on average" in said
    assert "LAC keeps" in said
    assert "fitted on 151 examples of 5 classes" in said


def test_sets_of_nearly_all_classes_are_called_so():
    rng = np.random.default_rng(0)
    d = decal.decalibrate(rng.normal(size=(400, 3)) / 10, rng.integers(0, 3, 400), miss=0.02)
    assert "These sets are nearly vacuous." in repr(d)


def test_a_model_that_needs_no_sets_is_told_to_wish_for_less():
    z, y = world(400, K=3, sharp=30.0)
    d = decal.decalibrate(z, y, miss=0.1)
    assert d.alpha == 1
    assert "for intervals, wish for a smaller miss." in " ".join(repr(d).split())
    assert decal.decalibrate(z, y, miss=0.01).alpha < 1


# What is refused


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({}, "one of alpha, miss, width, hold must be given: got none. A good first wish is miss="),
        ({"miss": 0.1, "alpha": 0.9}, "must be given: got alpha and miss"),
        ({"miss": 1.5}, "miss must lie between 0 and 1"),
        ({"miss": 0}, "miss must lie between 0 and 1, and be neither: got 0"),
        ({"miss": 0.001}, r"miss must be at least 0.005 with 200 rows: got 0.001. It needs 999"),
        ({"hold": 0.999}, r"hold must be at most 0.995 with 200 rows: got 0.999. It needs 999"),
        ({"alpha": 0.9, "per": "class"}, "per must go with miss: got alpha"),
        ({"width": 0.2, "groups": [0] * 200}, "groups must go with miss or hold: got width"),
        ({"miss": 0.1, "per": "row"}, "per must be one of 'class'"),
        ({"miss": 0.1, "per": "class", "groups": [0] * 200}, "groups must be left out with per="),
        ({"miss": 0.1, "seed": -1}, "seed must be a whole number, at least 0"),
        ({"miss": 0.1, "floor": 0.1}, "floor must go with probabilities"),
    ],
)
def test_wishes_that_cannot_be_granted(wish, said):
    z, y = world(200)
    with pytest.raises(ValueError, match=said):
        decal.decalibrate(z, y, **wish)


def test_rows_that_cannot_grant_a_wish():
    z, y = world(200)
    with pytest.raises(ValueError, match="labels must be of two classes or more.*: got only b"):
        decal.decalibrate(z, np.ones(200, dtype=int), miss=0.1, classes="abcd")
    top = decal.TopLogits([[-1.0, -2.0]] * 200, [[0, 1]] * 200, total_classes=4)
    with pytest.raises(ValueError, match="logits must be a matrix of all classes for miss"):
        decal.decalibrate(top, y, miss=0.1)
    shuffled = np.random.default_rng(0).permutation(y)
    with pytest.raises(
        ValueError, match="hold must be a share that these labels can prove: got 0.99, and"
    ):
        decal.decalibrate(z, shuffled, hold=0.99)
    with pytest.warns(decal.InputWarning, match="labels"):
        decal.decalibrate(4 * z, shuffled, miss=0.1)


def test_two_classes_masks_and_weights():
    z, y = world(300, K=2)
    assert decal.decalibrate(z, y, miss=0.1).promise.rows == 209
    z, y = world(400)
    masked = z.copy()
    masked[np.arange(400), (y + 1) % 4] = -np.inf
    d = decal.decalibrate(masked, y, miss=0.1)
    assert missed(d.predict(masked), y).mean() <= 0.1
    weights = np.where(np.arange(400) < 100, 0.0, 2.0)
    d = decal.decalibrate(z, y, miss=0.1, sample_weight=weights)
    assert d.promise.rows == 209
    assert "Weights counted where sets were fitted" in repr(d)


# Units


def images(n, seed=0, side=6):
    """(n, 4, side, side) logits that are more or less to be trusted, image by image."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, 4, side, side))
    trust = np.exp(rng.normal(size=(n, 1, 1, 1)))
    return z, (trust * z + rng.gumbel(size=z.shape)).argmax(axis=1)


@pytest.mark.parametrize("tolerate", [None, 0.2])
def test_images_that_fit_and_choose_are_not_those_that_promise(tolerate):
    z, y = images(120, side=3)
    d = decal.decalibrate(z, y, miss=0.2, unit="image", tolerate=tolerate)
    wish = Wish.of(miss=0.2, unit="image", tolerate=tolerate)
    rows = d.read(z, y, dim=1)
    chosen_on, promised_by = wish._split(rows, None)
    assert sorted([*chosen_on, *promised_by]) == list(range(120 * 9))
    assert not set(rows.units[chosen_on]) & set(rows.units[promised_by])
    assert d.examples == len(chosen_on) == 36 * 9
    assert d.promise.rows == 84
    rest = np.unique(rows.units[promised_by])
    kept = d.predict(z[rest], dim=1).possible
    shares = (~np.take_along_axis(kept, y[rest][:, None], axis=1)).mean(axis=(1, 2, 3))
    lost = shares if tolerate is None else shares > tolerate
    assert (lost.sum() + 1) / 85 <= 0.2


def test_few_images_are_not_split_and_too_few_are_refused_with_how_many_are_needed():
    few, labels = images(99, side=2)
    assert decal.decalibrate(few, labels, miss=0.1, unit="image").promise.rows == 99
    z, y = images(9)
    d = decal.decalibrate(z, y, miss=0.1, unit="image")
    assert (d.promise.rows, d.examples) == (9, 9 * 36)
    assert [direction.name for direction in d.directions] == ["local"]
    match = r"miss must be at least 0\.1112 with 8 images: got 0\.1\. It needs 9 images\."
    with pytest.raises(ValueError, match=match):
        decal.decalibrate(z[:8], y[:8], miss=0.1, unit="image")


def test_weights_of_zero_leave_their_images_out():
    z, y = images(40)
    w = np.ones(40)
    w[:10] = 0
    d = decal.decalibrate(z, y, miss=0.2, unit="image", sample_weight=w)
    same = decal.decalibrate(z[10:], y[10:], miss=0.2, unit="image")
    assert (d.alpha, d.promise.rows) == (same.alpha, same.promise.rows)


def test_a_promise_about_pixels_is_warned_of_and_that_of_rows_is_not():
    z, y = images(60)
    match = r"a promise about inputs may fail\. Ask for one about units, with unit='image'"
    for wish in ({"miss": 0.1}, {"hold": 0.6}):
        with pytest.warns(decal.InputWarning, match=match):
            dense = decal.decalibrate(z, y, **wish)
        rows = decal.decalibrate(np.moveaxis(z, 1, -1).reshape(-1, 4), y.ravel(), **wish)
        assert dense.alpha == rows.alpha
    decal.decalibrate(z, y, width=0.2)  # which promises nothing of new inputs
    decal.decalibrate(z[:, :, 0, 0], y[:, 0, 0], miss=0.1, dim=1)


def test_new_images_lose_on_average_no_more_than_was_promised():
    rates = []
    for seed in range(40):
        z, y = images(80, seed, side=3)
        d = decal.decalibrate(z[:40], y[:40], miss=0.2, unit="image", directions="local")
        kept = d.predict(z[40:], dim=1).possible
        rates.append((~np.take_along_axis(kept, y[40:, None], axis=1)).mean())
    assert np.mean(rates) <= 0.2 + 3 * np.std(rates) / np.sqrt(len(rates))


def test_the_simulation_of_units_runs():
    path = Path(__file__).parents[2] / "benchmarks" / "wishes.py"
    spec = importlib.util.spec_from_file_location("wishes", path)
    simulation = importlib.util.module_from_spec(spec)
    sys.modules["wishes"] = simulation  # where its dataclasses look for their names
    spec.loader.exec_module(simulation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.InputWarning)
        lines = list(simulation.units(2, (12,), 5))
    del sys.modules["wishes"]
    assert [line["promised of"].split(" ")[0] for line in lines] == ["pixels", "images,", "images"]
    assert all(0 <= float(line["mean miss rate"].split()[0]) <= 1 for line in lines)


def test_a_wish_does_not_warn_of_an_alpha_that_nobody_asked_for():
    rng = np.random.default_rng(0)
    z = 3e3 * rng.normal(size=(200, 3))
    labels = np.where(rng.random(200) < 0.3, rng.integers(0, 3, 200), z.argmax(axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decal.decalibrate(z, labels, miss=0.3, reference="best")
    with pytest.warns(decal.FitWarning, match="allows"):
        decal.decalibrate(z, labels, alpha=0.9, reference="best")
