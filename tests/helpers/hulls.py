"""Random hulls of many shapes, and distributions inside them."""

from itertools import product

import numpy as np

from oracles import decisions as oracle

SHAPES = ((1, 2), (1, 5), (2, 2), (2, 6), (4, 3), (7, 7), (5, 20))  # (M, K)


def cases(seed, n=4):
    rng = np.random.default_rng(seed)
    for kind, (M, K) in product(oracle.HULL_KINDS, SHAPES):
        yield rng, kind, oracle.random_hulls(rng, n, M, K, kind)


def mixtures(rng, vertices):
    weights = rng.dirichlet(np.full(vertices.shape[1], 0.3), len(vertices))
    return np.einsum("nm,nmk->nk", weights, vertices)
