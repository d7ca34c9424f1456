"""A command talks to the server that it says, and never creates one."""

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tests.edges.command_line import Ran, run
from tests.edges.edge import Edge, running, services
from tests.rows import add_delivery, add_device
from tocsin.api.auth.roles import Role
from tocsin.cli import server
from tocsin.cli.commands import _options_first
from tocsin.domain.ids import uuid7
from tocsin.engine.clock import utc_now
from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.store import processes
from tocsin.store.health import provider_health
from tocsin.store.health.provider_health import Alarm
from tocsin.store.pool import Pool
from tocsin.store.processes import ProcessReport

NOWHERE = str(UUID(int=1))
"""An id that nothing has."""

SEND = ["send", "new_customer", "--user", "ada", "--payload", '{"customer_name": "Ali"}', "--key", "k"]
EXPLAIN = ["explain", *SEND[1:], "--at", "2030-01-31T12:00:00Z"]
ALARM = Alarm(provider="fcm", code="auth", detail="refused")
COMMANDS = [
    ["show", NOWHERE],
    ["cancel", NOWHERE],
    SEND,
    EXPLAIN,
    ["toggle", "list"],
    ["toggle", "off", "channel:push", "--reason", "test"],
    ["keys", "list"],
    ["keys", "create", "shop"],
    ["providers"],
    ["alarms"],
    ["progress"],
    ["suppressions", "list"],
    ["devices", "list", "ada"],
    ["api"],
    ["worker"],
]


class OverHttp:
    """The command line with the address and an API key of a server, and nothing else."""

    def __init__(self, edge: Edge, key: str, database_url: str, folder: Path) -> None:
        self.url = str(edge.http.base_url).rstrip("/")
        self.key = key
        self._database_url = database_url
        self._folder = folder

    async def __call__(self, *arguments: str) -> Ran:
        return await self.bare(*arguments, TOCSIN_SERVER=self.url, TOCSIN_KEY=self.key)

    async def direct(self, *arguments: str) -> Ran:
        """Run a command on the same server by its database."""
        account = self._folder / "account.json"
        account.write_text("{}")
        variables = {
            "TOCSIN_DATABASE_URL": self._database_url,
            "TOCSIN_FCM__CREDENTIALS_FILE": str(account),
            "TOCSIN_RATES__FCM": "0",
        }
        return await self.bare(*arguments, **variables)

    async def bare(self, *arguments: str, **variables: str) -> Ran:
        return await asyncio.to_thread(run, arguments, variables, self._folder)


@pytest.fixture
async def remote(pool: Pool, database_url: str, tmp_path: Path) -> Any:
    in_use = ProviderInUse(name="fcm", channel="push", rate=None)
    async with running(services(pool, providers=(in_use,))) as edge:
        header = (await edge.key(Role.ADMIN))["Authorization"]
        yield OverHttp(edge, header.removeprefix("Bearer "), database_url, tmp_path)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_creates_a_server(command: list[str], tmp_path: Path) -> None:
    ran = run(command, {"TOCSIN_DATA_DIR": str(tmp_path / "data")}, tmp_path)

    assert ran.code == 2
    assert "TOCSIN_DATABASE_URL" in ran.said
    assert "`tocsin serve`" in ran.said
    assert not (tmp_path / "data").exists()


async def test_a_command_says_which_database_it_uses(remote: OverHttp) -> None:
    ran = await remote.direct("toggle", "list")

    assert ran.code == 0
    assert ran.server.startswith("tocsin: database t")
    assert "schema tocsin" in ran.server


@pytest.mark.parametrize(
    "url", ["postgresql://tocsin:s3/cret@db.example/x", "postgresql://tocsin:s3?cret@db.example/x"]
)
async def test_the_name_of_a_database_has_no_password_in_it(remote: OverHttp, url: str) -> None:
    ran = await remote.bare("toggle", "list", TOCSIN_DATABASE_URL=url)

    assert ran.code == 2
    assert "TOCSIN_DATABASE_URL" in ran.said
    assert "cret" not in ran.server + ran.out + ran.err


