"""Every number of the page, against the credal set asked one input at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import decal
from decal import Report
from decal.explorer import _payload as payload
from decal.explorer import explore, explore_credal
from helpers.explorations import ALPHAS, close, data, decoded, fitted
from oracles import ordered, trees
from oracles.balls import event_range


def check_numbers(result, sets, prefix="0/", labels=None, truth=None, rest=False, says=None):
    """All arrays of one model: `sets` has the credal sets of the shown inputs at every level."""
    header, arrays = decoded(result.payload.to_bytes())
    n, A, m = header["inputs"]["count"], len(header["alphas"]), header["slots"]
    slots = arrays["slots"]
    assert header["rest"] == rest
    mine = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
    seen = {"lower", "upper", *(name for name in mine if name.startswith("curve/"))}
    for a in range(A):
        for i in range(n):
            c = sets[a][i]
            close(mine["lower"][a, i], expected_bounds(c, slots[i], rest)[0])
            close(mine["upper"][a, i], expected_bounds(c, slots[i], rest)[1])
            for name in ("aleatoric", "epistemic", "total"):
                close(mine[name][a, i], getattr(c, name)(empty="nan")[0])
                seen.add(name)
            for rule in header["rules"]:
                key = rule["key"]
                action = c.decide("e_admissible" if key == "possible" else key, empty="nan")[0]
                if rule["kind"] == "set":
                    kept = {b for b in range(m) if action[slots[i, b]]}
                    bits = int(mine[f"kept/{key}"][a, i])
                    assert {b for b in range(32) if bits >> b & 1} == kept
                    assert mine[f"size/{key}"][a, i] == action.sum()
                    seen |= {f"kept/{key}", f"size/{key}"}
                else:
                    assert mine[f"takes/{key}"][a, i] == action
                    seen.add(f"takes/{key}")
            if labels is not None:
                kept = c.decide("e_admissible", empty="nan")[0]
                assert mine["hit"][a, i] == kept[labels[i]]
                seen.add("hit")
            if truth is not None:
                assert mine["covered"][a, i] == c.contains(truth[[i]])[0]
                seen.add("covered")
    point = sets[header["start"]].point
    if point is not None:
        close(mine["point"], [folded(p, s, rest) for p, s in zip(point, slots, strict=True)])
        best = point.argmax(axis=1)
        assert mine["predicted"].tolist() == best.tolist()
        said = point if says is None else says
        close(mine["says"], [folded(p, s, rest) for p, s in zip(said, slots, strict=True)])
        assert mine["said"].tolist() == said.argmax(axis=1).tolist()
        close(mine["sure"], said.max(axis=1))
        for a in range(A):
            close(mine["least"][a], sets[a].lower[np.arange(n), best])
            close(mine["most"][a], sets[a].upper[np.arange(n), best])
            for bit, share in enumerate(header["shares"]):
                if n == header["inputs"]["total"]:
                    marked = Report.of(sets[a], check=share).check  # they promise nothing
                    assert (mine["asked"][a] >> bit & 1).tolist() == marked.tolist()
        seen |= {"point", "predicted", "says", "said", "sure", "least", "most", "asked"}
    if labels is not None:
        assert arrays["labels"].tolist() == list(labels)
    if truth is not None:
        close(arrays["truth"], [folded(p, s, rest) for p, s in zip(truth, slots, strict=True)])
    assert seen == set(mine)


def folded(p, slots, rest):
    others = [sum(p[k] for k in range(len(p)) if k not in slots)] if rest else []
    return [p[k] for k in slots] + others


def expected_bounds(credal, slots, rest):
    """Least and greatest probability of each slot, an event, by linear programming or vertices."""
    K = credal.shape[1]
    events = [[k] for k in slots]
    if rest:
        events.append([k for k in range(K) if k not in slots])
    ends = [extremes(credal, np.isin(np.arange(K), event)) for event in events]
    return [e[0] for e in ends], [e[1] for e in ends]


def extremes(credal, event):
    if isinstance(credal, decal.HullCredalSet):
        masses = [v[event].sum() for v in credal.vertices[0]]
        return min(masses), max(masses)
    if isinstance(credal, decal.KLCredalSet):
        return event_range(credal.center[0, event].sum(), credal.radius[0])
    if credal.is_empty[0]:
        return np.nan, np.nan
    bounds = np.column_stack([credal.lower[0], credal.upper[0]])
    ends = []
    for sign in (1, -1):
        found = linprog(sign * event, A_eq=np.ones((1, len(event))), b_eq=[1], bounds=bounds)
        assert found.status == 0
        ends.append(sign * found.fun)
    return ends


def test_every_number_is_what_the_credal_set_says():
    z, labels, truth = data(7, 4)
    model = fitted(4, directions=("class", "temperature"))
    result = explore(model, z, labels=labels, truth=truth, alphas=ALPHAS, start=0.9)
    sets = [model.predict(z, alpha=alpha) for alpha in ALPHAS]
    check_numbers(result, sets, labels=labels, truth=truth)
    header = result.payload.header
    assert header["alphas"] == ALPHAS
    assert header["start"] == 1
    assert result.payload.arrays["slots"].tolist() == [[0, 1, 2, 3]] * 7
    assert result.payload.arrays["rows"].tolist() == list(range(7))


def test_classes_beyond_the_slots_are_folded_exactly():
    z, labels, truth = data(6, 7)
    model = fitted(7)
    result = explore(model, z, labels=labels, truth=truth, alphas=ALPHAS, start=0.9, slots=3)
    sets = [model.predict(z, alpha=alpha) for alpha in ALPHAS]
    check_numbers(result, sets, labels=labels, truth=truth, rest=True)
    upper = sets[1].upper
    for slots, ends in zip(result.payload.arrays["slots"], upper, strict=True):
        assert slots.tolist() == sorted(range(7), key=lambda k: -ends[k])[:3]


def test_many_classes_are_stored_in_24_slots():
    z, _, _ = data(5, 40)
    result = explore(fitted(40), z, alphas=[1.0, 0.5])
    assert result.payload.header["slots"] == 24
    assert result.payload.header["rest"]
    assert result.payload.arrays["0/lower"].shape == (2, 5, 25)
    assert decoded(result.payload.to_bytes())[1]["0/upper"].max() <= 1
    all_stored = explore(fitted(31), data(5, 31)[0], alphas=[1.0])
    assert all_stored.payload.header["slots"] == 31
    assert not all_stored.payload.header["rest"]
    # At alpha = 0 nothing is excluded: all 31 bits are set.
    wide = explore(fitted(31), data(5, 31)[0], alphas=[0.0])
    assert set(wide.payload.arrays["0/kept/e_admissible"].ravel()) == {2**31 - 1}


def test_results_do_not_depend_on_the_blocks(monkeypatch):
    z, labels, truth = data(50, 8)
    arguments = {"labels": labels, "truth": truth, "slots": 3, "rows": 20}
    whole = explore(fitted(8), z, **arguments)
    monkeypatch.setattr(payload, "BLOCK_ELEMENTS", 7 * 8)
    parts = explore(fitted(8), z, **arguments)
    for name, array in whole.payload.arrays.items():
        np.testing.assert_allclose(parts.payload.arrays[name], array, rtol=0, atol=1e-7)
    for name, curve in whole.payload.header["models"][0]["curve"].items():
        close(parts.payload.header["models"][0]["curve"][name], curve)


def test_curves_are_over_all_inputs():
    z, labels, truth = data(60, 4)
    model = fitted(4)
    curve = explore(model, z, labels=labels, truth=truth, alphas=ALPHAS, rows=5).payload.header[
        "models"
    ][0]["curve"]
    for a, alpha in enumerate(ALPHAS):
        credal = model.predict(z, alpha=alpha)
        kept = credal.decide("e_admissible")
        assert curve["efficiency"][a] == pytest.approx(decal.metrics.efficiency(credal))
        assert curve["coverage"][a] == pytest.approx(decal.metrics.coverage(credal, truth))
        assert curve["size"][a] == pytest.approx(np.mean([row.sum() for row in kept]))
        missed = np.mean([not row[y] for row, y in zip(kept, labels, strict=True)])
        assert curve["missed"][a] == pytest.approx(missed)
    without = explore(model, z).payload
    assert without.header["models"][0]["curve"]["coverage"] is None
    assert without.header["models"][0]["curve"]["missed"] is None
    assert not {"labels", "truth", "0/hit", "0/covered"} & set(without.arrays)


def test_two_models_stand_side_by_side():
    z, labels, _ = data(6, 5)
    other_z = data(6, 5, seed=9)[0]
    first = fitted(5)
    cal = data(200, 5, seed=3)
    second = decal.decalibrate(*cal[:2], alpha=0.5, classes="一二三四五")
    result = explore(
        first,
        z,
        labels=labels,
        alphas=ALPHAS,
        start=0.9,
        compare=(second, other_z, "Chinese"),
        slots=2,
    )
    header, arrays = result.payload.header, result.payload.arrays
    assert [m["name"] for m in header["models"]] == ["Model A", "Chinese"]
    assert header["models"][0]["classes"] == list("01234")
    assert header["models"][1]["classes"] == list("一二三四五")
    assert ["alpha", "0.5"] in header["models"][1]["settings"]
    pairs = [(first, z), (second, other_z)]
    for i, (model, logits) in enumerate(pairs):
        sets = [model.predict(logits, alpha=alpha) for alpha in ALPHAS]
        check_numbers(result, sets, f"{i}/", labels=labels, rest=True)
    upper = np.max([m.predict(x, alpha=0.9).upper for m, x in pairs], axis=0)
    for slots, ends in zip(arrays["slots"], upper, strict=True):
        assert slots.tolist() == sorted(range(5), key=lambda k: -ends[k])[:2]


def test_a_second_model_must_fit():
    z, _, _ = data(6, 3)
    model = fitted(3, classes="abc")
    with pytest.raises(ValueError, match=r"compare's logits must have the shape of logits, \(6, 3"):
        explore(model, z, compare=(model, z[:4]))
    message = "classes in the same order: got 'c' where the first model has 'a', in column 0"
    with pytest.raises(ValueError, match=message):
        explore(model, z, compare=(fitted(3, classes="cba"), z))


def test_credal_sets_without_a_level_and_empty_ones():
    lower = [[0.1, 0.2, 0.3], [0.6, 0.6, 0.0], [0.0, 0.1, 0.1]]
    upper = [[0.5, 0.6, 0.7], [0.7, 0.7, 0.2], [0.2, 0.3, 0.4]]
    credal = decal.IntervalCredalSet(lower, upper, classes="abc")
    assert credal.is_empty.tolist() == [False, True, True]
    labels, truth = [0, 1, 2], np.array([[0.3, 0.3, 0.4]] * 3)
    result = credal.explore(labels=labels, truth=truth, title="Some sets")
    check_numbers(result, [credal], labels=labels, truth=truth)
    header, arrays = result.payload.header, result.payload.arrays
    assert header["alphas"] == [None]
    assert header["models"][0]["settings"] == []
    assert "point" not in [rule["key"] for rule in header["rules"]]
    assert np.isnan(arrays["0/total"][0, 1:]).all()
    assert np.isnan(arrays["0/lower"][0, 1:]).all()
    assert arrays["0/takes/hurwicz"][0, 1:].tolist() == [-1, -1]
    assert arrays["0/size/e_admissible"][0, 1:].tolist() == [0, 0]
    assert ["empty sets", "2 at first"] in header["models"][0]["summary"]
    assert repr(result).startswith("Exploration: Some sets, 3 inputs, 3 classes\n")
    only_empty = credal[1:].explore(slots=2)
    assert np.isnan(only_empty.payload.arrays["0/upper"]).all()


@pytest.mark.parametrize("slots", [None, 2])
def test_hulls_are_shown_as_hulls(slots):
    rng = np.random.default_rng(0)
    hull = decal.HullCredalSet(rng.dirichlet(np.ones(5), (6, 3)))
    truth = hull.point
    result = explore_credal(hull, truth=truth, slots=slots)
    check_numbers(result, [hull], truth=truth, rest=slots is not None)
    # A box's event bounds would be wider than the hull's own.
    assert "interval_dominance" in [rule["key"] for rule in result.payload.header["rules"]]


@pytest.mark.parametrize("slots", [None, 2])
def test_balls_are_shown_as_balls(slots):
    rng = np.random.default_rng(0)
    balls = decal.KLCredalSet(rng.dirichlet(np.ones(5), 6), rng.uniform(0.01, 0.5, 6))
    truth = rng.dirichlet(np.ones(5), 6)
    result = explore_credal(balls, truth=truth, slots=slots)
    check_numbers(result, [balls], truth=truth, rest=slots is not None)
    assert "interval_dominance" in [rule["key"] for rule in result.payload.header["rules"]]


def test_any_predictor_will_do():
    class Halves:
        """Widens a softmax towards certainty of anything, the more so the smaller alpha."""

        def predict(self, logits, *, alpha=None):
            p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            return decal.HullCredalSet(
                np.stack([p, alpha * p + (1 - alpha) / p.shape[1]], axis=1), classes="xyz"
            )

    z = data(4, 3)[0]
    result = explore(Halves(), z)
    levels = result.payload.header["alphas"]
    assert result.payload.header["own"] is None
    says = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    check_numbers(result, [Halves().predict(z, alpha=alpha) for alpha in levels], says=says)


def test_too_many_inputs_are_sampled_in_order(monkeypatch):
    z, labels, truth = data(300, 3)
    model = fitted(3)
    whole = explore(model, z, labels=labels, truth=truth, alphas=ALPHAS)
    per_row = (array for name, array in whole.payload.arrays.items() if "curve" not in name)
    size = sum(array.nbytes for array in per_row)
    monkeypatch.setattr(payload, "BYTE_BUDGET", size // 3)
    few = explore(model, z, labels=labels, truth=truth, alphas=ALPHAS)
    rows = few.payload.arrays["rows"]
    assert few.payload.header["inputs"]["count"] == len(rows) == 100
    assert few.payload.header["inputs"]["total"] == 300
    assert np.all(np.diff(rows) > 0)
    assert "100 of 300 inputs" in repr(few)
    for name in ("labels", "truth", "0/point"):
        np.testing.assert_array_equal(few.payload.arrays[name], whole.payload.arrays[name][rows])
    for name in ("0/lower", "0/kept/maximality", "0/total", "0/covered"):
        found, expected = few.payload.arrays[name], whole.payload.arrays[name][:, rows]
        np.testing.assert_array_equal(found, expected)
    again = explore(model, z, alphas=ALPHAS, labels=labels, truth=truth)
    np.testing.assert_array_equal(again.payload.arrays["rows"], rows)
    other = explore(model, z, alphas=ALPHAS, labels=labels, truth=truth, seed=1)
    assert set(other.payload.arrays["rows"]) != set(rows)
    with_texts = explore(model, z, alphas=ALPHAS, texts=["long " * 100] * 300)
    assert with_texts.payload.header["inputs"]["count"] < 100
    assert len(explore(model, z, rows=250).payload.arrays["rows"]) == 250
    chosen = explore(model, z, rows=[7, 3, 7], names=range(300)).payload
    assert chosen.arrays["rows"].tolist() == [3, 7]
    assert chosen.header["inputs"]["names"] == ["3", "7"]


def test_progress_is_told():
    seen = []
    explore(
        fitted(3),
        data(30, 3)[0],
        alphas=ALPHAS,
        progress=lambda done, all_: seen.append((done, all_)),
    )
    assert seen[-1] == (30 * 4, 30 * 4)
    assert seen == sorted(seen)


def test_bounds_of_very_many_inputs_travel_in_sixteen_bits(monkeypatch):
    lower, upper = [[0.1, 0.2, 0.3], [0.6, 0.6, 0.0]], [[0.5, 0.6, 0.7], [0.7, 0.7, 0.2]]
    page = decal.IntervalCredalSet(lower, upper).explore()
    monkeypatch.setattr(payload, "EXACT_INPUTS", 1)
    _, arrays = decoded(page.payload.to_bytes())
    for name in ("0/lower", "0/upper"):
        stored, exact = arrays[name], page.payload.arrays[name]
        assert stored.dtype == np.uint16
        assert (stored[0, 1] == 65535).all()  # no distribution satisfies the second row's bounds
        np.testing.assert_allclose(stored[0, 0] / 65534, exact[0, 0], rtol=0, atol=8e-6)


def test_what_the_classifier_says_is_not_what_the_sets_are_around():
    z, labels, _ = data(200, 3)
    model = decal.decalibrate(3 * z, labels, alpha=0.9, reference="best")
    page = explore(model, 3 * z[:8], alphas=[1.0, 0.9])
    says = np.exp(3 * z[:8]) / np.exp(3 * z[:8]).sum(axis=1, keepdims=True)
    check_numbers(page, [model.predict(3 * z[:8], alpha=a) for a in (1.0, 0.9)], says=says)
    assert np.abs(model.predict(3 * z[:8]).point - says).max() > 0.05


@pytest.mark.parametrize("per", [None, "class", "group"])
def test_possible_classes_are_those_of_the_promise(per):
    z, labels, _ = data(900, 3)
    new = data(40, 3, seed=4)[0]
    site, new_site = np.array(["n", "s"])[np.arange(900) % 2], np.array(["n", "s"])[[0, 1] * 20]
    asked = {"miss": 0.1, "rule": "maximality"}
    asked |= {"groups": site[500:]} if per == "group" else {"per": per}
    d = decal.decalibrate(z[:500], labels[:500], alpha=0.9, classes="abc")
    model = decal.choose(d, z[500:], labels[500:], **asked).promised()
    groups = {"odd": [0, 1] * 20, "site": new_site}
    payload = explore(model, new, groups=groups).payload
    options = {"groups": new_site} if per == "group" else {}
    expected = model.report(new, **options).possible
    marked = payload.arrays["0/asked"][payload.header["start"]] >> 3 & 1
    assert marked.tolist() == model.report(new, check=0.1, **options).check.tolist()
    bits = payload.arrays["0/kept/possible"][payload.header["start"]]
    found = [{"abc"[k] for k in range(3) if b >> k & 1} for b in bits.tolist()]
    assert found == [set(names) for names in expected]


def test_inputs_with_the_same_answer_are_alike():
    z = data(6, 3)[0][[0, 1, 2, 1, 0, 3]]
    assert explore(fitted(3), z, alphas=[1]).payload.arrays["alike"].tolist() == [0, 1, 2, 1, 0, 5]
    hull = decal.IntervalCredalSet([[0.1, 0.2]] * 2, [[0.8, 0.9]] * 2)  # says nothing
    assert hull.explore().payload.arrays["alike"].tolist() == [0, 1]


def test_a_page_opens_on_a_sure_error_that_the_data_refute():
    known, new = decal.datasets.languages("fit"), decal.datasets.languages("test")
    model = decal.decalibrate(known.logits, known.labels, miss=0.1, classes=known.classes)
    page = explore(model, new.logits, labels=new.labels, alphas=[1, model.alpha], start=model.alpha)
    first, credal = page.payload.header["first"], model.predict(new.logits)
    p = np.exp(new.logits) / np.exp(new.logits).sum(axis=1, keepdims=True)

    def tells(i):
        k = p[i].argmax()
        two = set(credal[i].possible()[0]) == {new.classes[k], new.classes[new.labels[i]]}
        return k != new.labels[i] and two and p[i, k] > credal.upper[i, k]

    assert first == max(filter(tells, range(len(p))), key=lambda i: p[i].max())
    assert new.texts[first] == "Limpar selección"  # as on the first page and in the README
    plain = explore(fitted(3), data(30, 3)[0], labels=data(30, 3)[1], alphas=ALPHAS).payload
    assert plain.header["first"] == plain.arrays["look"][0]  # the model is never outside


def kept_of(arrays, level, i, K):
    bits = int(arrays["0/kept/possible"][level, i])
    return [k for k in range(K) if bits >> k & 1]


@pytest.mark.parametrize("wish", [{"alpha": 0.8}, {"miss": 0.1}])
def test_possible_classes_of_an_order_are_the_intervals_that_grow_to_one_half(wish):
    z, labels, _ = data(300, 6)
    model = decal.decalibrate(z, labels, order=True, **wish)
    header, arrays = decoded(explore(model, z[:25], alphas=[0.99, 0.5]).payload.to_bytes())
    assert header["models"][0]["ordered"]
    assert "an interval" in header["rules"][0]["meaning"]
    for level, alpha in enumerate(header["alphas"]):
        sets = model.predict(z[:25], alpha=alpha)
        for i in range(25):

            def least(a, b, low=sets.lower[i], high=sets.upper[i]):
                return ordered.box_range(low, high, (np.arange(6) >= a) & (np.arange(6) <= b))[0]

            first, last = ordered.grown(sets.point[i], least)
            assert kept_of(arrays, level, i, 6) == [*range(first, last + 1)]


def test_the_slots_of_many_ordered_classes_stand_in_their_order():
    z, labels, _ = data(400, 40)
    page = explore(decal.decalibrate(z, labels, alpha=0.9, order=True), z[:9], alphas=[0.9])
    slots = page.payload.arrays["slots"]
    assert slots.shape == (9, 24)
    assert (np.diff(slots, axis=1) > 0).all()


def test_a_tree_names_the_last_node_that_is_sure_at_every_level():
    parents = {"any": None, "x": "any", "y": "any", "a": "x", "b": "x", "c": "y", "d": "y"}
    z, labels, _ = data(400, 4)
    tree = {"x": ["a", "b"], "y": ["c", "d"]}
    model = decal.decalibrate(z, labels, miss=0.1, classes="abcd", tree=tree)
    header, arrays = decoded(explore(model, z[:30], alphas=[1, 0.9, 0]).payload.to_bytes())
    names = header["models"][0]["nodes"]
    found = set()
    for level, alpha in enumerate(header["alphas"]):
        sets = model.predict(z[:30], alpha=alpha)
        for i in range(30):
            below = {node: trees.leaves_below(parents, node, "abcd") for node in parents}
            lower = {
                node: trees.box_range(
                    sets.lower[i], sets.upper[i], np.array([k in some for k in "abcd"], float)
                )[0]
                for node, some in below.items()
            }
            node = trees.sure_node(parents, lower, 0)
            assert names[arrays["0/node"][level, i]] == node
            assert {"abcd"[k] for k in kept_of(arrays, level, i, 4)} == below[node]
            found.add(node)
    assert {"any", "x", "a"} <= found


def test_a_tree_without_a_promise_about_nodes_says_possible_classes_one_by_one():
    model = fitted(4, classes="abcd", tree={"x": ["a", "b"], "y": ["c", "d"]})
    page = explore(model, data(5, 4)[0], alphas=[0.9]).payload
    assert page.header["models"][0]["nodes"] is None
    assert "0/node" not in page.arrays
