"""What the examples with real pretrained models share: options, data, sets and figures."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.special import softmax

import decal

T = TypeVar("T")

THEMES = {"light": ("white", "#262626"), "dark": ("#131416", "#e6e6e6")}
"""Background and ink of the figures; the dark one is that of the documentation."""

NARROW = 4.1
"""Inches of a figure's width on a telephone."""

DPI = 130
COLOURS = 256
"""Of a figure's file: a third of the size that all colours would take."""

FLOOR = 1e-12
"""Networks round small probabilities to 0, which no evidence could raise again."""


# What the example needs


def needs(*modules: str, install: str) -> None:
    """End with one line if a module is missing: its name, and the command that installs it."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit(f"needs {', '.join(missing)}: {install}")


def package_folder(module: str) -> Path:
    """Where a package's files lie. It is not imported: some import much that we do not use."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"needs {module}")
    return Path(spec.submodule_search_locations[0])


def stored(name: str) -> Path | None:
    """A file of logits in the folder that DECAL_DATA names, if there is one."""
    path = Path(os.environ.get("DECAL_DATA", ""), name)
    if "DECAL_DATA" in os.environ and path.is_file():
        return path
    print(f"skipped what needs {name}: set DECAL_DATA to the folder that holds it")
    return None


def options(
    description: str | None, *, limit: int, least: int, counted: str, out: str
) -> argparse.ArgumentParser:
    """The options that all examples have; --limit must be at least `least`."""

    def enough(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more: got {text}")
        return int(text)

    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=enough, default=limit, help=f"{counted} ({limit})")
    parser.add_argument("--seed", type=int, default=0, help="of the random sample and cuts (0)")
    parser.add_argument(
        "--out", type=Path, default=Path(out), help=f"folder for results and figures ({out})"
    )
    return parser


def progress(items: Collection[T], what: str) -> Iterator[T]:
    """The items, with a bar on a terminal."""
    shown, begun = sys.stderr.isatty(), time.perf_counter()
    for done, item in enumerate(items, 1):
        yield item
        if shown and (done == len(items) or done % max(1, len(items) // 100) == 0):
            bar = "━" * (30 * done // len(items))
            seconds = time.perf_counter() - begun
            said = f"\r{what} {bar:30} {done:,}/{len(items):,} {seconds:.0f} s"
            print(said, end="", file=sys.stderr, flush=True)
    if shown:
        print(file=sys.stderr)


# Sets


class Balls:
    """A fitted model of local sets that predicts balls instead of the boxes around them.

    At 1,000 classes balls are decided in milliseconds, and keep fewer classes.
    """

    def __init__(self, model: decal.Decalibrator) -> None:
        self.model, self.classes = model, model.classes

    def predict(self, logits: Any, *, alpha: Any = None) -> decal.KLCredalSet:
        """The balls of new inputs."""
        return self.model.predict_ball(logits, alpha=alpha)


def balls_around(logits: np.ndarray, alpha: float, classes: Sequence[str]) -> decal.KLCredalSet:
    """Local sets around a network's own predictions: of labels they need nothing but alpha."""
    return decal.KLCredalSet(softmax(logits, axis=1), -np.log(alpha), classes=classes)


def plausible_classes(ball: decal.KLCredalSet, most: int) -> str:
    """The classes that can be the most probable ones of one input, and how many they are."""
    kept = ball.decide("e_admissible")[0]
    order = [k for k in np.argsort(-ball.point[0]) if kept[k]]
    names = [f"{ball.classes[k]} [{ball.lower[0, k]:.2f}, {ball.upper[0, k]:.2f}]" for k in order]
    return f"{len(names):3}  {'  '.join(names[:most])}{'  …' if len(names) > most else ''}"


def log_probabilities(p: np.ndarray) -> np.ndarray:
    """Logits of a network that gives probabilities."""
    return decal.logits_from_probabilities(p / p.sum(axis=1, keepdims=True), floor=FLOOR)


def cut(rows: int, parts: int, seed: int) -> list[np.ndarray]:
    """Row numbers in random order, in equal parts: to fit, to choose alpha, to look at."""
    return np.array_split(np.random.default_rng(seed).permutation(rows), parts)


def missed(kept: np.ndarray, labels: np.ndarray) -> float:
    """Share of labels that are not in their decision set."""
    return float(1 - kept[np.arange(len(labels)), labels].mean())


# Results


def save(out: Path, name: str, **results: Any) -> None:
    """Arrays and numbers as OUT/NAME.npz."""
    out.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out / f"{name}.npz", **{key: np.asarray(v) for key, v in results.items()})
    print(f"wrote {out / name}.npz, and {name}_light.png with its partners")


def table(rows: Mapping[str, str]) -> None:
    """Print names and values in two columns."""
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"  {name:{width}}  {value}")


def draw_themes(out: Path, name: str, draw: Callable[[bool], Any]) -> None:
    """The figures that `draw` returns, as OUT/NAME_light.png and OUT/NAME_dark.png, and as
    NAME_narrow_light.png and NAME_narrow_dark.png if it is asked for a narrow one.
    """
    import io

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.text import Text
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    out.mkdir(parents=True, exist_ok=True)
    for (theme, (paper, ink)), narrow in product(THEMES.items(), (False, True)):
        colours = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), paper)
        colours |= dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink
        )
        with plt.rc_context(colours):
            figure, buffer, told = draw(narrow), io.BytesIO(), PngInfo()
            if narrow:
                figure.get_layout_engine().set(h_pad=0.1)  # titles stand apart from axes above
            figure.savefig(buffer, dpi=DPI)
            texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
            told.add_text("Smallest text", f"{min(t.get_fontsize() for t in texts):.2f}")
            plt.close(figure)
        picture = Image.open(buffer).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        path = out / f"{name}{'_narrow' if narrow else ''}_{theme}.png"
        picture.save(path, optimize=True, dpi=(DPI, DPI), pnginfo=told)


def tell_sets(sizes: np.ndarray) -> str:
    """How large decision sets are, in words."""
    one = (sizes == 1).mean()
    return f"mean {sizes.mean():.2f}, median {np.median(sizes):.0f}, one class in {one:.0%}"
