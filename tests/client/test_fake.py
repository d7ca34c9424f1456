"""The recording client: the same type as the real one, the same answers where no catalog is needed."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tocsin.client import (
    ConflictError,
    Duplicate,
    Intent,
    Invalid,
    NotFoundError,
    RefusedError,
    Tocsin,
    UnavailableError,
)
from tocsin.client.testing import FakeTocsin

PAYLOAD = {"customer_name": "Ada"}
WRONG: list[dict[str, Any]] = [
    {},
    {"users": ["42"], "emails": ["ada@example.com"]},
    {"users": []},
    {"users": [""]},
    {"users": "42"},
    {"users": [str(number) for number in range(1_001)]},
    {"emails": ["nobody"]},
    {"admins": False},
    {"topic": "with space"},
    {"condition": "'a' in"},
    {"users": ["42"], "idempotency_key": ""},
    {"users": ["42"], "idempotency_key": "k" * 201},
    {"users": ["42"], "idempotency_key": "a\nb"},
    {"users": ["42"], "ttl_seconds": 0},
    {"users": ["42"], "version": 0},
    {"users": ["42"], "collapse_key": "c" * 65},
    {"users": ["42"], "send_at": datetime(2030, 1, 1)},  # noqa: DTZ001 - that is what is wrong with it
    {"users": ["42"], "send_at_local": datetime(2030, 1, 1, tzinfo=UTC)},
    {
        "users": ["42"],
        "send_at": datetime(2030, 1, 1, tzinfo=UTC),
        "send_at_local": datetime(2030, 1, 1),  # noqa: DTZ001 - the local one has none
    },
]


@pytest.mark.parametrize("fields", WRONG)
def test_it_refuses_what_the_real_one_refuses(
    tocsin_fake: FakeTocsin, client: Tocsin, fields: dict[str, Any]
) -> None:
    with pytest.raises(RefusedError) as real:
        client.send("new_customer", payload=PAYLOAD, **fields)
    with pytest.raises(RefusedError) as faked:
        tocsin_fake.send("new_customer", payload=PAYLOAD, **fields)

    assert faked.value.code == real.value.code
    assert {fault.field for fault in faked.value.faults} <= {fault.field for fault in real.value.faults}
    assert tocsin_fake.sent == []


def test_it_remembers_what_was_sent(tocsin_fake: FakeTocsin) -> None:
    sent = tocsin_fake.send("new_customer", users=["42"], payload=PAYLOAD, request_id="r")
    tocsin_fake.send("order_shipped", emails=["ada@example.com"])

    recorded = tocsin_fake.only(type="new_customer")
    assert (recorded.notification_id, recorded.payload, recorded.request_id) == (
        sent.notification_id,
        PAYLOAD,
        "r",
    )
    tocsin_fake.none(type="password_changed")
    with pytest.raises(AssertionError, match=r"2 notifications have any fields(.|\n)*order_shipped"):
        tocsin_fake.only()
    with pytest.raises(AssertionError, match="not none"):
        tocsin_fake.none(type="order_shipped")


def test_keys_count_as_they_do_in_the_real_one(tocsin_fake: FakeTocsin) -> None:
    first = tocsin_fake.send("new_customer", users=["42"], idempotency_key="k")

    assert tocsin_fake.send("new_customer", users=["42"], idempotency_key="k") == Duplicate(
        notification_id=first.notification_id, idempotency_key="k"
    )
    with pytest.raises(ConflictError):
        tocsin_fake.send("new_customer", users=["43"], idempotency_key="k")
    [conflict] = tocsin_fake.send_many([Intent("new_customer", users=["43"], idempotency_key="k")])
    assert conflict.status == "conflict"
    assert len(tocsin_fake.sent) == 1


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("fields", "field", "code"),
    [
        ({"payload": {"name": "x\ud800"}}, "payload", "not_text"),
        ({"payload": {"\udc00": 1}}, "payload", "not_text"),
        ({"idempotency_key": "k\ud800"}, "idempotency_key", "not_text"),
        ({"users": ["\ud800"]}, "audience.users", "not_text"),
        ({"payload": {"deep": nested(1_200)}}, "payload", "too_deep"),
        ({"payload": {"total": float("nan")}}, "payload.total", "not_finite"),
        ({"payload": {"total": 10**5_000}}, "payload", "invalid"),
        ({"payload": {"when": object()}}, "$", "invalid"),
        ({"users": "42"}, "audience.users", "invalid"),
    ],
)
def test_an_intent_that_cannot_be_encoded_is_refused_alone(
    tocsin_fake: FakeTocsin, fields: dict[str, Any], field: str, code: str
) -> None:
    first, last = (Intent("new_customer", users=["42"], payload=PAYLOAD) for _ in range(2))
    wrong = Intent("new_customer", **{"users": ["42"], **fields})

    accepted, invalid, also = tocsin_fake.send_many([first, wrong, last])

    assert [accepted.status, also.status] == ["accepted", "accepted"]
    assert [accepted.idempotency_key, also.idempotency_key] == [first.key, last.key]
    assert isinstance(invalid, Invalid)
    assert [(fault.field, fault.code) for fault in invalid.errors] == [(field, code)]
    assert invalid.idempotency_key == wrong.key
    assert [sent.idempotency_key for sent in tocsin_fake.sent] == [first.key, last.key]


def test_nothing_is_sent_if_no_intent_can_be_encoded(tocsin_fake: FakeTocsin) -> None:
    tocsin_fake.be_unreachable()

    answers = tocsin_fake.send_many([Intent("new_customer", users=["\ud800"])] * 2)

    assert [answer.status for answer in answers] == ["invalid", "invalid"]


def test_everything_that_cannot_be_encoded_is_named(tocsin_fake: FakeTocsin) -> None:
    payload = {"name": "x\ud800"}

    with pytest.raises(RefusedError) as refused:
        tocsin_fake.send("new_customer", users="42", payload=payload, attributes={"a": float("inf")})

    assert {(fault.field, fault.code) for fault in refused.value.faults} == {
        ("audience.users", "invalid"),
        ("audience.attributes.a", "not_finite"),
        ("payload", "not_text"),
    }


def test_it_fails_as_told(tocsin_fake: FakeTocsin) -> None:
    tocsin_fake.be_unreachable()
    with pytest.raises(UnavailableError):
        tocsin_fake.send("new_customer", users=["42"])
    tocsin_fake.refuse("payload.customer_name", "is required")
    with pytest.raises(RefusedError, match="customer_name"):
        tocsin_fake.send("new_customer", users=["42"])

    assert tocsin_fake.send("new_customer", users=["42"]).status == "accepted"


def test_what_was_sent_can_be_seen_moved_and_taken_back(tocsin_fake: FakeTocsin) -> None:
    sent = tocsin_fake.send("new_customer", users=["42"], payload=PAYLOAD)
    later = datetime(2030, 1, 1, tzinfo=UTC)

    assert tocsin_fake.reschedule(sent.notification_id, later).rescheduled == 1
    assert tocsin_fake.cancel(sent.notification_id).cancelled == 1
    assert tocsin_fake.cancel_by_key(sent.idempotency_key).cancelled == 0
    assert tocsin_fake.show(sent.notification_id).send_at == later
    assert tocsin_fake.only(cancelled=True).notification_id == sent.notification_id
    assert tocsin_fake.explain("new_customer", users=["42"]).routes == []
    with pytest.raises(NotFoundError):
        tocsin_fake.show("0199")


def test_people_are_remembered_too(tocsin_fake: FakeTocsin) -> None:
    person = tocsin_fake.for_user("token-of-ada")
    device = person.register_device("phone", "android")

    assert person.change_device(device.device_id, push_enabled=False).push_enabled is False
    assert person.unregister_device(token="phone").retired_at is not None
    assert [each.device_id for each in person.devices(include_retired=True)] == [device.device_id]
    assert person.devices() == []
    assert person.change_preferences({"orders": {"push": False}}) == person.preferences()
    assert person.change_preferences({"orders": {"push": None}}) == {}
    assert tocsin_fake.put_user("a b", locale="tr", org_id="acme") == tocsin_fake.get_user("a b")
    assert tocsin_fake.put_user("a b").org_id == "acme"
    assert tocsin_fake.put_user("a b", org_id=None).org_id is None
    with pytest.raises(NotFoundError):
        tocsin_fake.for_user("token-of-kerem").change_device(device.device_id, push_enabled=True)


async def test_both_clients_share_one_recording(tocsin_fake: FakeTocsin) -> None:
    async with tocsin_fake.asynchronous() as client:
        await client.send("new_customer", users=["42"])

    tocsin_fake.only(type="new_customer")
    tocsin_fake.clear()
    tocsin_fake.none()
