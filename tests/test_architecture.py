"""The tree is the architecture: modules import only from those above them."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import decal

SOURCE = Path(decal.__file__).parent

ORDER = [
    "_kernels",
    "_numerics",
    "_arrays",
    "entropy",
    "measures",
    "_games",
    "decisions",
    "credal",
    "hulls",
    "ensemble",
    "metrics",
    "lines",
    "peaks",
    "directions",
    "evidence",
    "temperature",
    "reference",
    "storage",
    "toplogits",
    "decalibrator",
    "nested",
    "selection",
    "coupled",
    "sklearn",
    "_torch_boxes",
    "torch",
    "text",
    "zeroshot",
    "_formats",
    "files",
    "folders",
    "checkpoints",
    "outputs",
    "distributed",
    "datasets",
    "baselines",
    "plot",
    "explorer",
    "demo",
    "experiments",
    "cli",
    "_entry",
    "__init__",
]


SHORTCUTS = {("credal", "explorer"), ("decalibrator", "explorer")}
"""Methods that open what lies below them, imported only when they are called."""


def modules():
    """The modules and packages of decal, and the files of each."""
    for path in SOURCE.iterdir():
        if path.suffix == ".py":
            yield path.stem, [path]
        elif (path / "__init__.py").exists():
            yield path.name, sorted(path.glob("*.py"))


def internal_imports(path):
    """The dotted names, below decal, of all that a file imports from decal."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "decal":
            within = node.module.split(".")[1:]
            yield from (".".join([*within, alias.name]) for alias in node.names)


def test_every_module_has_its_place():
    assert sorted(name for name, _ in modules()) == sorted(ORDER)


def test_modules_import_only_from_those_above_them():
    for module, paths in modules():
        above = {*ORDER[: ORDER.index(module)], module}
        for path in paths:
            for name in internal_imports(path):
                imported = name.split(".")[0]
                if imported in ORDER and (module, imported) not in SHORTCUTS:
                    assert imported in above, f"{path.relative_to(SOURCE)} imports {imported}"


def test_within_a_package_too_there_is_an_order():
    for package, paths in modules():
        names = {path.stem for path in paths}
        needs = {}
        for path in paths:
            inside = [
                name.split(".")[1]
                for name in internal_imports(path)
                if name.startswith(f"{package}.") and len(paths) > 1
            ]
            # What is no module of the package is a name that its __init__ defines.
            needs[path.stem] = {name if name in names else "__init__" for name in inside}
        if len(paths) > 1:
            needs["__init__"].discard("__init__")
            list(TopologicalSorter(needs).static_order())  # raises CycleError


def test_importing_decal_imports_nothing_beyond_numpy_and_scipy():
    code = (
        "import sys; before = set(sys.modules); import decal; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    foreign = set(found.stdout.split()) - set(sys.stdlib_module_names) - {"decal", "numpy", "scipy"}
    assert not {name for name in foreign if not name.startswith("_")}
    assert "scipy.stats" not in found.stdout
