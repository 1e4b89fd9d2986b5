"""ONNX: classifiers in files, run to logits, and files that return credal sets, torch or not."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import decal

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper, parser  # noqa: E402

import decal.onnx as decal_onnx  # noqa: E402
from decal.credal.decisions import HEAD_RULES  # noqa: E402
from helpers.packages import installed  # noqa: E402

CLASS, BOTH, LOCAL = ("class",), ("class", "temperature"), ("local",)
MIXED = (decal.Local(mix=0.01, by_entropy=0.1),)
ROOT = (decal.Local(mix=0.01, by_entropy=0.05, root=True),)
EXACT, SINGLE, PEAK = 1e-12, 1e-6, 1e-5
"""What bounds may differ by: in float64, in float32, and where the temperature interpolates."""


def drawn(n=200, K=5, seed=0, without=None):
    """Logits (n, K) and labels drawn from a softer version of their softmax."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, K)) * 3
    y = (0.6 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    if without is not None:
        y[y == without] = (without + 1) % K
    return z, y


def model_of(body, outputs="float[n, 5] p", inputs="float[n, 5] x", opset=17):
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> net ({inputs}) => ({outputs}) {{ {body} }}'
    )


def bounds(path, inputs, names=("lower", "upper")):
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (name,) = (i.name for i in session.get_inputs())
    return session.run(list(names), {name: inputs})


