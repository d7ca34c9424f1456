"""Deliveries whose device is gone: each goes to the device that followed it, if there is one.

That is the device itself if it registered again, the successor named by its row, or else a device of the same
person and platform that registered since. None of them may have the same message already.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import msgspec

from tocsin.domain.delivery.reasons import Reason
from tocsin.domain.delivery.states import WAITING, State
from tocsin.store.deliveries.settle import UnsentDelivery
from tocsin.store.people.devices import LOCK_OWNER
from tocsin.store.pool import Connection

_ANY_TIME = datetime(1, 1, 1, tzinfo=UTC)

# Scalar subqueries with limits, so that the planner looks up each by its index.
_HEIR = """
    select devices.id, devices.provider
    from devices
    where devices.user_id = d.user_id
        and devices.retired_at is null
        and devices.push_enabled
        and devices.provider <> 'webhook'
        and devices.id <> lost.id
        and (
            devices.id = lost.successor
            or (devices.platform = lost.platform and devices.last_seen_at >= d.created_at)
        )
        and (
            select true
            from deliveries as other
            where other.notification_id = d.notification_id
                and other.channel = 'push'
                and other.device_id = devices.id
            limit 1
        ) is null
        and (
            select true
            from deliveries as other
            where d.notification_id is null
                and other.notification_id is null
                and other.digest_id = d.digest_id
                and other.device_id = devices.id
            limit 1
        ) is null
    order by devices.id is not distinct from lost.successor desc, devices.last_seen_at desc
    limit 1
"""

FIND = f"""
select d.id, d.state, d.user_id
from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[]) as given (id, lease, device_id, gone_since)
join deliveries as d on d.id = given.id and d.lease = given.lease
join devices as lost on lost.id = coalesce(d.device_id, given.device_id)
left join lateral ({_HEIR}) as heir on true
where d.channel = 'push'
    and case
        when lost.user_id = d.user_id and lost.retired_at is null and lost.last_seen_at > given.gone_since
            then lost.push_enabled
        -- Consent that was withdrawn is not undone by another device.
        else heir.id is not null and (lost.push_enabled or lost.user_id <> d.user_id)
    end
"""  # noqa: S608 - made of constants

# Two deliveries of one message never go to the same device.
REASSIGN = f"""
with heirs as materialized (
    select distinct on (coalesce(d.notification_id, d.digest_id), heir.id)
        d.id, heir.id as device_id, heir.provider
    from deliveries as d
    join devices as lost on lost.id = d.device_id
    cross join lateral ({_HEIR}) as heir
    where d.id = any($1::uuid[])
        and d.state = any($2::text[])
        and d.leased_until is null
        and (lost.retired_at is not null or lost.user_id <> d.user_id)
    order by coalesce(d.notification_id, d.digest_id), heir.id, d.id
)
update deliveries as d
set device_id = heirs.device_id,
    lane = heirs.provider,
    decisions = coalesce(d.decisions, '[]') || jsonb_build_array(
        jsonb_build_object(
            'rule', 'device', 'result', 'pass', 'at', $3::timestamptz,
            'detail', 'its device was retired: it goes to the one that followed, ' || heirs.device_id
        )
    )
from heirs
where d.id = heirs.id and d.leased_until is null
returning d.id
"""  # noqa: S608 - made of constants


OWNERS = """
select distinct user_id
from deliveries
where id = any($1::uuid[]) and user_id is not null
order by user_id
"""


async def find_followed(
    connection: Connection, unsent: Sequence[UnsentDelivery]
) -> dict[UUID, UnsentDelivery]:
    """Return settlements, by id, that wait for another device instead of ending with the one that is gone."""
    ended = {each.id: each for each in unsent if _has_lost_device(each)}
    if not ended:
        return {}
    rows = await connection.fetch(
        FIND,
        list(ended),
        [each.lease for each in ended.values()],
        [each.device_id for each in ended.values()],
        [_gone_since(each) for each in ended.values()],
    )
    return {row["id"]: _waiting(ended[row["id"]], State(row["state"])) for row in rows}


async def reassign(connection: Connection, delivery_ids: Sequence[UUID], now: datetime) -> None:
    """Assign waiting deliveries whose device is gone to the devices that followed."""
    async with connection.transaction():
        for row in await connection.fetch(OWNERS, delivery_ids):
            await connection.execute(LOCK_OWNER, row["user_id"])
        # Each round sees what the round before assigned.
        while await connection.fetch(REASSIGN, delivery_ids, WAITING, now):
            pass


def _has_lost_device(unsent: UnsentDelivery) -> bool:
    return unsent.state is State.GONE or unsent.reason == Reason.DEVICE_LOST


def _gone_since(unsent: UnsentDelivery) -> datetime:
    return (unsent.gone_since or unsent.tried_at) if unsent.state is State.GONE else _ANY_TIME


def _waiting(unsent: UnsentDelivery, state: State) -> UnsentDelivery:
    """Return the settlement of a delivery that is due again; one that was tried records the attempt."""
    if unsent.state is State.GONE:
        return msgspec.structs.replace(unsent, state=State.RETRYING, due_at=unsent.tried_at)
    return msgspec.structs.replace(unsent, state=state, reason=None, due_at=unsent.tried_at, decisions=None)
