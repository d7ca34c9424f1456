"""A dashboard with something to show: people, devices, notifications of every fate, an alarm."""

import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from tests.edges.edge import listening, services
from tests.rows import add_delivery, add_device, add_notification, add_outcomes, add_user
from tocsin.api.app import create_app
from tocsin.api.auth.api_keys import create_key
from tocsin.api.auth.roles import Role
from tocsin.domain.delivery.latency import bucket_of
from tocsin.domain.ids import first_id_at
from tocsin.domain.limits import LimitsSettings
from tocsin.engine.clock import utc_now
from tocsin.engine.health.provider_health import ProviderInUse
from tocsin.store import receipts
from tocsin.store.health.provider_health import Alarm, Counted, raise_alarms
from tocsin.store.pool import Pool
from tocsin.store.receipts import CountedType

PROVIDERS = (
    ProviderInUse(name="fcm", channel="push", rate=600),
    ProviderInUse(name="apns", channel="push"),
    ProviderInUse(name="smtp", channel="email", rate=50),
)
MOST_A_DAY = 20
ADD_ATTEMPT = """
insert into attempts (delivery_id, at, outcome, code, detail)
values ($1, $2, 'retry', 'UNAVAILABLE', '503: The service is currently unavailable.')
"""
ADD_LATENCY = "insert into latency_counts values (date_trunc('minute', $1::timestamptz), $2, $3, $4)"
ADD_RECEIPT = """
insert into receipts (delivery_id, received_at, delivered_at, opened_at)
values ($1, $2, $2, $2::timestamptz + interval '41 seconds')
"""
PEOPLE = {
    "ada": "Europe/London",
    "grace": "America/New_York",
    "sara": "Asia/Tehran",
    "linus": "Europe/Helsinki",
}


class Console(msgspec.Struct, frozen=True):
    """A running dashboard, and a key of each role that may sign in."""

    url: str
    pool: Pool
    keys: dict[Role, str]


@asynccontextmanager
async def running_console(pool: Pool, **changes: Any) -> AsyncIterator[Console]:
    """Serve a dashboard on a database with examples in it, with a limit for each person.

    `changes` are those of its services.
    """
    await fill(pool, utc_now())
    keys = {
        role: (await create_key(pool, "operations", role, utc_now())).secret
        for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
    }
    parts = services(pool, providers=PROVIDERS, **changes)
    rules = msgspec.structs.replace(
        parts.explainer.rules, limits=LimitsSettings(per_person_per_day=MOST_A_DAY)
    )
    explainer = msgspec.structs.replace(parts.explainer, rules=rules)
    async with listening(create_app(msgspec.structs.replace(parts, explainer=explainer))) as url:
        yield Console(url, pool, keys)


async def fill(pool: Pool, now: datetime) -> None:
    """Store the examples, as of a moment."""
    for user_id, zone in PEOPLE.items():
        await add_user(pool, user_id, timezone=zone, email=f"{user_id}@example.org", locale="en")
        await add_device(pool, user_id, device_model="Pixel 9", app_version="4.2.0", last_seen_at=now)
    await add_device(pool, "ada", provider="apns", platform="ios", device_model="iPhone 17", last_seen_at=now)
    await _add_fates(pool, now)
    await _add_counts(pool, now)
    await _add_rates(pool, now)


