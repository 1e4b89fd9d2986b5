"""Figures of credal sets: spiders, triangles and intervals of one input, and figures of many.

Every function returns the axes that it drew on. No global setting changes. Colours can be told
apart without seeing green, and those of intervals in grey as well: tests simulate both. They follow
the axes' background, light or dark; sizes follow `font.size`, so that
``plt.rc_context({"font.size": 18})`` makes a figure for a slide.

Arguments that mean the same in all of them:

`ax`
    matplotlib axes to draw on, of a spider polar ones; by default those of a new figure.
`truth`
    (K,) the true distribution of the input, or (n, K) those of all inputs: drawn as diamonds.
`colors`
    A sequence of colors, of models or of what else is told apart, instead of decal's.
`legend`
    Whether there is one.

Imports from `_base`, `choose`, `credal`, `decalibrator`, `evaluate`, `grids`, `model` and
`shift`.
"""

from decal._base.errors import needs

with needs("matplotlib", message="decal.plot needs matplotlib: pip install 'decal[plot]'"):
    from decal.plot._alphas import tradeoff
    from decal.plot._cumulative import cumulative, means
    from decal.plot._gains import likelihood
    from decal.plot._grid import grid
    from decal.plot._intervals import intervals
    from decal.plot._label_shift_figures import frequencies, prevalence
    from decal.plot._many_inputs import binary, decomposition
    from decal.plot._maps import maps
    from decal.plot._reliability import reliability
    from decal.plot._risk_coverage import risk_coverage
    from decal.plot._simplex import simplex
    from decal.plot._spider import spider
    from decal.plot._tokens import tokens

__all__ = [
    "binary",
    "cumulative",
    "decomposition",
    "frequencies",
    "grid",
    "intervals",
    "likelihood",
    "maps",
    "means",
    "prevalence",
    "reliability",
    "risk_coverage",
    "simplex",
    "spider",
    "tokens",
    "tradeoff",
]
