"""Names, texts, pictures and groups of the inputs, shown next to their numbers."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError, needs
from decal._base.numerics import Indices
from decal._base.pixels import levels
from decal._base.row_checks import to_numpy

LARGEST_SIDE = 96  # longest side of a thumbnail in pixels; smaller pictures are kept as they are
SHEET_COLUMNS = 16
PER_SHEET = SHEET_COLUMNS**2  # thumbnails: few enough that a browser decodes a sheet at once
LOSSLESS_BYTES = 8 << 20  # pictures that need more are compressed, with a loss that is hard to see


@dataclass(frozen=True)
class Sheets:
    """Thumbnails, many to an image file: a browser opens one file rather than hundreds."""

    kind: str  # "image/webp" or "image/png"
    cells: list[tuple[int, int]]  # width and height of every cell of each sheet
    files: list[bytes]  # PER_SHEET thumbnails each, SHEET_COLUMNS in a row
    sizes: NDArray[np.uint8]  # (n, 2) of each thumbnail, which stands in the top left of its cell


@dataclass(frozen=True)
class Media:
    """Names, texts and thumbnails of all inputs, the last by number; each may be None."""

    names: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    picture: Callable[[int], Any] | None = None

    def pick(self, rows: Any) -> dict[str, list[str] | None]:
        """Names and texts of the given inputs."""
        return {
            "names": None if self.names is None else [self.names[row] for row in rows],
            "texts": None if self.texts is None else [self.texts[row] for row in rows],
        }

    def row_bytes(self, total: int) -> int:
        """Bytes per input, estimated from a few inputs spread over all."""
        rows = _some_of(total)
        entries = [entry for listed in self.pick(rows).values() for entry in listed or ()]
        size = sum(map(len, entries))
        if self.picture is not None:
            size += sum(map(len, self._encoded(rows, self.lossless(total)).files))
        return size // len(rows)

    def lossless(self, count: int) -> bool:
        """Whether so many pictures are kept without loss, judged by a few of them."""
        rows = _some_of(count)
        files = self._encoded(rows, lossless=True).files
        return sum(map(len, files)) * count <= LOSSLESS_BYTES * len(rows)

    def sheets(self, rows: Any) -> Sheets | None:
        """The thumbnails of the given inputs."""
        return None if self.picture is None else self._encoded(rows, self.lossless(len(rows)))

    def _encoded(self, rows: Any, lossless: bool) -> Sheets:
        from PIL import features

        assert self.picture is not None
        kind = "webp" if features.check("webp") else "png"
        # `exact` keeps the colours of transparent pixels too.
        settings = {"lossless": lossless, "quality": 85, "exact": True} if kind == "webp" else {}
        cells, files, sizes = [], [], []
        for first in range(0, len(rows), PER_SHEET):
            pictures = [self.picture(int(row)) for row in rows[first : first + PER_SHEET]]
            sizes += [picture.size for picture in pictures]
            cell = tuple(int(side) for side in np.max([p.size for p in pictures], axis=0))
            cells.append((cell[0], cell[1]))
            file = io.BytesIO()
            _tiled(pictures, cells[-1]).save(file, kind, **settings)
            files.append(file.getvalue())
        return Sheets(f"image/{kind}", cells, files, np.asarray(sizes, dtype=np.uint8))


def _some_of(count: int) -> Indices:
    """A few rows, spread over all, whose size tells the average."""
    return np.unique(np.linspace(0, count - 1, 16).astype(np.intp))


def _tiled(pictures: Sequence[Any], cell: tuple[int, int]) -> Any:
    """One picture of many, row by row."""
    from PIL import Image

    lines = -(-len(pictures) // SHEET_COLUMNS)
    columns = min(len(pictures), SHEET_COLUMNS)
    modes = {picture.mode for picture in pictures}
    mode = "RGBA" if "RGBA" in modes else "RGB" if "RGB" in modes else "L"
    sheet = Image.new(mode, (cell[0] * columns, cell[1] * lines))
    for at, picture in enumerate(pictures):
        line, column = divmod(at, SHEET_COLUMNS)
        sheet.paste(picture.convert(mode), (column * cell[0], line * cell[1]))
    return sheet


def open_media(names: Any, texts: Any, images: Any, *, total: int) -> Media:
    """Names, texts and pictures of `total` inputs, checked; pairs of texts become two lines."""
    return Media(
        None if names is None else _texts(names, "names", total),
        None if texts is None else _texts(texts, "texts", total),
        None if images is None else _pictures(images, total),
    )


def _texts(entries: Any, name: str, total: int) -> list[str]:
    def text(entry: Any, index: int) -> str:
        if isinstance(entry, str):
            return str(entry)
        if isinstance(entry, tuple | list) and all(isinstance(part, str) for part in entry):
            return "\n".join(entry)
        if name == "names" and isinstance(entry, int | np.integer):
            return str(entry)
        raise InputError(name, "be text, or pairs of text", f"{entry!r} at index {index}")

    return [text(entry, index) for index, entry in enumerate(_listed(entries, name, total))]


def _listed(entries: Any, name: str, total: int) -> list[Any]:
    if isinstance(entries, str):
        raise InputError(name, "be a list, one for every input", "one text")
    listed = entries.tolist() if hasattr(entries, "tolist") else list(entries)
    if len(listed) != total:
        raise InputError(name, f"be {total}, one for every input", f"{len(listed)}")
    return listed


def _pictures(images: Any, total: int) -> Callable[[int], Any]:
    with needs("PIL", message="images need Pillow: pip install 'decal[explore]'"):
        from PIL import Image
    first = images[0] if isinstance(images, Sequence) and len(images) else None
    if isinstance(images, str | Path):
        opened = _from_folder(Path(images), total)
    elif isinstance(first, str | Path) or hasattr(first, "thumbnail"):
        opened = _listed(images, "images", total).__getitem__
    else:
        array = _check_pictures(images, rows=total)
        return lambda row: _thumbnail(Image.fromarray(levels(array[row], row)))
    return lambda row: _thumbnail(_read(opened(row), row))


def _from_folder(folder: Path, total: int) -> Callable[[int], Path]:
    """The file of each row, by the number in its name."""
    if not folder.is_dir():
        rule = "be a folder, a list of paths or an array"
        raise InputError("images", rule, f"{folder}, which is no folder")
    by_row: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.stem.isdecimal() and path.is_file():
            other = by_row.setdefault(int(path.stem), path)
            if other != path:
                fact = f"{other.name} and {path.name} in {folder}"
                raise InputError("images", "have one file for every row", fact)
    missing = next((row for row in range(total) if row not in by_row), None)
    if missing is not None:
        rule = f"have a file for every row, 0 to {total - 1}"
        remedy = f"Name them by row, such as {missing}.png, or pass a list of paths."
        raise InputError("images", rule, f"none for row {missing} in {folder}", remedy)
    return by_row.__getitem__


def _read(picture: Any, row: int) -> Any:
    """A picture, from its file if need be, upright and in a mode that PNG can store."""
    from PIL import Image, ImageOps

    try:
        if isinstance(picture, str | Path):
            with Image.open(picture) as opened:
                # A large JPEG is decoded at lower resolution.
                opened.draft("RGB", (LARGEST_SIDE, LARGEST_SIDE))
                upright = ImageOps.exif_transpose(opened)
        else:
            upright = ImageOps.exif_transpose(picture)
        if upright.mode in ("L", "RGB", "RGBA"):
            return upright
        return upright.convert("RGBA" if upright.has_transparency_data else "RGB")
    except FileNotFoundError as error:
        raise InputError("images", "exist", f"{picture} for row {row}") from error
    # Pillow raises a SyntaxError for a broken PNG; an UnidentifiedImageError is an OSError.
    except (Image.DecompressionBombError, OSError, SyntaxError, AttributeError) as error:
        fact = f"{picture} for row {row}, which is none, or is damaged ({error})"
        raise InputError("images", "be pictures", fact) from error


def _thumbnail(picture: Any) -> Any:
    """The picture at most LARGEST_SIDE pixels large, without what a camera wrote into it."""
    small = picture.copy()
    small.info.clear()  # place and time
    if max(small.size) > LARGEST_SIDE:
        small.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    return small


def _check_pictures(images: Any, *, rows: int) -> NDArray[Any]:
    """(rows, height, width) or (rows, height, width, 3 or 4) numbers."""
    array = to_numpy(images, "images")
    grey = array.ndim == 3
    if not (grey or (array.ndim == 4 and array.shape[3] in (3, 4))) or 0 in array.shape:
        rule = "be (n, height, width), or with 3 or 4 colours as the last axis"
        remedy = "Move the axis of colours there, if there is one."
        raise InputError("images", rule, f"shape {array.shape}", remedy)
    if len(array) != rows:
        raise InputError("images", f"be {rows}, one for every input", f"{len(array)}")
    if array.dtype.kind not in "uifb":
        raise InputError("images", "be numbers", f"dtype {array.dtype}")
    return array


@dataclass(frozen=True)
class GroupColumn:
    """One column of metadata, such as the site of every input."""

    name: str
    values: tuple[str, ...]  # distinct, in order
    codes: NDArray[np.uint8]  # (n,) the value of every input, by its place among them


def open_groups(groups: Mapping[str, Any] | None, *, total: int) -> list[GroupColumn]:
    """Columns of metadata, checked: one value for every input, not too many distinct ones."""
    if groups is None:
        return []
    if not isinstance(groups, Mapping):
        raise InputError(
            "groups",
            "map names to one value for every input",
            type(groups).__name__,
            "Pass, for example, {'site': sites}.",
        )
    return [_group(str(name), column, total) for name, column in groups.items()]


def rows_of_groups(groups: Any) -> dict[str, Any]:
    """The columns, by what messages call them; none of what is no mapping."""
    found = groups if isinstance(groups, Mapping) else {}
    return {f"groups[{name!r}]": column for name, column in found.items()}


def _group(name: str, column: Any, total: int) -> GroupColumn:
    listed = column.tolist() if hasattr(column, "tolist") else list(column)
    if len(listed) != total:
        rule = f"have {total} values, one for every input"
        raise InputError(f"groups[{name!r}]", rule, f"{len(listed)}")
    texts = [_group_text(value) for value in listed]
    try:
        distinct = sorted(set(texts), key=float)  # numbers, where all are
    except ValueError:
        distinct = sorted(set(texts))
    if len(distinct) > 100:
        remedy = "Put them into bins first, or pass them as names."
        rule = "have at most 100 distinct values"
        raise InputError(f"groups[{name!r}]", rule, f"{len(distinct):,}", remedy)
    place = {value: at for at, value in enumerate(distinct)}
    codes = np.array([place[text] for text in texts], dtype=np.uint8)
    return GroupColumn(name, tuple(distinct), codes)


def _group_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "unknown" if value is None or value != value else str(value)
