"""An alpha for every class: against the definition, and what it promises."""

import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import decal
from decal.choose import _plausibility, plausibility
from decal.choose._plausibility import labels_inside, local_budgets


def imbalanced(seed, n, offset=(2.5, 1.0, -1.0)):
    """Logits of a model that knows nothing of how rare its last class is."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    labels = (z + offset + rng.gumbel(size=z.shape)).argmax(axis=1)
    return z + np.array([2.5, 1.0, -4.0]), labels


@pytest.fixture(scope="module")
def model():
    return decal.decalibrate(*imbalanced(0, 600), alpha=0.9)


def test_every_class_is_held_to_the_miss_rate_on_its_own_examples(model):
    z, y = imbalanced(1, 2000)
    found = decal.choose(model, z, y, miss=0.1, per="class")
    assert list(found.parts) == [0, 1, 2]
    for k, choice in found.parts.items():
        rows = y == k
        alone = decal.choose(model, z[rows], y[rows], miss=0.1)
        assert (choice.alpha, choice.achieved, choice.promise.rows) == (
            alone.alpha, alone.achieved, rows.sum(),
        )  # fmt: skip


def test_a_class_is_kept_where_it_is_plausible_at_its_own_alpha(model):
    z, y = imbalanced(1, 1000)
    found = decal.choose(model, z, y, miss=0.1, per="class")
    new, _ = imbalanced(2, 60)
    kept = found.decide(new)
    for row in range(60):
        for k in range(3):
            alone = model.predict(new[row : row + 1], alpha=found.parts[k]).decide("e_admissible")
            assert kept[row, k] == alone[0, k]
    assert kept.any(axis=1).all()
    assert (kept[np.arange(60), new.argmax(axis=1)]).all()


def test_the_rare_class_is_missed_without_and_not_with_its_own_alpha(model):
    z, y = imbalanced(1, 3000)
    new, labels = imbalanced(3, 6000)
    rare = labels == 2
    one = decal.choose(model, z, y, miss=0.1)
    missed = ~model.predict(new, alpha=one).decide("e_admissible")[rare, 2]
    assert missed.mean() > 0.3
    assert "class 2 is missed in" in one.promise.notes[0]
    assert "per='class' guarantees every class" in repr(one)
    sets = decal.choose(model, z, y, miss=0.1, per="class").decide(new)
    for k in range(3):
        assert (~sets[labels == k, k]).mean() < 0.14


def test_a_class_that_is_missed_by_chance_is_not_noted():
    rng = np.random.default_rng(4)
    z = rng.normal(size=(500, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    fair = decal.decalibrate(z, y, alpha=0.9)
    new = rng.normal(size=(500, 3))
    labels = (new + rng.gumbel(size=z.shape)).argmax(axis=1)
    assert decal.choose(fair, new, labels, miss=0.1).promise.notes == ()


def test_where_nothing_is_missed_nothing_is_noted():
    z = np.array([[8.0, 0.0], [0.0, 8.0]] * 60)
    sure = decal.decalibrate(z, np.arange(120) % 2, alpha=0.9)
    found = decal.choose(sure, z, np.arange(120) % 2, miss=0.01)
    assert (found.achieved, found.promise.notes) == (0, ())


def test_classes_are_called_by_their_names():
    z, y = imbalanced(0, 3000)
    model = decal.decalibrate(z, y, alpha=0.9, classes=["often", "now and then", "rarely"])
    z, y = imbalanced(1, 3000)
    assert "rarely is missed in" in decal.choose(model, z, y, miss=0.1).promise.notes[0]
    lines = repr(decal.choose(model, z, y, miss=0.1, per="class")).splitlines()
    assert [line.split("  ")[1] for line in lines[3:]] == ["often", "now and then", "rarely"]


def test_absent_and_rare_classes_are_kept_always_and_named(model):
    z, y = imbalanced(1, 200)
    few = np.flatnonzero(y == 1)[:5]
    rows = np.concatenate([np.flatnonzero(y == 0), few])
    with pytest.warns(
        decal.FitWarning,
        match=r"2 of 3 classes have too few rows for miss = 0.1 and are in every set: "
        r"class 2 with 0, class 1 with 5\. Label more of them, or accept more misses",
    ):
        found = decal.choose(model, z[rows], y[rows], miss=0.1, per="class")
    assert found.parts[1].alpha == found.parts[2].alpha == 0
    assert found.decide(z)[:, 1:].all()
    assert "(5 are too few, always kept)" in repr(found)
    with pytest.raises(KeyError):
        found.parts[3]


class Certain:
    """A model whose sets are points at every alpha."""

    def predict(self, logits, *, alpha=None):  # noqa: ARG002
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        return decal.IntervalCredalSet(p, p, point=p)


def test_a_model_that_cannot_lift_a_class_keeps_it_always():
    z = np.random.default_rng(6).normal(size=(90, 3))
    found = decal.choose(Certain(), z, z.argmin(axis=1), miss=0.1, per="class")
    assert [choice.alpha for choice in found.parts.values()] == [0, 0, 0]
    assert "no positive alpha will do, always kept" in repr(found)
    assert found.decide(z).all()


def test_new_labels_of_every_class_are_missed_as_rarely_as_promised(model):
    # Many sets of 19 examples of a class, of which one may be missed at 0.1: the alpha is the
    # second smallest plausibility.
    z, y = imbalanced(5, 6_000)
    for k in range(3):
        rows = z[y == k][:900]
        score = plausibility(model, rows, labels=np.full(len(rows), k))
        cut = len(rows) // 2 // 19
        held_out, new = score[: 19 * cut].reshape(cut, 19), score[19 * cut :]
        alphas = np.sort(held_out, axis=1)[:, 1]
        rates = (new < alphas[:, None]).mean(axis=1)
        assert rates.mean() <= 0.1 + 3 * rates.std() / np.sqrt(cut)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", decal.FitWarning)
            chosen = decal.choose(model, rows[:19], np.full(19, k), miss=0.1, per="class")
        assert chosen.parts[k].alpha == pytest.approx(alphas[0], abs=0.002)


def test_bad_input_is_refused_by_name(model):
    z, y = imbalanced(1, 50)
    with pytest.raises(ValueError, match="miss must lie between 0 and 1: got 2"):
        decal.choose(model, z, y, miss=2, per="class")
    with pytest.raises(ValueError, match="rule must be one of"):
        decal.choose(model, z, y, miss=0.1, per="class", rule="point")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.FitWarning)
        found = decal.choose(model, z, y, miss=0.1, per="class")
    with pytest.raises(ValueError, match="logits must have 3 columns"):
        found.decide(z[:, :2])


# Local sets: between which budgets a label comes in


def local(likelihood="mean", **settings):
    z, y = imbalanced(5, 400)
    return decal.Decalibrator(directions="local", likelihood=likelihood, **settings).fit(z, y)


@pytest.mark.parametrize("likelihood", ["mean", "sum"])
@pytest.mark.parametrize("rule", ["interval_dominance", "maximality", "e_admissible", "majority"])
def test_labels_of_local_sets_come_in_between_two_budgets(rule, likelihood, monkeypatch):
    model = local(likelihood, reference="best" if likelihood == "mean" else "model")
    rows = model.read(*imbalanced(6, 40))
    least, most = local_budgets(model, rows, rule)
    monkeypatch.setattr(_plausibility, "local_budgets", lambda *_: None)
    inside = labels_inside(model, rows, rule)
    assert (least < most).any() or rule == "majority"
    for row in np.flatnonzero(most > 0):
        at = np.array([row])
        assert inside(at, float(np.exp(-most[row] * (1 + 1e-9))))
        assert least[row] == 0 or not inside(at, float(np.exp(-least[row] * (1 - 1e-6))))
        if rule == "interval_dominance":
            assert inside(at, float(np.exp(-least[row] * (1 + 1e-6))))


@pytest.mark.parametrize("rule", ["e_admissible", "majority"])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("miss", [0.001, 0.02, 0.1, 0.5, 0.9])
def test_known_budgets_change_no_choice(miss, ties, rule, monkeypatch):
    model, (z, y) = local(), imbalanced(7, 700)
    z = np.round(z) if ties else z
    asked = {"miss": miss, "rule": rule, "groups": np.arange(700) % 3}
    fast = decal.choose(model, z, y, **asked)
    monkeypatch.setattr(_plausibility, "local_budgets", lambda *_: None)
    slow = decal.choose(model, z, y, **asked)
    for group, choice in slow.parts.items():
        there = fast.parts[group]
        assert (choice.alpha, choice.achieved) == (there.alpha, there.achieved)


# Units: images, or whatever else holds several rows


def plausibilities(model, z, y, rule="e_admissible"):
    """(n,) by bisection, between which alphas a label leaves the decision set of its row."""
    low, high = np.zeros(len(y)), np.ones(len(y))
    for _ in range(50):
        middle = (low + high) / 2
        inside = [
            model.predict(row[None], alpha=alpha).decide(rule)[0, label]
            for row, label, alpha in zip(z, y, middle, strict=True)
        ]
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(low > 1 - 1e-9, 1.0, low)


def largest_by_definition(scores, units, miss, tolerate=None):
    """The largest alpha with (sum of losses + 1) / (units + 1) <= miss, in exact arithmetic."""
    named = sorted(set(units))

    def loss(alpha):
        total = Fraction(0)
        for unit in named:
            rows = [score for score, other in zip(scores, units, strict=True) if other == unit]
            share = Fraction(sum(score < alpha for score in rows), len(rows))
            total += share if tolerate is None else share > Fraction(str(tolerate))
        return total

    fine = [
        alpha
        for alpha in (*scores, 1.0)
        if (loss(alpha) + 1) / (len(named) + 1) <= Fraction(str(miss))
    ]
    return max(fine, default=None)


def in_images(seed, sizes):
    """Rows of images whose logits are more or less to be trusted."""
    rng = np.random.default_rng(seed)
    units = np.repeat(np.arange(len(sizes)), sizes)
    z = rng.normal(0, 2, (len(units), 3))
    trust = np.exp(rng.normal(0, 1, len(sizes)))[units]
    return z, (trust[:, None] * z + rng.gumbel(size=z.shape)).argmax(axis=1), units


@pytest.fixture(scope="module")
def of_images():
    z, y, _ = in_images(0, [10] * 20)
    return decal.decalibrate(z, y, alpha=0.9)


@pytest.mark.parametrize("sizes", [[4] * 29, [1, 2, 3, 5, 7, 3, 2, 6, 4, 9, 1, 2], [3] * 10])
@pytest.mark.parametrize("tolerate", [None, 0.3, 1 / 3, 0.0, 0.5])
@pytest.mark.parametrize("miss", [0.1, 0.3, 0.5])
def test_units_lose_on_average_as_much_as_the_definition_allows(of_images, sizes, tolerate, miss):
    z, y, units = in_images(1, sizes)
    scores = plausibilities(of_images, z, y)
    tolerate = None if tolerate is None else round(tolerate, 4)
    expected = largest_by_definition(scores, units, miss, tolerate)
    found = decal.choose(of_images, z, y, miss=miss, unit="image", groups=units, tolerate=tolerate)
    if expected is None:
        assert (found.alpha, found.promise.notes[0][-20:]) == (0.0, "every class is kept"[-20:])
    else:
        assert found.alpha == pytest.approx(expected, rel=1e-5)
        missed = [scores[units == unit] < found.alpha for unit in range(len(sizes))]
        shares = [each.mean() for each in missed]
        lost = shares if tolerate is None else [share > tolerate for share in shares]
        assert found.achieved == pytest.approx(np.mean(lost))
    assert (found.promise.rows, found.promise.unit) == (len(sizes), "image")


def test_a_first_axis_a_list_and_groups_are_the_same_units(of_images):
    z, y, units = in_images(2, [6] * 30)
    asked = {"miss": 0.2, "unit": "image"}
    flat = decal.choose(of_images, z, y, **asked, groups=units)
    axes = decal.choose(of_images, z.reshape(30, 2, 3, 3), y.reshape(30, 2, 3), **asked, dim=-1)
    some = [z[units == k].reshape(2, 3, 3) for k in range(30)]
    listed = decal.choose(
        of_images, some, [y[units == k].reshape(2, 3) for k in range(30)], **asked, dim=-1
    )
    names = decal.choose(of_images, z, y, **asked, groups=np.array([f"patient {k}" for k in units]))
    assert flat.alpha == axes.alpha == listed.alpha == names.alpha
    # Groups of images are larger units: patients with three images each.
    patients = np.arange(30) // 3
    dense = {"logits": z.reshape(30, 6, 3), "labels": y.reshape(30, 6), "dim": -1}
    large = decal.choose(of_images, **dense, miss=0.2, unit="patient", groups=patients)
    rows = decal.choose(of_images, z, y, miss=0.2, unit="patient", groups=patients[units])
    assert (large.alpha, large.promise.rows) == (rows.alpha, 10)
    assert repr(large).splitlines()[0].endswith("on 10 patients, wanted at most 0.2")


def test_ignored_labels_do_not_count_in_their_unit(of_images):
    z, y, units = in_images(2, [6] * 30)
    masked = np.where(np.arange(len(y)) % 4 == 0, -1, y)
    masked[:6] = -1  # nothing is known of the first image
    dense = {"logits": z.reshape(30, 6, 3), "labels": masked.reshape(30, 6)}
    found = decal.choose(of_images, **dense, dim=-1, ignore_index=-1, miss=0.2, unit="image")
    known = masked >= 0
    rows = decal.choose(of_images, z[known], y[known], miss=0.2, unit="image", groups=units[known])
    assert (found.alpha, found.promise.rows) == (rows.alpha, 29)


def test_what_does_not_go_with_units_is_refused(of_images):
    z, y, units = in_images(2, [6] * 30)
    for choose in (decal.decalibrate, partial(decal.choose, of_images)):
        for given, message in [
            ({"miss": 0.1, "per": "class"}, "per must be left out with unit"),
            ({"hold": 0.8}, "unit must go with miss: got hold"),
            ({"width": 0.2}, "unit must go with miss: got width"),
            ({"miss": 0.1, "tolerate": 2}, "tolerate must lie between 0 and 1"),
        ]:
            with pytest.raises(ValueError, match=message):
                choose(z.reshape(30, 6, 3), y.reshape(30, 6), unit="image", dim=-1, **given)
        with pytest.raises(ValueError, match="tolerate must go with unit, or with Votes"):
            choose(z, y, miss=0.1, tolerate=0.2)
        with pytest.raises(
            ValueError, match="unit must go with inputs that come in units.*groups="
        ):
            choose(z, y, miss=0.1, unit="image")
        # The first axis of one image is not that of images.
        with pytest.raises(ValueError, match="unit must go with logits whose first axis is units"):
            choose(z.reshape(30, 6, 3).T, y.reshape(30, 6).T, miss=0.1, unit="image", dim=0)
        with pytest.raises(ValueError, match="unit must name what inputs come in"):
            choose(z, y, miss=0.1, unit=3, groups=units)
        with pytest.raises(ValueError, match=r"groups must .*, 180 in all"):
            choose(z, y, miss=0.1, unit="image", groups=units[:9])
