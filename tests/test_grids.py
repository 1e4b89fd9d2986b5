"""Logits with more axes give the same sets as their rows, in the shape that they came in."""

from contextlib import nullcontext

import numpy as np
import pytest

import decal
from decal.grids import Verdict, scenes

K = 4


def world(*shape, seed=0):
    """Logits (*shape, K), and labels drawn from them."""
    z = np.random.default_rng(seed).normal(0, 2, (*shape, K))
    return z, (z + np.random.default_rng(seed + 1).gumbel(size=z.shape)).argmax(axis=-1)


@pytest.fixture(scope="module")
def fitted():
    z, y = world(6, 5, 7)
    return decal.Decalibrator(0.9).fit(z.reshape(-1, K), y.ravel())


def same_model(one, other):
    new = world(50, seed=9)[0]
    a, b = one.predict(new), other.predict(new)
    np.testing.assert_array_equal(a.lower, b.lower)
    np.testing.assert_array_equal(a.upper, b.upper)


# Equal to rows, to the last bit


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((30,), 0), ((30,), 1)]
    + [((6, 5), axis) for axis in range(3)]
    + [((6, 5, 7), axis) for axis in range(4)]
    + [((3, 2, 5, 7), axis) for axis in range(5)],
)
@pytest.mark.parametrize("kind", ["float64", "float32", "tensor", "masked"])
def test_arrays_of_all_shapes_give_the_sets_of_their_rows(shape, axis, kind):
    z, y = world(*shape)
    z = z.astype(np.float32 if kind == "float32" else np.float64)
    if kind == "masked":
        hidden = np.random.default_rng(3).random(z.shape) < 0.1
        np.put_along_axis(hidden, y[..., None], False, axis=-1)
        z[hidden] = -np.inf
    rows, dense, labels = z.reshape(-1, K), np.moveaxis(z, -1, axis), y
    if kind == "tensor":
        torch = pytest.importorskip("torch")
        dense, labels = torch.from_numpy(dense.copy()), torch.from_numpy(y)
    flat = decal.Decalibrator(0.9).fit(rows, y.ravel())
    d = decal.Decalibrator(0.9).fit(dense, labels, dim=axis)
    same_model(d, flat)
    same_model(decal.Decalibrator(0.9).partial_fit(dense, labels, dim=axis), flat)
    sets, maps = flat.predict(rows), d.predict(dense, dim=axis)
    assert (maps.shape, len(maps)) == (shape, shape[0])
    for name in ("lower", "upper", "point"):
        expected = np.moveaxis(getattr(sets, name).reshape(*shape, K), -1, axis)
        np.testing.assert_array_equal(getattr(maps, name), expected)
    possible = np.zeros((len(rows), K), dtype=bool)
    for row, classes in enumerate(sets.possible()):
        possible[row, classes] = True
    np.testing.assert_array_equal(np.moveaxis(maps.possible, axis, -1).reshape(-1, K), possible)
    np.testing.assert_array_equal(maps.prediction.ravel(), sets.point.argmax(axis=1))
    np.testing.assert_array_equal(maps.width.ravel(), (sets.upper - sets.lower).max(axis=1))
    np.testing.assert_array_equal(maps.restored(sets.total()), sets.total().reshape(shape))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_list_holds_images_of_several_sizes(axis):
    pairs = [world(h, w, seed=h) for h, w in ((4, 6), (4, 4), (9, 2))]
    logits = [np.moveaxis(z, -1, axis) for z, _ in pairs]
    labels = [y for _, y in pairs]
    flat = decal.Decalibrator(0.9).fit(
        np.concatenate([z.reshape(-1, K) for z, _ in pairs]),
        np.concatenate([y.ravel() for y in labels]),
    )
    # The second image alone would fit on two axes; together they tell.
    d = decal.Decalibrator(0.9).fit(logits, labels)
    same_model(d, flat)
    for maps, z, (rows, _) in zip(d.predict(logits, dim=axis), logits, pairs, strict=True):
        np.testing.assert_array_equal(maps.lower.shape, z.shape)
        expected = flat.predict(rows.reshape(-1, K)).lower
        np.testing.assert_array_equal(np.moveaxis(maps.lower, axis, -1).reshape(-1, K), expected)


