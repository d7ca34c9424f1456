import asyncio

import pytest

from tests.gateway.clients import AUTH, ClientEvents, RunningGateway, SseClient, bearer
from tests.waiting import until
from tocsin.gateway.process import Events
from tocsin.gateway.settings import GatewaySettings
from tocsin.ingress.redis_streams.settings import RedisSettings
from tocsin.wire.streams.entry_ids import EntryId


async def test_a_client_that_reconnects_gets_what_it_missed_and_then_what_is_new(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    async with gateway.sse() as client:
        await client.live()
        await events.append("e1")
        await client.ids(1)
    for event_id, user_id in (("e2", "ada"), ("other", "bo"), ("e3", "ada")):
        last = await events.append(event_id, user_id)
    await gateway.reaches(last)
    async with gateway.sse(last_event_id=client.last_event_id) as again:
        assert await again.ids(2) == ["e2", "e3"]
        await again.live()
        assert again.last_event_id == last
        await events.append("e4")
        assert await again.ids(1) == ["e4"]


async def test_nothing_is_lost_or_repeated_while_events_are_appended_and_clients_resume(
    events: ClientEvents,
) -> None:
    wanted = [f"e{number}" for number in range(200)]

    async def append_all() -> None:
        for number, event_id in enumerate(wanted):
            await events.append(event_id)
            if number % 3 == 0:
                await events.append(f"other{number}", "bo")

    async with events.gateway() as one, events.gateway() as two:
        async with one.sse() as first:
            await first.live()
        appending = asyncio.create_task(append_all())
        last_event_id, got = first.last_event_id, list[str]()
        replicas = [one, two]
        while len(got) < len(wanted):
            replicas.reverse()
            async with replicas[0].sse(last_event_id=last_event_id) as client:
                got += await client.ids(min(7, len(wanted) - len(got)))
                last_event_id = client.last_event_id
        await appending
        async with one.sse(last_event_id=last_event_id) as client:
            await client.live()
            await events.append("the end")
            assert await client.ids(1) == ["the end"]

    assert got == wanted


async def test_a_gateway_that_starts_knows_what_the_stream_still_has(events: ClientEvents) -> None:
    ids = await events.append_all([f"e{number}" for number in range(450)])
    async with events.gateway() as gateway:
        async with gateway.sse(last_event_id=ids[9]) as client:
            assert await client.ids(440) == [f"e{number}" for number in range(10, 450)]
        async with gateway.sse() as client:
            await client.live()
            assert client.last_event_id == ids[-1]


@pytest.mark.parametrize("history", [2, 2_048])
async def test_a_client_is_told_if_what_it_missed_is_not_there_any_more(
    events: ClientEvents, history: int
) -> None:
    ids = await events.append_all([f"e{number}" for number in range(6)], trimmed_to=3)
    async with events.gateway(history=history) as gateway:
        kept = 6 - min(history, 3)
        async with gateway.sse(last_event_id=ids[0]) as client:
            assert (await client.next()).event == "reset"
            assert await client.ids(6 - kept) == [f"e{number}" for number in range(kept, 6)]
        async with gateway.sse(last_event_id=ids[4]) as client:
            assert await client.ids(1) == ["e5"]


async def test_an_id_that_the_stream_never_had_is_answered_with_a_reset(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    await gateway.reaches(await events.append("e1"))
    async with gateway.sse(last_event_id=f"{2**64 - 1}-0") as client:
        assert (await client.next()).event == "reset"
        assert await client.ids(1) == ["e1"]
        await events.append("e2")
        assert await client.ids(1) == ["e2"]


async def test_a_replica_that_is_behind_repeats_nothing(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    async with gateway.sse() as client:
        await client.live()
        first = await events.append("e1")
        last = await events.append("e2")
        await client.ids(2)
    # As it was before it read the second one.
    gateway.stream.reader._sessions.position = EntryId.parse(first)
    async with gateway.sse(last_event_id=last) as resumed:
        await resumed.live()
        assert resumed.last_event_id == last
        await events.append("e3")
        assert await resumed.ids(1) == ["e3"]


@pytest.mark.parametrize(
    "last_event_id", ["x", "1", "1-2-3", "-1-0", f"{2**64}-0", "\u0661-\u0660", "1" * 9_000]
)
async def test_what_is_no_event_id_is_refused(gateway: RunningGateway, last_event_id: str) -> None:
    given = {"params": {"last_event_id": last_event_id}, "headers": bearer()}
    status, problem, _ = await gateway.refusal(**given)

    assert (status, problem["code"]) == (422, "invalid_query")
    assert problem["errors"][0]["field"] == "last_event_id"


async def test_the_header_of_a_browser_that_reconnects_counts_more_than_its_address(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    first, second = [await events.append(event_id) for event_id in ("e1", "e2")]
    await events.append("e3")
    address = f"{gateway.url}/v1/events"
    for headers, wanted in (({}, ["e2", "e3"]), ({"Last-Event-ID": second}, ["e3"])):
        given = {"last_event_id": first}
        async with gateway.http.get(address, params=given, headers=bearer() | headers) as response:
            assert await SseClient(response).ids(len(wanted)) == wanted


async def test_sessions_are_told_when_the_stream_dropped_what_was_not_read(
    events: ClientEvents,
) -> None:
    async with events.gateway() as gateway, gateway.sse() as client:
        await client.live()
        entry_id = await events.append("e1")
        assert await client.ids(1) == ["e1"]
        # Between two reads, as a process that stood still would find it.
        await events.append_all(["e2", "e3", "e4"], trimmed_to=1)

        assert (await client.next()).event == "reset"
        assert await client.ids(1) == ["e4"]
        async with gateway.sse(last_event_id=entry_id) as resumed:
            assert (await resumed.next()).event == "reset"
            assert await resumed.ids(1) == ["e4"]


async def test_a_stream_that_begins_anew_is_followed(
    events: ClientEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.gateway.reader.BLOCK_SECONDS", 0.1)
    async with events.gateway() as gateway, gateway.sse() as client:
        await client.live()
        await events.append("e1")
        await client.ids(1)
        await events.redis.delete(events.stream)
        await until(lambda: gateway.stream.reader._gap is not None)
        await events.redis.xadd(
            events.stream,
            {"user_id": "ada", "event_type": "t", "event_id": "new", "payload_bytes": ""},
            id="5-0",
        )

        events_seen = [await client.next() for _ in range(3)]

    assert [frame.event for frame in events_seen] == ["reset", "reset", "message"]
    assert events_seen[-1].body["event_id"] == "new"


async def test_every_gap_is_reported_also_one_right_after_another(events: ClientEvents) -> None:
    reader = Events(GatewaySettings(stream=events.stream), RedisSettings(url=events.url), AUTH).reader
    await events.append("e0")
    await reader._step()
    firsts = []
    for number in range(2):
        ids = await events.append_all([f"lost{number}", f"kept{number}"], trimmed_to=1)
        await reader._step()
        firsts.append((reader._sessions.history.complete_after, EntryId.parse(ids[1])))
    await reader._reader.aclose()

    for complete_after, kept in firsts:
        assert complete_after == kept
