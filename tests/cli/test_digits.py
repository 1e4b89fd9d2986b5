"""What the demo computes and leaves behind."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs decal[cli]")
pytest.importorskip("sklearn", reason="needs decal[sklearn]")
pytest.importorskip("matplotlib", reason="needs decal[plot]")
pytest.importorskip("PIL", reason="needs decal[explore]")

import PIL.Image

import decal
from decal._cli.digits import PAPER_ALPHAS, block_art, run_demo
from decal._io import sources as files


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return run_demo(0, tmp_path_factory.mktemp("demo") / "out")


def test_smaller_alpha_covers_more_and_says_less(demo):
    assert len(demo.coverage) == len(demo.efficiency) == len(PAPER_ALPHAS) == 8
    assert np.all(np.diff(demo.coverage) <= 0)
    assert np.all(np.diff(demo.efficiency) >= 0)
    assert demo.coverage[0] == 1
    assert demo.efficiency[0] == 0


def test_the_credal_sets_make_the_point(demo):
    at = dict(zip(PAPER_ALPHAS, zip(demo.coverage, demo.efficiency, strict=True), strict=True))
    coverage, efficiency = at[0.8]
    assert coverage > 0.9
    assert efficiency > 0.5


def test_labels_are_drawn_from_the_truth(demo):
    n = len(demo.labels)
    assert demo.truth.shape == (n, 10)
    np.testing.assert_allclose(demo.truth.sum(axis=1), 1)
    expected = demo.truth.sum(axis=0)
    spread = np.sqrt((demo.truth * (1 - demo.truth)).sum(axis=0))
    assert np.all(np.abs(np.bincount(demo.labels, minlength=10) - expected) < 4 * spread)


def test_the_most_uncertain_images_leave_the_most_classes_open(demo):
    size = demo.credal.decide("e_admissible").sum(axis=1)
    least, greatest = demo.credal.entropy()
    ranked = sorted(range(len(size)), key=lambda i: (-size[i], -greatest[i], -least[i], i))
    assert list(demo.most_uncertain) == ranked[:5]


def test_the_folder_reproduces_the_table(demo):
    names = {path.name for path in demo.folder.iterdir()}
    results = {"model.npz", "test.csv", "truth.csv", "table.csv", "credal.parquet"}
    assert names == results | {path.name for path in demo.pictures}
    model = decal.Decalibrator.load(demo.folder / "model.npz")
    data = files.open_source(
        demo.folder / "test.csv", truth=demo.folder / "truth.csv", classes=model.classes
    ).all()
    np.testing.assert_array_equal(data.labels, demo.labels)
    found = [
        decal.metrics.coverage(model.predict(data.logits, alpha=a), data.truth)
        for a in PAPER_ALPHAS
    ]
    np.testing.assert_allclose(found, demo.coverage)


def test_the_pictures_are_figures_and_a_page(demo):
    spiders, tradeoff, page = demo.pictures
    assert not demo.notes
    for figure in (spiders, tradeoff):
        with PIL.Image.open(figure) as picture:
            assert picture.width > 600
    assert "Handwritten digits" in page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The same demo again, without matplotlib."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        for name in [name for name in sys.modules if name.startswith("decal.plot")]:
            patch.delitem(sys.modules, name)
        patch.delattr(decal, "plot", raising=False)
        return run_demo(0, tmp_path_factory.mktemp("bare"))


def test_what_cannot_be_drawn_is_said(bare):
    assert [path.name for path in bare.pictures] == ["explorer.html"]
    assert bare.notes[0].startswith("spiders.png is missing: decal.plot needs matplotlib")


def test_the_seed_decides_everything(demo, bare):
    other = run_demo(1, bare.folder)  # replaces the files
    assert bare.coverage == demo.coverage
    assert bare.most_uncertain == demo.most_uncertain
    assert other.efficiency != demo.efficiency


def test_an_image_becomes_lines_of_blocks():
    image = np.array([[0.0, 16.0], [8.0, 3.2]])
    assert block_art(image) == ["  ██", "▒▒░░"]
