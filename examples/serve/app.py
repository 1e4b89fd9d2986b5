"""A credal prediction service: logits in, bounds of every probability out.

DECAL_MODEL=model.npz uvicorn --app-dir examples/serve --factory app:create_app
"""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response
from numpy.typing import NDArray

from batching import Batcher, OverloadedError
from models import load

MAX_BYTES = 16 << 20
"""Of a request's body; more is refused before it is read."""

MAX_ROWS = 65_536
"""Of one request."""

BODY_SECONDS = 30.0
"""In which a body must have arrived, unless DECAL_BODY_SECONDS tells another number."""

NPY = "application/x-npy"
RAW = "application/octet-stream"

BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["logits"],
                    "properties": {
                        "logits": {
                            "type": "array",
                            "items": {"type": "array", "items": {"type": "number"}},
                        },
                        "alpha": {"type": "number", "minimum": 0, "maximum": 1},
                    },
                },
                "example": {"logits": [[2.0, 0.5, -1.0]]},
            },
            NPY: {"schema": {"type": "string", "format": "binary"}},
            RAW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def create_app(path: str | Path | None = None) -> FastAPI:
    """The service for one model file, by default the one that DECAL_MODEL names."""
    model = load(Path(path or os.environ["DECAL_MODEL"]))
    batcher = Batcher(model.predict)
    seconds = float(os.environ.get("DECAL_BODY_SECONDS", BODY_SECONDS))

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        await batcher.start()
        yield
        await batcher.stop()

    app = FastAPI(title="Credal predictions", lifespan=running)

    @app.get("/healthz")
    async def health() -> dict[str, Any]:
        """Whether it answers, and how many requests went into how many batches so far."""
        return {"status": "ok", "requests": batcher.requests, "batches": batcher.batches}

    @app.get("/model")
    async def about() -> dict[str, Any]:
        """What is served: classes, settings, and the hash of the file."""
        return model.about

    @app.post("/predict", openapi_extra=BODY)
    async def predict(request: Request, alpha: float | None = None) -> Response:
        """Lower and upper bounds for every row of logits.

        The body is JSON, {"logits": [[...], ...], "alpha": 0.8}; or a matrix as an .npy file
        (application/x-npy); or the float32 of its rows, little-endian (application/octet-stream).
        With "Accept: application/x-npy" the answer is an .npy file of shape (2, n, K).
        """
        rows, wanted = _parsed(await _body(request, seconds), _kind(request), model.columns)
        if len(rows) > MAX_ROWS:
            raise HTTPException(
                413, f"logits must have at most {MAX_ROWS:,} rows: got {len(rows)}."
            )
        try:
            bounds = await batcher.submit(rows, wanted if alpha is None else alpha)
        except ValueError as error:
            raise HTTPException(422, str(error)) from error
        except OverloadedError as error:
            busy = {"Retry-After": "1"}
            raise HTTPException(503, "Too many requests wait already.", busy) from error
        if NPY in request.headers.get("accept", ""):
            file = io.BytesIO()
            np.save(file, np.stack(bounds), allow_pickle=False)
            return Response(file.getvalue(), media_type=NPY)
        text = json.dumps(dict(zip(("lower", "upper"), (b.tolist() for b in bounds), strict=True)))
        return Response(text, media_type="application/json")

    return app


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "application/json").split(";")[0].strip().lower()


async def _body(request: Request, seconds: float) -> bytes:
    """The body, of at most MAX_BYTES whatever its header claims, if it arrives in time."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > MAX_BYTES:
                    raise HTTPException(413, f"The body must have at most {MAX_BYTES:,} bytes.")
    except TimeoutError as error:
        message = f"The body must arrive within {seconds:g} s: got {len(body):,} bytes."
        raise HTTPException(408, message, {"Connection": "close"}) from error
    return bytes(body)


def _parsed(body: bytes, kind: str, columns: int) -> tuple[NDArray[Any], float | None]:
    """Rows and alpha from a body; what the numbers are worth is for the model to say."""
    if kind == "application/json":
        return _from_json(body)
    if kind == NPY:
        return _from_npy(body), None
    if kind == RAW:
        if len(body) % (4 * columns):
            raise HTTPException(
                422,
                f"logits must have {columns} columns, one per class seen by fit: got {len(body)} "
                f"bytes, which are no rows of {columns} float32.",
            )
        return np.frombuffer(body, dtype="<f4").reshape(-1, columns), None
    raise HTTPException(415, f"Content-Type must be application/json, {NPY} or {RAW}: got {kind}.")


def _from_json(body: bytes) -> tuple[NDArray[Any], float | None]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"The body must be JSON: got {error}.") from error
    if not isinstance(content, dict) or "logits" not in content:
        raise HTTPException(422, 'The body must be an object with "logits", a list of rows.')
    alpha = content.get("alpha")
    if alpha is not None and (isinstance(alpha, bool) or not isinstance(alpha, int | float)):
        raise HTTPException(422, f"alpha must be one number from 0 to 1: got {alpha!r:.40}.")
    if alpha is not None and not 0 <= alpha <= 1:  # also for whole numbers that no float can hold
        raise HTTPException(422, f"alpha must lie between 0 and 1: got {alpha!r:.40}.")
    try:
        rows = np.asarray(content["logits"])
    except ValueError as error:
        message = f"logits must be an array of numbers: got {error}."
        raise HTTPException(422, message) from error
    if rows.ndim != 2 or rows.dtype.kind not in "iuf":
        raise HTTPException(
            422,
            "logits must be a matrix with a row per example and a column per class: "
            f"got shape {rows.shape}, dtype {rows.dtype}.",
        )
    return rows.astype(np.float64), alpha


def _from_npy(body: bytes) -> NDArray[Any]:
    """The matrix in an .npy file. Its header is compared with its size before memory is taken."""
    file = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(file)
    except Exception as error:  # NumPy parses headers as Python, which fails in many ways
        raise HTTPException(400, f"The body must be an .npy file: got {error!s:.80}.") from error
    data = body[file.tell() :]
    if not all(0 <= size < 1 << 50 for size in shape):
        raise HTTPException(400, f"The body must hold a matrix: got shape {shape!s:.80}.")
    if dtype.kind not in "iuf" or len(shape) != 2:
        raise HTTPException(
            422,
            "logits must be a matrix of numbers with a row per example and a column per class: "
            f"got shape {shape}, dtype {dtype}.",
        )
    if math.prod(shape) * dtype.itemsize != len(data):
        raise HTTPException(400, f"The body must hold {shape} {dtype}: got {len(data)} bytes.")
    rows = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    return rows.astype(np.float32 if dtype.itemsize == 4 and dtype.kind == "f" else np.float64)
