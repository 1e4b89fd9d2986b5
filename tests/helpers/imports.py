"""What the modules of a package import from each other, read from their source.

Nothing is imported to find out, so that imports inside functions and optional extras count too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = "__init__"
"""The room of the package's own `__init__`."""


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name below the package ("" for the package itself)."""

    name: str
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @property
    def is_folder(self) -> bool:
        return self.path.stem == "__init__"

    @property
    def room(self) -> str:
        """The folder or file directly below the package that the module lies in."""
        return self.name.split(".")[0] or ROOT

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""

    @property
    def sentence(self) -> str:
        """What the module holds: the first sentence of its docstring."""
        words = " ".join(self.docstring.split("\n\n")[0].split())
        first = words.split(". ")[0]
        return first if first.endswith((".", "?")) else f"{first}."


class Package:
    """The modules of a package by their names, and the graph of their imports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = sorted(folder.rglob("*.py"))
        self.modules = {name: Module(name, path) for path in files for name in [self._name(path)]}

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.folder).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def rooms(self) -> dict[str, Module]:
        """Each room's own module: its file, or its folder's `__init__`."""
        return {m.room: m for name, m in self.modules.items() if "." not in name}

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The modules that each module imports, wherever in the file."""
        return {
            name: {self._nearest(found) for found in self._imported(module)}
            for name, module in self.modules.items()
        }

    @property
    def room_imports(self) -> dict[str, set[str]]:
        """The other rooms that each room imports from."""
        found: dict[str, set[str]] = {room: set() for room in self.rooms}
        for name, imported in self.imports.items():
            room = self.modules[name].room
            found[room] |= {self.modules[other].room for other in imported} - {room}
        return found

    def _nearest(self, name: str) -> str:
        """The module that a dotted name is, or is defined in."""
        while name not in self.modules:
            name = name.rpartition(".")[0]
        return name

    def _imported(self, module: Module) -> Iterator[str]:
        """The dotted names, below the package, of all that a module imports from the package."""
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._below(alias.name)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    yield from self._below(f"{self._origin(module, node)}.{alias.name}")
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                for argument in node.args:
                    if isinstance(argument, ast.Constant):
                        yield from self._below(str(argument.value))

    def _origin(self, module: Module, node: ast.ImportFrom) -> str:
        """What `from` names, as an absolute name."""
        if node.level == 0:
            return node.module or ""
        parts = [self.folder.name, *filter(None, module.name.split("."))]
        up = node.level - module.is_folder
        return ".".join([*parts[: len(parts) - up], *filter(None, [node.module])])

    def _below(self, name: str) -> Iterator[str]:
        first, _, rest = name.partition(".")
        if first == self.folder.name:
            yield rest
