"""Local sets compared: on tiny files in the real formats, by the definitions, and on real data."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from lab_helpers.experiment_files import draw, softmax, write_every_family
from lab_helpers.experiment_runs import table
from lab_helpers.undrawn import undrawn

pytest.importorskip("sklearn", reason="needs decal[sklearn]")

from decal_lab.experiments import local_against_wrapper as several
from decal_lab.experiments import local_sets
from decal_lab.experiments.harness.curves import Curve
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.harness.logit_sets import HELD_OUT, TRAINING, find, named
from decal_lab.experiments.harness.several_networks import SIX

FOREST = "biomedclip_dermamnist_en"
NAMES = [
    "clip_cifar10_en",
    "cnn_densenet_BC_100_12",
    "cnn_resnet_basic_110",
    "resnet20_cifar10/training",
    "snli_bert0/own",
    "snli_bert0/half",
    "fer_ferplus",
    FOREST,
    "tabpfn_MIC_46980_seed1",
]
"""The data sets of a quick run on the tiny folder, in the order of tables."""

METHODS = {
    "class": {"directions": ["class"]},
    "class + temperature": {"directions": ["class", "temperature"]},
    "local, model": {"directions": ["local"]},
    "local, halfway": {"directions": ["local"], "reference": "halfway"},
    "local, best": {"directions": ["local"], "reference": "best"},
}
ROWS = 70


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny file of every kind; six networks see the same images, with noise of their own."""
    folder, rng = tmp_path_factory.mktemp("local"), np.random.default_rng(3)
    write_every_family(folder)
    latent = 2 * rng.standard_normal((ROWS, 4))
    human = softmax(latent)
    labels = np.argmax(human.cumsum(axis=1) > rng.random((ROWS, 1)), axis=1)
    for name in SIX:
        z = (1.5 * latent + rng.standard_normal(latent.shape)).astype(np.float32)
        if name.startswith("resnet20"):
            train = draw(rng, 60, 4)
            parts = {"cifar10_train": train[0], "train_labels": train[1], "cifar10_test": z}
            np.savez(folder / "resnet20_cifar10", test_labels=labels, **parts)
        else:
            np.savez(folder / f"{name}_test", logits=z, labels=labels, human=human)
    faces = dict(zip(("logits", "labels", "human"), draw(rng, 80, 5), strict=True))
    np.savez(folder / "fer_ferplus", **faces)
    (folder / "clip_dermamnist_en.npz").unlink()
    train, test = draw(rng, 90, 3), draw(rng, 50, 3)
    parts = {"train_logits": train[0], "train_labels": train[1], "test_logits": test[0]}
    np.savez(folder / FOREST, test_labels=test[1], **parts)
    return folder


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, undrawn():
        patch.setattr(several, "QUICK_TABLES", ())
        out = tmp_path_factory.mktemp("results")
        return out, run(local_sets.experiment, folder, out, quick=True)


