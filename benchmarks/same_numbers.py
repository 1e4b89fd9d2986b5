"""Saves what decal answers on nasty and on real data, and compares two versions number by number.

    python benchmarks/same_numbers.py save before.npz
    PYTHONPATH=some/other/src python benchmarks/same_numbers.py compare before.npz

Every answer that users see takes part: endpoints, boxes and balls, measures, decisions, choices of
alpha, triage, label shift, several labels, coupled shifts, heads and files of the command line.
`--without-numba` runs without compiled kernels. Real data come from DECAL_DATA, where it is set.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Answers = dict[str, np.ndarray]
TOLERANCE = 1e-12
ALPHAS = (0.0, 0.3, 0.8, 0.95, 0.99, 1.0)
UTILITY = np.random.default_rng(11).normal(size=(5, 64))


class Data(NamedTuple):
    """Rows to fit, rows to choose by with a distribution for each, and new rows."""

    logits: np.ndarray
    labels: np.ndarray
    held: np.ndarray
    held_labels: np.ndarray
    truth: np.ndarray
    new: np.ndarray
    weights: np.ndarray | None = None


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def drawn(seed: int, K: int, *, scale: float = 2.0, n: int = 400, **more: Any) -> Data:
    """Logits whose labels are drawn from a softmax of half their size."""
    rng = np.random.default_rng(seed)
    z = scale * rng.normal(size=(n + 250, K))
    truth = softmax(z / scale)
    y = np.array([rng.choice(K, p=p) for p in truth])
    z = z.astype(more.get("dtype", np.float64))
    if more.get("ties"):
        z = np.round(z)
    if more.get("absent"):
        y[y == 0] = 1
    if more.get("masked"):
        mask = rng.random(z.shape) < 0.2
        mask[np.arange(len(y)), y] = False
        mask[np.arange(len(y)), z.argmax(axis=1)] = False
        z[mask] = -np.inf
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], n) if more.get("weights") else None
    held = slice(n, n + 200)
    return Data(z[:n], y[:n], z[held], y[held], truth[held], z[n + 200 :], weights)


def real(name: str, logits: str, labels: str, rows: int) -> Data:
    folder = Path(os.environ["DECAL_DATA"])
    with np.load(folder / name) as archive:
        z, y = archive[logits], archive[labels]
    order = np.random.default_rng(0).permutation(len(z))[: 2 * rows + 50]
    z, y = z[order], np.asarray(y)[order].astype(int)
    held = slice(rows, 2 * rows)
    truth = softmax(np.asarray(z[held], dtype=float))
    return Data(z[:rows], y[:rows], z[held], y[held], truth, z[2 * rows :])


def data_sets() -> Iterator[tuple[str, Data]]:
    yield "two classes", drawn(1, 2)
    yield "three classes, weights", drawn(2, 3, weights=True)
    yield "ten classes, float32", drawn(3, 10, dtype=np.float32)
    yield "forty classes", drawn(4, 40)
    yield "over-confident", drawn(5, 5, scale=40.0)
    yield "huge logits", drawn(6, 4, scale=3e3)
    yield "absent class", drawn(7, 4, absent=True)
    yield "masked", drawn(8, 6, masked=True)
    yield "ties", drawn(9, 4, ties=True)
    yield "one row per class", drawn(10, 30, n=30)
    if "DECAL_DATA" in os.environ:
        yield "CLIP", real("clip_cifar10_en.npz", "logits", "labels", 1000)
        yield "DenseNet", real("cnn_densenet_BC_100_12_test.npz", "logits", "labels", 1000)
        yield "NLI", real("snli_roberta0.npz", "test_logits", "test_labels", 500)
        yield "ImageNet", real("efficientnet_lite0_imagenet_sample.npz", "logits", "labels", 300)


SETTINGS: dict[str, dict[str, Any]] = {
    "class": {},
    "own": {"box": "own"},
    "sum": {"likelihood": "sum"},
    "best": {"reference": "best"},
    "temperature": {"directions": ("class", "temperature")},
    "temperature, halfway": {"directions": ("class", "temperature"), "reference": "halfway"},
    "local": {"directions": "local"},
    "local, halfway": {"directions": "local", "reference": "halfway"},
}
FULL = ("class", "temperature", "local, halfway")
"""Settings under which every question is asked."""

MEASURES = ("entropy", "zero_one", "hartley", "width", "total_variation")
RULES = ("interval_dominance", "maximality", "e_admissible", "gamma_maximin", "gamma_maximax")
RULES += ("minimax_regret", "point")


def ask(credal: Any) -> Iterator[tuple[str, Any]]:
    yield "lower", credal.lower
    yield "upper", credal.upper
    yield "point", credal.point
    few = credal[:20]
    yield "entropy", np.stack(few.entropy())
    for measure in MEASURES:
        if measure != "hartley" or few.shape[1] <= 10:
            yield measure, few.epistemic(measure)
    utility = UTILITY[:, : few.shape[1]]
    for rule in RULES:
        yield rule, few.decide(rule)
        if rule != "point" and few.shape[1] <= 10:
            yield f"{rule} with utilities", few.decide(rule, utility=utility)


def of_models(decal: Any, data: Data) -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, settings in SETTINGS.items():
        with contextlib.suppress(ValueError):
            d = decal.decalibrate(
                data.logits, data.labels, alpha=0.9, sample_weight=data.weights, **settings
            )
            yield from of_model(decal, data, name, d)


def of_model(decal: Any, data: Data, name: str, d: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    for alpha in ALPHAS:
        here = f"{name}, {alpha:g}"
        if "local" not in name:
            yield f"{here}, shifts", lambda a=alpha: _ends(d.shifts(a))
        if "temperature" in name:
            yield f"{here}, scales", lambda a=alpha: _ends(d.scales(a))
        if name in FULL and alpha in (0.8, 0.99):
            yield here, lambda a=alpha: dict(ask(d.predict(data.new, alpha=a)))
        else:
            yield here, lambda a=alpha: _box(d.predict(data.new, alpha=a))
        if "local" in name:
            yield f"{here}, balls", lambda a=alpha: _ball(d.predict_ball(data.new, alpha=a))
    if name in FULL and d.predict(data.new).shape[1] <= 40:
        yield from of_choices(decal, data, name, d)


def of_choices(decal: Any, data: Data, name: str, d: Any) -> Iterator[tuple[str, Any]]:
    from decal.choose import plausibility

    rows = (data.held, data.held_labels)
    yield f"{name}, miss", lambda: float(decal.choose(d, *rows, miss=0.1))
    yield (
        f"{name}, miss, interval dominance",
        lambda: float(decal.choose(d, *rows, miss=0.1, rule="interval_dominance")),
    )
    groups = np.arange(len(data.held)) % 2
    yield (
        f"{name}, miss in groups",
        lambda: [float(c) for c in decal.choose(d, *rows, miss=0.2, groups=groups).parts.values()],
    )
    yield (
        f"{name}, miss per class",
        lambda: decal.choose(d, *rows, miss=0.2, per="class").decide(data.new),
    )
    yield f"{name}, width", lambda: float(decal.choose(d, data.held, width=0.2))
    yield (
        f"{name}, coverage",
        lambda: float(decal.choose(d, data.held, coverage=0.7, distributions=data.truth)),
    )
    yield f"{name}, plausibility", lambda: plausibility(d, data.held[:40], labels=rows[1][:40])
    if "local" in name:
        d = decal.decalibrate(
            data.logits, data.labels, directions=(decal.Local(mix=0.01),), alpha=0.8
        )
        yield f"{name}, hold", lambda: float(decal.choose(d, *rows, hold=0.8))


def of_others(decal: Any, data: Data) -> Iterator[tuple[str, Callable[[], Any]]]:
    from decal.choose import triage

    def handed(**purpose: float) -> np.ndarray:
        t = triage(data.held, data.held_labels, **purpose)
        return np.concatenate([t.hand_over(data.new), t.doubt(data.new)])

    yield "triage, budget", lambda: handed(budget=0.2)
    yield "triage, cost", lambda: handed(cost=0.3)
    yield "triage, error rate", lambda: handed(error_rate=0.3)
    yield "triage, slip rate", lambda: handed(slip_rate=0.1)

    def label_shift() -> dict[str, Any]:
        shift = decal.LabelShift().fit(data.logits, data.labels).observe(data.held)
        found = shift.frequencies
        return {
            "frequencies": np.stack([found.lower, found.upper, found.estimate]),
            "p": shift.test().p_value,
            **_box(shift.predict(data.new)),
        }

    def several() -> dict[str, Any]:
        answers = (data.logits > 0.5).astype(int)
        answers[::7] ^= 1
        return _box(decal.MultiLabelDecalibrator(0.9).fit(data.logits, answers).predict(data.new))

    def coupled() -> dict[str, Any]:
        d = decal.CoupledDecalibrator(0.9, likelihood="mean").fit(data.logits, data.labels)
        return _box(d.predict(data.new[:5]))

    yield "label shift", label_shift
    yield "several labels", several
    if data.logits.shape[1] <= 10:
        yield "coupled", coupled


def of_heads(decal: Any, data: Data) -> Iterator[tuple[str, Callable[[], Any]]]:
    import torch

    for name in FULL:
        d = decal.decalibrate(data.logits, data.labels, alpha=0.9, **SETTINGS[name])

        def bounds(d: Any = d) -> Any:
            head = decal.torch.CredalHead(d)
            return torch.stack(head(torch.as_tensor(np.asarray(data.new)))).numpy()

        yield f"{name}, torch", bounds


def of_commands(data: Data) -> Iterator[tuple[str, Callable[[], Any]]]:
    def run(*settings: str) -> dict[str, Any]:
        from decal.__main__ import main

        with tempfile.TemporaryDirectory() as folder:
            held, new, model, out = (
                str(Path(folder) / f) for f in ("held.npz", "new.npz", "m.npz", "out.npz")
            )
            np.savez(held, logits=data.logits, labels=data.labels)
            np.savez(new, logits=data.new)
            for command in (
                ["fit", held, "-o", model, *settings],
                ["predict", model, new, "-o", out],
            ):
                sys.argv = ["decal", *command]
                with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
                    main()
            with np.load(out) as archive:
                return {key: archive[key] for key in ("lower", "upper")}

    yield "fit and predict", lambda: run("--alpha", "0.9")
    yield "fit and predict, local", lambda: run("--alpha", "0.9", "--directions", "local")


def _ends(endpoints: Any) -> np.ndarray:
    return np.stack([np.atleast_1d(endpoints.lower), np.atleast_1d(endpoints.upper)])


def _box(credal: Any) -> dict[str, Any]:
    return {"lower": credal.lower, "upper": credal.upper, "point": credal.point}


def _ball(balls: Any) -> dict[str, Any]:
    few = balls[:10]
    return {**_box(balls), "entropy": np.stack(few.entropy()), "kept": few.decide("e_admissible")}


def answers() -> Answers:
    """Every answer by name; an exception is an answer, too."""
    import decal

    found: Answers = {}

    def keep(name: str, work: Callable[[], Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made = work()
            except Exception as error:
                kinds = [kind.__name__ for kind in type(error).__mro__]
                made = np.array("ValueError" if "ValueError" in kinds else kinds[0])
        parts = made if isinstance(made, dict) else {"": made}
        for part, value in parts.items():
            if value is not None:
                found[f"{name}; {part}".rstrip("; ")] = np.asarray(value)

    for name, data in data_sets():
        print(name, file=sys.stderr)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for what, work in of_models(decal, data):
                keep(f"{name}: {what}", work)
            if data.logits.shape[1] <= 40:
                for what, work in of_others(decal, data):
                    keep(f"{name}: {what}", work)
            if name.startswith(("ten", "masked", "three")):
                for what, work in (*of_heads(decal, data), *of_commands(data)):
                    keep(f"{name}: {what}", work)
    return found


def difference(old: np.ndarray, new: np.ndarray) -> float:
    """The largest distance of two answers; infinite if they are not of one kind."""
    if old.dtype.kind in "US" or new.dtype.kind in "US" or old.shape != new.shape:
        return 0.0 if old.shape == new.shape and np.array_equal(old, new) else np.inf
    a, b = old.astype(float), new.astype(float)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b) / np.maximum(1.0, np.abs(a)))
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0))


def tolerance(answer: np.ndarray) -> float:
    """How far apart two answers may be: float32 has no twelve digits."""
    return float(np.finfo(answer.dtype).eps) if answer.dtype == np.float32 else TOLERANCE


def compare(old: Answers, new: Answers) -> int:
    """Print the answers that differ, and how many are equal bit for bit; their number."""
    for name in sorted(old.keys() ^ new.keys()):
        print(f"only {'before' if name in old else 'now'}: {name}")
    distances = {name: difference(old[name], new[name]) for name in old.keys() & new.keys()}
    apart = {name: d for name, d in distances.items() if d > tolerance(new[name])}
    for name, distance in sorted(apart.items(), key=lambda item: -item[1]):
        print(f"{distance:10.2e}  {name}")
    equal = sum(distance == 0 for distance in distances.values())
    print(
        f"{len(distances):,} answers: {equal:,} equal bit for bit, "
        f"{len(distances) - equal - len(apart):,} within {TOLERANCE:g} (float32: one rounding), "
        f"{len(apart):,} apart"
    )
    return len(apart)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=("save", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--without-numba", action="store_true")
    arguments = parser.parse_args()
    if arguments.without_numba:
        sys.modules["numba"] = None  # type: ignore[assignment]
    if arguments.action == "save":
        np.savez_compressed(arguments.file, **answers())
        return
    with np.load(arguments.file) as archive:
        old = {name: archive[name] for name in archive.files}
    sys.exit(compare(old, answers()) > 0)


if __name__ == "__main__":
    main()
