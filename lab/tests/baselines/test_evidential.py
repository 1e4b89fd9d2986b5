"""Evidential deep learning: the loss against SciPy's Dirichlet, sampling and torch's KL."""

import numpy as np
import pytest
from scipy.special import digamma, gammaln
from scipy.stats import dirichlet

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from decal_lab.baselines import Evidential, Trainer  # noqa: E402
from decal_lab.baselines._evidential import misleading_evidence, squared_error  # noqa: E402

pytestmark = pytest.mark.torch

ALPHA = np.array([[1.0, 1.0, 1.0], [4.0, 1.5, 2.0], [1.2, 30.0, 7.0], [150.0, 1.0, 1.0]])
LABELS = np.array([0, 1, 1, 2])


def tensors():
    return torch.tensor(ALPHA), torch.tensor(LABELS)


def blobs(n=240, seed=0):
    """Three classes around the corners of a triangle, well apart."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    corners = torch.tensor([[0.0, 4.0], [4.0, -2.0], [-4.0, -2.0]])
    return corners[labels] + 0.5 * torch.randn(n, 2, generator=generator), labels


def net():
    return torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))


@pytest.fixture(scope="module", params=["relu", "softplus"])
def fitted(request):
    loader = DataLoader(TensorDataset(*blobs()), batch_size=40)
    trainer = Trainer(epochs=25, learning_rate=0.01)
    return Evidential(net, trainer=trainer, evidence=request.param).fit(loader)


# The loss


def test_the_risk_is_the_mean_squared_error_of_draws_from_the_dirichlet():
    found = squared_error(*tensors())
    for row, (alpha, label) in enumerate(zip(ALPHA, LABELS, strict=True)):
        target = np.eye(3)[label]
        draws = np.random.default_rng(row).dirichlet(alpha, size=200_000)
        errors = ((target - draws) ** 2).sum(axis=1)
        assert abs(found[row].item() - errors.mean()) < 5 * errors.std() / np.sqrt(len(errors))


def test_the_risk_is_squared_bias_plus_scipys_variance():
    found = squared_error(*tensors())
    for row, (alpha, label) in enumerate(zip(ALPHA, LABELS, strict=True)):
        bias = np.eye(3)[label] - dirichlet.mean(alpha)
        expected = (bias**2).sum() + dirichlet.var(alpha).sum()
        assert found[row].item() == pytest.approx(expected, rel=1e-12)


def test_the_penalty_is_torchs_divergence_after_removing_the_evidence_for_the_label():
    found = misleading_evidence(*tensors())
    for row, (alpha, label) in enumerate(zip(ALPHA, LABELS, strict=True)):
        others = alpha.copy()
        others[label] = 1.0
        expected = torch.distributions.kl_divergence(
            torch.distributions.Dirichlet(torch.tensor(others)),
            torch.distributions.Dirichlet(torch.ones(3, dtype=torch.float64)),
        )
        assert found[row].item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-12)


def test_evidence_for_the_right_class_only_is_not_penalised():
    alpha = torch.tensor([[1.0, 9.0, 1.0], [1.0, 1.0, 500.0]])
    assert misleading_evidence(alpha, torch.tensor([1, 2])).abs().max() < 1e-6


@pytest.mark.parametrize(("epoch", "weight"), [(0, 0.0), (2, 0.5), (4, 1.0), (40, 1.0)])
def test_the_penalty_comes_in_gradually(epoch, weight):
    outputs = torch.tensor([[2.0, -1.0, 0.5], [0.0, 3.0, 1.0]], dtype=torch.float64)
    labels = torch.tensor([0, 2])
    method = Evidential(net, annealing=4)
    loss = method._loss(torch.nn.Identity(), outputs, labels, epoch)
    expected = []
    for e, y in zip(np.maximum(outputs.numpy(), 0), labels.numpy(), strict=True):
        a = e + 1
        risk = ((np.eye(3)[y] - dirichlet.mean(a)) ** 2).sum() + dirichlet.var(a).sum()
        a[y] = 1.0
        divergence = gammaln(a.sum()) - gammaln(a).sum() - gammaln(3)
        divergence += ((a - 1) * (digamma(a) - digamma(a.sum()))).sum()
        expected.append(risk + weight * divergence)
    assert loss.item() == pytest.approx(np.mean(expected), rel=1e-12)


# A trained network


def test_it_learns_and_reports_its_training(fitted):
    x, y = blobs(seed=1)
    p = fitted.predict_proba(x)
    assert (p.argmax(axis=1) == y.numpy()).mean() > 0.95
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert len(fitted.members) == len(fitted.trainings) == 1
    assert fitted.trainings[0].converged


def test_score_and_probabilities_follow_from_the_dirichlet(fitted):
    x, _ = blobs(seed=2)
    outputs = fitted.members[0](x).detach().double().numpy()
    evidence = np.maximum(outputs, 0) if fitted.evidence == "relu" else np.logaddexp(0, outputs)
    np.testing.assert_allclose(fitted.dirichlet(x), evidence + 1, rtol=1e-6)
    strength = 3 + evidence.sum(axis=1)
    np.testing.assert_allclose(fitted.score(x), 3 / strength, rtol=1e-6)
    np.testing.assert_allclose(
        fitted.predict_proba(x), (evidence + 1) / strength[:, None], rtol=1e-6
    )


def test_between_the_classes_there_is_less_evidence(fitted):
    x, _ = blobs(seed=3)
    assert fitted.score(torch.zeros(1, 2))[0] > fitted.score(x).max()


def test_a_network_without_evidence_is_wholly_uncertain():
    def silent():
        net = torch.nn.Linear(2, 4)
        torch.nn.init.zeros_(net.weight)
        torch.nn.init.constant_(net.bias, -1.0)
        return net

    x, y = blobs(12)
    with pytest.warns(UserWarning, match="did not converge"):
        method = Evidential(silent, trainer=Trainer(epochs=1)).fit([(x, y)])
    np.testing.assert_allclose(method.score(x), 1.0)
    np.testing.assert_allclose(method.predict_proba(x), 0.25)


def test_the_same_seed_gives_the_same_network(tmp_path):
    x, y = blobs(60)

    def scores(seed, folder=None):
        trainer = Trainer(epochs=5, learning_rate=0.02, seed=seed)
        method = Evidential(net, trainer=trainer, evidence="softplus", folder=folder)
        return method.fit([(x, y)]).score(x)

    first = scores(0, tmp_path)
    np.testing.assert_array_equal(first, scores(0))
    np.testing.assert_array_equal(first, scores(0, tmp_path))
    assert not np.array_equal(first, scores(1))


def test_a_folder_of_other_settings_is_refused(tmp_path):
    x, y = blobs(60)
    trainer = Trainer(epochs=5, learning_rate=0.02)
    Evidential(net, trainer=trainer, evidence="softplus", folder=tmp_path).fit([(x, y)])
    other = Evidential(net, trainer=trainer, evidence="softplus", annealing=3, folder=tmp_path)
    with pytest.raises(ValueError, match="annealing.* 10 in member-000.json, and 3 now"):
        other.fit([(x, y)])


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="evidence must be one of 'relu', 'softplus': got 'exp'"):
        Evidential(net, evidence="exp")
    with pytest.raises(ValueError, match="annealing must be a whole number, at least 1: got 0"):
        Evidential(net, annealing=0)
    with pytest.raises(ValueError, match="has seen no data"):
        Evidential(net).score(torch.zeros(1, 2))
    with pytest.raises(ValueError, match="labels must lie in 0 to 2.* got 3 at index 1"):
        Evidential(net).fit([(torch.zeros(2, 2), torch.tensor([0, 3]))])
