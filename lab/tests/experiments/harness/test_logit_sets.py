"""Files of logits as named data sets."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from decal_lab.experiments.harness.logit_sets import SHARED_FILES, find, named

NAMES = [
    "clip_cifar10_en",
    "cnn_vgg_15_BN_64",
    "snli_bert0/own",
    "snli_bert0/half",
    "tabpfn_MIC_46980_seed1",
]
"""The data sets of the tiny folder, in the order of tables."""


def test_files_become_data_sets_by_their_names(every_family):
    found, absent = find(every_family)
    assert [d.name for d in found] == NAMES
    assert [d.title for d in found] == [
        "CLIP, English",
        "VGG 15",
        "BERT, SNLI, own split",
        "BERT, SNLI, halves",
        "MIC, seed 1",
    ]
    assert [named(d.name) for d in found] == found
    assert len(absent) == len(SHARED_FILES) - 4
    assert "siglip2_cifar10_en.npz" in absent
    assert "clip_cifar10_en.npz" not in absent


def test_files_of_other_people_are_found_too_and_come_last(every_family, tmp_path):
    for new in ("dinov9_cifar10_sw", "clip_cifar10_en"):
        shutil.copy(every_family / "clip_cifar10_en.npz", tmp_path / f"{new}.npz")
    assert [d.title for d in find(tmp_path)[0]] == ["CLIP, English", "dinov9, Swahili"]


def test_halves_are_disjoint_and_the_seed_draws_them(every_family):
    (data,) = (d for d in find(every_family)[0] if d.name == "clip_cifar10_en")
    with np.load(every_family / "clip_cifar10_en.npz") as file:
        whole = file["logits"]
    first, again, other = (data.load(every_family, seed) for seed in (0, 0, 1))
    both = np.concatenate([first.logits, first.new_logits])
    np.testing.assert_array_equal(np.sort(both, axis=0), np.sort(whole, axis=0))
    np.testing.assert_array_equal(first.logits, again.logits)
    assert (first.logits != other.logits).any()
    assert (len(first.logits), len(first.new_logits)) == (30, 31)


def test_a_file_without_a_truth_is_refused(every_family, tmp_path):
    with np.load(every_family / "clip_cifar10_en.npz") as whole:
        np.savez(tmp_path / "clip_cifar10_en.npz", logits=whole["logits"], labels=whole["labels"])
    with pytest.raises(ValueError, match=r"must hold logits, labels, human: got no human\."):
        find(tmp_path)[0][0].load(tmp_path, 0)
