"""Scores of one network, against their definitions in high precision, and dropout left on."""

import random
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from decal_lab.baselines import MCDropout, energy, entropy, max_softmax, small_conv  # noqa: E402

pytestmark = pytest.mark.torch


def literal(row):
    """1 - max p, entropy and -logsumexp of one row, with 60 digits and exponents of any size."""
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -999_999, 999_999
        z = [Decimal(float(v)) for v in row]
        top = max(z)
        weights = [(v - top).exp() for v in z]
        total = sum(weights)
        others = sum(sorted(weights)[:-1]) / total
        # log p = z - top - log(total): exact enough at 60 digits, but for total = 1 + 1e-9000
        rest = sum(sorted(weights)[:-1])
        log_total = total.ln() if rest > Decimal("1e-30") else rest
        spread = sum(w / total * (top - v + log_total) for w, v in zip(weights, z, strict=True))
        return float(others), float(spread), float(-(top + log_total))


ROWS = st.lists(
    st.one_of(st.floats(-20, 20), st.sampled_from([0.0, 1e4, -1e4, 700.0, -700.0, 3.0])),
    min_size=2,
    max_size=6,
)


@given(ROWS)
def test_scores_are_their_definitions_for_logits_of_any_size(row):
    others, spread, free = literal(row)
    # Below the least float with all its digits, only the size can agree.
    assert max_softmax([row])[0] == pytest.approx(others, rel=1e-12, abs=1e-300)
    assert entropy([row])[0] == pytest.approx(spread, rel=1e-11, abs=1e-300)
    assert energy([row])[0] == pytest.approx(free, rel=1e-14, abs=1e-14)


def test_nothing_is_lost_where_the_network_is_almost_sure():
    z = [[100.0, 0.0, 0.0]]
    p = np.exp(-100.0)
    assert max_softmax(z)[0] == pytest.approx(2 * p, rel=1e-14)
    assert entropy(z)[0] == pytest.approx(2 * p * 101, rel=1e-14)
    assert max_softmax([[1e4, -1e4]])[0] == entropy([[1e4, -1e4]])[0] == 0.0


def test_higher_is_less_certain_and_float32_and_tensors_are_fine():
    sure, unsure = [8.0, 0.0, 0.0], [1.0, 0.0, 0.0]
    for score in (max_softmax, entropy, energy):
        values = score(torch.tensor([sure, unsure]))
        assert values[1] > values[0]
        assert values.dtype == np.float64
        assert values.shape == (2,)
        with pytest.raises(ValueError, match="logits must be finite: got nan"):
            score([[np.nan, 0.0]])


def test_many_rows_are_scored_as_one_by_one():
    z = np.random.default_rng(0).normal(size=(3000, 50)) * 5
    assert np.array_equal(entropy(z)[[0, 1500, 2999]], entropy(z[[0, 1500, 2999]]))


# Dropout left on


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Sequential(
            nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)
        )
        self.inner[1].running_mean += 0.3

    def forward(self, x):
        return self.inner(x)


def plain_entropy(p):
    return -sum(v * np.log(v) for v in p if v > 0)


@pytest.fixture
def x():
    return torch.randn(20, 4, generator=torch.Generator().manual_seed(1))


def test_passes_are_those_of_dropout_alone(x):
    net = Net().train()
    statistics = net.inner[1].running_mean.clone()
    vertices = MCDropout(net, passes=400, seed=3).predict_credal(x).vertices
    assert vertices.shape == (20, 400, 3)
    assert torch.equal(net.inner[1].running_mean, statistics)
    assert all(module.training for module in net.modules())

    # The same by hand: hidden units of the network in evaluation mode, each dropped or doubled.
    net.eval()
    with torch.no_grad():
        hidden = net.inner[:3](x)
        generator = torch.Generator().manual_seed(9)
        masks = torch.rand(4000, 1, 16, generator=generator) < 0.5
        by_hand = torch.softmax(net.inner[4](hidden * masks * 2), dim=-1).numpy()
    np.testing.assert_allclose(vertices.mean(axis=1), by_hand.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(vertices.std(axis=1), by_hand.std(axis=0), atol=0.05)


def test_scores_are_the_mutual_information_or_the_entropy_of_the_mean(x):
    method = MCDropout(Net(), passes=7)
    p = method.predict_credal(x).vertices
    mean = p.mean(axis=1)
    np.testing.assert_allclose(method.predict_proba(x), mean)
    total = np.array([plain_entropy(row) for row in mean])
    within = np.array([np.mean([plain_entropy(row) for row in rows]) for rows in p])
    np.testing.assert_allclose(method.score(x), total - within, atol=1e-12)
    assert (method.score(x) > 0).all()
    by_entropy = MCDropout(Net(), passes=7, measure="entropy")
    np.testing.assert_allclose(by_entropy.score(x), total)
    np.testing.assert_array_equal(MCDropout(Net(), passes=1).score(x), 0.0)


def test_a_seed_makes_it_repeatable_and_global_states_stay(x):
    before, python = torch.get_rng_state(), random.getstate()
    first = MCDropout(Net(), passes=5, seed=4)
    before = torch.get_rng_state()  # Net seeds the global generator
    scores = first.score(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert random.getstate() == python
    torch.manual_seed(77)
    assert np.array_equal(first.score(x), scores)
    assert not np.array_equal(MCDropout(Net(), passes=5, seed=5).score(x), scores)


def test_loaders_and_the_network_of_the_experiments_work():
    images = torch.randn(6, 1, 28, 28)
    method = MCDropout(small_conv(10), passes=3)
    found = method.predict_proba([(images[:4], torch.zeros(4)), (images[4:], torch.zeros(2))])
    assert found.shape == (6, 10)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_what_is_wrong_is_named(x):
    with pytest.raises(ValueError, match="module must have dropout layers with a positive rate"):
        MCDropout(nn.Linear(4, 3))
    with pytest.raises(ValueError, match="module must have dropout layers with a positive rate"):
        MCDropout(nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0)))
    with pytest.raises(ValueError, match="passes must be a whole number, at least 1: got 0"):
        MCDropout(Net(), passes=0)
    with pytest.raises(ValueError, match="measure must be one of 'mutual_information', 'entropy'"):
        MCDropout(Net(), measure="variance")
    with pytest.raises(ValueError, match="one column per class, two or more"):
        MCDropout(nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 1))).score(x)
