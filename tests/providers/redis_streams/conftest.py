from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from tests.providers.redis_streams.rig import RIGS, StreamRig
from tests.redis_servers import RedisServer, running_redis


@pytest.fixture(scope="session")
async def redis_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RedisServer]:
    async with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_server.url) as client:
        await client.flushall()
        yield client


@pytest.fixture(params=RIGS, ids=lambda rig: str(rig.stream))
async def rig(
    request: pytest.FixtureRequest, redis: Redis, redis_server: RedisServer
) -> AsyncIterator[StreamRig]:
    made: StreamRig = request.param(redis, redis_server.url)
    yield made
    await made.aclose()