async def test_the_same_is_answered_over_http(remote: OverHttp, pool: Pool) -> None:
    """Every listing is equal to that of the database."""
    sent = await remote(*SEND, "--json")
    assert (sent.code, sent.json["status"]) == (0, "accepted")
    assert (sent.server, sent.err) == (f"tocsin: server {remote.url}\n", "")
    await remote("toggle", "off", "channel:email", "--reason", "test")
    await remote("suppressions", "add", "ada@example.org", "--reason", "asked")
    async with pool.acquire() as connection:
        await provider_health.raise_alarms(connection, {ALARM: 1}, utc_now())
        await add_delivery(connection)
    process = ProcessReport(id=uuid7(), kind="worker", host="a", pid=7, catalog="aaa")
    await processes.report(pool, process, read_ago=timedelta())

    for command in (
        ["show", sent.json["notification_id"]],
        ["toggle", "list"],
        ["toggle", "history", "channel:email"],
        ["suppressions", "list"],
        ["alarms"],
        ["progress"],
        ["catalog", "status"],
        ["keys", "list"],
        ["providers"],
        ["providers", "show", "fcm"],
    ):
        over_http, direct = await remote(*command, "--json"), await remote.direct(*command, "--json")
        assert (over_http.code, direct.code) == (0, 0), over_http.err + direct.err
        assert over_http.json == direct.json, command
        assert (await remote(*command)).out == (await remote.direct(*command)).out


async def test_changes_over_http_are_those_of_the_key(remote: OverHttp, pool: Pool) -> None:
    sent = await remote(*SEND, "--json")
    again = await remote(*SEND)
    other = await remote(*SEND[:-2], "--key", "k", "--collapse-key", "c")
    explained = await remote(*EXPLAIN, "--json")
    cancelled = await remote("cancel", sent.json["notification_id"])
    switched = await remote("toggle", "off", "channel:push", "--reason", "test", "--json")
    by = await remote("toggle", "on", "channel:push", "--by", "ada")
    producer = await remote(*SEND, "--producer", "shop")
    made = await remote("keys", "create", "shop", "--json")
    rotated = await remote("keys", "rotate", "shop", "--overlap", "30m", "--json")
    revoked = await remote("keys", "revoke", rotated.json["id"])
    no_key = await remote("keys", "rotate", "shop")
    no_vapid = await remote("keys", "rotate-vapid")
    await add_device(pool, provider="webhook", secret="whsec_old")
    signed = await remote("keys", "rotate-webhook", "ada", "--json")
    unsigned = await remote("keys", "rotate-webhook", "bob")
    async with pool.acquire() as connection:
        await provider_health.raise_alarms(connection, {ALARM: 1}, utc_now())
        alarm_id = await connection.fetchval("select id from alarms")
    cleared = await remote("alarms", "clear", str(alarm_id))
    paused = await remote("providers", "pause", "fcm", "--reason", "test")
    tried = await remote("providers", "try", "fcm")
    unknown = await remote("providers", "pause", "pigeon", "--reason", "test")
    added = await remote("suppressions", "add", "ada@example.org")
    removed = await remote("suppressions", "remove", "ada@example.org")
    missing = await remote("suppressions", "remove", "ada@example.org")

    assert again.out.startswith("duplicate ")
    assert (other.code, "belongs to other content" in other.said) == (1, True)
    assert explained.json["type"] == "new_customer"
    assert cancelled.out == "Cancelled 1 delivery.\n"
    assert switched.json["enabled"] is False
    assert switched.json["updated_by"].startswith("billing (key ")
    assert (by.code, "--by cannot be given over HTTP" in by.said) == (2, True)
    assert (producer.code, "--producer cannot be given over HTTP" in producer.said) == (2, True)
    assert rotated.json["replaces"] == made.json["id"]
    assert revoked.out.startswith("Revoked the key of shop")
    assert signed.json["secret"].startswith("whsec_")
    assert (unsigned.code, "no active webhook endpoint" in unsigned.said) == (1, True)
    assert (no_vapid.code, "No key of Web Push is stored" in no_vapid.said) == (1, True)
    assert (no_key.code, "no key of shop to rotate" in no_key.said) == (1, True)
    assert cleared.out == "Cleared auth of fcm.\n"
    assert paused.out.startswith("provider:fcm is off.")
    assert tried.out == "No circuit of fcm is open.\n"
    assert (unknown.code, "fcm" in unknown.said) == (1, True)
    assert [added.code, removed.code, missing.code] == [0, 0, 1]


