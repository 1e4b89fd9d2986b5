"""Maps of pixels: what is drawn, against definitions pixel by pixel."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

import decal
from decal import plot
from helpers.plotted import texts

NAMES = ["background", "road", "sea", "tree"]
PALETTE = ["#101010", "#aa0000", "#00bb00", "#0000cc"]


def world(*shape, seed=0):
    """Logits with classes first within each image, and labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, (shape[0], 4, *shape[1:]))
    return z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def seen():
    z, y = world(3, 6, 5)
    d = decal.Decalibrator(0.8).fit(z, y, dim=1, classes=NAMES)
    return d.predict(z, dim=1), y


def drawn(ax):
    """(height, width) the colour of every pixel, as the picture has it."""
    (image,) = ax.images
    return [[to_hex(colour) for colour in row] for row in image.to_rgba(image.get_array())]


def titles(axes):
    return [ax.get_title() for ax in axes[0]]


def expected(maps, y, image, ignored=()):
    """What is predicted, possible and wrong in every pixel of an image, one by one."""
    one, found = maps[image], {}
    for i in range(one.shape[0]):
        for j in range(one.shape[1]):
            here = one[i, j]
            best = int(here.point[0].argmax())
            kept = set(here.decide("e_admissible")[0].nonzero()[0].tolist())
            truth = int(y[image, i, j])
            verdict = "missed" if truth not in kept else "right" if best == truth else "wrong"
            if truth in ignored:
                verdict = "ignored"
            width = max(here.upper[0] - here.lower[0])
            found[i, j] = best, len(kept), verdict, width
    return found


@pytest.mark.parametrize("background", ["white", "#101018"])
def test_every_pixel_has_the_colour_of_what_is_said_of_it(seen, background):
    maps, y = seen
    with plt.rc_context({"figure.facecolor": background, "axes.facecolor": background}):
        axes = plot.maps(maps, labels=y, rows=[2, 0], colors=PALETTE)
    assert titles(axes) == ["prediction", "width", "possible classes", "errors"]
    assert axes.shape == (2, 4)
    for line, image in zip(axes, (0, 2), strict=True):
        said = expected(maps, y, image)
        pictures = [drawn(ax) for ax in line]
        for (i, j), (best, _, _, width) in said.items():
            assert pictures[0][i][j] == PALETTE[best]
            assert line[1].images[0].get_array()[i, j] == pytest.approx(width)
        for at, which in ((2, 1), (3, 2)):
            pairs = {(pictures[at][i][j], told[which]) for (i, j), told in said.items()}
            assert len(pairs) == len({c for c, _ in pairs}) == len({v for _, v in pairs}) > 1
        wrong = np.mean([told[2] != "right" for told in said.values()])
        missed = np.mean([told[2] == "missed" for told in said.values()])
        assert line[3].get_xlabel() == f"{wrong:.1%} wrong\n{missed:.1%} missed"
        assert line[0].get_ylabel() == f"image {image}"


def test_the_legend_names_the_classes_that_are_seen_and_the_errors(seen):
    maps, y = seen
    figure = plot.maps(maps, labels=y)[0, 0].figure
    told = [text.get_text() for text in figure.legends[0].get_texts()]
    assert told == [*NAMES, "wrong, truth possible", "truth missed"]
    colours = [to_hex(patch.get_facecolor()) for patch in figure.legends[0].get_patches()]
    assert len(set(colours)) == len(colours)
    assert plot.maps(maps, legend=False)[0, 0].figure.legends == []


def test_ignored_pixels_are_not_judged(seen):
    maps, y = seen
    y = y.copy()
    y[0, :2], y[1] = 255, 255
    axes = plot.maps(maps, labels=y, ignore_index=255, panels=["truth", "errors"], colors=PALETTE)
    said = expected(maps, y, 0, ignored={255})
    judged = [told[2] for told in said.values() if told[2] != "ignored"]
    assert len(judged) == 20
    wrong = np.mean([verdict != "right" for verdict in judged])
    assert axes[0, 1].get_xlabel().startswith(f"{wrong:.1%} wrong")
    assert axes[1, 1].get_xlabel() == "all ignored"
    truth, errors = drawn(axes[0, 0]), drawn(axes[0, 1])
    face = to_hex(axes[0, 0].get_facecolor())
    for (i, j), (_, _, verdict, _) in said.items():
        assert truth[i][j] == (face if verdict == "ignored" else PALETTE[y[0, i, j]])
        assert (errors[i][j] == face) == (verdict == "ignored")


