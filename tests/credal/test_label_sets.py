"""MultiLabelCredalSet: what intervals of labels say, for one label and for several."""

import numpy as np
import pytest

import decal
from oracles.labels import number_of_events


def drawn(n=6, L=4, seed=0):
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.random((2, n, L)), axis=0)
    return decal.MultiLabelCredalSet(*ends, point=ends.mean(axis=0), classes="abcd"[:L])


# Several labels: all joint distributions


def cases():
    rng = np.random.default_rng(1)
    for m in (1, 2, 3, 4):
        for spread in (0.0, 0.1, 1.0):  # precise, narrow and wide
            low = rng.random((4, m)) ** rng.choice([0.3, 1.0, 3.0])
            yield low, np.minimum(low + spread * rng.random((4, m)), 1.0)
    yield np.zeros((1, 3)), np.ones((1, 3))
    yield np.full((1, 3), 0.5), np.full((1, 3), 0.5)  # ties
    yield np.array([[0.0, 1.0, 0.4]]), np.array([[0.0, 1.0, 0.4]])


@pytest.mark.parametrize(("low", "high"), list(cases()))
def test_bounds_for_several_labels_are_those_of_a_linear_program(low, high):
    sets = decal.MultiLabelCredalSet(low, high)
    for count in range(low.shape[1] + 2):
        for bounds, happens in (
            (sets.at_least(count), lambda s, k=count: s >= k),
            (sets.exactly(count), lambda s, k=count: s == k),
        ):
            expected = [number_of_events(a, b, happens) for a, b in zip(low, high, strict=True)]
            np.testing.assert_allclose(np.transpose(bounds), expected, atol=1e-9)


def test_any_and_all_are_the_bounds_of_frechet():
    c = drawn()
    lower, upper = c.any_of()
    np.testing.assert_allclose(lower, c.lower.max(axis=1))
    np.testing.assert_allclose(upper, np.minimum(c.upper.sum(axis=1), 1))
    lower, upper = c.all_of(["a", 2])
    np.testing.assert_allclose(lower, np.maximum(c.lower[:, 0] + c.lower[:, 2] - 1, 0), atol=1e-15)
    np.testing.assert_allclose(upper, np.minimum(c.upper[:, 0], c.upper[:, 2]))
    lower, upper = c.count([True, False, False, True])
    np.testing.assert_allclose(lower, c.lower[:, 0] + c.lower[:, 3])
    np.testing.assert_allclose(upper, c.upper[:, 0] + c.upper[:, 3])


def test_no_label_and_too_many_are_sure_answers():
    c = drawn()
    assert c.at_least(0)[0].min() == 1.0
    assert c.exactly(9)[1].max() == 0.0
    assert c.any_of([])[1].max() == 0.0
    assert c.all_of([])[0].min() == 1.0


# One label


def test_a_label_is_decided_where_all_its_probabilities_agree():
    c = decal.MultiLabelCredalSet([[0.6, 0.1, 0.4, 0.5]], [[0.9, 0.3, 0.7, 0.5]])
    assert c.decide().tolist() == [[1, 0, -1, -1]]
    assert c.decide(threshold=0.35).tolist() == [[1, 0, 1, 1]]
    assert c.decide(threshold=[0.95, 0.2, 0.8, 0.1]).tolist() == [[0, -1, 0, 1]]
    assert np.array_equal(c.decide(costs=(1, 3)), c.decide(threshold=0.25))
    each = [[1, 1], [9, 1], [1, 3], [1, 1]]
    assert c.decide(costs=each).tolist() == [[1, 0, 1, -1]]


def test_decisions_are_those_of_maximality_on_two_classes():
    c, (wrong_yes, wrong_no) = drawn(40), (2.0, 3.0)
    decided = c.decide(costs=(wrong_yes, wrong_no))
    utility = [[0.0, -wrong_no], [-wrong_yes, 0.0]]  # say no, say yes
    for k in range(4):
        kept = c.label(k).decide("maximality", utility=utility)
        expected = np.where(kept.all(axis=1), -1, kept[:, 1].astype(int))
        assert np.array_equal(decided[:, k], expected)


