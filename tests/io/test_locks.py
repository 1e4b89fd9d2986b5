"""One process at a time writes into a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from decal.io.locks import alone, only_writer

pytest.importorskip("fcntl", reason="Windows has no such locks")

HOLDING = (
    "import sys; from pathlib import Path; from decal.io.locks import only_writer\n"
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
        with pytest.raises(
            ValueError,
            match=f"{tmp_path.name} must be written by one run at a time: got process {other.pid} "
            "on .*, which writes it now. Wait for it",
        ):
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
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_in_the_folder_and_it_can_be_entered_again(tmp_path):
    for _ in range(2):
        with only_writer(tmp_path):
            pass
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyError), only_writer(tmp_path):
        raise KeyError
    with only_writer(tmp_path), pytest.raises(ValueError, match="one run at a time"):
        only_writer(tmp_path).__enter__()


def test_threads_enter_a_lock_one_after_the_other(tmp_path):
    lock, inside, entered = tmp_path / ".lock", [], []

    def work():
        for _ in range(100):
            try:
                with alone(lock, "the results"):
                    inside.append(1)
                    entered.append(len(inside))
                    inside.pop()
            except ValueError:
                continue

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entered
    assert set(entered) == {1}
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / ".decal.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"\.decal\.lock"):
        only_writer(tmp_path).__enter__()
    assert (tmp_path / "victim").read_text() == "precious"
