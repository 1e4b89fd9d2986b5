"""Takes pictures of the explorer: python docs/screenshot.py, after `make docs`

The README's are of the demo's page, those of docs/explorer.md of the page that its code writes.
"""

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pictures import PIXELS, POINTS, SMALLEST
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, Page, sync_playwright

from decal.cli.demo import run_demo

STATIC = Path(__file__).parent / "_static"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SCALE = 1.5
SMALLEST_ON_PAGE = """() => {
    const sizes = [], words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (words.nextNode()) {
        const around = words.currentNode.parentElement;
        if (words.currentNode.data.trim() && around.checkVisibility())
            sizes.push(parseFloat(getComputedStyle(around).fontSize));
    }
    return Math.min(...sizes);
}"""


def main() -> None:
    """Open both pages, on light and on dark."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        demo = run_demo(seed=0, folder=Path(folder))
        tie = f"file://{folder}/explorer.html#input={demo.shown['surest tie']}"
        digits = f"file://{STATIC}/digits.html"
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=FLAGS, headless=True
        )
        for end, mode in (("", "light"), ("_dark", "dark")):
            with opened(browser, tie, mode, 1440) as page:
                save(page, {"x": 0, "y": 0, "width": 1440, "height": 900}, f"explorer{end}.png")
            for width, name in ((704, "explorer_input"), (358, "explorer_input_narrow")):
                with opened(browser, digits, mode, width) as page:
                    top = page.locator("section.detail").bounding_box()["y"] - 8
                    bottom = page.get_by_text("Three of the classes").bounding_box()["y"] - 12
                    part = {"x": 0, "y": top, "width": width, "height": bottom - top}
                    save(page, part, f"{name}{end}.png")
        browser.close()


@contextmanager
def opened(browser: Browser, address: str, mode: str, width: int) -> Iterator[Page]:
    """A page, drawn."""
    page = browser.new_page(
        viewport={"width": width, "height": 900}, device_scale_factor=SCALE, color_scheme=mode
    )
    page.goto(address)
    page.get_by_test_id("spider").wait_for()
    yield page
    page.close()


def save(page: Page, part: dict[str, float], name: str) -> None:
    """Save a part of a page, in a palette: a quarter of the size, and it looks the same."""
    said = PngInfo()
    said.add_text(SMALLEST, f"{page.evaluate(SMALLEST_ON_PAGE) * POINTS / PIXELS:.2f}")
    dots = (PIXELS * SCALE, PIXELS * SCALE)
    with Image.open(io.BytesIO(page.screenshot(full_page=True, clip=part))) as picture:
        drawn = picture.convert("RGB").quantize(128, kmeans=1)
    drawn.save(STATIC / name, optimize=True, dpi=dots, pnginfo=said)
    print(f"wrote {STATIC / name}")


if __name__ == "__main__":
    main()
