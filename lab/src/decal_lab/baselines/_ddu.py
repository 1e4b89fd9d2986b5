"""Deep deterministic uncertainty: how rare the features of an input are among the training data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.special import entr, logsumexp, softmax
from torch import Tensor, nn

from decal import NotFittedError
from decal.torch import collect_logits
from decal.torch.batches import logits_of
from decal_lab.baselines._model_outputs import member_logits
from decal_lab.checks import Array, check_labels, check_tolerance, row_blocks

__all__ = ["DeepDeterministic"]

JITTERS = (0.0, float(np.finfo(np.float64).tiny), *(10.0**e for e in range(-307, 0)))
"""What may be added to variances, as in the authors' code: the smallest value that suffices."""

BLOCK_ELEMENTS = 1 << 20
"""Features whitened at once: 8 MB."""


class DeepDeterministic:
    """The density of a network's features as its uncertainty (DDU; Mukhoti et al., CVPR 2023).

    One Gaussian with its own covariance is fitted to the features of every class. Inputs whose
    features have little density under the mixture are unlike the training data; the entropy of the
    softmax tells ambiguous ones apart. Nothing is trained: any classifier will do, though the
    authors recommend residual nets with spectral normalisation, which keep distances.

    Parameters
    ----------
    module : torch.nn.Module
        A trained classifier, inputs (n, ...) to logits (n, K).
    features : callable or str, optional
        How to get the features (n, F): a function of the inputs, or the name of the submodule whose
        output they are. By default `module.features`. Flattened if need be.
    jitter : float
        Least variance to add to every feature; by default as little as is needed.

    Attributes
    ----------
    means, covariances : (K, F) and (K, F, F) arrays
        Means and covariances of every class: NaN for those that never occur. Covariances are
        divided by n - 1 and without the jitter.
    weights : (K,) array
        Share of every class in the data.
    jitter : float
        What was added to all variances: the smallest of 0, 2e-308, 1e-307, 1e-306, …, 0.1 with
        which every covariance has a Cholesky factor, or what was asked for if that is more.

    Notes
    -----
    In float64. O(K F^3) to fit and O(K F^2) per input to score, in time; O(K F^2) memory.

    A feature that is constant within a class (a dead unit) gets the jitter for its variance, which
    may be 2e-308: inputs that excite it then score 1e300 or infinity, whatever else they are like.
    Pass a larger `jitter` to rank them sensibly.

    Differs from the authors' code in: classes are weighted by their share, the paper's q(y), where
    theirs weigh the same.

    Examples
    --------
    >>> import torch
    >>> from decal_lab.baselines import DeepDeterministic
    >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> y = torch.arange(200) % 2
    >>> x[:, 0] += 6 * y
    >>> method = DeepDeterministic(torch.nn.Linear(2, 2), features=lambda x: x).fit([(x, y)])
    >>> near, between = method.score(torch.tensor([[6.0, 0.0], [3.0, 0.0]]))
    >>> bool(near < between), method.jitter
    (True, 0.0)
    """

    means: Array
    covariances: Array
    weights: Array
    jitter: float

    def __init__(
        self,
        module: nn.Module,
        *,
        features: Callable[[Any], Tensor] | str | None = None,
        jitter: float = 0.0,
    ) -> None:
        self.module = module
        self.jitter = self._least = check_tolerance(jitter, "jitter")
        self._both = _LogitsAndFeatures(module, features)

    def fit(self, loader: Iterable[Any], validation: Iterable[Any] | None = None) -> Self:  # noqa: ARG002
        """Fit the Gaussians to the features of labelled batches: the training data, normally.

        `validation` is accepted because other methods take it, and not used.
        """
        outputs, labels = collect_logits(self._both, loader, progress=False)
        K = self._both.classes
        z = outputs[:, K:].numpy().astype(np.float64)
        F = z.shape[1]
        y = check_labels(labels, rows=len(z), classes=K)
        counts = np.bincount(y, minlength=K)
        if (counts == 1).any():
            raise ValueError(
                "loader must hold two examples or more of every class that occurs: "
                f"got one of class {np.flatnonzero(counts == 1)[0]}. A covariance needs two."
            )
        means, covariances = np.full((K, F), np.nan), np.full((K, F, F), np.nan)
        for k in np.flatnonzero(counts):
            means[k] = z[y == k].mean(axis=0)
            deviations = z[y == k] - means[k]
            covariances[k] = deviations.T @ deviations / (counts[k] - 1)
        self.jitter, self._factors = _factors(covariances[counts > 0], least=self._least)
        self.means, self.covariances, self.weights = means, covariances, counts / counts.sum()
        return self

    def log_density(self, inputs: Any) -> Array:
        """(n, K) log density of the features in every class; -inf in those that never occur."""
        if not hasattr(self, "weights"):
            raise NotFittedError("DeepDeterministic has seen no data. Call fit first.")
        z = self._outputs(inputs)[1]
        n, F = z.shape
        densities = np.full((n, len(self.weights)), -np.inf)
        for k, factor in zip(np.flatnonzero(self.weights), self._factors, strict=True):
            log_volume = np.log(np.diag(factor)).sum() + 0.5 * F * np.log(2 * np.pi)
            for rows in row_blocks(n, F, BLOCK_ELEMENTS):
                white = solve_triangular(factor, (z[rows] - self.means[k]).T, lower=True)
                with np.errstate(over="ignore"):  # a distance in units of 1e-154
                    densities[rows, k] = -0.5 * np.square(white).sum(axis=0) - log_volume
        return densities

    def score(self, inputs: Any) -> Array:
        """(n,) epistemic uncertainty: minus the log density of the features, over all classes."""
        return np.asarray(-logsumexp(self.log_density(inputs), b=self.weights, axis=1))

    def aleatoric(self, inputs: Any) -> Array:
        """(n,) aleatoric uncertainty: the entropy of the softmax, in nats."""
        return np.asarray(entr(self.predict_proba(inputs)).sum(axis=1))

    def predict_proba(self, inputs: Any) -> Array:
        """(n, K) the softmax of the module."""
        return np.asarray(softmax(self._outputs(inputs)[0], axis=1))

    def _outputs(self, inputs: Any) -> tuple[Array, Array]:
        outputs = member_logits(self._both, inputs)
        return outputs[:, : self._both.classes], outputs[:, self._both.classes :]


