from collections.abc import AsyncIterator

import httpx
import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.demo.demos import RunningDemo, running_demo
from tests.browser.visits import Visit


@pytest.fixture(scope="package")
async def demo() -> AsyncIterator[RunningDemo]:
    """Give one demo to all tests of this folder."""
    async with running_demo() as running:
        yield running


@pytest.fixture
async def page(browser: Browser, demo: RunningDemo) -> AsyncIterator[Page]:
    """Open the page of a demo in which everything is put back, and see at the end that nothing went wrong."""
    async with httpx.AsyncClient() as http:
        answer = await http.post(
            f"{demo.url}act", data={"action": "reset"}, headers={"Origin": demo.origin}, timeout=30
        )
        assert answer.status_code == 303, answer.text
    context = await browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    visit = Visit(await context.new_page(), demo.origin)
    await visit.page.goto(demo.url)
    await expect(visit.page.get_by_role("heading", name="A push arrives")).to_be_visible()
    yield visit.page
    await context.close()
    assert visit.complaints == []
    assert [
        each for each in visit.requests_elsewhere if not each.startswith(f"{demo.api_url}/dashboard")
    ] == []
