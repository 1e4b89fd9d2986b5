"""Fit and predict against the alternatives, in one process: ratios, seconds, errors, peak memory.

    python benchmarks/core.py            # both sizes
    python benchmarks/core.py --small    # only 10,000 × 10

With Numba installed (decal[fast]) everything is timed twice: compiled, and in NumPy alone.

(a) SLSQP as the published code uses it: for every class, side and alpha one constrained
    optimisation whose constraint evaluates the softmax of the whole matrix.
(b) 50 steps of bisection for every side and alpha, vectorised over classes, on precomputed margins.
(c) one scipy.special.softmax over the same logits.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import log_softmax, softmax

import decal
from decal._base import numerics as _numerics

SIX = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
EIGHT = (0.0, *SIX, 1.0)


def seconds(*works: Callable[[], object], repeats: int = 5) -> list[float]:
    """Least time of several runs of each, in turns: all meet the same other load on the machine."""
    best = [np.inf] * len(works)
    for _ in range(repeats):
        for i, work in enumerate(works):
            start = time.perf_counter()
            work()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


@contextmanager
def loops(compiled: bool) -> Iterator[None]:
    """Compiled loops as users get them, or none."""
    before = _numerics.COMPILED_ELEMENTS
    if not compiled:
        _numerics.COMPILED_ELEMENTS = 1 << 62
    yield
    _numerics.COMPILED_ELEMENTS = before


def numpy_only(work: Callable[[], object]) -> Callable[[], object]:
    """The same work without Numba."""

    def slow() -> object:
        with loops(compiled=False):
            return work()

    return slow


def load_numba() -> bool:
    """Load and compile what decal[fast] has; False if Numba is not installed."""
    if _numerics._kernels() is None:
        return False
    logits, labels = make_data(1000, 100)
    start = time.perf_counter()
    decal.Decalibrator().fit(logits, labels).predict(logits)
    print(f"Numba loops loaded, or compiled and cached, in {time.perf_counter() - start:.1f} s")
    return True


def peak_megabytes(work: Callable[[], object]) -> float:
    """Largest resident memory during `work` beyond what was there before (Linux)."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")

    def read(key: str) -> float:
        line = next(x for x in status.read_text().splitlines() if x.startswith(key))
        return int(line.split()[1]) / 1024

    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = read("VmRSS")
    work()
    return read("VmHWM") - before


