"""File types with Magika: which of this machine's files a person should look at.

    uv run examples/real_models/file_types.py                      # installs what it needs
    python examples/real_models/file_types.py ~/Documents          # with what is named below

Magika's network reads the first and the last kilobyte of a file and knows 214 types. The label of a
file is what its extension stands for in Magika's own table of types. Extensions that stand for
several types are left out, and so are .o, .crt, .gpg and .pth: the table knows them as objects of
Windows, binary certificates, keys as text and weights of PyTorch, while here they are mostly ELF,
text, binary keys and paths of Python; --every-extension takes them in.
Folders are walked without following links, and of every type the same number of files is drawn.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["decal[plot]", "magika", "onnxruntime", "pillow"]
# [tool.uv.sources]
# decal = { path = "../.." }
# ///

from __future__ import annotations

import json
import os
import sysconfig
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

import decal
from decal.choose import plausibility, triage
from shared import (
    NARROW,
    Balls,
    cut,
    draw_themes,
    log_probabilities,
    missed,
    needs,
    options,
    package_folder,
    plausible_classes,
    progress,
    save,
    table,
    tell_sets,
)

INSTALL = "pip install 'decal[plot]' magika onnxruntime pillow"
PLACES = [sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "/usr/share", "/usr/lib"]
"""Folders that are walked if none is given: Python's own, and the system's."""

MISLEADING = {"o", "crt", "gpg", "pth"}
BLOCK, ENDS, PADDING, LEAST_BYTES = 4096, 1024, 256, 8
"""What the network reads of each end: a block, without blanks, of which 1,024 bytes."""

BATCH, LEAST_FILES = 32, 60
EPSILON, KEPT_WRONG = 0.05, 0.05


def model_file() -> Path:
    """Magika's network, in the one folder of models that a release has."""
    (file,) = (package_folder("magika") / "models").glob("*/model.onnx")
    return file


def content_types() -> tuple[list[str], dict[str, str]]:
    """The 214 types of the network, and the type that each extension stands for."""
    magika, config = package_folder("magika"), model_file().with_name("config.min.json")
    known = json.loads(
        (magika / "config" / "content_types_kb.min.json").read_text(encoding="utf-8")
    )
    types = json.loads(config.read_text(encoding="utf-8"))["target_labels_space"]
    meanings = defaultdict(list)
    for name in types:
        for extension in known[name]["extensions"]:
            meanings[extension].append(name)
    return types, {e: names[0] for e, names in meanings.items() if len(names) == 1}


def files_by_type(folders: Iterable[Path], meanings: dict[str, str]) -> dict[str, list[Path]]:
    """Every file below the folders whose extension says what it should be."""
    found = defaultdict(list)
    for folder in folders:
        for place, below, files in os.walk(folder):
            below.sort()
            for name in sorted(files):
                extension = name.rpartition(".")[2].lower()
                path = Path(place, name)
                if extension in meanings and "." in name and is_readable(path):
                    found[meanings[extension]].append(path)
    return dict(sorted(found.items()))


def is_readable(path: Path) -> bool:
    """Whether this is a file of ours to read, and not too small for the network."""
    return (
        not path.is_symlink()
        and path.is_file()
        and os.access(path, os.R_OK)
        and path.stat().st_size >= LEAST_BYTES
    )


def sample(found: dict[str, list[Path]], limit: int, seed: int) -> list[tuple[Path, str]]:
    """At most `limit` files: as many of each type, where there are so many."""
    rng, counts = np.random.default_rng(seed), np.zeros(len(found), int)
    most = np.array([len(paths) for paths in found.values()])
    while counts.sum() < min(limit, most.sum()):
        counts[np.argmin(np.where(counts < most, counts, most.max() + 1))] += 1
    return [
        (paths[i], name)
        for (name, paths), count in zip(found.items(), counts, strict=True)
        for i in sorted(rng.permutation(len(paths))[:count])
    ]


def ends_of(path: Path) -> np.ndarray:
    """(2048,) the bytes at both ends of a file, as the network takes them."""
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(BLOCK).lstrip()[:ENDS]
        file.seek(max(0, size - BLOCK))
        last = file.read(BLOCK).rstrip()[-ENDS:]
    ends = np.full(2 * ENDS, PADDING, np.int32)
    ends[: len(first)] = np.frombuffer(first, np.uint8)
    ends[2 * ENDS - len(last) :] = np.frombuffer(last, np.uint8)
    return ends


def probabilities_of(paths: list[Path]) -> np.ndarray:
    """(n, 214) what Magika's network says of files."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model_file())
    (bytes_,) = session.get_inputs()
    batches = [paths[i : i + BATCH] for i in range(0, len(paths), BATCH)]
    found = [
        session.run(None, {bytes_.name: np.array([ends_of(path) for path in batch])})[0]
        for batch in progress(batches, f"Magika, {BATCH} files at a time")
    ]
    return np.concatenate(found).astype(float)


def shortened(name: str, most: int = 26) -> str:
    """A file's name, with its middle left out if it is long."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-most // 2 :]}"


def various(rows: list[int], labels: np.ndarray) -> list[int]:
    """The first three rows with different labels."""
    first: dict[int, int] = {}
    for i in rows:
        first.setdefault(labels[i], i)
    return list(first.values())[:3]


