"""Relative likelihood: networks stop where they should, and boxes hold the plausible ones."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from decal_lab.baselines import (  # noqa: E402
    ConvergenceWarning,
    CredalRelativeLikelihood,
    Trainer,
    train_member,
)
from decal_lab.baselines._relative_likelihood import mean_log_likelihood  # noqa: E402

pytestmark = pytest.mark.torch


def blobs(n=180, seed=0):
    """Three classes around the corners of a triangle, overlapping."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    corners = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])
    return corners[labels] + 1.2 * torch.randn(n, 2, generator=generator), labels


def shuffled(**settings):
    generator = torch.Generator().manual_seed(4)
    return DataLoader(
        TensorDataset(*blobs()), batch_size=30, shuffle=True, generator=generator, **settings
    )


def net():
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))


def untidy():
    """All that could be disturbed by looking at the likelihood in the midst of an epoch."""
    return nn.Sequential(
        nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)
    )


def literal_log_likelihood(module, x, y):
    """Mean log-probability of the labels, row by row."""
    total = 0.0
    for row, label in zip(x, y, strict=True):
        with torch.no_grad():
            z = module.eval()(row[None])[0].double().numpy()
        total += z[label] - z.max() - np.log(np.exp(z - z.max()).sum())
    return total / len(x)


def relative_likelihoods(method):
    fits = [literal_log_likelihood(module, *blobs()) for module in method.members]
    return np.exp(np.array(fits) - fits[0])


@pytest.fixture(scope="module")
def fitted():
    method = CredalRelativeLikelihood(
        net, members=6, bias=8.0, check_every=1, trainer=Trainer(epochs=60, learning_rate=0.01)
    )
    return method.fit(shuffled())


# Where networks stop


def test_targets_are_evenly_spread():
    method = CredalRelativeLikelihood(net, members=5)
    np.testing.assert_allclose(method.targets, [1, 0.2, 0.4, 0.6, 0.8])
    own = CredalRelativeLikelihood(net, members=3, targets=[0.8, 0.9])
    np.testing.assert_allclose(own.targets, [1, 0.8, 0.9])


def test_members_reach_their_targets_and_stop_there(fitted):
    found = relative_likelihoods(fitted)
    np.testing.assert_allclose(fitted.relative_likelihoods, found, rtol=1e-5)
    assert (found >= fitted.targets - 1e-6).all()
    assert (found[1:] < fitted.targets[1:] + 0.1).all()  # at most one step too far
    assert fitted.relative_likelihoods[0] == 1.0
    assert all(training.reason.startswith("stopped") for training in fitted.trainings[1:])


def test_the_first_member_is_trained_as_usual(fitted):
    usual = train_member(net, shuffled(), index=0, trainer=fitted.trainer)
    for found, expected in zip(
        fitted.members[0].parameters(), usual.module.parameters(), strict=True
    ):
        assert torch.equal(found, expected)
    assert fitted.trainings[0].reason == "all epochs"


def test_looking_rarely_overshoots_and_says_so(fitted):
    method = CredalRelativeLikelihood(
        net, members=2, targets=[0.2], bias=8.0, check_every=10**6, trainer=fitted.trainer
    ).fit(shuffled())
    often = CredalRelativeLikelihood(
        net, members=2, targets=[0.2], bias=8.0, check_every=1, trainer=fitted.trainer
    ).fit(shuffled())
    assert method.relative_likelihoods[1] > often.relative_likelihoods[1] >= 0.2
    np.testing.assert_allclose(method.relative_likelihoods, relative_likelihoods(method), rtol=1e-5)


