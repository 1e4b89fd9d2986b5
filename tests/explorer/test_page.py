"""The page: one file that holds everything and loads nothing, and a widget of notebooks."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html.parser
import re
import sys

import pytest

from decal.explorer import _page as page
from decal.explorer import explore
from helpers.explorations import HOSTILE, data, decoded, fitted


class Elements(html.parser.HTMLParser):
    """The text of every script, style and title, and the attributes of every tag."""

    def __init__(self):
        super().__init__()
        self.texts, self.tags, self.open = [], [], None

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open = tag

    def handle_endtag(self, _tag):
        self.open = None

    def handle_data(self, data):
        if self.open in ("script", "style", "title"):
            self.texts.append((self.tags[-1], data))


def test_a_page_holds_the_payload_and_nothing_breaks_out_of_it(hostile, tmp_path):
    hostile.save(tmp_path / "page.html")
    found = Elements()
    found.feed((tmp_path / "page.html").read_text(encoding="utf-8"))
    tags = [tag for tag, _ in found.tags]
    assert (tags.count("script"), tags.count("style"), tags.count("title")) == (2, 1, 1)
    texts = {attributes.get("id", tag): text for (tag, attributes), text in found.texts}
    assert texts["title"] == HOSTILE[0] + HOSTILE[1]
    bytes_ = gzip.decompress(base64.b64decode(texts["payload"], validate=True))
    assert bytes_ == hostile.payload.to_bytes()
    header, _ = decoded(bytes_)
    assert header["inputs"]["texts"] == header["inputs"]["names"] == HOSTILE
    assert header["models"][0]["classes"] == HOSTILE
    assert header["title"] == HOSTILE[0] + HOSTILE[1]


def test_the_policy_allows_this_script_and_this_style_and_no_connection(hostile):
    found = Elements()
    found.feed(hostile.html())
    policies = [a["content"] for tag, a in found.tags if tag == "meta" and "http-equiv" in a]
    assert len(policies) == 1
    rules = dict(rule.split(" ", 1) for rule in policies[0].split("; "))
    for (tag, attributes), text in found.texts:
        if attributes.get("type") == "module" or tag == "style":
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["connect-src"] == "'none'"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data: blob:"
    addresses = [a for _, a in found.tags if {"src", "href", "style", "onload"} & set(a)]
    assert addresses == []


def test_the_same_numbers_give_the_same_page():
    z = data(5, 3)[0]
    first, second = (explore(fitted(3), z, title="Same") for _ in range(2))
    assert first.html() == second.html()
    assert first.compressed[4:8] == bytes(4)  # where gzip would put the time


def test_modules_are_bundled_in_the_order_of_their_imports(monkeypatch):
    sources = {
        "main.js": 'import { b } from "./b.js";\nimport { a, c } from "./a.js";\n'
        "export function mount() { return a + b; }\nexport async function inflate() {}\n",
        "b.js": 'import { a } from "./a.js";\nexport const b = a + 1;\nexport class C {}\n',
        "a.js": "const text = 'export default';\nexport const a = 1;\nexport const c = 2;\n",
    }
    monkeypatch.setattr(page, "read_static", sources.__getitem__)
    bundle = page.bundle("main.js")
    assert re.findall(r"^// (\w+\.js)", bundle, re.MULTILINE) == ["a.js", "b.js", "main.js"]
    assert bundle.count("const a = 1;") == 1
    assert not re.search(r"^(import|export)\b", bundle, re.MULTILINE)
    assert "async function inflate() {}" in bundle
    assert "'export default'" in bundle
    for wrong in ('import x from "./a.js";\n', "export default 3;\n", "export { a };\n"):
        monkeypatch.setitem(sources, "a.js", wrong)
        with pytest.raises(ValueError, match=r"a.js must keep to the form that page.py bundles"):
            page.bundle("main.js")
    monkeypatch.setitem(sources, "a.js", 'import { b } from "./b.js";\n')
    with pytest.raises(ValueError, match="must not import in circles"):
        page.bundle("main.js")
    monkeypatch.setitem(sources, "a.js", "export const b = 1;\n")
    with pytest.raises(ValueError, match="modules share names: got b in a.js, b.js"):
        page.bundle("main.js")


def test_no_module_is_forgotten():
    folder = page.files("decal.explorer").joinpath("static")
    modules = {path.name for path in folder.iterdir() if path.name.endswith(".js")}
    bundles = "".join(map(page.bundle, ("main.js", "scenes.js", "strip.js")))
    assert set(re.findall(r"^// ([\w-]+\.js)$", bundles, re.MULTILINE)) == modules


def test_the_widget_holds_the_same_payload_and_the_same_script(hostile):
    pytest.importorskip("anywidget", reason="needs decal[explore]")
    widget = hostile.widget()
    assert gzip.decompress(widget.payload) == hostile.payload.to_bytes()
    script = str(widget._esm)
    assert page.bundle("main.js") in script
    assert script.rstrip().endswith("};")
    assert "export default {" in script
    assert str(widget._css) == page.style()
    assert "payload" in widget.get_state()
    shown = hostile._repr_mimebundle_()
    bundle = shown[0] if isinstance(shown, tuple) else shown
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_without_anywidget_a_notebook_says_what_to_install(hostile, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ImportError, match=r"needs anywidget: pip install 'decal\[explore\]'"):
        hostile.widget()
    assert "pip install 'decal[explore]'" in hostile._repr_mimebundle_()["text/plain"]
