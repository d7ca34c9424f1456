import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import typer

from tests.databases import fresh_database
from tests.edges.cli.conftest import WIDTH, Tocsin
from tests.edges.command_line import run
from tests.rows import add_device
from tocsin.cli.commands import COMMANDS, app
from tocsin.store.pool import Pool

NOWHERE = str(UUID(int=1))
"""An id that nothing has."""

PAYLOAD = '{"customer_name": "Ali Veli"}'


def _paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, below in sorted(getattr(command, "commands", {}).items()):
        yield from _paths(below, (*path, name))


@pytest.mark.parametrize("path", list(_paths(typer.main.get_command(app))), ids=" ".join)
def test_every_command_explains_itself_within_eighty_columns(path: tuple[str, ...], tmp_path: Path) -> None:
    ran = run([*path, "--help"], {}, tmp_path)

    assert ran.code == 0, ran.err
    assert "Usage: tocsin" in ran.out
    assert max(map(len, ran.out.splitlines())) <= WIDTH


def test_the_list_of_commands_has_the_first_lines_of_their_help() -> None:
    commands: Any = typer.main.get_command(app)

    first_lines = {name: each.help.partition("\n\n")[0] for name, each in commands.commands.items()}
    assert {name: source.summary for name, source in COMMANDS.items()} == {
        name: line.replace("\n", " ") for name, line in first_lines.items()
    }


def test_no_process_imports_what_only_others_need() -> None:
    """Starting takes time: a worker without probes needs no web framework, a list of commands no server."""
    loaded = (
        "import sys; sys.argv = ['tocsin', *sys.argv[1:]]; from tocsin.cli import main\n"
        "try: main()\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )

    def modules_of(*arguments: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-c", loaded, *arguments], capture_output=True, text=True, check=True
        )
        return set(done.stderr.split())

    assert {"litestar", "granian", "tocsin.api.app"}.isdisjoint(modules_of("worker", "--help"))
    assert {"litestar", "asyncpg", "tocsin.settings"}.isdisjoint(modules_of("--help"))


def test_the_version_is_told(tmp_path: Path) -> None:
    assert run(["--version"], {}, tmp_path).out.startswith("tocsin 0.")


def test_an_unknown_command_is_named_with_a_near_one(tmp_path: Path) -> None:
    ran = run(["wrker"], {}, tmp_path)

    assert ran.code == 2
    assert "No such command 'wrker'" in ran.err


async def test_a_sent_notification_can_be_shown(tocsin: Tocsin) -> None:
    sent = await tocsin("send", "new_customer", "--user", "ada", "--payload", PAYLOAD, "--key", "k", "--json")
    again = await tocsin("send", "new_customer", "--user", "ada", "--payload", PAYLOAD, "--key", "k")
    shown = await tocsin("show", sent.json["notification_id"], "--json")
    told = await tocsin("show", sent.json["notification_id"])

    assert (sent.code, sent.json["status"]) == (0, "accepted")
    assert again.out.startswith(f"duplicate {sent.json['notification_id']}\n")
    assert (shown.json["idempotency_key"], shown.json["producer"]) == ("k", "cli")
    assert [delivery["state"] for delivery in shown.json["deliveries"]] == ["pending"]
    assert "new_customer v2" in told.out
    assert "pending push:user:ada" in told.out
    assert max(map(len, told.out.splitlines())) <= WIDTH


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["new_customer", "--user", "ada", "--payload", "{oops"], "--payload: is not a JSON object"),
        (["new_customer", "--user", "ada", "--payload", "[1]"], "--payload: is not a JSON object"),
        (["new_costumer", "--user", "ada", "--payload", PAYLOAD], "new_costumer"),
        (["new_customer", "--user", "ada"], "customer_name"),
        (["new_customer", "--payload", PAYLOAD], "audience"),
        (["new_customer", "--user", "ada", "--topic", "news", "--payload", PAYLOAD], "users and topic given"),
        (["new_customer", "--condition", "'news' in", "--payload", PAYLOAD], "from character 1"),
        (["new_customer", "--topic", "all the news", "--payload", PAYLOAD], "audience.topic"),
        (["new_customer", "--user", "ada", "--payload", PAYLOAD, "--send-at", "tomorrow"], "send_at"),
        (["new_customer", "--user", "ada", "--payload", PAYLOAD, "--version", "9"], "version"),
        (["new_customer", "--user", "ada", "--payload", PAYLOAD, "--ttl-seconds", "soon"], "--ttl-seconds"),
    ],
    ids=str,
)
async def test_what_cannot_be_sent_is_explained(tocsin: Tocsin, arguments: list[str], said: str) -> None:
    ran = await tocsin("send", *arguments)

    assert ran.code == 2
    assert ran.out == ""
    assert said in ran.err
    assert "Traceback" not in ran.err


