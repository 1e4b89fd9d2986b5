"""Attacks: properties tried on many problems, a few hundred in CI and 10^5 with `make attack`.

An attack counts its problems, so that `tests/attack/conftest.py` can print how many there were.
"""

from __future__ import annotations

import functools
import os

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis.errors import UnsatisfiedAssumption

FACTOR = int(os.environ.get("DECAL_ATTACK", "1"))
"""How many times as many problems as in CI."""

PATIENT = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


def attack(algorithm, count, /, each=1, **strategies):
    """A test of `count` problems, times FACTOR, drawn from the strategies and counted.

    A problem counts as `each` cases. The same problems every time in CI, others with every seed
    beyond. A failure prints code that makes its arrays again.
    """

    def decorate(test):
        @settings(
            max_examples=count * FACTOR,
            derandomize=FACTOR == 1,
            database=None,
            deadline=None,
            print_blob=False,
            suppress_health_check=PATIENT,
        )
        @given(**strategies)
        def run(**drawn):
            run.cases += each
            try:
                test(**drawn)
            except UnsatisfiedAssumption:
                run.cases -= each
                raise
            except Exception:
                note("\n".join(code(name, value) for name, value in drawn.items()))
                raise

        functools.update_wrapper(run, test, assigned=("__name__", "__doc__", "__module__"))
        del run.__wrapped__  # pytest would ask for its arguments as fixtures
        run.algorithm, run.cases, run.raw = algorithm, 0, test
        return run

    return decorate


def counted(algorithm, cases):
    """A test that tries so many cases, in its own way."""

    def decorate(test):
        @functools.wraps(test)
        def run(*args, **kwargs):
            run.cases += cases
            return test(*args, **kwargs)

        run.algorithm, run.cases = algorithm, 0
        return run

    return decorate


def code(name, value):
    """Python that makes a value again."""
    if hasattr(value, "arrays"):
        return "\n".join(code(part, array) for part, array in value.arrays().items())
    if isinstance(value, np.ndarray):
        numbers = np.array2string(value, separator=", ", threshold=10**6, floatmode="unique")
        numbers = numbers.replace("inf", "np.inf").replace("nan", "np.nan")
        return f"{name} = np.array({numbers}, dtype=np.{value.dtype})"
    return f"{name} = {value!r}"
