import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.databases import SCHEMA
from tests.edges.command_line import Ran, run
from tests.ingress.mail_commands.commands import append
from tests.redis_servers import RedisServer
from tests.waiting import found, until
from tocsin.catalog.load import shipped_catalog
from tocsin.cli.run.mailer import mail_settings, mailer_faults, open_mailer
from tocsin.compose.catalog import read_catalog
from tocsin.ingress.mail_commands.catalog import MailCatalog
from tocsin.sandbox import Sandbox
from tocsin.settings.load import load_settings
from tocsin.settings.tree import Settings
from tocsin.store.pool import Pool


class Post:
    """A mailer between a stream and a mail server, and the other services around it."""

    def __init__(
        self, redis: Redis, pool: Pool, sandbox: Sandbox, environment: dict[str, str], folder: Path
    ) -> None:
        self.redis = redis
        self.pool = pool
        self.sandbox = sandbox
        self.environment = environment
        self._folder = folder

    @property
    def settings(self) -> Settings:
        settings = load_settings(self.environment)
        assert not list(mailer_faults(settings))
        return mail_settings(settings)

    async def append(self, fields: dict[str, str]) -> str:
        return await append(self.redis, fields)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run a mailer."""
        settings = self.settings
        url, stop = str(settings.database_url), asyncio.Event()
        async with (
            open_mailer(settings, url, MailCatalog(read_catalog(settings))) as parts,
            asyncio.TaskGroup() as running,
        ):
            for part in parts:
                running.create_task(part.run(stop))
            try:
                yield
            finally:
                stop.set()

    async def reaches(self, entry_id: str) -> None:
        """Wait until the offset is at an entry."""

        async def look() -> bool:
            at: str | None = await self.pool.fetchval("select entry_id from stream_offsets")
            return at == entry_id

        await found(look)

    async def mails(self, count: int) -> Sequence[dict[str, Any]]:
        """Wait until so many mails have come, and return them as the mail server shows them."""
        await until(lambda: self.sandbox.phones.count >= count)
        return [
            each.message | {"to": each.target} for each in self.sandbox.phones.messages(after=0, limit=1_000)
        ]

    async def shown(self, idempotency_key: str, *states: str) -> dict[str, Any]:
        """Wait until the delivery of a command is in one of the states, and show its notification."""

        async def look() -> str | None:
            statement = (
                "select n.id::text from notifications as n join deliveries as d on d.notification_id = n.id"
                " where n.idempotency_key = $1 and d.state = any($2)"
            )
            seen: str | None = await self.pool.fetchval(statement, idempotency_key, states)
            return seen

        shown: dict[str, Any] = (await self.tocsin("show", await found(look), "--json")).json
        return shown

    async def tocsin(self, *arguments: str) -> Ran:
        """Run a command on the mailer's schema."""
        return await asyncio.to_thread(run, arguments, self.environment, self._folder)

    async def refused(self) -> list[tuple[str, list[dict[str, str]]]]:
        """List code and faults of what was refused, the oldest first."""
        listed = (await self.tocsin("refused", "--json")).json
        return [(each["code"], each["faults"]) for each in reversed(listed)]


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as running:
        yield running


@pytest.fixture(scope="session")
def mail_catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the shipped catalog, with retries that do not wait."""
    folder: Path = tmp_path_factory.mktemp("mail") / "catalog"
    shutil.copytree(shipped_catalog(), folder)
    declared = folder / "types" / "invoice_due.yaml"
    declared.write_text(
        declared.read_text()
        .replace("exponential(5s, 1h, 4, 0.2)", "ladder(10ms)")
        .replace("{push: 5, email: 8}", "{push: 5, email: 3}")
    )
    return folder


@pytest.fixture
def post(
    redis: Redis,
    redis_server: RedisServer,
    pool: Pool,
    database_url: str,
    sandbox: Sandbox,
    mail_catalog: Path,
    tmp_path: Path,
) -> Post:
    sandbox.reset()
    environment = {
        "TOCSIN_DATABASE_URL": database_url,
        "TOCSIN_SCHEMA": SCHEMA,
        "TOCSIN_CATALOG": str(mail_catalog),
        "TOCSIN_REDIS__URL": redis_server.url,
        "TOCSIN_MAILER__BLOCK_SECONDS": "0.1",
        "TOCSIN_DISPATCH__POLL_SECONDS": "0.1",
        "TOCSIN_SMTP__HOST": "127.0.0.1",
        "TOCSIN_SMTP__PORT": str(sandbox.smtp_port),
        "TOCSIN_SMTP__SECURITY": "none",
        "TOCSIN_SMTP__SENDER": "Galaxy <notify@galaxy.example>",
    }
    return Post(redis, pool, sandbox, environment, tmp_path)
