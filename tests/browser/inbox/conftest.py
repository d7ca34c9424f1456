from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from playwright.async_api import Browser, BrowserContext

from tests.browser.inbox.sites import InboxSite, Tab, new_context, open_tab, running_site, token
from tests.databases import Clones

OpenTab = Callable[..., Awaitable[Tab]]


@pytest.fixture(scope="package")
async def site(clones: Clones) -> AsyncIterator[InboxSite]:
    """Run one site for all tests: each has people of its own."""
    async with clones.lent() as url, running_site(url) as running:
        yield running


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await new_context(browser)
    yield made
    await made.close()


@pytest.fixture
async def open_for(context: BrowserContext, site: InboxSite) -> AsyncIterator[OpenTab]:
    """Open tabs for people, and check at the end that nothing went wrong in them."""
    tabs: list[Tab] = []

    async def opened(user_id: str, **attributes: str) -> Tab:
        tabs.append(await open_tab(context, site, **{"token": token(user_id), **attributes}))
        return tabs[-1]

    yield opened
    assert [complaint for tab in tabs for complaint in tab.complaints] == []
