"""PyTorch: the same numbers as with arrays; a head that trains, compiles, exports."""

import contextlib
import copy
import io
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from helpers.snippets import WIDTH
from helpers.strategies import alphas, at_most, labelled_logits

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import decal.torch as decal_torch  # noqa: E402
from decal._base.row_checks import to_numpy  # noqa: E402
from decal.directions import _ranges  # noqa: E402
from decal.torch import CredalHead, collect_logits, decalibrate_model  # noqa: E402

pytestmark = pytest.mark.torch

CLASS, SCALE, BOTH = ("class",), ("temperature",), ("class", "temperature")
LOCAL = ("local",)
MIXED = (decal.Local(mix=0.01, by_entropy=0.1),)
ROOT = (decal.Local(mix=0.01, by_entropy=0.05, root=True),)
PEAK = 1e-5
"""What the interpolated peaks of the temperature may differ by."""


def drawn(n=300, K=6, spread=3.0, seed=0, without=None):
    """Logits (n, K) and labels drawn from a softer version of their softmax."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, K)) * spread
    y = (0.6 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    if without is not None:
        y[y == without] = (without + 1) % K
    return z, y


def fitted(alpha=0.8, directions=CLASS, without=None, **settings_):
    d = decal.Decalibrator(alpha, directions=directions, **settings_)
    return d.fit(*drawn(without=without))


def difference(bounds, credal):
    low, high = (to_numpy(b, "bounds") for b in bounds)
    return max(np.abs(low - credal.lower).max(), np.abs(high - credal.upper).max())


@pytest.fixture
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 5))


@pytest.fixture
def batches():
    torch.manual_seed(1)
    inputs, labels = torch.randn(103, 4), torch.randint(5, (103,))
    return DataLoader(TensorDataset(inputs, labels), batch_size=10)


# The head: the numbers of predict


@pytest.mark.parametrize("directions", [CLASS, SCALE, BOTH, LOCAL, MIXED, ROOT], ids=str)
@pytest.mark.parametrize("reference", ["model", "best", "auto"])
@pytest.mark.parametrize("box", ["own", "joint"])
@pytest.mark.parametrize("without", [None, 2])
def test_the_head_says_what_predict_says(directions, reference, box, without):
    d = fitted(0.9, directions, without, reference=reference, box=box)
    z = drawn(seed=1)[0]
    head = CredalHead(d)
    peaks = "temperature" in directions
    assert difference(head(torch.tensor(z)), d.predict(z)) < (PEAK if peaks else 1e-12)
    single = torch.tensor(z, dtype=torch.float32)
    lower, upper = head(single)
    assert lower.dtype == upper.dtype == torch.float32
    assert difference((lower, upper), d.predict(single)) < (PEAK if peaks else 1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_the_head_takes_any_alpha(alpha):
    d = fitted(0.8, BOTH)
    z = drawn(seed=1)[0]
    assert difference(CredalHead(d, alpha)(torch.tensor(z)), d.predict(z, alpha=alpha)) < PEAK
    if alpha == 0:
        lower, upper = CredalHead(d, alpha)(torch.tensor(z))
        assert not lower.any()
        assert (upper == 1).all()


@at_most(60)
@given(labelled_logits(), alphas, st.sampled_from(["own", "joint"]), st.data())
def test_nasty_logits_give_the_same_bounds_and_finite_gradients(data, alpha, box, more):
    z, y, w = data
    # Logits that are equal in every row say nothing about their scale.
    informative = np.ptp(z if w is None else z[w > 0], axis=1).any()
    directions = more.draw(st.sampled_from([CLASS, BOTH, LOCAL])) if informative else CLASS
    dtype = more.draw(st.sampled_from([torch.float32, torch.float64]))
    d = decal.Decalibrator(alpha, box=box, directions=directions).fit(z, y, sample_weight=w)
    logits = torch.tensor(z, dtype=dtype, requires_grad=True)
    lower, upper = CredalHead(d)(logits)
    assert (lower >= 0).all()
    assert (lower <= upper).all()
    assert (upper <= 1).all()
    if dtype == torch.float64 or np.abs(z).max() <= 30:
        single = 1e-6 if np.abs(z).max() <= 3 else 5e-6  # as float32 has it near 30
        exact = 1e-12 if dtype == torch.float64 else single
        tolerance = PEAK if directions == BOTH else exact
        bounds = lower.detach(), upper.detach()
        assert difference(bounds, d.predict(z)) < tolerance
    (lower.sum() - 2 * upper.sum()).backward()
    assert torch.isfinite(logits.grad).all()


def test_a_class_never_seen_does_not_spoil_the_others():
    d = fitted(0.9, BOTH, without=2, reference="best")
    logits = torch.zeros(2, 6, requires_grad=True)
    with torch.no_grad():
        logits[0, 2] = 1e4  # the class that the reference model leaves out
        logits[1, 3] = 1e4
    lower, upper = CredalHead(d)(logits)
    assert difference((lower.detach(), upper.detach()), d.predict(logits)) < PEAK
    upper.sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_all_logits_equal_is_a_row_like_any_other():
    d = fitted(0.9, BOTH)
    z = np.zeros((1, 6))
    assert difference(CredalHead(d)(torch.tensor(z)), d.predict(z)) < 1e-12


def test_leading_axes_are_batches():
    head = CredalHead(fitted(0.9, BOTH))
    z = torch.tensor(drawn(seed=1)[0])
    lower, upper = head(z.reshape(10, 3, 10, 6))
    assert torch.equal(lower.reshape(-1, 6), head(z)[0])
    assert torch.equal(upper.reshape(-1, 6), head(z)[1])
    assert head(z[0])[0].shape == (6,)
    assert head(z[:0])[0].shape == (0, 6)


def test_an_axis_as_long_as_the_classes_is_not_guessed_about():
    d = fitted(0.9)
    head, z = CredalHead(d), torch.randn(2, 6, 4, 6, dtype=torch.float64)  # (N, C, H, W), W = C
    with pytest.raises(ValueError, match=r"got shape \(2, 6, 4, 6\), where axes 1 and 3") as found:
        head(z)
    # Both pieces of advice run, and mean what they say.
    for dim in map(int, re.findall(r"dim=(\d)", str(found.value))):
        rows = [bound.movedim(dim, -1).reshape(-1, 6) for bound in CredalHead(d, dim=dim)(z)]
        assert difference(rows, d.predict(z.movedim(dim, -1).reshape(-1, 6))) < 1e-12
    for shape in ((3, 6, 6), (2, 2, 6, 6), (2, 6, 2, 2, 6)):
        with pytest.raises(ValueError, match="no axis between as long"):
            head(torch.zeros(shape))
    for shape in ((6, 6), (6, 4, 6)):  # the first axis counts inputs
        assert head(torch.zeros(shape))[0].shape == shape


def test_logits_that_are_no_rows_of_classes_are_refused_with_what_to_do():
    head = CredalHead(fitted())
    for shape, advice in (
        ((2, 6, 4, 5), "build the head with dim=1"),
        ((6, 4, 5), "build the head with dim=0"),
        ((), "got shape \\(\\)"),
        ((3, 5), "Use the logits of the same model"),
    ):
        with pytest.raises(ValueError, match=f"logits must have 6 columns.*{advice}"):
            head(torch.zeros(shape))
    for wrong, name in ((np.zeros((2, 6)), "ndarray"), ([[0.0] * 6], "list")):
        with pytest.raises(TypeError, match=f"logits must be a tensor: got a {name}"):
            head(wrong)
    with pytest.raises(TypeError, match="real numbers: got dtype torch.complex64"):
        head(torch.zeros(2, 6, dtype=torch.complex64))


@pytest.mark.parametrize("strict", [True, False])
def test_tokens_of_any_number_are_exported(strict):
    head = CredalHead(fitted(0.9))
    batch, tokens = torch.export.Dim("batch"), torch.export.Dim("tokens")
    shapes = ({0: batch, 1: tokens},)
    program = torch.export.export(
        head, (torch.zeros(2, 3, 6),), dynamic_shapes=shapes, strict=strict
    )
    z = torch.randn(4, 7, 6)
    for a, b in zip(program.module()(z), head(z), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="no axis between as long"):
        torch.export.export(head, (torch.zeros(2, 6, 3, 6),), strict=False)


def test_peaks_between_the_scales_are_found_for_many_classes():
    z, y = drawn(n=150, K=200, spread=2.0)
    d = decal.decalibrate(z, y, alpha=0.0, directions=SCALE)
    assert difference(CredalHead(d)(torch.tensor(z[:20])), d.predict(z[:20])) < PEAK


# The head: arrays where nothing records, tensors elsewhere


def recorded(head, z):
    """Bounds out of tensor operations, which gradients need."""
    return [b.detach() for b in head(z.clone().requires_grad_())]


def refused(*_):
    raise AssertionError


EXTREME = torch.tensor([[1e4, -1e4, 0, 0, 0, 0], [0, 0, 50, 0, 800, 0], [3] * 6]).double()


@pytest.mark.parametrize("directions", [CLASS, SCALE, BOTH, LOCAL, MIXED, (*BOTH, *LOCAL)], ids=str)
@pytest.mark.parametrize("reference", ["model", "best"])
@pytest.mark.parametrize("box", ["own", "joint"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.int64])
def test_bounds_are_those_of_tensors(directions, reference, box, dtype, monkeypatch):
    head = CredalHead(fitted(0.9, directions, 2, reference=reference, box=box))
    z = torch.cat([torch.tensor(drawn(seed=1)[0]), EXTREME]).to(dtype)
    z = z[:, torch.arange(6)].T.contiguous().T  # not the order of rows
    before = z.clone()
    whole = dtype == torch.int64  # takes no gradient
    expected = recorded(head, z.float() if whole else z)
    with monkeypatch.context() as patched:
        patched.setattr(CredalHead, "_from_tensors", refused)
        found = head(z)
    tolerance = PEAK if "temperature" in directions else 1e-12 if dtype == torch.float64 else 5e-6
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, atol=tolerance, rtol=0)
    assert torch.equal(z, before)


@pytest.mark.parametrize("directions", [CLASS, BOTH, LOCAL, MIXED], ids=str)
@pytest.mark.parametrize("without", [None, 2])
def test_rows_without_a_prediction_and_masks_are_those_of_tensors(directions, without):
    head = CredalHead(fitted(0.9, directions, without, reference="best"))
    for row in (
        [np.nan, 0, 1, 2, 3, 4],
        [np.inf, 0, 1, 2, 3, 4],
        [-np.inf] * 6,
        [-np.inf, -np.inf, 1, -np.inf, -np.inf, -np.inf],
        [0, -np.inf, 1, 2, -np.inf, 3],
    ):
        z = torch.cat([torch.tensor([row], dtype=torch.float64), EXTREME])
        for a, b in zip(head(z), recorded(head, z), strict=True):
            torch.testing.assert_close(a, b, atol=PEAK, rtol=0, equal_nan=True)
        assert torch.isfinite(head(z)[1][1:]).all()
    nothing = torch.full((1, 6), torch.nan)
    assert all(bound.isnan().all() for bound in head(nothing))


def test_numbers_that_change_count_at_once():
    head, other = CredalHead(fitted(0.9, BOTH)), CredalHead(fitted(0.5, BOTH, reference="best"))
    z = torch.tensor(drawn(seed=1)[0])
    seen = [head(z)[1]]

    def count():
        for a, b in zip(head(z), recorded(head, z), strict=True):
            torch.testing.assert_close(a, b, atol=PEAK, rtol=0)
        assert all((head(z)[1] - before).abs().max() > 1e-9 for before in seen)
        seen.append(head(z)[1])

    head.class_upper.data[0] += 1
    count()
    head.temperature_upper = torch.tensor(9.0, dtype=torch.float64)
    count()
    head.half()
    count()
    with torch.no_grad():
        for name, value in other.named_buffers():
            head.get_buffer(name).copy_(value)
    count()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of PyTorch's own
def test_whatever_records_or_traces_sees_every_operation():
    head = CredalHead(fitted(0.9, BOTH))
    z, new = torch.tensor(drawn(seed=1)[0][:4]), torch.tensor(drawn(seed=2)[0][:4])

    def upper(z):
        return head(z)[1]

    tangent = torch.ones_like(z) * torch.arange(6)
    jacobian = torch.autograd.functional.jacobian(upper, z)
    expected = torch.einsum("abcd,cd->ab", jacobian, tangent)
    assert expected.abs().max() > 0.1
    with torch.autograd.forward_ad.dual_level():
        dual = upper(torch.autograd.forward_ad.make_dual(z, tangent))
        found = torch.autograd.forward_ad.unpack_dual(dual).tangent
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.func.jvp(upper, (z,), (tangent,))[1], expected)
    torch.testing.assert_close(torch.func.jacrev(upper)(z), jacobian)
    torch.testing.assert_close(torch.func.vmap(upper)(new), upper(new), atol=PEAK, rtol=0)

    graph = torch.fx.experimental.proxy_tensor.make_fx(upper)(z)
    torch.testing.assert_close(graph(new), upper(new), atol=PEAK, rtol=0)
    head.class_upper.requires_grad_()
    upper(z).sum().backward()
    assert head.class_upper.grad.abs().max() > 0


def test_shapes_without_numbers_are_found():
    from torch._subclasses import FakeTensorMode

    head = CredalHead(fitted(0.9, BOTH))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        lower, upper = head(mode.from_tensor(torch.zeros(5, 6)))
    assert lower.shape == upper.shape == (5, 6)
    lower, _ = head.to("meta")(torch.zeros(5, 6, device="meta"))
    assert lower.device.type == "meta"


# The head: kept classes, and axes


RULES = ("e_admissible", "interval_dominance", "majority", "ordered_majority", "node")
TREE = {"low": {"0": None, "lower": ["1", "4"]}, "high": ["5", "2", "3"]}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("directions", [CLASS, BOTH, LOCAL, MIXED], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 0.99, 1.0])
def test_a_head_keeps_the_classes_that_decide_keeps(rule, directions, dtype, alpha):
    d = fitted(0.9, directions, without=2, tree=TREE)
    z = torch.tensor(drawn(2000, seed=1)[0]) / 2
    z[0] = 1.0  # ties
    z[1, :5] = 1.0
    z[2, 1] = -torch.inf
    z = torch.cat([z, EXTREME]).to(dtype)
    head = CredalHead(d, alpha, kept=rule)
    expected = d.predict(z, alpha=alpha).decide(rule)
    assert expected.any(axis=1).all()
    for found in (head(z), head(z.clone().requires_grad_())):
        lower, upper, kept = found
        assert kept.dtype == torch.bool
        assert np.array_equal(kept.numpy(), expected)
        bounds = CredalHead(d, alpha)(z)
        torch.testing.assert_close((lower.detach(), upper.detach()), bounds, atol=PEAK, rtol=0)
    if alpha == 0.99 and rule in RULES[:2]:
        assert 1 < expected.sum(axis=1).mean() < 5


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_kept_of_nothing(rule):
    head = CredalHead(fitted(0.9, tree=TREE), kept=rule)
    z = torch.zeros(3, 6)
    z[1, 3] = torch.nan
    assert head(z)[2].any(dim=1).tolist() == [True, False, True]


@pytest.mark.parametrize("dim", [0, 1, 2, -2, -1])
@pytest.mark.parametrize("gradients", [False, True])
def test_the_axis_of_the_classes_is_any(dim, gradients):
    d = fitted(0.9, BOTH)
    z = torch.tensor(drawn(30, seed=1)[0]).reshape(5, 6, 6)  # two axes are as long
    head = CredalHead(d, dim=dim, kept="majority")
    if dim == -1:
        with pytest.raises(ValueError, match="no axis between as long"):
            head(z)
        return
    given = z.movedim(-1, dim).clone().requires_grad_(gradients)
    expected = d.predict(z.reshape(-1, 6))
    found = [b.detach().movedim(dim, -1).reshape(-1, 6) for b in head(given)]
    assert head(given)[0].shape == given.shape
    assert difference(found[:2], expected) < PEAK
    assert np.array_equal(found[2].numpy(), expected.decide("majority"))


def test_axes_and_rules_that_there_are_not_are_refused():
    with pytest.raises(ValueError, match="kept must be one of 'e_admissible'.*got 'maximality'"):
        CredalHead(fitted(), kept="maximality")
    with pytest.raises(ValueError, match="decalibrator must have a tree: got none"):
        CredalHead(fitted(), kept="node")
    with pytest.raises(ValueError, match="dim must be the number of an axis: got '1'"):
        CredalHead(fitted(), dim="1")
    head = CredalHead(fitted(), dim=1)
    for shape in ((6,), (6, 5), (6, 5, 6)):
        with pytest.raises(ValueError, match="must have 6 entries in axis 1.*got shape"):
            head(torch.zeros(shape))
    with pytest.raises(TypeError, match="logits must be a tensor: got a list"):
        head([[0.0] * 6])


@pytest.mark.parametrize("rule", ["majority", "node"])
def test_axes_and_rules_come_with_the_state(rule):
    d = fitted(0.9, BOTH, tree=TREE)
    head, plain = CredalHead(d, dim=1, kept=rule), CredalHead(d)
    again = CredalHead.empty()
    again.load_state_dict(head.state_dict())
    assert repr(again) == repr(head)
    assert f"dim=1, kept={rule!r}" in repr(again)
    z = torch.randn(4, 6, 3)
    assert all(torch.equal(a, b) for a, b in zip(again(z), head(z), strict=True))
    with pytest.raises(RuntimeError, match=f"got dim=1, kept={rule!r} for dim=-1, kept=None"):
        plain.load_state_dict(head.state_dict())
    wrong = head.state_dict()
    wrong["_extra_state"] = written(
        bytes(wrong["_extra_state"].tolist()).decode().replace(rule, "minority")
    )
    with pytest.raises(RuntimeError, match="cannot be read .*kept must be one of"):
        CredalHead.empty().load_state_dict(wrong)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dynamo", [False, True])
def test_kept_classes_are_exported(rule, dynamo, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    d = fitted(0.9, tree=TREE)
    head = CredalHead(d, dim=1, kept=rule).eval()
    example = torch.zeros(2, 6, 3)
    if dynamo:
        pytest.importorskip("onnxscript")
        shapes = ({0: torch.export.Dim("batch")},)
        program = torch.onnx.export(
            head, (example,), dynamo=True, dynamic_shapes=shapes, verbose=False
        )
        file = program.model_proto.SerializeToString()
    else:
        file = tmp_path / "head.onnx"
        torch.onnx.export(
            head, (example,), file, dynamo=False, input_names=["z"], dynamic_axes={"z": {0: "n"}}
        )
    session = runtime.InferenceSession(file)
    rows = drawn(600, seed=1)[0].astype(np.float32)
    z = np.ascontiguousarray(np.moveaxis(rows.reshape(200, 3, 6), -1, 1))
    found = session.run(None, {session.get_inputs()[0].name: z})
    lower, upper, kept = (np.moveaxis(part, 1, -1).reshape(-1, 6) for part in found)
    credal = d.predict(rows)
    assert difference((lower, upper), credal) < 1e-6
    assert np.array_equal(kept, credal.decide(rule))


# The head: several labels


def several_labels(directions=CLASS, reference="model", **settings_):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 4)) * 2
    y = (rng.random(z.shape) < 1 / (1 + np.exp(-0.6 * z))).astype(int)
    y[:, 3] = -1  # nobody knows anything about this label
    given = 1 / (1 + np.exp(-z)) if settings_.get("probabilities") else z
    d = decal.MultiLabelDecalibrator(
        0.9, directions=directions, reference=reference, **settings_
    ).fit(given, y)
    new = rng.normal(size=(500, 4)) * 3
    new[:4] = [[np.inf, 0, -np.inf, 1], [0] * 4, [100] * 4, [-800] * 4]
    return d, 1 / (1 + np.exp(-new)) if settings_.get("probabilities") else new


@pytest.mark.parametrize("directions", [CLASS, SCALE, BOTH, LOCAL, MIXED], ids=str)
@pytest.mark.parametrize("reference", ["model", "auto"])
@pytest.mark.parametrize("alpha", [None, 0.0, 0.5, 1.0])
@pytest.mark.filterwarnings("ignore:.*overflow:RuntimeWarning")
def test_a_head_of_several_labels_says_what_predict_says(directions, reference, alpha):
    d, new = several_labels(directions, reference)
    credal, head = d.predict(new, alpha=alpha), CredalHead(d, alpha, kept="answers")
    lower, upper, answers = head(torch.tensor(new))
    assert difference((lower, upper), credal) < 1e-12
    assert np.array_equal(answers.numpy(), credal.decide())
    assert difference(head(torch.tensor(new).float())[:2], credal) < 2e-6
    again = CredalHead.empty()
    again.load_state_dict(head.state_dict())
    assert repr(again) == repr(head)
    for a, b in zip(again(torch.tensor(new)), (lower, upper, answers), strict=True):
        assert torch.equal(a, b)
    given = torch.tensor(new, requires_grad=True)
    sum(head(given)[:2]).sum().backward()
    assert given.grad.isfinite().all()


@pytest.mark.parametrize("floor", [None, 0.01])
def test_a_head_of_several_probabilities_says_what_predict_says(floor):
    with np.errstate(over="ignore"):
        d, new = several_labels(probabilities=True, floor=floor)
    assert difference(CredalHead(d)(torch.tensor(new)), d.predict(new)) < 1e-12


def test_a_head_of_several_labels_keeps_a_promise_per_label():
    d, new = several_labels(LOCAL)
    rng = np.random.default_rng(3)
    z = rng.normal(size=(900, 4)) * 2
    y = (rng.random(z.shape) < 1 / (1 + np.exp(-0.6 * z))).astype(int)
    choice = decal.choose(d, z, y, miss=0.1)
    kept = d.with_promise(choice)
    assert len(set(kept.promise.levels.values())) > 1
    assert difference(CredalHead(kept)(torch.tensor(new)), kept.predict(new)) < 1e-12


def test_classes_and_labels_have_their_own_rules():
    with pytest.raises(ValueError, match="kept must be one of 'answers': got 'majority'"):
        CredalHead(several_labels()[0], kept="majority")
    with pytest.raises(ValueError, match="kept must be one of 'e_admissible'.*got 'answers'"):
        CredalHead(fitted(), kept="answers")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("directions", [BOTH, LOCAL], ids=str)
def test_a_head_of_several_labels_is_exported(dynamo, directions, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    d, new = several_labels(directions)
    head, example = CredalHead(d, kept="answers").eval(), torch.zeros(2, 4)
    if dynamo:
        pytest.importorskip("onnxscript")
        shapes = ({0: torch.export.Dim("batch")},)
        program = torch.onnx.export(
            head, (example,), dynamo=True, dynamic_shapes=shapes, verbose=False
        )
        file = program.model_proto.SerializeToString()
    else:
        file = tmp_path / "head.onnx"
        torch.onnx.export(
            head, (example,), file, dynamo=False, input_names=["z"], dynamic_axes={"z": {0: "n"}}
        )
    session = runtime.InferenceSession(file)
    z = new.astype(np.float32)
    lower, upper, answers = session.run(None, {session.get_inputs()[0].name: z})
    credal = d.predict(z)
    assert difference((lower, upper), credal) < 2e-6
    assert np.array_equal(answers, credal.decide())


# The head: a module


def saved(head, path):
    """What comes back from a file of a module's state, read without running code from it."""
    torch.save(head.state_dict(), path)
    return torch.load(path, weights_only=True)


