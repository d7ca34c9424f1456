"""`tocsin list`."""

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.edges.command_line import run
from tests.edges.edge import Edge, running, services
from tests.rows import NOW, add_delivery, add_notification
from tocsin.api.auth.roles import Role
from tocsin.cli.notifications.search import print_found
from tocsin.cli.notifications.timeline import print_timeline
from tocsin.engine.clock import utc_now
from tocsin.store.pool import Pool
from tocsin.wire.notifications import Notification
from tocsin.wire.search import SearchPage


async def test_the_same_list_is_printed_over_http_and_from_the_database(
    edge: Edge, database_url: str, tmp_path: Path
) -> None:
    failed: dict[str, Any] = {"state": "dead", "settled_at": NOW, "last_error_code": "UNAVAILABLE"}
    for _ in range(3):
        await add_delivery(edge.pool, **failed)
    await add_delivery(edge.pool, "bob", state="sent")
    key = (await edge.key(Role.VIEWER))["Authorization"].removeprefix("Bearer ")
    remote = {"TOCSIN_SERVER": str(edge.http.base_url), "TOCSIN_KEY": key}
    local = {"TOCSIN_DATABASE_URL": database_url}

    async def tocsin(environment: dict[str, str], *arguments: str) -> Any:
        return await asyncio.to_thread(run, ["list", *arguments], environment, tmp_path)

    by_http = await tocsin(remote, "--state", "dead", "--from", "2026-01-01T00:00:00Z", "--json")
    by_database = await tocsin(local, "--state", "dead", "--from", "2026-01-01T00:00:00Z", "--json")
    text = await tocsin(local, "--user", "ada", "--limit", "2")
    nothing = await tocsin(local, "--from", "1s")
    faulty = await tocsin(local, "--state", "failed", "--channel", "sms", "--to", "noon")
    far = await tocsin(local, "--from", "999999d")

    assert len(by_http.json["items"]) == 3
    assert by_http.json == by_database.json
    assert text.out.count("dead      push:user:ada UNAVAILABLE; FCM is overloaded.") == 2
    assert "There may be more: --cursor " in text.out
    assert nothing.out == "Nothing matches.\n"
    assert faulty.code == 2
    assert "state: must be one of scheduled, pending" in faulty.said
    assert "channel: must be one of push, email" in faulty.said
    assert "to: invalid" in faulty.said
    assert far.code == 2
    assert "from: lies outside the years 1900 to 9998" in far.said


async def test_what_came_by_a_stream_is_listed_by_status_and_shown_by_its_entry(
    edge: Edge, database_url: str, tmp_path: Path
) -> None:
    first, second = [
        await add_notification(edge.pool, producer=name, external_id="1700000000000-0") for name in ("a", "b")
    ]
    alone = await add_notification(edge.pool, external_id="1700000000001-0")
    for notification_id, state in ((first, "dead"), (second, "rejected"), (alone, "sent")):
        await add_delivery(edge.pool, notification_id=notification_id, state=state, settled_at=NOW)
    key = (await edge.key(Role.VIEWER))["Authorization"].removeprefix("Bearer ")
    remote = {"TOCSIN_SERVER": str(edge.http.base_url), "TOCSIN_KEY": key}

    for environment in (remote, {"TOCSIN_DATABASE_URL": database_url}):

        async def tocsin(*arguments: str, given: dict[str, str] = environment) -> Any:
            return await asyncio.to_thread(run, arguments, given, tmp_path)

        listed = await tocsin("list", "--status", "dead_letter")
        shown = await tocsin("show", "1700000000001-0", "--json")
        text = await tocsin("show", "1700000000001-0")
        ambiguous = await tocsin("show", "1700000000000-0")
        faulty = await tocsin("dead", "list", "--status", "failed")

        assert [line.split("  ")[0] for line in listed.out.splitlines()[::2]] == [
            f"{second} (1700000000000-0)",
            f"{first} (1700000000000-0)",
        ]
        assert [(each["route_id"], each["status"]) for each in shown.json["deliveries"]] == [
            ("push:user:ada", "published")
        ]
        assert "stream entry 1700000000001-0\n" in text.out
        assert ambiguous.code != 0
        assert f"show one: {second}, {first}." in ambiguous.said.replace("\n", " ")
        assert "status: must be dead_letter" in faulty.said


async def test_a_span_is_counted_by_the_clock_of_the_server(
    pool: Pool, database_url: str, tmp_path: Path
) -> None:
    made = await add_notification(pool, accepted_at=utc_now())
    await add_delivery(pool, notification_id=made)

    async def listed(environment: dict[str, str]) -> list[str]:
        ran = await asyncio.to_thread(run, ["list", "--from", "1h", "--json"], environment, tmp_path)
        return [item["notification_id"] for item in ran.json["items"]]

    async with running(services(pool, clock=lambda: utc_now() + timedelta(days=2))) as edge:
        key = (await edge.key(Role.VIEWER))["Authorization"].removeprefix("Bearer ")
        by_http = await listed({"TOCSIN_SERVER": str(edge.http.base_url), "TOCSIN_KEY": key})
        by_database = await listed({"TOCSIN_DATABASE_URL": database_url})

    assert (by_http, by_database) == ([], [str(made)])


async def test_following_prints_what_comes_and_what_changes(
    edge: Edge, database_url: str, tmp_path: Path
) -> None:
    waiting = await add_delivery(edge.pool)
    following = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tocsin.cli", "list", "--follow", "--interval", "0.1", "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=tmp_path,
        env=os.environ | {"TOCSIN_DATABASE_URL": database_url},
    )

    async def next_states() -> list[tuple[str, str]]:
        assert following.stdout is not None
        item = msgspec.json.decode(await following.stdout.readline())
        return [(each["delivery_id"], each["state"]) for each in item["deliveries"]]

    try:
        assert await next_states() == [(str(waiting), "pending")]
        added = await add_delivery(edge.pool, "bob")
        assert await next_states() == [(str(added), "pending")]
        await edge.pool.execute("update deliveries set state = 'sent' where id = $1", waiting)
        assert await next_states() == [(str(waiting), "sent")]
    finally:
        following.kill()
        await following.wait()


async def test_states_and_reasons_of_a_newer_server_are_printed_as_they_are(
    edge: Edge, capsys: pytest.CaptureFixture[str]
) -> None:
    await add_delivery(edge.pool)
    viewer = await edge.key(Role.VIEWER)
    found = await edge.http.get("/v1/notifications", headers=viewer)
    path = f"/v1/notifications/{found.json()['items'][0]['notification_id']}"
    shown = await edge.http.get(path, headers=viewer)

    for reason in (b"null", b'"moonlight"'):
        newer, whole = (
            answer.content.replace(b'"pending"', b'"parked"').replace(b'"reason":null', b'"reason":' + reason)
            for answer in (found, shown)
        )
        for item in msgspec.json.decode(newer, type=SearchPage).items:
            print_found(item)
        print_timeline(msgspec.json.decode(whole, type=Notification))

    printed = capsys.readouterr().out
    assert "  parked    push:user:ada moonlight\n" in printed
    assert "└── parked push:user:ada" in printed
    assert "    └── parked: no code\n" in printed
    assert "    └── moonlight\n" in printed
