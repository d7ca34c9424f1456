"""Settings of functions, and events that are none."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.aws.functions.events import envelope, failed, queue_record
from tocsin.aws.functions.batch import SecondsLeft, deliver_batch
from tocsin.aws.functions.records import Record, UnknownEventError, read_event
from tocsin.aws.functions.results import NeverDeliveredError, RetryLaterError
from tocsin.aws.functions.settings import mobile_settings, web_settings
from tocsin.domain.errors import SettingsError

API = {"DELIVERY_API_URL": "https://tocsin.example.com"}


@pytest.mark.parametrize(
    ("environ", "fields"),
    [
        ({}, ["DELIVERY_API_URL"]),
        (API, ["DELIVERY_API_KEY"]),
        ({**API, "DELIVERY_API_KEY": "a", "DELIVERY_API_KEY_PARAMETER": "/b"}, ["DELIVERY_API_KEY"]),
        ({**API, "DELIVERY_API_KEY": "a", "DELIVERY_DATABASE_URL": "x"}, ["DELIVERY_API_URL"]),
        ({"DELIVERY_DATABASE_URL": "x", "DELIVERY_DATABASE_URL_PARAMETER": "y"}, ["DELIVERY_DATABASE_URL"]),
        ({**API, "DELIVERY_API_KEY": "a", "DELIVERY_CATEGORIES": '{"a": "b"}'}, ["DELIVERY_CATEGORIES"]),
        ({"DELIVERY_API_URL": "ftp://x", "DELIVERY_API_KEY": "a"}, ["DELIVERY_API_URL"]),
        ({**API, "DELIVERY_API_KEY": "a", "DELIVERY_TYPES": "{"}, ["DELIVERY_TYPES"]),
        ({**API, "DELIVERY_API_KEY": "a", "DELIVERY_TYPES": '{"a": 1}'}, ["DELIVERY_TYPES[...]"]),
        ({**API, "DELIVERY_API_KEY": "a", "DELIVERY_SHCEMA": "x"}, ["DELIVERY_SHCEMA"]),
    ],
)
def test_variables_that_do_not_fit_stop_the_function(environ: dict[str, str], fields: list[str]) -> None:
    with pytest.raises(SettingsError) as raised:
        mobile_settings(environ)

    assert [fault.field for fault in raised.value.faults] == fields


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("DELIVERY_SHCEMA", "x", "there is no such variable; did you mean DELIVERY_SCHEMA?"),
        ("DELIVERY_ANYTHING_ELSE", "x", "there is no such variable"),
        ("DELIVERY_TYPES", "notjson", "must be a JSON object"),
        ("DELIVERY_TYPES", "[1]", "must be a JSON object"),
        ("DELIVERY_TYPES", '{"a":' * 10_000, "must be a JSON object"),
    ],
    ids=range(5),
)
def test_it_is_explained_how_a_variable_is_to_be(variable: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        mobile_settings({**API, "DELIVERY_API_KEY": "a", variable: value})

    [fault] = raised.value.faults
    assert fault.field == variable
    assert message in fault.message


def test_a_key_may_look_like_an_object() -> None:
    assert mobile_settings({**API, "DELIVERY_API_KEY": "{key"}).api_key == "{key"


def test_variables_are_read() -> None:
    settings = mobile_settings(
        {**API, "DELIVERY_API_KEY": "a", "DELIVERY_TYPES": '{"comment.added": "comment"}', "PATH": "/bin"}
    )

    assert (settings.api_url, settings.types) == ("https://tocsin.example.com", {"comment.added": "comment"})
    assert "a" not in repr(settings).replace("MobileSettings(api_url=", "").split(",")


@pytest.mark.parametrize("environ", [{}, {"DELIVERY_REDIS_URL": "http://x"}])
def test_the_function_for_browsers_needs_a_redis(environ: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        web_settings(environ)


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        {},
        {"Records": None},
        {"Records": [1]},
        {"Records": [{"eventSource": "aws:s3"}]},
        {"Records": [{"eventSource": "aws:sqs"}]},
        {"Records": [{"eventSource": "aws:sqs"}, {"EventSource": "aws:sns"}]},
    ],
)
def test_an_event_of_something_else_is_refused(event: Any) -> None:
    with pytest.raises(UnknownEventError):
        read_event(event)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = ["eventSource", "EventSource", "messageId", "body", "attributes", "messageAttributes", "Sns", "x"]
values = anything | st.sampled_from(["aws:sqs", "aws:sns", {"MessageGroupId": "g"}, {"Message": "m"}])


@given(st.lists(st.dictionaries(st.sampled_from(names), values) | anything, max_size=3) | anything)
def test_whatever_an_event_holds_it_is_read_or_refused(records: Any) -> None:
    try:
        batch = read_event({"Records": records})
    except UnknownEventError:
        return
    assert len(batch.records) == len(records)


def test_records_without_a_message_fail_by_themselves() -> None:
    good = queue_record(envelope("ada"), "user-ada")
    bad = {"eventSource": "aws:sqs", "messageId": "bad", "body": 7}
    batch = read_event({"Records": [bad, good]})

    assert [record.message is None for record in batch.records] == [True, False]
    topic = read_event({"Records": [{"EventSource": "aws:sns", "Sns": {"Message": 7}}]})
    assert [record.message for record in topic.records] == [None]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from(["sent", "later", "never", "bug"])),
        max_size=12,
    )
)
def test_order_in_a_group_is_kept_whatever_fails(plan: list[tuple[str | None, str]]) -> None:
    records = [queue_record(f"{number}", group) for number, (group, _) in enumerate(plan)]
    fates = {record["messageId"]: fate for record, (_, fate) in zip(records, plan, strict=True)}
    begun: list[str] = []

    def deliver(record: Record, _: SecondsLeft) -> None:
        begun.append(record.id)
        match fates[record.id]:
            case "later":
                raise RetryLaterError("busy")
            case "never":
                raise NeverDeliveredError("poison")
            case "bug":
                raise KeyError(record.id)

    with ThreadPoolExecutor(4) as executor:
        reported = failed(deliver_batch({"Records": records}, None, deliver, executor))

    held: set[str] = set()
    expected = []
    for record, (group, fate) in zip(records, plan, strict=True):
        if group in held or fate != "sent":
            expected.append(record["messageId"])
        if group in held:
            assert record["messageId"] not in begun
        elif fate in {"later", "bug"} and group is not None:
            held.add(group)
    assert reported == expected
    for group in ("a", "b", "c"):
        in_order = [record["messageId"] for record, (of, _) in zip(records, plan, strict=True) if of == group]
        assert [each for each in begun if each in in_order] == in_order[
            : len([e for e in begun if e in in_order])
        ]
