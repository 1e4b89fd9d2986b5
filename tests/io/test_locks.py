"""One process at a time writes into a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from decal._io.locks import only_writer

pytest.importorskip("fcntl", reason="Windows has no such locks")

HOLDING = (
    "import sys; from pathlib import Path; from decal._io.locks import only_writer\n"
    "with only_writer(Path(sys.argv[1])):\n"
    "    print('in', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.mark.parametrize("end", [signal.SIGKILL, None], ids=["killed", "ended"])
def test_a_second_process_is_refused_until_the_first_ends(tmp_path, end):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDING, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout.readline() == b"in\n"
        with pytest.raises(ValueError, match="must be written by one run at a time"):
            only_writer(tmp_path).__enter__()
        if end is None:
            other.communicate(b"")
        else:
            os.kill(other.pid, end)
            other.wait()
        with only_writer(tmp_path):
            pass
    finally:
        other.kill()
        other.communicate()


def test_nothing_is_left_in_the_folder_and_it_can_be_entered_again(tmp_path):
    for _ in range(2):
        with only_writer(tmp_path):
            assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyError), only_writer(tmp_path):
        raise KeyError
    with only_writer(tmp_path), pytest.raises(ValueError, match="one run at a time"):
        only_writer(tmp_path).__enter__()
