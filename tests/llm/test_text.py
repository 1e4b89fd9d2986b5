"""Text classifiers: tiny ones, built and saved here, loaded as a user loads them."""

import importlib
import sys

import numpy as np
import pytest

import decal

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tokenizers import Tokenizer, models, pre_tokenizers, processors  # noqa: E402

from decal.llm.text import TextClassifier  # noqa: E402

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

WORDS = ["a", "man", "woman", "child", "dog", "plays", "sleeps", "outside", "nobody"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
CLASSES = ("entailment", "neutral", "contradiction")
LIMIT = 16


def tokenizer():
    vocabulary = {word: k for k, word in enumerate(SPECIAL + WORDS)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def save_model(folder, kind=None, **changes):
    """Writes a tiny BERT with random weights, and returns it."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        **{
            "vocab_size": len(SPECIAL + WORDS),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": LIMIT,
            "initializer_range": 0.5,
            "id2label": dict(enumerate(CLASSES)),
            "label2id": {name: k for k, name in enumerate(CLASSES)},
        }
        | changes
    )
    model = (kind or transformers.BertForSequenceClassification)(config).eval()
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    return folder, save_model(folder)


@pytest.fixture(scope="module")
def classifier(saved):
    return TextClassifier.from_pretrained(saved[0], device="cpu")


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(0)

    def sentence():
        return " ".join(rng.choice(WORDS, size=rng.integers(1, 6)))

    pairs = [(sentence(), sentence()) for _ in range(60)]
    return pairs, rng.integers(0, 3, size=60)


def logits_one_by_one(model, texts):
    """What the library says, a text at a time, without padding."""
    read = tokenizer()
    rows = []
    for text in texts:
        parts = (text,) if isinstance(text, str) else text
        with torch.no_grad():
            rows.append(model(**read(*parts, return_tensors="pt")).logits[0].numpy())
    return np.array(rows)


# Numbers


@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_logits_of_pairs_are_those_of_the_library(saved, classifier, labelled, batch_size):
    logits = classifier.logits(labelled[0], batch_size=batch_size)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, logits_one_by_one(saved[1], labelled[0]), atol=1e-5)


def test_logits_of_single_texts_are_those_of_the_library(saved, classifier):
    texts = ["a man sleeps", "nobody", "a dog plays outside"]
    expected = logits_one_by_one(saved[1], texts)
    np.testing.assert_allclose(classifier.logits(texts), expected, atol=1e-5)
    np.testing.assert_allclose(classifier.logits(iter(texts)), expected, atol=1e-5)
    exponential = np.exp(expected)
    np.testing.assert_allclose(
        classifier.probabilities(texts),
        exponential / exponential.sum(axis=1, keepdims=True),
        atol=1e-6,
    )


def test_classes_are_those_of_the_config_in_the_order_of_the_columns(classifier):
    assert classifier.classes == CLASSES
    assert repr(classifier) == "TextClassifier(bert, 3 classes)"


def test_texts_and_arrays_give_the_same_credal_sets(classifier, labelled):
    texts, labels = labelled
    settings = {"alpha": 0.9, "directions": ("class", "temperature")}
    fitted = classifier.decalibrate(texts[:40], labels[:40], **settings)
    logits = classifier.logits(texts)
    arrays = decal.decalibrate(logits[:40], labels[:40], **settings)
    np.testing.assert_allclose(fitted.shifts().upper, arrays.shifts().upper, atol=1e-6)
    credal = classifier.predict_credal(fitted, texts[40:], batch_size=3)
    expected = arrays.predict(logits[40:])
    np.testing.assert_allclose(credal.lower, expected.lower, atol=1e-5)
    np.testing.assert_allclose(credal.upper, expected.upper, atol=1e-5)
    assert credal.classes == CLASSES
    wider = classifier.predict_credal(fitted, texts[40:], alpha=0.5)
    assert (wider.upper - wider.lower).mean() > (credal.upper - credal.lower).mean()


def test_labels_may_be_names(classifier, labelled):
    texts, labels = labelled
    names = [CLASSES[k] for k in labels]
    by_name = classifier.decalibrate(texts, names, alpha=0.9)
    by_array = classifier.decalibrate(texts, np.array(names, dtype=object), alpha=0.9)
    by_number = classifier.decalibrate(texts, labels, alpha=0.9)
    np.testing.assert_array_equal(by_name.shifts().lower, by_number.shifts().lower)
    np.testing.assert_array_equal(by_array.shifts().lower, by_number.shifts().lower)


def test_a_class_unseen_in_calibration_has_no_lower_endpoint(classifier, labelled):
    texts, labels = labelled
    d = classifier.decalibrate(texts, np.minimum(labels, 1), alpha=0.9)
    assert np.isneginf(d.shifts().lower[2])
    credal = classifier.predict_credal(d, texts[:5])
    assert (credal.lower[:, 2] == 0).all()


def test_a_progress_bar_is_shown_only_if_asked_for(classifier, capsys):
    classifier.logits(["a dog"] * 5, batch_size=2)
    assert capsys.readouterr().err == ""
    classifier.logits(["a dog"] * 5, batch_size=2, progress=True)
    assert "5/5" in capsys.readouterr().err


# What is refused


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("a dog", "texts must be a list of texts: got one text"),
        ([], "texts must hold at least one text"),
        ([("a", "dog"), "a man"], "all be strings or all be pairs.* at index 1"),
        (["a man", "a dog", ("a", "dog")], "all be strings or all be pairs.* at index 2"),
        ([("a", "man", "sleeps")], r"pairs of strings: got \('a', 'man', 'sleeps'\) at index 0"),
        ([("a", 3)], r"pairs of strings: got \('a', 3\) at index 0"),
    ],
)
def test_texts_of_other_shapes_are_refused(classifier, texts, message):
    with pytest.raises(ValueError, match=message):
        classifier.logits(texts)


def test_long_texts_are_refused_unless_they_may_be_cut(saved, classifier):
    texts = ["a dog", "a man", " ".join(["dog"] * 30)]
    with pytest.raises(ValueError, match="at most 16 tokens each: got 32 at index 2"):
        classifier.logits(texts, batch_size=2)
    cutting = TextClassifier.from_pretrained(saved[0], truncate=True, device="cpu")
    expected = logits_one_by_one(saved[1], ["a dog", "a man", " ".join(["dog"] * 14)])
    np.testing.assert_allclose(cutting.logits(texts), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["neutral", "maybe"], "one of the classes entailment, .*: got 'maybe' at index 1"),
        ([0, 3], "labels must lie in 0 to 2.* got 3 at index 1"),
        ([0.5, 1.0], "labels must be integers"),
    ],
)
def test_labels_that_are_no_classes_are_refused(classifier, labels, message):
    with pytest.raises(ValueError, match=message):
        classifier.decalibrate(["a dog", "a man"], labels, alpha=0.9)


def test_a_decalibrator_of_other_classes_is_refused(classifier):
    other = decal.decalibrate(np.eye(3), [0, 1, 2], alpha=0.9, classes=["x", "y", "z"])
    with pytest.raises(ValueError, match=r"fitted on the classes \('entailment'"):
        classifier.predict_credal(other, ["a dog"])


def test_batch_size_is_checked(classifier):
    with pytest.raises(ValueError, match="batch_size must be a whole number, at least 1: got 0"):
        classifier.logits(["a dog"], batch_size=0)


def test_a_model_without_a_trained_head_is_refused(tmp_path):
    save_model(tmp_path, transformers.BertModel)
    with pytest.raises(ValueError, match=r"without classifier.bias and 1 more.*random numbers"):
        TextClassifier.from_pretrained(tmp_path)


def test_regressions_and_multi_label_models_are_refused(tmp_path):
    save_model(tmp_path / "one", id2label={0: "score"}, label2id={"score": 0})
    with pytest.raises(ValueError, match="two classes or more: got 1"):
        TextClassifier.from_pretrained(tmp_path / "one")
    save_model(tmp_path / "many", problem_type="multi_label_classification")
    with pytest.raises(ValueError, match="must choose one class per text"):
        TextClassifier.from_pretrained(tmp_path / "many")


def test_weights_that_do_not_fit_their_config_are_refused(saved, tmp_path):
    save_model(tmp_path, hidden_size=16)
    (tmp_path / "config.json").write_bytes((saved[0] / "config.json").read_bytes())
    with pytest.raises(ValueError, match="weights that fit the model of its config"):
        TextClassifier.from_pretrained(tmp_path)


# What is missing


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors", "tokenizer.json"])
def test_an_incomplete_folder_names_what_it_must_hold(saved, tmp_path, lost):
    for file in saved[0].iterdir():
        if file.name != lost:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(FileNotFoundError, match=r"a folder that does not hold all of it.*Needed"):
        TextClassifier.from_pretrained(tmp_path)


def test_a_torn_download_is_named(saved, tmp_path):
    for file in saved[0].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[:1000])
    (tmp_path / "config.json").write_bytes((saved[0] / "config.json").read_bytes())
    with pytest.raises(FileNotFoundError, match="or not intact"):
        TextClassifier.from_pretrained(tmp_path)


@pytest.mark.parametrize("absent", ["torch", "transformers"])
def test_a_missing_extra_names_itself(absent, monkeypatch):
    # Imported anew, here: a fresh Python would import PyTorch for seconds.
    monkeypatch.delitem(sys.modules, "decal.llm.text")
    monkeypatch.setitem(sys.modules, absent, None)
    message = r"^decal.llm.text needs transformers and PyTorch: pip install 'decal\[zeroshot\]'$"
    with pytest.raises(ImportError, match=message):
        importlib.import_module("decal.llm.text")
