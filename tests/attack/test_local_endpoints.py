"""Endpoints of local intervals on nasty log-odds: on both sides of them, the budget, exactly."""

import numpy as np
import pytest
from hypothesis import strategies as st

import decal
from decal._base.bernoulli import EndpointTable, largest_log_odds
from decal.directions._direction import Inputs
from decal.directions._local import local_box
from helpers.attack import attack
from helpers.compiled import using
from oracles.divergences import ROUNDINGS, encloses, encloses_exactly

EPS = float(np.finfo(np.float64).eps)
PROMISED = 1e-12
"""Relative to the log-odds of an endpoint, and to SMALL where they are closer to 0."""

SMALL = 1e-3
BATCH = 200
"""Endpoints that one draw of Hypothesis stands for."""

BY_MPMATH = 3
"""Those of a batch that mpmath judges alone, whatever long doubles say."""

MANY = 49_152
seeds = st.integers(0, 2**32 - 1)
EXTREME_CENTERS = np.array([1e-300, 1e-17, 1e-9, 0.5, 1 - 1e-9, 1 - 1e-16])


def draw_log_odds(rng, n):
    """Of every size, and those of extreme probabilities."""
    c = rng.choice(EXTREME_CENTERS, n)
    kinds = [
        rng.normal(size=n) * 3,
        rng.uniform(-40, 40, n),
        rng.uniform(-800, 800, n),
        rng.choice([-1.0, 1.0], n) * 10 ** rng.uniform(-300, 4, n),
        np.log(c) - np.log1p(-c),
    ]
    return np.choose(rng.integers(len(kinds), size=n), kinds)


def draw_budgets(rng, m, least=1e-290):
    """Usual ones, tiny and huge ones, and those that nearly or just reach certainty.

    Where certainty is within `least` nats, budgets are far above it: near it they have few digits.
    """
    n, most = len(m), np.logaddexp(0, -m)
    kinds = [
        rng.uniform(1e-3, 5, n),
        np.exp(rng.uniform(-35, 6.5, n)),
        most * (1 - 10 ** rng.uniform(-15, 0, n)),
        most * (1 + 10 ** rng.uniform(-14, 3, n)),
    ]
    b = np.choose(rng.integers(len(kinds), size=n), kinds)
    return np.where((most < least) & (b < 2 * most), 1.0, b)


def check_log_odds(x, m, b, rng, rounding=ROUNDINGS, room=None):
    """Every x is the largest log-odds within the budget of those of m, give or take `room`."""
    assert (x >= m).all()
    room = PROMISED * np.maximum(np.abs(x), SMALL) if room is None else room
    room = np.where(np.isinf(x), 0.0, room).astype(np.longdouble)
    low, high = x - room, x + room
    right = encloses(low, high, m, b, rounding)
    sample = rng.choice(len(m), BY_MPMATH)
    for i in sample:
        assert encloses_exactly(low[i], high[i], m[i], b[i], rounding) == right[i]
    assert right.all(), [(m[i], b[i], x[i]) for i in np.flatnonzero(~right)[:5]]


def check_probabilities(found, m, b, *, sign, blur=0.0, promised=PROMISED, digits=4 * EPS):
    """The same of probabilities: upper endpoints of log-odds m (sign 1), or lower ones (-1).

    Margins are known to `blur`. In sigmoid(x) the log-odds have the digits that it has.
    """
    q = np.where(sign > 0, found, 1 - found.astype(np.longdouble)).astype(np.longdouble)
    p = np.where(sign > 0, 1 - found.astype(np.longdouble), found).astype(np.longdouble)
    with np.errstate(divide="ignore"):
        x = np.log(q) - np.log(p)
    with np.errstate(invalid="ignore"):
        room = q * p * promised * np.maximum(np.abs(x), SMALL)
    # A long double has all digits of 1 - found.
    room = np.where(np.isinf(x), 0, room) + digits * found.astype(np.longdouble)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.log(np.maximum(q - room, 0)) - np.log(np.minimum(p + room, 1))
        high = np.log(np.minimum(q + room, 1)) - np.log(np.maximum(p - room, 0))
    m = sign * m
    # The further away the center, the larger the divergence.
    near = encloses(low, np.full_like(high, np.inf), m + blur, b)
    far = encloses(np.full_like(low, -np.inf), high, m - blur, b)
    right = near & far
    assert right.all(), [(m[i], b[i], found[i]) for i in np.flatnonzero(~right)[:5]]


