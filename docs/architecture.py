"""The picture of ARCHITECTURE.md, drawn from the imports: python docs/architecture.py

Layers are rows, the base at the bottom; rooms are boxes with the first sentence of their docstring.
The layers are those that tests/test_architecture.py specifies. A test compares the committed
pictures with what this script would draw, so that they cannot go stale.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from textwrap import wrap
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

DOCS = Path(__file__).parent
TESTS = DOCS.parent / "tests"

GAP, PADDING = 10, 12
LINE, LETTER = 15, 6.4
"""Height of a line of a sentence, and the mean width of its letters."""

THEMES = {
    "light": {
        "page": "#ffffff",
        "row": "#f4f5f7",
        "box": "#ffffff",
        "edge": "#9aa1ab",
        "ink": "#1d2127",
        "quiet": "#565d68",
        "layers": "#7a4fb5 #b3437c #8f6400 #b5501b #1f7a4d #0b7285 #1864ab #495057",
    },
    "dark": {
        "page": "#131416",
        "row": "#1d2024",
        "box": "#272b31",
        "edge": "#6c7480",
        "ink": "#eceff3",
        "quiet": "#aab2bd",
        "layers": "#b794f4 #f28bbd #e0b04a #f59a6a #63d39b #5fcbdc #74b3f5 #c1c7cf",
    },
}


@dataclass(frozen=True)
class Arrangement:
    """How wide the picture is, in pixels, and what stands where."""

    width: int
    left: int
    """Where boxes begin."""

    right: int
    """Where boxes end."""

    columns: int
    lane: int
    """Distance between the vertical lines on the right."""

    heading: int
    """Height of a layer's name, where it stands above its boxes."""


ARRANGEMENTS = {
    "": Arrangement(width=840, left=126, right=700, columns=3, lane=18, heading=0),
    "_narrow": Arrangement(width=428, left=22, right=362, columns=1, lane=7, heading=24),
}


@dataclass(frozen=True)
class Box:
    """A room and where it is drawn."""

    room: str
    lines: list[str]
    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True)
class Row:
    """A layer and where it is drawn."""

    layer: str
    top: float
    height: float
    boxes: list[Box]


def drawn(package, layers: Mapping[str, str], shortcuts, theme: str, name: str = "") -> str:
    """The picture as SVG, in the arrangement of that name.

    `package` is a `helpers.imports.Package`; `layers` and `shortcuts` are those of
    tests/test_architecture.py.
    """
    arrangement = ARRANGEMENTS[name]
    width, right = arrangement.width, arrangement.right
    colors = THEMES[theme]
    tint = dict(zip(layers, colors["layers"].split(), strict=False))
    rows = list(placed(package, layers, shortcuts, arrangement))
    layer_of = {box.room: row.layer for row in rows for box in row.boxes}
    ordinary = {
        room: {to for to in imported if (room, to) not in shortcuts and to in layer_of}
        for room, imported in package.room_imports.items()
    }
    below = {
        row.layer: {layer_of[to] for box in row.boxes for to in ordinary[box.room]} - {row.layer}
        for row in rows
    }
    legend = [
        line
        for sentence in (
            "Lines on the right: a layer imports from the layer that the arrow points to.",
            "Dots on a box: the layers that this room imports from. Dashed boxes: internal.",
        )
        for line in wrap(sentence, int((width - 44) / LETTER))
    ]
    height = rows[-1].top + rows[-1].height + 18 + 16 * len(legend)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" '
        f'width="{width}" height="{height:g}" font-family="system-ui, Segoe UI, sans-serif" '
        'role="img" aria-label="The layers of decal and what they import">',
        f'<rect width="{width}" height="{height:g}" rx="8" fill="{colors["page"]}"/>',
    ]
    for row in rows:
        parts += [
            f'<g class="layer" data-layer="{row.layer}">',
            f'<rect x="8" y="{row.top:g}" width="{right}" height="{row.height:g}" rx="8" '
            f'fill="{colors["row"]}"/>',
            f'<rect x="8" y="{row.top:g}" width="5" height="{row.height:g}" rx="2" '
            f'fill="{tint[row.layer]}"/>',
            f'<text x="22" y="{row.top + 26:g}" font-size="13" font-weight="600" '
            f'fill="{tint[row.layer]}">{row.layer}</text>',
        ]
        for box in row.boxes:
            opened = {to for room, to in shortcuts if room == box.room and to in layer_of}
            parts += room_drawn(box, package, ordinary[box.room], opened, layer_of, tint, colors)
        parts.append("</g>")
    parts += lanes_drawn(rows, below, tint, arrangement)
    for i, text in enumerate(legend):
        parts.append(
            f'<text x="22" y="{height + 5 + 16 * (i - len(legend)):g}" font-size="12" '
            f'fill="{colors["quiet"]}">{text}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def placed(
    package, layers: Mapping[str, str], shortcuts, arrangement: Arrangement
) -> Iterator[Row]:
    """The rows from top to bottom, with their boxes."""
    left, right = arrangement.left, arrangement.right
    top = 10.0
    for layer, names in layers.items():
        rooms = [room for room in names.split() if room in package.rooms]
        columns = min(arrangement.columns, len(rooms))
        width = (right - left - PADDING - GAP * (columns - 1)) / columns
        boxes, y = [], top + PADDING + arrangement.heading
        for first in range(0, len(rooms), columns):
            band = rooms[first : first + columns]
            letters = int((width - 20) / LETTER)
            texts = [wrap(told(package, room, shortcuts), letters) for room in band]
            height = 38 + LINE * max(map(len, texts))
            for i, (room, text) in enumerate(zip(band, texts, strict=True)):
                boxes.append(Box(room, text, left + i * (width + GAP), y, width, height))
            y += height + GAP
        yield Row(layer, top, y - GAP + PADDING - top, boxes)
        top = y - GAP + PADDING + 12


