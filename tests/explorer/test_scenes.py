"""Images and sentences as plain data, against sets asked one input at a time."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal.explorer import _page, _scenes, explore_maps
from helpers.explorations import decoded

NAMES = ["background", "road", "sea", "tree"]


def world(*shape, seed=0, K=4):
    """Logits with classes on axis 1, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, (shape[0], K, *shape[1:]))
    return z, (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def fitted(**settings):
    z, y = world(8, 9, 6, seed=1)
    return decal.decalibrate(z, y, dim=1, **{"alpha": 0.8, "classes": NAMES} | settings)


def in_words(one):
    names = one.possible()[0]
    if one.ordered and len(names) > 1:
        return f"{names[0]} to {names[-1]}"
    order = [name for name in one.classes if name in names]
    return " or ".join(filter(None, [", ".join(order[:-1]), order[-1]]))


@pytest.mark.parametrize("order", [False, True])
def test_every_pixel_is_told_as_its_set_says(order):
    z, y = world(3, 5, 7)
    d = fitted(order=order)
    y[0, 0] = 255
    images = np.random.default_rng(2).random((3, 5, 7, 3))
    page = d.explore(z, dim=1, labels=y, images=images, ignore_index=255, names=["a", "b", "c"])
    header, arrays = decoded(page.payload.to_bytes())
    assert (header["kind"], header["alpha"], header["classes"]) == ("image", 0.8, NAMES)
    assert [scene["name"] for scene in header["scenes"]] == ["a", "b", "c"]
    maps = d.predict(z, dim=1)
    judged = {i: [] for i in range(3)}
    for at, (i, r, c) in enumerate(np.ndindex(3, 5, 7)):
        one = maps[i, r, c]
        kept = one.possible()[0]
        best = int(one.point[0].argmax())
        assert arrays["prediction"][at] == best
        assert arrays["sure"][at] == round(100 * one.point[0, best])
        assert arrays["width"][at] == round(100 * (one.upper - one.lower).max())
        assert header["sets"][arrays["set"][at]] == [in_words(one), len(kept)]
        if y[i, r, c] == 255:
            assert arrays["verdicts"][at] == 3
        else:
            verdict = 2 if NAMES[y[i, r, c]] not in kept else int(best != y[i, r, c])
            assert (arrays["labels"][at], arrays["verdicts"][at]) == (y[i, r, c], verdict)
            judged[i].append(verdict)
    for i, scene in enumerate(header["scenes"]):
        assert scene["shares"]["wrong"] == pytest.approx(np.mean([v > 0 for v in judged[i]]))
        assert scene["shares"]["missed"] == pytest.approx(np.mean([v == 2 for v in judged[i]]))
        np.testing.assert_array_equal(arrays[f"picture/{i}"], np.rint(255 * images[i]))
    every = np.concatenate(list(judged.values()))
    assert header["shares"]["wrong"] == pytest.approx(np.mean(every > 0))
    assert header["shares"]["width"] == pytest.approx(maps.width.mean())
    orders = dict(header["orders"])
    wrong = [header["scenes"][i]["shares"]["wrong"] for i in orders["Errors first"]]
    alone = [header["scenes"][i]["shares"]["one class left"] for i in orders["Doubts first"]]
    assert wrong == sorted(wrong, reverse=True)
    assert alone == sorted(alone)
    assert orders["In their order"] == [0, 1, 2]


def test_tokens_have_the_ranges_of_their_foremost_classes():
    K = 9
    z, y = world(4, 6, K=K)
    d = decal.decalibrate(*world(100, 6, seed=1, K=K), alpha=0.9, dim=1)
    tokens = [["w"] * n for n in (6, 3, 1, 6)]
    header, arrays = decoded(d.explore(z, dim=1, labels=y, tokens=tokens).payload.to_bytes())
    assert [scene["shape"] for scene in header["scenes"]] == [[6], [3], [1], [6]]
    maps, at = d.predict(z, dim=1), 0
    for i in range(4):
        for t in range(len(tokens[i])):
            one, slots = maps[i, t], arrays["slots"][at].tolist()
            best = {int(one.point[0].argmax()), int(y[i, t])}
            order = sorted(range(K), key=lambda k: (k not in best, -one.upper[0, k]))
            assert set(slots) == set(order[:6])
            assert (np.diff(one.upper[0, slots]) <= 0).all()
            for name in ("lower", "upper", "point"):
                expected = getattr(one, name)[0, slots]
                np.testing.assert_allclose(arrays[name][at], expected, atol=1e-6)
            at += 1
    assert at == len(arrays["prediction"])


def test_ordered_tokens_list_their_classes_in_order():
    z, _ = world(2, 5, K=9)
    y = world(100, 6, seed=1, K=9)
    d = decal.decalibrate(*y, alpha=0.9, dim=1, order=True)
    slots = d.explore(z, dim=1, tokens=[["w"] * 5] * 2).payload.arrays["slots"]
    assert (np.diff(slots, axis=1) > 0).all()


def test_many_possible_classes_are_counted_and_those_of_a_tree_have_a_name():
    z, y = world(300, K=10)
    names = list("abcdefghij")
    tree = {"x": list("abcde"), "y": list("fghij")}
    d = decal.decalibrate(z, y, miss=0.05, classes=names, tree=tree)
    new = world(4, 6, 6, seed=3, K=10)[0]
    maps = d.predict(new, dim=1)
    header, arrays = decoded(maps.explore().payload.to_bytes())
    seen = set()
    for at in range(len(maps.flat)):
        one = maps.flat[[at]]
        node, size = one.node()[0], one.possible_mask().sum()
        said = header["sets"][arrays["set"][at]]
        expected = {10: "10 classes", 5: f"5 classes of {node}", 1: node}[int(size)]
        assert said == [expected, size]
        seen.add(int(size))
    assert seen == {1, 5, 10}


def test_the_promise_is_told_at_the_models_own_level_only():
    z, y = world(30, 5, 5)
    d = decal.decalibrate(z, y, miss=0.2, unit="image", dim=1)
    own = d.explore(z[:2], dim=1).payload.header
    assert own["promise"] == {"brief": "misses at most 1 label in 5", "text": str(d.promise)}
    other = d.explore(z[:2], dim=1, start=0.5).payload
    assert (other.header["promise"], other.header["alpha"]) == (None, 0.5)
    width = d.predict(z[:2], dim=1, alpha=0.5).width
    np.testing.assert_array_equal(other.arrays["width"], np.rint(100 * width).ravel())
    as_they_are = d.predict(z[:2], dim=1).explore().payload.header
    assert (as_they_are["promise"], as_they_are["alpha"]) == (None, None)


def test_a_page_of_twenty_images_stays_below_three_megabytes():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(20, 5, 128, 128))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    d = decal.decalibrate(z, y, alpha=0.9, dim=1)
    shown = d.explore(z, dim=1, labels=y, images=rng.random((20, 128, 128, 3)))
    assert shown.payload.header["inputs"]["count"] == 20 * 128 * 128  # noise: nothing to compress
    assert len(shown.html()) < 3e6


