"""Broadcasts and segments as a producer meets them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.edges.edge import Edge, faults, running, services
from tests.rows import add_user
from tocsin.api.auth.roles import Role
from tocsin.api.settings import HttpSettings
from tocsin.store.pool import Pool

INTENT = {
    "type": "new_customer",
    "audience": {"everyone": True},
    "payload": {"customer_name": "Ada"},
    "idempotency_key": "k",
}


async def test_a_broadcast_is_accepted_at_once_shown_and_cancelled(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    for user_id in ("ada", "bob"):
        await add_user(edge.pool, user_id)

    accepted = await edge.http.post("/v1/notifications", json=INTENT, headers=headers)
    again = await edge.http.post("/v1/notifications", json=INTENT, headers=headers)
    path = f"/v1/notifications/{accepted.json()['notification_id']}"
    shown = (await edge.http.get(path, headers=headers)).json()
    cancelled = await edge.http.post(f"{path}/cancel", headers=headers)
    after = (await edge.http.get(path, headers=headers)).json()

    assert (accepted.status_code, again.json()["status"]) == (202, "duplicate")
    assert (shown["deliveries"], shown["broadcast"]["state"]) == ([], "expanding")
    assert (shown["broadcast"]["expanded"], shown["broadcast"]["total"]) == (0, None)
    assert (cancelled.json()["cancelled"], after["broadcast"]["state"]) == (0, "cancelled")


@pytest.mark.parametrize(
    ("audience", "field", "code"),
    [
        ({"everyone": True}, "audience.everyone", "nobody"),
        ({"everyone": False}, "audience.everyone", "invalid"),
        ({"everyone": True, "users": ["ada"]}, "audience", "one_of"),
        ({"segment": "absent"}, "audience.segment", "unknown_segment"),
        ({"segment": "../x"}, "audience.segment", "invalid"),
        ({"segment": ""}, "audience.segment", "invalid"),
    ],
)
async def test_an_audience_that_cannot_be_reached_is_refused(
    edge: Edge, audience: dict[str, object], field: str, code: str
) -> None:
    answer = await edge.http.post(
        "/v1/notifications", json=INTENT | {"audience": audience}, headers=await edge.key(Role.PRODUCER)
    )

    assert (answer.status_code, faults(answer)) == (422, {field: code})


async def test_a_segment_is_uploaded_used_listed_and_deleted(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    lines = b"".join(b'{"user_id": %d}\n' % number for number in range(5_000))

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(lines), 1_000):
            yield lines[start : start + 1_000]

    put = await edge.http.put("/v1/segments/vip", content=parts(), headers=headers)
    listed = (await edge.http.get("/v1/segments", headers=headers)).json()
    sent = await edge.http.post(
        "/v1/notifications", json=INTENT | {"audience": {"segment": "vip"}}, headers=headers
    )
    explained = await edge.http.post(
        "/v1/notifications/explain", json=INTENT | {"audience": {"segment": "vip"}}, headers=headers
    )
    deleted = await edge.http.delete("/v1/segments/vip", headers=headers)
    absent = await edge.http.delete("/v1/segments/vip", headers=headers)

    assert (put.status_code, put.json()["members"]) == (200, 5_000)
    assert [(each["name"], each["members"]) for each in listed["items"]] == [("vip", 5_000)]
    assert sent.status_code == 202
    assert (explained.json()["audience_size"], len(explained.json()["routes"])) == (5_000, 20)
    assert (deleted.status_code, deleted.json(), absent.status_code) == (200, {"name": "vip"}, 404)


async def test_faults_of_an_upload_are_told_by_line(edge: Edge) -> None:
    headers = await edge.key(Role.PRODUCER)
    body = b'{"user_id": "ada"}\n{"user": "bob"}\nnothing\n'

    refused = await edge.http.put("/v1/segments/vip", content=body, headers=headers)
    named = await edge.http.put("/v1/segments/a%20b", content=body, headers=headers)
    forbidden = await edge.http.put("/v1/segments/vip", content=body, headers=await edge.key(Role.VIEWER))

    assert (refused.status_code, faults(refused)) == (422, {"line 2": "invalid", "line 3": "invalid"})
    assert faults(named) == {"name": "invalid"}
    assert forbidden.status_code == 403
    assert (await edge.http.get("/v1/segments", headers=headers)).json() == {"items": []}


async def test_an_upload_may_take_long_but_not_pause_long(pool: Pool) -> None:
    async with running(services(pool, http=HttpSettings(port=0, body_seconds=0.5))) as edge:
        headers = await edge.key(Role.PRODUCER)
        stalled = asyncio.Event()

        async def slow(*, stalls: bool) -> AsyncIterator[bytes]:
            for number in range(4):
                await asyncio.sleep(0.2)
                yield b'{"user_id": %d}\n' % number
            if stalls:
                await stalled.wait()

        taken = await edge.http.put("/v1/segments/vip", content=slow(stalls=False), headers=headers)
        sending = asyncio.create_task(
            edge.http.put("/v1/segments/vip", content=slow(stalls=True), headers=headers)
        )

        async def dropped() -> bool:
            return bool(await pool.fetchval("select count(*) from segments where state = 'replaced'"))

        async with asyncio.timeout(10):
            while not await dropped():  # noqa: ASYNC110 - a state of the database
                await asyncio.sleep(0.02)
        stalled.set()
        await asyncio.gather(sending, return_exceptions=True)

    assert taken.json()["members"] == 4
    assert await pool.fetchval("select members from segments where state = 'current'") == 4
