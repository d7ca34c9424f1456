"""What an erasure that somebody bound to an organisation asks for takes, and what it leaves to others."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

from tests.edges.api.organisations.conftest import World
from tests.edges.api.organisations.world import intent
from tests.edges.edge import Edge
from tests.rows import NOW, add_carrier, add_delivery, add_digest, add_notification
from tests.waiting import found
from tocsin.api.auth.roles import Role
from tocsin.engine.clock import utc_now
from tocsin.engine.retention.erase import Eraser
from tocsin.store.people import suppressions

ADDRESS = "nine@globex.test"
DAY = timedelta(days=1)


async def add_messages(edge: Edge, org_id: str | None, **fields: Any) -> None:
    """Store what waits for the id `aZ`, and for the address, of an organisation or of the platform."""
    for user, address in (("aZ", None), (None, ADDRESS)):
        key = f"{org_id} {user}"
        notification_id = await add_notification(
            edge.pool, org_id=org_id, idempotency_key=key, payload='{"text": "secret"}'
        )
        await add_delivery(
            edge.pool,
            user,
            notification_id=notification_id,
            channel="email",
            address=address,
            state="scheduled",
            **fields,
        )


async def left(edge: Edge) -> dict[str | None, set[tuple[str, str]]]:
    """Return the states of deliveries and the payloads, by organisation."""
    states: dict[str | None, set[tuple[str, str]]] = {}
    rows = await edge.pool.fetch(
        "select n.org_id, d.state, n.payload::text as payload from deliveries as d"
        " join notifications as n on n.id = d.notification_id where n.idempotency_key like '% %'"
    )
    for row in rows:
        states.setdefault(row["org_id"], set()).add((row["state"], row["payload"]))
    return states


WAITS, ERASED = {("scheduled", '{"text": "secret"}')}, {("cancelled", "{}")}


async def claim_and_erase(world: World) -> dict[str, Any]:
    http, headers = world.edge.http, world.acme.headers
    claimed = await http.put("/v1/users/aZ", json={"email": ADDRESS}, headers=headers)
    assert claimed.status_code == 200, claimed.text
    erased = await http.delete("/v1/users/aZ", headers=headers)
    assert erased.status_code == 200, erased.text
    answer: dict[str, Any] = erased.json()
    return answer


async def test_what_was_sent_for_others_is_left_by_id_and_by_address(world: World) -> None:
    for org_id in ("acme", "globex", None):
        await add_messages(world.edge, org_id)
    for headers in (world.globex.headers, await world.edge.key(Role.ADMIN, "platform")):
        refused = intent("aZ", key="refused", payload={"address": ADDRESS})
        answered = await world.edge.http.post("/v1/notifications", json=refused, headers=headers)
        assert answered.is_client_error
    async with world.edge.pool.acquire() as connection:
        await suppressions.suppress(connection, ADDRESS, reason="gone", now=NOW)

    answer = await claim_and_erase(world)

    assert (answer["state"], answer["deliveries"], answer["refused_intents"]) == ("finished", 2, 0)
    assert await left(world.edge) == {"acme": ERASED, "globex": WAITS, None: WAITS}
    contents = await world.edge.pool.fetch(
        "select content from refused_intents where idempotency_key = 'refused'"
    )
    assert [ADDRESS in row["content"] for row in contents] == [True, True]
    assert await world.edge.pool.fetchval("select address from suppressed_addresses") == ADDRESS


async def test_a_worker_that_continues_it_keeps_to_the_organisation(world: World) -> None:
    now = utc_now()
    await add_messages(world.edge, "acme", leased_until=now + DAY)
    await add_messages(world.edge, "globex")
    assert (await claim_and_erase(world))["state"] == "unfinished"
    await world.edge.pool.execute("update deliveries set leased_until = null")
    await world.edge.pool.execute("update erasures set leased_until = null")

    running = asyncio.create_task(Eraser(world.edge.pool, None, utc_now).run())
    try:
        await found(lambda: world.edge.pool.fetchval("select finished_at is not null from erasures"))
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    assert await left(world.edge) == {"acme": ERASED, "globex": WAITS}


async def test_it_never_joins_an_erasure_for_all(world: World) -> None:
    http, platform = world.edge.http, await world.edge.key(Role.ADMIN, "platform")
    await add_messages(world.edge, "globex")
    leased = {"leased_until": utc_now() + DAY}
    await add_delivery(world.edge.pool, "aZ", state="scheduled", **leased)
    others = "update deliveries set user_id = 'other' where user_id = 'aZ' and leased_until is null"
    await world.edge.pool.execute(others)
    assert (await http.delete("/v1/users/aZ", headers=platform)).json()["state"] == "unfinished"
    await http.put("/v1/users/aZ", json={"email": ADDRESS}, headers=world.acme.headers)

    answer = await http.delete("/v1/users/aZ", headers=world.acme.headers)

    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "60"
    assert await left(world.edge) == {"globex": WAITS}
    assert (await http.get("/v1/users/aZ", headers=world.acme.headers)).status_code == 200


async def test_a_digest_with_messages_of_others_is_left_to_them(world: World) -> None:
    pool, carriers = world.edge.pool, {}
    for name, org_ids in (("own", ("acme", "acme")), ("mixed", ("acme", "globex"))):
        digest_id = await add_digest(pool, key=f"email:user:aZ:{name}")
        for number, org_id in enumerate(org_ids):
            notification_id = await add_notification(pool, org_id=org_id, idempotency_key=f"{name} {number}")
            await add_delivery(
                pool, "aZ", notification_id=notification_id, digest_id=digest_id, state="scheduled"
            )
        carriers[name] = await add_carrier(pool, digest_id, user_id="aZ")
    await claim_and_erase(world)

    carried = dict(await pool.fetch("select id, state from deliveries where notification_id is null"))
    assert (carried[carriers["own"]], carried[carriers["mixed"]]) == ("cancelled", "scheduled")
    states = await pool.fetch("select state from digests order by key like 'erased:%'")
    assert [row["state"] for row in states] == ["open", "ended"]
