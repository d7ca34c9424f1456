import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.domain.delivery.message import PushType
from tocsin.domain.delivery.outcome import Defer, Gone, Rejected, Retry
from tocsin.domain.delivery.retry_after import LONGEST
from tocsin.providers.answers import ALARM_REST, Rule
from tocsin.providers.apns.answers import RULES, UNPROVEN, UPDATES_REST, classify

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "apns.md"
UNREADABLE = "the answer was not the JSON that APNs gives"


def body(reason: str, **more: Any) -> bytes:
    return msgspec.json.encode({"reason": reason} | more)


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (400, body("BadDeviceToken"), Gone("BadDeviceToken")),
        (400, body("DeviceTokenNotForTopic"), Gone("DeviceTokenNotForTopic")),
        (400, body("PayloadEmpty"), Rejected("PayloadEmpty")),
        (400, body("TopicDisallowed"), Rejected("TopicDisallowed")),
        (400, body("IdleTimeout"), Retry("IdleTimeout")),
        (400, body("SomethingNew"), Rejected("SomethingNew")),
        (403, body("ExpiredProviderToken"), Defer("ExpiredProviderToken", ALARM_REST, alarm=True)),
        (403, body("InvalidProviderToken"), Defer("InvalidProviderToken", ALARM_REST, alarm=True)),
        (403, body("SomethingNew"), Defer("SomethingNew", ALARM_REST, alarm=True)),
        (404, body("BadPath"), Rejected("BadPath")),
        (405, body("MethodNotAllowed"), Rejected("MethodNotAllowed")),
        (
            410,
            body("Unregistered", timestamp=1_454_948_015_990),
            Gone("Unregistered", since=datetime(2016, 2, 8, 16, 13, 35, 990_000, tzinfo=UTC)),
        ),
        (
            410,
            body("SomethingNew", timestamp=1_454_948_015_990),
            Gone("SomethingNew", since=datetime(2016, 2, 8, 16, 13, 35, 990_000, tzinfo=UTC)),
        ),
        (410, body("ExpiredToken"), Gone("ExpiredToken")),
        (410, body("ExpiredToken", timestamp=10**30), Gone("ExpiredToken")),
        (413, body("PayloadTooLarge"), Rejected("PayloadTooLarge")),
        (429, body("TooManyRequests"), Retry("TooManyRequests", speaks_against="target")),
        (429, body("TooManyProviderTokenUpdates"), Defer("TooManyProviderTokenUpdates", UPDATES_REST)),
        (429, body("SomethingNew"), Defer("SomethingNew", UPDATES_REST)),
        (500, body("InternalServerError"), Retry("InternalServerError")),
        (503, body("ServiceUnavailable"), Retry("ServiceUnavailable")),
        (503, body("Shutdown"), Retry("Shutdown")),
    ],
    ids=str,
)
def test_each_answer_means_what_the_table_says(
    status: int, answer: bytes, expected: Retry | Defer | Rejected | Gone
) -> None:
    assert classify(status, answer, None) == expected


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.doubtful], ids=lambda rule: str(rule.code))
def test_what_a_wrong_setting_brings_is_held_against_nobody_till_a_message_got_through(rule: Rule) -> None:
    assert isinstance(rule.status, int)
    outcome = classify(rule.status, body(rule.code), None, proven=False)

    assert outcome == Defer(rule.code, ALARM_REST, UNPROVEN, pauses=False, alarm=True)


def test_a_lost_device_needs_no_proof() -> None:
    assert isinstance(classify(410, body("Unregistered"), None, proven=False), Gone)


@pytest.mark.parametrize(("push_type", "kind"), [("voip", Rejected), ("alert", Gone), ("background", Gone)])
def test_only_a_call_may_go_to_a_token_of_another_kind(push_type: PushType, kind: type) -> None:
    outcome = classify(400, body("DeviceTokenNotForTopic"), None, push_type=push_type)

    assert isinstance(outcome, kind)


@pytest.mark.parametrize("status", [301, 302, 401, 403, 404, 405, 407, 410, 421])
@pytest.mark.parametrize("answer", [b"", b"<html>login</html>", b"[]", b'{"reason": 7}'])
def test_a_proxy_or_wrong_address_costs_no_delivery(status: int, answer: bytes) -> None:
    outcome = classify(status, answer, None)

    assert outcome == Defer(f"HTTP_{status}", ALARM_REST, UNREADABLE, alarm=True)


@pytest.mark.parametrize("status", [408, 425, 500, 502, 503, 504, 599])
def test_a_passing_fault_is_tried_again(status: int) -> None:
    assert classify(status, b"", timedelta(seconds=7)) == Retry(
        f"HTTP_{status}", UNREADABLE, timedelta(seconds=7)
    )


@pytest.mark.parametrize(("asked", "given"), [(None, 60), (0, 60), (30, 60), (300, 300)])
def test_too_many_updates_rest_a_minute_at_least(asked: int | None, given: int) -> None:
    after = None if asked is None else timedelta(seconds=asked)

    outcome = classify(429, body("TooManyProviderTokenUpdates"), after)

    assert outcome == Defer("TooManyProviderTokenUpdates", timedelta(seconds=given))


def test_no_two_rows_of_the_table_say_the_same() -> None:
    keys = [(rule.status, rule.code, rule.about) for rule in RULES]

    assert len(set(keys)) == len(keys)


def test_the_page_shows_the_table_as_it_is() -> None:
    rows = re.findall(
        r"^\| (\d{3}) \| `(\w+)` \| (\w*) ?\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE
    )

    assert rows == [(str(rule.status), rule.code, rule.about or "", rule.outcome) for rule in RULES]


foreign = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
reasons = st.sampled_from(sorted({rule.code for rule in RULES})) | foreign
answers = st.fixed_dictionaries({"reason": reasons, "timestamp": st.integers() | foreign})
bodies = st.binary(max_size=60) | foreign.map(msgspec.json.encode) | answers.map(msgspec.json.encode)
statuses = st.integers(100, 599).filter(lambda status: status != 200)


@given(statuses, bodies, st.none() | st.timedeltas(timedelta(), LONGEST), st.booleans())
@example(410, b'{"reason": "Unregistered", "timestamp": -9223372036854775808}', None, True)
@example(410, b'{"reason": "Unregistered", "timestamp": 1e400}', None, True)
@example(503, b'{"reason": "\xff"}', None, True)
@example(503, b'{"a":' * 2_000 + b"1" + b"}" * 2_000, None, True)
def test_no_answer_is_an_exception(
    status: int,
    answer: bytes,
    after: timedelta | None,
    proven: bool,  # noqa: FBT001 - given by position
) -> None:
    outcome = classify(status, answer, after, proven=proven)

    assert outcome.code
