"""Does every page run with what it tells its readers to install?

    python tests/pages.py [PAGE ...]

For the README and each page of the documentation: a fresh environment with exactly what the page's
`pip install` lines name, and in it the page's Python snippets and those of its commands whose files
are there. A page without such a line relies on those of docs/start.md. decal and its laboratory are
the wheels of this folder, everything else is the newest that uv finds, but for constraints.txt.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from helpers.environments import ROOT, make, uv
from helpers.snippets import snippets, surprises

START = ROOT / "docs" / "start.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
INSTALL = re.compile(r"\bpip install ([^\n`#]+)")
SHELL = re.compile(r"^```(?:bash|sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(^|^\$ |\| )decal (?![\w-]+: )")
MESSAGE = re.compile(r"decal [\w-]+: ")
FILE = re.compile(r".+\.[a-z]\w{1,7}|.+/")
OUTPUTS = ("-o", "--out", "--output", "--export", "--report", "--save", "--table")
PROCESSES = 2

OWN = re.compile(r"^(decal|decal-lab)(\[.*\])?$")
"""Packages of this repository."""


def installs(page: Path) -> tuple[str, ...]:
    """What the page's install lines name, in its order; lines with options of pip are special."""
    lines = map(shlex.split, INSTALL.findall(page.read_text(encoding="utf-8")))
    named = [word for line in lines if not any(w.startswith("-") for w in line) for word in line]
    return tuple(dict.fromkeys(named))


def commands(page: Path) -> list[tuple[str, bool]]:
    """The lines of the page that run decal in a shell, and whether the page shows them failing."""
    fences = SHELL.findall(page.read_text(encoding="utf-8"))
    lines = [line for fence in fences for line in fence.splitlines()]
    return [
        (line.removeprefix("$ "), MESSAGE.match(after) is not None)
        for line, after in pairwise([*lines, ""])
        if COMMAND.search(line)
    ]


def missing(command: str) -> str | None:
    """Why a command cannot run here: a file it reads is not there, or it waits for a browser."""
    words = shlex.split(command, comments=True)
    if "explore" in words and not set(OUTPUTS) & set(words):
        return "opens a browser"
    for before, word in pairwise(words):
        read = before == "--data" or (FILE.fullmatch(word) and before not in OUTPUTS)
        if read and not Path(word).exists():
            return f"no {word}"
    return None


# In the environment of a page


def run_here(page: Path) -> Iterator[str]:
    """Run a page in this environment and folder; yields what goes wrong."""
    if commands(page):
        write_samples()  # those that a page writes itself take their place
    for printed, expected in surprises(page):
        yield f"printed\n{printed}\nwhere the page says\n{expected}"
    done, left_out = 0, []
    for command, fails in commands(page):
        if reason := missing(command):
            left_out.append(f"    not run ({reason}): {command}")
            continue
        found = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True
        )
        done += 1
        if bool(found.returncode) != fails:
            yield f"{command}\n{found.stdout}{found.stderr}"
    print(f"{len(snippets(page))} snippets, {done} commands", *left_out, sep="\n")


def write_samples() -> None:
    """The files that commands read: 60 inputs of three classes."""
    import numpy as np

    rng = np.random.default_rng(0)
    human = rng.dirichlet(np.ones(3), size=60)
    logits, labels = np.log(human), (human.cumsum(axis=1) < rng.random((60, 1))).sum(axis=1)
    np.savez("logits.npz", logits=logits, labels=labels)
    np.savez("test.npz", logits=logits, labels=labels)
    np.save("human.npy", human)
    np.save("logits.npy", logits)
    np.save("labels.npy", labels)
    np.savetxt("new.csv", logits, delimiter=",", header="0,1,2", comments="")


# Around the environments


def environment(folder: Path, named: tuple[str, ...], wheels: Path) -> tuple[Path, float]:
    """A fresh environment with what a page names, and the seconds that took."""
    begun = time.perf_counter()
    here = local(named, wheels)
    version = ".".join(map(str, sys.version_info[:2]))
    python = make(folder, "--constraint", "constraints.txt", *here, version=version)
    return python, time.perf_counter() - begun


def local(named: tuple[str, ...], wheels: Path) -> list[str]:
    """The same requirements, with decal and its laboratory as the wheels of a folder.

    The laboratory needs decal, which is then the wheel, too.
    """
    if any(OWN.fullmatch(word) for word in named):
        named = ("decal", *named)

    def at(word: re.Match[str]) -> str:
        (wheel,) = wheels.glob(f"{word[1].replace('-', '_')}-[0-9]*.whl")
        return f"{word[1]}{word[2] or ''} @ {wheel.as_uri()}"

    return [OWN.sub(at, word) for word in dict.fromkeys(named)]


def run(page: Path, python: Path, folder: Path) -> tuple[bool, str]:
    """Run a page with another Python, in a folder; whether all is well, and a report."""
    begun = time.perf_counter()
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    path = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), __file__, "--here", str(page)],
        cwd=folder,
        env=threads | clean | path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = "" if done.returncode == 0 else "FAILED\n"
    seconds = time.perf_counter() - begun
    report = f"{page.relative_to(ROOT)}: {seconds:.0f} s, {said}{done.stdout.rstrip()}"
    return done.returncode == 0, report


def main(pages: list[Path]) -> int:
    """Run all pages, two at a time; the number of those that fail."""
    pages = [page for page in pages if snippets(page) or commands(page)]
    named = {page: installs(page) or installs(START) for page in pages}
    with (
        tempfile.TemporaryDirectory(prefix="pages") as scratch,
        ThreadPoolExecutor(PROCESSES) as go,
    ):
        for package in (ROOT, ROOT / "lab"):
            uv("build", "--quiet", "--wheel", "--out-dir", scratch, str(package))
        pythons = {}
        for number, words in enumerate(dict.fromkeys(named.values())):
            pythons[words], seconds = environment(Path(scratch, str(number)), words, Path(scratch))
            print(f"pip install {shlex.join(words)}: {seconds:.0f} s", flush=True)

        def one(page: Path) -> bool:
            folder = Path(tempfile.mkdtemp(dir=scratch))
            well, report = run(page, pythons[named[page]], folder)
            print(report, flush=True)
            return well

        passed = sum(go.map(one, pages))
    print(f"{passed} passed, {len(pages) - passed} failed")
    return len(pages) - passed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="all by default")
    parser.add_argument("--here", type=Path, help="run this page in this environment and folder")
    given = parser.parse_args()
    if given.here:
        problems = list(run_here(given.here))
        sys.exit("\n".join(problems) or 0)
    sys.exit(min(main([page.absolute() for page in given.pages] or PAGES), 1))
