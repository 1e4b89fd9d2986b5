"""Files of every format that decal reads, and ways to damage them, each drawn from a seed.

As a program, `python -m helpers.damaged_files FOLDER`, it takes lines "FORMAT FIRST COUNT", reads
so many damaged files under a limit of memory and time, and prints what came of each.
"""

from __future__ import annotations

import faulthandler
import io
import json
import sys
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np

import decal
from decal.io.row_files import open_source
from helpers.logit_files import NAMES
from helpers.memory import limited_memory
from helpers.sealed_files import write_sealed

SECONDS = 60
"""Time limit of a case."""

MEGABYTES = 700
"""Memory that a case may ask for, beyond what the process has."""

NASTY = [0.0, -0.0, -1.0, 1e308, -1e308, 1e-320, np.inf, -np.inf, np.nan, 2.0**53, 1e30]
NASTY_JSON = [None, True, -1, 0, 10**30, 1e308, float("nan"), float("-inf"), "x", [], {}, [[]]]
NASTY_SIZES = [0, 1, 2**31, 2**40, 2**62, 10**30, -1]
DTYPES = ["<f4", "<i8", ">f8", "<f2", "|b1", "<U9", "<U0", "|V8", "|O", "<c16", "<M8[s]"]


def data():
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((60, 3))
    return logits, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


# Whole files, by format


def model_file(**settings):
    logits, labels = data()
    opened = io.BytesIO()
    model = decal.Decalibrator(0.8, directions=("class", "temperature"), **settings)
    model.fit(logits, labels, classes=NAMES).save(opened)
    return opened.getvalue()


def coupled_file():
    opened = io.BytesIO()
    decal.CoupledDecalibrator(0.8, likelihood="mean").fit(*data()).save(opened)
    return opened.getvalue()


def npz(save=np.savez_compressed, order="C", **more):
    logits, labels = data()
    opened = io.BytesIO()
    save(opened, logits=np.asarray(logits, order=order), labels=labels, **more)
    return opened.getvalue()


def npy(order="C"):
    opened = io.BytesIO()
    np.save(opened, np.asarray(data()[0], order=order))
    return opened.getvalue()


def csv():
    logits, labels = data()
    lines = [",".join([*map(str, row), NAMES[k]]) for row, k in zip(logits, labels, strict=True)]
    return "\n".join([",".join([*NAMES, "label"]), *lines, ""]).encode()


def table(layout):
    import pyarrow as pa

    logits, labels = data()
    if layout == "columns":
        names = pa.array(np.array(NAMES)[labels]).dictionary_encode()
        return pa.table({n: logits[:, k] for k, n in enumerate(NAMES)} | {"label": names})
    flat = pa.array(logits.ravel())
    lists = pa.ListArray.from_arrays(np.arange(61, dtype=np.int32) * 3, flat)
    return pa.table({"logits": lists, "label": labels})


def parquet(layout="columns", **options):
    import pyarrow.parquet as pq

    opened = io.BytesIO()
    pq.write_table(table(layout), opened, row_group_size=25, **options)
    return opened.getvalue()


def feather(layout="columns", compression="lz4"):
    import pyarrow.feather

    opened = io.BytesIO()
    pyarrow.feather.write_feather(table(layout), opened, chunksize=25, compression=compression)
    return opened.getvalue()


def arrow_stream(layout="columns"):
    import pyarrow as pa

    opened = io.BytesIO()
    whole = table(layout)
    with pa.ipc.new_stream(opened, whole.schema) as writer:
        writer.write_table(whole, max_chunksize=25)
    return opened.getvalue()


FORMATS = {
    "model": (".npz", [model_file, lambda: model_file(reference="best")]),
    "coupled": (".npz", [coupled_file]),
    "npz": (
        ".npz",
        [npz, lambda: npz(np.savez, "F"), lambda: npz(np.savez, classes=np.array(NAMES))],
    ),
    "npy": (".npy", [npy, lambda: npy("F")]),
    "csv": (".csv", [csv]),
    "parquet": (
        ".parquet",
        [parquet, lambda: parquet("lists", compression="zstd"), lambda: parquet(compression=None)],
    ),
    "feather": (
        ".feather",
        [feather, lambda: feather("lists"), lambda: feather("lists", "uncompressed")],
    ),
    "arrow": (".arrow", [arrow_stream, lambda: arrow_stream("lists")]),
}
"""By name: how the names of its files end, and functions that make an intact one."""

