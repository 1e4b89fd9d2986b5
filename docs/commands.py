"""The page of all commands and options, which Typer writes from the command line itself."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

HEAD = """\
# All commands and options

What `decal COMMAND --help` says, of every command.
[The command line](../../command_line.md) shows them at work.
"""
BOLD = re.compile(r"\[bold\](.*?)\[/\]|<span style=\"font-weight: bold\">(.*?)</span>")
EPILOG = re.compile(r"^\[bold\].*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
LISTED = re.compile(r"^\*\*Commands\*\*:.*?(?=^## )", re.MULTILINE | re.DOTALL)


def readable(epilog: str) -> str:
    """Examples in fences of their own, what stands between them as text."""
    first, _, rest = epilog.partition("\n")
    paragraphs = [first, *re.split(r"\n\s*\n", dedent(rest).strip())]
    commands = re.compile(r"(\S+ \| )?decal \w")
    said = [f"```console\n{p.strip()}\n```" if commands.match(p) else p for p in paragraphs]
    return "\n\n".join(said).replace("\n```\n\n```console", "") + "\n\n"


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
    told = BOLD.sub(lambda m: f"**{m[1] or m[2]}**", told)
    return HEAD + html.unescape(told)


def write(path: Path) -> None:
    """Write the page if it changed, so that Sphinx reads it only then."""
    path.parent.mkdir(exist_ok=True)
    text = page()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