def split_of(folder, name):
    """What a data set is made of, at seed 0: logits and labels to fit on, others, their truth."""
    with np.load(folder / named(name).file) as file:
        data = dict(file)
    if name == FOREST:
        from sklearn.ensemble import RandomForestClassifier

        x, new = data["train_logits"], data["test_logits"]
        forest = RandomForestClassifier(max_depth=5, random_state=0).fit(x, data["train_labels"])
        u = np.random.default_rng(0).random(len(x))
        shares = forest.predict_proba(x).cumsum(axis=1)
        drawn = [int(np.searchsorted(row / row[-1], v)) for row, v in zip(shares, u, strict=True)]
        return x, np.array(drawn), new, forest.predict_proba(new)
    if name == "resnet20_cifar10/training":
        with np.load(folder / "cnn_vgg_15_BN_64_test.npz") as file:
            human = file["human"]
        return data["cifar10_train"], data["train_labels"], data["cifar10_test"], human
    if name == "snli_bert0/own" or name.startswith("tabpfn"):
        truth = data["truth" if name.startswith("tabpfn") else "human"]
        return data["train_logits"], data["train_labels"], data["test_logits"], truth
    test = "test_" if name.startswith("snli") else ""
    n = len(data["human"])
    order = np.random.default_rng(0).permutation(n)
    a, b = order[: n // 2], order[n // 2 :]
    z, y = data[f"{test}logits"], data[f"{test}labels"]
    return z[a], y[a], z[b], data["human"][b]


def inside(low, high, truth):
    return ((truth >= low - 5e-4) & (truth <= high + 5e-4)).all(axis=1).mean()


def test_the_experiment_leaves_rows_tables_and_figures(finished):
    out, report = finished
    figures = ("images", "texts_and_faces", "tables", "curves", "one_against_ten")
    drawn = {f"{name}{end}" for name in figures for end in (".svg", ".png", "_dark.svg")}
    assert {path.name for path in report.files} == {
        "rows.csv", "table.csv", "table.md", "table.tex", *drawn
    }  # fmt: skip
    assert all(path.exists() for path in report.files)
    rows = table(out / "rows.csv")
    assert list(rows[0]) == list(local_sets.COLUMNS)
    assert list(dict.fromkeys(row["data"] for row in rows)) == [*NAMES, "together/cifar10-6"]
    lines = [(row["data"], row["method"]) for row in table(out / "table.csv")]
    assert lines == [(name, method) for name in NAMES for method in METHODS]
    titles = [one.title for one in report.tables]
    assert titles[0] == "Coverage at efficiency 0.9, seed 0"
    assert titles[1] == "One network against several"
    assert titles[2].startswith("Which reference")
    text = (out / "table.md").read_text()
    assert "fer's network | local, halfway |" in text
    assert "Fitted on training rows" in text


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_what_the_library_computes(finished, folder, name):
    z, y, new, truth = split_of(folder, name)
    rows = [row for row in table(finished[0] / "rows.csv") if row["data"] == name]
    for method, settings in METHODS.items():
        model = decal.Decalibrator(**settings).fit(z, y)
        curve = [row for row in rows if row["method"] == method]
        assert len(curve) == 16
        for row in curve[::5]:
            c = model.predict(new, alpha=float(row["alpha"]))
            assert float(row["coverage"]) == pytest.approx(inside(c.lower, c.upper, truth))
            assert float(row["efficiency"]) == pytest.approx(1 - (c.upper - c.lower).mean())


def test_the_wrapper_is_the_box_of_all_and_each_alone_is_as_wide(finished, folder):
    rows = [r for r in table(finished[0] / "rows.csv") if r["data"] == "together/cifar10-6"]
    splits = [split_of(folder, name) for name in SIX[:5]]
    with np.load(folder / "resnet20_cifar10.npz") as file:
        z = file["cifar10_test"]
    order = np.random.default_rng(0).permutation(ROWS)
    a, b = order[: ROWS // 2], order[ROWS // 2 :]
    splits.append((z[a], splits[0][1], z[b], splits[0][3]))
    members = np.array([softmax(new.astype(float)) for _, _, new, _ in splits])
    low, high, truth = members.min(axis=0), members.max(axis=0), splits[0][3]
    (wrapper,) = (row for row in rows if row["method"] == several.WRAPPER)
    assert float(wrapper["coverage"]) == pytest.approx(inside(low, high, truth))
    efficiency = 1 - (high - low).mean()
    assert float(wrapper["efficiency"]) == pytest.approx(efficiency)
    for method in ("class + temperature", "local, halfway"):
        alone = [row for row in rows if row["method"] == method]
        assert [float(row["level"]) for row in alone] == [0, 1, 2, 3, 4, 5]
        for row, (fit, labels, new, truth) in zip(alone, splits, strict=True):
            assert float(row["efficiency"]) == pytest.approx(efficiency, abs=2e-6)
            model = decal.Decalibrator(**METHODS[method]).fit(fit, labels)
            c = model.predict(new, alpha=float(row["alpha"]))
            assert float(row["coverage"]) == pytest.approx(inside(c.lower, c.upper, truth))


def test_seeds_draw_only_what_is_random(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(several, "SMALL_TABLES", ())
    experiment = local_sets.experiment(local_sets.Request(folder, tmp_path, seeds=(4,)))
    assert experiment.seeds == (4, 5, 6)
    seeds = {}
    for cell in experiment.cells:
        seeds.setdefault(cell.data, set()).add(cell.seed)
    drawn = {name for name, of in seeds.items() if of == {4, 5, 6}}
    assert {"clip_cifar10_en", FOREST, "fer_ferplus", "together/cifar10-6"} <= drawn
    fixed = {"snli_bert0/own", "resnet20_cifar10/training", "tabpfn_MIC_46980_seed1"}
    assert {name for name, of in seeds.items() if of == {4}} == fixed
    assert any("Ten classifiers" in need for need in experiment.needs)


def test_everything_is_found_only_if_asked_for(folder, every_family):
    plain, absent = find(folder)
    assert "fer_ferplus" in [d.name for d in plain]
    assert not {"derma", "resnet20"} & {d.family for d in plain}
    assert FOREST not in " ".join(absent)
    kinds = {d.name: d.fitted_on for d in find(folder, everything=True)[0]}
    assert kinds["resnet20_cifar10/training"] == kinds["tabpfn_MIC_46980_seed1"] == TRAINING
    assert kinds["resnet20_cifar10/half"] == kinds[FOREST] == kinds["fer_ferplus"] == HELD_OUT
    assert kinds["snli_bert0/own"] == "elsewhere"
    found, absent = find(every_family, everything=True)  # no file has the truth of ResNet-20's rows
    assert "CIFAR-10H, for resnet20_cifar10.npz" in absent
    assert "resnet20_cifar10/half" not in [d.name for d in found]


# References


def line(top, *, reach=1.0):
    """A curve of coverage `top` at every efficiency up to `reach`."""
    return Curve(np.array([1.0, 0.0]), np.array([top, top]), np.array([reach, 0.0]))


def test_shortfalls_are_against_the_best_reference_that_exists():
    curves = {"local, model": line(0.5), "local, halfway": line(0.75), "class": line(0.9)}
    assert local_sets.shortfalls(curves) == {
        "local, model": [0.25] * 5,
        "local, halfway": [0.0] * 5,
    }


def test_a_reference_that_does_not_exist_is_told_of_and_costs_only_its_own_curve(tmp_path):
    rng = np.random.default_rng(0)
    logits, labels, human = draw(rng, 80, 3)
    np.savez(tmp_path / "fer_ferplus", logits=-logits, labels=labels, human=human)
    with pytest.MonkeyPatch.context() as patch, undrawn():
        patch.setattr(several, "QUICK_TABLES", ())
        report = run(local_sets.experiment, tmp_path, tmp_path / "out", quick=True)
    assert report.notes == (
        "Faces, FER+, fer's network: local, halfway: no such reference with 1 of 1 seeds",
        "Faces, FER+, fer's network: local, best: no such reference with 1 of 1 seeds",
    )
    ((row,),) = report.sections.values()
    assert row[4:6] == ("–", "–")
    assert row[3] != "–"
    by_title = {one.title: one for one in report.tables}
    ((counted,),) = by_title[
        "Which reference: shortfall in coverage of local sets"
    ].sections.values()
    assert counted == ("Faces, FER+", "1", "0.000", "0.000", "–", "–", "–", "–", "1")


def told(tops, name="fer_ferplus", *, reach=1.0):
    """Claims and losses of curves that are flat, by method."""
    curves = {named(name): {m: line(top, reach=reach) for m, top in tops.items()}}
    claims = {claim.text: claim.holds for claim in local_sets._claims(curves)}
    return claims, list(local_sets._losses(curves))


@pytest.mark.parametrize(("both", "loses"), [(0.8, True), (0.2, False)])
def test_losses_are_listed_and_claimed_only_where_they_are(both, loses):
    tops = {"class": 0.1, "class + temperature": both}
    tops |= {m: 0.5 + 0.05 * i for i, m in enumerate(several.REFERENCES)}
    claims, losses = told(tops)
    known = {text: holds for text, holds in claims.items() if text.startswith("It loses: faces")}
    assert len(known) == 6
    assert set(known.values()) == {loses}
    (won,) = (text for text in claims if text.startswith("All data: local, model"))
    assert claims[won] is not loses
    assert f"in {0 if loses else 5} of 5 pairs" in won
    if loses:
        ((_, rows),) = losses[0].sections.items()
        assert [row[0] for row in rows] == [
            f"fer's network, at {e}" for e in ("0.5", "0.7", "0.8", "0.9", "0.95")
        ]
        assert {row[-1] for row in rows} == {"-0.200"}
    else:
        assert losses == []


def test_references_are_compared_by_what_they_are_fitted_on():
    tops = dict(zip(METHODS, (0.1, 0.2, 0.5, 0.7, 0.6), strict=True))

    def compared(kind, name):
        claims, _ = told(tops, name)
        return {text: holds for text, holds in claims.items() if text.startswith(kind)}

    assert compared("Fitted on held-out rows", "fer_ferplus") == {
        "Fitted on held-out rows, local, halfway loses less on average than local, model: "
        "0.000 against 0.200; at most 0.000 against 0.200": True,
        "Fitted on held-out rows, local, halfway loses less on average than local, best: "
        "0.000 against 0.100; at most 0.000 against 0.100": True,
    }
    verdicts = compared("Fitted on training rows", "tabpfn_MIC_46980_seed1").values()
    assert list(verdicts) == [False, False]


@pytest.mark.data
@pytest.mark.slow
def test_each_of_six_networks_holds_more_than_all_six_on_real_data(data_folder, tmp_path):
    for name in SIX:
        file = named(name).file
        (tmp_path / file).symlink_to(data_folder.resolve() / file)
    with pytest.MonkeyPatch.context() as patch, undrawn():
        patch.setattr(several, "QUICK_TABLES", ())
        report = run(local_sets.experiment, tmp_path, tmp_path / "out", quick=True)
    wanted = [c for c in report.claims if "(local, model)" in c.text or "(local, half" in c.text]
    assert len(wanted) == 2
    assert all(claim.holds for claim in wanted), wanted
    cnns = [c for c in report.claims if c.text.startswith("CNNs") and "best" not in c.text]
    assert all(claim.holds for claim in cnns), cnns
