"""The pieces of the documentation's first page: the README's model, its numbers, and its weight."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import decal

SCRIPT = Path(__file__).parent.parent / "docs" / "landing.py"


@pytest.fixture(scope="module")
def landing():
    found = importlib.util.spec_from_file_location("landing", SCRIPT)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def model(landing):
    return landing.fitted()


@pytest.fixture(scope="module")
def strip(landing, model):
    return landing.language_strip(model)


def test_texts_are_one_sure_three_torn_one_hopeless_and_one_missed(landing, model, strip):
    new = decal.datasets.languages("test")
    left = model.predict(new.logits).possible()
    names = [new.classes[k] for k in new.labels]
    says = [new.classes[k] for k in new.logits.argmax(axis=1)]
    sure, *torn, hopeless, missed = landing.ROWS
    assert left[sure] == [names[sure]]
    for row in torn:
        assert len(left[row]) == 2
        assert names[row] in left[row]
        assert says[row] != names[row]
    assert len(left[hopeless]) == max(map(len, left))
    assert left[missed] == [says[missed]] != [names[missed]]
    for row, example in zip(landing.ROWS, strip["examples"], strict=True):
        assert (example["text"], example["true"]) == (new.texts[row], names[row])
        own = {bar["name"] for bar in example["bars"] if bar["from"] <= strip["own"]}
        others = sum(level <= strip["own"] for level in example["others"])
        assert own <= set(left[row])
        assert len(own) + others == len(left[row])


def test_it_opens_at_the_models_own_level(model, strip):
    new = decal.datasets.languages("test")
    report = model.report(new.logits)
    own, alone = strip["own"], [len(left) == 1 for left in report.possible]
    assert strip["filed"][own] == sum(alone)
    names = np.array(new.classes)[new.labels]
    missed = [name not in left for name, left in zip(names, report.possible, strict=True)]
    assert strip["missed"][own] == sum(missed)
    assert strip["wrong"][own] == sum(m for m, one in zip(missed, alone, strict=True) if one)
    assert strip["promise"] == "misses at most 1 in 10"
    assert (model.promise.target, model.promise.rows) == (0.1, 1269)


def test_the_corrections_reach_as_far_as_the_range(landing, model):
    new = decal.datasets.languages("test")
    credal = model.predict(new.logits[[landing.TOLD]])
    k = new.classes.index(landing.LANGUAGE)
    says, point, ends = landing.corrections(model)
    assert len(ends) == 42
    assert (min(ends), max(ends)) == pytest.approx((credal.lower[0, k], credal.upper[0, k]))
    assert point == pytest.approx(credal.point[0, k])
    z = new.logits[landing.TOLD]
    assert says == pytest.approx(1 / sum(np.exp(z - z[k])))
    told = landing.steps(model).replace("\u00a0", " ")
    assert "turn 93 % Spanish into 56 %" in told
    assert "31–91 %" in told
    assert "1,269 other labelled texts" in told
    shifts = dict(zip(new.classes, model.reference_model.center, strict=True))
    assert shifts["Spanish"] < 0 < shifts["Galician"]


def test_the_strip_is_light(landing, tmp_path):
    landing.write(tmp_path)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert set(sizes) == {"landing_strip.html", "landing_steps.html"}
    assert sum(sizes.values()) < 60_000
