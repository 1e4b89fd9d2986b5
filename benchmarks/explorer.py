"""Time the explorer's page in a browser: how large it is, how fast it opens and follows its reader.

Run with: python benchmarks/explorer.py

Needs Playwright and Chromium. Making and saving a page are timed in seconds of processor time, over
all cores; opening it by the clock. A step is a move of the slider, or a page further in the grid.
It is timed by the processor time of the page's main thread, which hardly depends on what else the
machine does. The slider is also timed by the clock, from the event to the end of the frame that
shows it, painted.
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

SIZES = (
    (10_000, 10, None),
    (1_000, 1_000, None),
    (6_000, 1_000, None),
    (100_000, 10, 100_000),
    (1_000_000, 3, None),
)
"""Inputs, classes, and inputs to show: None for as many as make a page of some 32 MB."""

MOVES = 40
GROUPS = np.array(["north", "south", "east", "west"])

OPENED = """() => {
  const { startTime, duration } = performance.getEntriesByName("decal:update")[0];
  return startTime + duration;
}"""
MOVED = """async ([kind, moves]) => {
  const part = (testid) => document.querySelector(`[data-testid="${testid}"]`);
  const steps = {
    slider: (move) => {
      const slider = part("caution");
      slider.value = (7 * move) % (Number(slider.max) + 1);
      slider.dispatchEvent(new Event("input"));
    },
    grid: (move) => {
      if (!move) part("as-grid").click();
      part("grid-scroller").scrollTop += 400;
    },
  };
  const painted = () => new Promise((done) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel(); // a message arrives once the frame is painted
    port1.onmessage = done;
    port2.postMessage(0);
  }));
  const times = [];
  for (let move = 0; move < moves; move++) {
    await painted();
    const start = performance.now();
    steps[kind](move);
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


def main_thread(session: Any) -> float:
    """Seconds of processor time that the page's main thread has spent on tasks."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moves", type=int, default=MOVES, help="steps of each kind")
    parser.add_argument("--most", type=int, default=10**9, help="leave out sizes of more inputs")
    options = parser.parse_args()
    sizes = [size for size in SIZES if size[0] <= options.most]
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        print(
            "inputs × classes   shown     made in   saved in   page size   ready in   "
            "main thread per step: slider   grid   slider painted, median"
        )
        for n, K, rows in sizes:
            logits, labels = classifier(n, K)
            model = decal.decalibrate(logits, labels, alpha=0.8)
            path = Path(folder) / f"{n}-{K}.html"
            groups = {"site": GROUPS[np.arange(n) % len(GROUPS)]}
            started = time.process_time()
            exploration = explore(model, logits, labels=labels, groups=groups, rows=rows)
            made = time.process_time() - started
            exploration.save(path)
            saved = time.process_time() - started - made
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(path.as_uri())
            page.get_by_test_id("intervals").wait_for(timeout=120_000)
            opened = page.evaluate(OPENED)
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            each, times = {}, {}
            for kind in ("slider", "grid"):
                before = main_thread(session)
                times[kind] = page.evaluate(MOVED, [kind, options.moves])
                each[kind] = 1e3 * (main_thread(session) - before) / options.moves
            page.close()
            shown = exploration.payload.header["inputs"]["count"]
            print(
                f"{f'{n:,} × {K:,}':16}{shown:9,}{made:9.1f} s{saved:9.1f} s"
                f"{path.stat().st_size / 1e6:9.1f} MB{opened / 1e3:9.2f} s"
                f"{each['slider']:27.0f}{each['grid']:7.0f}"
                f"{np.median(times['slider']):19.0f} ms",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
