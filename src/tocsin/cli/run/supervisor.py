"""A process tree: children are watched, started again when they die, and stopped together."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

import structlog

from tocsin.domain.errors import TocsinError
from tocsin.store.embedded import EmbeddedPostgres

CANNOT_START = 2
LONGEST_PAUSE = 30.0
STEADY_AFTER = 60.0

_log = structlog.stdlib.get_logger(__name__)


class ChildCannotStartError(TocsinError):
    """A child ended at once because of its settings; it has said why itself."""


class Child:
    """One process of the tree, `tocsin` with the given arguments."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._arguments = arguments
        self._environment = environment

    async def run(self, stop: asyncio.Event, grace: float) -> None:
        """Keep the process running until `stop`, then let it finish, at most for `grace` seconds."""
        pause, loop = 0.5, asyncio.get_running_loop()
        while not stop.is_set():
            started = loop.time()
            process = await self._start()
            if await _first(process.wait(), stop.wait()) == "second":
                await self._end(process, grace)
                return
            if process.returncode == CANNOT_START:
                raise ChildCannotStartError(f"{self.name} could not start; see above for the reason")
            pause = 0.5 if loop.time() - started > STEADY_AFTER else min(pause * 2, LONGEST_PAUSE)
            _log.error("process died, starting it again", process=self.name, code=process.returncode)
            await _first(asyncio.sleep(pause), stop.wait())

    async def _start(self) -> asyncio.subprocess.Process:
        # A session of its own keeps Ctrl-C with the parent; the pipe ends with the parent,
        # however it ends, and the child with the pipe.
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tocsin.cli",
            *self._arguments,
            "--tied",
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, **self._environment},
            start_new_session=True,
        )

    async def _end(self, process: asyncio.subprocess.Process, grace: float) -> None:
        process.terminate()
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            _log.warning("process did not stop in time, killing it", process=self.name)
            process.kill()
            await process.wait()


async def run_tree(
    children: Sequence[Child], stop: asyncio.Event, *, grace: float, embedded: EmbeddedPostgres | None
) -> None:
    """Run the children until `stop`; one that cannot start stops them all."""
    ended = asyncio.Event()
    watching = asyncio.create_task(_watch(embedded)) if embedded else None
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(child.run(ended, grace)) for child in children]
            for task in running:
                task.add_done_callback(lambda _: ended.set())
            await _first(stop.wait(), ended.wait())
            ended.set()
    except* ChildCannotStartError as group_error:
        raise group_error.exceptions[0] from None
    finally:
        if watching:
            watching.cancel()


async def _watch(embedded: EmbeddedPostgres) -> None:
    """Start the embedded database again when it dies."""
    while True:
        await asyncio.sleep(1)
        try:
            if await asyncio.to_thread(embedded.ensure_running):
                _log.error("the embedded database died and was started again")
        except Exception as error:  # noqa: BLE001 - whatever keeps it from starting, try again
            _log.warning("the embedded database does not start yet", error=str(error))


async def _first(first: object, second: object) -> str:
    """Wait for whichever comes first and cancel the other."""
    tasks = [asyncio.ensure_future(first), asyncio.ensure_future(second)]  # type: ignore[call-overload]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    return "first" if tasks[0] in done else "second"
