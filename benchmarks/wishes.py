"""Whether a wish is granted, and what it costs: the whole automatic path of decal.decalibrate.

    python benchmarks/wishes.py [promises] [votes] [units] [sizes] [decisions] [--data FOLDER] \
        [--out FOLDER]

**promises**: simulated worlds that are hard on guarantees. How often new labels are missed, over
all, in the worst class or group, and how often sets hold the true distribution; the automatic path
(split, kind of set, reference, alpha) runs anew in every draw. A rate is too high if it exceeds the
wish by more than two standard errors.
**votes**: worlds with several labels per input. How often sets of hold=0.8 miss the distribution
that labels are drawn from, and how wide they are; and where the number of labels depends on what
they say, which the promise excludes.
**units**: pixels of simulated images, some of which the model is much worse at than it says. What
new images lose: the mean share of their labels that is missed, and how many of them miss more than
TOLERATED; promised for pixels, for unit="image", and with tolerate.
**sizes**: real logits of --data. Mean number of classes kept, beside LAC and APS, and MAPIE and
crepes if they are installed (pip install mapie crepes), all by the same rows. Where a rival's set
is empty, its most probable class is added; "with empty sets" is the ratio without that.
**decisions**: six tables, random costs. What the actions of reports cost, against the cheapest
actions of the prediction after scaling and shifting (reference="best").

Needs scikit-learn for sizes and decisions. --quick is for tests: numbers mean nothing.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax, xlogy

import decal

Array = NDArray[np.float64]
Labels = NDArray[np.intp]
Mask = NDArray[np.bool_]
Line = dict[str, object]

MISS, HOLD = 0.1, 0.8
TWO = 2.0  # standard errors

# Promises in simulated worlds


@dataclass(frozen=True)
class Drawn:
    """Exchangeable rows: logits, labels, what these are drawn from, and groups of inputs."""

    logits: Array
    labels: Labels
    truth: Array

    def __getitem__(self, rows: slice | Mask | Labels) -> Drawn:
        return Drawn(self.logits[rows], self.labels[rows], self.truth[rows])

    @property
    def groups(self) -> NDArray[np.str_]:
        """Groups of unequal size, by the margin of the first class."""
        z = self.logits
        return np.array(["few", "some", "many"])[np.digitize(z[:, 0] - z[:, 1], (-3.0, -0.5))]


def labelled(rng: np.random.Generator, truth: Array, logits: Array) -> Drawn:
    """Rows whose labels are drawn from the truth."""
    above = truth.cumsum(axis=1) < rng.uniform(size=(len(truth), 1))
    return Drawn(logits, np.minimum(above.sum(axis=1), truth.shape[1] - 1), truth)


def well_told(rng: np.random.Generator, n: int, prior: tuple[float, ...] = (0.25,) * 4) -> Array:
    """Log-probabilities of classes, the truth."""
    return log_softmax(rng.normal(0, 2, (n, len(prior))) + np.log(prior), axis=1)


def rare(rng: np.random.Generator, n: int) -> Drawn:
    """Half of the classes are rare, and the model underrates them."""
    prior = (0.5, 0.3, 0.14, 0.03, 0.02, 0.01)
    z = well_told(rng, n, prior)
    return labelled(rng, np.exp(z), 1.5 * z)


def noisy(rng: np.random.Generator, n: int) -> Drawn:
    """Three labels in ten are drawn blindly, and the model does not know."""
    z = well_told(rng, n)
    return labelled(rng, 0.7 * np.exp(z) + 0.3 / z.shape[1], z)


def tied(rng: np.random.Generator, n: int) -> Drawn:
    """Logits are whole even numbers."""
    z = well_told(rng, n)
    return labelled(rng, np.exp(z), 2 * np.round(z / 2))


def overconfident(rng: np.random.Generator, n: int) -> Drawn:
    """Logits are five times too large, and noisy."""
    z = well_told(rng, n)
    return labelled(rng, np.exp(z), 5 * (z + rng.normal(size=z.shape)))


def duplicated(rng: np.random.Generator, n: int) -> Drawn:
    """All rows are copies of forty, with their labels, so that nothing but these can happen."""
    rows = overconfident(rng, 40)
    rows = Drawn(rows.logits, rows.labels, np.eye(rows.logits.shape[1])[rows.labels])
    return rows[rng.integers(0, 40, n)]


WORLDS: dict[str, Callable[[np.random.Generator, int], Drawn]] = {
    "rare classes": rare,
    "noisy labels": noisy,
    "ties": tied,
    "over-confident": overconfident,
    "duplicated rows": duplicated,
}


def possible(sets: decal.CredalSet, labels: Labels) -> Mask:
    """Whether the possible classes have the label among them."""
    return np.array([y in kept for y, kept in zip(labels, sets.possible(), strict=True)])


def missed(known: Drawn, new: Drawn, seed: int) -> tuple[Mask, Labels]:
    """Which new labels are missed, and that all of them count together."""
    d = decal.decalibrate(known.logits, known.labels, miss=MISS, seed=seed)
    return ~possible(d.predict(new.logits), new.labels), np.zeros(len(new.labels), dtype=np.intp)


def missed_per_class(known: Drawn, new: Drawn, seed: int) -> tuple[Mask, Labels]:
    """Which new labels are missed, by class."""
    d = decal.decalibrate(known.logits, known.labels, miss=MISS, per="class", seed=seed)
    return ~possible(d.predict(new.logits), new.labels), new.labels


def missed_in_groups(known: Drawn, new: Drawn, seed: int) -> tuple[Mask, Labels]:
    """Which new labels are missed, by group; nothing is promised of a group without rows."""
    new = new[np.isin(new.groups, known.groups)]
    d = decal.decalibrate(known.logits, known.labels, miss=MISS, groups=known.groups, seed=seed)
    sets = d.predict(new.logits, groups=new.groups)
    return ~possible(sets, new.labels), np.unique(new.groups, return_inverse=True)[1]


def not_held(known: Drawn, new: Drawn, seed: int) -> tuple[Mask, Labels]:
    """Which true distributions are outside, and 1 where the wish is refused: none is, then."""
    every = np.zeros(len(new.labels), dtype=np.intp)
    try:
        d = decal.decalibrate(known.logits, known.labels, hold=HOLD, seed=seed)
    except decal.InputError:
        return every > 0, every + 1
    return ~d.predict(new.logits).contains(new.truth, atol=1e-9), every


WISHES = {
    "miss": (missed, MISS),
    "miss, worst class": (missed_per_class, MISS),
    "miss, worst group": (missed_in_groups, MISS),
    "not held": (not_held, 1 - HOLD),
}


def worst_rate(failed: Array, total: Array) -> tuple[float, float]:
    """Of (draws, parts) failures and rows: the rate of the worst part, and its standard error."""
    parts = total.sum(axis=0) > 0
    failed, total = failed[:, parts], total[:, parts]
    rate = failed.sum(axis=0) / total.sum(axis=0)
    error = np.sqrt(((failed - rate * total) ** 2).sum(axis=0)) / total.sum(axis=0)
    worst = int(np.argmax(rate))
    return float(rate[worst]), float(error[worst])


def promises(draws: int, rows: tuple[int, ...], new: int) -> Iterator[Line]:
    """Failure rates of every wish in every world."""
    for name, world in WORLDS.items():
        for n in rows:
            line: Line = {"world": name, "rows": n}
            for wish, (fails, allowed) in WISHES.items():
                counts = np.zeros((2, draws, 8))
                for seed in range(draws):
                    drawn = world(np.random.default_rng([seed, n]), n + new)
                    failed, part = fails(drawn[:n], drawn[n:], seed)
                    counts[:, seed] = [np.bincount(part, w, 8) for w in (failed, None)]
                if fails is not_held:
                    line["hold refused"] = f"{counts[1, :, 1].sum() / counts[1].sum():.0%}"
                    counts = counts.sum(axis=2, keepdims=True)
                rate, error = worst_rate(*counts)
                line[wish] = f"{rate:.3f} ± {error:.3f}"
                if rate > allowed + TWO * error:
                    line[wish] = f"**{line[wish]}**"
            yield line


# Promises by several labels

COUNTS = 1, 2, 5, 10


def two_classes(z: Array, rows: Labels, other: Labels, q: Array) -> Array:
    """The model's distributions; of some rows, the likeliest class and another, this with q."""
    truth = np.exp(z)
    truth[rows] = 0.0
    truth[rows, z[rows].argmax(axis=1)] = 1 - q
    truth[rows, other] += q
    return truth


