"""Pictures of one input: what is drawn is what the credal set holds, and it can be read."""

import itertools
import sys
import warnings

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.font_manager import fontManager
from matplotlib.patches import Polygon

from decal import plot

NAMES = ("cat", "dog", "fox")
BOX = decal.IntervalCredalSet(
    [[0.15, 0.10, 0.05], [0.3, 0.2, 0.1]],
    [[0.65, 0.78, 0.30], [0.5, 0.4, 0.3]],
    point=[[0.46, 0.36, 0.18], [0.4, 0.35, 0.25]],
    classes=NAMES,
)
HULL = decal.HullCredalSet(
    [[[0.48, 0.46, 0.06], [0.40, 0.24, 0.36], [0.62, 0.16, 0.22], [0.5, 0.3, 0.2]]], classes=NAMES
)
TRUTH = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
SQUARE_ROOT = np.sqrt(3) / 2


@pytest.fixture(autouse=True)
def close_figures():
    plt.switch_backend("agg")
    plt.close("all")
    yield
    plt.close("all")


def polar():
    return plt.subplots(subplot_kw={"projection": "polar"})[1]


def some_model():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 3))
    return decal.decalibrate(logits, np.arange(60) % 3, alpha=0.9, classes=NAMES)


PAIR = decal.IntervalCredalSet([[0.2, 0.4], [0.6, 0.1]], [[0.6, 0.8], [0.9, 0.4]])
CURVE = ([1.0, 0.9, 0.0], [0.1, 0.8, 1.0], [0.95, 0.6, 0.0])
FIGURES = {
    "spider": lambda ax: plot.spider(BOX, ax=ax, truth=TRUTH),
    "simplex": lambda ax: plot.simplex(BOX, ax=ax, truth=TRUTH),
    "intervals": lambda ax: plot.intervals(BOX, ax=ax, truth=TRUTH),
    "binary": lambda ax: plot.binary(PAIR, ax=ax, labels=[1, 0]),
    "tradeoff": lambda ax: plot.tradeoff({"one": CURVE}, ax=ax, mark=[0.9]),
    "decomposition": lambda ax: plot.decomposition(BOX, ax=ax),
    "alpha_path": lambda ax: plot.alpha_path(
        some_model(), [0.3, 0.0, -1.0], ax=ax, alphas=[1, 0.9, 0], truth=[0.5, 0.3, 0.2]
    ),
}


def axes_for(name, **kwargs):
    projection = "polar" if name == "spider" else None
    return plt.figure(**kwargs).add_subplot(projection=projection)


def texts(figure):
    drawn = figure.findobj(mpl.text.Text)
    return [text for text in drawn if text.get_visible() and text.get_text().strip()]


def luminance(colour):
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def ratio(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


# What holds for every figure


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


ROW_FIGURES = {"spider": plot.spider, "simplex": plot.simplex, "intervals": plot.intervals}


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
@pytest.mark.parametrize("row", [2, -3, 1.5, True, "cat"])
def test_a_row_out_of_range_is_named(draw, row):
    with pytest.raises(ValueError, match=rf"row must be one of the 2 inputs, 0 to 1: got {row!r}"):
        draw(BOX, row)


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
def test_a_row_without_distributions_is_named(draw):
    empty = decal.IntervalCredalSet([[0.2] * 3, [0.5] * 3], [[0.5] * 3, [0.6] * 3])
    draw(empty, 0)
    with pytest.raises(ValueError, match="row must have distributions to draw: got row 1"):
        draw(empty, 1)


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
def test_negative_rows_count_from_the_end_and_wrong_truths_are_refused(draw):
    draw(BOX, -1)
    with pytest.raises(ValueError, match="truth must sum to 1"):
        draw(BOX, truth=[0.5, 0.3, 0.3])
    with pytest.raises(ValueError, match=r"truth must have shape \(2, 3\)"):
        draw(BOX, truth=[[0.5, 0.3, 0.2]])


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
def test_names_of_classes_and_models_are_shown_literally(draw):
    hostile = ["$x_$", "a_{b", r"\frac{1}^^ % #"]
    credal = decal.IntervalCredalSet(BOX.lower, BOX.upper, point=BOX.point, classes=hostile)
    ax = draw({"$m^": credal, "<b>_": credal})
    ax.figure.canvas.draw()
    shown = {text.get_text(): text for text in texts(ax.figure)}
    for name in [*hostile, "$m^", "<b>_"]:
        assert not shown[name].get_parse_math()


def bars_of(ax, model=0):
    """Angle, lower and upper end of every bar of a spider, read from the picture."""
    return np.array([[s[0, 0], s[0, 1], s[1, 1]] for s in ax.collections[model].get_segments()])


# Spider


@pytest.mark.parametrize("credal", [BOX, HULL], ids=["intervals", "hull"])
def test_a_spider_has_a_bar_per_class_from_lower_to_upper(credal):
    ax = plot.spider(credal, truth=TRUTH[0])
    angle, low, high = bars_of(ax).T
    assert angle == pytest.approx([0, 2 * np.pi / 3, 4 * np.pi / 3])
    assert low == pytest.approx(credal.lower[0])
    assert high == pytest.approx(credal.upper[0])
    prediction, truth = ax.lines
    assert prediction.get_ydata() == pytest.approx(credal.point[0])
    assert truth.get_ydata() == pytest.approx(TRUTH[0])
    assert ax.get_ylim() == (0, 1)


def test_labels_of_a_spider_lie_outside_the_circle_in_the_order_of_the_spokes():
    long = "a very long name of a class that needs lines"
    K = 9
    credal = decal.IntervalCredalSet(
        np.zeros((1, K)), np.ones((1, K)), classes=[f"{long} {k}" for k in range(K)]
    )
    ax = plot.spider(credal)
    ax.figure.canvas.draw()
    rim = ax.transData.transform((0, 1))
    box = ax.get_window_extent()
    centre, radius = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]), box.width / 2
    for text in ax.texts[:K]:
        b = text.get_window_extent()
        nearest = np.clip(centre, [b.x0, b.y0], [b.x1, b.y1])
        assert np.hypot(*(nearest - centre)) >= radius
    assert np.hypot(*(rim - centre)) == pytest.approx(radius, rel=0.01)


