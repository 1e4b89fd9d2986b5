"""Figures of credal sets: spiders, triangles and intervals of one input, and figures of many.

Every function draws on the axes it is given (`ax`), or on those of a new figure, and returns the
axes. No global setting changes. Colours can be told apart without seeing green, and those of
intervals in grey as well: tests simulate both. They follow the axes' background, so that light and
dark figures both read well; sizes follow `font.size`, so that
``plt.rc_context({"font.size": 18})`` makes a figure for a slide.

Imports from `_base`, `choose`, `credal`, `decalibrator`, `evaluate` and `shift`.
"""

from decal._base.errors import needs

with needs("matplotlib", message="decal.plot needs matplotlib: pip install 'decal[plot]'"):
    from decal.plot._alphas import alpha_path, tradeoff
    from decal.plot._gains import likelihood
    from decal.plot._grid import grid
    from decal.plot._intervals import intervals
    from decal.plot._label_shift_figures import frequencies, prevalence
    from decal.plot._many_inputs import binary, decomposition
    from decal.plot._reliability import calibration_test, reliability
    from decal.plot._risk_coverage import risk_coverage
    from decal.plot._simplex import simplex
    from decal.plot._spider import spider

__all__ = [
    "alpha_path",
    "binary",
    "calibration_test",
    "decomposition",
    "frequencies",
    "grid",
    "intervals",
    "likelihood",
    "prevalence",
    "reliability",
    "risk_coverage",
    "simplex",
    "spider",
    "tradeoff",
]
