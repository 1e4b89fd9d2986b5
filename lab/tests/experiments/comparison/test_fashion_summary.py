"""Claims of the comparison on images."""

from decal_lab.experiments.comparison.entries import curves, entries
from decal_lab.experiments.comparison.fashion_summary import _claims
from decal_lab.experiments.comparison.plan import BOTH, CLASS, ENTROPY, WRAPPER
from lab_helpers.comparison_rows import row


def test_claims_fail_where_the_rows_say_so():
    real = entries(
        [
            row(CLASS, 0, 0.95, auroc_mnist=0.7, train_seconds=10),
            row(WRAPPER, 0, auroc_mnist=0.9, train_seconds=100),
            row(ENTROPY, 0, auroc_mnist=0.6, train_seconds=10),
        ]
    )
    drawn = entries(
        [
            *(
                row(method, 0, alpha, coverage=c, efficiency=e)
                for method, top in ((CLASS, 0.5), (BOTH, 0.9))
                for alpha, c, e in ((1.0, 0.0, 0.9), (0.5, top, 0.5), (0.0, 1.0, 0.0))
            ),
            row(WRAPPER, 0, coverage=0.3, efficiency=0.8),
        ]
    )
    verdicts = {claim.text: claim.holds for claim in _claims(real, drawn)}
    assert [(text.partition(":")[0][:24], holds) for text, holds in verdicts.items()] == [
        ("Decalibration is ready 1", True),
        ("MNIST", False),
        ("MNIST", True),
        ("At the efficiency of Cre", False),
    ]
    last = list(verdicts)[-1]
    assert "0.225 (class alone 0.125)" in last
    assert curves(drawn)[WRAPPER].coverage.tolist() == [0.3]
