"""Settings: checks of levels, counts, choices and flags, and models whose settings are frozen."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from inspect import Parameter, signature
from typing import Any, ClassVar, Self

import numpy as np

from decal._base.errors import InputError, require_all
from decal._base.numerics import Array
from decal._base.row_checks import to_numpy

DEFAULT_ALPHA = 0.8  # the level of predictions if none is given, wherever decal predicts

UNNAMED = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def check_alpha(alpha: Any, name: str = "alpha") -> float:
    """One number in [0, 1]."""
    if type(alpha) is float and 0 <= alpha <= 1:
        return alpha
    _require_no_parts(alpha, name, "one number")
    try:
        value = float("" if isinstance(alpha, bool | str) or np.ndim(alpha) else alpha)
    except (TypeError, ValueError) as error:
        got = " ".join(f"{alpha!r}".split())
        raise InputError(name, "be one number from 0 to 1", f"{got:.60}") from error
    except OverflowError as error:  # a whole number beyond the floats, of hundreds of digits
        raise InputError(name, "lie between 0 and 1", "a larger number") from error
    if not 0 <= value <= 1:  # also false for NaN
        raise InputError(name, "lie between 0 and 1", f"{value}")
    return value


def _require_no_parts(given: Any, name: str, wanted: str) -> None:
    """ValueError about a choice for every class, or for every group."""
    parts = getattr(given, "parts", None)
    if parts:
        verb = "decide" if given.promise.per == "class" else "predict"
        fact = f"a {type(given).__name__}, which holds {len(parts)} of them"
        raise InputError(name, f"be {wanted} from 0 to 1", fact, f"Call its {verb}.")


def check_share(value: Any, name: str, *, positive: bool = False) -> float:
    """A number of at least 0, or above it, and below 1."""
    share = check_alpha(value, name)
    if share == 1 or (positive and share == 0):
        rule = "above 0" if positive else "at least 0"
        raise InputError(name, f"be {rule} and below 1", f"{share:g}")
    return share


def check_alphas(alphas: Any) -> Array:
    """(A,) numbers in [0, 1], at least one."""
    _require_no_parts(alphas, "alphas", "a vector of numbers")
    array = to_numpy(alphas, "alphas")
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        fact = f"shape {array.shape}, dtype {array.dtype}"
        raise InputError("alphas", "be a vector of numbers from 0 to 1, at least one", fact)
    array = array.astype(np.float64)
    require_all((array >= 0) & (array <= 1), array, "alphas", "lie between 0 and 1")
    return array


def require_one(**given: Any) -> None:
    """Exactly one of two arguments must be given."""
    first, second = given
    count = sum(value is not None for value in given.values())
    if count != 1:
        fact = "neither" if count == 0 else "both"
        raise InputError(f"{first} or {second}", "be given, one of them", fact)


def check_keywords(
    given: Iterable[str], function: str, *takers: Callable[..., Any], without: Sequence[str] = ()
) -> None:
    """TypeError about an argument of a function that neither it nor what it calls takes."""
    parameters = [p for taker in takers for p in signature(taker).parameters.values()]
    left = ("self", *without)
    named = (p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in left)
    known = list(dict.fromkeys(named))
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise TypeError(
                f"{function}() must be given arguments that it has: got {name}.{hint} "
                f"It takes {', '.join(known)}."
            )


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """One of the named choices."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(c) for c in choices)
        raise InputError(name, f"be one of {options}", f"{value!r}")
    return value


def check_flag(value: Any, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(name, "be True or False", f"{value!r:.60}")
    return bool(value)


def check_axis(value: Any) -> int:
    """The number of an axis, perhaps from the end."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError("dim", "be the number of an axis", repr(value))
    return value


def check_count(value: Any, name: str, *, least: int = 1) -> int:
    """A whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(name, f"be a whole number, at least {least}", f"{value!r}")
    return int(value)


def check_tolerance(value: Any, name: str) -> float:
    """A finite number, not negative."""
    try:
        number = math.nan if isinstance(value, bool | np.bool_ | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise InputError(name, "be a finite number, not negative", f"{value!r:.60}")
    return number


class FrozenSettings:
    """A base of models whose settings, the arguments of the constructor, stay as it checked them.

    A subclass keeps each argument in an attribute of the same name. Copies and pickles are made
    without assignments, so nothing stands in their way.
    """

    _settings: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            named = {p.name for p in signature(cls).parameters.values() if p.kind not in UNNAMED}
            cls._settings = cls._settings | named

    def __setattr__(self, name: str, value: Any) -> None:
        self._require_thawed(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._require_thawed(name)
        super().__delattr__(name)

    def _require_thawed(self, name: str) -> None:
        if name in self._settings and name in vars(self):
            kind = type(self).__name__
            other = "Pass alpha= to predict, or build" if name == "alpha" else "Build"
            raise AttributeError(
                f"{name} must stay as it was given to {kind}(...): got an assignment. "
                f"{other} another {kind} with {name}=."
            )

    def with_settings(self, **settings: Any) -> Self:
        """A copy with other settings, checked as the constructor checks them.

        What was learnt stays: only settings that do not matter to `fit` may change.
        """
        given = {name: getattr(self, name) for name in self._settings}
        checked, result = type(self)(**given | settings), copy(self)
        vars(result).update({name: getattr(checked, name) for name in self._settings})
        return result
