"""Errors and warnings: their fields, their dialects, and optional libraries that are missing."""

import pickle
import warnings

import pytest

import decal
from decal._base.errors import Dialect, InputError, Place, Setting, needs


class Options(Dialect):
    """A command line, made up."""

    def setting(self, name, value):
        return f"--{name}" if value is None else f"--{name} {value}"


OPTIONS = Options({"path": "MODEL", "Pass ": "Add ", "hold a model": "be fitted", "this": "MODEL"})

ERROR = InputError(
    "path",
    "hold a model",
    ("m.npz, with ", Setting("alpha", 0.5)),
    ("Pass ", Setting("reference", "best"), " or ", Setting("floor"), "."),
    Place(3),
)


def test_an_error_is_one_sentence_and_what_to_do_next():
    told = "path must hold a model: got m.npz, with alpha=0.5. Pass reference='best' or floor."
    assert str(ERROR) == told
    assert str(InputError("alpha", "be positive", "-1")) == "alpha must be positive: got -1."
    assert str(InputError("this", "be fitted", remedy="Do.")) == "this must be fitted. Do."
    assert str(InputError("Something else.")) == "Something else."


def test_another_dialect_has_its_own_words_for_arguments_settings_and_advice():
    told = "MODEL must be fitted: got m.npz, with --alpha 0.5. Add --reference best or --floor."
    assert ERROR.told(OPTIONS) == told
    assert decal.FitWarning(("Use ", Setting("box", "outer"))).told(OPTIONS) == "Use --box outer"


@pytest.mark.parametrize(
    "error",
    [
        ERROR,
        decal.NotFittedError("this", "be fitted first", remedy="Call fit."),
        decal.InputWarning(("Pass ", Setting("floor"))),
    ],
)
def test_errors_and_warnings_travel_with_their_fields(error):
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.told(OPTIONS) == error.told(OPTIONS) != str(error)
    assert vars(back) == vars(error)


def test_what_is_not_fitted_is_an_attribute_error_too():
    assert issubclass(decal.NotFittedError, AttributeError)
    assert issubclass(decal.NotFittedError, decal.InputError)
    assert issubclass(decal.InputError, ValueError)


def test_one_filter_silences_all_warnings_of_decal():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", decal.DecalWarning)
        for kind in (decal.InputWarning, decal.FitWarning, decal.AnswerWarning):
            warnings.warn("something", kind, stacklevel=1)


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


def test_errors_about_rows_have_fields():
    model = decal.decalibrate([[2.0, 0.0], [0.3, 0.9]], [0, 1], alpha=0.8)
    with pytest.raises(decal.InputError) as found:
        model.predict([[1.0, 2.0, 3.0]])
    error = found.value
    assert (error.argument, error.fact) == ("logits", "shape (1, 3)")
    assert error.rule == "have 2 columns, one per class seen by fit"
    assert error.remedy == "Use the logits of the same model."
