"""`tocsin toggle` as an operator runs it: a process of its own on the same database."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.databases import SCHEMA
from tests.edges.command_line import Ran, run
from tests.rows import NEVER, add_delivery
from tocsin.engine.toggles.toggles import Toggles, ToggleWatch
from tocsin.store import toggles as store
from tocsin.store.pool import Pool, PoolSettings


class Operator:
    """Somebody at a terminal."""

    def __init__(self, url: str, folder: Path) -> None:
        self._environ = {"TOCSIN_DATABASE_URL": url, "LOGNAME": "ada", "COLUMNS": "200"}
        self._folder = folder

    async def toggle(self, *arguments: str, **environ: str) -> Ran:
        return await asyncio.to_thread(run, ["toggle", *arguments], self._environ | environ, self._folder)


@pytest.fixture
def operator(database_url: str, tmp_path: Path) -> Operator:
    return Operator(database_url, tmp_path)


async def test_a_running_process_knows_within_a_second_of_a_switch(
    operator: Operator, database_url: str, pool: Pool
) -> None:
    known_at: asyncio.Queue[datetime] = asyncio.Queue()
    toggles = Toggles()
    toggles.on_change(lambda: known_at.put_nowait(datetime.now(UTC)))
    watch = ToggleWatch(toggles, database_url, SCHEMA, PoolSettings(), refresh_seconds=3_600)
    watching = asyncio.create_task(watch.run())
    await watch.listening.wait()

    for command, reason in (("off", "wrong text"), ("on", "mended")):
        said = await operator.toggle(command, "type:new_customer", "--reason", reason)
        assert (said.code, said.out, said.err) == (0, f"type:new_customer is {command}.\n", "")
        async with asyncio.timeout(20):
            late = await known_at.get() - (await store.list_all(pool))[0].updated_at
        assert late.total_seconds() < 1
        assert toggles.is_on("new_customer", "push") is (command == "on")

    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    toggles.close()


async def test_what_was_switched_is_listed_with_who_and_why(operator: Operator) -> None:
    listed, history = await asyncio.gather(operator.toggle("list"), operator.toggle("history"))
    assert listed.out == "Nothing was ever switched off: everything is on.\n"
    assert history.out == "Nothing was ever switched.\n"

    made = await operator.toggle("off", "provider:fcm", "--reason", "[/red] outage", "--json")
    assert made.json["warnings"] == []
    await operator.toggle("on", "provider:fcm", "--by", "grace")
    await operator.toggle("off", "channel:email", "--reason", "bounces")

    listed, as_json, history, one = await asyncio.gather(
        operator.toggle("list"),
        operator.toggle("list", "--json"),
        operator.toggle("history", "--json"),
        operator.toggle("history", "provider:fcm"),
    )
    assert [line.split()[:2] for line in listed.out.splitlines()] == [
        ["toggle", "state"],
        ["channel:email", "off"],
        ["provider:fcm", "on"],
    ]
    assert [(row["name"], row["enabled"], row["updated_by"], row["reason"]) for row in as_json.json] == [
        ("channel:email", False, "ada", "bounces"),
        ("provider:fcm", True, "grace", None),
    ]
    assert [(row["name"], row["was_enabled"], row["enabled"]) for row in history.json] == [
        ("channel:email", True, False),
        ("provider:fcm", False, True),
        ("provider:fcm", True, False),
    ]
    newest, oldest = one.out.splitlines()[1:]
    assert "off to on" in newest
    assert "grace" in newest
    assert "on to off" in oldest
    assert "[/red] outage" in oldest


async def test_a_wrong_call_is_told_and_switches_nothing(operator: Operator, pool: Pool) -> None:
    nameless, blank, reasonless, lost = await asyncio.gather(
        operator.toggle("off", "new_customer", "--reason", "x"),
        operator.toggle("off", "type:a", "--reason", " "),
        operator.toggle("off", "type:a"),
        operator.toggle("history", "channel:sms"),
    )

    assert (nameless.code, blank.code, reasonless.code, lost.code) == (2, 2, 2, 2)
    assert "error: 'new_customer' is not the name of a toggle, which is type:<name>" in nameless.err
    assert "--reason must be 1 to 500 characters" in blank.err
    assert "--reason" in reasonless.err
    assert "'sms' is not a channel; channels are push, email" in lost.err
    assert await store.list_all(pool) == []


async def test_a_doubtful_name_is_switched_with_a_warning(
    operator: Operator, pool: Pool, tmp_path: Path
) -> None:
    broken = tmp_path / "catalog"
    (broken / "types").mkdir(parents=True)
    (broken / "types" / "bad.yaml").write_text("bad: 1")

    unknown = await operator.toggle("off", "type:new_custmer", "--reason", "x")
    unchecked = await operator.toggle("off", "type:a", "--reason", "x", "--json", TOCSIN_CATALOG=str(broken))

    assert (unknown.code, unchecked.code) == (0, 0)
    assert unknown.err == "warning: The catalog has no type 'new_custmer'; did you mean new_customer?\n"
    (warning,) = unchecked.json["warnings"]
    assert warning.startswith("The name was not checked: The catalog in ")
    assert await store.off(pool) == {"type:new_custmer", "type:a"}


async def test_it_is_said_how_many_deliveries_a_toggle_holds_and_releases(
    operator: Operator, pool: Pool
) -> None:
    async def hold(toggle: str, **fields: Any) -> None:
        async with pool.acquire() as connection:
            await add_delivery(connection, state="scheduled", held_by=toggle, due_at=NEVER, **fields)

    await operator.toggle("off", "type:new_customer", "--reason", "x")
    await operator.toggle("off", "channel:email", "--reason", "x")
    await hold("type:new_customer", channel="push")
    await hold("type:new_customer", channel="email")
    await hold("type:other", channel="push")
    for _ in range(2):
        await hold("channel:email", channel="email")
    listed = await operator.toggle("list", "--json")
    shown = await operator.toggle("list")
    paused = await operator.toggle("off", "provider:fcm", "--reason", "x")
    one = await operator.toggle("on", "type:new_customer")
    both = await operator.toggle("on", "channel:email")
    none = await operator.toggle("on", "type:nothing", "--json")

    held = {row["name"]: row["held"] for row in listed.json}
    assert held == {
        "channel:email": {"count": 2, "or_more": False},
        "type:new_customer": {"count": 2, "or_more": False},
    }
    assert shown.out.splitlines()[0].split()[:3] == ["toggle", "state", "held"]
    assert paused.out == "provider:fcm is off.\n"
    # The mail stays: its channel is off.
    assert one.out == "type:new_customer is on. 1 delivery continues.\n"
    assert both.out == "channel:email is on. 2 deliveries continue.\n"
    assert none.json["held"] == {"count": 0, "or_more": False}


async def test_what_waits_for_a_paused_provider_is_counted(operator: Operator, pool: Pool) -> None:
    async with pool.acquire() as connection:
        for _ in range(3):
            await add_delivery(connection, lane="fcm")

    paused = await operator.toggle("off", "provider:fcm", "--reason", "x")
    listed = await operator.toggle("list", "--json")
    resumed = await operator.toggle("on", "provider:fcm")

    assert paused.out == "provider:fcm is off. 3 deliveries wait.\n"
    assert listed.json[0]["held"]["count"] == 3
    assert resumed.out == "provider:fcm is on. 3 deliveries continue.\n"
