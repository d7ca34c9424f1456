"""The embedded server's settings."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.postgres import kill_postgres, mortal_folder, postmaster
from tests.databases import open_folder
from tocsin.domain.errors import DatabaseError
from tocsin.store.embedded import EmbeddedPostgres


@pytest.fixture
async def embedded(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncpg.Connection]:
    # As on a machine without the locale of its user, who sets another one over it.
    monkeypatch.setenv("LANG", "xx_YY.UTF-8")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("LC_COLLATE", "C.UTF-8")
    with open_folder() as folder:
        server = EmbeddedPostgres(folder)
        connection = await asyncpg.connect(server.start())
        try:
            yield connection
        finally:
            await connection.close()
            server.stop()


async def test_a_new_server_is_set_up_to_be_fast(embedded: asyncpg.Connection) -> None:
    """A page takes pglz longer than a message takes in all; texts are compared by their bytes."""
    assert await embedded.fetchval("show wal_compression") != "pglz"
    locale = await embedded.fetchrow(
        "select datcollate, datctype from pg_database where datname = current_database()"
    )
    assert tuple(locale) == ("C", "C.UTF-8")
    assert (os.environ["LC_ALL"], os.environ["LC_COLLATE"]) == ("C.UTF-8", "C.UTF-8")
    assert not {"LC_CTYPE", "LC_TIME"} & os.environ.keys()


def test_a_server_of_another_user_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder may be entered by its own user alone; tests may run as root, who may enter every folder."""

    def refuse(path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", refuse)

    with pytest.raises(DatabaseError, match="belongs to another user"):
        EmbeddedPostgres(tmp_path).running_url()


def test_a_file_in_place_of_the_folder_is_an_error_that_says_so(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(DatabaseError, match="no folder that can be read"):
        EmbeddedPostgres(file).running_url()


def test_the_last_process_stops_a_server_that_another_one_restarted() -> None:
    with mortal_folder() as folder:
        first, last = EmbeddedPostgres(folder), EmbeddedPostgres(folder)
        first.start()
        last.start()
        kill_postgres(folder)

        assert first.ensure_running()
        assert not last.ensure_running()
        first.stop()
        assert postmaster(folder) is not None
        last.stop()

        assert postmaster(folder) is None
