"""The addresses of a release, and links in its README that work away from the repository.

decal does not know where it lives: the workflow that builds a release does, and says so in
GITHUB_REPOSITORY. Elsewhere there are no addresses, rather than wrong ones.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def addresses(repository: str) -> dict[str, str]:
    """Of a project at GitHub, given as OWNER/NAME, whose documentation is on its Pages."""
    owner, _, name = repository.partition("/")
    code, pages = f"https://github.com/{repository}", f"https://{owner.lower()}.github.io/{name}"
    return {
        "Documentation": f"{pages}/",
        "Repository": code,
        "Issues": f"{code}/issues",
        "Changelog": f"{pages}/changelog.html",
    }


def absolute(readme: str, documentation: str) -> str:
    """The README with links to pages and pictures of the documentation instead of to its files."""
    linked = re.compile(r'(?<=[("])docs/([^)"#]+)')
    return linked.sub(lambda at: documentation + re.sub(r"\.md$", ".html", at[1]), readme)


class Addresses(MetadataHookInterface):
    """What hatchling asks for `urls` and `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill them in."""
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        if repository := os.environ.get("GITHUB_REPOSITORY"):
            metadata["urls"] = addresses(repository)
            readme = absolute(readme, metadata["urls"]["Documentation"])
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