async def _add_fates(pool: Pool, now: datetime) -> None:
    fates: list[dict[str, Any]] = [
        {
            "state": "sent",
            "provider": "fcm",
            "provider_message_id": "projects/demo/messages/0:1700",
            "attempts": 1,
        },
        {
            "state": "delivered",
            "provider": "fcm",
            "provider_message_id": "projects/demo/messages/0:1701",
            "attempts": 2,
        },
        {"state": "skipped", "reason": "opted_out"},
        {
            "state": "retrying",
            "provider": "fcm",
            "last_error_code": "UNAVAILABLE",
            "last_error": "busy",
            "attempts": 2,
        },
        {
            "state": "dead",
            "provider": "fcm",
            "last_error_code": "UNAVAILABLE",
            "last_error": "503: try later",
            "attempts": 8,
        },
        {
            "state": "gone",
            "provider": "fcm",
            "last_error_code": "UNREGISTERED",
            "last_error": "no such token",
            "attempts": 1,
        },
        {
            "state": "rejected",
            "provider": "apns",
            "lane": "apns",
            "last_error_code": "PayloadTooLarge",
            "attempts": 1,
        },
        {"state": "pending", "lane": "smtp", "channel": "email"},
        {"state": "scheduled", "due_at": now + timedelta(hours=3)},
    ]
    for number in range(45):
        at = now - timedelta(minutes=3 * number)
        fate = fates[number * 7 % len(fates)]
        user_id = list(PEOPLE)[number % len(PEOPLE)]
        waits = fate["state"] in {"pending", "scheduled", "retrying"}
        notification_id = await add_notification(
            pool,
            id=_id_at(at, number),
            accepted_at=at,
            producer="shop" if number % 3 else "billing",
            idempotency_key=f"order-{1000 + number}",
            expires_at=at + timedelta(days=1),
            payload=msgspec.json.encode({"customer_name": "Grace Hopper"}).decode(),
            audience=msgspec.json.encode({"users": [user_id]}).decode(),
        )
        delivery_id = await add_delivery(
            pool,
            user_id,
            **{
                "notification_id": notification_id,
                "created_at": at,
                "due_at": at,
                "settled_at": None if waits else at + timedelta(seconds=1),
                "decisions": msgspec.json.encode(_decisions(at)).decode(),
                **fate,
            },
        )
        if fate["state"] == "delivered":
            await pool.execute(ADD_RECEIPT, delivery_id, at + timedelta(seconds=3))
        if fate["state"] in {"dead", "retrying", "delivered"}:
            for attempt in range(1 if fate["state"] == "delivered" else 2):
                await pool.execute(
                    ADD_ATTEMPT,
                    delivery_id,
                    at + timedelta(seconds=attempt),
                )


def _decisions(at: datetime) -> list[dict[str, Any]]:
    passed = {"preference": "no choice of the person: wanted", "quiet_hours": "14:05 there, open 08:00-22:00"}
    return [{"rule": rule, "result": "pass", "detail": detail, "at": at} for rule, detail in passed.items()]


async def _add_counts(pool: Pool, now: datetime) -> None:
    shuffled = random.Random(7)  # noqa: S311 - examples
    async with pool.acquire() as connection:
        for minute in range(61):
            at = now - timedelta(minutes=minute)
            sent = 420 + shuffled.randint(-60, 60)
            failed = shuffled.randint(0, 12) + (180 if 20 <= minute < 27 else 0)
            counts = {
                Counted("fcm", "sent", ""): sent - (200 if 20 <= minute < 27 else 0),
                Counted("apns", "sent", ""): sent // 3,
                Counted("fcm", "retry", "UNAVAILABLE"): failed,
            }
            await add_outcomes(connection, counts, at)
            await connection.executemany(
                "insert into activity_counts values (date_trunc('minute', $1::timestamptz), $2, $3)",
                [(at, "accepted", int(sent * 1.4)), (at, "skipped", shuffled.randint(10, 40))],
            )
            await connection.executemany(ADD_LATENCY, _latencies(at, shuffled, slow=20 <= minute < 27))
        detail = "535 5.7.8: the server refused the user name and password"
        await raise_alarms(connection, {Alarm("smtp", "credentials_refused", detail): 12}, now)


async def _add_rates(pool: Pool, now: datetime) -> None:
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    counts = {"sent": 12_400, "delivered": 11_160, "opened": 3_348, "dismissed": 620}
    async with pool.acquire() as connection:
        for kind in ("new_customer", "invoice_due"):
            await receipts.count(
                connection,
                {CountedType(day, kind, "push", event): count for event, count in counts.items()},
            )


def _latencies(at: datetime, shuffled: random.Random, *, slow: bool) -> list[tuple[datetime, str, int, int]]:
    """Return a histogram of a minute: a few milliseconds, with some that are retried in an outage."""
    times = Counter(
        bucket_of(timedelta(milliseconds=shuffled.lognormvariate(2.6 if each % 20 else 5, 0.5)))
        for each in range(400)
    )
    if slow:
        times.update(bucket_of(timedelta(seconds=shuffled.uniform(4, 40))) for _ in range(90))
    return [(at, measure, *each) for measure in ("accepted", "due") for each in times.items()]


def _id_at(at: datetime, number: int) -> UUID:
    """Return the id of a notification accepted at a moment."""
    return UUID(int=first_id_at(at).int | (number + 1))
