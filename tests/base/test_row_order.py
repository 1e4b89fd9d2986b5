"""Rows with an index: every function that takes two things of the same rows refuses another order.

A new function that takes two things of the same rows is one more line in `CASES`.
"""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal._base.data_frames import require_same_order
from helpers.logit_files import NAMES, make_labelled

pd = pytest.importorskip("pandas", reason="needs decal[pandas]")
pytest.importorskip("narwhals", reason="needs decal[pandas]")
pytest.importorskip("sklearn", reason="needs decal[sklearn]")
pytest.importorskip("matplotlib", reason="needs decal[plot]").use("Agg")

from matplotlib import pyplot as plt  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

from decal import plot  # noqa: E402
from decal.choose import plausibility, triage  # noqa: E402
from decal.evaluate import calibration, metrics  # noqa: E402
from decal.llm import LabelMasses  # noqa: E402
from decal.llm import decalibrate as decalibrate_answers  # noqa: E402
from decal.sklearn import CredalClassifier, ShiftAdaptedClassifier  # noqa: E402

Z, Y = make_labelled()
N, K = Z.shape
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
WRONG = (Z.argmax(axis=1) != Y).astype(int)
DOUBT = 1 - P.max(axis=1)
ANSWERS = (Z > 0).astype(int)


class World:
    """The same rows in many forms, all with one index."""

    def __init__(self, index):
        self.index = index
        self.logits = self.frame(Z)
        self.truth = self.frame(P)
        self.labels = self.series(np.array(NAMES)[Y])
        self.weights = self.series(np.linspace(1, 2, N))
        self.groups = self.series(np.where(np.arange(N) < 25, "day", "night"))
        self.scores = self.series(DOUBT)
        self.wrong = self.series(WRONG)
        self.answers = self.frame(ANSWERS)
        self.model = decal.decalibrate(Z, Y, alpha=0.9, classes=NAMES)
        self.local = decal.decalibrate(
            Z, Y, alpha=0.9, classes=NAMES, directions=[decal.Local(mix=0.01)]
        )
        self.sets = self.model.predict(self.logits)
        self.shift = decal.LabelShift().fit(Z, Y, classes=NAMES)
        self.many = decal.MultiLabelDecalibrator(0.9).fit(Z, ANSWERS, classes=NAMES)
        self.label_sets = self.many.predict(self.logits)

    def frame(self, values):
        return pd.DataFrame(values, columns=NAMES, index=self.index)

    def series(self, values):
        return pd.Series(values, index=self.index)

    def hull(self):
        hull = decal.HullCredalSet(np.stack([P, P[:, ::-1]], axis=1), classes=NAMES)
        return hull.with_index(self.index)

    def masses(self):
        z = np.log(P)
        names = tuple(map(str, self.index))
        return LabelMasses(z, z, NAMES, names)


def chooses(w, **options):
    return triage(w.logits, w.labels, cost=0.3, **options)


def own_triage():
    return triage(Z, Y, cost=0.3, scores={"own": DOUBT}, score="own", classes=NAMES)


def by_groups(w):
    return decal.choose(w.model, Z, Y, miss=0.3, groups=w.groups.to_numpy())


def refits(estimator, w):
    return estimator(LogisticRegression(), cv=2).fit(w.logits, w.labels)


