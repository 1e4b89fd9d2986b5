"""Training: what it computes, that it can be repeated and resumed, and what it refuses."""

import copy
import io
import itertools
import json
import math
import random
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from decal.baselines import (  # noqa: E402
    ConvergenceWarning,
    Trainer,
    train_member,
    train_members,
)

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::decal.baselines.ConvergenceWarning"),  # few epochs
]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Networks this small are slower on several, above all beside other work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def drawn(n=96, seed=0):
    """Inputs (n, 5) of three classes that a small network can tell apart."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (n,), generator=generator)
    inputs = torch.randn(n, 5, generator=generator)
    inputs[torch.arange(n), labels] += 3.0
    return inputs, labels


def shuffled(n=96, batch_size=16, generator=None):
    return DataLoader(
        TensorDataset(*drawn(n)), batch_size=batch_size, shuffle=True, generator=generator
    )


def network():
    """With dropout and batch norm: randomness in training, and state beside the weights."""
    return nn.Sequential(
        nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)
    )


def same_weights(one, other):
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


class Counting:
    """A loader that counts the batches it gives, and breaks off at one of them if asked to."""

    def __init__(self, loader, break_at=None):
        self.loader, self.break_at, self.given = loader, break_at, 0

    def __iter__(self):
        for batch in self.loader:
            if self.given == self.break_at:
                raise KeyboardInterrupt
            self.given += 1
            yield batch

    def __getattr__(self, name):
        return getattr(self.loader, name)


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


def test_accuracy_is_the_share_of_right_answers_during_the_last_epoch():
    net, seen = network(), []
    net.register_forward_hook(lambda m, _, out: seen.append((m.training, out.argmax(dim=1))))
    x, y = drawn()
    training = Trainer(epochs=3).train(net, [(x[:50], y[:50]), (x[50:], y[50:])])
    last = torch.cat([answers for mode, answers in seen[-2:] if mode])
    assert training.accuracy == float((last == y).double().mean())


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


def test_batches_may_be_mappings_and_outputs_anything_that_predicted_understands():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, features):
            return self.inner(features), "more"

    x, y = drawn()
    loader = [{"features": x, "labels": y}]

    def loss(module, inputs, labels, epoch):  # noqa: ARG001
        return F.cross_entropy(module(**inputs)[0], labels)

    trainer = Trainer(epochs=30, learning_rate=0.05)
    training = trainer.train(Pair(), loader, loss=loss, predicted=lambda pair: pair[0])
    assert training.accuracy > 0.8
    with pytest.raises(ValueError, match="model must return a tensor of logits"):
        trainer.train(Pair(), loader, loss=loss)


@pytest.mark.parametrize("package", ["tqdm", "rich"])
def test_a_bar_is_drawn_on_a_terminal_only(monkeypatch, package):
    pytest.importorskip(package)
    if package == "rich":
        monkeypatch.setitem(sys.modules, "tqdm", None)
    for terminal in (True, False):
        screen = io.StringIO()
        screen.isatty = lambda seen=terminal: seen
        monkeypatch.setattr(sys, "stderr", screen)
        train_member(network, shuffled(), index=4, trainer=Trainer(epochs=2, progress=True))
        assert ("member 4" in screen.getvalue()) == terminal


# Repeatable and resumable


def test_members_depend_on_their_seed_alone_and_leave_random_states_as_found():
    order = torch.Generator().manual_seed(7)
    found = train_members(network, shuffled(generator=order), members=3, trainer=Trainer(epochs=2))
    torch.manual_seed(99)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    order.manual_seed(123)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    of_loader = order.get_state()
    alone = train_member(
        network, shuffled(generator=order), index=2, trainer=Trainer(epochs=2, progress=True)
    )
    assert same_weights(found[2].module, alone.module)
    assert found[2].training.losses == alone.training.losses
    assert found[2].seed == alone.seed
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), before[2], strict=True))  # noqa: NPY002
    assert torch.equal(order.get_state(), of_loader)
    assert not same_weights(found[0].module, found[1].module)


def test_another_seed_of_the_trainer_gives_other_members():
    one, other = (
        train_member(network, shuffled(), index=0, trainer=Trainer(epochs=1, seed=seed))
        for seed in (0, 1)
    )
    assert not same_weights(one.module, other.module)


def test_weights_and_the_order_of_batches_change_with_the_member_and_the_order_with_the_epoch():
    orders = []

    class Noting(Counting):
        def __iter__(self):
            for inputs, labels in super().__iter__():
                orders[-1].append(labels.tolist())
                yield inputs, labels

    starts = []

    def note(module, index):
        starts.append(copy.deepcopy(module))
        assert index == len(orders)
        orders.append([])

    train_members(network, Noting(shuffled()), members=2, trainer=Trainer(epochs=2), prepare=note)
    passes = [orders[member][start : start + 6] for member in (0, 1) for start in (0, 6)]
    assert all(a != b for a, b in itertools.combinations(passes, 2))
    assert not same_weights(*starts)


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


@pytest.mark.slow
def test_a_killed_process_loses_one_epoch_at_most(tmp_path):
    code = textwrap.dedent(
        """
        import os, signal, sys, torch
        torch.set_num_threads(1)  # as here: sums depend on it in the last bit
        sys.path.insert(0, sys.argv[1])
        from test_trainer import Counting, network, shuffled
        from decal.baselines import Trainer, train_members

        class Deadly(Counting):
            def __iter__(self):
                for batch in super().__iter__():
                    if self.given == 20:
                        os.kill(os.getpid(), signal.SIGKILL)
                    yield batch

        train_members(network, Deadly(shuffled()), members=3, trainer=Trainer(epochs=2),
                      folder=sys.argv[2])
        """
    )
    here = str(Path(__file__).parent)
    killed = subprocess.run([sys.executable, "-W", "ignore", "-c", code, here, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "member-000.json",
        "member-000.pt",
        "member-001.checkpoint",
    ]
    rest = Counting(shuffled())
    found = train_members(network, rest, members=3, trainer=Trainer(epochs=2), folder=tmp_path)
    assert rest.given == 6 + 12  # six batches per epoch: one of member 1, two of member 2
    whole = train_members(network, shuffled(), members=3, trainer=Trainer(epochs=2))
    assert all(same_weights(a.module, b.module) for a, b in zip(found, whole, strict=True))
    assert [m.training.losses for m in found] == [m.training.losses for m in whole]


def test_finished_members_are_found_again_and_more_can_be_added(tmp_path):
    first = Counting(shuffled())
    two = train_members(network, first, members=2, trainer=Trainer(epochs=2), folder=tmp_path)
    assert first.given == 24
    second = Counting(shuffled())
    three = train_members(
        network, second, members=3, trainer=Trainer(epochs=2, progress=True), folder=tmp_path
    )
    assert second.given == 12
    for old, new in zip(two, three, strict=False):
        assert same_weights(old.module, new.module)
        assert old.training == new.training
        assert not new.module.training
    record = json.loads((tmp_path / "member-001.json").read_text())
    assert record["training"]["losses"] == list(two[1].training.losses)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trainer": Trainer(epochs=3)}, "got epochs = 1 in member-000.json, and 3 now"),
        ({"trainer": Trainer(epochs=1, learning_rate=0.5)}, "got learning_rate = 0.001 in"),
        ({"trainer": Trainer(epochs=1, seed=4)}, "got seed = 0 in"),
        ({"factory": lambda: nn.Linear(5, 3)}, "got parameters = 91 in member-000.json, and 18"),
        ({"loader": shuffled(batch_size=8)}, "got batch_size = 16 in"),
        ({"loader": shuffled(n=90)}, "got examples = 96 in"),
        ({"settings": {"delta": 0.2}}, "got delta = 0.1 in"),
        ({"settings": {}}, "got delta = 0.1 in member-000.json, and None now"),
    ],
)
def test_a_folder_made_with_other_settings_is_refused(tmp_path, change, message):
    call = {
        "factory": network,
        "loader": shuffled(),
        "members": 1,
        "trainer": Trainer(epochs=1),
        "folder": tmp_path,
        "settings": {"delta": 0.1},
    }
    train_members(**call)
    with pytest.raises(ValueError, match=f"folder must come from the same settings: {message}"):
        train_members(**{**call, **change})


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    path = tmp_path / "net.checkpoint"
    Trainer(epochs=1).train(network(), shuffled(), checkpoint=path)
    with pytest.raises(ValueError, match="checkpoint must come from the same settings: got epochs"):
        Trainer(epochs=2).train(network(), shuffled(), checkpoint=path)
    with pytest.raises(ValueError, match="got seed = 0 in net.checkpoint, and 1 now"):
        Trainer(epochs=1).train(network(), shuffled(), checkpoint=path, seed=1)


@pytest.mark.parametrize("name", ["member-000.pt", "member-000.json"])
def test_damaged_files_are_named(tmp_path, name):
    train_members(network, shuffled(), members=1, trainer=Trainer(epochs=1), folder=tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:100])
    with pytest.raises(ValueError, match=f"{name} must be there, as a training wrote it"):
        train_members(network, shuffled(), members=1, trainer=Trainer(epochs=1), folder=tmp_path)


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
    ("change", "message"),
    [
        (lambda y: y.index_fill(0, torch.tensor([40]), 3), "0 to 2, .* got 3 at index 40"),
        (lambda y: y.index_fill(0, torch.tensor([70]), -1), "0 to 2, .* got -1 at index 70"),
        (lambda y: y.double(), "labels must be integers: got dtype torch.float64"),
        (lambda y: F.one_hot(y), "labels must be a vector"),
    ],
)
def test_wrong_labels_are_refused_by_row_and_value(change, message):
    x, y = drawn()
    y = change(y)
    with pytest.raises(ValueError, match=message):
        Trainer(epochs=1).train(network(), [(x[:32], y[:32]), (x[32:], y[32:])])


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
