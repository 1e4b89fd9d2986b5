"""Training: what it computes, that it can be repeated and resumed, and what it refuses."""

import copy
import io
import math
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from decal_lab.baselines import (  # noqa: E402
    ConvergenceWarning,
    Trainer,
    train_member,
    train_members,
)
from lab_helpers.small_trainings import Counting, drawn, network, same_weights, shuffled  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::decal_lab.baselines.ConvergenceWarning"),  # few epochs
]


# What it computes


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_it_takes_the_steps_that_a_plain_loop_takes(optimizer, schedule):
    batches = [tuple(t[i : i + 32] for t in drawn()) for i in (0, 32, 64)]
    torch.manual_seed(3)
    net = nn.Linear(5, 3)
    plain = copy.deepcopy(net)
    trainer = Trainer(
        epochs=4, optimizer=optimizer, learning_rate=0.05, weight_decay=0.01, schedule=schedule
    )
    training = trainer.train(net, batches)

    if optimizer == "adam":
        steps = torch.optim.Adam(plain.parameters(), lr=0.05, weight_decay=0.01)
    else:
        steps = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(steps, T_max=4)
    losses = []
    for _ in range(4):
        total = 0.0
        for inputs, labels in batches:
            steps.zero_grad()
            loss = F.cross_entropy(plain(inputs), labels)
            loss.backward()
            steps.step()
            total += loss.item() * len(labels)
        losses.append(total / 96)
        if schedule == "cosine":
            rates.step()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, plain.state_dict()[name])
    assert training.losses == pytest.approx(losses)
    assert training.epochs == 4
    assert training.reason == "all epochs"
    assert training.converged
    assert not net.training


def test_the_loss_is_told_the_epoch_and_may_be_any_function():
    epochs = []

    def loss(module, inputs, labels, epoch):
        epochs.append(epoch)
        return F.nll_loss(torch.log_softmax(module(inputs), dim=1), labels)

    Trainer(epochs=3).train(network(), [drawn()], loss=loss)
    assert epochs == [0, 1, 2]


def test_patience_goes_back_to_the_weights_of_the_lowest_validation_loss():
    x, y = drawn()
    wrong = [(x, (y + 1) % 3)]  # what is learnt makes this worse
    kept = []

    def remember(module, epoch):  # noqa: ARG001
        kept.append(copy.deepcopy(module))
        return False

    net = network()
    training = Trainer(epochs=50, learning_rate=0.05, patience=4).train(
        net, shuffled(), validation=wrong, stop=remember
    )
    best = int(np.argmin(training.validation))
    assert training.reason == "no improvement for 4 epochs"
    assert training.epochs == best + 5 < 50
    assert same_weights(net, kept[best])
    with torch.no_grad():
        own = F.cross_entropy(net(x), wrong[0][1]).item()
    assert own == pytest.approx(min(training.validation))


def test_stop_ends_a_training_with_the_weights_it_has_seen():
    seen = []

    def enough(module, epoch):
        seen.append((epoch, module.training, copy.deepcopy(module)))
        return epoch == 2

    net = network()
    training = Trainer(epochs=20, patience=5).train(
        net, shuffled(), stop=enough, validation=[drawn()]
    )
    assert training.reason == "stopped after epoch 3"
    assert training.converged
    assert [(epoch, mode) for epoch, mode, _ in seen] == [(0, False), (1, False), (2, False)]
    assert same_weights(net, seen[-1][2])


def test_a_bar_is_drawn_on_a_terminal_only(monkeypatch):
    pytest.importorskip("rich")
    for terminal in (True, False):
        screen = io.StringIO()
        screen.isatty = lambda seen=terminal: seen
        monkeypatch.setattr(sys, "stderr", screen)
        train_member(network, shuffled(), index=4, trainer=Trainer(epochs=2, progress=True))
        assert ("member 4" in screen.getvalue()) == terminal


# Resumable


@pytest.mark.parametrize("break_at", [2, 6, 15, 23])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_an_interrupted_training_ends_in_the_same_weights(tmp_path, break_at, optimizer):
    trainer = Trainer(epochs=4, learning_rate=0.05, optimizer=optimizer, patience=3)
    settings = {"validation": [drawn(seed=1)], "seed": 11}
    torch.manual_seed(0)
    start = network()
    whole = copy.deepcopy(start)
    expected = trainer.train(whole, shuffled(), **settings)

    part, path = copy.deepcopy(start), tmp_path / "part.checkpoint"
    with pytest.raises(KeyboardInterrupt):
        trainer.train(part, Counting(shuffled(), break_at), checkpoint=path, **settings)
    torch.manual_seed(1)
    rest = Counting(shuffled())
    resumed = network()  # started elsewhere: the checkpoint holds everything
    training = trainer.train(resumed, rest, checkpoint=path, **settings)
    assert rest.given == 24 - break_at // 6 * 6  # only epochs that were not finished
    assert same_weights(whole, resumed)
    assert training.losses == expected.losses
    assert training.validation == expected.validation
    assert training.accuracy == expected.accuracy

    again = Counting(shuffled())
    assert trainer.train(network(), again, checkpoint=path, **settings) == training
    assert again.given == 0


