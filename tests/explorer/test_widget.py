"""The page as a widget of notebooks."""

from __future__ import annotations

import gzip
import sys

import pytest

from decal.explorer import _page as page


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
    monkeypatch.delitem(sys.modules, "decal.explorer._widget", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ImportError, match=r"needs anywidget: pip install 'decal\[explore\]'"):
        hostile.widget()
    assert "pip install 'decal[explore]'" in hostile._repr_mimebundle_()["text/plain"]
