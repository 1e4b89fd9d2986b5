"""Published logits from .npz files, and from the paper's .csv files."""

import numpy as np
import pytest

from decal_lab import data as datasets
from decal_lab.data import DamagedDataError, MissingDataError
from decal_lab.data import _published_logits as published

CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DECAL_CACHE", str(folder))
    monkeypatch.delenv("DECAL_DATA", raising=False)
    return folder


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_one_matrix_with_human_truth(tmp_path, rng):
    logits = rng.normal(size=(4, 3)).astype(np.float32)
    human = rng.dirichlet(np.ones(3), size=4).astype(np.float32)
    labels = np.array([0, 2, 1, 1], dtype=np.int16)
    np.savez(
        tmp_path / "clip_cifar10_sw.npz",
        logits=logits,
        labels=labels,
        human=human,
        classes=["ndege", "gari", "ndege"],
    )
    got = datasets.published_logits("clip_cifar10_sw", folder=tmp_path)
    np.testing.assert_array_equal(got.logits, logits)
    np.testing.assert_array_equal(got.truth, human)
    assert got.labels.tolist() == [0, 2, 1, 1]
    assert got.classes == ("ndege", "gari", "ndege"), "Swahili calls a plane and a bird alike"
    assert got.train_logits is got.train_labels is got.other is got.uids is None
    assert repr(got) == "LogitSet clip_cifar10_sw: 4 rows, 3 classes"


@pytest.mark.parametrize("key", ["human", "truth"])
def test_matrices_to_fit_on_and_to_evaluate(tmp_path, rng, key):
    parts = {
        "train_logits": rng.normal(size=(5, 3)).astype(np.float32),
        "train_labels": np.array([0, 1, 2, 1, 0], dtype=np.int16),
        "test_logits": rng.normal(size=(2, 3)).astype(np.float32),
        "test_labels": np.array([1, 2], dtype=np.int16),
        "test_uid": np.array(["a#1", "b#2"]),
        key: np.array([[0.5, 0.5, 0], [0, 0, 1]]),
    }
    np.savez(tmp_path / "snli_roberta0.npz", **parts)
    got = datasets.published_logits("snli_roberta0", folder=tmp_path)
    np.testing.assert_array_equal(got.train_logits, parts["train_logits"])
    np.testing.assert_array_equal(got.train_labels, parts["train_labels"])
    np.testing.assert_array_equal(got.logits, parts["test_logits"])
    np.testing.assert_array_equal(got.truth, parts[key])
    assert got.uids == ("a#1", "b#2")
    assert repr(got) == "LogitSet snli_roberta0: 2 rows and 5 to fit on, 3 classes"


def test_logits_on_other_data_are_kept_by_name(tmp_path, rng):
    parts = {
        "cifar10_train": rng.normal(size=(5, 3)),
        "train_labels": np.array([0, 1, 2, 1, 0]),
        "cifar10_test": rng.normal(size=(2, 3)),
        "test_labels": np.array([1, 2]),
        "mnist": rng.normal(size=(4, 3)),
        "notmnist": rng.normal(size=(3, 3)),
    }
    np.savez(tmp_path / "resnet20_cifar10.npz", **parts)
    got = datasets.published_logits("resnet20_cifar10", folder=tmp_path)
    assert got.truth is None
    assert {name: len(rows) for name, rows in got.other.items()} == {"mnist": 4, "notmnist": 3}
    np.testing.assert_allclose(got.train_logits, parts["cifar10_train"], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "must hold labels"),
        ({"labels": np.array([0, 3])}, "labels must lie in 0 to 2.*got 3 at index 1"),
        ({"labels": np.array([0])}, "labels must be a vector with one label per row of logits, 2"),
        ({"logits": np.array([[0, np.nan, 1], [1, 2, 3]])}, "logits must be finite"),
        ({"human": np.full((2, 3), 0.5)}, "truth must sum to 1 in every row"),
        ({"human": np.full((2, 2), 0.5)}, r"truth must have shape \(2, 3\)"),
        ({"mnist": np.zeros((4, 2))}, "mnist must have 3 columns"),
        ({"logits": np.array([object()])}, "is damaged: it holds pickled objects"),
    ],
)
def test_damaged_files_are_named(tmp_path, change, message):
    parts = {"logits": np.zeros((2, 3)), "labels": np.array([0, 1])} | change
    np.savez(tmp_path / "cnn_x_test.npz", **{k: v for k, v in parts.items() if v is not None})
    with pytest.raises(DamagedDataError, match=f"cnn_x_test.npz.*{message}"):
        datasets.published_logits("cnn_x_test", folder=tmp_path)


def test_names_are_those_of_files_with_logits(tmp_path, monkeypatch):
    np.savez(tmp_path / "b.npz", logits=np.zeros((2, 3)), labels=np.zeros(2))
    np.savez(tmp_path / "a.npz", test_logits=np.zeros((2, 3)))
    np.savez(tmp_path / "other.npz", images=np.zeros(3))
    assert datasets.published_names(tmp_path) == ("a", "b")
    assert datasets.published_names() == ()
    monkeypatch.setenv("DECAL_DATA", str(tmp_path))
    assert datasets.published_names() == ("a", "b")
    (tmp_path / "c.npz").write_bytes(b"no archive")
    with pytest.raises(DamagedDataError, match="c.npz is damaged"):
        datasets.published_names()