def test_a_member_that_falls_short_is_reported_and_kept():
    method = CredalRelativeLikelihood(
        net, members=3, targets=[0.001, 0.99], bias=5, trainer=Trainer(epochs=2)
    )
    with pytest.warns(ConvergenceWarning) as caught:
        method.fit(shuffled())
    short = [str(w.message) for w in caught if "member 2 must reach" in str(w.message)]
    assert len(short) == 1
    reached = f"{method.relative_likelihoods[2]:.3g}"
    assert f"a relative likelihood of 0.99: got {reached} after 2 of 2 epochs (all" in short[0]
    assert len(method.members) == len(method.relative_likelihoods) == 3
    assert method.relative_likelihoods[2] < 0.99
    np.testing.assert_allclose(method.relative_likelihoods, relative_likelihoods(method), rtol=1e-4)


def test_a_member_whose_training_diverges_is_reported_and_never_heard():
    built = []

    def second_is_broken():
        built.append(net())
        if len(built) == 2:
            nn.init.constant_(built[1][0].weight, torch.nan)
        return built[-1]

    trainer = Trainer(epochs=30, learning_rate=0.01)
    method = CredalRelativeLikelihood(second_is_broken, members=3, bias=5, trainer=trainer)
    with pytest.warns(ConvergenceWarning) as caught:
        method.fit(shuffled())
    assert any("got nan after 1 of 30 epochs (loss became nan" in str(w.message) for w in caught)
    assert np.isnan(method.relative_likelihoods).tolist() == [False, True, False]
    np.testing.assert_array_equal(method.plausible(0.0), [0, 2])
    assert np.isfinite(method.predict_credal(blobs(9)[0], alpha=0.0).upper).all()


@pytest.mark.filterwarnings("ignore::decal_lab.baselines.ConvergenceWarning")
def test_members_start_out_certain_of_one_class_in_turn():
    method = CredalRelativeLikelihood(
        net, members=6, trainer=Trainer(epochs=1, learning_rate=0.0)
    ).fit(shuffled())
    for m, module in enumerate(method.members):
        bias = module[2].bias.detach().numpy()
        if m == 0:
            assert (np.abs(bias) < 1).all()
        else:
            assert bias[(m - 1) % 3] == 100
            assert (np.abs(np.delete(bias, (m - 1) % 3)) < 1).all()


@pytest.mark.filterwarnings("ignore::decal_lab.baselines.ConvergenceWarning")
def test_looking_does_not_change_the_training():
    trainer = Trainer(epochs=3, learning_rate=0.01)
    method = CredalRelativeLikelihood(
        untidy, members=2, targets=[1.0], bias=20.0, check_every=1, trainer=trainer
    ).fit(shuffled())

    def start(module, index):
        with torch.no_grad():
            module[4].bias[index - 1] = 20.0

    unseen = train_member(untidy, shuffled(), index=1, trainer=trainer, prepare=start)
    assert method.trainings[1].losses == unseen.training.losses
    for name, expected in unseen.module.state_dict().items():
        assert torch.equal(method.members[1].state_dict()[name], expected), name


def test_the_likelihood_is_that_of_evaluation_and_leaves_no_trace():
    torch.manual_seed(0)
    module, loader = untidy().train(), shuffled()
    module(torch.randn(50, 2))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    batches = iter(loader)
    next(batches)
    states = torch.get_rng_state(), loader.generator.get_state()
    found = mean_log_likelihood(module, loader)
    assert torch.equal(states[0], torch.get_rng_state())
    assert torch.equal(states[1], loader.generator.get_state())
    assert all(m.training for m in module.modules())
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
    assert len(list(batches)) == 5
    assert found == pytest.approx(literal_log_likelihood(module, *blobs()), rel=1e-6)


def test_patience_applies_to_the_first_member_only():
    trainer = Trainer(epochs=300, learning_rate=0.02, patience=2)
    method = CredalRelativeLikelihood(net, members=3, bias=8.0, check_every=1, trainer=trainer)
    method.fit(shuffled(), validation=[blobs(seed=5)])
    assert method.trainings[0].reason == "no improvement for 2 epochs"
    assert all(training.validation == () for training in method.trainings[1:])
    assert (relative_likelihoods(method) >= method.targets - 1e-6).all()


