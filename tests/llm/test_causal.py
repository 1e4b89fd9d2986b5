"""Causal models of transformers: tiny ones, built and saved here, loaded as a user loads them."""

import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from decal.llm import (  # noqa: E402
    Verbaliser,
    label_logits,
    next_token_log_probabilities,
    vocabulary_masses,
    vocabulary_tokens,
)
from helpers import tiny_models  # noqa: E402

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

PROMPTS = [
    "Yes or No?",
    "The answer is",
    "Premise: a man sleeps outside. Hypothesis: a woman plays.",
    "<b>bold</b> & <script>alert('x')</script>",
    "{braces} and {} stay",
]
YES_NO = Verbaliser(["Yes", "No"])


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def loaded(request, tmp_path_factory):
    folder = tiny_models.save(tmp_path_factory.mktemp(request.param), request.param)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def alone(model, ids):
    """(len(ids), V) log-probabilities after each token, without batches or padding."""
    with torch.inference_mode():
        return model(torch.tensor([list(ids)])).logits[0].double().log_softmax(-1).numpy()


@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_batches_padded_on_the_left_give_what_each_prompt_gives_alone(loaded, batch_size):
    model, tokenizer = loaded
    found = next_token_log_probabilities(model, tokenizer, PROMPTS, batch_size=batch_size)
    for row, prompt in zip(found, PROMPTS, strict=True):
        expected = alone(model, tokenizer(prompt)["input_ids"])[-1]
        np.testing.assert_allclose(row, expected, atol=1e-4)


def test_labels_of_one_token_have_the_mass_of_their_tokens(loaded):
    model, tokenizer = loaded
    log_p = next_token_log_probabilities(model, tokenizer, PROMPTS)
    tokens = vocabulary_tokens(tokenizer, log_p.shape[1])
    masses = vocabulary_masses(log_p, tokens, YES_NO)
    found = label_logits(model, tokenizer, PROMPTS, YES_NO, batch_size=3)
    np.testing.assert_allclose(found, masses.logits(), atol=1e-4)


def test_labels_of_several_tokens_are_scored_by_the_chain(loaded):
    model, tokenizer = loaded
    v = Verbaliser(["positive", "possible", "No"], space=False)
    ids = [tokenizer(s[0])["input_ids"] for s in v.spellings]
    assert len(ids[0]) > 1
    assert ids[0][0] == ids[1][0]  # they share their first token
    found = label_logits(model, tokenizer, PROMPTS, v, batch_size=2)
    for row, prompt in zip(found, PROMPTS, strict=True):
        start = tokenizer(prompt)["input_ids"]
        for k, label in enumerate(ids):
            after = alone(model, [*start, *label])
            chain = sum(after[len(start) - 1 + i, token] for i, token in enumerate(label))
            assert row[k] == pytest.approx(chain, abs=1e-4)


def test_several_spellings_add_up(loaded):
    model, tokenizer = loaded
    one = label_logits(model, tokenizer, PROMPTS, Verbaliser(["Yes", "No"], space=False))
    other = label_logits(model, tokenizer, PROMPTS, Verbaliser([" Yes", " No"], space=False))
    both = label_logits(model, tokenizer, PROMPTS, YES_NO)
    np.testing.assert_allclose(both, np.logaddexp(one, other), atol=1e-4)


def test_chat_templates_are_used_for_messages(loaded):
    model, tokenizer = loaded
    messages = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
    written = [f"<|user|>{prompt}\n<|assistant|>" for prompt in PROMPTS]
    expected = label_logits(model, tokenizer, written, YES_NO)
    np.testing.assert_allclose(label_logits(model, tokenizer, messages, YES_NO), expected)
    np.testing.assert_allclose(label_logits(model, tokenizer, PROMPTS, YES_NO, chat=True), expected)


def test_each_of_several_templates_has_its_logits(loaded):
    model, tokenizer = loaded
    items = [{"text": "a {man} sleeps"}, {"text": "<i>a woman</i> plays"}]
    templates = ["Premise: {text} Yes or No?", "Is it so? {text}"]
    found = label_logits(model, tokenizer, items, YES_NO, templates=templates)
    assert found.shape == (2, 2, 2)
    written = [t.replace("{text}", i["text"]) for t in templates for i in items]
    expected = label_logits(model, tokenizer, written, YES_NO)
    np.testing.assert_allclose(found.reshape(4, 2), expected, atol=1e-4)
    texts = [i["text"] for i in items]
    one = label_logits(model, tokenizer, texts, YES_NO, templates="Is it so? {}")
    np.testing.assert_allclose(one, found[1], atol=1e-4)


def test_a_bar_shows_progress(loaded, capsys):
    label_logits(*loaded, PROMPTS, YES_NO, progress=True)
    assert "prompts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ("Yes", {}, "prompts must be a list of prompts: got one prompt. Put it in a list"),
        ([], {}, "prompts must hold at least one prompt: got none"),
        ([""], {}, "prompts must hold a token each: got none at index 0"),
        (["a", 3], {}, "texts, or lists of messages with role and content: got 3 at index 1"),
        (["a", [{"role": "user"}]], {}, "lists of messages with role and content: got .* index 1"),
        (["Yes", "no " * 99], {}, "at most 96 tokens each: got .* at index 1. Shorten it"),
        (["Yes"], {"batch_size": 0}, "batch_size must be"),
        (["Yes"], {"templates": "no place"}, r"templates must hold \{\} or \{name\}"),
        (["Yes"], {"templates": []}, "templates must be one text or more: got none"),
        (["Yes"], {"templates": "{text}"}, "must be mappings for the template '{text}': got a te"),
        ([{"a": "x"}], {"templates": "{b}"}, r"got none called 'b' at index 0, but \['a'\]"),
        (["Yes"], {"templates": "{} }"}, "Write {{ and }} for braces"),
    ],
)
def test_wrong_prompts_say_what_was_found(loaded, prompts, options, message):
    with pytest.raises(ValueError, match=message):
        label_logits(*loaded, prompts, YES_NO, **options)


def test_labels_that_begin_each_other_are_refused(loaded):
    with pytest.raises(
        ValueError, match="must not begin each other: got 'No' for 'No' and 'Nobody"
    ):
        label_logits(*loaded, PROMPTS, Verbaliser(["No", "Nobody"], space=False))


def test_messages_need_a_chat_template(loaded):
    model, tokenizer = loaded
    bare = transformers.AutoTokenizer.from_pretrained(tokenizer.name_or_path)
    bare.chat_template = None
    with pytest.raises(
        ValueError, match="a tokenizer without a chat template: got messages at ind"
    ):
        label_logits(model, bare, PROMPTS, YES_NO, chat=True)


def test_models_of_other_kinds_are_refused(loaded):
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    with pytest.raises(ValueError, match="must be a causal language model: got BertForSequence"):
        label_logits(transformers.BertForSequenceClassification(config), loaded[1], PROMPTS, YES_NO)


def test_without_pytorch_the_message_says_what_to_install(loaded, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'decal\[llm\]'"):
        label_logits(*loaded, PROMPTS, YES_NO)


def test_models_that_overflow_are_refused(loaded):
    model, tokenizer = loaded
    broken = type(model)(model.config).eval()
    with torch.no_grad():
        broken.get_output_embeddings().weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="model must give finite logits: got NaN"):
        label_logits(broken, tokenizer, PROMPTS, YES_NO)