def test_labels_of_a_list_may_be_one_tensor():
    torch = pytest.importorskip("torch")
    z, y = world(3, 5)
    lists = decal.Decalibrator(0.9).fit([*z], torch.from_numpy(y), dim=-1)
    same_model(lists, decal.Decalibrator(0.9).fit(z, y, dim=-1))


def test_sentences_of_several_lengths_are_a_list_of_matrices():
    sentences = [world(n, seed=n) for n in (3, 8, 5)]
    logits, labels = [z for z, _ in sentences], [y for _, y in sentences]
    with pytest.raises(
        ValueError, match=r"logits must be one array: got a list of 3.*Join batches"
    ):
        decal.Decalibrator(0.9).fit(logits, labels)
    d = decal.Decalibrator(0.9).fit(logits, labels, dim=-1)
    assert d.examples == 16
    assert [maps.shape for maps in d.predict(logits, dim=-1)] == [(3,), (8,), (5,)]


def test_the_axis_is_found_where_only_one_fits():
    z, y = world(6, 5, 7)
    for axis in range(4):
        dense = np.moveaxis(z, -1, axis)
        d = decal.Decalibrator(0.9).fit(dense, y)
        assert d.examples == y.size
        np.testing.assert_array_equal(d.predict(dense).lower, d.predict(dense, dim=axis).lower)


def test_probabilities_weights_names_and_groups_have_the_shape_of_the_labels():
    z, y = world(6, 5, 7)
    p = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
    w = np.random.default_rng(5).random(6)
    names = np.array(["a", "b", "c", "d"])
    given = {"classes": names, "dim": 1}
    d = decal.Decalibrator(0.9, probabilities=True)
    d.fit(np.moveaxis(p, -1, 1), names[y], sample_weight=w, **given)
    flat = decal.Decalibrator(0.9, probabilities=True)
    flat.fit(p.reshape(-1, K), y.ravel(), sample_weight=np.repeat(w, 35), classes=names)
    maps = d.predict(np.moveaxis(p, -1, 1), dim=1)
    np.testing.assert_array_equal(maps[3].flat.upper, flat.predict(p[3].reshape(-1, K)).upper)
    assert maps.classes == ("a", "b", "c", "d")


# Ignored labels


def test_ignored_labels_are_left_out_wherever_they_are():
    z, y = world(6, 5, 7)
    ignored = np.random.default_rng(2).random(y.shape) < 0.3
    masked = np.where(ignored, 255, y)
    dirty = z.copy()
    dirty[ignored] = np.nan  # nobody reads these
    flat = decal.Decalibrator(0.9).fit(z[~ignored], y[~ignored])
    same_model(decal.Decalibrator(0.9).fit(dirty, masked, dim=-1, ignore_index=255), flat)
    rows, labels = dirty.reshape(-1, K), masked.ravel()
    same_model(decal.Decalibrator(0.9).fit(rows, labels, ignore_index=255), flat)
    chunks, known = decal.Decalibrator(0.9), decal.Decalibrator(0.9)
    for some in (slice(2), slice(2, 6)):
        chunks.partial_fit(dirty[some], masked[some], dim=-1, ignore_index=255)
        known.partial_fit(z[some][~ignored[some]], y[some][~ignored[some]])
    same_model(chunks, known)


