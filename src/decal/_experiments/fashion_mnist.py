"""All credal methods on real images: Fashion-MNIST in, MNIST and notMNIST out of distribution.

Ten networks train for every ensemble; decalibration and the free scores take the first of them.
With the real labels, methods are compared by accuracy, calibration, detection and seconds; with
labels drawn from a known truth, by how often their sets hold it, and how wide they are.
"""

from __future__ import annotations

from pathlib import Path

from decal._experiments.comparison.fashion_images import FULL, QUICK, FashionPlan, absent
from decal._experiments.comparison.fashion_summary import report
from decal._experiments.comparison.plan import COLUMNS, DRAWN, OUTSIDE, REAL
from decal._experiments.comparison.running import compute
from decal._experiments.harness.logit_sets import NothingAtHandError
from decal._experiments.harness.reports import Report
from decal._experiments.harness.rows import RowStore, Track, untracked


def run(
    data: Path,
    out: Path,
    *,
    seeds: tuple[int, ...] = (0,),
    quick: bool = False,
    track: Track = untracked,
    plan: FashionPlan | None = None,
) -> Report:
    """Compute the cells that are missing, then write the tables and figures of all there are.

    Parameters
    ----------
    data : folder with folders of images, such as fashion-mnist and mnist; what is not there is
        looked for where `decal.datasets` finds it. Nothing is downloaded.
    out : folder of results, created if need be: rows.csv, tables (.md, .tex, .csv), figures, and
        all trained networks in members, some 0.8 MB each.
    seeds : of images and trainings. One stands for itself and the two that follow.
    quick : one seed, three members, fewer images: a trial, not a result.
    track : hands on the cells to compute, for a progress bar.
    plan : sizes of your own, in place of `quick`.
    """
    plan = plan or (QUICK if quick else FULL)
    seeds = plan.all_seeds(seeds)
    missing = absent(data)
    if "Fashion-MNIST" in missing:
        raise NothingAtHandError(
            f"data must hold Fashion-MNIST: got none. Needs {missing['Fashion-MNIST']}."
        )
    store = RowStore(out / "rows.csv", COLUMNS, level="alpha")
    at_hand = set(OUTSIDE.values()) - set(missing)
    kinds = (REAL, DRAWN)
    compute(store, plan, data, out, seeds=seeds, kinds=kinds, at_hand=at_hand, track=track)
    return report(store, out, plan=plan, seeds=seeds, needs=tuple(missing.values()))
