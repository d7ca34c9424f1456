"""What metrics cost: the same load with them and without, in turns."""

import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator, Sequence

import msgspec
import psutil
from pyreqwest.client import ClientBuilder

from bench.contestants.tocsin import Tocsin
from bench.contract import Arena, Batch, Engine, Goal, Reading
from bench.meter import cpu_seconds
from bench.progress import tell

ROUNDS = 6
WARM_UP = 5_000
MESSAGES = 30_000
SETTING = "1 worker of 400"
SCRAPE_SECONDS = 5.0
# Every process takes a free port of its own.
METRICS = {"TOCSIN_METRICS__PORT": "0"}


class MetricsCost:
    name = "metrics"
    title = "Cost of metrics"

    async def measure(self, arena: Arena) -> Sequence[Reading]:
        costs: dict[bool, list[float]] = {False: [], True: []}
        for number in range(ROUNDS):
            # Which comes first alternates: a machine that becomes slower counts for both.
            for metrics in (False, True) if number % 2 else (True, False):
                name = f"{'on' if metrics else 'off'}-{number}"
                costs[metrics].append(await _cpu_micros(_apart(arena, name), metrics=metrics))
            off, on = costs[False][-1], costs[True][-1]
            tell(f"round {number + 1}/{ROUNDS}  {off:,.1f} µs without metrics, {on:,.1f} µs with them")
        off, on = statistics.median(costs[False]), statistics.median(costs[True])
        return (
            Reading("CPU a message, without metrics", off, "µs"),
            Reading("CPU a message, with metrics", on, "µs"),
            Reading(
                "metrics cost more by",
                100 * (on / off - 1),
                "%",
                Goal(3, least=False),
                note=f"medians of {ROUNDS} rounds each; every process is scraped each {SCRAPE_SECONDS:g} s",
            ),
        )


def _apart(arena: Arena, name: str) -> Arena:
    """Give a round a folder, and so a database, of its own."""
    folder = arena.workdir / name
    folder.mkdir()
    return msgspec.structs.replace(arena, workdir=folder)


async def _cpu_micros(arena: Arena, *, metrics: bool) -> float:
    contestant = Tocsin(METRICS if metrics else {})
    async with contestant.started(arena, SETTING) as engine:
        await engine.deliver(Batch(serial=0, count=min(WARM_UP, arena.numbers)))
        count = min(MESSAGES, arena.numbers)
        async with _scraped(engine) if metrics else contextlib.nullcontext():
            before = cpu_seconds(engine.roots)
            await engine.deliver(Batch(serial=1, count=count))
            return 1e6 * (cpu_seconds(engine.roots) - before) / count


@contextlib.asynccontextmanager
async def _scraped(engine: Engine) -> AsyncIterator[None]:
    """Scrape every process that shows metrics, as Prometheus does."""
    async with ClientBuilder().build() as client:
        urls = [f"http://127.0.0.1:{port}/metrics" for port in _ports(engine.roots)]
        shown = [url for url in urls if (await client.get(url).build().send()).status == 200]
        if not shown:
            raise RuntimeError("no process shows metrics")

        async def scrape() -> None:
            while True:
                await asyncio.sleep(SCRAPE_SECONDS)
                for url in shown:
                    await (await client.get(url).build().send()).bytes()

        scraping = asyncio.create_task(scrape())
        try:
            yield
        finally:
            scraping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await scraping


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
