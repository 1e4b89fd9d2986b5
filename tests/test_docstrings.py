"""Every example in a docstring of decal runs and prints what it says.

Docstrings are read from the source, so that finding them imports nothing; each runs with the names
of its module, in an empty folder. Words must be the same, numbers nearly (`helpers.printed`).
"""

import ast
import doctest
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.printed import NearlyEqualNumbers

pytestmark = pytest.mark.filterwarnings("error")  # what an example shows must not warn

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
OPTIONAL = {
    *("PIL", "anywidget", "dask", "distributed", "matplotlib", "numba", "onnx", "onnxruntime"),
    *("pandas", "polars", "pyarrow", "pyspark", "rich", "sklearn", "torch", "transformers"),
    *("typer", "torchmetrics", "lightning", "pytorch_lightning"),
}
"""What decal's extras install. An example may be skipped for want of these, and of nothing else."""

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def documented(node, name):
    """The module, classes and functions below a node, each with its dotted name."""
    if isinstance(node, DOCUMENTED):
        yield node, name
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # defines nothing
        within = f"{name}.{child.name}" if isinstance(child, DOCUMENTED[1:]) else name
        yield from documented(child, within)


def examples():
    """(module, object, docstring, file) of every docstring that holds an example."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        source = path.read_text(encoding="utf-8")
        for node, name in documented(ast.parse(source), module) if ">>>" in source else ():
            text = ast.get_docstring(node)
            if text and ">>>" in text:
                yield pytest.param(module, name, text, path, id=name)


def missing_extra(error):
    """The package from decal's extras that is not installed and whose import raised this error."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL:
            return None if importlib.util.find_spec(error.name) else error.name
        error = error.__cause__ or error.__context__
    return None


def run(module, name, text, path):
    """Run the examples of one docstring, all of them, and say which failed."""
    names = dict(vars(importlib.import_module(module)))
    test = doctest.DocTestParser().get_doctest(text, names, name, str(path), None)
    reports = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

    class Runner(doctest.DocTestRunner):
        def report_unexpected_exception(self, out, test, example, exc_info):
            if missing_extra(exc_info[1]):
                raise exc_info[1]
            super().report_unexpected_exception(out, test, example, exc_info)

    Runner(NearlyEqualNumbers(), verbose=False, optionflags=flags).run(test, out=reports.append)
    assert not reports, "".join(reports)


@pytest.mark.parametrize(("module", "name", "text", "path"), list(examples()))
def test_docstring(module, name, text, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        run(module, name, text, path)
    except ImportError as error:
        if extra := missing_extra(error):
            pytest.skip(f"needs {extra}")
        raise


def test_only_a_missing_extra_is_an_excuse():
    def raised(code):
        with pytest.raises(ImportError) as caught:
            exec(code, {})
        return caught.value

    assert missing_extra(raised("import decal.no_such_module")) is None
    assert missing_extra(raised("from decal import no_such_name")) is None
    assert missing_extra(raised("import numpy.no_such_module")) is None
    extra = ModuleNotFoundError("No module named 'typer'", name="typer")
    wrapped = ImportError("decal's command line needs typer: pip install decal[cli]")
    wrapped.__cause__ = extra
    if importlib.util.find_spec("typer") is None:
        assert missing_extra(wrapped) == "typer"
    else:  # it is there, so something else went wrong
        assert missing_extra(wrapped) is None


def test_a_test_file_that_cannot_be_imported_is_an_error(tmp_path):
    """With `--doctest-ignore-import-errors`, such a file was skipped and nobody noticed."""
    (tmp_path / "test_renamed.py").write_text("from decal import no_such_name\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c"]
    done = subprocess.run(
        [*command, str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert "no_such_name" in done.stdout
