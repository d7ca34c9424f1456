"""The slowest answer of each page of the dashboard, among a million notifications."""

import re
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import urlencode

import asyncpg
import msgspec
from pyreqwest.client import Client, ClientBuilder

from bench.broker import free_port
from bench.contract import Arena, Goal, Reading
from bench.filled import NOTIFICATIONS, filled_database
from bench.lines.database.search import FILTERS
from bench.process import ProgramFailedError, running
from bench.tocsin_server import SCHEMA, ready
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.store.pool import connection_settings

ROUNDS = 5
SLOWEST = Goal(300, least=False)
CAUSE = "dead-letters/cause?state=dead&code=timeout&provider=fcm&type=type_3"
PAGES = {
    "now": "now",
    "now, for 7 days": "now?span=7d",
    "dead letters": "dead-letters",
    "a cause of dead letters": CAUSE,
    "every dead letter": "dead-letters/cause",
    "people": "people",
    "a person": "people/user-4711",
    "providers": "providers",
    "a provider": "providers/fcm",
    "types": "types",
    "a type": "types/named/new_customer",
    "a toggle": "types/toggles/type:new_customer",
    "scheduled": "scheduled",
    "scheduled, for 14 days": "scheduled?hours=336",
    "counting a type to cancel": "scheduled/cancel?type=type_3",
    "counting a producer to cancel": "scheduled/cancel?producer=shop",
    "counting what is not there to cancel": "scheduled/cancel?type=unknown",
    "producers": "producers",
    "refused intents": "producers/refused",
    "suppressions": "suppressions",
    "keys": "keys",
    "sessions": "sessions",
    "audit": "audit",
    "audit of a subject": "audit?subject=toggle:type:type_3",
}
SEARCHES = {
    f"notifications, {name}": f"notifications?{urlencode(msgspec.to_builtins(given))}"
    for name, given in FILTERS.items()
}
SOME = "select id from notifications order by id offset $1 limit 1"
_TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]{64})"')


class Pages:
    name = "pages"
    title = "Pages of the dashboard"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        """Load every page several times over HTTP, with the session of an admin."""
        async with filled_database(arena.workdir) as url:
            connection = await asyncpg.connect(url, server_settings=connection_settings(SCHEMA))
            try:
                key = (await create_key(connection, "bench", Role.ADMIN, datetime.now(UTC))).secret
                # A notification with twenty-one deliveries.
                shown = await connection.fetchval(SOME, NOTIFICATIONS // 2 - 1)
            finally:
                await connection.close()
            paths = {**PAGES, **SEARCHES, "a notification": f"notifications/{shown}"}
            browser = ClientBuilder().default_cookie_store(True).follow_redirects(False)
            async with _api(arena, url) as address, browser.build() as client:
                await _sign_in(client, address, key)
                slowest = {
                    name: await _slowest(client, f"{address}/dashboard/{path}")
                    for name, path in paths.items()
                }
        return [
            Reading(f"{name}, among {NOTIFICATIONS:,} notifications", value * 1000, "ms", SLOWEST)
            for name, value in slowest.items()
        ]


@asynccontextmanager
async def _api(arena: Arena, database_url: str) -> AsyncIterator[str]:
    """Run the API alone, with FCM and SMTP as its providers."""
    port = free_port()
    environment = {
        "TOCSIN_DATABASE_URL": database_url,
        "TOCSIN_HTTP__PORT": str(port),
        "TOCSIN_LOG__LEVEL": "warning",
        "TOCSIN_FCM__BASE_URL": arena.url,
        "TOCSIN_FCM__CA_FILE": str(arena.ca_file),
        "TOCSIN_FCM__CREDENTIALS_FILE": str(arena.credentials_file),
        "TOCSIN_SMTP__HOST": "127.0.0.1",
        "TOCSIN_SMTP__PORT": str(arena.smtp_port),
        "TOCSIN_SMTP__SENDER": "bench@example.org",
        "TOCSIN_SMTP__SECURITY": "none",
    }
    log = arena.workdir / "tocsin_api.log"
    async with running([sys.executable, "-m", "tocsin.cli", "api"], environment, log):
        address = f"http://127.0.0.1:{port}"
        await ready(address)
        yield address


async def _sign_in(client: Client, address: str, key: str) -> None:
    """Sign in by the form; the client keeps the session's cookie."""
    form = f"{address}/dashboard/sign-in"
    found = _TOKEN.search(await (await client.get(form).build().send()).text())
    if found is None:
        raise ProgramFailedError("The form to sign in has no CSRF token.")
    answer = await client.post(form).form({"csrf_token": found[1], "key": key}).build().send()
    if answer.status != HTTPStatus.SEE_OTHER:
        raise ProgramFailedError(f"Signing in was answered with {answer.status}.")


async def _slowest(client: Client, address: str) -> float:
    """Load a page several times, and once before that: what is not in memory yet is the disk's time."""
    slowest = 0.0
    for number in range(ROUNDS + 1):
        began = time.perf_counter()
        answer = await client.get(address).build().send()
        await answer.bytes()
        slowest = max(slowest, time.perf_counter() - began) if number else 0.0
        if answer.status != HTTPStatus.OK:
            raise ProgramFailedError(f"{address} was answered with {answer.status}.")
    return slowest
