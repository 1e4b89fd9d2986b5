"""Methods and data sets from files and from installed packages."""

import re
import sys

import numpy as np
import pytest

import decal
from decal_lab.experiments.harness.contributions import contributed

FILE = """
import numpy as np, decal

class Fixed:
    def fit(self, logits, labels):
        self.share = np.bincount(labels, minlength=logits.shape[1]) / len(labels)
        return self

    def predict(self, logits, *, alpha):
        p = np.tile(self.share, (len(logits), 1))
        return decal.IntervalCredalSet(alpha * p, 1 - alpha * (1 - p), point=p)

def noise(seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(60, 3))
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) > rng.random((60, 1))).argmax(axis=1)
    return logits[:30], labels[:30], logits[30:], truth[30:]

METHODS = {"fixed": Fixed}
DATA_SETS = {"noise": noise}
"""


def write(tmp_path, text, name="mine.py"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_file_brings_methods_and_data(tmp_path):
    path = write(tmp_path, FILE)
    extra = contributed([path])
    assert (list(extra.methods), list(extra.data_sets)) == (["fixed"], ["noise"])
    assert extra.methods["fixed"].origin == path
    split = extra.split("noise", 3)
    assert split.new_logits.shape == split.truth.shape == (30, 3)
    credal = extra.model("fixed").fit(split.logits, split.labels).predict(split.logits, alpha=0.5)
    assert isinstance(credal, decal.IntervalCredalSet)
    assert not np.array_equal(extra.split("noise", 4).logits, split.logits)


def test_installed_packages_bring_theirs_and_a_file_wins(tmp_path, monkeypatch):
    write(tmp_path, FILE, "their_package.py")
    info = tmp_path / "their_package-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(
        "[decal.methods]\ntheirs = their_package:Fixed\n"
        "[decal.data_sets]\nnoise = their_package:noise\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = contributed()
    assert (list(found.methods), list(found.data_sets)) == (["theirs"], ["noise"])
    assert found.methods["theirs"].origin == "their_package:Fixed 1.5"
    path = write(tmp_path, FILE)
    assert contributed([path]).data_sets["noise"].origin == path
    sys.modules.pop("their_package")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "mine.py must define METHODS or DATA_SETS: got neither."),
        ("METHODS = [1]", "METHODS of .*mine.py must be a mapping from names to functions"),
        ("METHODS = {'a': 1}", "must be a mapping from names to functions: got {'a': 1}"),
        ("import no_such_module", "mine.py must run: got ModuleNotFoundError"),
        ("1 / 0", "mine.py must run: got ZeroDivisionError: division by zero"),
    ],
)
def test_bad_files_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        contributed([write(tmp_path, text)])


def test_what_is_no_file_of_python_is_refused(tmp_path):
    for path in (write(tmp_path, FILE, "mine.txt"), tmp_path / "none.py"):
        with pytest.raises(ValueError, match="extra must be a file of Python that ends in .py"):
            contributed([path])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("return 5", "must return logits, labels, new logits, truth, as a tuple: got int."),
        ("return 1, 2", "got 2 parts."),
        ("return z, [0, 1, 5], z, z", "DATA_SETS['bad']: labels must lie in 0 to 2"),
        ("return z, [0, 1, 2], z, z", "DATA_SETS['bad']: distributions must sum to 1"),
        ("return z, [0, 1, 2], z, p[:2]", "must have a truth for each of 3 new logits: got 2."),
    ],
)
def test_bad_data_sets_are_named(tmp_path, code, message):
    text = (
        "import numpy as np\nz, p = np.zeros((3, 3)), np.full((3, 3), 1 / 3)\n"
        f"def bad(seed):\n    {code}\nDATA_SETS = {{'bad': bad}}\n"
    )
    extra = contributed([write(tmp_path, text)])
    with pytest.raises(ValueError, match=re.escape(message)):
        extra.split("bad", 0)


def test_a_method_without_predict_is_refused(tmp_path):
    extra = contributed([write(tmp_path, "METHODS = {'list': list}")])
    with pytest.raises(ValueError, match="must return an object with fit and predict: got list, "):
        extra.model("list")
