"""Checks of arguments, stable arithmetic, threads and compiled loops. Imports nothing of decal."""
