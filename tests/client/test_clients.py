"""Both clients against a real server: its API, its worker, a real database and the sandbox."""

import asyncio
import logging
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from pyreqwest.logging import flush_logs

from tocsin.client import (
    Accepted,
    Conflict,
    ConflictError,
    Duplicate,
    ForbiddenError,
    Intent,
    Invalid,
    NotFoundError,
    RefusedError,
    Tocsin,
    UnauthorizedError,
)
from tocsin.client.testing import RunningTocsin

PAYLOAD = {"customer_name": "Ada"}
TOMORROW = datetime.now(UTC) + timedelta(days=1)


def test_what_is_sent_arrives_on_the_phone(
    tocsin_server: RunningTocsin, client: Tocsin, user_id: str
) -> None:
    phone = tocsin_server.phone(user_id)

    sent = client.send("new_customer", users=[user_id], payload=PAYLOAD)

    assert isinstance(sent, Accepted)
    [message] = phone.wait_for()
    assert "Ada" in message.message["notification"]["body"]
    shown = client.show(sent.notification_id)
    assert [delivery.delivery_id for delivery in shown.deliveries] == [uuid.UUID(message.delivery_id or "")]
    assert (shown.payload, shown.idempotency_key) == (PAYLOAD, sent.idempotency_key)


async def test_the_async_client_does_the_same(tocsin_server: RunningTocsin, user_id: str) -> None:
    async with tocsin_server.async_client() as client:
        sent = await client.send("new_customer", users=[user_id], payload=PAYLOAD, send_at=TOMORROW)
        again = await client.send(
            "new_customer",
            users=[user_id],
            payload=PAYLOAD,
            send_at=TOMORROW,
            idempotency_key=sent.idempotency_key,
        )
        explained = await client.explain("new_customer", users=[user_id], payload=PAYLOAD)
        moved = await client.reschedule(sent.notification_id, TOMORROW + timedelta(hours=1))
        cancelled = await client.cancel(sent.notification_id)
        answers = await client.send_many([Intent("new_customer", users=[user_id], payload=PAYLOAD)] * 2)

    assert again == Duplicate(notification_id=sent.notification_id, idempotency_key=sent.idempotency_key)
    assert {route.recipient for route in explained.routes} == {f"user:{user_id}"}
    assert (moved.rescheduled, cancelled.cancelled) == (len(explained.routes), len(explained.routes))
    assert [answer.status for answer in answers] == ["accepted", "duplicate"]


async def test_the_blocking_client_works_in_the_thread_of_a_running_loop(
    client: Tocsin, user_id: str
) -> None:
    assert asyncio.get_running_loop().is_running()

    assert client.send("new_customer", users=[user_id], payload=PAYLOAD).status == "accepted"


def test_a_batch_is_answered_one_by_one(client: Tocsin, user_id: str) -> None:
    good = Intent("new_customer", users=[user_id], payload=PAYLOAD)
    other = Intent("new_customer", users=["another"], payload=PAYLOAD, idempotency_key=good.key)
    unknown = Intent("no_such_type", users=[user_id])

    accepted, duplicate, conflict, invalid = client.send_many([good, good, other, unknown])

    assert isinstance(accepted, Accepted)
    assert duplicate == Duplicate(notification_id=accepted.notification_id, idempotency_key=good.key)
    assert isinstance(conflict, Conflict)
    assert isinstance(invalid, Invalid)
    assert [fault.field for fault in invalid.errors] == ["type"]


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels):
        value = [value]
    return value


def test_no_intent_of_a_batch_fails_the_others(client: Tocsin, user_id: str) -> None:
    payloads: list[dict[str, object]] = [
        {"name": "cut \ud83d"},
        {"total": float("nan")},
        {"deep": nested(300)},
        {"deep": nested(1_200)},
    ]
    good = Intent("new_customer", users=[user_id], payload=PAYLOAD)
    wrong = [Intent("new_customer", users=[user_id], payload=payload) for payload in payloads]

    answers = client.send_many([*wrong, good])

    assert [answer.status for answer in answers] == ["invalid"] * 4 + ["accepted"]
    codes = [fault.code for answer in answers if isinstance(answer, Invalid) for fault in answer.errors]
    assert codes == ["not_text", "not_finite", "too_deep", "too_deep"]


def test_more_than_a_batch_is_split_and_answered_in_order(client: Tocsin, user_id: str) -> None:
    intents = [
        Intent("new_customer", users=[user_id], payload=PAYLOAD, send_at=TOMORROW) for _ in range(1_500)
    ]
    intents[1_200] = Intent("no_such_type", users=[user_id])

    answers = client.send_many(intents)

    assert [answer.idempotency_key for answer in answers] == [intent.key for intent in intents]
    assert [at for at, answer in enumerate(answers) if answer.status != "accepted"] == [1_200]


