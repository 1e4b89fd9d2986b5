"""CredalClassifier around the real TabPFN: the current package, and version 1 with its weights.

The current weights are gated (their licence must be accepted by a person), so the current package
runs with a small untrained network: its code is real, its predictions are not. Version 1 is old
enough to have its weights on PyPI, in the source archive of its first release, and runs for real.
Each lives in a folder of its own in pytest's cache and runs once, in a process of its own: to
import PyTorch and scikit-learn takes longer than to predict.
"""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tarfile

import pytest

from helpers.packages import installed

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch"),
]

CURRENT = [
    "tabpfn==9.2.0",
    "einops",
    "skrub<0.11",
    "lightgbm",
    "pydantic-settings",
    "python-dotenv",
    *("requests", "urllib3", "certifi", "idna", "charset-normalizer"),
]

# Version 1 calls scikit-learn with an argument that 1.8 removed.
FIRST = ["tabpfn==0.1.11", "scikit-learn==1.7.2"]
ARCHIVE = "tabpfn-0.1.tar.gz"
ARCHIVE_SHA256 = "8a37c4131e13ad9f9aae678e659b1169e7e1bd4bbcae2b3fc2718df8ae7fdc88"
WEIGHTS = "models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt"


RUNNER = """
import json, sys, traceback
from contextlib import redirect_stdout
from io import StringIO

told = []
for code, *arguments in json.load(sys.stdin):
    sys.argv[1:] = arguments
    with redirect_stdout(StringIO()) as printed:
        try:
            exec(code, {})
            problem = ""
        except BaseException:
            problem = traceback.format_exc()
    told.append((problem, printed.getvalue()))
print(json.dumps(told))
"""


def run(folder, *programs):
    """Run programs, each with its arguments, in one process with the folder's packages.

    Returns the traceback of each, or nothing, and what it printed: its assertions are the test's.
    """
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    # Old checkpoints are pickles, which torch now loads only if told to; this one has a known hash.
    settings = {"PYTHONPATH": path, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    settings["OMP_NUM_THREADS"] = "1"  # threads that wait for each other take longer
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps([list(map(str, program)) for program in programs]),
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


COMPARE = """
import numpy as np
import decal
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from decal.sklearn import CredalClassifier

def compare(model, method, X, y, new):
    "The same sets as from the model's own logits as arrays."
    clf = CredalClassifier(model, alpha=0.9, cv=3).fit(X, y)
    assert clf.method_ == method, clf.method_
    classes, labels = np.unique(y, return_inverse=True)
    def logits(fitted, rows):
        out = getattr(fitted, method)(rows)
        return np.log(out.astype(float)) if method == "predict_proba" else out
    rows = lambda indices: X.iloc[indices] if hasattr(X, "iloc") else X[indices]
    held_out = np.empty((len(y), len(classes)))
    for train, test in StratifiedKFold(3).split(X, y):
        held_out[test] = logits(clone(model).fit(rows(train), y[train]), rows(test))
    whole = clone(model).fit(X, y)
    sets = decal.decalibrate(held_out, labels, alpha=0.9).predict(logits(whole, new))
    credal = clf.predict_credal(new)
    assert np.abs(credal.lower - sets.lower).max() < 1e-6
    assert np.abs(credal.upper - sets.upper).max() < 1e-6
    assert credal.classes == tuple(classes)
    p, predicted = clf.predict_proba(new), clf.predict(new)
    assert np.array_equal(p, whole.predict_proba(new))
    assert np.array_equal(predicted, whole.predict(new))
    assert credal.contains(p).all()
    return clf, credal, predicted
"""

CURRENT_CODE = """
import torch
from sklearn.datasets import load_iris
from tabpfn import TabPFNClassifier
from tabpfn.architectures import tabpfn_v2_6
from tabpfn.base import ModelSpecs
from tabpfn.constants import ModelVersion
from tabpfn.inference_config import InferenceConfig

size = {"max_num_classes": 10, "emsize": 24, "nlayers": 2, "nhead": 2, "num_thinking_rows": 4}
config, _ = tabpfn_v2_6.parse_config(size)
network = tabpfn_v2_6.get_architecture(config).eval()
torch.manual_seed(0)
for parameter in network.parameters():
    torch.nn.init.normal_(parameter, std=0.3)
settings = InferenceConfig.get_default("multiclass", ModelVersion.V2_5)
model = TabPFNClassifier(
    model_path=ModelSpecs(network, config, settings),
    n_estimators=2,
    device="cpu",
    inference_precision=torch.float32,
)

flowers = load_iris(as_frame=True)
y = flowers.target_names[flowers.target]
clf, credal, _ = compare(model, "predict_logits", flowers.data, y, flowers.data[::5])
assert np.ptp(clf.predict_logits(flowers.data), axis=0).min() > 1e-3  # rows do differ
assert list(clf.feature_names_in_) == list(flowers.data)
print(credal.shape)
"""

FIRST_CODE = """
import sys, typing
import pandas as pd
import torch.nn.modules.transformer as transformer

transformer.Optional = typing.Optional  # a name that torch no longer happens to re-export there
from tabpfn import TabPFNClassifier

class WithLogits(TabPFNClassifier):
    "Version 1 with the logits interface of the later ones."
    def predict_logits(self, X):
        return self.predict_proba(X, return_logits=True)

weights, table = sys.argv[1:]
frame = pd.read_csv(table).sample(240, random_state=0)
X, y = frame.drop(columns="RiskLevel").to_numpy(float), frame["RiskLevel"].to_numpy(str)
train, new, truth = slice(160), X[160:], y[160:]
for kind, method in ((TabPFNClassifier, "predict_proba"), (WithLogits, "predict_logits")):
    model = kind(base_path=weights, N_ensemble_configurations=1)
    clf, _, predicted = compare(model, method, X[train], y[train], new)
    right = (predicted == truth).mean()
    columns = np.searchsorted(clf.classes_, truth)
    kept = clf.predict_set(new)
    covered = kept[np.arange(len(truth)), columns].mean()
    size = kept.sum(axis=1).mean()
    print(f"{method}: accuracy {right:.3f}, label kept {covered:.3f}, classes kept {size:.2f}")
    assert right > 0.6 and covered > right + 0.05 and size < 2.5
"""


def version_one_weights(folder):
    """The folder that holds the weights, from the source archive of version 0.1."""
    if not (folder / "weights" / WEIGHTS).exists():
        # Its build file is older than the rules that newer versions of its build tool enforce.
        constraint = folder / "constraint.txt"
        constraint.write_text("hatchling<1.13\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        done = subprocess.run(
            [*command, "--no-binary", "tabpfn", "--dest", str(folder), "tabpfn==0.1"],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "PIP_CONSTRAINT": str(constraint),
                "PIP_BUILD_CONSTRAINT": str(constraint),
            },
        )
        if done.returncode:
            pytest.skip(f"cannot download {ARCHIVE}: {done.stderr.strip()[-200:]}")
        content = (folder / ARCHIVE).read_bytes()
        assert hashlib.sha256(content).hexdigest() == ARCHIVE_SHA256
        (folder / "weights" / WEIGHTS).parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(folder / ARCHIVE) as archive:
            member = archive.extractfile(f"tabpfn-0.1/tabpfn/{WEIGHTS}")
            (folder / "weights" / WEIGHTS).write_bytes(member.read())
        (folder / ARCHIVE).unlink()
    return folder / "weights"