def quiet():
    """Options of a session whose failures are expected."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    return options


def difference(found, credal):
    return max(np.abs(found[0] - credal.lower).max(), np.abs(found[1] - credal.upper).max())


SOFTMAX = model_of("z = Add(x, x)  p = Softmax(z)")


# A head alone


@pytest.mark.parametrize("directions", [CLASS, BOTH, LOCAL, MIXED, ROOT], ids=str)
@pytest.mark.parametrize("reference", ["model", "best", "auto"])
@pytest.mark.parametrize("without", [None, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_head_says_what_predict_says(directions, reference, without, dtype, tmp_path):
    z, y = drawn(without=without)
    d = decal.Decalibrator(0.9, directions=directions, reference=reference).fit(z, y)
    new = drawn(seed=1)[0].astype(dtype)
    new[0, 1] = new[1, :3] = -np.inf  # masked
    new[2] = 0.0
    new[3] = [1e4, -1e4, 0, 0, 0]
    path = decal_onnx.export_head(d, tmp_path / "head.onnx", dtype=dtype)
    exact = EXACT if dtype == "float64" else SINGLE
    assert difference(bounds(path, new), d.predict(new)) < (PEAK if directions == BOTH else exact)


TREE = {"low": {"0": None, "lower": ["1", "4"]}, "high": ["2", "3"]}


@pytest.mark.parametrize("rule", HEAD_RULES)
@pytest.mark.parametrize("directions", [CLASS, BOTH, LOCAL], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 0.99, 1.0])
def test_a_head_keeps_the_classes_that_decide_keeps(rule, directions, dtype, alpha, tmp_path):
    d = decal.Decalibrator(alpha, directions=directions, tree=TREE).fit(*drawn(without=2))
    new = (drawn(2000, seed=1)[0] / 2).astype(dtype)
    new[0] = new[1, :4] = 1.0  # ties
    new[2, 1] = -np.inf
    new[3] = [1e4, -1e4, 0, 0, 0]
    path = decal_onnx.export_head(d, tmp_path / "head.onnx", dtype=dtype, kept=rule)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    *found, kept = bounds(path, new, ["lower", "upper", "kept"])
    credal = d.predict(new)
    assert difference(found, credal) < PEAK
    assert kept.dtype == bool
    assert np.array_equal(kept, credal.decide(rule))


@pytest.mark.parametrize("exported", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_a_class_that_is_nearly_ruled_out_has_a_small_lower_bound(exported, tmp_path):
    d = decal.Decalibrator(0.99, directions=LOCAL).fit(*drawn())
    share = 0.01 * (1 + np.geomspace(1e-7, 0.1, 500))[:, None]  # 0.01 is ruled out
    p = np.hstack([share, np.repeat((1 - share) / 4, 4, axis=1)])
    z, path = np.log(p).astype(np.float32), tmp_path / "head.onnx"
    if exported:
        torch = pytest.importorskip("torch")
        from decal.torch import CredalHead

        names = {"input_names": ["logits"], "output_names": ["lower", "upper"]}
        axes = {"logits": {0: "n"}}
        head = CredalHead(d).eval()
        torch.onnx.export(
            head, (torch.zeros(2, 5),), path, dynamo=False, dynamic_axes=axes, **names
        )
    else:
        decal_onnx.export_head(d, path)
    assert difference(bounds(path, z), d.predict(z)) < SINGLE


@pytest.mark.parametrize("opset", [11, 13, 18, 21])
def test_kept_classes_join_graphs_of_old_and_new_operators(opset, tmp_path):
    classifier = model_of("z = Add(x, x)", "float[n, 5] z", opset=opset)
    d = decal.decalibrate(*drawn(), alpha=0.9)
    one = decal_onnx.append_head(classifier, d, tmp_path / "one.onnx", kept="e_admissible")
    assert decal_onnx.head_outputs(one) == ["lower", "upper"]
    names = ("lower_50", "upper_50", "kept_50")
    more = {"alpha": 0.5, "names": names, "kept": "majority"}
    two = decal_onnx.append_head(one, d, tmp_path / "two.onnx", **more)
    onnx.checker.check_model(onnx.load(two), full_check=True)
    x = drawn(seed=1)[0].astype(np.float32)
    kept, other = bounds(two, x, ["kept", "kept_50"])
    assert np.array_equal(kept, d.predict(2 * x).decide("e_admissible"))
    assert np.array_equal(other, d.predict(2 * x, alpha=0.5).decide("majority"))
    told = {entry.key: json.loads(entry.value) for entry in onnx.load(two).metadata_props}
    assert told["decal.lower_50.upper_50"]["kept"] == "majority"


def test_rules_and_names_that_there_are_not_are_refused(tmp_path):
    d = decal.decalibrate(*drawn(), alpha=0.9)
    out = tmp_path / "head.onnx"
    with pytest.raises(ValueError, match="kept must be one of 'e_admissible'.*got 'maximality'"):
        decal_onnx.export_head(d, out, kept="maximality")
    for names, kept in (("abc", None), ("aba", "majority"), ("a", "majority")):
        with pytest.raises(ValueError, match=r"names.* must be (two|three) that the graph"):
            decal_onnx.append_head(SOFTMAX, d, out, names=tuple(names), kept=kept)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("box", ["own", "joint"])
def test_a_head_takes_any_alpha(alpha, box, tmp_path):
    d = decal.Decalibrator(0.9, box=box).fit(*drawn())
    path = decal_onnx.export_head(d, tmp_path / "head.onnx", alpha=alpha, dtype="float64")
    z = drawn(seed=1)[0]
    assert difference(bounds(path, z), d.predict(z, alpha=alpha)) < EXACT


@pytest.mark.parametrize("asked", [{"miss": 0.1}, {"miss": 0.1, "per": "class"}, {"hold": 0.4}])
def test_a_head_of_a_promise_has_its_alpha(asked, tmp_path):
    z, y = drawn(600)
    d = decal.decalibrate(z, y, **asked)
    path = decal_onnx.export_head(d, tmp_path / "head.onnx", dtype="float64")
    new = drawn(seed=1)[0]
    assert difference(bounds(path, new), d.predict(new, alpha=d.alpha)) < PEAK


@pytest.mark.parametrize("floor", [None, 0.0, 0.01])
def test_a_head_of_probabilities_takes_probabilities(floor, tmp_path):
    z, y = drawn()
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    d = decal.decalibrate(p, y, alpha=0.9, probabilities=True, floor=floor)
    path = decal_onnx.export_head(d, tmp_path / "head.onnx", dtype="float64")
    new = np.vstack([p[:20], [[0.0, 0.2, 0.3, 0.5, 0.0]]])
    assert difference(bounds(path, new), d.predict(new)) < EXACT


@pytest.mark.torch
def test_the_formulas_are_the_lines_that_pytorch_runs(tmp_path):
    torch = pytest.importorskip("torch")
    from decal.torch import CredalHead

    z, y = drawn()
    d = decal.Decalibrator(0.8, directions=(*BOTH, *LOCAL), reference="best").fit(z, y)
    lower, upper = (b.numpy() for b in CredalHead(d)(torch.tensor(z)))
    found = bounds(decal_onnx.export_head(d, tmp_path / "head.onnx", dtype="float64"), z)
    np.testing.assert_allclose(found, [lower, upper], atol=1e-11)


# Behind a classifier


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 21])
def test_a_head_joins_graphs_of_old_and_new_operators(opset, tmp_path):
    classifier = model_of("z = Add(x, x)", "float[n, 5] z", opset=opset)
    d = decal.Decalibrator(0.9, directions=(*BOTH, *LOCAL)).fit(*drawn())
    path = decal_onnx.append_head(classifier, d, tmp_path / "credal.onnx")
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = runtime.InferenceSession(path)
    assert [o.shape for o in session.get_outputs()] == [["n", 5]] * 3
    for rows in (1, 50):
        x = drawn(seed=1)[0][:rows].astype(np.float32)
        logits, *found = session.run(["z", "lower", "upper"], {"x": x})
        assert difference(found, d.predict(2 * x)) < PEAK
        assert np.array_equal(logits, 2 * x)


WRITTEN_OUT = (
    "m = ReduceMax<axes = [-1]>(z)  c = Sub(z, m)  e = Exp(c)  s = ReduceSum(e, axis)  "
    "p = Div(e, s)"
)


@pytest.mark.parametrize(
    "ends",
    [
        "p = Softmax(z)",
        "q = Softmax(z)  p = Identity(q)",
        "q = Softmax(z)  r = Reshape(q, shape)  p = Reshape(r, back)",
        WRITTEN_OUT,
    ],
    ids=["softmax", "identity", "reshape", "written out"],
)
def test_a_head_for_logits_attaches_before_the_softmax(ends, tmp_path):
    classifier = model_of(f"z = Add(x, x)  {ends}")
    constants = {"axis": [-1], "shape": [-1, 1, 5], "back": [-1, 5]}
    for name, value in constants.items():
        array = numpy_helper.from_array(np.array(value, np.int64), name)
        classifier.graph.initializer.append(array)
    d = decal.decalibrate(*drawn(), alpha=0.9)
    x = drawn(seed=1)[0].astype(np.float32)
    x[0] = [60, -60, 0, 0, 0]  # after the Softmax these digits are gone
    path = decal_onnx.append_head(classifier, d, tmp_path / "credal.onnx")
    assert difference(bounds(path, x), d.predict(2 * x)) < SINGLE
    z = decal_onnx.run(classifier, x, read="logits")
    np.testing.assert_allclose(z - z[:, :1], 2 * (x - x[:, :1]), rtol=1e-6, atol=1e-5)


def test_a_head_for_probabilities_attaches_behind_it(tmp_path):
    x = drawn(seed=1)[0].astype(np.float32)
    p = decal_onnx.run(SOFTMAX, x, read="probabilities")
    d = decal.decalibrate(p, drawn(seed=1)[1], alpha=0.9, probabilities=True)
    path = decal_onnx.append_head(SOFTMAX, d, tmp_path / "credal.onnx")
    assert difference(bounds(path, x), d.predict(p)) < SINGLE


def test_two_heads_of_two_levels_share_a_file(tmp_path):
    d = decal.decalibrate(*drawn(), alpha=0.9)
    one = decal_onnx.append_head(SOFTMAX, d, tmp_path / "one.onnx", output="p")
    new = {"alpha": 0.5, "names": ("lower_50", "upper_50"), "output": "p"}
    two = decal_onnx.append_head(one, d, tmp_path / "two.onnx", **new)
    x = drawn(seed=1)[0].astype(np.float32)
    assert difference(bounds(two, x), d.predict(2 * x)) < SINGLE
    again = bounds(two, x, ["lower_50", "upper_50"])
    assert difference(again, d.predict(2 * x, alpha=0.5)) < SINGLE
    told = {entry.key: json.loads(entry.value) for entry in onnx.load(two).metadata_props}
    assert told["decal.lower_50.upper_50"]["alpha"] == 0.5
    assert told["decal.lower.upper"]["classes"] == ["0", "1", "2", "3", "4"]
    assert onnx.load(one).graph.output[0].name == "p"  # the classifier's own come first


def test_a_file_with_heads_still_has_the_outputs_of_its_classifier(tmp_path):
    d = decal.decalibrate(*drawn(), alpha=0.9)
    net = model_of("logits = Add(x, x)", "float[n, 5] logits")
    one = decal_onnx.append_head(net, d, tmp_path / "one.onnx")
    dotted = ("lower.5", "upper.5")
    two = decal_onnx.append_head(one, d, tmp_path / "two.onnx", alpha=0.5, names=dotted)
    x = drawn(seed=1)[0].astype(np.float32)
    assert difference(bounds(two, x, dotted), d.predict(2 * x, alpha=0.5)) < SINGLE
    for file in (one, two, runtime.InferenceSession(two)):
        assert np.array_equal(decal_onnx.run(file, x), 2 * x)
    alone = decal_onnx.export_head(d, tmp_path / "head.onnx")
    for file in (alone, runtime.InferenceSession(alone)):
        with pytest.raises(
            ValueError, match="got none of lower, upper, where lower, upper are bounds of a head"
        ):
            decal_onnx.run(file, x)
    for file, left in ((two, "logits"), (alone, "of which none is left")):
        with pytest.raises(ValueError, match=f"classifier's, {left}: got 'lower', a bound"):
            decal_onnx.append_head(file, d, tmp_path / "no.onnx", output="lower", names=("a", "b"))
    assert not (tmp_path / "no.onnx").exists()


def test_the_classifier_is_not_written_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    d = decal.decalibrate(*drawn(), alpha=0.9)
    onnx.save(SOFTMAX, "net.onnx")
    Path("link.onnx").symlink_to("net.onnx")
    before = Path("net.onnx").read_bytes()
    for out in ("net.onnx", tmp_path / "net.onnx", "link.onnx"):
        with pytest.raises(ValueError, match="out must not replace the classifier: got .*onnx"):
            decal_onnx.append_head("net.onnx", d, out)
    assert Path("net.onnx").read_bytes() == before
    for _ in range(2):  # any other file is replaced, as by save
        decal_onnx.append_head("net.onnx", d, "credal.onnx")

    far = model_of("z = MatMul(x, w)", "float[n, 5] z")
    far.graph.initializer.append(numpy_helper.from_array(np.eye(5, dtype=np.float32), "w"))
    apart = {"save_as_external_data": True, "size_threshold": 0}
    onnx.save(far, "far.onnx", location="other.onnx.data", **apart)
    with pytest.raises(ValueError, match="which would write over other.onnx.data"):
        decal_onnx.append_head("far.onnx", d, "other.onnx")


def test_weights_in_another_file_stay_in_another_file(tmp_path):
    weights = np.eye(5, dtype=np.float32).repeat(200, axis=0)
    big = model_of("z = MatMul(x, w)", "float[n, 5] z", "float[n, 1000] x")
    big.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(big, tmp_path / "big.onnx", save_as_external_data=True, location="big.bin")
    d = decal.decalibrate(*drawn(), alpha=0.9)
    (tmp_path / "new").mkdir()
    path = decal_onnx.append_head(tmp_path / "big.onnx", d, tmp_path / "new" / "credal.onnx")
    assert {p.name for p in path.parent.iterdir()} == {"credal.onnx", "credal.onnx.data"}
    assert path.stat().st_size < weights.nbytes
    x = np.random.default_rng(0).normal(size=(7, 1000)).astype(np.float32) / 10
    z = decal_onnx.run(tmp_path / "big.onnx", x)
    assert difference(bounds(path, x), d.predict(z)) < SINGLE
    big = onnx.load(tmp_path / "big.onnx")
    big.graph.node.append(helper.make_node("Softmax", ["z"], ["p"]))
    big.graph.output[0].name = "p"
    (soft := tmp_path / "soft").mkdir()
    onnx.save(big, soft / "net.onnx", save_as_external_data=True, location="w.bin")
    again = decal_onnx.run(soft / "net.onnx", x, read="logits")
    assert np.array_equal(again, z)


def test_half_precision_is_computed_in_float32(tmp_path):
    half = model_of("h = Add(x, x)  z = Cast<to = 10>(h)", "float16[n, 5] z")
    d = decal.decalibrate(*drawn(), alpha=0.9)
    x = drawn(seed=1)[0].astype(np.float32)
    path = decal_onnx.append_head(half, d, tmp_path / "credal.onnx")
    assert difference(bounds(path, x), d.predict((2 * x).astype(np.float16))) < SINGLE


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_a_network_exported_by_pytorch_and_its_credal_file_agree(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5))
    batch = {"dynamo": True, "dynamic_shapes": ({0: torch.export.Dim("n")},), "verbose": False}
    program = torch.onnx.export(net.eval(), (torch.zeros(2, 8),), optimize=False, **batch)
    program.save(tmp_path / "net.onnx")
    x = torch.randn(300, 8)
    z = net(x).detach().numpy() * 4
    y = (z + np.random.default_rng(0).gumbel(size=z.shape)).argmax(axis=1)
    logits = decal_onnx.run(tmp_path / "net.onnx", x, batch_size=64)
    for directions, reference in ((CLASS, "best"), (BOTH, "model"), (LOCAL, "best")):
        d = decal.Decalibrator(0.8, directions=directions, reference=reference).fit(logits, y)
        path = decal_onnx.append_head(tmp_path / "net.onnx", d, tmp_path / "credal.onnx")
        assert difference(bounds(path, x.numpy()), d.predict(net(x))) < PEAK


# Running


def test_inputs_come_as_arrays_by_name_or_in_batches():
    x = drawn(n=10)[0].astype(np.float32)
    classifier = model_of("z = Add(x, x)", "float[n, 5] z")
    session = runtime.InferenceSession(classifier.SerializeToString())
    for source in (classifier, classifier.SerializeToString(), session):
        for inputs in (x, {"x": x}, iter([x[:4], x[4:]]), [{"x": x[:9]}, {"x": x[9:]}]):
            z = decal_onnx.run(source, inputs, batch_size=3)
            assert np.array_equal(z, 2 * x)
            assert z.dtype == np.float32
    assert np.array_equal(decal_onnx.run(classifier, x.astype(float)), 2 * x)


def test_a_fixed_batch_is_filled_up_and_cut_again():
    x = drawn(n=10)[0].astype(np.float32)
    fixed = model_of("z = Add(x, x)", "float[4, 5] z", "float[4, 5] x")
    assert np.array_equal(decal_onnx.run(fixed, x), 2 * x)


def zipmap_model():
    """As scikit-learn's forests are converted: labels, and dictionaries of probabilities."""
    tree = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        classlabels_int64s=[3, 7],
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.0, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0, 0, 0, 0],
        class_nodeids=[1, 1, 2, 2],
        class_ids=[0, 1, 0, 1],
        class_weights=[0.75, 0.25, 0.125, 0.875],
        post_transform="NONE",
    )
    zipped = helper.make_node(
        "ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml", classlabels_int64s=[3, 7]
    )
    row = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
        helper.make_value_info("probabilities", helper.make_sequence_type_proto(row)),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 1])]
    graph = helper.make_graph([tree, zipped], "forest", given, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_dictionaries_of_probabilities_are_read_as_a_matrix(tmp_path):
    forest, x = zipmap_model(), np.array([[-1.0], [1.0], [2.0]], np.float32)
    expected = [[0.75, 0.25], [0.125, 0.875], [0.125, 0.875]]
    assert np.array_equal(decal_onnx.run(forest, x, read="probabilities"), expected)
    session = runtime.InferenceSession(forest.SerializeToString())
    assert np.array_equal(decal_onnx.run(session, x, read="probabilities"), expected)
    for read in (None, "logits"):
        with pytest.raises(
            ValueError, match=f"'probabilities' for the output 'probabilities': got {read!r}"
        ):
            decal_onnx.run(forest, x, read=read)
    d = decal.decalibrate(expected, [0, 1, 0], alpha=0.9, probabilities=True)
    path = decal_onnx.append_head(forest, d, tmp_path / "credal.onnx")
    assert difference(bounds(path, x), d.predict(expected)) < SINGLE
    logits = decal.decalibrate([[2.0, 0.0], [0.0, 1.0]], [0, 1], alpha=0.8)
    with pytest.raises(ValueError, match="must take probabilities, as TreeEnsembleClassifier"):
        decal_onnx.append_head(forest, logits, tmp_path / "no.onnx")


def test_probabilities_are_never_taken_for_logits():
    x = drawn()[0].astype(np.float32)
    with pytest.raises(ValueError, match="read must say what to take.*'p' is made by Softmax"):
        decal_onnx.run(SOFTMAX, x)
    session = runtime.InferenceSession(SOFTMAX.SerializeToString())
    with pytest.warns(decal.InputWarning, match="the path of the model with read='logits'"):
        decal_onnx.run(session, x)
    sigmoids = model_of("p = Sigmoid(x)")
    with pytest.raises(ValueError, match="'p' is made by Sigmoid"):
        decal_onnx.run(sigmoids, x)
    assert np.array_equal(decal_onnx.run(sigmoids, x, read="logits"), x)


TWO = model_of("z = Add(x, x)  y = Neg(x)", "float[n, 5] z, float[n, 5] y")
PAIR = model_of("z = Add(x, y)", "float[n, 5] z", "float[n, 5] x, float[n, 5] y")


@pytest.mark.parametrize(
    ("model", "inputs", "options", "message"),
    [
        (TWO, np.zeros((2, 5)), {}, "output must be given.*got z, y of z, y. Pass output=."),
        (
            TWO,
            np.zeros((2, 5)),
            {"output": "w"},
            "output must be one of the model's, z, y: got 'w'",
        ),
        (SOFTMAX, np.zeros((2, 5)), {"read": "both"}, "read must be one of"),
        (PAIR, np.zeros((2, 5)), {}, "inputs must be a mapping, as the model has 2 inputs, x, y"),
        (PAIR, {"x": np.zeros((2, 5))}, {}, "inputs must be x, y, as the model's: got x"),
        (
            PAIR,
            {"x": np.zeros((2, 5)), "y": np.zeros((3, 5))},
            {},
            "inputs must have as many rows each: got {'x': 2, 'y': 3}",
        ),
        (TWO, np.zeros((2, 5, 1)), {"output": "z"}, r"inputs must have 2 axes for 'x'"),
        (TWO, np.zeros((2, 5), complex), {"output": "z"}, "must be of type float32 for 'x'"),
        (TWO, iter(()), {"output": "z"}, "inputs must hold at least one batch: got none"),
        (TWO, np.zeros((2, 5)), {"batch_size": 0}, "batch_size must be a whole number"),
        (b"no model", np.zeros((2, 5)), {}, "model must be a model of ONNX: got bytes"),
        (3, np.zeros((2, 5)), {}, "model must be the path of an .onnx file"),
    ],
)
def test_what_cannot_run_is_refused(model, inputs, options, message):
    with pytest.raises(ValueError, match=message):
        decal_onnx.run(model, inputs, **options)


def test_what_cannot_be_appended_is_refused(tmp_path):
    out = tmp_path / "credal.onnx"
    d = decal.decalibrate(*drawn(), alpha=0.9)
    cases = [
        (
            SOFTMAX,
            decal.decalibrate(*drawn(K=4), alpha=0.8),
            {},
            "must have 5 classes, the columns of 'p'",
        ),
        (
            SOFTMAX,
            d,
            {"names": ("p", "upper")},
            "names must be two.*got 'p', which is in the graph",
        ),
        (SOFTMAX, d, {"names": ("a", "a")}, r"names must be two.*got \('a', 'a'\)"),
        (SOFTMAX, d, {"alpha": 2}, "alpha must lie between 0 and 1"),
        (model_of("p = Sigmoid(x)"), d, {}, "a Sigmoid makes.*MultiLabelDecalibrator"),
    ]
    p = np.full((20, 5), 0.2)
    counts = decal.decalibrate(p, drawn(20)[1], probabilities=True, alpha=0.8)
    plain = model_of("z = Add(x, x)", "float[n, 5] z")
    cases.append((plain, counts, {}, "decalibrator must take logits.*'z' is no Softmax"))
    for model, decalibrator, options, message in cases:
        with pytest.raises(ValueError, match=message):
            decal_onnx.append_head(model, decalibrator, out, **options)
    with pytest.raises(decal.NotFittedError):
        decal_onnx.append_head(SOFTMAX, decal.Decalibrator(), out)
    labels = decal.MultiLabelDecalibrator().fit(drawn()[0], drawn(seed=1)[0] > 0)
    message = "decalibrator must be a Decalibrator: got a MultiLabelDecalibrator.*Use its predict"
    with pytest.raises(TypeError, match=message):
        decal_onnx.append_head(SOFTMAX, labels, out)
    with pytest.raises(TypeError, match=message):
        decal_onnx.export_head(labels, out)
    with pytest.raises(
        FileNotFoundError, match="must be an .onnx file: got .*which does not exist"
    ):
        decal_onnx.append_head(tmp_path / "absent.onnx", d, out)
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float64': got 'half'"):
        decal_onnx.export_head(d, out, dtype="half")
    assert not out.exists()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("float[n, 5, 4, 5] z", r"no axis between as long: got 'z' with shape \(n, 5, 4, 5\)"),
        ("float[n, 5, h, w] z", "no axis between as long"),
        ("float[n, t, c] z", r"must have 5 entries in the last axis: got 'z' .*\(n, t, c\)"),
        ("float[5] z", "must be a matrix.*got 'z' with shape"),
        ("int64[n, 5] z", "must hold floats: got 'z' of type int64"),
    ],
)
def test_an_output_whose_classes_are_not_clearly_last_is_refused(output, message, tmp_path):
    kind, _, shape = output.partition("[")
    classifier = model_of("z = Identity(x)", output, f"{kind}[{shape[:-2]} x")
    d = decal.decalibrate(*drawn(), alpha=0.9)
    with pytest.raises(ValueError, match=message):
        decal_onnx.append_head(classifier, d, tmp_path / "credal.onnx", output="z")
    assert not (tmp_path / "credal.onnx").exists()


