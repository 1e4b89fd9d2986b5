"""What all tests share: how many examples Hypothesis draws, one thread per process, real data.

`make test` runs four processes, `-n 4 --dist loadfile`: on two cores, too, as many tests wait for
browsers, files and other processes. Without these options there is one.
"""

from pathlib import Path

import pytest

from helpers.sessions import (  # noqa: F401
    by_group,
    data_folder,
    pytest_collection_finish,
    pytest_configure,
    slow_files_first,
)

BROWSER = "tests/explorer/browser/"

LONGEST = (
    *(
        BROWSER,
        "tests/test_torch.py",
        "tests/choose/test_choose.py",
        "tests/test_sklearn_tabpfn.py",
    ),
    *("tests/io/test_checkpoints.py", "tests/distributed/test_spark.py"),
    *("tests/coupled/test_coupled.py", "tests/test_sklearn.py", "tests/io/test_formats.py"),
    *("tests/choose/test_hold.py", "tests/test_docs.py"),
)
"""What takes some twenty seconds of a processor or more, about in this order.

Other groups follow by their number of slow tests: a new file needs no line here to start early.
"""


THOROUGH = (
    "tests/io/test_checkpoints.py::test_a_fit_continued_in_a_new_process_ends_with_the_same_bits[l",
    "tests/io/test_checkpoints.py::test_a_fit_killed_again_and_again_ends_with_the_same_bits[15]",
    "tests/io/test_checkpoints.py::test_a_fit_killed_again_and_again_ends_with_the_same_bits[9]",
    "tests/io/test_formats.py::test_memory_does_not_grow_with_the_file[C.npy]",
    "tests/io/test_formats.py::test_memory_does_not_grow_with_the_file[F.npy]",
    "tests/test_onnx.py::test_a_head_joins_graphs_of_old_and_new_operators[11]",
    "tests/test_sklearn_tabpfn.py",
    "tests/test_torch.py::test_a_head_compiles_to_machine_code",
    "tests/test_torch.py::test_a_head_compiles_whole[directions1",
    "tests/test_torch.py::test_a_head_with_all_directions_runs_in_onnx_runtime",
    "tests/test_torch.py::test_tokens_of_any_number_are_exported[True]",
)
"""Further cases of what other tests try once, or packages of their own: CI runs them."""


def group_of(file):
    """What stays in one process with this file, by a name: all tests in a browser."""
    return BROWSER if file.startswith(BROWSER) else file


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    root = Path(__file__).parents[1]
    gone = [group for group in LONGEST if not (root / group).exists()]
    assert not gone, f"LONGEST in {__file__} must list what exists: got {gone}."
    slow_files_first(items, LONGEST, group_of)
    for item in items:
        if item.nodeid.startswith(THOROUGH):
            item.add_marker("thorough")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return by_group(config, log, group_of)


@pytest.fixture
def clear_data():
    """Logits (200, 3), and labels drawn from their softmax."""
    import numpy as np

    from oracles import class_shifts as oracles

    rng = np.random.default_rng(7)
    logits = rng.normal(size=(200, 3)) * 2
    labels = np.array([rng.choice(3, p=p) for p in oracles.softmax(logits, axis=1)])
    return logits, labels
