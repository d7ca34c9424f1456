from collections.abc import AsyncIterator
from contextlib import aclosing

import asyncpg
import pytest

from tests.catalogs import shipped
from tests.databases import Clones, fresh_database, name_of
from tests.ingress.outbox.outboxes import Shop, Tocsin, opened_shop
from tocsin.ingress.outbox.install import install
from tocsin.store import notifications
from tocsin.store.pool import Pool


@pytest.fixture
async def shop_url(server_url: str) -> AsyncIterator[str]:
    """Give the address of an application's own database."""
    async with fresh_database(server_url) as url:
        yield url


@pytest.fixture
async def bare_shop(shop_url: str) -> AsyncIterator[Shop]:
    """Give an application without an outbox."""
    async with opened_shop(shop_url) as shop:
        yield shop


@pytest.fixture(scope="session")
async def shops(server_url: str) -> AsyncIterator[Clones]:
    async with fresh_database(server_url) as url:
        async with opened_shop(url) as shop:
            await install(shop.connection, "public", "tocsin_outbox")
        async with aclosing(Clones(server_url, name_of(url))) as clones:
            yield clones


@pytest.fixture
async def shop(shops: Clones) -> AsyncIterator[Shop]:
    """Give an application with an outbox."""
    async with shops.lent() as url, opened_shop(url) as shop:
        yield shop


@pytest.fixture
def tocsin(pool: Pool) -> Tocsin:
    return Tocsin(pool, shipped())


@pytest.fixture
def odd_key_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the database refuse whatever comes with the idempotency key `odd`."""
    accept = notifications.accept

    async def failing(connection, new, *others):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN002, ANN202
        if any(each.idempotency_key == "odd" for each in new):
            raise asyncpg.DataError("a value that Postgres does not take")
        return await accept(connection, new, *others)

    monkeypatch.setattr(notifications, "accept", failing)
