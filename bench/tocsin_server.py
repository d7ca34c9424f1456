"""A Tocsin of its own for a measurement: embedded Postgres with fsync on, API, workers, devices."""

import asyncio
import contextlib
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import asyncpg
import msgspec
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from bench.broker import free_port
from bench.contract import Arena, token
from bench.process import running
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.domain.ids import uuid7
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate
from tocsin.store.pool import PoolSettings, connection_settings

SCHEMA = "tocsin"
START_SECONDS = 30.0
POLL_SECONDS = 0.02


class Phone(NamedTuple):
    """A device as it is registered."""

    provider: str
    platform: str
    token: str


def android(number: int) -> Phone:
    """Give message `number` the phone that every contestant sends to."""
    return Phone("fcm", "android", token(number))


class Server(msgspec.Struct, frozen=True):
    """A running Tocsin."""

    api_url: str
    key: str
    database_url: str
    api_pid: int
    postmaster_pid: int
    worker_pids: tuple[int, ...]

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.api_pid, self.postmaster_pid, *self.worker_pids)


@contextlib.asynccontextmanager
async def database(workdir: Path) -> AsyncIterator[tuple[str, int]]:
    """Run a migrated Postgres under the folder and give its address and process."""
    # The embedded server runs as a user of its own when started by root.
    for folder in (workdir, *workdir.parents):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o011)
    embedded = EmbeddedPostgres(workdir)
    url = await asyncio.to_thread(embedded.start)
    try:
        await migrate(url, SCHEMA, PoolSettings())
        pid = int((workdir / "postgres" / "postmaster.pid").read_text().split()[0])
        yield url, pid
    finally:
        await asyncio.to_thread(embedded.stop)


async def lay_in_devices(
    connection: asyncpg.Connection, count: int, phone_of: Callable[[int], Phone] = android
) -> None:
    """Give every message number a user with one phone."""
    now = datetime.now(UTC)
    phones = ((number, phone_of(number)) for number in range(count))
    await connection.copy_records_to_table(
        "devices",
        schema_name=SCHEMA,
        columns=[
            "id",
            "user_id",
            "provider",
            "platform",
            "token",
            "token_hash",
            "registered_at",
            "last_seen_at",
        ],
        records=(
            (
                uuid7(),
                f"user-{number}",
                phone.provider,
                phone.platform,
                phone.token,
                hashlib.sha256(phone.token.encode()).digest(),
                now,
                now,
            )
            for number, phone in phones
        ),
    )
    # The other tables are empty: a plan that is made for that would be kept while they fill.
    await connection.execute("analyze devices")
    # Or backends would write these pages to make room for others while the clock runs.
    await connection.execute("checkpoint")


@contextlib.asynccontextmanager
async def tocsin_server(
    arena: Arena,
    *,
    workers: int = 0,
    concurrency: int | None = None,
    phone_of: Callable[[int], Phone] = android,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Server]:
    """Run all of Tocsin against the sandbox; `settings` set up other providers beside FCM.

    Without `workers` it is one `tocsin serve` with its defaults.
    """
    async with contextlib.AsyncExitStack() as stack:
        url, postmaster_pid = await stack.enter_async_context(database(arena.workdir))
        connection = await asyncpg.connect(url, server_settings=connection_settings(SCHEMA))
        await lay_in_devices(connection, arena.numbers, phone_of)
        key = (await create_key(connection, "bench", Role.PRODUCER, datetime.now(UTC))).secret
        await connection.close()
        port = free_port()
        environment = {
            "TOCSIN_DATABASE_URL": url,
            "TOCSIN_HTTP__PORT": str(port),
            "TOCSIN_LOG__LEVEL": "warning",
            # Everybody may be reached at any hour, so that a run at night measures the same.
            "TOCSIN_QUIET_HOURS__START": "00:00",
            "TOCSIN_QUIET_HOURS__END": "24:00",
            "TOCSIN_FCM__BASE_URL": arena.url,
            "TOCSIN_FCM__CA_FILE": str(arena.ca_file),
            "TOCSIN_FCM__CREDENTIALS_FILE": str(arena.credentials_file),
            **({"TOCSIN_FCM__MAX_CONCURRENCY": str(concurrency)} if concurrency else {}),
            **(settings or {}),
        }
        commands = ("api", *["worker"] * workers) if workers else ("serve",)
        processes = [
            await stack.enter_async_context(
                running(
                    [sys.executable, "-m", "tocsin.cli", command],
                    environment,
                    arena.workdir / f"tocsin_{command}.log",
                )
            )
            for command in commands
        ]
        api_url = f"http://127.0.0.1:{port}"
        await ready(api_url)
        yield Server(
            api_url=api_url,
            key=key,
            database_url=url,
            api_pid=processes[0].pid,
            postmaster_pid=postmaster_pid,
            worker_pids=tuple(process.pid for process in processes[1:]),
        )


async def ready(api_url: str) -> None:
    """Wait until the API answers."""
    async with asyncio.timeout(START_SECONDS), ClientBuilder().error_for_status(True).build() as client:
        while True:
            try:
                await client.get(f"{api_url}/readyz").build().send()
            except PyreqwestError:
                await asyncio.sleep(POLL_SECONDS)
            else:
                return
