"""Two boxes that many tests ask, and random ones."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

LOWER = [[0.1, 0.5, 0.0], [0.2, 0.2, 0.2]]
UPPER = [[0.3, 0.8, 0.2], [0.6, 0.5, 0.4]]
POINT = [[0.2, 0.7, 0.1], [0.4, 0.3, 0.3]]
NAMES = ["cat", "dog", "犬"]


@st.composite
def boxes(draw):
    """Intervals around a distribution, on a coarse grid so that sums often meet one exactly."""
    K = draw(st.integers(2, 6))
    parts = np.array(draw(st.lists(st.integers(0, 8), min_size=K, max_size=K)), dtype=float)
    p = (parts + (parts.sum() == 0)) / (parts + (parts.sum() == 0)).sum()
    spread = hnp.arrays(float, K, elements=st.sampled_from([0.0, 0.05, 0.3, 1.0]))
    return np.clip(p - draw(spread), 0, 1)[None], np.clip(p + draw(spread), 0, 1)[None], p[None]
