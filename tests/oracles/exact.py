"""Definitions in arbitrary precision: slow, literal, and right for logits of any size.

Logits of -inf mask a class: it has no probability, whatever the shifts.
"""

from __future__ import annotations

import mpmath

DIGITS = 50
"""Beyond those that the logits themselves need."""

NATS_PER_DIGIT = 4
"""exp(-4 d) is smaller than 10^-d squared: what is so much smaller leaves no trace in d digits."""


def precise(logits):
    """A context with digits enough for logits of this size to differ by far less than one."""
    largest = max(
        [abs(float(z)) for row in logits for z in row if abs(float(z)) < mpmath.inf] + [1]
    )
    return mpmath.workdps(DIGITS + len(str(int(largest))))


def numbers(row):
    return [z if isinstance(z, mpmath.mpf) else mpmath.mpf(float(z)) for z in row]


def softplus(x):
    if abs(x) > NATS_PER_DIGIT * mpmath.mp.dps:
        return max(x, mpmath.mpf(0))
    if x > 0:
        return x + mpmath.log1p(mpmath.exp(-x))
    return mpmath.log1p(mpmath.exp(x))


def sigmoid(x):
    if abs(x) == mpmath.inf:
        return mpmath.mpf(int(x > 0))
    return 1 / (1 + mpmath.exp(-x)) if x > 0 else mpmath.exp(x) / (1 + mpmath.exp(x))


def log_sum(values):
    top = max(values)
    seen = (v - top for v in values)
    seen = [d for d in seen if d > -NATS_PER_DIGIT * mpmath.mp.dps]
    return top + mpmath.log(sum(mpmath.exp(d) for d in seen))


def margin(row, k):
    """Log-odds of class k against all others: perhaps infinite."""
    z = numbers(row)
    others = [v for j, v in enumerate(z) if j != k and v > -mpmath.inf]
    if z[k] == -mpmath.inf:
        return -mpmath.inf
    return z[k] - log_sum(others) if others else mpmath.inf


def gain(logits, labels, k, t, weights):
    """What shifting class k by t changes in the log-likelihood of the labels."""
    of_k = [margin(row, k) for row in logits]
    return gain_of_margins(of_k, [y == k for y in labels], t, weights)


def gain_of_margins(margins, own, t, weights):
    """The same for given margins of a class, and whether each label is of that class."""
    total, t = mpmath.mpf(0), mpmath.mpf(t)
    for m, labelled, w in zip(margins, own, weights, strict=True):
        if abs(m) == mpmath.inf:
            continue
        total += mpmath.mpf(float(w)) * ((t if labelled else 0) - (softplus(m + t) - softplus(m)))
    return total


def loss_from_nothing(margins, t, weights):
    """What a class that no label has costs at t, against a model without it, given its margins."""
    finite = [(m, w) for m, w in zip(margins, weights, strict=True) if abs(m) < mpmath.inf]
    return sum((mpmath.mpf(float(w)) * softplus(m + mpmath.mpf(t)) for m, w in finite), 0)


def log_probabilities(row, shifts):
    """Log-probabilities of a row of logits plus shifts, either of them perhaps -inf."""
    moved = [z + c for z, c in zip(numbers(row), numbers(shifts), strict=True)]
    total = log_sum([v for v in moved if v > -mpmath.inf])
    return [v - total for v in moved]


def slope(logits, labels, k, shifts, weights):
    """The derivative of the log-likelihood by the shift of class k."""
    total = mpmath.mpf(0)
    for row, y, w in zip(logits, labels, weights, strict=True):
        if w == 0:  # perhaps all its classes are left out
            continue
        p = mpmath.exp(log_probabilities(row, shifts)[k])
        total += mpmath.mpf(float(w)) * ((1 if y == k else 0) - p)
    return total


def softmax(row, shifts):
    """Probabilities of a row of logits plus shifts, each of them perhaps infinite.

    A shift of -inf leaves its class out, unless no other is left; one of inf leaves all others out,
    unless it is masked itself.
    """
    z, c = numbers(row), numbers(shifts)
    possible = [j for j, v in enumerate(z) if v > -mpmath.inf]
    lifted = [j for j in possible if c[j] == mpmath.inf]
    kept = [j for j in possible if c[j] > -mpmath.inf]
    chosen = lifted or kept or possible
    moved = {j: z[j] + (c[j] if abs(c[j]) < mpmath.inf else 0) for j in chosen}
    total = log_sum(list(moved.values()))
    return [mpmath.exp(moved[j] - total) if j in moved else mpmath.mpf(0) for j in range(len(z))]


