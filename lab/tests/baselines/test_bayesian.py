"""Credal Bayesian networks: divergences against torch's, posteriors against quadrature."""

import numpy as np
import pytest
from scipy.optimize import minimize

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.distributions import Normal, kl_divergence  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from decal_lab.baselines import CredalBayesian, Trainer, mlp, resnet18  # noqa: E402
from decal_lab.baselines._bayesian import Variational, even_priors  # noqa: E402

pytestmark = pytest.mark.torch


class OneWeight(nn.Module):
    """Logistic regression with a single parameter: logits (0, w x)."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 1, bias=False)

    def forward(self, x):
        z = self.linear(x)
        return torch.cat([torch.zeros_like(z), z], dim=1)


def logistic(n=40, slope=1.5, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-slope * x))).astype(np.int64)
    return x, y


def batch(x, y):
    return torch.tensor(x, dtype=torch.float32)[:, None], torch.tensor(y)


def best_gaussian(x, y, prior):
    """Mean and deviation that maximise the evidence bound, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    sign = 2 * y - 1
    center, spread = prior

    def negative_bound(parameters):
        mean, deviation = parameters[0], np.exp(parameters[1])
        w = mean + deviation * nodes
        surprise = np.logaddexp(0, -sign[:, None] * x[:, None] * w).sum(axis=0) @ weights
        divergence = np.log(spread / deviation) - 0.5
        return surprise + divergence + (deviation**2 + (mean - center) ** 2) / (2 * spread**2)

    found = minimize(negative_bound, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-6})
    return found.x[0], np.exp(found.x[1])