def make_data(n: int, K: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits of an overconfident classifier, and labels drawn from a flatter truth."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((n, K), dtype=np.float32)
    logits *= 3
    labels = np.empty(n, dtype=np.int64)
    for start in range(0, n, 1000):
        p = softmax(0.7 * logits[start : start + 1000].astype(np.float64), axis=1)
        draw = rng.random((len(p), 1))
        labels[start : start + 1000] = np.minimum((p.cumsum(axis=1) < draw).sum(axis=1), K - 1)
    return logits, labels


def slsqp(logits: np.ndarray, labels: np.ndarray, alphas: tuple[float, ...]) -> np.ndarray:
    """(alphas, 2, K) ends by SLSQP, one per class, side and alpha, as published."""
    n, K = logits.shape
    rows = np.arange(n)
    at_model = log_softmax(logits, axis=1)[rows, labels].mean()
    ends = np.empty((len(alphas), 2, K))
    for i, alpha in enumerate(alphas):
        for k in range(K):

            def slack(c: np.ndarray, k: int = k, alpha: float = alpha) -> float:
                moved = logits.copy()
                moved[:, k] += c[0]
                return np.exp(log_softmax(moved, axis=1)[rows, labels].mean() - at_model) - alpha

            for side, sign in enumerate((1.0, -1.0)):
                found = minimize(
                    lambda c, sign=sign: sign * c[0],
                    x0=[0.0],
                    method="SLSQP",
                    constraints=[{"type": "ineq", "fun": slack}],
                )
                ends[i, side, k] = found.x[0]
    return ends


def bisection(logits: np.ndarray, labels: np.ndarray, alphas: tuple[float, ...]) -> np.ndarray:
    """(alphas, 2, K) ends by 50 halvings of [0, ±64]."""
    z = logits.astype(np.float64)
    K = z.shape[1]
    log_p = log_softmax(z, axis=1)
    m = log_p - np.log1p(-np.exp(log_p))
    counts = np.bincount(labels, minlength=K)
    base = softplus(m).sum(axis=0)
    ends = np.empty((len(alphas), 2, K))
    for i, alpha in enumerate(alphas):
        for side, sign in enumerate((-1.0, 1.0)):
            inside, outside = np.zeros(K), np.full(K, 64.0)
            for _ in range(50):
                middle = (inside + outside) / 2
                t = sign * middle
                gain = counts * t - softplus(m + t).sum(axis=0) + base
                plausible = gain >= len(z) * np.log(alpha)
                inside = np.where(plausible, middle, inside)
                outside = np.where(plausible, outside, middle)
            ends[i, side] = sign * inside
    return ends


def softplus(x: np.ndarray) -> np.ndarray:
    """The fastest stable form in NumPy; logaddexp(0, x) takes three times as long."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def exact(logits: np.ndarray, labels: np.ndarray, alphas: tuple[float, ...]) -> np.ndarray:
    """(alphas, 2, K) ends by Brent's method on the log-likelihood of whole rows."""
    z = logits.astype(np.float64)
    n, K = z.shape
    rows = np.arange(n)
    at_model = log_softmax(z, axis=1)[rows, labels].sum()
    ends = np.empty((len(alphas), 2, K))
    for i, alpha in enumerate(alphas):
        for k in range(K):

            def excess(t: float, k: int = k, alpha: float = alpha) -> float:
                moved = z.copy()
                moved[:, k] += t
                return log_softmax(moved, axis=1)[rows, labels].sum() - at_model - n * np.log(alpha)

            for side, far in enumerate((-64.0, 64.0)):
                ends[i, side, k] = brentq(excess, 0.0, far, xtol=1e-12, rtol=1e-14)
    return ends


def decal_ends(logits: np.ndarray, labels: np.ndarray, alphas: tuple[float, ...]) -> np.ndarray:
    """(alphas, 2, K) ends by one fit."""
    shifts = decal.Decalibrator().fit(logits, labels).shifts(alphas)
    return np.stack([shifts.lower, shifts.upper], axis=1)


def line(name: str, took: float, ours: float, note: str = "") -> None:
    print(f"  {name:<34}{took:>10.4f} s{took / ours:>10.1f} ×   {note}")


def small(fast: bool) -> None:
    logits, labels = make_data(10_000, 10)
    print("\n10,000 × 10 float32, fit and six alphas (× = times decal's)")
    both = decal.Decalibrator(directions=("class", "temperature"))

    def ours() -> np.ndarray:
        return decal_ends(logits, labels, SIX)

    for name, work in [("NumPy", numpy_only(ours)), ("fast", ours)][: 1 + fast]:
        took, bisect, once = seconds(
            work, lambda: bisection(logits, labels, SIX), lambda: softmax(logits, axis=1), repeats=3
        )
        took = min(took, *seconds(work, repeats=30))
        line(f"decal, {name}", took, took)
        line("(b) 50-step bisection", bisect, took)
        line("(c) one softmax", once, took)
    (slsqp_time,) = seconds(lambda: slsqp(logits, labels, SIX), repeats=1)
    line("(a) SLSQP as published", slsqp_time, took)
    truth = exact(logits, labels, SIX)
    for name, work in [("decal", ours), ("(b)", lambda: bisection(logits, labels, SIX))]:
        print(f"  largest error of {name}: {np.abs(work() - truth).max():.1e}")
    print(f"  largest error of (a): {np.abs(slsqp(logits, labels, SIX) - truth).max():.1e}")
    print("  fit alone: class shifts, then class shifts and temperature (× = times class shifts)")
    fit, fit_both = seconds(
        lambda: decal.Decalibrator().fit(logits, labels),
        lambda: both.fit(logits, labels),
        repeats=20,
    )
    line("decal fit, class", fit, fit)
    line("decal fit, class and temperature", fit_both, fit)


def large(fast: bool) -> None:
    logits, labels = make_data(50_000, 1_000)
    print("\n50,000 × 1,000 float32, fit and eight alphas; predict (× = times one softmax)")
    memory = peak_megabytes(lambda: decal_ends(logits, labels, EIGHT))
    d = decal.Decalibrator().fit(logits, labels)
    d.shifts()

    def fit() -> np.ndarray:
        return decal_ends(logits, labels, EIGHT)

    def predict() -> decal.IntervalCredalSet:
        return d.predict(logits)

    works = [numpy_only(fit), numpy_only(predict)] + ([fit, predict] if fast else [])
    once, *took = seconds(lambda: softmax(logits, axis=1), *works, repeats=5)
    line("(c) one softmax", once, once)
    for i, name in enumerate(["NumPy", "fast"][: 1 + fast]):
        note = f"peak {memory:.0f} MB beyond the input" if i == fast else ""
        line(f"decal fit and eight alphas, {name}", took[2 * i], once, note)
        line(f"decal predict, {name}", took[2 * i + 1], once, "three float64 matrices of output")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="only 10,000 × 10")
    arguments = parser.parse_args()
    print(f"decal {decal.__version__}, NumPy {np.__version__}, Python {platform.python_version()}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    fast = load_numba()
    small(fast)
    if not arguments.small:
        large(fast)
