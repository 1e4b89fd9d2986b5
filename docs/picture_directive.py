"""The directive `picture`: light or dark, wide or narrow, as the reader's page is."""

from __future__ import annotations

from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from pictures import partner, size
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

NARROW = "(max-width: 46em)"
"""Pages on which the theme narrows its margins, too."""


class Picture(SphinxDirective):
    """Two pictures, of which the theme shows one; the browser takes the narrow drawing, if any."""

    required_arguments = 1
    option_spec = {  # noqa: RUF012
        "alt": directives.unchanged_required,
        "scrolls": directives.flag,  # by itself, where it is too wide and cannot be drawn narrower
    }

    def run(self) -> list[nodes.Node]:
        light = Path(self.env.relfn2path(self.arguments[0])[1])
        to_root = "../" * self.env.docname.count("/")
        alt = escape(self.options["alt"])
        shown = []
        for theme in ("light", "dark"):
            wide = partner(light, dark=theme == "dark")
            narrow = partner(light, dark=theme == "dark", narrow=True)
            source = ""
            if narrow.exists():
                source = f'<source media="{NARROW}" {self._file("srcset", narrow, to_root)}>'
            image = f'<img {self._file("src", wide, to_root)} alt="{alt}">'
            shown.append(f'<picture class="only-{theme}">{source}{image}</picture>')
        pictures = "\n".join(shown)
        if "scrolls" in self.options:
            pictures = f'<div class="scrolls" tabindex="0">{pictures}</div>'
        return [nodes.raw("", pictures, format="html")]

    def _file(self, attribute: str, path: Path, to_root: str) -> str:
        self.env.note_dependency(str(path))
        width, height = size(path)
        address = to_root + path.relative_to(self.env.srcdir).as_posix()
        return f'{attribute}="{address}" width="{width:.0f}" height="{height:.0f}"'


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
