"""What several members say of an input, made into one credal set; and what is refused."""

import math
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import decal
from oracles import balls


def world(n, members=3, K=3, seed=0, apart=0.3):
    """(M, n, K) logits of members that err together and alone, and labels of the truth."""
    rng = np.random.default_rng(seed)
    truth = 2.0 * rng.normal(size=(n, K))
    shared = 2.0 * truth + rng.normal(size=(n, K))
    labels = (truth + rng.gumbel(size=(n, K))).argmax(axis=1)
    return shared + apart * rng.normal(size=(members, n, K)), labels


def probabilities(logits):
    """Of one row, by the definition of softmax."""
    weights = [math.exp(z) for z in logits]
    return [w / sum(weights) for w in weights]


def missed(sets, labels):
    """(n,) whether the label is not among the possible classes."""
    return np.array([y not in names for y, names in zip(labels, sets.possible(), strict=True)])


# What members say as they are


def test_box_hull_and_mean_are_those_of_the_predictions_one_by_one():
    z, _ = world(7, members=4)
    e = decal.ensemble(z, classes=["a", "b", "c"])
    box, hull, mean = e.box(), e.hull(), e.mean
    assert box.classes == hull.classes == ("a", "b", "c")
    for i in range(7):
        said = [probabilities(z[m, i]) for m in range(4)]
        for k in range(3):
            of_class = [p[k] for p in said]
            assert box.lower[i, k] == pytest.approx(min(of_class), abs=1e-14)
            assert box.upper[i, k] == pytest.approx(max(of_class), abs=1e-14)
            assert math.exp(mean[i, k]) == pytest.approx(sum(of_class) / 4, rel=1e-12)
        mixture = np.average(said, axis=0, weights=[1, 2, 3, 4])
        assert hull[[i]].contains(mixture[None]).all()
    np.testing.assert_allclose(np.exp(mean).sum(axis=1), 1)


def test_the_mean_of_huge_logits_is_finite():
    z = np.array([[[1e4, 0.0, -1e4]], [[-1e4, 0.0, 1e4]]])
    np.testing.assert_allclose(decal.ensemble(z).mean, [[math.log(0.5), -1e4, math.log(0.5)]])


@pytest.mark.parametrize(
    "given",
    [
        lambda z: decal.ensemble(list(z)),
        lambda z: decal.ensemble(np.moveaxis(z, 0, 1), axis=1),
        lambda z: decal.ensemble(np.moveaxis(z, 0, 1).tolist(), axis=1),
        lambda z: decal.ensemble(
            [[probabilities(row) for row in member] for member in z], probabilities=True
        ),
    ],
)
def test_lists_other_axes_and_probabilities_are_the_same_ensemble(given):
    z, _ = world(5)
    found = given(z)
    assert repr(found) == "Ensemble: 3 members, 5 inputs, 3 classes"
    np.testing.assert_allclose(found.mean, decal.ensemble(z).mean)
    np.testing.assert_allclose(found.box().lower, decal.ensemble(z).box().lower)


def test_columns_of_data_frames_are_matched_by_name():
    pd = pytest.importorskip("pandas")
    z, _ = world(4, members=2)
    first = pd.DataFrame(z[0], columns=["a", "b", "c"])
    second = pd.DataFrame(z[1], columns=["a", "b", "c"])[["c", "a", "b"]]
    e = decal.ensemble([first, second])
    assert e.box().classes == ("a", "b", "c")
    np.testing.assert_array_equal(e.members, z)


def test_tensors_are_taken():
    torch = pytest.importorskip("torch")
    z, _ = world(4)
    e = decal.ensemble([torch.tensor(member, requires_grad=True) for member in z])
    np.testing.assert_array_equal(e.members, z)
    np.testing.assert_array_equal(decal.ensemble(torch.tensor(z)).members, z)


# The union of the members' sets


def test_the_union_holds_the_ball_of_every_member_and_no_more():
    z, y = world(60, members=3)
    e = decal.ensemble(z)
    d = decal.Decalibrator(0.8, directions="local").fit(e.union, y)
    sets = d.predict(e[:5].union)
    for i in range(5):
        said = [probabilities(z[m, i]) for m in range(3)]
        for k in range(3):
            ranges = [balls.event_range(p[k], -math.log(0.8)) for p in said]
            assert sets.lower[i, k] == pytest.approx(min(low for low, _ in ranges), abs=1e-8)
            assert sets.upper[i, k] == pytest.approx(max(high for _, high in ranges), abs=1e-8)


