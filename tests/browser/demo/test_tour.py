"""The guided tour, through a real browser."""

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.demo.demos import RunningDemo
from tests.browser.test_accessibility import serious_findings
from tests.browser.test_dashboard import tab_to
from tests.javascript.packages import package

LONGEST_STEP = 60_000
STEPS = (
    ("A push arrives", ["202 Accepted", "kerem: sent by apns", "“Yeni müşteri”"]),
    ("Sent twice, received once", ["accepted", "duplicate", "409", "On ada's phone: 1 notification"]),
    ("Never at night", ["ada: sent", "linh: scheduled until 09:0", "quiet hours 22:00-09:00"]),
    ("Every silence has a reason", ["mina: skipped, opted_out"]),
    ("A provider breaks", ["Circuit breaker of fcm: open", "12 retrying", "12 of 12 sent, 0 lost"]),
    ("An app is uninstalled", ["kerem: gone, Unregistered", "Device retired", "Dead letters of kerem: "]),
    (
        "Search, find out, replay",
        ["a new token is registered", "Replayed: 1; left out: 0", "kerem: sent by apns"],
    ),
)


async def run_step(page: Page, title: str, wanted: list[str], *, press: str = "Enter") -> None:
    """Press the button of a step by keyboard and wait for what it shows."""
    await expect(page.locator(".tour h3")).to_have_text(title)
    await tab_to(page, page.locator("#run-step"))
    await page.keyboard.press(press)
    observations = page.get_by_role("list", name="What happened")
    for text in wanted:
        await expect(observations).to_contain_text(text, timeout=LONGEST_STEP)
    await expect(observations).not_to_contain_text("Waiting for the effect")
    await expect(page.locator(".stepper [aria-current]")).to_have_class("done")


def frame_heading(page: Page) -> Locator:
    return page.frame_locator("iframe[name=dashboard]").get_by_role("heading", level=1)


async def test_the_whole_tour_by_keyboard_alone(page: Page) -> None:
    for number, (title, wanted) in enumerate(STEPS, start=1):
        await run_step(page, title, wanted)
        if number < len(STEPS):
            await tab_to(page, page.locator("#next-step"))
            await page.keyboard.press("Enter")
            await expect(page.locator("#run-step")).to_be_focused()

    await expect(page.get_by_text("That was the tour.")).to_be_visible()
    await expect(frame_heading(page)).to_contain_text("new_customer")
    await expect(page.locator("#part-person-kerem .notice-card")).to_have_count(1)
    await tab_to(page, page.get_by_role("link", name="Dead letters"))
    await page.keyboard.press("Enter")
    await expect(frame_heading(page)).to_have_text("Dead letters")


async def test_the_last_step_needs_no_other(page: Page) -> None:
    await page.get_by_role("button", name="Step 7").click()

    await run_step(page, *STEPS[6], press="Space")


async def test_the_dashboard_signs_in_again_after_signing_out(page: Page, demo: RunningDemo) -> None:
    tab = await page.context.new_page()
    await tab.goto(f"{demo.url}dashboard")
    await expect(tab.get_by_role("heading", level=1)).to_have_text("Now")
    await tab.get_by_role("button", name="Sign out", exact=True).click()
    await expect(tab.get_by_label("API key")).to_be_visible()

    await page.reload()
    await page.get_by_role("radio", name="Dashboard").check(force=True)

    await expect(frame_heading(page)).to_have_text("Now")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_is_accessible_and_fits_its_window(page: Page, scheme: str) -> None:
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    await page.get_by_role("button", name="Step 6").click()
    await run_step(page, *STEPS[5])
    await page.get_by_role("switch", name="linh: Night").click()
    await page.get_by_role("radio", name="Timeline").check(force=True)

    await page.evaluate((package("axe-core") / "axe.min.js").read_text())
    for width in (1280, 1024, 390):
        await page.set_viewport_size({"width": width, "height": 844})
        assert await serious_findings(page) == [], width
        assert await page.evaluate("document.documentElement.scrollWidth") == width
