"""Responses as servers send them, shortened to one position: 'Yes', 'No' and ' yes' are listed."""

import copy


def listed(**more):
    tokens = (("Yes", -0.2231), ("No", -1.897), (" yes", -4.605))
    return [{"token": t, "bytes": [*t.encode()], "logprob": v, **more} for t, v in tokens]


ENTRY = {**listed()[0], "top_logprobs": listed()}

CHAT = {
    "id": "chatcmpl-AbC",
    "object": "chat.completion",
    "created": 1731800000,
    "model": "gpt-4o-mini-2024-07-18",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Yes", "refusal": None},
            "logprobs": {"content": [ENTRY], "refusal": None},
            "finish_reason": "length",
        }
    ],
    "usage": {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21},
}

COMPLETION = {
    "id": "cmpl-1",
    "object": "text_completion",
    "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "choices": [
        {
            "index": 0,
            "text": "Yes",
            "logprobs": {
                "text_offset": [0],
                "tokens": ["Yes"],
                "token_logprobs": [-0.2231],
                "top_logprobs": [{"Yes": -0.2231, "No": -1.897, " yes": -4.605}],
            },
            "finish_reason": "length",
        }
    ],
}

LLAMA_CPP = {
    "index": 0,
    "content": "Yes",
    "tokens": [],
    "stop": True,
    "model": "smollm2",
    "tokens_predicted": 1,
    "completion_probabilities": [{"id": 9642, **listed()[0], "top_logprobs": listed(id=7)}],
}

OLLAMA = {
    "model": "smollm2:135m",
    "created_at": "2025-11-01T12:46:02.322107Z",
    "response": "Yes",
    "done": True,
    "done_reason": "length",
    "logprobs": [
        {
            "token": "Yes",
            "logprob": -0.2231,
            "top_logprobs": [{"token": i["token"], "logprob": i["logprob"]} for i in listed()],
        }
    ],
}

OPENAI_RESPONSES = {
    "id": "resp_1",
    "object": "response",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "Yes", "annotations": [], "logprobs": [ENTRY]}
            ],
        },
    ],
}

FORMS = {
    "chat (OpenAI, vLLM, llama.cpp)": CHAT,
    "completion (OpenAI, vLLM)": COMPLETION,
    "llama.cpp": LLAMA_CPP,
    "ollama generate": OLLAMA,
    "ollama chat": {**OLLAMA, "message": {"role": "assistant", "content": "Yes"}},
    "OpenAI responses": OPENAI_RESPONSES,
    "a batch's line": {"custom_id": "a", "response": {"status_code": 200, "body": CHAT}},
}


def changed(response, *path, to):
    """A copy in which what lies at a path is something else."""
    found = copy.deepcopy(response)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return found