def told(package, room: str, shortcuts) -> str:
    """What the picture says of a room: its sentence, and what its methods open when called."""
    opened = sorted(to for by, to in shortcuts if by == room and to in package.rooms)
    what = "the integrations" if opened[1:] else "".join(opened)
    upwards = f" Opens {what} on first use." if opened else ""
    return package.rooms[room].sentence.replace("`", "") + upwards


def room_drawn(box: Box, package, imported, opened, layer_of, tint, colors) -> list[str]:
    """A room's box: its name, its sentence, and a dot for each layer that it imports from.

    `opened` are the rooms above it that its methods import when they are called.
    """
    module = package.rooms[box.room]
    private = box.room.startswith("_") and box.room != "__init__"
    name = "decal" if box.room == "__init__" else box.room
    ending = (
        "/" if module.is_folder and box.room != "__init__" else "" if name == "decal" else ".py"
    )
    dashes = ' stroke-dasharray="4 3"' if private else ""
    title = f"{name} imports from {', '.join(sorted(imported)) or 'nothing of decal'}"
    parts = [
        f'<g class="room" data-room="{box.room}" data-imports="{" ".join(sorted(imported))}" '
        f'data-opens="{" ".join(sorted(opened))}" data-sentence={quoteattr(module.sentence)}>',
        f"<title>{escape(title)}</title>",
        f'<rect x="{box.left:g}" y="{box.top:g}" width="{box.width:g}" height="{box.height:g}" '
        f'rx="5" fill="{colors["box"]}" stroke="{colors["edge"]}"{dashes}/>',
        f'<text x="{box.left + 10:g}" y="{box.top + 20:g}" font-size="13" font-weight="600" '
        f'font-family="ui-monospace, DejaVu Sans Mono, monospace" fill="{colors["ink"]}">'
        f"{name}{ending}</text>",
    ]
    for i, line in enumerate(box.lines):
        parts.append(
            f'<text x="{box.left + 10:g}" y="{box.top + 38 + LINE * i:g}" font-size="12" '
            f'fill="{colors["quiet"]}">{escape(line)}</text>'
        )
    used = [layer for layer in tint if layer in {layer_of[to] for to in imported}]
    for i, layer in enumerate(reversed(used)):
        parts.append(
            f'<circle cx="{box.left + box.width - 12 - 12 * i:g}" cy="{box.top:g}" r="4.5" '
            f'fill="{tint[layer]}" stroke="{colors["row"]}" stroke-width="1.5"/>'
        )
    return [*parts, "</g>"]


def lanes_drawn(
    rows: list[Row], below: Mapping[str, set[str]], tint, arrangement: Arrangement
) -> list[str]:
    """For each layer that others import, a line down to it from all that do."""
    parts = []
    edge = 8 + arrangement.right
    targets = [row for row in rows if any(row.layer in found for found in below.values())]
    for lane, target in enumerate(targets):
        x, end = edge + arrangement.lane * (lane + 1), target.top + target.height - 14
        starts = []
        for row in rows:
            if target.layer in below[row.layer]:
                # The lines of one row stand apart, in the order of their lanes.
                inner = sum(other.layer in below[row.layer] for other in targets[:lane])
                y = row.top + 14 + 6 * inner
                starts.append(y)
                parts.append(
                    f'<g class="import" data-from="{row.layer}" data-to="{target.layer}">'
                    f"<title>{row.layer} imports from {target.layer}</title>"
                    f'<path d="M{edge} {y:g}H{x:g}" fill="none" stroke="{tint[target.layer]}" '
                    f'stroke-width="1.6"/><circle cx="{x:g}" cy="{y:g}" r="3" '
                    f'fill="{tint[target.layer]}"/></g>'
                )
        parts.append(
            f'<path d="M{x:g} {min(starts):g}V{end:g}H{edge + 8}" fill="none" '
            f'stroke="{tint[target.layer]}" stroke-width="1.6"/>'
            f'<path d="M{edge} {end:g}l9 -5v10z" fill="{tint[target.layer]}"/>'
        )
    return parts


def content(svg: str) -> dict[str, object]:
    """What a picture says, whatever it looks like."""
    tree = ElementTree.fromstring(svg)
    groups = [(g.get("class"), g) for g in tree.iter("{http://www.w3.org/2000/svg}g")]
    return {
        "layers": {
            g.get("data-layer"): [room.get("data-room") for room in g if room.get("data-room")]
            for kind, g in groups
            if kind == "layer"
        },
        "rooms": {
            g.get("data-room"): [g.get(f"data-{x}") for x in ("sentence", "imports", "opens")]
            for kind, g in groups
            if kind == "room"
        },
        "arrows": {
            (g.get("data-from"), g.get("data-to")) for kind, g in groups if kind == "import"
        },
    }


def main() -> None:
    """Write all pictures."""
    sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]
    from test_architecture import LAYERS, PACKAGE, SHORTCUTS

    for theme, name in product(THEMES, ARRANGEMENTS):
        path = DOCS / "_static" / f"architecture{name}_{theme}.svg"
        path.write_text(drawn(PACKAGE, LAYERS, SHORTCUTS, theme, name), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
