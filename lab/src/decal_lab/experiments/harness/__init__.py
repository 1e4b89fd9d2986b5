"""What experiments share: how they run, rows, data, figures, published numbers and reports.

Imports public names of decal.
"""
