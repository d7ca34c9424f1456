"""Opens the providers in use, with their secrets and keys."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from tocsin.domain.delivery.message import Provider
from tocsin.engine.clock import utc_now
from tocsin.engine.webpush_keys import WebPushKeys
from tocsin.providers.webpush.provider import WebPushProvider
from tocsin.providers.webpush.settings import WebPushSettings
from tocsin.settings.tree import Settings, providers_in_use
from tocsin.store.pool import Pool, first_connection
from tocsin.store.secrets.kept_secrets import get_or_make
from tocsin.store.secrets.sealed_rows import check_data_keys
from tocsin.store.secrets.sealing import DataKeys, data_keys


class Secrets(dict[str, str]):
    """The secrets of providers, by provider."""

    def __repr__(self) -> str:
        """Show nothing."""
        return "Secrets(…)"


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
    if keys.are_stored:
        async with first_connection(pool) as connection:
            await keys.load(connection)
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
