"""Truncated next-token distributions by definition: slow, literal, importing nothing from decal.

A vocabulary is a vector of V probabilities, of which the largest are listed. A completion is any
distribution that agrees with the list: what is not listed is at most the least that is, and adds up
to what the listed ones leave.
"""

import math

import numpy as np


def completions(rng, p, listed, count):
    """Random vectors of probabilities that agree with p where `listed` (V,), and could be there."""
    cap, rest = p[listed].min(), 1.0 - math.fsum(p[listed])
    hidden = np.flatnonzero(~listed)
    for number in range(count):
        q = p.copy()
        if number % 2:  # as uneven as can be: as much as possible for some, nothing for the last
            left = rest
            for i in rng.permutation(hidden):
                q[i] = min(cap, left)
                left -= q[i]
        else:
            q[hidden] = spread_out(rest, cap, rng.exponential(size=len(hidden)) ** 3)
        yield q


def spread_out(total, cap, weights):
    """`total` shared in proportion to `weights`, no share above `cap`."""
    share, free = np.zeros(len(weights)), np.ones(len(weights), dtype=bool)
    for _ in range(len(weights)):
        left = total - share[~free].sum()
        if left <= 0 or not free.any():
            break
        share[free] = left * weights[free] / weights[free].sum()
        over = free & (share > cap)
        if not over.any():
            break
        share[over] = cap
        free &= ~over
    return np.minimum(share, cap)


def masses(p, tokens, spellings):
    """The probability of each label: that of all tokens that spell it."""
    return [math.fsum(p[i] for i, t in enumerate(tokens) if t in own) for own in spellings]


def said_masses(next_token, tokens, spellings, most):
    """The probability of each label in all texts of at most `most` tokens, by enumeration.

    A text says a label as soon as it is one of its spellings, white space before it aside; but
    while it may yet become another label, the longer one counts if it comes.

    next_token : function from a text to the probabilities (V,) of the token after it
    """
    labels = {s.lstrip(): k for k, own in enumerate(spellings) for s in own}
    total = np.zeros(len(spellings))

    def go_on(text, probability, depth, said):
        word = text.lstrip()
        said = labels.get(word, said)
        growing = any(s != word and s.startswith(word) for s in labels)
        if not growing or depth == most:
            if said is not None:
                total[said] += probability
            return
        for p, token in zip(next_token(text), tokens, strict=True):
            if p > 0:
                go_on(text + token, probability * p, depth + 1, said)

    go_on("", 1.0, 0, None)
    return total


def softmax(z):
    e = [math.exp(x - max(z)) for x in z]
    return np.array(e) / sum(e)


def predictions(mass, shifts=None, scales=None):
    """What the label masses say after plausible moves: every end of a shift, and many scales."""
    z = [math.log(m) if m > 0 else -745.0 for m in mass]
    yield softmax(z)
    for k, ends in enumerate(zip(*shifts, strict=True) if shifts else ()):
        for t in ends:
            t = max(min(t, 2000.0), -2000.0)
            yield softmax([x + t * (j == k) for j, x in enumerate(z)])
    for s in np.linspace(*scales, 15) if scales else ():
        yield softmax([s * x for x in z])


def ball_interval(c, budget):
    """The least and the greatest q with kl(q || c) <= budget, by bisection."""

    def cost(q):
        first = q * math.log(q / c) if q > 0 else 0.0
        return first + ((1 - q) * math.log((1 - q) / (1 - c)) if q < 1 else 0.0)

    ends = []
    for edge in (0.0, 1.0):
        inside, outside = c, edge
        if cost(edge) <= budget:
            ends.append(edge)
            continue
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if cost(middle) <= budget else (inside, middle)
        ends.append(inside)
    return ends


def plausible(shift, margins, labels, budget):
    """Whether adding `shift` to one label's logit costs the labels at most `budget` in all."""
    gain = 0.0
    for m, label in zip(margins, labels, strict=True):
        gain += shift * label - (np.logaddexp(0, m + shift) - np.logaddexp(0, m))
    return gain >= -budget
