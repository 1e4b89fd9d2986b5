"""Observing folders: whole files, samples, and files that are bad."""

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import decal
from decal.cli.shift import Reservoir, observe_folder
from decal.io.folders import Layout, open_folder


@pytest.fixture
def shift():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    return decal.LabelShift().fit(2 * np.eye(3)[y] + rng.normal(size=(300, 3)), y)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    for part in "abc":
        np.save(tmp_path / f"{part}.npy", rng.normal(size=(40, 3)))
    return tmp_path


LAYOUT = Layout(3, None)


def test_a_folder_is_observed_as_its_rows_together(shift, folder):
    whole = shift.unobserved().observe(
        np.concatenate([np.load(folder / f"{part}.npy") for part in "abc"])
    )
    rows, faults = observe_folder(shift, open_folder(folder), LAYOUT)
    assert (rows, faults) == (120, {})
    assert shift.frequencies.estimate == pytest.approx(whole.frequencies.estimate)
    assert shift.test().statistic == pytest.approx(whole.test().statistic)


def test_a_bad_file_leaves_nothing_behind(shift, folder):
    bad = np.zeros((40, 3))
    bad[30, 1] = np.nan
    np.save(folder / "b.npy", bad)
    with pytest.raises(ValueError, match=r"b\.npy.*Repair or remove it, or add --skip-bad"):
        observe_folder(shift.unobserved(), open_folder(folder), LAYOUT)
    for sample, kept in ((None, 80), (60, 60), (5000, 80)):
        some = shift.unobserved()
        rows, faults = observe_folder(
            some, open_folder(folder), LAYOUT, sample=sample, skip_bad=True
        )
        assert rows == 80
        assert list(faults) == ["b.npy"]
        assert some.frequencies.inputs == kept
    for name in "ac":
        np.save(folder / f"{name}.npy", bad)
    with pytest.raises(ValueError, match="must hold a file that can be read: got 3 bad ones"):
        observe_folder(shift.unobserved(), open_folder(folder), LAYOUT, skip_bad=True)


def test_every_row_has_the_same_chance_of_being_drawn():
    times = np.zeros(50)
    for seed in range(400):
        drawn = Reservoir(10)
        drawn._rng = np.random.default_rng(seed)
        for piece in np.split(np.arange(50.0)[:, None], [3, 4, 30]):
            drawn.add(piece)
        kept = drawn.rows[:, 0].astype(int)
        assert len(set(kept.tolist())) == 10
        times[kept] += 1
    # Binomial with 400 draws of chance 1/5: mean 80, standard deviation 8.
    assert abs(times - 80).max() < 40
    assert times.std() == pytest.approx(8, rel=0.5)
