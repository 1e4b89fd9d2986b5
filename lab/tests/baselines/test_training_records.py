"""Files of trainings: what they keep, and which of them are refused."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from decal_lab.baselines import Trainer, train_members  # noqa: E402
from lab_helpers.small_trainings import Counting, network, same_weights, shuffled  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::decal_lab.baselines.ConvergenceWarning"),  # few epochs
]


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


@pytest.mark.slow
def test_a_killed_process_loses_one_epoch_at_most(tmp_path):
    code = textwrap.dedent(
        """
        import os, signal, sys, torch
        torch.set_num_threads(1)  # as here: sums depend on it in the last bit
        sys.path.insert(0, sys.argv[1])
        from lab_helpers.small_trainings import Counting, network, shuffled
        from decal_lab.baselines import Trainer, train_members

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
    tests = str(Path(__file__).parents[1])
    killed = subprocess.run([sys.executable, "-W", "ignore", "-c", code, tests, str(tmp_path)])
    assert killed.returncode == -signal.SIGKILL
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        ".member-001.checkpoint.lock",  # which nobody holds any more
        "member-000.json",
        "member-000.pt",
        "member-001.checkpoint",
    ]
    rest = Counting(shuffled())
    found = train_members(network, rest, members=3, trainer=Trainer(epochs=2), folder=tmp_path)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    assert rest.given == 6 + 12  # six batches per epoch: one of member 1, two of member 2
    whole = train_members(network, shuffled(), members=3, trainer=Trainer(epochs=2))
    assert all(same_weights(a.module, b.module) for a, b in zip(found, whole, strict=True))
    assert [m.training.losses for m in found] == [m.training.losses for m in whole]
