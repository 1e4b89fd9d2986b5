"""IntervalCredalSet: what it holds, which distributions it admits, how it reads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog

import decal

LOWER = [[0.1, 0.5, 0.0], [0.2, 0.2, 0.2]]
UPPER = [[0.3, 0.8, 0.2], [0.6, 0.5, 0.4]]
POINT = [[0.2, 0.7, 0.1], [0.4, 0.3, 0.3]]
NAMES = ["cat", "dog", "犬"]


@pytest.fixture
def credal():
    return decal.IntervalCredalSet(LOWER, UPPER, point=POINT, classes=NAMES)


@st.composite
def boxes(draw):
    """Intervals around a distribution, on a coarse grid so that sums often meet one exactly."""
    K = draw(st.integers(2, 6))
    parts = np.array(draw(st.lists(st.integers(0, 8), min_size=K, max_size=K)), dtype=float)
    p = (parts + (parts.sum() == 0)) / (parts + (parts.sum() == 0)).sum()
    spread = hnp.arrays(float, K, elements=st.sampled_from([0.0, 0.05, 0.3, 1.0]))
    return np.clip(p - draw(spread), 0, 1)[None], np.clip(p + draw(spread), 0, 1)[None], p[None]


def test_it_holds_its_arrays_and_nobody_can_change_them(credal):
    np.testing.assert_array_equal(credal.lower, LOWER)
    np.testing.assert_array_equal(credal.upper, UPPER)
    np.testing.assert_array_equal(credal.point, POINT)
    assert credal.classes == ("cat", "dog", "犬")
    assert credal.shape == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        credal.lower[0, 0] = 0.5
    with pytest.raises(AttributeError):
        credal.lower = None


def test_the_callers_arrays_stay_writable_and_apart():
    lower = np.array([[0.1, 0.2]])
    c = decal.IntervalCredalSet(lower, [[0.9, 0.8]])
    lower[0, 0] = 0.7
    assert c.lower[0, 0] == 0.1


def test_rows_are_picked_like_those_of_an_array(credal):
    assert len(credal) == 2
    np.testing.assert_array_equal(credal[1].lower, LOWER[1:])
    np.testing.assert_array_equal(credal[-1].point, POINT[1:])
    assert len(credal[:0]) == 0
    np.testing.assert_array_equal(credal[[1, 0]].upper, UPPER[::-1])
    np.testing.assert_array_equal(credal[np.array([True, False])].upper, UPPER[:1])
    assert [c.shape for c in credal] == [(1, 3), (1, 3)]
    with pytest.raises(IndexError, match="row 2 is out of range for 2 inputs"):
        credal[2]
    with pytest.raises(IndexError, match="rows only"):
        credal[0, 1]


def test_it_contains_what_lies_within_its_bounds_give_or_take_a_rounding(credal):
    assert credal.contains(POINT).tolist() == [True, True]
    just_out = [[0.3004, 0.6, 0.0996], [0.61, 0.2, 0.19]]
    assert credal.contains(just_out).tolist() == [True, False]
    assert credal.contains(just_out, atol=0).tolist() == [False, False]


@settings(max_examples=200, deadline=None)
@given(boxes())
def test_tightened_bounds_are_the_ones_that_members_attain(box):
    lower, upper, p = box
    tight = decal.IntervalCredalSet(lower, upper).tighten()
    assert tight.contains(p, atol=1e-12).all()
    for k in range(lower.shape[1]):
        for sign, bound in ((1, tight.lower), (-1, tight.upper)):
            best = linprog(
                sign * np.eye(lower.shape[1])[k],
                A_eq=np.ones((1, lower.shape[1])),
                b_eq=[1.0],
                bounds=list(zip(lower[0], upper[0], strict=True)),
            )
            assert bound[0, k] == pytest.approx(sign * best.fun, abs=1e-9)


@pytest.mark.parametrize(
    ("lower", "upper", "empty"),
    [
        ([0.5, 0.5], [0.5, 0.5], False),
        ([0.6, 0.5], [0.7, 0.6], True),
        ([0.1, 0.1], [0.3, 0.3], True),
        ([0.4, 0.2], [0.3, 0.9], True),
        ([1 / 3] * 3, [1 / 3] * 3, False),
    ],
)
def test_emptiness_is_reported_not_hidden(lower, upper, empty):
    c = decal.IntervalCredalSet([lower], [upper])
    assert c.is_empty.tolist() == [empty]
    assert np.isnan(c.intersection_probability(empty="nan")).all() == empty
    assert c.contains([np.full(len(lower), 1 / len(lower))], atol=1.0)[0] != empty
    np.testing.assert_array_equal(c.tighten().is_empty, [empty])


def test_the_intersection_probability_lies_at_one_fraction_of_all_intervals(credal):
    p = credal.intersection_probability()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    share = (p - credal.lower) / (credal.upper - credal.lower)
    np.testing.assert_allclose(share, np.broadcast_to(share[:, :1], share.shape))
    loose = decal.IntervalCredalSet([[0.4, 0.0, 0.0]], [[1.0, 1.0, 0.1]])
    np.testing.assert_allclose(
        loose.intersection_probability(), loose.tighten().intersection_probability()
    )
    point = decal.IntervalCredalSet(POINT, POINT)
    np.testing.assert_allclose(point.intersection_probability(), POINT)


def test_it_reads_well(credal):
    assert repr(credal) == (
        "IntervalCredalSet: 2 inputs, 3 classes, mean width 0.267\n"
        "  0  dog [0.500, 0.800]  cat [0.100, 0.300]  犬 [0.000, 0.200]\n"
        "  1  cat [0.200, 0.600]  dog [0.200, 0.500]  犬 [0.200, 0.400]"
    )
    many = decal.IntervalCredalSet(np.zeros((1000, 9)), np.ones((1000, 9)))
    lines = repr(many).splitlines()
    assert lines[0] == "IntervalCredalSet: 1,000 inputs, 9 classes, mean width 1.000"
    assert lines[-1] == "  … 995 more"
    assert lines[1].endswith("…")
    assert repr(many[:0]) == "IntervalCredalSet: 0 inputs, 9 classes"


def test_as_a_data_frame_it_is_tidy(credal):
    pytest.importorskip("pandas")
    frame = credal.to_pandas()
    assert frame.index.names == ["row", "class"]
    assert list(frame.columns) == ["lower", "upper", "point"]
    assert frame.loc[(1, "dog"), "upper"] == 0.5
    assert list(decal.IntervalCredalSet(LOWER, UPPER).to_pandas().columns) == ["lower", "upper"]
    hull = decal.HullCredalSet([POINT, POINT], classes=NAMES)
    assert hull.to_pandas().shape == (6, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lower": [0.1, 0.2], "upper": [0.3, 0.9]}, r"lower must be a matrix.*got shape \(2,\)"),
        ({"lower": LOWER, "upper": UPPER[:1]}, r"upper must have the shape of lower, \(2, 3\)"),
        ({"lower": [[-0.1, 0.2]], "upper": [[1, 1]]}, r"lower must lie.*-0.1 at index \(0, 0\)"),
        ({"lower": [[0, 0]], "upper": [[1, 1.5]]}, r"upper must lie.*got 1.5 at index \(0, 1\)"),
        ({"lower": [[0, np.nan]], "upper": [[1, 1]]}, r"lower must lie.*got nan at index \(0, 1\)"),
        ({"lower": LOWER, "upper": UPPER, "point": POINT[0]}, "point must be a matrix"),
        ({"lower": LOWER, "upper": UPPER, "point": POINT[:1]}, "point must have the shape"),
        ({"lower": LOWER, "upper": UPPER, "classes": ["a"]}, "classes must be 3 names.*got 1"),
        ({"lower": LOWER, "upper": UPPER, "classes": ["a", "b", "a"]}, "distinct: got 'a'"),
    ],
)
def test_bad_bounds_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        decal.IntervalCredalSet(**arguments)


@pytest.mark.parametrize(
    ("distributions", "message"),
    [
        (POINT[:1], r"distributions must have shape \(2, 3\): got shape \(1, 3\)"),
        ([[0.5, 0.5, 0.5], POINT[1]], "distributions must sum to 1.*got 1.5 in row 0"),
        ([[1.2, -0.2, 0.0], POINT[1]], "distributions must lie between 0 and 1: got 1.2"),
    ],
)
def test_bad_distributions_are_refused(credal, distributions, message):
    with pytest.raises(ValueError, match=message):
        credal.contains(distributions)
    with pytest.raises(ValueError, match="atol must be a finite number, not negative"):
        credal.contains(POINT, atol=-1)


# Measures and decisions, as methods; their arithmetic is tested in test_entropy, test_measures,
# test_decisions and test_hulls.


@pytest.fixture
def vacuous():
    return decal.IntervalCredalSet(np.zeros((2, 4)), np.ones((2, 4)), point=np.full((2, 4), 0.25))


def test_a_vacuous_set_is_as_uncertain_as_can_be_and_keeps_every_class(vacuous):
    lower, upper = vacuous.entropy()
    np.testing.assert_allclose(lower, 0)
    np.testing.assert_allclose(upper, np.log(4))
    expected = {"entropy": np.log(4), "zero_one": 1, "hartley": np.log(4), "width": 1}
    for measure, value in expected.items():
        np.testing.assert_allclose(vacuous.epistemic(measure), value, atol=1e-12)
    for rule in ("interval_dominance", "maximality", "e_admissible"):
        assert vacuous.decide(rule).all()


def test_a_point_has_no_epistemic_uncertainty_and_one_decision():
    p = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    point = decal.IntervalCredalSet(p, p, point=p)
    for measure in ("entropy", "zero_one", "hartley", "width"):
        np.testing.assert_allclose(point.epistemic(measure), 0, atol=1e-12)
    np.testing.assert_allclose(point.total(), point.aleatoric(), atol=1e-12)
    for rule in ("interval_dominance", "maximality", "e_admissible"):
        assert point.decide(rule).sum(axis=1).tolist() == [1, 1]
    for rule in ("gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret", "point"):
        assert point.decide(rule).tolist() == [0, 0]


@settings(max_examples=150, deadline=None)
@given(boxes())
def test_the_orders_that_theory_demands(box):
    lower, upper, p = box
    c = decal.IntervalCredalSet(lower, upper, point=p)
    kept = {r: c.decide(r)[0] for r in ("e_admissible", "maximality", "interval_dominance")}
    assert not (kept["e_admissible"] & ~kept["maximality"]).any()
    assert not (kept["maximality"] & ~kept["interval_dominance"]).any()
    assert kept["e_admissible"][c.decide("gamma_maximax")[0]]
    assert kept["e_admissible"][c.decide("point")[0]]
    assert 0 <= c.epistemic()[0] <= c.total()[0] + 1e-12
    wider = decal.IntervalCredalSet(np.clip(lower - 0.1, 0, 1), np.clip(upper + 0.1, 0, 1))
    assert wider.total()[0] >= c.total()[0] - 1e-12
    assert wider.aleatoric()[0] <= c.aleatoric()[0] + 1e-12


def test_bounds_that_are_not_reachable_are_tightened_first():
    loose = decal.IntervalCredalSet([[0.0, 0.0, 0.5]], [[0.1, 0.5, 1.0]])
    assert loose.aleatoric()[0] == pytest.approx(0.0, abs=1e-12)
    assert loose.epistemic("width")[0] == pytest.approx(1.1 / 3)


QUESTIONS = [
    lambda c, **k: c.entropy(**k)[0],
    lambda c, **k: c.total(**k),
    lambda c, **k: c.aleatoric(**k),
    lambda c, **k: c.epistemic("zero_one", **k),
    lambda c, **k: c.epistemic("hartley", **k),
    lambda c, **k: c.epistemic("width", **k),
    lambda c, **k: c.expectation([1.0, 2.0, 3.0], **k)[1],
    lambda c, **k: c.probability([0], **k)[0],
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_empty_set_is_named_or_passed_over_never_given_a_number(question):
    good, bad = [0.2, 0.3, 0.1], [0.5, 0.5, 0.5]
    c = decal.IntervalCredalSet([good, bad], [[0.6, 0.5, 0.4], [0.6, 0.6, 0.6]])
    with pytest.raises(ValueError, match=r"no distribution satisfies in row 1 \(1 rows in all\)"):
        question(c)
    answer = question(c, empty="nan")
    assert np.isnan(answer[1])
    assert answer[0] == question(c[0])[0]
    with pytest.raises(ValueError, match="empty must be one of 'raise', 'nan': got 'zero'"):
        question(c, empty="zero")


def test_no_action_is_taken_for_an_empty_set():
    c = decal.IntervalCredalSet([[0.5, 0.6], [0.2, 0.3]], [[0.6, 0.7], [0.7, 0.8]])
    assert c.decide("maximality", empty="nan").tolist() == [[False, False], [True, True]]
    assert c.decide("gamma_maximin", empty="nan").tolist() == [-1, 1]
    for certificate in (c.lower_entropy, c.hartley):
        with pytest.raises(ValueError, match="no distribution satisfies in row 0"):
            certificate()


def test_an_exhausted_search_says_so_and_brackets_the_truth():
    rng = np.random.default_rng(0)
    # Nested intervals of nearly equal merit: the search needs many nodes.
    middle = np.full(40, 1 / 40)
    half = np.linspace(0.2, 1.0, 40) / 40 * rng.uniform(0.999, 1.001, 40)
    hard = decal.IntervalCredalSet((middle - half)[None], (middle + half)[None])
    found = hard.lower_entropy(max_nodes=8)
    assert not found.exact[0]
    assert found.bound[0] < found.value[0]
    better = hard.lower_entropy(max_nodes=4096)
    assert found.bound[0] <= better.value[0] <= found.value[0]


def test_an_uncertain_lower_entropy_warns(monkeypatch):
    middle = np.full(40, 1 / 40)
    half = np.linspace(0.2, 1.0, 40) / 40
    hard = decal.IntervalCredalSet((middle - half)[None], (middle + half)[None])
    limited = decal.credal._box_entropy.lower_entropy
    monkeypatch.setattr(
        "decal.credal._box_entropy.lower_entropy",
        lambda lower, upper: limited(lower, upper, max_nodes=4),
    )
    for ask in (hard.entropy, hard.aleatoric, hard.epistemic):
        with pytest.warns(decal.BracketWarning, match="1 inputs is only known within") as record:
            ask()
        assert record[0].filename == __file__


def test_utilities_and_events_reach_the_rules(credal):
    utility = decal.abstention_utility(3, cost=0.3)
    assert credal.decide("interval_dominance", utility=utility).shape == (2, 4)
    assert credal.decide("gamma_maximin", utility=utility).tolist() == [3, 3]
    assert credal.decide("point", utility=utility).tolist() == [1, 3]
    optimist = credal.decide("hurwicz", optimism=1.0)
    np.testing.assert_array_equal(optimist, credal.decide("gamma_maximax"))
    by_name, by_number = credal.probability(["cat", "犬"]), credal.probability([0, 2])
    by_mask = credal.probability([True, False, True])
    np.testing.assert_array_equal(by_name, by_number)
    np.testing.assert_array_equal(by_name, by_mask)
    np.testing.assert_allclose(by_name[0], [0.2, 0.5])


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda c: c.decide("majority"), "rule must be one of 'interval_dominance'"),
        (lambda c: c.decide("hurwicz", optimism=2), "optimism must lie between 0 and 1"),
        (lambda c: c.decide("maximality", utility=[1, 2, 3]), r"utility must have shape \(actions"),
        (lambda c: c.decide("maximality", utility=[[1, 2]]), r"got shape \(1, 2\)"),
        (lambda c: c.decide("maximality", utility=[[1, 2, np.inf]]), r"inf at index \(0, 2\)"),
        (lambda c: c.epistemic("variance"), "measure must be one of 'entropy'"),
        (lambda c: c.expectation([[[1]]]), "values must have shape"),
        (lambda c: c.expectation(["a", "b", "c"]), "values must be real numbers"),
        (lambda c: c.probability(["cow"]), "event must hold classes 0 to 2 or one of cat, dog"),
        (lambda c: c.probability([3]), "event must hold classes 0 to 2"),
        (
            lambda c: decal.IntervalCredalSet(c.lower, c.upper).decide("point"),
            "rule must not be 'point' for a credal set without one",
        ),
    ],
)
def test_bad_questions_are_refused(credal, question, message):
    with pytest.raises(ValueError, match=message):
        question(credal)


# Hulls


@pytest.fixture
def hull():
    rng = np.random.default_rng(4)
    return decal.HullCredalSet(rng.dirichlet(np.ones(3), size=(6, 4)), classes=NAMES)


def test_a_hull_has_the_surface_of_a_box_and_lies_within_its_box(hull):
    box = hull.box()
    np.testing.assert_array_equal(hull.lower, hull.vertices.min(axis=1))
    np.testing.assert_array_equal(box.upper, hull.vertices.max(axis=1))
    np.testing.assert_allclose(hull.point, hull.vertices.mean(axis=1))
    assert hull.contains(hull.point, atol=1e-9).all()
    assert box.contains(hull.point).all()
    assert (hull.total() <= box.total() + 1e-9).all()
    assert (hull.aleatoric() >= box.aleatoric() - 1e-9).all()
    for measure in ("entropy", "zero_one", "hartley", "width"):
        assert (hull.epistemic(measure) <= box.epistemic(measure) + 1e-9).all()
    for rule in ("interval_dominance", "maximality", "e_admissible"):
        assert not (hull.decide(rule) & ~box.decide(rule)).any()
    np.testing.assert_array_equal(hull.decide("point"), hull.point.argmax(axis=1))
    least, greatest = hull.expectation([0.0, 1.0, 2.0])
    assert (least <= greatest).all()
    assert (hull.upper_entropy().gap <= 1e-9).all()
    assert not hull.is_empty.any()
    assert hull.tighten() is hull
    np.testing.assert_array_equal(hull.intersection_probability(), box.intersection_probability())
    assert decal.metrics.efficiency(hull) == decal.metrics.efficiency(box)
    assert decal.metrics.coverage(hull, hull.point) == 1.0


def test_rows_of_a_hull_are_hulls(hull):
    assert len(hull) == 6
    assert hull[2].vertices.shape == (1, 4, 3)
    assert [h.shape for h in hull[:2]] == [(1, 3), (1, 3)]
    assert repr(hull).startswith("HullCredalSet: 6 inputs, 4 vertices, 3 classes, mean width")
    with pytest.raises(ValueError, match="read-only"):
        hull.vertices[0, 0, 0] = 1


@pytest.mark.parametrize(
    ("vertices", "message"),
    [
        ([[0.5, 0.5]], r"vertices must be inputs × members × classes.*got shape \(1, 2\)"),
        (np.zeros((2, 0, 3)), r"got shape \(2, 0, 3\)"),
        ([[[0.5, 0.5], [0.5, 0.6]]], "vertices must sum to 1: got 1.1 for member 1 of row 0"),
        ([[[1.5, -0.5]]], "vertices must lie between 0 and 1: got 1.5"),
    ],
)
def test_bad_vertices_are_refused(vertices, message):
    with pytest.raises(ValueError, match=message):
        decal.HullCredalSet(vertices)
