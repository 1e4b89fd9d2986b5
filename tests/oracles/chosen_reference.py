"""References that labels choose: the rule by numerical minimisation. Imports nothing from decal."""

import warnings

import numpy as np
from scipy.optimize import minimize

from oracles.log_sums import log_sum_exp

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def losses(logits, labels, center, scale):
    """-log p_y of every row under scale * logits + center."""
    moved = scale * logits + center
    return log_sum_exp(moved) - moved[np.arange(len(labels)), labels]


def fit(logits, labels, weights, *, shifts, least=1e-9):
    """(center, scale) of the least loss, plus half the squares of the shifts, if these may move."""
    K = logits.shape[1]

    def parts(x):
        return (x[:-1], x[-1]) if shifts else (np.zeros(K), x[-1])

    def penalised(x):
        center, scale = parts(x)
        return weights @ losses(logits, labels, center, scale) + center @ center / 2

    start = np.append(np.zeros(K if shifts else 0), max(1.0, least))
    bounds = [(None, None)] * (len(start) - 1) + [(least, None)]
    found = minimize(
        penalised, start, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-8}
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Values in x were outside bounds")  # by one rounding
        found = minimize(penalised, found.x, method="SLSQP", bounds=bounds, options={"ftol": 1e-15})
    return parts(found.x)


def toward(fitted, share):
    """So far from the model as it is to a fitted one."""
    center, scale = fitted
    return share * center, share * scale + (1 - share)


def held_out(logits, labels, weights, fitted_by):
    """Losses (shares, n) of every row by a model fitted on the other folds."""
    fold = np.random.default_rng(0).permutation(len(labels)) % 5
    found = np.empty((len(SHARES), len(labels)))
    for f in range(5):
        here, others = fold == f, fold != f
        fitted = fitted_by(logits[others], labels[others], weights[others])
        for i, share in enumerate(SHARES):
            found[i, here] = losses(logits[here], labels[here], *toward(fitted, share))
    return found


def auto(logits, labels, weights):
    """(center, scale): scale, or shifts and scale, and a share of the way, by the log-loss."""
    weights = weights / weights.mean()
    best = {}
    for shifts in (False, True):
        found = held_out(logits, labels, weights, lambda *d, s=shifts: fit(*d, shifts=s))
        for share, each in zip(SHARES, found, strict=True):
            best[shifts, share] = weights @ each
    shifts, share = min(best, key=best.get)
    return toward(fit(logits, labels, weights, shifts=shifts), share)


def consensus(logits, labels, weights):
    """(center, scale), and how it came about: "full", "moved" or "model"."""
    weights = weights / weights.mean()
    K = logits.shape[1]

    def frequencies(_, y, w):
        return np.log([1 + w[y == k].sum() for k in range(K)]), 0.0

    def temperature(*data):
        return fit(*data, shifts=False)

    def sharpened(*data):
        return fit(*data, shifts=True, least=1.0)

    data = logits, labels, weights
    plain, scaled = (weights @ held_out(*data, by)[-1] for by in (frequencies, temperature))
    if plain < scaled:
        return fit(*data, shifts=True), "full"
    found = held_out(*data, sharpened)
    best = int(np.argmin(found @ weights))
    gains = found[0] - found[best]
    mean = np.average(gains, weights=weights)
    error = np.sqrt(np.sum((weights * (gains - mean)) ** 2)) / weights.sum()
    if mean > 2 * error:
        return toward(sharpened(*data), SHARES[best]), "moved"
    return (np.zeros(K), 1.0), "model"
