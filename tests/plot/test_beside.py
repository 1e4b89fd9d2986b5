"""Names beside curves."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import matplotlib.pyplot as plt

from decal.plot._beside import beside


def axes(width=5.0):
    ax = plt.figure(figsize=(width, 4)).add_subplot()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    return ax


def curves(count):
    x = np.linspace(0, 1, 30)
    return {f"curve number {m}": np.stack([x, (m + 0.5) / count + 0 * x]) for m in range(count)}


def test_names_cover_neither_curves_nor_each_other_and_stay_within_the_axes():
    ax, drawn = axes(), curves(6)
    for line in drawn.values():
        ax.plot(*line)
    assert beside(ax, drawn, ["k"] * 6)
    assert [text.get_text() for text in ax.texts] == list(drawn)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    whole = ax.get_window_extent()
    for i, box in enumerate(boxes):
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
        for line in drawn.values():
            inside = ax.transData.transform(line.T)
            assert not any(box.contains(x, y) for x, y in inside)


def test_a_name_stands_next_to_its_own_curve():
    ax, drawn = axes(), curves(3)
    assert beside(ax, drawn, ["k"] * 3)
    for text, line in zip(ax.texts, drawn.values(), strict=True):
        assert abs(text.get_position()[1] - line[1, 0]) < 0.08


def test_without_room_nothing_is_written():
    ax = axes(width=1.0)
    assert not beside(ax, curves(6), ["k"] * 6)
    assert not ax.texts
