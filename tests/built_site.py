"""Does every link of the built documentation lead somewhere?

    python tests/built_site.py docs/_build/html

All that pages refer to on the site itself: pages, anchors in them, pictures, frames, scripts and
styles. Addresses of other sites are not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

REFERRING = {
    "a": "href",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "script": "src",
    "source": "srcset",
}


class Page(HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {given[name] or "" for name in ("id", "name") if name in given}
        if target := given.get(REFERRING.get(tag, "")):
            self.targets.append(target)


def broken(site: Path) -> list[str]:
    """What does not exist, with the page that refers to it."""
    pages = {p.resolve(): Page(p.read_text(encoding="utf-8")) for p in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for target in dict.fromkeys(page.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            known = pages[there].anchors if there in pages else {""}
            anchor = unquote(parts.fragment)
            if not there.exists() or (there.suffix == ".html" and anchor not in known | {""}):
                found.append(f"{path.relative_to(site.resolve())}: {target}")
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    problems = broken(folder)
    pages = len(list(folder.rglob("*.html")))
    print(f"{pages} pages, {len(problems)} broken links", *problems, sep="\n")
    sys.exit(bool(problems))
