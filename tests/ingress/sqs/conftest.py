import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.aws_servers import AwsServer
from tests.catalogs import shipped
from tests.engine.stage import MovableClock
from tests.running import running
from tests.waiting import found
from tocsin.engine.accept.planner import Planner
from tocsin.engine.toggles.toggles import Toggles
from tocsin.ingress.sqs.consumer import QueueConsumer
from tocsin.ingress.sqs.settings import QueueSettings
from tocsin.store.pool import Pool

_numbers = itertools.count(1)


def intent(key: str | None = "k1", user: str = "ada", name: str = "Ali", **changes: Any) -> str:
    fields = {
        "type": "new_customer",
        "audience": {"users": [user]},
        "payload": {"customer_name": name},
        "idempotency_key": key,
        **changes,
    }
    return json.dumps({field: value for field, value in fields.items() if value is not None})


class Queue:
    """A queue of AWS that producers send to, and what Tocsin has of it."""

    def __init__(self, server: AwsServer, pool: Pool, url: str) -> None:
        self.server = server
        self.sqs = server.client("sqs")
        self.pool = pool
        self.url = url
        self.planner = Planner(catalog=shipped(), providers={"push": ["fcm"]}, admins={}, toggles=Toggles())

    def send(self, body: str, **more: Any) -> str:
        message_id: str = self.sqs.send_message(QueueUrl=self.url, MessageBody=body, **more)["MessageId"]
        return message_id

    def consumer(self, **changes: Any) -> QueueConsumer:
        settings = QueueSettings(**{"url": self.url, "receivers": 2, "visibility_seconds": 10, **changes})
        return QueueConsumer(
            "shop", settings, self.server.settings, pool=self.pool, planner=self.planner, clock=MovableClock()
        )

    @contextlib.asynccontextmanager
    async def consuming(self, **changes: Any) -> AsyncIterator[asyncio.Task[None]]:
        """Run a consumer of the queue."""
        async with running(self.consumer(**changes)) as task:
            yield task

    async def counts(self, url: str = "") -> tuple[int, int]:
        """Return how many messages wait, and how many are held by a reader."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = await asyncio.to_thread(
            self.sqs.get_queue_attributes, QueueUrl=url or self.url, AttributeNames=names
        )
        visible, held = (int(found["Attributes"][name]) for name in names)
        return visible, held

    async def empties(self) -> None:
        """Wait until every message is deleted."""

        async def look() -> bool:
            return await self.counts() == (0, 0)

        await found(look)

    async def notifications(self) -> list[dict[str, Any]]:
        rows = await self.pool.fetch(
            "select id, external_id, producer, idempotency_key, type from notifications order by id"
        )
        return [dict(row) for row in rows]

    async def keys(self) -> list[str]:
        return [row["idempotency_key"] for row in await self.notifications()]

    async def refused(self) -> list[dict[str, Any]]:
        rows = await self.pool.fetch("select * from refused_intents order by id")
        return [
            dict(row)
            | {"faults": msgspec.json.decode(row["faults"]), "content": msgspec.json.decode(row["content"])}
            for row in rows
        ]

    async def reaches(self, count: int, table: str = "notifications") -> None:
        """Wait until a table has at least so many rows."""

        async def look() -> bool:
            counted = await self.pool.fetchval(f"select count(*) from {table}")  # noqa: S608
            return bool(counted >= count)

        await found(look)


def named(name: str = "ingress") -> str:
    """Return a name that no other test uses."""
    return f"{name}-{next(_numbers)}"


@pytest.fixture
def queue(aws_server: AwsServer, pool: Pool) -> Queue:
    return Queue(aws_server, pool, aws_server.queue(named()))


@pytest.fixture
def fifo(aws_server: AwsServer, pool: Pool) -> Queue:
    return Queue(aws_server, pool, aws_server.queue(f"{named()}.fifo"))