@pytest.mark.parametrize("directions", ["local", "class", ("class", "temperature")])
def test_the_union_is_the_least_and_the_greatest_bound_and_nested(directions):
    z, y = world(200)
    e = decal.ensemble(z)
    d = decal.Decalibrator(0.9, directions=directions, reference="auto").fit(e.union, y)
    before = None
    for alpha in (1.0, 0.95, 0.6, 0.0):
        found = d.predict(e.union, alpha=alpha)
        alone = [d.predict(member, alpha=alpha) for member in z]
        np.testing.assert_allclose(
            found.lower, np.min([s.lower for s in alone], axis=0), atol=1e-12
        )
        np.testing.assert_allclose(
            found.upper, np.max([s.upper for s in alone], axis=0), atol=1e-12
        )
        if before is not None:
            assert (found.lower <= before.lower + 1e-12).all()
            assert (found.upper >= before.upper - 1e-12).all()
        before = found


def test_every_labelled_row_is_learnt_once_from_one_member():
    z, y = world(300)
    e = decal.ensemble(z)
    logits = e.union.in_turn()
    by = [(logits == member).all(axis=1) for member in z]
    np.testing.assert_array_equal(np.sum(by, axis=0), 1)
    assert [mask.sum() for mask in by] == [100, 100, 100]
    w = np.linspace(1, 2, 300)
    d = decal.decalibrate(e.union, y, alpha=0.9, sample_weight=w, classes=["a", "b", "c"])
    same = decal.decalibrate(logits, y, alpha=0.9, sample_weight=w, classes=["a", "b", "c"])
    assert d.examples == 300
    assert d.classes == ("a", "b", "c")
    np.testing.assert_array_equal(d.shifts().upper, same.shifts().upper)


def test_one_member_is_a_model_like_any_other():
    z, y = world(300, members=1)
    e = decal.ensemble(z)
    d = decal.decalibrate(e.union, y, miss=0.1)
    same = decal.decalibrate(z[0], y, miss=0.1)
    assert d.alpha == pytest.approx(same.alpha, rel=1e-6)
    np.testing.assert_allclose(d.predict(e.union).lower, same.predict(z[0]).lower, atol=1e-6)


# Wishes


@pytest.mark.parametrize("what", ["mean", "union"])
def test_an_ensemble_misses_no_more_than_wished(what):
    """Averaged over draws of rows."""
    rates = []
    for draw in range(40):
        z, y = world(500, seed=draw)
        e = decal.ensemble(z)
        known, new = getattr(e[:200], what), getattr(e[200:], what)
        d = decal.decalibrate(known, y[:200], miss=0.2, seed=draw)
        rates.append(missed(d.predict(new), y[200:]).mean())
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= 0.2 + 3 * error
    assert np.mean(rates) >= 0.1


def test_the_union_takes_the_wishes_of_a_model():
    z, y = world(900)
    e, groups = decal.ensemble(z), np.where(np.arange(900) % 2, "odd", "even")
    assert len(e) == len(e.union) == 900
    wide = decal.decalibrate(e.union, y, width=0.5)
    assert 1 - decal.metrics.efficiency(wide.predict(e.union)) == pytest.approx(0.5, abs=1e-5)
    each = decal.decalibrate(e.union, y, miss=0.1, per="class")
    some = decal.decalibrate(e.union, y, miss=0.1, groups=groups)
    for found in (each.predict(e.union), some.predict(e.union, groups=groups)):
        assert missed(found, y).mean() <= 0.12
    held = decal.choose(wide, e.union, coverage=0.9, distributions=np.full((900, 3), 1 / 3))
    assert held.predict(e.union).contains(np.full((900, 3), 1 / 3)).mean() >= 0.9
    with pytest.raises(decal.InputError, match="matrix of all classes for hold: got MemberUnion"):
        decal.decalibrate(e.union, y, hold=0.5)


def test_a_promise_about_unions_is_not_given_for_less(tmp_path):
    z, y = world(400)
    e = decal.ensemble(z)
    d = decal.decalibrate(e.union, y, miss=0.1)
    assert "These are unions of the sets of 3 members." in repr(d)
    d.save(tmp_path / "d.npz")
    for model in (d, decal.load(tmp_path / "d.npz")):
        np.testing.assert_array_equal(model.predict(e.union).upper, d.predict(e.union).upper)
        with pytest.raises(decal.InputError, match="union of an ensemble of 3, .* got one matrix"):
            model.predict(e.mean)
        with pytest.raises(decal.InputError, match="union of an ensemble of 3, .* got one of 2"):
            model.predict(decal.ensemble(z[:2]).union)
    assert d.predict(e.mean, alpha=0.5).shape == (400, 3)  # which promises nothing


