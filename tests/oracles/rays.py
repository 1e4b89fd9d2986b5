"""How far one can go along rays inside a convex region, by doubling and halving."""

import numpy as np


def reach(plausible, count, *, doublings=14, halvings=45):
    """(count,) the largest steps t at which `plausible(t)` still holds on every ray."""
    near, far = np.zeros(count), np.ones(count)
    for _ in range(doublings):
        far = np.where(plausible(far), 2 * far, far)
    for _ in range(halvings):
        middle = (near + far) / 2
        inside = plausible(middle)
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return near
