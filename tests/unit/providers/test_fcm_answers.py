from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.domain.delivery.hints import HINTS
from tocsin.domain.delivery.outcome import Defer, Gone, Rejected, Retry
from tocsin.domain.delivery.retry_after import LONGEST, read_retry_after
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.fcm.answers import QUOTA_REST, RULES, classify

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TOKEN_TEXT = "The registration token is not a valid FCM registration token"
FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"


def fcm_error(code: str) -> dict[str, Any]:
    return {"@type": FCM_ERROR, "errorCode": code}


def bad_request(*fields: str) -> dict[str, Any]:
    return {"fieldViolations": [{"field": field, "description": "wrong"} for field in fields]}


def quota_failure(subject: str) -> dict[str, Any]:
    return {"violations": [{"subject": subject, "description": "too many"}]}


def body(status: str, *details: dict[str, Any], message: str = "said so") -> bytes:
    return msgspec.json.encode(
        {"error": {"code": 0, "message": message, "status": status, "details": details}}
    )


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (
            400,
            body("INVALID_ARGUMENT", fcm_error("INVALID_ARGUMENT"), bad_request("message.data")),
            Rejected("INVALID_ARGUMENT", "said so"),
        ),
        (
            400,
            body("INVALID_ARGUMENT", bad_request("message.android.ttl")),
            Rejected("INVALID_ARGUMENT", "said so"),
        ),
        (
            400,
            body("INVALID_ARGUMENT", fcm_error("INVALID_ARGUMENT"), bad_request("message.token")),
            Gone("INVALID_ARGUMENT", "said so"),
        ),
        (
            400,
            body("INVALID_ARGUMENT", fcm_error("INVALID_ARGUMENT"), bad_request("message.fid")),
            Gone("INVALID_ARGUMENT", "said so"),
        ),
        (
            400,
            body("INVALID_ARGUMENT", fcm_error("INVALID_ARGUMENT"), message=TOKEN_TEXT),
            Gone("INVALID_ARGUMENT", TOKEN_TEXT),
        ),
        (
            401,
            body("UNAUTHENTICATED"),
            Defer("UNAUTHENTICATED", ALARM_REST, "said so", pauses=True, alarm=True),
        ),
        (
            401,
            body("UNAUTHENTICATED", fcm_error("THIRD_PARTY_AUTH_ERROR")),
            Defer("THIRD_PARTY_AUTH_ERROR", ALARM_REST, "said so", pauses=False, alarm=True),
        ),
        (
            403,
            body("PERMISSION_DENIED", fcm_error("SENDER_ID_MISMATCH")),
            Rejected("SENDER_ID_MISMATCH", "said so", quarantine=True),
        ),
        (
            403,
            body("PERMISSION_DENIED"),
            Defer("PERMISSION_DENIED", ALARM_REST, "said so", pauses=True, alarm=True),
        ),
        (404, body("NOT_FOUND", fcm_error("UNREGISTERED")), Gone("UNREGISTERED", "said so")),
        (
            429,
            body("RESOURCE_EXHAUSTED", fcm_error("QUOTA_EXCEEDED"), quota_failure("project")),
            Defer("QUOTA_EXCEEDED", QUOTA_REST, "said so", pauses=True),
        ),
        (
            429,
            body("RESOURCE_EXHAUSTED", fcm_error("QUOTA_EXCEEDED"), quota_failure("device")),
            Defer("QUOTA_EXCEEDED", QUOTA_REST, "said so", pauses=False),
        ),
        (
            429,
            body("RESOURCE_EXHAUSTED"),
            Defer("RESOURCE_EXHAUSTED", QUOTA_REST, "said so", pauses=True),
        ),
        (500, body("INTERNAL", fcm_error("INTERNAL")), Retry("INTERNAL", "said so")),
        (503, body("UNAVAILABLE", fcm_error("UNAVAILABLE")), Retry("UNAVAILABLE", "said so")),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_each_answer_means_what_the_table_says(
    status: int, answer: bytes, expected: Retry | Defer | Rejected | Gone
) -> None:
    assert classify(status, answer, None) == expected


