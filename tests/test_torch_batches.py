"""Running models over loaders: modes, devices, batches of all kinds, a bar, and refusals."""

import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import decal

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from decal.torch import batches as batches_module  # noqa: E402
from decal.torch import collect_logits, decalibrate_model, evaluate_model  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 5))


@pytest.fixture
def batches():
    torch.manual_seed(1)
    inputs, labels = torch.randn(103, 4), torch.randint(5, (103,))
    return DataLoader(TensorDataset(inputs, labels), batch_size=10)


def test_every_module_gets_its_mode_back(net, batches):
    net.train()
    net[1].eval()
    collect_logits(net, batches)
    assert net.training
    assert not net[1].training
    assert net[2].training

    def broken():
        yield from batches
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        collect_logits(net, broken())
    assert net.training
    assert not torch.is_inference_mode_enabled()


def test_a_device_may_be_named_and_the_model_comes_back(net, batches, monkeypatch):
    here, _ = collect_logits(net, batches)
    places = []
    monkeypatch.setattr(net, "to", lambda place: places.append(str(place)))
    there, _ = collect_logits(net, batches, device="cpu")
    assert torch.equal(here, there)
    assert places == ["cpu", "cpu"]


def test_batches_and_outputs_in_the_manner_of_hugging_face(net, batches):
    net.eval()

    class Classifier(torch.nn.Module):
        def forward(self, input_values, attention_mask=None, labels=None):
            assert labels is None  # a loss is not wanted
            assert attention_mask is not None
            return SimpleNamespace(logits=net(input_values), loss=None)

    loader = [
        {"input_values": x, "attention_mask": torch.ones(len(x)), "labels": y} for x, y in batches
    ]
    logits, labels = collect_logits(Classifier(), loader)
    torch.testing.assert_close(logits, collect_logits(net, batches)[0])
    assert torch.equal(labels, batches.dataset.tensors[1])
    pairs = [((x, torch.ones(len(x))), y.tolist()) for x, y in batches]
    torch.testing.assert_close(collect_logits(Classifier(), pairs)[0], logits)


def test_functions_are_models_and_half_precision_comes_back_as_float32(net, batches):
    net.eval()
    logits, _ = collect_logits(lambda x: net(x).bfloat16(), batches)
    assert logits.dtype == torch.float32
    assert torch.equal(logits, net(batches.dataset.tensors[0]).bfloat16().float())


@pytest.mark.parametrize("hidden", [(), ("rich.progress",)])
def test_a_bar_on_stderr_only(net, batches, hidden, capsys, monkeypatch):
    pytest.importorskip("rich")
    for package in hidden:
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    expected = collect_logits(net, batches, progress=False)
    assert capsys.readouterr() == ("", "")
    found = collect_logits(net, batches, progress=True)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ("logits" in printed.err) == (not hidden)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    collect_logits(net, iter(batches))
    assert capsys.readouterr() == ("", "")


def outputs(value):
    return lambda _: value


X, Y = torch.zeros(3, 4), torch.tensor([0, 1, 1])