async def test_a_reload_waits_for_every_process_over_http_too(remote: OverHttp, pool: Pool) -> None:
    nobody = await remote("catalog", "reload")
    process = ProcessReport(id=uuid7(), kind="worker", host="a", pid=7, catalog="aaa")
    await processes.report(pool, process, read_ago=timedelta())
    late = await remote("catalog", "reload", "--wait", "0")
    asked = await processes.report(pool, process, read_ago=timedelta())
    read = await remote("catalog", "status")

    assert (nobody.code, "No process runs" in nobody.said) == (1, True)
    assert (late.code, "Not every process" in late.said, asked) == (1, True, False)
    assert (read.code, "worker a/7" in read.out) == (0, True)


@pytest.mark.parametrize(
    "command", [["show", NOWHERE], ["cancel", NOWHERE], ["alarms", "clear", NOWHERE]], ids=str
)
async def test_what_is_not_there_is_said_likewise(remote: OverHttp, command: list[str]) -> None:
    over_http, direct = await remote(*command), await remote.direct(*command)

    assert (over_http.code, direct.code) == (1, 1)
    assert over_http.err == direct.err


async def test_what_does_not_work_over_http_says_so(remote: OverHttp, pool: Pool) -> None:
    async with pool.acquire() as connection:
        await add_device(connection, "ada")

    ran = await remote("devices", "list", "ada")

    assert ran.code == 2
    assert "This command does not work over HTTP yet." in ran.said
    assert "TOCSIN_DATABASE_URL" in ran.said


async def test_a_server_needs_a_key_and_is_reached(remote: OverHttp) -> None:
    keyless = await remote.bare("toggle", "list", "--server", remote.url)
    wrong = await remote.bare("toggle", "list", "--server", remote.url, "--key", "tk_wrong")
    right = await remote.bare("toggle", "list", "--server", remote.url, "--key", remote.key)
    before = await remote.bare("--server", remote.url, "--key", remote.key, *SEND)
    away = await remote.bare("toggle", "list", "--server", "http://127.0.0.1:1", "--key", "k")
    bare = await remote.bare("toggle", "list", "--server", "me:s3cret@127.0.0.1:1", "--key", "k")
    port = await remote.bare("toggle", "list", "--server", "http://127.0.0.1:99999")

    assert (keyless.code, "TOCSIN_KEY" in keyless.said) == (2, True)
    assert (wrong.code, "Tocsin does not know who is asking" in wrong.said) == (2, True)
    assert right.code == 0
    assert before.code == 0
    assert (away.code, "http://127.0.0.1:1 is unavailable" in away.said) == (2, True)
    assert (bare.code, "--server (TOCSIN_SERVER) must be an http or https address" in bare.said) == (2, True)
    assert "s3cret" not in bare.said
    assert (port.code, "http://127.0.0.1:8470, not 'http://127.0.0.1:99999'" in port.said) == (2, True)
    assert "Traceback" not in keyless.err + wrong.err + away.err + bare.err


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (["show", "x", "--server", "u", "--key", "k"], ["--server", "u", "--key", "k", "show", "x"]),
        (["send", "t", "--server=u", "--key", "k"], ["--server=u", "send", "t", "--key", "k"]),
        (["show", "--", "--server"], ["show", "--", "--server"]),
        (["show", "--server"], ["--server", "show"]),
        # What is called like a command is not the command.
        (["keys", "create", "send", "--key", "k"], ["--key", "k", "keys", "create", "send"]),
        (["--key", "send", "show", "x", "--key=k"], ["--key", "send", "--key=k", "show", "x"]),
        (["--key", "a", "send", "t", "--key", "k"], ["--key", "a", "send", "t", "--key", "k"]),
    ],
)
def test_the_server_may_be_named_anywhere(given: list[str], first: list[str]) -> None:
    assert _options_first(given) == first


@pytest.mark.parametrize(
    "command",
    [["migrate"], ["worker"], ["relay"], ["mailer"], ["outbox", "sql"], ["catalog", "check"]],
    ids=" ".join,
)
def test_a_command_that_talks_to_no_server_refuses_one(command: list[str], tmp_path: Path) -> None:
    ran = run([*command, "--server", "http://127.0.0.1:1", "--key", "k"], {}, tmp_path)

    assert (ran.code, ran.out) == (2, "")
    assert "talks to no server: leave --server and --key out" in ran.said


