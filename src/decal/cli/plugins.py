"""Commands of other packages, found by their entry points in the group `decal.commands`.

An entry point leads to a function that is given the decorator of decal's own commands and applies
it to its command. Such a package is imported when its command is asked for: the list of commands
stays fast, and a broken package breaks its own command only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

GROUP = "decal.commands"

LABORATORY = "decal-lab"
PROMISED = {"reproduce": "Run the paper's experiments on the data available."}
"""Commands of the laboratory, which are listed even where it is not installed, and their help."""


def found() -> dict[str, EntryPoint]:
    """The entry points of installed packages by the names of their commands."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def names() -> list[str]:
    """The commands of other packages: what the laboratory has, then what else is installed."""
    return list(dict.fromkeys([*PROMISED, *found()]))


def listed(name: str, cls: type[Any]) -> Any:
    """A stand-in for the list of commands, which imports nothing."""
    entry = found().get(name)
    origin = LABORATORY if entry is None or entry.dist is None else entry.dist.name
    return _failing(name, cls, PROMISED.get(name, f"A command of {origin}."), None)


def loaded(name: str, cls: type[Any]) -> Any:
    """The command itself; one that says why not if it is not installed or its import fails."""
    entry = found().get(name)
    if entry is None:
        message = f"this command needs the laboratory: pip install {LABORATORY}"
        return _failing(name, cls, f"{PROMISED[name]}\n\nNeeds: pip install {LABORATORY}", message)
    try:
        return _command(name, cls, entry.load())
    except Exception as error:  # whatever another package does wrong
        message = (
            f"{entry.value} must be a command that can be imported: got {type(error).__name__}: "
            f"{error}. Install or update its package."
        )
        return _failing(name, cls, message, message)


def _failing(name: str, cls: type[Any], told: str, message: str | None) -> Any:
    """A command with this help that ends in this message, whatever its arguments are."""

    def fail() -> None:
        raise ImportError(message)

    def register(command: Callable[..., Any]) -> None:
        anything = {"ignore_unknown_options": True, "allow_extra_args": True}
        command(help=told, context_settings=anything)(fail)

    return _command(name, cls, register)


def _command(name: str, cls: type[Any], register: Callable[[Callable[..., Any]], object]) -> Any:
    """What a function registers with the decorator that it is given."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    register(partial(app.command, name, cls=cls))
    return typer.main.get_command(app)
