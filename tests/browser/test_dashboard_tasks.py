"""What operators do for a person, with a type and with single dead letters, through a real browser."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.console import MOST_A_DAY, Console, running_console
from tests.browser.operating import add_lags, fill_operating
from tests.browser.test_dashboard import sign_in, tab_to
from tests.browser.visits import Visit
from tests.databases import SCHEMA, Clones
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now
from tocsin.engine.settle.replays import Replayer
from tocsin.store.pool import PoolSettings, open_pool


@pytest.fixture(scope="module")
async def desk(clones: Clones) -> AsyncIterator[Console]:
    """Serve one dashboard for all tests of this module, with a worker's replays."""
    async with (
        clones.lent() as url,
        open_pool(url, SCHEMA, PoolSettings(size=4)) as pool,
        running_console(pool) as console,
    ):
        await fill_operating(pool, utc_now())
        replayer = asyncio.create_task(Replayer(pool, utc_now).run())
        yield console
        replayer.cancel()
        await asyncio.gather(replayer, return_exceptions=True)


@pytest.fixture
async def page(browser: Browser, desk: Console) -> AsyncIterator[Page]:
    """Sign in as an admin, and see at the end that nothing went wrong on the pages."""
    context = await browser.new_context(reduced_motion="reduce")
    visit = Visit(await context.new_page(), desk.url)
    await sign_in(visit.page, desk, Role.ADMIN)
    yield visit.page
    await context.close()
    assert visit.complaints == []
    assert visit.requests_elsewhere == []


async def section(page: Page, name: str | re.Pattern[str]) -> Locator:
    found = page.get_by_role("region", name=name, exact=True)
    await expect(found).to_be_visible()
    return found


async def test_chosen_dead_letters_are_replayed_by_keyboard_alone(page: Page) -> None:
    await tab_to(page, page.get_by_role("link", name="Dead letters"))
    await page.keyboard.press("Enter")
    await tab_to(page, page.get_by_role("link", name="UNREGISTERED"))
    await page.keyboard.press("Enter")
    boxes = page.get_by_role("checkbox", name=re.compile("^Choose the delivery to"))
    await expect(boxes).to_have_count(5)
    await expect(page.get_by_role("button", name="Replay chosen")).to_be_disabled()

    for number in (1, 3):
        await tab_to(page, boxes.nth(number))
        await page.keyboard.press("Space")
    await expect(page.get_by_role("button", name="Replay chosen (2)")).to_be_enabled()
    # Enter on a box sends its form.
    await page.keyboard.press("Enter")

    await expect(page.get_by_text("Replay of 2 deliveries started.")).to_be_visible()
    await expect(page.get_by_text("2 of 2 replayed")).to_be_visible()
    await expect(page.get_by_text("finished", exact=True)).to_be_visible()
    await expect(page.locator("dt", has_text="Chosen")).to_be_visible()


async def test_all_of_a_page_are_chosen_at_once(page: Page, desk: Console) -> None:
    await page.goto(f"{desk.url}/dashboard/dead-letters/cause?state=rejected")
    every = page.get_by_role("checkbox", name="Choose all on this page")
    await every.check()
    await expect(page.get_by_role("button", name="Replay chosen (5)")).to_be_enabled()
    await page.get_by_role("checkbox", name=re.compile("^Choose the delivery to")).first.uncheck()

    assert await every.evaluate("(box) => [box.checked, box.indeterminate]") == [False, True]
    await page.get_by_role("button", name="Replay chosen (4)").click()
    await expect(page.get_by_text("Replay of 4 deliveries started.")).to_be_visible()


async def test_dead_letters_are_exported(page: Page, desk: Console) -> None:
    await page.goto(f"{desk.url}/dashboard/dead-letters/cause?state=dead")
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Export", exact=True).click()
    file = await (await download.value).path()

    lines = (await asyncio.to_thread(Path(file).read_text)).splitlines()
    assert {json.loads(line)["state"] for line in lines} == {"dead"}


