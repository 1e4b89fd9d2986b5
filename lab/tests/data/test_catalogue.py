"""What is here, and what is missing: as it changes on disk."""

from pathlib import Path

import numpy as np
import pytest

from decal_lab import data as datasets
from decal_lab.data import _image_arrays as images


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DECAL_CACHE", str(folder))
    monkeypatch.delenv("DECAL_DATA", raising=False)
    return folder


def entries():
    return {entry.name: entry for entry in datasets.available()}


def test_every_loader_is_listed_and_asking_changes_nothing(cache):
    names = {name.partition("(")[0] for name in entries()}
    loaders = {
        name
        for name in datasets.__all__
        if callable(getattr(datasets, name)) and not isinstance(getattr(datasets, name), type)
    }
    helpers = {"available", "cache_folder", "fetch", "image_folder", "published_names"}
    helpers |= {"language_logits"}
    assert names == loaders - helpers
    assert list(cache.iterdir()) == []


def test_missing_data_say_what_they_need(cache):
    for entry in entries().values():
        if entry.where is None:
            assert entry.needs
            assert str(entry).startswith(f"{entry.name} ({entry.rows}): needs ")
    assert f"cifar-10-binary.tar.gz in {cache / 'cifar-10'}" in entries()["cifar10"].needs
    assert "image-net.org" in entries()["imagenet"].needs
    assert "OpenML 46906" in entries()['tabarena("anneal")'].needs


def test_a_file_in_the_cache_is_listed_with_its_place(cache):
    for remote in (images.CIFAR10H, images.SVHN["test"]):
        remote.path.parent.mkdir(exist_ok=True)
        remote.path.write_bytes(b"")
    assert entries()["cifar10h"].where == cache / "cifar-10h" / "cifar10h-probs.npy"
    assert entries()["svhn"].where is None, "half of it is not enough"
    assert entries()["svhn"].needs.startswith("a network, once, or train_32x32.mat in")
    assert str(entries()["cifar10h"]).endswith("cifar10h-probs.npy")


def test_the_folder_of_the_environment_is_listed_with_its_rows(tmp_path, monkeypatch):
    (tmp_path / "tabular").mkdir()
    (tmp_path / "tabular" / "anneal_46906.csv").write_text("a,classes\n1,2\n3,4\n")
    np.savez(tmp_path / "cnn_x_test.npz", logits=np.zeros((7, 3)), labels=np.zeros(7, dtype=int))
    np.savez(tmp_path / "snli_x.npz", test_logits=np.zeros((5, 3)), test_labels=np.zeros(5, int))
    monkeypatch.setenv("DECAL_DATA", str(tmp_path))
    found = entries()
    assert found['tabarena("anneal")'].rows == "2 rows"
    assert found['published_logits("cnn_x_test")'].rows == "7 rows"
    assert found['published_logits("snli_x")'].rows == "5 rows"
    assert found['published_logits("snli_x")'].where == tmp_path / "snli_x.npz"
    assert found["chaosnli"].where is None


@pytest.mark.skipif(
    not Path("/usr/share/datasets/fashion-mnist").exists(),
    reason="needs Debian's dataset-fashion-mnist",
)
def test_debians_package_is_listed():
    assert entries()["fashion_mnist"].where == Path("/usr/share/datasets/fashion-mnist")


@pytest.mark.data
def test_the_shared_folder_is_listed(data_folder, monkeypatch):
    monkeypatch.setenv("DECAL_DATA", str(data_folder))
    found = entries()
    assert found["chaosnli"].where == data_folder / "chaosnli"
    assert found['tabarena("MIC")'].where == data_folder / "tabular" / "MIC_46980.csv"
    assert sum(name.startswith("published_logits(") for name in found) >= 32
