"""Running a process: one event loop, stopped by a signal."""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import structlog
import uvloop

from tocsin.domain.delivery.backoff import Exponential, delay
from tocsin.domain.errors import DatabaseError, DatabaseUnavailableError
from tocsin.engine.duty import pause
from tocsin.logs import configure_logs
from tocsin.profiles.profile import read_profile
from tocsin.settings.load import load_settings
from tocsin.settings.tree import Settings
from tocsin.store.embedded_use import embedded_of_parent, shared_use
from tocsin.telemetry.environment import read_environment

REPEATED_WITHIN = 1.0
"""`make`, `timeout` and a terminal pass a signal on, so one request arrives two or three times."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
RETRY_START = Exponential(timedelta(seconds=0.5), timedelta(seconds=5))

Result = TypeVar("Result")

_log = structlog.stdlib.get_logger(__name__)


def prepared_settings() -> Settings:
    """Load the settings, check the variables of OpenTelemetry, and configure the logs."""
    settings = load_settings()
    if profile := read_profile(os.environ):
        os.environ.update(profile.environment)
    read_environment(os.environ)
    configure_logs(settings.log)
    return settings


def run_until_stopped(
    main: Callable[[asyncio.Event], Coroutine[Any, Any, None]], *, tied: bool = False, owner: bool = False
) -> None:
    """Run until a signal sets `stop` and the work has ended; a second signal ends it at once.

    A process that is `tied` also stops when its standard input closes, that is, with its parent, and ignores
    a second signal: its parent kills it when its grace period is over. If the parent was killed, the last of
    those tied to it stops its embedded database. The `owner` of other processes is cancelled by a second
    signal, so that it ends those before it exits.
    """
    exit_codes: list[int] = []
    embedded, orphaned = embedded_of_parent() if tied else None, asyncio.Event()

    async def body() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        working = asyncio.ensure_future(main(stop))
        signals = _Signals(stop, lambda: working.cancel() if owner else os._exit(exit_codes[0]), exit_codes)
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, signals.first_only if tied else signals.handle, number)
        if tied:
            loop.add_reader(sys.stdin.fileno(), _stop_at_end_of_input, stop, orphaned, loop)
        await working

    try:
        with shared_use(embedded):
            uvloop.run(body())
    except asyncio.CancelledError:
        sys.exit(exit_codes[0])
    finally:
        # The exit code is decided; the interpreter only has to end.
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if embedded is not None and orphaned.is_set():
            _stop_abandoned(embedded)


def _stop_abandoned(data_dir: Path) -> None:
    """Stop the embedded database of a parent that was killed, unless another process still uses it."""
    # Slow to import, and rarely needed.
    from tocsin.store.embedded import EmbeddedPostgres

    try:
        if EmbeddedPostgres(data_dir).stop_abandoned():
            _log.warning("embedded database stopped", reason="the process that started it was killed")
    except DatabaseError as error:
        _log.warning("embedded database not stopped", error=str(error))


async def when_available(work: Callable[[], Awaitable[Result]], stop: asyncio.Event) -> Result | None:
    """Return what `work` returns; while the database does not answer, retry, and return None at `stop`."""
    failures = 0
    while not stop.is_set():
        try:
            return await work()
        except DatabaseUnavailableError as error:
            failures += 1
            wait = delay(RETRY_START, failures, random.random()).total_seconds()  # noqa: S311 - jitter
            _log.warning("database unavailable", error=str(error), retry_in_seconds=round(wait, 1))
            await pause(wait, stop)
    return None


async def when_started(
    work: Callable[[], Awaitable[Result]], stop: asyncio.Event, *, tied: bool
) -> Result | None:
    """Return what `work` returns; only a `tied` process, which its parent restarts, waits for the database.

    A process that an operator starts ends at once, with the reason.
    """
    return await (when_available(work, stop) if tied else work())


class _Signals:
    """Counts the signals that ask a process to stop."""

    def __init__(self, stop: asyncio.Event, end: Callable[[], object], exit_codes: list[int]) -> None:
        self._stop = stop
        self._end = end
        self._exit_codes = exit_codes
        self._stopped_at = 0.0

    def handle(self, number: int) -> None:
        """Stop at the first signal, end at once at the second."""
        if not self._stop.is_set():
            self.first_only(number)
        elif time.monotonic() - self._stopped_at > REPEATED_WITHIN and not self._exit_codes:
            self._exit_codes.append(128 + number)
            _log.warning("process exited at once", reason="second signal")
            self._end()

    def first_only(self, number: int) -> None:
        """Stop at the first signal, ignore any other."""
        if not self._stop.is_set():
            self._stopped_at = time.monotonic()
            _log.info("stop requested", signal=signal.Signals(number).name)
            self._stop.set()


def _stop_at_end_of_input(
    stop: asyncio.Event, orphaned: asyncio.Event, loop: asyncio.AbstractEventLoop
) -> None:
    if not os.read(sys.stdin.fileno(), 1024):
        loop.remove_reader(sys.stdin.fileno())
        orphaned.set()
        stop.set()
