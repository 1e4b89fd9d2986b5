"""Files: formats, files of rows, writers, folders, checkpoints, predictions and model files.

Imports from `_base` and `credal`.
"""

__all__: list[str] = []
