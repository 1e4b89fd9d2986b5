"""Folders of tiny files in the real formats, and runs on them, for all tests of experiments."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from decal_lab.experiments import compare_directions
from decal_lab.experiments.harness.experiment import run
from lab_helpers import experiment_files as files
from lab_helpers.experiment_runs import coarse
from lab_helpers.undrawn import undrawn


@pytest.fixture(scope="session")
def every_family(tmp_path_factory):
    """A folder with a tiny file of every family of data sets."""
    folder = tmp_path_factory.mktemp("every_family")
    files.write_every_family(folder)
    return folder


@pytest.fixture(scope="session")
def one_file(every_family, tmp_path_factory):
    """A folder with one of these files."""
    folder = tmp_path_factory.mktemp("one_file")
    shutil.copy(every_family / "clip_cifar10_en.npz", folder)
    return folder


@pytest.fixture(scope="session")
def directions_run(every_family, tmp_path_factory):
    """The results of a quick and coarse run on these files, and its report."""
    out = tmp_path_factory.mktemp("results") / "directions"
    with coarse():
        return out, run(compare_directions.experiment, every_family, out, quick=True)


@pytest.fixture
def directions_copy(directions_run, tmp_path):
    """A copy of these results to change."""
    return Path(shutil.copytree(directions_run[0], tmp_path / "copy"))


@pytest.fixture(scope="session")
def paper_folder(tmp_path_factory):
    """A folder of small files of every kind, and published curves."""
    folder = tmp_path_factory.mktemp("paper")
    files.write_paper_files(folder)
    return folder


@pytest.fixture(scope="session")
def paper_runs(paper_folder, tmp_path_factory):
    """Results and report of each experiment on these files, by module, run when asked for."""
    folder = tmp_path_factory.mktemp("results")

    class Runs(dict):
        def __missing__(self, module):
            out = folder / module.__name__
            with undrawn(but=1):
                self[module] = out, run(module.experiment, paper_folder, out, quick=True)
            return self[module]

    return Runs()


@pytest.fixture(scope="session")
def tables_folder(tmp_path_factory):
    """A folder with a table, logits of TabPFN, and published results."""
    folder = tmp_path_factory.mktemp("tables")
    files.write_tables(folder)
    return folder


@pytest.fixture(scope="session")
def resnet20_folder(tmp_path_factory):
    """A folder with a tiny file of ResNet-20."""
    folder = tmp_path_factory.mktemp("resnet20")
    files.write_resnet20(folder)
    return folder