@pytest.mark.parametrize("wish", [{"width": 0.2}, {"miss": 0.2}, {"hold": 0.5}])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_wish_of_arrays_is_that_of_the_rows_that_are_known(wish, grouped):
    z, y = world(6, 5, 7)
    mixed = decal.Decalibrator(0.9, directions=[decal.Local(mix=0.001)])
    model = mixed.fit(z.reshape(-1, K), y.ravel())
    ignored = np.random.default_rng(2).random(y.shape) < 0.3
    masked, known = np.where(ignored, 255, y), ~ignored
    dense = {"dim": 1, "ignore_index": 255}
    wish, flat = dict(wish), dict(wish)
    if grouped and "width" not in wish:
        wish["groups"] = np.arange(6) % 2  # one for every image
        flat["groups"] = np.broadcast_to(wish["groups"][:, None, None], y.shape)[known]
    may_fail = pytest.warns(decal.InputWarning, match="are not exchangeable with those of a new")
    with nullcontext() if "width" in wish else may_fail:
        found = decal.choose(model, np.moveaxis(z, -1, 1), masked, **wish, **dense)
    assert found.alpha == decal.choose(model, z[known], y[known], **flat).alpha
    if "miss" in wish:
        by = {"groups": wish["groups"]} if "groups" in wish else {}
        rows = {"groups": np.repeat(by["groups"], 35)} if by else {}
        kept = found.decide(np.moveaxis(z, -1, 1), **by, dim=1)
        expected = found.decide(z.reshape(-1, K), **rows)
        np.testing.assert_array_equal(np.moveaxis(kept, 1, -1).reshape(-1, K), expected)


def test_a_coverage_of_arrays_is_that_of_their_rows(fitted):
    z, y = world(6, 5, 7)
    truth = np.exp(1.5 * z) / np.exp(1.5 * z).sum(axis=-1, keepdims=True)
    masked = np.where(np.arange(7) < 5, y, 255)
    known = masked < 255
    asked = {"coverage": 0.8, "guaranteed": True}
    dense = {"dim": 1, "ignore_index": 255}
    turned = {"distributions": np.moveaxis(truth, -1, 1)}
    found = decal.choose(fitted, np.moveaxis(z, -1, 1), masked, **turned, **asked, **dense)
    flat = decal.choose(fitted, z[known], distributions=truth[known], **asked)
    assert (found.alpha, found.promise) == (flat.alpha, flat.promise)
    listed = decal.choose(fitted, list(z), distributions=list(truth), **asked, dim=-1)
    rows = z.reshape(-1, K), truth.reshape(-1, K)
    assert listed.alpha == decal.choose(fitted, rows[0], distributions=rows[1], **asked).alpha
    with pytest.raises(
        ValueError, match=r"distributions must have the shape of the logits, \(6, 4"
    ):
        decal.choose(fitted, np.moveaxis(z, -1, 1), distributions=truth, **asked, dim=1)


# One input, some, all


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "index",
    [
        *(2, -1, slice(1, 4), [0, 5], np.array([True, False] * 3)),
        *((0, 3), (slice(None), 0), (slice(None), slice(1, 3), -1), (..., 2)),
        *((np.int64(4), ..., 1), (slice(None), slice(None), slice(2))),
    ],
    ids=str,
)
def test_maps_are_indexed_as_the_array_of_inputs_is(fitted, axis, index):
    z, _ = world(6, 5, 7)
    maps = fitted.predict(np.moveaxis(z, -1, axis), dim=axis)
    part = maps[index]
    last = np.moveaxis(maps.upper, axis, -1)
    expected = np.stack([last[..., k][index] for k in range(K)], axis=part.axis)
    np.testing.assert_array_equal(part.upper, expected)
    np.testing.assert_array_equal(part.width, maps.width[index])
    # The classes stand before as many axes as in the logits, but for those that are gone.
    if not isinstance(index, tuple):
        assert part.axis == max(axis - isinstance(index, int), 0)


