"""The published method in decal and in probly, beside each other: wrong rows, seconds, memory.

    python3.13 -m venv ENV                              # probly needs 3.12 or newer; not 3.12.1
    ENV/bin/pip install probly==0.9.1 torch -e '.[fast]'
    ENV/bin/python benchmarks/beside_probly.py --data FOLDER [--tables FOLDER]

Both get the same logits, in float64, on one core, in one process. probly is called as its
documentation does, with a network that hands its logits on. Endpoints and boxes are judged by
the definition, written out below without either library: a class (or row) is wrong if it is off
by more than `WRONG`. Entropies are asked of the same boxes on both sides. The upper one is judged
by its definition; the lower one, which is hard to find, by decal's value, which branch and bound
has proved, and which no value of probly's may undercut. Once at alpha 0.8, and once at 1 - 1/(2K).
Ten classes: ResNet-20's logits for CIFAR-10; 1,000: EfficientNet's for ImageNet, one image a class
(resnet20_cifar10.npz and efficientnet_lite0_imagenet_sample.npz). 100: drawn, as in `measures`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import argparse
import platform
import tracemalloc
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import entr, softmax

import decal
from core import loops, peak_megabytes, seconds

try:
    import torch
    from probly.quantification.measure.credal_set import lower_entropy, upper_entropy
    from probly.representation.credal_set import create_probability_intervals_from_lower_upper_array
    from probly.representer import representer

    # probly.method shows a function of this name in place of its module.
    theirs: Any = import_module("probly.method.efficient_credal_prediction")
except ImportError as error:
    raise SystemExit(f"this benchmark needs {error.name}: pip install probly torch") from error

Array = NDArray[np.float64]
Labels = NDArray[np.intp]

WRONG = 1e-6
"""Off by more than this, in logits, probabilities or nats, is wrong."""

FARTHEST = 1e5
"""Endpoints beyond are infinite."""

ALPHA = 0.8
LEVELS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
FEW_CLASSES = 10
"""So many classes are solved by probly without torch, which takes long."""

ROWS_AT_ONCE = 50
"""probly holds 2 K × K numbers for each row, several times over."""

HEADS = (
    "classes",
    "task",
    "wrong: decal",
    "wrong: probly",
    "decal, ms",
    "probly, ms",
    "times decal",
    "times [fast]",
)


# The definition, without either library


def margins(z: Array) -> Array:
    """(n, K) log-odds of each class against all others together."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    others = e.sum(axis=1, keepdims=True) - e
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    e[rows, top] = 0.0
    others[rows, top] = e.sum(axis=1)
    return z - z.max(axis=1, keepdims=True) - np.log(others)


def endpoints(z: Array, y: Labels, alpha: float) -> Array:
    """(2, K) the least and the greatest plausible shift of each class."""
    found = np.empty((2, z.shape[1]))
    for k, m in enumerate(margins(z).T):
        share = np.mean(y == k)

        def slack(t: float, m: Array = m, share: float = share) -> float:
            gain = share * t - np.mean(np.logaddexp(0, m + t) - np.logaddexp(0, m))
            return gain - np.log(alpha)

        for side, sign in enumerate((-1.0, 1.0)):
            far = sign
            while slack(far) > 0 and abs(far) < FARTHEST:
                far *= 2
            within = abs(far) < FARTHEST
            found[side, k] = brentq(slack, 0.0, far, xtol=1e-12) if within else sign * np.inf
    return found


def boxes(z: Array, shifts: Array) -> tuple[Array, Array]:
    """(n, K) the range of each probability over all models with one shifted class."""
    moves = np.concatenate([np.diag(shifts[0]), np.diag(shifts[1])])
    lower, upper = np.empty_like(z), np.empty_like(z)
    for row, logits in enumerate(z):
        p = softmax(logits + moves, axis=1)
        lower[row], upper[row] = p.min(axis=0), p.max(axis=0)
    return lower, upper


def greatest_entropy(lower: Array, upper: Array) -> Array:
    """(n,) of boxes: all probabilities at one level, but for those that their bounds keep off."""
    found = np.empty(len(lower))
    for row, (low, high) in enumerate(zip(lower, upper, strict=True)):
        level = brentq(lambda x, a=low, b=high: np.clip(x, a, b).sum() - 1, 0.0, 1.0, xtol=1e-16)
        found[row] = entr(np.clip(level, low, high)).sum()
    return found


# probly, as its documentation calls it


def their_endpoints(z: Array, y: Labels, alpha: float) -> Array:
    found = theirs.compute_efficient_credal_prediction_bounds(
        torch.from_numpy(z), torch.from_numpy(y), z.shape[1], alpha
    )
    return np.stack([side.numpy() for side in found])


