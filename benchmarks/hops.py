"""Frames from public calls down to the arithmetic, and the work that is repeated on the way.

    python benchmarks/hops.py
    PYTHONPATH=some/older/src python benchmarks/hops.py     # the same table of another version

Hops are frames of decal's own files in the deepest chain from the public call, which is 1, down to
the function that does the arithmetic; list comprehensions and lambdas count, frames of other
packages do not. Functions are found by name, so that modules may move. A scan for finiteness is a
call of np.isfinite on a matrix from one of decal's files. Everything runs in this process and
thread, on small data made on the spot.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import decal
import decal_lab

PACKAGE = str(Path(decal.__file__).parent) + os.sep
LABORATORY = str(Path(decal_lab.__file__).parent) + os.sep
ROWS, CLASSES, BLOCKS = 120, 4, 3

# Functions that do the arithmetic, under all their names in the past; the first one found counts.
LOWER_ENTROPY = ("lower_entropy",)
E_ADMISSIBLE = ("smallest_maximum",)
BOX = ("shift_box",)
HULL_GAMES = ("bracket_values",)
EVIDENCE = ("summarise",)
CELL = ("work", "rows")
MEASURES = ("measures",)

OPENS_SOURCE = ("open_source",)
"""Functions that open a file of logits, which may read the file several times."""


@dataclass
class Record:
    """What happened during one call.

    Attributes
    ----------
    chains : for each function of decal, the deepest chain of decal's frames that led to it.
    counts : how often each kind of repeated work was done.
    """

    chains: dict[str, tuple[str, ...]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def chain(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The deepest chain to the first of these functions that was entered."""
        return next((self.chains[name] for name in names if name in self.chains), ())


