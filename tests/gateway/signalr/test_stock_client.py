"""The stock client of SignalR, `@microsoft/signalr`, against a gateway."""

import contextlib
from typing import Any

import pytest

from tests.acceptance.processes import free_port
from tests.gateway.clients import ClientEvents, RunningGateway, counted, token
from tests.gateway.signalr.clients import DIRECT, PATH, SSE, WEBSOCKETS, stock_client
from tests.waiting import until
from tocsin.telemetry import metrics

SSE_NAME, WEBSOCKET_NAME = "ServerSentEventsTransport", "WebSocketTransport"
TRANSPORTS = [
    ({}, WEBSOCKET_NAME, "signalr_websocket"),
    (DIRECT, WEBSOCKET_NAME, "signalr_websocket"),
    (SSE, SSE_NAME, "signalr_sse"),
]


@pytest.mark.parametrize(("options", "name", "label"), TRANSPORTS)
async def test_it_is_notified_of_events_of_its_user_in_order(
    hub: RunningGateway, events: ClientEvents, options: dict[str, Any], name: str, label: str
) -> None:
    sessions, sent = counted(metrics.gateway_sessions, label), counted(metrics.gateway_events_sent, label)
    async with stock_client(hub.url, options=options) as client:
        assert await client.next("connected") == name
        assert counted(metrics.gateway_sessions, label) == sessions + 1
        entry_id = await events.append(
            "e0", content_type="application/json", payload_bytes=b'{"a": "\xc3\xa9"}'
        )
        await events.append("other", "bo")
        wanted = [f"e{number}" for number in range(1, 200)]
        await events.append_all(wanted)

        assert await client.next("notify") == {
            "id": entry_id,
            "event_id": "e0",
            "event_type": "game.turn.ready",
            "payload": {"a": "é"},
        }
        assert await client.notified(len(wanted)) == wanted
        client.command(stop=True)
        assert await client.next("closed") is None
    await until(lambda: counted(metrics.gateway_sessions, label) == sessions)
    assert counted(metrics.gateway_events_sent, label) == sent + 200


async def test_it_falls_back_to_server_sent_events(events: ClientEvents, hub: RunningGateway) -> None:
    async with (
        events.gateway(signalr_path=PATH, websockets=False) as without,
        stock_client(without.url) as client,
        stock_client(hub.url, broken_websockets=True) as blocked,
    ):
        assert await client.next("connected") == SSE_NAME
        assert await blocked.next("connected") == SSE_NAME
        await events.append("e1")
        assert await client.notified(1) == ["e1"]
        assert await blocked.notified(1) == ["e1"]


@pytest.mark.parametrize(("options", "name"), [(WEBSOCKETS, WEBSOCKET_NAME), (SSE, SSE_NAME)])
async def test_it_reconnects_after_a_restart_and_misses_nothing(
    events: ClientEvents, options: dict[str, Any], name: str
) -> None:
    port = free_port()
    given: dict[str, Any] = {"options": options, "retries": [100] * 100, "resume": True}
    url = f"http://127.0.0.1:{port}"
    async with contextlib.AsyncExitStack() as exits:
        async with events.gateway(signalr_path=PATH, port=port):
            client = await exits.enter_async_context(stock_client(url, **given))
            assert await client.next("connected") == name
            await events.append("e1")
            assert await client.notified(1) == ["e1"]
        assert await client.next("reconnecting") == "Server returned an error on close: restart"
        missed = [f"e{number}" for number in range(2, 50)]
        await events.append_all(missed)
        async with events.gateway(signalr_path=PATH, port=port):
            assert await client.next("reconnected") == name
            assert await client.notified(48) == missed
            await events.append("e50")
            assert await client.notified(1) == ["e50"]


async def test_a_client_that_got_no_event_resumes_by_its_position(events: ClientEvents) -> None:
    await events.append("before")
    port = free_port()
    async with contextlib.AsyncExitStack() as exits:
        async with events.gateway(signalr_path=PATH, port=port) as gateway:
            client = await exits.enter_async_context(
                stock_client(gateway.url, retries=[100] * 100, resume=True)
            )
            await client.next("position")
        await client.next("reconnecting")
        await events.append("missed")
        async with events.gateway(signalr_path=PATH, port=port):
            assert await client.notified(1) == ["missed"]


async def test_it_is_told_that_events_may_be_missing(hub: RunningGateway) -> None:
    async with stock_client(hub.url, resume=True, last=f"{2**60}-0") as client:
        await client.next("connected")
        assert await client.next("reset") is True


@pytest.mark.parametrize("options", [WEBSOCKETS, SSE])
async def test_it_reconnects_with_a_fresh_token_when_the_old_one_expires(
    hub: RunningGateway, events: ClientEvents, options: dict[str, Any]
) -> None:
    short = token(seconds=2)
    async with stock_client(hub.url, short, options=options, retries=[0] * 100) as client:
        await client.next("connected")
        client.command(token=token())
        assert await client.next("reconnecting") == "Server returned an error on close: token_expired"
        await client.next("reconnected")
        await events.append("e1")
        assert await client.notified(1) == ["e1"]


@pytest.mark.parametrize("options", [WEBSOCKETS, SSE, DIRECT])
async def test_it_is_refused_without_a_good_token(hub: RunningGateway, options: dict[str, Any]) -> None:
    async with stock_client(hub.url, "nonsense", options=options) as client:
        message = await client.next("failed")

    assert "nonsense" not in message
    if options is not DIRECT:
        assert "401" in message


@pytest.mark.parametrize("options", [WEBSOCKETS, SSE])
async def test_it_gets_an_error_for_a_method_that_does_not_exist(
    hub: RunningGateway, events: ClientEvents, options: dict[str, Any]
) -> None:
    async with stock_client(hub.url, options=options) as client:
        await client.next("connected")
        client.command(invoke="Send")
        assert await client.next("error") == "The hub has no methods."
        await events.append("e1")
        assert await client.notified(1) == ["e1"]


@pytest.mark.parametrize("options", [WEBSOCKETS, SSE])
async def test_its_pings_keep_it_connected(events: ClientEvents, options: dict[str, Any]) -> None:
    async with (
        events.gateway(signalr_path=PATH, signalr_client_seconds=1, ping_seconds=0.2) as gateway,
        stock_client(gateway.url, options=options, ping_ms=200) as pinging,
        stock_client(gateway.url, options=options, ping_ms=60_000) as silent,
    ):
        await pinging.next("connected")
        await silent.next("connected")
        assert await silent.next("closed") == "Server returned an error on close: client_timeout"
        await events.append("e1")
        assert await pinging.notified(1) == ["e1"]
