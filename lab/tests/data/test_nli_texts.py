"""ChaosNLI's texts and embeddings, from tiny files in the real formats."""

import json
import pickle
import zipfile

import numpy as np
import pytest

from decal_lab import data as datasets
from decal_lab.data import DamagedDataError, MissingDataError


@pytest.fixture(autouse=True)
def alone(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("DECAL_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("DECAL_DATA", raising=False)


def item(uid, counter, majority, old, **example):
    return {
        "uid": uid,
        "label_counter": counter,
        "majority_label": majority,
        "example": {"uid": uid, "source": "snli_agree_3", **example},
        "old_label": old,
    }


NLI = [
    item("a.jpg#0r1n", {"n": 70, "e": 30}, "n", "n", premise="A dog é.", hypothesis="A cat."),
    item("b.jpg#1r1e", {"c": 50, "e": 50}, "c", "e", premise="It rains.", hypothesis="It is wet."),
]
ALPHA = [item("x-1", {"2": 63, "1": 37}, 2, 1, obs1="a", obs2="b", hyp1="c", hyp2="d")]


def lines(items):
    return "".join(json.dumps(i) + "\n" for i in items)


@pytest.mark.parametrize("inside", ["", "chaosNLI_v1.0", "data/chaosNLI_v1.0"])
@pytest.mark.parametrize(("subset", "name"), [("snli", "snli"), ("mnli", "mnli_m")])
def test_pairs_come_with_the_votes_of_people(tmp_path, inside, subset, name):
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    (tmp_path / inside / f"chaosNLI_{name}.jsonl").write_text(lines(NLI))
    got = datasets.chaosnli(subset, folder=tmp_path)
    assert got.texts == (("A dog é.", "A cat."), ("It rains.", "It is wet."))
    assert got.classes == ("entailment", "neutral", "contradiction")
    assert got.counts.tolist() == [[30, 70, 0], [50, 0, 50]]
    assert got.human.tolist() == [[0.3, 0.7, 0.0], [0.5, 0.0, 0.5]]
    assert got.labels.tolist() == [1, 2], "ties are decided as published"
    assert got.old_labels.tolist() == [1, 0]
    assert got.uids == ("a.jpg#0r1n", "b.jpg#1r1e")
    assert repr(got) == "TextSet: 2 items, 3 classes"


def test_alphanli_chooses_between_two_hypotheses(tmp_path):
    (tmp_path / "chaosNLI_alphanli.jsonl").write_text(lines(ALPHA))
    got = datasets.chaosnli("alphanli", folder=tmp_path)
    assert got.texts == (("a", "b", "c", "d"),)
    assert got.counts.tolist() == [[37, 63]]
    assert (got.labels.tolist(), got.old_labels.tolist()) == ([1], [0])


def test_the_archive_is_read_as_it_is(tmp_path):
    with zipfile.ZipFile(tmp_path / "chaosNLI_v1.0.zip", "w") as archive:
        archive.writestr("chaosNLI_v1.0/chaosNLI_snli.jsonl", lines(NLI))
        archive.writestr("__MACOSX/chaosNLI_v1.0/._chaosNLI_snli.jsonl", "\0")
    assert len(datasets.chaosnli(folder=tmp_path)) == 2
    with pytest.raises(MissingDataError, match="must hold chaosNLI_alphanli.jsonl"):
        datasets.chaosnli("alphanli", folder=tmp_path)


def test_the_folder_of_the_environment_is_used(tmp_path, monkeypatch):
    (tmp_path / "chaosnli").mkdir()
    (tmp_path / "chaosnli" / "chaosNLI_snli.jsonl").write_text(lines(NLI))
    monkeypatch.setenv("DECAL_DATA", str(tmp_path))
    assert len(datasets.chaosnli(download=False)) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lines(NLI) + '{"uid": "c"', "an item in every line: got JSONDecodeError.* in line 3"),
        (lines([{"uid": "c"}]), r"got KeyError\('example'\) in line 1"),
        (lines([NLI[0] | {"majority_label": "x"}]), "got ValueError.* in line 1"),
        (lines([NLI[0] | {"label_counter": {}}]), "must count votes: got none in line 1"),
        (lines([NLI[0], NLI[0]]), "every item once: got 'a.jpg#0r1n' twice"),
        ("", "must hold ChaosNLI items: got none"),
    ],
)
def test_damaged_lines_are_named(tmp_path, content, message):
    (tmp_path / "chaosNLI_snli.jsonl").write_text(content)
    message = message.replace("an item", "a ChaosNLI item")
    with pytest.raises(DamagedDataError, match=rf"chaosNLI_snli.jsonl must .*{message}|{message}"):
        datasets.chaosnli(folder=tmp_path)


