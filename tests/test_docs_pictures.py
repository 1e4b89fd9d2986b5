"""Pictures of the documentation: each has a partner for dark pages, with the same words for it."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]
DIRECTIVE = re.compile(r"```\{(?:image|figure)\} (\S+)\n((?::.*\n)*)")
PICTURE = re.compile(
    r'<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="(\S+)">\s*'
    r'<img [^>]*src="([^"\s]+)"'
)


def the_script(name):
    """A script of the documentation, as a module."""
    found = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def lightless(path):
    """The name that both partners share."""
    return re.sub(r"(_light|_dark)?(\.\w+)$", r"\2", path)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_picture_of_a_page_has_a_dark_partner_with_the_same_words(page):
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"!\[[^\]]*\]\([^)]*\.(?:svg|png)\)", text) == []  # seen in both modes
    shown = {"light": {}, "dark": {}}
    for path, options in DIRECTIVE.findall(text):
        mode = re.search(r":class: .*only-(light|dark)", options)
        assert mode, f"{path} needs the class only-light or only-dark"
        alt = re.search(r":alt: (.+)", options)
        assert alt, f"{path} needs :alt:"
        assert (page.parent / path).is_file(), path
        assert path.rsplit(".", 1)[0].endswith("_dark") == (mode[1] == "dark"), path
        shown[mode[1]][lightless(path)] = alt[1]
    assert shown["light"] == shown["dark"]


def test_the_readme_has_a_dark_source_for_every_picture():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pairs = PICTURE.findall(text)
    assert len(pairs) == len(re.findall(r"<img |!\[", text)) > 0
    for dark, light in pairs:
        assert (ROOT / dark).is_file(), dark
        assert (ROOT / light).is_file(), light
        assert lightless(dark) == lightless(light)
        assert dark != light


def test_dark_pictures_are_those_that_the_script_makes_of_the_light_ones():
    script = the_script("dark")
    pairs = list(script.pictures())
    assert len(pairs) > 10
    for light, partner in pairs:
        expected = script.dark(light.read_text(encoding="utf-8"))
        message = f"python docs/dark.py makes {partner.name} anew"
        assert partner.read_text(encoding="utf-8") == expected, message


def test_a_colour_without_counterpart_is_not_passed_over():
    script = the_script("dark")
    with pytest.raises(KeyError, match="#123456"):
        script.dark('<svg width="1"><path style="fill: #123456"/></svg>')
    assert script.dark('<svg width="1"><path style="fill: #ffffff"/></svg>') == (
        '<svg fill="#e3e4e6" width="1"><path style="fill: #131416"/></svg>'
    )
