"""Takes the README's pictures of the explorer, of the demo's page: python docs/screenshot.py"""

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from decal._cli.demo_results import run_demo

STATIC = Path(__file__).parent / "_static"
SIZE = {"width": 1440, "height": 900}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> None:
    """Open the demo's page at a text with two languages left, on light and on dark."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        demo = run_demo(seed=0, folder=Path(folder))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=FLAGS, headless=True
        )
        for mode, name in (("light", "explorer.png"), ("dark", "explorer_dark.png")):
            page = browser.new_page(viewport=SIZE, device_scale_factor=1.5, color_scheme=mode)
            page.goto(f"file://{folder}/explorer.html#input={demo.shown['surest tie']}")
            page.get_by_test_id("spider").wait_for()
            page.screenshot(path=STATIC / name)
            # A palette of 128 colours is a quarter of the size and looks the same.
            with Image.open(STATIC / name) as picture:
                picture.convert("RGB").quantize(128).save(STATIC / name, optimize=True)
            print(f"wrote {STATIC / name}")
        browser.close()


if __name__ == "__main__":
    main()
