"""Optional libraries: without one, the error says how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(*packages: str, message: str) -> Iterator[None]:
    """Turn the failed import of a package into an ImportError with this message.

    A package that these packages themselves miss is another problem: its error stays as it is.

    Parameters
    ----------
    *packages : str
        Names as they are imported.
    message : str
        What needs them, and the command that installs them.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in packages:
            raise
        raise ImportError(message, name=error.name) from error
