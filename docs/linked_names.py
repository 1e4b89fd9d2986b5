"""Names of decal in the text become links to their pages in the reference."""

from __future__ import annotations

import re
from functools import cached_property

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

NAME = re.compile(r"@?([A-Za-z_][\w.]*)(\(.*\))?", re.DOTALL)
TELLING = re.compile(r".*[A-Z_.].*")  # `coverage` may be a word; `coverage(…)` is the function
SHORT = 30
"""Letters of code that stay on one line."""


class LinkedNames(SphinxPostTransform):
    """`triage(…)`, `triage.choose` and `IntervalCredalSet`, wherever they stand."""

    default_priority = 5

    @cached_property
    def targets(self) -> dict[str, str]:
        """Full name by every way to write it that means one thing only."""
        found: dict[str, set[str]] = {}
        for full, entry in self.env.domains.python_domain.objects.items():
            parts = full.split(".")
            # A method is told by its class: `predict` alone is anybody's.
            shortest = 2 if entry.objtype in {"method", "property", "attribute"} else 1
            for k in range(shortest, len(parts) + 1):
                found.setdefault(".".join(parts[-k:]), set()).add(full)
        return {short: full.pop() for short, full in found.items() if len(full) == 1}

    def run(self, **_: object) -> None:
        for literal in self.document.findall(nodes.literal):
            if len(literal.astext()) <= SHORT:
                literal["classes"].append("short")
        if self.env.docname.startswith("changelog"):
            return
        for literal in list(self.document.findall(nodes.literal)):
            name = NAME.fullmatch(literal.astext())
            within = literal.parent
            while within is not None and not isinstance(within, nodes.reference | nodes.title):
                within = within.parent
            telling = name and (TELLING.match(name[1]) or name[2])
            if within is None and telling and name[1] in self.targets:
                full = self.targets[name[1]]
                entry = self.env.domains.python_domain.objects[full]
                link = make_refnode(
                    self.app.builder,
                    self.env.docname,
                    entry.docname,
                    entry.node_id,
                    literal.deepcopy(),
                    full,
                )
                literal.replace_self(link)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(LinkedNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
