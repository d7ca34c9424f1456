"""`tocsin serve --profile galaxy`: configured by the variables of another service alone."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from redis.asyncio import Redis

from tests.acceptance.processes import Processes, free_port, processes_in
from tests.redis_servers import RedisServer, running_redis
from tests.waiting import found

PASSWORD = "hunter2/of:redis"


@pytest.fixture(scope="module")
async def redis(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Redis, int]]:
    """Run Redis with a password; give a client and the port."""
    folder = tmp_path_factory.mktemp("redis")
    async with running_redis(folder) as server, Redis.from_url(server.url) as client:
        await client.config_set("requirepass", PASSWORD)
        await client.auth(PASSWORD)
        yield client, _port(server)


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    async with processes_in(tmp_path) as started:
        yield started


def _port(server: RedisServer) -> int:
    return int(server.url.rpartition(":")[2].partition("/")[0])


def _variables(database_url: str, redis_port: int, probes_port: int) -> dict[str, str]:
    return {
        "NOTIFICATION_REDIS_MASTER_ADDR": f"127.0.0.1:{redis_port}",
        "NOTIFICATION_REDIS_PASSWORD": PASSWORD,
        "NOTIFICATION_POSTGRES_PRIMARY_DSN": database_url,
        "NOTIFICATION_USER_SERVICE_BASE_URL": "http://127.0.0.1:9",
        "NOTIFICATION_INTERNAL_HTTP_ADDR": f":{probes_port}",
        "NOTIFICATION_REDIS_REPLICA_ADDRS": "replica.example:6379",
        "NOTIFICATION_ADMIN_EMAILS_LOBBY_RUNTIME_PAUSED_AFTER_START": "ada@galaxy.example",
    }


async def test_it_migrates_answers_probes_for_the_tree_and_publishes(
    processes: Processes, database_url: str, redis: tuple[Redis, int]
) -> None:
    client, redis_port = redis
    port = free_port()
    environment = _variables(database_url, redis_port, port)

    process = await processes.start("serve", "--profile", "galaxy", environment=environment)
    unused = await process.logged("profile variables unused")
    await process.logged("process tree started", processes=2)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as probes:
        answers = {path: await probes.get(path) for path in ("/healthz", "/readyz", "/metrics", "/v1/time")}
    fields: Any = {
        "notification_type": "lobby.runtime_paused_after_start",
        "producer": "game_lobby",
        "audience_kind": "admin_email",
        "idempotency_key": "game-7",
        "occurred_at_ms": "1767225600000",
        "payload_json": '{"game_id": "game-7", "game_name": "Perseus Arm"}',
    }
    entry_id: Any = await client.xadd("notification:intents", fields)
    commands: Any = await found(lambda: client.xrange("mail:delivery_commands"))

    assert unused["variables"] == ["NOTIFICATION_REDIS_REPLICA_ADDRS"]
    assert [(each.status_code, each.text) for each in answers.values()][:2] == [
        (200, '{"status":"ok"}'),
        (200, '{"status":"ready"}'),
    ]
    assert [answers[path].status_code for path in ("/metrics", "/v1/time")] == [404, 404]
    assert process.children().keys() == {"worker"}
    ((_, command),) = commands
    assert command[b"delivery_id"] == entry_id + b"/email:email:ada@galaxy.example"

    process.signal(signal.SIGTERM)
    assert await process.end() == 0
    assert PASSWORD not in "\n".join(process.log)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_database_that_does_not_answer_is_named_by_its_variable(
    processes: Processes, redis: tuple[Redis, int]
) -> None:
    nowhere = f"postgres://galaxy:hunter3@127.0.0.1:{free_port()}/galaxy"
    environment = _variables(nowhere, redis[1], free_port())

    process = await processes.start("serve", "--profile", "galaxy", environment=environment)

    assert await process.end() == 2
    said = "\n".join(process.log)
    assert "NOTIFICATION_POSTGRES_PRIMARY_DSN (database_url): The database does not answer" in said
    assert "hunter3" not in said


async def test_it_does_not_start_without_redis(processes: Processes, database_url: str) -> None:
    environment = _variables(database_url, free_port(), free_port())

    process = await processes.start("serve", environment={**environment, "TOCSIN_PROFILE": "galaxy"})

    assert await process.end() == 2
    said = "\n".join(process.log)
    assert "Redis does not answer" in said
    assert "NOTIFICATION_REDIS_MASTER_ADDR" in said
    assert PASSWORD not in said
    connection = await asyncpg.connect(database_url)
    try:
        assert not await connection.fetchval("select to_regnamespace('notification') is not null")
    finally:
        await connection.close()
