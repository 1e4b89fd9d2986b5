"""Coupled decalibration against SLSQP, in one process: seconds, certified shares, ratios.

    python benchmarks/coupled.py                  # real data (DECAL_DATA), and 100 classes
    python benchmarks/coupled.py --small          # 100 queries of each, no 100 classes
    python benchmarks/coupled.py --stress 1000    # random small problems against brute force

"missed": SLSQP failed, or ended more than 1e-5 above the lower end found; "below": it found a value
below a proved bound; "1-d width": mean width of Decalibrator's intervals, as a share. An "end" of
SLSQP is one lower end; decal's time for both ends of a query and class stands against it.

SLSQP gets the exact gradients of the log-probability and of the log-likelihood, and starts at the
best shift; it has no certificate. Times are end to end: fit, region and all queries.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax

import decal
from decal.coupled import CoupledDecalibrator

CERTIFIED = 1e-6
SLSQP_QUERIES = 3


def real(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits and labels to fit, and queries."""
    with np.load(folder / f"clip_{name}_en.npz", allow_pickle=False) as archive:
        arrays = dict(archive)
    if name == "dermamnist":
        return arrays["train_logits"], arrays["train_labels"], arrays["test_logits"]
    order = np.random.default_rng(0).permutation(10_000)
    fit, ask = order[:5000], order[5000:]
    return arrays["logits"][fit], arrays["labels"][fit], arrays["logits"][ask]


def slsqp(
    logits: np.ndarray,
    labels: np.ndarray,
    level: float,
    query: np.ndarray,
    k: int,
    start: np.ndarray,
) -> tuple[float, bool]:
    """A local minimum of p_k where the log-likelihood is at least `level`, and whether it is so."""
    counts = np.bincount(labels, minlength=logits.shape[1])
    rows = np.arange(len(labels))

    def slack(c: np.ndarray) -> float:
        return float(log_softmax(logits + c, axis=1)[rows, labels].sum() - level)

    rule = {
        "type": "ineq",
        "fun": slack,
        "jac": lambda c: counts - softmax(logits + c, axis=1).sum(axis=0),
    }
    found = minimize(
        lambda c: query[k] + c[k] - logsumexp(query + c),
        start,
        jac=lambda c: np.eye(len(c))[k] - softmax(query + c),
        method="SLSQP",
        constraints=[rule],
        options={"maxiter": 200},
    )
    return float(np.exp(found.fun)), bool(found.success and slack(found.x) > -1e-6 * abs(level))


def compare(name: str, data: tuple[np.ndarray, np.ndarray, np.ndarray], **settings: object) -> None:
    """One line of the table: decal on all queries, SLSQP on some."""
    logits, labels, queries = data
    start, cpu = time.perf_counter(), time.process_time()
    model = CoupledDecalibrator(tol=CERTIFIED, **settings).fit(logits, labels)
    credal = model.predict(queries, shifts=True)
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    lower = (credal.lower - credal.lower_outer <= CERTIFIED).mean()
    upper = (credal.upper_outer - credal.upper <= CERTIFIED).mean()

    z, y = logits.astype(np.float64), labels.astype(np.intp)
    K = z.shape[1]
    best = model.predict(queries[:1], alpha=1.0, shifts=True).lower_shifts[0, 0]
    reached = log_softmax(z + best, axis=1)[np.arange(len(y)), y].sum()
    level = reached - model.diagnostics().budget
    start, missed, wrong, ends = time.perf_counter(), 0, 0, 0
    for row in range(SLSQP_QUERIES):
        query = queries[row].astype(np.float64)
        for k in range(K):
            value, sound = slsqp(z, y, level, query, k, best)
            ends += 1
            missed += not sound or value > credal.lower[row, k] + 1e-5
            wrong += sound and value < credal.lower_outer[row, k] - 1e-6
    rival = (time.perf_counter() - start) / ends
    ours = took / (len(queries) * K)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", decal.FitWarning)  # CLIP is far from its best shift
        line = decal.decalibrate(z, y, **settings).predict(queries)
    share = np.mean(line.upper - line.lower) / np.mean(credal.upper - credal.lower)
    speed = f"{took / len(queries) * 1e3:>9.2f}{cpu / len(queries) * 1e3:>8.2f}"
    rivalry = f"{rival * 1e3:>9.1f}{rival / ours:>8.0f} ×{missed:>6} / {ends}{wrong:>7}"
    print(
        f"  {name:<24}{len(queries):>6,}{speed}{lower:>9.1%}{upper:>8.1%}{rivalry}{share:>9.0%}",
        flush=True,
    )


