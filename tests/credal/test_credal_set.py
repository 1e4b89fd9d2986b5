"""What can be asked of every credal set, mostly of boxes; the arithmetic has tests of its own."""

import math
import sys
from fractions import Fraction
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given

import decal
from decal.credal import CredalSet
from helpers.credal_sets import boxes
from helpers.strategies import at_most
from oracles import balls as oracle_balls
from oracles import decisions as oracle
from oracles import rational


@pytest.fixture
def vacuous():
    return decal.IntervalCredalSet(np.zeros((2, 4)), np.ones((2, 4)), point=np.full((2, 4), 0.25))


def test_a_vacuous_set_is_as_uncertain_as_can_be_and_keeps_every_class(vacuous):
    lower, upper = vacuous.entropy()
    np.testing.assert_allclose(lower, 0)
    np.testing.assert_allclose(upper, np.log(4))
    expected = {"entropy": np.log(4), "hartley": np.log(4)}
    expected |= {"zero_one": 1, "total_variation": 1, "width": 1}
    for measure, value in expected.items():
        np.testing.assert_allclose(vacuous.epistemic(measure), value, atol=1e-12)
    for rule in ("interval_dominance", "maximality", "e_admissible"):
        assert vacuous.decide(rule).all()


def test_a_point_has_no_epistemic_uncertainty_and_one_decision():
    p = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    point = decal.IntervalCredalSet(p, p, point=p)
    for measure in ("entropy", "zero_one", "total_variation", "hartley", "width"):
        np.testing.assert_allclose(point.epistemic(measure), 0, atol=1e-12)
    np.testing.assert_allclose(point.total(), point.aleatoric(), atol=1e-12)
    for rule in ("interval_dominance", "maximality", "e_admissible"):
        assert point.decide(rule).sum(axis=1).tolist() == [1, 1]
    for rule in ("gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret", "point"):
        assert point.decide(rule).tolist() == [0, 0]


@at_most(150)
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


def test_confidence_is_the_lower_probability_of_what_is_predicted():
    lower, upper = [[0.3, 0.0, 0.1], [0.0, 0.0, 0.5]], [[0.9, 0.6, 0.1], [0.1, 0.5, 1.0]]
    c = decal.IntervalCredalSet(lower, upper, point=[[0.4, 0.5, 0.1], [0.0, 0.2, 0.8]])
    reachable = c.tighten().lower
    np.testing.assert_allclose(c.confidence(), reachable.max(axis=1))
    np.testing.assert_allclose(c.confidence("point"), reachable[[0, 1], [1, 2]])
    for rule in ("gamma_maximin", "gamma_maximax", "hurwicz", "minimax_regret", "point"):
        least = [c.probability([k])[0][i] for i, k in enumerate(c.decide(rule))]
        np.testing.assert_allclose(c.confidence(rule), least, atol=1e-12)
    hull = decal.HullCredalSet([[[0.6, 0.4], [0.3, 0.7]]])
    assert hull.confidence()[0] == 0.4
    with pytest.raises(ValueError, match="rule must be one of 'gamma_maximin'"):
        c.confidence("maximality")


