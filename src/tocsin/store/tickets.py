"""Tickets: sent messages whose provider has a receipt for them later."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tocsin.domain.catalog import Channel
from tocsin.domain.ids import LeaseId
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_all


class Ticket(NamedTuple):
    """A sent message whose receipt is due."""

    delivery_id: UUID
    message_id: str
    sent_at: datetime
    type: str
    version: int
    channel: Channel
    attempts: int
    device_id: UUID | None
    digest_id: UUID | None


TAKE = """
with taken as (
    update tickets
    set lease = $3, leased_until = $4
    where delivery_id in (
        select delivery_id
        from tickets
        where provider = $1 and ask_at <= $2 and (leased_until is null or leased_until <= $2)
        order by provider, ask_at
        limit $5
        for update skip locked
    )
    returning delivery_id, message_id, sent_at
)
select
    taken.delivery_id, taken.message_id, taken.sent_at, coalesce(n.type, digests.type) as type,
    coalesce(n.version, digests.version) as version, d.channel, d.attempts, d.device_id, d.digest_id
from taken
join deliveries as d on d.id = taken.delivery_id
left join notifications as n on n.id = d.notification_id
left join digests on d.notification_id is null and digests.id = d.digest_id
order by taken.sent_at, taken.delivery_id
"""

ASK_AGAIN = """
update tickets
set ask_at = $3, lease = null, leased_until = null
where delivery_id = any($1::uuid[]) and lease = $2
"""

# A receipt is for one message: it does not apply to a delivery that was sent again since.
CONFIRM = """
with confirmed as (
    delete from tickets
    where delivery_id = any($1::uuid[]) and lease = $2
    returning delivery_id, message_id
)
update deliveries as d
set state = 'delivered'
from confirmed
where d.id = confirmed.delivery_id and d.state = 'sent' and d.provider_message_id = confirmed.message_id
"""

DROP = """
delete from tickets
where delivery_id = any($1::uuid[]) and lease = $2
"""

# A delivery whose receipt reports a failure is leased again, as after a claim, and settled like any attempt.
# The attempt was counted when it was sent. Only what was sent has its decisions in a set.
REOPEN = """
with refused as (
    delete from tickets
    where delivery_id = any($1::uuid[]) and lease = $2
    returning delivery_id, message_id
)
update deliveries as d
set state = 'retrying', attempts = d.attempts - 1, lease = $2, leased_until = $3, alone = false,
    settled_at = null, decisions = decisions_of(d.decisions, d.decision_set, d.decided_at),
    decision_set = null, decided_at = null
from refused
where d.id = refused.delivery_id and d.state = 'sent' and d.provider_message_id = refused.message_id
returning d.id
"""


async def take_tickets(
    connection: Connection, provider: str, *, lease: LeaseId, now: datetime, until: datetime, limit: int
) -> list[Ticket]:
    """Claim tickets whose receipt is due."""
    return await fetch_all(connection, Ticket, TAKE, provider, now, lease, until, limit)


async def ask_again(
    connection: Connection, delivery_ids: Sequence[UUID], lease: LeaseId, at: datetime
) -> None:
    """Release tickets until a later time."""
    await connection.execute(ASK_AGAIN, delivery_ids, lease, at)


async def confirm(connection: Connection, delivery_ids: Sequence[UUID], lease: LeaseId) -> None:
    """Mark deliveries as delivered and delete their tickets."""
    await connection.execute(CONFIRM, delivery_ids, lease)


async def drop_tickets(connection: Connection, delivery_ids: Sequence[UUID], lease: LeaseId) -> None:
    """Delete tickets."""
    await connection.execute(DROP, delivery_ids, lease)


async def reopen(
    connection: Connection, delivery_ids: Sequence[UUID], lease: LeaseId, until: datetime
) -> set[UUID]:
    """Reopen sent deliveries under this lease, to be settled again; return their ids."""
    return {row["id"] for row in await connection.fetch(REOPEN, delivery_ids, lease, until)}
