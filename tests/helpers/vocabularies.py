"""Random vocabularies of a language model, some of whose tokens spell labels."""

import numpy as np

from decal.llm import Verbaliser


def random_vocabulary(rng):
    """Probabilities of V tokens, their texts, spellings of K labels, and their Verbaliser."""
    V, K = int(rng.integers(8, 40)), int(rng.integers(2, 5))
    z = rng.normal(size=V) * rng.choice([0.3, 1.0, 3.0])
    spellings = [[f"s{k}.{i}" for i in range(int(rng.integers(1, 3)))] for k in range(K)]
    texts = [s for own in spellings for s in own]
    tokens = [*rng.permutation(texts + [f"x{i}" for i in range(V - len(texts))])]
    v = Verbaliser({f"label {k}": own for k, own in enumerate(spellings)}, space=False)
    return np.exp(z) / np.exp(z).sum(), tokens, spellings, v
