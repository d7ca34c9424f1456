import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from tests.catalogs import shipped
from tests.engine.stage import MovableClock
from tests.redis_servers import RedisServer
from tests.running import running
from tests.waiting import found
from tocsin.engine.accept.planner import Planner
from tocsin.engine.toggles.toggles import Toggles
from tocsin.ingress.directory.lookup import Directory
from tocsin.ingress.redis_streams.consumer import StreamConsumer
from tocsin.ingress.redis_streams.envelopes import INTENTS
from tocsin.ingress.redis_streams.settings import RedisSettings, StreamSettings
from tocsin.store.pool import Pool

STREAM = "notification:intents"
QUICK = StreamSettings(stream=STREAM, block_seconds=0.1, lease_seconds=3)


class Galaxy:
    """Producers that append to a stream, and what Tocsin has of it."""

    def __init__(self, redis: Redis, server: RedisServer, pool: Pool) -> None:
        self.redis = redis
        self.server = server
        self.pool = pool
        self.planner = Planner(
            catalog=shipped(),
            providers={"push": ["fcm"], "email": ["smtp"]},
            admins={},
            toggles=Toggles(),
        )

    async def append(self, *user_ids: str, key: str = "k1", **changes: str | None) -> str:
        return await self.server.append(STREAM, *user_ids, key=key, **changes)

    def consumer(
        self, settings: StreamSettings = QUICK, directory: Directory | None = None
    ) -> StreamConsumer:
        """Return a consumer of the stream."""
        return StreamConsumer(
            "galaxy",
            settings,
            RedisSettings(url=self.server.url, timeout=1.0),
            pool=self.pool,
            planner=self.planner,
            clock=MovableClock(),
            decoder=INTENTS,
            directory=directory,
        )

    @contextlib.asynccontextmanager
    async def consuming(
        self, settings: StreamSettings = QUICK, directory: Directory | None = None
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Run a consumer of the stream."""
        async with running(self.consumer(settings, directory)) as task:
            yield task

    async def reaches(self, entry_id: str, stream: str = STREAM) -> None:
        """Wait until the offset is at an entry."""

        async def look() -> bool:
            return await self.offset(stream) == entry_id

        await found(look)

    async def offset(self, stream: str = STREAM) -> str | None:
        statement = "select entry_id from stream_offsets where stream = $1"
        found: str | None = await self.pool.fetchval(statement, stream)
        return found

    async def notifications(self) -> list[dict[str, Any]]:
        rows = await self.pool.fetch(
            "select id, external_id, producer, idempotency_key, type from notifications order by id"
        )
        return [dict(row) for row in rows]

    async def refused(self) -> list[dict[str, Any]]:
        rows = await self.pool.fetch("select * from refused_intents order by id")
        return [
            dict(row)
            | {"faults": msgspec.json.decode(row["faults"]), "content": msgspec.json.decode(row["content"])}
            for row in rows
        ]

    async def alarm(self, code: str) -> str:
        """Wait for an alarm and return its detail."""

        async def look() -> str | None:
            statement = "select detail from alarms where provider = 'stream:galaxy' and code = $1"
            detail: str | None = await self.pool.fetchval(statement, code)
            return detail

        return await found(look)


@pytest.fixture
def galaxy(redis: Redis, redis_server: RedisServer, pool: Pool) -> Galaxy:
    return Galaxy(redis, redis_server, pool)