def test_what_is_refused_names_every_fault(client: Tocsin) -> None:
    with pytest.raises(RefusedError, match="audience") as refused:
        client.send("new_customer", payload={})

    assert refused.value.code == "invalid_intent"
    assert {fault.field for fault in refused.value.faults} >= {"audience"}


def test_a_key_with_other_content_is_a_conflict(client: Tocsin, user_id: str) -> None:
    sent = client.send("new_customer", users=[user_id], payload=PAYLOAD)

    with pytest.raises(ConflictError) as conflict:
        client.send("new_customer", users=["other"], payload=PAYLOAD, idempotency_key=sent.idempotency_key)

    assert conflict.value.notification_id == sent.notification_id


def test_it_is_taken_back_by_its_key(client: Tocsin, user_id: str) -> None:
    sent = client.send("new_customer", users=[user_id], payload=PAYLOAD, send_at=TOMORROW)

    assert client.cancel_by_key(sent.idempotency_key).cancelled > 0
    with pytest.raises(NotFoundError, match="producer"):
        client.cancel_by_key("no-such-key")


def test_a_wrong_key_is_told_apart_and_never_shown(
    tocsin_server: RunningTocsin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = f"tocsin_{'s' * 43}"
    with Tocsin(tocsin_server.base_url, secret) as stranger:
        with pytest.raises(UnauthorizedError) as unauthorized:
            stranger.send("new_customer", users=["42"])
        flush_logs()
        assert secret not in caplog.text
        assert secret not in f"{stranger!r} {vars(stranger)!r} {unauthorized.value} {unauthorized.value!r}"


def test_a_person_is_not_a_producer(tocsin_server: RunningTocsin, user_id: str) -> None:
    with (
        Tocsin(tocsin_server.base_url, tocsin_server.token_for(user_id)) as client,
        pytest.raises((UnauthorizedError, ForbiddenError)),
    ):
        client.send("new_customer", users=[user_id], payload=PAYLOAD)


def test_a_person_has_devices_and_choices(tocsin_server: RunningTocsin, client: Tocsin, user_id: str) -> None:
    person = client.for_user(tocsin_server.token_for(user_id))

    device = person.register_device(f"token-of-{user_id}", "ios", locale="tr-TR")
    quiet = person.change_device(device.device_id, push_enabled=False)
    chosen = person.change_preferences({"customers": {"push": False}})

    assert (quiet.device_id, quiet.push_enabled) == (device.device_id, False)
    assert chosen == person.preferences() == {"customers": {"push": False}}
    assert person.change_preferences({"customers": None}) == {}
    assert person.unregister_device(token=f"token-of-{user_id}").retired_reason == "unregistered"
    assert person.devices() == []
    assert [each.device_id for each in person.devices(include_retired=True)] == [device.device_id]


def test_the_directory_keeps_whatever_a_user_id_holds(client: Tocsin) -> None:
    user_id = "b?c=%3D#ü +;d"
    attributes = {"plan": "pro", "seats": 5, "interests": ["news"]}

    stored = client.put_user(user_id, locale="tr", timezone="Europe/Istanbul", attributes=attributes)

    assert client.get_user(user_id) == stored
    assert (stored.user_id, stored.locale, stored.attributes) == (user_id, "tr", attributes)


def test_people_are_reached_by_their_attributes(client: Tocsin, user_id: str) -> None:
    client.put_user(user_id, attributes={"team": user_id, "interests": ["news", "art"]})
    asked = {"team": user_id, "interests": ["art"]}

    explained = client.explain("new_customer", attributes=asked, payload=PAYLOAD)
    sent = client.send("new_customer", attributes=asked, payload=PAYLOAD)
    with pytest.raises(RefusedError) as refused:
        client.send("new_customer", attributes={"team": "nobody"}, payload=PAYLOAD)

    assert [route.recipient for route in explained.routes] == [f"user:{user_id}"]
    assert client.show(sent.notification_id).audience == {"attributes": asked}
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [
        ("audience.attributes", "nobody")
    ]


def test_people_are_reached_within_their_organisation(client: Tocsin, user_id: str) -> None:
    client.put_user(user_id, org_id="acme")
    kept = client.put_user(user_id, locale="tr")
    sent = client.send("new_customer", users=[user_id], payload=PAYLOAD, org_id="acme")
    with pytest.raises(RefusedError) as refused:
        client.send("new_customer", users=[user_id], payload=PAYLOAD, org_id="globex")
    removed = client.put_user(user_id, org_id=None)

    assert (kept.org_id, removed.org_id) == ("acme", None)
    assert client.show(sent.notification_id).org_id == "acme"
    assert [(fault.field, fault.code) for fault in refused.value.faults] == [
        ("audience.users", "not_your_organisation")
    ]
