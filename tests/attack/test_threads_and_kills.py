"""Learning and asking at once from many threads; fits killed at random moments and resumed."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import decal
from helpers.archives import read_npz
from helpers.attack import FACTOR, counted

ROUNDS = 4 * FACTOR
KILLS = 2 * FACTOR


def chunk(rng, rows=8):
    return rng.normal(size=(rows, 3)), rng.integers(0, 3, rows)


@counted("threads: fit, partial_fit, predict, save", ROUNDS)
def test_learning_and_asking_at_once_gives_answers_of_whole_states(tmp_path):
    rng = np.random.default_rng(0 if FACTOR == 1 else None)
    for _ in range(ROUNDS):
        learning_and_asking(rng, tmp_path / "model.npz")


def learning_and_asking(rng, path):
    """Threads add equal chunks to a model while others ask it, save it and read it back.

    Chunks are equal, so all answers that a state of m chunks can give are known beforehand.
    """
    logits, labels = chunk(rng)
    queries, chunks = rng.normal(size=(5, 3)), 24
    alphas = [0.9, 0.5, *rng.uniform(0.1, 0.95, 3)]

    def after(m):
        return decal.Decalibrator(likelihood="sum").fit(logits, labels, sample_weight=np.full(8, m))

    known = {
        alpha: [after(m).predict(queries, alpha=alpha).upper for m in range(1, chunks + 1)]
        for alpha in alphas
    }
    model = decal.Decalibrator(likelihood="sum").partial_fit(logits, labels)
    stop, strange = threading.Event(), []

    def ask(asked):
        turn = random.Random(asked)
        while not stop.is_set():
            alpha = turn.choice(alphas)
            some = model
            if asked == 0:
                model.save(path)
                some = decal.Decalibrator.load(path)
            upper = some.predict(queries, alpha=alpha).upper
            if not any(np.allclose(upper, each, atol=1e-9) for each in known[alpha]):
                strange.append((alpha, upper))

    with ThreadPoolExecutor(16) as pool:
        asking = [pool.submit(ask, i) for i in range(4)]
        list(pool.map(lambda _: model.partial_fit(logits, labels), range(chunks - 1)))
        stop.set()
        for each in asking:
            each.result()
    assert not strange
    assert model.examples == chunks * len(labels)
    for alpha in alphas:
        np.testing.assert_allclose(
            model.predict(queries, alpha=alpha).upper, known[alpha][-1], atol=1e-9
        )


def fit(folder, out):
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "decal",
        "fit",
        "--alpha=0.8",
        str(folder),
        "-o",
        str(out),
    ]
    command += ["--checkpoint-every", "0", "--directions", "class,temperature"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def finish(process):
    _, message = process.communicate(timeout=300)
    assert process.returncode == 0, message.decode()


@pytest.mark.slow
@counted("processes: fits killed with kill -9", KILLS)
def test_fits_killed_at_random_moments_resume_to_the_same_bits(tmp_path):
    pytest.importorskip("typer", reason="needs decal[cli]")
    rng = np.random.default_rng(1)
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(6):
        logits = rng.normal(size=(3000, 4)).astype(np.float32)
        np.savez(folder / f"{i}.npz", logits=logits, labels=rng.integers(0, 4, 3000))
    start = time.monotonic()
    finish(fit(folder, tmp_path / "through.npz"))
    seconds = time.monotonic() - start
    expected = read_npz(tmp_path / "through.npz")
    moments = random.Random(2 if FACTOR == 1 else None)
    for turn in range(KILLS):
        out = tmp_path / f"{turn}.npz"
        for _ in range(2):
            process = fit(folder, out)
            # Reading begins after the program has been loaded, at about half of its time.
            time.sleep(moments.uniform(0.4, 1.0) * seconds)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        if not out.exists():
            finish(fit(folder, out))
        found = read_npz(out)
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
