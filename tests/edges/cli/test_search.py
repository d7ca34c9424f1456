"""`tocsin list`."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.edges.command_line import run
from tests.edges.edge import Edge
from tests.rows import NOW, add_delivery
from tocsin.api.auth.roles import Role


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

    assert len(by_http.json["items"]) == 3
    assert by_http.json == by_database.json
    assert text.out.count("dead      push:user:ada UNAVAILABLE; FCM is overloaded.") == 2
    assert "There may be more: --cursor " in text.out
    assert nothing.out == "Nothing matches.\n"
    assert faulty.code == 2
    assert "state: must be one of scheduled, pending" in faulty.said
    assert "channel: must be one of push, email" in faulty.said
    assert "to: invalid" in faulty.said


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
