"""Decisions of one input, against the definitions of the rules."""

import numpy as np

from oracles import decisions as oracle

SET_RULES = ("interval_dominance", "maximality", "e_admissible")
MARGINS = {
    "interval_dominance": oracle.dominance_margins,
    "maximality": oracle.maximality_margins,
    "e_admissible": oracle.admissible_margins,
}
UNSURE = 1e-8  # margins that the oracle's linear programs do not resolve


def assert_rules_match_definitions(decision, earned, rules=SET_RULES):
    """Masks and actions of one row against the definitions, but for what round-off decides."""
    A = earned.shape[1]
    scale = max(1.0, np.abs(earned).max())
    for rule in rules:
        for a, margin in enumerate(MARGINS[rule](earned) / scale):
            if abs(margin) > UNSURE:
                assert decision[rule][a] == (margin > 0), (rule, a, margin)
    regrets = [oracle.regret(earned, a) for a in range(A)]
    assert regrets[decision["minimax_regret"]] <= min(regrets) + 1e-9 * scale
    worst, best = earned.min(axis=0), earned.max(axis=0)
    for rule, score in (
        ("gamma_maximin", worst),
        ("gamma_maximax", best),
        ("hurwicz", 0.3 * best + 0.7 * worst),
    ):
        assert score[decision[rule]] >= score.max() - 1e-9 * scale
