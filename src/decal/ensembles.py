"""Ensembles: the logits of several members, and the ways to make one credal set of them.

Members are networks of a deep ensemble, passes of MC dropout, LoRA adapters, or augmented copies of
an input. What they say as it is: `hull` and `box`. With a promise: `mean` and `union` stand for
logits wherever a Decalibrator takes them. docs/tutorials/ensembles.md measures which to use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decal._base.data_frames import is_frame
from decal._base.errors import InputError, InputWarning, counted
from decal._base.numerics import Array, Logits, log_sum_exp, softmax
from decal._base.row_checks import check_class_names, to_numpy
from decal._base.set_checks import MANY_MEMBERS, read_frames
from decal._base.settings import check_flag
from decal.credal import HullCredalSet, IntervalCredalSet, row_index, union
from decal.rows import Rows
from decal.schema import REMEDY, Schema, check_floor, read_logits

if TYPE_CHECKING:
    from decal.decalibrator import Decalibrator

__all__ = ["Ensemble", "MemberUnion", "ensemble"]


def ensemble(
    logits: Any,
    *,
    axis: int | None = None,
    probabilities: bool = False,
    floor: float | None = None,
    classes: Iterable[Any] | None = None,
) -> Ensemble:
    """What M members say of n inputs, and the ways to make one credal set of it.

    Parameters
    ----------
    logits : (M, n, K) array, or list of M matrices
        Finite logits of the same inputs and classes, as arrays, tensors or data frames.
    axis : int, optional
        Where the members of an array are: 0, or 1 if it is (n, M, K). By default 0, and a warning
        if there are more members than inputs and more than 30.
    probabilities, floor
        Whether members give probabilities, and what smaller ones are raised to; as for
        `Decalibrator`.
    classes : list of str, optional
        K names, for `hull` and `box`; by default the columns of data frames.

    Returns
    -------
    Ensemble
        Its `mean`, `union`, `members`, `hull()` and `box()`.

    Examples
    --------
    >>> import numpy as np, decal
    >>> rng = np.random.default_rng(0)
    >>> truth = 2 * rng.normal(size=(600, 3))
    >>> labels = (truth + rng.gumbel(size=(600, 3))).argmax(axis=1)
    >>> e = decal.ensemble(truth + rng.normal(size=(5, 600, 3)))  # five members
    >>> e
    Ensemble: 5 members, 600 inputs, 3 classes
    >>> e.box()[:1]
    IntervalCredalSet: 1 input, 3 classes, mean width 0.591
      0  1 [0.032, 0.791]  0 [0.093, 0.674]  2 [0.116, 0.550]
    >>> known, new = e[:500], e[500:]
    >>> d = decal.decalibrate(known.mean, labels[:500], miss=0.1)  # what we recommend
    >>> d.predict(new.mean[:1]).possible()
    [[0]]
    >>> u = decal.decalibrate(known.union, labels[:500], miss=0.1)  # what some member allows
    >>> u.predict(new[:1].union)
    IntervalCredalSet: 1 input, 3 classes, mean width 0.194
      0  0 [0.647, 0.937]  1 [0.039, 0.258]  2 [0.021, 0.095]
    """
    flag = check_flag(probabilities, "probabilities")
    schema = Schema(probabilities=flag, floor=check_floor(floor, flag), masks=False)
    parts, names = _parts(logits, axis, classes)
    members: list[Logits] = []
    for m, part in enumerate(parts):
        remedy = "" if m else REMEDY  # a warning for one member is enough
        members.append(read_logits(part, schema, name=f"logits[{m}]", empty=True, remedy=remedy))
        if members[m].shape != members[0].shape:
            rule = f"have the shape of logits[0], {members[0].shape}"
            raise InputError(f"logits[{m}]", rule, f"shape {members[m].shape}")
    stacked: Logits = np.stack(members)  # type: ignore[assignment]
    M, n, K = stacked.shape
    if axis is None and 1 < n < M and M > MANY_MEMBERS:
        InputWarning.warn(
            f"logits are taken as {M} members of {n} inputs. If they are {M} inputs with {n} "
            "members each, pass axis=1; if not, axis=0"
        )
    return Ensemble(stacked, check_class_names(names, K))


def _parts(
    logits: Any, axis: int | None, classes: Iterable[Any] | None
) -> tuple[Iterable[Any], Iterable[Any] | None]:
    """The matrix of every member, and the names of the classes."""
    if axis not in (None, 0, 1):
        raise InputError("axis", "be 0 or 1, where the members are", f"{axis!r}")
    rule = "be members × inputs × classes, one member or more"
    if isinstance(logits, list | tuple) and any(map(is_frame, logits)):
        if axis == 1:
            raise InputError("axis", "be 0 for a list of data frames", "1")
        framed, names, _ = read_frames(
            classes, **{f"logits[{m}]": part for m, part in enumerate(logits)}
        )
        return framed, names
    if isinstance(logits, list | tuple) and axis != 1:
        parts = [to_numpy(part, f"logits[{m}]") for m, part in enumerate(logits)]
        shape: tuple[int, ...] = (len(parts), *(parts[0].shape if parts else ()))
    else:
        array = to_numpy(logits, "logits")
        shape = array.shape
        parts = list(np.moveaxis(array, axis or 0, 0)) if array.ndim == 3 else []
    if len(shape) != 3 or not parts:
        remedy = "Of one model, pass its matrix to decal.decalibrate." if len(shape) == 2 else ""
        if len(shape) > 3:
            remedy = "Put pixels or tokens in rows: of each member, classes last, reshape(-1, K)."
        raise InputError("logits", rule, f"shape {shape}", remedy)
    return parts, classes


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble:
    """The logits of M members for n inputs, made by `decal.ensemble`.

    Attributes
    ----------
    members : (M, n, K) array
        Logits. Each member is a model of its own: ``decal.decalibrate(e.members[0], …)``.
    classes : tuple of str, or None
        The names of the classes, for `hull` and `box`.
    """

    members: Logits
    classes: tuple[str, ...] | None = None

    @property
    def mean(self) -> Array:
        """(n, K) logits of the mean prediction: logarithms of the mean of the probabilities."""
        return mean_logits(self.members)

    @property
    def union(self) -> MemberUnion:
        """The members' logits, of which a Decalibrator predicts the union of the members' sets."""
        return MemberUnion(self.members)

    def hull(self) -> HullCredalSet:
        """All mixtures of the members' predictions, as they are; it promises nothing."""
        predictions = [softmax(z.astype(np.float64)) for z in self.members]
        return HullCredalSet(np.stack(predictions), axis=0, classes=self.classes)

    def box(self) -> IntervalCredalSet:
        """From the least to the greatest prediction of every class: a Credal Wrapper, as it is."""
        return self.hull().box()

    def __len__(self) -> int:
        return len(self.members[0])

    def __getitem__(self, rows: Any) -> Ensemble:
        """The chosen inputs: an integer, a slice, a mask or a list of integers."""
        return Ensemble(self.members[:, row_index(rows, len(self))], self.classes)

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        """TypeError: how members make one prediction is for the caller to say."""
        raise TypeError("an Ensemble. Pass its mean, e.mean, or the union of its members, e.union")

    def __repr__(self) -> str:
        M, n, K = self.members.shape
        return f"Ensemble: {counted(M, 'member')}, {counted(n, 'input')}, {K:,} classes"


