"""`tocsin cancel` by query and `tocsin toggle on --discard`, on the database and over HTTP."""

import asyncio
from pathlib import Path

from tests.edges.command_line import Ran, run
from tests.edges.edge import Edge
from tests.rows import add_delivery, add_held, add_notification
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now


async def add_offers(edge: Edge, count: int) -> None:
    for _ in range(count):
        made = await add_notification(edge.pool, type="offer", accepted_at=utc_now())
        await add_delivery(edge.pool, notification_id=made)


async def test_a_campaign_is_stopped_from_the_command_line(
    edge: Edge, database_url: str, tmp_path: Path
) -> None:
    key = (await edge.key(Role.OPERATOR))["Authorization"].removeprefix("Bearer ")
    by_database = {"TOCSIN_DATABASE_URL": database_url, "LOGNAME": "ada"}
    by_http = {"TOCSIN_SERVER": str(edge.http.base_url), "TOCSIN_KEY": key}

    async def tocsin(environment: dict[str, str], *arguments: str) -> Ran:
        return await asyncio.to_thread(run, arguments, environment, tmp_path)

    await add_offers(edge, 2)
    dry = await tocsin(by_database, "cancel", "--type", "offer", "--from", "1h", "--dry-run")
    done = await tocsin(by_database, "cancel", "--type", "offer", "--from", "1h", "--by", "grace")
    await add_offers(edge, 1)
    remote = await tocsin(by_http, "cancel", "--type", "offer", "--json")
    nothing, both, dry_id = (
        await tocsin(by_database, "cancel"),
        await tocsin(by_database, "cancel", "0198c1f2-7a44-7c7b-9d6e-0d6f5f0a1b2c", "--type", "offer"),
        await tocsin(by_database, "cancel", "0198c1f2-7a44-7c7b-9d6e-0d6f5f0a1b2c", "--dry-run"),
    )

    assert dry.out == "2 deliveries would be cancelled.\n"
    assert done.out == "Cancelled 2 deliveries.\n"
    assert remote.json == {"matched": 1, "cancelled": 1, "in_flight": 0, "dry_run": False}
    assert [each.code for each in (nothing, both, dry_id)] == [2, 2, 2]
    assert "options such as --type" in nothing.said
    actors = await edge.pool.fetch("select actor from audit order by id")
    assert actors[0]["actor"] == "grace"


async def test_what_a_toggle_held_is_discarded_from_the_command_line(
    edge: Edge, database_url: str, tmp_path: Path
) -> None:
    key = (await edge.key(Role.OPERATOR))["Authorization"].removeprefix("Bearer ")
    environments = (
        {"TOCSIN_DATABASE_URL": database_url, "LOGNAME": "ada"},
        {"TOCSIN_SERVER": str(edge.http.base_url), "TOCSIN_KEY": key},
    )

    for environment in environments:

        async def toggle(*arguments: str, environment: dict[str, str] = environment) -> Ran:
            return await asyncio.to_thread(run, ["toggle", *arguments], environment, tmp_path)

        await toggle("off", "type:new_customer", "--reason", "wrong text")
        for _ in range(3):
            await add_held(edge.pool, "type:new_customer")
        switched = await toggle("on", "type:new_customer", "--discard")
        provider = await toggle("on", "provider:fcm", "--discard")

        assert switched.out == "type:new_customer is on. 3 deliveries were cancelled.\n"
        assert (provider.code, "for types and channels" in provider.said) == (2, True)
