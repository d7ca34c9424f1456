"""Starting: on an empty database, beside another process, on a port that is taken, and for the first time."""

import asyncio
import re
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import httpx
import msgspec
import pytest

from tests.acceptance.postgres import mortal_folder
from tests.acceptance.processes import Processes, free_port, processes_in
from tests.databases import fresh_database
from tests.waiting import found
from tocsin.catalog.load import shipped_catalog
from tocsin.store.migrate import MIGRATIONS

EVERY_MIGRATION = sorted(path.stem for path in MIGRATIONS.glob("*.sql"))


@pytest.fixture
async def empty_database(server_url: str) -> AsyncIterator[str]:
    async with fresh_database(server_url) as url:
        yield url


REAL_APPLICATION = """
[outboxes.shop]
url = "postgresql://127.0.0.1:1/shop"

[periodic]
modules = ["scans"]
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    with mortal_folder() as folder:
        yield folder


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    async with processes_in(tmp_path) as started:
        yield started


async def test_processes_that_start_at_once_migrate_once(processes: Processes, empty_database: str) -> None:
    environment = {"TOCSIN_DATABASE_URL": empty_database, "TOCSIN_HTTP__PORT": "0"}

    server, *migrating = [
        await processes.start(*arguments, environment=environment)
        for arguments in (["serve"], ["migrate", "--json"], ["migrate", "--json"])
    ]
    await server.logged("api started")
    codes = [await process.end(within=40) for process in migrating]

    assert codes == [0, 0]
    applied = [msgspec.json.decode("".join(process.output))["applied"] for process in migrating]
    logged = [line for line in server.log if '"schema migrated"' in line]
    by_server = msgspec.json.decode(logged[0])["applied"] if logged else []
    assert sorted([*by_server, *applied[0], *applied[1]]) == EVERY_MIGRATION


async def test_whoever_starts_warns_once_of_connections_that_the_server_does_not_allow(
    processes: Processes, empty_database: str
) -> None:
    environment = {
        "TOCSIN_DATABASE_URL": empty_database,
        "TOCSIN_HTTP__PORT": "0",
        "TOCSIN_POOL__SIZE": "200",
    }

    server = await processes.start("serve", environment=environment)
    await server.logged("api started")
    connection = await asyncpg.connect(empty_database, server_settings={"search_path": "tocsin"})
    try:
        await found(lambda: connection.fetchval("select true from processes having count(*) = 2"), within=40)
    finally:
        await connection.close()
    worker = await processes.start("worker", environment=environment)
    await worker.logged("worker started")

    warned = [
        [msgspec.json.decode(line) for line in process.log if '"connections may run out"' in line]
        for process in (server, worker)
    ]
    counted = [[(each["starting"], each["running"]) for each in entries] for entries in warned]
    assert counted == [[(2, 0)], [(1, 2)]]
    assert "TOCSIN_POOL__SIZE=" in warned[0][0]["detail"]


async def test_nothing_listens_before_the_migrations_are_done(
    processes: Processes, empty_database: str
) -> None:
    port = free_port()
    holder = await asyncpg.connect(empty_database)
    try:
        await holder.execute("select pg_advisory_lock($1, 0)", 0x70C5)
        server = await processes.start(
            "serve", environment={"TOCSIN_DATABASE_URL": empty_database, "TOCSIN_HTTP__PORT": str(port)}
        )
        await found(
            lambda: holder.fetchval(
                "select true from pg_stat_activity where query like '%pg_try_advisory_lock%'"
                " and pid <> pg_backend_pid()"
            ),
            within=40,
        )
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
    finally:
        await holder.close()
    await server.logged("api started")

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        assert (await http.get("/readyz")).json()["status"] == "ready"


async def test_a_taken_port_is_named(processes: Processes, database_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        api = await processes.run(
            "api", environment={"TOCSIN_DATABASE_URL": database_url, "TOCSIN_HTTP__PORT": str(port)}
        )

    said = "\n".join(api.log)
    assert await api.end() == 2
    assert f"Port {port} on 127.0.0.1 is taken by another process." in said
    assert "TOCSIN_HTTP__PORT" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["worker", "relay"])
async def test_a_process_without_an_api_says_what_it_serves_and_has_probes(
    processes: Processes, database_url: str, command: str
) -> None:
    environment = {
        "TOCSIN_DATABASE_URL": database_url,
        "TOCSIN_PROBES__PORT": "0",
        "TOCSIN_OUTBOXES__SHOP__URL": database_url,
    }
    process = await processes.start(command, environment=environment)
    address = (await process.logged("probes started"))["address"]
    said = await process.logged(f"{command} started")
    fingerprint = (await process.logged("catalog loaded"))["fingerprint"]

    assert said["lanes" if command == "worker" else "outboxes"] == (
        ["fanout"] if command == "worker" else ["shop"]
    )
    assert re.fullmatch(r"database t\d+_\d+ on \S+, schema tocsin", said["database"])
    assert said["catalog"] == str(shipped_catalog())
    async with httpx.AsyncClient(base_url=address) as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/readyz")).json() == {"status": "ready", "catalog": fingerprint}
        assert (await http.get("/v1/notifications")).status_code == 404
        connection = await asyncpg.connect(database_url)
        await connection.execute("delete from tocsin.schema_migrations where id = '0007_lanes'")
        await connection.close()
        answer = await http.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "0007_lanes" in answer.json()["detail"]


async def test_the_demo_shows_the_whole_way_and_a_second_one_finds_another_port(
    processes: Processes, temporary: Path, tmp_path: Path
) -> None:
    # It lies in the folder of a real application, whose outbox and periodic producers it leaves alone.
    (tmp_path / "tocsin.toml").write_text(REAL_APPLICATION)
    (tmp_path / "scans.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    environment = {"TOCSIN_HTTP__PORT": str(free_port()), "TMPDIR": str(temporary)}
    first = await processes.start("demo", environment=environment)
    shown = await first.said("Ctrl-C stops everything.", within=60)

    assert "new_customer v2" in shown
    assert "ada (an Android phone): New customer: Grace Hopper just signed up." in shown
    assert "kerem (an iPhone): Yeni müşteri: Grace Hopper az önce kaydoldu." in shown
    assert await _paste(shown) == "accepted"
    sent_id = re.search(r"new_customer v2  (\S+)", shown)
    assert sent_id is not None
    # The address alone chooses among the servers of this machine, and no key is needed.
    local = {"TOCSIN_SERVER": f"http://127.0.0.1:{environment['TOCSIN_HTTP__PORT']}"}
    seen = await processes.run("show", sent_id[1], environment=local)
    assert "push:user:ada" in "\n".join(seen.output), seen.log
    assert "tocsin: the server that runs on this machine, database" in "\n".join(seen.log)
    listed = await processes.run("providers", "--json", environment=local)
    assert {"fcm", "apns"} <= {each["name"] for each in msgspec.json.decode("".join(listed.output))}

    second = await processes.start("demo", "--once", environment=environment)
    assert await second.end(within=60) == 0, second.log
    said = "\n".join(second.output)
    assert f"Port {environment['TOCSIN_HTTP__PORT']} is taken by another process" in said
    assert "kerem (an iPhone): Yeni müşteri" in said

    first.signal(signal.SIGINT)
    assert await first.end() == 0, first.log
    assert first.log == []
    assert not (tmp_path / "imported").exists()
    assert _demos_left(temporary) == []


def _demos_left(folder: Path) -> list[Path]:
    return list(folder.glob("tocsin-demo-*"))


async def _paste(shown: str) -> str:
    """Do what the printed `curl` does and give the status it is answered with."""
    match = re.search(r"^curl (?:.*\\\n)*.*$", shown, re.MULTILINE)
    assert match is not None, shown
    _, silent, address, _, header, _, body = shlex.split(match[0].replace("\\\n", ""))
    assert silent == "-s"
    name, _, value = header.partition(": ")
    headers = {name: value, "Content-Type": "application/x-www-form-urlencoded"}
    async with httpx.AsyncClient() as http:
        answer = await http.post(address, headers=headers, content=body)
    status: str = answer.json()["status"]
    return status
