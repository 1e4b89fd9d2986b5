"""Takes pictures of the explorer: python docs/screenshot.py, after `make docs`

They are of the input on which the page opens that the code of docs/explorer.md writes.
"""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pictures import PIXELS, POINTS, SMALLEST
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import Browser, Page, sync_playwright

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
    """Open the page, on light and on dark."""
    languages = f"file://{STATIC}/languages.html"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=FLAGS, headless=True
        )
        for end, mode in (("", "light"), ("_dark", "dark")):
            for width, name in ((704, "explorer_input"), (358, "explorer_input_narrow")):
                with opened(browser, languages, mode, width) as page:
                    top = page.locator("section.detail").bounding_box()["y"] - 8
                    bottom = page.get_by_test_id("folded").bounding_box()["y"] - 4
                    part = {"x": 0, "y": top, "width": width, "height": bottom - top}
                    save(page, part, f"{name}{end}.png")
        browser.close()


@contextmanager
def opened(browser: Browser, address: str, mode: str, width: int) -> Iterator[Page]:
    """A page, drawn."""
    page = browser.new_page(
        viewport={"width": width, "height": 800}, device_scale_factor=SCALE, color_scheme=mode
    )
    page.goto(address)
    page.get_by_test_id("intervals").wait_for()
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
