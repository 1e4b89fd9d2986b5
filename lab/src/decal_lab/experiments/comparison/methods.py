"""Trains, fits and judges every method of the comparison, in processes of its own."""

from __future__ import annotations

import math
import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

import decal
import decal_lab.baselines as methods
from decal.torch import collect_logits
from decal_lab.experiments.comparison.plan import (
    BAYESIAN,
    BOTH,
    CLASS,
    CRENET,
    DDU,
    DRAWN,
    DROPOUT,
    ENERGY,
    ENSEMBLING,
    ENTROPY,
    EVIDENTIAL,
    LIKELIHOOD,
    OTHER_AUROC,
    OUTSIDE,
    SOFTMAX,
    WRAPPER,
    InputSplit,
    Plan,
    TrainingTask,
)
from decal_lab.experiments.harness.experiment import ignore_what_is_expected
from decal_lab.experiments.harness.fingerprints import Fingerprints
from decal_lab.experiments.harness.rows import Row

Array = NDArray[np.float64]

ROWS = 512
"""Number of inputs in a batch of predictions."""

MEASURES = (
    "accuracy", "ece", "coverage", "coverage_hull", "efficiency", *OUTSIDE, *OTHER_AUROC
)  # fmt: skip

KL_WEIGHT = 1e-7
"""A setting of Credal Bayesian, as in the published comparisons."""

BIAS, CHECK_EVERY = 10.0, 40
"""Settings of Credal Relative Likelihood. With the published bias, 100, networks miss targets."""


@dataclass(frozen=True)
class Fitted:
    """A method that is ready to predict.

    Attributes
    ----------
    seconds : float
        Time to train all of its networks, and to fit whatever else it fits.
    outputs : callable
        From inputs to outputs of the networks, which serve all alphas.
    probabilities : callable
        From outputs to point predictions (n, K).
    score : callable, optional
        From outputs to uncertainties (n,).
    credal : callable, optional
        From outputs, and the keyword alpha if the method has one, to credal sets. Every method has
        either this or a score.
    """

    seconds: float
    outputs: Callable[[Tensor], Any]
    probabilities: Callable[[Any], Array]
    score: Callable[[Any], Array] | None = None
    credal: Callable[..., Any] | None = None

    def uncertainties(self, outputs: Any, **level: float) -> dict[str, Array]:
        """(n,) each, by the end of its column: of credal sets three, or the method's own score.

        "" is the difference of entropies, or that score; the others are of OTHER_SCORES.
        """
        if self.credal is not None:
            credal = self.credal(outputs, **level)
            lower, upper = credal.entropy()
            difference = np.maximum(upper - lower, 0.0)
            return {"": difference, "_total": upper, "_width": credal.epistemic("width")}
        assert self.score is not None
        return {"": self.score(outputs)}


class Timer:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def __call__(self) -> float:
        """The seconds so far."""
        return time.perf_counter() - self.start


# Families of methods: networks trained, and the methods that use them


@dataclass(frozen=True)
class Ground:
    """What all families train on: the task, its inputs and its folder."""

    plan: Plan
    task: TrainingTask
    split: InputSplit
    folder: Path

    @property
    def loader(self) -> DataLoader[Any]:
        """Inputs to train on, in random batches."""
        x, y = self.split.train
        data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
        order = BatchSampler(RandomSampler(data), self.plan.batch, drop_last=False)
        return DataLoader(data, sampler=order, batch_size=None)

    def network(self) -> torch.nn.Module:
        """A new network: convolutional for images, a perceptron for vectors."""
        shape = self.split.train[0].shape
        if len(shape) == 4:
            return methods.small_conv(self.plan.classes, channels=shape[1])
        return methods.mlp(self.plan.classes, inputs=shape[1])

    @property
    def trainer(self) -> methods.Trainer:
        """The settings of all trainings except Evidential's."""
        plan = self.plan
        return methods.Trainer(
            epochs=plan.epochs, learning_rate=plan.learning_rate, seed=self.task.seed
        )


