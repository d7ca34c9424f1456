"""The types that client and server share."""

import msgspec
import pytest

from tocsin import client
from tocsin.client.encoding import encode_intent
from tocsin.client.errors import RefusedError
from tocsin.client.outbox.row import publish_call
from tocsin.domain.intent import Audience
from tocsin.domain.intent import Intent as TakenIntent
from tocsin.wire.answers import BatchResults
from tocsin.wire.notifications import Explanation, Notification, wire_steps
from tocsin.wire.people import ChangeDevice, Device, PutUser, RegisterDevice, UnregisterDevice

STEP = {
    "rule": "a_new_rule",
    "result": "a_new_result",
    "detail": "d",
    "at": "2026-01-01T00:00:00Z",
    "extra": 1,
}
ROUTE = {
    "route_id": "push:user:1",
    "recipient": "user:1",
    "channel": "telepathy",
    "outcome": "dreamt",
    "steps": [STEP],
}


def test_an_intent_has_the_fields_that_are_taken() -> None:
    taken = {*TakenIntent.__struct_fields__, *Audience.__struct_fields__} - {"audience"}

    assert set(client.Intent.__struct_fields__) == taken


def test_fields_and_values_of_a_newer_server_are_read() -> None:
    answer = {"type": "t", "version": 1, "now": "2026-01-01T00:00:00Z", "routes": [ROUTE], "mood": "good"}

    explained = msgspec.convert(answer, Explanation)

    assert (explained.routes[0].outcome, explained.routes[0].steps[0].rule) == ("dreamt", "a_new_rule")


@pytest.mark.parametrize("response", [Notification, Explanation, Device, BatchResults])
def test_a_response_refuses_no_field(response: type[msgspec.Struct]) -> None:
    assert not response.__struct_config__.forbid_unknown_fields


@pytest.mark.parametrize(
    "request_type", [TakenIntent, PutUser, RegisterDevice, UnregisterDevice, ChangeDevice]
)
def test_a_request_refuses_unknown_fields(request_type: type[msgspec.Struct]) -> None:
    assert request_type.__struct_config__.forbid_unknown_fields


def test_what_the_client_sends_is_left_to_the_server_to_check() -> None:
    assert msgspec.json.encode(PutUser(locale="??")) == b'{"locale":"??"}'


def test_the_steps_of_a_decision_keep_their_fields() -> None:
    from tocsin.domain.decide import Step

    step = msgspec.convert(STEP | {"rule": "digest", "result": "hold"}, Step)

    assert msgspec.json.encode(wire_steps([step])) == msgspec.json.encode([step])


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_lacks_is_refused_before_it_is_sent(number: float) -> None:
    payload = {"total": number, "note": None}

    with pytest.raises(RefusedError) as sent:
        encode_intent(client.Intent("new_order", users=["1"], payload=payload))
    with pytest.raises(RefusedError) as published:
        publish_call("new_order", {"users": ["1"], "payload": payload, "idempotency_key": "1"})

    for caught in (sent, published):
        (fault,) = caught.value.faults
        assert (fault.field, fault.code) == ("payload.total", "not_finite")


def test_one_text_is_no_list_of_users() -> None:
    with pytest.raises(RefusedError, match=r"audience\.users: must be a list, not one text"):
        publish_call("new_order", {"users": "42", "payload": {}, "idempotency_key": "1"})


def test_null_is_sent_as_it_is() -> None:
    encoded = encode_intent(client.Intent("new_order", users=["1"], payload={"note": None, "word": "null"}))

    assert msgspec.json.decode(encoded)["payload"] == {"note": None, "word": "null"}