@pytest.mark.parametrize(
    ("model", "loader", "message"),
    [
        (outputs(torch.zeros(3, 7, 2)), [(X, Y)], r"model .*shape \(3, K\).*got shape \(3, 7, 2\)"),
        (outputs(torch.zeros(1, 2, 3, 2)), [(X, Y)], "Labels of pixels or tokens have the shape"),
        (outputs(torch.zeros(3)), [(X, Y)], r"model .*shape \(3, K\).*got shape \(3,\)"),
        (outputs(torch.zeros(2, 5)), [(X, Y)], r"model .*shape \(3, K\).*got shape \(2, 5\)"),
        (outputs(torch.zeros(3, 1)), [(X, Y)], r"two or more: got shape \(3, 1\).*stack it as"),
        (outputs((torch.zeros(3, 2),)), [(X, Y)], r"model must return a tensor.*got a tuple"),
        (outputs(torch.zeros(3, 2)), [], "loader must yield at least one batch"),
        (outputs(torch.zeros(3, 2)), [X], "loader must yield .*got a Tensor"),
        (outputs(torch.zeros(3, 2)), [(X, Y, Y)], "loader must yield .*got a tuple of 3"),
        (
            outputs(torch.zeros(3, 2)),
            [{"x": X}],
            r"'labels' or 'label', one of them: got keys \['x'\]",
        ),
        (outputs(torch.zeros(3, 2)), [(X, ["a", "b", "a"])], "labels must be integers: got .'a'"),
        (outputs(torch.zeros(3, 2)), [(X, Y.float())], "labels must be integers.*torch.float32"),
        (
            outputs(torch.zeros(3, 2)),
            [(X, X.int())],
            r"labels must be a vector.*got shape \(3, 4\)",
        ),
        (
            outputs(torch.zeros(3, 2)),
            [(X, Y[:, None])],
            r"got shape \(3, 1\).*labels\.squeeze\(1\)",
        ),
        (outputs(torch.zeros(3, 2)), [(X, Y[:, None, None])], "Flatten them, and let the model"),
        (outputs(torch.zeros(3, 2)), [(X, Y), (X, Y + 1)], "in 0 to 1.*got 2 at index 4"),
        (outputs(torch.zeros(3, 2)), TensorDataset(X, Y), "must yield batches.*in a .*DataLoader"),
        (outputs(torch.zeros(3, 2)), [(X[0], 1)], "must yield batches: got single examples"),
        (
            outputs(torch.zeros(3, 2)),
            [(X, Y), (X, torch.tensor([0, -100, -100]))],
            "got -100 at index 4. Losses of PyTorch ignore -100: pass ignore_index=-100",
        ),
        (lambda x: x[:, : int(x[0, 0])], [(X + 3, Y), (X + 2, Y)], "3 columns.*got 2 from row 3"),
    ],
)
def test_refusals_say_what_came(model, loader, message):
    with pytest.raises(ValueError, match=message):
        collect_logits(model, loader)
    with pytest.raises(ValueError, match=message):
        decalibrate_model(model, loader, alpha=0.9)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (X.numpy(), r"got ndarray \(3, 4\) in batch 1, and TypeError: linear.*arrays into tensors"),
        (
            {"input": X, "idx": Y},
            r"got input=Tensor \(3, 4\), idx=Tensor \(3,\) in batch 1, and .*'idx'. A mapping is",
        ),
        ((X, X), r"got Tensor \(3, 4\), Tensor \(3, 4\) in batch 1.*in a function"),
        (None, "got NoneType in batch 1"),
    ],
)
def test_inputs_that_the_model_does_not_take_are_described(inputs, message, net):
    loader = [(X, Y), (inputs, Y)]
    for learn in (collect_logits, partial(decalibrate_model, alpha=0.9)):
        with pytest.raises(TypeError, match=f"model must take the inputs.*{message}") as caught:
            learn(net, loader)
        assert caught.value.__cause__ is not None


