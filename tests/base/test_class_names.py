"""Numbers of classes with names: frames, Series and mappings go by name, arrays by position."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal.choose import triage
from helpers.logit_files import NAMES, make_labelled

pd = pytest.importorskip("pandas", reason="needs decal[pandas]")
pytest.importorskip("narwhals", reason="needs decal[pandas]")

Z, Y = make_labelled()
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
LABELS = np.array(NAMES)[Y]
PATIENTS = [f"P-{i}" for i in range(len(Z))]
BACK = list(NAMES[::-1])

ACTIONS = ["treat", "wait", "ask"]
EARNS = np.array([[5.0, 1.0, -4.0], [0.0, 2.0, 1.0], [1.5, 1.5, 0.5]])  # in the order of NAMES
VALUES = np.array([0.0, 10.0, 100.0])
ONE_ACTION = ["gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret", "point"]
SEVERAL = ["interval_dominance", "maximality", "e_admissible"]


def pandas_frame(rows):
    return pd.DataFrame(rows, columns=list(NAMES), index=ACTIONS)[BACK]


def with_a_column(rows):
    return pd.DataFrame(rows, columns=list(NAMES)).assign(action=ACTIONS)[["action", *BACK]]


def polars_frame(rows):
    pl = pytest.importorskip("polars", reason="needs decal[polars]")
    return pl.DataFrame({k: rows[:, NAMES.index(k)] for k in BACK} | {"action": ACTIONS})


def arrow_frame(rows):
    pa = pytest.importorskip("pyarrow")
    return pa.table({k: rows[:, NAMES.index(k)] for k in BACK} | {"action": ACTIONS})


def mapping(rows):
    return {a: {k: row[NAMES.index(k)] for k in BACK} for a, row in zip(ACTIONS, rows, strict=True)}


every_form = pytest.mark.parametrize(
    "form", [pandas_frame, with_a_column, polars_frame, arrow_frame, mapping]
)


@pytest.fixture
def sets():
    return decal.decalibrate(Z, Y, alpha=0.9, classes=NAMES).predict(Z, ids=PATIENTS)


def columns_of(kept):
    """The columns of what a rule keeps, by the names of actions, whatever the library."""
    if isinstance(kept, dict):
        return kept
    names = kept.column_names if hasattr(kept, "column_names") else kept.columns
    return {name: np.asarray(kept[name]) for name in names}


# Utilities and actions


@every_form
@pytest.mark.parametrize("rule", ONE_ACTION)
def test_the_action_taken_comes_back_by_its_name(sets, form, rule):
    by_position = sets.decide(rule, utility=EARNS)
    assert by_position.dtype.kind == "i"
    found = sets.decide(rule, utility=form(EARNS))
    assert found.tolist() == [ACTIONS[a] for a in by_position]


@every_form
@pytest.mark.parametrize("rule", SEVERAL)
def test_the_actions_kept_come_back_as_columns_with_their_names(sets, form, rule):
    by_position = sets.decide(rule, utility=EARNS)
    assert by_position.dtype == bool
    utility = form(EARNS)
    found = sets.decide(rule, utility=utility)
    assert isinstance(found, type(utility))
    kept = columns_of(found)
    assert list(kept) == ACTIONS
    np.testing.assert_array_equal(np.stack([*kept.values()], axis=1), by_position)
    if isinstance(found, pd.DataFrame):
        assert found.index.tolist() == PATIENTS


def test_actions_without_names_come_back_as_numbers(sets):
    unnamed = pd.DataFrame(EARNS, columns=NAMES)[BACK]
    for rule in (*ONE_ACTION, *SEVERAL):
        expected = sets.decide(rule, utility=EARNS)
        found = sets.decide(rule, utility=unnamed)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, expected)


def test_empty_sets_take_no_action():
    empty = decal.IntervalCredalSet([[0.5, 0.6], [0.9, 0]], [[0.6, 0.7], [1, 0.1]], classes="ab")
    utility = pd.DataFrame([[1, 0], [0, 1]], index=["go", "stay"], columns=["a", "b"])
    assert empty.decide("gamma_maximin", utility=utility, empty="nan").tolist() == [None, "go"]
    kept = empty.decide("maximality", utility=utility, empty="nan")
    assert kept.to_numpy().tolist() == [[False, False], [True, False]]


@pytest.mark.parametrize(
    ("utility", "message"),
    [
        (
            pandas_frame(EARNS).rename(columns={"cat": "hat"}),
            "utility must have a column for each of the 3 classes, .*got no cat, and hat besides",
        ),
        (
            pd.DataFrame(EARNS),
            "utility must have a column for each of the 3 classes, .*got no cat, dog, eel, and 0",
        ),
        (pandas_frame(EARNS)[["cat", "dog"]], "got no eel"),
        (
            {"treat": {"cat": 1, "dog": 2}},
            r"utility\['treat'\] must name each of the 3 classes once, and no other: got no eel",
        ),
        (
            pandas_frame(EARNS).set_axis(["a", "b", "a"]),
            "utility must have distinct actions: .*'a'",
        ),
    ],
)
def test_utilities_of_other_classes_are_refused(sets, utility, message):
    with pytest.raises(ValueError, match=message):
        sets.decide("maximality", utility=utility)


# Values and events


@pytest.mark.parametrize("kind", ["box", "hull", "ball"])
def test_values_go_by_name(kind):
    made = {
        "box": lambda: decal.IntervalCredalSet(P * 0.9, P * 0.9 + 0.1, classes=NAMES),
        "hull": lambda: decal.HullCredalSet(np.stack([P, P[:, ::-1]], 1), classes=NAMES),
        "ball": lambda: decal.KLCredalSet(P, 0.1, classes=NAMES),
    }[kind]()
    expected = made.expectation(VALUES)
    series = pd.Series(VALUES, index=NAMES)[BACK]
    for values in (series, series.to_dict()):
        np.testing.assert_array_equal(made.expectation(values), expected)
    several = np.stack([VALUES, VALUES**2])
    table = pd.DataFrame(several, columns=NAMES)[BACK]
    rows = {"one": dict(series), "square": dict(series**2)}
    for values in (table, rows):
        np.testing.assert_array_equal(made.expectation(values), made.expectation(several))
    inside = pd.Series([True, False, True], index=BACK)  # eel and cat
    for event in (inside, inside.to_dict(), ["eel", "cat"], pd.Series(["eel", "cat"])):
        np.testing.assert_array_equal(made.probability(event), made.probability([0, 2]))


def test_values_of_other_classes_are_refused(sets):
    for values in ({"cat": 1, "dog": 2}, pd.Series([1, 2, 3]), pd.Series([1, 2], ["cat", "dog"])):
        with pytest.raises(ValueError, match="values must name each of the 3 classes once, and no"):
            sets.expectation(values)
    with pytest.raises(ValueError, match="got eel, cow besides"):
        sets.expectation(pd.Series([1, 2, 3, 4, 5], ["cat", "dog", "eel", "eel", "cow"]))
    for event in ({"cat": True, "cow": False}, pd.Series([True, False, True])):
        with pytest.raises(ValueError, match="event must name each of the 3 classes once, and no"):
            sets.probability(event)


def test_classes_without_names_are_called_by_their_numbers():
    sets = decal.IntervalCredalSet(P * 0.9, P * 0.9 + 0.1)
    expected = sets.expectation(VALUES)
    turned = pd.Series(VALUES[::-1], index=[2, 1, 0])
    for values in (turned, turned.to_dict(), pd.Series(VALUES), pd.Series(VALUES, index=NAMES)):
        np.testing.assert_array_equal(sets.expectation(values), expected)
    with pytest.raises(ValueError, match="values must name each of the 3 classes once"):
        sets.expectation({"cat": 1, "dog": 2, "eel": 3})


# Labels that may occur together


def test_thresholds_and_costs_of_labels_go_by_name():
    low = np.clip(P - 0.1, 0, 1)
    sets = decal.MultiLabelCredalSet(low, np.clip(P + 0.1, 0, 1), classes=NAMES)
    at = pd.Series([0.2, 0.5, 0.7], index=NAMES)
    expected = sets.decide(threshold=at.to_numpy())
    for threshold in (at[BACK], at[BACK].to_dict()):
        np.testing.assert_array_equal(sets.decide(threshold=threshold), expected)
    costs = pd.DataFrame({"yes": [1.0, 2, 3], "no": [4.0, 1, 7]}, index=NAMES)
    expected = sets.decide(costs=costs.to_numpy())
    pairs = {name: tuple(costs.loc[name]) for name in BACK}
    for given in (costs.loc[BACK], costs[["no", "yes"]], pairs, costs.T.to_dict()):
        np.testing.assert_array_equal(sets.decide(costs=given), expected)
    np.testing.assert_array_equal(sets.decide(costs={"no": 9, "yes": 1}), sets.decide(costs=(1, 9)))
    with pytest.raises(ValueError, match="threshold must name each of the 3 labels once"):
        sets.decide(threshold=pd.Series([0.1, 0.2, 0.3]))
    with pytest.raises(ValueError, match="costs must name each of the 3 labels once, .*got no cat"):
        sets.decide(costs=costs.rename(index={"cat": "hat"}))
    with pytest.raises(ValueError, match="got no yes, and wrong yes besides"):
        sets.decide(costs=costs.rename(columns={"yes": "wrong yes"}))


def test_probabilities_of_labels_go_by_name():
    sets = decal.MultiLabelCredalSet(P - P / 10, P, classes=NAMES)
    p = pd.DataFrame(P, columns=NAMES)
    assert sets.contains(p[BACK]).all()
    assert not sets.contains(P[:, ::-1]).all()
    with pytest.raises(ValueError, match="probabilities must have a column for each of the 3"):
        sets.contains(p.rename(columns={"cat": "hat"}))


# Frequencies of classes


def test_frequencies_go_by_name():
    v = pd.Series([0.2, 0.3, 0.5], index=NAMES)
    turned = v[BACK]
    fitted = decal.LabelShift(calibrate=False).fit(Z, Y, classes=NAMES, frequencies=v.to_numpy())
    for given in (turned, turned.to_dict()):
        again = decal.LabelShift(calibrate=False).fit(Z, Y, classes=NAMES, frequencies=given)
        what = {"frequencies": v.to_numpy()}
        np.testing.assert_array_equal(
            again.predict(Z, **what).lower, fitted.predict(Z, **what).lower
        )
    assert (fitted.predict(Z, frequencies=v.to_numpy()).point[:, 0] > 0).all()
    bounds = pd.DataFrame({"lower": v - 0.1, "upper": v + 0.1})
    for given, same in (
        (turned, v.to_numpy()),
        (bounds.loc[BACK], bounds.to_numpy()),
        (decal.shift.Near(turned, ratio=2), decal.shift.Near(v.to_numpy(), ratio=2)),
        (decal.shift.Near(turned.to_dict(), kl=0.1), decal.shift.Near(v.to_numpy(), kl=0.1)),
    ):
        found, expected = (fitted.predict(Z, frequencies=f) for f in (given, same))
        np.testing.assert_array_equal(found.lower, expected.lower)
        np.testing.assert_array_equal(found.upper, expected.upper)
    for wrong in (v.rename({"cat": "hat"}), v[["cat", "dog"]] / 0.5):
        with pytest.raises(ValueError, match="frequencies must name each of the 3 classes once"):
            decal.LabelShift(calibrate=False).fit(Z, Y, classes=NAMES, frequencies=wrong)
        with pytest.raises(ValueError, match="center must name each of the 3 classes once"):
            fitted.predict(Z, frequencies=decal.shift.Near(wrong, ratio=2))
    with pytest.raises(ValueError, match="frequencies must name classes: got 'hat'"):
        fitted.predict(Z, frequencies=v.rename({"cat": "hat"}))


def test_counts_of_labels_may_be_the_frequencies():
    counted = pd.Series(LABELS).value_counts(normalize=True)  # the most frequent class first
    assert counted.index.tolist() != list(NAMES)
    shift = decal.LabelShift(calibrate=False).fit(Z, Y, classes=NAMES, frequencies=counted)
    same = decal.LabelShift(calibrate=False).fit(Z, Y, classes=NAMES)
    what = {"frequencies": [0.2, 0.3, 0.5]}
    np.testing.assert_allclose(shift.predict(Z, **what).lower, same.predict(Z, **what).lower)


# Sets, predictions and pictures


def test_bounds_that_are_frames_are_matched_by_name():
    low, high = (pd.DataFrame(m, columns=NAMES, index=PATIENTS) for m in (P * 0.9, P * 0.9 + 0.1))
    point = pd.DataFrame(P, columns=NAMES, index=PATIENTS)
    expected = decal.IntervalCredalSet(low.to_numpy(), high.to_numpy(), point=P, classes=NAMES)
    for found in (
        decal.IntervalCredalSet(low, high[BACK], point=point[BACK]),
        decal.IntervalCredalSet(low[BACK], high, point=P, classes=NAMES),
    ):
        np.testing.assert_array_equal(found.lower, expected.lower)
        np.testing.assert_array_equal(found.upper, expected.upper)
        np.testing.assert_array_equal(found.point, expected.point)
        assert found.classes == NAMES
        assert found.index["row"].tolist() == PATIENTS
    members = decal.HullCredalSet([point, high[BACK].div(high.sum(axis=1), axis=0)], axis=0)
    np.testing.assert_allclose(
        members.vertices[:, 1], high.to_numpy() / high.sum(axis=1).to_numpy()[:, None]
    )
    assert members.classes == NAMES
    np.testing.assert_array_equal(
        decal.KLCredalSet(point[BACK], 0.1, classes=NAMES).center.argmax(1), P.argmax(1)
    )
    with pytest.raises(ValueError, match="upper must have a column for each of the 3 classes"):
        decal.IntervalCredalSet(low, high.rename(columns={"cat": "hat"}))
    assert decal.IntervalCredalSet(pd.DataFrame(P), pd.DataFrame(P)).classes is None


def test_templates_and_members_that_are_frames_are_matched_by_name():
    from decal.llm import spread

    one = pd.DataFrame(Z, columns=NAMES, index=PATIENTS)
    other = pd.DataFrame(Z + np.eye(3)[1], columns=NAMES, index=PATIENTS)
    expected = spread(np.stack([one.to_numpy(), other.to_numpy()]), classes=NAMES)
    found = spread([one, other[BACK]])
    np.testing.assert_array_equal(found.vertices, expected.vertices)
    assert found.classes == NAMES
    assert found.index["row"].tolist() == PATIENTS
    with pytest.raises(
        ValueError, match=r"predictions\[1\] must be in the order of predictions\[0"
    ):
        spread([one, other.iloc[::-1]])


def test_predicted_classes_come_back_by_name():
    table = pd.DataFrame(Z, columns=NAMES)
    by_frame = triage(table, LABELS, cost=0.3)
    by_array = triage(Z, Y, cost=0.3)
    expected = by_array.predict(Z)
    assert expected.dtype.kind == "i"
    assert by_frame.predict(table[BACK]).tolist() == [NAMES[k] for k in expected]
    named = triage(Z, Y, cost=0.3, classes=NAMES)
    assert named.predict(Z).tolist() == [NAMES[k] for k in expected]


def test_true_distributions_in_pictures_go_by_name(sets):
    pytest.importorskip("matplotlib", reason="needs decal[plot]")
    from decal.plot._one_input import true_row

    truth = pd.DataFrame(P, columns=NAMES, index=PATIENTS)[BACK]
    for given in (truth, truth.iloc[3], truth.iloc[3].to_dict()):
        np.testing.assert_array_equal(true_row(given, 3, sets), P[3])
    with pytest.raises(ValueError, match="truth must name each of the 3 classes once"):
        true_row({"cat": 0.5, "dog": 0.5}, 3, sets)


def test_true_distributions_on_a_page_go_by_name(sets):
    truth = pd.DataFrame(P, columns=NAMES)[BACK]
    model = decal.decalibrate(Z, Y, alpha=0.9, classes=NAMES)
    right = model.explore(Z, truth=P, alphas=[0.9]).payload
    for page in (model.explore(Z, truth=truth, alphas=[0.9]), sets.explore(truth=truth)):
        np.testing.assert_array_equal(page.payload.arrays["truth"], right.arrays["truth"])