@attack("local endpoints", 5, each=BATCH, seed=seeds)
def test_budgets_lie_between_both_sides_of_endpoints(seed):
    rng = np.random.default_rng(seed)
    m = draw_log_odds(rng, BATCH)
    b = draw_budgets(rng, m)
    check_log_odds(largest_log_odds(m, b), m, b, rng)


@attack("local endpoints, from a table", 5, each=BATCH, seed=seeds)
def test_endpoints_from_a_table_are_the_same(seed):
    rng = np.random.default_rng(seed)
    m = draw_log_odds(rng, BATCH)
    m = m[np.abs(m) < 450]
    budget = float(np.exp(rng.uniform(-27, 5)))
    left = np.logaddexp(0, [-m, m]) - budget
    high, low = EndpointTable.of(budget).ends(left)
    b = np.full(len(m), budget)
    check_probabilities(high, m, b, sign=1)
    check_probabilities(low, m, b, sign=-1)


def box_of(logits, budget):
    """The local box of these logits, of the model as it is."""
    inputs = Inputs(logits, np.zeros(logits.shape[1]), joint=True)
    endpoints = decal.Endpoints(np.zeros(()), budget, 0.0, None, 0.0)
    return local_box(inputs, endpoints, decal.Local())


@attack("local boxes, two classes", 5, each=4 * BATCH, seed=seeds, compiled=st.booleans())
def test_boxes_of_two_classes_end_at_the_budget(seed, compiled):
    rng = np.random.default_rng(seed)
    m = draw_log_odds(rng, BATCH)
    budget = float(np.exp(rng.uniform(-30, 6)))
    with using(compiled):
        found = box_of(np.stack([m, np.zeros(BATCH)], axis=1), budget)
    b = np.full(BATCH, budget)
    for k, sign in ((0, 1), (1, -1)):
        check_probabilities(found.high[:, k], sign * m, b, sign=1)
        check_probabilities(found.low[:, k], sign * m, b, sign=-1)


@attack("local boxes, 49,152 classes", 1, each=2 * MANY, seed=seeds, compiled=st.booleans())
def test_boxes_of_a_vocabulary_end_at_the_budget(seed, compiled):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=MANY) * rng.choice([0.1, 3.0, 30.0])
    logits[rng.integers(MANY, size=20)] += rng.choice([-500.0, 40.0, 500.0])
    e = np.exp((logits - logits.max()).astype(np.longdouble))
    top = int(logits.argmax())
    others = e.sum() - e
    others[top] = np.delete(e, top).sum()
    m = (logits - logits.max()) - np.log(others)
    budget = float(np.exp(rng.uniform(-10, 3)))
    with using(compiled):
        found = box_of(logits[None], budget)
    settings = {"b": np.full(MANY, budget), "blur": 8 * EPS * (1 + np.ptp(logits))}
    check_probabilities(found.high[0], m, sign=1, **settings)
    check_probabilities(found.low[0], m, sign=-1, **settings)


@attack("local endpoints of tensors", 5, each=2 * BATCH, seed=seeds)
def test_endpoints_of_tensors(seed):
    torch = pytest.importorskip("torch", reason="needs decal[torch]")
    from decal.directions._ranges import _largest_log_odds

    def endpoints(dtype, least):
        m = torch.tensor(draw_log_odds(rng, BATCH), dtype=dtype)
        b = torch.tensor(draw_budgets(rng, m.double().numpy(), least), dtype=dtype)
        return [a.double().numpy() for a in (_largest_log_odds(torch, m, b), m, b)]

    rng = np.random.default_rng(seed)
    # Digits are relative to all that is added up, nats of the center too.
    x, m, b = endpoints(torch.float64, 1e-290)
    room = PROMISED * np.maximum(np.abs(x), SMALL) + 4 * EPS * np.abs(m)
    check_log_odds(x, m, b, rng, room=room)
    x, m, b = endpoints(torch.float32, 1e-30)
    room = 16 * float(torch.finfo(torch.float32).eps) * (1 + np.abs(x) + np.abs(m))
    check_log_odds(x, m, b, rng, 2.0**-20, room)
