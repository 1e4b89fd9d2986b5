"""All credal methods on real images: Fashion-MNIST in, MNIST and notMNIST out of distribution.

Every ensemble has ten networks; decalibration and the free scores take the first of them. With the
real labels, methods are compared by accuracy, calibration, detection and seconds; with labels drawn
from a known truth, by the coverage and the efficiency of their sets.
"""

from __future__ import annotations

from functools import partial

from decal_lab.experiments.comparison.fashion_images import FULL, QUICK, FashionPlan, absent
from decal_lab.experiments.comparison.fashion_summary import findings
from decal_lab.experiments.comparison.plan import DRAWN, OUTSIDE, REAL
from decal_lab.experiments.comparison.workers import comparison
from decal_lab.experiments.harness.experiment import Experiment, Request
from decal_lab.experiments.harness.logit_sets import NoDataAvailableError
from decal_lab.experiments.harness.published_detection import one_network_table
from decal_lab.experiments.harness.published_results import Published


def experiment(request: Request, *, plan: FashionPlan | None = None) -> Experiment:
    """All methods on Fashion-MNIST, with real and with drawn labels.

    Images are looked for in the folder of data, and then where `decal_lab.data` finds them; nothing
    is downloaded. Seeds draw images and initialise trainings; if one seed is asked for, the two
    that follow it are used too. A quick run has one seed, three members and fewer images: it is a
    trial, not a result. The trained networks take about 0.8 MB each.

    Parameters
    ----------
    request : Request
        What the user asked for.
    plan : FashionPlan, optional
        Sizes of your own, in place of those of a full or a quick run.
    """
    missing = absent(request.data)
    if "Fashion-MNIST" in missing:
        raise NoDataAvailableError(
            f"data must hold Fashion-MNIST: got none. Needs {missing['Fashion-MNIST']}."
        )
    return comparison(
        plan or (QUICK if request.quick else FULL),
        request,
        partial(findings, published=tuple(one_network_table(Published(request.data)))),
        kinds=(REAL, DRAWN),
        outside=set(OUTSIDE.values()) - set(missing),
        needs=tuple(missing.values()),
    )
