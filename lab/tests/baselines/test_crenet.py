"""CreNet: interval softmax and its loss against literal loops, and networks trained with them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from decal_lab.baselines import CreNet, IntervalHead, Trainer, int_softmax, mlp  # noqa: E402
from decal_lab.baselines._crenet import interval_loss  # noqa: E402
from helpers.strategies import at_most  # noqa: E402

pytestmark = pytest.mark.torch


def literal_bounds(center, half_width):
    """The definition, class by class, with exact integers' worth of precision from math.fsum."""
    K = len(center)
    a = [m - h for m, h in zip(center, half_width, strict=True)]
    b = [m + h for m, h in zip(center, half_width, strict=True)]
    lower, upper = [], []
    for k in range(K):
        others = math.fsum(math.exp((a[j] + b[j]) / 2) for j in range(K) if j != k)
        lower.append(math.exp(a[k]) / (math.exp(a[k]) + others))
        upper.append(math.exp(b[k]) / (math.exp(b[k]) + others))
    return lower, upper


def intervals(limit):
    shapes = st.integers(2, 6).map(lambda K: (K,))
    return shapes.flatmap(
        lambda shape: st.tuples(
            arrays(np.float64, shape, elements=st.floats(-limit, limit)),
            arrays(np.float64, shape, elements=st.floats(0, limit)),
        )
    )


def bounds(center, half_width):
    found = int_softmax(torch.tensor(center), torch.tensor(half_width))
    return tuple(bound.numpy() for bound in found)


