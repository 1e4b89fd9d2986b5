"""All credal methods on the quality of brain images, which three raters judged: a stand-in.

The paper trains on QualityMRI, 310 images. Here 1,101 images of ABIDE stand in: the inputs are
MRIQC's 68 measures of every image, and three raters wanted it excluded, doubted or accepted. Small
networks learn labels drawn from the raters of four fifths of the images, and credal sets should
hold the raters' shares of the others, as on ChaosNLI. Shares of three raters are thirds, and
scatter far more than what a crowd would say.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal_lab.experiments.chaosnli import ChaosPlan, findings
from decal_lab.experiments.comparison.plan import DRAWN
from decal_lab.experiments.comparison.workers import comparison
from decal_lab.experiments.harness.experiment import Experiment, Request
from decal_lab.experiments.harness.logit_sets import check_folder, require_file
from decal_lab.experiments.harness.published_results import Published

MEASURES, RATINGS = "mriqc/x_abide.csv", "mriqc/labels_abide_allraters.csv"
RATERS = ("rater_1", "rater_2", "rater_3")
ANSWERS = (-1, 0, 1)
"""Exclude, doubtful, accept."""

STAND_IN = "QualityMRI's images: those of ABIDE, by MRIQC's measures of them, stand in"


@dataclass(frozen=True, kw_only=True)
class MriPlan(ChaosPlan):
    """The comparison on images of brains."""

    source: str = "mriqc"
    title: str = "ABIDE, a stand-in for QualityMRI"
    question: str = "A stand-in for QualityMRI: who holds the raters' shares?"
    published: tuple[str, str] = ("qualitymri", "torchresnet")
    inputs: str = "measures"

    def judged(self, folder: Path) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Measures of every image, and the shares of its raters' answers."""
        return images(folder)

    @property
    def seen(self) -> str:
        """What the networks see, in words."""
        return "for an image, 68 measures of MRIQC"


FULL = MriPlan()
QUICK = MriPlan(name="quick", seeds=1, members=3)


def images(folder: Path) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """(n, 68) measures of the images that somebody rated, and (n, 3) shares of the ratings."""
    measures = _columns(require_file(folder, MEASURES))
    ratings = _columns(require_file(folder, RATINGS))
    rows = {number: row for row, number in enumerate(ratings.pop("subject_id"))}
    numbers = measures.pop("subject_id")
    known = np.array([number in rows for number in numbers])
    order = [rows[number] for number in numbers[known]]
    votes = np.column_stack([ratings[name][order] for name in RATERS])
    counts = np.stack([(votes == answer).sum(axis=1) for answer in ANSWERS], axis=1)
    rated = counts.sum(axis=1) > 0
    x = np.column_stack(list(measures.values()))[known][rated]
    counts = counts[rated]
    return x, counts / counts.sum(axis=1, keepdims=True)


def _columns(path: Path) -> dict[str, NDArray[np.float64]]:
    """The columns of numbers in a .csv file; what is missing is NaN."""
    with path.open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")
    numbers = [i for i, name in enumerate(names) if name != "site"]
    values = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=numbers)
    return {names[i]: values[:, place] for place, i in enumerate(numbers)}


def experiment(request: Request, *, plan: MriPlan | None = None) -> Experiment:
    """All credal methods, next to the curve published for QualityMRI if it is available.

    The folder of data must hold mriqc/x_abide.csv and mriqc/labels_abide_allraters.csv, as the
    package mriqc 0.15.2 has them. Seeds are as for `chaosnli`.

    Parameters
    ----------
    request : Request
        What the user asked for.
    plan : MriPlan, optional
        Sizes of your own, in place of those of a full or a quick run.
    """
    check_folder(request.data)
    plan = plan or (QUICK if request.quick else FULL)
    images(request.data)
    tell = partial(findings, published=Published(request.data))
    return comparison(plan, request, tell, kinds=(DRAWN,), needs=(STAND_IN,))
