"""Callbacks of Lightning and of Hugging Face's Trainer, with the real trainers on tiny models."""

import warnings

import numpy as np
import pytest

import decal

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from decal.torch import collect_logits  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # of the trainers


def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 4, generator=generator)
    y = (x[:, :3] * 2 + torch.randn(400, 3, generator=generator)).argmax(dim=1)
    return DataLoader(TensorDataset(x, y), batch_size=50)


def trained(package, callback, folder, returns, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pl = pytest.importorskip(package)

    class Net(pl.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net, self.runs = torch.nn.Linear(4, 3), 0

        def forward(self, x):
            self.runs += not self.training
            return self.net(x)

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

        def validation_step(self, batch, _):
            return returns(self(batch[0]))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = pl.Trainer(
        max_epochs=2,
        callbacks=[callback],
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    net = Net()
    trainer.fit(net, data(), data())
    return trainer, net


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
@pytest.mark.parametrize("named", [True, False])
def test_lightning_decalibrates_at_the_end_of_validation(package, named, tmp_path):
    pytest.importorskip(package.partition(".")[0])
    from decal.torch import LightningDecalibration

    callback = LightningDecalibration(miss=0.1)
    returns = (lambda z: {"logits": z}) if named else (lambda z: z.sum())
    trainer, net = trained(package, callback, tmp_path, returns)
    assert net.runs == 2 + 2 * 8 * (1 if named else 2)  # two batches are a sanity check
    logits, labels = collect_logits(net, data())
    expected = decal.decalibrate(logits, labels, miss=0.1)
    assert callback.decalibrator.promise == expected.promise
    assert callback.decalibrator.alpha == pytest.approx(expected.alpha, abs=1e-6)
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert logged["decal/alpha"] == pytest.approx(expected.alpha, abs=1e-6)
    assert logged["decal/miss"] == pytest.approx(0.1)
    assert logged["decal/set_size"] == pytest.approx(expected.promise.costs["kept"], abs=1e-5)
    trainer.save_checkpoint(tmp_path / "net.ckpt")
    state = torch.load(tmp_path / "net.ckpt", weights_only=True)["callbacks"][callback.state_key]
    again = LightningDecalibration(miss=0.1)
    again.load_state_dict(state)
    new = torch.randn(20, 3)
    assert again.decalibrator.promise == expected.promise
    assert np.array_equal(
        again.decalibrator.predict(new).upper, callback.decalibrator.predict(new).upper
    )


def test_a_wish_is_checked_before_the_training():
    pytest.importorskip("lightning")
    from decal.torch import LightningDecalibration

    assert LightningDecalibration(alpha=0.9).state_dict() == {}
    with pytest.raises(ValueError, match="one of alpha, miss, width, hold must be given"):
        LightningDecalibration()
    with pytest.raises(TypeError, match="got mis. Did you mean miss"):
        LightningDecalibration(mis=0.1)
    with pytest.raises(ValueError, match="tolerate must go with unit"):
        LightningDecalibration(miss=0.1, tolerate=0.2)


def test_the_trainer_of_hugging_face_decalibrates_after_every_evaluation(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from decal.torch import TrainerDecalibration

    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    small |= {"intermediate_size": 16, "max_position_embeddings": 16, "vocab_size": 20}
    config = transformers.BertConfig(**small, num_labels=3)
    model = transformers.BertForTokenClassification(config)
    inputs = torch.randint(20, (60, 8))
    answers = torch.where(torch.rand(60, 8) < 0.2, -100, inputs % 3)
    rows = [{"input_ids": x, "labels": y} for x, y in zip(inputs, answers, strict=True)]
    callback = TrainerDecalibration(miss=0.1, unit="sentence", ignore_index=-100)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=2,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        metric_for_best_model="eval_decal_set_size",
        greater_is_better=False,
    )
    trainer = transformers.Trainer(
        model, arguments, train_dataset=rows, eval_dataset=rows, callbacks=[callback]
    )
    trainer.train()
    logits, labels = collect_logits(model, DataLoader(rows, batch_size=8), ignore_index=-100)
    expected = decal.decalibrate(
        logits, labels, dim=-1, ignore_index=-100, miss=0.1, unit="sentence"
    )
    assert callback.decalibrator.promise == expected.promise
    files = sorted(tmp_path.glob("checkpoint-*/decal.npz"))
    assert len(files) == 2
    last = max(files, key=lambda file: int(file.parent.name.partition("-")[2]))
    assert decal.load(last).promise == expected.promise
    logged = [row for row in trainer.state.log_history if "eval_decal_set_size" in row]
    assert len(logged) == 2
    assert trainer.state.best_metric == min(row["eval_decal_set_size"] for row in logged)
    assert trainer.evaluate()["eval_decal_miss"] == 0.1


@pytest.mark.parametrize("name", ["model", "loader", "votes", "device", "progress"])
@pytest.mark.parametrize("kind", ["LightningDecalibration", "TrainerDecalibration"])
def test_what_the_trainer_knows_is_no_argument_of_a_callback(kind, name):
    pytest.importorskip("lightning" if kind.startswith("Light") else "transformers")
    with pytest.raises(TypeError, match=f"arguments that it has: got {name}. .*It takes alpha"):
        getattr(decal.torch, kind)(miss=0.1, **{name: "counts"})
