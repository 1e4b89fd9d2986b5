"""Tiny networks train on one thread: several would wait for each other on a busy machine."""

import pytest


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    torch = pytest.importorskip("torch", reason="needs decal[torch]")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
