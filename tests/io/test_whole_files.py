"""Files are replaced whole, by threads, by processes, and by processes that are killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from decal.io import model_files
from decal.io.whole_files import exclusive, only_writer, write_npz

fcntl = pytest.importorskip("fcntl", reason="needs POSIX")

SETTINGS = {"alpha": 0.8}


def write(path, number=0, size=2000):
    """A model file whose arrays all hold one number."""
    arrays = {name: np.full(size, float(number)) for name in ("center", "label_weight")}
    model_files.write(path, SETTINGS, arrays, kind="decalibrator", compressed=False)


def number_in(path):
    _, arrays = model_files.read(path, lambda *_: True, kind="decalibrator")
    (number,) = {float(x) for array in arrays.values() for x in array}
    return number


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# Threads and processes


def test_threads_that_save_to_one_path_lose_nothing(tmp_path):
    path = tmp_path / "model.npz"
    write(path)
    failures = []

    def work(number):
        try:
            for _ in range(20):
                write(path, number)
                assert number_in(path) in range(8)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert number_in(path) in range(8)
    assert list(tmp_path.iterdir()) == [path]


SLOW_WRITER = """
import sys, time
from pathlib import Path
from decal.io.whole_files import replacing
with replacing(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    print("begun", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def start(*arguments, code=SLOW_WRITER):
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    path = tmp_path / "model.npz"
    write(path, 1)
    killed, living = start(path, 600), start(path, 600)
    kill(killed)
    assert len(list(tmp_path.iterdir())) == 3
    write(path, 2)
    (partial,) = set(tmp_path.iterdir()) - {path}
    assert partial.read_text() == "half"
    assert number_in(path) == 2
    kill(living)
    write(tmp_path / "other.npz", 3)  # a file of another name sweeps, too
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.npz", "other.npz"]


def test_partial_files_of_other_machines_are_removed_only_when_they_are_old(tmp_path):
    path = tmp_path / "model.npz"
    kill(start(path, 600))
    (partial,) = tmp_path.iterdir()
    elsewhere = tmp_path / ".model.npz.0123456789ab-0011223344556677.partial"
    partial.rename(elsewhere)
    write(path)
    assert elsewhere.exists()
    two_days_ago = time.time() - 2 * 24 * 3600
    foreign = tmp_path / ".film.partial"  # of another program
    foreign.touch()
    for partial in (elsewhere, foreign):
        os.utime(partial, (two_days_ago, two_days_ago))
    write(path)
    assert sorted(tmp_path.iterdir()) == [foreign, path]


@pytest.mark.slow
def test_processes_killed_at_any_moment_leave_a_whole_file(tmp_path):
    path = tmp_path / "model.npz"
    write(path, 0, 50_000)
    endless = (
        "import sys; sys.path.insert(0, sys.argv[2]); from test_whole_files import *\n"
        "print('begun', flush=True)\n"
        "while True: write(Path(sys.argv[1]), 1, 50_000)"
    )
    rng = np.random.default_rng(0)
    for _ in range(8):
        process = start(path, Path(__file__).parent, code=endless)
        time.sleep(rng.uniform(0, 0.2))
        kill(process)
        assert number_in(path) in (0, 1)
    write(path, 2)
    assert list(tmp_path.iterdir()) == [path]


# Permissions and links


def test_permissions_are_kept_and_new_files_follow_the_umask(tmp_path):
    path = tmp_path / "model.npz"
    for umask, expected in ((0o077, 0o600), (0o022, 0o644), (0o027, 0o640)):
        old = os.umask(umask)
        try:
            write(path)
        finally:
            os.umask(old)
        assert mode(path) == expected
        path.unlink()
    for kept in (0o600, 0o640, 0o444, 0o664):
        path.touch()
        path.chmod(kept)
        write(path)
        assert mode(path) == kept
        path.unlink()


def test_nobody_else_may_read_the_new_content_of_a_private_file_while_it_is_written(tmp_path):
    path = tmp_path / "secret.npz"
    path.touch()
    path.chmod(0o600)
    process = start(path, 600)
    (partial,) = set(tmp_path.iterdir()) - {path}
    assert mode(partial) & 0o077 == 0
    kill(process)


def test_a_link_planted_at_a_guessed_name_is_not_followed(tmp_path):
    path, victim = tmp_path / "model.npz", tmp_path / "victim"
    victim.write_text("precious")
    planted = tmp_path / f".model.npz.{os.getpid()}.partial"
    planted.symlink_to(victim)
    write(path, 4)
    assert number_in(path) == 4
    assert victim.read_text() == "precious"
    assert planted.is_symlink()


def test_a_target_that_is_a_link_stays_one(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    link, real = tmp_path / "here" / "model.npz", tmp_path / "there" / "real.npz"
    link.symlink_to("../there/real.npz")
    write(link, 5)  # the file it leads to need not exist
    write(link, 6)
    assert link.is_symlink()
    assert number_in(real) == number_in(link) == 6
    assert list((tmp_path / "here").iterdir()) == [link]
    assert list((tmp_path / "there").iterdir()) == [real]


def test_folders_and_devices_are_not_replaced(tmp_path):
    folder, pipe, loop = tmp_path / "folder", tmp_path / "pipe", tmp_path / "loop"
    folder.mkdir()
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    for path in (folder, pipe, loop):
        with pytest.raises(ValueError, match=f"path must be a file: got .*{path.name}, which"):
            write(path)
    assert sorted(tmp_path.iterdir()) == [folder, loop, pipe]


def test_the_longest_name_that_the_folder_takes_can_be_written(tmp_path):
    path = tmp_path / ("é" * 125 + ".npz")  # 254 bytes
    write(path, 7)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model.npz"
    path.write_text("old")
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        model_files.write(
            path,
            SETTINGS,
            {"a": np.array([{}], dtype=object)},
            kind="decalibrator",
            compressed=False,
        )
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_archives_of_arrays_are_what_numpy_reads_and_hold_no_objects(tmp_path):
    arrays = {"a": np.arange(3.0), "names": np.array(["x", "yy"])}
    for compressed in (False, True):
        write_npz(tmp_path / "a.npz", arrays, compressed=compressed)
        with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
            assert sorted(found) == ["a", "names"]
            np.testing.assert_array_equal(found["a"], arrays["a"])
    with pytest.raises(ValueError, match="allow_pickle"):
        write_npz(tmp_path / "b.npz", {"a": np.array([object()])})


# One process at a time writes into a folder.

HOLDING = (
    "import sys; from pathlib import Path; from decal.io.whole_files import only_writer\n"
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
                with exclusive(lock, "the results"):
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
