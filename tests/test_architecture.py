"""The tree is the architecture: this file specifies it, ARCHITECTURE.md draws it."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import decal
from helpers import house_rules as rules
from helpers.imports import Package

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
PACKAGE = Package(Path(decal.__file__).parent)

# A room is a folder or a file directly in decal. A room imports from layers below its own and,
# within its layer, from rooms to its left.
LAYERS = {
    "programs": "cli __main__",
    "integrations": "torch onnx llm zeroshot sklearn distributed plot explorer datasets",
    "public names": "__init__",
    "questions": "evaluate choose coupled shift report ensembles binning",
    "model": "directions promise new_inputs model decalibrator multilabel",
    "files": "io",
    "sets": "credal",
    "base": "_base grids schema votes rows",
}

WORKSHOPS = {"io", "cli"}
"""Rooms that are no part of what `decal` shows: files and the command line."""

SHORTCUTS = {
    ("credal", "explorer"),
    ("decalibrator", "explorer"),
    ("grids", "explorer"),
    ("shift", "explorer"),
    ("model", "report"),
    *(("__init__", room) for room in LAYERS["integrations"].split()),
}
"""Imports that go upwards, on first use: `explore()` of sets, maps, models and shifts opens the
explorer, and `decal.plot` and the other integrations are attributes of `decal`."""

TESTS_ELSEWHERE = {
    "__init__": "test_architecture.py",
    "__main__": "cli/test_program.py",
    "_base.arrays": "directions/test_ranges.py",
    "_base.elementary": "base/test_kernels.py",
    "_base.local_kernels": "directions/test_local.py",
    "_base.scale_kernels": "directions/test_peaks.py",
    "_base.set_checks": "credal/test_credal_set.py",
    "choose._choosing": "choose/test_choose.py",
    "choose._order": "choose/test_thresholds.py",
    "choose._plausibility": "choose/test_choose.py",
    "choose._promises": "choose/test_choose.py",
    "cli": "cli/test_program.py",
    "cli.plugins": "cli/test_program.py",
    "cli.export": "test_onnx.py",
    "cli.run": "io/test_checkpoints.py",
    "coupled._absent": "coupled/test_coupled.py",
    "coupled._bounds": "coupled/test_coupled.py",
    "coupled._certificates": "coupled/test_coupled.py",
    "coupled._loss": "coupled/test_coupled.py",
    "coupled._region": "coupled/test_coupled.py",
    "coupled._solver": "coupled/test_coupled.py",
    "credal._expectations": "credal/test_ordered.py",
    "credal._interval_rows": "credal/test_credal_set.py",
    "new_inputs": "test_model.py",
    "schema": "test_rows.py",
    "directions._best_model": "directions/test_reference.py",
    "directions._kept_classes": "test_torch.py",
    "directions._log_likelihood": "directions/test_reference.py",
    "directions._summarise": "directions/test_margins.py",
    "directions._bins": "directions/test_margins.py",
    "directions._direction": "directions/test_directions.py",
    "distributed": "distributed/test_dask.py",
    "distributed._frames": "distributed/test_dask.py",
    "distributed._partitions": "distributed/test_dask.py",
    "onnx._endings": "test_onnx.py",
    "onnx._heads": "test_onnx.py",
    "onnx._operations": "test_onnx.py",
    "onnx._running": "test_onnx.py",
    "shift._calibrated": "shift/test_label_shift.py",
    "shift._exact": "shift/test_plausible.py",
    "shift._frequency_evidence": "shift/test_label_shift.py",
    "shift._observed": "shift/test_plausible.py",
    "shift._likelihood": "shift/test_plausible.py",
    "shift._results": "shift/test_label_shift.py",
    "sklearn._credal_classifier": "test_sklearn.py",
    "sklearn._held_out": "test_sklearn.py",
    "sklearn._shift_adapted": "test_sklearn_shift.py",
    "torch._after_validation": "test_torch_callbacks.py",
    "torch._head": "test_torch.py",
    "torch._hugging_face": "test_torch_callbacks.py",
    "torch._kept_metrics": "test_torch_metrics.py",
    "torch._lightning": "test_torch_callbacks.py",
    "torch.batches": "test_torch_batches.py",
    "zeroshot._encoders": "test_zeroshot.py",
    "zeroshot._pretrained": "test_zeroshot_pretrained.py",
}
"""Modules whose tests are not found by name, and the file in tests/ that tests them."""


def test_every_room_has_its_place():
    assert rules.without_place(PACKAGE, LAYERS) == []


def test_rooms_import_from_below_and_from_their_left():
    assert rules.against_the_layers(PACKAGE, LAYERS, SHORTCUTS) == []


def test_no_module_imports_itself_in_a_circle():
    assert rules.in_circles(PACKAGE, SHORTCUTS) == []


def test_every_folder_says_from_where_it_imports():
    assert rules.without_sentence(PACKAGE, LAYERS, SHORTCUTS) == []


def test_public_modules_list_their_names():
    assert rules.without_all(PACKAGE, WORKSHOPS) == []


def test_file_names_are_used_once():
    assert rules.repeated_files(PACKAGE) == []


def test_class_names_are_used_once():
    assert rules.repeated_classes(PACKAGE) == []


def test_no_class_is_called_like_one_of_the_standard_library():
    assert rules.shadowing_classes(PACKAGE) == []


def test_tests_are_found_by_the_name_of_their_module():
    assert rules.without_tests(PACKAGE, TESTS, TESTS_ELSEWHERE) == []


def printed(code):
    """What a fresh Python prints."""
    run = [sys.executable, "-c", code]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


def test_importing_decal_imports_nothing_beyond_numpy_and_scipy():
    loaded = printed(
        "import sys; before = set(sys.modules); import decal; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    # Compiled modules of older SciPy leave Cython's own behind.
    ours = {"decal", "numpy", "scipy", "cython_runtime"}
    foreign = set(loaded.split()) - set(sys.stdlib_module_names) - ours
    assert not {name for name in foreign if not name.startswith("_")}
    assert "scipy.stats" not in printed("import sys, decal; print(*sys.modules)").split()


def test_dir_shows_public_names_only():
    shown = printed("import decal; print(*dir(decal))").split()
    assert [name for name in shown if name.startswith("_") and not name.startswith("__")] == []
    public = {m for m in PACKAGE.rooms if not m.startswith("_")}
    assert {name for name in shown if not name.startswith("_")} <= {*decal.__all__, *public}
    assert set(decal.__all__) - {"__version__"} <= set(shown)


def test_integrations_are_imported_on_first_use():
    pytest.importorskip("matplotlib")
    assert printed("import sys, decal; print('decal.plot' in sys.modules)") == "False\n"
    assert printed("import decal; print(decal.plot.__name__)") == "decal.plot\n"


def test_a_newcomer_sees_few_names_and_every_integration():
    shown = set(printed("import decal; print(*dir(decal))").split())
    assert set(LAYERS["integrations"].split()) <= shown
    assert len([name for name in shown if not name.startswith("_")]) <= 32


def test_a_function_and_its_room_have_one_name():
    # `decal.choose` is what users call; the room is found by import.
    assert callable(decal.choose)
    from decal.choose import triage

    assert callable(triage)


# The picture


def architecture():
    """The script docs/architecture.py, as a module."""
    spec = importlib.util.spec_from_file_location("architecture", DOCS / "architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("arrangement", ["", "_narrow"])
def test_the_picture_shows_the_tree_as_it_is(arrangement, theme):
    script = architecture()
    path = DOCS / "_static" / f"architecture{arrangement}_{theme}.svg"
    committed = path.read_text(encoding="utf-8")
    now = script.drawn(PACKAGE, LAYERS, SHORTCUTS, theme, arrangement)
    assert script.content(committed) == script.content(now), "run: python docs/architecture.py"
    ElementTree.fromstring(committed)


LINK = re.compile(r"\[`([^`]+)`\]\(([^)#]+)\)")


def test_what_the_page_links_to_is_defined_in_that_file():
    page = ROOT / "ARCHITECTURE.md"
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert len(links) > 20
    missing = [f"{name} in {file}" for name, file in links if not defines(ROOT / file, name)]
    assert missing == []


def defines(path, name):
    """Whether a file exists and, if `name` is not just the file's, defines the name."""
    if not path.exists() or path.suffix != ".py" or path.name == name.split("/")[-1]:
        return path.exists()
    scope = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.removesuffix("()").split("."):
        found = [node for node in scope if part in names_bound_by(node)]
        if not found:
            return False
        scope = getattr(found[-1], "body", [])
    return True


