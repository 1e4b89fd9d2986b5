"""Choosing alpha for a reason."""

from __future__ import annotations

import math
from typing import Any

from decal._arrays import check_alpha, check_count


def alpha_from_confidence(level: Any, df: int = 1) -> float:
    """The alpha at which, with likelihood="sum", a region has a given asymptotic confidence.

    By Wilks' theorem twice the log-likelihood lost at the truth is chi-square distributed with as
    many degrees of freedom as the family has free parameters, so alpha = exp(-q / 2) with q the
    chi-square quantile of the level.

    Parameters
    ----------
    level : confidence in [0, 1].
    df : free parameters: 1 for the shift of one class.

    Examples
    --------
    >>> import decal
    >>> round(decal.alpha_from_confidence(0.95), 4)
    0.1465
    """
    from scipy.special import gammaincinv  # here, as it would double the time to import decal

    level = check_alpha(level, "level")
    return math.exp(-float(gammaincinv(check_count(df, "df") / 2, level)))


def confidence_from_alpha(alpha: Any, df: int = 1) -> float:
    """The inverse of `alpha_from_confidence`.

    Examples
    --------
    >>> import decal
    >>> round(decal.confidence_from_alpha(decal.alpha_from_confidence(0.95)), 10)
    0.95
    """
    from scipy.special import gammainc

    alpha = check_alpha(alpha)
    loss = -math.log(alpha) if alpha > 0 else math.inf
    return float(gammainc(check_count(df, "df") / 2, loss))