async def test_a_person_is_understood_and_exported(page: Page) -> None:
    await page.get_by_role("link", name="People").click()
    await page.get_by_label("User id").fill("ada")
    await page.get_by_role("button", name="Look up").click()

    facts = await section(page, "Facts")
    await expect(facts).to_contain_text("Europe/London by person")
    await expect(facts).to_contain_text(re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d\d:\d\d"))
    await expect(await section(page, "What they got and did not get")).to_contain_text(
        "the person does not want this category by this channel"
    )
    await expect(await section(page, "Limits used")).to_contain_text(f"of {MOST_A_DAY}")
    await expect(await section(page, "Preferences")).to_contain_text("push: no")
    devices = await section(page, "Devices")
    await expect(devices.get_by_role("rowheader")).to_have_text(["iPhone 17", "Pixel 9"])
    await expect(await section(page, "Newest notifications")).to_contain_text("new_customer")

    async with page.expect_download() as download:
        await page.get_by_role("link", name="Export").click()
    exported = json.loads(await asyncio.to_thread(Path(await (await download.value).path()).read_text))
    assert exported["user_id"] == "ada"


async def test_a_person_is_erased(page: Page, desk: Console) -> None:
    await page.goto(f"{desk.url}/dashboard/people/linus")
    await page.get_by_label("User id, to confirm").fill("linus")
    await page.get_by_role("button", name="Erase this person").click()

    await expect(page.get_by_text(re.compile("Erased: 1 devices"))).to_be_visible()
    assert await desk.pool.fetchval("select count(*) from devices where user_id = 'linus'") == 0


async def test_a_type_is_previewed_in_every_language_and_explained(page: Page) -> None:
    await page.get_by_role("link", name="Types").click()
    await page.get_by_role("link", name="invoice_due", exact=True).click()
    header = page.get_by_role("rowheader", name="type:invoice_due", exact=True)
    toggles = (await section(page, "Toggles")).get_by_role("row").filter(has=header)
    for shown in ("off", "1", "the amount is wrong in Turkish", "night-shift (key 0190)", "25 min"):
        await expect(toggles).to_contain_text(shown)
    messages = (await section(page, "Messages")).get_by_role("article")
    names = [await each.get_attribute("aria-label") or "" for each in await messages.all()]
    channels, locales = zip(*(name.split(" in ") for name in names), strict=True)
    assert set(channels) >= {"push", "email"}
    assert len(set(locales)) > 1
    # Every channel has every language.
    assert len(names) == len(set(names)) == len(set(channels)) * len(set(locales))

    await page.get_by_role("link", name="Types").first.click()
    await page.get_by_role("link", name="new_customer", exact=True).click()
    await page.get_by_role("textbox", name="Payload").first.fill('{"customer_name": "Alan Turing"}')
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_label("push in en")).to_contain_text("Alan Turing")
    await page.get_by_label("User id or address").fill("grace")
    await page.get_by_role("button", name="Explain").click()
    explained = await section(page, re.compile("What would happen at"))
    await expect(explained).to_contain_text("push:user:grace")
    await expect(explained.locator(".timeline .what").first).to_be_visible()


async def test_a_count_before_cancelling_goes_on_by_itself(
    page: Page, desk: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.engine.settle.cancelling.COUNTED", 1)
    monkeypatch.setattr("tocsin.api.dashboard.pages.scheduled.COUNT_SECONDS", 0.0)

    await page.goto(f"{desk.url}/dashboard/scheduled/cancel?type=invoice_due&producer=billing")

    await expect(page.get_by_text("6 deliveries would be cancelled", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Cancel them").click()
    await expect(page.get_by_text(re.compile("deliver(y|ies) cancelled"))).to_be_visible()


async def test_the_lag_of_each_source_is_shown(page: Page, desk: Console) -> None:
    await add_lags(desk.pool)
    await page.get_by_role("link", name="Producers").click()
    sources = await section(page, "Outboxes, streams and queues")

    await expect(sources.get_by_role("row", name="shop")).to_contain_text("1,240")
    await expect(sources.get_by_role("row", name="orders")).to_contain_text("1789550000000-0")
    failing = sources.get_by_role("row", name="billing")
    await expect(failing).to_contain_text("failing")
    await expect(failing).to_contain_text("12 tries in a row failed: AccessDenied")


async def test_what_is_scheduled_is_shown_by_hour_and_zone(page: Page, desk: Console) -> None:
    await desk.pool.execute("update users set timezone = 'Asia/Kathmandu' where user_id = 'sara'")
    await desk.pool.execute("update deliveries set user_id = 'sara' where user_id = 'ada'")
    await page.get_by_role("link", name="Scheduled").click()

    # It is five hours and forty-five minutes ahead.
    zones = page.locator(".zones div", has_text="Asia/Kathmandu")
    await expect(zones.first).to_have_text(re.compile(r"^\d\d:45"))
