"""Optional libraries that are missing."""

import pytest

from decal._base.extras import needs


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    message = "decal.frames needs frames: pip install 'decal[frames]'"
    with (
        pytest.raises(ImportError, match="needs frames: pip install") as caught,
        needs("no_such_frames", message=message),
    ):
        import no_such_frames.inner  # noqa: F401
    assert caught.value.name == "no_such_frames"
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_what_an_installed_package_misses_keeps_its_own_error():
    with (
        pytest.raises(ModuleNotFoundError, match="no_such_part"),
        needs("json", message="needs json"),
    ):
        import no_such_part  # noqa: F401


def test_nothing_happens_where_all_is_installed():
    with needs("json", message="needs json"):
        import json
    assert json.loads("1") == 1
