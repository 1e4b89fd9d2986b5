"""Files in the formats of public data sets, written from the definitions of these formats."""

import io
import struct
import tarfile

import numpy as np


def idx(array):
    """The bytes of an IDX file, written down from the format's definition."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx(folder, prefix, pixels, labels, *, pack=lambda content: content, suffix=""):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{prefix}-images-idx3-ubyte{suffix}").write_bytes(pack(idx(pixels)))
    (folder / f"{prefix}-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(labels)))


def tar_gz(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