def test_of_too_many_images_those_most_worth_a_look_are_shown(monkeypatch):
    monkeypatch.setattr(_scenes, "MOST", {2: 110, 1: 10})
    z, y = world(6, 5, 7)
    d = fitted()
    every = [(d.predict(z[i], dim=0).prediction != y[i]).mean() for i in range(6)]
    header = d.explore(z, dim=1, labels=y).payload.header
    worst = sorted(np.argsort(every)[::-1][:3].tolist())
    assert [scene["name"] for scene in header["scenes"]] == [f"Image {i}" for i in worst]
    said = "3 of 6 images, those most worth a look; shares are of all."
    assert header["partly"] == said
    assert header["shares"]["wrong"] == pytest.approx(np.mean(every))
    assert [sorted(order) for _, order in header["orders"]] == [[0, 1, 2]] * 4
    chosen = d.explore(z, dim=1, labels=y, rows=[0, 4]).payload.header
    assert [scene["name"] for scene in chosen["scenes"]] == ["Image 0", "Image 4"]
    assert chosen["partly"] == "2 of 6 images; shares are of all."


def test_large_images_are_thinned_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(_scenes, "LONGEST_SIDE", 10)
    z, y = world(2, 25, 8)
    d, images = fitted(), np.random.default_rng(0).random((2, 25, 8))
    page = d.explore(z, dim=1, labels=y, images=images).payload
    maps = d.predict(z, dim=1)
    assert page.header["scenes"][0]["shape"] == [9, 3]
    np.testing.assert_array_equal(page.arrays["prediction"], maps.prediction[:, ::3, ::3].ravel())
    np.testing.assert_array_equal(page.arrays["labels"], y[:, ::3, ::3].ravel())
    np.testing.assert_array_equal(
        page.arrays["picture/1"][..., 0], np.rint(255 * images[1, ::3, ::3])
    )
    assert page.header["partly"] == "One pixel in 3 of one line in 3 is drawn."
    assert page.header["shares"]["wrong"] == pytest.approx(np.mean(maps.prediction != y))


