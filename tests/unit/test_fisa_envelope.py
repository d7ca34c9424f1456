"""The envelope of fisa: its schema, its limits, and the intent that it means."""

from datetime import UTC, datetime
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.intent import Audience, Intent
from tocsin.wire.fisa.envelope import (
    FisaEnvelope,
    decode_envelope,
    decode_row,
    encode_envelope,
    from_intent,
    to_intent,
)
from tools.docs.source import ROOT

SCHEMA = jsonschema_rs.validator_for(
    msgspec.json.decode((ROOT / "docs/reference/fisa-envelope.schema.json").read_bytes())
)
TYPES = {"comment.added": "comment_added", "ticket.sla_breach_soon": "sla_breach"}
EXAMPLE = """{
  "event_id": "uuid-outbox-id",
  "event_type": "comment.added | work_item.assigned | ticket.sla_breach_soon | ...",
  "org_id": "uuid-org",
  "recipients": ["uuid-user-1", "uuid-user-2"],
  "title": "Tiêu đề ngắn",
  "body": "Nội dung tóm tắt",
  "icon": "comment|bell|warning|...",
  "severity": "info",
  "deep_link": "fisa://work-item/xxxx?tab=comments",
  "extras": { "work_item_id": "...", "ticket_id": "...", "priority": "high" },
  "created_at": "2025-10-26T14:05:00Z",
  "correlation_id": "trace-id"
}"""
SMALL = {"event_id": "e-1", "event_type": "comment.added", "recipients": [], "title": "Hello"}


def changed(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in (SMALL | changes).items() if value is not ...}


@pytest.mark.parametrize(
    "content",
    [
        msgspec.json.decode(EXAMPLE),
        SMALL,
        changed(title=None, body="Only a body"),
        changed(recipients=[7, "u-1"], org_id=12, extras=None),
        changed(title="\ufffe and \uffff, \n and 😀", unheard_of={"of": []}),
        changed(extras={"nested": [{"deep": None}]}, created_at="2025-10-26T14:05:00"),
        changed(recipients=[f"u-{number}" for number in range(1_000)]),
    ],
    ids=["of the document", "small", "body", "numbers", "odd characters", "extras", "many"],
)
def test_what_is_an_envelope_is_one_by_its_schema_and_survives_its_encoding(content: dict[str, Any]) -> None:
    envelope = decode_envelope(msgspec.json.encode(content))
    encoded = encode_envelope(envelope)

    SCHEMA.validate(content)
    SCHEMA.validate(msgspec.json.decode(encoded))
    assert decode_envelope(encoded) == envelope
    assert not {"\ufffe", "\uffff"} & set(encoded.decode())


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (changed(event_id=...), "missing required field `event_id`"),
        (changed(event_type=...), "missing required field `event_type`"),
        (changed(recipients=...), "missing required field `recipients`"),
        (changed(title=...), "must have a `title` or a `body`"),
        (changed(title="", body=""), "must have a `title` or a `body`"),
        (changed(recipients=None), "$.recipients"),
        (changed(recipients=["u-1", ""]), "$.recipients[1]"),
        (changed(recipients=["u\x00"]), "$.recipients[0]"),
        (changed(recipients=["u"] * 1_001), "$.recipients"),
        (changed(event_id="e" * 201), "$.event_id"),
        (changed(event_id="e\n"), "$.event_id"),
        (changed(event_type="a\nb"), "$.event_type"),
        (changed(org_id=""), "$.org_id"),
        (changed(title="\x00"), "$.title"),
        (changed(body="b" * 10_001), "$.body"),
        (changed(severity="grave"), "$.severity"),
        (changed(deep_link="fisa://" + "x" * 2_048), "$.deep_link"),
        (changed(extras=["a"]), "$.extras"),
        (changed(correlation_id="a\r\nb: c"), "$.correlation_id"),
    ],
)
def test_what_is_no_envelope_is_none_by_its_schema_and_says_where(
    content: dict[str, Any], error: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        decode_envelope(msgspec.json.encode(content))

    assert error in str(raised.value)
    assert not SCHEMA.is_valid(content)


def test_a_row_may_leave_the_id_and_the_type_to_its_columns() -> None:
    row = decode_row('{"recipients": ["u"], "title": "Hello", "event_id": null}', 17, "comment.added")

    assert (row.event_id, row.event_type) == ("17", "comment.added")
    assert decode_row('{"recipients": [], "title": "Hello", "event_id": 4}', 17, "a").event_id == "4"
    with pytest.raises(msgspec.ValidationError, match="event_type"):
        decode_row('{"recipients": [], "title": "Hello"}', 17, None)


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
names = st.sampled_from([*FisaEnvelope.__struct_fields__, "extras", "work_item_id", "a.b", ""])
values = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | texts
envelopes = st.builds(
    FisaEnvelope,
    event_id=texts,
    event_type=st.sampled_from([*TYPES, "unmapped"]),
    org_id=st.none() | texts | st.integers(0, 2**63 - 1),
    recipients=st.lists(texts | st.integers(0, 2**63 - 1), min_size=1, max_size=3),
    title=texts,
    body=st.none() | texts,
    icon=st.none() | texts,
    severity=st.sampled_from([None, "info", "success", "warn", "error"]),
    deep_link=st.none() | texts,
    extras=st.none() | st.dictionaries(names, values | st.lists(values, max_size=2), min_size=1, max_size=4),
    created_at=st.none() | st.datetimes(timezones=st.just(UTC)),
    correlation_id=st.none() | texts,
)


@given(envelopes)
def test_an_envelope_is_the_same_after_it_was_an_intent(envelope: FisaEnvelope) -> None:
    intent = to_intent(envelope, TYPES, lambda _, payload: payload)

    assert from_intent(intent, TYPES) == envelope
    assert decode_envelope(encode_envelope(envelope)) == envelope


def test_an_intent_becomes_an_envelope_with_what_the_payload_has() -> None:
    intent = Intent(
        type="sla_breach",
        audience=Audience(users=["u-1"]),
        payload={"title": "Late", "severity": "warn", "ticket": 7, "extras": {"queue": "a"}},
        idempotency_key="k-1",
        occurred_at=datetime(2026, 3, 1, tzinfo=UTC),
        trace_id="trace-1",
    )

    assert from_intent(intent, TYPES) == FisaEnvelope(
        event_id="k-1",
        event_type="ticket.sla_breach_soon",
        recipients=["u-1"],
        title="Late",
        severity="warn",
        extras={"ticket": 7, "queue": "a"},
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
        correlation_id="trace-1",
    )


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"audience": Audience(emails=["a@example.com"])}, "$.audience"),
        ({"ttl_seconds": 60}, "$.ttl_seconds"),
        ({"payload": {}}, "must have a `title` or a `body`"),
        ({"payload": {"title": 7}}, "$.title"),
        ({"payload": {"title": "Hello", "severity": "grave"}}, "$.severity"),
    ],
)
def test_an_intent_that_no_envelope_can_carry_says_why(changes: dict[str, Any], error: str) -> None:
    fields: dict[str, Any] = {
        "type": "a",
        "audience": Audience(users=["u"]),
        "payload": {},
        "idempotency_key": "k",
    }

    with pytest.raises(msgspec.ValidationError) as raised:
        from_intent(Intent(**(fields | changes)), {})

    assert error in str(raised.value)
