"""An application with an outbox, and a relay that carries it into Tocsin."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec

from tests.engine.stage import MovableClock
from tests.waiting import found
from tocsin.catalog.catalog import Catalog
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.planner import Planner
from tocsin.engine.toggles.toggles import Toggles
from tocsin.ingress.outbox.accept import RowAcceptor
from tocsin.ingress.outbox.relay import Relay
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.store.pool import Pool, PoolSettings


def intent(*users: str, **changes: Any) -> dict[str, Any]:
    fields = {
        "type": "new_customer",
        "audience": {"users": users or ("ada",)},
        "payload": {"customer_name": "Ali Veli"},
    }
    return fields | changes


class Shop:
    """The application: writes its outbox as any language would, by SQL."""

    def __init__(self, url: str, connection: asyncpg.Connection) -> None:
        self.url = url
        self.connection = connection

    async def publish(self, content: Any = None, *aggregate: str) -> int:
        statement = "select tocsin_publish($1::jsonb, $2, $3)"
        written = msgspec.json.encode(intent() if content is None else content).decode()
        kind, key = aggregate or (None, None)
        made: int = await self.connection.fetchval(statement, written, kind, key)
        return made

    async def rows(self, table: str = "tocsin_outbox") -> list[dict[str, Any]]:
        return [dict(row) for row in await self.connection.fetch(f"select * from {table} order by id")]  # noqa: S608 - a table of this test

    async def row(self, row_id: Any, table: str = "tocsin_outbox") -> dict[str, Any]:
        return next(row for row in await self.rows(table) if row["id"] == row_id)

    async def waiting(self, table: str = "tocsin_outbox") -> list[Any]:
        return [row["id"] for row in await self.rows(table) if row["published_at"] is None]

    async def all_published(self, table: str = "tocsin_outbox") -> None:
        """Wait until nothing waits."""

        async def look() -> bool:
            return not await self.waiting(table)

        await found(look)

    async def failed(self, row_id: Any, times: int, table: str = "tocsin_outbox") -> dict[str, Any]:
        """Wait until a row was refused so many times, and give it."""

        async def look() -> dict[str, Any] | None:
            row = await self.row(row_id, table)
            return row if row["failed_attempts"] == times else None

        return await found(look)


@asynccontextmanager
async def opened_shop(url: str) -> AsyncIterator[Shop]:
    """Give the application of a database."""
    connection = await asyncpg.connect(url)
    try:
        yield Shop(url, connection)
    finally:
        await connection.close()


class Tocsin:
    """What relays carry into."""

    def __init__(self, pool: Pool, catalog: Catalog) -> None:
        self.pool = pool
        self.catalog = catalog
        self.clock = MovableClock()

    def relay(self, settings: OutboxSettings, name: str = "shop", pool: Pool | None = None) -> Relay:
        planner = Planner(self.catalog, {"push": ("fcm",)}, {}, Toggles())
        used = self.pool if pool is None else pool
        rows = RowAcceptor(
            name,
            settings,
            catalog=self.catalog,
            acceptor=Acceptor(used, planner, self.clock),
            pool=used,
            clock=self.clock,
        )
        return Relay(name, settings, rows=rows, pool=PoolSettings(), clock=self.clock)

    @asynccontextmanager
    async def relaying(
        self, settings: OutboxSettings, name: str = "shop", pool: Pool | None = None
    ) -> AsyncIterator[None]:
        """Relay until the block ends."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.relay(settings, name, pool).run(stop))
        try:
            yield
        finally:
            stop.set()
            async with asyncio.timeout(30):
                await running

    async def notifications(self) -> list[dict[str, Any]]:
        there = await self.pool.fetch("select * from notifications order by id")
        return [dict(row) for row in there]

    async def keys(self) -> list[str]:
        """List the keys of what was accepted, in the order of acceptance."""
        return [row["idempotency_key"] for row in await self.notifications()]
