"""Two modules of `decal.evaluate` have short names."""

import importlib

import pytest

import decal


@pytest.mark.parametrize("name", ["metrics", "calibration"])
def test_metrics_and_calibration_can_be_imported_from_decal(name):
    module = getattr(decal.evaluate, name)
    assert importlib.import_module(f"decal.{name}") is module
    assert getattr(decal, name) is module