async def test_json_that_is_nested_too_deep_is_no_traceback(tocsin: Tocsin) -> None:
    nested = '{"a":' * 2_000 + "1" + "}" * 2_000

    payload = await tocsin("explain", "new_customer", "--user", "ada", "--payload", nested)
    attribute = await tocsin("explain", "new_customer", "--attribute", f"plan={nested}", "--payload", PAYLOAD)

    assert (payload.code, "--payload: is not a JSON object" in payload.said) == (2, True)
    assert (attribute.code, "audience.attributes" in attribute.said) == (2, True)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("topic", "news"), ("condition", "'news' in topics && !('sports' in topics)")],
    ids=["topic", "condition"],
)
async def test_a_broadcast_is_explained_and_sent_by_the_same_words(
    tocsin: Tocsin, kind: str, text: str
) -> None:
    words = ("new_customer", f"--{kind}", text, "--payload", PAYLOAD, "--key", "k", "--json")
    explained = await tocsin("explain", *words)
    sent = await tocsin("send", *words)
    shown = await tocsin("show", sent.json["notification_id"], "--json")

    route = f"push:{kind}:{text}"
    assert [each["route_id"] for each in explained.json["routes"]] == [route]
    assert [each["route_id"] for each in shown.json["deliveries"]] == [route]


async def test_a_key_of_other_content_is_refused(tocsin: Tocsin) -> None:
    first = ("send", "new_customer", "--user", "ada", "--key", "k", "--payload", PAYLOAD)
    made = await tocsin(*first, "--json")

    ran = await tocsin("send", "new_customer", "--user", "eve", "--key", "k", "--payload", PAYLOAD)

    assert ran.code == 1
    assert f"belongs to other content, accepted as {made.json['notification_id']}" in ran.said


async def test_an_id_that_is_none_and_one_that_nobody_has(tocsin: Tocsin) -> None:
    unknown = NOWHERE

    missing = await tocsin("show", unknown)
    no_entry = await tocsin("show", "1700000000000-0")
    no_key = await tocsin("keys", "revoke", unknown)

    assert (missing.code, missing.said) == (1, f"error: There is no notification {unknown}.")
    assert (no_entry.code, no_entry.said) == (1, "error: There is no notification 1700000000000-0.")
    assert (no_key.code, no_key.said) == (1, f"error: There is no key {unknown}.")


async def test_a_key_is_made_listed_and_taken_back(tocsin: Tocsin) -> None:
    assert "There are no keys yet" in (await tocsin("keys", "list")).out
    made = (await tocsin("keys", "create", "billing", "--role", "viewer", "--json")).json
    told = await tocsin("keys", "create", "shop")
    revoked = await tocsin("keys", "revoke", made["id"])
    listed = await tocsin("keys", "list", "--json")
    as_text = await tocsin("keys", "list")

    assert told.out.splitlines()[0] == "Key for shop (producer), shown only now:"
    assert revoked.out == f"Revoked the key of billing that ends in {made['key'][-4:]}.\n"
    rows = {row["producer"]: row for row in listed.json}
    assert rows["billing"]["revoked_at"] is not None
    assert rows["shop"]["revoked_at"] is None
    assert made["key"] not in listed.out
    assert made["id"] in as_text.out
    assert max(map(len, as_text.out.splitlines())) <= WIDTH


async def test_a_key_is_rotated_with_an_overlap(tocsin: Tocsin) -> None:
    made = (await tocsin("keys", "create", "billing", "--role", "viewer", "--json")).json
    rotated = (await tocsin("keys", "rotate", "billing", "--overlap", "2h", "--by", "ada", "--json")).json
    as_text = await tocsin("keys", "list")
    at_once = await tocsin("keys", "rotate", rotated["id"], "--overlap", "0")
    unknown = await tocsin("keys", "rotate", "nobody")
    odd = await tocsin("keys", "rotate", "billing", "--overlap", "soon")
    audited = await tocsin("audit", "--action", "key.rotate", "--actor", "ada", "--json")

    assert (rotated["producer"], rotated["role"], rotated["replaces"]) == ("billing", "viewer", made["id"])
    assert rotated["key"] != made["key"]
    assert "replaced, until" in " ".join(as_text.out.split())
    assert max(map(len, as_text.out.splitlines())) <= WIDTH
    assert f"The key that ends in {rotated['key'][-4:]} no longer works." in at_once.out
    assert (unknown.code, unknown.said) == (
        1,
        "error: There is no key of nobody to rotate: tocsin keys list",
    )
    assert (odd.code, "--overlap" in odd.said) == (2, True)
    assert [entry["details"]["overlap_seconds"] for entry in audited.json] == [7_200]


