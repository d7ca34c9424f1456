"""An application with an outbox of envelopes, and a relay that publishes it to a topic."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import msgspec

from tests.aws_servers import ACCOUNT, REGION
from tests.databases import fresh_database
from tests.engine.stage import MovableClock
from tests.ingress.outbox.outboxes import Shop, opened_shop
from tests.ingress.outbox.test_fisa import EVENTS
from tocsin.aws.publisher.calls import Topic
from tocsin.aws.publisher.publisher import TopicPublisher
from tocsin.catalog.catalog import Catalog
from tocsin.ingress.outbox.relay import Relay
from tocsin.ingress.outbox.settings import OutboxSettings
from tocsin.providers.aws.clients import AwsClients
from tocsin.providers.aws.settings import AwsSettings
from tocsin.store.pool import Pool, PoolSettings

TABLE = "outbox_events"
QUICK = 0.02
FIFO = f"arn:aws:sns:{REGION}:{ACCOUNT}:fisa-notify.fifo"
STANDARD = f"arn:aws:sns:{REGION}:{ACCOUNT}:fisa-notify"


def envelope(*recipients: str | int, **changes: Any) -> dict[str, Any]:
    fields = {
        "event_id": str(uuid4()),
        "event_type": "comment.added",
        "org_id": "org-1",
        "recipients": recipients or ("ada",),
        "title": "New comment",
        "body": "Looks good",
        "severity": "info",
        "deep_link": "fisa://work-item/7?tab=comments",
        "extras": {"work_item_id": "7"},
    }
    return fields | changes


class Office(Shop):
    """The application: writes envelopes into its own table."""

    async def write(self, *envelopes: dict[str, Any]) -> list[str]:
        """Write envelopes in one transaction, and give their event ids."""
        insert = (
            f"insert into {TABLE} (aggregate, aggregate_id, event_type, payload) values ('item', $1, 'e', $2)"  # noqa: S608 - a table of this test
        )
        written = [(uuid4(), msgspec.json.encode(each).decode()) for each in envelopes]
        await self.connection.executemany(insert, written)
        return [each.get("event_id", "") for each in envelopes]

    async def ids(self) -> list[int]:
        return [row["id"] for row in await self.rows(TABLE)]

    async def done(self) -> None:
        await self.all_published(TABLE)


@asynccontextmanager
async def opened_office(server_url: str) -> AsyncIterator[Office]:
    """Give an application with a database of its own and a table of fisa's shape."""
    async with fresh_database(server_url) as url, opened_shop(url) as shop:
        await shop.connection.execute(EVENTS)
        yield Office(url, shop.connection)


class Publishing:
    """What relays publish with."""

    def __init__(self, pool: Pool, catalog: Catalog, office: Shop, url: str, clock: MovableClock) -> None:
        self.pool = pool
        self.catalog = catalog
        self.clock = clock
        self._office = office
        self.aws = AwsSettings(
            endpoint_url=url, region=REGION, access_key_id="testing", secret_access_key="testing", timeout=5.0
        )

    def settings(self, topic: str = FIFO, **changes: Any) -> OutboxSettings:
        given: dict[str, Any] = {"table": TABLE, "envelope": "fisa", "poll_seconds": QUICK, **changes}
        return OutboxSettings(url=self._office.url, topic_arn=topic, **given)

    @asynccontextmanager
    async def running(
        self,
        settings: OutboxSettings | None = None,
        *,
        pool: Pool | None = None,
        name: str = "office",
        org_scoping: bool = False,
    ) -> AsyncIterator[TopicPublisher]:
        """Publish until the block ends."""
        settings = settings or self.settings()
        assert settings.topic_arn is not None
        stop = asyncio.Event()
        async with AwsClients(self.aws) as clients:
            publisher = TopicPublisher(
                name,
                settings,
                catalog=self.catalog,
                topic=Topic(name, settings.topic_arn, clients),
                pool=pool or self.pool,
                clock=self.clock,
                org_scoping=org_scoping,
            )
            relay = Relay(name, settings, rows=publisher, pool=PoolSettings(), clock=self.clock)
            running = asyncio.create_task(relay.run(stop))
            try:
                yield publisher
            finally:
                stop.set()
                async with asyncio.timeout(30):
                    await running

    async def publications(self) -> Sequence[Any]:
        found: Sequence[Any] = await self.pool.fetch("select * from publications")
        return found