def sheet(path, classes, logits, labels):
    """A .csv file as pandas wrote the paper's."""
    header = ",".join([*classes, "target-0", "instance_id"])
    rows = [
        ",".join([*(repr(float(v)) for v in row), f"{label}.0", str(i)])
        for i, (row, label) in enumerate(zip(logits, labels, strict=True))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("clip_cifar10_en", "Clip_CIFAR10_CIFAR10_test.csv"),
        ("siglip2_cifar10_zh", "SigLIP2_CIFAR10_CIFAR10-CHINESE_test.csv"),
        ("siglip_cifar10_sw", "SigLIP_CIFAR10_CIFAR10-SWAHILI_test.csv"),
        ("biomedclip_cifar10_en", "BiomedCLIP_CIFAR10_CIFAR10_test.csv"),
    ],
)
@pytest.mark.parametrize("inside", ["", "logits"])
def test_the_papers_sheets_are_read_with_cifar10h(tmp_path, rng, name, file, inside):
    logits = rng.normal(20, 3, size=(4, 10)).astype(np.float32)
    human = rng.dirichlet(np.ones(10), size=4)
    sheet(tmp_path / inside / file, CIFAR, logits, [3, 8, 8, 0])
    np.save(tmp_path / "cifar10h-probs.npy", human)
    got = datasets.published_logits(name, folder=tmp_path)
    np.testing.assert_array_equal(got.logits, logits)
    assert got.labels.tolist() == [3, 8, 8, 0]
    assert got.classes == CIFAR
    np.testing.assert_allclose(got.truth, human, rtol=1e-6)


def test_the_papers_sheets_of_dermamnist_have_two_parts(tmp_path, rng):
    classes = [f"class {i}" for i in range(7)]
    train, test = rng.normal(size=(3, 7)), rng.normal(size=(2, 7))
    sheet(tmp_path / "Clip_DermaMNIST_DermaMNIST_train.csv", classes, train, [0, 5, 6])
    sheet(tmp_path / "Clip_DermaMNIST_DermaMNIST_test.csv", classes, test, [5, 1])
    got = datasets.published_logits("clip_dermamnist_en", folder=tmp_path)
    np.testing.assert_allclose(got.train_logits, train, rtol=1e-6)
    np.testing.assert_allclose(got.logits, test, rtol=1e-6)
    assert got.truth is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("target-0", "target"), "must end with the columns target-0 and"),
        (lambda text: text.replace(".0,1\n", ".0,7\n"), "must count its instances from 0"),
        (lambda text: text[:-30], "is damaged"),
    ],
)
def test_damaged_sheets_are_named(tmp_path, rng, change, message):
    path = tmp_path / "Clip_CIFAR10_CIFAR10_test.csv"
    sheet(path, CIFAR, rng.normal(size=(3, 10)), [3, 8, 0])
    path.write_text(change(path.read_text()))
    with pytest.raises(DamagedDataError, match=f"CIFAR10_test.csv {message}"):
        datasets.published_logits("clip_cifar10_en", folder=tmp_path)


def test_what_has_no_address_says_so():
    with pytest.raises(MissingDataError, match="no public address is known: set DECAL_DATA"):
        datasets.published_logits("tabpfn_anneal_46906_seed1")


def test_what_has_an_address_says_what_to_put_where(tmp_path, cache):
    with pytest.raises(MissingDataError, match=f"put Clip_CIFAR10_CIFAR10_test.csv into {cache}"):
        datasets.published_logits("clip_cifar10_en", download=False)
    with pytest.raises(MissingDataError, match="folder must hold clip_cifar10_en.npz"):
        datasets.published_logits("clip_cifar10_en", folder=tmp_path)


def test_only_the_papers_own_combinations_have_addresses():
    assert set(published._sheets("clip_dermamnist_en")) == {"train", "test"}
    for name in ("clip_dermamnist_fr", "biomedclip_cifar10_fr", "vit_cifar10_en", "cnn_x_test"):
        assert published._sheets(name) == {}


@pytest.mark.data
def test_every_published_file_is_read(data_folder):
    names = datasets.published_names(data_folder)
    assert len(names) >= 32
    for name in names:
        got = datasets.published_logits(name, folder=data_folder)
        with np.load(data_folder / f"{name}.npz") as archive:
            key = next(k for k in ("logits", "test_logits", "cifar10_test") if k in archive)
            np.testing.assert_array_equal(got.logits, archive[key])
            assert got.train_logits is None or len(got.train_logits) == len(archive["train_labels"])
        accuracy = (got.logits.argmax(axis=1) == got.labels).mean()
        if name.startswith("cnn_"):
            assert 0.88 < accuracy < 0.97
    resnet = datasets.published_logits("resnet20_cifar10", folder=data_folder)
    assert (resnet.logits.argmax(axis=1) == resnet.labels).mean() == pytest.approx(0.917, abs=0.001)
    assert set(resnet.other) == {
        "tinyimagenet",
        "fashionmnist",
        "mnist",
        "notmnist",
    }