async def test_the_key_of_web_push_is_rotated(tocsin: Tocsin, pool: Pool) -> None:
    none = await tocsin("keys", "rotate-vapid")
    await pool.execute("insert into kept_secrets values ('vapid_private_key', 'first', now())")
    rotated = await tocsin("keys", "rotate-vapid", "--json")
    again = await tocsin("keys", "rotate-vapid", "--discard-old", "--by", "ada")
    in_file = await tocsin("keys", "rotate-vapid", TOCSIN_WEBPUSH__PRIVATE_KEY_FILE="/key.pem")

    assert (none.code, "No key of Web Push is stored" in none.said) == (1, True)
    assert set(rotated.json) == {"key_id", "public_key", "active_at", "old_discarded"}
    assert "The old keys are discarded" in again.out
    assert (in_file.code, "TOCSIN_WEBPUSH__PREVIOUS_KEY_FILES" in in_file.said) == (2, True)
    [(name, value)] = await pool.fetch("select name, value from kept_secrets")
    assert (name, value.startswith("-----BEGIN PRIVATE KEY-----")) == ("vapid_private_key", True)
    assert value not in again.out + rotated.out
    assert await pool.fetchval("select count(*) from audit where action = 'webpush_key.rotate'") == 2


async def test_an_unknown_role_is_refused_with_those_there_are(tocsin: Tocsin) -> None:
    ran = await tocsin("keys", "create", "shop", "--role", "king")

    assert ran.code == 2
    assert "producer" in ran.err
    assert "operator" in ran.err


async def test_devices_are_listed_without_their_tokens(tocsin: Tocsin, pool: Pool) -> None:
    active = await add_device(pool, token="secret-token-1")
    retired = await add_device(
        pool,
        token="secret-token-2",
        retired_at=await pool.fetchval("select now()"),
        retired_reason="gone: UNREGISTERED",
    )

    listed = await tocsin("devices", "list", "ada")
    both = await tocsin("devices", "list", "ada", "--retired", "--json")
    as_text = await tocsin("devices", "list", "ada", "--retired")
    nobody = await tocsin("devices", "list", "nobody")

    assert str(active) in listed.out
    assert str(retired) not in listed.out
    assert {device["id"] for device in both.json} == {str(active), str(retired)}
    assert "UNREGISTERED)" in as_text.out
    assert max(map(len, as_text.out.splitlines())) <= WIDTH
    assert nobody.out == "User nobody has no active devices.\n"
    assert "secret-token" not in listed.out + both.out + as_text.out


async def test_a_catalog_without_faults_and_one_with(tocsin: Tocsin, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "types").mkdir(parents=True)
    (broken / "types" / "a.yaml").write_text("a_type:\n  version: none\n")

    good = await tocsin("catalog", "check")
    good_json = await tocsin("catalog", "check", "--json")
    bad = await tocsin("catalog", "check", str(broken))
    bad_json = await tocsin("catalog", "check", str(broken), "--json")
    missing = await tocsin("catalog", "check", str(tmp_path / "nowhere"))

    assert good.code == 0
    assert "No faults." in good.out
    assert good_json.json["faults"] == []
    assert bad.code == bad_json.code == 1
    assert "a.yaml:2" in bad.out
    assert bad_json.json["faults"][0]["field"].startswith("types/a.yaml:")
    assert (missing.code, missing.said) == (2, f"error: {tmp_path / 'nowhere'} is not a folder.")


async def test_migrating_again_changes_nothing(tocsin: Tocsin) -> None:
    told = await tocsin("migrate")
    listed = await tocsin("migrate", "--json")

    assert told.out == "Schema tocsin is up to date.\n"
    assert told.server.startswith("tocsin: database t")
    assert listed.json == {"schema": "tocsin", "applied": []}


