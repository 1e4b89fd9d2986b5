"""Is what would be uploaded whole, and does it work with NumPy and SciPy alone?

    python tests/built_wheel.py

Builds both archives of decal and of its laboratory into dist, looks at their contents and metadata,
and tries decal's wheel in a fresh environment: the import, one prediction, and what the command
line says without its libraries.
`.venv-release` has the tools for it, `.venv-uv` makes the environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
SOURCES = ROOT / "src" / "decal"
LABORATORY = ROOT / "lab" / "src" / "decal_lab"

BESIDE_CODE = {".py", ".typed", ".css", ".html", ".js", ".mjs", ".json", ".npz", ".txt"}
"""Endings of the files that decal consists of."""

IN_SDIST = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "PKG-INFO", "README.md", "SECURITY.md"}
IN_SDIST |= {"codemeta.json", "pyproject.toml", "hatch_build.py", ".gitignore"}

PREDICTION = """
import importlib.util, sys
import decal
for name in ("typer", "matplotlib", "torch", "sklearn", "pandas"):
    assert importlib.util.find_spec(name) is None, f"{name} is not bare"
logits = [[2.0, 0.0, -1.0], [0.0, 1.5, 0.0], [-1.0, 0.0, 2.0], [1.0, 1.0, 0.0]]
d = decal.decalibrate(logits, [0, 1, 2, 1], alpha=0.8)
c = d.predict([[1.0, 0.0, 0.0]])
assert (c.lower <= c.point).all() and (c.point <= c.upper).all() and c.upper.max() < 1
assert "site-packages" in decal.__file__, decal.__file__
print(decal.__version__, c)
"""


def main() -> None:
    """Build, look and try; the first surprise ends it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT / "lab")
    (wheel,), (sdist,) = DIST.glob("decal-*.whl"), DIST.glob("decal-*.tar.gz")
    (lab,) = DIST.glob("decal_lab-*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir())
    check_wheel(wheel)
    check_sdist(sdist)
    check_laboratory(lab)
    with tempfile.TemporaryDirectory() as folder:
        try_bare(wheel, Path(folder))
        check_addresses(Path(folder))
    print(f"{wheel.name} ({wheel.stat().st_size:,} bytes) and {sdist.name}: whole, and work alone")
    print(f"{lab.name} ({lab.stat().st_size:,} bytes): whole, and registers its command")


def run(*command: object, env: dict[str, str] | None = None) -> None:
    """Run a command; its words are shown only if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}")


def expected(sources: Path = SOURCES) -> set[str]:
    """The files of a package, as they are named in a wheel."""
    return {
        f"{sources.name}/{path.relative_to(sources).as_posix()}"
        for path in sources.rglob("*")
        if path.suffix in BESIDE_CODE and "__pycache__" not in path.parts
    }


def require(names: set[str], wanted: set[str], where: str) -> None:
    """End if an archive lacks files, or holds others."""
    if names != wanted:
        lacks, strange = sorted(wanted - names), sorted(names - wanted)
        raise SystemExit(f"{where} lacks {lacks} and should not hold {strange}")


def check_wheel(wheel: Path) -> None:
    """The package, its types and the explorer's page; no tests, nothing of the laboratory."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    require(names, expected(), wheel.name)
    require(
        names & {"decal/py.typed", "decal/explorer/static/page.html"},
        {"decal/py.typed", "decal/explorer/static/page.html"},
        wheel.name,
    )
    needed = {line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line}
    require({line.split()[1].rstrip(">=0123456789.") for line in needed}, {"numpy", "scipy"}, "it")


def check_laboratory(wheel: Path) -> None:
    """Its own package, nothing of decal, and the entry point of its command."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (points,) = (n for n in archive.namelist() if n.endswith("/entry_points.txt"))
        lines = archive.read(points).decode().split("\n")
    require(names, expected(LABORATORY), wheel.name)
    wanted = {"[decal.commands]", "reproduce = decal_lab.command:register"}
    require({*filter(None, lines)}, wanted, "its entry points")


def check_sdist(sdist: Path) -> None:
    """The same sources, and what a packager reads."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    require(names, IN_SDIST | {f"src/{name}" for name in expected()}, sdist.name)


def try_bare(wheel: Path, folder: Path) -> None:
    """Install the wheel and nothing else, import it, predict, and start the command line."""
    maker = ROOT / ".venv-uv" / "bin" / "python"
    run(maker, ROOT / "tests" / "helpers" / "environments.py", folder / "bare", wheel)
    programs = folder / "bare" / "bin"
    run(programs / "python", "-I", "-W", "error", "-c", PREDICTION)
    command = [programs / "python", "-I", programs / "decal", "demo"]
    refused = subprocess.run(command, capture_output=True, text=True)
    wanted = "decal's command line needs typer: pip install 'decal[cli]'\n"
    if (refused.returncode, refused.stderr) != (2, wanted):
        raise SystemExit(f"decal without its extras said {refused.stderr!r}, not {wanted!r}")


def check_addresses(folder: Path) -> None:
    """Built in a repository, a release names its address, and its README links to pages."""
    where = {**os.environ, "GITHUB_REPOSITORY": "Owner/decal"}
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder / "named", ROOT, env=where)
    (sdist,) = (folder / "named").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        (information,) = (m for m in archive if m.name.count("/") == 1 and "PKG-INFO" in m.name)
        lines = archive.extractfile(information).read().decode()
    named = set(re.findall(r"^Project-URL: (\w+), https://\S+$", lines, re.MULTILINE))
    require(named, {"Changelog", "Documentation", "Issues", "Repository"}, "its metadata")
    pages = re.findall(r"https://owner\.github\.io/decal/(\S+?)\.html", lines)
    require({page for page in pages if (ROOT / "docs" / f"{page}.md").exists()}, set(pages), "docs")
    require(set(re.findall(r'[("]docs/[^)"]+', lines)), set(), "its README")


if __name__ == "__main__":
    main()
