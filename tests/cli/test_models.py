"""decal fit and predict, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.archives import read_npz

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow.csv as pc
import pyarrow.parquet as pq

import decal
from decal.io.row_files import LogitSource
from decal.io.writers import write_columns
from helpers.commands import refused, run, succeed
from helpers.logit_files import NAMES, read_by_several

pytestmark = pytest.mark.usefixtures("logit_files")


# fit


def in_memory(**settings):
    data = read_npz("logits.npz")
    return decal.decalibrate(data["logits"], data["labels"], **{"alpha": 0.8} | settings)


@pytest.mark.parametrize(
    "source",
    [["logits.csv"], ["logits.npz"], ["logits.npy", "--labels", "labels.npy"]],
    ids=lambda source: source[0],
)
def test_fit_equals_fitting_in_memory(source):
    result = succeed("fit", *source, "-o", "model.npz", "--alpha", 0.9, "--box", "own")
    model = decal.Decalibrator.load("model.npz")
    expected = in_memory(alpha=0.9, box="own")
    assert repr(model) == repr(expected)
    np.testing.assert_allclose(model.shifts().upper, expected.shifts().upper, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.shifts().lower, expected.shifts().lower, rtol=0, atol=1e-12)
    assert "Plausible shifts, alpha 0.9" in result.stdout
    assert "Wrote model.npz: Decalibrator(alpha=0.9" in result.stderr


@pytest.mark.parametrize(
    ("options", "wish"),
    [
        (["--miss", 0.2], {"miss": 0.2}),
        (["--miss", 0.2, "--per", "class", "--seed", 3], {"miss": 0.2, "per": "class", "seed": 3}),
        (["--width", 0.3], {"width": 0.3}),
        (["--hold", 0.7], {"hold": 0.7}),
        (["--miss", 0.2, "--directions", "local"], {"miss": 0.2, "directions": ["local"]}),
    ],
    ids=lambda found: " ".join(map(str, found)) if isinstance(found, list) else "",
)
def test_a_wish_is_granted_as_in_python(options, wish):
    result = succeed("fit", "logits.csv", *options, "-o", "model.npz")
    data = read_npz("logits.npz")
    expected = decal.decalibrate(data["logits"], data["labels"], classes=NAMES, **wish)
    model = decal.Decalibrator.load("model.npz")
    assert repr(model) == repr(expected)
    assert model.promise == expected.promise
    said = " ".join(expected.promise.lines()).replace("per='class'", "--per class")
    assert " ".join(result.stdout.split()) == said
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    by = " ".join(repr(expected).split()).rpartition(" By ")[2]
    assert result.stderr == f"Wrote model.npz: {by[:-1]}\n"


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_labels_of_several_people_are_columns(kind):
    path, logits, votes = read_by_several(kind)
    people = ["--annotators", "ann,bob,cy"]
    for wish in ("hold", "miss"):
        result = succeed("fit", path, f"--{wish}", 0.4, *people, "-o", "model.npz", "--force")
        expected = decal.decalibrate(logits, votes, **{wish: 0.4})
        model = decal.Decalibrator.load("model.npz")
        assert repr(model) == repr(expected)
        assert ("independent draws" in result.stdout) == (wish == "hold")
        choice = decal.choose(expected, logits, votes, miss=0.3)
        told = succeed("choose", "model.npz", path, "--miss", 0.3, *people).stderr
        assert told == f"{choice}\n"
    settings = ["--alpha", 0.6, "--labels-key", "ann"]  # which annotators stand in for
    succeed("fit", path, *settings, *people, "-o", "model.npz", "--force")
    found = decal.Decalibrator.load("model.npz").predict(logits)
    expected = decal.Decalibrator(0.6).fit(logits, votes).predict(logits)
    np.testing.assert_allclose(found.lower, expected.lower)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labels", "labels.npy"], "annotators must be left out with --labels: got both"),
        (["--per", "class"], "per must be left out with several labels per input"),
        (
            ["--annotators", "ann,dan"],
            "a name must be a column of read.csv: got 'dan', which",
        ),
        (
            ["--annotators", "ann,bob,ann"],
            "annotators must be named once each: got 'ann' more",
        ),
        (["--ignore-index", "2"], "ignore-index must be left out with --annotators: got 2"),
        (["--annotators", "bob"], "annotations must hold a label of every row: got none in row 0"),
    ],
)
def test_annotators_that_do_not_fit_are_refused(options, message):
    path, *_ = read_by_several("csv")
    given = ["--columns", ",".join(NAMES), "--annotators", "ann,bob,cy"]
    said = refused("fit", path, "--miss", 0.2, *given, *options, "-o", "model.npz")
    assert message in " ".join(said.split())


def test_a_width_needs_no_annotators():
    path, *_ = read_by_several("csv")
    people = ["--annotators", "ann,bob,cy"]
    succeed("fit", path, "--miss", 0.4, *people, "-o", "model.npz")
    said = refused("choose", "model.npz", path, "--width", 0.2, *people)
    assert "annotators must go with --miss or --hold: got --width" in said


def families(kind):
    """A file of a tree of the classes, two of them together, and that tree."""
    first, *others = NAMES
    tree = {"first": [first], "others": others}
    path = Path(f"families.{kind}")
    if kind == "json":
        path.write_text(json.dumps(tree), encoding="utf-8")
    else:
        lines = [f"{family},{name}" for family, names in tree.items() for name in names]
        path.write_text("\n".join(["family,class", *lines]), encoding="utf-8")
    return path, tree


@pytest.mark.parametrize("kind", ["json", "csv", "order"])
def test_families_and_orders_are_told_by_options(kind):
    path, tree = (None, None) if kind == "order" else families(kind)
    asked = ["--order"] if kind == "order" else ["--tree", path]
    succeed("fit", "logits.csv", "--miss", 0.2, *asked, "-o", "model.npz")
    told = {"order": True} if kind == "order" else {"tree": tree}
    data = read_npz("logits.npz")
    expected = decal.decalibrate(data["logits"], data["labels"], classes=NAMES, miss=0.2, **told)
    model = decal.Decalibrator.load("model.npz")
    assert repr(model) == repr(expected)
    assert model.promise.rule == ("ordered_majority" if kind == "order" else "node")
    sets, others = (d.predict(data["logits"]).possible_mask() for d in (model, expected))
    assert np.array_equal(sets, others)
    # Other commands go by what the model knows.
    wish = decal.choose(expected, data["logits"], data["labels"], miss=0.1)
    assert wish.promise.rule == model.promise.rule
    assert succeed("choose", "model.npz", "logits.csv", "--miss", 0.1).stderr == f"{wish}\n"
    succeed("evaluate", "model.npz", "logits.csv", "--alpha", model.alpha, "-o", "table.csv")
    assert pc.read_csv("table.csv")["set_size"].to_pylist() == [others.sum(axis=1).mean()]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("families.csv", "family,class\na,b\nc", "or nothing in every column: got lines of 1 to 2"),
        ("families.txt", "", "tree must end in .json or .csv"),
        ("families.json", "{", "tree must be a .json file: got families.json"),
        ("families.json", '{"x": ["y", "z"]}', "tree must have a leaf for every class"),
        ("families.csv", "family,class\na", "tree must have two classes or more"),
    ],
)
def test_trees_that_are_none_are_refused(name, text, message):
    Path(name).write_text(text, encoding="utf-8")
    said = refused("fit", "logits.csv", "--miss", 0.2, "--tree", name, "-o", "model.npz")
    assert message in " ".join(said.split())
    assert not Path("model.npz").exists()


def test_a_wish_is_granted_on_probabilities_and_with_weights():
    data = read_npz("logits.npz")
    weights = np.arange(200) % 3
    np.savez("p.npz", probabilities=data["truth"], labels=data["labels"], weights=weights)
    asked = ("--miss", 0.2, "--probabilities", "--floor", 1e-6, "--weights-key", "weights")
    succeed("fit", "p.npz", *asked, "-o", "model.npz")
    expected = decal.decalibrate(
        data["truth"],
        data["labels"],
        miss=0.2,
        sample_weight=weights,
        probabilities=True,
        floor=1e-6,
    )
    assert repr(decal.Decalibrator.load("model.npz")) == repr(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "the wish must be one of --alpha, --miss, --width, --hold: got none. Say how often"),
        (["--alpha", 0.8, "--miss", 0.1], "got --alpha and --miss."),
        (["--alpha", 0.8, "--per", "class"], "per must go with --miss"),
        (["--alpha", 0.8, "--groups", "label"], "groups must go with --miss"),
        (["--miss", 0.1, "--per", "row"], "per must be one of 'class': got 'row'"),
        (["--miss", 0.1, "--per", "class", "--groups", "label"], "groups must be left out"),
        (["--miss", 0.001], "miss must be at least 0.005 with 200 rows: got 0.001. It needs 999"),
        (["--miss", 0.1, "--groups", "site"], "must be a column of logits.csv: got 'site'"),
    ],
)
def test_wishes_that_cannot_be_granted_are_refused(options, message):
    assert message in refused("fit", "logits.csv", "-o", "model.npz", *options)


def test_what_memory_cannot_hold_is_fitted_at_a_level_first(folder_with_ids, monkeypatch):
    choose = "Fit it with --alpha 0.8, and let decal choose grant the wish on held-out rows."
    message = refused("fit", folder_with_ids, "--miss", 0.1, "-o", "model.npz")
    assert "must be one file for a wish" in message
    assert choose in message
    message = refused("fit", folder_with_ids, "-o", "model.npz")
    assert f"got none. {choose}" in message

    def full(*_):
        raise MemoryError

    monkeypatch.setattr(LogitSource, "all", full)
    message = refused("fit", "logits.csv", "--miss", 0.1, "-o", "model.npz")
    assert f"must fit into memory: got logits.csv, which is too large. {choose}" in message


@pytest.mark.parametrize("direction", ["local", "temperature"])
@pytest.mark.parametrize("reference", ["halfway", "auto"])
def test_models_without_class_shifts_are_fitted_and_predict(direction, reference):
    settings = ("--directions", direction, "--reference", reference)
    result = succeed("fit", "--alpha=0.8", "logits.csv", "-o", "model.npz", *settings)
    assert "Learnt from" in result.stdout
    assert "Plausible shifts" not in result.stdout
    succeed("predict", "model.npz", "logits.npz", "-o", "sets.npz")
    expected = in_memory(directions=[direction], reference=reference)
    wanted = expected.predict(read_npz("logits.npz")["logits"])
    np.testing.assert_allclose(read_npz("sets.npz")["lower"], wanted.lower, rtol=0, atol=1e-12)
    assert "efficiency" in succeed("evaluate", "model.npz", "logits.npz").stdout


@pytest.mark.parametrize("setting", [{"likelihood": "sum"}, {"reference": "best"}])
def test_settings_reach_the_model(setting):
    ((name, value),) = setting.items()
    succeed("fit", "--alpha=0.8", "logits.csv", "-o", "model.npz", f"--{name}", value)
    found = decal.Decalibrator.load("model.npz").shifts()
    expected = in_memory(**setting).shifts()
    np.testing.assert_allclose(found.upper, expected.upper, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.center, expected.center, rtol=0, atol=1e-12)


def test_fit_takes_directions():
    succeed("fit", "--alpha=0.8", "logits.npz", "-o", "m.npz", "--directions", "class,temperature")
    expected = in_memory(directions=("class", "temperature")).scales(0.95)
    found = decal.Decalibrator.load("m.npz").scales(0.95)
    assert found.lower == pytest.approx(expected.lower, abs=1e-6)
    message = refused("fit", "--alpha=0.8", "logits.npz", "-o", "n.npz", "--directions", "sideways")
    assert "directions must be one of 'class', 'temperature', 'local'" in message


def test_weights_count_like_repetition():
    weights = np.arange(200) % 3
    np.save("weights.npy", weights)
    succeed("fit", "--alpha=0.8", "logits.npz", "-o", "model.npz", "--weights", "weights.npy")
    data = read_npz("logits.npz")
    expected = decal.decalibrate(
        np.repeat(data["logits"], weights, axis=0), np.repeat(data["labels"], weights), alpha=0.8
    )
    found = decal.Decalibrator.load("model.npz")
    np.testing.assert_allclose(found.shifts().upper, expected.shifts().upper, rtol=0, atol=1e-9)
    np.save("weights.npy", np.zeros(200))
    message = refused("fit", "--alpha=0.8", "logits.npz", "-o", "m.npz", "--weights", "weights.npy")
    assert "weights must be positive somewhere: got only zeros." in message


def test_probabilities_fit_like_their_logits():
    data = read_npz("logits.npz")
    np.savez("p.npz", probabilities=data["truth"], labels=data["labels"])
    succeed("fit", "--alpha=0.8", "p.npz", "-o", "model.npz", "--probabilities")
    found = decal.Decalibrator.load("model.npz").shifts()
    np.testing.assert_allclose(found.upper, in_memory().shifts().upper, rtol=0, atol=1e-9)


def test_a_model_remembers_that_it_was_fitted_on_probabilities():
    data = read_npz("logits.npz")
    p = data["truth"]
    np.savez("p.npz", probabilities=p, labels=data["labels"], truth=p)
    succeed("fit", "--alpha=0.8", "p.npz", "-o", "model.npz", "--probabilities", "--floor", 1e-6)
    model = decal.Decalibrator.load("model.npz")
    assert (model.probabilities, model.floor) == (True, 1e-6)
    succeed("predict", "model.npz", "p.npz", "-o", "sets.npz")
    np.testing.assert_array_equal(read_npz("sets.npz")["lower"], model.predict(p).lower)
    succeed("evaluate", "model.npz", "p.npz")
    succeed("explore", "model.npz", "p.npz", "--export", "page.html")
    succeed("report", "model.npz", "p.npz", "-o", "lines.csv")
    chosen = succeed("choose", "model.npz", "p.npz", "--width", 0.5).stdout
    expected = decal.choose(model, p, width=0.5)
    assert float(chosen) == pytest.approx(expected.alpha, abs=1e-9)
    # Logits of the same model still serve, if one says that they are.
    succeed("predict", "model.npz", "logits.npz", "--logits", "-o", "same.npz")
    found = read_npz("same.npz")["lower"]
    np.testing.assert_allclose(found, read_npz("sets.npz")["lower"], rtol=0, atol=1e-9)
    message = refused("predict", "model.npz", "logits.npy", "-o", "x.npz")
    assert "probabilities must lie between 0 and 1: got" in message


def test_a_reference_of_its_own_is_fitted_on_probabilities_too():
    data = read_npz("logits.npz")
    np.savez("p.npz", probabilities=data["truth"], labels=data["labels"])
    succeed(
        "fit", "--alpha=0.8", "p.npz", "-o", "model.npz", "--probabilities", "--reference", "best"
    )
    found = decal.Decalibrator.load("model.npz").shifts().upper
    expected = in_memory(reference="best").shifts().upper
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("default::decal.InputWarning")
def test_probabilities_passed_as_logits_get_one_line(model):
    data = read_npz("logits.npz")
    columns = {name: data["truth"][:, k] for k, name in enumerate(NAMES)}
    write_columns(Path("p.csv"), columns | {"label": np.array(NAMES)[data["labels"]]})
    warning = (
        "Warning: logits must not be probabilities: got rows that are not negative and sum to 1"
    )
    for command, out in (
        (["fit", "--alpha=0.8", "p.csv"], "out.npz"),
        (["predict", model, "p.csv"], "out.npz"),
        (["choose", model, "p.csv", "--miss", 0.1], "out.csv"),
        (["explore", model, "p.csv"], "out.html"),
        (["triage", "p.csv", "p.csv", "--budget", 0.1], "out.csv"),
    ):
        message = succeed(*command, "-o", out, "--force").stderr.replace("\n", " ")
        assert message.count(warning) == 1
        assert "Add --probabilities if they are" in message


@pytest.mark.parametrize(
    ("spoiled", "message"),
    [
        (np.nan, "be numbers: got nan in p.csv, line 6, column dog. Repair or leave out such rows"),
        (2.0, "got 2.0 in p.csv, line 6, column dog. Divide counts by their sum; say --logits if"),
    ],
)
def test_messages_about_probabilities_advise_options(spoiled, message):
    p = read_npz("logits.npz")["truth"]
    p[4, 1] = spoiled
    columns = dict(zip(NAMES, p.T, strict=True))
    write_columns(Path("p.csv"), columns | {"label": read_npz("logits.npz")["labels"]})
    assert message in refused("fit", "--alpha=0.8", "p.csv", "-o", "model.npz", "--probabilities")


def test_a_zero_of_a_label_is_raised_by_an_option():
    np.savez("p.npz", probabilities=np.eye(3)[[0, 1, 1]], labels=[0, 1, 2])
    message = refused("fit", "--alpha=0.8", "p.npz", "-o", "model.npz", "--probabilities")
    assert "Raise zeros with --floor, for example to 0.2" in message
    message = refused("fit", "--alpha=0.8", "p.npz", "-o", "model.npz", "--floor", 0.1)
    assert "Add --probabilities if they are." in message


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--probabilities", "put a column of 1 - p before it."),
        ("--logits", "put a column of zeros before it."),
    ],
)
def test_one_column_of_a_binary_classifier_is_told_what_is_missing(option, advice):
    write_columns(Path("one.csv"), {"sick": [0.2, 0.7], "label": [0, 1]})
    assert advice in refused("fit", "--alpha=0.8", "one.csv", "-o", "model.npz", option)


def test_many_classes_are_not_all_listed():
    np.savez("wide.npz", logits=9 * np.eye(30), labels=np.arange(30))
    assert (
        "and 10 more classes" in succeed("fit", "--alpha=0.8", "wide.npz", "-o", "model.npz").stdout
    )


# Columns of tables


@pytest.fixture
def with_index(logit_files):  # noqa: ARG001
    """The table of logits as pandas writes it with its index."""
    lines = Path("logits.csv").read_text().splitlines()
    numbered = [f"{i - 1 if i else ''},{line}" for i, line in enumerate(lines)]
    Path("x.csv").write_text("\n".join(numbered) + "\n")
    return "x.csv"


@pytest.fixture
def folder_with_ids(logit_files):  # noqa: ARG001
    """A folder of two tables with a column of identifiers."""
    Path("in").mkdir()
    lines = Path("logits.csv").read_text().splitlines()
    for part, (start, stop) in enumerate([(1, 90), (90, 201)]):
        rows = [f"{i},{lines[i]}" for i in range(start, stop)]
        Path(f"in/{part}.csv").write_text("\n".join([f"id,{lines[0]}", *rows]) + "\n")
    return "in"


CHOICES = [["--columns", "cat,dog,eel"], ["--columns", "eel, cat,dog"]]


@pytest.mark.parametrize("reference", ["model", "best"])
@pytest.mark.parametrize("choice", [*CHOICES, ["--ignore", "Unnamed: 0"]], ids=str)
def test_an_index_is_no_class(with_index, choice, reference):
    fit = ("fit", "--alpha=0.8", with_index, "-o", "m.npz", "--reference", reference)
    message = refused(*fit)
    assert "got a column without a name in x.csv, which looks like an index" in message
    assert "--ignore 'Unnamed: 0', or name the classes with --columns cat,dog,eel" in message
    succeed(*fit, *choice)
    model, expected = decal.Decalibrator.load("m.npz"), in_memory(reference=reference)
    order = [NAMES.index(name) for name in model.classes]
    np.testing.assert_allclose(model.shifts().upper, expected.shifts().upper[order], atol=1e-9)


@pytest.mark.parametrize("choice", [*CHOICES, ["--ignore", "id"]], ids=str)
def test_identifiers_in_a_folder_are_no_class(folder_with_ids, choice):
    fit = ("fit", "--alpha=0.8", folder_with_ids, "-o", "m.npz")
    assert "got the column 'id' in in/0.csv" in refused(*fit)
    succeed(*fit, *choice)
    model = decal.Decalibrator.load("m.npz")
    order = [NAMES.index(name) for name in model.classes]
    upper = in_memory().shifts().upper[order]
    np.testing.assert_allclose(model.shifts().upper, upper, atol=1e-9)
    succeed("predict", "m.npz", folder_with_ids, "-o", "out")
    found = pq.read_table("out/0.parquet")["upper"].to_pylist()
    wanted = in_memory().predict(np.load("logits.npy")[:89]).upper
    np.testing.assert_allclose(found, wanted[:, order], atol=1e-9)


def test_predict_and_evaluate_find_the_columns_of_fit_by_name(model, with_index):
    succeed("predict", model, with_index, "-o", "a.npz")
    succeed("predict", model, with_index, "-o", "b.npz", "--columns", "dog,eel,cat")
    wanted = in_memory().predict(np.load("logits.npy")).upper
    for name in ("a.npz", "b.npz"):
        np.testing.assert_allclose(read_npz(name)["upper"], wanted, atol=1e-9)
    message = refused("predict", model, with_index, "-o", "c.npz", "--columns", "dog,eel")
    assert "columns must be the model's classes cat, dog, eel: got dog, eel." in message
    options = ["--truth", "truth.csv", "--columns", "cat,dog,eel"]
    assert "coverage" in succeed("evaluate", model, with_index, *options).stdout


def test_a_model_without_names_takes_no_index_for_a_class_either(with_index):
    np.savez("unnamed.npz", logits=np.load("logits.npy"), labels=np.load("labels.npy"))
    succeed("fit", "--alpha=0.8", "unnamed.npz", "-o", "m.npz")
    assert "without a name" in refused("predict", "m.npz", with_index, "-o", "a.npz")
    succeed("predict", "m.npz", with_index, "-o", "a.npz", "--columns", "cat,dog,eel")
    wanted = in_memory().predict(np.load("logits.npy")).upper
    np.testing.assert_allclose(read_npz("a.npz")["upper"], wanted, atol=1e-9)


def with_age():
    """The table with a column of numbers that is no class, and no row number either."""
    lines = Path("logits.csv").read_text().splitlines()
    rows = [f"{20.5 + i % 50},{line}" for i, line in enumerate(lines)]
    Path("age.csv").write_text("\n".join([f"age,{lines[0]}", *rows[1:]]) + "\n")
    return "age.csv"


@pytest.mark.parametrize("reference", ["model", "best"])
def test_columns_that_no_label_names_are_refused(reference):
    fit = ("fit", "--alpha=0.8", with_age(), "-o", "m.npz", "--reference", reference)
    message = refused(*fit)
    assert "got age in age.csv, which no label names." in message
    assert "--ignore age; if they are classes, name all with --columns cat,dog,eel,age" in message
    succeed(*fit, "--ignore", "age")
    assert decal.Decalibrator.load("m.npz").classes == NAMES
    for choice in ("*", "age,cat,dog,eel"):
        result = succeed(
            "fit", "--alpha=0.8", "age.csv", "-o", "m.npz", "--columns", choice, "--force"
        )
        assert "1 of 4 classes is never labelled in age.csv: age." in result.stderr
        assert decal.Decalibrator.load("m.npz").classes == ("age", *NAMES)


def test_classes_without_labels_are_told_where_labels_are_numbers():
    logits, labels = np.load("logits.npy"), np.load("labels.npy")
    np.savez("rare.npz", logits=logits[labels < 2], labels=labels[labels < 2])
    result = succeed("fit", "--alpha=0.8", "rare.npz", "-o", "m.npz")
    assert "1 of 3 classes is never labelled in rare.npz: 2." in result.stderr
    result = succeed("fit", "--alpha=0.8", "logits.npz", "-o", "all.npz")
    assert "never labelled" not in result.stderr


@pytest.mark.parametrize("reference", ["model", "best"])
def test_labels_of_one_class_alone_are_refused(reference):
    logits = np.load("logits.npy")
    np.savez("one.npz", logits=logits, labels=np.ones(200, int), classes=NAMES)
    message = refused("fit", "--alpha=0.8", "one.npz", "-o", "m.npz", "--reference", reference)
    assert "labels must" in message
    assert "two classes" in message
    assert not Path("m.npz.checkpoint").exists()


def test_names_with_commas_can_be_quoted():
    Path("x.csv").write_text('"cat, tabby",dog,label\n0.5,1.5,dog\n1.5,0.25,"cat, tabby"\n')
    succeed("fit", "--alpha=0.8", "x.csv", "-o", "m.npz", "--columns", '"cat, tabby",dog')
    assert decal.Decalibrator.load("m.npz").classes == ("cat, tabby", "dog")


def test_a_share_is_mixed_into_local_sets_alone():
    succeed(
        "fit", "--alpha=0.8", "logits.csv", "-o", "m.npz", "--directions", "local", "--mix", 0.01
    )
    assert decal.Decalibrator.load("m.npz").directions == (decal.Local(mix=0.01),)
    message = refused("fit", "--alpha=0.8", "logits.csv", "-o", "n.npz", "--mix", 0.01)
    assert "mix must go with --directions local: got 0.01 for class." in message


# predict


@pytest.mark.parametrize("kind", ["npz", "npy", "csv", "parquet"])
@pytest.mark.parametrize("source", ["logits.csv", "logits.npz", "logits.npy"])
def test_predict_writes_what_the_model_predicts(model, source, kind):
    result = succeed("predict", model, source, "-o", f"out.{kind}", "--alpha", 0.95)
    expected = in_memory().predict(np.load("logits.npy"), alpha=0.95)
    if kind == "npz":
        upper = read_npz("out.npz")["upper"]
    elif kind == "npy":
        upper = np.load("out.npy")[..., 1]
    else:
        table = pc.read_csv("out.csv") if kind == "csv" else pq.read_table("out.parquet")
        upper = table["upper"].to_numpy().reshape(200, 3)
        assert table["class"].to_pylist()[:3] == list(NAMES)
    np.testing.assert_allclose(upper, expected.upper, rtol=0, atol=1e-12)
    width = np.mean(expected.upper - expected.lower)
    assert f"200 inputs at alpha 0.95, mean width {width:.3f}" in result.stderr


def test_the_format_can_be_told_apart_from_the_name(model):
    succeed("predict", model, "logits.csv", "-o", "out", "--format", "parquet")
    assert pq.read_table("out").num_rows == 600
    message = refused("predict", model, "logits.csv", "-o", "out2", "--format", "xlsx")
    assert "output must end in .npz, .npy, .csv or .parquet: got xlsx." in message


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["fit", "--alpha=0.8", "logits.npy"],
            "labels must come with the logits: got none in logits.npy.",
        ),
        (
            ["fit", "--alpha=0.8", "logits.csv", "--label-column", "x"],
            "labels must be found in logits.csv: got no",
        ),
        (
            ["fit", "--alpha=0.8", "logits.npz", "--logits-key", "z"],
            "got no z among logits, labels, classes, truth",
        ),
        (["fit", "logits.csv", "--alpha", "2"], "alpha must lie between 0 and 1: got 2.0."),
        (
            ["fit", "--alpha=0.8", "logits.csv", "--likelihood", "x"],
            "likelihood must be one of 'mean', 'sum'",
        ),
        (
            ["fit", "--alpha=0.8", "logits.csv", "--probabilities"],
            "probabilities must lie between 0 and 1",
        ),
        (["predict", "logits.npz", "logits.csv"], "MODEL must be a file that a command"),
    ],
)
def test_bad_input_ends_in_one_line_and_no_file(arguments, message):
    assert message in refused(*arguments, "-o", "out.npz")


def test_other_numbers_of_classes_are_refused_by_file(model):
    np.save("narrow.npy", np.zeros((5, 2)))
    np.savez("unnamed.npz", logits=np.load("logits.npy"), labels=np.load("labels.npy"))
    succeed("fit", "--alpha=0.8", "unnamed.npz", "-o", "unnamed_model.npz")
    for fitted in (model, "unnamed_model.npz"):
        message = refused("predict", fitted, "narrow.npy", "-o", "out.npz")
        assert "logits must have 3 columns, one per class: got 2 in narrow.npy." in message


# Names of inputs


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_that_name_inputs_stand_beside_their_intervals(model, ending):
    z, patients = np.load("logits.npy"), np.array([f"P-{i}" for i in range(200)])
    columns = {name: z[:, k] for k, name in enumerate(NAMES)}
    table = {"site": np.repeat(["A", "B"], 100), "patient": patients, "age": np.arange(200)}
    write_columns(Path(f"new.{ending}"), table | columns)
    arguments = ("predict", model, f"new.{ending}", "--id-column", "site,patient")
    succeed(*arguments, "-o", "sets.csv")
    found = pc.read_csv("sets.csv").to_pydict()
    assert list(found) == ["row", "site", "patient", "class", "lower", "upper", "point"]
    assert found["patient"] == np.repeat(patients, 3).tolist()
    assert found["site"][:3] == ["A", "A", "A"]
    expected = decal.Decalibrator.load(model).predict(z)
    np.testing.assert_allclose(found["upper"], expected.upper.ravel(), rtol=1e-12)
    succeed("report", model, f"new.{ending}", "--id-column", "patient", "-o", "lines.csv")
    lines = pc.read_csv("lines.csv").to_pydict()
    assert list(lines) == ["patient", "prediction", "possible", "lower", "upper"]
    assert lines["patient"] == patients.tolist()
    succeed(*arguments, "-o", "sets.npz")
    assert read_npz("sets.npz")["patient"].tolist() == patients.tolist()
    message = refused(*arguments, "-o", "x.npy")
    assert "output must be .npz, .csv or .parquet with --id-column: got .npy" in message
    message = refused("predict", model, f"new.{ending}", "--id-column", "name", "-o", "x.csv")
    assert (
        f"a name must be a column of new.{ending}: got 'name', which holds site, patient" in message
    )


def test_a_folder_keeps_the_names_of_inputs(model):
    z = np.load("logits.npy")
    Path("in").mkdir()
    for part in range(2):
        columns = {name: z[part::2, k] for k, name in enumerate(NAMES)}
        ids = {"patient": np.array([f"P-{i}" for i in range(part, 200, 2)])}
        write_columns(Path(f"in/{part}.parquet"), ids | columns)
    succeed("predict", model, "in", "-o", "out", "--id-column", "patient")
    found = pq.read_table("out/1.parquet").to_pydict()
    assert list(found) == ["row", "patient", "lower", "upper", "point"]
    assert found["patient"][2] == "P-5"
    expected = decal.Decalibrator.load(model).predict(z[5:6])
    np.testing.assert_allclose(found["upper"][2], expected.upper[0], rtol=1e-12)


def test_nothing_is_overwritten_without_force(model):
    before = Path(model).read_bytes()
    assert "output must be a new file: got model.npz." in refused(
        "fit", "--alpha=0.8", "logits.csv", "-o", model
    )
    assert Path(model).read_bytes() == before
    succeed("fit", "logits.csv", "-o", model, "--alpha", 0.5, "--force")
    assert decal.Decalibrator.load(model).alpha == 0.5
    for command in ("predict", "evaluate"):
        Path("old.csv").touch()
        assert "Overwrite it with --force." in refused(
            command, model, "logits.npz", "-o", "old.csv"
        )


def test_an_error_in_the_middle_leaves_nothing_behind(model):
    logits = np.load("logits.npy")
    logits[150, 2] = np.nan
    np.save("bad.npy", logits)
    message = refused("predict", model, "bad.npy", "-o", "out.npz")
    assert "logits must be finite or -inf: got nan in bad.npy, row 150, column 2." in message


# Rows that do not belong together


@pytest.fixture
def shuffled(tmp_path, monkeypatch):
    """Files in one folder: labels that belong to the logits, and those of another pass."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=(600, 5))
    y = np.argmax(z + rng.gumbel(size=z.shape), axis=1)
    np.savez("right.npz", logits=z, labels=y)
    np.savez("shuffled.npz", logits=z, labels=rng.permutation(y))
    np.savez("other.npz", logits=0.3 * z)


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("shuffled")
@pytest.mark.parametrize("reference", ["model", "halfway"])
def test_labels_of_another_pass_are_told_once(reference):
    said = ("fit", "--alpha=0.8", "-o", "m.npz", "--reference", reference, "--force")
    assert "Are the columns" not in succeed(*said, "right.npz").stderr
    assert succeed(*said, "shuffled.npz").stderr.count("Are the columns") == 1


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("shuffled")
def test_predictions_that_say_little_are_told_once():
    succeed("fit", "--alpha=0.8", "right.npz", "-o", "m.npz")
    usual = succeed("predict", "m.npz", "right.npz", "-o", "a.npz").stderr
    assert "Warning" not in usual
    other = succeed("predict", "m.npz", "other.npz", "-o", "b.npz", "--alpha", "0.05").stderr
    assert other.count("fit on held-out data") == 1
    assert other.count("alpha is no rate of errors") == 1


