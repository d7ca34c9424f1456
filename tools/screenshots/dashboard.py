"""The pictures of the dashboard."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

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
    "keys": "/dashboard/keys",
}


class Picture(NamedTuple):
    """A page in one size and colour scheme."""

    page: str
    size: Size
    scheme: Scheme

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.page}-{self.size}-{self.scheme}.png"


IN_DOCS = (
    *(Picture(name, "wide", "light") for name in PAGES if name != "notifications"),
    Picture("now", "wide", "dark"),
    Picture("now", "narrow", "dark"),
    Picture("notification", "narrow", "dark"),
)


def every_picture() -> Iterator[Picture]:
    """List all pages in all sizes and colour schemes."""
    for name, size, scheme in product(PAGES, SIZES, SCHEMES):
        yield Picture(name, size, scheme)


async def sign_in(page: Page, console: Console) -> None:
    """Sign in as an admin."""
    await page.goto(f"{console.url}/dashboard")
    await page.get_by_label("API key").fill(console.keys[Role.ADMIN])
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("heading", level=1, name="Now").wait_for()


async def take(browser: Browser, console: Console, picture: Picture, folder: Path) -> None:
    """Open a page and take its picture."""
    query = "select notification_id from deliveries where state = 'delivered' limit 1"
    delivered = await console.pool.fetchval(query)
    context = await browser.new_context(
        viewport=SIZES[picture.size], color_scheme=picture.scheme, reduced_motion="reduce"
    )
    page = await context.new_page()
    if picture.page != SIGN_IN:
        await sign_in(page, console)
    await page.goto(console.url + PAGES[picture.page].format(delivered=delivered))
    await page.screenshot(path=folder / picture.file)
    await context.close()


async def take_dashboard(browser: Browser, folder: Path, pictures: tuple[Picture, ...]) -> None:
    """Serve a dashboard with examples and take its pictures."""
    with running_server() as server:
        async with (
            migrated_template(server) as name,
            open_pool(with_database(server, name), SCHEMA, PoolSettings()) as pool,
            running_console(pool, dashboard=DASHBOARD, oidc=ISSUER) as console,
        ):
            await fill_operating(pool, utc_now())
            for picture in pictures:
                await take(browser, console, picture, folder)