def test_reports_and_choices_take_unions():
    z, y = world(400)
    known, new = decal.ensemble(z)[:200], decal.ensemble(z)[200:]
    d = decal.decalibrate(known.union, y[:200], miss=0.1)
    assert len(d.report(new.union)) == 200
    choice = decal.choose(d, new.union, y[200:], miss=0.2)
    kept = choice.decide(new.union)
    assert 1 - kept[np.arange(200), y[200:]].mean() == pytest.approx(choice.achieved)


# Bad input


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (np.zeros((5, 3)), {}, r"members × inputs × classes, .* got shape \(5, 3\)\. Of one model"),
        ([], {}, r"one member or more: got shape \(0,\)"),
        (np.zeros((0, 5, 3)), {}, r"one member or more: got shape \(0, 5, 3\)"),
        ([np.zeros((5, 3)), np.zeros((4, 3))], {}, r"logits\[1\] must have the shape .*\(5, 3\)"),
        (np.full((2, 5, 3), np.nan), {}, r"logits\[0\] must be finite: got nan"),
        (np.full((2, 5, 3), -np.inf), {}, r"logits\[0\] must be finite: got -inf"),
        (np.zeros((2, 5, 1)), {}, r"logits\[0\] must have one column per class, two or more"),
        (np.zeros((2, 5, 3)), {"axis": 2}, "axis must be 0 or 1, where the members are: got 2"),
        (np.ones((2, 5, 3)), {"probabilities": True}, "must sum to 1"),
        (np.zeros((2, 5, 3)), {"classes": "ab"}, "classes must"),
        (np.zeros((2, 5, 3)), {"floor": 0.1}, "floor must go with probabilities"),
    ],
)
def test_what_is_no_ensemble_is_refused(given, options, message):
    with pytest.raises(decal.InputError, match=message):
        decal.ensemble(given, **options)


def test_shapes_and_numbers_that_are_probably_a_mistake_are_told():
    with pytest.warns(decal.InputWarning, match=r"40 members of 5 inputs.*pass axis=1"):
        decal.ensemble(np.zeros((40, 5, 3)))
    assert len(decal.ensemble(np.zeros((40, 5, 3)), axis=0)) == 5
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 30))
    with pytest.warns(decal.InputWarning, match="probabilities=True") as told:
        decal.ensemble(rows)
    assert len(told) == 1


def test_an_ensemble_is_not_combined_by_guessing():
    z, y = world(200)
    e = decal.ensemble(z)
    with pytest.raises(decal.InputError, match=r"got an Ensemble. Pass its mean, e\.mean, or"):
        decal.decalibrate(e, y, miss=0.1)
    with pytest.raises(decal.InputError, match="union of an ensemble. Take a Decalibrator"):
        decal.MultiLabelDecalibrator(0.9).fit(e.union, np.zeros((200, 3)))
    d = decal.decalibrate(z[0], y, alpha=0.9, directions="local")
    with pytest.raises(
        decal.InputError, match="matrix of all classes for balls: got a MemberUnion"
    ):
        d.predict_ball(e.union)
    with pytest.raises(decal.InputError, match="be of the 3 classes of fit: got 4"):
        d.predict(decal.ensemble(np.zeros((2, 5, 4))).union)


# The benchmark


def test_the_benchmark_tells_what_every_method_reaches(capsys, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import_module("ensembles").main(["--quick"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(lines) == 9
    assert all(line.count("|") == 7 for line in lines)


def test_an_integer_picks_one_input_of_an_ensemble_and_of_its_union():
    e = decal.ensemble(np.random.default_rng(0).normal(size=(2, 5, 3)))
    assert repr(e[-1]) == "Ensemble: 2 members, 1 input, 3 classes"
    np.testing.assert_array_equal(e[3].members, e.members[:, [3]])
    assert repr(e.union[3]) == "MemberUnion of an Ensemble: 2 members, 1 input, 3 classes"
    with pytest.raises(IndexError, match="row 5 is out of range for 5 inputs"):
        e[5]
    assert repr(decal.ensemble(e.members[:1]).hull()).startswith(
        "HullCredalSet: 5 inputs, 1 vertex, 3 classes"
    )


def test_members_of_pixels_are_told_to_come_in_rows():
    with pytest.raises(ValueError, match="Put pixels or tokens in rows: of each member"):
        decal.ensemble(np.zeros((3, 8, 4, 5, 5)))