def shift_box(row, center, lower, upper, *, joint):
    """Bounds and point of a row while one class at a time is shifted to its endpoints.

    A class whose center is -inf is left out, unless it is the one that moves: then its shift is
    measured from its logit itself. A class that is alone stays, wherever it moves.
    """
    K = len(center)
    kept = [k for k in range(K) if row[k] > -mpmath.inf and center[k] > -mpmath.inf]
    point = softmax(row, center)
    low, high = list(point), list(point)
    for k in range(K):
        for t in (lower[k], upper[k]) if kept != [k] else ():
            moved = numbers(center)
            moved[k] = numbers([t])[0] + (moved[k] if moved[k] > -mpmath.inf else 0)
            p = softmax(row, moved)
            for j in range(K) if joint else [k]:
                low[j], high[j] = min(low[j], p[j]), max(high[j], p[j])
    return low, high, point


def loss_of_labels(logits, labels, weights, scale):
    """Nats lost by scaling the logits: log-likelihood of the labels at 1 less that at the scale."""
    total = mpmath.mpf(0)
    for row, y, w in zip(logits, labels, weights, strict=True):
        at_one, scaled = (log_softmax(row, s)[y] for s in (1, scale))
        total += mpmath.mpf(float(w)) * (at_one - scaled)
    return total


def loss_of_the_softer(logits, weights, scale):
    """KL divergence of the softer from the sharper of the models at scales 1 and `scale`."""
    total = mpmath.mpf(0)
    for row, w in zip(logits, weights, strict=True):
        sharper, softer = (
            log_softmax(row, s) for s in sorted((mpmath.mpf(1), scale), reverse=True)
        )
        for p, q in zip(sharper, softer, strict=True):
            if p > -mpmath.inf:
                total += mpmath.mpf(float(w)) * mpmath.exp(p) * (p - q)
    return total


def log_softmax(row, scale):
    """Log-probabilities of a row of logits times a finite scale: -inf for masked classes."""
    scale = mpmath.mpf(scale)
    z = [scale * v if v > -mpmath.inf else v for v in numbers(row)]
    total = log_sum([v for v in z if v > -mpmath.inf])
    return [v - total for v in z]


def knowledge(logits, weights):
    """Mean of the logarithm of the number of classes not masked, less the entropy."""
    total = mpmath.mpf(0)
    for row, w in zip(logits, weights, strict=True):
        p = [v for v in log_softmax(row, 1) if v > -mpmath.inf]
        total += mpmath.mpf(float(w)) * (mpmath.log(len(p)) + sum(mpmath.exp(v) * v for v in p))
    return total / mpmath.fsum(map(float, weights))


def scaled_softmax(row, scale):
    """Probabilities of a row of logits times a scale, from 0 to infinity."""
    if scale == mpmath.inf:
        z = numbers(row)
        ties = [v == max(z) for v in z]
        return [mpmath.mpf(int(tie)) / sum(ties) for tie in ties]
    return [mpmath.exp(v) if v > -mpmath.inf else mpmath.mpf(0) for v in log_softmax(row, scale)]


def largest_scaled(row, j, first, last, halvings=60):
    """The largest probability of class j at scales between two finite ones, the first positive.

    log p_j is concave in the scale, and rises where the expected logit is below that of class j.
    """
    z = numbers(row)
    finite = [i for i, v in enumerate(z) if v > -mpmath.inf]

    def rises(s):
        p = scaled_softmax(row, s)
        return sum(p[i] * (z[i] - z[j]) for i in finite) < 0

    low, high = mpmath.mpf(first), mpmath.mpf(last)
    if rises(high):
        return scaled_softmax(row, high)[j]
    for _ in range(halvings):
        middle = mpmath.sqrt(low * high)
        low, high = (middle, high) if rises(middle) else (low, middle)
    return scaled_softmax(row, low)[j]
