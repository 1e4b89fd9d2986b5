"""A method and a data set of one's own, beside decal's."""

import numpy as np
import pytest

import decal
from decal_lab.experiments.harness.contributions import Contributed, Contributions
from decal_lab.experiments.harness.curves import Curve, levels
from decal_lab.experiments.harness.experiment import Request, run
from decal_lab.experiments.yours import EFFICIENCIES, OURS, experiment
from lab_helpers.experiment_runs import coarse, table
from lab_helpers.undrawn import undrawn


class Halfway:
    """A method of somebody: decal's class shifts, a quarter of the budget."""

    def fit(self, logits, labels):
        self.model = decal.decalibrate(logits, labels, directions=("class",), alpha=0.8)

    def predict(self, logits, alpha):
        return self.model.predict(logits, alpha=alpha**0.25)


def noise(seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(200, 3))
    truth = np.exp(1.5 * logits) / np.exp(1.5 * logits).sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) > rng.random((200, 1))).argmax(axis=1)
    return logits[:100], labels[:100], logits[100:], truth[100:]


EXTRA = Contributions(
    {"halfway": Contributed(Halfway, "a")}, {"noise": Contributed(noise, "version 1")}
)


@coarse()
def test_all_methods_are_measured_on_the_data_contributed(tmp_path):
    report = run(experiment, tmp_path / "no", tmp_path / "out", quick=True, extra=EXTRA)
    (rows,) = report.sections.values()
    assert [row[0] for row in rows] == [f"noise: {m}" for m in (*OURS, "halfway")]
    assert report.headings[1:] == tuple(f"{e:g}" for e in EFFICIENCIES)
    logits, labels, new, truth = noise(0)
    model = Halfway()
    model.fit(logits, labels)
    sets = [model.predict(new, alpha=a) for a in levels(quick=True)]
    curve = Curve(
        np.array(levels(quick=True)),
        np.array([decal.metrics.coverage(s, truth) for s in sets]),
        np.array([decal.metrics.efficiency(s) for s in sets]),
    )
    assert rows[-1][2] == f"{curve.at(0.8):.3f}"
    found = [row for row in table(tmp_path / "out/rows.csv") if row["method"] == "halfway"]
    np.testing.assert_allclose([float(r["coverage"]) for r in found], curve.coverage)


@coarse()
def test_a_changed_version_is_computed_again(tmp_path):
    newer = Contributions(EXTRA.methods, {"noise": Contributed(noise, "version 2")})
    with undrawn():
        run(experiment, tmp_path, tmp_path / "out", quick=True, extra=EXTRA)
        report = run(experiment, tmp_path, tmp_path / "out", quick=True, extra=newer)
    assert any("4 cells of an earlier run were computed again" in note for note in report.notes)


def test_sets_that_widen_with_alpha_are_noticed(tmp_path):
    class Backwards(Halfway):
        def predict(self, logits, alpha):
            return self.model.predict(logits, alpha=1 - alpha)

    extra = Contributions({"back": Contributed(Backwards, "b")}, EXTRA.data_sets)
    with undrawn():
        report = run(experiment, tmp_path, tmp_path / "out", quick=True, extra=extra)
    assert any("back on noise: sets get wider as alpha grows" in note for note in report.notes)


def test_what_is_missing_is_said(tmp_path):
    request = Request(tmp_path, tmp_path)
    with pytest.raises(ValueError, match="extra must be given for yours: got no methods"):
        experiment(request)
    methods = Contributions(EXTRA.methods)
    with pytest.raises(ValueError, match="data must hold files of logits for methods of yours"):
        experiment(Request(tmp_path, tmp_path, extra=methods))
    same = Contributions({"local": Contributed(Halfway, "a")}, EXTRA.data_sets)
    with pytest.raises(ValueError, match="METHODS must have names of their own: got 'local'"):
        experiment(Request(tmp_path, tmp_path, extra=same))
