"""The console script: starts the command line, or says what to install."""

from __future__ import annotations

import sys

NEEDED = ("typer", "rich")


def main() -> None:
    """Run the command line; without its libraries, say how to get them and exit with code 2."""
    try:
        from decal.cli import app
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        print(f"decal's command line needs {error.name}: pip install 'decal[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    app()


if __name__ == "__main__":
    main()
