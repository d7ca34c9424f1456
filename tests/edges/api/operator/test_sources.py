"""How far behind the readers of outboxes, streams and queues are, over HTTP, on the page and by the CLI."""

from typing import Any

import pytest

from tests.edges.api.dashboard.visits import signed_in
from tests.edges.edge import Edge
from tocsin.api.auth.roles import Role
from tocsin.domain.ids import new_lease_id
from tocsin.store.sources import lags, stream_offsets
from tocsin.store.sources.lags import SourceLag
from tocsin.store.sources.stream_offsets import Offset, StreamName

PATH = "/v1/admin/sources"
HOSTILE = "<script>alert(1)</script>\"'"


def lag(**changes: Any) -> SourceLag:
    known: dict[str, Any] = {
        "kind": "outbox",
        "name": "shop",
        "waiting": 12,
        "waiting_or_more": False,
        "oldest_age": 90.0,
        "measured_age": 1.0,
        "progressed_age": 30.0,
        "failing": False,
        "last_error": None,
        "last_error_age": None,
    }
    return SourceLag(**known | changes)


async def shown(edge: Edge) -> list[dict[str, Any]]:
    answer = await edge.http.get(PATH, headers=await edge.key(Role.VIEWER))
    assert answer.status_code == 200, answer.text
    listed: list[dict[str, Any]] = answer.json()["sources"]
    return listed


async def test_sources_are_listed_with_their_lag(edge: Edge) -> None:
    queue = lag(kind="queue", waiting=None, oldest_age=None, last_error="AccessDenied", last_error_age=2.0)
    async with edge.pool.acquire() as connection:
        await lags.save(connection, [queue, lag()])

    outbox, unknown = await shown(edge)

    assert (outbox["kind"], outbox["name"], outbox["state"]) == ("outbox", "shop", "reading")
    assert outbox["waiting"] == {"count": 12, "or_more": False}
    assert outbox["lag_seconds"] == pytest.approx(90, abs=10)
    assert outbox["progressed_at"] is not None
    assert (unknown["kind"], unknown["waiting"], unknown["lag_seconds"]) == ("queue", None, None)
    assert (unknown["last_error"], unknown["last_error_at"] is not None) == ("AccessDenied", True)


async def test_a_reader_that_is_gone_leaves_an_unknown_lag_that_grows(edge: Edge) -> None:
    empty = lag(name="empty", waiting=0, oldest_age=None)
    async with edge.pool.acquire() as connection:
        await lags.save(connection, [lag(), empty])
        await connection.execute("update source_lags set seen_at = now() - interval '1 hour'")

    nothing, waiting = await shown(edge)

    assert [each["state"] for each in (nothing, waiting)] == ["no_reader"] * 2
    assert nothing["lag_seconds"] is None
    assert waiting["lag_seconds"] >= 90


async def test_of_several_readers_the_last_measurement_and_all_progress_count(edge: Edge) -> None:
    async with edge.pool.acquire() as connection:
        await lags.save(connection, [lag(last_error="it was away", last_error_age=5.0)])
        # Another one has just begun: it knows nothing yet.
        new = {"waiting": None, "oldest_age": None, "measured_age": None, "progressed_age": None}
        await lags.save(connection, [lag(**new)])

    [known] = await shown(edge)

    assert (known["waiting"], known["last_error"]) == ({"count": 12, "or_more": False}, "it was away")
    assert known["progressed_at"] is not None
    assert known["lag_seconds"] == pytest.approx(90, abs=10)


async def test_the_lag_of_a_stream_is_that_of_the_key_that_is_read(edge: Edge) -> None:
    for key, seconds in (("old", 0.0), ("new", 60.0)):
        stream, lease = StreamName("orders", key), new_lease_id()
        await stream_offsets.hold(edge.pool, stream, lease, seconds)
        await stream_offsets.move(edge.pool, stream, lease, seconds, before="0-0", to=Offset("17-3", 1_234))
    async with edge.pool.acquire() as connection:
        await lags.save(connection, [lag(kind="stream", name="orders")])

    listed = {each["stream"]: each for each in await shown(edge)}

    assert {key: (each["state"], each["checkpoint"]) for key, each in listed.items()} == {
        "old": ("no_reader", "17-3"),
        "new": ("reading", "17-3"),
    }
    assert (listed["new"]["waiting"], listed["old"]["waiting"]) == ({"count": 12, "or_more": False}, None)


async def test_the_page_shows_what_the_call_does(edge: Edge) -> None:
    hostile = lag(name="mail", failing=True, last_error=HOSTILE, last_error_age=3.0, waiting_or_more=True)
    async with edge.pool.acquire() as connection:
        await lags.save(connection, [hostile])
    visit = await signed_in(edge, Role.VIEWER)

    page = await visit.shown("/dashboard/producers")

    assert ">failing</span>" in page
    assert ">12+</td>" in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
