"""The explorer's page as a widget of notebooks."""

from __future__ import annotations

from decal.explorer._page import style, widget_script

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    if error.name not in ("anywidget", "traitlets"):
        raise
    raise ImportError(
        "decal.explorer's notebook widget needs anywidget: pip install 'decal[explore]'",
        name=error.name,
    ) from error


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
