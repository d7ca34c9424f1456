"""Events whose payload is JSON, as the encoder of entries writes them and clients get them."""

from typing import Any

import msgspec
import pytest

from tests.contracts import accepts
from tests.gateway.clients import ClientEvents, RunningGateway, counted
from tocsin.telemetry import metrics
from tocsin.wire.streams.client_events import encode_client_event
from tools.docs.asyncapi.streams import client_events_document

ENVELOPE = {"event_id": "e1", "title": "Bình luận mới", "extras": {"n": [1, 2.5, None]}, "recipients": [7]}
PRETTY = msgspec.json.format(msgspec.json.encode(ENVELOPE), indent=2).replace(b"\n", b"\r\n")


async def test_a_json_payload_is_an_object_for_every_client(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    async with gateway.sse() as sse, gateway.websocket() as websocket:
        await sse.live()
        await websocket.live()
        entry: Any = encode_client_event(
            user_id="ada", event_type="comment.created", event_id="e1", payload=PRETTY, trace_id="t1"
        )
        await events.redis.xadd(events.stream, entry)
        # Written by somebody else: not in one line, and with a parameter.
        await events.append("e2", payload_bytes=PRETTY, content_type="Application/JSON; charset=utf-8")
        await events.append("e3", content_type="image/png")

        from_sse = [(await sse.next()).body for _ in range(3)]
        from_websocket = [await websocket.message() for _ in range(3)]

    assert from_sse == from_websocket
    assert [event["payload"] for event in from_sse] == [ENVELOPE, ENVELOPE, "AP8="]
    assert from_sse[0] == {
        "id": from_sse[0]["id"],
        "event_id": "e1",
        "event_type": "comment.created",
        "payload": ENVELOPE,
        "trace_id": "t1",
    }


async def test_an_entry_that_claims_json_and_has_none_is_skipped(
    gateway: RunningGateway, events: ClientEvents
) -> None:
    before = counted(metrics.gateway_entries, "not_json")
    bad = [
        b"",
        b"[]",
        b"7",
        b"{",
        b'{"a":"\xff"}',
        b'{"a":"\x1e"}',
        b"{}{}",
        b'{"a":' * 9_999 + b"1" + b"}" * 9_999,
    ]
    async with gateway.sse() as client:
        await client.live()
        for payload in bad:
            await events.append("bad", payload_bytes=payload, content_type="application/json")
        await events.append("good", payload_bytes=b"{}", content_type="application/json")

        assert await client.ids(1) == ["good"]
    assert counted(metrics.gateway_entries, "not_json") - before == len(bad)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"user_id": ""}, "user_id"),
        ({"user_id": "x" * 129}, "user_id"),
        ({"event_type": "t" * 101}, "event_type"),
        ({"event_id": ""}, "event_id"),
        ({"trace_id": "line\nbreak"}, "trace_id"),
        ({"payload": b"[1]"}, "payload_bytes"),
        ({"payload": b'{"a":"' + b"x" * 262_144 + b'"}'}, "at most 262,144"),
    ],
)
def test_an_entry_that_no_gateway_would_send_is_not_encoded(changes: dict[str, str], fault: str) -> None:
    given = {"user_id": "ada", "event_type": "a.b", "event_id": "e1", "payload": b"{}"}

    with pytest.raises(msgspec.ValidationError, match=fault):
        encode_client_event(**{**given, **changes})  # type: ignore[arg-type]  # a table of bad values


def test_the_asyncapi_document_describes_the_entry() -> None:
    document = msgspec.yaml.decode(client_events_document())
    entry = encode_client_event(user_id="ada", event_type="a.b", event_id="e1", payload=PRETTY)
    texts = {name.decode(): value.decode() for name, value in entry.items()}
    schema = document["components"]["schemas"]["ClientEventEntry"]

    assert accepts(document, schema, texts)
    assert schema["then"]["properties"]["payload_bytes"]["contentMediaType"] == texts["content_type"]
    assert not accepts(document, schema, texts | {"user_id": ""})
