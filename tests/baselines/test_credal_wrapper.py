"""Credal Wrapper, and what it shares with Credal Ensembling: models, logits, inputs."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import decal  # noqa: E402
from decal.baselines import CredalWrapper, Trainer, credal_wrapper, mlp  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Networks this small are slower on several, above all beside other work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def dirichlet(n=40, M=6, K=5, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(K, 0.5), size=(n, M))


def labelled(n=120, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 4, generator=generator)
    return x, x[:, :3].argmax(dim=1)


def literal_softmax(logits):
    z = np.asarray(logits, dtype=np.float64)
    return np.array([[np.exp(v) / np.exp(row).sum() for v in row] for row in z])


def test_bounds_are_the_least_and_the_greatest_prediction_of_each_class():
    p = dirichlet()
    credal = credal_wrapper(p, classes="abcde")
    for row in range(len(p)):
        for k in range(5):
            predictions = [p[row, m, k] for m in range(6)]
            assert credal.lower[row, k] == min(predictions)
            assert credal.upper[row, k] == max(predictions)
            assert credal.point[row, k] == pytest.approx(sum(predictions) / 6)
    assert credal.classes == tuple("abcde")
    assert not credal.is_empty.any()
    for m in range(6):
        assert credal.contains(p[:, m], atol=0).all()


def test_one_member_gives_a_point():
    p = dirichlet(M=1)
    credal = credal_wrapper(p)
    assert np.array_equal(credal.lower, credal.upper)
    np.testing.assert_allclose(credal.intersection_probability(), p[:, 0])


def test_trained_members_are_wrapped():
    x, y = labelled()
    trainer = Trainer(epochs=15, learning_rate=0.02)
    method = CredalWrapper(lambda: mlp(3, inputs=4, hidden=(16,)), members=4, trainer=trainer)
    assert repr(method) == "CredalWrapper: 4 members, not fitted"
    with pytest.raises(decal.NotFittedError, match="CredalWrapper has seen no data"):
        method.predict_credal(x)
    loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
    assert method.fit(loader) is method
    assert len(method.members) == len(method.trainings) == 4
    assert all(t.converged and t.epochs == 15 for t in method.trainings)
    with torch.no_grad():
        p = np.stack([literal_softmax(net(x).numpy()) for net in method.members])
    credal = method.predict_credal(x)
    np.testing.assert_allclose(credal.lower, p.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(credal.upper, p.max(axis=0), atol=1e-12)
    np.testing.assert_allclose(method.predict_proba(x), p.mean(axis=0), atol=1e-12)
    assert np.mean(method.predict_proba(x).argmax(axis=1) == y.numpy()) > 0.8
    assert credal.lower.dtype == np.float64


def test_a_folder_keeps_what_was_trained(tmp_path):
    x, y = labelled()

    def made():
        trainer = Trainer(epochs=8, learning_rate=0.05)
        return CredalWrapper(
            lambda: mlp(3, inputs=4, hidden=(8,)), members=2, trainer=trainer, folder=tmp_path
        )

    first = made().fit([(x, y)])
    again = made().fit([(x, y)])
    assert again.trainings == first.trainings
    assert np.array_equal(first.predict_credal(x).lower, again.predict_credal(x).lower)


class Moody(nn.Module):
    """Says something else in training mode."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.inner = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, features):
        return self.inner(features)


def test_inputs_come_in_all_shapes_and_give_the_same():
    models = [Moody(seed).train() for seed in range(3)]
    models[0].inner[1].eval()
    modes = [m.training for model in models for m in model.modules()]
    x, y = labelled(n=1200)
    method = CredalWrapper.from_models(models)
    expected = method.predict_credal(x)
    pairs = TensorDataset(x, y)
    for inputs in (
        x.numpy(),
        x.numpy().astype(np.float64),
        DataLoader(pairs, batch_size=97),
        DataLoader(TensorDataset(x), batch_size=97),
        [x[:500], x[500:]],
        ({"features": part, "labels": part} for part in (x[:7], x[7:])),
    ):
        credal = method.predict_credal(inputs)
        np.testing.assert_allclose(credal.lower, expected.lower, atol=1e-6)
        np.testing.assert_allclose(credal.upper, expected.upper, atol=1e-6)
    assert [m.training for model in models for m in model.modules()] == modes


