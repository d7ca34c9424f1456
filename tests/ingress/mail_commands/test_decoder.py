from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingress.mail_commands.commands import CONTENT, INVOICE, command
from tests.providers.redis_streams.rig import a_hand_off
from tests.providers.rig import a_message
from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.accept.write import Sourced
from tocsin.engine.retention.erase import names_person
from tocsin.ingress.mail_commands.decoder import read_entry
from tocsin.providers.mail_stream.render import render
from tocsin.wire.streams.intents import LARGEST_ENTRY

FIELDS = command("42")


def entry(content: dict[str, Any] | None = None, **changes: str) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in command("42", content, **changes).items()}


def decoded(raw: dict[bytes, bytes]) -> Sourced:
    return read_entry("5-1", raw, "stream:mailer")


def refused(raw: dict[bytes, bytes]) -> Unreadable:
    intent = decoded(raw).intent
    assert isinstance(intent, Unreadable)
    return intent


def faults(raw: dict[bytes, bytes]) -> list[tuple[str, str]]:
    return [(fault.field.removeprefix("payload_json."), fault.code) for fault in refused(raw).faults]


def test_a_command_is_an_intent_for_one_address() -> None:
    read = decoded(entry(request_id="r", trace_id="t", later_field="ignored"))

    assert (read.producer, read.external_id, read.reference) == (
        "notification",
        "5-1",
        "1700000000000-0/email:user:42",
    )
    intent = read.intent
    assert isinstance(intent, Intent)
    assert (intent.type, intent.audience.emails, intent.payload) == (
        "invoice_due",
        ["Ada@Example.com"],
        INVOICE,
    )
    assert (intent.idempotency_key, intent.locale) == ("notification:1700000000000-0/email:user:42", "tr")
    assert (intent.request_id, intent.trace_id) == ("r", "t")
    assert intent.occurred_at is not None
    assert intent.occurred_at.isoformat() == "2026-01-01T00:00:00.123000+00:00"


def test_what_the_provider_mail_stream_appends_is_a_command() -> None:
    route = f"email:email:{'a' * 63}@{'b' * 180}.example"
    hand_off = a_hand_off("ada", event_id=f"1767225600000-0/{route}", payload=INVOICE, locale="tr-TR")
    message = msgspec.structs.replace(a_message("ada@example.com"), type="invoice_due")
    read = decoded(dict(render(message, hand_off, "notification")))

    assert isinstance(read.intent, Intent), read.intent
    assert (read.producer, read.reference) == ("notification", hand_off.event_id)
    assert (read.intent.audience.emails, read.intent.payload) == (["ada@example.com"], INVOICE)
    assert (read.intent.locale, read.intent.occurred_at) == ("tr-TR", hand_off.accepted_at)


@pytest.mark.parametrize("left_out", ["cc", "bcc", "reply_to", "attachments", "locale"])
def test_what_may_be_left_out_may_also_be_null(left_out: str) -> None:
    assert isinstance(decoded(entry({left_out: None})).intent, Intent)
    without = {name: value for name, value in CONTENT.items() if name != left_out}
    assert isinstance(decoded(entry(payload_json=msgspec.json.encode(without).decode())).intent, Intent)


