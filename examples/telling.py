"""How the examples tell their stories."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from tocsin.cli.output import console

PATIENCE = 60.0
REPOSITORY = Path(__file__).parent.parent


class StoryEndsError(Exception):
    """The story cannot go on; the text says why."""


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Tell a story from beginning to end; a signal ends it early, and all that it has started."""
    # The settings of the examples name their files from here.
    os.chdir(REPOSITORY)

    async def main() -> None:
        told = asyncio.create_task(story())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, told.cancel)
        await told

    try:
        asyncio.run(main())
    except asyncio.CancelledError:
        sys.exit("Stopped.")
    except StoryEndsError as error:
        sys.exit(str(error))


def say(text: str) -> None:
    """Tell the reader what happens."""
    console.print(text, markup=False)


def chapter(title: str) -> None:
    """Begin the next part of the story."""
    console.print(f"\n[bold]{title}[/]")


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Look again and again until something holds, or end the story with what did not come."""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                if await holds():
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise StoryEndsError(f"Waited {PATIENCE:g} s in vain for {what}.") from None
