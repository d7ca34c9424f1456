"""Celery with Redis and `firebase-admin`: one task per message, `messaging.send` in a worker."""

import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from importlib.metadata import version

from redis.asyncio import Redis

from bench.broker import Broker, drained, redis_server
from bench.contestants.sdk import python_environment
from bench.contract import Arena, Batch, Engine
from bench.process import Conversation, conversing, running
from bench.race.machine import CORES


class _Workers:
    def __init__(self, broker: Broker, producer: Conversation, workers: Sequence[int], client: Redis) -> None:
        self._producer = producer
        self._client = client
        self.roots: Sequence[int] = (broker.pid, producer.pid, *workers)

    async def deliver(self, batch: Batch) -> None:
        await self._producer.ask(batch)
        await drained(self._left)

    async def _left(self) -> int:
        async with self._client.pipeline(transaction=True) as pipe:
            pipe.llen("celery")
            pipe.hlen("unacked")
            return sum(await pipe.execute())


class CeleryRedis:
    def __init__(self, name: str, title: str, settings: Sequence[str]) -> None:
        self.name = name
        self.title = title
        self.settings = settings

    def absent(self) -> str | None:
        return None

    def versions(self) -> Sequence[str]:
        return (f"Celery {version('celery')}", f"redis-py {version('redis')}")

    @contextlib.asynccontextmanager
    async def started(self, arena: Arena, setting: str) -> AsyncIterator[Engine]:
        count, _, _, concurrency, pool = setting.split()
        worker = [sys.executable, "-m", "celery", "-A", "bench.programs.celery_app", "worker"]
        worker += ["--pool", pool, "--concurrency", concurrency, "--loglevel", "WARNING"]
        worker += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        producer = [sys.executable, "-m", "bench.programs.celery_producer"]
        async with contextlib.AsyncExitStack() as stack:
            broker = await stack.enter_async_context(redis_server(arena.workdir))
            env = {**python_environment(arena), "BENCH_REDIS": broker.url}
            workers = []
            for number in range(1, int(count) + 1):
                log = arena.workdir / f"celery_worker_{number}.log"
                named = [*worker, "--hostname", f"worker{number}@%h"]
                workers.append(await stack.enter_async_context(running(named, env, log)))
            conversation = conversing(producer, env, arena.workdir / "celery_producer.log")
            produces = await stack.enter_async_context(conversation)
            client = await stack.enter_async_context(Redis(host="127.0.0.1", port=broker.port))
            yield _Workers(broker, produces, [each.pid for each in workers], client)


# Prefork is Celery's default pool; threads suit a task that mostly waits. Both are measured.
PREFORK = CeleryRedis(
    "celery",
    "Celery prefork, firebase-admin",
    tuple(f"1 worker of {CORES * processes} prefork" for processes in (16, 24)),
)
THREADS = CeleryRedis(
    "celery-threads",
    "Celery threads, firebase-admin",
    tuple(f"{CORES} workers of {threads} threads" for threads in (32, 64)),
)
