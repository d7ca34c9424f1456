"""Every page of the dashboard in four views: no serious finding of axe, and nothing wider than the window."""

from collections.abc import AsyncIterator
from itertools import product
from typing import Any, Literal, TypeAlias

import pytest
from playwright.async_api import Browser, Page

from tests.browser.console import Console, running_console
from tests.browser.hostile import STRANGER, fill_hostile
from tests.browser.operating import fill_operating
from tests.browser.test_dashboard import sign_in
from tests.browser.visits import Visit
from tests.databases import SCHEMA, Clones
from tests.javascript.packages import package
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now
from tocsin.store.pool import PoolSettings, open_pool

Scheme: TypeAlias = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
WIDTHS = (1280, 390)
NAMED = {"dead": ("dead", "linus"), "delivered": ("delivered", "ada"), "hostile": ("dead", STRANGER)}
"""The state and the user of deliveries whose notifications are shown."""
PAGES = {
    "watching": (
        "/dashboard/now",
        "/dashboard/now?span=7d&measure=due",
        "/dashboard/notifications",
        "/dashboard/notifications?user=nobody",
        "/dashboard/notifications?from=2026-03-02T00:00&to=2026-03-01T00:00",
        "/dashboard/notifications/{dead}",
        "/dashboard/notifications/{delivered}",
        "/dashboard/notifications/{hostile}",
        "/dashboard/notifications/00000000-0000-7000-8000-000000000000",
    ),
    "people": (
        "/dashboard/dead-letters",
        "/dashboard/dead-letters/cause?state=dead&code=UNAVAILABLE&provider=fcm&type=new_customer",
        "/dashboard/people",
        "/dashboard/people/ada",
        "/dashboard/people/{stranger}",
        "/dashboard/suppressions",
        "/dashboard/keys",
        "/dashboard/sessions",
        "/dashboard/audit",
    ),
    "operating": (
        "/dashboard/providers",
        "/dashboard/providers/apns",
        "/dashboard/types",
        "/dashboard/types/named/invoice_due",
        "/dashboard/types/toggles/type:invoice_due",
        "/dashboard/scheduled",
        "/dashboard/scheduled/cancel?type=new_customer",
        "/dashboard/producers",
        "/dashboard/producers/refused",
    ),
}


@pytest.fixture(scope="module")
async def full(clones: Clones) -> AsyncIterator[Console]:
    """Serve a dashboard with every kind of example, hostile ones included."""
    async with (
        clones.lent() as url,
        open_pool(url, SCHEMA, PoolSettings(size=3)) as pool,
        running_console(pool) as console,
    ):
        await fill_operating(pool, utc_now())
        await fill_hostile(pool, utc_now())
        yield console


async def serious_findings(page: Page) -> list[Any]:
    """Return what axe finds on a page that is serious or worse."""
    found: list[Any] = await page.evaluate(
        """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
            .filter((each) => ["serious", "critical"].includes(each.impact))
            .map((each) => [each.id, each.nodes.slice(0, 3).map((node) => node.html.slice(0, 120))])"""
    )
    return found


async def shown_in_every_view(page: Page) -> AsyncIterator[str]:
    """Show the page in each view, one after the other; loading it once is enough."""
    for scheme, width in product(SCHEMES, WIDTHS):
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": width, "height": 844})
        # The page takes note of its new size with the next frame.
        await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        yield f"{scheme}, {width} px"


@pytest.mark.parametrize("group", PAGES)
async def test_every_page_is_accessible_and_fits_its_window(
    browser: Browser, full: Console, group: str
) -> None:
    context = await browser.new_context(reduced_motion="reduce")
    visit = Visit(await context.new_page(), full.url)
    await visit.page.goto(f"{full.url}/dashboard/sign-in")
    faults = [("sign-in", each) async for each in view_faults(visit.page)]
    await sign_in(visit.page, full, Role.ADMIN)

    for path in PAGES[group]:
        await visit.page.goto(full.url + path.format(**await names(full)))
        faults += [(path, each) async for each in view_faults(visit.page)]

    await context.close()
    assert faults == [], "\n".join(map(str, faults))
    # Pages of problems have their status.
    assert [each for each in visit.complaints if "status of 4" not in each] == []


async def names(console: Console) -> dict[str, str]:
    """Return the ids in the addresses of pages."""
    query = "select notification_id from deliveries where state = $1 and user_id = $2 limit 1"
    found = {name: str(await console.pool.fetchval(query, *row)) for name, row in NAMED.items()}
    return found | {"stranger": STRANGER}


async def view_faults(page: Page) -> AsyncIterator[Any]:
    await page.evaluate((package("axe-core") / "axe.min.js").read_text())
    async for view in shown_in_every_view(page):
        for finding in await serious_findings(page):
            yield view, finding
        width = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if width > 0:
            yield view, f"{width} px too wide"
