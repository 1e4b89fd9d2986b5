"""What experiments need, what is here, and fetching the public part."""

import contextlib
import functools
import hashlib
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from decal_lab import data as datasets
from decal_lab.data import _image_arrays, _published_logits
from decal_lab.data._downloads import Remote
from decal_lab.experiments import EXPERIMENTS
from decal_lab.experiments.harness import public_data
from decal_lab.experiments.harness.logit_sets import MORE_FILES, SHARED_FILES


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DECAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DECAL_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(folder):
    handler = functools.partial(Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_sheet(path, logits, labels):
    names = [f"c{k}" for k in range(logits.shape[1])]
    rows = [
        ",".join([*map(repr, z.tolist()), str(y), str(i)])
        for i, (z, y) in enumerate(zip(logits, labels, strict=True))
    ]
    path.write_text("\n".join([",".join([*names, "target-0", "instance_id"]), *rows]) + "\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A web site that holds CLIP's sheets, and CIFAR-10H, of four images."""
    folder = tmp_path / "site"
    folder.mkdir()
    rng = np.random.default_rng(0)
    logits, human = rng.normal(size=(4, 10)), rng.dirichlet(np.ones(10), 4)
    write_sheet(folder / "Clip_CIFAR10_CIFAR10_test.csv", logits, [3, 8, 8, 0])
    for part in ("train", "test"):
        write_sheet(folder / f"Clip_DermaMNIST_DermaMNIST_{part}.csv", logits[:, :7], [3, 6, 1, 0])
    np.save(folder / "human.npy", human)
    digest = hashlib.md5((folder / "human.npy").read_bytes()).hexdigest()
    with serving(folder) as address:
        monkeypatch.setattr(
            _published_logits,
            "_sheet",
            lambda name: Remote("published-logits", name, (f"{address}/{name}",)),
        )
        remote = Remote("cifar-10h", "cifar10h-probs.npy", (f"{address}/human.npy",), md5=digest)
        monkeypatch.setattr(_image_arrays, "CIFAR10H", remote)
        yield logits, human


def test_public_logits_are_fetched_and_kept_as_experiments_read_them(site, tmp_path, cache):
    logits, human = site
    folder = tmp_path / "new" / "data"
    names = ["clip_cifar10_en.npz", "clip_dermamnist_en.npz"]
    public_data.download(names, folder)
    with np.load(folder / names[0]) as found:
        np.testing.assert_allclose(found["logits"], logits, rtol=1e-6)
        np.testing.assert_allclose(found["human"], human, rtol=1e-6)
        assert found["labels"].tolist() == [3, 8, 8, 0]
    with np.load(folder / names[1]) as found:
        parts = {"test_labels", "test_logits", "train_labels", "train_logits"}
        assert set(found) == {"classes", *parts}
    # The digest of the first download is on record.
    recorded = cache / "published-logits/Clip_CIFAR10_CIFAR10_test.csv.sha256"
    assert recorded.exists()
    assert names[0] not in public_data.downloadable(["zero-shot logits"], folder)


def test_what_cannot_be_fetched_leaves_no_file(site, tmp_path):  # noqa: ARG001
    with pytest.raises(datasets.MissingDataError, match="SigLIP"):
        public_data.download(["siglip_cifar10_fr.npz"], tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_the_status_says_what_is_here_and_how_to_get_the_rest(tmp_path):
    (tmp_path / "clip_cifar10_en.npz").touch()
    (tmp_path / "resnet20_cifar10.npz").touch()
    text = public_data.status(["zero-shot logits", "ResNet-20 logits", "CNN logits"], tmp_path)
    assert text == (
        "zero-shot logits (1 of 9 here, can be downloaded); ResNet-20 logits (here); "
        "CNN logits (0 of 5 here, needs --data)"
    )
    assert len(public_data.downloadable(["zero-shot logits", "CNN logits"], tmp_path)) == 8
    assert public_data.downloadable(["images"], tmp_path) == ["fashion_mnist", "mnist", "notmnist"]


def test_every_file_is_of_one_kind_and_every_experiment_needs_known_kinds():
    files = [file for need in public_data.NEEDS.values() for file in need.files]
    npz = sorted(file for file in files if file.endswith(".npz") and "/" not in file)
    assert npz == sorted(f"{stem}.npz" for stem in (*SHARED_FILES, *MORE_FILES))
    assert {n for e in EXPERIMENTS.values() for n in e.needs} == set(public_data.NEEDS)
    # Public means that there is an address.
    for need in public_data.NEEDS.values():
        for file in need.files:
            assert bool(_published_logits._sheets(file.removesuffix(".npz"))) == need.public