# Arrays of more axes, and smaller outputs


@pytest.fixture
def pixels():
    """pixels.npy (20, 3, 4, 5), masks.npy with 255 where unknown, the arrays, and what is known."""
    rng = np.random.default_rng(1)
    z = 2 * rng.standard_normal((20, 3, 4, 5)).astype(np.float32)
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    known = rng.random(y.shape) < 0.8
    known[7] = False
    masks = np.where(known, y, 255).astype(np.uint8)
    np.save("pixels.npy", z)
    np.save("masks.npy", masks)
    return z, masks


FIT = ("fit", "pixels.npy", "--labels", "masks.npy", "--dim", 1, "--ignore-index", 255)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["npy", "npz", "fortran"])
def test_arrays_of_more_axes_are_fitted_as_in_python(pixels, axis, kind, monkeypatch):
    monkeypatch.setattr("decal.io.row_files.CHUNK_ELEMENTS", 40)
    z, y = pixels
    z = np.moveaxis(z, 1, axis)
    labels = ["--labels", "masks.npy"]
    if kind == "npz":
        np.savez("dense.npz", logits=z, labels=y, classes=["a", "b", "c"])
        labels = []
    else:
        np.save("dense.npy", np.asfortranarray(z) if kind == "fortran" else z)
    path = f"dense.{'npz' if kind == 'npz' else 'npy'}"
    asked = (*labels, "--dim", axis - 4 if kind == "fortran" else axis, "--ignore-index", 255)
    succeed("fit", path, *asked, "--alpha", 0.8, "-o", "m.npz")
    names = {"classes": ["a", "b", "c"]} if kind == "npz" else {}
    expected = decal.Decalibrator(0.8).fit(z, y, dim=axis, ignore_index=255, **names)
    model = decal.load("m.npz")
    assert repr(model) == repr(expected)
    np.testing.assert_allclose(model.shifts().upper, expected.shifts().upper, rtol=0, atol=1e-12)
    succeed("predict", "m.npz", path, "--dim", axis, "-o", "out.npz")
    out, last = read_npz("out.npz"), np.moveaxis(z, axis, -1)
    maps = model.predict(z, dim=axis)
    np.testing.assert_array_equal(out["lower"], maps.lower)
    assert ("classes" in out) == (kind == "npz")
    succeed("predict", "m.npz", path, "--dim", axis, "-o", "both.npy")
    both = np.stack([maps.lower, maps.upper], axis=-1)
    np.testing.assert_array_equal(np.load("both.npy"), both)
    succeed("predict", "m.npz", path, "--dim", axis, "-o", "kept.npy", "--kept")
    np.testing.assert_array_equal(np.load("kept.npy"), maps.possible)
    succeed("predict", "m.npz", path, "--dim", axis, "-o", "top.npz", "--top", 1)
    found = read_npz("top.npz")["top"].squeeze(axis)
    np.testing.assert_array_equal(found, maps.prediction)
    told = succeed("evaluate", "m.npz", path, *asked, "--alpha", 0.8).stdout
    sets, flat = model.predict(last[y < 255]), y[y < 255]
    assert f"{1 - sets.decide('e_admissible')[np.arange(len(flat)), flat].mean():.3f}" in told