class _LogitsAndFeatures(nn.Module):
    """Logits and features of a module, side by side: (n, K + F). A call sets `classes` to K."""

    classes: int

    def __init__(self, module: nn.Module, features: Callable[[Any], Tensor] | str | None) -> None:
        super().__init__()
        self.module = module
        self.source: nn.Module | None = None
        # In a list, because a module as an attribute would be registered a second time.
        self.compute: list[Callable[..., Any]] = []
        if isinstance(features, str):
            parts = dict(module.named_modules())
            if not features or features not in parts:
                names = ", ".join(name for name in parts if name)
                raise ValueError(
                    f"features must name a submodule: got {features!r}. There are: {names}."
                )
            self.source = parts[features]
            return
        function = getattr(module, "features", None) if features is None else features
        if not callable(function):
            raise ValueError(
                f"features must be given for a {type(module).__name__}, which has no .features: "
                "got None. Pass a function of the inputs, or the name of a submodule."
            )
        self.compute.append(function)

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """(n, K + F)."""
        if self.source is None:
            output, features = self.module(*inputs, **named), self.compute[0](*inputs, **named)
        else:
            seen: list[Tensor] = []
            handle = self.source.register_forward_hook(lambda *call: seen.append(call[-1]))
            try:
                output = self.module(*inputs, **named)
            finally:
                handle.remove()
            features = seen[-1]
        if not isinstance(features, Tensor) or features.ndim < 2:
            got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
            raise ValueError(f"features must be a tensor with a row per input: got {got}.")
        logits = logits_of(output, len(features))
        self.classes = logits.shape[1]
        return torch.cat([logits, features.flatten(1)], dim=1)


def _factors(covariances: Array, *, least: float) -> tuple[float, Array]:
    """The smallest jitter with which all matrices have Cholesky factors, and these factors."""
    identity = np.eye(covariances.shape[-1])
    ladder = (least, *(j for j in JITTERS if j > least))

    def factors(jitter: float) -> Array | None:
        try:
            return np.linalg.cholesky(covariances + jitter * identity).astype(np.float64)
        except np.linalg.LinAlgError:
            return None

    # Every jitter above one that suffices does too, so that nine trials find the first of 309.
    at = bisect_left(ladder, True, key=lambda jitter: factors(jitter) is not None)
    found = factors(ladder[at]) if at < len(ladder) else None
    if found is None:
        raise ValueError(
            "features must have covariances that a jitter of 0.1 makes positive definite: got "
            f"variances up to {covariances.max():.3g}. Pass a larger jitter, or scale the features."
        )
    return ladder[at], found