def test_bars_of_several_models_lie_beside_their_spoke():
    ax = plot.spider({"one": BOX, "two": BOX[[1, 0]]}, 0)
    first, second = bars_of(ax, 0), bars_of(ax, 1)
    spokes = 2 * np.pi / 3 * np.arange(3)
    assert (first[:, 0] + second[:, 0]) / 2 == pytest.approx(spokes)
    assert (second[:, 0] > first[:, 0]).all()
    assert second[:, 1:] == pytest.approx(np.stack([BOX.lower[1], BOX.upper[1]], axis=1))
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["one", "two", "prediction"]


def test_models_with_other_classes_are_not_drawn_into_one_picture():
    other = decal.IntervalCredalSet(BOX.lower, BOX.upper, classes="xyz")
    with pytest.raises(ValueError, match="the same classes for every model"):
        plot.spider({"one": BOX, "two": other})
    assert plot.spiders({"one": BOX, "two": other}).shape == (1, 2)
    with pytest.raises(ValueError, match=r"one number of classes: got \[2, 3\]"):
        plot.spider({"one": BOX, "two": PAIR})


def folded_by_search(lower, upper, outside):
    """Range of the probability of a set of classes: all corners of the box, one by one."""
    K, found = len(lower), []
    for free in range(K):
        others = [k for k in range(K) if k != free]
        for ends in itertools.product(*((lower[k], upper[k]) for k in others)):
            p = np.empty(K)
            p[others] = ends
            p[free] = 1 - sum(ends)
            if lower[free] - 1e-12 <= p[free] <= upper[free] + 1e-12:
                found.append(p[outside].sum())
    return min(found), max(found)


def test_classes_beyond_the_top_share_one_spoke_with_the_exact_bounds_of_their_union():
    rng = np.random.default_rng(3)
    point = rng.dirichlet(np.ones(8), size=1)
    lower, upper = 0.3 * point, np.minimum(1, 1.1 * point + 0.01)
    credal = decal.IntervalCredalSet(lower, upper, point=point, classes="abcdefgh")
    truth = np.eye(8)[int(upper[0].argmin())]
    ax = plot.spider(credal, truth=truth, top=4)
    reach = np.maximum(upper[0], truth)
    kept = sorted(np.argsort(-reach)[:4])
    outside = [k for k in range(8) if k not in kept]
    labels = [text.get_text() for text in ax.texts[:5]]
    assert labels == ["abcdefgh"[k] for k in kept] + ["4 other classes"]
    _, low, high = bars_of(ax).T
    assert low[:4] == pytest.approx(lower[0, kept])
    assert (low[4], high[4]) == pytest.approx(folded_by_search(lower[0], upper[0], outside))
    assert low[4] > lower[0, outside].sum() + 0.01  # more than the sum of the parts
    prediction, right = ax.lines
    assert prediction.get_ydata()[4] == pytest.approx(point[0, outside].sum())
    assert right.get_ydata().sum() == pytest.approx(1)


def test_a_single_class_left_over_is_shown_and_not_folded():
    credal = decal.IntervalCredalSet(np.zeros((1, 13)), np.ones((1, 13)))
    assert len(bars_of(plot.spider(credal))) == 13
    assert len(bars_of(plot.spider(credal, top=11))) == 12


