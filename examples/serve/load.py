"""Measures the service: requests per second and latency, as ratios to doing nothing.

    python examples/serve/load.py [--classes 10] [--rows 1] [--seconds 5]

Starts real uvicorn processes on free ports of the loopback, one for a model file and one for an
ONNX file, and asks with httpx. The do-nothing endpoint gets the same bodies, in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI, Request, Response

import decal
from models import export

HERE = Path(__file__).parent

ROUNDS = 5
"""How often each measurement takes its turn."""

Asked = tuple[str, bytes, dict[str, str]]
"""Path, body and headers of a request."""


def measured_app() -> FastAPI:
    """The service, and beside it an endpoint that reads the body and does nothing."""
    from app import create_app

    app = create_app()

    @app.post("/noop")
    async def noop(request: Request) -> Response:
        await request.body()
        return Response(b"{}", media_type="application/json")

    return app


@contextmanager
def serving(model: Path, factory: str = "app:create_app") -> Iterator[str]:
    """The address of a uvicorn process of its own that serves a model, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Sockets handed over as descriptors do not get this from asyncio, and wait 40 ms without.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        command = [sys.executable, "-m", "uvicorn", "--app-dir", str(HERE), "--factory", factory]
        command += ["--fd", str(listener.fileno()), "--log-level", "warning", "--no-access-log"]
        process = subprocess.Popen(
            command,
            pass_fds=[listener.fileno()],
            env={**os.environ, "DECAL_MODEL": str(model)},
        )
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        _wait_for(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_for(address: str, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        try:
            if httpx.get(f"{address}/healthz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError(f"the server did not answer within {seconds} s")


async def ask(
    address: str, asked: Asked, *, users: int, seconds: float
) -> tuple[list[float], float]:
    """How long each request took, and how long all of them together, in seconds.

    So many users each ask again as soon as they have an answer. No request is begun after the
    given time, but all are waited for: the second number counts that, too.
    """
    path, content, headers = asked
    taken: list[float] = []

    async def user(ready: asyncio.Barrier) -> None:
        # A client each: one pool for all of them would be slower than the server.
        async with httpx.AsyncClient(base_url=address, verify=False, timeout=60) as client:

            async def once() -> None:
                (await client.post(path, content=content, headers=headers)).raise_for_status()

            await once()  # opens the connection
            await ready.wait()
            end = time.perf_counter() + seconds
            while (start := time.perf_counter()) < end:
                await once()
                taken.append(time.perf_counter() - start)

    ready = asyncio.Barrier(users + 1)
    everybody = asyncio.gather(*(user(ready) for _ in range(users)))
    await ready.wait()
    begin = time.perf_counter()
    await everybody
    return taken, time.perf_counter() - begin


def measure(address: str, rows: Any, *, users: int, seconds: float) -> None:
    """Print one block: what it takes to do nothing, and to predict from JSON and from bytes."""
    file = io.BytesIO()
    np.save(file, rows.astype(np.float32))
    text = json.dumps({"logits": rows.round(4).tolist()}).encode()
    as_json = {"Content-Type": "application/json"}
    as_npy = {"Content-Type": "application/x-npy", "Accept": "application/x-npy"}
    asked = {
        "nothing": ("/noop", text, as_json),
        "predict, JSON": ("/predict", text, as_json),
        "predict, .npy": ("/predict", file.getvalue(), as_npy),
    }
    times: dict[str, list[float]] = {name: [] for name in asked}
    elapsed = dict.fromkeys(asked, 0.0)
    for _ in range(ROUNDS):  # in turns, so that a busy machine is unfair to all alike
        for name, request in asked.items():
            taken, whole = asyncio.run(ask(address, request, users=users, seconds=seconds / ROUNDS))
            times[name] += taken
            elapsed[name] += whole
    rates = {name: len(times[name]) / elapsed[name] for name in asked}
    base = np.percentile(times["nothing"], [50, 99]) * 1e3
    for name, rate in rates.items():
        p50, p99 = np.percentile(times[name], [50, 99]) * 1e3
        print(
            f"  {name:15s} {rate:7.0f} requests/s {rate / rates['nothing']:5.2f} ×"
            f"   p50 {p50:7.2f} ms {p50 / base[0]:5.2f} × {p50 - base[0]:+7.2f} ms"
            f"   p99 {p99:7.2f} ms {p99 / base[1]:5.2f} ×"
        )


def main() -> None:
    """Fit a model, serve it in both forms, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1, help="of one request")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--users", type=int, nargs="+", default=[1, 32])
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((20_000, options.classes))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    with tempfile.TemporaryDirectory() as folder:
        model, head = Path(folder, "model.npz"), Path(folder, "model.onnx")
        decal.decalibrate(logits, labels, alpha=0.8).save(model)
        export(model, head)
        print(f"{options.classes} classes, {options.rows} rows a request; × = times doing nothing")
        for path in (model, head):
            with serving(path, "load:measured_app") as address:
                for users in options.users:
                    print(f"{path.suffix}, {path.stat().st_size:,} bytes, {users} at a time")
                    measure(address, logits[: options.rows], users=users, seconds=options.seconds)


if __name__ == "__main__":
    main()
