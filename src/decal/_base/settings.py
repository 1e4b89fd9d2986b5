"""Settings of a model: checked by its constructor, and frozen from then on."""

from __future__ import annotations

from copy import copy
from inspect import Parameter, signature
from typing import Any, ClassVar, Self

UNNAMED = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


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