def table(folder: Path, most: int | None) -> None:
    print(f"\n{'ms per query':>49}{'certified':>15}{'SLSQP,':>11}{'ratio,':>10}{'1-d':>27}")
    print(
        f"  {'data, budget':<24}{'n':>6}{'wall':>9}{'CPU':>8}{'lower':>9}{'upper':>8}"
        f"{'ms/end':>9}{'per end':>10}{'missed':>11}{'below':>7}{'width':>9}"
    )
    for name in ("dermamnist", "cifar10"):
        logits, labels, queries = real(folder, name)
        data = (logits, labels, queries[:most])
        for likelihood, alpha in (("sum", 0.8), ("mean", 0.95)):
            settings = {"alpha": alpha, "likelihood": likelihood, "reference": "best"}
            compare(f"{name}, {likelihood} {alpha:g}", data, **settings)


def many_classes(N: int = 10_000, K: int = 100, queries: int = 300) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(N + queries, K)) * 2
    draw = rng.random((len(logits), 1))
    labels = (softmax(0.8 * logits, axis=1).cumsum(axis=1) < draw).sum(axis=1).clip(0, K - 1)
    print(f"\n  synthetic, N = {N:,}, K = {K}, sum budget alpha = 0.8, {queries} queries")
    for tol in (1e-3, 1e-6):
        start = time.perf_counter()
        model = CoupledDecalibrator(0.8, likelihood="sum", tol=tol).fit(logits[:N], labels[:N])
        credal = model.predict(logits[N:])
        took = time.perf_counter() - start
        print(f"  tol {tol:g}: {took:.1f} s, largest gap {credal.gap.max():.1e}", flush=True)


def stress(count: int) -> None:
    """Random problems of two to five classes against rays in 400 directions from the best shift."""
    broken = certified = total = 0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        K, n = int(rng.integers(2, 6)), int(rng.choice([4, 8, 20, 60, 200]))
        logits = rng.normal(size=(n, K)) * rng.choice([0.3, 1.0, 3.0, 6.0])
        labels = np.array([rng.choice(K, p=p) for p in softmax(logits, axis=1)])
        labels[:K] = np.arange(K)[: len(labels)]
        alpha, likelihood = (
            float(rng.choice([0.99, 0.95, 0.8, 0.5, 0.1])),
            rng.choice(["mean", "sum"]),
        )
        query = rng.normal(size=(1, K)) * rng.choice([0.5, 2.0, 5.0])
        model = CoupledDecalibrator(alpha, likelihood=str(likelihood), tol=CERTIFIED)
        credal = model.fit(logits, labels).predict(query)
        if n < K:
            continue
        best = model.predict(query, alpha=1.0, shifts=True).lower_shifts[0, 0]
        rays = rng.normal(size=(400, K)) * np.exp(rng.normal(size=(400, K)))
        each = np.arange(n)

        def loss(c: np.ndarray, z: np.ndarray = logits, y: np.ndarray = labels) -> np.ndarray:
            return -log_softmax(z + c[:, None, :], axis=2)[:, each, y].sum(axis=1)  # noqa: B023

        level = loss(best[None])[0] + model.diagnostics().budget
        near, far = np.zeros(len(rays)), np.ones(len(rays))
        for _ in range(12):
            far = np.where(loss(best + far[:, None] * rays) <= level, 2 * far, far)
        for _ in range(40):
            middle = (near + far) / 2
            inside = loss(best + middle[:, None] * rays) <= level
            near, far = np.where(inside, middle, near), np.where(inside, far, middle)
        p = softmax(query + best + near[:, None] * rays, axis=1)
        outside = (p < credal.lower_outer - 1e-9) | (p > credal.upper_outer + 1e-9)
        broken += bool(outside.any())
        certified += int((credal.gap <= CERTIFIED).sum())
        total += K
    print(f"\n  {count:,} random problems: {broken} with a point outside the outer bounds")
    print(f"  {certified / total:.1%} of the intervals certified to {CERTIFIED:g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("DECAL_DATA"))
    parser.add_argument("--small", action="store_true", help="100 queries, not 100 classes")
    parser.add_argument("--stress", type=int, default=0, help="random problems, and nothing else")
    arguments = parser.parse_args()
    cores = os.cpu_count()
    print(f"decal {decal.__version__}, NumPy {np.__version__}, {cores} cores, {platform.machine()}")
    if arguments.stress:
        stress(arguments.stress)
    else:
        if arguments.data:
            table(Path(arguments.data), 100 if arguments.small else None)
        if not arguments.small:
            many_classes()