def names_bound_by(node):
    if isinstance(node, ast.Assign):
        return {ast.unparse(target) for target in node.targets}
    if isinstance(node, ast.AnnAssign):
        return {ast.unparse(node.target)}
    return {getattr(node, "name", None)}


# The rules themselves: each is broken once, on a tree made up for it.

HOUSE = {"upper": "doors", "lower": "walls floor"}


@pytest.fixture
def tree(tmp_path):
    """A function that writes files of a package `house` and reads them as a `Package`."""

    def write(files):
        for name, text in {"__init__": "", **files}.items():
            path = tmp_path / "house" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Package(tmp_path / "house")

    return write


@pytest.mark.parametrize(
    "line",
    [
        "import house.doors",
        "import house.doors as d",
        "from house import doors",
        "from house.doors import knob",
        "from . import doors",
        "from .doors import knob",
        "def f():\n    from house.doors import knob",
        "def f():\n    import os, house.doors",
        "if TYPE_CHECKING:\n    from house.doors import Knob",
        "import_module('house.doors')",
    ],
)
def test_every_kind_of_import_is_seen(tree, line):
    package = tree({"doors": "", "walls": line, "floor": ""})
    assert package.imports["walls"] == {"doors"}
    assert rules.against_the_layers(package, HOUSE) == ["walls imports doors"]
    assert rules.against_the_layers(package, HOUSE, {("walls", "doors")}) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from . import brick", "walls.brick"),
        ("from .brick import clay", "walls.brick"),
        ("from .. import doors", "doors"),
        ("from ..doors import knob", "doors"),
        ("from house.walls import paint", "walls"),
        ("import house", ""),
        ("from house import anything", ""),
    ],
)
def test_imports_lead_to_the_module_that_defines_the_name(tree, line, expected):
    files = dict.fromkeys(["doors", "walls/__init__", "walls/brick", "floor"], "")
    package = tree({**files, "walls/plaster": line})
    assert package.imports["walls.plaster"] == {expected}


