"""Trees of classes by definition: nodes as sets of leaves, ranges by linear programs and roots.

Imports nothing from decal. A tree is a mapping from each node to the one above it; the root's is
None.
"""

from collections import deque

import mpmath
import numpy as np
from scipy.optimize import linprog


def leaves_below(parents, node, classes):
    """The classes whose way up passes a node."""
    found = set()
    for name in classes:
        step = name
        while step is not None:
            if step == node:
                found.add(name)
            step = parents[step]
    return found


def box_range(lower, upper, inside):
    """Least and greatest mass of an event in a box, by linear programs."""
    bounds = list(zip(lower, upper, strict=True))
    ends = []
    for sign in (1, -1):
        found = linprog(sign * inside, A_eq=[np.ones(len(lower))], b_eq=[1], bounds=bounds)
        ends.append(sign * found.fun)
    return ends


def ball_range(mass, radius, digits=60):
    """The masses q with kl(q || mass) <= radius, to so many digits, by bisection."""
    with mpmath.workdps(digits):
        c, b = mpmath.mpf(mass), mpmath.mpf(radius)

        def kl(q):
            parts = [(q, c), (1 - q, 1 - c)]
            return mpmath.fsum(x * mpmath.log(x / y) for x, y in parts if x > 0)

        ends = []
        for far in (mpmath.mpf(0), mpmath.mpf(1)):
            near, end = c, far
            if kl(end) <= b:
                ends.append(float(end))
                continue
            for _ in range(200):
                middle = (near + end) / 2
                near, end = (middle, end) if kl(middle) <= b else (near, middle)
            ends.append(float(near))
        return ends


def sure_node(parents, lower, least):
    """Of nodes whose lower mass exceeds one half and is `least` or more, the one furthest down."""

    def depth(node):
        return 0 if parents[node] is None else 1 + depth(parents[node])

    enough = [node for node in parents if lower[node] > 0.5 + 1e-9 and lower[node] >= least]
    return max(enough, key=depth)


def steps(parents, wrong):
    """Cost of naming a node if another is true: steps down from it, wrong for steps up to get out.

    Breadth-first from every node over the edges of the tree.
    """
    edges = {node: [] for node in parents}
    for node, above in parents.items():
        if above is not None:
            edges[node].append((above, wrong))
            edges[above].append((node, 1.0))
    found = {}
    for start in parents:
        cost, waiting = {start: 0.0}, deque([start])
        while waiting:
            here = waiting.popleft()
            for there, step in edges[here]:
                if there not in cost:
                    cost[there] = cost[here] + step
                    waiting.append(there)
        found[start] = cost
    return found
