"""Data and a network small enough to train in a test, and a loader that counts its batches."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


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
    """With dropout and batch norm: randomness in training, and state besides the weights."""
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
