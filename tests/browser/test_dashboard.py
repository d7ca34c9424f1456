"""The main task of each page of the dashboard, through a real browser."""

import asyncio
import re
from collections.abc import AsyncIterator

import msgspec
import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.console import Console, running_console
from tests.browser.visits import Visit
from tests.databases import SCHEMA, Clones
from tests.rows import add_notification
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now
from tocsin.engine.settle.replays import Replayer
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.pool import PoolSettings, open_pool

MOST_TABS = 60


@pytest.fixture(scope="module")
async def console(clones: Clones) -> AsyncIterator[Console]:
    """Serve one dashboard for all tests of this module."""
    async with (
        clones.lent() as url,
        open_pool(url, SCHEMA, PoolSettings(size=3)) as pool,
        running_console(pool) as running,
    ):
        yield running


async def sign_in(page: Page, console: Console, role: Role) -> None:
    await page.goto(f"{console.url}/dashboard")
    await page.get_by_label("API key").fill(console.keys[role])
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Now")


@pytest.fixture
async def visit(browser: Browser, console: Console) -> AsyncIterator[Visit]:
    """Sign in as an admin, and see at the end that nothing went wrong on the pages."""
    context = await browser.new_context(reduced_motion="reduce")
    made = Visit(await context.new_page(), console.url)
    await sign_in(made.page, console, Role.ADMIN)
    yield made
    await context.close()
    assert made.complaints == []
    assert made.requests_elsewhere == []


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit.page