def draw(
    panels: dict[str, list[int]], sets: decal.IntervalCredalSet, titles: list[str], narrow: bool
) -> Any:
    """Two groups of files, each with the intervals of its most probable types."""
    import matplotlib.pyplot as plt

    from decal import plot

    figure = plt.figure(figsize=(NARROW, 14) if narrow else (6.6, 7.5), layout="constrained")
    groups = figure.subfigures(*((2, 1) if narrow else (1, 2)))
    for group, (heading, rows) in zip(groups, panels.items(), strict=True):
        group.suptitle(fill(heading, 26), fontsize=11, weight="bold")
        for place, ax in enumerate(group.subplots(3, 1)):
            if place >= len(rows):
                ax.set_axis_off()
                continue
            plot.intervals(sets, rows[place], ax=ax, top=4, sort="point", legend=False)
            ax.set_title(titles[rows[place]], fontsize=9)
            ax.set_xlabel("")
    return figure


def main() -> None:
    """Choose alpha on one half of the files, look at the other."""
    parser = options(__doc__, limit=800, least=LEAST_FILES, counted="files", out="file_types")
    parser.add_argument("folders", nargs="*", type=Path, help="to walk; Python's and the system's")
    parser.add_argument("--every-extension", action="store_true", help="even those that mislead")
    given = parser.parse_args()
    needs("magika", "onnxruntime", "matplotlib", "PIL", install=INSTALL)
    types, meanings = content_types()
    if not given.every_extension:
        meanings = {e: name for e, name in meanings.items() if e not in MISLEADING}
    begun = time.perf_counter()
    found = files_by_type(given.folders or map(Path, PLACES), meanings)
    files = sample(found, given.limit, given.seed)
    if len(files) < LEAST_FILES:
        parser.error(f"needs {LEAST_FILES} files with known extensions: found {len(files)}")
    walked, begun = time.perf_counter() - begun, time.perf_counter()
    logits = log_probabilities(probabilities_of([path for path, _ in files]))
    ran, begun = time.perf_counter() - begun, time.perf_counter()
    labels = np.array([types.index(name) for _, name in files])

    old, new = cut(len(files), 2, given.seed)
    # Around the model as it is: a recalibrated one would rule out the types that no label names.
    model = Balls(
        decal.decalibrate(logits[old], labels[old], directions=("local",), classes=types, alpha=0.8)
    )
    choice = decal.choose(model, logits[old], labels[old], miss=EPSILON)
    balls = model.predict(logits[new], alpha=choice.alpha)
    kept, truth = balls.decide("e_admissible"), labels[new]
    checks = triage(logits[old], labels[old], error_rate=KEPT_WRONG)
    handed, wrong = checks.hand_over(logits[new]), checks.predict(logits[new]) != truth
    plausible = plausibility(model, logits[new], labels=truth)
    decided = time.perf_counter() - begun

    sizes, right = kept.sum(axis=1), float((logits[new].argmax(axis=1) == truth).mean())
    slipped = float((wrong & ~handed).sum() / max(1, (~handed).sum()))
    areas = {name: checks.curves[name].area for name in ("confidence", checks.score)}
    print(
        f"{len(files):,} files of {len(found)} types, of {sum(map(len, found.values())):,} found:"
    )
    table(
        {
            "extension and network agree": f"{right:.1%} of {len(new)} new files",
            f"alpha for a miss rate of {EPSILON}": f"{choice.alpha:.3f}",
            "extensions missed on new files": f"{missed(kept, truth):.1%}",
            "types kept of 214": f"{tell_sets(sizes)}, at most {sizes.max()}",
            f"kept and wrong {KEPT_WRONG:.0%}": f"a person gets {handed.mean():.1%}, by "
            f"{checks.score}; of the rest {slipped:.1%} disagree",
            "areas under the curve": ", ".join(f"{name} {a:.4f}" for name, a in areas.items()),
            "seconds": f"{walked:.0f} to walk, {ran:.0f} to run, {decided:.0f} to decide",
        }
    )
    surprising = [int(i) for i in np.argsort(plausible) if not kept[i, truth[i]]]
    doubted = np.argsort(balls.point.max(axis=1))
    unsure = [int(i) for i in doubted if handed[i] and kept[i, truth[i]]]
    for heading, rows in {"surprising": surprising, "unsure": unsure}.items():
        print(f"{heading}:")
        for i in rows[:8]:
            print(f"  {files[new[i]][0]}\n    {plausible_classes(balls[i], 3)}")
    panels = {
        "Surprising: the extension's type is not plausible": various(surprising, truth),
        "For a person: several types are plausible": various(unsure, truth),
    }
    titles = [f"{shortened(files[i][0].name)}\nextension: {files[i][1]}" for i in new]
    draw_themes(given.out, "file_types", lambda narrow: draw(panels, balls.box(), titles, narrow))
    save(
        given.out, "file_types", classes=types, paths=[str(files[i][0]) for i in new],
        labels=truth, logits=logits[new], kept=kept, plausibility=plausible, handed_over=handed,
        alpha=choice.alpha, agreement=right, miss_rate=missed(kept, truth), error_rate=slipped,
        score=checks.score,
    )  # fmt: skip


if __name__ == "__main__":
    main()