@pytest.mark.parametrize("command", [["worker"], ["api"], ["migrate"], ["keys", "list"], ["serve"]], ids=str)
async def test_a_database_out_of_reach_is_said_without_its_password(
    tocsin: Tocsin, command: list[str]
) -> None:
    ran = await tocsin(*command, TOCSIN_DATABASE_URL="postgresql://tocsin:s3cret@127.0.0.1:1/tocsin")

    assert ran.code == 2
    assert "The database does not answer" in ran.said
    assert "TOCSIN_DATABASE_URL" in ran.said
    assert "s3cret" not in ran.out + ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "command", [["worker"], ["api"], ["keys", "list"], ["toggle", "list"], ["show", NOWHERE]], ids=str
)
async def test_only_those_who_may_migrate_do(tocsin: Tocsin, server_url: str, command: list[str]) -> None:
    async with fresh_database(server_url) as url:
        ran = await tocsin(*command, TOCSIN_DATABASE_URL=url)
        connection = await asyncpg.connect(url)
        tables = await connection.fetchval("select count(*) from pg_tables where schemaname = 'tocsin'")
        await connection.close()

    assert ran.code == 2
    assert "Run: tocsin migrate" in ran.said
    assert tables == 0


@pytest.mark.parametrize("command", [["worker"], ["send", "new_customer"], ["demo"], ["catalog", "check"]])
async def test_wrong_settings_stop_every_command_and_are_named(tocsin: Tocsin, command: list[str]) -> None:
    ran = await tocsin(*command, TOCSIN_HTTP__PROT="1", TOCSIN_WORKERS="many")

    assert ran.code == 2
    assert "http.prot (TOCSIN_HTTP__PROT)" in ran.err
    assert "did you mean http.port" in ran.err
    assert "workers (TOCSIN_WORKERS)" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["demo", "--once", "--data-dir", "tocsin.toml"], "tocsin.toml cannot be used"),
        (["sandbox", "--folder", "tocsin.toml"], "cannot keep its keys in"),
        (["sandbox", "--http-port", "65536"], "Invalid value for '--http-port'"),
    ],
    ids=["demo", "sandbox", "port"],
)
def test_a_folder_or_port_that_cannot_be_used_is_named(command: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "tocsin.toml").touch()

    ran = run(command, {}, tmp_path)

    assert (ran.code in {1, 2}, said in ran.said) == (True, True), ran.err


async def test_credentials_that_are_none_stop_the_worker(tocsin: Tocsin) -> None:
    ran = await tocsin("worker")

    assert ran.code == 2
    assert "service account" in ran.said
    assert "Traceback" not in ran.err


async def test_a_lane_that_does_not_exist_is_named_with_those_that_do(tocsin: Tocsin) -> None:
    ran = await tocsin("worker", "--lanes", "fcm,pigeon")

    assert ran.code == 2
    assert "pigeon: no such lane; there are fanout, fcm" in " ".join(ran.err.split())


def test_an_argument_that_is_no_text_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    ran = run(["send", "new_customer", "--user", "a\udcff"], {}, tmp_path)

    assert ran.code == 2
    assert "is not UTF-8 text" in ran.said
    assert "Traceback" not in ran.said


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00"])
async def test_a_time_out_of_range_cannot_be_explained(tocsin: Tocsin, at: str) -> None:
    ran = await tocsin("explain", "new_customer", "--user", "42", "--payload", PAYLOAD, "--at", at)

    assert ran.code == 2
    assert "lies outside the years 1900 to 9998" in ran.said


async def test_what_waits_for_the_morning_is_told_when_it_is_sent(tocsin: Tocsin, pool: Pool) -> None:
    await pool.execute("insert into users (user_id, timezone, updated_at) values ('42', 'UTC', now())")
    await add_device(pool, "42")
    # A window that is closed now, whatever the hour.
    closed = {"TOCSIN_QUIET_HOURS__START": f"{(datetime.now(UTC) + timedelta(hours=2)):%H}:00"}
    closed["TOCSIN_QUIET_HOURS__END"] = f"{(datetime.now(UTC) + timedelta(hours=3)):%H}:00"

    waits = await tocsin("send", "new_customer", "--user", "42", "--payload", PAYLOAD, **closed)
    leaves = await tocsin("send", "new_customer", "--user", "43", "--payload", PAYLOAD, **closed)

    assert "push:user:42 waits until" in waits.said
    assert "quiet hours" in waits.said
    assert "waits" not in leaves.said
