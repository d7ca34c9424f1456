"""The only module that knows every layer: builds the processes of Tocsin from its settings."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.events import check_events
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.domain.delivery.backoff import Exponential
from tocsin.domain.delivery.message import Provider
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.domain.timing.quiet_hours import QuietHours
from tocsin.engine.accept.acceptor import Acceptor
from tocsin.engine.accept.planner import Planner
from tocsin.engine.catalog_watch import CatalogWatch
from tocsin.engine.clock import Clock, DatabaseClock, utc_now
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.duty import Duty, repeat
from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.engine.inspect.explain import Explainer
from tocsin.engine.periodic.load import load_sources
from tocsin.engine.periodic.run import RunTools
from tocsin.engine.periodic.scheduler import Scheduler
from tocsin.engine.toggles.toggles import Toggles, ToggleWatch
from tocsin.engine.wake import Wake
from tocsin.engine.webpush_keys import WebPushKeys
from tocsin.engine.worker import Worker, WorkerSettings
from tocsin.ingress.directory.lookup import Directory
from tocsin.ingress.directory.open import open_directory
from tocsin.ingress.outbox.accept import RowAcceptor
from tocsin.ingress.outbox.relay import Relay
from tocsin.ingress.redis_streams.envelopes import INTENTS
from tocsin.ingress.source import EntryDecoder, IntentSource
from tocsin.providers.registry import device_rules
from tocsin.providers.webhook.settings import WebhookSettings
from tocsin.providers.webpush.provider import WebPushProvider
from tocsin.providers.webpush.settings import WebPushSettings
from tocsin.settings import Settings, default_data_dir, providers_in_use, setting_name
from tocsin.store.migrate import check_schema
from tocsin.store.pool import Pool, first_connection, open_pool
from tocsin.store.secrets.kept_secrets import get_or_make
from tocsin.store.secrets.sealed_rows import check_data_keys
from tocsin.store.secrets.sealing import DataKeys, data_keys

if TYPE_CHECKING:
    from litestar import Litestar

RESTART = Exponential(timedelta(seconds=1), timedelta(minutes=1))
"""How long a duty that crashed waits until it is started again."""


def data_dir(settings: Settings) -> Path:
    """Return the folder of what Tocsin keeps on disk."""
    return settings.data_dir or default_data_dir()


@asynccontextmanager
async def checked_pool(settings: Settings, url: str, *, lookups_only: bool = False) -> AsyncIterator[Pool]:
    """Open a pool on a schema that this version works with; raise DatabaseError on any other."""
    await check_schema(url, settings.schema, settings.pool)
    async with open_pool(url, settings.schema, settings.pool, lookups_only=lookups_only) as pool:
        yield pool


def catalog_folder(settings: Settings) -> Path:
    """Return the folder of the catalog in use."""
    return settings.catalog or shipped_catalog()


def read_catalog(settings: Settings) -> Catalog:
    """Load the catalog in use."""
    return load_catalog(catalog_folder(settings), settings.delivery.policies)


class Secrets(dict[str, str]):
    """The secrets of providers, by provider."""

    def __repr__(self) -> str:
        """Show nothing."""
        return "Secrets(…)"


def providers_by_channel(settings: Settings) -> dict[str, list[str]]:
    """Return the configured providers of each channel."""
    by_channel: dict[str, list[str]] = {}
    for name, entry in providers_in_use(settings).items():
        by_channel.setdefault(entry.channel, []).append(name)
    return by_channel


async def kept_secrets(settings: Settings, pool: Pool) -> Secrets:
    """Return the secrets of the providers in use; one that is neither set nor stored yet is generated."""
    secrets = Secrets()
    for name, entry in providers_in_use(settings).items():
        if (secret := entry.secret) is None:
            continue
        value = secret.configured(settings.provider(entry.settings))
        if value is None:
            async with first_connection(pool) as connection:
                value = await get_or_make(connection, secret.name, secret.generate, utc_now())
        secrets[name] = value
    return secrets


def provider_summaries(settings: Settings) -> tuple[ProviderInUse, ...]:
    """List the providers in use, each with its channel and its rate."""
    return tuple(
        ProviderInUse(name=name, channel=entry.channel, rate=settings.rates.of(name) or None)
        for name, entry in providers_in_use(settings).items()
    )


async def checked_data_keys(settings: Settings, pool: Pool) -> DataKeys:
    """Read the data keys; raise SettingsError if one that is in use is not set."""
    keys = data_keys(settings.data)
    async with first_connection(pool) as connection:
        await check_data_keys(connection, keys)
    return keys


async def open_webpush_keys(
    settings: Settings, pool: Pool, secrets: Secrets, provider: Provider | None = None
) -> WebPushKeys | None:
    """Read the keys of Web Push, for the provider if it is given; None if Web Push is not in use."""
    if WebPushSettings.section not in secrets:
        return None
    from_files = settings.provider(WebPushSettings).private_keys()
    keys = WebPushKeys(
        pool,
        from_files or [secrets[WebPushSettings.section]],
        are_stored=not from_files,
        changed=provider.use_keys if isinstance(provider, WebPushProvider) else None,
    )
    await keys.read()
    return keys


@asynccontextmanager
async def open_providers(settings: Settings, secrets: Secrets) -> AsyncIterator[Mapping[str, Provider]]:
    """Build every provider in use, by name, and close them afterwards."""
    async with AsyncExitStack() as exits:
        by_name: dict[str, Provider] = {}
        for name, entry in providers_in_use(settings).items():
            of_entry = [secrets[name]] if entry.secret else []
            provider = by_name[name] = entry.build(settings.provider(entry.settings), *of_entry)
            exits.push_async_callback(provider.aclose)
            await provider.prepare()
        yield by_name


@asynccontextmanager
async def known_toggles(settings: Settings, pool: Pool) -> AsyncIterator[Toggles]:
    """Read the toggles as they stand."""
    toggles = Toggles(settings.toggles)
    try:
        async with first_connection(pool) as connection:
            await toggles.load(connection)
        yield toggles
    finally:
        toggles.close()


def delivery_rules(settings: Settings, catalog: Catalog, toggles: Toggles) -> DeliveryRules:
    """Build the rules that decide about deliveries."""
    return DeliveryRules(
        catalog=catalog,
        providers=frozenset(providers_in_use(settings)),
        toggles=toggles,
        quiet=QuietHours.compile(settings.quiet_hours),
        limits=settings.limits,
    )


def planner(settings: Settings, catalog: Catalog, toggles: Toggles) -> Planner:
    """Build the planner of intents."""
    return Planner(
        catalog,
        providers_by_channel(settings),
        settings.admin_emails,
        toggles,
        settings.delivery.largest_audience,
    )


def explainer(settings: Settings, catalog: Catalog, toggles: Toggles) -> Explainer:
    """Build the explainer of intents."""
    return Explainer(planner(settings, catalog, toggles), delivery_rules(settings, catalog, toggles))


async def database_clock(pool: Pool) -> DatabaseClock:
    """Measure the clock of the database, by which everything stored is compared."""
    clock = DatabaseClock(pool)
    async with first_connection(pool) as connection:
        await clock.measure(connection)
    return clock


def catalog_watch(
    settings: Settings,
    catalog: Catalog,
    pool: Pool,
    kind: str,
    clock: Clock,
    check: Callable[[Catalog], None] | None = None,
) -> CatalogWatch:
    """Build the duty that reloads the catalog of a process."""
    folder = catalog_folder(settings)
    return CatalogWatch(catalog, folder, kind=kind, pool=pool, clock=clock, check=check)


@asynccontextmanager
async def duties_running(*duties: Duty) -> AsyncIterator[None]:
    """Run duties beside the main work of a process, and end them with it.

    One that crashes is started again after a pause: the process goes on to serve, and what it was told last
    holds meanwhile.
    """
    tasks = [
        asyncio.create_task(
            repeat(duty.run, name=type(duty).__name__, every=0, faults=(Exception,), backoff=RESTART)
        )
        for duty in duties
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def open_api(settings: Settings, url: str) -> AsyncIterator["Litestar"]:
    """Build the HTTP application on a migrated database."""
    # Of all processes the API alone needs the web framework, which is slow to import.
    from tocsin.api.app import create_app  # noqa: PLC0415
    from tocsin.api.services import Services  # noqa: PLC0415

    catalog = read_catalog(settings)
    async with checked_pool(settings, url) as pool, known_toggles(settings, pool) as toggles:
        webpush_keys = await open_webpush_keys(settings, pool, await kept_secrets(settings, pool))
        clock = await database_clock(pool)
        services = Services(
            pool=pool,
            acceptor=Acceptor(pool, planner(settings, catalog, toggles), clock),
            explainer=explainer(settings, catalog, toggles),
            clock=clock,
            schema=settings.schema,
            providers=provider_summaries(settings),
            auth=settings.auth,
            devices=settings.devices,
            http=settings.http,
            unsubscribe=settings.unsubscribe,
            webhook=settings.provider(WebhookSettings),
            device_rules=device_rules(settings.registry),
            webpush_keys=webpush_keys,
            data_keys=await checked_data_keys(settings, pool),
            slow_seconds=settings.log.slow_seconds,
        )
        watch = ToggleWatch(toggles, url, settings.schema, settings.pool)
        reloads = catalog_watch(settings, catalog, pool, "api", clock)
        async with duties_running(watch, clock, reloads, *([webpush_keys] if webpush_keys else [])):
            yield create_app(services, catalog)


@asynccontextmanager
async def open_worker(
    settings: Settings, url: str, catalog: Catalog, lanes: Collection[str] | None = None, kind: str = "worker"
) -> AsyncIterator[Worker]:
    """Build a worker that dispatches some lanes, or all, and runs what is periodic."""
    sources = load_sources(settings.periodic, catalog, utc_now())
    async with (
        checked_pool(settings, url, lookups_only=True) as pool,
        # Accepting wants other plans than dispatching does.
        open_pool(url, settings.schema, settings.pool) as accepting,
        open_providers(settings, secrets := await kept_secrets(settings, pool)) as providers,
        known_toggles(settings, pool) as toggles,
    ):
        check = partial(check_events, providers=tuple(providers.values()))
        check(catalog)
        clock = await database_clock(pool)
        webpush_keys = await open_webpush_keys(
            settings, pool, secrets, providers.get(WebPushSettings.section)
        )
        run_tools = RunTools(
            pool=accepting,
            planner=planner(settings, catalog, toggles),
            lease_for=timedelta(seconds=settings.periodic.lease_seconds),
            clock=clock,
        )
        yield Worker(
            pool=pool,
            wake=Wake(url, settings.schema, settings.pool),
            watch=ToggleWatch(toggles, url, settings.schema, settings.pool),
            rules=delivery_rules(settings, catalog, toggles),
            providers=providers,
            settings=WorkerSettings(
                dispatch=settings.dispatch,
                health=settings.health,
                devices=settings.devices,
                unsubscribe=settings.unsubscribe,
                rates=settings.rates,
                retention=settings.retention,
                data_keys=await checked_data_keys(settings, pool),
            ),
            clock=clock,
            lanes=lanes,
            more=[
                clock,
                Scheduler(sources, run_tools),
                catalog_watch(settings, catalog, pool, kind, clock, check),
                *([webpush_keys] if webpush_keys else []),
            ],
        )


@asynccontextmanager
async def open_relays(settings: Settings, url: str, catalog: Catalog) -> AsyncIterator[list[IntentSource]]:
    """Build what carries intents from the outboxes and streams of applications."""
    async with (
        checked_pool(settings, url) as pool,
        known_toggles(settings, pool) as toggles,
        open_directory(settings.directory) as directory,
    ):
        clock = await database_clock(pool)
        plans = planner(settings, catalog, toggles)
        acceptor = Acceptor(pool, plans, clock)
        relays: list[IntentSource] = [
            Relay(
                name,
                outbox,
                rows=RowAcceptor(name, outbox, catalog=catalog, acceptor=acceptor, pool=pool, clock=clock),
                pool=settings.pool,
                clock=clock,
            )
            for name, outbox in settings.outboxes.items()
        ]
        if settings.streams:
            relays += open_streams(settings, pool, plans, clock, directory, INTENTS)
        watch = ToggleWatch(toggles, url, settings.schema, settings.pool)
        async with duties_running(watch, clock, catalog_watch(settings, catalog, pool, "relay", clock)):
            yield relays


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


def redis_missing(section: str) -> SettingsError:
    """Build the error about a section that cannot be used without the client of Redis."""
    message = "needs the client of Redis: pip install 'tocsin[redis]'"
    fault = Fault(field=setting_name((section,)), code="missing", message=message)
    return SettingsError("The settings cannot be used:", [fault])


def tune_gc() -> None:
    """Keep the garbage collector from walking everything that was loaded, again and again.

    With the standard thresholds a profile of a busy worker showed a sixth of its time there.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
