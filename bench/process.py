"""Programs the runner starts, and the JSON lines it speaks with them."""

import asyncio
import contextlib
import os
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
STOP_SECONDS = 10.0


class ProgramFailedError(Exception):
    """A program of a contestant ended early or answered out of turn."""


class Conversation:
    """A program that reads a batch a line from its input and writes one line when the batch is done."""

    def __init__(self, process: Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """Name the process."""
        return self._process.pid

    async def ready(self) -> None:
        """Wait until the program has written its first line."""
        await self._answer()

    async def ask(self, batch: msgspec.Struct) -> None:
        """Hand over a batch and wait until the program is done with it."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(batch) + b"\n")
        await self._process.stdin.drain()
        await self._answer()

    async def _answer(self) -> None:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if line.strip() != b"ok":
            last_words = self._log.read_text(errors="replace")[-2000:]
            raise ProgramFailedError(
                f"{self._log.stem} answered {line!r} where 'ok' was due; it wrote:\n{last_words}"
            )


@contextlib.asynccontextmanager
async def running(argv: Sequence[str], env: Mapping[str, str], log: Path) -> AsyncIterator[Process]:
    """Run a program from the repository's root with its words going to `log`, and end it on the way out."""
    with log.open("ab") as words:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=ROOT, env={**os.environ, **env}, stdin=DEVNULL, stdout=words, stderr=words
        )
        try:
            yield process
        finally:
            await end(process)


@contextlib.asynccontextmanager
async def conversing(argv: Sequence[str], env: Mapping[str, str], log: Path) -> AsyncIterator[Conversation]:
    """Run a program that takes batches, wait until it is ready, and end it on the way out."""
    with log.open("ab") as words:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=ROOT, env={**os.environ, **env}, stdin=PIPE, stdout=PIPE, stderr=words
        )
        try:
            conversation = Conversation(process, log)
            await conversation.ready()
            yield conversation
        finally:
            await end(process)


async def end(process: Process) -> None:
    """Ask a process to stop, and make it after a while."""
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