def test_a_state_dict_carries_the_endpoints_and_the_settings(tmp_path):
    head = CredalHead(fitted(0.9, BOTH))
    other = CredalHead(decal.Decalibrator(0.9, directions=BOTH).fit(*drawn(seed=3)))
    z = torch.tensor(drawn(seed=1)[0])
    assert not torch.equal(head(z)[1], other(z)[1])
    other.load_state_dict(saved(head, tmp_path / "head.pt"))
    assert all(torch.equal(a, b) for a, b in zip(head(z), other(z), strict=True))
    state = head.state_dict()
    assert set(state) == {
        *("center", "class_lower", "class_upper", "_extra_state"),
        *("scale", "temperature_lower", "temperature_upper"),
    }
    assert all(isinstance(value, torch.Tensor) for value in state.values())  # safetensors takes it


PROBABILITIES = {"probabilities": True, "floor": 1e-3}


@pytest.mark.parametrize(
    ("settings_", "difference_"),
    [
        ({"alpha": 0.2}, "alpha=0.2 for alpha=0.9"),
        ({"box": "own"}, "box='own' for box='joint'"),
        ({"probabilities": True}, "probabilities=True for probabilities=False"),
        (PROBABILITIES, "floor=0.001 for .*floor=None"),
        ({"directions": LOCAL}, r"directions=\[\['local'.* for directions=\[\['class', {}\]"),
        ({"directions": CLASS}, "directions="),
    ],
    ids=str,
)
@pytest.mark.parametrize("strict", [True, False])
def test_a_state_of_other_settings_is_refused_and_changes_nothing(settings_, difference_, strict):
    z, y = drawn()
    inputs = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    settings_ = {"alpha": 0.9, "directions": BOTH, "reference": "best"} | settings_
    d = decal.decalibrate(inputs if "probabilities" in settings_ else z, y, **settings_)
    mine = decal.decalibrate(z, y, alpha=0.9, directions=BOTH)
    net = torch.nn.Sequential(torch.nn.Identity(), CredalHead(mine))
    other = torch.nn.Sequential(torch.nn.Identity(), CredalHead(d))
    with pytest.raises(RuntimeError, match=f"must hold the head's settings: got.*{difference_}"):
        net.load_state_dict(other.state_dict(), strict=strict)
    assert difference(net(torch.tensor(z)), mine.predict(z)) < PEAK