# Boxes


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_boxes_span_the_plausible_members(fitted, alpha):
    x, _ = blobs(40, seed=1)
    with torch.no_grad():
        said = np.array([torch.softmax(m(x).double(), 1).numpy() for m in fitted.members])
    kept = relative_likelihoods(fitted) >= alpha - 1e-7
    credal = fitted.predict_credal(x, alpha=alpha)
    np.testing.assert_allclose(credal.lower, said[kept].min(axis=0), atol=1e-6)
    np.testing.assert_allclose(credal.upper, said[kept].max(axis=0), atol=1e-6)
    np.testing.assert_allclose(credal.point, said[0], atol=1e-6)
    np.testing.assert_array_equal(fitted.plausible(alpha), np.flatnonzero(kept))


def test_a_smaller_alpha_never_narrows(fitted):
    x, _ = blobs(40, seed=1)
    wide = None
    for alpha in np.linspace(0, 1, 11):
        box = fitted.predict_credal(x, alpha=alpha)
        assert box.contains(fitted.predict_proba(x)).all()
        if wide is not None:
            assert (wide.lower <= box.lower).all()
            assert (wide.upper >= box.upper).all()
        wide = box
    assert fitted.predict_credal(x, alpha=0.0).epistemic("width").mean() > 0.1
    default = fitted.predict_credal(x)
    np.testing.assert_array_equal(default.lower, fitted.predict_credal(x, alpha=0.8).lower)


def test_the_first_member_gives_the_probabilities(fitted):
    x, y = blobs(seed=1)
    p = fitted.predict_proba(x)
    with torch.no_grad():
        expected = torch.softmax(fitted.members[0](x).double(), dim=1).numpy()
    np.testing.assert_allclose(p, expected, atol=1e-6)
    assert (p.argmax(axis=1) == y.numpy()).mean() > 0.75


def test_a_folder_keeps_the_members_and_refuses_other_targets(fitted, tmp_path):
    x, _ = blobs(40)

    def lower(targets):
        method = CredalRelativeLikelihood(
            net,
            members=2,
            targets=targets,
            bias=8.0,
            check_every=1,
            trainer=fitted.trainer,
            folder=tmp_path,
        )
        return method.fit(shuffled()).predict_credal(x, alpha=0.1).lower

    np.testing.assert_array_equal(lower([0.5]), lower([0.5]))
    with pytest.raises(ValueError, match="target.* 0.5 in member-001.json, and 0.6 now"):
        lower([0.6])


# What is refused


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="members must be a whole number, at least 2: got 1"):
        CredalRelativeLikelihood(net, members=1)
    with pytest.raises(ValueError, match="targets must be 3, one per member but the first: got 1"):
        CredalRelativeLikelihood(net, members=4, targets=[0.5])
    with pytest.raises(ValueError, match="targets must be positive: got 0"):
        CredalRelativeLikelihood(net, members=2, targets=[0.0])
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1: got 2"):
        CredalRelativeLikelihood(net, alpha=2)
    with pytest.raises(ValueError, match="has seen no data"):
        CredalRelativeLikelihood(net).predict_credal(torch.zeros(1, 2))
    with pytest.raises(ValueError, match="has seen no data"):
        CredalRelativeLikelihood(net).predict_proba(torch.zeros(1, 2))


def test_networks_and_loaders_that_cannot_be_used_are_refused():
    trainer = Trainer(epochs=20, learning_rate=0.1)
    method = CredalRelativeLikelihood(lambda: nn.Linear(2, 3, bias=False), trainer=trainer)
    with pytest.raises(ValueError, match="last linear layer has a bias: got Linear"):
        method.fit(shuffled())
    loader = DataLoader(TensorDataset(*blobs()), num_workers=1, persistent_workers=True)
    with pytest.raises(ValueError, match="got persistent_workers=True"):
        CredalRelativeLikelihood(net).fit(loader)
