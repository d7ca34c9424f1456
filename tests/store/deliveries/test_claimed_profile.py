from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.rows import NOW, add_carrier, add_delivery, add_device, add_digest, add_notification, take
from tocsin.domain.people.profile import UNKNOWN_RECIPIENT, Destination, RecipientProfile
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)


async def test_all_a_send_needs_is_read_at_the_claim(pool: Pool) -> None:
    await add_person(pool)
    device_id = await add_device(pool, token="t1", platform="ios", locale="ko", timezone="Asia/Seoul")
    notification_id = await add_notification(
        pool, collapse_key="c", expires_at=NOW + SECOND, request_id="r", trace_id="t"
    )
    made = await add_delivery(pool, notification_id=notification_id)

    (taken,) = await take(pool)

    assert msgspec.structs.asdict(taken) == {
        "id": made,
        "notification_id": notification_id,
        "digest_id": None,
        "channel": "push",
        "due_at": NOW,
        "attempts": 0,
        "retrying": False,
        "taken_over": False,
        "lost_alone": False,
        "user_id": "ada",
        "address": None,
        "device_id": None,
        "ordering_key": None,
        "order_blockers": (),
        "reserved": False,
        "type": "new_customer",
        "version": 2,
        "payload": taken.payload,
        "collapse_key": "c",
        "expires_at": NOW + SECOND,
        "send_at_local": None,
        "accepted_at": NOW,
        "cancelled": False,
        "producer": "shop",
        "request_id": "r",
        "trace_id": "t",
        "reference": None,
        "external_id": None,
        "fallback_for": None,
        "failed_channel": None,
        "recovering": False,
        "newer": None,
        "deferral": None,
        "superseded": False,
        "fault": None,
        "profile": RecipientProfile(
            timezone="Europe/Istanbul",
            gmt_offset_seconds=10_800,
            allowed_window="08:00-20:00",
            attributes='{"plan": "pro"}',
            choices={"news": {"push": False}},
            locale="tr-TR",
            devices=(
                Destination(
                    id=device_id,
                    token="t1",
                    provider="fcm",
                    platform="ios",
                    locale="ko",
                    timezone="Asia/Seoul",
                    last_seen_at=NOW,
                ),
            ),
        ),
    }
    assert msgspec.json.decode(taken.payload) == {"customer_name": "Ali Veli"}


async def test_nothing_known_of_a_person_is_nothing_known(pool: Pool) -> None:
    await add_delivery(pool)

    (taken,) = await take(pool)

    assert taken.profile == UNKNOWN_RECIPIENT


async def test_the_devices_are_those_of_that_moment_the_one_used_last_first(pool: Pool) -> None:
    devices = [await add_device(pool, last_seen_at=NOW - number * SECOND) for number in (2, 1, 3)]
    await add_device(pool, retired_at=NOW, retired_reason="gone")
    await add_device(pool, push_enabled=False)
    await add_device(pool, "bob")
    made = [await add_delivery(pool) for _ in range(2)]

    taken = await take(pool)

    assert [each.id for each in taken] == made
    for each in taken:
        assert [device.id for device in each.profile.devices] == [devices[1], devices[0], devices[2]]
    assert await pool.fetchval("select count(*) from deliveries") == 2


async def test_no_more_deliveries_are_taken_than_asked_for_however_many_devices_they_have(
    pool: Pool,
) -> None:
    for _ in range(3):
        await add_device(pool)
    made = [await add_delivery(pool) for _ in range(3)]

    assert [each.id for each in await take(pool, limit=2)] == made[:2]


async def test_a_delivery_that_has_its_device_goes_to_that_one_alone(pool: Pool) -> None:
    device_id = await add_device(pool)
    await add_device(pool)
    await add_delivery(pool, device_id=device_id, state="retrying", attempts=1)

    (taken,) = await take(pool)

    assert [device.id for device in taken.profile.devices] == [device_id]


@pytest.mark.parametrize(
    "change",
    [
        "push_enabled = false",
        "retired_at = now(), retired_reason = 'unregistered'",
        "user_id = 'bob'",
    ],
    ids=["consent", "retired", "new owner"],
)
async def test_a_device_lost_while_the_delivery_waited_is_no_longer_there(pool: Pool, change: str) -> None:
    device_id = await add_device(pool)
    await add_delivery(pool, device_id=device_id, state="retrying", attempts=1)
    await pool.execute(f"update devices set {change}")  # noqa: S608 - one of the three above

    (taken,) = await take(pool)

    assert (taken.device_id, taken.profile.devices) == (device_id, ())


async def test_a_token_refreshed_while_the_delivery_waited_is_used(pool: Pool) -> None:
    device_id = await add_device(pool, token="old")
    await add_delivery(pool, device_id=device_id, state="retrying", attempts=1)
    await pool.execute("update devices set token = 'new'")

    (taken,) = await take(pool)

    assert [device.token for device in taken.profile.devices] == ["new"]


async def test_a_delivery_to_an_address_needs_no_device(pool: Pool) -> None:
    await add_delivery(pool, None, channel="email", lane="smtp", address="ada@example.com")

    (taken,) = await take(pool, lane="smtp")

    assert (taken.address, taken.device_id, taken.profile.devices) == ("ada@example.com", None, ())


