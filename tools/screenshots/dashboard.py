"""The pictures of the dashboard."""

from itertools import product
from pathlib import Path

from playwright.async_api import Browser, Page

from tests.browser.console import Console, running_console
from tests.browser.operating import fill_operating
from tests.databases import SCHEMA, migrated_template, running_server, with_database
from tocsin.api.auth.oidc.settings import OidcSettings
from tocsin.api.auth.roles import Role
from tocsin.api.settings import DashboardSettings
from tocsin.engine.clock import utc_now
from tocsin.store.pool import PoolSettings, open_pool
from tools.screenshots.sizes import SCHEMES, SIZES, Scheme, Size

FOLDER = "dashboard"
DASHBOARD = DashboardSettings(public_url="http://localhost:8470")
ISSUER = OidcSettings(issuer="https://id.example.com", client_id="tocsin", admins=["platform"])
SIGN_IN = "sign-in"
PAGES = {
    SIGN_IN: "/dashboard/sign-in",
    "now": "/dashboard/now",
    "notifications": "/dashboard/notifications",
    "notification": "/dashboard/notifications/{delivered}",
    "dead-letters": "/dashboard/dead-letters",
    "cause": "/dashboard/dead-letters/cause?state=dead&code=UNAVAILABLE&provider=fcm&type=new_customer",
    "person": "/dashboard/people/ada",
    "provider": "/dashboard/providers/apns",
    "type": "/dashboard/types/named/invoice_due",
    "scheduled": "/dashboard/scheduled",
    "producers": "/dashboard/producers",
    "suppressions": "/dashboard/suppressions",
    "keys": "/dashboard/keys",
    "sessions": "/dashboard/sessions",
    "audit": "/dashboard/audit",
}


async def sign_in(page: Page, console: Console) -> None:
    """Sign in as an admin."""
    await page.goto(f"{console.url}/dashboard")
    await page.get_by_label("API key").fill(console.keys[Role.ADMIN])
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("heading", level=1, name="Now").wait_for()


async def take_view(browser: Browser, console: Console, size: Size, scheme: Scheme, folder: Path) -> None:
    """Take the pictures of every page in one size and colour scheme."""
    query = "select notification_id from deliveries where state = 'delivered' limit 1"
    delivered = await console.pool.fetchval(query)
    context = await browser.new_context(viewport=SIZES[size], color_scheme=scheme, reduced_motion="reduce")
    page = await context.new_page()
    for name, path in PAGES.items():
        await page.goto(console.url + path.format(delivered=delivered))
        await page.screenshot(path=folder / f"{name}-{size}-{scheme}.png")
        if name == SIGN_IN:
            await sign_in(page, console)
    await context.close()


async def take_dashboard(browser: Browser, folder: Path) -> None:
    """Serve a dashboard with examples and take its pictures."""
    with running_server() as server:
        async with (
            migrated_template(server) as name,
            open_pool(with_database(server, name), SCHEMA, PoolSettings()) as pool,
            running_console(pool, dashboard=DASHBOARD, oidc=ISSUER) as console,
        ):
            await fill_operating(pool, utc_now())
            for size, scheme in product(SIZES, SCHEMES):
                await take_view(browser, console, size, scheme, folder)
