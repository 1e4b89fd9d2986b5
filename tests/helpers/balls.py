"""Balls to try: centers with ties, masked classes, certainties and probabilities of 1e-300."""

import numpy as np
from hypothesis import strategies as st

from decal._base.numerics import softplus
from decal.credal._ball_support import log_odds

SPREADS = (0.0, 0.3, 2.0, 12.0, 90.0, 700.0, 1e4)
RADII = (0.0, 1e-18, 1e-9, 1e-4, 0.05, 0.4, np.log(2), 3.0, 40.0, np.inf)


def log_center(logits):
    """Log-probabilities (n, K), exact near 0 and 1."""
    return -softplus(-log_odds(np.asarray(logits, dtype=np.float64)))


@st.composite
def nasty_balls(draw, *, rows=4, max_classes=6, spreads=SPREADS):
    """(log_c, radius): (n, K) and (n,)."""
    K = draw(st.integers(2, max_classes))
    steps = draw(st.lists(st.integers(-8, 8), min_size=rows * K, max_size=rows * K))
    z = np.reshape(steps, (rows, K)) / 8 * draw(st.sampled_from(spreads))
    z[0] = np.where(draw(st.lists(st.booleans(), min_size=K, max_size=K)), -np.inf, z[0])
    z[0, draw(st.integers(0, K - 1))] = 0.0
    radius = draw(st.lists(st.sampled_from(RADII), min_size=rows, max_size=rows))
    return log_center(z), np.array(radius)
