"""Verbalisers: spellings of labels, and the tokens that are them."""

import pytest

from decal.llm import Verbaliser


def test_labels_are_found_with_and_without_a_space_in_every_vocabulary():
    v = Verbaliser(["yes", "no"])
    assert [v.label_of(t) for t in ("yes", " yes", "Ġyes", "▁yes", "no", "Yes", "ye", "")] == [
        *(0, 0, 0, 0, 1, None, None, None)
    ]
    assert Verbaliser(["yes", "no"], space=False).label_of(" yes") is None


def test_spellings_are_taken_as_a_vocabulary_writes_them():
    v = Verbaliser({"up": ["Ġyes", "▁oui", "yes"], "down": "no"}, space=False)
    assert [v.label_of(t) for t in (" yes", "Ġyes", "▁yes", " oui", "yes", "oui")] == [
        *(0, 0, 0, 0, 0, None)
    ]
    assert v.among(["Ġyes", "no"]).spellings == (("Ġyes",), ("no",))
    with pytest.raises(ValueError, match="spellings of their own: got ' a' for 'x' and for 'y'"):
        Verbaliser({"x": "Ġa", "y": " a"}, space=False)


def test_variants_of_case_on_request():
    v = Verbaliser({"positive": ["good", "fine"], "negative": "bad"}, case=True)
    assert [v.label_of(t) for t in ("Good", "GOOD", " Fine", "ĠBAD", "gOOD")] == [0, 0, 0, 1, None]
    assert len(v.spellings[0]) == 12


def test_a_token_that_begins_a_label_is_not_the_label():
    v = Verbaliser(["positive", "possible", "no"])
    assert v.label_of("pos") is None
    assert v.begun_by("Ġpos") == (0, 1)
    assert v.begun_by("posit") == (0,)
    assert v.begun_by("positive") == v.begun_by("x") == v.begun_by("") == ()
    assert v.begun_by(" ") == v.begun_by("Ċ") == (0, 1, 2)
    assert Verbaliser(["10", "1"], space=False).begun_by("1") == (0,)
    assert Verbaliser({"a": ["no", "nope"], "b": "yes"}).begun_by("no") == ()


def test_spellings_that_are_no_tokens_are_left_out():
    v = Verbaliser(["yes", "no"], case=True, partial="bound").among(["Ġyes", "Yes", "no", "x"])
    assert v.spellings == ((" yes", "Yes"), ("no",))
    assert v.partial == "bound"
    with pytest.raises(ValueError, match="a spelling of every label: got none of 'no'"):
        Verbaliser(["yes", "no"]).among(["yes"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("yes", "must be a list of words: got 'yes'"),
        (["yes"], "must be two or more: got 1"),
        (["yes", ""], "must be words: got '' at index 1"),
        (["yes", "yes"], "must be distinct: got 'yes' more than once"),
        ({"a": [], "b": "x"}, "must each have a spelling: got none for 'a'"),
        ({"a": "x", "b": ["y", "x"]}, "spellings of their own: got 'x' for 'a' and for 'b'"),
        ({"a": " x", "b": "x"}, "spellings of their own: got ' x' for 'a' and for 'b'"),
    ],
)
def test_wrong_labels_say_what_was_found(labels, message):
    with pytest.raises(ValueError, match=message):
        Verbaliser(labels)


def test_labels_that_differ_only_in_case_are_refused_with_variants():
    with pytest.raises(ValueError, match="got 'us' for 'US' and for 'us'"):
        Verbaliser(["US", "us"], case=True)


def test_what_happens_to_partial_tokens_cannot_be_changed_afterwards():
    v = Verbaliser(["yes", "no"])
    with pytest.raises(AttributeError, match="partial must stay as it was given to Verbaliser"):
        v.partial = "nonsense"