def their_endpoints_without_torch(z: Array, y: Labels, alpha: float) -> Array:
    """Of the first classes only."""
    numpy_path: Any = theirs.numpy
    there, numpy_path._is_torch_available = numpy_path._is_torch_available, lambda: False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            few = min(FEW_CLASSES, z.shape[1])
            return np.stack(theirs.compute_efficient_credal_prediction_bounds(z, y, few, alpha))
    finally:
        numpy_path._is_torch_available = there


def their_model(shifts: Array) -> Any:
    model = theirs.efficient_credal_prediction(
        torch.nn.Identity(), predictor_type="logit_classifier"
    )
    model.lower, model.upper = map(torch.from_numpy, shifts)
    return representer(model)


def their_box(lower: Array, upper: Array) -> Any:
    return create_probability_intervals_from_lower_upper_array(
        torch.from_numpy(np.concatenate([lower, upper], axis=1))
    )


# Data and memory


def traced_megabytes(work: Callable[[], object]) -> float:
    """Most memory of NumPy's arrays during `work`: too little to be seen from outside."""
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


def drawn(n: int, K: int, seed: int = 0) -> tuple[Array, Labels]:
    """Logits of a classifier that is right about its own uncertainty, and labels."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.standard_t(5, (n, K))
    z[np.arange(n), rng.integers(K, size=n)] += rng.normal(6.0, 3.0, n)
    labels = (softmax(z, axis=1).cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1)
    return z, np.minimum(labels, K - 1)


def stored(path: Path, logits: str, labels: str) -> tuple[Array, Labels]:
    with np.load(path, allow_pickle=False) as data:
        return data[logits].astype(np.float64), data[labels].astype(np.intp)


class Comparison:
    """One data set: what both libraries find, how wrong, in which time and memory."""

    def __init__(self, z: Array, y: Labels, new: Array) -> None:
        self.z, self.y, self.new, self.K = z, y, new, z.shape[1]
        self.lines: list[str] = []

    def line(
        self,
        task: str,
        ours: Callable[[], Any],
        probly: Callable[[], Any],
        wrong: Callable[[Any], int],
        of: int,
        *,
        left_out: float = 1.0,
    ) -> None:
        """Time a task; `left_out`: how many times as much probly would have had to do."""
        found: dict[str, Any] = {}

        def plain() -> None:
            with loops(compiled=False):
                found["plain"] = ours()

        def fast() -> None:
            found["fast"] = ours()

        def peer() -> None:
            found["probly"] = probly()

        slow = self.K > 100  # one run of probly's takes long enough
        took = [*seconds(plain, fast, repeats=5), *seconds(peer, repeats=1 if slow else 3)]
        took[2] *= left_out
        counts = [wrong(found[name]) for name in ("fast", "probly")]
        self.put(
            task, [f"{1e3 * t:,.1f}" for t in took], took, [f"{c:,} of {of:,}" for c in counts]
        )

    def put(self, task: str, cells: list[str], amounts: list[float], wrong: list[str]) -> None:
        """Print a line: amounts as cells, and how many times as much probly needs."""
        ratios = [f"{amounts[2] / ours:,.1f}" for ours in amounts[:2]]
        cells = [f"{self.K:,}", task, *wrong, cells[0], cells[2], *ratios]
        self.lines.append(f"| {' | '.join(cells)} |")
        print(self.lines[-1], flush=True)

    def endpoints(self, alpha: float) -> None:
        """Plausible shifts of every class."""
        z, y, K = self.z, self.y, self.K
        truth = endpoints(z, y, alpha)

        def wrong(found: Array) -> int:
            good = np.isclose(found, truth[:, : found.shape[1]], rtol=0, atol=WRONG)
            return int((~good).any(axis=0).sum())

        def fit(*alphas: float) -> Array:
            shifts = decal.Decalibrator().fit(z, y).shifts(alphas)
            return np.stack([shifts.lower, shifts.upper], axis=1)

        at = LEVELS.index(alpha)
        self.line(
            "endpoints, one level", lambda: fit(alpha)[0], lambda: their_endpoints(z, y, alpha),
            wrong, K,
        )  # fmt: skip
        self.line(
            "endpoints, six levels", lambda: fit(*LEVELS)[at],
            lambda: [their_endpoints(z, y, a) for a in LEVELS][at], wrong, K,
        )  # fmt: skip
        few = min(FEW_CLASSES, K)
        self.line(
            "endpoints, one level, probly without PyTorch", lambda: fit(alpha)[0][:, :few],
            lambda: their_endpoints_without_torch(z, y, alpha), wrong, few, left_out=K / few,
        )  # fmt: skip

    def boxes(self, alpha: float) -> None:
        """Intervals of new rows, and the memory that they take."""
        new = self.new
        truth = np.concatenate(boxes(new, endpoints(self.z, self.y, alpha)), axis=1)
        d = decal.Decalibrator(alpha).fit(self.z, self.y)
        d.predict(new[:1])
        model = their_model(their_endpoints(self.z, self.y, alpha))
        inputs = torch.from_numpy(new)
        parts = inputs.split(max(2, 500_000 // self.K**2))  # the fastest of those tried

        def ours() -> Array:
            credal = d.predict(new)
            return np.concatenate([credal.lower, credal.upper], axis=1)

        def probly() -> Array:
            made = [model.represent(part) for part in parts]
            return np.concatenate([np.hstack([c.lower_bounds, c.upper_bounds]) for c in made])

        def wrong(found: Array) -> int:
            return int((np.abs(found - truth) > WRONG).any(axis=1).sum())

        self.line("boxes", ours, probly, wrong, len(new))
        if self.K > 100:  # fewer classes take too little to be measured
            few = new[:ROWS_AT_ONCE]
            with loops(compiled=False):
                plain = traced_megabytes(lambda: d.predict(few))
            fast = traced_megabytes(lambda: d.predict(few))
            megabytes = [
                plain,
                fast,
                peak_megabytes(lambda: model.represent(inputs[:ROWS_AT_ONCE])),
            ]
            cells = [f"{m:,.1f} MB" for m in megabytes]
            self.put(f"memory of {ROWS_AT_ONCE} boxes", cells, megabytes, ["", ""])

    def entropies(self, alpha: float) -> None:
        """Greatest and least entropies of the same boxes."""
        credal = decal.Decalibrator(alpha).fit(self.z, self.y).predict(self.new)
        lower, upper = np.array(credal.lower), np.array(credal.upper)
        box, n = their_box(lower, upper), len(lower)
        greatest = greatest_entropy(lower, upper)
        least = decal.IntervalCredalSet(lower, upper).lower_entropy()

        def off_the_greatest(found: Array) -> int:
            return int((np.abs(np.asarray(found) - greatest) > WRONG).sum())

        def off_the_least(found: Array) -> int:
            excess = np.asarray(found) - least.value
            if not (least.exact.all() and (excess > -WRONG).all()):
                raise RuntimeError("decal's lower entropy is not the least")
            print(f"  too high by {excess.mean():.1e} nats on average, at most {excess.max():.1e}")
            return int((excess > WRONG).sum())

        self.line(
            f"upper entropy, alpha {alpha:g}",
            lambda: decal.IntervalCredalSet(lower, upper).total(),
            lambda: upper_entropy(box), off_the_greatest, n,
        )  # fmt: skip
        self.line(
            f"lower entropy, alpha {alpha:g}",
            lambda: decal.IntervalCredalSet(lower, upper).aleatoric(),
            lambda: lower_entropy(box), off_the_least, n,
        )  # fmt: skip

    def run(self) -> list[str]:
        """All of it: the lines of the table."""
        self.endpoints(ALPHA)
        self.boxes(ALPHA)
        for alpha in (ALPHA, 1 - 1 / (2 * self.K)):
            self.entropies(alpha)
        return self.lines


def main() -> None:
    """Print the table, line by line; and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DECAL_DATA"))
    parser.add_argument("--tables", type=Path)
    options = parser.parse_args()
    if options.data is None:
        parser.error("needs --data, or DECAL_DATA: the folder with the files of logits")
    torch.set_num_threads(1)
    print(
        f"decal {decal.__version__}, probly {version('probly')}, torch {torch.__version__}, "
        f"NumPy {np.__version__}, Python {platform.python_version()}; "
        f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    table = [f"| {' | '.join(HEADS)} |", "|---:|---|" + "---:|" * (len(HEADS) - 2)]
    print("\n".join(table))
    z, y = stored(Path(options.data, "resnet20_cifar10.npz"), "cifar10_test", "test_labels")
    table += Comparison(z[:5000], y[:5000], z[5000:6000]).run()
    z, y = drawn(2500, 100)
    table += Comparison(z[:2000], y[:2000], z[2000:]).run()
    name = "efficientnet_lite0_imagenet_sample.npz"
    z, y = stored(Path(options.data, name), "logits", "labels")
    table += Comparison(z, y, z[:100]).run()
    if options.tables:
        options.tables.mkdir(parents=True, exist_ok=True)
        path = options.tables / "probly.md"
        path.write_text("\n".join(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