def at_edges(rng: np.random.Generator, n: int) -> Drawn:
    """The truth of every third input lies EDGE from the model's distribution, which others have."""
    z = log_softmax(2 * well_told(rng, n), axis=1)
    rows = np.flatnonzero(rng.random(n) < 1 / 3)
    other = rng.integers(0, z.shape[1], len(rows))
    near, far = np.zeros(len(rows)), np.ones(len(rows))
    for _ in range(50):
        q = (near + far) / 2
        p = two_classes(z, rows, other, q)[rows]
        inside = (xlogy(p, p) - p * z[rows]).sum(axis=1) <= EDGE
        near, far = np.where(inside, q, near), np.where(inside, far, q)
    return labelled(rng, two_classes(z, rows, other, near), z)


def contested(rng: np.random.Generator, n: int) -> Drawn:
    """The model is sure of every second input, of which one person in five says something else."""
    z = well_told(rng, n)
    rows = np.flatnonzero(rng.random(n) < 1 / 2)
    z[rows, z[rows].argmax(axis=1)] += 10.0
    z = log_softmax(z, axis=1)
    other = (z[rows].argmax(axis=1) + 1) % z.shape[1]
    return labelled(rng, two_classes(z, rows, other, np.full(len(rows), 0.2)), z)


EDGE = 1.0  # nats


