"""Right answers counted during training, and labels without a column refused."""

import math

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from decal_lab.baselines import Trainer  # noqa: E402
from decal_lab.baselines._running_accuracy import RunningAccuracy  # noqa: E402
from lab_helpers.small_trainings import drawn, network  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::decal_lab.baselines.ConvergenceWarning"),  # few epochs
]


def test_accuracy_is_the_share_of_right_answers_during_the_last_epoch():
    net, seen = network(), []
    net.register_forward_hook(lambda m, _, out: seen.append((m.training, out.argmax(dim=1))))
    x, y = drawn()
    training = Trainer(epochs=3).train(net, [(x[:50], y[:50]), (x[50:], y[50:])])
    last = torch.cat([answers for mode, answers in seen[-2:] if mode])
    assert training.accuracy == float((last == y).double().mean())


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


def test_answers_are_compared_with_those_of_the_commonest_label():
    running, device = RunningAccuracy(None), torch.device("cpu")
    assert math.isnan(running.accuracy)
    assert math.isnan(running.commonest)
    logits = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    labels = torch.tensor([0, 2, 2, 2])
    net = nn.Identity()
    with running.observing(net):
        for inputs, _ in running.batches(
            [(logits[:1], labels[:1]), (logits[1:], labels[1:])], device, "x"
        ):
            net(inputs)
            running.count()
    net(logits)  # not observed any more
    assert (running.rows, running.accuracy, running.commonest) == (4, 0.5, 0.75)
    running.reset()
    assert running.rows == 0
