import uuid
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from tests.acceptance.processes import Processes, processes_in
from tests.databases import open_folder
from tests.gateway.clients import ClientEvents, RunningGateway
from tests.redis_servers import RedisServer


@pytest.fixture
async def events(redis_server: RedisServer) -> AsyncIterator[ClientEvents]:
    """Give a stream of client events that this test has for itself."""
    async with Redis.from_url(redis_server.url) as redis:
        yield ClientEvents(redis, redis_server.url, f"gateway:{uuid.uuid4().hex}")


@pytest.fixture
async def gateway(events: ClientEvents) -> AsyncIterator[RunningGateway]:
    async with events.gateway() as running:
        yield running


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    with open_folder() as folder:
        async with processes_in(folder) as started:
            yield started