def as_asked(counts: Labels) -> Labels:
    """All labels."""
    return counts


def without_minority(counts: Labels) -> Labels:
    """Only labels for the class that most people named."""
    kept = np.arange(counts.shape[1]) == counts.argmax(axis=1)[:, None]
    return np.where(kept, counts, 0)


VOTED: dict[str, tuple[Callable[[np.random.Generator, int], Drawn], Callable[[Labels], Labels]]] = {
    "noisy labels": (noisy, as_asked),
    "over-confident": (overconfident, as_asked),
    "truth at an edge": (at_edges, as_asked),
    "contested": (contested, as_asked),
    "contested, minority left out": (contested, without_minority),
}


def votes(draws: int, rows: tuple[int, ...], new: int, only: list[str]) -> Iterator[Line]:
    """How often distributions are missed, by world and number of labels.

    The reference is the model as it is, so that nothing repairs what is wrong with it.
    """
    for name, (world, kept) in VOTED.items():
        if only and name not in only:
            continue
        for n in rows:
            line: Line = {"world": name, "rows": n}
            for m in COUNTS:
                counts, widths = np.zeros((2, draws, 1)), np.ones(draws)
                counts[1] = new
                for seed in range(draws):
                    rng = np.random.default_rng([seed, n, m])
                    drawn = world(rng, n + new)
                    said = decal.Votes.of_counts(kept(rng.multinomial(m, drawn.truth[:n])))
                    try:
                        d = decal.decalibrate(
                            drawn.logits[:n], said, hold=HOLD, seed=seed, reference="model"
                        )
                    except decal.InputError:
                        continue
                    sets = d.predict_ball(drawn.logits[n:])
                    counts[0, seed] = (~sets.contains(drawn.truth[n:], atol=1e-9)).sum()
                    widths[seed] = sets.epistemic("width").mean()
                rate, error = worst_rate(*counts)
                found = f"{rate:.3f} ± {error:.3f}"
                found = f"**{found}**" if rate > 1 - HOLD + TWO * error else found
                line[f"not held, m = {m}"] = found
                line[f"width, m = {m}"] = f"{widths.mean():.2f}"
            yield line


