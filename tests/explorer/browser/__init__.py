"""Tests that drive a real browser. A package, so that they share one and close it when done."""
