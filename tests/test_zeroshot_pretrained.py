"""Pretrained classifiers: batches, labels by name, and messages of loading."""

import numpy as np
import pytest

import decal

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("PIL")

from decal.zeroshot import ZeroShotClassifier  # noqa: E402
from decal.zeroshot._pretrained import (  # noqa: E402
    PretrainedClassifier,
    batches,
    choose_device,
    loading,
)

pytestmark = pytest.mark.torch


class Echo(PretrainedClassifier):
    """Inputs are logits."""

    classes = ("cat", "dog")

    def logits(self, inputs, *, batch_size=32, progress=False):
        found = [
            row
            for _, rows in batches(inputs, batch_size, unit="rows", progress=progress)
            for row in rows
        ]
        return np.array(found, dtype=np.float32)


def test_logits_are_all_that_a_classifier_must_have():
    z = [[2.0, 0.0], [0.0, 1.0], [1.0, 0.5]]
    odds = np.exp(z)
    p = Echo().probabilities(z, batch_size=2)
    np.testing.assert_allclose(p, odds / odds.sum(axis=1, keepdims=True), rtol=1e-6)
    fitted = Echo().decalibrate(z, ["cat", "dog", "dog"], alpha=0.9)
    assert fitted.classes == Echo.classes
    credal = Echo().predict_credal(fitted, z)
    assert credal.contains(p).all()
    assert credal.classes == Echo.classes


def test_batches_know_the_index_of_their_first_item():
    assert list(batches(iter("abcde"), 2, unit="letters")) == [
        (0, ["a", "b"]),
        (2, ["c", "d"]),
        (4, ["e"]),
    ]


def test_a_device_may_be_chosen():
    assert choose_device("meta") == torch.device("meta")
    assert choose_device(None).type in ("cpu", "cuda")


def test_a_missing_package_and_other_shapes_keep_their_own_errors():
    with pytest.raises(ImportError, match="m needs a package that is not installed: No timm. Try"):
        raise_while_loading(ImportError("No timm. Install it."))
    with pytest.raises(ValueError, match="weights that fit the model of its config: got 'm'"):
        raise_while_loading(RuntimeError("size mismatch for weight"))


def raise_while_loading(error):
    with loading("m", "config.json", {}):
        raise error


def test_a_path_to_nowhere_is_named():
    with pytest.raises(FileNotFoundError, match="'/no/such/place', which is no folder here"):
        ZeroShotClassifier.from_pretrained("/no/such/place", ["cat", "dog"])


def test_a_classifier_takes_the_wishes_of_decalibrate():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(300, 2)).astype(np.float32)
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    groups = np.where(z[:, 0] > 0, "up", "down")
    for wish in ({"alpha": 0.9}, {"miss": 0.1, "per": "class"}, {"hold": 0.4}, {"width": 0.3}):
        fitted = Echo().decalibrate(z, labels, **wish)
        expected = decal.decalibrate(z, labels, classes=Echo.classes, **wish)
        assert fitted.promise == expected.promise
        assert fitted.alpha == expected.alpha
    by_group = Echo().decalibrate(z, labels, miss=0.1, groups=groups)
    credal = Echo().predict_credal(by_group, z, groups=groups)
    assert credal.possible() == by_group.predict(z, groups=groups).possible()


def test_a_classifier_does_not_run_without_exactly_one_wish():
    class Unwilling(Echo):
        def logits(self, *_, **__):
            raise AssertionError

    for wishes in ({}, {"alpha": 0.9, "miss": 0.1}):
        with pytest.raises(ValueError, match="one of alpha, miss, width, hold must be given"):
            Unwilling().decalibrate([[0.0, 1.0]], [0], **wishes)
