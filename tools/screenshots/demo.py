"""The pictures of the demo's page, and the animation of its tour."""

import io
from itertools import product
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.async_api import Browser, Page, expect

from tests.browser.demo.demos import RunningDemo, running_demo
from tools.screenshots.sizes import SCHEMES, SIZES, Scheme, Size

FOLDER = "demo"
STEPS = 7
QUIET_HOURS = 3
OUTAGE = 5
_LONGEST_STEP = 60_000
_ANIMATED = (960, 600)
_OPENED_MS, _DONE_MS, _LAST_MS = 1_300, 2_600, 4_500


class Frame(NamedTuple):
    """A picture of the animation and how long it is shown."""

    picture: Image.Image
    milliseconds: int


async def take_demo(browser: Browser, folder: Path) -> None:
    """Run a demo, take the pictures of its page and walk through its tour."""
    async with running_demo() as demo:
        frames = await _walk(browser, demo)
        _save_animation(frames, folder / "tour.webp")
        for scheme, size in product(SCHEMES, SIZES):
            await _take(browser, demo, scheme, size, folder / f"demo-{size}-{scheme}.png")


async def _walk(browser: Browser, demo: RunningDemo) -> list[Frame]:
    """Take pictures of each step before and after its action."""
    page = await _opened(browser, demo, "light", "wide")
    frames = []
    for number in range(1, STEPS + 1):
        frames.append(Frame(await _picture(page), _OPENED_MS))
        await page.locator("#run-step").click()
        if number == OUTAGE:
            await expect(page.locator(".observations")).to_contain_text("retrying", timeout=_LONGEST_STEP)
            frames.append(Frame(await _picture(page), _DONE_MS))
        await _wait_until_done(page)
        frames.append(Frame(await _picture(page), _DONE_MS if number < STEPS else _LAST_MS))
        if number < STEPS:
            await page.locator("#next-step").click()
            await expect(page.get_by_text(f"step {number + 1} of {STEPS}")).to_be_visible()
    await page.context.close()
    return frames


async def _take(browser: Browser, demo: RunningDemo, scheme: Scheme, size: Size, file: Path) -> None:
    """Take a picture of the step about quiet hours."""
    page = await _opened(browser, demo, scheme, size)
    await page.locator("#reset").click()
    await expect(page.get_by_text("What you send appears here")).to_be_visible()
    await page.get_by_role("button", name="New customer").click()
    await page.locator(f"#open-{QUIET_HOURS}").click()
    await expect(page.get_by_text(f"step {QUIET_HOURS} of {STEPS}")).to_be_visible()
    await page.locator("#run-step").click()
    await _wait_until_done(page)
    await page.evaluate("scrollTo(0, 0)")
    await page.screenshot(path=file)
    await page.context.close()


async def _opened(browser: Browser, demo: RunningDemo, scheme: Scheme, size: Size) -> Page:
    context = await browser.new_context(viewport=SIZES[size], color_scheme=scheme, reduced_motion="reduce")
    page = await context.new_page()
    await page.goto(demo.url)
    return page


async def _wait_until_done(page: Page) -> None:
    """Wait for the end of the current step, and for the page of the dashboard that it opens."""
    current = page.locator(".stepper [aria-current]")
    await expect(current).to_have_class("done", timeout=_LONGEST_STEP)
    if await page.locator(".tour[data-dashboard]").count():
        dashboard = page.frame_locator("iframe[name=dashboard]")
        await expect(dashboard.get_by_role("heading", level=1)).to_be_visible()
    # What reaches the devices last is drawn by the next poll.
    async with page.expect_response(lambda response: response.url.split("?")[0].endswith("/live")):
        pass


async def _picture(page: Page) -> Image.Image:
    shown = Image.open(io.BytesIO(await page.screenshot()))
    return shown.convert("RGB").resize(_ANIMATED, Image.Resampling.LANCZOS)


def _save_animation(frames: list[Frame], file: Path) -> None:
    first, *others = [frame.picture for frame in frames]
    durations = [frame.milliseconds for frame in frames]
    first.save(file, save_all=True, append_images=others, duration=durations, loop=0, quality=72, method=6)