def test_the_scale_of_the_reference_comes_with_the_state():
    d = fitted(0.9, BOTH, reference="best")
    head = CredalHead(fitted(0.9, BOTH))
    head.load_state_dict(CredalHead(d).state_dict())
    z = drawn(seed=1)[0]
    assert d.reference_model.scale != 1
    assert difference(head(torch.tensor(z)), d.predict(z)) < PEAK


@pytest.mark.parametrize("directions", [CLASS, BOTH, LOCAL, MIXED], ids=str)
@pytest.mark.parametrize("box", ["own", "joint"])
def test_an_empty_head_becomes_the_one_that_was_saved(directions, box, tmp_path):
    d = fitted(0.9, directions, without=2, reference="best", box=box)
    net = torch.nn.Sequential(torch.nn.Linear(6, 6).double(), CredalHead(d, 0.7))
    again = torch.nn.Sequential(torch.nn.Linear(6, 6).double(), CredalHead.empty())
    assert "empty" in repr(again[1])
    result = again.load_state_dict(saved(net, tmp_path / "net.pt"))
    assert not result.missing_keys
    assert not result.unexpected_keys
    assert repr(again) == repr(net)
    x = torch.tensor(drawn(seed=1)[0])
    assert difference([b.detach() for b in again(x)], d.predict(net[0](x), alpha=0.7)) < PEAK
    again.load_state_dict(net.state_dict())  # a head like any other from now on