async def test_what_goes_to_no_phone_is_not_read_once_for_each(pool: Pool) -> None:
    await add_device(pool)
    await add_device(pool)
    made = await add_delivery(pool, channel="email", lane="smtp")

    (taken,) = await take(pool, lane="smtp")

    assert (taken.id, taken.profile.devices) == (made, ())


async def test_the_mailbox_is_the_address_given_or_the_one_in_the_directory(pool: Pool) -> None:
    await add_person(pool, email="ada@example.com")
    await add_delivery(pool, channel="email", lane="smtp")
    await add_delivery(pool, None, channel="email", lane="smtp", address="bob@example.com")
    await add_delivery(pool, channel="push", lane="smtp")

    taken = await take(pool, lane="smtp")

    assert [each.profile.mailbox for each in taken] == ["ada@example.com", "bob@example.com", None]
    assert not any(each.profile.suppressed for each in taken)


@pytest.mark.parametrize("address", [None, "Bob@Example.com"])
async def test_a_suppressed_mailbox_is_known_however_it_is_written(pool: Pool, address: str | None) -> None:
    await add_person(pool, email="ADA@example.com")
    await pool.execute(
        """
        insert into suppressed_addresses (address, reason, suppressed_at)
        values ('ada@example.com', 'gone', $1), ('bob@example.com', 'gone', $1)
        """,
        NOW,
    )
    await add_delivery(pool, channel="email", lane="smtp", address=address)
    await add_delivery(pool, channel="push", lane="smtp")

    assert [each.profile.suppressed for each in await take(pool, lane="smtp")] == [True, False]


async def test_a_webhook_goes_to_endpoints_and_a_push_to_phones(pool: Pool) -> None:
    phone = await add_device(pool)
    endpoint = await add_device(pool, provider="webhook", platform="webhook", secret="whsec_x")
    await add_delivery(pool)
    await add_delivery(pool, channel="webhook")

    push, webhook = await take(pool)

    assert [each.id for each in push.profile.devices] == [phone]
    assert [(each.id, each.secret) for each in webhook.profile.devices] == [(endpoint, "whsec_x")]


@pytest.mark.parametrize("channel", ["push", "email", "webhook"])
async def test_the_zone_of_the_phone_used_last_is_read_where_phones_are_not(pool: Pool, channel: str) -> None:
    used: dict[str, datetime] = {"Asia/Seoul": NOW - SECOND, "Asia/Tokyo": NOW - 2 * SECOND}
    for timezone, last_seen_at in used.items():
        await add_device(pool, timezone=timezone, last_seen_at=last_seen_at)
    newer: dict[str, Any] = {"timezone": "Europe/Berlin", "last_seen_at": NOW}
    await add_device(pool, provider="webhook", **newer)
    await add_device(pool, push_enabled=False, **newer)
    await add_device(pool, retired_at=NOW, retired_reason="gone", **newer)
    await add_delivery(pool, channel=channel)

    (taken,) = await take(pool)

    assert taken.profile.device_timezone == (None if channel == "push" else "Asia/Seoul")


async def test_a_digest_is_claimed_by_its_carrier_with_the_type_of_the_digest(pool: Pool) -> None:
    device_id = await add_device(pool)
    digest_id = await add_digest(pool, type="invoice_due", version=7, opened_at=NOW - SECOND)
    carrier = await add_carrier(pool, digest_id)

    (taken,) = await take(pool)

    assert (taken.id, taken.notification_id, taken.digest_id) == (carrier, None, digest_id)
    assert (taken.type, taken.version, taken.payload) == ("invoice_due", 7, "{}")
    assert (taken.accepted_at, taken.expires_at, taken.cancelled) == (NOW - SECOND, None, False)
    assert (taken.producer, taken.request_id, taken.collapse_key) == ("", None, None)
    assert [each.id for each in taken.profile.devices] == [device_id]


async def test_the_type_of_a_member_is_that_of_its_notification(pool: Pool) -> None:
    digest_id = await add_digest(pool, type="invoice_due", version=7)
    await add_delivery(pool, digest_id=digest_id)

    (taken,) = await take(pool)

    assert (taken.type, taken.version, taken.accepted_at) == ("new_customer", 2, NOW)


async def test_what_was_taken_back_is_known_at_the_claim(pool: Pool) -> None:
    notification_id = await add_notification(pool, cancelled_at=NOW, send_at_local=datetime(2026, 3, 2, 9))  # noqa: DTZ001
    await add_delivery(pool, notification_id=notification_id, reserved=True)

    (taken,) = await take(pool)

    assert (taken.cancelled, taken.reserved) == (True, True)
    assert taken.send_at_local == datetime(2026, 3, 2, 9)  # noqa: DTZ001 - a wall time has no zone


async def add_person(pool: Pool, *, locale: str = "tr-TR", email: str | None = None) -> None:
    await pool.execute(
        """
        insert into users (
            user_id, email, locale, timezone, gmt_offset_seconds, allowed_window, updated_at, attributes
        )
        values ('ada', $1, $2, 'Europe/Istanbul', 10800, '08:00-20:00', $3, '{"plan": "pro"}')
        """,
        email,
        locale,
        NOW,
    )
    await pool.execute(
        "insert into preferences (user_id, choices, updated_at) values ('ada', $1, $2)",
        '{"news": {"push": false}}',
        NOW,
    )
