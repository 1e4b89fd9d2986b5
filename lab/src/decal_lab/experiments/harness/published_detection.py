"""The published detection by methods that need one network, as a table beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from decal_lab.experiments.harness.published_results import Published
from decal_lab.experiments.harness.published_tables import OUT_SETS
from decal_lab.experiments.harness.reports import Table, number

CAPTION = (
    "in distribution: CIFAR-10; each method has one ResNet-18, mean of three seeds\n"
    "EDL: evidential learning, trained with its own loss; DDU: the density of features"
)
OURS = "; ours: ResNet-20 and its logits"


def one_network_table(
    published: Published, *, ours: Mapping[str, Mapping[str, float]] | None = None
) -> Iterator[Table]:
    """A table of published AUROC: EDL, DDU and one decalibrated network; none if not available.

    Parameters
    ----------
    published : Published
        The published results.
    ours : mapping of str to mapping of str to float, optional
        Our AUROC by title and by names of OUT_SETS, below the published ones.
    """
    if not published.one_network:
        return
    rows: dict[str, Mapping[str, float]] = dict(published.one_network)
    curves = {name: published.ood("cifar10", name, "resnet") for name in OUT_SETS}
    for alpha in (0.95, 1.0):
        found = {name: c.at("auroc", alpha) for name, c in curves.items() if c is not None}
        if found:
            rows[f"decalibration, {alpha:g}"] = found
    rows |= ours or {}
    yield Table(
        "Published: one network for each method",
        ("method", *OUT_SETS.values()),
        {"": [(m, *(number(row.get(n, np.nan)) for n in OUT_SETS)) for m, row in rows.items()]},
        CAPTION + (OURS if ours else ""),
    )