def test_an_empty_head_of_probabilities_keeps_its_floor():
    z, y = drawn()
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    d = decal.decalibrate(p, y, alpha=0.9, **PROBABILITIES)
    head = CredalHead.empty()
    head.load_state_dict(CredalHead(d).state_dict())
    assert difference(head(torch.tensor(p)), d.predict(p)) < 1e-12


def test_an_empty_head_takes_the_device_and_precision_it_was_given():
    head = CredalHead.empty().float()
    head.load_state_dict(CredalHead(fitted(0.9, BOTH)).state_dict())
    assert head.temperature_upper.dtype == torch.float32
    with torch.device("meta"):
        head = CredalHead.empty()
    head.load_state_dict(CredalHead(fitted(0.9)).state_dict(), assign=True)
    z = drawn(seed=1)[0]
    assert difference(head(torch.tensor(z)), fitted(0.9).predict(z)) < 1e-12


def written(text):
    """A text as a head keeps its settings."""
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def test_an_empty_head_has_nothing_to_say():
    with pytest.raises(ValueError, match="head must be loaded first: got an empty one"):
        CredalHead.empty()(torch.zeros(2, 6))
    head = CredalHead(fitted())
    with pytest.raises(RuntimeError, match="must hold the head's settings: got none"):
        head.load_state_dict(CredalHead.empty().state_dict())
    state = head.state_dict()
    for wrong, message in (
        ({**state, "_extra_state": torch.tensor([1, 2])}, "got a state that cannot be read"),
        ({k: v for k, v in state.items() if k != "_extra_state"}, "got none, as an older decal"),
        ({k: v for k, v in state.items() if k != "class_upper"}, "cannot be read .*class_upper"),
        ({**state, "_extra_state": written("[1]")}, "cannot be read"),
        ({**state, "_extra_state": written('{"alpha": 0.9, "directions": []}')}, "cannot be read"),
    ):
        with pytest.raises(RuntimeError, match=message):
            CredalHead.empty().load_state_dict(wrong)