QUESTIONS = [
    lambda c, **k: c.entropy(**k)[0],
    lambda c, **k: c.total(**k),
    lambda c, **k: c.aleatoric(**k),
    lambda c, **k: c.epistemic("zero_one", **k),
    lambda c, **k: c.epistemic("total_variation", **k),
    lambda c, **k: c.epistemic("hartley", **k),
    lambda c, **k: c.confidence(**k),
    lambda c, **k: c.epistemic("width", **k),
    lambda c, **k: c.expectation([1.0, 2.0, 3.0], **k)[1],
    lambda c, **k: c.probability([0], **k)[0],
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_empty_set_is_named_or_passed_over_never_given_a_number(question):
    good, bad = [0.2, 0.3, 0.1], [0.5, 0.5, 0.5]
    c = decal.IntervalCredalSet([good, bad], [[0.6, 0.5, 0.4], [0.6, 0.6, 0.6]])
    with pytest.raises(ValueError, match=r"no distribution satisfies in row 1 \(1 row in all\)"):
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
        with pytest.warns(decal.AnswerWarning, match="1 inputs is only known within") as record:
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
        (lambda c: c.decide("minority"), "rule must be one of 'interval_dominance'"),
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


def count_calls(name, ask):
    """How often functions of this name are entered while a question is answered."""
    calls = 0

    def watch(frame, event, _):
        nonlocal calls
        calls += event == "call" and frame.f_code.co_name == name

    sys.setprofile(watch)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("question", [*QUESTIONS, lambda c, **k: c.decide("e_admissible", **k)])
def test_emptiness_is_found_out_once_per_question(question):
    c = decal.IntervalCredalSet([[0.2, 0.3, 0.1], [0.5] * 3], [[0.6, 0.5, 0.4], [0.6] * 3])
    assert count_calls("is_empty", lambda: question(c, empty="nan")) == 1
    assert count_calls("is_empty", lambda: question(c[:1])) == 1


class Points(CredalSet):
    """A third kind of set, with one member each: all that a kind must provide."""

    _measures: ClassVar = {"zero_one": lambda p: np.zeros(len(p))}
    _rules: ClassVar = dict.fromkeys(
        ("maximality", "e_admissible"), lambda p, _: p >= p.max(axis=1, keepdims=True)
    ) | {"minimax_regret": lambda p, _: p.argmax(axis=1)}

    def __init__(self, p):
        self.lower = self.upper = self.point = p
        self.classes = None

    @property
    def is_empty(self):
        return np.zeros(len(self.point), dtype=bool)

    def contains(self, distributions, *, atol=5e-4):
        return (np.abs(distributions - self.point) <= atol).all(axis=1)

    def tighten(self):
        return self

    @property
    def _arrays(self):
        return (self.point,)

    @property
    def _reachable(self):
        return self.lower, self.upper

    def _lower_entropy(self):
        return -(self.point * np.log(self.point)).sum(axis=1)

    _upper_entropy = _lower_entropy

    def _expectation(self, values):
        return (self.point @ values.T,) * 2


def test_another_kind_of_set_answers_every_question_like_a_box_that_is_a_point():
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
    points, box = Points(p), decal.IntervalCredalSet(p, p, point=p)
    np.testing.assert_allclose(points.entropy(), box.entropy())
    for measure in ("entropy", "zero_one", "hartley", "width"):
        np.testing.assert_allclose(points.epistemic(measure), box.epistemic(measure), atol=1e-12)
    for rule in (*decal.credal.decisions.RULES, "point"):
        np.testing.assert_array_equal(points.decide(rule), box.decide(rule))
    utility = decal.abstention_utility(3, cost=0.45)
    np.testing.assert_array_equal(
        points.decide("gamma_maximin", utility=utility),
        box.decide("gamma_maximin", utility=utility),
    )
    np.testing.assert_allclose(points.probability([0, 1]), box.probability([0, 1]))


def test_one_name_is_an_event_of_one_class():
    names = ("malignant", "benign")
    c = decal.IntervalCredalSet([[0.2, 0.5]], [[0.5, 0.8]], classes=names)
    for event in ("malignant", ["malignant"], 0, np.int64(0)):
        np.testing.assert_array_equal(c.probability(event), [[0.2], [0.5]])
    with pytest.raises(ValueError, match="0 to 1 or one of malignant, benign: got 'malign'"):
        c.probability("malign")
    several = decal.MultiLabelCredalSet([[0.2, 0.5]], [[0.5, 0.8]], classes=names)
    np.testing.assert_array_equal(several.any_of("benign"), [[0.5], [0.8]])


def narrow(truth, width):
    """Sets of every kind around a distribution."""
    other = (1 - width) * truth + width / truth.shape[1]
    return (
        decal.IntervalCredalSet(np.maximum(truth - width, 0), np.minimum(truth + width, 1)),
        decal.KLCredalSet(truth, width**2),
        decal.HullCredalSet(np.stack([truth, other], axis=1)),
    )


@pytest.mark.parametrize("width", [0.0, 1e-300, 1e-17, 1e-15, 1e-12])
def test_probabilities_of_rare_and_of_sure_events_lie_between_0_and_1(width):
    rng = np.random.default_rng(0)
    for scale in (1, 20, 300):
        z = scale * rng.normal(size=(200, 4))
        truth = np.exp(z - z.max(axis=1, keepdims=True))
        truth /= truth.sum(axis=1, keepdims=True)
        for sets in narrow(truth, width):
            middle = sets.intersection_probability()
            assert middle.min() >= 0
            assert middle.max() <= 1
            for event in product([False, True], repeat=4):
                low, high = sets.probability(event)
                assert np.all((low >= 0) & (low <= high) & (high <= 1)), (sets, event)
                exact = [math.fsum(row[list(event)]) for row in truth]
                assert np.abs([low - exact, high - exact]).max() <= 5 * width + 1e-15
            bounds = sets.tighten()
            assert bounds.lower.min() >= 0
            assert bounds.upper.max() <= 1


def one_of_each_kind(rng, K):
    """A set of every kind, and distributions between which its answers lie: exact vertices of a
    box and of a hull, many on the rim of a ball; and how far from them an answer may be.
    """
    lower, p, radius = rng.random(K) / K, rng.dirichlet(np.ones(K)), 0.3
    upper = np.minimum(lower + np.append(rng.random(K - 1), 1.0), 1.0)
    vertices = rng.dirichlet(np.ones(K), 3)
    rim = oracle_balls.members(p, radius)[: oracle_balls.RAYS : 5]
    return (
        (decal.IntervalCredalSet([lower], [upper]), rational.box_vertices(lower, upper), 1e-8),
        (decal.HullCredalSet([vertices]), [rational.rationals(v) for v in vertices], 1e-8),
        (decal.KLCredalSet([p], radius), rim.tolist(), 5e-3),
    )


def assert_decides_by_definition(credal, members, utility, close):
    """Every rule, in units of the largest utility, against exact arithmetic."""
    unit = Fraction(float(np.abs(utility).max()))
    rows = [rational.expectations(members, u) for u in utility]
    earned = [[e / unit for e in row] for row in zip(*rows, strict=True)]
    leads = np.array([[float(a - b) for b in row] for row in earned for a in row])
    leads = leads.reshape(len(earned), len(utility), len(utility))  # of action a over b
    worst, best = (np.array([float(f(e) / unit) for e in rows]) for f in (min, max))
    margins = {
        "interval_dominance": best - worst.max(),
        "maximality": leads.max(axis=0).min(axis=1),
        "e_admissible": oracle.game_values(
            [np.delete(leads[:, a], a, axis=1) for a in range(len(utility))]
        ),
    }
    for rule, margin in margins.items():
        kept = credal.decide(rule, utility=utility)[0]
        assert kept[margin > close].all(), rule
        assert not kept[margin < -close].any(), rule
    regret = -leads.min(axis=(0, 2))
    scores = {"gamma_maximin": worst, "gamma_maximax": best, "minimax_regret": -regret}
    for rule, score in scores.items():
        assert score[credal.decide(rule, utility=utility)[0]] >= score.max() - close, rule
    for found, exact in zip(credal.expectation(utility), (worst, best), strict=True):
        assert np.all(np.isfinite(found))
        np.testing.assert_allclose(found[0] / float(unit), exact, rtol=0, atol=close)


@pytest.mark.parametrize("largest", [np.finfo(float).max, 9e307, 1e-305])
def test_utilities_of_any_size_decide_as_exact_arithmetic_says(largest):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        utility = largest * np.append(rng.uniform(-1, 1, size=(3, 3)), [[1, -1, 0]], axis=0)
        utility[0] = -utility[3]
        for credal, members, close in one_of_each_kind(rng, 3):
            assert_decides_by_definition(credal, members, utility, close)


@pytest.mark.parametrize("shortfall", [1e-3, 1e-6])
@pytest.mark.parametrize("bad", [[-1e7, -1e7], [-1e7, 1.5]])
def test_a_catastrophic_action_does_not_blur_the_choice_among_the_others(bad, shortfall):
    # A hedge that falls short of a half is the best action nowhere, whatever else may be done.
    hedge = 0.5 - shortfall
    utility = np.array([[1, 0], [0, 1], [hedge, hedge], bad])
    sets = (
        decal.IntervalCredalSet([[0.1, 0.1]], [[0.9, 0.9]]),
        decal.HullCredalSet([[[0.1, 0.9], [0.9, 0.1]]]),
        decal.KLCredalSet([[0.5, 0.5]], 0.1),
        decal.IntervalCredalSet([[0.0, 0.0]], [[1.0, 1.0]]),
        decal.HullCredalSet([[[0.0, 1.0], [1.0, 0.0]]]),
        decal.KLCredalSet([[0.5, 0.5]], np.inf),
    )
    for credal in sets:
        harmless = bool(credal.lower[0, 0] == 0) and bad[1] > 1  # where only class 1 happens
        assert credal.decide("e_admissible", utility=utility).tolist() == [
            [True, True, False, harmless]
        ], credal
        best = utility[2] + 2 * shortfall
        beaten = np.vstack([utility, best])  # beats the hedge by as little
        assert not credal.decide("maximality", utility=beaten)[0, 2], credal


@pytest.mark.parametrize("kind", ["box", "ball", "hull", "labels", "coupled"])
def test_rows_are_picked_as_rows_or_refused(kind):
    p = np.random.default_rng(0).dirichlet(np.ones(3), 4)
    box = decal.IntervalCredalSet(0.9 * p, 0.9 * p + 0.1, point=p)
    model = decal.coupled.CoupledDecalibrator(0.9, likelihood="mean")
    sets = {
        "box": box,
        "ball": decal.KLCredalSet(p, 0.1),
        "hull": decal.HullCredalSet(np.stack([p, p[::-1]], axis=1)),
        "labels": decal.MultiLabelCredalSet(box.lower, box.upper, point=p),
        "coupled": model.fit(np.log(p), [0, 1, 2, 0]).predict(np.log(p)),
    }[kind].with_index(list("uvwx"))
    for rows, expected in (
        (1, [1]),
        (-1, [3]),
        (np.int64(1), [1]),
        (np.array(1), [1]),
        (np.array(-1), [3]),
        ([], []),
        ([2, 0], [2, 0]),
        (np.array([True, False, True, False]), [0, 2]),
        (slice(1, 3), [1, 2]),
        (..., [0, 1, 2, 3]),
    ):
        picked = sets[rows]
        assert picked.shape == (len(expected), 3), rows
        np.testing.assert_array_equal(picked.lower, sets.lower[expected])
        np.testing.assert_array_equal(picked.point, sets.point[expected])
        assert picked.index["row"].tolist() == ["uvwx"[i] for i in expected]
        assert repr(picked)
    for rows in (None, True, np.True_, np.array([[0, 1]]), np.array([[0]])):
        with pytest.raises(IndexError, match="rows must be a number, a slice, a mask or a list of"):
            sets[rows]
    for rows in (4, np.array(4), -5):
        with pytest.raises(IndexError, match=f"row {int(rows)} is out of range for 4 inputs"):
            sets[rows]


def test_the_most_uncertain_rows_have_the_largest_sets_then_the_largest_upper_entropy():
    lower = [[0.0, 0.0, 0.9], [0.0, 0.3, 0.3], [0.1, 0.3, 0.2], [0.6, 0.6, 0.0], [0.0, 0.3, 0.3]]
    upper = [[0.1, 0.1, 1.0], [0.4, 0.6, 0.6], [0.2, 0.6, 0.6], [0.7, 0.7, 0.1], [0.4, 0.6, 0.6]]
    sets = decal.IntervalCredalSet(lower, upper)
    assert sets.most_uncertain().tolist() == [1, 4, 2, 0, 3]
    # At the cap, where upper entropies are all ln K, the larger lower entropy comes first.
    wide = decal.IntervalCredalSet([[0.0, 0.0, 0.0], [0.2, 0.2, 0.2]], [[1.0] * 3, [0.6] * 3])
    assert wide.most_uncertain().tolist() == [1, 0]
    assert sets.most_uncertain(2).tolist() == [1, 4]
    with pytest.raises(ValueError, match="count must be a whole number, at least 1: got 0"):
        sets.most_uncertain(0)
