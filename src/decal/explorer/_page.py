"""The page: one HTML file that holds its script, its style and its data, and loads nothing.

The script joins the modules in static/ in the order of their imports. They are written so that this
is simple: imports are single lines at the top, such as ``import { a, b } from "./other.js";``, and
``export`` stands before a declaration. At the end stands what starts them, on a page or in a
notebook's widget. A content security policy names the hashes of the script and of the style, and
forbids all else, above all any connection.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from decal._base.settings import check_count
from decal.explorer._payload import Payload
from decal.explorer._server import serve
from decal.io.whole_files import replacing

# The sheets of each page, by the module that draws it.
STYLES = {"main.js": ("style.css",), "scenes.js": ("style.css", "scenes.css")}
IMPORT = re.compile(r'^import \{ ?[\w$, ]+ ?\} from "\./([\w-]+\.js)";[ \t]*$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?function\b|const\b|let\b|class\b)", re.MULTILINE)
LEFT_OVER = re.compile(r"^(?:import\b(?!\()|export\b).*", re.MULTILINE)
DECLARED = re.compile(r"^(?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


@dataclass(frozen=True, eq=False, repr=False)
class OfflinePage:
    """A page that shows a payload: a file, or an address on this machine."""

    payload: Payload
    entry: ClassVar[str]  # the module that draws it

    @cached_property
    def compressed(self) -> bytes:
        """The payload as the page holds it; the same numbers give the same bytes."""
        data = self.payload.to_bytes()
        level = 6 if len(data) <= 64 << 20 else 2  # more takes longer than it saves
        return gzip.compress(data, compresslevel=level, mtime=0)

    def html(self) -> str:
        """The page, self-contained: it loads nothing and sends nothing."""
        return html_page(self.payload.header["title"], self.compressed, self.entry)

    def save(self, path: str | Path) -> None:
        """Write the page to one .html file; an earlier one is replaced."""
        with replacing(Path(path)) as partial:
            partial.write_text(self.html(), encoding="utf-8", newline="\n")

    def serve(self, port: int = 0, open_browser: bool = True) -> None:
        """Serve the page to this machine only, until Ctrl-C; port 0 takes a free one."""
        number = check_count(port, "port", least=0)
        serve(self.html(), policy(self.entry), port=number, open_browser=open_browser)


def html_page(title: str, compressed: bytes, entry: str = "main.js") -> str:
    """The page that a module draws from a gzipped payload, with the title of its window."""
    parts = {
        "title": html.escape(title),
        "policy": html.escape(policy(entry), quote=False),
        "style": style(entry),
        "script": page_script(entry),
        "payload": base64.b64encode(compressed).decode("ascii"),
    }
    # One pass, so that no part is searched for the placeholders of another.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], read_static("page.html"))


def policy(entry: str) -> str:
    """The content security policy: this script, this style, pictures in the page, no connection."""
    return (
        f"default-src 'none'; script-src '{_digest(page_script(entry))}'; "
        f"style-src '{_digest(style(entry))}'; img-src data: blob:; connect-src 'none'; "
        "form-action 'none'; base-uri 'none'"
    )


def style(entry: str = "main.js") -> str:
    """The style of page and widget."""
    return _embeddable("\n".join(map(read_static, STYLES[entry])), "style")


@cache
def page_script(entry: str = "main.js") -> str:
    """The modules and the call that starts them on a page."""
    return _embeddable(f"{bundle(entry)}\n{read_static('start_page.mjs')}", "script")


@cache
def widget_script(entry: str = "main.js") -> str:
    """The modules and the object that anywidget calls."""
    return f"{bundle(entry)}\n{read_static('start_widget.mjs')}"


def bundle(entry: str) -> str:
    """A module and all that it imports as one script, each module after those it needs."""
    done: dict[str, str] = {}
    places: dict[str, str] = {}

    def add(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise ValueError(f"modules must not import in circles: got {name} from {importers}.")
        if name in done:
            return
        source = read_static(name)
        for needed in IMPORT.findall(source):
            add(needed, (*importers, name))
        source = EXPORT.sub("", IMPORT.sub("", source))
        left = LEFT_OVER.search(source)
        if left:
            raise ValueError(f"{name} must keep to the form that page.py bundles: got {left[0]!r}.")
        for declared in DECLARED.findall(source):
            if places.setdefault(declared, name) != name:
                both = f"{places[declared]}, {name}"
                raise ValueError(f"modules share names: got {declared} in {both}.")
        done[name] = source.strip()

    add(entry, ())
    return "\n\n".join(f"// {name}\n{source}" for name, source in done.items()) + "\n"


def read_static(name: str) -> str:
    """A file of static/, with line feeds only."""
    text = files("decal.explorer").joinpath("static", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def _embeddable(text: str, element: str) -> str:
    """The text, after a check that it does not close the element that it is put into."""
    if re.search(rf"</{element}|<!--", text, re.IGNORECASE):
        raise ValueError(f"{element} must not contain </{element} or <!--: it would end there.")
    return text