def test_two_trainings_cannot_write_one_checkpoint_at_once(tmp_path):
    path = tmp_path / "kept.checkpoint"
    refusals = []

    def stop(module, epoch):  # noqa: ARG001
        with pytest.raises(ValueError, match=r"kept.checkpoint must be written by one run") as why:
            trainer.train(network(), shuffled(), checkpoint=path)
        refusals.append(why)
        return True

    trainer = Trainer(epochs=2)
    trainer.train(network(), shuffled(), checkpoint=path, stop=stop)
    assert len(refusals) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["kept.checkpoint"]


# Trainings that go wrong


def test_a_loss_that_becomes_nan_is_reported_and_the_member_stays(tmp_path):
    def breaks(module, inputs, labels, epoch):
        value = F.cross_entropy(module(inputs), labels)
        return value * math.nan if epoch == 2 else value

    call = {"members": 2, "trainer": Trainer(epochs=5), "folder": tmp_path, "loss": breaks}
    with pytest.warns(ConvergenceWarning) as caught:
        found = train_members(network, shuffled(), **call)
    assert [str(w.message) for w in caught] == [
        f"member {m} did not converge: loss became nan in epoch 3." for m in (0, 1)
    ]
    assert len(found) == 2
    training = found[0].training
    assert not training.converged
    assert training.epochs == 3
    assert math.isnan(training.losses[2])
    with pytest.warns(ConvergenceWarning, match="member 0 did not converge"):
        again = train_members(network, shuffled(), **{**call, "members": 1})
    assert again[0].training.reason == training.reason
    assert str(again[0].training.losses) == str(training.losses)


def test_a_loss_that_really_diverges_is_reported():
    trainer = Trainer(epochs=30, optimizer="sgd", learning_rate=1e6)
    x, y = drawn()
    net = nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(8, 3))
    with pytest.warns(ConvergenceWarning, match="became (nan|infinite|nan or infinite) in epoch"):
        training = trainer.train(net, [(x, y)] * 3)
    assert not training.converged
    assert training.epochs < 30


def test_weights_that_become_nan_in_the_last_step_are_reported():
    net = nn.Linear(5, 3)
    net.weight.register_hook(lambda gradient: gradient * math.nan)
    with pytest.warns(ConvergenceWarning, match="weights became nan or infinite in epoch 1"):
        Trainer(epochs=1).train(net, [drawn()])


def test_a_network_no_better_than_guessing_is_reported():
    x, y = drawn()
    y[:60] = 1
    with pytest.warns(ConvergenceWarning, match="no better than always guessing the commonest"):
        training = Trainer(epochs=2, learning_rate=0.0).train(nn.Linear(5, 3), [(x * 0, y)])
    assert not training.converged
    assert training.reason.startswith("all epochs, but accuracy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Trainer(epochs=40, learning_rate=0.05).train(network(), [drawn()]).converged


# What it refuses


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number, at least 1: got 0"),
        ({"optimizer": "lbfgs"}, "optimizer must be one of 'adam', 'sgd': got 'lbfgs'"),
        ({"schedule": "step"}, "schedule must be one of"),
        ({"learning_rate": -1.0}, "learning_rate must be a finite number, not negative"),
        ({"seed": -1}, "seed must be a whole number, at least 0"),
        ({"patience": 0}, "patience must be a whole number, at least 1"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        Trainer(**settings)


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ([drawn()[0]], "loader must yield .inputs, labels. or mappings with 'labels'"),
        ([{"features": drawn()[0]}], "loader must yield mappings with 'labels'"),
        ([], "loader must yield at least one batch"),
        (iter([drawn()]), "loader must give its batches anew in every epoch: got an iterator"),
        ([(drawn()[0], drawn()[1][:50])], r"model must return logits of shape \(50, K\)"),
    ],
)
def test_wrong_loaders_are_refused(loader, message):
    with pytest.raises(ValueError, match=message):
        Trainer(epochs=1).train(network(), loader)


def test_wrong_modules_and_losses_are_refused():
    trainer = Trainer(epochs=1)
    with pytest.raises(ValueError, match="one column per class, two or more: got shape"):
        trainer.train(nn.Linear(5, 1), [drawn()])
    with pytest.raises(ValueError, match="module must have parameters that require gradients"):
        trainer.train(nn.Identity(), [drawn()])
    with pytest.raises(ValueError, match=r"loss must return a tensor of one number: got \(96, 3\)"):
        trainer.train(network(), [drawn()], loss=lambda module, x, *_: module(x))
    with pytest.raises(ValueError, match="validation must be given for patience: got None"):
        Trainer(patience=2).train(network(), [drawn()])
    shared = network()
    with pytest.raises(ValueError, match="factory must build a fresh module at every call: got"):
        train_members(lambda: shared, [drawn()], members=2, trainer=trainer)
    with pytest.raises(ValueError, match="factory must return a module: got a str"):
        train_members(lambda: "net", [drawn()], members=1, trainer=trainer)