def test_the_total_of_a_loader_is_known_where_it_has_one(net, batches, monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    collect_logits(net, batches)
    assert f"{len(batches)}/{len(batches)}" in capsys.readouterr().err


def test_a_model_that_says_nan_is_told_in_which_row(batches):
    def model(x):
        spoiled = torch.where(x == batches.dataset.tensors[0][57, 2], torch.nan, x)
        return torch.cat([spoiled, torch.zeros(len(x), 1)], dim=1)

    with pytest.raises(ValueError, match=r"finite or -inf: got nan at index \(57, 2\)"):
        decalibrate_model(model, batches, alpha=0.9)


# Pixels, tokens, and loaders of other kinds


def images(n=30, K=4, height=5, width=6, seed=0, ignored=0.2):
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(n, K, height, width, generator=generator) * 2
    z += torch.randn(n, K, 1, 1, generator=generator)
    noise = torch.rand(z.shape, generator=generator)
    y = (0.7 * z - torch.log(-torch.log(noise))).argmax(dim=1)
    y[torch.rand(y.shape, generator=generator) < ignored] = -100
    return z, y


@pytest.mark.parametrize("wish", [{"miss": 0.1, "unit": "image"}, {"alpha": 0.9}], ids=str)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_pixels_and_tokens_of_a_loader_are_those_of_arrays(wish, last, dtype):
    z, y = images(60)
    z = (z.flatten(2).movedim(1, -1) if last else z).to(dtype)
    y = y.flatten(1) if last else y
    loader = list(zip(z.split(16), y.split(16), strict=True))
    logits, labels = collect_logits(None, loader, ignore_index=-100)
    assert torch.equal(logits.to(dtype), z)
    assert logits.dtype == torch.promote_types(dtype, torch.float32)
    assert torch.equal(labels, y)
    d = decalibrate_model(None, loader, ignore_index=-100, **wish)
    given = {"dim": -1 if last else 1, "ignore_index": -100}
    expected = decal.decalibrate(logits, labels, **given, **wish)
    assert d.promise == expected.promise
    new, old = (model.predict(logits, dim=given["dim"]).upper for model in (d, expected))
    np.testing.assert_allclose(new, old, rtol=0, atol=1e-9)


@pytest.mark.parametrize("tokens", [False, True])
def test_images_of_several_sizes_become_a_list(tokens):
    loader = [images(20, width=w, seed=w) for w in (4, 6, 4)]  # 4 classes: an axis fits twice
    if tokens:
        loader = [(z.flatten(2).movedim(1, -1), y.flatten(1)) for z, y in loader]
    loader.sort(key=lambda batch: -batch[0].shape[1 if tokens else -1])
    logits, labels = collect_logits(None, loader, ignore_index=-100)
    assert [len(logits), len(labels)] == [60, 60]
    assert torch.equal(logits[25], loader[1][0][5])
    wish = {"miss": 0.1, "unit": "image", "ignore_index": -100}
    d = decalibrate_model(None, loader, **wish)
    expected = decal.decalibrate(logits, labels, dim=-1 if tokens else 0, **wish)
    assert d.promise == expected.promise
    assert d.alpha == expected.alpha
    found = evaluate_model(None, d, loader, ignore_index=-100)
    assert found.units == 60


def test_a_model_is_evaluated_as_sets_and_labels_are():
    z, y = images(40)
    loader = list(zip(z.split(16), y.split(16), strict=True))
    d = decalibrate_model(None, loader, miss=0.1, unit="image", tolerate=0.2, ignore_index=-100)
    new, truth = images(30, seed=1)
    truth[3] = -100  # a whole image, and a whole batch
    truth[20:] = -100
    batches = list(zip(new.split(10), truth.split(10), strict=True))
    found = evaluate_model(None, d, batches, ignore_index=-100)
    kept = torch.tensor(d.predict(new, dim=1).possible)
    known = truth != -100
    missed = ~kept.gather(1, truth.clamp(min=0)[:, None])[:, 0] & known
    assert found.rows == int(known.sum())
    assert found.miss_rate == pytest.approx(float(missed.sum() / known.sum()))
    assert found.set_size == pytest.approx(float(kept.sum(dim=1)[known].float().mean()))
    assert found.accuracy == pytest.approx(float((new.argmax(1) == truth)[known].float().mean()))
    shares = [float(missed[i].sum() / known[i].sum()) for i in range(30) if known[i].any()]
    assert found.units == len(shares) == 19
    assert found.unit_miss_rate == pytest.approx(np.mean(shares))
    assert found.bad_unit_rate == pytest.approx(np.mean([share > 0.2 for share in shares]))
    assert f"more than 0.2 of their labels in {found.bad_unit_rate:.1%} of" in repr(found)


def test_an_evaluation_holds_some_rows_at_a_time(monkeypatch):
    z, y = images(40)
    d = decalibrate_model(None, [(z, y)], miss=0.1, unit="image", ignore_index=-100)
    whole = evaluate_model(None, d, [(z, y)], ignore_index=-100)
    monkeypatch.setattr(batches_module, "EVALUATED_ELEMENTS", 100)
    sizes = []
    ask = decal.Decalibrator.predict_rows
    monkeypatch.setattr(
        decal.Decalibrator,
        "predict_rows",
        lambda d, rows, **k: sizes.append(len(rows)) or ask(d, rows, **k),
    )
    assert repr(evaluate_model(None, d, [(z, y)], ignore_index=-100)) == repr(whole)
    assert max(sizes) == 25


def read_by_several(n=400, K=4, people=5, seed=0):
    """Logits (n, K) and labels (n, people), -1 where one gave none."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(n, K, generator=generator, dtype=torch.float64) * 2
    noise = torch.rand((n, people, K), generator=generator)
    said = (0.7 * z[:, None] - torch.log(-torch.log(noise))).argmax(dim=2)
    said[:, 1:][torch.rand((n, people - 1), generator=generator) < 0.3] = -1
    return z, said


def loader_of(logits, said, kind):
    """A loader of annotations or counts, and the votes that these are."""
    votes = decal.Votes.of_annotations(said.numpy(), classes=logits.shape[1])
    labels = said if kind == "annotations" else torch.tensor(votes.counts).int()
    return DataLoader(TensorDataset(logits, labels), batch_size=64), votes


@pytest.mark.parametrize("kind", ["annotations", "counts"])
@pytest.mark.parametrize(
    "wish", [{"hold": 0.5}, {"miss": 0.2}, {"miss": 0.2, "tolerate": 0.3}, {"width": 0.3}], ids=str
)
def test_labels_of_several_people_in_a_loader_are_votes_of_arrays(kind, wish):
    z, said = read_by_several()
    loader, votes = loader_of(z, said, kind)
    logits, found = collect_logits(torch.nn.Identity(), loader, votes=kind)
    assert torch.equal(logits, z)
    np.testing.assert_array_equal(found.counts, votes.counts)
    assert repr(found) == repr(votes)
    names = list("abcd")
    d = decalibrate_model(torch.nn.Identity(), loader, votes=kind, classes=names, **wish)
    expected = decal.decalibrate(z.numpy(), votes, classes=names, **wish)
    assert repr(d) == repr(expected)
    assert d.promise == expected.promise
    new, old = d.predict(logits), expected.predict(z.numpy())
    np.testing.assert_array_equal(new.lower, old.lower)
    np.testing.assert_array_equal(new.upper, old.upper)


@pytest.mark.parametrize("chunk", [300, 1 << 22])
def test_streamed_votes_equal_those_that_are_fitted_at_once(chunk, monkeypatch):
    monkeypatch.setattr("decal.torch.CHUNK_ELEMENTS", chunk)
    z, said = read_by_several()
    loader, votes = loader_of(z, said, "annotations")
    d = decalibrate_model(None, loader, alpha=0.9, votes="annotations")
    expected = decal.Decalibrator(0.9).fit(z.numpy(), votes)
    tolerance = 1e-9 if chunk == 300 else 0
    new, old = d.predict(z).upper, expected.predict(z.numpy()).upper
    np.testing.assert_allclose(new, old, rtol=0, atol=tolerance)
    half = decal.torch.fit(decal.Decalibrator(0.9), z.half(), votes)
    assert half.examples == expected.examples


@pytest.mark.parametrize("kind", ["annotations", "counts"])
@pytest.mark.parametrize("held", [1 << 20, 100])
def test_a_model_is_evaluated_by_labels_of_several_people(kind, held, monkeypatch):
    monkeypatch.setattr(batches_module, "EVALUATED_ELEMENTS", held)
    z, said = read_by_several()
    d = decal.decalibrate(z.numpy(), loader_of(z, said, kind)[1], miss=0.2, tolerate=0.25)
    new, truth = read_by_several(seed=1)
    loader, votes = loader_of(new, truth, kind)
    found = evaluate_model(None, d, loader, votes=kind)
    kept = d.predict(new.numpy()).possible_mask()
    missed = (votes.counts * ~kept).sum(axis=1) / votes.counts.sum(axis=1)
    assert found.rows == found.units == 400
    assert found.miss_rate == pytest.approx(missed.mean())
    assert found.unit_miss_rate == pytest.approx(missed.mean())
    assert found.set_size == pytest.approx(kept.sum() / 400)
    assert found.bad_unit_rate == pytest.approx((missed > 0.25).mean())


def test_labels_of_several_people_are_not_guessed_at():
    z, said = read_by_several()
    counts = torch.nn.functional.one_hot(said.clamp(min=0), 4).sum(dim=1)
    d = decal.Decalibrator().fit(z.numpy(), said[:, 0].numpy())
    for labels in (said, counts, counts.float()):
        for learn in (
            collect_logits,
            partial(decalibrate_model, hold=0.8),
            lambda net, loader: evaluate_model(net, d, loader),
        ):
            with pytest.raises(ValueError, match="votes='annotations' or votes='counts' to decal"):
                learn(None, [(z, labels)])


@pytest.mark.parametrize(
    ("labels", "given", "message"),
    [
        (lambda y: y, {"dim": 1}, "dim must be left out with votes: got 1. Of pixels"),
        (lambda y: y, {"ignore_index": -100}, "ignore_index must be left out with votes: got -100"),
        (lambda y: y, {"votes": "people"}, "votes must be one of 'annotations', 'counts': got 'pe"),
        (lambda y: y[:, 0], {}, r"annotations must be a matrix.*got shape \(200,\) of batch 0"),
        (lambda y: y * 0 - 1, {}, "hold a label of every row: got none in row 0 of batch 0"),
        (lambda y: y * 0 + 4, {}, r"lie in 0 to 3, .*: got 4 at index \(0, 0\) of batch 0"),
        (
            lambda y: y[:, :4],
            {"votes": "counts"},
            r"counts must be whole .*got -1.0 .* of batch 0",
        ),
        (lambda y: y.abs(), {"votes": "counts"}, "column per class, 4: got 5 in batch 0. If a col"),
        (lambda y: y[:3], {}, r"model must return logits of shape \(3, K\)"),
    ],
)
def test_votes_that_do_not_fit_are_refused(labels, given, message):
    z, said = read_by_several(200)
    for learn in (collect_logits, partial(decalibrate_model, hold=0.8)):
        with pytest.raises(ValueError, match=message):
            learn(None, [(z, labels(said))], **{"votes": "annotations", **given})
    with pytest.raises(ValueError, match="got 4 at index .* of batch 1"):
        collect_logits(None, [(z, said), (z, said * 0 + 4)], votes="annotations")


def test_batches_of_other_kinds(net):
    x, y = torch.randn(6, 4), torch.randint(5, (6,))
    expected, _ = collect_logits(net, [(x, y)])
    names = [f"scan {i}" for i in range(6)]
    for batch in ((x, y, torch.arange(6) + 40), (x, y, names), {"input": x, "label": y}):
        assert torch.equal(collect_logits(net, [batch])[0], expected)
    assert torch.equal(collect_logits(None, [{"logits": expected, "label": y}])[0], expected)
    for third in (torch.rand(6), torch.ones(6, dtype=torch.int64), torch.arange(3), [0.5] * 6):
        with pytest.raises(ValueError, match="a third item that names examples: got a tuple of 3"):
            collect_logits(net, [(x, y, third)])
    with pytest.raises(ValueError, match="one of them: got keys .*'label', 'labels'"):
        collect_logits(net, [{"input": x, "label": y, "labels": y}])
    transformers = pytest.importorskip("transformers")
    encoded = transformers.BatchEncoding({"input": x, "labels": y})
    assert torch.equal(collect_logits(net, [encoded])[0], expected)


Z, T = images(3)


def spoiled():
    z, y = Z.clone(), T.clone()
    z[1, 2, 3, 4], y[1, 3, 4] = torch.nan, 0
    return [(Z, T), (z, y)]


@pytest.mark.parametrize(
    ("loader", "given", "message"),
    [
        ([(Z, T)], {}, r"got -100 at index \(0, \d, \d\).*pass ignore_index=-100"),
        ([(Z, T[:, :3])], {"ignore_index": -100}, r"labels must have the shape.*\(3, 3, 6\)"),
        ([(Z, T[:, :3])], {"dim": 1}, r"\(3, 3, 6\)\. Scale the logits to the size of the labels"),
        ([(Z, T.mT)], {"dim": 1}, r"got shape \(3, 6, 5\)\.$"),
        ([(Z, T[:, None])], {"dim": 1}, r"If axis 1 is the label's own, use labels\.squeeze\(1\)"),
        ([(Z, (Z > 0).long())], {"dim": 1}, r"If axis 1 is the .* use labels\.argmax\(1\)"),
        ([(Z, T)], {"ignore_index": [255, -100]}, r"one label: got \[255, -100\]\. Give"),
        ([(Z, T)], {"ignore_index": True}, "ignore_index must be one label: got True"),
        ([(Z, T)], {"ignore_index": -100, "dim": 3}, r"labels must have the shape of the logits"),
        ([(Z, T * 0 - 100)], {"ignore_index": -100}, "must not all be ignored: got only -100"),
        (spoiled(), {"ignore_index": -100}, r"got nan at index \(4, 2, 3, 4\)"),
        ([], {"ignore_index": -100}, "loader must yield at least one batch"),
        ([(Z[:, :1], T)], {"ignore_index": -100}, r"two or more: got shape \(3, 1, 5, 6\)"),
        ([{"x": Z, "labels": T}], {}, "with 'logits', if model is None: got dict"),
    ],
)
def test_bad_pixels_are_refused(loader, given, message):
    for learn in (collect_logits, partial(decalibrate_model, miss=0.1, unit="image")):
        with pytest.raises(ValueError, match=message):
            learn(None, loader, **given)
    with pytest.raises(ValueError, match=message):
        evaluate_model(None, decal.Decalibrator().fit(Z, T, ignore_index=-100), loader, **given)


def test_nan_where_labels_are_ignored_does_not_matter():
    z, y = images(60)
    z = torch.where((y == -100)[:, None], torch.nan, z)
    d = decalibrate_model(None, [(z, y)], miss=0.1, unit="image", ignore_index=-100)
    assert evaluate_model(None, d, [(z, y)], ignore_index=-100).rows == int((y != -100).sum())


def test_what_cannot_be_promised_is_said_before_the_model_runs():
    def unwilling(_):
        raise AssertionError

    with pytest.raises(ValueError, match="unit must go with miss: got alpha"):
        decalibrate_model(unwilling, [(Z, T)], alpha=0.9, unit="image")
    with pytest.raises(ValueError, match="classes that exclude each other"):
        evaluate_model(unwilling, decal.MultiLabelDecalibrator(), [(Z, T)])


@pytest.mark.parametrize("key", ["out", "logits"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_networks_may_return_mappings_as_torchvisions_do(key, dtype):
    z, y = images(60)
    given = {"ignore_index": -100, "dim": 1}
    z = z.to(dtype)

    def model(inputs):
        return {key: inputs, "aux": -inputs}

    found = decalibrate_model(model, [(z, y)], miss=0.2, unit="image", **given)
    plain = decal.decalibrate(z.float(), y, miss=0.2, unit="image", **given)
    assert found.alpha == plain.alpha
    counted = evaluate_model(model, found, [(z, y)], **given)
    assert counted.miss_rate == evaluate_model(None, plain, [(z.float(), y)], **given).miss_rate
    with pytest.raises(ValueError, match=r"\['out'\]: got a dict with 'aux', 'b'\. Wrap the mo"):
        decalibrate_model(lambda x: {"aux": x, "b": x}, [(z, y)], alpha=0.9, **given)


def test_a_loader_that_yields_logits_already_is_told_by_the_error_of_the_network():
    conv = torch.nn.Conv2d(3, Z.shape[1], 1)
    with pytest.raises(RuntimeError, match="channels") as caught:
        decalibrate_model(conv, [(Z, T)], alpha=0.9, dim=1)
    (note,) = caught.value.__notes__
    assert note.startswith(f"The model's inputs in batch 0: Tensor {tuple(Z.shape)}.")
    assert "pass None as the model" in note


def test_logits_whose_sum_overflows_are_finite():
    rows = torch.full((4, 3), 3e38)
    batches_module.check_rows(rows)
    with pytest.raises(ValueError, match="must be finite or -inf: got inf"):
        batches_module.check_rows(rows * 2)


@pytest.mark.parametrize("other", [None, [(torch.eye(3), torch.arange(3))], torch.nn.Identity()])
def test_what_is_evaluated_is_a_decalibrator(other):
    message = "decalibrator must be a Decalibrator: got a .* takes a model, a decalibrator and a lo"
    with pytest.raises(TypeError, match=message):
        evaluate_model(None, other, [(torch.eye(3), torch.arange(3))])
