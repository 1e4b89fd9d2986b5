"""Tests of decal_lab.baselines."""
