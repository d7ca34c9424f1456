"""Takes the pictures of the dashboard for the docs: `make screenshots`."""

import asyncio
import shutil
import sys
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from tests.browser.console import Console, running_console
from tests.databases import SCHEMA, migrated_template, running_server, with_database
from tocsin.api.auth.roles import Role
from tocsin.store.pool import PoolSettings, open_pool

FOLDER = Path("docs/assets/dashboard")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}


async def sign_in(page: Page, console: Console, role: Role) -> None:
    """Sign in with a key of a role."""
    await page.goto(f"{console.url}/dashboard")
    await page.get_by_label("API key").fill(console.keys[role])
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("heading", level=1, name="Now").wait_for()


async def take(browser: Browser, console: Console, folder: Path) -> None:
    """Take a picture of each page, wide and narrow, light and dark."""
    dead = await console.pool.fetchval("select notification_id from deliveries where state = 'dead' limit 1")
    pages = {
        "now": "/dashboard/now",
        "notifications": "/dashboard/notifications",
        "notification": f"/dashboard/notifications/{dead}",
        "dead-letters": "/dashboard/dead-letters",
        "cause": "/dashboard/dead-letters/cause?state=dead&code=UNAVAILABLE&provider=fcm&type=new_customer",
        "person": "/dashboard/people/ada",
    }
    for scheme in ("light", "dark"):
        for size, (width, height) in SIZES.items():
            context = await browser.new_context(
                viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
            )
            page = await context.new_page()
            await page.goto(f"{console.url}/dashboard/sign-in")
            await page.screenshot(path=folder / f"sign-in-{size}-{scheme}.png")
            await sign_in(page, console, Role.ADMIN)
            for name, path in pages.items():
                await page.goto(console.url + path)
                await page.screenshot(
                    path=folder / f"{name}-{size}-{scheme}.png", full_page="--full" in sys.argv
                )
            await context.close()


async def main() -> None:
    """Serve a dashboard with examples and take its pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        sys.exit(f"No browser is installed; one of {', '.join(PROGRAMS)} is needed.")
    with running_server() as server:
        async with (
            migrated_template(server) as name,
            open_pool(with_database(server, name), SCHEMA, PoolSettings()) as pool,
            running_console(pool) as console,
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(executable_path=program)
            await take(browser, console, folder)
            await browser.close()


asyncio.run(main())
