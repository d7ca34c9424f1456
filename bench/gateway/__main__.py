"""What sessions of the gateway cost: `python -m bench.gateway --sessions 10000`.

So many sessions are opened in one process of the gateway, some of them WebSockets or WebSockets of SignalR,
each of another person.
Memory is the resident set size of that process. Processor time is measured while the sessions get nothing but
pings, and again while events arrive. At the end the process is stopped.
"""

import argparse
import asyncio
import itertools
import random
import resource
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import uvloop
from redis.asyncio import Redis

from bench.broker import free_port, redis_server
from bench.gateway.client import HUB, SECRET, Client
from bench.process import running
from bench.progress import tell

STREAM = "gateway:client-events"
AT_ONCE = 100
START_SECONDS = 30.0


async def measure(
    sessions: int, websockets: int, signalr: int, seconds: float, events: int
) -> dict[str, Any]:
    """Open the sessions, leave them idle, send events, and stop the gateway."""
    with tempfile.TemporaryDirectory() as folder:
        workdir = Path(folder)
        async with redis_server(workdir) as broker:
            port = free_port()
            environment = {
                "TOCSIN_REDIS__URL": broker.url,
                "TOCSIN_AUTH__JWT_SECRET": SECRET,
                "TOCSIN_GATEWAY__PORT": str(port),
                "TOCSIN_GATEWAY__STREAM": STREAM,
                "TOCSIN_GATEWAY__MAX_SESSIONS": str(sessions),
                "TOCSIN_GATEWAY__SIGNALR_PATH": HUB,
            }
            argv = [sys.executable, "-m", "tocsin.cli", "gateway"]
            async with running(argv, environment, workdir / "gateway.log") as process:
                gateway = psutil.Process(process.pid)
                await listens(port)
                empty = gateway.memory_info().rss
                began, before = time.monotonic(), cpu(gateway)
                clients = await _connected(port, sessions, websockets, signalr)
                connecting, connect_cpu = time.monotonic() - began, cpu(gateway) - before
                tell(f"{sessions:,} sessions in {connecting:.1f} s")
                idle_cpu = await _cpu_over(gateway, seconds)
                resident = gateway.memory_info().rss
                before = cpu(gateway)
                async with Redis.from_url(broker.url) as redis:
                    latencies = await _sent(redis, clients, events)
                event_cpu = cpu(gateway) - before
                began = time.monotonic()
                process.send_signal(signal.SIGTERM)
                await asyncio.gather(*(client.ended.wait() for client in clients))
                stopping = time.monotonic() - began
    return {
        "sessions": sessions,
        "websockets": websockets,
        "signalr": signalr,
        "rss_empty_mb": round(empty / 1e6, 1),
        "rss_mb": round(resident / 1e6, 1),
        "kb_per_session": round((resident - empty) / sessions / 1e3, 1),
        "connect_seconds": round(connecting, 1),
        "connect_cpu_us_per_session": round(connect_cpu / sessions * 1e6),
        "idle_cpu_percent": round(100 * idle_cpu / seconds, 1),
        "event_ms_median": round(1_000 * statistics.median(latencies), 1),
        "event_ms_p99": round(1_000 * statistics.quantiles(latencies, n=100)[98], 1),
        "event_cpu_us": round(event_cpu / events * 1e6),
        "stop_seconds": round(stopping, 1),
    }


async def _connected(port: int, sessions: int, websockets: int, signalr: int) -> list[Client]:
    loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)
    kinds = itertools.chain(["websocket"] * websockets, ["signalr"] * signalr, itertools.repeat("sse"))

    async def connect(number: int) -> Client:
        kind = next(kinds)
        async with gate:
            _, client = await loop.create_connection(lambda: Client(number, kind), "127.0.0.1", port)
            await client.live
            return client

    return await asyncio.gather(*map(connect, range(sessions)))


async def _sent(redis: Redis, clients: list[Client], events: int) -> list[float]:
    """Append events for people by chance, a hundred a second; return how long each took to arrive."""
    latencies = []
    for number in range(events):
        client = random.choice(clients)
        fields: Any = {
            "user_id": f"u{client.number}",
            "event_type": "bench",
            "event_id": f"e{number}",
            "payload_bytes": b"x" * 200,
        }
        seen, began = len(client.seen_at), time.monotonic()
        await redis.xadd(STREAM, fields, maxlen=1_024)
        while len(client.seen_at) == seen:  # noqa: ASYNC110 - the protocol has no room for an event each
            await asyncio.sleep(0.0005)
        latencies.append(client.seen_at[-1] - began)
        await asyncio.sleep(0.01)
    return latencies


async def _cpu_over(process: psutil.Process, seconds: float) -> float:
    before = cpu(process)
    await asyncio.sleep(seconds)
    return cpu(process) - before


def cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def listens(port: int) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--websockets", type=int, default=0, help="how many of them are WebSockets")
    parser.add_argument("--signalr", type=int, default=0, help="how many are WebSockets of SignalR")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the sessions are idle")
    parser.add_argument("--events", type=int, default=500)
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for name, value in uvloop.run(
        measure(given.sessions, given.websockets, given.signalr, given.seconds, given.events)
    ).items():
        print(f"{name:28} {value:,}")


if __name__ == "__main__":
    main()
