"""Takes the README's picture of the explorer, of the demo's page: python docs/screenshot.py"""

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
    """Open the demo's page at a text with two languages left."""
    target = STATIC / "explorer.png"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        demo = run_demo(seed=0, folder=Path(folder))
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=FLAGS, headless=True
        )
        page = browser.new_page(viewport=SIZE, device_scale_factor=1.5)
        address = f"file://{folder}/explorer.html#input={demo.shown['surest tie']}"
        page.goto(address)
        page.get_by_test_id("spider").wait_for()
        page.screenshot(path=target)
        browser.close()
    # A palette of 128 colours is a quarter of the size and looks the same.
    with Image.open(target) as picture:
        picture.convert("RGB").quantize(128).save(target, optimize=True)
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
