"""Builds what carries intents from elsewhere into Tocsin, or to topics."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from tocsin.catalog.catalog import Catalog
from tocsin.compose.database import checked_pool, database_clock
from tocsin.compose.duties import catalog_watch, duties_running
from tocsin.compose.parts import known_toggles, planner
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.planner import Planner
from tocsin.engine.clock import Clock
from tocsin.engine.health.activity import ActivityWriter
from tocsin.engine.toggles.toggles import ToggleWatch
from tocsin.ingress.directory.lookup import Directory
from tocsin.ingress.directory.open import open_directory
from tocsin.ingress.outbox.accept import RowAcceptor
from tocsin.ingress.outbox.handler import RowHandler
from tocsin.ingress.outbox.relay import Relay
from tocsin.ingress.redis_streams.envelopes import INTENTS
from tocsin.ingress.report import LagWriter
from tocsin.ingress.source import EntryDecoder, IntentSource
from tocsin.settings.build import setting_name
from tocsin.settings.tree import Settings
from tocsin.store.pool import Pool


def has_sources(settings: Settings) -> bool:
    """Return whether there is anything to relay."""
    return bool(settings.outboxes or settings.streams or settings.queues)


@asynccontextmanager
async def open_relays(settings: Settings, url: str, catalog: Catalog) -> AsyncIterator[list[IntentSource]]:
    """Build what carries intents from the outboxes, streams and queues of applications."""
    async with (
        AsyncExitStack() as exits,
        checked_pool(settings, url) as pool,
        known_toggles(settings, pool) as toggles,
        open_directory(settings.directory) as directory,
    ):
        clock = await database_clock(pool)
        plans = planner(settings, catalog, toggles)
        acceptor = Acceptor(pool, plans, clock)
        handlers: dict[str, RowHandler] = {
            name: RowAcceptor(
                name,
                outbox,
                catalog=catalog,
                acceptor=acceptor,
                pool=pool,
                clock=clock,
                org_scoping=settings.auth.org_scoping,
            )
            for name, outbox in settings.outboxes.items()
            if outbox.topic_arn is None
        }
        handlers |= await exits.enter_async_context(open_publishers(settings, catalog, pool, clock))
        relays: list[IntentSource] = [
            Relay(name, outbox, rows=handlers[name], pool=settings.pool, clock=clock)
            for name, outbox in settings.outboxes.items()
        ]
        if settings.streams:
            relays += open_streams(settings, pool, plans, clock, directory, INTENTS)
        if settings.queues:
            relays += open_queues(settings, pool, plans, clock)
        watch = ToggleWatch(toggles, url, settings.schema, settings.pool)
        reloads = catalog_watch(settings, catalog, pool, "relay", clock)
        lags = LagWriter(pool, [relay.report for relay in relays])
        async with duties_running(watch, clock, reloads, ActivityWriter(pool), lags):
            yield relays


@asynccontextmanager
async def open_publishers(
    settings: Settings, catalog: Catalog, pool: Pool, clock: Clock
) -> AsyncIterator[dict[str, RowHandler]]:
    """Build what publishes outboxes to topics, by outbox; only it needs the client of AWS."""
    async with AsyncExitStack() as exits:
        publishers: dict[str, RowHandler] = {}
        for name, outbox in settings.outboxes.items():
            if (arn := outbox.topic_arn) is None:
                continue
            try:
                from tocsin.aws.publisher.calls import Topic  # noqa: PLC0415 - an extra of its own
                from tocsin.aws.publisher.publisher import TopicPublisher  # noqa: PLC0415
                from tocsin.providers.aws.clients import AwsClients  # noqa: PLC0415
            except ModuleNotFoundError as error:
                raise aws_missing("outboxes", name, "topic_arn") from error
            # A topic is called in its own region, whatever that of the other services is.
            region = arn.split(":")[3]
            clients = AwsClients(msgspec.structs.replace(settings.aws, region=region))
            topic = Topic(name, arn, await exits.enter_async_context(clients))
            publishers[name] = TopicPublisher(
                name,
                outbox,
                catalog=catalog,
                topic=topic,
                pool=pool,
                clock=clock,
                org_scoping=settings.auth.org_scoping,
            )
        yield publishers


def open_streams(
    settings: Settings,
    pool: Pool,
    plans: Planner,
    clock: Clock,
    directory: Directory | None,
    decoder: EntryDecoder,
) -> list[IntentSource]:
    """Build the consumers of streams; only they need the client of Redis."""
    try:
        from tocsin.ingress.redis_streams.consumer import StreamConsumer  # noqa: PLC0415 - an extra of its own
    except ModuleNotFoundError as error:
        raise redis_missing("streams") from error
    return [
        StreamConsumer(
            name,
            stream,
            settings.redis,
            pool=pool,
            planner=plans,
            clock=clock,
            decoder=decoder,
            directory=directory,
        )
        for name, stream in settings.streams.items()
    ]


def open_queues(settings: Settings, pool: Pool, plans: Planner, clock: Clock) -> list[IntentSource]:
    """Build the consumers of queues; only they need the client of AWS."""
    try:
        from tocsin.ingress.sqs.consumer import QueueConsumer  # noqa: PLC0415 - an extra of its own
    except ModuleNotFoundError as error:
        raise aws_missing("queues") from error
    return [
        QueueConsumer(
            name,
            queue,
            settings.aws,
            pool=pool,
            planner=plans,
            clock=clock,
            org_scoping=settings.auth.org_scoping,
        )
        for name, queue in settings.queues.items()
    ]


def redis_missing(*path: str) -> SettingsError:
    """Build the error about a setting that cannot be used without the client of Redis."""
    return _client_missing("Redis", path)


def aws_missing(*path: str) -> SettingsError:
    """Build the error about a setting that cannot be used without the client of AWS."""
    return _client_missing("AWS", path)


def _client_missing(service: str, path: tuple[str, ...]) -> SettingsError:
    message = f"needs the client of {service}: pip install 'tocsin[{service.lower()}]'"
    fault = Fault(field=setting_name(path), code="missing", message=message)
    return SettingsError("The settings cannot be used:", [fault])
