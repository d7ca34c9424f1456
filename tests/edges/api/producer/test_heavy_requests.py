"""Requests with very many deliveries: bounded, planned in slices, and no burden to other callers."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.edges.edge import Edge, running, services
from tocsin.api.auth.roles import Role
from tocsin.api.settings import HttpSettings
from tocsin.store.pool import Pool

BATCH = "/v1/notifications/batch"
POST = "/v1/notifications"
# Without slices the loop stood still for seconds; a slice takes tens of milliseconds on an idle machine.
LONGEST_GAP_SECONDS = 0.5
PEOPLE = 1_000


def intent(key: str, users: list[str]) -> dict[str, Any]:
    return {
        "type": "new_customer",
        "audience": {"users": users},
        "payload": {"customer_name": "Ali Veli"},
        "idempotency_key": key,
    }


def batch(intents: int) -> bytes:
    users = [f"user-{number}" for number in range(PEOPLE)]
    return msgspec.json.encode({"notifications": [intent(f"heavy-{each}", users) for each in range(intents)]})


@asynccontextmanager
async def gaps() -> AsyncIterator[list[float]]:
    """Collect the processor time that passed between two turns of a task that only wants its next one."""
    found: list[float] = []

    async def tick() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            found.append(time.thread_time() - before)

    ticking = asyncio.create_task(tick())
    try:
        yield found
    finally:
        ticking.cancel()


async def test_others_are_served_while_the_largest_request_is_planned(pool: Pool) -> None:
    async with running(services(pool, http=HttpSettings(port=0))) as edge:
        headers = await edge.key(Role.PRODUCER)
        body = batch(100)
        async with gaps() as waited:
            heavy = asyncio.create_task(edge.http.post(BATCH, content=body, headers=headers, timeout=120))
            served = 0
            while not heavy.done():
                assert (await edge.http.get("/healthz")).status_code == 200
                answer = await edge.http.post(POST, json=intent(f"light-{served}", ["ada"]), headers=headers)
                assert answer.json()["status"] == "accepted"
                served += 1
        results = (await heavy).json()["results"]

    assert [result["status"] for result in results] == ["accepted"] * 100
    assert await pool.fetchval("select count(*) from deliveries") == 100 * PEOPLE + served
    # Each of them was stored while the large request was still under way.
    assert served > 10
    assert max(waited) < LONGEST_GAP_SECONDS


async def test_a_request_with_too_many_deliveries_is_refused_with_what_to_do(pool: Pool) -> None:
    async with running(services(pool, http=HttpSettings(port=0))) as edge:
        headers = await edge.key(Role.PRODUCER)

        async with gaps() as waited:
            answer = await edge.http.post(BATCH, content=batch(101), headers=headers)

    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["code"]) == (413, "too_many_deliveries")
    assert "101,000 deliveries" in answer.json()["detail"]
    assert "Split it" in answer.json()["detail"]
    assert "TOCSIN_HTTP__MAX_DELIVERIES" in answer.json()["detail"]
    assert await pool.fetchval("select count(*) from notifications") == 0
    assert max(waited) < LONGEST_GAP_SECONDS


async def test_one_intent_can_have_too_many_deliveries_too(pool: Pool) -> None:
    async with running(services(pool, http=HttpSettings(port=0, max_deliveries=2))) as edge:
        headers = await edge.key(Role.PRODUCER)

        refused = await edge.http.post(POST, json=intent("k", ["ada", "bob", "cem"]), headers=headers)
        taken = await edge.http.post(POST, json=intent("k", ["ada", "bob", "ada"]), headers=headers)

    assert (refused.status_code, refused.json()["code"]) == (413, "too_many_deliveries")
    assert taken.json()["status"] == "accepted"


async def test_a_large_request_that_failed_halfway_is_completed_by_handing_it_in_again(edge: Edge) -> None:
    """Parts are separate transactions: what a part stored is a duplicate the second time, never a copy."""
    headers = await edge.key(Role.PRODUCER)
    users = [f"user-{number}" for number in range(PEOPLE)]
    first_part = {"notifications": [intent(f"k{each}", users) for each in range(2)]}
    everything = {"notifications": [intent(f"k{each}", users) for each in (0, 1, 2, 3, 2)]}
    await edge.http.post(BATCH, json=first_part, headers=headers)

    again = await edge.http.post(BATCH, json=everything, headers=headers)

    statuses = [result["status"] for result in again.json()["results"]]
    assert statuses == ["duplicate", "duplicate", "accepted", "accepted", "duplicate"]
    assert await edge.pool.fetchval("select count(*) from deliveries") == 4 * PEOPLE


async def test_others_are_served_while_a_large_audience_is_explained(pool: Pool) -> None:
    asked = {
        "type": "message",
        "audience": {"users": [f"user-{number}" for number in range(PEOPLE)]},
        "payload": {
            "title": "News",
            "body": "All of it",
            "data": {"numbers": [[each] for each in range(6_000)]},
        },
    }
    async with running(services(pool, http=HttpSettings(port=0))) as edge:
        headers = await edge.key(Role.PRODUCER)
        async with gaps() as waited:
            explained = await edge.http.post(f"{POST}/explain", json=asked, headers=headers)

    assert [route["reason"] for route in explained.json()["routes"]] == ["no_device"] * PEOPLE
    assert max(waited) < LONGEST_GAP_SECONDS
