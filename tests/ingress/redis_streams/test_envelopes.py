from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.intent import Intent
from tocsin.engine.accept.answers import Unreadable
from tocsin.engine.retention.erase import names_person
from tocsin.ingress.redis_streams.envelopes import MOST_FAULTS, read_entry
from tocsin.wire.streams.intents import LARGEST_ENTRY

GOOD = {
    "notification_type": "game.finished",
    "producer": "game_master",
    "audience_kind": "user",
    "recipient_user_ids_json": '["u-1", "u-2"]',
    "idempotency_key": "game-7-finished",
    "occurred_at_ms": "1767225600123",
    "payload_json": '{"game_id": "7"}',
}


def entry(**changes: str | None) -> dict[bytes, bytes]:
    fields: dict[str, str | None] = {**GOOD, **changes}
    return {name.encode(): value.encode() for name, value in fields.items() if value is not None}


def faults(raw: dict[bytes, bytes]) -> list[tuple[str, str]]:
    intent = read_entry("1-1", raw, "stream:galaxy").intent
    assert isinstance(intent, Unreadable)
    return [(fault.field, fault.code) for fault in intent.faults]


def test_an_entry_is_decoded() -> None:
    read = read_entry("5-1", entry(request_id="r", trace_id="t", later_field="ignored"), "stream:galaxy")

    assert isinstance(read.intent, Intent)
    assert (read.producer, read.external_id) == ("game_master", "5-1")
    assert read.intent.audience.users == ["u-1", "u-2"]
    assert read.intent.occurred_at is not None
    assert read.intent.occurred_at.isoformat() == "2026-01-01T00:00:00.123000+00:00"
    assert (read.intent.request_id, read.intent.trace_id) == ("r", "t")


def test_administrators_are_an_audience_without_recipients() -> None:
    read = read_entry("5-1", entry(audience_kind="admin_email", recipient_user_ids_json=None), "")
    assert isinstance(read.intent, Intent)
    assert read.intent.audience.admins is True


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"producer": None, "payload_json": ""}, [("producer", "missing"), ("payload_json", "missing")]),
        ({"audience_kind": "everyone"}, [("audience_kind", "unknown")]),
        ({"recipient_user_ids_json": None}, [("recipient_user_ids_json", "missing")]),
        ({"recipient_user_ids_json": "[]"}, [("recipient_user_ids_json", "empty")]),
        ({"recipient_user_ids_json": '["a","a"]'}, [("recipient_user_ids_json", "repeated")]),
        ({"recipient_user_ids_json": "[1]"}, [("recipient_user_ids_json", "invalid")]),
        ({"recipient_user_ids_json": "a,b"}, [("recipient_user_ids_json", "malformed_json")]),
        ({"audience_kind": "admin_email"}, [("recipient_user_ids_json", "forbidden")]),
        ({"payload_json": "[]"}, [("payload_json", "invalid")]),
        ({"payload_json": "{"}, [("payload_json", "malformed_json")]),
        ({"payload_json": '{"a":' * 40_000}, [("payload_json", "malformed_json")]),
        ({"occurred_at_ms": "yesterday"}, [("occurred_at_ms", "invalid")]),
        ({"occurred_at_ms": "-1"}, [("occurred_at_ms", "invalid")]),
        ({"occurred_at_ms": "9" * 5_000}, [("occurred_at_ms", "invalid")]),
        ({"occurred_at_ms": "٣"}, [("occurred_at_ms", "invalid")]),
        ({"notification_type": "x" * 101}, [("notification_type", "invalid")]),
        ({"producer": "x" * 101}, [("producer", "too_long")]),
        (
            {"occurred_at_ms": "x", "audience_kind": "y"},
            [("audience_kind", "unknown"), ("occurred_at_ms", "invalid")],
        ),
    ],
)
def test_every_fault_of_an_entry_is_listed(
    changes: dict[str, str | None], expected: list[tuple[str, str]]
) -> None:
    assert faults(entry(**changes)) == expected


def test_what_is_no_text_is_shown_with_replacements() -> None:
    raw = entry() | {b"payload_json": b'{"a": "\xff"}'}
    assert faults(raw) == [("payload_json", "not_text")]
    content = msgspec.json.decode(read_entry("1-1", raw, "").content)
    assert content["fields"]["payload_json"] == '{"a": "\ufffd"}'


def test_a_huge_entry_is_refused_in_a_small_record() -> None:
    raw = entry(payload_json='{"a": "' + "x" * LARGEST_ENTRY + '"}')
    assert faults(raw) == [("$", "too_large")]
    assert len(read_entry("1-1", raw, "").content) < 50_000


def test_an_entry_has_a_bounded_number_of_faults() -> None:
    raw = {b"\xff%d" % number: b"" for number in range(5_000)}
    assert len(faults(raw)) == MOST_FAULTS


def test_the_people_of_a_refused_entry_can_be_found() -> None:
    """Whatever way a producer writes them."""
    escaped = entry(recipient_user_ids_json='["zo\\u00e9", "7"]', payload_json="[]")
    content = read_entry("1718-7", escaped, "").content

    assert names_person(content, "zoé", None)
    assert names_person(content, "7", None)
    assert not names_person(content, "1718", None)


def test_a_producer_is_shown_without_control_characters() -> None:
    assert read_entry("1-1", entry(producer="a\x1b[2Jb"), "").producer == "a\ufffd[2Jb"


@given(st.dictionaries(st.binary(max_size=30) | st.sampled_from([key.encode() for key in GOOD]), st.binary()))
def test_no_entry_raises(raw: dict[bytes, Any]) -> None:
    read = read_entry("1-1", raw, "stream:galaxy")
    assert isinstance(read.intent, Intent | Unreadable)
    assert 0 < len(read.producer) <= 100
