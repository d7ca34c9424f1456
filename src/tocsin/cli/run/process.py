"""Running a process: one event loop, stopped by a signal."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable

import structlog
import uvloop

from tocsin.logs import configure_logs
from tocsin.settings import Settings, load_settings

_log = structlog.stdlib.get_logger(__name__)


def prepared_settings() -> Settings:
    """Load the settings and configure the logs by them."""
    settings = load_settings()
    configure_logs(settings.log)
    return settings


def run_until_stopped(main: Callable[[asyncio.Event], Awaitable[None]], *, tied: bool = False) -> None:
    """Run until a signal sets `stop` and the work has ended; a second signal exits at once.

    A process that is `tied` also stops when its standard input closes, that is, with its parent.
    """

    async def body() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop_or_end, stop, number, tied)
        if tied:
            loop.add_reader(sys.stdin.fileno(), _stop_at_end_of_input, stop, loop)
        await main(stop)

    uvloop.run(body())


def _stop_or_end(stop: asyncio.Event, number: int, tied: bool) -> None:
    if stop.is_set() and tied:
        # A signal to the whole process group reaches a child twice, the second time from its parent, which
        # kills the child when its grace period is over.
        return
    if stop.is_set():
        _log.warning("process exited at once", reason="second signal")
        os._exit(128 + number)
    _log.info("stop requested", signal=signal.Signals(number).name)
    stop.set()


def _stop_at_end_of_input(stop: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
    if not os.read(sys.stdin.fileno(), 1024):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()
