"""A server of `tocsin serve` and the operator who runs it by the command line alone."""

import asyncio
import contextlib
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.installation import Producer
from tests.acceptance.processes import Process, Processes, free_port, processes_in
from tests.edges.command_line import Ran, run
from tests.edges.edge import SECRET
from tests.engine.conftest import BY_PUSH, add_type
from tests.waiting import found
from tocsin.catalog.load import shipped_catalog
from tocsin.cli.demo.stand_ins import settings_for
from tocsin.sandbox import Sandbox, SandboxSettings

IN_FLIGHT = 8
OFFER = BY_PUSH.format(name="spring_offer", category="offers", policies="{}")


class Week:
    """A server on a sandbox, its operator, and a producer whose key the operator created."""

    def __init__(self, processes: Processes, sandbox: Sandbox, folder: Path, database_url: str) -> None:
        shutil.copytree(shipped_catalog(), folder / "catalog")
        texts = {"push.title": "Spring", "push.body": "All for 1 EUR"}
        add_type(folder / "catalog", "spring_offer", OFFER, texts)
        self._processes = processes
        self._folder = folder
        self._metrics_port = free_port()
        self.sandbox = sandbox
        self.server = f"http://127.0.0.1:{free_port()}"
        stand_ins = settings_for(sandbox, folder)
        self.settings = {
            **{name: stand_ins[name] for name in stand_ins if name.startswith("TOCSIN_FCM__")},
            "TOCSIN_DATABASE_URL": database_url,
            "TOCSIN_CATALOG": str(folder / "catalog"),
            "TOCSIN_HTTP__PORT": self.server.rpartition(":")[2],
            "TOCSIN_METRICS__PORT": str(self._metrics_port),
            "TOCSIN_AUTH__JWT_SECRET": SECRET,
            "TOCSIN_QUIET_HOURS__ENABLED": "false",
            "TOCSIN_FCM__MAX_CONCURRENCY": str(IN_FLIGHT),
            # Only the operator tries it again.
            "TOCSIN_HEALTH__REST_SECONDS": "60",
        }
        self.admin_key = ""
        self.process: Process
        self.producer: Producer

    async def start(self) -> None:
        """Start the server; its operator creates the first keys on its machine."""
        self.process = await self._processes.start("serve", environment=self.settings)
        for event in ("metrics started", "api started", "worker started"):
            await self.process.logged(event)

    async def stop(self) -> None:
        self.process.signal(signal.SIGTERM)
        assert await self.process.end() == 0

    async def on_the_machine(self, *arguments: str) -> Any:
        """Run a command with the settings of the server, and return its JSON."""
        return _checked(await self._run(self.settings, *arguments, "--json")).json

    async def tocsin(self, *arguments: str) -> str:
        """Run a command over HTTP, and return what it prints on a screen of 80 columns."""
        return _checked(await self._run(self._remote, *arguments)).out

    async def json(self, *arguments: str) -> Any:
        """Run a command over HTTP, and return its JSON."""
        return _checked(await self._run(self._remote, *arguments, "--json")).json

    async def fails(self, *arguments: str) -> str:
        """Run a command over HTTP that fails, and return what it says."""
        ran = await self._run(self._remote, *arguments)
        assert ran.code == 1, ran
        return ran.said

    async def listed(self, *filters: str) -> list[dict[str, Any]]:
        """List all deliveries that match."""
        page = await self.json("list", "--limit", "10000", *filters)
        return [delivery for item in page["items"] for delivery in item["deliveries"]]

    async def waits_for(self, wanted: int, *filters: str) -> None:
        """Look by `tocsin list` until exactly so many deliveries match."""

        async def look() -> bool:
            return len(await self.listed(*filters)) == wanted

        await found(look, within=30)

    async def metric(self, name: str, **labels: str) -> float:
        """Scrape the port and add up the samples with a name and some labels."""
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=20)
        samples = [each for family in text_string_to_metric_families(answer.text) for each in family.samples]
        return sum(
            each.value for each in samples if each.name == name and labels.items() <= each.labels.items()
        )

    async def metric_is(self, least: float, most: float, name: str, **labels: str) -> None:
        """Scrape until the samples add up to a value between two; processes report theirs every second."""

        async def look() -> bool:
            return least <= await self.metric(name, **labels) <= most

        await found(look, within=30)

    def arrived(self, title: str) -> int:
        """Count the messages with a title that phones received."""
        received = self.sandbox.phones.messages(after=0, limit=10_000)
        return sum(each.message["notification"]["title"] == title for each in received)

    @property
    def _remote(self) -> dict[str, str]:
        return {"TOCSIN_SERVER": self.server, "TOCSIN_KEY": self.admin_key}

    async def _run(self, environment: Mapping[str, str], *arguments: str) -> Ran:
        return await asyncio.to_thread(run, arguments, {**environment, "COLUMNS": "80"}, self._folder)


def _checked(ran: Ran) -> Ran:
    assert ran.code == 0, ran
    return ran


@contextlib.asynccontextmanager
async def operated(database_url: str, folder: Path) -> AsyncIterator[Week]:
    """Run a server on a migrated database, with an operator and a producer who have keys."""
    async with (
        Sandbox(SandboxSettings(folder=folder / "sandbox")) as sandbox,
        processes_in(folder) as started,
    ):
        week = Week(started, sandbox, folder, database_url)
        await week.start()
        week.admin_key = (await week.on_the_machine("keys", "create", "ops", "--role", "admin"))["key"]
        key = (await week.json("keys", "create", "shop"))["key"]
        async with httpx.AsyncClient(base_url=week.server, timeout=30) as http:
            week.producer = Producer(week.process, http, key)
            yield week
