"""A warning at the start if the processes may open more connections than the server allows."""

import asyncio
import os
import socket
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import pytest
from structlog.testing import capture_logs

from tocsin.cli.run.connections import warn_of_connections
from tocsin.domain.ids import uuid7
from tocsin.settings.load import load_settings
from tocsin.settings.tree import Settings
from tocsin.store.health.connection_limit import allowed_connections
from tocsin.store.pool import Pool
from tocsin.store.processes import ProcessReport, report


@pytest.fixture
async def allowed(pool: Pool) -> int:
    return await allowed_connections(pool)


def settings_of(url: str, size: int) -> Settings:
    return load_settings({"TOCSIN_DATABASE_URL": url, "TOCSIN_POOL__SIZE": str(size)})


async def add_process(pool: Pool, kind: str, host: str, pid: int) -> None:
    await report(
        pool, ProcessReport(id=uuid7(), kind=kind, host=host, pid=pid, catalog="x"), read_ago=timedelta()
    )


async def warnings(settings: Settings, url: str, *starting: str) -> list[dict[str, object]]:
    with capture_logs() as logged:
        await warn_of_connections(settings, url, starting)
    return [dict(entry) for entry in logged]


async def test_the_limit_is_that_of_the_server(pool: Pool, allowed: int) -> None:
    most = int(await pool.fetchval("show max_connections"))

    assert most - 10 < allowed < most


async def test_processes_that_fit_are_started_without_a_word(database_url: str, allowed: int) -> None:
    # Two pools of a worker, one of the API, and two connections of each that listen.
    fitting = settings_of(database_url, (allowed - 4) // 3)

    assert await warnings(fitting, database_url, "api", "worker") == []


async def test_those_that_run_are_counted_and_a_size_that_fits_is_told(
    pool: Pool, database_url: str, allowed: int
) -> None:
    size = (allowed - 4) // 3
    await add_process(pool, "relay", "another.example", 1)

    [warning] = await warnings(settings_of(database_url, size), database_url, "api", "worker")

    assert warning["event"] == "connections may run out"
    assert (warning["starting"], warning["running"], warning["allowed"]) == (2, 1, allowed)
    assert warning["needed"] == 4 * size + 6
    fitting = (allowed - 6) // 4
    assert warning["detail"] == (
        f"Set TOCSIN_POOL__SIZE={fitting} or less (it is {size}), or raise max_connections of Postgres."
    )
    assert await warnings(settings_of(database_url, fitting), database_url, "api", "worker") == []


async def test_a_process_that_was_killed_here_and_this_one_are_not_counted(
    pool: Pool, database_url: str, allowed: int
) -> None:
    await add_process(pool, "worker", socket.gethostname(), os.getpid())
    await add_process(pool, "worker", socket.gethostname(), 2**22 + 1)

    assert await warnings(settings_of(database_url, (allowed - 4) // 3), database_url, "api", "worker") == []


async def test_too_many_processes_for_any_size_are_told_to_be_fewer(database_url: str, allowed: int) -> None:
    settings = msgspec.structs.replace(settings_of(database_url, 8), database_url=None)

    [warning] = await warnings(settings, database_url, *["worker"] * allowed)

    assert warning["detail"] == (
        "Run fewer processes, or use a Postgres of your own with a higher max_connections "
        "(TOCSIN_DATABASE_URL)."
    )


async def test_a_database_that_does_not_answer_the_question_keeps_nobody_from_starting(
    pool: Pool, database_url: str
) -> None:
    settings = load_settings({"TOCSIN_DATABASE_URL": database_url, "TOCSIN_POOL__COMMAND_TIMEOUT": "0.2"})
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("lock table processes in access exclusive mode")

        async with asyncio.timeout(10):
            [warning] = await warnings(settings, database_url, "api")

    assert warning["event"] == "connections not counted"
    assert "TimeoutError" in str(warning["error"])


async def test_a_server_without_a_free_connection_keeps_nobody_from_starting(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise asyncpg.TooManyConnectionsError("sorry, too many clients already")

    monkeypatch.setattr(asyncpg, "connect", refuse)

    [warning] = await warnings(settings_of(database_url, 10), database_url, "api")

    assert warning["event"] == "connections not counted"
