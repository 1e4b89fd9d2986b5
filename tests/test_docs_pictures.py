"""Pictures of the documentation: for light and dark pages, for wide and narrow ones, readable."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]
DIRECTIVE = re.compile(r"```\{picture\} (\S+)\n((?::.*\n)*)```\n")
SHOWN = {
    page.parent / path: options
    for page in PAGES
    for path, options in DIRECTIVE.findall(page.read_text(encoding="utf-8"))
}
PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(\S+)">\s*'
    r'<img [^>]*src="([^"\s]+)"'
)
WIDE, NARROW = 704, 358
"""Pixels for pictures, on the narrowest page that shows the wide ones, and on a telephone."""

READABLE = 10
"""Pixels of the smallest text."""


def the_script(name):
    """A script of the documentation, as a module."""
    found = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def named(picture):
    return picture.relative_to(DOCS / "_static").as_posix()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_pages_show_pictures_by_the_directive_that_knows_their_partners(page):
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"!\[[^\]]*\]\([^)]*\.(?:svg|png)\)|```\{(?:image|figure)\}", text) == []
    assert text.count("{picture}") == len(DIRECTIVE.findall(text))


@pytest.mark.parametrize("picture", SHOWN, ids=named)
def test_every_picture_has_words_and_a_dark_partner(picture):
    partner = the_script("pictures").partner
    assert re.search(r"^:alt: .{20}", SHOWN[picture], re.MULTILINE), "needs :alt:"
    assert picture.is_file()
    assert partner(picture, dark=True).is_file()
    narrow = [partner(picture, dark=dark, narrow=True) for dark in (False, True)]
    assert len({path.is_file() for path in narrow}) == 1, narrow


@pytest.mark.parametrize("picture", SHOWN, ids=named)
def test_the_text_of_every_picture_can_be_read_on_a_telephone(picture):
    script = the_script("pictures")
    narrow = script.partner(picture, narrow=True)
    for path, room in ((picture, WIDE), (narrow if narrow.is_file() else picture, NARROW)):
        width, _ = script.size(path)
        assert min(1, room / width) * script.smallest_text(path) >= READABLE, (
            f"{path.name} on {room} pixels"
        )


def test_the_readme_has_a_dark_source_for_every_picture():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pairs = PICTURE.findall(text)
    assert len(pairs) == len(re.findall(r"<img |!\[", text)) > 0
    for dark, light in pairs:
        assert (ROOT / dark).is_file(), dark
        assert (ROOT / light).is_file(), light
        assert re.sub("_dark", "", dark) == re.sub("_light", "", light)
        assert dark != light


def test_dark_pictures_are_those_that_the_script_makes_of_the_light_ones():
    script = the_script("dark")
    pairs = list(script.pictures())
    assert pairs
    for light, partner in pairs:
        expected = script.dark(light.read_text(encoding="utf-8"))
        message = f"python docs/dark.py makes {partner.name} anew"
        assert partner.read_text(encoding="utf-8") == expected, message


def test_pictures_of_the_gallery_are_drawn_by_the_code_below_them(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(DOCS))
    pillow = pytest.importorskip("PIL.Image")
    script = the_script("gallery")
    drawn = {name: digest for name, _, digest in script.steps() if name}
    assert len(drawn) > 10
    for name, digest in drawn.items():
        for kind in ("light", "dark", "narrow_light", "narrow_dark"):
            path = DOCS / "_static" / "gallery" / f"{name}_{kind}.png"
            with pillow.open(path) as picture:
                assert picture.info[script.CODE] == digest, f"run: python docs/gallery.py {name}"


def test_a_colour_without_counterpart_is_not_passed_over():
    script = the_script("dark")
    with pytest.raises(KeyError, match="#123456"):
        script.dark('<svg width="1"><path style="fill: #123456"/></svg>')
    half_a_blue, on_dark = "#80b8d8", "#356480"
    assert script.counterpart(half_a_blue) == on_dark
    assert script.dark('<svg width="1"><path style="fill: #ffffff"/></svg>') == (
        '<svg fill="#e3e4e6" width="1"><path style="fill: #131416"/></svg>'
    )
