"""BullMQ with Redis and `firebase-admin` for Node: one job per message, `messaging.send` in a worker."""

import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
from redis.asyncio import Redis

from bench.broker import Broker, drained, redis_server
from bench.contestants.sdk import node_environment
from bench.contract import Arena, Batch, Engine
from bench.process import ROOT, Conversation, ProgramFailedError, conversing, running
from bench.race.machine import CORES

FOLDER = ROOT / "bench" / "bullmq"
INSTALL_SECONDS = 300.0


class _Manifest(msgspec.Struct):
    dependencies: dict[str, str]


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
            pipe.llen("bull:send:wait")
            pipe.llen("bull:send:active")
            pipe.zcard("bull:send:failed")
            waiting, active, failed = await pipe.execute()
        if failed:
            raise ProgramFailedError(f"BullMQ counts {failed} failed jobs; bullmq_worker.log says why")
        return int(waiting + active)


class BullMq:
    def __init__(self, name: str, title: str, workers: int, *, append_only: bool = False) -> None:
        self.name = name
        self.title = title
        self.settings: Sequence[str] = tuple(f"{workers} workers of {jobs}" for jobs in (200, 300, 600))
        self._append_only = append_only

    def absent(self) -> str | None:
        if shutil.which("node") is None or shutil.which("npm") is None:
            return "`node` and `npm` are not on the PATH; install Node 18 or newer to include it"
        return _install()

    def versions(self) -> Sequence[str]:
        manifest = msgspec.json.decode((FOLDER / "package.json").read_bytes(), type=_Manifest)
        return tuple(f"{name} {number} (Node)" for name, number in manifest.dependencies.items())

    @contextlib.asynccontextmanager
    async def started(self, arena: Arena, setting: str) -> AsyncIterator[Engine]:
        count, _, _, concurrency = setting.split()
        node = ["node", "--require", str(FOLDER / "redirect.js")]
        async with contextlib.AsyncExitStack() as stack:
            broker = await stack.enter_async_context(
                redis_server(arena.workdir, append_only=self._append_only)
            )
            env = {**node_environment(arena), "BENCH_REDIS_PORT": str(broker.port)}
            worker = [*node, str(FOLDER / "worker.js"), concurrency]
            log = arena.workdir / "bullmq_worker.log"
            workers = [await stack.enter_async_context(running(worker, env, log)) for _ in range(int(count))]
            producer = await stack.enter_async_context(
                conversing(["node", str(FOLDER / "producer.js")], env, arena.workdir / "bullmq_producer.log")
            )
            client = await stack.enter_async_context(Redis(host="127.0.0.1", port=broker.port))
            yield _Workers(broker, producer, [process.pid for process in workers], client)


BULLMQ = BullMq("bullmq", "BullMQ, firebase-admin", 1)
BULLMQ_PER_CORE = BullMq("bullmq-per-core", "BullMQ, a worker a core", CORES)
BULLMQ_APPEND_ONLY = BullMq("bullmq-aof", "BullMQ, append-only file", CORES, append_only=True)


def _install() -> str | None:
    lock, done = FOLDER / "package-lock.json", FOLDER / "node_modules" / ".package-lock.json"
    if _as_new(done, lock):
        return None
    print("Installing BullMQ and firebase-admin for Node into bench/bullmq …", flush=True)
    argv = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        subprocess.run(argv, cwd=FOLDER, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.CalledProcessError as fault:
        return f"`npm ci` failed in bench/bullmq: {fault.stderr.strip()[-300:]}"
    except subprocess.TimeoutExpired:
        return f"`npm ci` in bench/bullmq took more than {INSTALL_SECONDS:.0f} s"
    return None


def _as_new(done: Path, lock: Path) -> bool:
    return done.exists() and done.stat().st_mtime >= lock.stat().st_mtime
