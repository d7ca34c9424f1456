import asyncio
import contextlib

import pytest
from structlog.testing import capture_logs

from tests.gateway.clients import UPGRADE, ClientEvents, RunningGateway, bearer, counted, token
from tests.waiting import until
from tocsin.telemetry import metrics

LARGE = b"x" * 200_000


async def test_a_person_has_as_many_sessions_as_they_may_and_gets_another_when_one_ends(
    events: ClientEvents,
) -> None:
    async with events.gateway(max_sessions_per_user=2) as gateway:
        async with gateway.sse() as first, gateway.websocket() as second:
            await first.live()
            await second.live()
            status, problem, headers = await gateway.refusal(headers=bearer())
            assert (status, problem["code"]) == (503, "too_many_sessions")
            assert 2 <= int(headers["retry-after"]) <= 4
            async with gateway.websocket() as third:
                last, code = await third.end()
            assert (last["reason"], code) == ("too_many_sessions", 1013)
            async with gateway.sse("bo") as other:
                await other.live()
        ended = gateway.stream.sessions
        await until(lambda: not ended._by_user)
        async with gateway.sse() as again:
            await again.live()


async def test_a_process_has_as_many_sessions_as_it_may(events: ClientEvents) -> None:
    async with events.gateway(max_sessions=1) as gateway, gateway.sse() as only:
        await only.live()
        status, problem, _ = await gateway.refusal(headers=bearer("bo"))

    assert (status, problem["code"]) == (503, "too_many_sessions")


@pytest.mark.parametrize(
    ("transport", "bound"), [("sse", {"queue_events": 5}), ("websocket", {"queue_bytes": 1_000_000})]
)
async def test_a_client_that_does_not_read_is_closed_and_resumes(
    events: ClientEvents, transport: str, bound: dict[str, int]
) -> None:
    slow = counted(metrics.gateway_sessions_ended, transport, "slow")
    async with events.gateway(**bound) as gateway, gateway.sse() as quick:
        await quick.live()
        reader, writer = await _connected(gateway, transport)
        wanted = [f"e{number}" for number in range(60)]
        for event_id in wanted:
            await events.append(event_id, payload_bytes=LARGE)
            assert await quick.ids(1) == [event_id]
        await until(lambda: counted(metrics.gateway_sessions_ended, transport, "slow") == slow + 1)
        got = await asyncio.wait_for(reader.read(-1), 20)
        writer.close()
        seen = got.count(b'"event_id"')
        assert 0 < seen < len(wanted)
        if transport == "sse":
            last = got.rpartition(b"\nid: ")[2].partition(b"\n")[0].decode()
            async with gateway.sse(last_event_id=last) as client:
                assert await client.ids(1) == [wanted[seen]]


async def test_what_was_missed_is_not_counted_in_the_bound(events: ClientEvents) -> None:
    wanted = [f"e{number}" for number in range(300)]
    await events.append_all(wanted)
    async with events.gateway(queue_events=1) as gateway, gateway.sse(last_event_id="0-0") as client:
        assert (await client.next()).event == "reset"
        assert await client.ids(300) == wanted


async def test_pings_come_in_time_and_carry_the_position(events: ClientEvents) -> None:
    async with events.gateway(ping_seconds=0.05) as gateway, gateway.sse() as client:
        await client.live()
        last = await events.append("other", "bo")
        await gateway.reaches(last)
        await client.live()
        await client.live()
        assert client.last_event_id == last


async def test_a_stop_ends_every_session_with_a_moment_of_its_own_to_return(events: ClientEvents) -> None:
    async with contextlib.AsyncExitStack() as exits:
        gateway = await exits.enter_async_context(events.gateway(max_sessions_per_user=100))
        streams = [await exits.enter_async_context(gateway.sse()) for _ in range(20)]
        sockets = [await exits.enter_async_context(gateway.websocket()) for _ in range(20)]
        for stream in streams:
            await stream.live()
        for socket in sockets:
            await socket.live()
        gateway.stop.set()
        ends = [(await client.rest())[-1] for client in streams]
        closed = [await socket.end() for socket in sockets]
        assert await gateway.gateway.fault() == "The gateway is stopping."

    assert {end.body["reason"] for end in ends} == {"restart"}
    assert {(last["reason"], code) for last, code in closed} == {("restart", 1012)}
    waits = [end.retry for end in ends] + [last["retry_ms"] for last, _ in closed]
    assert all(wait is not None and 2_000 <= wait <= 15_000 for wait in waits)
    assert len(set(waits)) > 30


async def test_events_that_wait_are_sent_before_a_session_is_stopped(events: ClientEvents) -> None:
    async with events.gateway() as gateway, gateway.sse() as client:
        await client.live()
        wanted = [f"e{number}" for number in range(300)]
        last = (await events.append_all(wanted))[-1]
        await gateway.reaches(last)
        gateway.stop.set()
        frames = await client.rest()

    assert [frame.body["event_id"] for frame in frames[:-1]] == wanted
    assert frames[-1].event == "end"


async def test_a_stop_does_not_wait_for_a_client_that_does_not_read(events: ClientEvents) -> None:
    async with events.gateway(drain_seconds=1) as gateway:
        _, writer = await _connected(gateway, "sse")
        for number in range(60):
            await events.append(f"e{number}", payload_bytes=LARGE)
        began = asyncio.get_running_loop().time()
        gateway.stop.set()
        await until(lambda: gateway.stream.sessions.is_stopping)
        status, problem, headers = await gateway.refusal(headers=bearer("bo"))
        assert (status, problem["code"]) == (503, "unavailable")
        assert int(headers["retry-after"]) > 0
        async with gateway.sse("bo", accept="text/event-stream") as browser:
            (end,) = await browser.rest()
        assert (end.event, end.body["reason"]) == ("end", "unavailable")
        assert end.retry == end.body["retry_ms"] > 0
    assert asyncio.get_running_loop().time() - began < 5
    writer.close()


async def test_clients_that_vanish_in_the_middle_of_an_event_are_not_errors(events: ClientEvents) -> None:
    with capture_logs() as lines:
        async with events.gateway() as gateway:
            gone = [await _connected(gateway, name) for name in ("sse", "websocket") for _ in range(5)]
            for number in range(20):
                await events.append(f"e{number}", payload_bytes=LARGE)
                if number == 10:
                    for _, writer in gone:
                        writer.transport.abort()
            await until(lambda: not gateway.stream.sessions._by_user)

    assert [line for line in lines if line["log_level"] in {"error", "critical"}] == []


async def _connected(
    gateway: RunningGateway, transport: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection that reads no more than its small buffer holds."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1_024)
    path, more = "/v1/events", "Connection: close\r\n"
    if transport == "websocket":
        path, more = "/v1/events/ws", UPGRADE
    request = f"GET {path}?access_token={token()} HTTP/1.1\r\nHost: gateway\r\n{more}\r\n"
    writer.write(request.encode())
    await reader.readuntil(b"ping")
    return reader, writer
