"""A process tree: children are supervised, restarted when they die, and stopped together."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
import structlog

from tocsin.domain.errors import TocsinError
from tocsin.engine.duty import pause, repeat
from tocsin.store.embedded import EmbeddedPostgres
from tocsin.store.embedded_use import VARIABLE
from tocsin.telemetry import metrics
from tocsin.telemetry.samples import TreeSamples, decode_samples

CANNOT_START = 2
LONGEST_PAUSE = 30.0
STEADY_AFTER = 60.0
LONGEST_REPORT = 64 * 1_048_576
LAST_REPORT_SECONDS = 1.0

_log = structlog.stdlib.get_logger(__name__)


class ChildCannotStartError(TocsinError):
    """A child exited at once because of its settings; it has printed why."""


class Child(NamedTuple):
    """One process of the tree, `tocsin` with the given arguments."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]

    def with_settings(self, **variables: str) -> "Child":
        """Return the same process with further variables."""
        return self._replace(environment={**self.environment, **variables})

    async def run(
        self,
        stop: asyncio.Event,
        grace: float,
        running: set[int] | None = None,
        samples: TreeSamples | None = None,
    ) -> None:
        """Keep the process running until `stop`, then let it drain, at most for `grace` seconds.

        One that cannot start at all is an operator's to fix; one that ran before is restarted, whatever
        keeps it from starting now. `running` has the id of the process while it runs, and `samples` gets what
        it reports of its metrics.
        """
        running = set() if running is None else running
        samples = TreeSamples() if samples is None else samples
        kind = (self.name.partition("-")[0],)
        wait, loop, restarted = 0.5, asyncio.get_running_loop(), False
        while not stop.is_set():
            started = loop.time()
            try:
                process, line = await self._start()
            except OSError as error:
                # Memory or file descriptors may be short for a while; the other children go on.
                if not restarted:
                    raise
                wait = min(wait * 2, LONGEST_PAUSE)
                _log.error(
                    "process not started", process=self.name, error=repr(error), restart_in_seconds=wait
                )
                await pause(wait, stop)
                continue
            running.add(process.pid)
            metrics.processes.add(kind, 1)
            listening = asyncio.create_task(_listen(line, process.pid, samples))
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
                await _end_of(listening)
                metrics.processes.add(kind, -1)
            was_steady = loop.time() - started > STEADY_AFTER
            if process.returncode == CANNOT_START and not restarted and not was_steady:
                raise ChildCannotStartError(f"{self.name} could not start; see above for the reason")
            wait = 0.5 if was_steady else min(wait * 2, LONGEST_PAUSE)
            _log.error("process died", process=self.name, code=process.returncode, restart_in_seconds=wait)
            metrics.restarts.add(kind)
            restarted = True
            await pause(wait, stop)

    async def _start(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        """Start the process; return the line to it too, over which it reports its metrics."""
        # In a session of its own the child does not get the parent's Ctrl-C. The line closes when the parent
        # ends, however it ends, and the child stops with it. Until it has its handler, SIGHUP would end it.
        line, of_child = socket.socketpair()
        try:
            with of_child:
                process = await asyncio.create_subprocess_exec(
                    "/bin/sh",
                    "-c",
                    'trap "" HUP; exec "$@"',
                    "tocsin",
                    sys.executable,
                    "-m",
                    "tocsin.cli",
                    *self.arguments,
                    "--tied",
                    stdin=of_child.fileno(),
                    env={**os.environ, **self.environment},
                    start_new_session=True,
                )
        except BaseException:
            line.close()
            raise
        return process, line

    async def _end(self, process: asyncio.subprocess.Process, grace: float) -> None:
        process.terminate()
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            _log.warning("process killed", process=self.name, reason=f"did not stop within {grace:g} s")
            process.kill()
            await process.wait()


async def _listen(line: socket.socket, process_id: int, samples: TreeSamples) -> None:
    """Record what a process reports of its metrics until it ends; a report that cannot be read is skipped."""
    reader, writer = await asyncio.open_unix_connection(sock=line, limit=LONGEST_REPORT)
    readable = True
    try:
        while True:
            try:
                report = await reader.readline()
                if not report.endswith(b"\n"):
                    break
                samples.report(process_id, decode_samples(report))
                readable = True
            except (ValueError, msgspec.MsgspecError) as error:
                # There is a report every second: one log line for all that follow each other.
                if readable:
                    _log.warning("metrics report skipped", process_id=process_id, error=repr(error))
                readable = False
    except OSError:
        # A process that is killed may leave the line broken instead of closed.
        pass
    finally:
        writer.close()
        samples.end(process_id)


async def _end_of(listening: asyncio.Task[None]) -> None:
    """Wait for the last report; a process that the ended one started may keep the line open for ever."""
    await asyncio.wait([listening], timeout=LAST_REPORT_SECONDS)
    listening.cancel()
    await asyncio.wait([listening])
    # Metrics are no reason to end the tree.
    if not listening.cancelled() and (error := listening.exception()):
        _log.error("metrics reports lost", exc_info=error)


async def run_tree(
    children: Sequence[Child],
    stop: asyncio.Event,
    *,
    grace: float,
    embedded: EmbeddedPostgres | None,
    samples: TreeSamples | None = None,
    process_ids: set[int] | None = None,
) -> None:
    """Run the children until `stop`; one that cannot start stops them all.

    SIGHUP is passed on to them, which has each read its catalog again; from a terminal it is the stop.
    `samples` gets what they report of their metrics, `process_ids` has the ids of those that run.
    """
    if embedded is not None:
        children = [child.with_settings(**{VARIABLE: str(embedded.data_dir.resolve())}) for child in children]
    ended = asyncio.Event()
    process_ids = set() if process_ids is None else process_ids
    loop = asyncio.get_running_loop()
    if sys.stdin is not None and sys.stdin.isatty():
        # A terminal that closes takes with it what runs in it.
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    else:
        loop.add_signal_handler(signal.SIGHUP, _pass_on, signal.SIGHUP, process_ids)
    watching = asyncio.create_task(_watch(embedded)) if embedded else None
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(child.run(ended, grace, process_ids, samples)) for child in children]
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
