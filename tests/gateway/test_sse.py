import base64

import pytest

from tests.gateway.clients import ClientEvents, RunningGateway, SseClient, bearer, counted, token
from tests.waiting import until
from tocsin.telemetry import metrics


async def test_an_event_reaches_every_session_of_its_user_and_no_other(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    payload = bytes(range(256))
    async with gateway.sse("ada") as phone, gateway.sse("ada") as laptop, gateway.sse("bo") as other:
        for client in (phone, laptop, other):
            await client.live()
        entry_id = await events.append(
            "e1", "ada", payload_bytes=payload, request_id="r1", trace_id="t1", unknown="x"
        )
        await events.append("e2", "bo")

        got = [await phone.next(), await laptop.next()]
        assert await other.ids(1) == ["e2"]

    assert got[0] == got[1]
    assert got[0].id == entry_id
    assert got[0].event == "message"
    assert got[0].body == {
        "id": entry_id,
        "event_id": "e1",
        "event_type": "game.turn.ready",
        "payload": base64.b64encode(payload).decode(),
        "request_id": "r1",
        "trace_id": "t1",
    }


async def test_the_answer_is_a_stream_that_no_proxy_keeps_back(gateway: RunningGateway) -> None:
    async with gateway.sse() as client:
        first = await client.frame()
        headers = client.response.headers

    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert first.retry is not None
    assert 2_000 <= first.retry <= 4_000


async def test_an_event_for_a_device_session_reaches_that_one_alone(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    async with gateway.sse(sid="d1") as meant, gateway.sse(sid="d2") as other, gateway.sse() as without:
        for client in (meant, other, without):
            await client.live()
        await events.append("for d1", device_session_id="d1")
        await events.append("for all")

        assert await meant.ids(2) == ["for d1", "for all"]
        assert await other.ids(1) == ["for all"]
        assert await without.ids(1) == ["for all"]
    async with gateway.sse(sid="d2", last_event_id="0-0") as resumed:
        assert await resumed.ids(1) == ["for all"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"headers": {"Authorization": "Bearer nonsense"}},
        {"headers": {"Authorization": "Basic YTpi"}},
        {"headers": bearer(seconds=-5)},
        {"params": {"access_token": token() + "x"}},
        {"params": {"access_token": "x" * 9_000}},
    ],
)
async def test_nobody_connects_without_a_good_token(gateway: RunningGateway, given: dict[str, str]) -> None:
    status, problem, headers = await gateway.refusal(**given)

    assert (status, problem["code"]) == (401, "unauthenticated")
    assert headers["www-authenticate"].startswith('Bearer realm="tocsin"')
    assert "nonsense" not in problem["detail"]


async def test_a_browser_sends_its_token_in_the_query(gateway: RunningGateway, events: ClientEvents) -> None:
    async with gateway.http.get(f"{gateway.url}/v1/events", params={"access_token": token()}) as response:
        client = await SseClient(response).live()
        await events.append("e1")
        assert await client.ids(1) == ["e1"]


async def test_a_session_ends_when_its_token_expires(gateway: RunningGateway) -> None:
    async with gateway.sse(seconds=1) as client:
        [end] = await client.rest()

    assert end.event == "end"
    assert end.body["reason"] == "token_expired"
    assert end.retry == end.body["retry_ms"]


async def test_malformed_entries_are_counted_and_skipped(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    results = ("field_missing", "not_text", "too_large")
    before = [counted(metrics.gateway_entries, result) for result in results]
    async with gateway.sse() as client:
        await client.live()
        for name in ("user_id", "event_type", "event_id", "payload_bytes"):
            await events.append("bad", **{name: None})
        await events.append("bad", event_type=b"\xff")
        await events.append("bad", trace_id=b"\xff")
        await events.append("bad", payload_bytes=b"x" * 262_145)
        await events.append("good", payload_bytes=b"")

        assert await client.ids(1) == ["good"]
    after = [counted(metrics.gateway_entries, result) for result in results]
    assert [new - old for new, old in zip(after, before, strict=True)] == [4, 2, 1]


async def test_a_client_that_goes_leaves_no_session_behind(gateway: RunningGateway) -> None:
    before = counted(metrics.gateway_sessions, "sse")
    async with gateway.sse() as client:
        await client.live()
        assert counted(metrics.gateway_sessions, "sse") == before + 1
    await until(lambda: counted(metrics.gateway_sessions, "sse") == before)
