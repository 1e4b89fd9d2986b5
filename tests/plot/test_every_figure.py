"""What holds for every figure: axes, colours, sizes, and baseline images.

Baselines hold no text, for fonts differ between versions. Write them again with
``DECAL_BASELINES=write python -m pytest tests/plot -k baseline``, and look at them.
"""

import sys

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb

from decal import plot
from helpers.plotted import (
    BOX,
    NAMES,
    PAIR,
    TRUTH,
    texts,
    unlike_baseline,
)

RISKS = decal.metrics.risk_coverage(np.arange(40.0), np.arange(40) % 7 == 6)
CURVE = ([1.0, 0.9, 0.0], [0.1, 0.8, 1.0], [0.95, 0.6, 0.0])


def some_model():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 3))
    return decal.decalibrate(logits, np.arange(60) % 3, alpha=0.9, classes=NAMES)


def some_shift():
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    logits = 1.5 * np.eye(3)[labels] + rng.normal(size=(90, 3))
    shift = decal.LabelShift(calibrate=False).fit(logits, labels, classes=NAMES)
    return shift.observe(logits[labels != 1])


FIGURES = {
    "frequencies": lambda ax: plot.frequencies(some_shift().frequencies, ax=ax),
    "prevalence": lambda ax: plot.prevalence(
        some_shift(), [[2.0, 0, 0], [0, 1, 0]], "fox", ax=ax, names=["one", "other"]
    ),
    "spider": lambda ax: plot.spider(BOX, ax=ax, truth=TRUTH),
    "simplex": lambda ax: plot.simplex(BOX, ax=ax, truth=TRUTH),
    "intervals": lambda ax: plot.intervals(BOX, ax=ax, truth=TRUTH),
    "binary": lambda ax: plot.binary(PAIR, ax=ax, labels=[1, 0]),
    "tradeoff": lambda ax: plot.tradeoff({"one": CURVE}, ax=ax, mark=[0.9]),
    "decomposition": lambda ax: plot.decomposition(BOX, ax=ax),
    "reliability": lambda ax: plot.reliability(
        decal.calibration.refute(BOX, [0, 1]), ax=ax, of="cat"
    ),
    "risk_coverage": lambda ax: plot.risk_coverage({"one": RISKS, "confidence": RISKS}, ax=ax),
    "likelihood": lambda ax: plot.likelihood(some_model(), ax=ax),
    "tokens": lambda ax: plot.tokens(decal.CredalMaps(BOX, (2,), 1), ["one", "two"], ax=ax),
}


def axes_for(name, **kwargs):
    projection = "polar" if name == "spider" else None
    return plt.figure(**kwargs).add_subplot(projection=projection)


