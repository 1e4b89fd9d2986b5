"""Trees of classes: how they are read, ranges of nodes, the most specific one that is sure."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal import ClassTree, InputError
from oracles import boxes, trees

NESTED = {"mammal": {"cat": None, "dogs": ["hound", "pug"]}, "bird": ["owl", "wren"]}
PARENTS = {
    "any": None, "mammal": "any", "cat": "mammal", "dogs": "mammal", "hound": "dogs", "pug": "dogs",
    "bird": "any", "owl": "bird", "wren": "bird",
}  # fmt: skip
CLASSES = ("wren", "pug", "cat", "owl", "hound")  # not in the order of the tree
LEVELS = [
    ["mammal", "cat", "cat"],
    ["mammal", "dogs", "hound"],
    ["mammal", "dogs", "pug"],
    ["bird", None, "owl"],
    ["bird", float("nan"), "wren"],
]
FORMS = {
    "nested": NESTED,
    "nested in lists": {"mammal": ["cat", {"dogs": ("hound", "pug")}], "bird": {"owl", "wren"}},
    "edges": [(child, above) for child, above in PARENTS.items() if above],
    "edges without a root": [pair for pair in PARENTS.items() if pair[1] not in (None, "any")],
    "levels": np.array(LEVELS, dtype=object),
    "pandas": pd.DataFrame(LEVELS, columns=["order", "family", "class"]),
}


def as_parents(tree):
    above = (None if at < 0 else tree.names[at] for at in tree.parents)
    return dict(zip(tree.names, above, strict=True))


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_are_one_tree(form):
    tree = ClassTree.of(FORMS[form])
    assert as_parents(tree) == PARENTS
    assert ClassTree.unpacked(tree.packed()) == tree
    assert ClassTree.of(tree) is tree


def test_a_frame_of_polars_is_that_tree_too():
    pl = pytest.importorskip("polars")
    rows = [[None if name != name else name for name in row] for row in LEVELS]
    assert as_parents(ClassTree.of(pl.DataFrame(rows, orient="row"))) == PARENTS


def test_leaves_and_depths_are_by_definition():
    tree = ClassTree.of(NESTED).ordered(CLASSES)
    for at, name in enumerate(tree.names):
        below = trees.leaves_below(PARENTS, name, CLASSES)
        assert {CLASSES[k] for k in np.flatnonzero(tree.leaves[at])} == below
        way = tree.path(name)
        assert way[-1] == name
        assert len(way) == max(tree.depth[at], 1)


def test_a_node_with_one_child_is_fine():
    tree = ClassTree.of({"animal": {"mammal": ["cat", "dog"]}})
    assert tree.names == ("animal", "mammal", "cat", "dog")
    assert tree.path("cat") == ("mammal", "cat")
    assert tree.path("animal") == ("animal",)


LOOP: dict = {"a": {"b": None}}
LOOP["a"]["c"] = LOOP


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([("a", "b"), ("b", "a")], "tree must have no circle: got one through 'a'"),
        ([("a", "r"), ("x", "r"), ("b", "c"), ("c", "b")], "no circle: got one through 'b'"),
        (LOOP, "tree must have every name once: got 'a' twice"),
        ({"x": ["a"], "y": ["a", "b"]}, "every name once: got 'a' twice"),
        ({"x": ["a", "b"], "y": ["x", "c"]}, "every name once: got 'x' twice"),
        ([("a", "x"), ("a", "y")], "got 'a' twice. Pairs are .child, parent.: turn them"),
        (np.array([["x", "a"], ["y", "a"]]), "a row per class: got 'a' again in row 1. Drop dup"),
        (
            np.array([["x", "u", "a"], ["y", "u", "b"]]),
            "every node below one other: got 'u' below 'x' and, in row 1, below 'y'",
        ),
        (np.array([["x", "a"], ["x", ""]]), "have a class in every row: got none in row 1"),
        ([("a", "b", "c")], "be nested mappings .*: got .'a', 'b', 'c'. at index 0"),
        ("ab", "be nested mappings .*: got a str"),
        (3, "got a int"),
        (np.array(["a", "b"]), "got shape"),
        ({"a": None}, "have two classes or more: got a"),
        ({}, "have two classes or more: got none"),
        (
            np.array([["cat", "cat"], ["cat", "lion"], ["bird", "owl"]]),
            "have nothing below a class: got 'cat' above another. Rename the node, or the class",
        ),
        ({"x": [1.5, 2.5]}, "names that are text or whole numbers: got 1.5"),
        ({"any": ["a"], "b": None}, "have no node 'any'"),
    ],
)
def test_what_is_no_tree_is_refused(tree, message):
    with pytest.raises(InputError, match=message):
        ClassTree.of(tree)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (("cat", "hound", "pug", "owl"), "have no leaf but the classes: got wren"),
        ((*CLASSES, "newt"), "have a leaf for every class: got none for newt"),
        (("cat", "dogs", "owl", "wren"), "none for dogs, a node with others below it"),
    ],
)
def test_leaves_must_be_the_classes(classes, message):
    with pytest.raises(InputError, match=message):
        ClassTree.of(NESTED).ordered(classes)
    logits = np.eye(len(classes))
    with pytest.raises(InputError, match=message):
        decal.Decalibrator(tree=NESTED).fit(logits, range(len(classes)), classes=classes)


@pytest.mark.parametrize(
    "damage",
    [{"parents": [-1, 0, 5]}, {"parents": [0, 0, 0]}, {"names": ["a", "a", "b"]}, {"names": [1]}],
)
def test_damaged_trees_of_files_are_refused(damage):
    with pytest.raises(ValueError, match="tree must have"):
        ClassTree.unpacked({"names": ["a", "b", "c"], "parents": [-1, 0, 0]} | damage)


# Ranges


@given(st.integers(0, 2**32 - 1), st.sampled_from(boxes.KINDS))
def test_ranges_in_boxes_are_those_of_linear_programs(seed, kind):
    rng = np.random.default_rng(seed)
    lower, upper = boxes.random_boxes(rng, 3, len(CLASSES), kind)
    credal = decal.IntervalCredalSet(np.minimum(lower, upper), upper, classes=CLASSES)
    found = credal.nodes(NESTED)
    for at, name in enumerate(found.classes):
        inside = np.isin(CLASSES, list(trees.leaves_below(PARENTS, name, CLASSES))) * 1.0
        for row in range(3):
            ends = trees.box_range(*(bound[row] for bound in credal._reachable), inside)
            assert (found.lower[row, at], found.upper[row, at]) == pytest.approx(ends, abs=1e-6)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-6, 0.01, 0.3, 2.0, 9.0]))
def test_ranges_in_balls_are_those_of_kl_to_sixty_digits(seed, radius):
    rng = np.random.default_rng(seed)
    center = rng.dirichlet(np.full(len(CLASSES), 0.7), 2)
    found = decal.KLCredalSet(center, radius, classes=CLASSES).nodes(NESTED)
    for at, name in enumerate(found.classes):
        inside = np.isin(CLASSES, list(trees.leaves_below(PARENTS, name, CLASSES)))
        for row in range(2):
            if name == "any":
                continue
            ends = trees.ball_range(center[row, inside].sum(), radius)
            assert (found.lower[row, at], found.upper[row, at]) == pytest.approx(ends, abs=1e-9)
    assert (found.lower[:, 0] == 1).all()


def test_a_ball_is_sharper_than_its_box_about_nodes():
    ball = decal.KLCredalSet([[0.3, 0.2, 0.2, 0.2, 0.1]], 0.1, classes=CLASSES)
    inner, outer = ball.nodes(NESTED), ball.box().nodes(NESTED)
    assert (inner.lower >= outer.lower - 1e-12).all()
    assert (inner.lower > outer.lower + 0.01).any()


def test_ranges_print_and_go_to_pandas():
    credal = decal.IntervalCredalSet([[0.4, 0.3, 0]], [[0.7, 0.6, 0.1]], classes="abc")
    frame = credal.nodes([("a", "vowel"), ("b", "other"), ("c", "other")]).to_pandas()
    assert frame.index.names == ["row", "node"]
    assert frame.loc[(0, "other"), ["lower", "upper"]].tolist() == pytest.approx([0.3, 0.6])
    with pytest.raises(InputError, match="tree must be given to sets that have none"):
        credal.nodes()
    with pytest.raises(InputError, match="tree must be given to sets that have none"):
        credal.decide("node")


# The most specific node that is sure


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.7, 0.95]))
def test_the_node_is_the_last_that_suffices(seed, least):
    rng = np.random.default_rng(seed)
    center = rng.dirichlet(np.full(len(CLASSES), 0.3), 5)
    credal = decal.KLCredalSet(center, rng.uniform(0, 0.5, 5), classes=CLASSES)
    nodes, found = credal.nodes(NESTED), credal.node(NESTED, least=least)
    for row, name in enumerate(found):
        lower = dict(zip(nodes.classes, nodes.lower[row], strict=True))
        assert name == trees.sure_node(PARENTS, lower, least)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["local", "class", "temperature"]))
def test_a_smaller_alpha_never_names_a_node_further_down(seed, direction):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (40, len(CLASSES)))
    labels = rng.integers(len(CLASSES), size=40)
    labels[: len(CLASSES)] = range(len(CLASSES))
    d = decal.Decalibrator(directions=direction, tree=NESTED).fit(logits, labels, classes=CLASSES)
    before = np.zeros((40, len(CLASSES)), dtype=bool)
    for alpha in (1.0, 0.999, 0.9, 0.5, 0.1, 1e-3, 0.0):
        kept = d.predict(logits, alpha=alpha).decide("node")
        assert (kept >= before).all()
        before = kept
    assert before.all() or direction == "temperature"


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 1.0, 3.0, 9.0]))
def test_costs_are_steps_and_the_best_answer_is_the_last_node_that_is_probable(seed, wrong):
    tree = ClassTree.of(NESTED).ordered(CLASSES)
    costs, truth = tree.costs(wrong=wrong), trees.steps(PARENTS, wrong)
    for node, row in costs.items():
        assert row == pytest.approx({name: truth[node][name] for name in CLASSES})
    p = np.random.default_rng(seed).dirichlet(np.full(len(CLASSES), 0.3))
    point = decal.IntervalCredalSet([p], [p], point=[p], classes=CLASSES)
    best = point.decide("point", utility=tree.utility(wrong=wrong))[0]
    mass = dict(zip(tree.names, tree.leaves @ p, strict=True))
    threshold = wrong / (1 + wrong)
    for name in tree.path(best):
        assert name == "any" or mass[name] >= threshold - 1e-9
    if wrong >= 1:
        assert best == point.node(NESTED, least=threshold)[0]


# With a model


@pytest.fixture(scope="module")
def promised():
    known = decal.datasets.languages("fit")
    shown = {"classes": known.classes, "tree": known.tree}
    return decal.decalibrate(known.logits, known.labels, miss=0.1, **shown)


def test_a_promise_is_about_nodes(promised, tmp_path):
    new = decal.datasets.languages("test")
    assert promised.promise.rule == "node"
    assert str(promised.promise).startswith("At every depth, the true label is outside the kept")
    assert "tree of 30 nodes" in repr(promised)
    credal = promised.predict(new.logits)
    kept = credal.possible_mask()
    tree = promised.tree.ordered(new.classes)
    nodes = {tuple(row) for row in tree.leaves.tolist()}
    assert {tuple(row) for row in kept.tolist()} <= nodes
    missed = ~kept[np.arange(len(kept)), new.labels]
    assert missed.mean() < 0.12
    promised.save(tmp_path / "model.npz")
    again = decal.load(tmp_path / "model.npz")
    assert again.tree == promised.tree
    assert (again.predict(new.logits).possible_mask() == kept).all()


def test_what_is_said_at_any_depth_is_right_as_often(promised):
    new = decal.datasets.languages("test")
    credal = promised.predict(new.logits)
    tree = promised.tree.ordered(new.classes)
    number = {name: at for at, name in enumerate(tree.names)}
    ends = [number[name] for name in credal.node()]
    misses = []
    for depth in (1, 2, 3):
        cut = [0 if not end else tree.numbers_to(end)[:depth][-1] for end in ends]
        misses.append((~tree.leaves[cut, new.labels]).mean())
    assert misses == sorted(misses)
    assert misses[-1] == (~credal.possible_mask()[np.arange(len(new)), new.labels]).mean()


def test_a_frame_of_polars_has_the_path(promised):
    pytest.importorskip("polars")
    report = promised.report(decal.datasets.languages("test").logits[[126]])
    for name in ("node", "path"):
        assert report.to_polars()[name].to_list() == report.to_pandas()[name].tolist()


def test_a_report_has_the_path(promised, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    new = decal.datasets.languages("test")
    report = promised.report(new.logits[[126]], ids=["Limpar"], check=True)
    frame = report.to_pandas()
    assert frame.loc["Limpar", "path"].startswith("Romance [.9")
    assert " › Iberian [" in frame.loc["Limpar", "path"]
    assert frame.loc["Limpar", "node"] == report[0]["node"] == "Iberian"
    assert repr(report).count("Iberian") == 1  # where the path ends
    html = report._repr_html_()
    assert "possible" not in html  # the path says it
    assert re.search(r"Romance&nbsp;\[[^ ]*\] › Iberian&nbsp;\[", html)  # breaks between nodes
    for name in ("report.csv", "report.parquet", "report.html"):
        report.save(tmp_path / name)
    saved = pq.read_table(tmp_path / "report.parquet")
    assert saved["node"].to_pylist() == ["Iberian"]
    assert "Iberian" in saved["path"][0].as_py()
    with pytest.raises(InputError, match="be called like a column of the report: got 'node'"):
        promised.report(new.logits[[126]], ids={"node": ["Limpar"]})
    plain = decal.Decalibrator(0.8).fit(new.logits, new.labels)  # has no such column
    report = plain.report(new.logits[[126]], ids={"node": ["Limpar"]})
    assert report.to_pandas().index.name == "node"
    costs = promised.tree.costs(wrong=9)
    action = promised.report(new.logits[[126]], costs=costs).action
    assert action[0] in promised.tree.names


def test_groups_and_units_are_promised_nodes_too():
    known = decal.datasets.languages("fit")
    shown = {"classes": known.classes, "tree": known.tree, "miss": 0.2}
    short = np.array([len(text) < 25 for text in known.texts])
    d = decal.decalibrate(known.logits, known.labels, groups=short, **shown)
    credal = d.predict(known.logits, groups=short)
    assert set(credal.node()) <= set(credal.tree.names)
    with pytest.raises(InputError, match="per must be left out with a tree"):
        decal.decalibrate(known.logits, known.labels, per="class", **shown)


@pytest.mark.parametrize("draws", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_the_promise_holds_over_draws(draws):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(len(CLASSES), 0.4), 4000)
    labels = (p.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1).clip(max=4)
    logits = np.log(p + 1e-6) * 1.7 + rng.normal(0, 0.5, p.shape)  # too sure, and noisy
    d = decal.Decalibrator(directions="local", tree=NESTED)
    d.fit(logits[:200], labels[:200], classes=CLASSES)
    missed = []
    for _ in range(draws):
        drawn = rng.permutation(np.arange(200, 4000))
        choice = decal.choose(d, logits[drawn[:99]], labels[drawn[:99]], miss=0.2)
        new = drawn[99:599]
        kept = choice.decide(logits[new])
        missed.append(1 - kept[np.arange(500), labels[new]].mean())
    error = np.std(missed) / np.sqrt(draws)
    assert np.mean(missed) <= 0.2 + 3 * error
    assert np.mean(missed) >= 0.15  # and it is not kept by saying nothing


def test_a_tree_may_be_deep():
    tree = ClassTree.of([*((f"{n}", f"{n - 1}") for n in range(1, 3000)), ("leaf", "0")])
    assert tree.depth.max() == len(tree.path("2999")) == 2999