@pytest.fixture
def vectors():
    rng = np.random.default_rng(0)
    return {
        "embedding": rng.normal(size=(2, 768)).astype(np.float32),
        "premise": np.array(["A dog é.", "It rains."], dtype=object),
        "hypothesis": np.array(["A cat.", "It is wet."], dtype=object),
        "label_dist": np.array([[0.3, 0.7, 0.0], [0.5, 0.0, 0.5]]),
    }


def check_vectors(got, vectors):
    np.testing.assert_array_equal(got.embeddings, vectors["embedding"])
    np.testing.assert_array_equal(got.human, vectors["label_dist"])
    assert got.texts == (("A dog é.", "A cat."), ("It rains.", "It is wet."))
    assert got.classes[2] == "contradiction"
    assert repr(got) == "EmbeddingSet: 2 vectors of 768 numbers"


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_embeddings_are_read_from_a_pickle_of_arrays(tmp_path, vectors, protocol):
    (tmp_path / "embeddings").mkdir()
    with (tmp_path / "embeddings" / "mnli_m.pkl").open("wb") as file:
        pickle.dump(vectors, file, protocol=protocol)
    check_vectors(datasets.chaosnli_embeddings("mnli", folder=tmp_path), vectors)


def test_embeddings_pickled_by_an_older_numpy_are_read(tmp_path, vectors):
    content = pickle.dumps(vectors, protocol=3).replace(b"numpy._core", b"numpy.core")
    (tmp_path / "snli.pkl").write_bytes(content)
    check_vectors(datasets.chaosnli_embeddings(folder=tmp_path), vectors)


def test_embeddings_are_read_from_an_npz(tmp_path, vectors):
    texts = {key: vectors[key].astype(str) for key in ("premise", "hypothesis")}
    np.savez(tmp_path / "snli.npz", **(vectors | texts))
    check_vectors(datasets.chaosnli_embeddings(folder=tmp_path), vectors)


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_that_would_run_something_is_refused(tmp_path, vectors):
    trap = tmp_path / "trap"
    (tmp_path / "snli.pkl").write_bytes(pickle.dumps(vectors | {"more": Evil(trap)}))
    with pytest.raises(DamagedDataError, match="snli.pkl is damaged: it asks for .*open, which is"):
        datasets.chaosnli_embeddings(folder=tmp_path)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embedding": np.zeros((2, 5))}, r"embedding of n × 768 numbers: got \(2, 5\)"),
        ({"label_dist": np.ones((2, 3))}, "label_dist must sum to 1 in every row: got 3 in row 0"),
        ({"label_dist": np.full((1, 2), 0.5)}, r"label_dist must have shape \(2, 3\)"),
    ],
)
def test_embeddings_of_the_wrong_shape_are_named(tmp_path, vectors, change, message):
    (tmp_path / "snli.pkl").write_bytes(pickle.dumps(vectors | change))
    with pytest.raises(DamagedDataError, match=f"snli.pkl.*{message}"):
        datasets.chaosnli_embeddings(folder=tmp_path)


def test_pickles_that_hold_no_dictionary_or_are_cut_are_named(tmp_path, vectors):
    path = tmp_path / "snli.pkl"
    for content in (pickle.dumps([1]), pickle.dumps(vectors)[:-9], b"", pickle.dumps({"a": 1})):
        path.write_bytes(content)
        with pytest.raises(DamagedDataError, match="snli.pkl"):
            datasets.chaosnli_embeddings(folder=tmp_path)


def test_absent_embeddings_say_how_to_get_them():
    with pytest.raises(MissingDataError, match="need snli.npz or snli.pkl in .*compute them"):
        datasets.chaosnli_embeddings()


@pytest.mark.data
@pytest.mark.parametrize(
    ("subset", "rows", "file"), [("snli", 1514, "snli_roberta0"), ("mnli", 1599, "mnli_roberta0")]
)
def test_the_real_texts_agree_with_the_published_logits(data_folder, subset, rows, file):
    got = datasets.chaosnli(subset, folder=data_folder)
    assert len(got) == rows
    assert (got.counts.sum(axis=1) == 100).all()
    logits = datasets.published_logits(file, folder=data_folder)
    at = {uid: row for row, uid in enumerate(got.uids)}
    order = [at[uid] for uid in logits.uids]
    np.testing.assert_allclose(got.human[order], logits.truth, atol=1e-6)
    assert logits.classes == got.classes
