import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tocsin.domain.fingerprint import intent_fingerprint
from tocsin.domain.intent import (
    Audience,
    Intent,
    audience_faults,
    normal_address,
    recipients,
)
from tocsin.domain.people.recipient import (
    ConditionRecipient,
    ConfigRecipient,
    EmailRecipient,
    Recipient,
    TopicRecipient,
    UserRecipient,
    address_of,
    recipient_of,
    route_id,
    topics_at,
)

WHEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BASE = Intent(
    type="new_customer", audience=Audience(users=["ada", "bob"]), payload={"a": 1}, idempotency_key="k"
)


def read(**fields: Any) -> Intent:
    whole = {"type": "t", "audience": {"users": ["u"]}, "payload": {}, "idempotency_key": "k"} | fields
    return msgspec.json.decode(msgspec.json.encode(whole), type=Intent)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "other"},
        {"version": 2},
        {"audience": Audience(users=["ada"])},
        {"audience": Audience(emails=["ada@example.com"])},
        {"audience": Audience(admins=True)},
        {"audience": Audience(topic="news")},
        {"audience": Audience(condition="'news' in topics")},
        {"payload": {"a": 2}},
        {"payload": {"a": "1"}},
        {"payload": {"a": 1, "b": None}},
        {"send_at": WHEN},
        {"ttl_seconds": 60},
        {"collapse_key": "c"},
        {"occurred_at": WHEN},
        {"locale": "tr"},
    ],
    ids=",".join,
)
def test_the_fingerprint_tells_other_content(change: dict[str, Any]) -> None:
    assert intent_fingerprint(replace(BASE, **change)) != intent_fingerprint(BASE)


@pytest.mark.parametrize(
    "change",
    [
        {"request_id": "r"},
        {"trace_id": "t"},
        {"idempotency_key": "other"},
        {"audience": Audience(users=["bob", "ada", "bob"])},
    ],
    ids=",".join,
)
def test_the_fingerprint_does_not_tell_how_an_intent_is_traced_or_listed(change: dict[str, Any]) -> None:
    assert intent_fingerprint(replace(BASE, **change)) == intent_fingerprint(BASE)


def test_an_intent_without_a_language_has_the_fingerprint_it_always_had() -> None:
    """What an earlier version accepted is still a duplicate."""
    intent = Intent(
        type="new_customer",
        audience=Audience(users=["ada"]),
        payload={"customer_name": "Ali"},
        idempotency_key="k",
    )
    assert (
        intent_fingerprint(intent).hex() == "86cdb501c91a71e9f2aeb5f8f4ec19a472a6c6dff84a962a7ff065ca3cbed114"
    )


def test_a_language_is_the_same_however_it_is_written() -> None:
    assert intent_fingerprint(replace(BASE, locale="tr_tr")) == intent_fingerprint(
        replace(BASE, locale="tr-TR")
    )


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_recipients_count_as_a_set(users: list[str], dice: random.Random) -> None:
    shuffled = [*users, users[0]]
    dice.shuffle(shuffled)
    listed = replace(BASE, audience=Audience(users=list(users)))
    again = replace(BASE, audience=Audience(users=list(shuffled)))

    assert intent_fingerprint(again) == intent_fingerprint(listed)
    assert {str(recipient) for recipient in recipients(again, ())} == {f"user:{user}" for user in users}


def test_a_numeric_user_id_is_the_same_person_as_its_text() -> None:
    assert intent_fingerprint(replace(BASE, audience=Audience(users=[7]))) == intent_fingerprint(
        replace(BASE, audience=Audience(users=["7"]))
    )
    assert recipients(read(audience={"users": [7, "7"]}), ()) == [UserRecipient("7")]


def test_the_same_moment_in_another_zone_is_the_same_moment() -> None:
    elsewhere = WHEN.astimezone(timezone(timedelta(hours=3)))

    assert intent_fingerprint(replace(BASE, send_at=elsewhere)) == intent_fingerprint(
        replace(BASE, send_at=WHEN)
    )


def test_recipients_come_once_in_the_order_given() -> None:
    intent = read(audience={"emails": ["Ada@Example.COM", "bob@example.com", "Ada@example.com"]})

    assert recipients(intent, ()) == [EmailRecipient("Ada@example.com"), EmailRecipient("bob@example.com")]


def test_administrators_come_from_the_settings() -> None:
    intent = read(audience={"admins": True})

    assert recipients(intent, ["root@Example.com"]) == [EmailRecipient("root@example.com")]
    assert recipients(intent, []) == [ConfigRecipient("t")]


