"""Builds from the settings what several processes share."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.domain.delivery.message import Provider
from tocsin.domain.timing.quiet_hours import QuietHours
from tocsin.engine.accept.planner import Planner
from tocsin.engine.clock import utc_now
from tocsin.engine.dispatch.rules import DeliveryRules
from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.engine.inspect.explain import Explainer
from tocsin.engine.toggles.toggles import Toggles
from tocsin.engine.webpush_keys import WebPushKeys
from tocsin.providers.webpush.provider import WebPushProvider
from tocsin.providers.webpush.settings import WebPushSettings
from tocsin.settings.load import default_data_dir
from tocsin.settings.tree import Settings, providers_in_use
from tocsin.store.migrate import check_schema
from tocsin.store.pool import Pool, first_connection, open_pool
from tocsin.store.secrets.kept_secrets import get_or_make
from tocsin.store.secrets.sealed_rows import check_data_keys
from tocsin.store.secrets.sealing import DataKeys, data_keys


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
            sections = {each: getattr(settings, each) for each in entry.sections}
            section = settings.provider(entry.settings)
            provider = by_name[name] = entry.build(section, *of_entry, **sections)
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
