import shutil
from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.browser.visits import Visit
from tests.waiting import LONGEST_WAIT
from tocsin.sandbox import Sandbox

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="package")
async def browser() -> AsyncIterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"BROWSER TESTS LEFT OUT: none of {', '.join(PROGRAMS)} is installed")
    expect.set_options(timeout=LONGEST_WAIT * 1_000)
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=program)
        yield running
        await running.close()


@pytest.fixture(scope="package")
async def running_sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(running_sandbox: Sandbox) -> Sandbox:
    running_sandbox.reset()
    return running_sandbox


@pytest.fixture
async def visit(browser: Browser, sandbox: Sandbox) -> AsyncIterator[Visit]:
    """Open the sandbox's page."""
    context = await browser.new_context(reduced_motion="reduce")
    made = Visit(await context.new_page(), sandbox.http_url)
    await made.begin()
    yield made
    await context.close()


@pytest.fixture
def page(visit: Visit) -> Iterator[Page]:
    """Give the open page, and see at the end that nothing went wrong on it."""
    yield visit.page
    assert visit.complaints == []
    assert visit.requests_elsewhere == []
