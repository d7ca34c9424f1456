"""Examples that are hard to lay out: very long names, other scripts, and texts from right to left."""

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from tests.rows import add_delivery, add_device, add_notification, add_user
from tocsin.domain.ids import first_id_at
from tocsin.store.health.provider_health import Alarm, raise_alarms
from tocsin.store.people.suppressions import suppress
from tocsin.store.pool import Pool

UNBROKEN = "x" * 60 + "https://example.org/" + "very-long-path/" * 6
PERSIAN = (
    "\u0645\u0634\u062a\u0631\u06cc \u062c\u062f\u06cc\u062f \u062b\u0628\u062a "
    "\u0646\u0627\u0645 \u06a9\u0631\u062f"
)
STRANGER = "user-" + "0123456789abcdef" * 7
LONG_MAIL = "a-very-long-name-of-a-mailbox-indeed@" + "sub.domain." * 8 + "example.org"


async def fill_hostile(pool: Pool, now: datetime) -> None:
    """Store the examples, as of a moment."""
    await add_user(pool, STRANGER, timezone="Asia/Tehran", email=LONG_MAIL, locale="fa")
    await add_device(pool, STRANGER, device_model=UNBROKEN[:100], app_version="9" * 40, last_seen_at=now)
    notification_id = await add_notification(
        pool,
        id=UUID(int=first_id_at(now + timedelta(seconds=1)).int | 9_999),
        accepted_at=now,
        producer="producer-" + "p" * 80,
        idempotency_key=UNBROKEN[:190],
        locale="fa",
        payload=msgspec.json.encode({"customer_name": f"{PERSIAN} {UNBROKEN} " * 4}).decode(),
        audience=msgspec.json.encode({"users": [STRANGER]}).decode(),
        expires_at=now + timedelta(days=1),
    )
    for state, error in (("dead", UNBROKEN), ("rejected", PERSIAN * 6)):
        await add_delivery(
            pool,
            STRANGER,
            notification_id=notification_id,
            state=state,
            provider="fcm",
            attempts=3,
            settled_at=now,
            created_at=now,
            last_error=error,
            last_error_code="C" * 90,
        )
    await suppress(pool, LONG_MAIL, reason="hard_bounce", now=now, detail=UNBROKEN * 2)
    async with pool.acquire() as connection:
        await raise_alarms(connection, {Alarm("fcm", "C" * 90, UNBROKEN * 3): 3}, now)
