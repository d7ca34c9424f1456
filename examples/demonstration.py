"""Runs an example and prints what happens."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from tocsin.cli.output import console

TIMEOUT_SECONDS = 60.0
REPOSITORY = Path(__file__).parent.parent


class ExampleError(Exception):
    """The example cannot continue; the message says why."""


def run(example: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run an example; a signal ends it early, with everything that it started."""
    # Paths in the settings of the examples are relative to the repository.
    os.chdir(REPOSITORY)

    async def main() -> None:
        task = asyncio.create_task(example())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await task

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        sys.exit("Stopped.")
    except ExampleError as error:
        sys.exit(str(error))


def say(text: str) -> None:
    """Print a line."""
    console.print(text, markup=False)


def heading(title: str) -> None:
    """Print the heading of the next part."""
    console.print(f"\n[bold]{title}[/]")


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Poll until `holds` returns true, or raise ExampleError with `what` did not happen."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                if await holds():
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise ExampleError(f"Waited {TIMEOUT_SECONDS:g} s for {what}, which did not happen.") from None
