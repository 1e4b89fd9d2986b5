"""Fresh environments, made by uv as a user's pip would make them, within seconds.

`python environments.py FOLDER [options of uv pip install]` makes one; `.venv-uv` has the uv for it.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

OF_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
"""The settings of pip that say where packages come from, and what uv calls them."""


def settings_of_pip(listed: str) -> dict[str, str]:
    """What uv needs in its environment to find the packages that pip finds.

    Parameters
    ----------
    listed : str
        What `pip config list` prints: `global.index-url='...'`, line by line. Variables of the
        environment (`:env:.`) stand first and win.
    """
    found: dict[str, str] = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        setting = OF_PIP.get(name.rpartition(".")[2])
        if setting and value:
            words = str(ast.literal_eval(value)).split()
            found.setdefault(setting, ("," if setting == "UV_FIND_LINKS" else " ").join(words))
    if "UV_INDEX" in found:  # pip takes the newest version of all indexes, uv that of the first
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return found


def uv(*arguments: str) -> None:
    """Run uv; its words are shown only if it fails."""
    pip = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(pip, capture_output=True, text=True, check=True).stdout
    done = subprocess.run(
        [sys.executable, "-m", "uv", *arguments],
        env=settings_of_pip(listed) | os.environ,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"uv {' '.join(arguments)}\n{done.stdout}")


def make(folder: Path, *options: str, version: str = "3.11") -> Path:
    """An environment with what `uv pip install` makes of the options; returns its Python."""
    uv("venv", "--quiet", "--clear", "--python", version, str(folder))
    python = folder.absolute() / "bin" / "python"
    uv("pip", "install", "--quiet", "--python", str(python), *options)
    return python


if __name__ == "__main__":
    make(Path(sys.argv[1]), *sys.argv[2:])