# Promises about images

SIDE = 6  # of an image, in pixels
TOLERATED = 0.2  # the share of an image's labels that may be missed


def images(rng: np.random.Generator, n: int) -> tuple[Array, Labels]:
    """(n, 4, SIDE, SIDE) logits and (n, SIDE, SIDE) labels; noise belongs to an image."""
    z = rng.normal(0, 2, (n, 4, SIDE, SIDE))
    trust = np.exp(rng.normal(0, 1, (n, 1, 1, 1)))
    return z, (trust * z + rng.gumbel(size=z.shape)).argmax(axis=1)


def units(draws: int, counts: tuple[int, ...], new: int) -> Iterator[Line]:
    """What new images lose, by what is promised of."""
    promised: dict[str, dict[str, object]] = {
        "pixels": {},
        "images, on average": {"unit": "image"},
        "images with too many misses": {"unit": "image", "tolerate": TOLERATED},
    }
    for n in counts:
        for name, wish in promised.items():
            found = np.empty((3, draws))
            for seed in range(draws):
                z, y = images(np.random.default_rng([seed, n]), n + new)
                d = decal.decalibrate(z[:n], y[:n], miss=MISS, seed=seed, dim=1, **wish)
                kept = d.predict(z[n:], dim=1).possible
                missed = ~np.take_along_axis(kept, y[n:, None], axis=1)
                shares = missed.mean(axis=(1, 2, 3))
                sizes = kept.sum() / missed.size
                found[:, seed] = shares.mean(), (shares > TOLERATED).mean(), sizes
            error = found.std(axis=1) / np.sqrt(draws)
            lost, bad, size = (
                f"{mean:.4f} ± {e:.4f}" for mean, e in zip(found.mean(axis=1), error, strict=True)
            )
            yield {
                "promised of": name,
                "images": n,
                "mean miss rate": lost,
                f"images missing more than {TOLERATED:g}": bad,
                "classes kept": size,
            }


# Sizes on real logits

Sets = Callable[[Array, Labels, Array], Mask]
"""From labelled logits and new ones to the classes kept of these."""


def by_decal(z: Array, y: Labels, new: Array, per: str | None = None) -> Mask:
    """As users would."""
    sets = decal.decalibrate(z, y, miss=MISS, per=per).predict(new)
    kept = np.zeros(new.shape, dtype=bool)
    for row, classes in enumerate(sets.possible()):
        kept[row, classes] = True
    return kept


def by_scores(z: Array, y: Labels, new: Array, score: Callable[[Array], Array]) -> Mask:
    """Split conformal sets of a score: small ones are kept."""
    own = np.sort(score(softmax(z, axis=1))[np.arange(len(y)), y])
    k = int(np.ceil((1 - MISS) * (len(y) + 1) - 1e-9))
    return score(softmax(new, axis=1)) <= (own[k - 1] if k <= len(y) else np.inf)


def reached(p: Array) -> Array:
    """The probability of a class and of all that are more probable: the score of APS."""
    order = np.argsort(-p, axis=1, kind="stable")
    total = np.empty_like(p)
    np.put_along_axis(total, order, np.take_along_axis(p, order, axis=1).cumsum(axis=1), axis=1)
    return total


def rivals() -> dict[str, Sets]:
    """LAC and APS; MAPIE and crepes if they are there."""
    found: dict[str, Sets] = {
        "LAC": partial(by_scores, score=lambda p: 1 - p),
        "APS": partial(by_scores, score=reached),
    }
    if find_spec("crepes") and find_spec("mapie"):
        from crepes.extras import hinge, margin

        from per_class import by_crepes, by_mapie

        found |= {
            "MAPIE, lac": lambda z, y, new: by_mapie(z, y, "lac")(new, MISS),
            "MAPIE, aps": lambda z, y, new: by_mapie(z, y, "aps")(new, MISS),
            "crepes, hinge": lambda z, y, new: by_crepes(z, y, class_cond=False)(new, MISS),
            "crepes, margin": lambda z, y, new: by_crepes(z, y, class_cond=False, score=margin)(
                new, MISS
            ),
            PER_CLASS_RIVAL: lambda z, y, new: by_crepes(z, y, class_cond=True, score=hinge)(
                new, MISS
            ),
        }
    return found