def is_ours(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.startswith((PACKAGE, LABORATORY)) and code.co_name != "<module>"


def chain_of(frame: FrameType | None) -> tuple[str, ...]:
    """Names of decal's frames from the outermost down to this one."""
    names: list[str] = []
    while frame is not None:
        if is_ours(frame):
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    return tuple(reversed(names))


class Recorder:
    """Watches one call at a time: by a profile hook, an audit hook and two counting functions."""

    def __init__(self) -> None:
        self.record: Record | None = None
        self.watched = ""
        sys.addaudithook(self._audit)
        decal.Decalibrator.__new__ = self._counting_new

    def __call__(self, work: Callable[[], Any], watched: Path | str = "") -> Record:
        """What happens during `work`, and how often the file `watched` is read."""
        record = Record()
        self.record, self.watched = record, str(watched)
        plain = np.isfinite
        np.isfinite = self._counting_isfinite(plain)
        try:
            with quiet():
                sys.setprofile(self._profile)
                work()
        except SystemExit as stop:
            if stop.code:
                raise
        finally:
            sys.setprofile(None)
            np.isfinite = plain
            self.record = None
        return record

    def _counting_isfinite(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def isfinite(array: Any, *arguments: Any, **options: Any) -> Any:
            if np.ndim(array) == 2 and is_ours(sys._getframe(1)):
                self._count("finiteness scans")
            return plain(array, *arguments, **options)

        return isfinite

    def _counting_new(self, cls: type, *_: Any, **__: Any) -> Any:
        self._count("Decalibrators built")
        return object.__new__(cls)

    def _count(self, what: str) -> None:
        if self.record is not None:
            self.record.counts[what] += 1

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and self.watched and str(arguments[0]) == self.watched:
            self._count("reads of the .npz begun")

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or self.record is None:
            return
        name = frame.f_code.co_name
        owner = frame.f_locals.get("self", frame.f_locals.get("cls"))
        if name == "namelist" and getattr(owner, "filename", "") == self.watched:
            self._count("its names listed")
        if not is_ours(frame):
            return
        found = chain_of(frame)
        if len(found) > len(self.record.chains.get(name, ())):
            self.record.chains[name] = found
        if name == "is_empty":
            self._count("is_empty evaluated")
        if name in OPENS_SOURCE:
            self._count("sources opened")
        if name in ("save", "load") and decal.Decalibrator in (owner, type(owner)):
            self._count("Decalibrators " + {"save": "saved", "load": "loaded"}[name])


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing is printed: what is counted prints tables of its own."""
    sink = io.StringIO()
    with (
        contextlib.redirect_stdout(sink),
        contextlib.redirect_stderr(sink),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


class Examples:
    """The calls that are watched, on random logits and in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        self.logits = rng.normal(size=(ROWS, CLASSES))
        self.labels = rng.integers(0, CLASSES, ROWS)
        self.file = folder / "logits.npz"
        np.savez(self.file, logits=self.logits, labels=self.labels)
        self.fitted().save(folder / "model.npz")
        (folder / "data").mkdir()
        np.savez(
            folder / "data" / "resnet20_cifar10.npz",
            cifar10_test=self.logits,
            test_labels=self.labels,
        )

    def fitted(self) -> decal.Decalibrator:
        """A model that has not solved for anything yet."""
        return decal.decalibrate(self.logits, self.labels, alpha=0.8)

    def command(self, *arguments: Any) -> Callable[[], None]:
        """A call of the command line, from its entry on."""
        try:
            main = importlib.import_module("decal.__main__").main
        except ModuleNotFoundError:
            main = importlib.import_module("decal._entry").main

        def run() -> None:
            sys.argv = ["decal", *map(str, arguments)]
            main()

        return run

    def dask_fit(self) -> Callable[[], None] | None:
        """A fit on a Dask array, in this thread; None without Dask."""
        try:
            import dask
            import dask.array as da

            import decal.distributed as distributed
        except ImportError:
            return None
        dask.config.set(scheduler="synchronous")
        data = da.from_array(self.logits, chunks=(ROWS // BLOCKS, CLASSES))
        return lambda: distributed.fit(data, self.labels, alpha=0.8)


def watch_all(folder: Path) -> Iterator[tuple[str, Record, tuple[str, ...]]]:
    """What each call is named, what happened, and the function that does its arithmetic."""
    made, watch = Examples(folder), Recorder()
    credal = made.fitted().predict(made.logits)
    yield "entropy", watch(credal.entropy), LOWER_ENTROPY
    credal = made.fitted().predict(made.logits)
    yield "decide('e_admissible')", watch(lambda: credal.decide("e_admissible")), E_ADMISSIBLE
    hull = decal.HullCredalSet(np.random.default_rng(1).dirichlet(np.ones(CLASSES), (ROWS, 5)))
    yield "entropy of a hull", watch(hull.entropy), LOWER_ENTROPY
    kept = watch(lambda: hull.decide("e_admissible"))
    yield "decide('e_admissible') of a hull", kept, HULL_GAMES
    model = made.fitted()
    yield "Decalibrator.predict", watch(lambda: model.predict(made.logits)), BOX
    again = decal.Decalibrator(0.8).partial_fit(made.logits, made.labels)
    second = watch(lambda: again.partial_fit(made.logits, made.labels))
    yield "a second partial_fit", second, EVIDENCE
    run = made.command("predict", folder / "model.npz", made.file, "-o", folder / "credal.npz")
    yield "decal predict", watch(run, made.file), BOX
    run = made.command("fit", made.file, "-o", folder / "fitted.npz")
    yield "decal fit", watch(run, made.file), EVIDENCE
    data = folder / "data"
    run = made.command("reproduce", "single-models", "--data", data, "--out", folder / "out")
    reproduced = watch(run, data / "resnet20_cifar10.npz")
    yield "decal reproduce single-models", reproduced, CELL
    yield "  down to its measures", Record(reproduced.chains), MEASURES
    if fit := made.dask_fit():
        yield f"a Dask fit of {BLOCKS} blocks", watch(fit), EVIDENCE


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(f"decal in {PACKAGE}")
    print(f"{'call':<34}{'hops':>5}   down to, and what was done how often")
    with tempfile.TemporaryDirectory() as folder:
        for call, record, arithmetic in watch_all(Path(folder)):
            chain = record.chain(arithmetic)
            hops = len(chain) if chain else "-"
            counts = ", ".join(f"{what} {n}" for what, n in sorted(record.counts.items()))
            print(f"{call:<34}{hops:>5}   {arithmetic[0]}{'; ' if counts else ''}{counts}")
            print(f"{'':42}{' > '.join(chain)}")


if __name__ == "__main__":
    main()