def test_the_packages_and_the_weights_can_be_had(request):
    """Also run while `make test` sets up, so that nobody waits for downloads later."""
    assert (installed(request, CURRENT) / "tabpfn").is_dir()
    assert (version_one_weights(installed(request, FIRST)) / WEIGHTS).is_file()


def test_the_current_package_gives_its_logits(request):
    folder = installed(request, CURRENT)
    ((problem, printed),) = run(folder, [COMPARE + CURRENT_CODE])
    assert not problem, problem
    assert printed == "(30, 3)\n"


EXPERIMENT_CODE = """
import sys
from pathlib import Path
import numpy as np
from decal_lab.experiments import active_learning
from decal_lab.experiments.harness import tabular_models

folder = Path(sys.argv[1])
model, reason = tabular_models.tabpfn(folder, members=1)
assert model is not None, reason
task = active_learning.TableTask(tabular_models.load(folder, 46941), model)
first, pool, test = task.split(np.random.default_rng(0))
logits = model.fit(task.X[first], task.y[first], task.K, 0)
apart = [logits(task.X[rows]) for rows in (first, pool[:50], test)]
together = logits(task.X[np.concatenate([first, pool[:50], test])])
np.testing.assert_allclose(together, np.concatenate(apart), atol=1e-4)
curves = [list(task.curve(s, 0, 18)) for s in active_learning.STRATEGIES]
assert [[row["labelled"] for row in curve] for curve in curves] == [[6, 12, 18]] * len(curves)
assert len({curve[0]["accuracy"] for curve in curves}) == 1
print(model.name)
"""


@pytest.fixture(scope="module")
def version_one(request, data_folder, tmp_path_factory):
    """What the real version 1 did, in one process: active learning, then maternal health risk."""
    pytest.importorskip("decal_lab", reason="needs the laboratory, for active learning")
    table = data_folder / "tabular" / "maternal_health_risk_46941.csv"
    if not table.exists():
        pytest.skip(f"needs {table}")
    folder = installed(request, FIRST)
    weights, small = version_one_weights(folder), tmp_path_factory.mktemp("data")
    (small / "tabular").mkdir()
    lines = table.read_text().splitlines(keepends=True)[:201]  # of 1,014 rows, in random order
    (small / "tabular" / table.name).write_text("".join(lines))
    (small / "tabpfn").symlink_to(weights, target_is_directory=True)
    return run(folder, [EXPERIMENT_CODE, small], [COMPARE + FIRST_CODE, weights, table])


@pytest.mark.data
def test_version_one_learns_actively(version_one):
    problem, printed = version_one[0]
    assert not problem, problem
    assert printed.splitlines()[-1] == "TabPFN 0.1.11"


@pytest.mark.data
def test_version_one_predicts_maternal_health_risk_with_its_real_weights(version_one):
    problem, printed = version_one[1]
    assert not problem, problem
    print(printed)
