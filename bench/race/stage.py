"""The sandboxed FCM that all contestants send to, in a process of its own."""

import asyncio
import contextlib
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from bench import meter
from bench.contract import Arena
from bench.controls import PATIENCE_SECONDS, Controls
from bench.process import ROOT, end

LATENCY_MS = 50.0
PROJECT = "bench"
POLL_SECONDS = 0.01


class MessagesAstrayError(Exception):
    """The sandbox did not get every message exactly once."""


class Addresses(msgspec.Struct, frozen=True):
    """Where the sandbox says it listens."""

    http_url: str
    https_url: str
    smtp_port: int
    ca_file: Path


class Stage:
    """The running sandbox, seen from the runner."""

    def __init__(self, pid: int, addresses: Addresses, workdir: Path, numbers: int) -> None:
        self._pid = pid
        self._addresses = addresses
        self._controls = Controls(addresses.http_url)
        self._workdir = workdir
        self._numbers = numbers
        self._visits = 0

    def arena(self, name: str) -> Arena:
        """Make a fresh folder for a contestant and tell it where to send."""
        self._visits += 1
        folder = self._workdir / f"{self._visits:02}-{name}"
        folder.mkdir()
        return Arena(
            url=self._addresses.https_url,
            project=PROJECT,
            credentials_file=self._workdir / "service_account.json",
            ca_file=self._addresses.ca_file,
            control_url=self._addresses.http_url,
            smtp_port=self._addresses.smtp_port,
            apns_key_file=self._workdir / "sandbox" / "apns.p8",
            workdir=folder,
            numbers=self._numbers,
        )

    def cpu_seconds(self) -> float:
        """Tell what the sandbox itself has cost so far."""
        return meter.cpu_seconds((self._pid,))

    async def prepare(self) -> None:
        """Fetch the service account that contestants sign in with."""
        account = await self._controls.call("GET", f"service_accounts/{PROJECT}")
        (self._workdir / "service_account.json").write_bytes(account)

    async def clear(self) -> None:
        """Start counting anew."""
        await self._controls.reset()

    async def answered(self, count: int) -> None:
        """Wait until so many messages were answered, and see that each came once."""
        seen, since = -1, time.perf_counter()
        while True:
            stats = await self._controls.stats("fcm")
            if stats.delivered >= count and not stats.in_flight:
                break
            if stats.delivered != seen:
                seen, since = stats.delivered, time.perf_counter()
            if time.perf_counter() - since > PATIENCE_SECONDS:
                raise MessagesAstrayError(
                    f"only {stats.delivered} of {count} messages arrived, and none in the last "
                    f"{PATIENCE_SECONDS:.0f} s; answers: {stats.answers}; --keep-logs shows why"
                )
            await asyncio.sleep(POLL_SECONDS)
        if stats.delivered != count or stats.distinct_deliveries != count:
            raise MessagesAstrayError(
                f"{stats.delivered} messages with {stats.distinct_deliveries} different ids arrived "
                f"where {count} were due; answers: {stats.answers}"
            )


@contextlib.asynccontextmanager
async def open_stage(workdir: Path, numbers: int) -> AsyncIterator[Stage]:
    """Start the sandbox with the benchmark's latency, keeping counts and no messages."""
    settings = {
        "folder": str(workdir / "sandbox"),
        "record": "counts",
        "latency": {"min_seconds": LATENCY_MS / 1000},
    }
    argv = [sys.executable, "-m", "tocsin.sandbox", msgspec.json.encode(settings).decode()]
    process = await asyncio.create_subprocess_exec(*argv, cwd=ROOT, stdout=PIPE)
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise MessagesAstrayError("the sandbox ended before it was ready; its words are above")
        addresses = msgspec.json.decode(line, type=Addresses, dec_hook=lambda _, text: Path(text))
        stage = Stage(process.pid, addresses, workdir, numbers)
        await stage.prepare()
        yield stage
    finally:
        await end(process)
