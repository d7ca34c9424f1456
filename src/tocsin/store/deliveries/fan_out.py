"""One push to several devices: a delivery for each."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.ids import DeliveryId, LeaseId
from tocsin.store.pool import Connection


class FannedOut(msgspec.Struct, frozen=True):
    """A device of a push that has no device yet; the first of them keeps the delivery itself."""

    delivery_id: UUID
    device_id: UUID
    sibling_id: DeliveryId | None


# The delivery is given its first device in the same statement that makes its siblings, so that a worker
# that takes over after a crash does not fan out again. Siblings are born under the same lease.
FAN_OUT = """
with given as materialized (
    select *
    from unnest($1::uuid[], $2::uuid[], $3::uuid[]) as given (delivery_id, device_id, sibling_id)
),
settled_on as (
    update deliveries as d
    set device_id = given.device_id
    from given
    where d.id = given.delivery_id
        and given.sibling_id is null
        and d.lease = $4
        and d.device_id is null
    returning
        d.id, d.notification_id, d.channel, d.user_id, d.state, d.due_at, d.lease, d.leased_until,
        d.ordering_key, d.collapse_key, d.digest_key
)
insert into deliveries (
    id, notification_id, channel, user_id, device_id, state, due_at, lease, leased_until, ordering_key,
    collapse_key, digest_key, digest_id, reserved, created_at
)
select
    given.sibling_id, s.notification_id, s.channel, s.user_id, given.device_id, s.state, s.due_at, s.lease,
    s.leased_until, s.ordering_key, s.collapse_key, s.digest_key,
    case when s.digest_key is not null then s.id end, true, $5
from settled_on as s
join given on given.delivery_id = s.id and given.sibling_id is not null
returning id
"""


async def fan_out(
    connection: Connection, devices: Sequence[FannedOut], lease: LeaseId, now: datetime
) -> set[UUID]:
    """Make the siblings and name them; of a delivery whose lease was lost there are none."""
    rows = await connection.fetch(
        FAN_OUT,
        [each.delivery_id for each in devices],
        [each.device_id for each in devices],
        [each.sibling_id for each in devices],
        lease,
        now,
    )
    return {row[0] for row in rows}