def test_an_interval_without_width_still_shows():
    p = np.array([[0.5, 0.3, 0.2]])
    ax = plot.spider(decal.IntervalCredalSet(p, p))
    (dots,) = ax.lines
    assert dots.get_ydata() == pytest.approx(p[0])


def test_axes_that_are_not_polar_are_refused_with_the_way_to_make_them():
    ax = plt.subplots()[1]
    with pytest.raises(ValueError, match=r'subplot_kw=\{"projection": "polar"\}'):
        plot.spider(BOX, ax=ax)


def test_spiders_side_by_side_have_a_column_per_model_and_a_line_per_input():
    axes = plot.spiders({"one": BOX, "two": BOX[[1, 0]]}, [0, 1], truth=TRUTH)
    assert axes.shape == (2, 2)
    assert bars_of(axes[1, 0])[:, 1] == pytest.approx(BOX.lower[1])
    assert bars_of(axes[1, 1])[:, 1] == pytest.approx(BOX.lower[0])
    assert axes[0, 1].get_title() == "two · input 0"
    axes[0, 0].figure.canvas.draw()
    assert plot.spiders(BOX, [0, 1], titles=["sure", "unsure"]).shape == (1, 2)
    with pytest.raises(ValueError, match="titles must be 2, one per row: got 1"):
        plot.spiders(BOX, [0, 1], titles=["sure"])
    with pytest.raises(ValueError, match="rows must name at least one input"):
        plot.spiders(BOX, [])


# Simplex


def in_plane(p):
    corners = np.array([[0, 0], [1, 0], [0.5, SQUARE_ROOT]])
    return np.asarray(p) @ corners


def corners_by_search(lower, upper):
    """Corners of a box of three classes: two classes at a bound, the third takes the rest."""
    found = []
    for a, b, c in itertools.permutations(range(3)):
        for x, y in itertools.product((lower[a], upper[a]), (lower[b], upper[b])):
            p = np.empty(3)
            p[a], p[b], p[c] = x, y, 1 - x - y
            inside = (p >= lower - 1e-9).all() and (p <= upper + 1e-9).all()
            if inside and all(np.abs(p - q).max() > 1e-9 for q in found):
                found.append(p)
    return np.array(found)


def outline(ax):
    return [p.get_xy()[:-1] for p in ax.patches if isinstance(p, Polygon)][-1]


def as_set(points):
    return {tuple(np.round(point, 7) + 0.0) for point in points}


@pytest.mark.parametrize("seed", range(30))
def test_the_polygon_has_the_corners_of_the_box(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3))
    lower, upper = p * rng.uniform(0, 1, 3), np.minimum(1, p + (1 - p) * rng.uniform(0, 1, 3))
    ax = plot.simplex(decal.IntervalCredalSet([lower], [upper]))
    drawn = outline(ax)
    assert as_set(drawn) == as_set(in_plane(corners_by_search(lower, upper)))
    # They are in order: the outline of a convex polygon never turns back.
    sides = np.roll(drawn, -1, axis=0) - drawn
    following = np.roll(sides, -1, axis=0)
    turns = sides[:, 0] * following[:, 1] - sides[:, 1] * following[:, 0]
    assert (np.sign(turns[np.abs(turns) > 1e-12]) == np.sign(turns.sum())).all()


@pytest.mark.parametrize(
    ("lower", "upper", "count"),
    [
        ([0, 0, 0], [1, 1, 1], 3),
        ([0.2, 0.2, 0.2], [0.5, 0.5, 0.5], 6),
        ([0.3, 0, 0], [0.3, 1, 1], 2),
        ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2], 1),
        ([1 / 3] * 3, [1 / 3] * 3, 1),
    ],
)
def test_triangles_hexagons_segments_and_points_are_drawn(lower, upper, count):
    ax = plot.simplex(decal.IntervalCredalSet([lower], [upper]))
    ax.figure.canvas.draw()
    assert len(outline(ax)) == count
    assert as_set(outline(ax)) == as_set(
        in_plane(corners_by_search(*map(np.array, (lower, upper))))
    )


def test_a_hull_is_drawn_with_its_members_and_without_those_inside():
    ax = plot.simplex(HULL)
    assert as_set(outline(ax)) == as_set(in_plane(HULL.vertices[0, :3]))
    members = next(
        line for line in ax.lines if len(line.get_xdata()) == 4 and line.get_marker() == "o"
    )
    assert np.column_stack(members.get_data()) == pytest.approx(in_plane(HULL.vertices[0]))


@pytest.mark.parametrize("members", [1, 2, 3])
def test_hulls_without_area_are_drawn(members):
    line = np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.4, 0.25, 0.35]])[:members]
    ax = plot.simplex(decal.HullCredalSet([line]))
    ax.figure.canvas.draw()
    assert as_set(outline(ax)) == as_set(in_plane(line[:2]))


