"""Several labels per input: the forms that they come in, and what is learnt from them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal import InputError, Votes
from helpers.strategies import at_most
from oracles import votes as oracle

NAMES = ("benign", "unsure", "malignant")
LINES = [("b", "benign"), ("a", "unsure"), ("b", None), ("c", "malignant"), ("a", "unsure"),
         ("c", "benign"), ("a", "benign")]  # fmt: skip
ORDER = ["a", "b", "c"]
COUNTS = oracle.counts(LINES, ORDER, NAMES)
MATRIX = [["unsure", "unsure", "benign"], [None, "benign", None], ["malignant", "benign", None]]
NUMBERS = [[NAMES.index(said) if said else -1 for said in row] for row in MATRIX]


def with_nan(rows):
    return np.where(np.array(rows) < 0, np.nan, rows)


FORMS = {
    "counts": lambda: Votes.of_counts(COUNTS, classes=NAMES),
    "counts in a frame": lambda: Votes.of_counts(pd.DataFrame(COUNTS, columns=NAMES)),
    "frame in another order": lambda: Votes.of_counts(
        pd.DataFrame(COUNTS, columns=NAMES)[[*NAMES[::-1]]], classes=NAMES
    ),
    "names": lambda: Votes.of_annotations(MATRIX, classes=NAMES),
    "names in a frame": lambda: Votes.of_annotations(pd.DataFrame(MATRIX), classes=NAMES),
    "names in a series of categories": lambda: Votes.of_annotations(
        pd.DataFrame(MATRIX).astype("category"), classes=NAMES
    ),
    "numbers": lambda: Votes.of_annotations(NUMBERS, classes=NAMES),
    "numbers with NaN": lambda: Votes.of_annotations(with_nan(NUMBERS), classes=NAMES),
    "numbers with None": lambda: Votes.of_annotations(
        [[None if k < 0 else k for k in row] for row in NUMBERS], classes=NAMES
    ),
    "nullable numbers": lambda: Votes.of_annotations(
        pd.DataFrame(with_nan(NUMBERS)).astype("Int64"), classes=NAMES
    ),
    "table": lambda: Votes.of_table(*zip(*LINES, strict=True), order=ORDER, classes=NAMES),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_the_same_counts(form):
    votes = FORMS[form]()
    np.testing.assert_array_equal(votes.counts, COUNTS)
    assert votes.counted
    assert votes.classes == NAMES
    assert (len(votes), votes.shape) == (3, (3, 3))
    np.testing.assert_array_equal(votes.number, [3, 1, 2])
    np.testing.assert_allclose(votes.shares, np.array(COUNTS) / [[3], [1], [2]])


@at_most(30)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 5))
def test_counts_are_those_of_one_label_after_the_other(seed, annotators, K):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, K, (6, annotators))
    labels[:, 0] = rng.integers(0, K, 6)
    lines = [(i, k if k >= 0 else None) for i, row in enumerate(labels.tolist()) for k in row]
    expected = oracle.counts(lines, range(6), range(K))
    np.testing.assert_array_equal(Votes.of_annotations(labels, classes=K).counts, expected)
    drawn = [lines[i] for i in rng.permutation(len(lines))]
    inputs, said = zip(*drawn, strict=True)
    found = Votes.of_table(inputs, said, order=np.arange(6), classes=K)
    np.testing.assert_array_equal(found.counts, expected)


def test_distributions_are_their_own_shares():
    p = [[0.25, 0.75], [1.0, 0.0]]
    votes = Votes.of_distributions(p)
    np.testing.assert_array_equal(votes.shares, p)
    np.testing.assert_array_equal(votes.number, [np.inf, np.inf])
    assert repr(votes) == "Votes: 2 inputs, 2 classes, distributions"
    frame = Votes.of_distributions(pd.DataFrame(p, columns=["no", "yes"]))
    assert frame.classes == ("no", "yes")


@pytest.mark.parametrize(
    ("given", "expected"),
    [([[1, 5], [None, 1]], [[1, 1], [1, 0]]), ([[1, -1], [5, 5]], [[1, 0], [0, 2]])],
)
def test_numbers_are_names_where_a_class_is_called_by_a_number(given, expected):
    votes = Votes.of_annotations(given, classes=[1, 5])
    np.testing.assert_array_equal(votes.counts, expected)
    with pytest.raises(InputError, match=r"be one of 1, 5, or be -1, NaN or None for none: got 0"):
        Votes.of_annotations([[0, 1]], classes=["1", "5"])


def test_minus_one_may_be_the_name_of_a_class():
    votes = Votes.of_annotations([[-1, 1], [0, -1]], classes=[-1, 0, 1])
    np.testing.assert_array_equal(votes.counts, [[1, 0, 1], [1, 1, 0]])
    votes = Votes.of_annotations([[-1.0, np.nan]], classes=[-1, 0, 1])
    np.testing.assert_array_equal(votes.counts, [[1, 0, 0]])


def test_an_empty_text_is_no_label_and_fractions_may_be_names():
    votes = Votes.of_annotations([["a", ""], ["", "b"]], classes="ab")
    np.testing.assert_array_equal(votes.counts, np.eye(2))
    halves = Votes.of_annotations([[0.5, 1.0], [1.0, np.nan]], classes=[0.5, 1.0])
    np.testing.assert_array_equal(halves.counts, [[1, 1], [0, 1]])


def test_one_input_is_taken_by_its_number_and_all_one_after_the_other():
    votes = FORMS["counts"]()
    np.testing.assert_array_equal(votes[1].counts, COUNTS[1:2])
    np.testing.assert_array_equal([each.counts[0] for each in votes], COUNTS)


@pytest.mark.parametrize("rows", [slice(1, 3), [2, 0], np.array([True, False, True])])
def test_some_inputs_are_taken_as_from_arrays(rows):
    votes = FORMS["counts"]()[rows]
    np.testing.assert_array_equal(votes.counts, np.array(COUNTS)[rows])
    assert votes.classes == NAMES


def test_votes_tell_how_many_labels_there_are():
    assert repr(FORMS["counts"]()) == "Votes: 3 inputs, 3 classes, 1 to 3 labels each"
    assert repr(Votes.of_counts([[1, 1]])) == "Votes: 1 input, 2 classes, 2 labels each"
    assert repr(Votes.of_counts([[0, 1]])) == "Votes: 1 input, 2 classes, 1 label each"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Votes.of_counts([[1, 0.5]]), r"counts must be whole .*got 0.5 at index \(0, 1\)"),
        (lambda: Votes.of_counts([[1, -1]]), "counts must be whole numbers, none negative: got -1"),
        (lambda: Votes.of_counts([[1, np.nan]]), "counts must be whole numbers"),
        (lambda: Votes.of_counts([[1, 1], [0, 0]]), "hold a label of every row: got none in row 1"),
        (lambda: Votes.of_counts([1, 2]), r"counts must be a matrix .*: got shape \(2,\)"),
        (lambda: Votes.of_counts([[1], [2]]), r"two or more: got shape \(2, 1\)"),
        (lambda: Votes.of_counts([[1, 2]], classes="abc"), "classes must be 2 names"),
        (lambda: Votes.of_counts([[1, 2]], classes="aa"), "classes must be distinct"),
        (
            lambda: Votes.of_counts(pd.DataFrame({"a": [1], "b": [2]}), classes=["a", "c"]),
            "counts must have a column for each of the 2 classes",
        ),
        (lambda: Votes.of_distributions([[0.5, 0.6]]), "distributions must .*sum"),
        (lambda: Votes.of_distributions([0.5, 0.5]), "distributions must be a matrix"),
        (lambda: Votes.of_annotations([0, 1], classes=2), "annotations must be a matrix"),
        (
            lambda: Votes.of_annotations([[0, 2]], classes=2),
            r"lie in 0 to 1, or be -1, NaN or None for none: got 2 at index \(0, 1\)",
        ),
        (lambda: Votes.of_annotations([[0, -2]], classes=2), "for none: got -2"),
        (
            lambda: Votes.of_annotations([[0, 0.5]], classes=2),
            "-1, NaN or None for none: got 0.5",
        ),
        (
            lambda: Votes.of_annotations(np.array([["a", np.nan]]), classes="ab"),
            r"got 'nan' at index \(0, 1\)\. This is text: write None instead",
        ),
        (lambda: Votes.of_annotations([[0, 1]], classes=None), "classes must be names, .*got None"),
        (
            lambda: Votes.of_annotations([["a", "b"]], classes=2),
            r"got 'a' at index \(0, 0\)\. If they are names, pass those of all classes",
        ),
        (lambda: Votes.of_annotations([["a", "c"]], classes="ab"), "be one of a, b, or be .*'c'"),
        (
            lambda: Votes.of_annotations([[0, 1], [-1, -1]], classes=2),
            "annotations must hold a label of every row: got none in row 1. Leave such rows out",
        ),
        (lambda: Votes.of_annotations([[0, 1]], classes=1), "classes must be"),
        (lambda: Votes.of_annotations([[0, 1]], classes=["a"]), "classes must be"),
        (
            lambda: Votes.of_table(["a", "x"], [0, 1], order=ORDER, classes=2),
            "inputs must be among those of order: got 'x' at index 1",
        ),
        (
            lambda: Votes.of_table(["a"], [0, 1], order=ORDER, classes=2),
            r"inputs and labels must be two vectors of one length: got shapes \(1,\) and \(2,\)",
        ),
        (
            lambda: Votes.of_table(["a"], [0], order=["a", "a"], classes=2),
            "order must name every row of logits once: got 'a' more than once",
        ),
        (
            lambda: Votes.of_table(["a"], [0], order=[["a"]], classes=2),
            r"order must be a vector of ids: got shape \(1, 1\)",
        ),
        (
            lambda: Votes.of_table(["a"], [0], order=["a", "b"], classes=2),
            "labels must hold a label of every row: got none in row 1",
        ),
    ],
)
def test_bad_votes_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


# Learning from them


def sample(seed, n=90, K=3, most=4):
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, K))
    p = np.exp(0.6 * z)
    p /= p.sum(axis=1, keepdims=True)
    m = rng.integers(1, most + 1, n)
    counts = np.array([rng.multinomial(m[i], p[i]) for i in range(n)])
    return z, counts


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reference", ["model", "halfway", "best", "auto"])
@pytest.mark.parametrize(
    "directions", [("class",), ("class", "temperature"), ("local",), ("temperature",)]
)
def test_fit_is_that_of_one_row_per_label(directions, reference, weighted):
    z, counts = sample(1)
    weights = np.random.default_rng(2).uniform(0.5, 3, len(z)) if weighted else None
    settings = {"directions": directions, "reference": reference}
    votes = Votes.of_counts(counts)
    found = decal.Decalibrator(0.8, **settings).fit(z, votes, sample_weight=weights)
    rows, labels, w = map(np.array, zip(*oracle.one_by_one(z, counts, weights), strict=True))
    expected = decal.Decalibrator(0.8, **settings).fit(rows, labels, sample_weight=w)
    assert found.examples == len(z)
    if reference == "auto":  # its folds are of inputs, not of labels: these would be in both halves
        assert np.isfinite(found.reference_model.scale)
        return
    for alpha in (0.9, 0.3):
        one, other = found.predict(z, alpha=alpha), expected.predict(z, alpha=alpha)
        np.testing.assert_allclose(one.lower, other.lower, atol=1e-9)
        np.testing.assert_allclose(one.upper, other.upper, atol=1e-9)
        np.testing.assert_allclose(one.point, other.point, atol=1e-9)
        for name in directions:
            ours, theirs = found.steps(name, alpha), expected.steps(name, alpha)
            np.testing.assert_allclose(ours.lower, theirs.lower, rtol=1e-8)
            np.testing.assert_allclose(ours.upper, theirs.upper, rtol=1e-8)


def test_distributions_weigh_every_class_by_its_share():
    z, counts = sample(3)
    shares = counts / counts.sum(axis=1, keepdims=True)
    by_counts = decal.Decalibrator(0.8).fit(z, Votes.of_counts(counts)).predict(z)
    by_shares = decal.Decalibrator(0.8).fit(z, Votes.of_distributions(shares)).predict(z)
    np.testing.assert_allclose(by_counts.lower, by_shares.lower, atol=1e-12)


def test_chunks_and_merged_models_have_learnt_what_one_fit_does():
    z, counts = sample(4)
    votes = Votes.of_counts(counts)
    settings = {"directions": ("class", "temperature")}
    whole = decal.Decalibrator(0.8, **settings).fit(z, votes)
    first = decal.Decalibrator(0.8, **settings).partial_fit(z[:30], votes[:30])
    other = decal.Decalibrator(0.8, **settings).fit(z[30:], votes[30:])
    for model in (
        decal.Decalibrator(0.8, **settings).fit(z[:30], votes[:30]).merge(other),
        first.partial_fit(z[30:], votes[30:]),
    ):
        assert model.examples == len(z)
        np.testing.assert_allclose(model.predict(z).lower, whole.predict(z).lower, atol=1e-7)
    mixed = (
        decal.Decalibrator(0.8).fit(z[:30], votes[:30]).partial_fit(z[30:], counts[30:].argmax(1))
    )
    assert mixed.examples == len(z)


def test_classes_are_those_of_votes_or_of_logits():
    z, counts = sample(5)
    d = decal.Decalibrator(0.8).fit(z, Votes.of_counts(counts, classes="abc"))
    assert d.classes == ("a", "b", "c")
    frame = pd.DataFrame(z, columns=[*"abc"]).assign(w=1.0)
    for votes in (Votes.of_counts(counts), Votes.of_counts(counts, classes="abc")):
        found = decal.Decalibrator(0.8).fit(frame, votes, sample_weight="w")
        np.testing.assert_array_equal(found.predict(z).lower, d.predict(z).lower)
        assert found.classes == d.classes
    # By name, in whatever order.
    turned = decal.Decalibrator(0.8).fit(
        frame, Votes.of_counts(counts[:, ::-1], classes="cba"), sample_weight="w"
    )
    assert turned.classes == ("c", "b", "a")
    np.testing.assert_allclose(turned.predict(z[:, ::-1]).lower, d.predict(z).lower[:, ::-1])
    with pytest.raises(InputError, match="labels must be of the classes a, b, c: got votes for c"):
        decal.choose(d, z, Votes.of_counts(counts, classes="cba"), miss=0.2)
    with pytest.raises(InputError, match="labels must be of 90 inputs and 3 classes: got Vo"):
        decal.Decalibrator(0.8).fit(z, Votes.of_counts(counts[1:]))


def test_votes_in_a_frame_must_be_in_the_order_of_the_logits():
    z, counts = sample(5)
    names = [f"P-{i}" for i in range(len(z))]
    logits = pd.DataFrame(z, columns=list("abc"), index=names)
    votes = pd.DataFrame(counts, columns=list("abc"), index=names)
    said = pd.DataFrame(counts.argmax(axis=1)[:, None], index=names)
    decal.Decalibrator().fit(logits, Votes.of_counts(votes))
    decal.Decalibrator().fit(logits[10:], Votes.of_counts(votes)[10:])
    for other in (
        Votes.of_counts(votes[::-1]),
        Votes.of_distributions(votes.div(votes.sum(axis=1), axis=0)[::-1]),
        Votes.of_annotations(said[::-1], classes="abc"),
        Votes.of_counts(votes)[::-1],
    ):
        with pytest.raises(InputError, match="labels must .*order"):
            decal.Decalibrator().fit(logits, other)


def test_a_masked_class_that_was_named_is_refused():
    z, counts = sample(6)
    row = int(np.flatnonzero(counts[:, 1] > 0)[0])
    z[row, 1] = -np.inf
    with pytest.raises(InputError, match="labels must be classes that are not masked: got 1"):
        decal.Decalibrator(0.8, directions=("local",)).fit(z, Votes.of_counts(counts))
    counts[row, [0, 1]] += [counts[row, 1], -counts[row, 1]]
    d = decal.Decalibrator(0.8, directions=("local",)).fit(z, Votes.of_counts(counts))
    assert d.predict(z).upper[row, 1] == 0


# Wishes


def annotated(seed, n=600, K=3, m=5):
    """Logits, the true distributions, and votes drawn from them."""
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, K))
    truth = np.exp(0.7 * z)
    truth /= truth.sum(axis=1, keepdims=True)
    return z, truth, Votes.of_counts([rng.multinomial(m, p) for p in truth])


def test_every_wish_is_granted_by_votes_and_kept_in_files(tmp_path):
    z, truth, votes = annotated(7)
    for wish in ({"miss": 0.2}, {"width": 0.3}, {"hold": 0.7}):
        d = decal.decalibrate(z[:400], votes[:400], **wish)
        path = tmp_path / "model.npz"
        d.save(path)
        again = decal.load(path)
        assert str(again.promise) == str(d.promise)
        assert repr(again.promise.notes) == repr(d.promise.notes)
        sets = again.predict(z[400:])
        if "miss" in wish:
            kept = sets.promised(d.promise.rule, sets.decide(d.promise.rule)).possible_mask()
            assert (votes[400:].shares * ~kept).sum(axis=1).mean() < 0.25
        elif "width" in wish:
            assert (sets.upper - sets.lower).mean() == pytest.approx(0.3, abs=0.02)
        else:
            assert sets.contains(truth[400:]).mean() > 0.7


def test_several_labels_give_narrower_sets_than_one():
    z, _, votes = annotated(8, m=10)
    rng = np.random.default_rng(0)
    one = np.array([rng.choice(3, p=p) for p in votes.shares])
    by_one = decal.decalibrate(z, one, hold=0.8)
    by_ten = decal.decalibrate(z, votes, hold=0.8)
    assert by_ten.promise.costs["width"] < 0.8 * by_one.promise.costs["width"]
    assert "independent draws" in str(by_ten)
    assert "independent draws" not in str(by_one)


def test_of_distributions_the_condition_is_another():
    z, truth, _ = annotated(8)
    given = str(decal.decalibrate(z, Votes.of_distributions(truth), hold=0.8))
    assert "if labels are drawn from the distributions given" in " ".join(given.split())
    assert "independent draws" not in given


def test_the_condition_is_told_once_for_all_groups():
    z, _, votes = annotated(8)
    groups = np.arange(len(z)) % 2
    d = decal.decalibrate(z, votes, hold=0.5, groups=groups)
    assert str(d).count("independent draws") == 1
    choice = decal.choose(d, z, votes, hold=0.5, groups=groups)
    assert repr(choice).count("independent draws") == 1


def test_annotations_are_votes_for_every_wish_of_labels():
    z, _, votes = annotated(9, m=4)
    labels = [np.repeat(np.arange(3), row) for row in votes.counts.astype(int)]
    model = decal.decalibrate(z, votes, alpha=0.5, directions=[decal.Local(mix=0.001)])
    for wish in ({"miss": 0.2}, {"hold": 0.7}):
        by_votes = decal.choose(model, z, votes, **wish)
        assert decal.choose(model, z, annotations=labels, **wish) == by_votes
    with pytest.raises(InputError, match="annotations must be left out with labels: got both"):
        decal.choose(model, z, votes, annotations=labels, miss=0.2)
    with pytest.raises(InputError, match=r"annotations must be a matrix .*Pass Votes as labels\."):
        decal.choose(model, z, annotations=votes, miss=0.2)
    with pytest.raises(InputError, match="annotations must go with coverage or miss or hold"):
        decal.choose(model, z, annotations=labels, width=0.2)


def test_votes_of_one_label_each_are_labels():
    z, truth, _ = annotated(10, n=400)
    y = np.array([np.random.default_rng(0).choice(3, p=p) for p in truth])
    votes = Votes.of_annotations(y[:, None], classes=3)
    model = decal.decalibrate(z, votes, alpha=0.5, directions=[decal.Local(mix=0.001)])
    for wish in ({"miss": 0.2}, {"hold": 0.7}):
        by_votes, by_labels = (
            decal.choose(model, z, votes, **wish),
            decal.choose(model, z, y, **wish),
        )
        assert by_votes.alpha == by_labels.alpha
        assert by_votes.achieved == by_labels.achieved


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z, v: decal.decalibrate(z, v, miss=0.1, per="class"), "per must be left out with"),
        (lambda z, v: decal.decalibrate(z, v, miss=0.1, groups=np.zeros(len(z), int)), "groups"),
        (lambda z, v: decal.decalibrate(z, v, miss=0.1, unit="image"), "unit must be left out"),
        (
            lambda z, v: decal.MultiLabelDecalibrator().fit(z, v),
            "labels must be one per input here",
        ),
        (
            lambda z, v: decal.calibration.refute(decal.published(0.5).fit(z, v).predict(z), v),
            "labels must be an array of numbers: got Votes: 600 inputs, 3 classes, 5 labels each, ",
        ),
        (
            lambda z, _: decal.Decalibrator().fit(z, np.zeros((len(z), 5), int)),
            r"Several labels per input: labels=decal.Votes.of_annotations\(labels, classes=…\)",
        ),
        (lambda z, v: decal.Decalibrator().fit(z, v.counts), "which one it has, decal.Votes"),
    ],
)
def test_where_votes_do_not_go_they_are_refused(call, message):
    z, _, votes = annotated(11)
    with pytest.raises(InputError, match=message):
        call(z, votes)


def test_classifiers_take_one_label_per_row():
    linear_model = pytest.importorskip("sklearn.linear_model")
    z, _, votes = annotated(12)
    model = decal.sklearn.CredalClassifier(linear_model.LogisticRegression(), alpha=0.8)
    with pytest.raises(InputError, match="y must be one label per row: got Votes: 600 inputs"):
        model.fit(z, votes)


def test_ordered_categoricals_say_that_classes_have_an_order():
    kind = pd.CategoricalDtype(NAMES, ordered=True)
    frame = pd.DataFrame(MATRIX).astype(kind)
    votes = Votes.of_annotations(frame, classes=NAMES)
    np.testing.assert_array_equal(votes.counts, COUNTS)
    inputs, said = zip(*LINES, strict=True)
    lines = pd.Series(said).astype(kind)
    assert votes.ordered
    assert votes[1:].ordered
    assert Votes.of_table(inputs, lines, order=ORDER, classes=NAMES).ordered
    assert not Votes.of_annotations(MATRIX, classes=NAMES).ordered
    assert not Votes.of_annotations(frame.astype({0: object}), classes=NAMES).ordered
    with pytest.raises(InputError, match="classes must be in the order of the labels' categories"):
        Votes.of_annotations(frame, classes=NAMES[::-1])
    grades = pd.CategoricalDtype(range(3), ordered=True)
    assert Votes.of_annotations(pd.DataFrame([[0, 2], [1, 1]]).astype(grades), classes=3).ordered
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 3))
    several = (z[:, None] + rng.gumbel(size=(300, 4, 3))).argmax(axis=2)
    read = pd.DataFrame(np.array(NAMES)[several]).astype(kind)
    d = decal.decalibrate(z, Votes.of_annotations(read, classes=NAMES), miss=0.2)
    plain = decal.decalibrate(z, Votes.of_annotations(several, classes=NAMES), miss=0.2, order=True)
    assert d.fitted.order
    np.testing.assert_array_equal(d.predict(z).possible_mask(), plain.predict(z).possible_mask())