def test_tokens_have_bounds_each(tmp_path):
    classifier = model_of("z = Identity(x)", "float[n, t, 5] z", "float[n, t, 5] x")
    d = decal.decalibrate(*drawn(), alpha=0.9)
    path = decal_onnx.append_head(classifier, d, tmp_path / "credal.onnx", output="z")
    z = drawn(n=24, seed=1)[0].astype(np.float32)
    found = [bound.reshape(-1, 5) for bound in bounds(path, z.reshape(4, 6, 5))]
    assert difference(found, d.predict(z)) < SINGLE


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1, -2, -4])
@pytest.mark.parametrize("directions", [CLASS, LOCAL], ids=str)
def test_a_head_of_pixels_is_that_of_rows_to_the_last_bit(dim, directions, tmp_path):
    d = decal.Decalibrator(0.8, directions=directions).fit(*drawn())
    z = drawn(n=84, seed=1)[0].astype(np.float32)
    dense = np.ascontiguousarray(np.moveaxis(z.reshape(2, 7, 6, 5), -1, dim))
    outputs = ("lower", "upper", "kept")
    rows = bounds(decal_onnx.export_head(d, tmp_path / "rows.onnx", kept="majority"), z, outputs)
    head = decal_onnx.export_head(d, tmp_path / "head.onnx", kept="majority", dim=dim)
    axes = ", ".join("5" if axis == dim % 4 else "abcd"[axis] for axis in range(4))
    net = model_of("z = Identity(x)", f"float[{axes}] z", f"float[{axes}] x")
    behind = decal_onnx.append_head(net, d, tmp_path / "net.onnx", kept="majority", dim=dim)
    for path in (behind, head) if dim != -1 else (behind,):
        for found, expected in zip(bounds(path, dense, outputs), rows, strict=True):
            assert found.shape == dense.shape
            np.testing.assert_array_equal(np.moveaxis(found, dim, -1).reshape(-1, 5), expected)
    again = decal.decalibrate(*drawn(), alpha=0.8, directions=directions)
    maps = again.predict(decal_onnx.run(net, dense), dim=dim)
    assert difference((bounds(behind, dense)), maps) < SINGLE
    assert decal_onnx.run(behind, dense, batch_size=1).shape == dense.shape  # bounds are no scores


