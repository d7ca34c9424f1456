"""Reloads the catalog of a process when its files change, and reports which one the process uses."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import structlog

from tocsin.catalog.catalog import Catalog
from tocsin.catalog.folder import catalog_files
from tocsin.catalog.load import load_catalog
from tocsin.domain.errors import FaultsError
from tocsin.domain.ids import uuid7
from tocsin.engine.clock import Clock
from tocsin.engine.duty import RETRIED_FAULTS, repeat
from tocsin.engine.settle.settlements import LONGEST_DETAIL
from tocsin.store import processes
from tocsin.store.health.provider_health import Alarm, raise_alarms, standing_codes
from tocsin.store.pool import Pool
from tocsin.store.processes import ProcessReport, ProcessRow
from tocsin.store.sources.progress import clear_alarms

LOOK_SECONDS = 2.0
SUBJECT = "catalog"
FAULTY = "catalog_faulty"
DIFFERENT = "catalogs_differ"
SHOWN_FAULTS = 10

_FileTimes: TypeAlias = tuple[tuple[str, int, int], ...]

_log = structlog.stdlib.get_logger(__name__)


class CatalogWatch:
    """Looks at the files every `look_seconds`; SIGHUP and an operator's request have them read at once.

    A catalog with faults is not used: the process keeps the one it has, logs an error and raises an alarm. So
    do processes that use different catalogs for longer than a reload takes. `check` raises the faults that a
    catalog has for this process alone.
    """

    def __init__(
        self,
        catalog: Catalog,
        folder: Path,
        *,
        kind: str,
        pool: Pool,
        clock: Clock,
        check: Callable[[Catalog], None] | None = None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._catalog = catalog
        self._check = check
        self._folder = folder
        self._kind = kind
        self._pool = pool
        self._clock = clock
        self._look_seconds = look_seconds
        self._id = uuid7()
        # None has the files read at the first look: they may have changed since the catalog was loaded.
        self._file_times: _FileTimes | None = None
        self._is_asked = False
        self._fault: str | None = None
        self._asked = asyncio.Event()
        # When it began to be read, until that is reported; it was loaded before this watch began.
        self._read_at: float | None = time.monotonic()
        self._suspected: dict[str, str] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        _log.info(
            "catalog loaded",
            process=self._kind,
            folder=str(self._folder),
            fingerprint=self._catalog.fingerprint,
            types=len(self._catalog.types),
        )
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.ask)
        try:
            await repeat(self._look, name="catalog watch", every=self._look_seconds, wake=self._asked)
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            signal.signal(
                signal.SIGHUP, signal.SIG_IGN
            )  # Its default would end what the process still has to do.
            await self._forget()

    def ask(self) -> None:
        """Have the catalog read again, changed or not."""
        self._file_times, self._is_asked = None, True
        self._asked.set()

    async def _look(self) -> bool:
        """Reload what has changed, then report; return whether a reload was asked for meanwhile."""
        found = await asyncio.to_thread(_file_times, self._folder)
        if found != self._file_times:
            # Remembered before the files are read: a change meanwhile leads to another reload.
            self._file_times = found
            await self._reload()
        return await self._report()

    async def _reload(self) -> None:
        self._read_at = time.monotonic()
        try:
            loaded = await asyncio.to_thread(load_catalog, self._folder, self._catalog.defaults)
            if self._check is not None:
                self._check(loaded)
        except FaultsError as error:
            faults = [f"{fault.field}: {fault.message}" for fault in error.faults]
            self._keep(f"{error.summary} {faults[0]}", faults=faults[:SHOWN_FAULTS])
            return
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the files, the process goes on
            self._keep(f"the catalog cannot be loaded: {type(error).__name__}: {error}", exc_info=True)
            return
        before, self._fault = self._catalog.fingerprint, None
        is_asked, self._is_asked = self._is_asked, False
        if loaded.fingerprint == before and not is_asked:
            return
        self._catalog.replace(loaded)
        _log.info(
            "catalog reloaded",
            process=self._kind,
            before=before,
            fingerprint=loaded.fingerprint,
            types=len(loaded.types),
        )

    def _keep(self, fault: str, **fields: Any) -> None:
        self._fault = fault
        _log.error(
            "catalog reload failed",
            process=self._kind,
            fingerprint=self._catalog.fingerprint,
            detail="the catalog in use is kept",
            fault=fault,
            alarm=True,
            **fields,
        )

    async def _report(self) -> bool:
        process = ProcessReport(
            id=self._id,
            kind=self._kind,
            host=socket.gethostname(),
            pid=os.getpid(),
            catalog=self._catalog.fingerprint,
            catalog_fault=self._fault,
        )
        read_ago = None if self._read_at is None else timedelta(seconds=time.monotonic() - self._read_at)
        asked = await processes.report(self._pool, process, read_ago=read_ago)
        self._read_at = None
        await self._alert(problems(await processes.alive(self._pool)))
        if asked:
            self._file_times, self._is_asked = None, True
        return asked

    async def _alert(self, found: dict[str, str]) -> None:
        """Raise what was found twice in a row, and clear what is gone; reloads are not simultaneous.

        An alarm that somebody cleared is raised again while its cause is there.
        """
        lasting = {
            code: detail for code, detail in found.items() if code in self._suspected or code == FAULTY
        }
        self._suspected = found
        now = self._clock()
        async with self._pool.acquire() as connection:
            standing = await standing_codes(connection, SUBJECT, (FAULTY, DIFFERENT))
            if gone := sorted(standing - found.keys()):
                await clear_alarms(connection, [SUBJECT], gone, now)
            new = {code: detail for code, detail in lasting.items() if code not in standing}
            if new:
                alarms = {Alarm(SUBJECT, code, detail[:LONGEST_DETAIL]): 1 for code, detail in new.items()}
                await raise_alarms(connection, alarms, now)
        if DIFFERENT in new:
            _log.error("catalogs differ", detail=new[DIFFERENT], alarm=True)

    async def _forget(self) -> None:
        """Delete the report of this process; without a database it is outdated soon."""
        try:
            async with asyncio.timeout(1):
                await processes.forget(self._pool, self._id)
        except RETRIED_FAULTS as error:
            _log.info("process not deregistered", error=type(error).__name__)


def problems(alive: list[ProcessRow]) -> dict[str, str]:
    """Return what is wrong with the catalogs of the processes that run, by the code of its alarm."""
    found = {}
    if faulty := [row for row in alive if row.catalog_fault is not None]:
        found[FAULTY] = f"{_processes(faulty)}: {faulty[0].catalog_fault}"
    if len({row.catalog for row in alive}) > 1:
        used = sorted({row.catalog for row in alive})
        uses = (f"{_processes([row for row in alive if row.catalog == each])} {each}" for each in used)
        found[DIFFERENT] = "; ".join(uses)
    return found


def _processes(rows: list[ProcessRow]) -> str:
    return ", ".join(f"{row.kind} {row.host}/{row.pid}" for row in rows)


def _file_times(folder: Path) -> _FileTimes:
    """Return the path, the time and the size of each file; one that vanishes meanwhile is left out."""
    found = []
    for path in catalog_files(folder):
        try:
            state = path.stat()
        except OSError:
            continue
        found.append((str(path), state.st_mtime_ns, state.st_size))
    return tuple(found)
