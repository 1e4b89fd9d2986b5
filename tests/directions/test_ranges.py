"""One box, three namespaces: NumPy's numbers, those of PyTorch, and endpoints of each row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal.directions._class_shifts import ShiftPlan, boxes_of_shifts
from decal.directions._ranges import shift_box
from helpers.strategies import at_most
from oracles import class_shifts as oracles

ENDS = (0.0, 1e-9, 0.5, 2.0, 20.0, 299.0, 301.0, 744.0, 1e4, 1e9, np.inf)


@st.composite
def boxes(draw):
    """Logits (n, K), classes left out (K,), and endpoints (n, K)."""
    n, K = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    z = rng.normal(size=(n, K)) * draw(st.sampled_from((0.0, 1.0, 30.0, 1e3, 1e9)))
    absent = rng.random(K) < draw(st.sampled_from((0.0, 0.4)))
    absent[rng.choice(K, 2, replace=False)] = False
    masked = rng.random((n, K)) < draw(st.sampled_from((0.0, 0.3)))
    masked[:, np.flatnonzero(~absent)[0]] = False
    z[masked] = -np.inf
    lower, upper = -rng.choice(ENDS, (n, K)), rng.choice(ENDS, (n, K))
    lower[:, absent] = -np.inf
    return z, absent, lower, upper


def in_numpy(z, absent, lower, upper, *, joint):
    with np.errstate(all="ignore"):
        return shift_box(np, z, absent, lower, upper, joint=joint, deep=True)[:3]


@at_most(150)
@given(boxes(), st.booleans())
def test_endpoints_of_each_row_are_those_of_the_row_alone(data, joint):
    z, absent, lower, upper = data
    center = np.where(absent, -np.inf, 0.0)
    plan = ShiftPlan.of(decal.Endpoints(lower, upper, center, None, 0.0))
    together = boxes_of_shifts(z, plan, joint=joint)
    for i in range(len(z)):
        plan = ShiftPlan.of(decal.Endpoints(lower[i], upper[i], center, None, 0.0))
        alone = boxes_of_shifts(z[i : i + 1], plan, joint=joint)
        for some, one in zip(together, alone, strict=True):
            np.testing.assert_allclose(some[i], one[0], rtol=0, atol=1e-14)


@at_most(150)
@given(boxes(), st.booleans())
def test_tensors_have_the_boxes_of_arrays(data, joint):
    torch = pytest.importorskip("torch")
    tensors = shift_box(torch, *(torch.tensor(a) for a in data), joint=joint, deep=True)
    for theirs, ours in zip(tensors, in_numpy(*data, joint=joint), strict=False):
        np.testing.assert_allclose(theirs.numpy(), ours, rtol=0, atol=1e-14)


@pytest.mark.parametrize("box", ["own", "joint"])
@pytest.mark.parametrize("deep", [False, True])
def test_boxes_are_those_of_the_definition(box, deep):
    rng = np.random.default_rng(0)
    z, lower, upper = rng.normal(size=(20, 4)), -rng.random(4), rng.random(4)
    low, high, *_ = shift_box(np, z, None, lower, upper, joint=box == "joint", deep=deep)
    expected = oracles.box(z, lower, upper, box)
    np.testing.assert_allclose((low, high), expected, rtol=0, atol=1e-14)


def test_what_an_infinite_shift_leaves_to_the_others_is_nothing():
    z, none = np.array([[3.0, 0.0, -np.inf]]), np.zeros(3)
    low, high, point = in_numpy(z, None, none, np.array([0.0, np.inf, np.inf]), joint=True)
    assert low[0].tolist() == [0.0, point[0, 1], 0.0]
    assert high[0].tolist() == [point[0, 0], 1.0, 0.0]
