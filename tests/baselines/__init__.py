"""Tests of decal.baselines."""
