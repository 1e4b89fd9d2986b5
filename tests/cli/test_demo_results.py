"""The story on the first page: three close languages."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")

from decal.cli.demo_results import language_story, write_story
from decal.datasets import languages


def test_the_texts_are_those_of_the_three_languages():
    header, arrays = (told := language_story().payload).header, told.arrays
    test = languages("test")
    three = test[
        np.isin(
            test.labels, [test.classes.index(name) for name in ("Danish", "Norwegian", "Swedish")]
        )
    ]
    assert header["inputs"]["texts"] == list(three.texts)
    assert header["inputs"]["names"] == list(three.meanings)
    names = header["models"][0]["classes"]
    assert [names[k] for k in arrays["labels"]] == [three.classes[k] for k in three.labels]


def test_it_tells_of_a_sentence_that_the_model_gets_wrong_and_the_set_catches():
    told = language_story().payload
    first = told.header["story"]["input"]
    point, label = told.arrays["0/point"][first], told.arrays["labels"][first]
    assert told.header["inputs"]["texts"][first].endswith(".")
    assert point.argmax() != label
    assert told.arrays["0/hit"][0, first]
    assert told.arrays["0/size/e_admissible"][0, first] == 2


def test_it_is_one_small_file(tmp_path):
    write_story(tmp_path / "story.html", link=("Explore", "explorer.html"))
    assert 50_000 < (tmp_path / "story.html").stat().st_size < 160_000