def test_images_that_are_asked_for_are_thinned_until_they_fit_or_refused(monkeypatch):
    z, _ = world(4, 16, 16)
    monkeypatch.setattr(_scenes, "MOST", {2: 150, 1: 10})
    d = fitted()
    assert d.explore(z, dim=1, rows=4).payload.header["scenes"][3]["shape"] == [6, 6]
    monkeypatch.setattr(_scenes, "MOST", {2: 15, 1: 10})
    with pytest.raises(decal.InputError, match="rows must leave at most 15 pixels, with one line"):
        d.explore(z, dim=1, rows=4)
    with pytest.raises(decal.InputError, match="rows must leave at most 10 tokens: got 32"):
        d.explore(z[:, :, 0], dim=1, tokens=[["w"] * 16] * 4, rows=[1, 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": np.zeros((3, 6, 5), int)}, r"labels must have the shape .*\(5, 6\)"),
        ({"labels": np.full((3, 5, 6), 9)}, "labels must .*9"),
        ({"images": np.zeros((3, 6, 5))}, "images must have the height and width"),
        ({"images": np.zeros((2, 5, 6))}, "images must be a list of 3, as logits are: got 2"),
        ({"names": ["a"]}, "names must be 3, one for each: got 1"),
        ({"rows": [5]}, "rows must lie in 0 to 2"),
        ({"truth": np.zeros((3, 4, 5, 6))}, "truth must be left out for pixels and tokens"),
        ({"texts": ["a"]}, "texts must be left out .* Pass the words as tokens"),
        ({"alphas": [0.9]}, "alphas must be left out for pixels and tokens"),
        ({"compare": (None, None)}, "compare must be left out for pixels and tokens"),
        ({"start": 2.0}, "alpha must lie between 0 and 1"),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(decal.InputError, match=message):
        fitted().explore(world(3, 5, 6)[0], dim=1, **options)


def test_all_labels_may_be_ignored_and_images_may_have_several_sizes():
    d, (z, _) = fitted(), world(2, 5, 6)
    maps = [d.predict(z[0], dim=0), d.predict(z[1, :, :3], dim=0)]
    labels = [np.full((5, 6), -1), np.full((3, 6), -1)]
    header = explore_maps(maps, labels=labels, ignore_index=-1).payload.header
    assert [scene["shape"] for scene in header["scenes"]] == [[5, 6], [3, 6]]
    assert header["shares"]["wrong"] == header["shares"]["missed"] == 0


def test_sentences_need_their_tokens():
    d, (z, _) = fitted(), world(2, 5)
    with pytest.raises(decal.InputError, match="Pass the tokens of sentences"):
        explore_maps([*d.predict(z, dim=1)])


def test_what_is_printed_counts_pixels_and_tokens():
    d, (z, _) = fitted(), world(3, 5, 6)
    assert "3 images, 90 pixels, 4 classes" in repr(d.explore(z, dim=1))
    told = repr(d.explore(z[..., 0], dim=1, tokens=[["a"] * 5] * 3))
    assert "3 sentences, 15 tokens, 4 classes" in told


def test_the_widget_of_a_notebook_draws_scenes():
    pytest.importorskip("anywidget", reason="needs decal[explore]")
    widget = fitted().explore(world(2, 5, 6)[0], dim=1).widget()
    assert _page.bundle("scenes.js") in str(widget._esm)
    assert str(widget._css) == _page.style("scenes.js")


class Uniform:
    """A predictor of somebody else's, which takes matrices."""

    def predict(self, logits, *, alpha=None):
        assert alpha is not None
        p = np.full(np.shape(logits), 1 / np.shape(logits)[1])
        return decal.IntervalCredalSet(p, p, point=p)


def test_other_predictors_say_that_they_take_matrices():
    z = world(2, 5, 6)[0]
    with pytest.raises(decal.InputError, match="dim and ignore_index must go with a Decalibrator"):
        decal.explorer.explore(Uniform(), z, dim=1)
    with pytest.raises(decal.InputError, match="logits must"):
        decal.explorer.explore(Uniform(), z)


def test_ignored_tokens_list_no_class_for_their_label():
    z, y = world(1, 6, K=9)
    y[:] = -1
    d = decal.decalibrate(*world(100, 6, seed=1, K=9), alpha=0.9, dim=1)
    options = {"dim": 1, "tokens": [["w"] * 6]}
    plain = d.explore(z, **options).payload.arrays["slots"]
    ignored = d.explore(z, labels=y, ignore_index=-1, **options).payload.arrays["slots"]
    np.testing.assert_array_equal(ignored, plain)