def test_a_head_of_pixels_wants_the_classes_on_its_axis(tmp_path):
    d, out = decal.decalibrate(*drawn(), alpha=0.9), tmp_path / "credal.onnx"
    net = model_of("z = Identity(x)", "float[n, 5, h, 5] z", "float[n, 5, h, 5] x")
    with pytest.raises(ValueError, match="Pass dim=1 if that axis has the classes, dim=3 if the"):
        decal_onnx.append_head(net, d, out)
    with pytest.raises(ValueError, match="dim must be an axis of 'z', of which there are 4: got 4"):
        decal_onnx.append_head(net, d, out, dim=4)
    other = model_of("z = Identity(x)", "float[n, 4, h, w] z", "float[n, 4, h, w] x")
    with pytest.raises(ValueError, match=r"dim must be the axis of the 5 classes: got 1 of 'z' wi"):
        decal_onnx.append_head(other, d, out, dim=1)
    for dim in (True, "1", 1.0):
        with pytest.raises(ValueError, match="dim must be the number of an axis"):
            decal_onnx.export_head(d, out, dim=dim)
    assert not out.exists()
    untold = model_of("z = Identity(x)", "float[n, c, h, w] z", "float[n, c, h, w] x")
    for path in (
        decal_onnx.append_head(untold, d, out, dim=1),
        decal_onnx.export_head(d, tmp_path / "head.onnx", dim=1),
    ):
        session = runtime.InferenceSession(path, quiet())
        (name,) = (i.name for i in session.get_inputs())
        for shape in ((2, 4, 5, 5), (2, 10, 3, 3)):
            with pytest.raises(Exception, match="Reshape"):
                session.run(None, {name: np.zeros(shape, np.float32)})
    told = json.loads(onnx.load(out).metadata_props[0].value)
    assert told["dim"] == 1