def luminance(colour):
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def ratio(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_on_the_axes_given_and_opens_no_other(name):
    ax = axes_for(name)
    before = plt.get_fignums()
    assert FIGURES[name](ax) is ax
    assert plt.get_fignums() == before
    ax.figure.canvas.draw()


@pytest.mark.parametrize("name", FIGURES)
def test_without_axes_a_new_figure_is_made(name):
    ax = FIGURES[name](None)
    assert plt.get_fignums() == [ax.figure.number]


@pytest.mark.parametrize("name", FIGURES)
def test_no_global_setting_changes(name):
    before = dict(mpl.rcParams)
    FIGURES[name](None).figure.canvas.draw()
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("style", ["default", "dark_background", "Solarize_Light2"])
@pytest.mark.parametrize("name", FIGURES)
def test_all_text_contrasts_with_its_background(name, style):
    with plt.style.context(style):
        ax = FIGURES[name](None)
        ax.figure.canvas.draw()
        faces = {ax.figure.get_facecolor(), ax.get_facecolor()}
    found = texts(ax.figure)
    assert found
    for text in found:
        for face in faces:
            assert ratio(text.get_color(), face) >= 4.5, text


@pytest.mark.parametrize("name", FIGURES)
def test_dark_axes_on_a_light_figure_have_light_marks_within_and_dark_text_around(name):
    ax = axes_for(name, facecolor="white")
    ax.set_facecolor("#101018")
    FIGURES[name](ax)
    ax.figure.canvas.draw()
    for label in [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label]:
        if label.get_text():
            assert ratio(label.get_color(), "white") >= 4.5
    for text in ax.texts:
        at = text.get_window_extent()
        middle = (at.x0 + at.x1) / 2, (at.y0 + at.y1) / 2
        behind = "#101018" if ax.patch.contains_point(middle) else "white"
        if text.get_bbox_patch() is not None:
            behind = text.get_bbox_patch().get_facecolor()
        assert ratio(text.get_color(), behind) >= 4.5, text


def test_the_background_of_a_subfigure_is_that_of_its_figure():
    figure = plt.figure(facecolor="#101018")
    ax = figure.subfigures(1, 2)[0].subplots()
    ax.set_facecolor("#101018")
    plot.intervals(BOX, ax=ax, truth=TRUTH)
    figure.canvas.draw()
    for label in [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label]:
        assert ratio(label.get_color(), "#101018") >= 4.5, label


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_is_cut_off_at_the_width_of_a_column(name):
    with plt.rc_context({"font.size": 8}):
        ax = axes_for(name, figsize=(3.3, 3.3), layout="constrained")
        FIGURES[name](ax)
        ax.figure.canvas.draw()
        whole = ax.figure.bbox
        out_of_view = [
            tick.label1
            for axis in (ax.xaxis, ax.yaxis)
            for tick in axis.get_major_ticks()
            if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
        ]
        for text in texts(ax.figure):
            box = text.get_window_extent()
            if box.width == 0 or text in out_of_view:
                continue
            assert min(box.x0, box.y0, whole.x1 - box.x1, whole.y1 - box.y1) >= -1, text


def spider(credal, rng):
    other = decal.IntervalCredalSet(credal.lower * 0.5, credal.upper, point=credal.point)
    return plot.spider({"a": credal, "b": other}, truth=rng.dirichlet(np.ones(5)), top=5)


def simplex(_, rng):
    hull = decal.HullCredalSet(rng.dirichlet([3, 2, 2], size=(1, 6)))
    return plot.simplex({"box": hull.box(), "hull": hull}, truth=[0.3, 0.3, 0.4])


def tradeoff(*_):
    alpha = np.linspace(0, 1, 12)
    return plot.tradeoff(
        {"a": (alpha, 1 - alpha**4, alpha), "b": (alpha, 1 - alpha**2, alpha**1.2)}
    )


def reliability(credal, rng):
    labels = rng.integers(5, size=200)
    return plot.reliability(decal.calibration.refute(credal, labels, by="top"))


def risk_coverage(_, rng):
    wrong = rng.random(500) < 0.2
    sharp, blunt = (rng.normal(size=500) + pull * wrong for pull in (2, 1))
    return plot.risk_coverage(
        {
            "confidence": decal.metrics.risk_coverage(blunt, wrong),
            "sharp": decal.metrics.risk_coverage(sharp, wrong),
        }
    )


def likelihood(_, rng):
    logits = rng.normal(size=(50, 3))
    return plot.likelihood(decal.decalibrate(logits, np.arange(50) % 3, alpha=0.9))


def binary(_, rng):
    p = rng.uniform(0.1, 0.9, size=40)
    point = np.stack([1 - p, p], axis=1)
    credal = decal.IntervalCredalSet(point * 0.8, np.minimum(1, point * 1.2), point=point)
    return plot.binary(credal, labels=np.arange(40) % 2)


BASELINE_FIGURES = {
    "spider": spider,
    "simplex": simplex,
    "intervals": lambda credal, rng: plot.intervals(credal, truth=rng.dirichlet(np.ones(5))),
    "binary": binary,
    "tradeoff": tradeoff,
    "decomposition": lambda credal, _: plot.decomposition(credal, labels=np.arange(200) % 5),
    "reliability": reliability,
    "likelihood": likelihood,
    "risk_coverage": risk_coverage,
    "frequencies": lambda *_: plot.frequencies(some_shift().frequencies),
    "prevalence": lambda *_: plot.prevalence(some_shift(), [[2.0, 0, 0], [0, 1, 0]], "fox"),
}


@pytest.mark.parametrize("name", BASELINE_FIGURES)
def test_figures_look_like_their_baseline(name, tmp_path):
    rng = np.random.default_rng(7)
    point = rng.dirichlet(np.ones(5), size=200)
    credal = decal.IntervalCredalSet(point * 0.5, np.minimum(1, point * 1.3 + 0.1), point=point)
    assert unlike_baseline(BASELINE_FIGURES[name](credal, rng), name, tmp_path) is None


def test_without_matplotlib_the_error_names_what_to_install(monkeypatch):
    for module in [name for name in sys.modules if name.startswith("decal.plot")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for module in [name for name in sys.modules if name.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(
        ImportError, match=r"decal.plot needs matplotlib: pip install 'decal\[plot\]'"
    ):
        import decal.plot  # noqa: F401
