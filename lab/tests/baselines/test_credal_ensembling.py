"""Credal Ensembling: which members stay, against the definition member by member."""

import itertools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import decal  # noqa: E402
from decal_lab.baselines import CredalEnsembling, Trainer, credal_ensembling, mlp  # noqa: E402

pytestmark = pytest.mark.torch

DISTANCE_BETWEEN = {
    "euclidean": lambda p, q: math.dist(p, q),
    "manhattan": lambda p, q: sum(abs(a - b) for a, b in zip(p, q, strict=True)),
    "chebyshev": lambda p, q: max(abs(a - b) for a, b in zip(p, q, strict=True)),
    "kl": lambda p, q: sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0),
    "hellinger": lambda p, q: math.sqrt(
        1 - min(1.0, sum(math.sqrt(a * b) for a, b in zip(p, q, strict=True)))
    ),
}


def dirichlet(n=25, M=10, K=4, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(K, 0.4), size=(n, M))


def kept_members(p, count, distance):
    """The members that stay, one input after the other, by sorting (distance, index)."""
    found = []
    for members in p.tolist():
        mean = [sum(column) / len(members) for column in zip(*members, strict=True)]
        ranked = sorted(
            range(len(members)), key=lambda m: (DISTANCE_BETWEEN[distance](members[m], mean), m)
        )
        found.append([members[m] for m in sorted(ranked[:count])])
    return np.array(found)


@pytest.mark.parametrize("distance", DISTANCE_BETWEEN)
@pytest.mark.parametrize(("alpha", "count"), [(0, 10), (0.1, 9), (0.3, 7), (0.84, 2), (1, 1)])
def test_the_closest_share_of_members_stays(distance, alpha, count):
    p = dirichlet()
    p[0, 0] = [1.0, 0.0, 0.0, 0.0]
    credal = credal_ensembling(p, alpha, distance=distance)
    assert isinstance(credal, decal.HullCredalSet)
    np.testing.assert_array_equal(credal.vertices, kept_members(p, count, distance))


def test_all_members_stay_at_zero_in_their_order():
    p = dirichlet()
    np.testing.assert_array_equal(credal_ensembling(p).vertices, p)


def test_hulls_are_nested_as_alpha_grows():
    p = dirichlet()
    sets = [credal_ensembling(p, alpha) for alpha in np.linspace(0, 1, 11)]
    for wider, narrower in itertools.pairwise(sets):
        assert (wider.lower <= narrower.lower).all()
        assert (wider.upper >= narrower.upper).all()


def test_of_equally_distant_members_the_earlier_stay_whatever_round_off_says():
    # Two members are always equally far from their mean; in floats they rarely are.
    p = dirichlet(n=200, M=2)
    for distance in ("euclidean", "manhattan", "chebyshev"):
        kept = credal_ensembling(p, 0.5, distance=distance).vertices
        np.testing.assert_array_equal(kept[:, 0], p[:, 0])
    same = np.repeat(dirichlet(M=1), 5, axis=1)
    assert credal_ensembling(same, 0.4).vertices.shape == (25, 3, 4)


def test_distances_differ_in_whom_they_keep():
    p = dirichlet(n=300)
    kept = [credal_ensembling(p, 0.5, distance=d).vertices for d in DISTANCE_BETWEEN]
    for one in range(5):
        for other in range(one):
            assert not np.array_equal(kept[one], kept[other])


def test_trained_members_answer_for_any_alpha():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(90, 4, generator=generator)
    y = x[:, :3].argmax(dim=1)
    method = CredalEnsembling(
        lambda: mlp(3, inputs=4, hidden=(16,)),
        alpha=0.5,
        distance="hellinger",
        members=4,
        trainer=Trainer(epochs=25, learning_rate=0.03),
    ).fit([(x, y)])
    p = method.member_probabilities(x)
    assert p.shape == (90, 4, 3)
    np.testing.assert_array_equal(
        method.predict_credal(x).vertices, kept_members(p, 2, "hellinger")
    )
    np.testing.assert_array_equal(method.predict_credal(x, alpha=0).vertices, p)
    assert method.predict_credal(x, alpha=1).vertices.shape == (90, 1, 3)
    np.testing.assert_allclose(method.predict_proba(x), p.mean(axis=1))
    assert len(method.trainings) == 4


def test_models_and_logits_take_the_settings_of_the_method():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5, 30, 4))
    method = CredalEnsembling.from_logits(logits, alpha=0.4, distance="kl")
    p = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(
        method.predict_credal().vertices, kept_members(p.swapaxes(0, 1), 3, "kl")
    )
    models = [torch.nn.Linear(2, 3) for _ in range(5)]
    wider = CredalEnsembling.from_models(models, alpha=0.2)
    assert wider.predict_credal(torch.randn(7, 2)).vertices.shape == (7, 4, 3)


def test_what_is_wrong_is_named():
    p = dirichlet()
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1: got 1.2"):
        credal_ensembling(p, 1.2)
    with pytest.raises(ValueError, match="distance must be one of 'euclidean', .*: got 'cosine'"):
        credal_ensembling(p, 0.2, distance="cosine")
    with pytest.raises(ValueError, match="distance must be one of"):
        CredalEnsembling.from_logits([np.zeros((2, 2))], distance="l2")
    with pytest.raises(ValueError, match=r"probabilities\[:, 2\] must lie between 0 and 1"):
        credal_ensembling(np.where(np.arange(10)[:, None] == 2, -0.1, p), 0.2)
