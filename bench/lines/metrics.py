"""What metrics cost: the same load with them and without, in turns."""

import contextlib
import statistics
import time
from collections.abc import Mapping, Sequence

import msgspec
import psutil
from pyreqwest.client import Client, ClientBuilder

from bench.contestants.tocsin import Tocsin
from bench.contract import Arena, Batch, Engine, Goal, Reading
from bench.meter import cpu_seconds
from bench.progress import tell

ROUNDS = 60
WARM_UP = 5_000
MESSAGES = 4_000
SETTING = "1 worker of 400"
SCRAPE_SECONDS = 15.0
# Every process takes a free port of its own.
METRICS = {"TOCSIN_METRICS__PORT": "0"}


class MetricsCost:
    name = "metrics"
    title = "Cost of metrics"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        """Give batches to two servers in turns: what the machine does meanwhile, both feel."""
        async with contextlib.AsyncExitStack() as stack:
            sides = [
                Side(await stack.enter_async_context(_started(arena, "off", {})), ()),
                Side(
                    engine := await stack.enter_async_context(_started(arena, "on", METRICS)),
                    await _shown(engine),
                ),
            ]
            for each in sides:
                await each.engine.deliver(Batch(serial=0, count=min(WARM_UP, arena.numbers)))
            async with ClientBuilder().build() as client:
                for number in range(1, ROUNDS + 1):
                    for side in sides if number % 2 else sides[::-1]:
                        await side.run(client, number, min(MESSAGES, arena.numbers))
                    off, on = (side.costs[-1] for side in sides)
                    tell(f"round {number}/{ROUNDS}  {off:,.1f} µs without metrics, {on:,.1f} µs with them")
        # Medians: a vacuum or a checkpoint that falls on one side says nothing of metrics.
        off, on = (statistics.median(side.costs) for side in sides)
        shares = [100 * (on / off - 1) for off, on in zip(*(side.costs for side in sides), strict=True)]
        low, middle, high = statistics.quantiles(shares, n=4)
        return (
            Reading("CPU a message, without metrics", off, "µs"),
            Reading("CPU a message, with metrics", on, "µs"),
            Reading(
                "metrics cost more by",
                middle,
                "%",
                Goal(3, least=False),
                note=f"median of {ROUNDS} pairs of {MESSAGES:,} messages in turns, half of them between "
                f"{low:.1f} and {high:.1f} %; every process is scraped each {SCRAPE_SECONDS:g} s",
            ),
        )


class Side:
    """A server with metrics or without, and what its batches cost."""

    def __init__(self, engine: Engine, urls: Sequence[str]) -> None:
        self.engine = engine
        self.costs: list[float] = []
        self._urls = urls
        self._unscraped = 0.0

    async def run(self, client: Client, serial: int, count: int) -> None:
        """Deliver a batch; the time it took brings the next scrape closer."""
        before, began = cpu_seconds(self.engine.roots), time.perf_counter()
        await self.engine.deliver(Batch(serial=serial, count=count))
        self._unscraped += time.perf_counter() - began
        if self._unscraped >= SCRAPE_SECONDS:
            self._unscraped -= SCRAPE_SECONDS
            for url in self._urls:
                await (await client.get(url).build().send()).bytes()
        self.costs.append(1e6 * (cpu_seconds(self.engine.roots) - before) / count)


def _started(
    arena: Arena, name: str, environment: Mapping[str, str]
) -> contextlib.AbstractAsyncContextManager[Engine]:
    """Start a server with a folder, and so a database, of its own."""
    folder = arena.workdir / name
    folder.mkdir()
    return Tocsin(environment).started(msgspec.structs.replace(arena, workdir=folder), SETTING)


async def _shown(engine: Engine) -> Sequence[str]:
    """List where the processes of a server show metrics."""
    urls = [f"http://127.0.0.1:{port}/metrics" for port in _ports(engine.roots)]
    async with ClientBuilder().build() as client:
        shown = [url for url in urls if (await client.get(url).build().send()).status == 200]
    if not shown:
        raise RuntimeError("no process shows metrics")
    return shown


def _ports(pids: Sequence[int]) -> list[int]:
    """List the ports on which Python processes listen."""
    listening = (
        connection
        for pid in pids
        if "python" in psutil.Process(pid).name()
        for connection in psutil.Process(pid).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    )
    return sorted({connection.laddr.port for connection in listening})