def test_members_see_the_same_rows_of_a_loader_that_shuffles():
    model = Moody(0)
    twins = CredalWrapper.from_models([model, model])
    x, y = labelled()
    credal = twins.predict_credal(DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True))
    assert np.array_equal(credal.lower, credal.upper)


def test_scikit_learn_estimators_are_models_too():
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.tree import DecisionTreeClassifier

    bunch = load_iris()
    names = bunch.target_names[bunch.target]
    models = [
        model.fit(bunch.data[::2], names[::2])
        for model in (LogisticRegression(max_iter=500), GaussianNB(), DecisionTreeClassifier())
    ]
    method = CredalWrapper.from_models(models)
    p = np.stack([model.predict_proba(bunch.data) for model in models])
    credal = method.predict_credal(bunch.data)
    assert credal.classes == ("setosa", "versicolor", "virginica")
    np.testing.assert_allclose(credal.lower, p.min(axis=0))
    np.testing.assert_allclose(credal.upper, p.max(axis=0))
    np.testing.assert_allclose(method.predict_proba(bunch.data.tolist()), p.mean(axis=0))
    fewer = GaussianNB().fit(bunch.data[:100], names[:100])
    with pytest.raises(ValueError, match=r"models\[3\] must have the classes of models\[0\]"):
        CredalWrapper.from_models([*models, fewer])


def test_saved_logits_are_enough():
    rng = np.random.default_rng(0)
    logits = [rng.normal(size=(30, 4)) * 5 for _ in range(3)]
    logits[1] = torch.tensor(logits[1])
    method = CredalWrapper.from_logits(logits)
    p = np.stack([literal_softmax(z) for z in logits])
    np.testing.assert_allclose(method.predict_credal().upper, p.max(axis=0))
    np.testing.assert_allclose(method.predict_proba(), p.mean(axis=0))
    huge = CredalWrapper.from_logits([[[1e4, -1e4]], [[-1e4, 1e4]]]).predict_credal()
    assert huge.lower.tolist() == [[0.0, 0.0]]
    assert huge.upper.tolist() == [[1.0, 1.0]]
    with pytest.raises(ValueError, match="inputs must be left out, as the logits were given"):
        method.predict_credal(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="factory must be a function that builds a module"):
        method.fit([labelled()])


def test_what_is_wrong_is_named():
    x, _ = labelled()
    with pytest.raises(ValueError, match=r"probabilities\[:, 1\] must sum to 1 .* 0.9 in row 0"):
        credal_wrapper([[[0.5, 0.5], [0.5, 0.4]]])
    with pytest.raises(ValueError, match="probabilities must be inputs × members × classes"):
        credal_wrapper([[0.5, 0.5]])
    with pytest.raises(ValueError, match=r"logits\[1\] must have the shape of logits\[0\]"):
        CredalWrapper.from_logits([np.zeros((4, 3)), np.zeros((5, 3))])
    with pytest.raises(ValueError, match="logits must hold a matrix per member"):
        CredalWrapper.from_logits([])
    with pytest.raises(ValueError, match="models must hold one classifier or more"):
        CredalWrapper.from_models([])
    with pytest.raises(ValueError, match=r"models\[1\] must be a module or an estimator"):
        CredalWrapper.from_models([Moody(0), "net"])
    with pytest.raises(ValueError, match="members must be a whole number, at least 1: got 0"):
        CredalWrapper(lambda: Moody(0), members=0)
    method = CredalWrapper.from_models([Moody(0), nn.Linear(4, 2)])
    with pytest.raises(ValueError, match="member 1 must return as many columns as member 0"):
        method.predict_credal(x)
    with pytest.raises(ValueError, match="inputs must be given to models: got None"):
        method.predict_credal()
    with pytest.raises(ValueError, match="inputs must hold at least one row: got none"):
        method.predict_credal(x[:0])
    with pytest.raises(ValueError, match="inputs must have a row per example"):
        method.predict_credal(x[0])
    with pytest.raises(ValueError, match="inputs must be an array, a tensor or a loader"):
        method.predict_credal(3)
    broken = Moody(0)
    nn.init.constant_(broken.inner[2].bias, float("nan"))
    with pytest.raises(ValueError, match="member 1 must return finite numbers: got nan for inp"):
        CredalWrapper.from_models([Moody(0), broken]).predict_credal(x)


def test_without_pytorch_the_package_names_the_command():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "try:\n    import decal.baselines\nexcept ImportError as error:\n    print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "decal.baselines needs PyTorch: pip install 'decal[torch]'"
