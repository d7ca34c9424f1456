"""Dashboards of several installations on one host: browsers send a cookie to every port of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.databases import SCHEMA, Clones
from tests.edges.api.dashboard.visits import Visit
from tests.edges.edge import FREE_PORT, listening
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.compose.api import open_api
from tocsin.engine.clock import utc_now
from tocsin.settings.load import load_settings
from tocsin.store.pool import PoolSettings, connect

NOW = "/dashboard/now"


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    """Return a client with one set of cookies for all ports of a host, as browsers have it."""
    async with httpx.AsyncClient(timeout=20) as client:
        yield client


@asynccontextmanager
async def process(database_url: str) -> AsyncIterator[str]:
    """Serve the API on a port of its own."""
    async with open_api(load_settings({}), database_url) as app, listening(app, FREE_PORT) as address:
        yield address


async def sign_in(browser: httpx.AsyncClient, address: str, database_url: str) -> None:
    connection = await connect(database_url, SCHEMA, PoolSettings())
    try:
        key = await create_key(connection, "console", Role.VIEWER, utc_now())
    finally:
        await connection.close()
    browser.base_url = address
    assert (await Visit(browser).sign_in(key.secret)).status_code == 303


async def status(browser: httpx.AsyncClient, address: str) -> int:
    return (await browser.get(address + NOW)).status_code


async def test_signing_in_to_one_leaves_the_session_of_another(
    clones: Clones, browser: httpx.AsyncClient
) -> None:
    async with (
        clones.lent() as one,
        clones.lent() as other,
        process(one) as first,
        process(other) as second,
    ):
        await sign_in(browser, first, one)
        assert (await status(browser, first), await status(browser, second)) == (200, 303)
        await sign_in(browser, second, other)
        assert (await status(browser, first), await status(browser, second)) == (200, 200)

        await Visit(browser).post("/dashboard/sign-out")

        assert (await status(browser, first), await status(browser, second)) == (200, 303)


async def test_a_session_is_one_of_every_process_on_the_database_and_outlives_them(
    database_url: str, browser: httpx.AsyncClient
) -> None:
    async with process(database_url) as first:
        await sign_in(browser, first, database_url)
        async with process(database_url) as second:
            assert (await status(browser, first), await status(browser, second)) == (200, 200)
    async with process(database_url) as restarted:
        assert await status(browser, restarted) == 200
