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

BATCH = 3000
"""Cases that one process reads, of one format or of all."""

TESTS = Path(__file__).parents[1]


class Reader:
    """A process that reads damaged files; another takes its place once it ended or read a batch."""

    def __init__(self, folder):
        self.folder, self.process, self.left = folder, None, 0

    def attacked(self, kind, first, count):
        """What came of every case: its seed, the kind of damage, and the outcome."""
        if self.left < count:
            self.close()
            self.start()
        self.left -= count
        self.process.stdin.write(f"{kind} {first} {count}\n")
        self.process.stdin.flush()
        lines = []
        while len(lines) < count and (line := self.process.stdout.readline()):
            lines.append(line.split(maxsplit=2))
        # A process that a file has ended has printed the file's seed, but no outcome.
        if len(lines) < count or len(lines[-1]) < 3:
            problem = self.close()
            pytest.fail(f"ended by {lines[-1:]} of {kind}\n{problem[-3000:]}")
        return [(seed, way, outcome.strip()) for seed, way, outcome in lines]

    def start(self):
        self.left = BATCH
        path = os.pathsep.join([str(TESTS), *sys.path])
        with (self.folder / "stderr").open("w") as complaints:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "helpers.damaged_files", str(self.folder)],
                env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )

    def close(self):
        """End the process, if there is one; what it complained of."""
        self.left = 0
        if self.process is None:
            return ""
        self.process.communicate(timeout=2 * SECONDS)
        self.process = None
        return (self.folder / "stderr").read_text()


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    reader = Reader(tmp_path_factory.mktemp("damaged"))
    yield reader
    reader.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_are_read_or_refused_by_name(kind, reader):
    total = (CASES // 4 if kind in ARCHIVES else CASES) * FACTOR
    for first in range(0, total, CASES):
        lines = reader.attacked(kind, first, min(CASES, total - first))
        wrong = [" ".join(line) for line in lines if line[2] not in ("read", "refused")]
        test_damaged_files_are_read_or_refused_by_name.cases += len(lines)
        assert wrong == []
        assert any(line[2] == "refused" for line in lines)


test_damaged_files_are_read_or_refused_by_name.algorithm = "damaged files"
test_damaged_files_are_read_or_refused_by_name.cases = 0
