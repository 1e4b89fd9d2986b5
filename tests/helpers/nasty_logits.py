"""Labelled logits as nasty as models produce them, and nastier: of every size, tied, masked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

SIZES = (0.0, 1e-300, 1e-30, 1e-8, 0.1, 1.0, 3.0, 30.0, 1e3, 1e5, 1e9, 1e15, 1e30, 1e100, 1e290)
LARGEST_FLOAT32 = 1e35
MASKED = -1e300
"""decal reads numbers from here on, which only float64 can hold, as -inf."""

MASKS = {
    "-inf": -np.inf,
    "-1e4": -1e4,
    "-1e9": -1e9,
    "-1e15": -1e15,
    "float32": float(np.finfo(np.float32).min),
    "float64": float(np.finfo(np.float64).min),
}
SHAPES = ("normal", "ties", "constant", "offset", "mixed")
LABELS = ("any", "likely", "one", "without the last", "without the first")
WEIGHTS = ("none", "integers", "ten decades")


@dataclass(frozen=True)
class Problem:
    """Labelled logits, made of a few choices that Hypothesis draws and shrinks."""

    rows: int
    classes: int
    size: float
    dtype: str
    shape: str
    mask: str
    masked_share: float
    labelling: str
    weighting: str
    seed: int

    def __repr__(self):
        drawn = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return f"Problem({drawn})"

    @cached_property
    def _made(self):
        rng = np.random.default_rng(self.seed)
        n, K = self.rows, self.classes
        size = min(self.size, LARGEST_FLOAT32) if self.dtype == "float32" else self.size
        z = rng.normal(size=(n, K))
        if self.shape == "ties":
            z = np.round(2 * z) / 2
        elif self.shape == "constant":
            z = np.ones((n, K))
        elif self.shape == "mixed":
            z *= 10.0 ** rng.uniform(-4, 0, (n, 1))
        z *= size
        labels = self._labels(rng, z)
        if self.shape == "offset":
            z += 1e5 * rng.choice([-1.0, 1.0], (n, 1))
        value = MASKS[self.mask]
        if self.dtype == "float32":
            value = max(value, MASKS["float32"]) if np.isfinite(value) else value
        masked = rng.random((n, K)) < self.masked_share
        masked[np.arange(n), labels] = False
        z[masked] = value
        return z.astype(self.dtype), labels, self._weights(rng)

    def _labels(self, rng, z):
        n, K = z.shape
        if self.labelling == "likely":
            return np.argmax(z + rng.gumbel(size=(n, K)), axis=1)
        if self.labelling == "one":
            return np.full(n, rng.integers(K))
        if self.labelling == "without the last":
            return rng.integers(0, max(K - 1, 1), n)
        if self.labelling == "without the first":
            return rng.integers(1, K, n)
        return rng.integers(0, K, n)

    def _weights(self, rng):
        if self.weighting == "none":
            return None
        if self.weighting == "ten decades":
            return 10.0 ** rng.uniform(-10, 0, self.rows)
        weights = rng.integers(0, 4, self.rows).astype(float)
        weights[rng.integers(self.rows)] = 1.0
        return weights

    @property
    def logits(self):
        return self._made[0]

    @property
    def labels(self):
        return self._made[1]

    @property
    def weights(self):
        """As given to decal: perhaps None."""
        return self._made[2]

    @property
    def counted_weights(self):
        return np.ones(self.rows) if self.weights is None else self.weights

    @property
    def meant(self):
        """The logits that decal should understand: float64, masks as -inf."""
        z = self.logits.astype(np.float64)
        return np.where(z <= MASKED, -np.inf, z)

    @property
    def logits_as_checked(self):
        """The same in their own dtype, as decal hands them on after its checks."""
        return self.meant.astype(self.dtype)

    @property
    def present(self):
        """(K,) True for classes with labels of positive weight."""
        return np.bincount(self.labels, self.counted_weights, minlength=self.classes) > 0

    @property
    def data(self):
        """What `fit` takes, after the logits: labels and keywords."""
        return self.logits, self.labels, self.weights

    def arrays(self):
        return {"logits": self.logits, "labels": self.labels, "weights": self.weights}


def problems(*, sizes=SIZES, shapes=SHAPES, masks=tuple(MASKS), max_rows=12, max_classes=6):
    """A strategy of such problems."""
    return st.builds(
        Problem,
        rows=st.integers(1, max_rows),
        classes=st.integers(2, max_classes),
        size=st.sampled_from(sizes),
        dtype=st.sampled_from(("float64", "float32")),
        shape=st.sampled_from(shapes),
        mask=st.sampled_from(masks),
        masked_share=st.sampled_from((0.0, 0.0, 0.3, 0.8, 1.0)),
        labelling=st.sampled_from(LABELS),
        weighting=st.sampled_from(WEIGHTS),
        seed=st.integers(0, 2**32 - 1),
    )


alphas = st.one_of(
    st.sampled_from((0.0, 1.0, 1 - 1e-16, 0.999, 0.5, 1e-300)),
    st.floats(0.01, 0.999),
    st.floats(-300.0, -2.0).map(lambda exponent: 10.0**exponent),
)
likelihoods = st.sampled_from(("mean", "sum"))