# What is asked, and what it is asked about in the same rows.
CASES = {
    # learning
    "fit": (lambda w, x: decal.decalibrate(w.logits, x, alpha=0.8), "labels"),
    "fit, an array, labels and weights": (
        lambda w, x: decal.decalibrate(Z, w.labels, sample_weight=x, classes=NAMES, alpha=0.8),
        "weights",
    ),
    "fit, weights": (
        lambda w, x: decal.decalibrate(w.logits, Y, sample_weight=x, alpha=0.8),
        "weights",
    ),
    "partial_fit": (lambda w, x: decal.Decalibrator().partial_fit(w.logits, x), "labels"),
    "coupled fit": (
        lambda w, x: decal.CoupledDecalibrator(0.9, likelihood="mean").fit(w.logits, x),
        "labels",
    ),
    "coupled fit, an array": (
        lambda w, x: decal.CoupledDecalibrator(0.9, likelihood="mean").fit(
            Z, w.labels, sample_weight=x, classes=NAMES
        ),
        "weights",
    ),
    "predict, ids": (lambda w, x: w.model.predict(w.logits, ids=x), "scores"),
    "with_index": (lambda w, x: w.sets.with_index(x), "scores"),
    "label shift fit": (lambda w, x: decal.LabelShift().fit(w.logits, x), "labels"),
    "label shift observe": (
        lambda w, x: decal.LabelShift().fit(Z, Y, classes=NAMES).observe(w.logits, sample_weight=x),
        "weights",
    ),
    "multilabel fit": (
        lambda w, x: decal.MultiLabelDecalibrator(0.9).fit(w.logits, x),
        "answers",
    ),
    "multilabel fit, an array": (
        lambda w, x: decal.MultiLabelDecalibrator(0.9).fit(
            Z, w.answers, sample_weight=x, classes=NAMES
        ),
        "weights",
    ),
    "top logits": (
        lambda w, x: decal.TopLogits(
            w.logits, pd.DataFrame([[0, 1, 2]] * N, index=w.index), x, total_classes=9
        ),
        "scores",
    ),
    "CredalClassifier": (
        lambda w, x: CredalClassifier(LogisticRegression(), cv=2).fit(w.logits, x),
        "labels",
    ),
    "CredalClassifier, weights": (
        lambda w, x: CredalClassifier(LogisticRegression(), cv=2).fit(w.logits, w.labels, x),
        "weights",
    ),
    "ShiftAdaptedClassifier observe": (
        lambda w, x: refits(ShiftAdaptedClassifier, w).observe(w.logits, x),
        "weights",
    ),
    "llm.decalibrate": (
        lambda w, x: decalibrate_answers(w.masses(), x, alpha=0.8),
        lambda w: pd.Series(np.array(NAMES)[Y], index=[str(name) for name in w.index]),
    ),
    # sets
    "IntervalCredalSet": (lambda w, x: decal.IntervalCredalSet(w.truth, x), "truth"),
    "IntervalCredalSet, point": (
        lambda w, x: decal.IntervalCredalSet(0 * P, w.truth, point=x),
        "truth",
    ),
    "KLCredalSet": (lambda w, x: decal.KLCredalSet(w.truth, x), "scores"),
    "HullCredalSet": (lambda w, x: decal.HullCredalSet([w.truth, x], axis=0), "truth"),
    "MultiLabelCredalSet": (lambda w, x: decal.MultiLabelCredalSet(w.truth, x), "truth"),
    "box contains": (lambda w, x: w.sets.contains(x), "truth"),
    "picked box contains": (lambda w, x: w.sets[::-1][::-1].contains(x), "truth"),
    "ball contains": (lambda w, x: w.local.predict_ball(w.logits).contains(x), "truth"),
    "ball divergence": (lambda w, x: w.local.predict_ball(w.logits).divergence(x), "truth"),
    "ball's box contains": (lambda w, x: w.local.predict_ball(w.logits).box().contains(x), "truth"),
    "hull contains": (lambda w, x: w.hull().contains(x), "truth"),
    "label sets contain": (lambda w, x: w.label_sets.contains(x), "truth"),
    "one label contains": (
        lambda w, x: w.label_sets.label("cat").contains(x),
        lambda w: pd.DataFrame({"no": 1 - P[:, 0], "yes": P[:, 0]}, index=w.index),
    ),
    # how good they are
    "coverage": (lambda w, x: metrics.coverage(w.sets, x), "truth"),
    "aurc": (lambda w, x: metrics.aurc(w.scores, x), "wrong"),
    "risk_coverage": (lambda w, x: metrics.risk_coverage(w.scores, x), "wrong"),
    "calibration error": (
        lambda w, x: metrics.expected_calibration_error(w.truth, x),
        "labels",
    ),
    "refute": (lambda w, x: calibration.refute(w.sets, x), "labels"),
    "log_scores": (lambda w, x: calibration.log_scores(w.sets, x), "labels"),
    "discounted_utility": (lambda w, x: calibration.discounted_utility(w.sets, x), "labels"),
    # choosing alpha
    "choose coverage": (
        lambda w, x: decal.choose(w.model, w.logits, coverage=0.5, distributions=x),
        "truth",
    ),
    "choose coverage, annotations": (
        lambda w, x: decal.choose(w.model, w.logits, annotations=x, coverage=0.1),
        lambda w: pd.DataFrame({"one": Y, "two": Y}, index=w.index),
    ),
    "choose miss": (
        lambda w, x: decal.choose(w.model, w.logits, x, miss=0.3),
        "labels",
    ),
    "choose miss, groups": (
        lambda w, x: decal.choose(w.model, w.logits, Y, miss=0.3, groups=x),
        "groups",
    ),
    "choose miss, an array": (
        lambda w, x: decal.choose(w.model, Z, w.labels, miss=0.3, groups=x),
        "groups",
    ),
    "choose miss per class": (
        lambda w, x: decal.choose(w.model, w.logits, x, miss=0.5, per="class"),
        "labels",
    ),
    "choose hold": (
        lambda w, x: decal.choose(w.local, w.logits, x, hold=0.5),
        "labels",
    ),
    "choose hold, groups": (
        lambda w, x: decal.choose(w.local, w.logits, Y, hold=0.5, groups=x),
        "groups",
    ),
    "plausibility": (
        lambda w, x: plausibility(w.model, w.logits, distributions=x),
        "truth",
    ),
    "plausibility of labels": (
        lambda w, x: plausibility(w.model, w.logits, labels=x),
        "labels",
    ),
    "Choice.predict": (lambda w, x: by_groups(w).predict(w.logits, groups=x), "groups"),
    # triage
    "triage": (lambda w, x: triage(w.logits, x, cost=0.3), "labels"),
    "triage, scores": (lambda w, x: chooses(w, scores={"own": x}), "scores"),
    "hand_over": (lambda w, x: own_triage().hand_over(w.logits, scores={"own": x}), "scores"),
    "doubt": (lambda w, x: own_triage().doubt(w.logits, scores={"own": x}), "scores"),
    # pictures
    "plot.binary": (
        lambda w, x: plot.binary(w.label_sets.label("cat"), labels=x),
        lambda w: w.series(np.where(ANSWERS[:, 0] == 1, "yes", "no")),
    ),
    "plot.decomposition": (lambda w, x: plot.decomposition(w.sets, labels=x), "labels"),
    "plot.spider, truth": (lambda w, x: plot.spider(w.sets, 0, truth=x), "truth"),
    "plot.intervals, truth": (lambda w, x: plot.intervals(w.sets, 0, truth=x), "truth"),
    "plot.simplex, truth": (lambda w, x: plot.simplex(w.sets, 0, truth=x), "truth"),
    "plot.grid, truth": (lambda w, x: plot.grid(plot.spider, w.sets, 2, truth=x), "truth"),
    "plot.spider, two models": (
        lambda w, x: plot.spider({"one": w.sets, "other": w.model.predict(x)}, 0),
        "logits",
    ),
    "plot.prevalence": (
        lambda w, x: plot.prevalence(w.shift, w.logits[:3], names=x[x.index.isin(w.index[:3])]),
        "labels",
    ),
    # pages
    "explore, labels": (lambda w, x: w.model.explore(w.logits, labels=x, alphas=[0.9]), "labels"),
    "explore, truth": (lambda w, x: w.model.explore(w.logits, truth=x, alphas=[0.9]), "truth"),
    "explore, texts": (lambda w, x: w.model.explore(w.logits, texts=x, alphas=[0.9]), "labels"),
    "explore, names": (lambda w, x: w.model.explore(w.logits, names=x, alphas=[0.9]), "labels"),
    "explore, ids": (lambda w, x: w.model.explore(w.logits, ids=x, alphas=[0.9]), "labels"),
    "explore, groups": (
        lambda w, x: w.model.explore(w.logits, groups={"site": x}, alphas=[0.9]),
        "groups",
    ),
    "explore, compare": (
        lambda w, x: w.model.explore(w.logits, compare=(w.model, x), alphas=[0.9]),
        "logits",
    ),
    "explore_credal, labels": (lambda w, x: w.sets.explore(labels=x), "labels"),
    "explore_credal, truth": (lambda w, x: w.sets.explore(truth=x), "truth"),
    "explore_credal, groups": (lambda w, x: w.sets.explore(groups={"site": x}), "groups"),
    "explore_shift, labels": (
        lambda w, x: (
            decal.LabelShift().fit(Z, Y, classes=NAMES).observe(Z).explore(w.logits, labels=x)
        ),
        "labels",
    ),
}

