"""An alpha for every class: decision sets that rarely miss the labels of any class."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from decal._base.checks import check_alpha, check_labels
from decal._base.errors import FitWarning
from decal._base.inputs import inputs_of
from decal.selection._choices import Choice, called, choice_table
from decal.selection._plausibility import (
    Indices,
    Inside,
    Mask,
    Predictor,
    kept_classes,
    labels_inside,
    largest_alpha,
)

NAMED = 8
"""Classes that a warning names."""


class ClassChoice(Mapping[int, Choice]):
    """A `Choice` for every class, by its number; it decides about new inputs.

    Parameters
    ----------
    choices : sequence of Choice
        One for every class.
    rule : str
        The rule of the decision sets.
    classes : sequence of str, optional
        Names of the classes, for printing.

    Examples
    --------
    >>> import decal
    >>> choice = decal.selection.Choice(0.9, 0.08, 0.1, 50, "miss rate")
    >>> decal.selection.ClassChoice([choice, choice], "e_admissible")
    ClassChoice: 2 classes, miss rate, wanted at most 0.1
      class         alpha    miss rate    examples
      0               0.9       0.0800          50
      1               0.9       0.0800          50
    """

    def __init__(self, choices: Any, rule: str, classes: Sequence[str] | None = None) -> None:
        self._choices: tuple[Choice, ...] = tuple(choices)
        self.rule = rule
        self.classes = classes

    def __getitem__(self, number: int) -> Choice:
        if number not in range(len(self)):
            raise KeyError(number)
        return self._choices[number]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._choices)))

    def __len__(self) -> int:
        return len(self._choices)

    def decide(self, model: Predictor, logits: Any) -> Mask:
        """(n, K) the classes in the set of every input.

        Class k is in the set if it is in the decision set at *its* alpha. A class with alpha = 0 is
        in every set. No set is empty, if the model's own prediction is always plausible, as it is
        for every Decalibrator.

        Parameters
        ----------
        model : Decalibrator
            The one that the alphas were chosen for.
        logits : (n, K) array
            Inputs.

        Notes
        -----
        One prediction of all inputs for every alpha that some class has.
        """
        z = inputs_of(model, logits, classes=len(self))
        alphas = np.array([choice.alpha for choice in self._choices])
        kept = np.ones(z.shape, dtype=bool)
        for alpha in np.unique(alphas[alphas > 0]):
            columns = alphas == alpha
            at_alpha = kept_classes(model.predict(z, alpha=float(alpha)), self.rule)
            kept[:, columns] = at_alpha[:, columns]
        return kept

    def __repr__(self) -> str:
        names = self.classes or [str(k) for k in self]
        return choice_table("ClassChoice", "class", dict(zip(names, self._choices, strict=True)))


def alpha_for_classes(
    model: Predictor,
    logits: Any,
    labels: Any,
    epsilon: Any,
    *,
    rule: str = "e_admissible",
) -> ClassChoice:
    """For every class, the largest alpha that misses its labels with probability epsilon at most.

    `alpha_for_labels` promises few misses on average, and may miss a rare class nearly always. Here
    each class is held to epsilon on its own examples: alpha_k is the largest with
    (misses of k + 1) / (examples of k + 1) <= epsilon. The set of a new input holds the classes
    that are in its decision set at their own alpha (`ClassChoice.decide`).

    **The guarantee.** If the examples of class k and a new input of class k are exchangeable, given
    the fitted model, the set misses k with probability at most epsilon; for every k. It is that of
    `alpha_for_labels`, within the examples of one class: whether k is in the set depends on alpha_k
    alone, which only these examples choose. This is label-conditional (Mondrian) conformal
    prediction (Vovk, Gammerman and Shafer, 2005, section 4.5) with `plausibility` as the score. It
    also holds if the classes of new inputs are as frequent as they like.

    **The price.** Sets are larger, and a class with fewer than 1 / epsilon - 1 examples is in every
    set: nothing less can be guaranteed.

    Parameters
    ----------
    model : Decalibrator
        Fitted on other examples.
    logits : (n, K) array
        Held-out inputs, used neither for training nor to fit the model.
    labels : (n,) integers
        Their labels.
    epsilon : float
        Accepted share of misses in [0, 1], of every class.
    rule : str
        "e_admissible", "interval_dominance" or "maximality".

    Returns
    -------
    ClassChoice
        A mapping from the class to its choice, which decides.

    Warns
    -----
    FitWarning
        If classes have too few examples, or none; it names them.

    See Also
    --------
    alpha_for_labels : One alpha for all classes, or one for each group of inputs.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(600, 3))
    >>> labels = (logits + rng.gumbel(size=(600, 3))).argmax(axis=1)
    >>> d = decal.decalibrate(logits[:300], labels[:300], alpha=0.9, directions=("class",))
    >>> by_class = decal.selection.alpha_for_classes(d, logits[300:], labels[300:], 0.1)
    >>> by_class.decide(d, [[4.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    array([[ True, False, False],
           [ True, False,  True]])
    """
    z, epsilon = inputs_of(model, logits, labels=labels), check_alpha(epsilon, "epsilon")
    names = getattr(model, "classes", None)
    y = check_labels(labels, rows=len(z), classes=z.shape[1], names=names)
    inside = labels_inside(model, z, y, rule)
    choices = [_for_rows(np.flatnonzero(y == k), inside, epsilon) for k in range(z.shape[1])]
    rare = [k for k, choice in enumerate(choices) if 1 / (choice.examples + 1) > epsilon]
    if rare:
        few = sorted(rare, key=lambda k: choices[k].examples)[:NAMED]
        named = ", ".join(f"{called(k, names)} with {choices[k].examples}" for k in few)
        named += ", …" if len(rare) > NAMED else ""
        warnings.warn(
            f"{len(rare)} of {len(choices)} classes have too few examples for epsilon = "
            f"{epsilon:g} and are in every set: {named}. Label more of them, or accept more misses",
            FitWarning,
            stacklevel=2,
        )
    return ClassChoice(choices, rule, names)


def _for_rows(rows: Indices, inside: Inside, epsilon: float) -> Choice:
    """The choice on the examples of one class; alpha = 0 stands for keeping it always."""
    n = len(rows)
    if 1 / (n + 1) > epsilon:
        return Choice(0.0, 0.0, epsilon, n, "miss rate", f"{n} are too few, always kept")

    def some_inside(some: Indices, alpha: float) -> Mask:
        return inside(rows[some], alpha)

    found = largest_alpha(some_inside, n, lambda count: (n - count + 1) / (n + 1) <= epsilon)
    if found is None or found[0] == 0:
        note = "no positive alpha will do, always kept"
        return Choice(0.0, 0.0, epsilon, n, "miss rate", note)
    alpha, count = found
    return Choice(alpha, (n - count) / n, epsilon, n, "miss rate")
