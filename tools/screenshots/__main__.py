"""Takes the pictures of the dashboard and of the demo for the docs: `make screenshots`."""

import argparse
import asyncio
import shutil
import sys
from pathlib import Path

from playwright.async_api import async_playwright

from tools.screenshots import dashboard, demo

FOLDER = Path("docs/assets")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


async def main(folder: Path, parts: list[str]) -> None:
    """Take the pictures of some parts."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        sys.exit(f"No browser is installed; one of {', '.join(PROGRAMS)} is needed.")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program)
        if dashboard.FOLDER in parts:
            await dashboard.take_dashboard(browser, folder / dashboard.FOLDER)
        if demo.FOLDER in parts:
            await demo.take_demo(browser, folder / demo.FOLDER)
        await browser.close()


if __name__ == "__main__":
    known = [dashboard.FOLDER, demo.FOLDER]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=known, help="which of them, all by default")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    for each in known:
        (given.folder / each).mkdir(parents=True, exist_ok=True)
    asyncio.run(main(given.folder, given.parts or known))