def test_images_of_several_sizes_are_run_by_themselves():
    net = model_of("z = Identity(x)", "float[n, 5, h, w] z", "float[n, 5, h, w] x")
    images = [np.zeros((1, 5, size, 4), np.float32) for size in (3, 2)]
    with pytest.raises(ValueError, match=r"one shape to every batch: got \[\(5, 2, 4\), \(5, 3"):
        decal_onnx.run(net, images)
    assert decal_onnx.run(net, images[:1]).shape == (1, 5, 3, 4)


@pytest.mark.parametrize("declared", ["float[n, c] z", "float z"])
def test_a_shape_that_the_file_does_not_tell_is_checked_when_it_runs(declared, tmp_path):
    classifier = model_of("z = Identity(x)", declared, "float x")
    if declared == "float z":
        for value in (*classifier.graph.output, *classifier.graph.input):
            value.type.tensor_type.ClearField("shape")
    else:
        classifier.graph.input[0].type.tensor_type.ClearField("shape")
    d = decal.decalibrate(*drawn(), alpha=0.9)
    path = decal_onnx.append_head(classifier, d, tmp_path / "credal.onnx")
    z = drawn(n=20, seed=1)[0].astype(np.float32)
    for rows in (z, z[:1]):
        assert difference(bounds(path, rows), d.predict(rows)) < SINGLE
    assert bounds(path, z[:0])[0].shape == (0, 5)
    session = runtime.InferenceSession(path, quiet())
    for shape in ((2, 5, 4, 5), (3, 1), (3, 4)):
        with pytest.raises(Exception, match="Reshape"):
            session.run(None, {"x": np.zeros(shape, np.float32)})


