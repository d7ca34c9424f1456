"""The main tasks of the pages for operating, through a real browser."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.console import Console, running_console
from tests.browser.operating import fill_operating
from tests.browser.test_dashboard import sign_in
from tests.browser.visits import Visit
from tests.databases import SCHEMA, Clones
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now
from tocsin.store.pool import PoolSettings, open_pool


@pytest.fixture(scope="module")
async def operated(clones: Clones) -> AsyncIterator[Console]:
    """Serve one dashboard for all tests of this module."""
    async with (
        clones.lent() as url,
        open_pool(url, SCHEMA, PoolSettings(size=3)) as pool,
        running_console(pool) as console,
    ):
        await fill_operating(pool, utc_now())
        yield console


@pytest.fixture
async def page(browser: Browser, operated: Console) -> AsyncIterator[Page]:
    """Sign in as an admin, and see at the end that nothing went wrong on the pages."""
    context = await browser.new_context(reduced_motion="reduce")
    visit = Visit(await context.new_page(), operated.url)
    await sign_in(visit.page, operated, Role.ADMIN)
    yield visit.page
    await context.close()
    assert visit.complaints == []
    assert visit.requests_elsewhere == []


async def test_a_provider_is_paused_and_its_producers_run(page: Page) -> None:
    await page.get_by_role("link", name="Providers").click()
    await page.get_by_role("link", name="smtp").click()
    await page.get_by_label("Reason").fill("the password is being changed")
    await page.get_by_role("button", name="Pause smtp").click()
    await expect(page.get_by_text("smtp is paused; its deliveries wait.")).to_be_visible()
    await expect(page.get_by_role("button", name="Resume smtp")).to_be_visible()

    await page.get_by_role("link", name="Producers").click()
    await page.get_by_role("button", name="Run now overdue_invoices").click()
    await expect(page.get_by_text("A worker runs overdue_invoices within a second or two.")).to_be_visible()


async def test_a_key_is_created_and_revoked_and_both_are_in_the_audit(page: Page) -> None:
    await page.get_by_role("link", name="Keys").click()
    await page.get_by_role("textbox", name="Producer").fill("warehouse")
    await page.get_by_label("Role").select_option("producer")
    await page.get_by_role("button", name="Create key").click()
    secret = await page.get_by_label("API key").input_value()
    await page.get_by_role("link", name="Done").click()
    await page.get_by_text(f"Revoke the key {secret[-4:]} of warehouse").click()
    await page.get_by_role("row", name="warehouse").get_by_role("button", name="Revoke").click()
    await expect(page.get_by_text("The key of warehouse that ends in")).to_be_visible()

    await page.get_by_role("link", name="Audit").click()
    await page.get_by_role("link", name="key:warehouse").first.click()
    await expect(page.get_by_role("row").filter(has_text="key.")).to_have_count(2)


async def test_a_type_is_switched_off_and_its_schedule_cancelled(page: Page) -> None:
    await page.get_by_role("link", name="Types").click()
    await page.get_by_role("link", name="new_customer", exact=True).click()
    await expect(page.get_by_label("push in fa")).to_be_visible()
    switched = page.get_by_role("row", name="type:new_customer:push")
    await switched.get_by_text("Switch off").first.click()
    await switched.get_by_label("Reason").fill("the text is wrong")
    await switched.get_by_role("button", name="Switch off").click()
    await expect(page.get_by_text("type:new_customer:push is off; 0 deliveries wait.")).to_be_visible()

    await page.get_by_role("link", name="Scheduled").click()
    await page.get_by_role("link", name="Cancel…").click()
    await page.get_by_label("Type").fill("invoice_due")
    await page.get_by_label("Producer").fill("billing")
    await page.get_by_role("button", name="Count what matches").click()
    await expect(page.get_by_text("6 deliveries would be cancelled")).to_be_visible()
    await page.get_by_role("button", name="Cancel them").click()
    await expect(page.get_by_text("6 deliveries cancelled")).to_be_visible()


async def test_an_address_is_suppressed_and_sent_mail_again(page: Page) -> None:
    await page.get_by_role("link", name="Suppressions").click()
    await page.get_by_role("textbox", name="Address").fill("alan@example.org")
    await page.get_by_role("button", name="Suppress").click()
    await expect(page.get_by_text("alan@example.org is sent no mail from now on.")).to_be_visible()
    await page.get_by_text("Remove alan@example.org").click()
    await page.get_by_role("row", name="alan").get_by_role("button").click()
    await expect(page.get_by_text("alan@example.org is sent mail again.")).to_be_visible()
