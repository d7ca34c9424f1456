"""The embedded server's settings."""

import errno
import os
import signal
import subprocess
import sys
import time
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


@pytest.mark.parametrize("moment", ["base", "PG_VERSION"])
def test_a_first_start_that_was_killed_with_its_tree_is_done_again(moment: str) -> None:
    starting = "import sys; from pathlib import Path; from tocsin.store.embedded import EmbeddedPostgres"
    with mortal_folder() as folder:
        with subprocess.Popen(
            [sys.executable, "-c", f"{starting}; EmbeddedPostgres(Path(sys.argv[1])).start()", str(folder)],
            start_new_session=True,
        ) as killed:
            until_exists(folder / "postgres" / moment)
            os.killpg(killed.pid, signal.SIGKILL)
        server = EmbeddedPostgres(folder)

        server.start()

        assert postmaster(folder) is not None
        server.stop()
        assert sorted(path.name for path in folder.iterdir()) == [
            "postgres",
            "postgres.lock",
            "postgres.users",
        ]


def test_what_is_in_a_folder_without_a_cluster_is_kept() -> None:
    with mortal_folder() as folder:
        kept = folder / "postgres" / "base" / "1"
        kept.parent.mkdir(parents=True)
        kept.write_text("rows of a cluster whose PG_VERSION was lost")

        with pytest.raises(DatabaseError, match="did not start"):
            EmbeddedPostgres(folder).start()

        assert kept.read_text()


async def test_a_cluster_that_was_put_where_a_first_start_was_killed_is_kept() -> None:
    """By an operator who restored one, or by an earlier version, which does not know the mark."""
    with mortal_folder() as folder:
        server = EmbeddedPostgres(folder)
        connection = await asyncpg.connect(server.start())
        await connection.execute("create table kept as select 1 as number")
        await connection.close()
        server.stop()
        (folder / "postgres.unfinished").touch()

        connection = await asyncpg.connect(server.start())
        try:
            assert await connection.fetchval("select number from kept") == 1
        finally:
            await connection.close()
            server.stop()

        assert not (folder / "postgres.unfinished").exists()


def until_exists(path: Path) -> None:
    """Look for a file again and again, for it is there for a moment only."""
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
