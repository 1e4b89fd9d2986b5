"""torchmetrics: the numbers of evaluate_model, over batches, pixels and processes."""

import numpy as np
import pytest

import decal

torch = pytest.importorskip("torch")
pytest.importorskip("torchmetrics")
from torchmetrics import MetricCollection  # noqa: E402

from decal.torch import (  # noqa: E402
    CredalCoverage,
    CredalHead,
    MissRate,
    SetSize,
    evaluate_model,
)

pytestmark = pytest.mark.torch


def drawn(n=300, K=5, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, K)) * 2
    return torch.tensor(z), torch.tensor((0.6 * z + rng.gumbel(size=z.shape)).argmax(axis=1))


def fitted(**more):
    return decal.decalibrate(*drawn(600, seed=1), miss=0.1, **more)


@pytest.mark.parametrize("more", [{}, {"per": "class"}], ids=str)
def test_metrics_say_what_evaluate_model_says(more):
    d, (z, y) = fitted(**more), drawn()
    metrics = MetricCollection([MissRate(d), SetSize(d)])
    loader = list(zip(z.split(70), y.split(70), strict=True))
    for batch in loader:
        metrics.update(*batch)
    found = {name: float(value) for name, value in metrics.compute().items()}
    expected = evaluate_model(None, d, loader)
    assert found == pytest.approx(
        {"MissRate": expected.miss_rate, "SetSize": expected.set_size}, abs=1e-6
    )
    metrics.reset()
    metrics.update(z[:9], y[:9])
    assert float(metrics.compute()["MissRate"]) == pytest.approx(
        evaluate_model(None, d, [(z[:9], y[:9])]).miss_rate, abs=1e-6
    )


def test_kept_classes_of_a_head_are_counted_and_ignored_labels_left_out():
    d, (z, y) = fitted(), drawn(240)
    maps, labels = z.reshape(10, 24, 5).movedim(-1, 1), y.reshape(10, 24).clone()
    labels[:, 20:] = -100
    *_, kept = CredalHead(d, dim=1, kept=d.promise.rule)(maps)
    by_kept, by_logits = MissRate(dim=1, ignore_index=-100), MissRate(d, ignore_index=-100)
    by_kept.update(kept, labels)
    by_logits.update(maps, labels)
    assert by_kept.compute() == by_logits.compute()
    expected = evaluate_model(None, d, [(maps, labels)], ignore_index=-100)
    assert float(by_kept.compute()) == pytest.approx(expected.miss_rate, abs=1e-6)
    assert expected.rows == 200
    by_kept.update(kept, torch.full_like(labels, -100))  # counts nothing
    assert by_kept.compute() == by_logits.compute()


def test_a_batch_of_which_nothing_is_known_changes_nothing():
    d, (z, y) = fitted(), drawn(240)
    maps, labels = z.reshape(10, 24, 5), y.reshape(10, 24)
    for metric in (MissRate(d, dim=-1, ignore_index=-100), SetSize(d, dim=-1, ignore_index=-100)):
        metric.update(maps[:2], torch.full_like(labels[:2], -100))
        assert torch.isnan(metric.compute())
        metric.update(maps, labels)
        expected = type(metric)(d)
        expected.update(z, y)
        assert metric.compute() == expected.compute()


def test_coverage_of_pixels_is_that_of_their_rows():
    d, (z, _) = fitted(), drawn(240)
    truth = (z + 0.3 * torch.randn_like(z)).softmax(dim=1)
    by_rows, by_maps = CredalCoverage(d), CredalCoverage(d, dim=1)
    by_rows.update(z, truth)
    maps, distributions = (part.reshape(10, 24, 5).movedim(-1, 1) for part in (z, truth))
    by_maps.update(maps, distributions)
    assert 0 < by_maps.compute() == by_rows.compute() < 1
    with pytest.raises(ValueError, match=r"distributions must have the shape of the logits, \(10"):
        by_maps.update(maps, distributions[..., :3])


def test_coverage_is_that_of_arrays():
    d, (z, _) = fitted(), drawn()
    truth = torch.softmax(torch.cat([z[:150], -z[150:]]), dim=1)
    metric = CredalCoverage(d)
    for some in (slice(0, 100), slice(100, 300)):
        metric.update(z[some], truth[some])
    expected = decal.metrics.coverage(d.predict(z), truth)
    assert 0 < expected < 1
    assert float(metric.compute()) == pytest.approx(expected, abs=1e-6)


def test_what_is_neither_logits_nor_kept_classes_is_refused():
    d, (z, y) = fitted(), drawn(9)
    with pytest.raises(ValueError, match="preds must be logits with a decalibrator.*float64"):
        MissRate().update(z, y)
    with pytest.raises(ValueError, match="preds must be logits.*torch.bool"):
        MissRate(d).update(z > 0, y)
    with pytest.raises(ValueError, match="got -100 at index 0.*ignore_index=-100"):
        MissRate(d).update(z, torch.full_like(y, -100))
    with pytest.raises(ValueError, match="model must tell classes that exclude each other"):
        MissRate(decal.MultiLabelDecalibrator())


def one_process(rank, folder):
    """A process of two: counts its half, and writes what both found."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    from decal.torch._after_validation import gathered
    from decal.torch.batches import batch_of

    d, (z, y) = fitted(), drawn()
    some = slice(0, 90) if rank == 0 else slice(90, 300)
    metric = MissRate(d)
    metric.update(z[some], y[some])
    every = gathered([batch_of(z[some], y[some], None)])
    rows = torch.cat([batch.logits for batch in every])
    torch.save([metric.compute(), rows], f"{folder}/found{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_find_what_one_finds(tmp_path):
    torch.multiprocessing.spawn(one_process, (str(tmp_path),), nprocs=2)
    d, (z, y) = fitted(), drawn()
    whole = MissRate(d)
    whole.update(z, y)
    for rank in range(2):
        rate, rows = torch.load(tmp_path / f"found{rank}.pt")
        assert rate == whole.compute()
        assert torch.equal(rows, z)


@pytest.mark.parametrize("other", [None, torch.nn.Identity()])
def test_coverage_is_that_of_a_decalibrator(other):
    with pytest.raises(TypeError, match="decalibrator must be a Decalibrator: got a "):
        decal.torch.CredalCoverage(other)
