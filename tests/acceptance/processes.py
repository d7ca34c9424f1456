"""Real processes of Tocsin: started, listened to, signalled, and gone when the test is over."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from tests.waiting import until

Found = TypeVar("Found")

LONGEST_START = 40.0
LONGEST_END = 20.0


class Process:
    """One `tocsin` process with everything it has said so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.output: list[str] = []
        self.log: list[str] = []
        self._reading = [
            asyncio.create_task(_read(process.stdout, self.output)),
            asyncio.create_task(_read(process.stderr, self.log)),
        ]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.returncode is not None

    async def logged(self, event: str, *, within: float = LONGEST_START, **fields: Any) -> dict[str, Any]:
        """Wait for a line of the log by its event, and by some fields, and give all its fields."""
        wanted = {"event": event, **fields}
        return await self._heard(lambda: _entry(self.log, wanted), f"to log {wanted!r}", within)

    async def said(self, text: str, *, within: float = LONGEST_START) -> str:
        """Wait for a text on standard output and give all that was said."""

        def look() -> str:
            said = "\n".join(self.output)
            return said if text in said else ""

        return await self._heard(look, f"to say {text!r}", within)

    async def end(self, *, within: float = LONGEST_END) -> int:
        """Wait until it has ended by itself and give its exit code."""
        async with asyncio.timeout(within):
            code = await self._process.wait()
            await asyncio.gather(*self._reading)
        return code

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        """End it as a crash does: `kill -9`."""
        self.signal(signal.SIGKILL)
        await self.end()

    def children(self) -> dict[str, psutil.Process]:
        """Give the running processes below it by their command: `api`, `worker`."""
        found = psutil.Process(self.pid).children(recursive=True)
        return {name: child for child in found for name in ("api", "worker") if name in _command(child)}

    async def close(self) -> None:
        """Leave nothing of it behind."""
        below = [] if self.ended else psutil.Process(self.pid).children(recursive=True)
        if not self.ended:
            self._process.kill()
        for child in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        await self._process.wait()
        await asyncio.gather(*self._reading)

    async def _heard(self, look: Callable[[], Found | None], what: str, within: float) -> Found:
        try:
            await until(lambda: bool(look()) or self.ended, within=within)
        except TimeoutError:
            raise AssertionError(f"waited {within:g} s for it {what}; {self._story()}") from None
        found = look()
        assert found, f"it ended with {self._process.returncode} instead {what}; {self._story()}"
        return found

    def _story(self) -> str:
        return "\n".join(["its output:", *self.output[-30:], "its log:", *self.log[-30:]])


class Processes:
    """Starts processes in a folder of their own, with nothing of the caller's settings."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Process] = []

    async def start(self, *arguments: str, environment: Mapping[str, str], before: str = "") -> Process:
        """Start a command; `before` is a statement that its process runs first."""
        program = ("-c", f"{before}\nfrom tocsin.cli import main\nmain()") if before else ("-m", "tocsin.cli")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *program,
            *arguments,
            cwd=self._folder,
            env={**bare_environment(), **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        started = Process(process)
        self._started.append(started)
        return started

    async def run(self, *arguments: str, environment: Mapping[str, str]) -> Process:
        """Run a command to its end."""
        process = await self.start(*arguments, environment=environment)
        await process.end(within=LONGEST_START)
        return process

    async def close(self) -> None:
        for process in reversed(self._started):
            await process.close()


@contextlib.asynccontextmanager
async def processes_in(folder: Path) -> AsyncIterator[Processes]:
    """Give a place to start processes from, which ends them all."""
    started = Processes(folder)
    try:
        yield started
    finally:
        await started.close()


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def bare_environment() -> dict[str, str]:
    """Return the environment without Tocsin's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    return kept | {"COLUMNS": "80"}


async def _read(stream: asyncio.StreamReader | None, lines: list[str]) -> None:
    assert stream is not None
    while line := await stream.readline():
        lines.append(line.decode().rstrip("\n"))


def _entry(log: Sequence[str], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    for line in log:
        if wanted["event"] in line:
            fields: dict[str, Any] = msgspec.json.decode(line)
            if wanted.items() <= fields.items():
                return fields
    return None


def _command(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ()
