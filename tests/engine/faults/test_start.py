"""A database that goes away while a process starts: what is read then says so, and is read again."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.acceptance.processes import free_port
from tocsin.compose.database import database_clock
from tocsin.compose.parts import known_toggles
from tocsin.compose.providers import Secrets, checked_data_keys, kept_secrets, open_webpush_keys
from tocsin.domain.errors import DatabaseUnavailableError
from tocsin.providers.webpush.crypto import new_private_key_pem
from tocsin.providers.webpush.settings import WebPushSettings
from tocsin.settings.load import load_settings
from tocsin.store.pool import Pool, PoolSettings, open_pool

SETTINGS = load_settings(
    {"TOCSIN_WEBPUSH__ENABLED": "true", "TOCSIN_WEBPUSH__SUBJECT": "mailto:ops@example.com"},
    Path("/dev/null"),
)


async def _toggles(pool: Pool) -> None:
    async with known_toggles(SETTINGS, pool):
        pass


async def _webpush_keys(pool: Pool) -> None:
    secrets = Secrets({WebPushSettings.section: new_private_key_pem()})
    await open_webpush_keys(SETTINGS, pool, secrets)


async def _secrets(pool: Pool) -> None:
    await kept_secrets(SETTINGS, pool)


async def _data_keys(pool: Pool) -> None:
    await checked_data_keys(SETTINGS, pool)


@pytest.mark.parametrize("read", [database_clock, _toggles, _secrets, _data_keys, _webpush_keys])
async def test_what_is_read_at_the_start_says_that_the_database_is_away(
    read: Callable[[Pool], Awaitable[object]],
) -> None:
    address = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    async with open_pool(address, "tocsin", PoolSettings()) as pool:
        with pytest.raises(DatabaseUnavailableError, match="does not answer"):
            await read(pool)
