from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from tests.providers.redis_streams.rig import RIGS, StreamRig
from tests.redis_servers import RedisServer


@pytest.fixture(params=RIGS, ids=lambda rig: str(rig.stream))
async def rig(
    request: pytest.FixtureRequest, redis: Redis, redis_server: RedisServer
) -> AsyncIterator[StreamRig]:
    made: StreamRig = request.param(redis, redis_server.url)
    yield made
    await made.aclose()