@pytest.mark.parametrize(
    ("content", "changes", "code", "expected"),
    [
        ({}, {"payload_mode": "raw"}, "unsupported", [("payload_mode", "unsupported")]),
        (
            {},
            {"payload_mode": "raw", "payload_json": '{"subject": "x"}'},
            "unsupported",
            [("payload_mode", "unsupported")],
        ),
        ({"to": ["a@b.c", "d@e.f"]}, {}, "unsupported", [("to", "unsupported")]),
        (
            {"cc": ["a@b.c"], "bcc": [1], "reply_to": "a@b.c", "attachments": [{}]},
            {},
            "unsupported",
            [(name, "unsupported") for name in ("cc", "bcc", "reply_to", "attachments")],
        ),
        ({"cc": ["a@b.c"], "to": []}, {}, "invalid_intent", [("to", "invalid"), ("cc", "unsupported")]),
        ({"to": None}, {}, "invalid_intent", [("to", "missing")]),
        ({"to": ["Ada <ada@example.com>"]}, {}, "invalid_intent", [("to[0]", "invalid")]),
        ({"variables": []}, {}, "invalid_intent", [("variables", "invalid")]),
        (
            {"locale": "??", "template_id": 7, "variables": None},
            {},
            "invalid_intent",
            [("locale", "invalid"), ("template_id", "invalid"), ("variables", "missing")],
        ),
        (
            {},
            {"payload_json": '{"to": ["a@b.c"]}'},
            "invalid_intent",
            [("template_id", "missing"), ("variables", "missing")],
        ),
        (
            {"to": []},
            {"payload_mode": ""},
            "invalid_intent",
            [("payload_mode", "missing"), ("to", "invalid")],
        ),
        ({}, {"payload_json": "[]"}, "invalid_intent", [("payload_json", "invalid")]),
        ({}, {"payload_json": '{"a":' * 40_000}, "invalid_intent", [("payload_json", "malformed_json")]),
        (
            {},
            {"source": "x" * 101, "delivery_id": "", "idempotency_key": "a\nb", "requested_at_ms": "now"},
            "invalid_intent",
            [
                ("delivery_id", "missing"),
                ("source", "invalid"),
                ("idempotency_key", "invalid"),
                ("requested_at_ms", "invalid"),
            ],
        ),
    ],
)
def test_every_fault_of_a_command_is_listed(
    content: dict[str, Any], changes: dict[str, str], code: str, expected: list[tuple[str, str]]
) -> None:
    raw = entry(content, **changes)
    assert (refused(raw).code, faults(raw)) == (code, expected)


def test_nothing_of_an_empty_entry_is_known() -> None:
    assert faults({}) == [(name, "missing") for name in FIELDS]
    assert decoded({}).producer == "stream:mailer"


def test_a_long_key_is_shortened_and_still_its_own() -> None:
    """A route id may hold a whole address, and more than a key may."""
    keys = []
    for last in "ab":
        intent = decoded(entry(idempotency_key=f"notification:1-0/email:email:{'x' * 200}{last}")).intent
        assert isinstance(intent, Intent)
        keys.append(intent.idempotency_key)
    assert len(set(keys)) == 2
    assert [len(key) for key in keys] == [200, 200]
    assert all(key.startswith("notification:1-0/email:email:xxx") for key in keys)


def test_the_person_of_a_refused_command_can_be_found() -> None:
    raw = entry(payload_json='{"to": ["zo\\u00e9@example.com"]}')
    assert names_person(refused(raw).content, "nobody", "zoé@example.com")
    assert refused(raw).idempotency_key == FIELDS["idempotency_key"]


def test_a_refused_command_is_listed_with_its_template() -> None:
    assert refused(entry({"cc": ["a@b.c"]})).type == "invoice_due"
    assert refused(entry({"template_id": 7})).type is None


def test_what_is_no_text_or_too_large_is_refused() -> None:
    assert faults(entry() | {b"source": b"\xff"}) == [("source", "not_text")]
    assert faults(entry({"variables": {"a": "x" * LARGEST_ENTRY}})) == [("$", "too_large")]


names = st.sampled_from([name.encode() for name in FIELDS])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(names | st.binary(max_size=30), st.binary()))
def test_no_entry_raises(raw: dict[bytes, bytes]) -> None:
    read = decoded(raw)
    assert isinstance(read.intent, Intent | Unreadable)
    assert 0 < len(read.producer) <= 100


@given(st.dictionaries(st.sampled_from(sorted(CONTENT)), anything))
def test_no_content_raises(content: dict[str, Any]) -> None:
    read = decoded(entry(content))
    assert isinstance(read.intent, Intent) == (read.reference is not None)