def test_one_input_is_a_credal_set_and_a_mask_picks_inputs(fitted):
    z, y = world(6, 5, 7)
    maps = fitted.predict(z, dim=-1)
    one = maps[2, 3, 4]
    np.testing.assert_array_equal(one.lower, fitted.predict(z[2, 3, 4][None]).lower)
    chosen = maps[y == 1]
    assert chosen.shape == ((y == 1).sum(),)
    np.testing.assert_array_equal(chosen.flat.upper, fitted.predict(z[y == 1]).upper)
    assert [each.shape for each in maps] == [(5, 7)] * 6
    assert repr(maps).startswith("CredalMaps: 6 x 5 x 7 inputs, 4 classes, mean width 0.")
    for index in (([0, 1], 2), None):
        with pytest.raises(ValueError, match="be whole numbers and slices, or one mask or list"):
            maps[index]
    with pytest.raises(IndexError):
        maps[6]


# What cannot be


@pytest.mark.parametrize(
    ("logits", "labels", "given", "message"),
    [
        ((6, 4, 4, 7), (6, 4, 7), {}, r"dim must say which axis holds the classes: got logits of "),
        ((6, 4, 5), (6, 4), {"dim": 1}, r"labels must have the shape of .*, \(6, 5\): got .*6, 4"),
        ((6, 4, 5), (5, 6), {"dim": 1}, r"labels must have the shape of .*, \(6, 5\): got .*5, 6"),
        ((6, 4, 5), (6, 5), {"dim": 3}, "dim must be an axis of logits, of which there are 3: got"),
        ((6, 4, 5), (6, 5), {"dim": True}, "dim must be an axis of logits, of which there are 3"),
        ((6, 4, 5), (9, 9), {}, r"labels must have the shape of .* without one axis.*of \(9, 9\)"),
        ((4,), (), {"dim": 0}, r"logits must have two axes or more.*got shapes \(4,\)"),
    ],
    ids=["ambiguous", "axis", "transposed", "no axis", "flag", "neither", "vector"],
)
def test_shapes_that_do_not_fit_are_refused(logits, labels, given, message):
    with pytest.raises(ValueError, match=message):
        decal.Decalibrator().fit(np.zeros(logits), np.zeros(labels, dtype=int), **given)


def test_new_logits_that_do_not_tell_the_axis_are_refused(fitted):
    with pytest.raises(ValueError, match="dim must say which axis holds the classes"):
        fitted.predict(np.zeros((2, K, 3, K)))
    with pytest.raises(ValueError, match=r"logits must have an axis of 4 classes: got shape \(2, "):
        fitted.predict(np.zeros((2, 3, 5)))
    with pytest.raises(ValueError, match="dim must be the axis of the 4 classes: got 2, of 5 ent"):
        fitted.predict(np.zeros((2, 4, 5)), dim=2)


def test_labels_that_fit_no_axis_are_told_what_to_do():
    z, y = world(6, 5, 7)
    for labels, advice in [
        (y[:, None], r"labels\.squeeze\(1\)"),
        (np.eye(K)[y], r"labels\.argmax\("),
        (y[:, ::2], "Scale the logits to the size of the labels"),
    ]:
        for dim in (None, -1):
            with pytest.raises(ValueError, match=f"labels must have the shape .*{advice}"):
                decal.Decalibrator().fit(z, labels, dim=dim)
    with pytest.raises(ValueError, match=r"got shape \(6,\)\.$"):
        decal.Decalibrator().fit(z, y[:, 0, 0], dim=-1)
    sentences = [(z[k, 0, : k + 2], y[k, 0, : k + 2]) for k in range(4)]
    with pytest.raises(ValueError, match="Of sentences, pass dim=-1"):
        decal.Decalibrator().fit(*zip(*sentences, strict=True))