ARCHIVES = ("model", "coupled", "npz")


@cache
def whole_files(kind):
    """Intact files of a format."""
    return [make() for make in FORMATS[kind][1]]


# Damage


def damaged(kind, seed):
    """The bytes of a file, and how they were damaged."""
    rng = np.random.default_rng(seed)
    files = whole_files(kind)
    whole = files[rng.integers(len(files))]
    ways = [flipped, overwritten, cut, grown, shuffled]
    if kind in ARCHIVES:
        ways += 2 * [renumbered, reheaded, resized, joined]
    if kind == "npy":
        ways += 2 * [rewritten_header]
    if kind in ("model", "coupled"):
        ways += 4 * [reset]
    way = ways[rng.integers(len(ways))]
    return way(whole, rng), way.__name__


def flipped(whole, rng):
    """A few bits, flipped."""
    found = bytearray(whole)
    for _ in range(rng.integers(1, 9)):
        found[rng.integers(len(found))] ^= 1 << rng.integers(8)
    return bytes(found)


def overwritten(whole, rng):
    """A few bytes, replaced by zeros, ones or anything."""
    found = bytearray(whole)
    start, count = rng.integers(len(found)), rng.integers(1, 17)
    fill = rng.choice(["zeros", "ones", "noise"])
    new = {"zeros": bytes(count), "ones": b"\xff" * count, "noise": rng.bytes(count)}[fill]
    found[start : start + count] = new
    return bytes(found[: len(whole)])


def cut(whole, rng):
    """An end that is missing, or a piece in the middle."""
    start, stop = sorted(rng.integers(len(whole), size=2))
    return whole[:start] if rng.random() < 0.5 else whole[:start] + whole[stop:]


def grown(whole, rng):
    """Bytes that do not belong there."""
    at = rng.choice([0, len(whole), rng.integers(len(whole))])
    return whole[:at] + rng.bytes(int(rng.integers(1, 300))) + whole[at:]


def shuffled(whole, rng):
    """A piece copied to another place."""
    start, to = rng.integers(len(whole), size=2)
    piece = whole[start : start + rng.integers(1, 200)]
    return whole[:to] + piece + whole[to + len(piece) :]


def members(whole):
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(contents, kind=zipfile.ZIP_DEFLATED):
    opened = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a name used twice
        with zipfile.ZipFile(opened, "w", kind, compresslevel=1) as archive:
            for name, content in contents:
                archive.writestr(name, content)
    return opened.getvalue()


def one_changed(whole, rng, change, but=()):
    """An archive with valid checksums, one member of which is changed."""
    contents = members(whole)
    name = rng.choice([name for name in contents if name not in but])
    contents[name] = change(contents[name])
    return sealed(packed(contents.items())) if rng.random() < 0.5 else packed(contents.items())


def sealed(whole):
    """The same, with a checksum that fits if it is that of a model; whatever has none stays."""
    opened = io.BytesIO()
    try:
        with np.load(io.BytesIO(whole)) as archive:
            write_sealed(opened, dict(archive))
    except Exception:
        return whole
    return opened.getvalue()


