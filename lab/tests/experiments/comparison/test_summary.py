"""Tables and claims that both comparisons share."""

from decal_lab.experiments.comparison.entries import entries
from decal_lab.experiments.comparison.plan import BOTH, CLASS, COLUMNS, WRAPPER
from decal_lab.experiments.comparison.summary import coverage_claims


def test_methods_that_cover_nothing_claim_nothing():
    empty = {name: float("nan") if kind is float else "" for name, kind in COLUMNS.items()}
    rows = [
        empty | {"method": method, "seed": 0, "alpha": alpha, "coverage": c, "efficiency": e}
        for method in (CLASS, BOTH)
        for alpha, c, e in ((1.0, 0.0, 0.9), (0.0, 1.0, 0.0))
    ]
    narrow = empty | {"method": WRAPPER, "seed": 0, "coverage": 0.0, "efficiency": 0.99}
    assert coverage_claims(entries([*rows, narrow])) == []
    assert len(coverage_claims(entries([*rows, narrow | {"coverage": 0.1}]))) == 1
