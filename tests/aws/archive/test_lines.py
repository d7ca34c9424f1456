"""What is on a line, and in which hour it is filed."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.aws.archive.lines import archive_line, filing_time
from tocsin.ingress.sqs.queue import MessageAttribute, Received

NOW = datetime(2026, 11, 18, 1, 30, tzinfo=UTC)
MS = int(NOW.timestamp() * 1_000)


def received(body: str, **changes: Any) -> Received:
    given = {"message_id": "s-1", "receipt": "r", "body": body, "system": {"SentTimestamp": str(MS)}}
    return Received(**{**given, **changes})


def wrapped(message: str, **changes: Any) -> str:
    fields = {"Type": "Notification", "MessageId": "m-1", "TopicArn": "arn:t", "Message": message}
    return json.dumps(fields | changes)


def line_of(body: str, **changes: Any) -> dict[str, Any]:
    partition, encoded = archive_line(received(body, **changes), NOW)
    assert partition.startswith("day=")
    assert encoded.count(b"\n") == 1
    assert encoded.endswith(b"\n")
    line: dict[str, Any] = json.loads(encoded)
    return line


def test_an_object_is_kept_as_it_was_published() -> None:
    text = '{"amount": 1.10,\n "big": 123456789012345678901234567890,\r\n\t"a": "x\\ny"}'

    _, encoded = archive_line(received(wrapped(text)), NOW)

    assert b'"envelope":{"amount": 1.10,  "big": 123456789012345678901234567890,  \t"a": "x\\ny"}' in encoded


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[1]",
        '"text"',
        "7",
        "null",
        '{"a":',
        '{"a":1e999}',
        "{}x",
        '{"a":' + "[" * 5_000,
        "\x00",
    ],
)
def test_anything_but_an_object_is_text(text: str) -> None:
    for body in (wrapped(text), text):
        line = line_of(body)
        assert (line["text"], line["envelope"]) == (text, None)


@given(st.text(), st.dictionaries(st.text(), st.text()))
def test_there_is_a_line_for_whatever_a_message_holds(text: str, attributes: dict[str, str]) -> None:
    own = {name: MessageAttribute(string=value) for name, value in attributes.items()}
    line = line_of(text, message_attributes=own)

    assert line["message_id"] == line["sqs_message_id"] == "s-1"
    kept = line["text"] if line["envelope"] is None else json.dumps(line["envelope"])
    assert kept == text or json.loads(text) == line["envelope"]
    assert line["attributes"] == attributes


@settings(max_examples=40)
@given(st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists)))
def test_every_envelope_comes_back(envelope: dict[str, Any]) -> None:
    for indent in (None, 2):
        line = line_of(wrapped(json.dumps(envelope, indent=indent)))
        assert line["envelope"] == envelope


def test_half_a_surrogate_pair_is_escaped() -> None:
    assert line_of("a\ud800b")["text"] == "a\\ud800b"
    assert line_of(wrapped("x", MessageId="\ud800"))["text"]


def test_the_ids_are_those_of_sns_unless_they_are_absurd() -> None:
    assert line_of(wrapped("{}"))["message_id"] == "m-1"
    assert line_of(wrapped("{}", MessageId="m" * 101))["message_id"] == "s-1"


def test_binary_attributes_are_base64() -> None:
    line = line_of("{}", message_attributes={"a": MessageAttribute(binary="AP8=")})

    assert line["attributes"] == {"a": "AP8="}


HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("published", "sent", "filed"),
    [
        (NOW - 2 * HOUR, NOW - HOUR, NOW - 2 * HOUR),
        (None, NOW - HOUR, NOW - HOUR),
        (None, None, NOW),
        (NOW - 23 * DAY, NOW, NOW - 23 * DAY),
        (NOW - 31 * DAY, NOW - HOUR, NOW - HOUR),
        (NOW + timedelta(minutes=59), NOW, NOW + timedelta(minutes=59)),
        (NOW + 2 * HOUR, NOW, NOW),
        (NOW - 44 * DAY, NOW - 14 * DAY, NOW - 44 * DAY),
        (None, NOW - 31 * DAY, NOW),
        (None, NOW + DAY, NOW),
        (datetime.min.replace(tzinfo=UTC), NOW, NOW),
        (datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), NOW),
        (datetime.fromisoformat("0001-01-01T00:00:00+23:59"), None, NOW),
        (datetime.fromisoformat("9999-12-31T23:59:59-23:59"), None, NOW),
    ],
)
def test_a_message_is_filed_by_its_publish_time_unless_it_is_absurd(
    published: datetime | None, sent: datetime | None, filed: datetime
) -> None:
    assert filing_time(published, sent, NOW) == filed


@pytest.mark.parametrize(
    ("body", "sent", "partition"),
    [
        (wrapped("{}", Timestamp="2026-11-17T23:59:59.999Z"), str(MS), "day=2026-11-17/hour=23"),
        (wrapped("{}", Timestamp="2026-11-18T00:30:00+07:00"), str(MS), "day=2026-11-17/hour=17"),
        (wrapped("{}", Timestamp="0001-01-01T00:00:00Z"), str(MS), "day=2026-11-18/hour=01"),
        ("raw", str(MS - 3_600_000), "day=2026-11-18/hour=00"),
        ("raw", "0", "day=2026-11-18/hour=01"),
        ("raw", "999999999999999", "day=2026-11-18/hour=01"),
        ("raw", "soon", "day=2026-11-18/hour=01"),
    ],
)
def test_hours_are_those_of_utc(body: str, sent: str, partition: str) -> None:
    assert archive_line(received(body, system={"SentTimestamp": sent}), NOW).partition == partition