@dataclass(frozen=True, eq=False, repr=False)
class MemberUnion:
    """The logits of M members, of which a Decalibrator predicts one set: the union of theirs.

    One set of rules is learnt for all members, each labelled row by one of them, drawn at random:
    they should be of one kind. The union of nested sets is nested, so that an alpha which keeps its
    wish is found as for one model. A promise is about unions of as many members.

    Attributes
    ----------
    members : (M, n, K) array
        Logits.
    """

    members: Logits

    @property
    def shape(self) -> tuple[int, int]:
        """(n, K): inputs and classes."""
        _, n, K = self.members.shape
        return n, K

    @property
    def middle(self) -> Array:
        """(n, K) logits of the mean prediction."""
        return mean_logits(self.members)

    def in_turn(self) -> Logits:
        """(n, K) logits of one member for each input: what there is to learn from."""
        M, n, _ = self.members.shape
        # All M would pass for M times as many labels, and for other rows in cross-validation.
        which = np.random.default_rng(0).permutation(n) % M
        found: Logits = self.members[which, np.arange(n)]
        return found

    def predicted_by(self, model: Decalibrator, *, alpha: float) -> IntervalCredalSet:
        """The smallest intervals that hold the sets of all members."""
        K = len(model.class_weights)
        if self.shape[1] != K:
            raise InputError("logits", f"be of the {K} classes of fit", f"{self.shape[1]}")
        return union(model.predict_rows(Rows(z), alpha=alpha) for z in self.members)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> MemberUnion:
        """The chosen inputs: an integer, a slice, a mask or a list of integers."""
        return MemberUnion(self.members[:, row_index(rows, len(self))])

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        """TypeError: members are several matrices."""
        raise TypeError("the union of an ensemble. Take a Decalibrator, or pass its mean, e.mean")

    def __repr__(self) -> str:
        return f"MemberUnion of an {Ensemble(self.members)!r}"


def mean_logits(members: Logits) -> Array:
    """(n, K) logarithms of the mean of the probabilities of (M, n, K) logits."""
    log_p = (z - log_sum_exp(z)[:, None] for z in members.astype(np.float64))
    found: Array = np.logaddexp.reduce(list(log_p)) - np.log(len(members))
    return found