def test_a_state_of_an_older_decal_is_loaded_with_a_warning():
    head, other = CredalHead(fitted(0.9)), CredalHead(fitted(0.9, reference="best"))
    state = other.state_dict()
    del state["_extra_state"]
    with pytest.warns(UserWarning, match="state has no settings.*alpha=0.9, box='joint'") as found:
        head.load_state_dict(state)
    assert len(found) == 1
    z = torch.tensor(drawn(seed=1)[0])
    assert torch.equal(head(z)[1], other(z)[1])
    net = torch.nn.Sequential(torch.nn.Linear(6, 6), head)
    weights = {k: v for k, v in net.state_dict().items() if k.startswith("0.")}
    assert "1._extra_state" in net.load_state_dict(weights, strict=False).missing_keys


def test_copies_of_a_head_say_what_it_says(tmp_path):
    net = torch.nn.Sequential(torch.nn.Identity(), CredalHead(fitted(0.9, BOTH)))
    z = torch.tensor(drawn(seed=1)[0])
    torch.save(net, tmp_path / "whole.pt")
    program = torch.export.export(net, (z,))
    torch.export.save(program, tmp_path / "program.pt2")
    copies = [
        copy.deepcopy(net),
        torch.load(tmp_path / "whole.pt", weights_only=False),
        torch.export.load(tmp_path / "program.pt2").module(),
        lambda z: torch.func.functional_call(net, dict(net.named_buffers()), (z,)),
    ]
    for copied in copies:
        for a, b in zip(copied(z), net(z), strict=True):
            torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_a_head_moves_and_keeps_its_precision():
    d = fitted(0.9)
    z = drawn(seed=1)[0]
    head = CredalHead(d)
    assert head.float().class_lower.dtype == torch.float32
    assert difference(head.double()(torch.tensor(z)), d.predict(z)) < 1e-6  # rounded once
    assert CredalHead(d).to("meta").class_lower.device.type == "meta"
    assert CredalHead(d).half().class_lower.dtype == torch.float32
    half = torch.tensor(z).half()
    lower, upper = CredalHead(d).half()(half)
    assert lower.dtype == torch.float32
    assert difference((lower, upper), d.predict(half)) < 1e-6


def test_a_head_goes_to_a_device_without_float64():
    def to_such_a_device(t):
        if t.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return t

    head = CredalHead(fitted())
    head._apply(to_such_a_device)
    assert head.class_lower.dtype == torch.float32


def test_a_head_from_a_file(tmp_path):
    d = fitted(0.9, BOTH)
    d.save(tmp_path / "model.npz")
    head = CredalHead.from_file(tmp_path / "model.npz", alpha=0.7)
    z = drawn(seed=1)[0]
    assert difference(head(torch.tensor(z)), d.predict(z, alpha=0.7)) < PEAK
    assert (
        repr(head)
        == "CredalHead(6 classes, alpha=0.7, box='joint', directions=('class', 'temperature'))"
    )


