"""Rows of a comparison of all methods, for tests."""

import math

from decal_lab.experiments.comparison.plan import COLUMNS


def row(method, seed, alpha=math.nan, **numbers):
    empty = {name: math.nan if kind is float else "" for name, kind in COLUMNS.items()}
    return empty | {"method": method, "seed": seed, "alpha": alpha} | numbers
