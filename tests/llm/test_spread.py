"""Several templates: their spread is kept."""

import numpy as np
import pytest

import decal
from decal.llm import Verbaliser, label_masses, label_probabilities, spread, union

LOGITS = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.2, 0.0], [2.0, -1.0]], [[0.3, 0.4], [0.0, 0.0]]])


def test_the_hull_has_a_vertex_for_each_template():
    hull = spread(LOGITS, classes=["yes", "no"])
    assert hull.vertices.shape == (2, 3, 2)
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(hull.vertices[1], p[:, 1])
    assert hull.contains(p.mean(axis=0)).all()


def test_credal_sets_of_each_template_are_united():
    d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    sets = [d.predict(z) for z in LOGITS]
    united = union(sets)
    np.testing.assert_allclose(united.lower, np.min([s.lower for s in sets], axis=0))
    np.testing.assert_allclose(united.upper, np.max([s.upper for s in sets], axis=0))


def batch(template, order):
    """The answers of one template, of which q0 is nearly sure to say Yes and q1 to say No."""
    yes = {"q0": [0.90, 0.88], "q1": [0.12, 0.15], "q2": [0.5, 0.4]}
    lines = []
    for name in order:
        p = yes[name][template]
        top = [{"token": t, "logprob": np.log(q)} for t, q in (("Yes", p), ("No", 1 - p))]
        body = {"choices": [{"logprobs": {"content": [{**top[0], "top_logprobs": top}]}}]}
        lines.append({"custom_id": name, "response": {"status_code": 200, "body": body}})
    return label_masses(lines, Verbaliser(["Yes", "No"], space=False))


def test_answers_of_the_same_ids_are_united_whatever_their_order():
    one = label_probabilities(batch(0, ["q0", "q1", "q2"]))
    other = label_probabilities(batch(1, ["q2", "q1", "q0"]))
    united = union([one, other])
    np.testing.assert_allclose(united.lower[:, 0], [0.88, 0.12, 0.4])
    np.testing.assert_allclose(united.upper[:, 0], [0.90, 0.15, 0.5])
    assert united.index["row"].tolist() == ["q0", "q1", "q2"]


def test_answers_of_other_ids_are_not_united():
    one = label_probabilities(batch(0, ["q0", "q1"]))
    for order, message in (
        (["q0", "q2"], r"must be of the rows of sets\[0\]: got 'q2' in row 1"),
        (["q0", "q1", "q2"], r"must be of the same inputs and classes: got \(3, 2\)"),
        (["q0"], r"must be of the same inputs and classes: got \(1, 2\)"),
        (["q0", "q0"], r"must be of the rows of sets\[0\]: got 'q0' in row 1"),
    ):
        with pytest.raises(ValueError, match=message):
            union([one, label_probabilities(batch(1, order))])
    assert len(union([one[[0, 0]], one[[0, 0]]])) == 2  # the same ids, in one order


def test_sets_without_ids_go_by_position():
    one = label_probabilities(batch(0, ["q0", "q1"]))
    other = label_probabilities(batch(1, ["q0", "q1"])).with_index(None)
    np.testing.assert_allclose(union([one, other]).lower[:, 0], [0.88, 0.12])


def test_wrong_predictions_say_what_was_found():
    with pytest.raises(ValueError, match=r"got shape \(2, 2\)"):
        spread(LOGITS[0])
    with pytest.raises(ValueError, match=r"got shape \(0,\)"):
        spread([])
