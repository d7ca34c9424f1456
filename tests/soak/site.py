"""What the soak runs: a database that can be cut off, a sandbox, and processes that can be killed."""

import asyncio
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import msgspec

from tests.acceptance.postgres import kill_postgres, mortal_folder
from tests.acceptance.processes import bare_environment, free_port
from tests.databases import SCHEMA, with_database
from tests.soak.catalog import write_catalog
from tests.soak.clocked import OFFSET
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.cli.run.supervisor import CANNOT_START
from tocsin.engine.clock import utc_now
from tocsin.ingress.outbox.install import install
from tocsin.sandbox import Latency, Sandbox, SandboxSettings
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.migrate import migrate
from tocsin.store.pool import PoolSettings, open_pool

LARGEST_OFFSET = 120.0
RESTART_SECONDS = 0.5
MESSAGES_KEPT = 1_000_000
SHOP = "shop"


class Span(msgspec.Struct, frozen=True):
    """Something that happened to the site, from a moment to another, in Unix time."""

    what: str
    start: float
    end: float


class Program:
    """One process, restarted whenever it ends, each time with another error of its clock."""

    def __init__(self, name: str, command: str, site: "Site", *, seed: int) -> None:
        self.name = name
        self.ended_by_itself: list[int] = []
        self._command = command
        self._site = site
        self._random = random.Random(f"{seed} {name}")  # noqa: S311 - repeatable
        self._process: asyncio.subprocess.Process | None = None
        self._killed = False
        self._keeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run it from now on."""
        self._keeping = asyncio.create_task(self._keep())

    def kill(self) -> None:
        """Kill it as a crash does; it is started again."""
        if self._process is not None and self._process.returncode is None:
            self._killed = True
            self._process.kill()

    async def stop(self) -> None:
        """Stop it for good and wait until it has drained."""
        process, keeping = self._process, self._keeping
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(40):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _keep(self) -> None:
        while True:
            offset = self._random.uniform(-LARGEST_OFFSET, LARGEST_OFFSET) if self._site.clocks_wrong else 0.0
            with (self._site.folder / f"{self.name}.log").open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "tests.soak.clocked", self._command, "--tied"),
                    env={**bare_environment(), **self._site.environment, OFFSET: str(offset)},
                    # Tied, as below `tocsin serve`: it waits for a database that is away.
                    stdin=asyncio.subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                )
            code = await self._process.wait()
            if code == CANNOT_START:
                raise SystemExit(f"{self.name} cannot start; see {log.name}")
            if not self._killed:
                self.ended_by_itself.append(code)
            self._killed = False
            await asyncio.sleep(RESTART_SECONDS)


class Site:
    """The installation under test."""

    def __init__(self, folder: Path, data_dir: Path, sandbox: Sandbox) -> None:
        self.folder = folder
        self.sandbox = sandbox
        self.clocks_wrong = True
        self.outages: list[Span] = []
        self.kills: list[Span] = []
        self.programs: list[Program] = []
        self.port = free_port()
        self.key = ""
        self.environment: Mapping[str, str] = {}
        self._data_dir = data_dir
        self._postgres = EmbeddedPostgres(data_dir)

    async def open(self) -> None:
        """Start and fill the database; the processes are not started yet."""
        server_url = await asyncio.to_thread(self._postgres.start)
        self.url, self.shop_url = with_database(server_url, "soak"), with_database(server_url, SHOP)
        server = await asyncpg.connect(server_url)
        for name in ("soak", SHOP):
            await server.execute(f"create database {name}")
        await server.close()
        await migrate(self.url, SCHEMA, PoolSettings())
        shop = await asyncpg.connect(self.shop_url)
        await install(shop, "public", "tocsin_outbox")
        await shop.close()
        async with open_pool(self.url, SCHEMA, PoolSettings()) as pool:
            self.key = (await create_key(pool, "soak", Role.PRODUCER, utc_now())).secret
        self.environment = {
            **settings_for(self.sandbox, self.folder),
            "TOCSIN_DATABASE_URL": self.url,
            "TOCSIN_CATALOG": str(write_catalog(self.folder / "catalog")),
            "TOCSIN_HTTP__PORT": str(self.port),
            "TOCSIN_QUIET_HOURS__ENABLED": "false",
            "TOCSIN_DISPATCH__LEASE_SECONDS": "45",
            "TOCSIN_OUTBOXES__SHOP__URL": self.shop_url,
        }

    def start(self, *, seed: int) -> None:
        """Start an API, two workers and a relay."""
        names = {"api": "api", "worker-1": "worker", "worker-2": "worker", "relay": "relay"}
        self.programs = [Program(name, command, self, seed=seed) for name, command in names.items()]
        for program in self.programs:
            program.start()

    async def ready(self) -> None:
        """Wait until the API answers."""
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}") as http, asyncio.timeout(60):
            while True:
                with suppress(httpx.TransportError):
                    if (await http.get("/readyz")).is_success:
                        return
                await asyncio.sleep(0.1)

    def kill(self, name: str) -> None:
        """Kill a process."""
        now = time.time()
        self.kills.append(Span(name, now, now))
        next(program for program in self.programs if program.name == name).kill()

    async def cut_database(self, seconds: float) -> None:
        """Kill the database server and start it again after some seconds."""
        began = time.time()
        await asyncio.to_thread(kill_postgres, self._data_dir)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self._postgres.ensure_running)
        self.outages.append(Span("database", began, time.time()))

    async def right_clocks(self) -> list[Program]:
        """Restart every process with the right clock; return those that ran before."""
        before = self.programs
        await asyncio.gather(*(program.stop() for program in before))
        self.clocks_wrong = False
        self.start(seed=0)
        return before

    async def close(self) -> None:
        """Stop everything."""
        await asyncio.gather(*(program.stop() for program in self.programs))
        await asyncio.to_thread(self._postgres.stop)


@asynccontextmanager
async def open_site(folder: Path) -> AsyncIterator[Site]:
    """Yield a site whose processes are not started yet."""
    settings: dict[str, Any] = {"messages_kept": MESSAGES_KEPT, "messages_per_phone": 1}
    async with AsyncExitStack() as exits:
        data_dir = exits.enter_context(mortal_folder())
        sandbox = await exits.enter_async_context(Sandbox(SandboxSettings(latency=Latency(0.03), **settings)))
        site = Site(folder, data_dir, sandbox)
        exits.push_async_callback(site.close)
        await site.open()
        yield site
