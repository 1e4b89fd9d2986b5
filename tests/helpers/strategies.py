"""Random labelled logits, with the awkward ones that real models produce."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp


def few(examples):
    """So many examples of a costly property, or as few as the profile in use draws."""
    return min(examples, settings.default.max_examples)


def at_most(examples):
    """The settings of a property that is too costly for all the examples of the profile."""
    return settings(max_examples=few(examples))


SCALES = (0.0, 0.5, 3.0, 30.0, 1e4)


@st.composite
def labelled_logits(draw, *, max_rows=12, max_classes=5, scales=SCALES, weighted=None):
    """(logits, labels, weights or None): ties, ±1e4, absent classes, K = 2, one row, float32."""
    n = draw(st.integers(1, max_rows))
    K = draw(st.integers(2, max_classes))
    scale = draw(st.sampled_from(scales))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    # Multiples of 1/8 make ties common; sums and shifts stay exact in float32.
    steps = draw(hnp.arrays(np.int64, (n, K), elements=st.integers(-8, 8)))
    logits = (steps / 8 * scale).astype(dtype)
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, K - 1)))
    if weighted is None:
        weighted = draw(st.booleans())
    weights = None
    if weighted:
        weights = draw(hnp.arrays(np.int64, n, elements=st.integers(0, 3))).astype(float)
        weights[draw(st.integers(0, n - 1))] = 1.0
    return logits, labels, weights


alphas = st.one_of(
    st.sampled_from([0.0, 0.2, 0.8, 0.95, 1.0]), st.floats(1e-6, 1.0, allow_nan=False)
)


def endpoints(d, alpha):
    shifts = d.shifts(alpha)
    return np.stack([shifts.lower, shifts.upper])
