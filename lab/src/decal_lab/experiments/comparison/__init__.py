"""The comparison of all credal methods, trained on the same data and judged alike.

Imports public names of decal, and the harness.
"""
