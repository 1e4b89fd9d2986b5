"""The tree is the architecture: modules import only from those above them."""

import ast
import subprocess
import sys
from pathlib import Path

import decal

SOURCE = Path(decal.__file__).parent

ORDER = [
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
    "directions",
    "evidence",
    "temperature",
    "reference",
    "storage",
    "decalibrator",
    "nested",
    "selection",
    "sklearn",
    "_torch_boxes",
    "torch",
    "text",
    "zeroshot",
    "_formats",
    "files",
    "demo",
    "cli",
    "_entry",
    "__init__",
]


def internal_imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "decal":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("decal."):
            yield node.module.removeprefix("decal.").split(".")[0]


def test_every_module_has_its_place():
    assert sorted(p.stem for p in SOURCE.glob("*.py")) == sorted(ORDER)


def test_modules_import_only_from_those_above_them():
    for path in SOURCE.glob("*.py"):
        above = ORDER[: ORDER.index(path.stem)]
        for name in internal_imports(path):
            if (SOURCE / f"{name}.py").exists():
                assert name in above, f"{path.stem} imports {name}"


def test_importing_decal_imports_nothing_beyond_numpy_and_scipy():
    code = (
        "import sys; before = set(sys.modules); import decal; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    foreign = set(found.stdout.split()) - set(sys.stdlib_module_names) - {"decal", "numpy", "scipy"}
    assert not {name for name in foreign if not name.startswith("_")}
    assert "scipy.stats" not in found.stdout
