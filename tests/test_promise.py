"""What a promise says, and that it survives wherever a model goes."""

import copy
import pickle

import numpy as np
import pytest

import decal
from decal.choose import Promise

COSTS = {"classes": 3, "kept": 1.5, "single": 0.6, "lac": 1.6, "aps": 2.0, "error": 0.2}


def data(n=300, K=3, seed=0):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, K))
    return logits, (logits + rng.gumbel(size=(n, K))).argmax(axis=1)


@pytest.fixture
def promising():
    z, y = data()
    d = decal.decalibrate(z[:200], y[:200], alpha=0.9, classes=["a", "b", "c"])
    return decal.choose(d, z[200:], y[200:], miss=0.2).promised()


def test_a_promise_is_one_sentence_and_its_costs_another():
    promise = Promise("miss", 0.1, 1271, "e_admissible", costs=COSTS, notes=("b is missed",))
    assert str(promise) == (
        "The true label is outside the kept classes for at most 1 new input in 10; guaranteed, by "
        "1,271 rows."
    )
    assert promise.brief == "misses at most 1 in 10"
    assert Promise("hold", 0.9, 100).brief == "holds all of it for at least 9 in 10"
    assert Promise("width", 0.15, 100).brief == "ranges are 0.15 wide on average"
    _, costs, note = promise.lines()
    assert costs == (
        "There 1.5 of 3 classes are kept on average, one alone for 60%; LAC keeps 1.6 and APS 2, "
        "and the plain prediction errs on 20.0%."
    )
    assert note == "B is missed."


def test_a_promise_stays_with_its_model_in_files_copies_and_pickles(promising, tmp_path):
    promising.save(tmp_path / "d.npz")
    loaded = decal.load(tmp_path / "d.npz")
    new = data(20, seed=1)[0]
    for same in (loaded, copy.copy(promising), pickle.loads(pickle.dumps(promising))):
        assert same.promise == promising.promise
        assert dict(same.promise.costs) == dict(promising.promise.costs)
        assert same.alpha == promising.alpha
        assert same.predict(new).possible() == promising.predict(new).possible()
    assert str(promising.promise) in promising.report(new).promise
    assert "The true label is outside" in repr(loaded)
    assert "The true label is outside" in loaded._repr_html_()


def test_a_model_that_learns_more_or_is_asked_otherwise_promises_nothing(promising):
    z, y = data(40, seed=2)
    other = decal.decalibrate(z, y, alpha=0.9, classes=["a", "b", "c"])
    assert copy.deepcopy(promising).merge(other).promise is None
    assert copy.deepcopy(promising).partial_fit(z, y).promise is None
    assert copy.deepcopy(promising).fit(z, y).promise is None
    assert promising.with_settings(alpha=0.5).promise is None
    assert promising.with_settings().promise == promising.promise
    assert promising.report(z, alpha=0.5).promise == ""


@pytest.mark.parametrize("per", ["class", "group"])
def test_levels_by_class_or_group_are_kept_in_files(per, tmp_path):
    z, y = data(400)
    names = ["a", "b", "c"]
    d = decal.decalibrate(z[:200], y[:200], alpha=0.9, classes=names)
    groups = np.where(z[:, 0] > 0, "up", "down")
    asked = {"per": "class"} if per == "class" else {"groups": groups[200:]}
    choice = decal.choose(d, z[200:], y[200:], miss=0.2, **asked)
    choice.promised().save(tmp_path / "d.npz")
    loaded = decal.load(tmp_path / "d.npz")
    new, _ = data(50, seed=3)
    by = {} if per == "class" else {"groups": np.where(new[:, 0] > 0, "up", "down")}
    kept, point = choice.decide(new, **by), d.predict(new).point
    expected = [[names[k] for k in np.argsort(-point[i]) if kept[i, k]] for i in range(len(new))]
    assert loaded.predict(new, **by).possible() == expected
    assert d.predict(new, alpha=choice, **by).possible() == expected
    assert list(loaded.report(new, **by).possible) == expected
    assert dict(loaded.promise.levels) == {k: part.alpha for k, part in choice.parts.items()}
    if per == "group":
        with pytest.raises(ValueError, match=r"groups must be given.*Pass groups=, of down, up"):
            loaded.predict(new)
    else:
        with pytest.raises(ValueError, match="groups must be left out"):
            loaded.predict(new, groups=[0] * 50)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("kind", "hope", "kind must be one of"),
        ("target", 2.0, "target must lie between 0 and 1"),
        ("rows", -1, "rows must be a whole number"),
        ("levels", [[None, 0.5]], "names of classes and groups must be text or numbers"),
        ("per", "row", "per must be one of"),
        ("tolerate", 2.0, "tolerate must lie between 0 and 1"),
    ],
)
def test_a_damaged_promise_is_refused(field, value, said):
    plain = Promise("miss", 0.1, 50, "e_admissible").packed()
    assert Promise.unpacked(plain) == Promise("miss", 0.1, 50, "e_admissible")
    with pytest.raises(ValueError, match=said):
        Promise.unpacked(plain | {field: value})
    with pytest.raises(ValueError, match="must have its fields"):
        Promise.unpacked({"kind": "miss"})
    for name, value in (("recalibration", ()), ("unit", None), ("tolerate", None)):
        del plain[name]  # which older files do not hold
        assert getattr(Promise.unpacked(plain), name) == value


def test_a_promise_about_images_says_so_and_is_kept_in_files(tmp_path):
    z, y = data(600)
    d = decal.decalibrate(z[:300], y[:300], alpha=0.9)
    dense = z[300:].reshape(60, 5, 3), y[300:].reshape(60, 5)
    for tolerate, sentence in (
        (None, "On average over new images, at most 1 label in 5 is outside the kept classes"),
        (0.25, "For at most 1 new image in 5, more than 0.25 of the labels are outside the kept"),
    ):
        choice = decal.choose(d, *dense, miss=0.2, unit="image", tolerate=tolerate, dim=-1)
        choice.promised().save(tmp_path / "d.npz")
        loaded = decal.load(tmp_path / "d.npz")
        assert loaded.promise == choice.promise
        assert (loaded.promise.unit, loaded.promise.tolerate) == ("image", tolerate)
        assert str(loaded.promise).startswith(sentence)
        assert str(loaded.promise).endswith("; guaranteed, by 60 images.")
        assert "on 60 images, wanted at most 0.2" in repr(choice)
        few = "more than 0.25 of the labels of at most 1 image" if tolerate else "at most 1 label"
        assert loaded.promise.brief == f"misses {few} in 5"
        kept = loaded.predict(dense[0], dim=-1).possible
        np.testing.assert_array_equal(kept, choice.decide(dense[0], dim=-1))
    assert str(Promise("miss", 0.1, 1, unit="page")).endswith("guaranteed, by 1 page.")
    several = Promise("miss", 0.03, 60, unit="page")
    assert str(several).startswith("On average over new pages, at most 3 labels in 100 are outside")


def test_units_have_a_plural():
    for unit, many in [("image", "images"), ("patch", "patches"), ("biopsy", "biopsies")]:
        promise = Promise("miss", 0.1, 40, "e_admissible", unit=unit)
        assert str(promise).startswith(f"On average over new {many}, at most 1 label in 10")
        assert promise.counted == f"40 {many}"
        assert Promise("miss", 0.5, 1, "e_admissible", unit=unit).counted == f"1 {unit}"
    few = Promise("miss", 0.3, 40, "e_admissible", unit="day", tolerate=0.2)
    assert str(few).startswith("For at most 3 new days in 10, more than 0.2")
