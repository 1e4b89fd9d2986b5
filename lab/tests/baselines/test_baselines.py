"""The package: what it exports, and what it says without PyTorch."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")

import decal_lab.baselines as baselines

pytestmark = pytest.mark.torch


def test_everything_listed_can_be_imported():
    assert all(hasattr(baselines, name) for name in baselines.__all__)
    assert baselines.__all__ == sorted(baselines.__all__)


def test_without_pytorch_the_package_names_the_command():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "try:\n    import decal_lab.baselines\nexcept ImportError as error:\n    print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = "decal_lab.baselines needs PyTorch: pip install 'decal-lab[torch]'"
    assert found.stdout.strip() == told