def test_imports_to_the_right_break_the_rule_and_imports_to_the_left_do_not(tree):
    right = tree({"doors": "", "walls": "import house.floor", "floor": ""})
    assert rules.against_the_layers(right, HOUSE) == ["walls imports floor"]
    left = tree({"doors": "import house.floor", "walls": "", "floor": "import house.walls"})
    assert rules.against_the_layers(left, HOUSE) == []


def test_rooms_without_a_layer_and_layers_without_a_room_are_named(tree):
    package = tree({"doors": "", "walls": "", "attic": ""})
    assert rules.without_place(package, {**HOUSE, "names": "__init__"}) == [
        "attic stands in no layer",
        "floor does not exist",
    ]


def test_a_circle_within_a_folder_is_found(tree):
    files = {"walls/a": "from . import b", "walls/b": "import house.walls.a"}
    package = tree({"walls/__init__": "", **files})
    (circle,) = rules.in_circles(package)
    assert {"walls.a", "walls.b"} <= set(circle.split(" is imported by "))


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Doors.", ["doors does not say where it imports from"]),
        ("Doors. Imports from `walls` and `floor`.", []),
        ("Doors. Imports from `lower`.", []),
        ("Doors. Imports from\n`walls`,\n`floor`.", []),
        ("Doors. Imports from all layers below.", []),
        ("Doors. Imports from `walls`.", ["doors does not say that it imports from floor"]),
        ("Doors. Imports from `lower` and `roof`.", ["doors must not import from roof"]),
        ("Doors. Imports nothing of decal.", ["doors does not say that it imports from floor"]),
    ],
)
def test_a_folder_must_say_truly_from_where_it_imports(tree, said, found):
    folder = {"doors/__init__": f'"""{said}"""', "doors/a": "import house.floor"}
    package = tree({**folder, "floor": "", "walls": ""})
    assert rules.without_sentence(package, HOUSE) == found


def test_public_modules_without_all_are_found(tree):
    package = tree({"doors": "__all__ = ['knob']", "walls": "", "_floor": ""})
    assert rules.without_all(package) == ["__init__", "walls"]


def test_names_used_twice_are_found(tree):
    locks = {"doors/lock": "class Key: ...", "walls/_lock": "class Key: ...\nclass Path: ..."}
    package = tree(locks)
    assert rules.repeated_files(package) == ["lock: doors.lock, walls._lock"]
    assert rules.repeated_classes(package) == ["Key: doors.lock, walls._lock"]
    assert rules.shadowing_classes(package) == ["walls._lock: Path"]


def test_modules_without_tests_are_found(tree, tmp_path):
    for name in ("doors/test_lock.py", "doors/deep/test_knob.py", "test_floor.py", "test_all.py"):
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    files = dict.fromkeys(["_doors/lock", "_doors/_knob", "_doors/hinge", "floor", "walls"], "")
    package = tree({**files, "_doors/__init__": "def f(): ..."})
    tests = tmp_path / "tests"
    assert rules.without_tests(package, tests) == ["_doors", "_doors.hinge", "walls"]
    exceptions = {"_doors.hinge": "test_all.py", "floor": "test_all.py", "walls": "gone.py"}
    assert rules.without_tests(package, tests, exceptions) == [
        "_doors",
        "floor has tests by name: it is no exception",
        "walls: gone.py does not exist",
    ]