def test_lists_that_do_not_belong_together_are_refused():
    z, y = world(3, 5)
    d = decal.Decalibrator()
    with pytest.raises(ValueError, match="labels must be a list of 2, as logits are: got 1"):
        d.fit([z, z], [y])
    with pytest.raises(ValueError, match="labels must be a list of 2, as logits are: got int"):
        d.fit([z, z], 3)
    with pytest.raises(ValueError, match=r"labels must have .* without one axis, that of the cla"):
        d.fit([z, z], [y, y[:2]])
    with pytest.raises(ValueError, match=r"as many classes in every array: got \[3, 4\] on axis 2"):
        d.fit([z, z[..., :3]], [y, y % 3])
    with pytest.raises(ValueError, match="two axes or more, as many in every array"):
        d.fit([z, z[0]], [y, y[0]])


def test_nothing_but_ignored_labels_is_refused():
    z, _ = world(3, 5)
    with pytest.raises(ValueError, match="labels must not all be ignored: got only -100"):
        decal.Decalibrator().fit(z, np.full((3, 5), -100), ignore_index=-100)


def test_messages_name_the_index_in_the_array_as_it_came():
    z, y = world(6, 5, 7)
    z, d = np.moveaxis(z, -1, 1).copy(), decal.Decalibrator(0.9)
    z[3, 2, 4, 6] = np.nan
    with pytest.raises(ValueError, match=r"got nan at index \(3, 2, 4, 6\)"):
        d.fit(z, y, dim=1)
    some = np.where(np.arange(6)[:, None, None] == 1, 255, y)
    with pytest.raises(ValueError, match=r"got nan at index \(3, 2, 4, 6\)"):
        d.fit(z, some, dim=1, ignore_index=255)
    z[3, :, 4, 6] = -np.inf
    with pytest.raises(ValueError, match=r"only -inf at index \(3, 4, 6\)"):
        d.fit(z, y, dim=1)
    with pytest.raises(ValueError, match=r"only -inf in array 3, at index \(4, 6\)"):
        d.fit(list(z), list(y))
    z[3, :, 4, 6] = 0.0
    wrong = y.copy()
    wrong[5, 0, 1] = 9
    with pytest.raises(ValueError, match=r"got 9 at index \(5, 0, 1\)"):
        d.fit(z, wrong, dim=1)
    z[2, y[2, 1, 1], 1, 1] = -np.inf
    with pytest.raises(ValueError, match=r"at index \(2, 1, 1\)"):
        d.fit(z, y, dim=1)
    rows, labels = np.zeros((4, K)), np.array([0, 255, 1, 2])
    rows[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"got nan at index \(2, 1\)"):
        d.fit(rows, labels, ignore_index=255)


def test_one_class_in_an_image_is_fine_and_one_in_all_is_what_it_was():
    z, y = world(6, 5, 7)
    y[0] = 2
    same_model(
        decal.Decalibrator(0.9).fit(z, y, dim=-1),
        decal.Decalibrator(0.9).fit(z.reshape(-1, K), y.ravel()),
    )


def test_other_models_and_other_inputs_say_that_they_take_matrices_alone(fitted):
    z, y = world(6, 5)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(z.reshape(-1, K), columns=list("abcd"))
    with pytest.raises(ValueError, match="ignore_index must go with arrays: got a DataFrame"):
        decal.Decalibrator().fit(frame, y.ravel(), ignore_index=255)
    with pytest.raises(ValueError, match="dim must go with arrays: got a DataFrame"):
        fitted.predict(frame, dim=1)
    several = decal.MultiLabelDecalibrator(0.9)
    with pytest.raises(ValueError, match="dim must go with a Decalibrator"):
        several.fit(z.reshape(-1, K), np.eye(K, dtype=int)[y.ravel()], dim=1)
    coupled = decal.CoupledDecalibrator(likelihood="mean")
    with pytest.raises(ValueError, match="be a matrix with a row per example"):
        coupled.fit(z, y)
    local = decal.Decalibrator(0.9, directions="local").fit(z, y, dim=-1)
    with pytest.raises(ValueError, match="be a matrix with a row per example"):
        local.predict_ball(z)


# Measures, and reports


