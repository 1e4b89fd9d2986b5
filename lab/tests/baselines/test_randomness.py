"""Random numbers follow from seeds alone, and leave random states as they were."""

import copy
import itertools
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from decal_lab.baselines import Trainer, train_member, train_members  # noqa: E402
from decal_lab.baselines._randomness import derived_seed, randomness  # noqa: E402
from lab_helpers.small_trainings import Counting, network, same_weights, shuffled  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::decal_lab.baselines.ConvergenceWarning"),  # few epochs
]


def test_seeds_differ_by_path_and_stay_in_range():
    seeds = [derived_seed(seed, *path) for seed in (0, 1) for path in ((), (0,), (1,), (0, 1))]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derived_seed(3, 4) == derived_seed(3, 4)


def test_every_generator_is_seeded_inside_and_restored_even_after_an_error():
    def draws():
        return torch.rand(1).item(), random.random(), np.random.rand()  # noqa: NPY002

    loader = shuffled(generator=torch.Generator().manual_seed(3))
    states = torch.get_rng_state(), loader.generator.get_state()
    with randomness(5, "cpu", loader):
        first, order = draws(), [y.tolist() for _, y in loader]

    def interrupted():
        with randomness(5, "cpu", loader):
            assert draws() == first
            assert [y.tolist() for _, y in loader] == order
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        interrupted()
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.equal(loader.generator.get_state(), states[1])


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
