"""The rooms of the laboratory, what they import from each other, and what of decal they use."""

import ast
import importlib
from pathlib import Path

import pytest

import decal
import decal_lab
from helpers import house_rules as rules
from helpers.imports import Package

TESTS = Path(__file__).parent
PACKAGE = Package(Path(decal_lab.__file__).parent)

# A room imports from layers below its own and, within its layer, from rooms to its left.
LAYERS = {
    "program": "command",
    "experiments": "experiments",
    "methods and data": "data baselines members acquisition",
    "checks": "checks",
    "package": "__init__",
}

TESTS_ELSEWHERE = {
    "__init__": "test_lab_architecture.py",
    "data._archives": "data/test_image_folders.py",
    "data._array_files": "data/test_mnists.py",
    "data._data_sets": "data/test_image_arrays.py",
    "data._pictures": "data/test_image_folders.py",
    "experiments.comparison.fashion_figures": "experiments/test_fashion_mnist.py",
    "experiments.comparison.fashion_images": "experiments/test_fashion_mnist.py",
    "experiments.comparison.methods": "experiments/test_fashion_mnist.py",
    "experiments.comparison.plan": "experiments/test_fashion_mnist.py",
    "experiments.comparison.workers": "experiments/test_fashion_mnist.py",
    "experiments.harness.guaranteed_sets": "experiments/test_validity.py",
    "experiments.harness.labelled_logits": "experiments/test_compare_scores.py",
    "experiments.harness.score_tables": "experiments/test_compare_scores.py",
    "experiments.harness.worlds": "experiments/test_validity.py",
}
"""Modules whose tests are not found by name, and the file in tests/ that tests them."""


def test_every_room_has_its_place():
    assert rules.without_place(PACKAGE, LAYERS) == []


def test_rooms_import_from_below_and_from_their_left():
    assert rules.against_the_layers(PACKAGE, LAYERS) == []


def test_no_module_imports_itself_in_a_circle():
    assert rules.in_circles(PACKAGE) == []


def test_public_rooms_list_their_names():
    assert rules.without_all(PACKAGE, {"command", "experiments"}) == [
        "checks",
        "command",
        "experiments",
    ]


def test_names_are_used_once():
    assert rules.repeated_files(PACKAGE) == []
    assert rules.repeated_classes(PACKAGE) == []
    assert rules.shadowing_classes(PACKAGE) == []


def test_tests_are_found_by_the_name_of_their_module():
    assert rules.without_tests(PACKAGE, TESTS, TESTS_ELSEWHERE) == []


@pytest.mark.parametrize("room", ["baselines", "data", "members"])
def test_public_names_can_be_imported(room):
    module = importlib.import_module(f"decal_lab.{room}")
    assert all(hasattr(module, name) for name in module.__all__)


def test_both_distributions_have_one_version():
    assert decal_lab.__version__ == decal.__version__


# What the laboratory uses of decal


def private_names(source):
    """Dotted names of decal in a file that only decal itself may use."""
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if node.value.startswith("decal.") else []  # import_module
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        for name in names:
            first, *inner = name.split(".")
            if first == "decal" and any(
                part.startswith("_") and not part.startswith("__") for part in inner
            ):
                yield name


def test_the_laboratory_uses_public_names_of_decal_only():
    found = {
        name: used
        for name, module in PACKAGE.modules.items()
        if (used := sorted(set(private_names(module.path.read_text(encoding="utf-8")))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "from decal._base.row_checks import check_alpha",
        "from decal import _base",
        "import decal._base",
        "import_module('decal._base')",
        "from decal.credal import _boxes",
        "import decal; decal.credal._boxes",
        "def f():\n    from decal.credal._boxes import IntervalCredalSet",
    ],
)
def test_private_names_would_be_noticed(source):
    assert list(private_names(source))


def test_decal_knows_nothing_of_the_laboratory():
    library = Package(Path(decal.__file__).parent)
    for module in library.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "decal_lab" not in ast.unparse(node), module.name
