"""Tables, and the classifiers that experiments run on them."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from decal_lab.experiments.harness import tabular_models as tables

needs_sklearn = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn"
)


def test_features_are_places_in_order_or_standardised_numbers(tables_folder):
    loaded = tables.load(tables_folder, 46941)
    places = tables.ordinal(loaded)
    ages = loaded.columns["Age"]
    assert np.isnan(places[7, 0])
    known = [i for i in range(60) if i != 7]
    for i in known[:10]:
        assert places[i, 0] == len({ages[j] for j in known if ages[j] < ages[i]})
    X = tables.standardised(loaded)
    assert X.shape == (60, 2 + 3)
    assert X[7, 0] == 0
    assert X[:, 1].mean() == pytest.approx(0, abs=1e-12)
    np.testing.assert_array_equal(X[:, 2:].sum(axis=1), 1)


def test_a_table_that_is_not_there_is_none(tables_folder):
    assert tables.load(tables_folder, 46930) is None


@needs_sklearn
def test_classes_that_were_not_seen_are_all_but_impossible(tables_folder):
    model = tables.logistic()
    X = model.encode(tables.load(tables_folder, 46941))[:20]
    logits = model.fit(X, np.array([0, 2] * 10), 3, 0)(X)
    assert logits.shape == (20, 3)
    np.testing.assert_array_equal(logits[:, 1], tables.UNSEEN)


@pytest.mark.skipif(importlib.util.find_spec("tabpfn") is not None, reason="TabPFN is here")
def test_without_tabpfn_the_reason_is_told(tables_folder):
    assert tables.tabpfn(tables_folder, members=1) == (None, "the package tabpfn, with its weights")
