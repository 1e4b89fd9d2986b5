"""Models whose classes have an order: how they learn of it, keep it, and promise intervals."""

import numpy as np
import pandas as pd
import pytest

import decal

NAMES = ["1", "2", "3", "4", "5"]


def world(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    logits = -((1.5 * x + 2 - np.arange(5)) ** 2)
    return logits, (1.3 * logits + rng.gumbel(size=(n, 5))).argmax(axis=1)


def is_interval(mask):
    rows = [np.flatnonzero(row) for row in mask]
    return all(len(row) and row[-1] - row[0] == len(row) - 1 for row in rows)


def test_sets_of_an_ordered_model_are_intervals_that_miss_as_promised():
    missed = []
    for seed in range(30):
        logits, labels = world(420, seed)
        d = decal.decalibrate(logits[:220], labels[:220], miss=0.1, order=True)
        assert d.promise.rule == "ordered_majority"
        kept = d.predict(logits[220:]).possible_mask()
        assert is_interval(kept)
        missed.append(1 - kept[np.arange(200), labels[220:]].mean())
    error = np.std(missed) / np.sqrt(len(missed))
    assert np.mean(missed) <= 0.1 + 3 * error
    assert np.mean(missed) >= 0.05


def test_the_promise_holds_over_500_draws():
    logits, labels = world(4000)
    d = decal.Decalibrator(order=True).fit(logits[:200], labels[:200])
    rng, missed = np.random.default_rng(1), []
    for _ in range(500):
        drawn = rng.permutation(np.arange(200, 4000))
        choice = decal.choose(d, logits[drawn[:99]], labels[drawn[:99]], miss=0.2)
        kept = choice.decide(logits[drawn[99:599]])
        assert is_interval(kept)
        missed.append(1 - kept[np.arange(500), labels[drawn[99:599]]].mean())
    error = np.std(missed) / np.sqrt(500)
    assert 0.15 <= np.mean(missed) <= 0.2 + 3 * error


def test_a_promise_for_every_class_keeps_intervals_too():
    logits, labels = world(600)
    d = decal.decalibrate(logits, labels, miss=0.2, per="class", order=True)
    assert is_interval(d.predict(logits).possible_mask())


def test_groups_keep_the_order():
    logits, labels = world(600)
    groups = np.arange(600) % 2
    d = decal.decalibrate(logits, labels, miss=0.2, groups=groups, order=True)
    sets = d.predict(logits[:10], groups=groups[:10])
    assert sets.ordered
    assert is_interval(sets.possible_mask())


def test_an_ordered_categorical_names_the_classes_and_their_order():
    logits, labels = world(300)
    plain = decal.decalibrate(logits, labels, miss=0.1, order=True, classes=NAMES)
    series = pd.Series(pd.Categorical(labels + 1, categories=[1, 2, 3, 4, 5], ordered=True))
    frame = pd.DataFrame(logits, columns=NAMES)[["3", "1", "2", "5", "4"]].assign(grade=series)
    for given in ((logits, series), (logits, series.array), (frame, "grade")):
        found = decal.decalibrate(*given, miss=0.1)
        assert found.classes == tuple(NAMES)
        assert found.promise == plain.promise
        assert found.alpha == plain.alpha
    unordered = series.cat.as_unordered()
    d = decal.Decalibrator().fit(logits, unordered.cat.codes)
    assert not d.predict(logits[:2]).ordered


def test_categories_in_another_order_and_missing_labels_are_refused():
    logits, labels = world(50)
    series = pd.Series(pd.Categorical(labels + 1, categories=[1, 2, 3, 4, 5], ordered=True))
    with pytest.raises(decal.InputError, match="classes must be in the order of the labels'"):
        decal.Decalibrator().fit(logits, series, classes=NAMES[::-1])
    series[7] = None
    with pytest.raises(decal.InputError, match="labels must be known in every row: got .* row 7"):
        decal.Decalibrator().fit(logits, series)
    with pytest.raises(ValueError, match="order must be True or False"):
        decal.Decalibrator(order="yes")


def test_the_order_is_saved_printed_copied_and_merged(tmp_path):
    logits, labels = world(300)
    d = decal.decalibrate(logits, labels, miss=0.1, order=True, classes=NAMES)
    assert "5 ordered classes" in repr(d)
    d.save(tmp_path / "m.npz")
    loaded = decal.load(tmp_path / "m.npz")
    assert loaded.predict(logits[:9]).possible() == d.predict(logits[:9]).possible()
    assert loaded.promise == d.promise
    one = decal.Decalibrator(order=True).fit(logits[:100], labels[:100])
    other = decal.Decalibrator(order=True).fit(logits[100:], labels[100:])
    assert one.merge(other).predict(logits[:1]).ordered
    balls = decal.decalibrate(logits, labels, alpha=0.9, directions="local", order=True)
    assert balls.predict_ball(logits[:3]).box().ordered


def test_choose_takes_the_rule_of_the_order_and_others_that_are_named():
    logits, labels = world(400)
    d = decal.Decalibrator(0.5, directions="local", order=True).fit(logits[:150], labels[:150])
    rows = logits[150:], labels[150:]
    assert decal.choose(d, *rows, miss=0.1).promise.rule == "ordered_majority"
    assert decal.choose(d, *rows, miss=0.1, rule="e_admissible").promise.rule == "e_admissible"
    plain = d.with_settings(order=False)
    assert plain.order is False


def test_a_report_says_from_where_to_where():
    logits, labels = world(300)
    d = decal.decalibrate(logits, labels, miss=0.1, order=True, classes=NAMES)
    report = d.report(logits[:8])
    several = next(names for names in report.possible if len(names) > 1)
    said = f"{several[0]} to {several[-1]}"
    assert said in str(report)
    assert said in report._repr_html_()
    assert " | " not in str(report)
    assert said in str(report[:8])
