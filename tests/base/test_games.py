"""Matrix games: brackets hold the value, and fall on the right side of a threshold."""

import numpy as np

from decal._base import games
from oracles import decisions as oracle


def explicit_reply(payoffs):
    def reply(game, weights):
        column = np.einsum("ms,msc->mc", weights, payoffs[game]).argmin(axis=1)
        return payoffs[game, :, column]

    return reply


def test_brackets_of_random_games_hold_the_value_and_decide():
    rng = np.random.default_rng(11)
    for S, C in ((1, 1), (1, 5), (5, 1), (3, 3), (8, 20), (20, 8)):
        payoffs = rng.uniform(-1, 1, (30, S, C))
        payoffs[::3] = np.round(payoffs[::3])  # degenerate: ties and repeated columns
        values = np.array([oracle.game_value(p) for p in payoffs])
        for offset in (-1e-6, 1e-6):
            for i in range(30):
                threshold = values[i] + offset
                low, high = games.bracket_values(
                    explicit_reply(payoffs[i : i + 1]), 1, S, threshold=threshold
                )
                assert low[0] <= values[i] + 1e-8
                assert high[0] >= values[i] - 1e-8
                assert (high[0] >= threshold) == (offset < 0)