PER_CLASS, PER_CLASS_RIVAL = "decal, per class", "crepes, per class"
MANY = 100  # classes
UP_TO_MANY = (PER_CLASS, PER_CLASS_RIVAL, "crepes, margin")
"""With more classes there are too few rows of each, or the method takes minutes."""


def filled(kept: Mask, new: Array) -> Mask:
    """Where nothing is kept, the most probable class."""
    empty = np.flatnonzero(~kept.any(axis=1))
    kept = kept.copy()
    kept[empty, new[empty].argmax(axis=1)] = True
    return kept


def real_logits(folder: Path) -> dict[str, Callable[[int], tuple[Array, Labels]]]:
    """Rows that no model was trained on, by name: from a seed to logits and labels."""
    from labelled_rows import boosted_tables, digits, published, tumours

    found = {path.stem: partial(published, path) for path in sorted(folder.glob("*.npz"))}
    return found | boosted_tables(folder) | {"digits": digits, "tumours": tumours}


def kept_and_missed(
    load: Callable[[int], tuple[Array, Labels]], splits: int, rows: int, most_new: int
) -> dict[str, Array]:
    """By method, means over splits: classes kept, the same where no set is empty, misses."""
    methods = rivals() | {"decal": by_decal, PER_CLASS: partial(by_decal, per="class")}
    found: dict[str, list[Array]] = {name: [] for name in methods}
    for seed in range(splits):
        z, y = load(seed)
        order = np.random.default_rng(1000 + seed).permutation(len(y))
        old, new = np.split(order, [min(rows, len(y) // 2)])
        new = new[:most_new]
        for name, method in methods.items():
            if name in UP_TO_MANY and z.shape[1] > MANY:
                found[name].append(np.full(3, np.nan))
                continue
            try:
                kept = method(z[old], y[old], z[new])
            except ValueError:  # too few rows, or too few classes, for this method
                found[name].append(np.full(3, np.nan))
                continue
            full = filled(kept, z[new])
            hit = kept[np.arange(len(new)), y[new]]
            found[name].append(
                np.array([kept.sum() / len(new), full.sum() / len(new), 1 - hit.mean()])
            )
    return {name: np.mean(runs, axis=0) for name, runs in found.items()}


def sizes(
    folder: Path, splits: int, every_rows: tuple[int, ...], most_new: int, names: list[str]
) -> Iterator[Line]:
    """Classes kept by decal and by others, and the ratio of decal's to the least of theirs."""
    ratios: list[list[float]] = []
    for rows in every_rows:
        ratios.clear()
        for name, load in real_logits(folder).items():
            if names and name not in names:
                continue
            found = kept_and_missed(load, splits, rows, most_new)
            own, own_per_class = found.pop("decal"), found.pop(PER_CLASS)
            per_class = found.pop(PER_CLASS_RIVAL, np.full(3, np.nan))
            raw, least, _ = np.nanmin(np.array(list(found.values())), axis=0)
            ratios.append([own[1] / least, own[1] / raw, own_per_class[1] / per_class[1]])
            yield {
                "data": name,
                "rows": rows,
                "decal": f"{own[1]:.2f}",
                "missed": f"{own[2]:.3f}",
                **{rival: f"{kept[1]:.2f}" for rival, kept in found.items()},
                "ratio": f"{ratios[-1][0]:.2f}",
                "with empty sets": f"{ratios[-1][1]:.2f}",
                PER_CLASS: f"{own_per_class[1]:.2f}",
                PER_CLASS_RIVAL: f"{per_class[1]:.2f}",
                "ratio per class": f"{ratios[-1][2]:.2f}",
            }
        least, raw, by_class = np.nanmean(ratios, axis=0)
        last = {"ratio": least, "with empty sets": raw, "ratio per class": by_class}
        yield {"data": "mean", "rows": rows} | {name: f"{v:.3f}" for name, v in last.items()}


# Decisions


def cost_of(actions: NDArray[np.intp], labels: Labels, costs: Array) -> float:
    """Mean cost of actions, given the labels."""
    return float(costs[actions, labels].mean())


def recalibrated(z: Array, y: Labels, new: Array) -> Array:
    """Probabilities after scaling and shifting; the model's, if no scale is best."""
    d = decal.Decalibrator(directions=("local",), reference="best")
    try:
        return np.asarray(d.fit(z, y).predict(new, alpha=1.0).point)
    except decal.InputError:
        return np.asarray(softmax(new, axis=1))


def decisions(folder: Path, splits: int, matrices: int) -> Iterator[Line]:
    """Costs of reports' actions against those of the recalibrated prediction, table by table."""
    from labelled_rows import boosted_tables

    ratios = []
    for name, load in boosted_tables(folder).items():
        found = []
        for seed in range(splits):
            z, y = load(seed)
            rng = np.random.default_rng(seed)
            old, new = np.array_split(rng.permutation(len(y)), 2)
            d = decal.decalibrate(z[old], y[old], miss=MISS)
            plain = {
                "recalibrated": recalibrated(z[old], y[old], z[new]),
                "model": softmax(z[new], axis=1),
            }
            for _ in range(matrices):
                costs = rng.exponential(size=(z.shape[1],) * 2)
                np.fill_diagonal(costs, 0.0)
                actions = d.report(z[new], costs=costs).action
                found.append(
                    [cost_of(np.asarray(actions, dtype=np.intp), y[new], costs)]
                    + [cost_of((p @ costs.T).argmin(axis=1), y[new], costs) for p in plain.values()]
                )
        ours, best, model = np.mean(found, axis=0)
        ratios.append(ours / best)
        yield {
            "table": name,
            "report": f"{ours:.4f}",
            "recalibrated": f"{best:.4f}",
            "model": f"{model:.4f}",
            "ratio": f"{ours / best:.3f}",
        }
    yield {"table": "mean", "ratio": f"{np.mean(ratios):.3f}"}


def told(lines: Iterator[Line]) -> tuple[list[Line], str]:
    """The lines, and a table of them in Markdown, which is printed line by line."""
    found: list[Line] = []
    table = ""
    for line in lines:
        found.append(line)
        shown = [] if table else [[*line], ["---"] * len(line)]
        for cells in [*shown, [str(line.get(name, "")) for name in found[0]]]:
            table += f"| {' | '.join(cells)} |\n"
            print(f"| {' | '.join(cells)} |", flush=True)
    return found, table


SIMULATED = ("promises", "votes", "units")


def main() -> None:
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", help="promises, votes, units, sizes, decisions; by default all"
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("DECAL_DATA"))
    parser.add_argument("--only", nargs="*", default=[], help="names of data or worlds")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="*")
    parser.add_argument("--out", type=Path, help="folder for a .json and a .md of each part")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of rare classes, which the tables show
    draws, splits = (4, 1) if options.quick else (options.draws, options.splits)
    rows = tuple(options.rows or ()) or None
    new = 20 if options.quick else 200
    parts = {
        "promises": lambda: promises(draws, rows or (60, 200, 1000), new),
        "votes": lambda: votes(draws, rows or (300,), new, options.only),
        "units": lambda: units(draws, rows or (12, 30, 100), new),
        "sizes": lambda: sizes(options.data, splits, rows or (2000, 200), 5 * new, options.only),
        "decisions": lambda: decisions(options.data, splits, 20),
    }
    for part in options.parts or [name for name in parts if options.data or name in SIMULATED]:
        lines, table = told(parts[part]())
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            at = options.out / f"wishes_{part}.json"
            at.write_text(json.dumps(lines, indent=1), encoding="utf-8")
            at.with_suffix(".md").write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
