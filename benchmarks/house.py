"""How large the house is, and how deep the way from a public call down to its arithmetic.

    python benchmarks/house.py
    PYTHONPATH=some/older/src python benchmarks/house.py     # the table of another version

Sizes count lines with docstrings, modules, names of `decal`, and imports of another room's private
modules or names. Frames are the longest chain of decal's own frames during a call. Depth counts a
closure as part of its function while that one runs, as a reader does, who finds it on the same
page; and so down to the function that does the arithmetic. Functions are the different ones that
were entered; switches are calls from one module of decal into another. Calls run in this process
and thread, on small data made on the spot.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import decal

PACKAGE = Path(decal.__file__).parent
HERE = str(PACKAGE) + os.sep
ROWS, CLASSES = 300, 4


def modules(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def lines(paths: list[Path]) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def private_imports() -> list[str]:
    """Imports of private modules, or private names, of another room; `_base` is for all rooms."""
    found = []
    for path in modules(PACKAGE):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("decal."):
                continue
            room, *parts = (node.module or "").split(".")[1:]
            names = [*parts, *(alias.name for alias in node.names)]
            private = [name for name in names if name.startswith("_")]
            if room not in (room_of(path), "_base") and (private or room.startswith("_")):
                found.append(f"{path.relative_to(PACKAGE)}: {node.module}")
    return found


class Way:
    """The frames of decal that a call goes through."""

    def __init__(self, arithmetic: str) -> None:
        self.arithmetic = arithmetic
        self.frames = self.depth = self.down = self.switches = 0
        self.functions: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """A profile hook."""
        code = frame.f_code
        if event != "call" or not self._is_ours(frame):
            return
        self.functions.add((code.co_filename, code.co_qualname))
        chain, caller = [(code.co_filename, code.co_qualname)], frame.f_back
        while caller is not None:
            if self._is_ours(caller):
                chain.append((caller.f_code.co_filename, caller.f_code.co_qualname))
            caller = caller.f_back
        self.switches += len(chain) > 1 and chain[1][0] != code.co_filename
        around = [(file, name.rpartition(".<locals>.")[0]) for file, name in chain]
        depth = sum(function not in chain for function in around)
        self.frames, self.depth = max(self.frames, len(chain)), max(self.depth, depth)
        if code.co_name == self.arithmetic:
            self.down = max(self.down, depth)

    @staticmethod
    def _is_ours(frame: FrameType) -> bool:
        code = frame.f_code
        return code.co_filename.startswith(HERE) and not code.co_name.startswith("<")


def calls(folder: Path) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(ROWS, CLASSES))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    yield "fit", "summarise", lambda: decal.Decalibrator(0.9).fit(z, y)
    model = decal.Decalibrator(0.9).fit(z, y)
    yield "predict", "shift_box", lambda: model.predict(z)
    sets = model.predict(z)
    yield "entropy", "lower_entropy", sets.entropy
    if hasattr(decal, "choose"):
        yield "choose(miss)", "shift_box", lambda: decal.choose(model, z, y, miss=0.1)
        triage = importlib.import_module("decal.choose").triage
    else:
        yield (
            "choose(miss)",
            "shift_box",
            lambda: decal.selection.alpha_for_labels(model, z, y, 0.1),
        )
        triage = decal.triage.choose
    yield "triage", "shift_box", lambda: triage(z, y, budget=0.2)
    shift = decal.LabelShift().fit(z, y)
    yield "label shift", "box", lambda: shift.observe(z[:50]).predict(z[:5])
    np.savez(folder / "logits.npz", logits=z, labels=y)
    model.save(folder / "model.npz")
    main = importlib.import_module("decal.__main__").main
    arguments = ["predict", folder / "model.npz", folder / "logits.npz", "-o", folder / "sets.npz"]

    def predict() -> None:
        sys.argv = ["decal", *map(str, arguments)]
        with contextlib.suppress(SystemExit):
            main()
        (folder / "sets.npz").unlink()

    predict()  # imports are not part of the way
    yield "decal predict", "shift_box", predict


def main() -> None:
    ours = modules(PACKAGE)
    names = [name for name in dir(decal) if not name.startswith("_")]
    print(f"decal: {lines(ours):,} lines in {len(ours)} modules, {len(names)} names")
    laboratory = PACKAGE.parent.parent / "lab" / "src" / "decal_lab"
    if laboratory.exists():
        theirs = modules(laboratory)
        print(f"decal_lab: {lines(theirs):,} lines in {len(theirs)} modules")
    private = private_imports()
    print(f"private imports across rooms: {len(private)}", *private, sep="\n  ")
    heads = f"{'call':<16}{'depth':>7}{'frames':>8}{'functions':>11}{'switches':>10}"
    print(f"{heads}  down to its arithmetic")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, arithmetic, call in calls(Path(folder)):
            way = Way(arithmetic)
            silent = io.StringIO()
            with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
                sys.setprofile(way)
                try:
                    call()
                finally:
                    sys.setprofile(None)
            found = f"{name:<16}{way.depth:>7}{way.frames:>8}{len(way.functions):>11}"
            print(f"{found}{way.switches:>10}  {way.down} to {arithmetic}")


if __name__ == "__main__":
    main()
