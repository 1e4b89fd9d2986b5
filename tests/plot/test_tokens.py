"""Sentences: where words stand, how strong their colour is, and what is written below them."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

import decal
from decal import plot
from decal.plot.style import contrast

NAMES = ["other", "person", "place", "time"]
SENTENCES = [["Ada", "and", "$x_1$", "met", "日本", "Ελλάδα"], ["On", "Monday"]]


@pytest.fixture(scope="module")
def seen():
    rng = np.random.default_rng(3)
    z = rng.normal(0, 2, (2, 6, 4))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=2)
    far = rng.normal(0, 2, (300, 4))
    known = (far + rng.gumbel(size=far.shape)).argmax(axis=1)
    d = decal.Decalibrator(0.7).fit(far, known, classes=NAMES)
    return d.predict(z, dim=-1), y


@pytest.fixture(autouse=True)
def any_fonts():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no installed font", decal.DecalWarning)
        yield


def words_of(ax):
    return [text for text in ax.texts if text.get_bbox_patch() is not None]


def below(ax, word):
    """Texts that begin where a word does, further down, the nearest first."""
    x, y = word.get_position()
    found = [t for t in ax.texts if t is not word and abs(t.get_position()[0] - x) < 1e-6]
    near = [t for t in found if 0 < t.get_position()[1] - y < 45]
    return [t.get_text() for t in sorted(near, key=lambda t: t.get_position()[1])]


def strength(word, face):
    """How far the ground of a word is from the background, along the first colour of models."""
    colour = np.array(to_rgb(word.get_bbox_patch().get_facecolor()))
    full = np.array(to_rgb("#0072B2" if face == "white" else "#56B4E9"))
    away = full - to_rgb(face)
    return float((colour - to_rgb(face)) @ away / (away @ away))


@pytest.mark.parametrize("face", ["white", "#101018"])
def test_colours_are_as_strong_as_intervals_are_wide(seen, face):
    maps, _ = seen
    with plt.rc_context({"figure.facecolor": face, "axes.facecolor": face}):
        ax = plot.tokens(maps, SENTENCES)
    found = [strength(word, face) for word in words_of(ax)]
    widths = np.concatenate([maps.width[0], maps.width[1, :2]])
    np.testing.assert_allclose(found, 0.55 * widths / widths.max(), atol=0.01)
    for word in words_of(ax):
        assert contrast(word.get_color(), word.get_bbox_patch().get_facecolor()[:3]) >= 4.5


def test_possible_classes_stand_below_doubtful_words_and_the_truth_below_errors(seen):
    maps, y = seen
    ax = plot.tokens(maps[:1], SENTENCES[:1], labels=y[:1])
    assert len(words_of(ax)) == 6
    under = sorted(line.get_gid() for line in ax.lines)
    expected, errors = [], []
    for t in range(6):
        one = maps[0, t]
        kept = [NAMES[k] for k in one.decide("e_admissible")[0].nonzero()[0]]
        truth, best = NAMES[y[0, t]], NAMES[one.point[0].argmax()]
        wrong = truth not in kept or best != truth
        if wrong:
            errors.append("MISSED" if truth not in kept else "WRONG")
        names = ", ".join(kept[:-1]) + " or " + kept[-1] if len(kept) > 1 else kept[0]
        names = "4 classes" if len(kept) == 4 else names
        expected.append(([names] if len(kept) > 1 or wrong else []) + [f"is {truth}"] * wrong)
    assert [below(ax, word) for word in words_of(ax)] == expected
    assert under == sorted(errors)
    assert errors
    assert any(len(lines) == 0 for lines in expected)


def test_ignored_words_are_neither_marked_nor_corrected(seen):
    maps, _ = seen
    plain = plot.tokens(maps[:1], SENTENCES[:1])
    ignored = plot.tokens(maps[:1], SENTENCES[:1], labels=np.full((1, 6), -1), ignore_index=-1)
    assert [text.get_text() for text in ignored.texts] == [text.get_text() for text in plain.texts]
    assert {text.get_weight() for text in ignored.texts} == {"normal"}
    assert len(ignored.lines) == 0


def test_words_are_colored_by_the_number_of_possible_classes(seen):
    maps, _ = seen
    ax = plot.tokens(maps[:1], SENTENCES[:1], by="possible")
    counts = maps[0].flat.decide("e_admissible").sum(axis=1)
    found = [strength(word, "white") for word in words_of(ax)]
    np.testing.assert_allclose(found, 0.55 * (counts - 1) / 3, atol=0.01)


def test_ordered_classes_are_said_as_an_interval(seen):
    maps, _ = seen
    ordered = decal.CredalMaps(maps.flat.with_order(), maps.shape, maps.axis)
    ax = plot.tokens(ordered[:1], SENTENCES[:1])
    kept = ordered[0].flat.possible()
    said = [[f"{names[0]} to {names[-1]}"] if len(names) > 1 else [] for names in kept]
    assert [below(ax, word) for word in words_of(ax)] == said


@pytest.mark.parametrize("inches", [2.2, 3.3, 8])
def test_lines_wrap_and_nothing_overlaps_or_leaves_the_figure(seen, inches):
    maps, y = seen
    long = [[*SENTENCES[0][:4], "Donaudampfschifffahrtsgesellschaft" * 2, "end"], SENTENCES[1]]
    figure = plt.figure(figsize=(inches, 5), layout="constrained")
    ax = plot.tokens(maps, long, labels=y, ax=figure.add_subplot())
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts if text.get_text().strip()]
    for i, one in enumerate(boxes):
        assert one.x0 >= -1
        assert one.x1 <= figure.bbox.x1 + 1
        for other in boxes[:i]:
            apart = max(one.x0 - other.x1, other.x0 - one.x1, one.y0 - other.y1, other.y0 - one.y1)
            assert apart > -2
    tops = [word.get_position()[1] for word in words_of(ax)]
    assert len(set(tops)) >= (2 if inches == 8 else 3)
    assert tops == sorted(tops)


def test_a_new_figure_is_as_tall_as_its_text(seen):
    maps, _ = seen
    small, tall = (plot.tokens(maps, SENTENCES, rows=rows).figure for rows in (1, 2))
    assert small.get_figheight() < tall.get_figheight() < 3
    ax = plot.tokens(maps, SENTENCES)
    ax.figure.canvas.draw()
    height = ax.get_window_extent().height * 72 / ax.figure.dpi
    assert height == pytest.approx(ax.get_ylim()[0], abs=2)


def test_dollars_are_literal_and_tokens_may_be_fewer_than_padded_logits(seen):
    ax = plot.tokens(seen[0], SENTENCES)
    assert [word.get_text() for word in words_of(ax)][:3] == SENTENCES[0][:3]
    assert len(words_of(ax)) == 8


def test_the_first_six_are_drawn_and_the_title_says_so(seen):
    maps = [seen[0][0]] * 8
    ax = plot.tokens(maps, [SENTENCES[0]] * 8)
    assert len(words_of(ax)) == 36
    assert ax.get_title(loc="left") == "The first 6 of 8 sentences."


@pytest.mark.parametrize(
    ("tokens", "options", "message"),
    [
        ([["a"] * 7, ["b"]], {}, r"tokens\[0\] must be 6, one for each of the logits: got 7"),
        ([["a"] * 6, []], {}, r"tokens\[1\] must be 6, .*: got 0"),
        ([["a"] * 6], {}, "tokens must be a list of 2, as logits are: got 1"),
        (["abcdef", "abcdef"], {}, r"tokens\[0\] must be a list of texts: got 'abcdef'"),
        ([[1, 2], [3]], {}, r"tokens\[0\] must be a list of texts: got \[1, 2\]"),
        (SENTENCES, {"by": "size"}, "by must be"),
        (SENTENCES, {"labels": np.zeros((2, 5), int)}, "labels must have the shape"),
        (SENTENCES, {"rows": [2]}, "rows must lie in 0 to 1: got 2"),
    ],
)
def test_bad_input_is_named(seen, tokens, options, message):
    with pytest.raises(decal.InputError, match=message):
        plot.tokens(seen[0], tokens, **options)


def test_a_sentence_of_a_list_has_all_its_tokens(seen):
    with pytest.raises(decal.InputError, match=r"tokens\[1\] must be 6, one for each"):
        plot.tokens([seen[0][0], seen[0][1]], SENTENCES)
