import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.edges.command_line import Ran, run

WIDTH = 80
"""The columns of a terminal that every text fits."""

Tocsin: TypeAlias = Callable[..., Awaitable[Ran]]


@pytest.fixture
def tocsin(database_url: str, tmp_path: Path) -> Tocsin:
    """Return the command line of an installation with its own database."""
    account = tmp_path / "account.json"
    account.write_text("{}")
    environment = {"TOCSIN_DATABASE_URL": database_url, "TOCSIN_FCM__CREDENTIALS_FILE": str(account)}

    async def command(*arguments: str, **variables: str) -> Ran:
        return await asyncio.to_thread(run, arguments, environment | variables, tmp_path)

    return command
