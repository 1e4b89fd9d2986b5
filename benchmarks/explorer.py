"""Time the explorer's page in a browser: how large it is, how fast it opens and follows its slider.

Run with: python benchmarks/explorer.py

Needs Playwright and Chromium. A move of the slider is timed from the event to the end of the frame
that shows it, painted; so it includes the wait for that frame, up to 17 ms.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

import decal
from decal.explorer import explore

SIZES = ((10_000, 10), (1_000, 1_000))
MOVES = 60

OPENED = """() => {
  const { startTime, duration } = performance.getEntriesByName("decal:update")[0];
  return startTime + duration;
}"""
MOVED = """async (moves) => {
  const slider = document.querySelector("[data-testid=alpha]");
  const levels = Number(slider.max) + 1;
  const painted = () => new Promise((done) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel(); // a message arrives once the frame is painted
    port1.onmessage = done;
    port2.postMessage(0);
  }));
  const times = [];
  for (let move = 0; move < moves; move++) {
    await painted();
    const start = performance.now();
    slider.value = (7 * move) % levels;
    slider.dispatchEvent(new Event("input"));
    await painted();
    times.push(performance.now() - start);
  }
  return times;
}"""


def classifier(n: int, K: int, seed: int = 0) -> tuple[Any, Any]:
    """Logits of a classifier that is often right, and labels."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_t(5, (n, K))
    labels = rng.integers(K, size=n)
    logits[np.arange(n), labels] += rng.normal(6.0, 3.0, n)
    return logits, labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=MOVES, help="moves of the slider")
    moves = parser.parse_args().moves
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        print("inputs × classes   made in   page size   opens in   slider, median   90 % within")
        for n, K in SIZES:
            logits, labels = classifier(n, K)
            model = decal.decalibrate(logits, labels, alpha=0.8)
            path = Path(folder) / f"{n}-{K}.html"
            started = time.perf_counter()
            explore(model, logits, labels=labels).save(path)
            made = time.perf_counter() - started
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(path.as_uri())
            page.get_by_test_id("spider").wait_for(timeout=120_000)
            opened = page.evaluate(OPENED)
            times = page.evaluate(MOVED, moves)
            page.close()
            middle, most = np.percentile(times, [50, 90])
            print(
                f"{f'{n:,} × {K:,}':16}{made:8.1f} s{path.stat().st_size / 1e6:9.1f} MB"
                f"{opened / 1e3:9.2f} s{middle:14.0f} ms{most:11.0f} ms"
            )
        browser.close()


if __name__ == "__main__":
    main()
