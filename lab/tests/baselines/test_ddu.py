"""Deep deterministic uncertainty: densities against SciPy's, on features that are known."""

import numpy as np
import pytest
from scipy.special import entr, softmax
from scipy.stats import multivariate_normal

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from decal_lab.baselines import DeepDeterministic, Trainer, mlp, small_conv  # noqa: E402
from decal_lab.baselines._ddu import JITTERS, _factors  # noqa: E402

pytestmark = pytest.mark.torch

COUNTS = (60, 30, 10)


def drawn(seed=0, F=4):
    """Three Gaussian classes, 60, 30 and 10 examples, with covariances of their own."""
    rng = np.random.default_rng(seed)
    x = [rng.normal(size=(n, F)) @ rng.normal(size=(F, F)) + 4 * rng.normal(size=F) for n in COUNTS]
    y = np.repeat(np.arange(3), COUNTS)
    order = rng.permutation(len(y))
    return np.concatenate(x)[order], y[order]


def tensors(x, y):
    return torch.tensor(x, dtype=torch.float64), torch.tensor(y)


def classifier(F=4, K=3):
    torch.manual_seed(0)
    return torch.nn.Linear(F, K).double()


def identity(inputs):
    return inputs


@pytest.fixture
def fitted():
    loader = DataLoader(TensorDataset(*tensors(*drawn())), batch_size=16, shuffle=True)
    return DeepDeterministic(classifier(), features=identity).fit(loader)


def test_moments_are_those_of_every_class(fitted):
    x, y = drawn()
    for k, n in enumerate(COUNTS):
        np.testing.assert_allclose(fitted.means[k], x[y == k].mean(axis=0))
        np.testing.assert_allclose(fitted.covariances[k], np.cov(x[y == k].T))
        assert fitted.weights[k] == n / 100
    assert fitted.jitter == 0


def test_the_score_is_minus_scipys_log_density_of_the_mixture(fitted):
    x, y = drawn()
    queries = np.random.default_rng(1).normal(size=(50, 4)) * 5
    mixture = sum(
        n / 100 * multivariate_normal(x[y == k].mean(axis=0), np.cov(x[y == k].T)).pdf(queries)
        for k, n in enumerate(COUNTS)
    )
    seen = mixture > 0
    np.testing.assert_allclose(fitted.score(queries)[seen], -np.log(mixture[seen]), rtol=1e-9)
    for k in range(3):
        expected = multivariate_normal(x[y == k].mean(axis=0), np.cov(x[y == k].T)).logpdf(queries)
        np.testing.assert_allclose(fitted.log_density(queries)[:, k], expected, rtol=1e-9)


def test_far_inputs_score_higher_and_never_underflow(fitted):
    scores = fitted.score(np.array([[1.0], [10.0], [1e3], [1e6]]) * np.ones(4))
    assert np.isfinite(scores).all()
    assert (np.diff(scores) > 0).all()


def test_aleatoric_uncertainty_is_the_entropy_of_the_softmax(fitted):
    x, _ = drawn(seed=2)
    with torch.no_grad():
        p = softmax(fitted.module(torch.tensor(x)).numpy(), axis=1)
    np.testing.assert_allclose(fitted.predict_proba(x), p, rtol=1e-12)
    np.testing.assert_allclose(fitted.aleatoric(x), entr(p).sum(axis=1), rtol=1e-12)


def test_many_rows_and_features_are_whitened_in_blocks(fitted, monkeypatch):
    x, _ = drawn(seed=3)
    whole = fitted.score(x)
    monkeypatch.setattr("decal_lab.baselines._ddu.BLOCK_ELEMENTS", 28)
    np.testing.assert_allclose(fitted.score(x), whole, rtol=1e-12)


# Covariances that need help


def test_the_jitter_is_the_first_of_the_ladder_that_suffices():
    rng = np.random.default_rng(0)
    for rank in (1, 3, 6):
        low = rng.normal(size=(2, 6, rank)) * 10.0 ** rng.integers(-4, 4)
        covariances = low @ low.swapaxes(1, 2)
        jitter, factors = _factors(covariances, least=0.0)
        for tried in JITTERS:  # literally, one by one
            try:
                np.linalg.cholesky(covariances + tried * np.eye(6))
            except np.linalg.LinAlgError:
                continue
            break
        assert jitter == tried
        product = factors @ factors.swapaxes(1, 2)
        np.testing.assert_allclose(product, covariances + jitter * np.eye(6), atol=1e-10)
        assert (jitter == 0) == (rank == 6)


def test_repeated_features_need_a_jitter_and_a_larger_one_may_be_asked_for():
    x, y = drawn()
    x = np.concatenate([x, x[:, :1]], axis=1)  # singular
    method = DeepDeterministic(classifier(5), features=identity).fit([tensors(x, y)])
    assert method.jitter > 0
    assert np.isfinite(method.score(x)).all()
    strong = DeepDeterministic(classifier(5), features=identity, jitter=0.5).fit([tensors(x, y)])
    assert strong.jitter == 0.5
    queries = x[:20] + 0.1
    for k in range(3):
        wide = np.cov(x[y == k].T) + 0.5 * np.eye(5)
        np.testing.assert_allclose(
            strong.log_density(queries)[:, k],
            multivariate_normal(x[y == k].mean(axis=0), wide).logpdf(queries),
        )


