"""How a one-off command reaches the database, and in whose name."""

import getpass
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import uvloop

from tocsin.compose import database, migrated_pool
from tocsin.logs import LogSettings, configure_logs
from tocsin.settings import Settings, load_settings
from tocsin.store.pool import Pool

Result = TypeVar("Result")


def with_pool(work: Callable[[Settings, Pool], Awaitable[Result]]) -> Result:
    """Do one piece of work on the database that the settings name."""
    settings = load_settings()
    configure_logs(LogSettings(level="warning"))

    async def body(url: str) -> Result:
        async with migrated_pool(settings, url) as pool:
            return await work(settings, pool)

    with database(settings) as url:
        return uvloop.run(body(url))


def system_user() -> str:
    """Name who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        return f"uid {os.getuid()}"
