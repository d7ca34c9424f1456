from collections.abc import AsyncIterator

import pytest

from tests.databases import SCHEMA
from tests.gateway.clients import RunningGateway, running_gateway
from tocsin.gateway.inbox.live import Database
from tocsin.store.pool import PoolSettings


@pytest.fixture
def database(database_url: str) -> Database:
    return Database(url=database_url, schema=SCHEMA, settings=PoolSettings())


@pytest.fixture
async def live(database: Database) -> AsyncIterator[RunningGateway]:
    """Run a gateway that serves inboxes and needs no Redis."""
    async with running_gateway("", "unused", database=database) as running:
        yield running
