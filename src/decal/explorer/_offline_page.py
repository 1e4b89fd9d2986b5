"""A page with its data: what the explorer and the story have in common."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from decal._base.checks import check_count
from decal.explorer._page import html_page
from decal.explorer._payload import Payload
from decal.io.whole_files import replacing

LARGE_PAYLOAD = 64 << 20
"""Bytes beyond which compressing well would take longer than it saves."""


@dataclass(frozen=True, eq=False, repr=False)
class OfflinePage:
    """A page that shows a payload: a file, or an address on this machine.

    Attributes
    ----------
    payload : Payload
        All that the page shows, as a header of plain data and NumPy arrays.
    """

    payload: Payload
    entry: ClassVar[str]
    """The module that draws it."""

    @cached_property
    def compressed(self) -> bytes:
        """The payload as the page holds it; the same numbers give the same bytes."""
        data = self.payload.to_bytes()
        level = 6 if len(data) <= LARGE_PAYLOAD else 2
        return gzip.compress(data, compresslevel=level, mtime=0)

    def html(self) -> str:
        """The page, self-contained: it loads nothing and sends nothing."""
        return html_page(self.payload.header["title"], self.compressed, self.entry)

    def save(self, path: str | Path) -> None:
        """Write the page to one .html file; an earlier one is replaced."""
        with replacing(Path(path)) as partial:
            partial.write_text(self.html(), encoding="utf-8", newline="\n")

    def serve(self, port: int = 0, open_browser: bool = True) -> None:
        """Serve the page to this machine only, until interrupted (Ctrl-C).

        Parameters
        ----------
        port : int
            Port of 127.0.0.1; 0 takes a free one.
        open_browser : bool
            Show the page at once.
        """
        from decal.explorer._server import serve

        number = check_count(port, "port", least=0)
        serve(self.html(), port=number, open_browser=open_browser, entry=self.entry)
