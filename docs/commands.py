"""The page of all commands and options, which Typer writes from the command line itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HEAD = """\
---
orphan: true
---

# All commands and options

What `decal COMMAND --help` says, of every command.
[The command line](../../command_line.md) shows them at work.
"""
EPILOG = re.compile(r"^Examples:\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
LISTED = re.compile(r"^\*\*Commands\*\*:.*?(?=^## )", re.MULTILINE | re.DOTALL)


def readable(epilog: str) -> str:
    """Headings in bold, commands in fences, all else as items of a list."""
    said = []
    for line in epilog.rstrip().splitlines():
        text = line.strip()
        if not line.startswith(" "):
            said.append(f"**{text.removesuffix(':')}**\n")
        elif line.startswith("        ") or re.match(r"(\S+ \| )?decal \w", text):
            said.append(f"```console\n{line[4:]}\n```\n")
        else:
            said.append(f"- {text}\n")
    return "\n".join(said).replace("\n```\n\n```console", "") + "\n\n"


def page() -> str:
    """What Typer writes about `decal`, as MyST."""
    found = subprocess.run(
        [sys.executable, "-m", "typer", "decal.cli", "utils", "docs", "--name", "decal"],
        capture_output=True,
        check=True,
        text=True,
        encoding="utf-8",
    )
    told = found.stdout.partition("\n")[2]
    told = EPILOG.sub(lambda m: readable(m[0]), LISTED.sub("", told))
    return HEAD + told


def write(path: Path) -> None:
    """Write the page if it changed, so that Sphinx reads it only then."""
    path.parent.mkdir(exist_ok=True)
    text = page()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
