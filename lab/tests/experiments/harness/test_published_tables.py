"""The paper's tables on detection and run time."""

from __future__ import annotations

from decal_lab.experiments import (
    ensemble_size,
)
from decal_lab.experiments.harness.published_tables import BY_MEMBERS, OUT_SETS, RUNTIME, SINGLE


def test_published_tables_are_whole():
    assert all(len(values) == len(OUT_SETS) for values in SINGLE.values())
    for by_size in BY_MEMBERS.values():
        assert tuple(by_size) == ensemble_size.SIZES
        assert all(len(values) == len(OUT_SETS) for values in by_size.values())
    assert set(RUNTIME) == {*SINGLE, *BY_MEMBERS}
