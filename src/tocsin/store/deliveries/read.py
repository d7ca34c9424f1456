"""Reads deliveries and their failed attempts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tocsin.domain.decide import Step
from tocsin.domain.delivery.states import State
from tocsin.store.pool import Connection

_steps = msgspec.json.Decoder(list[Step])


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as it is stored."""

    id: UUID
    notification_id: UUID
    channel: str
    user_id: str | None
    address: str | None
    device_id: UUID | None
    state: State
    reason: str | None
    attempts: int
    due_at: datetime | None
    held_by: str | None
    lane: str
    digest_id: UUID | None
    decisions: list[Step]
    leased_until: datetime | None
    provider: str | None
    provider_message_id: str | None
    last_error_code: str | None
    last_error: str | None
    created_at: datetime
    settled_at: datetime | None


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt as it is stored."""

    delivery_id: UUID
    outcome: str
    code: str
    detail: str
    at: datetime


HELD_BY = """
    coalesce(
        deliveries.held_by,
        'type_unknown:' || deliveries.unknown_type,
        case when deliveries.recovering then 'recovery' end
    ) as held_by
"""
DELIVERY_COLUMNS = f"""
    deliveries.id, deliveries.notification_id, deliveries.channel, deliveries.user_id, deliveries.address,
    deliveries.device_id, deliveries.state, deliveries.reason, deliveries.attempts,
    nullif(deliveries.due_at, 'infinity') as due_at,
    {HELD_BY.strip()},
    deliveries.lane,
    deliveries.digest_id,
    decisions_of(deliveries.decisions, deliveries.decision_set, deliveries.decided_at) as decisions,
    deliveries.leased_until, deliveries.provider,
    deliveries.provider_message_id, deliveries.last_error_code, deliveries.last_error, deliveries.created_at,
    deliveries.settled_at
"""
"""The columns of a DeliveryRow."""

OF_NOTIFICATION = """
select {columns}
from deliveries
where notification_id = $1
order by id
limit $2
""".replace("{columns}", DELIVERY_COLUMNS.strip())

# By time and not by id alone: for the newest ids the planner could walk the attempts of all deliveries.
ATTEMPTS_OF = """
select newest.delivery_id, newest.outcome, newest.code, newest.detail, newest.at
from unnest($1::uuid[]) as given (id)
cross join lateral (
    select id, delivery_id, outcome, code, detail, at
    from attempts
    where delivery_id = given.id
    order by at desc, id desc
    limit $2
) as newest
order by newest.at, newest.id
"""


async def of_notification(connection: Connection, notification_id: UUID, limit: int) -> list[DeliveryRow]:
    """Read the deliveries of a notification in the order they were created."""
    return [delivery_row(row) for row in await connection.fetch(OF_NOTIFICATION, notification_id, limit)]


def delivery_row(record: Mapping[str, Any]) -> DeliveryRow:
    """Build a delivery from a record with its columns."""
    decisions = decode_steps(record["decisions"])
    return DeliveryRow(**{**record, "state": State(record["state"]), "decisions": decisions})


def decode_steps(decisions: str | None) -> list[Step]:
    """Decode the steps of decisions as they are stored."""
    return _steps.decode(decisions or "[]")


async def attempts_of(connection: Connection, delivery_ids: Sequence[UUID], limit: int) -> list[AttemptRow]:
    """Read the newest failed attempts of each delivery, at most `limit`, oldest first."""
    return [AttemptRow(**row) for row in await connection.fetch(ATTEMPTS_OF, delivery_ids, limit)]
