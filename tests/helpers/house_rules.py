"""The rules of the tree, each a function that lists what breaks it, in words.

`layers` maps the name of each layer to its rooms, the topmost layer first. A room imports from
layers below its own and, within its layer, from rooms to its left.
"""

from __future__ import annotations

import ast
import builtins
import collections
import pathlib
import re
import typing
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from helpers.imports import ROOT, Module, Package

Layers = Mapping[str, str]
"""The rooms of each layer, separated by spaces, by the layer's name."""

Shortcuts = Collection[tuple[str, str]]
"""Pairs of rooms, the first of which may import the second although it stands higher."""

NOTHING, ALL_BELOW = "Imports nothing of decal", "Imports from all layers below"
PUBLIC = "Imports public names of decal"

IMPORTS = re.compile(
    rf"({NOTHING}|{ALL_BELOW}|(?:{PUBLIC}|Imports from|May import from)(?:[^.]|\.\w)*)\.(?:\s|$)"
)
"""The sentence of a folder's docstring that says where it may import from."""


def reach(layers: Layers) -> dict[str, set[str]]:
    """The rooms that each room may import from."""
    allowed: dict[str, set[str]] = {}
    below: set[str] = set()
    for rooms in reversed(layers.values()):
        for room in rooms.split():
            allowed[room] = set(below)
            below.add(room)
    return allowed


def without_place(package: Package, layers: Layers) -> list[str]:
    """Rooms that no layer names, and names of rooms that do not exist."""
    named = [room for rooms in layers.values() for room in rooms.split()]
    return [
        *(f"{room} stands in no layer" for room in sorted({*package.rooms} - {*named})),
        *(f"{room} does not exist" for room in sorted({*named} - {*package.rooms})),
        *(f"{room} stands in two layers" for room in sorted({*named}) if named.count(room) > 1),
    ]


def against_the_layers(package: Package, layers: Layers, shortcuts: Shortcuts = ()) -> list[str]:
    """Imports that go upwards, or to the right."""
    allowed = reach(layers)
    return [
        f"{name or ROOT} imports {other or ROOT}"
        for name, imported in package.imports.items()
        for other in sorted(imported)
        for room, target in [(package.modules[name].room, package.modules[other].room)]
        if target != room
        and target not in allowed.get(room, ())
        and (room, target) not in shortcuts
    ]


def in_circles(package: Package, shortcuts: Shortcuts = ()) -> list[str]:
    """A circle of modules that import each other, if there is one."""
    rooms = {name: module.room for name, module in package.modules.items()}
    needs = {
        name: {n for n in imported - {name} if (rooms[name], rooms[n]) not in shortcuts}
        for name, imported in package.imports.items()
    }
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return [" is imported by ".join(name or ROOT for name in error.args[1])]
    return []


def folders(package: Package) -> list[Module]:
    """The folders of the package, without the package itself."""
    return [m for m in package.modules.values() if m.is_folder and m.name]


def without_sentence(package: Package, layers: Layers, shortcuts: Shortcuts = ()) -> list[str]:
    """Folders whose docstring does not say, or not truly, which layers they import from."""
    found = []
    for folder in folders(package):
        said = IMPORTS.search(" ".join(folder.docstring.split()))
        if said is None:
            found.append(f"{folder.name} does not say where it imports from")
        elif said[1] != ALL_BELOW:
            named = set(re.findall("`([^`]+)`", said[1]))
            used = _imported_by(package, folder) - {b for a, b in shortcuts if a == folder.room}
            if said[1].startswith(PUBLIC):
                used = {name for name in used if name.startswith("_") and name != ROOT}
            found += _untrue(package, layers, folder, named, used)
    return found


def _untrue(
    package: Package, layers: Layers, folder: Module, named: set[str], used: set[str]
) -> list[str]:
    """What a folder's sentence names wrongly, and what it leaves out.

    The sentence names rooms, layers or, in a folder within a room, the folder next to it.
    """
    prefix = folder.name.rpartition(".")[0]
    within = {m.name.split(".")[-1] for m in folders(package) if prefix and m is not folder}
    covered = {room for name in named for room in layers.get(name, name).split()}
    above = covered - reach(layers).get(folder.room, set()) - within
    return [
        *(f"{folder.name} must not import from {room}" for room in sorted(above)),
        *(
            f"{folder.name} does not say that it imports from {other}"
            for other in sorted(used - covered)
        ),
    ]


