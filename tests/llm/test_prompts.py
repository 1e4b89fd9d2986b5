"""Several templates: their spread is kept."""

import numpy as np
import pytest

import decal
from decal.llm import option_orders, spread

LOGITS = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.2, 0.0], [2.0, -1.0]], [[0.3, 0.4], [0.0, 0.0]]])


def test_the_hull_has_a_vertex_for_each_template():
    hull = spread(LOGITS, classes=["yes", "no"])
    assert hull.vertices.shape == (2, 3, 2)
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(hull.vertices[1], p[:, 1])
    assert hull.contains(p.mean(axis=0)).all()


def test_the_union_is_the_box_around_all():
    box = spread(LOGITS, how="union", classes=["yes", "no"])
    hull = spread(LOGITS)
    np.testing.assert_allclose(box.lower, hull.lower)
    np.testing.assert_allclose(box.upper, hull.upper)


def test_credal_sets_of_each_template_are_united():
    d = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.9)
    sets = [d.predict(z) for z in LOGITS]
    united = spread(sets, how="union")
    np.testing.assert_allclose(united.lower, np.min([s.lower for s in sets], axis=0))
    np.testing.assert_allclose(united.upper, np.max([s.upper for s in sets], axis=0))
    with pytest.raises(ValueError, match="how must be 'union' for credal sets"):
        spread(sets)


def test_wrong_predictions_say_what_was_found():
    with pytest.raises(ValueError, match=r"got shape \(2, 2\)"):
        spread(LOGITS[0])
    with pytest.raises(ValueError, match=r"got shape \(0,\)"):
        spread([])


def test_orders_of_options_put_each_in_each_place():
    orders = option_orders("{} Answer {options}.", ["a", "b", "c"])
    assert len(set(orders)) == 6
    assert orders[:3] == ["{} Answer a, b, c.", "{} Answer b, c, a.", "{} Answer c, a, b."]
    assert len(option_orders("{options}?", "abcd", most=5)) == 5
    with pytest.raises(ValueError, match=r"template must hold \{options\}"):
        option_orders("{}", ["a", "b"])
    with pytest.raises(ValueError, match="two or more, and distinct"):
        option_orders("{options}", ["a", "a"])
