"""Signing in at an issuer in a real browser, where cookies and the policy of pages are enforced."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, expect

from tests.acceptance.processes import free_port
from tests.browser.test_accessibility import view_faults
from tests.browser.visits import Visit
from tests.edges.api.dashboard.oidc.issuer import Issuer, running_issuer
from tests.edges.api.dashboard.oidc.sign_ins import oidc_settings
from tests.edges.edge import listening, services
from tocsin.api.app import create_app
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.api.settings import DashboardSettings, HttpSettings
from tocsin.engine.clock import utc_now
from tocsin.store.pool import Pool


@asynccontextmanager
async def signing_in(pool: Pool, issuer_url: str) -> AsyncIterator[str]:
    """Serve a dashboard whose people sign in at an issuer; yield its address."""
    port = free_port()
    dashboard = DashboardSettings(public_url=f"http://127.0.0.1:{port}")
    parts = services(pool, dashboard=dashboard, oidc=oidc_settings(issuer_url, label="Example ID"))
    async with listening(create_app(parts), HttpSettings(port=port)) as url:
        yield url


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with running_issuer() as running:
        yield running


@pytest.fixture
async def address(pool: Pool, issuer: Issuer) -> AsyncIterator[str]:
    async with signing_in(pool, issuer.url) as url:
        yield url


@pytest.fixture
async def visit(browser: Browser, address: str) -> AsyncIterator[Visit]:
    context = await browser.new_context(reduced_motion="reduce")
    made = Visit(await context.new_page(), address)
    yield made
    await context.close()
    assert made.complaints == []


async def sign_in(page: Page, url: str) -> None:
    await page.goto(url)
    await page.get_by_role("link", name="Sign in with Example ID").click()


async def test_somebody_signs_in_and_out_at_the_issuer(visit: Visit, address: str, issuer: Issuer) -> None:
    page = visit.page
    await sign_in(page, f"{address}/dashboard/notifications?state=dead")

    await expect(page.get_by_role("heading", level=1)).to_have_text("Notifications")
    assert page.url == f"{address}/dashboard/notifications?state=dead"
    await expect(page.get_by_text("ada", exact=True)).to_be_visible()
    await page.get_by_role("link", name="Sessions").click()
    await expect(page.get_by_role("row", name="ada")).to_contain_text("this session")

    await page.get_by_role("button", name="Sign out", exact=True).click()

    await expect(page.get_by_role("link", name="Sign in with Example ID")).to_be_visible()
    [asked] = issuer.signed_out
    assert asked["post_logout_redirect_uri"] == f"{address}/dashboard/sign-in"
    assert asked["id_token_hint"].startswith("eyJ")
    await page.goto(f"{address}/dashboard/now")
    await expect(page.get_by_label("API key")).to_be_visible()


async def test_two_tabs_sign_in_side_by_side(visit: Visit, address: str) -> None:
    first, second = visit.page, await visit.page.context.new_page()
    await first.goto(f"{address}/dashboard/people")
    await second.goto(f"{address}/dashboard/now")

    for page in (second, first):
        await page.get_by_role("link", name="Sign in with Example ID").click()

    await expect(first.get_by_role("heading", level=1)).to_have_text("People")
    await expect(second.get_by_role("heading", level=1)).to_have_text("Now")


async def test_somebody_without_a_role_reads_why_and_signs_in_with_a_key(
    visit: Visit, address: str, issuer: Issuer, pool: Pool
) -> None:
    issuer.claims["groups"] = ["guests"]
    page = visit.page
    await sign_in(page, f"{address}/dashboard")
    await expect(page.get_by_role("alert")).to_contain_text("signed in as ada, who has no role here")
    await visit.complained("403 (Forbidden)")
    visit.complaints.clear()

    key = (await create_key(pool, "operations", Role.VIEWER, utc_now())).secret
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in", exact=True).click()

    await expect(page.get_by_role("heading", level=1)).to_have_text("Now")


async def test_the_form_is_accessible_and_fits_its_window(visit: Visit, address: str) -> None:
    await visit.page.goto(f"{address}/dashboard/sign-in")

    assert [fault async for fault in view_faults(visit.page)] == []
