"""A process tree: children are supervised, restarted when they die, and stopped together."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import structlog

from tocsin.domain.errors import TocsinError
from tocsin.engine.duty import pause, repeat
from tocsin.store.embedded import EmbeddedPostgres

CANNOT_START = 2
LONGEST_PAUSE = 30.0
STEADY_AFTER = 60.0

_log = structlog.stdlib.get_logger(__name__)


class ChildCannotStartError(TocsinError):
    """A child exited at once because of its settings; it has printed why."""


class Child(NamedTuple):
    """One process of the tree, `tocsin` with the given arguments."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]

    async def run(self, stop: asyncio.Event, grace: float, running: set[int] | None = None) -> None:
        """Keep the process running until `stop`, then let it drain, at most for `grace` seconds.

        One that cannot start at all is an operator's to fix; one that ran before is restarted, whatever
        keeps it from starting now. `running` has the id of the process while it runs.
        """
        running = set() if running is None else running
        wait, loop, restarted = 0.5, asyncio.get_running_loop(), False
        while not stop.is_set():
            started = loop.time()
            process = await self._start()
            running.add(process.pid)
            exited = asyncio.create_task(process.wait())
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait([exited, stopping], return_when=asyncio.FIRST_COMPLETED)
                if not exited.done():
                    await self._end(process, grace)
                    return
            finally:
                stopping.cancel()
                running.discard(process.pid)
                # Cancelled: nobody waits for it to drain.
                if process.returncode is None:
                    process.kill()
                    await exited
            was_steady = loop.time() - started > STEADY_AFTER
            if process.returncode == CANNOT_START and not restarted and not was_steady:
                raise ChildCannotStartError(f"{self.name} could not start; see above for the reason")
            wait = 0.5 if was_steady else min(wait * 2, LONGEST_PAUSE)
            _log.error("process died", process=self.name, code=process.returncode, restart_in_seconds=wait)
            restarted = True
            await pause(wait, stop)

    async def _start(self) -> asyncio.subprocess.Process:
        # In a session of its own the child does not get the parent's Ctrl-C. The pipe closes when the parent
        # ends, however it ends, and the child stops with it. Until it has its handler, SIGHUP would end it.
        return await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            'trap "" HUP; exec "$@"',
            "tocsin",
            sys.executable,
            "-m",
            "tocsin.cli",
            *self.arguments,
            "--tied",
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, **self.environment},
            start_new_session=True,
        )

    async def _end(self, process: asyncio.subprocess.Process, grace: float) -> None:
        process.terminate()
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            _log.warning("process killed", process=self.name, reason=f"did not stop within {grace:g} s")
            process.kill()
            await process.wait()


async def run_tree(
    children: Sequence[Child], stop: asyncio.Event, *, grace: float, embedded: EmbeddedPostgres | None
) -> None:
    """Run the children until `stop`; one that cannot start stops them all.

    SIGHUP is passed on to them, which has each read its catalog again; from a terminal it is the stop.
    """
    ended = asyncio.Event()
    process_ids: set[int] = set()
    loop = asyncio.get_running_loop()
    if sys.stdin is not None and sys.stdin.isatty():
        # A terminal that closes takes with it what runs in it.
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    else:
        loop.add_signal_handler(signal.SIGHUP, _pass_on, signal.SIGHUP, process_ids)
    watching = asyncio.create_task(_watch(embedded)) if embedded else None
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(child.run(ended, grace, process_ids)) for child in children]
            for task in running:
                task.add_done_callback(lambda _: ended.set())
            await pause(None, stop, ended)
            ended.set()
    except ExceptionGroup as errors:
        # Not `except*`: before Python 3.11.4, what is raised there comes out as a group.
        if cannot_start := errors.subgroup(ChildCannotStartError):
            raise cannot_start.exceptions[0] from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # The database is still to be stopped.
        if watching:
            watching.cancel()


def _pass_on(number: signal.Signals, process_ids: set[int]) -> None:
    for process_id in process_ids:
        with suppress(ProcessLookupError):  # It ended a moment ago.
            os.kill(process_id, number)


async def _watch(embedded: EmbeddedPostgres) -> None:
    """Restart the embedded database when it dies; whatever keeps it from starting, try again."""

    async def ensure_running() -> None:
        if await asyncio.to_thread(embedded.ensure_running):
            _log.error("embedded database restarted")

    await repeat(ensure_running, name="embedded database", every=1.0, faults=(Exception,))
