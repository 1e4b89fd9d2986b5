"""Pictures that are light or dark, wide or narrow, as the reader's page is.

Those of pages are drawn so, and shown by the directive `picture`. Figures of notebooks are drawn on
white: their dark partners are made here.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from dark import dark
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
    option_spec = {"alt": directives.unchanged_required}  # noqa: RUF012

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
        return [nodes.raw("", "\n".join(shown), format="html", classes=["picture"])]

    def _file(self, attribute: str, path: Path, to_root: str) -> str:
        self.env.note_dependency(str(path))
        width, height = size(path)
        address = to_root + path.relative_to(self.env.srcdir).as_posix()
        return f'{attribute}="{address}" width="{width:.0f}" height="{height:.0f}"'


class Thumbnails(SphinxDirective):
    """A small picture of every section of the page that has one, which leads there."""

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", "", format="html", classes=["thumbnails"])]


def draw_thumbnails(_: Sphinx, page: nodes.document) -> None:
    """What the directive shows, as soon as the sections are known."""
    for place in page.findall(nodes.raw):
        if "thumbnails" not in place["classes"]:
            continue
        links = []
        for section in page.findall(nodes.section):
            own = [node for node in section.children if "picture" in node.get("classes", ())]
            if own:
                images = re.sub(r' alt="[^"]*"', ' alt=""', own[0].astext())  # the title says it
                title = escape(section.next_node(nodes.title).astext())
                links.append(f'<a href="#{section["ids"][0]}">{images}<span>{title}</span></a>')
        html = f'<nav class="thumbnails" aria-label="Figures">{"".join(links)}</nav>'
        place += nodes.Text(html)


def figures_of_notebooks(app: Sphinx, page: nodes.document) -> None:
    """Beside each, the same for dark pages; maps of pixels are shown as they are."""
    for image in list(page.findall(nodes.image)):
        light = app.srcdir / image["uri"].removeprefix("/")
        if light.parent.name != "jupyter_execute":
            continue
        drawing = light.read_text("utf-8")
        if "<image " in drawing:
            continue
        partner(light, dark=True).write_text(dark(drawing), encoding="utf-8")
        on_dark = image.deepcopy()
        on_dark["uri"] = partner(Path(image["uri"]), dark=True).as_posix()
        for shown, theme in ((image, "light"), (on_dark, "dark")):
            shown["classes"] = [*shown["classes"], f"only-{theme}"]
        image.parent.insert(image.parent.index(image) + 1, on_dark)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("picture", Picture)
    app.add_directive("thumbnails", Thumbnails)
    app.connect("doctree-read", draw_thumbnails)
    app.connect("doctree-read", figures_of_notebooks, priority=400)  # before images are collected
    return {"parallel_read_safe": True, "parallel_write_safe": True}