@pytest.mark.parametrize(
    "answer",
    [
        body("INVALID_ARGUMENT", fcm_error("INVALID_ARGUMENT"), bad_request("message.token", "message.data")),
        body("INVALID_ARGUMENT", message=f"template said: {TOKEN_TEXT}"),
        body("INVALID_ARGUMENT", fcm_error("INVALID_ARGUMENT"), message="Message is too large."),
        b"",
        b"<html>",
    ],
)
def test_a_device_survives_every_400_that_is_not_about_its_token_alone(answer: bytes) -> None:
    assert isinstance(classify(400, answer, None), Rejected)


@pytest.mark.parametrize("status", [301, 302, 401, 403, 404])
@pytest.mark.parametrize("answer", [b"", b"<html>login</html>", b"[]", body("SOMETHING_NEW"), body("")])
def test_a_proxy_or_wrong_address_costs_no_delivery(status: int, answer: bytes) -> None:
    outcome = classify(status, answer, None)

    assert isinstance(outcome, Defer)
    assert outcome.alarm
    assert outcome.pauses


@pytest.mark.parametrize("status", [408, 425, 500, 502, 503, 504, 599])
def test_a_passing_fault_is_tried_again(status: int) -> None:
    assert classify(status, b"", timedelta(seconds=7)) == Retry(
        f"HTTP_{status}", "the answer was not the JSON that FCM gives", timedelta(seconds=7)
    )


@pytest.mark.parametrize("subject", ["project", "device"])
@pytest.mark.parametrize(("asked", "given"), [(None, 60), (0, 60), (30, 60), (300, 300)])
def test_a_quota_rests_a_minute_at_least(subject: str, asked: int | None, given: int) -> None:
    answer = body("RESOURCE_EXHAUSTED", fcm_error("QUOTA_EXCEEDED"), quota_failure(subject))
    outcome = classify(429, answer, None if asked is None else timedelta(seconds=asked))

    assert isinstance(outcome, Defer)
    assert outcome.after == timedelta(seconds=given)


def test_every_code_of_the_table_has_a_hint() -> None:
    assert {rule.code for rule in RULES} <= set(HINTS)


def test_no_two_rows_of_the_table_say_the_same() -> None:
    keys = [(rule.status, rule.code, rule.about) for rule in RULES]

    assert len(set(keys)) == len(keys)


foreign = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
details = st.lists(
    st.dictionaries(
        st.sampled_from(["@type", "errorCode", "fieldViolations", "violations", "field"]), foreign, max_size=3
    ),
    max_size=3,
)
errors = st.fixed_dictionaries(
    {"error": st.fixed_dictionaries({"status": foreign, "message": foreign, "details": details | foreign})}
)
bodies = st.binary(max_size=60) | foreign.map(msgspec.json.encode) | errors.map(msgspec.json.encode)
statuses = st.integers(100, 599).filter(lambda status: status != 200)


@given(statuses, bodies, st.none() | st.timedeltas(timedelta(), LONGEST))
@example(400, b'{"error": {"details": [{"errorCode": "INVALID_ARGUMENT", "fieldViolations": null}]}}', None)
@example(429, b'{"error": {"details": [{"errorCode": "QUOTA_EXCEEDED", "violations": 7}]}}', None)
@example(503, b'{"error": {"message": "\xff"}}', None)
@example(503, b'{"error": {"details": [' + b'{"a":' * 2_000 + b"1" + b"}" * 2_000 + b"]}}", None)
def test_no_answer_is_an_exception(status: int, answer: bytes, after: timedelta | None) -> None:
    outcome = classify(status, answer, after)

    assert outcome.code


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("²", None),
        ("0", timedelta()),
        ("30", timedelta(seconds=30)),
        (" 30 ", timedelta(seconds=30)),
        ("9" * 400, LONGEST),
        (format_datetime(NOW + timedelta(minutes=2), usegmt=True), timedelta(minutes=2)),
        (format_datetime(NOW - timedelta(minutes=2), usegmt=True), timedelta()),
        (format_datetime(NOW + timedelta(days=400), usegmt=True), LONGEST),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(header: str | None, expected: timedelta | None) -> None:
    assert read_retry_after(header, NOW) == expected


@example("0 JAN 0 0:3000000000")
@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d+ (Jan|Feb|Dec) \d+ \d+:\d+:\d+ ([A-Z]{3}|[+-]\d+)"))
def test_no_retry_after_is_an_exception(header: str) -> None:
    asked = read_retry_after(header, NOW)

    assert asked is None or timedelta() <= asked <= LONGEST