class Tilt(decal.Line):
    """A direction of one's own."""

    name, ratio = "tilt", 1.0

    def move(self, logits):
        return logits * np.arange(logits.shape[1])


def test_directions_of_others_are_refused(tmp_path):
    d = decal.Decalibrator(directions=("class", Tilt())).fit(*drawn())
    with pytest.raises(ValueError, match="must all support ONNX: got 'tilt'"):
        decal_onnx.export_head(d, tmp_path / "head.onnx")


# A real classifier: 214 types of files


MAGIKA = "magika==1.0.3"


@pytest.fixture(scope="module")
def magika(request):
    """The folder of Magika's network and the names of its classes."""
    folder = installed(request, [MAGIKA]) / "magika/models/standard_v3_3"
    return folder, json.loads((folder / "config.min.json").read_text())["target_labels_space"]


def first_and_last_bytes(content):
    """What Magika looks at: 1,024 bytes at either end, without the white space there."""
    begin, end = content[:4096].lstrip()[:1024], content[-4096:].rstrip()[-1024:]
    blank = [[256] * (1024 - len(part)) for part in (begin, end)]
    return np.array([*begin, *blank[0], *blank[1], *end], dtype=np.int32)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::decal.FitWarning")
def test_one_file_goes_from_the_bytes_of_files_to_credal_sets(magika, tmp_path):
    folder, names = magika
    sources = sorted(Path(decal.__file__).parent.rglob("*.py"))
    contents = [path.read_bytes() for path in sources if path.stat().st_size > 8192][:10]
    contents += [json.dumps({"a": list(range(i + 9)), "b": "text"}).encode() for i in range(6)]
    x = np.stack([first_and_last_bytes(c) for c in contents])
    z = decal_onnx.run(folder / "model.onnx", x, read="logits")
    assert z.shape == (16, 214)
    predicted = [names[k] for k in z.argmax(axis=1)]
    assert predicted[:10].count("python") > 7
    # The model is always right about these: some labels are swapped, so that it can be wrong.
    python, other = names.index("python"), names.index("json")
    y = np.where(np.arange(16) < 10, python, other)
    y[[2, 5, 8, 11, 14]] = [other, other, other, python, python]
    for directions in (CLASS, BOTH, LOCAL):
        for reference in ("model", "best"):
            d = decal.Decalibrator(0.8, directions=directions, reference=reference)
            d.fit(z, y, classes=names)
            path = decal_onnx.append_head(folder / "model.onnx", d, tmp_path / "credal.onnx")
            assert difference(bounds(path, x), d.predict(z)) < PEAK


