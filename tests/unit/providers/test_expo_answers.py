from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.domain.delivery.outcome import Defer, Gone, Rejected, Retry
from tocsin.domain.delivery.retry_after import LONGEST
from tocsin.providers.answers import ALARM_REST
from tocsin.providers.expo.answers import (
    RATE_REST,
    REQUEST_RULES,
    RULES,
    MessageStatus,
    Split,
    classify_message,
    classify_request,
)
from tocsin.providers.expo.provider import parts

TOKEN = "ExponentPushToken[s3cret]"


def about_message(code: str, message: str = "said so") -> MessageStatus:
    return MessageStatus(status="error", message=message, details={"error": code})


def body(code: str, message: str = "said so", **besides: Any) -> bytes:
    return msgspec.json.encode({"errors": [{"code": code, "message": message, **besides}]})


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("DeviceNotRegistered", Gone("DeviceNotRegistered", "said so")),
        ("MessageTooBig", Rejected("MessageTooBig", "said so")),
        ("DeveloperError", Rejected("DeveloperError", "said so")),
        ("MessageRateExceeded", Retry("MessageRateExceeded", "said so", speaks_against="target")),
        ("MismatchSenderId", Defer("MismatchSenderId", ALARM_REST, "said so", pauses=False, alarm=True)),
        ("InvalidCredentials", Defer("InvalidCredentials", ALARM_REST, "said so", pauses=False, alarm=True)),
        ("ExpoError", Retry("ExpoError", "said so")),
        ("ProviderError", Retry("ProviderError", "said so")),
        ("SomethingNew", Retry("SomethingNew", "said so", speaks_against="target")),
    ],
)
def test_each_word_about_a_message_means_what_the_table_says(
    code: str, expected: Retry | Defer | Rejected | Gone
) -> None:
    assert classify_message(about_message(code), ()) == expected


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (400, body("PUSH_TOO_MANY_NOTIFICATIONS"), Split("PUSH_TOO_MANY_NOTIFICATIONS", "said so")),
        (400, body("PUSH_TOO_MANY_RECEIPTS"), Split("PUSH_TOO_MANY_RECEIPTS", "said so")),
        (
            400,
            body("PUSH_TOO_MANY_EXPERIENCE_IDS", details={"@a/a": ["x", 5], "@b/b": ["y"], "@c/c": 7}),
            Split(
                "PUSH_TOO_MANY_EXPERIENCE_IDS",
                "said so",
                {"@a/a": frozenset({"x"}), "@b/b": frozenset({"y"})},
            ),
        ),
        (400, body("VALIDATION_ERROR"), Split("VALIDATION_ERROR", "said so")),
        (400, body("SOMETHING_NEW"), Split("SOMETHING_NEW", "said so")),
        (413, b"", Split("HTTP_413", "the answer was not the JSON that Expo gives")),
        (401, body("UNAUTHORIZED"), Defer("UNAUTHORIZED", ALARM_REST, "said so", alarm=True)),
        (429, body("TOO_MANY_REQUESTS"), Defer("TOO_MANY_REQUESTS", RATE_REST, "said so")),
        (200, body("TOO_MANY_REQUESTS"), Defer("TOO_MANY_REQUESTS", RATE_REST, "said so")),
        (500, body("INTERNAL_SERVER_ERROR"), Retry("INTERNAL_SERVER_ERROR", "said so")),
        (503, body("SERVICE_UNAVAILABLE"), Retry("SERVICE_UNAVAILABLE", "said so")),
        (410, body("SOMETHING_NEW"), Rejected("SOMETHING_NEW", "said so")),
        (
            200,
            b"{}",
            Retry("unreadable_answer", "Expo answered 200 with something else than its JSON", uncertain=True),
        ),
    ],
)
def test_each_refusal_of_a_request_means_what_the_table_says(
    status: int, answer: bytes, expected: Split | Retry | Defer | Rejected
) -> None:
    assert classify_request(status, answer, None, ()) == expected


@pytest.mark.parametrize("status", [301, 302, 401, 403, 404])
@pytest.mark.parametrize("answer", [b"", b"<html>login</html>", b"[]", b'{"errors": []}', body("NEW")])
def test_a_proxy_or_wrong_address_costs_no_delivery(status: int, answer: bytes) -> None:
    outcome = classify_request(status, answer, timedelta(seconds=1), ())

    assert isinstance(outcome, Defer)
    assert (outcome.alarm, outcome.pauses, outcome.after) == (True, True, ALARM_REST)


