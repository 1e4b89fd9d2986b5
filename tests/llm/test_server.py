"""A server that speaks OpenAI's API, over real HTTP: from its responses to decisions."""

import numpy as np
import pytest

import decal

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

from decal.llm import (  # noqa: E402
    Verbaliser,
    label_logits,
    label_masses,
    predict,
    read_answers,
)
from helpers import llm_server, tiny_models  # noqa: E402

pytestmark = pytest.mark.torch
torch.set_num_threads(1)

YES_NO = Verbaliser(["Yes", "No"])
PROMPTS = ["Yes or No?", "a man sleeps outside", "<b>bold</b> & 'quoted'", "Maybe"] * 3


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tiny_models.save(tmp_path_factory.mktemp("served"))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    return model, transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def address(local):
    with llm_server.serving(llm_server.app_of(*local)) as address:
        yield address


@pytest.fixture(scope="module")
def fitted(local):
    logits = label_logits(*local, PROMPTS, YES_NO, chat=True)
    labels = np.arange(len(PROMPTS)) % 2
    return decal.decalibrate(logits, labels, alpha=0.8, classes=YES_NO.classes), logits


def ask(address, prompt, top=20):
    body = {"model": "tiny", "messages": [{"role": "user", "content": prompt}]}
    body |= {"logprobs": True, "top_logprobs": top, "max_tokens": 1}
    return httpx.post(f"{address}/chat/completions", json=body, timeout=30).json()


@pytest.mark.parametrize("top", [1, 5, 20])
def test_the_outer_box_of_a_response_holds_the_box_of_the_whole_vocabulary(address, fitted, top):
    d, logits = fitted
    masses = label_masses([ask(address, prompt, top) for prompt in PROMPTS[:4]], YES_NO)
    outer, full = predict(d, masses), d.predict(logits[:4])
    assert (outer.lower <= full.lower + 1e-6).all()
    assert (outer.upper >= full.upper - 1e-6).all()


def test_the_client_of_openai_is_understood(address, fitted):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=address, api_key="none")
    answers = [
        client.chat.completions.create(
            model="tiny",
            messages=[{"role": "user", "content": prompt}],
            logprobs=True,
            top_logprobs=20,
            max_tokens=1,
        )
        for prompt in PROMPTS[:4]
    ]
    credal = predict(fitted[0], label_masses(answers, YES_NO))
    assert credal.decide("maximality").shape == (4, 2)
    plain = predict(fitted[0], label_masses([ask(address, p) for p in PROMPTS[:4]], YES_NO))
    np.testing.assert_allclose(credal.lower, plain.lower)
    client.close()


def test_completions_say_the_same_as_chat(address):
    written = f"<|user|>{PROMPTS[0]}\n<|assistant|>"
    body = {"model": "tiny", "prompt": written, "logprobs": 5, "max_tokens": 1}
    response = httpx.post(f"{address}/completions", json=body, timeout=30).json()
    by_completion, by_chat = read_answers([response, ask(address, PROMPTS[0], 5)])
    assert by_completion.positions == by_chat.positions


def test_a_response_without_log_probabilities_says_what_to_ask_for(address):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Yes?"}]}
    response = httpx.post(f"{address}/chat/completions", json=body, timeout=30).json()
    with pytest.raises(ValueError, match="Ask for them: logprobs=True, top_logprobs=20"):
        label_masses([response], YES_NO)
    with pytest.raises(ValueError, match=r"got the keys \['detail'\]"):
        label_masses([ask(address, "Yes?", top=21)], YES_NO)
