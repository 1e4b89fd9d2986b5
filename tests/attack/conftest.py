"""A table of all attacks at the end: algorithm, cases, failures, seconds.

DECAL_ATTACK_TABLE names a JSON file for the same numbers.
"""

import json
import os
from pathlib import Path

import pytest

from helpers.attack import FACTOR

PROPERTY = "attack"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Note which algorithm a test attacks, and how many cases it tried."""
    attacked = getattr(item, "function", None)
    before = getattr(attacked, "cases", 0)
    try:
        return (yield)
    finally:
        if hasattr(attacked, "algorithm"):
            cases = attacked.cases - before
            item.user_properties.append((PROPERTY, [attacked.algorithm, cases]))


def pytest_terminal_summary(terminalreporter):
    """The table, in plain text, and as JSON where the environment asks for it."""
    table = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", []):
                if name == PROPERTY and report.when == "call":
                    algorithm, cases = value
                    row = table.setdefault(algorithm, {"cases": 0, "failures": 0, "seconds": 0.0})
                    row["cases"] += cases
                    row["failures"] += outcome == "failed"
                    row["seconds"] += report.duration
    if not table:
        return
    seed = terminalreporter.config.getoption("hypothesis_seed", None)
    terminalreporter.section("attacks")
    terminalreporter.write_line(f"factor {FACTOR}, Hypothesis seed {seed}")
    terminalreporter.write_line(f"{'algorithm':<45}{'cases':>9}{'failures':>10}{'seconds':>9}")
    total = {"cases": 0, "failures": 0, "seconds": 0.0}
    for algorithm, row in [*sorted(table.items()), ("all", total)]:
        numbers = f"{row['cases']:>9,}{row['failures']:>10}{row['seconds']:>9.0f}"
        terminalreporter.write_line(f"{algorithm:<45}{numbers}")
        for name in total if row is not total else ():
            total[name] += row[name]
    path = os.environ.get("DECAL_ATTACK_TABLE")
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        content = {"factor": FACTOR, "seed": seed, "attacks": table}
        Path(path).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