def test_entropies_are_those_of_two_classes():
    c = drawn(40)
    for k in range(4):
        for ours, theirs in zip(c.entropy(), c.label(k).entropy(), strict=True):
            np.testing.assert_allclose(ours[:, k], theirs, atol=1e-12)
    sure = decal.MultiLabelCredalSet([[0.0, 1.0]], [[0.0, 1.0]])
    assert not np.any(sure.entropy())


def test_one_label_is_a_credal_set_of_no_and_yes():
    c = drawn().with_index({"photo": list("uvwxyz")})
    one = c.label("b")
    assert one.classes == ("no", "yes")
    assert np.array_equal(one.lower[:, 1], c.lower[:, 1])
    assert np.array_equal(one.upper[:, 0], 1 - c.lower[:, 1])
    np.testing.assert_allclose(one.point.sum(axis=1), 1)
    assert not one.is_empty.any()
    assert one.index["photo"].tolist() == list("uvwxyz")


def test_probabilities_are_contained_label_by_label():
    c = drawn()
    assert c.contains(c.point).all()
    assert not c.contains(np.where(c.upper < 0.99, c.upper + 0.01, 0.0)).any()
    np.testing.assert_allclose(c.width(), c.upper - c.lower)


# How it reads


def test_it_reads_like_other_sets():
    c = decal.MultiLabelCredalSet([[0.6, 0.1]] * 7, [[0.9, 0.3]] * 7, classes=["dog", "<b>"])
    assert repr(c) == "\n".join(
        ["MultiLabelCredalSet: 7 inputs, 2 labels, mean width 0.250"]
        + [f"  {i}  dog [0.600, 0.900]  <b> [0.100, 0.300]" for i in range(5)]
        + ["  … 2 more"]
    )
    page = c._repr_html_()
    assert "<th" in page
    assert ">label<" in page
    assert "&lt;b&gt;" in page
    assert "<b>&" not in page
    assert len(c[2:4]) == 2
    assert c[3].shape == (1, 2)
    assert [len(one) for one in c] == [1] * 7
    assert not c.lower.flags.writeable


def test_frames_have_a_line_per_input_and_label():
    pd = pytest.importorskip("pandas")
    frame = drawn().with_index({"photo": list("uvwxyz")}).to_pandas()
    assert frame.index.names == ["photo", "label"]
    assert list(frame.columns) == ["lower", "upper", "point"]
    assert frame.loc[("w", "c"), "upper"] == drawn().upper[2, 2]
    assert isinstance(frame, pd.DataFrame)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda c: c.decide(threshold=1.5), "threshold must lie between 0 and 1: got 1.5"),
        (lambda c: c.decide(threshold=[0.1, 0.2]), r"threshold must have shape \(\), or \(4,\)"),
        (lambda c: c.decide(threshold=0.5, costs=(1, 1)), "threshold must not go with costs"),
        (lambda c: c.decide(costs=(0, 0)), "costs must be positive for one kind of error"),
        (lambda c: c.decide(costs=(-1, 2)), "costs must be finite and not negative: got -1"),
        (lambda c: c.any_of(["e"]), "labels must hold labels 0 to 3 or one of a, b, c, d: got 'e'"),
        (lambda c: c.at_least(-1), "number must be a whole number, at least 0: got -1"),
        (lambda c: c.contains(c.lower[:2]), r"probabilities must have shape \(6, 4\)"),
        (lambda c: type(c)(c.upper, c.lower), "lower must be at most upper"),
        (lambda c: type(c)(c.lower, c.upper, classes="ab"), "classes must be 4 names"),
    ],
)
def test_what_makes_no_sense_is_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(drawn())
