"""Settlements of one delivery."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.rows import NOW, add_delivery, add_device, take
from tocsin.domain.delivery.states import State
from tocsin.domain.ids import LeaseId, new_lease_id
from tocsin.store.deliveries.settle import (
    SentDelivery,
    UnsentDelivery,
)
from tocsin.store.pool import Pool

SECOND = timedelta(seconds=1)
LATER = NOW + 5 * SECOND


def sent(delivery_id: UUID, lease: LeaseId, message_id: str = "m") -> SentDelivery:
    return SentDelivery(id=delivery_id, lease=lease, provider="fcm", message_id=message_id)


def unsent(delivery_id: UUID, lease: LeaseId, **changes: Any) -> UnsentDelivery:
    fields: dict[str, Any] = {
        "id": delivery_id,
        "lease": lease,
        "state": State.RETRYING,
        "reason": None,
        "spent": 1,
        "due_at": NOW + 60 * SECOND,
        "provider": "fcm",
        "outcome": "retry",
        "code": "UNAVAILABLE",
        "detail": "busy",
        "retire": None,
        "tried_at": NOW,
    }
    return UnsentDelivery(**fields | changes)


def gone(delivery_id: UUID, lease: LeaseId, **changes: Any) -> UnsentDelivery:
    final: dict[str, Any] = {"state": State.GONE, "due_at": None, "outcome": "gone", "retire": "gone: X"}
    return unsent(delivery_id, lease, **final | changes)


async def claimed(pool: Pool, **changes: Any) -> tuple[UUID, LeaseId, UUID]:
    """Give a claimed delivery, its lease and its device."""
    device_id = await add_device(pool)
    made = await add_delivery(pool, device_id=device_id, **changes)
    lease = new_lease_id()
    assert [taken.id for taken in await take(pool, lease=lease)] == [made]
    return made, lease, device_id
