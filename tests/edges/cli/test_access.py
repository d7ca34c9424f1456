"""A database or server that goes away while a command works on it is an error, and no traceback."""

import errno
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tocsin.cli import access
from tocsin.cli.access import with_pool
from tocsin.cli.server import Database, Instance, NoServerError
from tocsin.domain.errors import DatabaseUnavailableError
from tocsin.settings.load import load_settings


@pytest.fixture
def found(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(load_settings({"TOCSIN_DATABASE_URL": database_url}), database_url, "a database")
    monkeypatch.setattr(access, "_found", lambda: database)


def failing(error: Exception) -> Any:
    async def work(*_: object) -> None:
        raise error

    return work


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize(
    "error",
    [
        asyncpg.CannotConnectNowError("the database system is shutting down"),
        asyncpg.ConnectionDoesNotExistError("connection was closed"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        FileNotFoundError(errno.ENOENT, "No such file or directory"),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_database_that_went_away_is_named(error: Exception) -> None:
    with pytest.raises(DatabaseUnavailableError, match="The database does not answer"):
        with_pool(failing(error))


@pytest.mark.usefixtures("found")
@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_a_fault_of_what_is_written_is_not_one_of_the_database(number: int) -> None:
    with pytest.raises(OSError, match="written") as raised:
        with_pool(failing(OSError(number, "written")))

    assert raised.value.errno == number


def test_a_server_whose_folder_is_gone_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"

    with pytest.raises(NoServerError, match="cannot be entered"):
        Instance(1, gone, {}).settings()