def test_a_dead_feature_makes_what_excites_it_all_but_impossible():
    x, y = drawn()
    x[:, 3] = 0.0
    method = DeepDeterministic(classifier(), features=identity).fit([tensors(x, y)])
    assert 0 < method.jitter <= 1e-300
    alive, excited = x[:5].copy(), x[:5].copy()
    excited[:, 3] = 1.0
    assert np.isfinite(method.score(alive)).all()
    assert (method.score(excited) > 1e300).all()
    assert (method.score(100 * excited) == np.inf).all()
    ranked = DeepDeterministic(classifier(), features=identity, jitter=1e-6)
    assert np.isfinite(ranked.fit([tensors(x, y)]).score(excited)).all()


def test_classes_that_never_occur_have_no_weight():
    x, y = drawn()
    with_gap = np.where(y == 2, 3, y)
    method = DeepDeterministic(classifier(K=5), features=identity).fit([tensors(x, with_gap)])
    same = DeepDeterministic(classifier(K=3), features=identity).fit([tensors(x, y)])
    np.testing.assert_allclose(method.weights, [0.6, 0.3, 0, 0.1, 0])
    assert np.isnan(method.means[2]).all()
    assert (method.log_density(x)[:, [2, 4]] == -np.inf).all()
    np.testing.assert_allclose(method.score(x), same.score(x), rtol=1e-12)


# Where features come from


@pytest.fixture(scope="module")
def trained():
    x, y = drawn()
    x = torch.tensor(x, dtype=torch.float32)
    module = mlp(3, inputs=4, hidden=(16, 5))
    Trainer(epochs=30, learning_rate=0.02).train(module, [(x, torch.tensor(y))])
    return module, x, torch.tensor(y)


def test_features_by_default_by_function_and_by_name_agree(trained):
    module, x, y = trained
    calls = []
    handle = module.head.register_forward_hook(lambda *call: calls.append(call))
    module(x)
    handle.remove()
    ((_, (last,), _),) = calls
    z = last.detach().double().numpy()
    own = DeepDeterministic(module, jitter=1e-6).fit([(x, y)])
    given = DeepDeterministic(module, features=module.features, jitter=1e-6).fit([(x, y)])
    for k in range(3):
        np.testing.assert_allclose(own.means[k], z[y.numpy() == k].mean(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(own.score(x), given.score(x))
    name = next(n for n, m in module.named_modules() if isinstance(m, torch.nn.Linear))
    hidden = DeepDeterministic(module, features=name, jitter=1e-6).fit([(x, y)])
    first = module.get_submodule(name)(x).detach().double().numpy()
    np.testing.assert_allclose(hidden.means[0], first[y.numpy() == 0].mean(axis=0), rtol=1e-5)
    assert not module.get_submodule(name)._forward_hooks


def test_features_of_images_are_flattened():
    torch.manual_seed(0)
    x, y = torch.randn(40, 1, 6, 6), torch.arange(40) % 2
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 5), torch.nn.Flatten(), torch.nn.Linear(8, 2))
    method = DeepDeterministic(net, features="0").fit([(x, y)])
    expected = net[0](x).detach().double().numpy().reshape(40, 8)
    np.testing.assert_allclose(method.means[1], expected[1::2].mean(axis=0), rtol=1e-5)


def test_dropout_is_off_and_the_mode_is_kept():
    torch.manual_seed(0)
    module = small_conv(2).train()
    x, y = torch.randn(40, 1, 28, 28), torch.arange(40) % 2
    method = DeepDeterministic(module, jitter=1e-3).fit([(x, y)])
    np.testing.assert_array_equal(method.score(x), method.score(x))
    assert all(part.training for part in module.modules())


def test_what_cannot_be_used_is_refused(trained):
    module, x, y = trained
    with pytest.raises(ValueError, match="features must be given for a Linear, which has no .feat"):
        DeepDeterministic(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="features must name a submodule: got 'tail'. There are: "):
        DeepDeterministic(module, features="tail")
    with pytest.raises(ValueError, match="features must be a tensor with a row per input: got "):
        DeepDeterministic(module, features=lambda inputs: inputs[:, 0]).fit([(x, y)])
    with pytest.raises(ValueError, match="two examples or more of every class.*got one of class 1"):
        DeepDeterministic(module).fit([(x[:3], torch.tensor([0, 0, 1]))])
    with pytest.raises(ValueError, match="labels must lie in 0 to 2.* got 3 at index 1"):
        DeepDeterministic(module).fit([(x[:2], torch.tensor([0, 3]))])
    with pytest.raises(ValueError, match="has seen no data"):
        DeepDeterministic(module).score(x)