def ensemble(ground: Ground) -> dict[str, Fitted]:
    """Wrapper and Ensembling of all networks; decalibration and scores of the first alone."""
    several = methods.CredalWrapper(
        ground.network, members=ground.plan.members, trainer=ground.trainer, folder=ground.folder
    ).fit(ground.loader)
    total = sum(training.seconds for training in several.trainings)
    all_of_them = Fitted(
        total,
        several.member_probabilities,
        lambda p: np.asarray(p.mean(axis=1)),
        credal=methods.credal_wrapper,
    )
    hulls = Fitted(
        total, all_of_them.outputs, all_of_them.probabilities, credal=methods.credal_ensembling
    )
    found = {WRAPPER: all_of_them, ENSEMBLING: hulls}
    return found | of_one_network(several.members[0], several.trainings[0].seconds, ground)


def of_one_network(module: torch.nn.Module, seconds: float, ground: Ground) -> dict[str, Fitted]:
    """Decalibration, fitted on held-out inputs; with real labels, scores of the same network."""

    def logits(inputs: Tensor) -> Array:
        unlabelled = torch.zeros(ROWS, dtype=torch.long)
        batches = [(batch, unlabelled[: len(batch)]) for batch in torch.split(inputs, ROWS)]
        found: Array = collect_logits(module, batches, progress=False)[0].numpy()
        return found.astype(np.float64)

    def softmaxes(z: Array) -> Array:
        return np.asarray(softmax(z, axis=1))

    held_out, labels = ground.split.held_out
    found = {}
    for name, directions in ((CLASS, ("class",)), (BOTH, ("class", "temperature"))):
        timer = Timer()
        model = decal.Decalibrator(directions=directions)
        model.fit(logits(torch.from_numpy(held_out)), labels)
        found[name] = Fitted(
            seconds + timer(),
            logits,
            softmaxes,
            credal=model.predict,
        )
    if ground.task.labels != DRAWN:
        found |= _scores(module, seconds, logits, softmaxes, ground)
    return found


def _scores(
    module: torch.nn.Module,
    seconds: float,
    logits: Callable[[Tensor], Array],
    softmaxes: Callable[[Array], Array],
    ground: Ground,
) -> dict[str, Fitted]:
    free = ((SOFTMAX, methods.max_softmax), (ENTROPY, methods.entropy), (ENERGY, methods.energy))
    found = {name: Fitted(seconds, logits, softmaxes, score=score) for name, score in free}
    dropout = methods.MCDropout(module, seed=ground.task.seed)
    found[DROPOUT] = Fitted(seconds, lambda x: x, dropout.predict_proba, score=dropout.score)
    timer = Timer()
    x, y = (torch.from_numpy(array) for array in ground.split.train)
    # Always in the same order: another one changes the last digits, and singular covariances.
    batches = list(zip(torch.split(x, ROWS), torch.split(y, ROWS), strict=True))
    density = methods.DeepDeterministic(module).fit(batches)
    found[DDU] = Fitted(seconds + timer(), lambda x: x, density.predict_proba, score=density.score)
    return found


def relative_likelihood(ground: Ground) -> dict[str, Fitted]:
    """Networks stopped at shares of the best likelihood."""
    method = methods.CredalRelativeLikelihood(
        ground.network,
        members=ground.plan.members,
        bias=BIAS,
        check_every=CHECK_EVERY,
        trainer=ground.trainer,
        folder=ground.folder,
    ).fit(ground.loader)
    return {
        LIKELIHOOD: Fitted(
            sum(training.seconds for training in method.trainings),
            lambda x: x,
            method.predict_proba,
            credal=method.predict_credal,
        )
    }


def crenet(ground: Ground) -> dict[str, Fitted]:
    """Networks that predict intervals."""
    method = methods.CreNet(
        ground.network, members=ground.plan.members, trainer=ground.trainer, folder=ground.folder
    )
    return {CRENET: _without_alpha(method, ground)}


def bayesian(ground: Ground) -> dict[str, Fitted]:
    """Variational networks under several priors."""
    method = methods.CredalBayesian(
        ground.network,
        members=ground.plan.members,
        kl_weight=KL_WEIGHT,
        trainer=ground.trainer,
        folder=ground.folder,
    )
    return {BAYESIAN: _without_alpha(method, ground)}


def _without_alpha(method: Any, ground: Ground) -> Fitted:
    method.fit(ground.loader)
    return Fitted(
        sum(training.seconds for training in method.trainings),
        lambda x: x,
        method.predict_proba,
        credal=method.predict_credal,
    )


