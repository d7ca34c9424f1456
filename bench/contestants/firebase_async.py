"""`firebase-admin` for Python: `send_each_async` in batches of 500, one process, no queue."""

import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from importlib.metadata import version

from bench.contestants.sdk import python_environment
from bench.contract import Arena, Batch, Engine
from bench.process import Conversation, conversing


class _Sender:
    def __init__(self, program: Conversation) -> None:
        self._program = program
        self.roots: Sequence[int] = (program.pid,)

    async def deliver(self, batch: Batch) -> None:
        await self._program.ask(batch)


class FirebaseAsync:
    name = "firebase-admin"
    title = "firebase-admin send_each_async"
    settings: Sequence[str] = ("1 call at a time",)

    def absent(self) -> str | None:
        return None

    def versions(self) -> Sequence[str]:
        return (f"firebase-admin {version('firebase-admin')} (Python)", f"httpx {version('httpx')}")

    @contextlib.asynccontextmanager
    async def started(self, arena: Arena, setting: str) -> AsyncIterator[Engine]:
        argv = [sys.executable, "-m", "bench.programs.firebase_sender", setting.split(maxsplit=1)[0]]
        log = arena.workdir / "firebase_sender.log"
        async with conversing(argv, python_environment(arena), log) as program:
            yield _Sender(program)