async def tab_to(page: Page, wanted: Locator) -> None:
    """Move the focus by keyboard until it is where it is wanted."""
    for _ in range(MOST_TABS):
        if await wanted.evaluate("(element) => element === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    pytest.fail("The focus does not get there by keyboard.")


async def test_now_is_streamed_until_the_session_ends(visit: Visit, console: Console) -> None:
    page = visit.page
    await page.goto(f"{console.url}/dashboard/now?span=6h")
    await expect(page.locator(".plot canvas")).to_have_count(2)
    async with console.pool.acquire() as connection:
        await raise_alarms(connection, {Alarm("apns", "BadCertificate", "it has expired"): 1}, utc_now())

    await expect(page.get_by_role("cell", name="it has expired")).to_be_visible()
    await console.pool.execute("delete from dashboard_sessions")

    await expect(page.get_by_label("API key")).to_be_visible()
    await visit.complained("401 (Unauthorized)")
    visit.complaints.clear()


async def test_now_is_polled_where_streams_do_not_get_through(visit: Visit, console: Console) -> None:
    page = visit.page
    await page.route("**/dashboard/now/stream*", lambda route: route.fulfill(status=502, body="no streams"))
    await page.clock.install()
    await page.goto(f"{console.url}/dashboard/now")
    await visit.complained("502 (Bad Gateway)")
    visit.complaints.clear()
    async with console.pool.acquire() as connection:
        await raise_alarms(connection, {Alarm("apns", "BadTopic", "it is not ours"): 1}, utc_now())

    await page.clock.run_for(6_000)

    await expect(page.get_by_role("cell", name="it is not ours")).to_be_visible()
    await expect(page.get_by_text("cannot be refreshed")).to_be_hidden()
    await page.route("**/dashboard/now/live*", lambda route: route.fulfill(status=503, body="away"))
    await page.clock.run_for(6_000)
    await expect(page.get_by_text("cannot be refreshed")).to_be_visible()
    await visit.complained("503 (Service Unavailable)")
    await page.unroute_all()
    async with page.expect_request("**/dashboard/now/stream*"):
        await page.clock.run_for(30_000)
    # Those of the streams that it tried meanwhile.
    visit.complaints[:] = [
        each for each in visit.complaints if not re.search("502 |503 |Response Status", each)
    ]


@pytest.mark.parametrize("is_polled", [False, True], ids=["streamed", "polled"])
async def test_a_refresh_keeps_the_focus_and_how_far_tables_are_scrolled(
    visit: Visit, console: Console, *, is_polled: bool
) -> None:
    page = visit.page
    await page.set_viewport_size({"width": 390, "height": 844})
    if is_polled:
        await page.route("**/dashboard/*/stream*", lambda route: route.fulfill(status=502, body="no streams"))
    async with page.expect_response("**/dashboard/providers/*"):
        await page.goto(f"{console.url}/dashboard/providers")
    if is_polled:
        await visit.complained("502 (Bad Gateway)")
        visit.complaints.clear()
    await page.get_by_role("link", name="apns").focus()
    await page.locator(".table").evaluate("(table) => { table.scrollLeft = 90; table.dataset.old = true; }")

    async with console.pool.acquire() as connection:
        await raise_alarms(connection, {Alarm("fcm", "QuotaExceeded", "too fast"): 1}, utc_now())

    await expect(page.locator(".table[data-old]")).to_have_count(0)
    await expect(page.get_by_role("link", name="apns")).to_be_focused()
    await expect(page.locator(".table")).to_have_js_property("scrollLeft", 90)


async def test_a_notification_is_found_and_its_timeline_read(page: Page, console: Console) -> None:
    await page.goto(f"{console.url}/dashboard/notifications")
    await page.get_by_label("User").fill("linus")
    await page.get_by_label("State").select_option("dead")
    await page.get_by_role("button", name="Search").click()
    await expect(page.get_by_role("row")).to_have_count(3)

    await page.get_by_role("row").nth(1).get_by_role("link").click()

    await expect(page.locator(".timeline .what")).to_have_text(
        ["Accepted", "Planned", "preference", "quiet hours", *["Attempt failed: retry"] * 2, "dead"]
    )
    await expect(page.locator(".push-body")).to_have_text("Grace Hopper just signed up.")


async def test_a_hostile_payload_stays_a_text(page: Page, console: Console) -> None:
    name = "<img src=x onerror=\"document.title = 'a handler ran'\">"
    payload = msgspec.json.encode({"customer_name": name}).decode()
    made = await add_notification(console.pool, payload=payload)

    await page.goto(f"{console.url}/dashboard/notifications/{made}")

    await expect(page.locator(".push-body")).to_contain_text(name)
    await expect(page).to_have_title("new_customer · Tocsin")


async def test_a_cause_is_replayed_by_keyboard_alone(page: Page, console: Console) -> None:
    replayer = asyncio.create_task(Replayer(console.pool, utc_now).run())
    try:
        await tab_to(page, page.get_by_role("link", name="Dead letters"))
        await page.keyboard.press("Enter")
        await tab_to(page, page.get_by_role("link", name="UNREGISTERED"))
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_contain_text("UNREGISTERED")
        await tab_to(page, page.get_by_label("Deliveries a second"))
        await page.keyboard.press("Control+A")
        await page.keyboard.type("1000")
        await tab_to(page, page.get_by_role("button", name="Replay 5"))
        await page.keyboard.press("Enter")

        await expect(page.get_by_text("Replay of 5 deliveries started.")).to_be_visible()
        await expect(page.get_by_text("5 of 5 replayed")).to_be_visible()
        await expect(page.get_by_text("finished", exact=True)).to_be_visible()
    finally:
        replayer.cancel()
        await asyncio.gather(replayer, return_exceptions=True)


async def test_a_test_is_sent_to_a_person(page: Page, console: Console) -> None:
    await page.goto(f"{console.url}/dashboard/people")
    await page.get_by_label("User id").fill("grace")
    await page.get_by_role("button", name="Look up").click()
    await page.get_by_label("Type").select_option("new_customer")
    await page.get_by_role("button", name="Choose").click()
    await page.get_by_label("Payload of new_customer").fill('{"customer_name": "Alan Turing"}')
    await page.get_by_role("button", name="Send to grace").click()

    await expect(page.get_by_text("The test was accepted.")).to_be_visible()
    await expect(page.locator(".push-body")).to_have_text("Alan Turing just signed up.")