def renumbered(whole, rng):
    """Numbers in an array, replaced by impossible ones."""

    def change(content):
        array = np.load(io.BytesIO(content)).copy()
        flat = array.reshape(-1)
        for _ in range(rng.integers(1, 4)):
            if flat.size and array.dtype.kind in "fi":
                with np.errstate(invalid="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    flat[rng.integers(flat.size)] = np.array(rng.choice(NASTY)).astype(array.dtype)
        opened = io.BytesIO()
        np.save(opened, array)
        return opened.getvalue()

    return one_changed(whole, rng, change, but=("header.npy",))


def rewritten_header(content, rng):
    """The header of an .npy, with another shape, dtype, order or text."""
    length = int.from_bytes(content[8:10], "little")
    text, numbers = content[10 : 10 + length].decode("latin1"), content[10 + length :]
    shape = tuple(int(rng.choice(NASTY_SIZES[:4])) for _ in range(rng.integers(4)))
    if rng.random() < 0.5:
        shape = (NASTY_SIZES[rng.integers(len(NASTY_SIZES))], *shape)
    start, stop = text.index("'shape'"), text.index("}")
    new = [
        text[:start] + f"'shape': {shape}, " + text[stop:],
        text.replace("<f8", str(rng.choice(DTYPES))),
        text.replace("False", "True"),
        flipped(text.encode("latin1"), rng).decode("latin1"),
        "(" * int(rng.choice([100, 9000])) + text,
        text[: rng.integers(len(text))],
        "{'descr': [('a', '<f8'), ('b', '|O')], 'fortran_order': False, 'shape': (3,), }",
    ][rng.integers(7)]
    encoded = new.encode("latin1", errors="replace")[:60_000]
    return content[:8] + len(encoded).to_bytes(2, "little") + encoded + numbers


def reheaded(whole, rng):
    """A member of an archive whose .npy header lies."""
    return one_changed(whole, rng, lambda content: rewritten_header(content, rng))


def resized(whole, rng):
    """Sizes in the directory of an archive that are not true."""
    found = bytearray(whole)
    entry = whole.index(b"PK\x01\x02")
    for _ in range(rng.integers(len(members(whole)))):
        entry = whole.index(b"PK\x01\x02", entry + 4)
    at = entry + int(rng.choice([10, 16, 20, 24, 42]))  # method, CRC, packed, whole, place
    size = int(rng.choice([0, 1, 2**20, 2**30, 2**31, 2**32 - 1]))
    width = 2 if at == entry + 10 else 4
    found[at : at + width] = (size % 2 ** (8 * width)).to_bytes(width, "little")
    return bytes(found)


def joined(whole, rng):
    """A member too many: unknown, known but twice, packed in a strange way, or a bomb."""
    contents = [*members(whole).items()]
    kind = [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2][rng.integers(3)]
    size = [1, 1 << 28 if kind == zipfile.ZIP_DEFLATED else 1 << 24][rng.integers(2)]
    opened = io.BytesIO()
    np.save(opened, np.zeros(size, dtype=np.uint8))
    name = str(rng.choice(["extra.npy", "class.extra.npy", contents[-1][0], "../x.npy", "x"]))
    contents.append((name, opened.getvalue()))
    return packed(contents, kind)


def reset(whole, rng):
    """A setting of a model, replaced."""

    def change(content):
        settings = json.loads(str(np.load(io.BytesIO(content))))
        name = str(rng.choice(list(settings)))
        settings[name] = NASTY_JSON[rng.integers(len(NASTY_JSON))]
        opened = io.BytesIO()
        np.save(opened, np.array(json.dumps(settings)))
        return opened.getvalue()

    header = {name for name in members(whole) if name != "header.npy"}
    return one_changed(whole, rng, change, but=header)


# Reading


def read(kind, path):
    """Read a file as a user does, and use what it holds."""
    if kind in ("model", "coupled"):
        model = (decal.Decalibrator if kind == "model" else decal.CoupledDecalibrator).load(path)
        model.predict(data()[0][:3])
        model.save(path)
        return
    labels = {"labels": path.with_name("labels.npy")} if kind == "npy" else {}
    with open_source(path, needed=("labels",), **labels) as source:
        for _ in source.chunks(50):
            pass


def outcome(kind, path):
    """ "read", "refused", or what else happened, which must not."""
    try:
        read(kind, path)
    except (ValueError, OSError) as error:
        if path.name not in str(error) and "labels.npy" not in str(error):
            return f"{error!r} does not name the file"
        if kind in (*ARCHIVES, "npy") and asked_for_too_much(error):
            return f"{error!r} after asking for too much memory"
        return "refused"
    except Exception as error:
        return f"{error!r} escaped"
    return "read"


def asked_for_too_much(error):
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__
    return False


def attack(kind, first, count, folder):
    """Print the seed of every case, the way of its damage, and its outcome."""
    np.save(folder / "labels.npy", data()[1])
    path = folder / f"damaged{FORMATS[kind][0]}"
    for content in whole_files(kind):  # all that is needed is now imported
        path.write_bytes(content)
        assert outcome(kind, path) == "read", outcome(kind, path)
    for seed in range(first, first + count):
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        content, way = damaged(kind, seed)
        path.write_bytes(content)
        print(seed, way, end=" ", flush=True)
        with limited_memory(MEGABYTES):
            found = outcome(kind, path)
        print(found, flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    faulthandler.enable()
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        kind, first, count = line.split()
        attack(kind, int(first), int(count), Path(sys.argv[1]))
