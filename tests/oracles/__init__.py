"""Definitions written slowly and literally. Nothing here imports decal."""