@pytest.mark.parametrize("status", [408, 425, 500, 502, 503, 504, 599])
def test_a_passing_fault_is_tried_again(status: int) -> None:
    outcome = classify_request(status, b"", timedelta(seconds=7), ())

    assert outcome == Retry(
        f"HTTP_{status}", "the answer was not the JSON that Expo gives", timedelta(seconds=7)
    )


@pytest.mark.parametrize(
    ("asked", "rest"),
    [(None, RATE_REST), (0, RATE_REST), (1, timedelta(seconds=1)), (90, timedelta(seconds=90))],
)
def test_a_rate_rests_as_long_as_expo_asks(asked: int | None, rest: timedelta) -> None:
    outcome = classify_request(429, b"", None if asked is None else timedelta(seconds=asked), ())

    assert isinstance(outcome, Defer)
    assert outcome.after == rest


def test_no_two_rows_of_the_table_say_the_same() -> None:
    keys = [rule.code for rule in RULES]

    assert len(set(keys)) == len(keys)


def test_the_reference_page_says_what_the_table_says() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "expo.md").read_text("utf-8")
    rows = [f"| {rule.status} | " if rule in REQUEST_RULES else "| " for rule in RULES]

    missing = [
        rule.code
        for rule, row in zip(RULES, rows, strict=True)
        if f"\n{row}`{rule.code}` | `{rule.outcome}` | " not in page
    ]
    assert missing == []


foreign = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
codes = st.sampled_from([rule.code for rule in RULES]) | foreign
errors = st.fixed_dictionaries({"code": codes, "message": foreign, "details": foreign})
refusals = st.fixed_dictionaries({"errors": st.lists(errors, max_size=2) | foreign})
bodies = st.binary(max_size=60) | foreign.map(msgspec.json.encode) | refusals.map(msgspec.json.encode)


@given(st.integers(100, 599), bodies, st.none() | st.timedeltas(timedelta(), LONGEST))
@example(400, b'{"errors": [{"code": "VALIDATION_ERROR", "details": {"a": null}}]}', None)
@example(503, b'{"errors": [{"message": "\xff"}]}', None)
@example(503, b'{"errors": ' + b'[{"details": ' * 2_000, None)
def test_no_refusal_is_an_exception(status: int, answer: bytes, after: timedelta | None) -> None:
    assert classify_request(status, answer, after, ("secret",)).code


@given(codes, foreign, foreign)
def test_no_word_is_an_exception(code: Any, message: Any, details: Any) -> None:
    assert classify_message(MessageStatus("error", None, message, {"error": code}), ("secret",)).code
    assert classify_message(MessageStatus("error", None, message, details), ("secret",)).code


@pytest.mark.parametrize(
    ("secret", "known"),
    [
        (TOKEN, False),
        ("ExpoPushToken[s3cret]", False),
        ("s3cretaa-0000-4000-8000-00000000aaaa", False),
        ("s3cret of another shape", True),
    ],
)
def test_what_expo_quotes_stays_secret(secret: str, *, known: bool) -> None:
    secrets = [secret, ""] if known else []
    outcomes = [
        classify_message(about_message("ExpoError", f'"{secret}" failed'), secrets),
        classify_message(about_message(secret, ""), secrets),
        classify_request(503, body("SERVICE_UNAVAILABLE", f'"{secret}" failed'), None, secrets),
        classify_request(503, body(secret), None, secrets),
    ]

    assert "s3cret" not in repr(outcomes)
    assert outcomes[0].detail == '"[token]" failed'


tokens = st.sampled_from("abcdefgh")


@given(
    st.lists(tokens, min_size=2, max_size=30),
    st.dictionaries(st.text(max_size=2), st.frozensets(tokens, max_size=8), max_size=4),
)
def test_parts_hold_every_message_once_and_each_is_smaller_than_the_whole(
    targets: list[str], projects: dict[str, frozenset[str]]
) -> None:
    divided = parts(targets, Split("PUSH_TOO_MANY_EXPERIENCE_IDS", "", projects))

    assert sorted(place for part in divided for place in part) == list(range(len(targets)))
    assert all(0 < len(part) < len(targets) for part in divided)
    assert all(list(part) == sorted(part) for part in divided)