INDEXES = {
    "names": pd.Index([f"P-{i}" for i in range(N)]),
    "counts": pd.RangeIndex(N),
    "numbers": pd.Index(np.random.default_rng(0).permutation(3 * N)[:N]),
    "levels": pd.MultiIndex.from_product([["a", "b"], range(N // 2)], names=["site", "number"]),
}


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def given(w, what):
    return what(w) if callable(what) else getattr(w, what)


@pytest.mark.filterwarnings("ignore::decal.FitWarning")
@pytest.mark.parametrize("index", ["names", "counts"])
@pytest.mark.parametrize("case", CASES)
def test_rows_in_another_order_are_refused(case, index):
    ask, what = CASES[case]
    w = World(INDEXES[index])
    rows = given(w, what)
    ask(w, rows)
    with pytest.raises(ValueError, match=r"must be in the order of .*: got .* in row 0, where"):
        ask(w, rows.iloc[::-1])


@pytest.mark.parametrize("index", INDEXES)
def test_the_rule_knows_every_kind_of_index(index):
    w = World(INDEXES[index])
    sets, truth = w.model.predict(w.logits), w.truth
    for first in (w.logits, sets, sets[:], sets.tighten()):
        require_same_order(credal=first, truth=truth)
        with pytest.raises(ValueError, match="truth must be in the order of credal: got "):
            require_same_order(credal=first, truth=truth.iloc[::-1])
        with pytest.raises(ValueError, match="truth must be in the order of credal: got "):
            require_same_order(credal=first[::-1], truth=truth)
        require_same_order(credal=first[::-1], truth=truth.iloc[::-1])
        require_same_order(credal=first[5:9], truth=truth.iloc[5:9])
        require_same_order(credal=first, truth=truth.to_numpy()[::-1])
        require_same_order(credal=first, truth=None, labels=truth.reset_index(drop=True))
    require_same_order(credal=sets.with_index(None), truth=truth.iloc[::-1])


def test_rows_of_other_names_are_refused_and_counts_are_not():
    y = pd.Series(np.zeros(4))
    shuffled, others, again = [7, 2, 9, 4], [9, 1, 8, 3], [3, 1, 0, 2]
    for one, other in (
        (shuffled, others),  # two splits of one table
        (shuffled, again),
        (["a", "b", "c", "d"], ["a", "b", "d", "e"]),
        (["a", "b", "c", "d"], ["e", "f", "g", "h"]),
        (["a", "a", "b", "b"], ["b", "a", "b", "a"]),  # several rows of one name
    ):
        with pytest.raises(ValueError, match="labels must be of the rows of logits: got .* in row"):
            require_same_order(logits=y.set_axis(one), labels=y.set_axis(other))
    for one, other in (
        (range(4), shuffled),  # a table made of an array, beside a split
        (range(100, 104), shuffled),  # a part of it
        ([0, 3, 5, 6], shuffled),  # some rows of it
        (["a", "b", "c", "d"], shuffled),  # names of another kind
    ):
        require_same_order(logits=y.set_axis(one), labels=y.set_axis(other))
        require_same_order(logits=y.set_axis(other), labels=y.set_axis(one))
    # Each is compared with each: an array in front hides nothing.
    with pytest.raises(ValueError, match="sample_weight must be in the order of labels"):
        require_same_order(
            logits=Z[:4], labels=y.set_axis(shuffled), sample_weight=y.set_axis(shuffled[::-1])
        )


def test_sets_in_another_order_are_brought_into_one_before_they_are_united():
    ids = np.array(["r1", "r2", "r3"])
    low = np.array([[0.1, 0.2], [0.3, 0.1], [0.4, 0.4]])
    one = decal.IntervalCredalSet(low, low + 0.4, point=low / low.sum(1)[:, None], classes="ab")
    order = [2, 0, 1]
    other = decal.IntervalCredalSet(low + 0.1, low + 0.5, point=one.point, classes="ab")
    right = decal.credal.union([one, other])
    mixed = [one.with_index(ids), other.with_index(ids)[order]]
    found = decal.credal.union(mixed)
    np.testing.assert_allclose(found.lower, right.lower, rtol=0, atol=1e-15)
    np.testing.assert_allclose(found.upper, right.upper, rtol=0, atol=1e-15)
    np.testing.assert_allclose(found.point, right.point, rtol=0, atol=1e-15)
    assert found.index["row"].tolist() == ids.tolist()
    digits = [one.with_index(np.array(["7", "8", "9"])), other.with_index([9, 8, 7])]
    turned = decal.credal.union([one, other[::-1]])
    np.testing.assert_allclose(decal.credal.union(digits).lower, turned.lower)
    strangers = other.with_index(np.array(["r1", "r2", "r4"]))
    with pytest.raises(ValueError, match=r"sets\[1\] must be of the rows of sets\[0\]: got 'r4'"):
        decal.credal.union([mixed[0], strangers])


def test_two_batches_of_answers_with_their_ids_in_another_order_agree():
    from decal.llm import Verbaliser, label_masses, label_probabilities

    def line(name, yes):
        top = [
            {"token": t, "logprob": float(np.log(p))} for t, p in (("Yes", yes), ("No", 1 - yes))
        ]
        top.sort(key=lambda entry: -entry["logprob"])
        content = [{"token": "Yes", "logprob": top[0]["logprob"], "top_logprobs": top}]
        body = {"choices": [{"logprobs": {"content": content}}]}
        return {"custom_id": name, "response": {"body": body}}

    words = Verbaliser(["Yes", "No"])
    first = label_masses([line("a", 0.9), line("b", 0.12)], words)
    again = label_masses([line("b", 0.14), line("a", 0.88)], words)
    found = decal.credal.union([label_probabilities(first), label_probabilities(again)])
    np.testing.assert_allclose(found.lower[:, 0], [0.88, 0.12], rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.upper[:, 0], [0.9, 0.14], rtol=0, atol=1e-6)


def test_numbers_name_the_answers_whose_ids_are_their_digits():
    masses = LabelMasses(np.log(P), np.log(P), NAMES, tuple(str(1000 + i) for i in range(N)))
    labels = pd.Series(np.array(NAMES)[Y], index=1000 + np.arange(N))
    decalibrate_answers(masses, labels, alpha=0.8)
    with pytest.raises(ValueError, match=r"labels must be .*: got 1049 in row 0, .* has '1000'"):
        decalibrate_answers(masses, labels[::-1], alpha=0.8)


def test_labels_of_answers_may_be_a_mapping_by_id():
    w = World(INDEXES["names"])
    by_id = dict(zip(w.index[::-1], np.array(NAMES)[Y[::-1]], strict=True))
    found = decalibrate_answers(w.masses(), by_id, alpha=0.8)
    expected = decalibrate_answers(w.masses(), np.array(NAMES)[Y], alpha=0.8)
    np.testing.assert_array_equal(found.shifts().upper, expected.shifts().upper)
    del by_id["P-7"]
    with pytest.raises(ValueError, match="labels must name each of the 50 answers.*got no P-7"):
        decalibrate_answers(w.masses(), by_id, alpha=0.8)


def test_texts_and_labels_of_a_pretrained_model_must_be_in_one_order():
    pytest.importorskip("transformers", reason="needs decal[zeroshot]")
    from decal.zeroshot._pretrained import PretrainedClassifier

    class Lengths(PretrainedClassifier):
        classes = ("long", "short")

        def logits(self, inputs, /, **_):
            return np.array([[len(text), 5.0] for text in inputs])

    texts = pd.Series(["a", "bbbbbbbb", "cc", "ddddddd"], index=list("wxyz"))
    labels = pd.Series(["short", "long", "long", "short"], index=list("wxyz"))
    Lengths().decalibrate(texts, labels, alpha=0.9)
    with pytest.raises(ValueError, match="labels must be in the order of inputs: got 'z' in row 0"):
        Lengths().decalibrate(texts, labels[::-1], alpha=0.9)