def test_measures_take_maps_and_labels_of_their_shape(fitted):
    z, y = world(6, 5, 7, seed=4)
    ignored = np.random.default_rng(2).random(y.shape) < 0.3
    masked = np.where(ignored, 255, y)
    maps, sets = fitted.predict(np.moveaxis(z, -1, 1), dim=1), fitted.predict(z[~ignored])
    calibration, flat = decal.calibration, y[~ignored]
    for score in (calibration.log_scores, calibration.discounted_utility):
        found = score(maps, masked, ignore_index=255)
        np.testing.assert_array_equal(found, score(sets, flat))
    refuted = calibration.refute(maps, masked, ignore_index=255)
    np.testing.assert_array_equal(refuted.p_values, calibration.refute(sets, flat).p_values)
    assert decal.metrics.efficiency(maps) == decal.metrics.efficiency(maps.flat)
    truth = np.moveaxis(np.eye(K)[y], -1, 1)
    assert decal.metrics.coverage(maps, truth) == decal.metrics.coverage(
        maps.flat, np.eye(K)[y.ravel()]
    )
    with pytest.raises(ValueError, match=r"labels must have the shape of .*\(6, 5, 7\)"):
        calibration.log_scores(maps, y[:2])
    with pytest.raises(ValueError, match=r"distributions must have the shape .*\(6, 4, 5, 7\)"):
        decal.metrics.coverage(maps, np.eye(K)[y])
    with pytest.raises(ValueError, match="ignore_index must go with CredalMaps"):
        calibration.log_scores(sets, flat, ignore_index=255)


def test_a_report_says_why_it_has_no_line_per_pixel(fitted):
    z, _ = world(2, 3)
    with pytest.raises(ValueError, match=r"be a set per line, and not maps.*maps\[mask\]\.flat"):
        fitted.report(z)
    maps = fitted.predict(z)
    assert len(decal.Report.of(maps[maps.width > 0.1].flat)) == (maps.width > 0.1).sum()


# Images and sentences one by one


def verdict(one, label, ignored=-1):
    """How the set of one input fares, by definition."""
    kept = one.possible()[0]
    if label == ignored:
        return Verdict.IGNORED
    if label not in kept:
        return Verdict.MISSED
    return Verdict.RIGHT if one.point[0].argmax() == label else Verdict.WRONG


@pytest.mark.parametrize("axis", [1, 3])
def test_scenes_judge_every_input_by_its_set_and_its_label(fitted, axis):
    z, y = world(3, 5, 4, seed=7)
    y[1, :, 0] = -1
    maps = fitted.predict(np.moveaxis(z, -1, axis), dim=axis)
    found, total = scenes(maps, 2, y, ignore_index=-1, rows=[2, 1])
    assert (total, [scene.number for scene in found]) == (3, [1, 2])
    seen = set()
    for scene in found:
        i = scene.number
        expected = [[verdict(maps[i, r, c], y[i, r, c]) for c in range(4)] for r in range(5)]
        np.testing.assert_array_equal(scene.verdicts, expected)
        seen |= set(np.unique(scene.verdicts))
        known = y[i] >= 0
        np.testing.assert_array_equal(scene.labels[known], y[i][known])
    assert seen == set(Verdict)


def test_scenes_of_a_list_have_several_sizes_and_their_first_ones_are_taken(fitted):
    z, y = world(4, 5, 6)
    maps = fitted.predict(z, dim=-1)
    several = [maps[0], maps[1, :2], maps[2, :, 1:], maps[3]]
    found, total = scenes(several, 2, [y[0], y[1, :2], y[2, :, 1:], y[3]], most=3)
    assert total == 4
    assert [scene.maps.shape for scene in found] == [(5, 6), (2, 6), (5, 5)]
    np.testing.assert_array_equal(found[1].verdicts, scenes(maps, 2, y)[0][1].verdicts[:2])
    assert [s.number for s in scenes(maps, 2, rows=2)[0]] == [0, 1]