def evidential(ground: Ground) -> dict[str, Fitted]:
    """One network that predicts Dirichlet distributions."""
    plan = ground.plan
    method = methods.Evidential(
        ground.network,
        evidence="softplus",  # with ReLU, as published, accuracy stays near one half here
        trainer=methods.Trainer(
            epochs=plan.evidential_epochs,
            learning_rate=plan.evidential_rate,
            seed=ground.task.seed,
        ),
        folder=ground.folder,
    ).fit(ground.loader)
    seconds = method.trainings[0].seconds
    return {EVIDENTIAL: Fitted(seconds, lambda x: x, method.predict_proba, score=method.score)}


BUILD: dict[str, Callable[[Ground], dict[str, Fitted]]] = {
    "ensemble": ensemble,
    "relative-likelihood": relative_likelihood,
    "crenet": crenet,
    "bayesian": bayesian,
    "evidential": evidential,
}


# Judging


def judge(fitted: Fitted, alpha: float, split: InputSplit) -> Row:
    """The measures of one method at one alpha: of its sets if there is a truth, else of scores.

    Alpha is NaN for methods without alpha.
    """
    level = {} if math.isnan(alpha) else {"alpha": alpha}
    inputs, labels = torch.from_numpy(split.test[0]), split.test[1]
    timer = Timer()
    outputs = fitted.outputs(inputs)
    row: Row = dict.fromkeys(MEASURES, math.nan)
    if split.truth is None:
        inside = fitted.uncertainties(outputs, **level)
        row["predict_seconds"] = timer()
        for column, others in split.outside.items():
            outside = fitted.uncertainties(fitted.outputs(torch.from_numpy(others)), **level)
            for end, score in inside.items():
                row[f"{column}{end}"] = decal.metrics.auroc(
                    in_scores=score, out_scores=outside[end]
                )
    else:
        assert fitted.credal is not None
        credal = fitted.credal(outputs, **level)
        row["predict_seconds"] = timer()
        if isinstance(credal, decal.HullCredalSet):
            row["coverage_hull"] = decal.metrics.coverage(credal, split.truth)
            credal = credal.box()
        row["coverage"] = decal.metrics.coverage(credal, split.truth)
        row["efficiency"] = decal.metrics.efficiency(credal)
    p = fitted.probabilities(outputs)
    row["accuracy"] = float((p.argmax(axis=1) == labels).mean())
    row["ece"] = decal.metrics.expected_calibration_error(p, labels)
    return row


def work(task: TrainingTask, plan: Plan, data: Path, out: Path) -> dict[str, list[Row]]:
    """Train the networks of a task, or find them in `out`, and judge its methods."""
    split = plan.prepare(task.labels, task.seed, data, out)
    # Networks are found again only if they were trained on the same inputs and labels.
    digest = Fingerprints().digest((split.train, split.held_out))
    name = f"{plan.data(task.labels).replace('/', '-')}-{task.seed}-{digest}"
    ground = Ground(plan, task, split, out / "members" / name / task.family)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", methods.ConvergenceWarning)
        fitted = BUILD[task.family](ground)
    texts = [
        str(one.message) for one in caught if issubclass(one.category, methods.ConvergenceWarning)
    ]
    same = {
        "data": plan.data(task.labels),
        "labels": task.labels,
        "seed": task.seed,
        "test_inputs": len(split.test[0]),
        "warnings": " ".join(texts),
        "torch": torch.__version__,
    }
    found: dict[str, list[Row]] = {method: [] for method in task.methods}
    for method, rows in found.items():
        for alpha in task.levels(method) or (math.nan,):
            try:
                measures = judge(fitted[method], alpha, split)
            except ValueError:
                if not texts:
                    raise
                # Networks that did not converge cannot predict.
                measures = dict.fromkeys((*MEASURES, "predict_seconds"), math.nan)
            at = {"method": method, "alpha": alpha, "train_seconds": fitted[method].seconds}
            rows.append(same | at | measures)
    return found


# In processes of their own


def begin(lifeline: Connection) -> None:
    """Prepare a process: it has one thread, and exits when its parent closes the other side.

    So a worker never outlives a killed parent, and never writes into a folder that another run
    uses.

    Parameters
    ----------
    lifeline : Connection
        The reading side of a pipe whose writing side the parent holds.
    """

    def watch() -> None:
        lifeline.poll(None)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    ignore_what_is_expected()
    torch.set_num_threads(1)
    threadpool_limits(1)
