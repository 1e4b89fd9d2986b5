"""Frames of several libraries: columns by name, and names of the inputs that stay with the sets."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import decal
from decal._base.data_frames import class_columns, index_of, require_same_order
from decal.choose import plausibility, triage
from helpers.logit_files import NAMES, make_labelled

pd = pytest.importorskip("pandas", reason="needs decal[pandas]")
pytest.importorskip("narwhals", reason="needs decal[pandas]")

Z, Y = make_labelled()
LABELS = np.array(NAMES)[Y]
PATIENTS = [f"P-{i}" for i in range(len(Z))]


def columns(order=(0, 1, 2)):
    return {NAMES[k]: Z[:, k] for k in order}


def pandas_frame(found):
    return pd.DataFrame(found)


def polars_frame(found):
    return pytest.importorskip("polars", reason="needs decal[polars]").DataFrame(found)


def arrow_frame(found):
    return pytest.importorskip("pyarrow").table(found)


every_library = pytest.mark.parametrize("frame", [pandas_frame, polars_frame, arrow_frame])


@pytest.fixture
def model():
    return decal.decalibrate(Z, Y, alpha=0.9, classes=NAMES)


def same(a, b):
    np.testing.assert_array_equal(a.lower, b.lower)
    np.testing.assert_array_equal(a.upper, b.upper)
    np.testing.assert_array_equal(a.point, b.point)
    assert a.classes == b.classes


# Learning


@every_library
def test_names_are_learnt_from_columns_and_labels_are_names(frame, model):
    d = decal.decalibrate(frame(columns()), LABELS, alpha=0.9)
    assert d.classes == NAMES
    same(d.predict(Z), model.predict(Z))


@every_library
def test_labels_and_weights_may_be_columns(frame):
    weights = np.arange(len(Z)) % 3
    table = frame(columns() | {"species": LABELS, "count": weights})
    d = decal.decalibrate(table, "species", alpha=0.9, sample_weight="count")
    expected = decal.decalibrate(Z, Y, alpha=0.9, sample_weight=weights)
    np.testing.assert_array_equal(d.shifts().upper, expected.shifts().upper)
    with pytest.raises(ValueError, match="labels must be the name of a column, or values: got 'x'"):
        decal.decalibrate(table, "x", alpha=0.9)


def test_arrays_take_labels_that_are_names_too(model):
    for labels in (LABELS, LABELS.tolist(), pd.Series(LABELS), pd.Categorical(LABELS)):
        d = decal.decalibrate(Z, labels, alpha=0.9, classes=NAMES)
        same(d.predict(Z), model.predict(Z))
    chunks = decal.Decalibrator(0.9).partial_fit(Z[:20], LABELS[:20], classes=NAMES)
    chunks.partial_fit(Z[20:], LABELS[20:])
    np.testing.assert_allclose(chunks.shifts().upper, model.shifts().upper, rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match="name the columns with classes="):
        decal.decalibrate(Z, LABELS, alpha=0.9)
    with pytest.raises(ValueError, match="labels must be one of the classes cat, dog, eel: got 'c"):
        decal.decalibrate(Z, np.where(Y == 0, "cow", LABELS), alpha=0.9, classes=NAMES)


def test_classes_choose_the_order_of_columns(model):
    d = decal.decalibrate(pd.DataFrame(columns()), LABELS, alpha=0.9, classes=["eel", "cat", "dog"])
    assert d.classes == ("eel", "cat", "dog")
    np.testing.assert_allclose(
        d.predict(Z[:, [2, 0, 1]]).lower[:, [1, 2, 0]], model.predict(Z).lower
    )


def test_whole_numbers_are_names_if_columns_are_called_so():
    numbers = np.array([3, 5, 7])
    table = pd.DataFrame(Z, columns=numbers)  # as columns=classifier.classes_ gives
    d = decal.decalibrate(table, numbers[Y], alpha=0.9)
    assert d.classes == ("3", "5", "7")
    expected = decal.decalibrate(Z, Y, alpha=0.9)
    np.testing.assert_array_equal(d.predict(table[[7, 3, 5]]).lower, expected.predict(Z).lower)
    with pytest.raises(ValueError, match="labels must be one of the classes 3, 5, 7: got 2"):
        decal.decalibrate(table, Y, alpha=0.9)
    # Where no class is called by a number, numbers are those of columns.
    d = decal.decalibrate(pd.DataFrame(columns()), Y, alpha=0.9)
    np.testing.assert_array_equal(d.shifts().upper, expected.shifts().upper)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"id": np.arange(50)}, "got the column 'id', which looks like an index or row numbers"),
        ({"Unnamed: 0": np.arange(50)}, "got the column 'Unnamed: 0', which looks like an index"),
        ({"site": ["A"] * 50}, "logits must be numbers: got the type .* in column 'site'"),
    ],
)
def test_columns_that_are_no_classes_are_refused(more, message):
    with pytest.raises(ValueError, match=message):
        decal.decalibrate(pd.DataFrame(columns() | more), LABELS, alpha=0.9)


def test_a_column_that_no_label_names_is_a_class_without_labels_and_told():
    rare = pd.DataFrame(columns() | {"fox": np.linspace(-4, -3, 50)})
    with pytest.warns(
        UserWarning, match="no label names fox, so it counts as a class without labels"
    ):
        d = decal.decalibrate(rare, LABELS, alpha=0.9)
    assert d.classes == (*NAMES, "fox")
    named = decal.decalibrate(rare, LABELS, alpha=0.9, classes=(*NAMES, "fox"))
    np.testing.assert_array_equal(d.shifts().upper, named.shifts().upper)
    assert np.isneginf(d.shifts().lower[-1])
    coupled = decal.CoupledDecalibrator(0.9, likelihood="mean")
    with pytest.warns(UserWarning, match="no label names fox"):
        coupled.fit(rare, LABELS)
    assert coupled.classes == (*NAMES, "fox")


def test_a_class_without_labels_is_one_if_it_is_named():
    table = pd.DataFrame(columns() | {"fox": np.zeros(50) - 3.5})
    names = (*NAMES, "fox")
    assert decal.decalibrate(table, LABELS, alpha=0.9, classes=names).classes == names
    # In a chunk any class may be missing.
    assert decal.Decalibrator(0.9).partial_fit(table, LABELS).classes == names


# Predicting


@every_library
def test_columns_are_found_by_name(frame, model):
    same(model.predict(frame(columns(order=(2, 0, 1)))), model.predict(Z))


@every_library
def test_columns_that_are_missing_or_too_many_are_named(frame, model):
    with pytest.raises(ValueError, match="and no other: got no dog. Rename or drop"):
        model.predict(frame(columns(order=(2, 0))))
    with pytest.raises(ValueError, match="got no eel, and eal, site besides"):
        model.predict(frame({"cat": [1.0], "dog": [0.5], "eal": [0.0], "site": ["A"]}))


def test_a_model_without_names_goes_by_position():
    d = decal.decalibrate(Z, Y, alpha=0.9)
    np.testing.assert_array_equal(d.predict(pd.DataFrame(columns())).lower, d.predict(Z).lower)


def test_missing_values_are_refused_and_nullable_numbers_taken(model):
    table = pd.DataFrame(columns())
    same(model.predict(table.astype("Float64")), model.predict(Z))
    table.loc[3, "dog"] = None
    with pytest.raises(ValueError, match=r"be finite or -inf: got nan at index \(3, 1\)"):
        model.predict(table.astype("Float64"))


def test_probabilities_come_in_frames_too(model):
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    table = pd.DataFrame(p, columns=NAMES)[["dog", "eel", "cat"]]
    d = decal.decalibrate(table, LABELS, alpha=0.9, classes=NAMES, probabilities=True)
    np.testing.assert_allclose(d.predict(table).lower, model.predict(Z).lower, rtol=0, atol=1e-9)
    with pytest.warns(decal.InputWarning, match="must not be probabilities"):
        model.predict(table)
    np.testing.assert_allclose(decal.logits_from_probabilities(table), np.log(p[:, [1, 2, 0]]))
    error = decal.metrics.expected_calibration_error
    assert error(table, LABELS) == error(p, Y) == error(p, LABELS, classes=NAMES)


def test_questions_of_a_model_take_frames_by_name(model):
    mixed = pd.DataFrame(columns(order=(1, 2, 0)))
    truth = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    said = pd.DataFrame(truth, columns=NAMES)[["eel", "dog", "cat"]]
    assert decal.choose(model, mixed, LABELS, miss=0.2) == decal.choose(model, Z, Y, miss=0.2)
    assert decal.choose(model, mixed, coverage=0.8, distributions=said) == decal.choose(
        model, Z, coverage=0.8, distributions=truth
    )
    by_name = plausibility(model, mixed, labels=LABELS)
    assert by_name.tolist() == plausibility(model, Z, labels=Y).tolist()
    credal = model.predict(Z)
    assert decal.metrics.coverage(credal, said) == decal.metrics.coverage(credal, truth)
    assert credal.contains(said).tolist() == credal.contains(truth).tolist()
    coupled = decal.CoupledDecalibrator(0.9, likelihood="mean").fit(mixed, LABELS)
    expected = decal.CoupledDecalibrator(0.9, likelihood="mean").fit(Z, Y).predict(Z[:2])
    found = coupled.predict(pd.DataFrame(columns())[:2])
    np.testing.assert_allclose(found.lower[:, [2, 0, 1]], expected.lower, atol=1e-6)


def test_lazy_frames_are_to_be_collected_first(model):
    pl = pytest.importorskip("polars", reason="needs decal[polars]")
    with pytest.raises(ValueError, match=r"in memory: got polars.*LazyFrame. Collect it first"):
        model.predict(pl.DataFrame(columns()).lazy())


def test_columns_of_one_name_are_refused(model):
    twice = pd.DataFrame(Z, columns=["cat", "dog", "cat"])
    with pytest.raises(ValueError, match="logits must have distinct columns: got .*'cat' 2 times"):
        model.predict(twice)


def test_without_narwhals_the_error_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ImportError, match="data frames need narwhals: pip install narwhals"):
        model.predict(pd.DataFrame(columns()))


# Names of inputs


def test_the_index_stays_with_the_sets(model):
    table = pd.DataFrame(columns(), index=pd.Index(PATIENTS, name="patient"))
    credal = model.predict(table)
    assert credal.index["patient"].tolist() == PATIENTS
    picked = credal[Y == 2][1:3]
    assert picked.index["patient"].tolist() == np.array(PATIENTS)[Y == 2][1:3].tolist()
    assert credal[7].tighten().index["patient"].tolist() == ["P-7"]
    assert "\n  P-7  " in repr(credal[7])
    found = picked.to_pandas()
    assert found.index.names == ["patient", "class"]
    row = found.loc[(picked.index["patient"][0], "dog")]
    assert row["lower"] == picked.lower[0, 1]
    assert row["point"] == picked.point[0, 1]


def test_an_index_of_several_levels_and_one_that_only_counts():
    table = pd.DataFrame(columns(), index=pd.MultiIndex.from_product([range(5), range(10)]))
    found = decal.decalibrate(table, LABELS, alpha=0.9).predict(table).to_pandas()
    assert found.index.names == ["level_0", "level_1", "class"]
    assert decal.decalibrate(Z, Y, alpha=0.8).predict(pd.DataFrame(columns())).index is None
    assert index_of(pd.DataFrame(columns())[10:], rows=40)["row"].tolist() == list(range(10, 50))


@every_library
def test_ids_may_be_columns(frame, model):
    table = frame({"site": ["A"] * 50, "patient": PATIENTS} | columns(order=(2, 1, 0)))
    credal = model.predict(table, ids=["site", "patient"])
    same(credal, model.predict(Z))
    assert list(credal.index) == ["site", "patient"]
    with pytest.raises(ValueError, match="got site besides"):
        model.predict(table, ids="patient")


def test_ids_may_be_values(model):
    credal = model.predict(Z, ids=PATIENTS)
    assert credal[3].index["row"].tolist() == ["P-3"]
    with pytest.raises(ValueError, match=r"one value per input, 50 in all: got shape \(2,"):
        model.predict(Z, ids=["a", "b"])
    with pytest.raises(ValueError, match="index must not be called class, lower"):
        credal.with_index({"class": PATIENTS})
    assert credal.with_index(None).index is None


def test_polars_gets_names_as_columns(model):
    pl = pytest.importorskip("polars", reason="needs decal[polars]")
    found = model.predict(Z[:2], ids=["a", "b"]).to_polars()
    assert isinstance(found, pl.DataFrame)
    assert found.columns == ["row", "class", "lower", "upper", "point"]
    assert found["row"].to_list() == ["a"] * 3 + ["b"] * 3
    assert found["class"].to_list() == [*NAMES, *NAMES]
    assert found["upper"].to_list() == model.predict(Z[:2]).upper.ravel().tolist()


def test_every_kind_of_set_keeps_its_index():
    names = {"patient": ["a", "b"]}
    hull = decal.HullCredalSet([[[0.2, 0.8], [0.5, 0.5]]] * 2).with_index(names)
    assert hull[1].box().index["patient"].tolist() == ["b"]
    ball = decal.KLCredalSet([[0.2, 0.8]] * 2, 0.1).with_index(names)
    assert ball[1].box().index["patient"].tolist() == ["b"]
    d = decal.CoupledDecalibrator(0.9, likelihood="mean").fit(Z, Y)
    coupled = d.predict(pd.DataFrame(Z[:2], index=["a", "b"]))
    assert coupled[1].outer().tighten().index["row"].tolist() == ["b"]
    local = decal.decalibrate(Z, Y, alpha=0.9, directions="local")
    assert local.predict_ball(Z[:2], ids=["a", "b"])[1].index["row"].tolist() == ["b"]


def test_columns_come_in_the_order_of_the_classes():
    matrix, names = class_columns(pd.DataFrame(columns(order=(1, 0))), ("cat", "dog"))
    np.testing.assert_array_equal(matrix, Z[:, :2])
    assert names == ("cat", "dog")


def test_triage_and_guarantees_per_class_take_frames_by_name():
    rng = np.random.default_rng(1)
    z = 3 * rng.standard_normal((300, 3))
    labels = np.array(NAMES)[np.argmax(z + rng.gumbel(size=z.shape), axis=1)]
    numbers = np.searchsorted(NAMES, labels)
    table, mixed = pd.DataFrame(z, columns=NAMES), [2, 0, 1]
    found = triage(table, labels, cost=0.3)
    expected = triage(z, numbers, cost=0.3)
    assert found.threshold == expected.threshold
    handed = found.hand_over(table.iloc[:, mixed])
    np.testing.assert_array_equal(handed, expected.hand_over(z))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    d = decal.decalibrate(p, labels, alpha=0.9, classes=NAMES, probabilities=True)
    by_model = triage(p, numbers, cost=0.3, model=d)
    assert by_model.hand_over(p).shape == (300,)
    by_class = decal.choose(d, p, labels, miss=0.2, per="class")
    frame = pd.DataFrame(p, columns=NAMES).iloc[:, mixed]
    np.testing.assert_array_equal(by_class.decide(frame), by_class.decide(p))


# Rows by position


def test_labels_with_the_index_of_the_logits_must_be_in_its_order(model):
    table = pd.DataFrame(columns(), index=PATIENTS)
    labels = pd.Series(LABELS, index=PATIENTS)
    turned, weights = labels[::-1], pd.Series(1.0, index=PATIENTS)
    last = PATIENTS[-1]
    message = rf"labels must be in the order of logits: got '{last}' in row 0, .*has 'P-0'. Reorder"
    p = table.sub(table.max(axis=1), axis=0).pipe(np.exp)
    p = p.div(p.sum(axis=1), axis=0)
    for ask in (
        lambda y: decal.decalibrate(table, y, alpha=0.8),
        lambda y: decal.Decalibrator().partial_fit(table, y),
        lambda y: decal.CoupledDecalibrator(0.9, likelihood="mean").fit(table, y),
        lambda y: decal.choose(model, table, y, miss=0.2),
        lambda y: plausibility(model, table, labels=y),
        lambda y: triage(table, y, cost=0.3),
        lambda y: model.explore(table, labels=y),
    ):
        with pytest.raises(ValueError, match=message):
            ask(turned)
        ask(turned.loc[table.index])
        ask(turned.to_numpy()[::-1])
    with pytest.raises(ValueError, match="labels must be in the order of probabilities: got 'P-"):
        decal.metrics.expected_calibration_error(p, turned)
    with pytest.raises(ValueError, match="sample_weight must be in the order of logits: got 'P-"):
        decal.decalibrate(table, labels, sample_weight=weights[::-1], alpha=0.8)


def test_an_index_of_numbers_or_of_several_levels_names_rows_too():
    levels = pd.MultiIndex.from_product([["a", "b"], range(2)])
    for index, got in ((pd.RangeIndex(4), "3"), (levels, r"\('b', 1\)")):
        table = pd.DataFrame(np.zeros((4, 2)), index=index)
        with pytest.raises(ValueError, match=f"got {got} in row 0, where"):
            require_same_order(logits=table, labels=pd.Series(0, index=index[::-1]))
        require_same_order(logits=table, labels=pd.Series(0, index=index[[0, 1, 2, 3]]))


def test_an_index_that_names_no_rows_of_the_other_is_passed_over(model):
    table = pd.DataFrame(columns(), index=PATIENTS)
    for index in (range(len(Z)), range(len(Z))[::-1]):
        same(
            decal.decalibrate(table, pd.Series(LABELS, index), alpha=0.8).predict(Z),
            model.predict(Z, alpha=0.8),
        )