@pytest.mark.filterwarnings("default::decal.InputWarning")
def test_a_wish_of_images_is_granted_and_one_of_pixels_warned_of(pixels):
    z, y = pixels
    dense = {"dim": 1, "ignore_index": 255}
    options = ("--miss", 0.2, "--unit", "image", "-o", "m.npz", "--force")
    for more, wish in (((), {}), (("--tolerate", 0.3), {"tolerate": 0.3})):
        told = succeed(*FIT, *options, *more).stdout
        expected = decal.decalibrate(z, y, miss=0.2, unit="image", **wish, **dense)
        assert decal.load("m.npz").promise == expected.promise
        assert "guaranteed, by 1" in told
        model = decal.Decalibrator(0.8).fit(z, y, **dense)
        model.save("plain.npz")
        chosen = decal.choose(model, z, y, miss=0.2, unit="image", **wish, **dense)
        asked = ("--miss", 0.2, "--unit", "image", *more)
        said = succeed("choose", "plain.npz", *FIT[1:], *asked).stdout
        assert float(said) == chosen.alpha
    np.save("one.npy", z[0])
    np.save("mask.npy", y[0])
    one = ("fit", "one.npy", "--labels", "mask.npy", "--dim", 0, *FIT[6:])
    assert "unit must go with inputs that come in units" in refused(*one, *options)
    told = succeed(*FIT, "--miss", 0.2, "-o", "pixels.npz").stderr
    assert "are not exchangeable with those of a new one" in told
    assert "Ask for one about units, with --unit image" in told
    np.savez("patients.npz", logits=z, labels=y, patient=np.arange(y.size) // 40)
    by = ("--groups", "patient", "--unit", "patient", "-o", "p.npz", "--force")
    succeed("fit", "patients.npz", *FIT[4:], "--miss", 0.3, *by)
    assert decal.load("p.npz").promise.unit == "patient"
    # Patients of images, which are the first axis, or of rows of pixels.
    numbers = np.arange(20) // 2
    per_row = np.broadcast_to(numbers[:, None], (20, 4))
    for patients in (numbers, per_row, np.char.add("patient ", numbers.astype(str))):
        np.savez("patients.npz", logits=z, labels=y, patient=patients)
        succeed("fit", "patients.npz", *FIT[4:], "--miss", 0.3, *by)
        asked = {"unit": "patient", "groups": patients}
        expected = decal.decalibrate(z, y, miss=0.3, **asked, **dense)
        assert decal.load("p.npz").promise == expected.promise
    succeed("predict", "p.npz", "patients.npz", *FIT[4:6], "--id-column", "patient", "-o", "n.npz")
    assert read_npz("n.npz")["patient"].tolist() == np.repeat(patients, 20).tolist()
    np.savez("patients.npz", logits=z, labels=y, patient=np.arange(19))
    assert "id must have the shape of the logits without their classes, (20, 4, 5)" in refused(
        "fit", "patients.npz", *FIT[4:], "--miss", 0.3, *by
    )
    assert "unit must go with --miss:" in refused(
        *FIT, "--alpha", 0.5, "--unit", "image", "-o", "x.npz"
    )


def test_files_of_more_axes_that_do_not_fit_are_refused(pixels):
    z, y = pixels
    out = ("--alpha", 0.8, "-o", "m.npz")
    assert "say with --dim which holds the classes" in refused(
        "fit", "pixels.npy", "--labels", "masks.npy", *out
    )
    np.save("turned.npy", y.swapaxes(1, 2))
    assert "shape of the logits without their classes, (20, 4, 5): got shape (20, 5, 4)" in refused(
        "fit", "pixels.npy", "--labels", "turned.npy", "--dim", 1, *out
    )
    np.save("cut.npy", y[:, :2])
    assert "without their classes, (20, 4, 5): got shape (20, 2, 5) in cut.npy" in refused(
        "fit", "pixels.npy", "--labels", "cut.npy", "--dim", 1, *out
    )
    assert "255 often means no label: pass --ignore-index 255, or leave" in refused(
        "fit", "pixels.npy", "--labels", "masks.npy", "--dim", 1, *out
    )
    assert "dim must be an axis of pixels.npy: got 4" in refused(
        "fit", "pixels.npy", "--labels", "masks.npy", "--dim", 4, *out
    )
    assert "dim must go with .npy and .npz files" in refused("fit", "logits.csv", "--dim", 1, *out)
    np.save("nothing.npy", np.full_like(y, 255))
    for wish in (("--alpha", 0.8), ("--miss", 0.1)):
        said = refused("fit", "pixels.npy", "--labels", "nothing.npy", *FIT[4:], *wish, *out[2:])
        assert "labels must not all be ignored: got only 255" in said
    z[3, 1, 2, 4] = np.nan
    np.save("pixels.npy", z)
    y[3, 2, 4] = 0
    np.save("masks.npy", y)
    row = np.ravel_multi_index((3, 2, 4), (20, 4, 5))
    assert f"got nan in pixels.npy, row {row}, column 1" in refused(*FIT, *out)


def test_an_interrupted_fit_goes_on_after_ignored_rows(pixels, monkeypatch):
    monkeypatch.setattr("decal.io.checkpoints.CHUNK_ELEMENTS", 60)
    _, y = pixels
    chunks, seen = LogitSource.chunks, []

    def stopping(self, *arguments):
        for chunk in chunks(self, *arguments):
            seen.append(len(chunk))
            yield chunk
            if len(seen) == 6:
                raise KeyboardInterrupt

    monkeypatch.setattr(LogitSource, "chunks", stopping)
    asked = (*FIT, "--alpha", 0.8, "-o", "m.npz", "--checkpoint-every", 0)
    assert run(*asked).exit_code != 0
    monkeypatch.setattr(LogitSource, "chunks", chunks)
    assert "Continuing after 120 rows" in succeed(*asked).stderr
    assert decal.load("m.npz").examples == (y < 255).sum()


def test_less_is_written_on_demand(model):
    d, z = decal.load(model), np.load("logits.npy")
    sets = d.predict(z)
    succeed("predict", model, "logits.npy", "-o", "half.npz", "--dtype", "float32")
    half = read_npz("half.npz")
    assert {half[name].dtype for name in ("lower", "upper", "point")} == {np.dtype("float32")}
    assert (half["lower"] <= sets.lower).all()
    assert (half["upper"] >= sets.upper).all()
    np.testing.assert_allclose(half["lower"], sets.lower, rtol=2e-7)
    np.testing.assert_allclose(half["upper"], sets.upper, rtol=2e-7)
    succeed("predict", model, "logits.npy", "-o", "top.npz", "--top", 2)
    top = read_npz("top.npz")
    order = np.argsort(-sets.point, axis=1, kind="stable")[:, :2]
    np.testing.assert_array_equal(top["top"], order)
    np.testing.assert_array_equal(top["upper"], np.take_along_axis(sets.upper, order, 1))
    possible = sets.decide(sets.rule)
    for path in ("kept.npz", "kept.npy"):
        succeed("predict", model, "logits.npy", "-o", path, "--kept")
    np.testing.assert_array_equal(read_npz("kept.npz")["kept"], possible)
    np.testing.assert_array_equal(np.load("kept.npy"), possible)
    for path, read in (("kept.csv", pc.read_csv), ("kept.parquet", pq.read_table)):
        succeed("predict", model, "logits.npy", "-o", path, "--kept")
        table = read(path).to_pydict()
        rows, classes = np.nonzero(possible)
        assert table == {"row": rows.tolist(), "class": [NAMES[k] for k in classes]}
    succeed("predict", model, "logits.npy", "-o", "top.parquet", "--top", 2, "--dtype", "float32")
    table = pq.read_table("top.parquet").to_pydict()
    assert table["class"] == [NAMES[k] for k in order.ravel()]
    assert table["row"] == np.repeat(np.arange(200), 2).tolist()
    assert str(pq.read_schema("top.parquet").field("lower").type) == "float"


def test_a_promise_says_what_is_kept():
    succeed("fit", "logits.csv", "--miss", 0.2, "--per", "class", "-o", "promise.npz")
    succeed("predict", "promise.npz", "logits.npy", "--kept", "-o", "kept.npy")
    sets = decal.load("promise.npz").predict(np.load("logits.npy"))
    np.testing.assert_array_equal(np.load("kept.npy"), sets.kept)


def test_folders_hold_what_is_asked_for_and_are_not_mistaken_for_others(model):
    Path("in").mkdir()
    for part in ("a", "b"):
        np.save(f"in/{part}.npy", np.load("logits.npy"))
    succeed("predict", model, "in", "-o", "out", "--kept")
    kept = pq.read_table("out/a.parquet").to_pydict()
    sets = decal.load(model).predict(np.load("logits.npy"))
    np.testing.assert_array_equal(kept["kept"], sets.decide(sets.rule))
    assert "be of the same model, level and input" in refused("predict", model, "in", "-o", "out")
    succeed("predict", model, "in", "-o", "out", "--top", 2, "--dtype", "float32", "--force")
    top = pq.read_table("out/b.parquet")
    assert top.column_names == ["row", "top", "lower", "upper", "point"]
    assert len(top["lower"][0]) == 2


def test_outputs_that_cannot_be_are_refused(model):
    asked = ("predict", model, "logits.npy")
    assert "be .npz, .csv or .parquet with --top" in refused(*asked, "-o", "x.npy", "--top", 2)
    assert "dtype must be one of" in refused(*asked, "-o", "x.npz", "--dtype", "int8")
    assert "kept must go without dtype and top: got top 2" in refused(
        *asked, "-o", "x.npz", "--kept", "--top", 2
    )
