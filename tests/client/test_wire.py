"""The types that client and server share."""

import msgspec
import pytest

from tocsin import client
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
