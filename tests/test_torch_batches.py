"""Running models over loaders: modes, devices, batches of all kinds, a bar, and refusals."""

import sys
from functools import partial
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from decal.torch import collect_logits, decalibrate_model  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 5))


@pytest.fixture
def batches():
    torch.manual_seed(1)
    inputs, labels = torch.randn(103, 4), torch.randint(5, (103,))
    return DataLoader(TensorDataset(inputs, labels), batch_size=10)


def test_every_module_gets_its_mode_back(net, batches):
    net.train()
    net[1].eval()
    collect_logits(net, batches)
    assert net.training
    assert not net[1].training
    assert net[2].training

    def broken():
        yield from batches
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        collect_logits(net, broken())
    assert net.training
    assert not torch.is_inference_mode_enabled()


def test_a_device_may_be_named_and_the_model_comes_back(net, batches, monkeypatch):
    here, _ = collect_logits(net, batches)
    places = []
    monkeypatch.setattr(net, "to", lambda place: places.append(str(place)))
    there, _ = collect_logits(net, batches, device="cpu")
    assert torch.equal(here, there)
    assert places == ["cpu", "cpu"]


def test_batches_and_outputs_in_the_manner_of_hugging_face(net, batches):
    net.eval()

    class Classifier(torch.nn.Module):
        def forward(self, input_values, attention_mask=None, labels=None):
            assert labels is None  # a loss is not wanted
            assert attention_mask is not None
            return SimpleNamespace(logits=net(input_values), loss=None)

    loader = [
        {"input_values": x, "attention_mask": torch.ones(len(x)), "labels": y} for x, y in batches
    ]
    logits, labels = collect_logits(Classifier(), loader)
    torch.testing.assert_close(logits, collect_logits(net, batches)[0])
    assert torch.equal(labels, batches.dataset.tensors[1])
    pairs = [((x, torch.ones(len(x))), y.tolist()) for x, y in batches]
    torch.testing.assert_close(collect_logits(Classifier(), pairs)[0], logits)


def test_functions_are_models_and_half_precision_comes_back_as_float32(net, batches):
    net.eval()
    logits, _ = collect_logits(lambda x: net(x).bfloat16(), batches)
    assert logits.dtype == torch.float32
    assert torch.equal(logits, net(batches.dataset.tensors[0]).bfloat16().float())


@pytest.mark.parametrize("hidden", [(), ("rich.progress",)])
def test_a_bar_on_stderr_only(net, batches, hidden, capsys, monkeypatch):
    pytest.importorskip("rich")
    for package in hidden:
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    expected = collect_logits(net, batches, progress=False)
    assert capsys.readouterr() == ("", "")
    found = collect_logits(net, batches, progress=True)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ("logits" in printed.err) == (not hidden)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    collect_logits(net, iter(batches))
    assert capsys.readouterr() == ("", "")


def outputs(value):
    return lambda _: value


X, Y = torch.zeros(3, 4), torch.tensor([0, 1, 1])


@pytest.mark.parametrize(
    ("model", "loader", "message"),
    [
        (outputs(torch.zeros(3, 7, 2)), [(X, Y)], r"model .*shape \(3, K\).*got shape \(3, 7, 2\)"),
        (outputs(torch.zeros(1, 2, 3, 2)), [(X, Y)], r"wrap the model.*logits\.movedim\(1, -1\)"),
        (outputs(torch.zeros(3)), [(X, Y)], r"model .*shape \(3, K\).*got shape \(3,\)"),
        (outputs(torch.zeros(2, 5)), [(X, Y)], r"model .*shape \(3, K\).*got shape \(2, 5\)"),
        (outputs(torch.zeros(3, 1)), [(X, Y)], r"two or more: got shape \(3, 1\).*stack it as"),
        (outputs((torch.zeros(3, 2),)), [(X, Y)], r"model must return a tensor.*got a tuple"),
        (outputs(torch.zeros(3, 2)), [], "loader must yield at least one batch"),
        (outputs(torch.zeros(3, 2)), [X], "loader must yield .*got a Tensor"),
        (outputs(torch.zeros(3, 2)), [(X, Y, Y)], "loader must yield .*got a tuple of 3"),
        (outputs(torch.zeros(3, 2)), [{"x": X}], r"loader .*'labels': got keys \['x'\]"),
        (outputs(torch.zeros(3, 2)), [(X, ["a", "b", "a"])], "labels must be integers: got .'a'"),
        (outputs(torch.zeros(3, 2)), [(X, Y.float())], "labels must be integers.*torch.float32"),
        (outputs(torch.zeros(3, 2)), [(X, X)], r"labels must be a vector.*got shape \(3, 4\)"),
        (
            outputs(torch.zeros(3, 2)),
            [(X, Y[:, None])],
            r"got shape \(3, 1\).*labels\.squeeze\(1\)",
        ),
        (outputs(torch.zeros(3, 2)), [(X, Y[:, None, None])], "Flatten them, and let the model"),
        (outputs(torch.zeros(3, 2)), [(X, Y), (X, Y + 1)], "in 0 to 1.*got 2 at index 4"),
        (outputs(torch.zeros(3, 2)), TensorDataset(X, Y), "must yield batches.*in a .*DataLoader"),
        (outputs(torch.zeros(3, 2)), [(X[0], 1)], "must yield batches: got single examples"),
        (
            outputs(torch.zeros(3, 2)),
            [(X, Y), (X, torch.tensor([0, -100, -100]))],
            "got -100 at index 4, which losses of PyTorch ignore. Leave such rows out",
        ),
        (lambda x: x[:, : int(x[0, 0])], [(X + 3, Y), (X + 2, Y)], "3 columns.*got 2 from row 3"),
    ],
)
def test_refusals_say_what_came(model, loader, message):
    with pytest.raises(ValueError, match=message):
        collect_logits(model, loader)
    with pytest.raises(ValueError, match=message):
        decalibrate_model(model, loader, alpha=0.9)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (X.numpy(), r"got ndarray \(3, 4\) in batch 1, and TypeError: linear.*arrays into tensors"),
        (
            {"input": X, "idx": Y},
            r"got input=Tensor \(3, 4\), idx=Tensor \(3,\) in batch 1, and .*'idx'. A mapping is",
        ),
        ((X, X), r"got Tensor \(3, 4\), Tensor \(3, 4\) in batch 1.*in a function"),
        (None, "got NoneType in batch 1"),
    ],
)
def test_inputs_that_the_model_does_not_take_are_described(inputs, message, net):
    loader = [(X, Y), (inputs, Y)]
    for learn in (collect_logits, partial(decalibrate_model, alpha=0.9)):
        with pytest.raises(TypeError, match=f"model must take the inputs.*{message}") as caught:
            learn(net, loader)
        assert caught.value.__cause__ is not None


def test_the_total_of_a_loader_is_known_where_it_has_one(net, batches, monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    collect_logits(net, batches)
    assert f"{len(batches)}/{len(batches)}" in capsys.readouterr().err


def test_a_model_that_says_nan_is_told_in_which_row(batches):
    def model(x):
        spoiled = torch.where(x == batches.dataset.tensors[0][57, 2], torch.nan, x)
        return torch.cat([spoiled, torch.zeros(len(x), 1)], dim=1)

    with pytest.raises(ValueError, match=r"finite or -inf: got nan at index \(57, 2\)"):
        decalibrate_model(model, batches, alpha=0.9)