@pytest.mark.parametrize("directions", [CLASS, SCALE, BOTH, LOCAL, MIXED], ids=str)
@pytest.mark.parametrize("box", ["own", "joint"])
def test_gradients_equal_finite_differences(directions, box):
    head = CredalHead(fitted(0.9, directions, box=box, reference="best"))
    torch.manual_seed(0)
    z = torch.randn(50, 6, dtype=torch.float64, requires_grad=True)
    pull = torch.randn(2, 50, 6, dtype=torch.float64)

    def pulled(z):
        return (pull * torch.stack(head(z))).sum(dim=(0, 2))

    (gradient,) = torch.autograd.grad(pulled(z).sum(), z)
    step = 1e-6 * torch.eye(6, dtype=torch.float64)
    slopes = [(pulled(z + e) - pulled(z - e)).detach() / 2e-6 for e in step]
    torch.testing.assert_close(gradient, torch.stack(slopes, dim=1), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("directions", "backend"), [(CLASS, "aot_eager"), (BOTH, "eager"), (LOCAL, "eager")]
)
def test_a_head_compiles_whole(directions, backend):
    head = CredalHead(fitted(0.9, directions))
    compiled = torch.compile(head, backend=backend, fullgraph=True)
    z = torch.tensor(drawn(seed=1)[0], dtype=torch.float32, requires_grad=True)
    for a, b in zip(compiled(z), head(z), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)
    (gradient,) = torch.autograd.grad(compiled(z)[1].square().sum(), z)
    assert torch.isfinite(gradient).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_head_compiles_to_machine_code():
    head = CredalHead(fitted(0.9))
    z = torch.tensor(drawn(seed=1)[0], dtype=torch.float32)
    from torch._inductor import config

    try:
        # More threads are processes, and each imports PyTorch. That the processor has the vector
        # instructions it lists is otherwise tried out, with a program compiled for each.
        with config.patch({"compile_threads": 1, "cpp.vec_isa_ok": True}):
            compiled = torch.compile(head, fullgraph=True)(z)
    except torch._dynamo.exc.BackendCompilerFailed as error:
        pytest.skip(f"torch.compile needs a C++ compiler here: {error}"[:200])
    for a, b in zip(compiled, head(z), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_head_with_all_directions_runs_in_onnx_runtime(monkeypatch):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    # Exporting takes time in proportion to the graph, which repeats itself for every interval and
    # step. These data need no more.
    for name, fewer in {"PEAK_INTERVALS": 8, "PEAK_STEPS": 2, "LOCAL_STEPS": 2}.items():
        monkeypatch.setattr(_ranges, name, fewer)
    d = fitted(0.9, (*BOTH, *LOCAL), without=2, reference="best")
    head = CredalHead(d).eval()
    example = torch.zeros(2, 6)
    batch = torch.export.Dim("batch")
    # The exporter's own rewriting takes as long as all the rest. The next test has it.
    program = torch.onnx.export(
        head, (example,), dynamo=True, dynamic_shapes=({0: batch},), verbose=False, optimize=False
    )
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    (name,) = (i.name for i in session.get_inputs())
    for rows in (1, 300):
        z = drawn(seed=1)[0][:rows].astype(np.float32)
        bounds = session.run(None, {name: z})
        ours = [b.detach().numpy() for b in head(torch.tensor(z, requires_grad=True))]
        assert np.abs(np.array(bounds) - np.array(ours)).max() < 1e-6
        assert difference(bounds, d.predict(z)) < PEAK
    steep = np.array([[1e4, -1e4, 0, 0, 0, 0]], dtype=np.float32)
    assert difference(session.run(None, {name: steep}), d.predict(steep)) < 1e-6


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("directions", [CLASS, BOTH, LOCAL, MIXED], ids=str)
def test_the_exporter_that_traces_knows_every_operation(directions, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    head = CredalHead(fitted(0.9, directions, without=2, reference="best")).eval()
    path = tmp_path / "head.onnx"
    names = ["logits", "lower", "upper"]
    torch.onnx.export(
        head,
        (torch.zeros(2, 6),),
        path,
        dynamo=False,
        input_names=names[:1],
        output_names=names[1:],
        dynamic_axes={name: {0: "n"} for name in names},
    )
    session = runtime.InferenceSession(path)
    z = np.vstack([drawn(seed=1)[0], [[1e4, -1e4, 0, 0, 0, 0], [0, -np.inf, 1, 2, -np.inf, 3]]])
    for rows in (z, z[:1]):
        found = session.run(None, {"logits": rows.astype(np.float32)})
        ours = head(torch.tensor(rows, dtype=torch.float32))
        assert np.abs(np.array(found) - torch.stack(ours).numpy()).max() < 1e-6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_head_of_probabilities_runs_in_onnx_runtime():
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    z, y = drawn()
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    d = decal.decalibrate(p, y, alpha=0.9, probabilities=True)
    batch = torch.export.Dim("batch")
    program = torch.onnx.export(
        CredalHead(d).eval(),
        (torch.full((2, 6), 1 / 6),),
        dynamo=True,
        dynamic_shapes=({0: batch},),
        verbose=False,
    )
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    (name,) = (i.name for i in session.get_inputs())
    new = np.vstack([p[:50], [[0.0, 0.2, 0.3, 0.5, 0.0, 0.0]]]).astype(np.float32)
    assert difference(session.run(None, {name: new}), d.predict(new)) < 1e-6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_documented_network_runs_in_onnx_runtime(tmp_path, monkeypatch):
    # As tests/test_docs.py does, but with the snippets marked "py": the exporter warns, and takes
    # packages that are in no extra.
    for package in ("sklearn", "onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", WIDTH)
    page = Path(__file__).parent.parent / "docs" / "torch.md"
    fence = re.compile(r"^```py(?:thon)?\n(.*?)^```$\s*^```text\n(.*?)^```$", re.M | re.S)
    names, printed = {}, io.StringIO()
    blocks = fence.findall(page.read_text(encoding="utf-8"))
    with contextlib.redirect_stdout(printed):
        for code, _ in blocks:
            exec(compile(code, str(page), "exec"), names)
    assert printed.getvalue() == "".join(text for _, text in blocks)


class Tilt(decal.Line):
    """A direction of one's own."""

    name, ratio = "tilt", 1.0

    def move(self, logits):
        return logits * np.arange(logits.shape[1])


def test_a_head_refuses_what_it_cannot_do():
    d = decal.Decalibrator(0.9, directions=("class", Tilt())).fit(*drawn())
    with pytest.raises(ValueError, match="must all support a CredalHead: got 'tilt'"):
        CredalHead(d)
    with pytest.raises(decal.NotFittedError):
        CredalHead(decal.Decalibrator())
    with pytest.raises(decal.NotFittedError):
        CredalHead(decal.MultiLabelDecalibrator())
    with pytest.raises(TypeError, match="must be a Decalibrator: got a CoupledDecalibrator"):
        CredalHead(decal.CoupledDecalibrator(likelihood="mean"))
    with pytest.raises(ValueError, match=r"logits must have 6 columns.*got shape \(3, 5\)"):
        CredalHead(fitted())(torch.zeros(3, 5))
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1: got 2"):
        CredalHead(fitted(), alpha=2)


# From a model and a loader


def test_logits_are_collected_in_order_and_without_dropout(net, batches):
    logits, labels = collect_logits(net, batches)
    inputs, expected = batches.dataset.tensors
    torch.testing.assert_close(logits, net.eval()(inputs).detach())
    assert torch.equal(labels, expected)
    weight = torch.ones(5, requires_grad=True)
    (logits @ weight).sum().backward()  # not locked in inference mode


# Fitting


@pytest.mark.parametrize("directions", [CLASS, BOTH], ids="+".join)
@pytest.mark.parametrize("reference", ["model", "best"])
def test_streaming_a_loader_equals_fitting_on_all_logits(directions, reference, monkeypatch):
    monkeypatch.setattr(decal_torch, "CHUNK_ELEMENTS", 250)
    z, y = (torch.tensor(a) for a in drawn())
    loader = DataLoader(TensorDataset(z, y), batch_size=32)
    d = decalibrate_model(
        torch.nn.Identity(),
        loader,
        alpha=0.9,
        directions=directions,
        reference=reference,
        classes=list("abcdef"),
    )
    whole = fitted(0.9, directions, reference=reference)
    np.testing.assert_allclose(d.shifts().lower, whole.shifts().lower, atol=1e-9)
    np.testing.assert_allclose(d.shifts().upper, whole.shifts().upper, atol=1e-9)
    if directions == BOTH:
        assert d.scales().lower == pytest.approx(whole.scales().lower, abs=1e-9)
    assert d.examples == 300
    assert d.classes == tuple("abcdef")


@pytest.mark.parametrize(
    "wish", [{"miss": 0.1}, {"miss": 0.1, "per": "class"}, {"width": 0.3}, {"hold": 0.4}], ids=str
)
def test_a_loader_grants_wishes_as_arrays_do(wish):
    z, y = drawn(600)
    loader = DataLoader(TensorDataset(torch.tensor(z), torch.tensor(y)), batch_size=32)
    d = decalibrate_model(torch.nn.Identity(), loader, classes=list("abcdef"), seed=2, **wish)
    expected = decal.decalibrate(z, y, classes=list("abcdef"), seed=2, **wish)
    assert d.promise == expected.promise
    assert d.alpha == expected.alpha
    new = drawn(seed=3)[0]
    assert d.predict(new).possible() == expected.predict(new).possible()


@pytest.mark.parametrize("by", [None, "class", "group"])
def test_a_head_keeps_the_promise_of_its_decalibrator(by):
    z, y = drawn(900)
    groups = np.where(z[:, 0] > 0, "up", "down")
    asked = {None: {}, "class": {"per": "class"}, "group": {"groups": groups}}[by]
    d = decal.decalibrate(z, y, miss=0.1, **asked)
    new, truth = drawn(2000, seed=4)
    lower, upper = CredalHead(d)(torch.tensor(new))
    assert difference((lower, upper), d.predict(new, alpha=d.alpha)) < 1e-12
    kept = decal.IntervalCredalSet(lower, upper).decide("e_admissible")
    inside = kept[np.arange(2000), truth]
    assert inside.mean() > 0.8
    if by != "class":  # whose possible classes go by alphas of their own
        asked = {} if by is None else {"groups": np.where(new[:, 0] > 0, "up", "down")}
        assert (d.predict(new, **asked).decide("e_admissible") <= kept).all()


def test_a_model_does_not_run_without_exactly_one_wish(net, batches):
    def unwilling(_):
        raise AssertionError

    for wishes in ({}, {"alpha": 0.9, "hold": 0.5}):
        with pytest.raises(ValueError, match="one of alpha, miss, width, hold must be given"):
            decalibrate_model(unwilling, batches, **wishes)
    with pytest.raises(TypeError, match="must be given arguments that it has: got groups"):
        decalibrate_model(unwilling, batches, miss=0.1, groups=[0] * 103)
    with pytest.raises(ValueError, match="per must go with miss: got alpha"):
        decalibrate_model(net, batches, alpha=0.9, per="class")


# Networks that end in Softmax


@pytest.mark.parametrize("floor", [None, 1e-3, 0.0])
def test_a_head_of_probabilities_says_what_predict_says(floor):
    z, y = drawn()
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    settings_ = {"alpha": 0.9, "probabilities": True, "floor": floor}
    d = decal.decalibrate(p, y, **settings_)
    new = np.vstack([p[:20], [[0.0, 0.2, 0.3, 0.5, 0.0, 0.0]]])
    head = CredalHead(d)
    assert "probabilities=True" in repr(head)
    assert difference(head(torch.tensor(new)), d.predict(new)) < 1e-12
    given = torch.tensor(new, requires_grad=True)
    sum(head(given)).sum().backward()
    assert given.grad.isfinite().all()


@pytest.mark.parametrize("reference", ["model", "best"])
def test_a_network_that_ends_in_softmax_is_noticed_and_served(net, batches, reference):
    ending = torch.nn.Sequential(net, torch.nn.Softmax(dim=1))
    with pytest.warns(decal.InputWarning, match="Pass probabilities=True") as found:
        decalibrate_model(ending, batches, alpha=0.9, reference=reference)
    assert [w.filename for w in found] == [__file__]
    with pytest.warns(decal.InputWarning, match="ends in Softmax, cut that layer off"):
        collect_logits(ending, batches)
    settings_ = {"alpha": 0.9, "reference": reference}
    d = decalibrate_model(ending, batches, probabilities=True, **settings_)
    expected = decalibrate_model(net, batches, **settings_)
    np.testing.assert_allclose(d.shifts().upper, expected.shifts().upper, rtol=0, atol=1e-5)
    logs = torch.nn.Sequential(net, torch.nn.LogSoftmax(dim=1))  # log-probabilities are logits
    same = decalibrate_model(logs, batches, **settings_)
    np.testing.assert_allclose(same.shifts().upper, expected.shifts().upper, rtol=0, atol=1e-5)


def test_no_more_than_a_chunk_is_held(monkeypatch):
    monkeypatch.setattr(decal_torch, "CHUNK_ELEMENTS", 250)
    sizes = []
    learn = decal.Decalibrator.partial_fit
    monkeypatch.setattr(
        decal.Decalibrator,
        "partial_fit",
        lambda d, z, *a, **k: sizes.append(len(z)) or learn(d, z, *a, **k),
    )
    z, y = (torch.tensor(a) for a in drawn())
    decalibrate_model(torch.nn.Identity(), DataLoader(TensorDataset(z, y), batch_size=5), alpha=0.9)
    assert sum(sizes) == 300
    assert max(sizes) * 6 <= 250 + 5 * 6


def test_single_precision_tensors_are_shared_not_copied():
    for dtype in (torch.float32, torch.float64):
        z = torch.randn(50, 3, dtype=dtype, requires_grad=True)
        assert np.shares_memory(to_numpy(z, "logits"), z.detach().numpy())
        every_other = z[::2]
        assert np.shares_memory(to_numpy(every_other, "logits"), z.detach().numpy())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_fitting_on_tensors_equals_fitting_on_arrays(dtype, weighted, monkeypatch):
    monkeypatch.setattr(decal_torch, "CHUNK_ELEMENTS", 300)
    z, y = drawn()
    z = torch.tensor(z).to(dtype).requires_grad_()
    w = np.arange(300) % 4 * (np.arange(300) >= 100) if weighted else None  # whole chunks of none
    d = decal.Decalibrator(0.9, directions=BOTH).fit(z[:9], y[:9])  # to be forgotten
    assert decal_torch.fit(d, z, torch.tensor(y), sample_weight=w, classes="abcdef") is d
    whole = decal.Decalibrator(0.9, directions=BOTH).fit(
        z.detach().double().numpy(), y, sample_weight=w
    )
    np.testing.assert_allclose(d.shifts().lower, whole.shifts().lower, atol=1e-9)
    np.testing.assert_allclose(d.shifts().upper, whole.shifts().upper, atol=1e-9)
    assert d.scales().lower == pytest.approx(whole.scales().lower, abs=1e-9)
    assert d.examples == whole.examples
    assert d.classes == tuple("abcdef")


def test_the_best_reference_is_fitted_on_half_precision_too():
    z, y = drawn()
    half = torch.tensor(z).half()
    d = decal_torch.fit(decal.Decalibrator(0.9, reference="best"), half, y)
    whole = decal.Decalibrator(0.9, reference="best").fit(half.double().numpy(), y)
    np.testing.assert_allclose(d.shifts().upper, whole.shifts().upper, atol=1e-9)


def test_labels_that_losses_ignore_are_to_be_left_out():
    logits, labels = torch.zeros(3, 2), torch.tensor([0, 1, -100])
    with pytest.raises(ValueError, match="got -100 at index 2.*pass ignore_index=-100"):
        decal_torch.fit(decal.Decalibrator(), logits, labels)


def test_a_refused_tensor_leaves_the_old_fit(monkeypatch):
    monkeypatch.setattr(decal_torch, "CHUNK_ELEMENTS", 300)
    d = fitted(0.9)
    before = d.shifts().upper
    z, y = drawn()
    z = torch.tensor(z).half()
    for labels, message in (
        (y + 1, "in 0 to 5.*got 6 at index"),
        (y[1:], "labels must be a vector"),
    ):
        with pytest.raises(ValueError, match=message):
            decal_torch.fit(d, z, labels)
    with pytest.raises(ValueError, match="sample_weight must be 300 numbers"):
        decal_torch.fit(d, z, y, sample_weight=[1.0])
    with pytest.raises(ValueError, match="logits must be a matrix"):
        decal_torch.fit(d, z[0], y)
    z[231, 4] = torch.inf
    with pytest.raises(ValueError, match=r"finite or -inf: got inf at index \(231, 4\)"):
        decal_torch.fit(d, z, y)
    assert np.array_equal(d.shifts().upper, before)


# Arrays of others, wherever decal takes arrays


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_decalibrators_take_tensors(dtype):
    z, y = drawn()
    z = torch.tensor(z).to(dtype).requires_grad_()
    d = decal.Decalibrator(0.9).fit(z, torch.tensor(y))
    numbers = z.detach().double().numpy()
    whole = decal.Decalibrator(0.9).fit(numbers, y)
    np.testing.assert_allclose(d.shifts().upper, whole.shifts().upper, atol=1e-9)
    np.testing.assert_allclose(d.predict(z).upper, whole.predict(numbers).upper, atol=1e-9)


def test_batches_that_a_trainer_returns_are_to_be_joined():
    z, y = drawn()
    d = fitted(0.9)
    batches, labels = (torch.tensor(a).split(128) for a in (z, y))
    asked = [
        lambda: d.predict(list(batches)),
        lambda: d.predict([b.requires_grad_() for b in batches]),
        lambda: decal.Decalibrator().fit(list(batches), torch.tensor(y)),
        lambda: decal_torch.fit(decal.Decalibrator(), list(batches), torch.tensor(y)),
        lambda: decal.logits_from_probabilities(list(batches)),
        lambda: decal.MultiLabelDecalibrator().fit(list(batches), torch.tensor(z > 0)),
    ]
    for ask in asked:
        with pytest.raises(ValueError, match=r"must be one array: got a list of 3.*torch\.cat\("):
            ask()
    for logits in (torch.tensor(z), torch.tensor(z).half()):
        for learn in (decal.Decalibrator.fit, decal_torch.fit):
            with pytest.raises(ValueError, match=r"labels must be one array.*torch\.cat\(labels"):
                learn(decal.Decalibrator(), logits, list(labels))
    rows = [row.bfloat16().requires_grad_() for row in torch.tensor(z[:5])]
    expected = d.predict(torch.stack(rows))
    np.testing.assert_allclose(d.predict(rows).upper, expected.upper, atol=1e-12)


def test_bounds_from_the_head_make_a_credal_set():
    d = fitted(0.9)
    z = torch.tensor(drawn(seed=1)[0], dtype=torch.float32, requires_grad=True)
    credal = decal.IntervalCredalSet(*CredalHead(d)(z))
    np.testing.assert_allclose(credal.epistemic(), d.predict(z).epistemic(), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_decalibrators_take_jax_arrays(dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jax = pytest.importorskip("jax", reason="JAX is not installed: pip install jax")
        z, y = drawn()
        z, y = jax.numpy.asarray(z, dtype=dtype), jax.numpy.asarray(y)
    d = decal.Decalibrator(0.9).fit(z, y)
    numbers = np.asarray(z).astype(float)
    whole = decal.Decalibrator(0.9).fit(numbers, np.asarray(y))
    np.testing.assert_allclose(d.shifts().upper, whole.shifts().upper, atol=1e-9)
    np.testing.assert_allclose(d.predict(z).upper, whole.predict(numbers).upper, atol=1e-9)


# Without PyTorch


def test_a_missing_pytorch_names_the_install_command():
    code = (
        "import sys; sys.modules['torch'] = None; import decal; print(decal.Decalibrator())\n"
        "try: import decal.torch\n"
        "except ImportError as error: print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.endswith("decal.torch needs PyTorch: pip install 'decal[torch]'\n")


def test_importing_decal_does_not_import_torch():
    code = "import sys, decal; print('torch' in sys.modules, 'jax' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False False\n"


@pytest.mark.parametrize("directions", [CLASS, BOTH, LOCAL, MIXED], ids=str)
@pytest.mark.parametrize("box", ["joint", "own"])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
@pytest.mark.filterwarnings("ignore::decal.FitWarning")
def test_a_head_takes_masked_logits_and_gives_them_finite_gradients(directions, box, alpha):
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(60, 4))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    masked = rng.random(logits.shape) < 0.6
    masked[np.arange(60), labels] = False
    logits[masked] = -np.inf
    for reference in ("model", "best"):
        d = decal.decalibrate(
            logits, labels, alpha=alpha, box=box, directions=directions, reference=reference
        )
        z = torch.tensor(logits, requires_grad=True)
        bounds = CredalHead(d)(z)
        assert difference([b.detach().numpy() for b in bounds], d.predict(logits)) < PEAK
        (bounds[0].square().sum() + bounds[1].sum()).backward()
        assert torch.isfinite(z.grad).all()
        assert not bounds[1].detach().numpy()[masked].any()