def test_the_variable_of_a_server_is_no_fault_of_a_command_that_talks_to_none(tmp_path: Path) -> None:
    assert run(["catalog", "check"], {"TOCSIN_SERVER": "http://127.0.0.1:1"}, tmp_path).code == 0


async def test_a_list_longer_than_a_page_is_whole_over_http(remote: OverHttp, pool: Pool) -> None:
    await pool.execute(
        "insert into suppressed_addresses (address, reason, suppressed_at) "
        "select 'a' || n || '@example.org', 'test', now() - n * interval '1 s' "
        "from generate_series(1, 205) as n"
    )
    for limit in ("101", "300"):
        command = ("suppressions", "list", "--limit", limit, "--json")
        over_http, direct = await remote(*command), await remote.direct(*command)

        assert over_http.json == direct.json
        assert len(direct.json) == min(int(limit), 205)
    assert (await remote("alarms", "--limit", "1000")).code == 0
    assert (await remote("toggle", "history", "channel:push", "--limit", "1000")).code == 0


async def test_a_key_is_asked_for_once_although_the_answer_is_lost(tmp_path: Path) -> None:
    asked = []

    async def lose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(lose, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        variables = {"TOCSIN_SERVER": f"http://127.0.0.1:{port}", "TOCSIN_KEY": "k"}
        created = await asyncio.to_thread(run, ["keys", "create", "shop"], variables, tmp_path)
        assert asked == [b"POST /v1/admin/keys HTTP/1.1\r\n"]
        listed = await asyncio.to_thread(run, ["keys", "list"], variables, tmp_path)

    assert (created.code, listed.code) == (2, 2)
    assert "A key may have been created all the same" in created.said
    assert "`tocsin keys revoke ID`" in created.said
    # A question can be repeated.
    assert len(asked) == 4


async def test_an_api_key_is_not_taken_for_an_idempotency_key(remote: OverHttp, pool: Pool) -> None:
    ran = await remote.bare(*SEND[:-1], remote.key, "--server", remote.url)

    assert ran.code == 2
    assert "--key after the command is the idempotency key, and this is an API key" in ran.said
    assert remote.key not in ran.out + ran.err
    assert await pool.fetchval("select count(*) from notifications") == 0


class FailingExplainer:
    """Explains nothing."""

    async def explain(self, *_: object) -> None:
        raise OSError("out of order")


async def test_what_is_accepted_is_said_although_it_cannot_be_explained(
    pool: Pool, database_url: str, tmp_path: Path
) -> None:
    async with running(services(pool, explainer=FailingExplainer())) as edge:
        key = (await edge.key(Role.PRODUCER))["Authorization"].removeprefix("Bearer ")
        sent = await OverHttp(edge, key, database_url, tmp_path)(*SEND, "--json")

    assert sent.code == 0, sent.err
    assert (sent.json["status"], sent.json["waiting"]) == ("accepted", [])


class RunningProcess:
    """A process as psutil describes it."""

    def __init__(self, pid: int, user: int) -> None:
        self.pid = pid
        self._user = user

    def uids(self) -> Any:
        return SimpleNamespace(effective=self._user)

    def cmdline(self) -> list[str]:
        return ["python", "-m", "tocsin.cli", "api", "--tied"]

    def environ(self) -> dict[str, str]:
        return {"TOCSIN_DATABASE_URL": "postgresql://127.0.0.1/x", "HOME": "/"}

    def cwd(self) -> str:
        return "/"


def test_root_finds_neither_the_servers_of_others_nor_those_of_containers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [RunningProcess(1, 0), RunningProcess(2, 1_000), RunningProcess(3, 0)]
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("psutil.process_iter", lambda: iter(found))
    monkeypatch.setattr(server, "_container_of", lambda pid: "container" if pid == 3 else "here")

    assert [instance.pid for instance in server.running_instances()] == [1]


def test_the_port_of_a_server_is_the_one_it_listens_on() -> None:
    """Its settings may have paths that mean something in its own folder alone."""
    opened = "import socket, sys; s = socket.create_server(('127.0.0.1', 0))"
    listening = f"{opened}; print(s.getsockname()[1], flush=True)"
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", f"{listening}; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        instance = server.Instance(process.pid, Path("/"), {"TOCSIN_CATALOG": "relative"})
        port = int(process.stdout.readline())

        assert instance.port == port
        process.kill()
        process.wait()
        assert instance.port is None
