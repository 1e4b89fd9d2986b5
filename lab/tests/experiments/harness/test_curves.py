"""Curves of coverage against efficiency."""

from __future__ import annotations

import math

import numpy as np
import pytest

from decal_lab.experiments.harness.curves import Curve, levels


def test_levels_are_dense_near_one_and_quick_ones_are_among_all():
    every, quick = levels(), levels(quick=True)
    assert every[0] == quick[0] == 1
    assert every[-1] == quick[-1] == 0
    assert every == sorted(set(every), reverse=True)
    assert set(quick) < set(every)
    assert len(quick) < 0.4 * len(every)
    assert sum(alpha > 0.99 for alpha in every) > 40


def test_a_curve_is_read_between_its_points_and_not_beyond_its_ends():
    curve = Curve(np.array([1, 0.5, 0]), np.array([0.2, 0.6, 1.0]), np.array([0.9, 0.7, 0.1]))
    assert curve.at(0.8) == pytest.approx(0.4)
    assert curve.at(0.1) == 1
    assert curve.at(0.9) == 0.2
    assert math.isnan(curve.at(0.95))
    assert math.isnan(curve.at(0.05))