def test_a_scene_may_be_ignored_as_a_whole_and_labels_may_be_one_class(fitted):
    z, y = world(2, 3, 3)
    maps = fitted.predict(z, dim=-1)
    (ignored, plain), _ = scenes(maps, 2, np.stack([np.full((3, 3), -1), y[1]]), ignore_index=-1)
    assert (ignored.verdicts == Verdict.IGNORED).all()
    assert not (plain.verdicts == Verdict.IGNORED).any()
    (one,), _ = scenes(maps[0], 2, np.full((3, 3), 2))
    expected = [[verdict(maps[0, r, c], 2) for c in range(3)] for r in range(3)]
    np.testing.assert_array_equal(one.verdicts, expected)


def test_the_words_of_a_batch_may_be_fewer_than_its_padded_logits(fitted):
    z, y = world(2, 4)
    maps = fitted.predict(z, dim=-1)
    (long, short), _ = scenes(maps, 1, y, tokens=[list("abcd"), ("e", "f")])
    assert (long.tokens, short.tokens) == (tuple("abcd"), ("e", "f"))
    assert short.maps.shape == short.verdicts.shape == short.labels.shape == (2,)
    np.testing.assert_array_equal(short.maps.upper, maps.upper[1, :2])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": np.zeros((5, 6), int)}, "labels must be a list of 2, as logits are: got 5"),
        ({"labels": [[0], [1]]}, r"labels must have the shape .*\(5, 6\)"),
        ({"labels": np.full((2, 5, 6), K)}, f"labels must .*{K}"),
        ({"rows": []}, "rows must be a number of inputs or a list"),
        ({"rows": [2]}, "rows must lie in 0 to 1"),
    ],
)
def test_scenes_name_bad_input(fitted, given, message):
    maps = fitted.predict(world(2, 5, 6)[0], dim=-1)
    with pytest.raises(decal.InputError, match=message):
        scenes(maps, 2, **given)


def test_scenes_are_maps_of_the_same_classes(fitted):
    maps = fitted.predict(world(2, 5, 6)[0], dim=-1)
    z, y = world(50)
    named = decal.Decalibrator(0.9).fit(z, y, classes="abcd").predict(world(5, 6)[0], dim=-1)
    for wrong in ([], [maps[0], named]):
        with pytest.raises(decal.InputError, match="maps must have the same classes, and be at"):
            scenes(wrong, 2)
    for wrong in (maps[0, 0], maps.flat, [maps]):
        with pytest.raises(decal.InputError, match=r"maps must be of shape \(height, width\)"):
            scenes(wrong, 2)


def test_labels_that_segmentation_ignores_are_told_to_pass_ignore_index():
    logits, labels = np.random.default_rng(0).normal(size=(4, 3, 5)), np.full((4, 5), 255)
    with pytest.raises(
        ValueError, match="255 often means no label: pass ignore_index=255, or leav"
    ):
        decal.Decalibrator(0.9).fit(logits, labels, dim=1)
    with pytest.raises(ValueError, match=r"got 255 at index \(0, 0\)\.$"):  # a mask of two classes
        decal.Decalibrator(0.9).fit(logits[:, :2], labels, dim=1)


def test_maps_and_sets_say_which_arrays_they_hold_where_one_array_is_wanted():
    logits, labels = (
        np.random.default_rng(0).normal(size=(4, 3, 5)),
        np.arange(20).reshape(4, 5) % 3,
    )
    maps = decal.Decalibrator(0.9).fit(logits, labels, dim=1).predict(logits, dim=1)
    with pytest.raises(TypeError, match="CredalMaps. Pass their lower, upper, point or possible"):
        np.asarray(maps)
    with pytest.raises(
        TypeError, match="credal sets, IntervalCredalSet. Pass their lower, upper or point"
    ):
        np.asarray(maps.flat)