@pytest.mark.parametrize(
    ("address", "expected"),
    [("A.B@EXAMPLE.com", "A.B@example.com"), ('"a@b"@Example.com', '"a@b"@example.com')],
)
def test_only_the_domain_of_an_address_ignores_case(address: str, expected: str) -> None:
    assert normal_address(address) == expected


@pytest.mark.parametrize(
    ("audience", "code"),
    [
        (Audience(), "one_of"),
        (Audience(users=["a"], emails=["a@b"]), "one_of"),
        (Audience(users=["a"], admins=True), "one_of"),
        (Audience(users=["a"], topic="news"), "one_of"),
        (Audience(topic="news", condition="'news' in topics"), "one_of"),
        (Audience(admins=False), "invalid"),
        (Audience(condition="'news' in topics &&"), "invalid"),
    ],
)
def test_an_audience_names_one_kind(audience: Audience, code: str) -> None:
    assert [fault.code for fault in audience_faults(audience)] == [code]


@pytest.mark.parametrize(
    "audience",
    [
        Audience(users=["a"]),
        Audience(emails=["a@b"]),
        Audience(admins=True),
        Audience(topic="news"),
        Audience(condition="!('news' in topics)"),
    ],
)
def test_an_audience_of_one_kind_is_good(audience: Audience) -> None:
    assert audience_faults(audience) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"type": ""},
        {"version": 0},
        {"audience": {"users": []}},
        {"audience": {"users": [""]}},
        {"audience": {"users": ["a\x00"]}},
        {"audience": {"users": ["a\n"]}},
        {"audience": {"users": [True]}},
        {"audience": {"users": [-1]}},
        {"audience": {"users": [2**63]}},
        {"audience": {"users": ["u"] * 1_001}},
        {"audience": {"users": ["u"], "groups": ["g"]}},
        {"audience": {"emails": ["no address"]}},
        {"audience": {"emails": ["a@b\n"]}},
        {"audience": {"emails": ["a\x00@b"]}},
        {"audience": {"topic": ""}},
        {"audience": {"topic": "/topics/news"}},
        {"audience": {"topic": "news\n"}},
        {"audience": {"topic": "n" * 901}},
        {"audience": {"condition": ""}},
        {"audience": {"condition": "'a' in topics\n"}},
        {"audience": {"condition": "'a' in topics" + " " * 1_000}},
        {"payload": []},
        {"idempotency_key": ""},
        {"idempotency_key": "k\x00"},
        {"idempotency_key": "k" * 201},
        {"collapse_key": ""},
        {"collapse_key": "c\x00"},
        {"collapse_key": "c\n"},
        {"collapse_key": "é" * 64},
        {"request_id": "r\x00"},
        {"trace_id": "t\n"},
        {"send_at": "2026-03-01T12:00:00"},
        {"occurred_at": "yesterday"},
        {"ttl_seconds": 0},
        {"ttl_seconds": 2_419_201},
        {"surplus": 1},
    ],
    ids=lambda fields: repr(fields)[:50],
)
def test_an_intent_of_the_wrong_shape_is_not_read(fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(**fields)


def test_a_route_id_names_channel_and_recipient() -> None:
    assert route_id("push", UserRecipient("ada")) == "push:user:ada"
    assert route_id("email", EmailRecipient("a@b")) == "email:email:a@b"
    assert route_id("email", ConfigRecipient("new_customer")) == "email:config:new_customer"
    assert route_id("push", TopicRecipient("news")) == "push:topic:news"
    assert route_id("push", ConditionRecipient("'a' in topics")) == "push:condition:'a' in topics"


def test_a_broadcast_is_for_one_topic_or_condition() -> None:
    assert recipients(read(audience={"topic": "news"}), ["root@example.com"]) == [TopicRecipient("news")]
    assert recipients(read(audience={"condition": "'a' in topics"}), ()) == [
        ConditionRecipient("'a' in topics")
    ]


@pytest.mark.parametrize(
    "recipient",
    [
        UserRecipient("ada"),
        UserRecipient("topic:news"),
        EmailRecipient("ada@example.com"),
        EmailRecipient("topic:news@example.com"),
        EmailRecipient("condition:a@example.com"),
        ConfigRecipient("new_customer"),
        TopicRecipient("news"),
        TopicRecipient("a.b~c%d"),
        ConditionRecipient("'a@b'in topics || 'a' in topics"),
    ],
)
def test_whom_a_stored_delivery_is_for_can_be_read_back(recipient: Recipient) -> None:
    user_id = recipient.user_id if isinstance(recipient, UserRecipient) else None

    assert recipient_of(user_id, address_of(recipient), "new_customer") == recipient


def test_only_a_broadcast_has_the_address_of_one() -> None:
    assert topics_at("topic:news") == TopicRecipient("news")
    assert topics_at("topic:news@example.com") is None
    assert topics_at(None) is None
