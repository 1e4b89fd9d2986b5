"""Damaged and hostile files of every format: read, or refused by name, and nothing else.

A few hundred cases by default; DECAL_ATTACK=100 tries a hundred times as many.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs decal[cli]")
from helpers.damaged_files import ARCHIVES, FORMATS, SECONDS

FACTOR = int(os.environ.get("DECAL_ATTACK", "1"))
CASES = 200
"""Of a format; of archives, some of which unpack to 256 MB, a quarter of that."""

BATCH = 600
"""Cases that one process reads."""

TESTS = Path(__file__).parents[1]


def attacked(kind, first, count, folder):
    """What came of every case: its seed, the kind of damage, and the outcome."""
    command = [sys.executable, "-m", "helpers.damaged_files", kind, first, count, folder]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "OPENBLAS_NUM_THREADS": "1",
    }
    run = subprocess.run(
        [str(word) for word in command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS * 10 + count,
        check=False,
    )
    lines = [line.split(maxsplit=2) for line in run.stdout.splitlines()]
    # A process that a file has ended has printed the file's seed, but no outcome.
    assert run.returncode == 0, f"ended by {lines[-1:]} of {kind}\n{run.stderr[-3000:]}"
    assert len(lines) == count
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_are_read_or_refused_by_name(kind, tmp_path):
    total = (CASES // 4 if kind in ARCHIVES else CASES) * FACTOR
    for first in range(0, total, BATCH):
        lines = attacked(kind, first, min(BATCH, total - first), tmp_path)
        wrong = [" ".join(line) for line in lines if line[2] not in ("read", "refused")]
        assert wrong == []
        assert any(line[2] == "refused" for line in lines)
