"""Memory and time of `decal shift` on a folder, all of it and a sample.

python benchmarks/label_shift_folder.py
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import decal

CLASSES, FILES, LABELS = 10, 4, 3000


def draw(n, frequencies, rng):
    """Logits of a model that is right up to shifts and a scale."""
    y = rng.choice(CLASSES, p=frequencies, size=n)
    x = rng.normal(size=(n, CLASSES)).astype(np.float32)
    x[np.arange(n), y] += 2
    return 2 * x, y


def measured(arguments, folder):
    """Megabytes at most, and seconds of the processor, of a command."""
    command = [sys.executable, "-m", "decal", "shift", "best.npz", "parts", *arguments]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} failed")
    return used.ru_maxrss / 1e3, used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=800_000)
    parser.add_argument("--sample", type=int, default=20_000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "parts").mkdir()
        model = decal.Decalibrator(reference="best", directions=("class", "temperature"))
        even = np.full(CLASSES, 1 / CLASSES)
        model.fit(*draw(LABELS, even, rng)).save(folder / "best.npz")
        mix = rng.dirichlet(np.ones(CLASSES))
        for i in range(FILES):
            logits, _ = draw(options.inputs // FILES, mix, rng)
            np.save(folder / "parts" / f"{i}.npy", logits)
        for arguments in ([], ["--sample", str(options.sample)]):
            size, seconds = measured(arguments, folder)
            shown = " ".join(["decal shift best.npz parts", *arguments])
            print(f"{shown}: {options.inputs:,} inputs, {size:,.0f} MB, {seconds:.1f} s")


if __name__ == "__main__":
    main()
