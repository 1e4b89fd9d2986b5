"""Directions of one's own: a contrast between groups of classes, a scale per class."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

import decal
from helpers.strategies import at_most
from oracles import class_shifts as oracles


@dataclass(frozen=True)
class Contrast(decal.Line):
    """Moves the logits of one group of classes against all others."""

    group: tuple[int, ...]
    ratio: float = 1.0
    name: str = "contrast"

    def move(self, logits):
        moved = np.zeros_like(logits)
        moved[:, list(self.group)] = 1.0
        return moved


@dataclass(frozen=True)
class ClassScale(decal.Line):
    """Scales the logit of one class."""

    k: int
    ratio: float = 1.0
    name: str = "class scale"

    def move(self, logits):
        moved = np.zeros_like(logits)
        moved[:, self.k] = logits[:, self.k]
        return moved


def random_data(seed, K=4, n=60):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, K)) * 2
    labels = np.array([rng.choice(K, p=p) for p in softmax(logits, axis=1)])
    return logits, labels


def gain(logits, labels, direction, theta):
    moved = logits + theta * direction.move(logits)
    return oracles.log_likelihood(moved, labels) - oracles.log_likelihood(logits, labels)


@at_most(30)
@given(st.integers(0, 10**6), st.floats(0.05, 0.99), st.sampled_from([1.0, 3.0]))
def test_steps_reach_their_budget(seed, alpha, ratio):
    logits, labels = random_data(seed)
    for direction in (Contrast((0, 1), ratio), ClassScale(2, ratio)):
        d = decal.decalibrate(logits, labels, alpha=alpha, directions=("class", direction))
        steps = d.steps(direction.name)
        assert steps.lower <= 0 <= steps.upper
        assert steps.residual < 1e-12
        for theta in (steps.lower, steps.upper):
            if np.isfinite(theta):
                b = ratio * 60 * np.log(alpha)
                assert gain(logits, labels, direction, theta) == pytest.approx(b, abs=1e-9)


def test_a_contrast_of_one_class_is_its_class_shift():
    logits, labels = random_data(0)
    d = decal.decalibrate(logits, labels, alpha=0.8, directions=("class", Contrast((2,))))
    shifts, steps = d.shifts(), d.steps("contrast")
    expected = pytest.approx((shifts.lower[2], shifts.upper[2]), abs=1e-9)
    assert (steps.lower, steps.upper) == expected
    plain = decal.decalibrate(logits, labels, alpha=0.8)
    np.testing.assert_allclose(d.predict(logits).upper, plain.predict(logits).upper, atol=1e-9)


def test_the_temperature_is_also_a_line():
    @dataclass(frozen=True)
    class Scale(decal.Line):
        name: str = "scale"
        ratio: float = 16.0

        def move(self, logits):
            return logits

    logits, labels = random_data(1, n=300)
    own = decal.decalibrate(logits, labels, alpha=0.97, directions=(Scale(),))
    built_in = decal.decalibrate(
        logits, labels, alpha=0.97, directions=(decal.Temperature(evidence="labels"),)
    )
    steps, scales = own.steps("scale"), built_in.scales()
    assert scales.upper == pytest.approx(1 + steps.upper, abs=1e-5)
    assert scales.lower == pytest.approx(max(0, 1 + steps.lower), abs=1e-5)


@at_most(30)
@given(st.integers(0, 10**6), st.floats(0.3, 0.99))
def test_boxes_are_the_range_over_the_line(seed, alpha):
    logits, labels = random_data(seed, K=3, n=25)
    direction = ClassScale(1, ratio=4.0)
    d = decal.decalibrate(logits, labels, alpha=alpha, directions=(direction,))
    steps = d.steps("class scale")
    scan = np.linspace(max(steps.lower, -300), min(steps.upper, 300), 6001)
    p = np.stack([softmax(logits + t * direction.move(logits), axis=1) for t in scan])
    credal = d.predict(logits)
    assert (credal.lower <= p.min(axis=0) + 1e-9).all()
    assert (credal.upper >= p.max(axis=0) - 1e-9).all()
    np.testing.assert_allclose(credal.upper, p.max(axis=0), atol=2e-2)


def test_nothing_objects_to_moving_up_what_always_occurs():
    logits = np.zeros((4, 3))
    d = decal.decalibrate(logits, [0, 1, 0, 1], alpha=0.9, directions=(Contrast((0, 1)),))
    steps = d.steps("contrast")
    assert steps.upper == np.inf
    assert np.isfinite(steps.lower)
    np.testing.assert_array_equal(d.predict(logits).lower[:, 2], 0.0)


def test_what_needs_the_data_says_so(tmp_path):
    logits, labels = random_data(0)
    d = decal.decalibrate(logits, labels, alpha=0.8, directions=("class", Contrast((0,))))
    with pytest.raises(ValueError, match="support save: got 'contrast', whose code no model file"):
        d.save(tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="support merge and partial_fit: got 'contrast'"):
        d.partial_fit(logits, labels)
    with pytest.raises(ValueError, match="directions must include 'x': got class, contrast"):
        d.steps("x")
    best = decal.Decalibrator(directions=("class", Contrast((0,))), reference="best")
    with pytest.raises(ValueError, match="labels must contain every class for another reference"):
        best.fit(logits, np.minimum(labels, 2))