def test_nested_sets_are_drawn_widest_first_and_share_one_prediction():
    wide = decal.IntervalCredalSet([[0, 0, 0]], [[1, 1, 1]], point=BOX.point[:1], classes=NAMES)
    ax = plot.simplex([BOX[0], wide], nested=True, truth=TRUTH[0])
    first, second = [p.get_xy() for p in ax.patches if isinstance(p, Polygon)]
    assert (len(first) - 1, len(second) - 1) == (
        3,
        len(corners_by_search(BOX.lower[0], BOX.upper[0])),
    )
    single = [line for line in ax.lines if len(line.get_xdata(orig=False)) == 1]
    assert [line.get_marker() for line in single] == ["o", "D"]
    assert np.ravel(single[0].get_data()) == pytest.approx(in_plane(BOX.point[0]))
    assert np.ravel(single[1].get_data()) == pytest.approx(in_plane(TRUTH[0]))


def test_a_triangle_needs_three_classes():
    with pytest.raises(ValueError, match="credal must have three classes for a triangle: got 2"):
        plot.simplex(PAIR)


# Intervals


def rectangles(ax):
    return np.array([[p.get_x(), p.get_x() + p.get_width(), p.get_y()] for p in ax.patches])


def names_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize(
    ("sort", "order"), [("class", [0, 1, 2]), ("upper", [1, 0, 2]), ("lower", [0, 1, 2])]
)
def test_bars_run_from_lower_to_upper_in_the_order_asked_for(sort, order):
    ax = plot.intervals(BOX, truth=TRUTH, sort=sort)
    assert names_of(ax) == [NAMES[k] for k in order]
    low, high, _ = rectangles(ax).T
    assert low == pytest.approx(BOX.lower[0, order])
    assert high == pytest.approx(BOX.upper[0, order])
    ticks = np.array(ax.collections[0].get_segments())
    assert ticks[:, 0, 0] == pytest.approx(BOX.point[0, order])
    assert ax.lines[0].get_xdata() == pytest.approx(TRUTH[0, order])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_many_classes_are_folded_into_the_last_bar():
    rng = np.random.default_rng(5)
    point = rng.dirichlet(np.ones(300), size=1)
    credal = decal.IntervalCredalSet(point / 2, np.minimum(1, 2 * point), point=point)
    ax = plot.intervals(credal)
    assert len(ax.patches) == 41
    assert names_of(ax)[-1] == "260 other classes"
    outside = np.setdiff1d(np.arange(300), [int(name) for name in names_of(ax)[:-1]])
    low, high, _ = rectangles(ax)[-1]
    lower, upper = credal.lower[0], credal.upper[0]
    inside = np.setdiff1d(np.arange(300), outside)
    assert low == pytest.approx(max(lower[outside].sum(), 1 - upper[inside].sum()))
    assert high == pytest.approx(min(upper[outside].sum(), 1 - lower[inside].sum()))


def test_bars_of_several_models_do_not_overlap():
    ax = plot.intervals({"one": BOX, "two": HULL}, top=3)
    tops = sorted((p.get_y(), p.get_y() + p.get_height()) for p in ax.patches)
    assert len(tops) == 6
    assert all(below[0] >= above[1] for above, below in itertools.pairwise(tops))


def test_a_sort_must_be_known_and_possible():
    bare = decal.IntervalCredalSet(BOX.lower, BOX.upper)
    with pytest.raises(ValueError, match="sort must be one of"):
        plot.intervals(BOX, sort="size")
    with pytest.raises(ValueError, match="sort must not be 'point'"):
        plot.intervals(bare, sort="point")


# Scripts


CHINESE = ("飞机", "汽车", "鸟")


def has_chinese():
    from matplotlib.ft2font import FT2Font

    real = [f for f in fontManager.ttflist if "Last Resort" not in f.name]
    return any(FT2Font(f.fname).get_char_index(ord("飞")) for f in real if f.style == "normal")


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
def test_chinese_names_are_drawn_where_a_font_has_them(draw):
    if not has_chinese():
        pytest.skip("needs an installed font with Chinese characters, such as Noto Sans CJK")
    ax = draw(decal.IntervalCredalSet(BOX.lower, BOX.upper, classes=CHINESE))
    ax.figure.canvas.draw()  # matplotlib would warn here of missing glyphs
    assert set(CHINESE) <= {text.get_text() for text in texts(ax.figure)}


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
def test_names_that_no_font_has_become_numbers_and_one_readable_warning(draw):
    unassigned = "\U0003fff0"
    credal = decal.IntervalCredalSet(BOX.lower, BOX.upper, classes=["a", f"x{unassigned}", "c"])
    with pytest.warns(
        UserWarning, match=f"no installed font can draw {unassigned}.*Install"
    ) as caught:
        ax = draw(credal)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()
    assert {"a", "class 1", "c"} <= {text.get_text() for text in texts(ax.figure)}


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