def _imported_by(package: Package, folder: Module) -> set[str]:
    """The other rooms, and folders next to it, that a folder imports from."""
    found = set()
    for name, imported in package.imports.items():
        if name == folder.name or name.startswith(f"{folder.name}."):
            for other in imported - {folder.name}:
                if package.modules[other].room != folder.room:
                    found.add(package.modules[other].room)
                elif not other.startswith(f"{folder.name}.") and "." in folder.name:
                    found.add(other.split(".")[1] if "." in other else other)
    return found


def is_public(name: str) -> bool:
    """Whether no part of a dotted name begins with an underscore."""
    return not any(part.startswith("_") for part in name.split("."))


def without_all(package: Package, workshops: Collection[str] = ()) -> list[str]:
    """Public modules that do not list their public names.

    The files of a workshop are its own: what others may use of it stands in its `__init__`.
    """
    return [
        name or ROOT
        for name, module in package.modules.items()
        if is_public(name)
        and not (module.room in workshops and "." in name)
        and "__all__" not in _assigned(module)
    ]


def _assigned(module: Module) -> set[str]:
    targets = [
        target
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in getattr(node, "targets", [getattr(node, "target", None)])
    ]
    return {ast.unparse(target) for target in targets}


def repeated_files(package: Package) -> list[str]:
    """File names that stand for two different things; `_x.py` and `x.py` count as one name."""
    places = defaultdict(list)
    for module in package.modules.values():
        if not module.is_folder:
            places[module.path.stem.strip("_")].append(module.name)
    return _several(places)


def repeated_classes(package: Package) -> list[str]:
    """Names of classes that are defined twice."""
    places = defaultdict(list)
    for module, node in _classes(package):
        places[node.name].append(module.name)
    return _several(places)


def shadowing_classes(package: Package) -> list[str]:
    """Classes that are called like a well-known one of the standard library."""
    known = {name for m in (builtins, collections, pathlib, typing) for name in dir(m)}
    return [f"{m.name}: {node.name}" for m, node in _classes(package) if node.name in known]


def _classes(package: Package) -> Iterable[tuple[Module, ast.ClassDef]]:
    for module in package.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                yield module, node


def _several(places: Mapping[str, list[str]]) -> list[str]:
    return [f"{name}: {', '.join(p)}" for name, p in sorted(places.items()) if len(p) > 1]


def tests_of(module: Module, tests: Path) -> Path | None:
    """The file with the tests of a module, found by its name.

    `tests/<room>/test_<name>.py`, in the room's folder or deeper, without leading underscores. A
    file that is a room by itself may have `tests/test_<room>.py`.
    """
    name = (module.name.split(".")[-1] or module.path.parent.name).strip("_")
    room = module.room.strip("_")
    alone = tests / f"test_{name}.py"
    if "." not in module.name and alone.exists():
        return alone
    return next(iter(sorted((tests / room).rglob(f"test_{name}.py"))), None)


def without_tests(package: Package, tests: Path, elsewhere: Mapping[str, str] = {}) -> list[str]:
    """Modules whose tests are not found by name, nor in the file that `elsewhere` names.

    A folder's `__init__` that defines nothing needs no tests. A file named by `elsewhere` must
    exist, and a module that has tests by name must not be listed there.
    """
    found = []
    modules = {name or ROOT: module for name, module in package.modules.items()}
    for name, module in modules.items():
        if tests_of(module, tests) is not None:
            if name in elsewhere:
                found.append(f"{name} has tests by name: it is no exception")
        elif name in elsewhere:
            if not (tests / elsewhere[name]).exists():
                found.append(f"{name}: {elsewhere[name]} does not exist")
        elif not module.is_folder or _defines(module):
            found.append(name)
    return [*found, *(f"{name} does not exist" for name in elsewhere if name not in modules)]


def _defines(module: Module) -> bool:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(isinstance(node, kinds) for node in module.tree.body)
