"""The other methods of the paper, for comparison: credal ensembles, and scores of single networks.

Networks, a trainer that resumes, and one file per method. Methods that train take a function that
builds a fresh network, then two calls do: ``fit(loader)``, and ``predict_credal(inputs)`` or
``score(inputs)``, where higher means less certain. Classifiers also have ``predict_proba(inputs)``.

Imports public names of decal.
"""

from __future__ import annotations

from decal_lab.checks import needs

with needs("torch", message="decal_lab.baselines needs PyTorch: pip install 'decal-lab[torch]'"):
    import torch  # noqa: F401

from decal_lab.baselines._bayesian import CredalBayesian
from decal_lab.baselines._credal_ensembling import CredalEnsembling, credal_ensembling
from decal_lab.baselines._credal_wrapper import CredalWrapper, credal_wrapper
from decal_lab.baselines._crenet import CreNet, IntervalHead, int_softmax
from decal_lab.baselines._ddu import DeepDeterministic
from decal_lab.baselines._evidential import Evidential
from decal_lab.baselines._networks import mlp, resnet18, small_conv
from decal_lab.baselines._relative_likelihood import CredalRelativeLikelihood
from decal_lab.baselines._scores import MCDropout, energy, entropy, max_softmax
from decal_lab.baselines._trainer import (
    ConvergenceWarning,
    Member,
    Trainer,
    Training,
    train_member,
    train_members,
)

__all__ = [
    "ConvergenceWarning",
    "CreNet",
    "CredalBayesian",
    "CredalEnsembling",
    "CredalRelativeLikelihood",
    "CredalWrapper",
    "DeepDeterministic",
    "Evidential",
    "IntervalHead",
    "MCDropout",
    "Member",
    "Trainer",
    "Training",
    "credal_ensembling",
    "credal_wrapper",
    "energy",
    "entropy",
    "int_softmax",
    "max_softmax",
    "mlp",
    "resnet18",
    "small_conv",
    "train_member",
    "train_members",
]
