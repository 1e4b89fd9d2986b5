"""A server that speaks the API of OpenAI, around a causal model: real HTTP on loopback."""

import socket
import threading
import time
from contextlib import contextmanager

import torch
import uvicorn
from fastapi import FastAPI, HTTPException


def app_of(model, tokenizer):
    """The app: /v1/chat/completions and /v1/completions, one token at a time."""
    app = FastAPI()

    def next_tokens(text, count):
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            log_p = model(ids).logits[0, -1].log_softmax(-1)
        found = log_p[: len(tokenizer)].topk(count)
        texts = [tokenizer.decode([i]) for i in found.indices.tolist()]
        return list(zip(texts, found.values.tolist(), strict=True))

    @app.post("/v1/chat/completions")
    def chat(body: dict):
        text = tokenizer.apply_chat_template(
            body["messages"], tokenize=False, add_generation_prompt=True
        )
        if not body.get("logprobs"):
            top, logprobs = next_tokens(text, 1), None
        elif body.get("top_logprobs", 0) > 20:
            raise HTTPException(400, "top_logprobs must be at most 20")
        else:
            top = next_tokens(text, max(1, body.get("top_logprobs", 0)))
            listed = [{"token": t, "logprob": v, "bytes": [*t.encode()]} for t, v in top]
            entry = {**listed[0], "top_logprobs": listed[: body.get("top_logprobs", 0)]}
            logprobs = {"content": [entry], "refusal": None}
        message = {"role": "assistant", "content": top[0][0]}
        choice = {"index": 0, "message": message, "finish_reason": "length", "logprobs": logprobs}
        return {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [choice],
        }

    @app.post("/v1/completions")
    def complete(body: dict):
        top = next_tokens(body["prompt"], body["logprobs"])
        logprobs = {
            "tokens": [top[0][0]],
            "token_logprobs": [top[0][1]],
            "top_logprobs": [dict(top)],
            "text_offset": [len(body["prompt"])],
        }
        choice = {"index": 0, "text": top[0][0], "finish_reason": "length", "logprobs": logprobs}
        return {
            "id": "cmpl-0",
            "object": "text_completion",
            "created": 0,
            "model": body["model"],
            "choices": [choice],
        }

    return app


@contextmanager
def serving(app):
    """The address of the app, while it runs on a free port in a thread."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", ws="none")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}/v1"
    server.should_exit = True
    thread.join()
