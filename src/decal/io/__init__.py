"""Files: formats, files of rows, writers, folders, checkpoints, predictions and model files.

Imports from `_base`, `grids`, `schema`, `rows` and `credal`. What other packages may use of it,
such as decal's laboratory: files that are whole or not there (`replacing`, `write_npz`), one writer
at a time (`only_writer`, `only_writer_of`), files of strangers (`gate`), and progress bars.
"""

from decal.io import gate
from decal.io.progress import on_terminal, progress_bar
from decal.io.whole_files import only_writer, only_writer_of, replacing, write_npz

__all__ = [
    "gate",
    "on_terminal",
    "only_writer",
    "only_writer_of",
    "progress_bar",
    "replacing",
    "write_npz",
]
