"""`tocsin dead` as an operator runs it, on the database and over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from tests.edges.command_line import Ran, run
from tests.edges.edge import Edge
from tests.rows import NOW, add_delivery
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now
from tocsin.engine.inspect import dead_letters
from tocsin.engine.settle.replays import Replayer
from tocsin.store.pool import Pool

Tocsin: TypeAlias = Callable[..., Awaitable[Ran]]


@pytest.fixture
def tocsin(database_url: str, tmp_path: Path) -> Tocsin:
    environment = {"TOCSIN_DATABASE_URL": database_url, "COLUMNS": "200", "LOGNAME": "ada"}

    async def command(*arguments: str) -> Ran:
        return await asyncio.to_thread(run, ["dead", *arguments], environment, tmp_path)

    return command


@asynccontextmanager
async def replaying(pool: Pool) -> AsyncIterator[None]:
    """Do the batches of replays as a worker does."""
    duty = asyncio.create_task(Replayer(pool, utc_now).run())
    try:
        yield
    finally:
        duty.cancel()
        await asyncio.gather(duty, return_exceptions=True)


async def add_dead(pool: Pool, **changes: Any) -> str:
    row: dict[str, Any] = {
        "state": "dead",
        "provider": "fcm",
        "last_error_code": "UNAVAILABLE",
        "settled_at": NOW,
    }
    return str(await add_delivery(pool, **row | changes))


async def test_several_are_chosen_by_their_ids(tocsin: Tocsin, pool: Pool) -> None:
    first, _, last = [await add_dead(pool) for _ in range(3)]

    counted = await tocsin("replay", first, last, "--dry-run")
    many = await tocsin("replay", *[first] * 501)

    assert counted.said == "2 dead letters would be replayed."
    assert (many.code, "at most 500" in many.err) == (2, True)


async def test_dead_letters_are_listed_and_replayed(tocsin: Tocsin, pool: Pool) -> None:
    dead = [await add_dead(pool) for _ in range(3)]
    gone = await add_dead(pool, state="gone", last_error_code="UNREGISTERED")

    listed = await tocsin("list")
    one = await tocsin("list", "--code", "UNREGISTERED", "--json")
    dry = await tocsin("replay", "--code", "UNAVAILABLE", "--dry-run")
    async with replaying(pool):
        replayed = await tocsin("replay", "--code", "UNAVAILABLE", "--rate", "50")
        single = await tocsin("replay", gone, "--force", "--json", "--by", "grace")
    replays = await tocsin("replays")

    first, second = listed.out.splitlines()[:2]
    assert (first, second) == ("3 dead UNAVAILABLE", "  new_customer by fcm, since 2026-03-01 12:00:00Z")
    assert f"tocsin dead replay {dead[-1]}\n" in listed.out
    assert (
        "`tocsin dead replay --state dead --code UNAVAILABLE --provider fcm --type new_customer`"
        in listed.out
    )
    assert [group["example"]["delivery_id"] for group in one.json["groups"]] == [gone]
    assert dry.out == "3 dead letters would be replayed.\n"
    assert (replayed.code, replayed.out) == (0, "Replayed 3 deliveries (finished).\n")
    assert (single.json["replayed"], single.json["filter"]) == (1, {"delivery_id": gone})
    assert [line.split()[1:] for line in replays.out.splitlines()[1::2]] == [
        ["1/1", "0", "grace"],
        ["3/3", "0", "ada"],
    ]
    actors = await pool.fetch("select actor from audit order by id")
    assert [row["actor"] for row in actors] == ["ada", "grace"]
    assert await pool.fetchval("select count(*) from deliveries where state = 'pending'") == 4


async def test_a_careless_call_replays_nothing(tocsin: Tocsin, pool: Pool) -> None:
    await add_dead(pool)
    everything = await tocsin("replay")
    both = await tocsin("replay", "--all", "--code", "UNAVAILABLE")
    alive = await tocsin("replay", "--state", "sent")
    absent = await tocsin("stop", "0198c1f2-7a44-7c7b-9d6e-0d6f5f0a1b2c")
    nowhere = await tocsin("export", "--output", "/nowhere/dead.ndjson")

    assert [each.code for each in (everything, both, alive, absent, nowhere)] == [2, 2, 2, 1, 2]
    assert "--all to replay every dead letter" in everything.said
    assert "must be one of dead, gone, rejected" in alive.said
    assert "/nowhere/dead.ndjson cannot be written" in nowhere.said
    assert await pool.fetchval("select count(*) from replays") == 0


async def test_it_works_over_http_too(
    edge: Edge, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = [await add_dead(pool) for _ in range(2)]
    key = (await edge.key(Role.OPERATOR))["Authorization"].removeprefix("Bearer ")
    environment = {"TOCSIN_SERVER": str(edge.http.base_url), "TOCSIN_KEY": key, "COLUMNS": "200"}

    async def tocsin(*arguments: str) -> Ran:
        return await asyncio.to_thread(run, ["dead", *arguments], environment, tmp_path)

    listed = await tocsin("list", "--type", "new_customer", "--from", "2020-01-01T00:00:00Z", "--json")
    exported = await tocsin("export", "--output", "dead.ndjson")
    key_given = ("--all", "--detach", "--json", "--idempotency-key", "k")
    started, again = await tocsin("replay", *key_given), await tocsin("replay", *key_given)
    stopped = await tocsin("stop", started.json["replay_id"])
    async with replaying(pool):
        finished = await tocsin("replay", "--code", "UNAVAILABLE", "--json")
    for _ in range(2):
        await add_dead(pool)
    monkeypatch.setattr(dead_letters, "STRETCH", 1)
    monkeypatch.setattr(dead_letters, "COUNT_SECONDS", 0.0)
    hasty = await tocsin("replay", "--all", "--dry-run")

    assert [group["count"] for group in listed.json["groups"]] == [2]
    lines = [msgspec.json.decode(line) for line in (tmp_path / "dead.ndjson").read_bytes().splitlines()]
    assert [line["delivery_id"] for line in lines] == dead
    assert exported.err == "Exported 2 dead letters.\n"
    assert started.json["replay_id"] == again.json["replay_id"]
    assert stopped.out == "Replayed 0 deliveries (stopped).\n"
    assert (finished.json["state"], finished.json["replayed"]) == ("finished", 2)
    assert hasty.out == "At least 1 dead letter would be replayed.\n"