def blobs(n=240, seed=0, spread=1.5):
    """Three classes around the corners of a triangle, overlapping a little."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    corners = torch.tensor([[0.0, 4.0], [4.0, -2.0], [-4.0, -2.0]])
    return corners[labels] + spread * torch.randn(n, 2, generator=generator), labels


def net():
    return mlp(3, inputs=2, hidden=(32, 16))


@pytest.fixture(scope="module")
def loader():
    return DataLoader(TensorDataset(*blobs()), batch_size=40, shuffle=True)


@pytest.fixture(scope="module")
def fitted(loader):
    return CreNet(net, members=2, trainer=Trainer(epochs=20, learning_rate=0.01)).fit(loader)


# Interval softmax


@given(intervals(30))
def test_bounds_are_those_of_the_definition(case):
    for found, expected in zip(bounds(*case), literal_bounds(*case), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(intervals(1e4))
def test_the_softmax_of_the_centers_lies_within_so_that_no_set_is_empty(case):
    lower, upper = bounds(*case)
    point = torch.softmax(torch.tensor(case[0]), 0).numpy()
    assert (lower <= point + 1e-12).all()
    assert (point <= upper + 1e-12).all()
    assert lower.sum() <= 1 + 1e-12 <= upper.sum() + 2e-12


@given(intervals(1e4))
def test_without_widths_the_bounds_are_the_softmax(case):
    lower, upper = bounds(case[0], np.zeros_like(case[1]))
    point = torch.softmax(torch.tensor(case[0]), 0).numpy()
    np.testing.assert_allclose(lower, point, atol=1e-12)
    np.testing.assert_array_equal(lower, upper)


def test_other_logits_within_the_intervals_may_leave_the_bounds():
    center, half_width = torch.zeros(3), torch.ones(3)
    lower, upper = int_softmax(center, half_width)
    corner = torch.softmax(torch.tensor([-1.0, 1.0, 1.0]), 0)
    assert corner[0] < lower[0]
    assert torch.softmax(-torch.tensor([-1.0, 1.0, 1.0]), 0)[0] > upper[0]


def test_gradients_are_finite_and_right_even_for_huge_logits():
    center = torch.tensor([[1e4, -1e4, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    half_width = torch.tensor([[2e4, 0.0, 1.0], [0.5, 1.0, 0.0]], dtype=torch.float64)
    center.requires_grad_()
    half_width.requires_grad_()
    assert torch.autograd.gradcheck(int_softmax, (center[1:], half_width[1:]))
    loss = interval_loss(center, half_width, torch.tensor([1, 0]), delta=0.5)
    for gradient in torch.autograd.grad(loss, (center, half_width)):
        assert gradient.isfinite().all()
        assert gradient.abs().max() <= 2  # of a mean over two rows plus one over the worse of them


# The loss


@at_most(50)
@given(
    st.integers(1, 9).flatmap(
        lambda n: st.tuples(
            arrays(np.float64, (n, 4), elements=st.floats(-20, 20)),
            arrays(np.float64, (n, 4), elements=st.floats(0, 20)),
            arrays(np.int64, (n,), elements=st.integers(0, 3)),
        )
    ),
    st.sampled_from([0.1, 0.5, 0.8, 1.0]),
)
def test_the_loss_is_that_of_a_slow_loop(case, delta):
    optimist, pessimist = [], []
    for center, half_width, label in zip(*case, strict=True):
        lower, upper = literal_bounds(center, half_width)
        optimist.append(-math.log(upper[label]))
        pessimist.append(-math.log(lower[label]))
    worst = sorted(pessimist, reverse=True)[: max(1, math.floor(delta * len(pessimist)))]
    expected = sum(optimist) / len(optimist) + sum(worst) / len(worst)
    found = interval_loss(*(torch.tensor(part) for part in case), delta=delta)
    assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


# Trained networks


def test_the_head_gives_normalised_centers_and_widths_that_are_not_negative():
    torch.manual_seed(0)
    head = IntervalHead(5, classes=3)
    x = 100 * torch.randn(64, 5)
    outputs = head(x)
    center, half_width = outputs.chunk(2, dim=-1)
    assert outputs.shape == (64, 6)
    assert (half_width >= 0).all()
    np.testing.assert_allclose(center.mean(dim=0).detach(), 0, atol=1e-5)
    np.testing.assert_allclose(center.std(dim=0, correction=0).detach(), 1, atol=1e-3)
    raw = torch.log(torch.expm1(half_width.double()))
    np.testing.assert_allclose(raw.mean(dim=0).detach(), 0, atol=1e-3)


def test_it_learns_and_its_sets_are_never_empty(fitted):
    x, y = blobs(seed=1)
    credal = fitted.predict_credal(x)
    p = fitted.predict_proba(x)
    assert not credal.is_empty.any()
    assert (p.argmax(axis=1) == y.numpy()).mean() > 0.85
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert credal.contains(p).all()
    np.testing.assert_array_equal(credal.point, credal.intersection_probability())
    assert all(training.converged for training in fitted.trainings)
    assert all(training.accuracy > 0.8 for training in fitted.trainings)


def test_bounds_are_averaged_over_the_networks(fitted):
    x, _ = blobs(30, seed=2)
    each = []
    for module in fitted.members:
        center, half_width = module(x).detach().double().numpy().reshape(30, 2, 3).swapaxes(0, 1)
        each.append([literal_bounds(*row) for row in zip(center, half_width, strict=True)])
    lower, upper = np.mean(each, axis=0).swapaxes(0, 1)
    credal = fitted.predict_credal(x)
    np.testing.assert_allclose(credal.lower, lower, atol=1e-6)
    np.testing.assert_allclose(credal.upper, upper, atol=1e-6)


def test_lower_bounds_trained_on_the_worst_rows_only_give_wider_sets():
    x, y = blobs(spread=2.5)
    loader = DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True)

    def width(delta):
        trainer = Trainer(epochs=40, learning_rate=0.01)
        method = CreNet(net, delta=delta, trainer=trainer).fit(loader)
        return method.predict_credal(x).epistemic("width").mean()

    assert width(0.1) > 1.5 * width(1.0)


def test_the_same_seed_gives_the_same_sets_and_a_folder_keeps_them(loader, tmp_path):
    def lower(seed, folder=None):
        trainer = Trainer(epochs=3, learning_rate=0.01, seed=seed)
        method = CreNet(net, members=2, trainer=trainer, folder=folder).fit(loader)
        return method.predict_credal(blobs(30)[0]).lower

    first = lower(0, tmp_path)
    np.testing.assert_array_equal(first, lower(0))
    np.testing.assert_array_equal(first, lower(0, tmp_path))
    assert not np.array_equal(first, lower(1))


def test_what_cannot_be_trained_is_refused():
    x, y = blobs(9)
    with pytest.raises(ValueError, match="last layer is the nn.Linear .head: got NoneType"):
        CreNet(lambda: torch.nn.Linear(2, 3)).fit([(x, y)])
    with pytest.raises(ValueError, match="two rows or more in every batch.*got a batch of 1"):
        CreNet(net).fit(DataLoader(TensorDataset(x, y), batch_size=8))
    with pytest.raises(ValueError, match="delta must be positive: got 0"):
        CreNet(net, delta=0)
    with pytest.raises(ValueError, match="delta must lie between 0 and 1: got 1.5"):
        CreNet(net, delta=1.5)
    with pytest.raises(ValueError, match="labels must lie in 0 to 2"):
        CreNet(net).fit([(x, y + 1)])
    with pytest.raises(ValueError, match="has seen no data"):
        CreNet(net).predict_credal(x)
