"""Upgrades an installation of the version before under load: its processes, both, then only the new ones.

The exit code is 1 if something was lost, sent twice, refused, or logged as an error.
"""

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import msgspec
import uvloop

from tests.acceptance.installation import Installation, Producer, installed, intent
from tests.acceptance.postgres import mortal_folder
from tests.acceptance.processes import Process, processes_in
from tests.waiting import found
from tocsin.cli.output import console
from tocsin.engine.clock import utc_now
from tocsin.store.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
PEOPLE = 50
LATER_EVERY = 10
LONGEST_DRAIN = 120.0


class Load:
    """Hands in intents, each to the next of the API processes that take part."""

    def __init__(self, rate: float, later: timedelta) -> None:
        self.producers: list[Producer] = []
        self.answers: Counter[str] = Counter()
        self._rate = rate
        self._later = later

    async def run(self, ended: asyncio.Event) -> None:
        """Hand in intents at a steady rate; some are to be sent later."""
        number = 0
        began = time.monotonic()
        while not ended.is_set():
            number += 1
            changes = {} if number % LATER_EVERY else {"send_at": (utc_now() + self._later).isoformat()}
            body = intent(f"user-{number % PEOPLE}", **changes)
            producer = self.producers[number % len(self.producers)]
            try:
                answer = await producer.http.post("/v1/notifications", headers=producer.key, json=body)
                self.answers[str(answer.status_code)] += 1
            except httpx.TransportError as error:
                self.answers[type(error).__name__] += 1
            await asyncio.sleep(max(0.0, began + number / self._rate - time.monotonic()))


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.upgrade", description=__doc__)
    parser.add_argument("--before", required=True, help="the tag or commit of the version before")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the load lasts")
    parser.add_argument("--rate", type=float, default=40.0, help="intents a second")
    given = parser.parse_args()
    with _checked_out(given.before) as before:
        sys.exit(uvloop.run(upgrade(before, given.seconds, given.rate)))


async def upgrade(before: Path, seconds: float, rate: float) -> int:
    """Run the upgrade, judge it and return the exit code."""
    old = {"PYTHONPATH": str(before / "src")}
    with mortal_folder() as data_dir, tempfile.TemporaryDirectory(prefix="tocsin-upgrade-") as temporary:
        folder = Path(temporary)
        server = EmbeddedPostgres(data_dir)
        url = await asyncio.to_thread(server.start)
        key = await _set_up(folder, {**old, "TOCSIN_DATABASE_URL": url})
        async with installed(url, folder) as installation:
            load, processes = await _run(installation, old, key, seconds, rate)
            accepted = load.answers["202"]
            sent = await _drained(installation, accepted)
            faults = [*_errors(processes), *await _stopped(processes[3:])]
            stats = installation.sandbox.stats()
        await asyncio.to_thread(server.stop)
    _say(f"answers {dict(load.answers)}, sent {sent}, arrived {stats.delivered}, twice {stats.duplicates}")
    for fault in faults[:20]:
        _say(f"! {fault}")
    whole = accepted == sent == stats.distinct_deliveries and not stats.duplicates
    passed = whole and set(load.answers) == {"202"} and not faults
    _say("passed" if passed else "FAILED")
    return 0 if passed else 1


async def _set_up(folder: Path, environment: dict[str, str]) -> str:
    """Migrate with the version before and return a producer's key."""
    async with processes_in(folder) as processes:
        migrated = await processes.run("migrate", environment=environment)
        _say(f"before: {migrated.output[-1]}")
        arguments = ("keys", "create", "shop", "--role", "producer", "--json")
        created = await processes.run(*arguments, environment=environment)
    key: str = msgspec.json.decode("\n".join(created.output))["key"]
    return key


async def _run(
    installation: Installation, old: dict[str, str], key: str, seconds: float, rate: float
) -> tuple[Load, list[Process]]:
    """Replace the processes one after the other while intents come in."""
    load, ended = Load(rate, later=timedelta(seconds=seconds)), asyncio.Event()
    new = {"PYTHONPATH": str(ROOT / "src")}
    async with httpx.AsyncClient(timeout=30) as old_http, httpx.AsyncClient(timeout=30) as new_http:
        before = [await installation.start("api", **old), *await installation.start_workers(old, old)]
        load.producers = [await _producer(before[0], old_http, key)]
        await load.producers[0].register_many(PEOPLE)
        loading = asyncio.create_task(load.run(ended))
        await asyncio.sleep(seconds / 4)
        migrated = await installation.processes.run(
            "migrate", environment={**installation.environment, **new}
        )
        assert await migrated.end() == 0, migrated.log
        _say(f"migrated while they run: {migrated.output[-1]}")
        await asyncio.sleep(seconds / 4)
        after = [await installation.start("api", **new), *await installation.start_workers(new, new)]
        load.producers.append(await _producer(after[0], new_http, key))
        _say("both versions run")
        await asyncio.sleep(seconds / 4)
        del load.producers[0]
        faults = await _stopped(before)
        assert not faults, faults
        _say("only the new version runs")
        await asyncio.sleep(seconds / 4)
        ended.set()
        await loading
    return load, [*before, *after]


async def _producer(process: Process, http: httpx.AsyncClient, key: str) -> Producer:
    http.base_url = httpx.URL((await process.logged("api started"))["address"])
    return Producer(process, http, key)


async def _drained(installation: Installation, accepted: int) -> int:
    async def look() -> bool:
        return await installation.deliveries("state = 'sent'") >= accepted

    try:
        await found(look, within=LONGEST_DRAIN)
    except TimeoutError:
        _say(f"not everything was sent within {LONGEST_DRAIN:.0f} s")
    return await installation.deliveries("state = 'sent'")


async def _stopped(processes: list[Process]) -> list[str]:
    """Stop processes and return a fault for each that did not end well."""
    faults = []
    for process in processes:
        process.signal(signal.SIGTERM)
        if code := await process.end(within=60):
            faults.append(f"process {process.pid} ended with {code}")
    return faults


def _errors(processes: list[Process]) -> Iterator[str]:
    for process in processes:
        yield from (line for line in process.log if '"level":"error"' in line)


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tocsin-before-") as folder:
        archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


def _say(line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