@pytest.mark.skipif(importlib.util.find_spec("typer") is None, reason="needs the command line")
def test_the_command_line_appends_a_head(tmp_path):
    d = decal.decalibrate(*drawn(), alpha=0.9)
    d.save(tmp_path / "model.npz")
    onnx.save(SOFTMAX, tmp_path / "net.onnx")
    out = tmp_path / "credal.onnx"
    command = [sys.executable, "-m", "decal", "export", str(tmp_path / "model.npz")]
    more = [str(tmp_path / "net.onnx"), "-o", str(out), "--alpha", "0.5"]
    done = subprocess.run([*command, *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "lower and upper" in done.stderr
    x = drawn(seed=1)[0].astype(np.float32)
    assert difference(bounds(out, x), d.predict(2 * x, alpha=0.5)) < SINGLE
    again = subprocess.run([*command, *more], capture_output=True, text=True)
    assert again.returncode == 2
    assert "--force" in again.stderr
    asked = [*more, "--kept", "majority", "--force"]
    done = subprocess.run([*command, *asked], capture_output=True, text=True)
    assert "lower, upper and kept" in done.stderr
    (kept,) = bounds(out, x, ["kept"])
    assert np.array_equal(kept, d.predict(2 * x, alpha=0.5).decide("majority"))
    pixels = x.reshape(5, 8, 5, 5).transpose(0, 3, 1, 2).copy()
    asked = [*more[1:], "--dim", "1", "--force"]
    subprocess.run([*command, *asked], check=True, capture_output=True)
    maps = d.predict(pixels, alpha=0.5, dim=1)
    assert difference(bounds(out, pixels), maps) < SINGLE


@pytest.mark.skipif(importlib.util.find_spec("typer") is None, reason="needs the command line")
def test_the_command_line_speaks_of_its_own_options(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from decal.cli import app

    monkeypatch.chdir(tmp_path)
    d = decal.decalibrate(*drawn(), alpha=0.9)
    d.save("model.npz")
    onnx.save(TWO, "two.onnx")
    onnx.save(SOFTMAX, "net.onnx")

    def exported(*words):
        done = CliRunner().invoke(app, ["export", "model.npz", *words])
        return done.exit_code, " ".join(done.stderr.split())

    code, said = exported("two.onnx", "-o", "credal.onnx")
    assert code == 2
    assert "--classifier-output must be given" in said
    assert said.endswith("got z, y of z, y. Say which with --classifier-output.")
    chosen = ("--classifier-output", "w")
    code, said = exported("two.onnx", "-o", "credal.onnx", *chosen)
    assert said.endswith("--classifier-output must be one of the model's, z, y: got 'w'.")
    assert exported("net.onnx", "-o", "credal.onnx")[0] == 0
    code, said = exported("credal.onnx", "-o", "again.onnx")
    assert code == 2
    assert "CLASSIFIER must have no head yet: got credal.onnx with lower, upper." in said
    assert "decal." not in said.replace("credal.", "")
    z, y = drawn()
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    decal.decalibrate(p, y, alpha=0.9, probabilities=True).save("model.npz")
    code, said = exported("two.onnx", "-o", "new.onnx", "--classifier-output", "z")
    assert said.endswith("got one fitted with --probabilities. Fit it on the classifier's logits.")
    assert exported("net.onnx", "-o", "net.onnx", "--force")[0] == 2
