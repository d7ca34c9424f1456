from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.databases import fresh_database
from tests.ingress.outbox.outboxes import Shop, Tocsin
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.ingress.outbox.install import install
from tocsin.store.pool import Pool


@pytest.fixture
async def shop_url(server_url: str) -> AsyncIterator[str]:
    """Give the address of an application's own database."""
    async with fresh_database(server_url) as url:
        yield url


@pytest.fixture
async def bare_shop(shop_url: str) -> AsyncIterator[Shop]:
    """Give an application without an outbox."""
    connection = await asyncpg.connect(shop_url)
    try:
        yield Shop(shop_url, connection)
    finally:
        await connection.close()


@pytest.fixture
async def shop(bare_shop: Shop) -> Shop:
    await install(bare_shop.connection, "public", "tocsin_outbox")
    return bare_shop


@pytest.fixture
def tocsin(pool: Pool) -> Tocsin:
    return Tocsin(pool, load_catalog(shipped_catalog()))