def test_images_of_all_forms_are_shown_as_they_are(seen):
    maps, _ = seen
    rng = np.random.default_rng(0)
    grey = rng.random((3, 6, 5))
    colour = rng.integers(0, 256, (3, 6, 5, 3)).astype(np.uint8)
    first = plot.maps(maps, images=grey)[1, 0].images[0].get_array()
    np.testing.assert_array_equal(first, np.rint(255 * grey[1]))
    for images in (colour, np.moveaxis(colour, -1, 1)):
        shown = plot.maps(maps, images=images)[1, 0].images[0].get_array()
        np.testing.assert_array_equal(shown, colour[1])


def test_a_list_holds_images_of_several_sizes_and_one_image_is_fine(seen):
    maps, y = seen
    several = [maps[0], maps[1, :4], maps[2, :, 1:]]
    axes = plot.maps(several, labels=[y[0], y[1, :4], y[2, :, 1:]])
    assert [ax.images[0].get_array().shape for ax in axes[:, 0]] == [(6, 5), (4, 5), (6, 4)]
    one = plot.maps(maps[1], images=np.zeros((6, 5)), labels=y[1])
    assert one.shape == (1, 5)
    assert one[0, 0].get_ylabel() == ""


@pytest.mark.parametrize("panels", [None, ["width"], ["prediction", "errors"]])
@pytest.mark.parametrize("size", [7, 16])
def test_no_text_leaves_the_figure_and_no_map_touches_another(seen, panels, size):
    maps, y = seen
    several = [maps[0], maps[1, :3], maps[2, :, :2]]
    with plt.rc_context({"font.size": size}):
        labels = [y[0], y[1, :3], y[2, :, :2]]
        axes = plot.maps(several, labels=labels, rows=3, panels=panels)
        figure = axes[0, 0].figure
        figure.canvas.draw()
        whole = figure.bbox
        for text in texts(figure):
            box = text.get_window_extent()
            assert min(box.x0, box.y0, whole.x1 - box.x1, whole.y1 - box.y1) >= -1, text
    boxes = [ax.get_window_extent() for ax in axes.ravel()]
    for i, one in enumerate(boxes):
        assert one.width > 30
        assert not any(one.overlaps(other) for other in boxes[:i])


def test_the_first_six_are_drawn_and_the_figure_says_so():
    z, y = world(9, 3, 3)
    maps = decal.Decalibrator(0.9).fit(z, y, dim=1).predict(z, dim=1)
    axes = plot.maps(maps)
    assert axes.shape == (6, 3)
    assert axes[0, 0].figure.get_suptitle() == "The first 6 of 9 images."
    assert plot.maps(maps, rows=2).shape == (2, 3)


def test_an_image_of_one_class_that_is_certain_has_a_width_of_zero():
    point = np.tile([1.0, 0, 0, 0], (9, 1))
    maps = decal.CredalMaps(decal.IntervalCredalSet(point, point, point=point), (3, 3), 0)
    axes = plot.maps(maps, labels=np.zeros((3, 3), int))
    axes[0, 0].figure.canvas.draw()
    assert axes[0, 3].get_xlabel() == "0.0% wrong\n0.0% missed"
    assert {colour for row in drawn(axes[0, 2]) for colour in row} == {drawn(axes[0, 2])[0][0]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": np.zeros((3, 5, 6), int)}, r"labels must have the shape .*\(6, 5\).*\(5, 6\)"),
        ({"labels": np.zeros((2, 6, 5), int)}, "labels must be a list of 3, as logits are: got 2"),
        ({"labels": np.full((3, 6, 5), 4)}, "labels must .*got 4"),
        ({"images": np.zeros((3, 5, 6))}, r"images must have the height and width .*\(5, 6\)"),
        ({"images": np.zeros((2, 6, 5))}, "images must be a list of 3, as logits are: got 2"),
        ({"images": np.full((3, 6, 5), 7.0)}, "images must be uint8, or floats from 0 to 1: got 7"),
        ({"panels": ["errors"]}, "labels must be given for the panel 'errors'"),
        ({"panels": ["image"]}, "images must be given for the panel 'image'"),
        ({"panels": ["depth"]}, "panels must be of image, truth, .*: got 'depth'"),
        ({"panels": []}, "panels must be of .*: got none"),
        ({"rows": [3]}, "rows must lie in 0 to 2: got 3"),
        ({"rows": 0}, "rows must be a whole number, at least 1"),
    ],
)
def test_bad_input_is_named(seen, options, message):
    with pytest.raises(decal.InputError, match=message):
        plot.maps(seen[0], **options)


def test_only_maps_of_images_are_drawn(seen):
    for wrong in (seen[0].flat, seen[0][0, 0, 0], [seen[0][0], seen[0][0].flat]):
        with pytest.raises(decal.InputError, match="maps must be of shape .*: got Interval"):
            plot.maps(wrong)
    with pytest.raises(decal.InputError, match=r"got shape \(5,\). Pass the tokens of sentences"):
        plot.maps([seen[0][0, 0, :]])
