"""Files: formats, sources, writers, folders, checkpoints and model files.

Imports from `_base` and `credal`.
"""
