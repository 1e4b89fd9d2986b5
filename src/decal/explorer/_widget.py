"""The explorer's page as a widget of notebooks."""

from __future__ import annotations

from decal._base.errors import needs
from decal.explorer._page import style, widget_script

with needs(
    "anywidget",
    "traitlets",
    message="decal.explorer's notebook widget needs anywidget: pip install 'decal[explore]'",
):
    import anywidget
    import traitlets


class ExplorerWidget(anywidget.AnyWidget):
    """Shows a payload, with the script and the style of the page.

    Parameters
    ----------
    payload
        Gzipped bytes, see `Exploration.compressed`.
    """

    _esm = widget_script()
    _css = style()
    payload = traitlets.Bytes().tag(sync=True)
