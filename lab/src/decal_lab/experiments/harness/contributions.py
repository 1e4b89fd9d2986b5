"""Methods and data sets of other people, from a file or from installed packages.

A file of Python may define two mappings:

* ``METHODS``: from a name to a function without arguments that returns a model. The model has
  ``fit(logits, labels)`` and ``predict(logits, alpha=...)``, which returns a credal set, for
  instance a `decal.IntervalCredalSet`. A larger alpha must not give wider sets.
* ``DATA_SETS``: from a name to a function of a seed that returns four arrays: logits (m, K) and
  labels (m,) to fit on, new logits (n, K), and the true distributions (n, K) of these.

A package names the same functions as entry points of the groups `decal.methods` and
`decal.data_sets`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import decal
from decal_lab.experiments.harness.logit_sets import LogitSplit

METHODS, DATA_SETS = "METHODS", "DATA_SETS"
GROUPS = {METHODS: "decal.methods", DATA_SETS: "decal.data_sets"}
"""The groups of entry points, by the name of the mapping in a file."""

PARTS = ("logits", "labels", "new logits", "truth")


@dataclass(frozen=True)
class Contributed:
    """A function of somebody, and what tells whether it has changed: its file, or a version."""

    make: Callable[..., Any]
    origin: Path | str


@dataclass(frozen=True)
class Contributions:
    """Methods and data sets by name."""

    methods: Mapping[str, Contributed] = field(default_factory=dict)
    data_sets: Mapping[str, Contributed] = field(default_factory=dict)

    def model(self, name: str) -> Any:
        """A new model of a method, checked for what it must have."""
        made = self.methods[name].make()
        for part in ("fit", "predict"):
            if not callable(getattr(made, part, None)):
                raise ValueError(
                    f"METHODS[{name!r}] must return an object with fit and predict: got "
                    f"{type(made).__name__}, without {part}."
                )
        return made

    def split(self, name: str, seed: int) -> LogitSplit:
        """A data set, checked by fitting's own checks of logits, labels and distributions."""
        parts = self.data_sets[name].make(seed)
        if not isinstance(parts, tuple | list) or len(parts) != len(PARTS):
            got = f"{len(parts)} parts" if isinstance(parts, tuple | list) else type(parts).__name__
            raise ValueError(
                f"DATA_SETS[{name!r}] must return {', '.join(PARTS)}, as a tuple: got {got}."
            )
        logits, labels, new_logits, truth = map(np.asarray, parts)
        try:
            model = decal.decalibrate(logits, labels, alpha=0.8)
            model.predict(new_logits[:1]).contains(truth[:1])
        except ValueError as error:
            raise ValueError(f"DATA_SETS[{name!r}]: {error}") from error
        if len(truth) != len(new_logits):
            raise ValueError(
                f"DATA_SETS[{name!r}] must have a truth for each of {len(new_logits):,} new "
                f"logits: got {len(truth):,}."
            )
        return LogitSplit(logits, labels, new_logits, truth)


def contributed(files: Sequence[Path] = ()) -> Contributions:
    """All that files define and installed packages name; a file wins over a package.

    Parameters
    ----------
    files : sequence of path
        Python files, which are run. Take only those whose code you trust.
    """
    found = {kind: _installed(group) for kind, group in GROUPS.items()}
    for path in files:
        module = _imported(path)
        given = {kind: getattr(module, kind, {}) for kind in GROUPS}
        if not any(given.values()):
            raise ValueError(f"{path} must define METHODS or DATA_SETS: got neither.")
        for kind, mapping in given.items():
            if not isinstance(mapping, Mapping) or not all(map(callable, mapping.values())):
                raise ValueError(
                    f"{kind} of {path} must be a mapping from names to functions: got "
                    f"{mapping!r:.60}."
                )
            found[kind] |= {str(name): Contributed(f, path) for name, f in mapping.items()}
    return Contributions(found[METHODS], found[DATA_SETS])


def _installed(group: str) -> dict[str, Contributed]:
    """The entry points of a group, loaded."""
    found = {}
    for point in entry_points(group=group):
        version = point.dist.version if point.dist else ""
        found[point.name] = Contributed(point.load(), f"{point.value} {version}")
    return found


def _imported(path: Path) -> Any:
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(f"extra must be a file of Python that ends in .py: got {path}.")
    module = ModuleType(f"decal_extra_{path.stem}")
    try:
        # Not imported, which would leave compiled code beside the user's file.
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except Exception as error:
        raise ValueError(f"{path} must run: got {type(error).__name__}: {error}") from error
    return module