def blobs(n=120, seed=0):
    """Three classes around the corners of a triangle."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    corners = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    return corners[labels] + 0.5 * torch.randn(n, 2, generator=generator), labels


def net():
    return mlp(3, inputs=2, hidden=(16,))


@pytest.fixture(scope="module")
def fitted():
    loader = DataLoader(TensorDataset(*blobs()), batch_size=20, shuffle=True)
    trainer = Trainer(epochs=30, learning_rate=0.02)
    return CredalBayesian(net, members=4, kl_weight=1e-4, trainer=trainer).fit(loader)


# One network with random weights


def test_the_divergence_is_torchs():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3)).double()
    variational = Variational(net, prior=(-0.5, 0.7), deviation=0.2)
    with torch.no_grad():
        for raw in variational.raw_deviations:
            raw.add_(torch.randn_like(raw))
    expected = 0.0
    weights = (net[0].weight, net[0].bias, net[2].weight, net[2].bias)
    for mean, raw in zip(weights, variational.raw_deviations, strict=True):
        deviation = torch.log1p(torch.exp(raw))
        prior = Normal(*torch.tensor([-0.5, 0.7], dtype=torch.float64))
        expected += kl_divergence(Normal(mean, deviation), prior).sum().item()
    assert variational.divergence().item() == pytest.approx(expected, rel=1e-12)


def test_a_posterior_equal_to_its_prior_has_no_divergence():
    net = nn.Linear(3, 2)
    nn.init.constant_(net.weight, 0.5)
    nn.init.constant_(net.bias, 0.5)
    assert Variational(net, prior=(0.5, 0.3), deviation=0.3).divergence().abs().item() < 1e-5


def test_calls_draw_weights_with_the_moments_of_the_posterior():
    torch.manual_seed(0)
    net = nn.Linear(2, 2).double()
    variational = Variational(net, prior=(0.0, 1.0), deviation=0.3)
    x = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    with torch.no_grad():
        draws = torch.cat([variational(x) for _ in range(20_000)])
    np.testing.assert_allclose(draws.mean(dim=0), net(x)[0].detach(), atol=0.025)
    np.testing.assert_allclose(draws.var(dim=0), 0.09 * (1 + 1 + 4), rtol=0.05)


def test_gradients_reach_means_and_deviations():
    variational = Variational(nn.Linear(2, 2), prior=(0.0, 1.0), deviation=0.3)
    variational(torch.ones(4, 2)).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in variational.parameters())


def test_normalisation_layers_stay_as_they_are_and_keep_their_statistics():
    torch.manual_seed(0)
    variational = Variational(resnet18(3), prior=(0.0, 1.0), deviation=0.05)
    assert not any("bn" in name or "norm" in name for name in variational.names)
    layers = [m for m in variational.module.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    random = sum(p.numel() for layer in layers for p in layer.parameters())
    assert sum(mean.numel() for mean, _ in variational.posterior().values()) == random
    norm = next(m for m in variational.module.modules() if isinstance(m, nn.BatchNorm2d))
    variational.train()(torch.randn(4, 3, 8, 8))
    assert norm.num_batches_tracked == 1
    assert norm.running_mean.any()


def test_a_weight_that_two_layers_share_is_drawn_once():
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    variational = Variational(nn.Sequential(first, second), prior=(0.0, 1.0), deviation=0.5)
    assert variational.names == ("0.weight",) or variational.names == ("1.weight",)
    drawn = variational.draw(seed=0)
    assert drawn[0].weight is drawn[1].weight
    assert not torch.equal(drawn[0].weight, first.weight)


# The posterior


@pytest.mark.parametrize("prior", [(-1.0, 0.5), (1.0, 2.0)])
def test_the_posterior_of_one_weight_is_the_best_gaussian(prior):
    x, y = logistic()
    mean, deviation = best_gaussian(x, y, prior)
    method = CredalBayesian(
        OneWeight,
        members=1,
        priors=[prior],
        kl_weight=1 / len(x),
        trainer=Trainer(epochs=60, learning_rate=0.05),
    ).fit([batch(x, y)] * 20)
    ((found_mean, found_deviation),) = method.members[0].posterior().values()
    assert abs(found_mean.item() - mean) < 0.15 * deviation
    assert found_deviation.item() == pytest.approx(deviation, rel=0.15)


@pytest.mark.filterwarnings("ignore:member 0 did not converge")
def test_more_data_narrow_the_posterior_and_outweigh_the_prior():
    def posterior(n):
        trainer = Trainer(epochs=60, learning_rate=0.05)
        method = CredalBayesian(OneWeight, members=1, priors=[(-1.0, 0.3)], trainer=trainer)
        x, y = logistic(n)
        loader = DataLoader(TensorDataset(*batch(x, y)), batch_size=n // 10)
        ((mean, deviation),) = method.fit(loader).members[0].posterior().values()
        return mean.item(), deviation.item()

    few, many = posterior(20), posterior(2000)
    assert few[0] < 0.3 < 1.0 < many[0]
    assert many[1] < few[1]


@pytest.mark.filterwarnings("ignore:member 0 did not converge")
def test_the_divergence_counts_by_one_over_the_number_of_examples():
    x, y = logistic(40)

    def first_loss(loader, **settings):
        method = CredalBayesian(
            OneWeight,
            members=1,
            priors=[(1.0, 0.1)],
            deviation=1e-7,
            trainer=Trainer(epochs=1, learning_rate=0.0),
            **settings,
        )
        method.fit(loader)
        (loss,) = method.trainings[0].losses
        return loss, method.members[0]

    loader = DataLoader(TensorDataset(*batch(x, y)), batch_size=8)
    by_dataset, member = first_loss(loader)
    by_counting, _ = first_loss(list(loader))
    likelihood_only, _ = first_loss(loader, kl_weight=0.0)
    ((mean, deviation),) = member.posterior().values()
    divergence = kl_divergence(Normal(mean, deviation), Normal(1.0, 0.1)).item()
    assert by_dataset - likelihood_only == pytest.approx(divergence / 40, rel=1e-4)
    assert by_counting == pytest.approx(by_dataset, rel=1e-5)


# Several priors


def test_priors_are_evenly_spread():
    np.testing.assert_allclose(
        even_priors(5), [(-1, 0.1), (-0.5, 0.575), (0, 1.05), (0.5, 1.525), (1, 2)]
    )
    assert CredalBayesian(net, members=3).priors == [(-1.0, 0.1), (0.0, 1.05), (1.0, 2.0)]


def test_every_member_has_its_prior_and_a_vertex(fitted):
    x, y = blobs(seed=1)
    credal = fitted.predict_credal(x)
    assert [member.prior for member in fitted.members] == even_priors(4)
    assert credal.vertices.shape == (120, 4, 3)
    np.testing.assert_allclose(credal.vertices.sum(axis=2), 1)
    p = fitted.predict_proba(x)
    np.testing.assert_array_equal(p, credal.point)
    assert credal.contains(p).all()
    assert (p.argmax(axis=1) == y.numpy()).mean() > 0.9
    assert all(training.converged for training in fitted.trainings)


def test_a_prediction_is_one_draw_per_member_for_all_inputs(fitted):
    x, _ = blobs(700, seed=2)  # several batches
    whole, parts = fitted.predict_credal(x), fitted.predict_credal(x.split(100))
    np.testing.assert_allclose(whole.vertices, parts.vertices, atol=1e-6)
    drawn = fitted.members[2].draw(seed=5)
    weights = drawn.state_dict()
    for name, (mean, deviation) in fitted.members[2].posterior().items():
        noise = (weights[name] - mean) / deviation
        assert noise.abs().max() < 6
        assert noise.abs().max() > 0


def test_seeds_make_draws_repeatable_and_different(fitted):
    x, _ = blobs(30)
    first = fitted.predict_credal(x).vertices
    np.testing.assert_array_equal(first, fitted.predict_credal(x).vertices)
    np.testing.assert_array_equal(first, fitted.predict_credal(x, seed=0).vertices)
    assert not np.array_equal(first, fitted.predict_credal(x, seed=1).vertices)
    state = torch.get_rng_state()
    fitted.predict_credal(x)
    assert torch.equal(state, torch.get_rng_state())


def test_members_draw_independently_of_each_other():
    trainer = Trainer(epochs=30, learning_rate=0.05)
    method = CredalBayesian(net, members=2, kl_weight=0.0, deviation=0.2, trainer=trainer)
    x, y = blobs(60)
    method.fit([(x, y)])
    method.members[1].load_state_dict(method.members[0].state_dict())
    first, second = method.predict_credal(x).vertices.swapaxes(0, 1)
    assert np.abs(first - second).max() > 0.01


def test_training_is_repeatable_and_a_folder_keeps_it(tmp_path):
    x, y = blobs(60)

    def vertices(seed, folder=None, **settings):
        trainer = Trainer(epochs=10, learning_rate=0.05, seed=seed)
        settings = {"kl_weight": 1e-4, "members": 2, **settings}
        method = CredalBayesian(net, trainer=trainer, folder=folder, **settings).fit([(x, y)])
        return method.predict_credal(x, seed=9).vertices

    first = vertices(0, tmp_path)
    np.testing.assert_array_equal(first, vertices(0))
    np.testing.assert_array_equal(first, vertices(0, tmp_path))
    assert not np.array_equal(first, vertices(1))
    with pytest.raises(ValueError, match="prior"):
        vertices(0, tmp_path, members=3)
    with pytest.raises(ValueError, match="kl_weight"):
        vertices(0, tmp_path, kl_weight=1e-3)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="priors must be 2 pairs, one per member: got 1"):
        CredalBayesian(net, members=2, priors=[(0.0, 1.0)])
    with pytest.raises(ValueError, match=r"positive standard deviation: got \(0.0, 0.0\)"):
        CredalBayesian(net, members=1, priors=[(0.0, 0.0)])
    with pytest.raises(ValueError, match="kl_weight must be a finite number, not negative: got -1"):
        CredalBayesian(net, kl_weight=-1)
    with pytest.raises(ValueError, match="deviation must be positive: got 0"):
        CredalBayesian(net, deviation=0)
    with pytest.raises(ValueError, match="linear or convolutional layers: got none"):
        CredalBayesian(lambda: nn.LayerNorm(2)).fit([blobs(9)])
    with pytest.raises(ValueError, match="has seen no data"):
        CredalBayesian(net).predict_credal(blobs(9)[0])
