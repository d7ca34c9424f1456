"""What claimed deliveries depend on besides their recipient: earlier and newer ones, fallbacks, deferrals."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tocsin.store.pool import Connection


class NewerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The newest due message with the same collapse key."""

    version: int
    accepted_at: datetime
    expires_at: datetime | None = None
    send_at_local: datetime | None = None


class FailedChannel(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the channel that a fallback stands in for was sent, and when its first attempt is due."""

    confirmed: bool
    awaited_at: datetime | None = None


class Deferral(msgspec.Struct, frozen=True, kw_only=True):
    """Since when a delivery is deferred with the code of its last attempt."""

    code: str
    since: datetime


# A delivery that waits blocks those after it in its ordering group while it is due or retried; not while it
# is scheduled for later, recovers, has an unknown type, or is held by anything but the group or its host.
IS_ORDER_BLOCKER = """
    earlier.state in ('scheduled', 'pending', 'retrying')
    and (earlier.state <> 'scheduled' or earlier.due_at <= $2 or earlier.held_by is not null)
    and (earlier.held_by is null or earlier.held_by = 'order' or earlier.held_by like 'host:%')
    and not earlier.recovering
    and earlier.unknown_type is null
"""

# What some deliveries depend on besides, read only for those: the digest they carry, the devices that earlier
# ones of their ordering group wait for, the channel they are the fallback for, a newer message with their
# collapse key, and of those that are not tried for the first time, their deferrals and whether their fallback
# was sent. It is a statement of its own because every part of a claim is planned again with each claim.
CONTEXT = f"""
select
    claimed.id,
    digests.type,
    digests.version,
    digests.opened_at as accepted_at,
    case when claimed.ordering_key is not null then array(
        select earlier.device_id
        from deliveries as earlier
        where earlier.ordering_key = claimed.ordering_key
            and earlier.accept_order < claimed.accept_order
            and {IS_ORDER_BLOCKER}
        limit 1000
    ) else '{{}}' end as order_blockers,
    case when claimed.fallback_for is not null then (
        select json_build_object(
            'confirmed', coalesce(bool_or(first.state in ('sent', 'delivered')), false),
            'awaited_at', max(first.due_at) filter (
                where first.state = 'scheduled' and first.due_at < 'infinity'
            )
        )::text
        from (
            select deliveries.state, deliveries.due_at
            from deliveries
            where deliveries.notification_id = claimed.notification_id
                and deliveries.user_id = claimed.user_id
                and deliveries.channel = claimed.fallback_for
            limit 1000
        ) as first
    ) end as failed_channel,
    -- One that has its place within the limits, or is a fallback, is replaced only when a newer one was sent.
    case when claimed.collapse_key is not null and not claimed.reserved and claimed.fallback_for is null
    then (
        select json_build_object(
            'version', newer_notification.version,
            'accepted_at', newer_notification.accepted_at,
            'expires_at', newer_notification.expires_at,
            'send_at_local', newer_notification.send_at_local
        )::text
        from deliveries as newer
        join notifications as newer_notification on newer_notification.id = newer.notification_id
        where newer.collapse_key = claimed.collapse_key
            and newer.accept_order > claimed.accept_order
            and newer.user_id is not distinct from claimed.user_id
            and newer.address is not distinct from claimed.address
            and newer.state in ('scheduled', 'pending', 'retrying')
            and newer.due_at <= $2
            and newer_notification.cancelled_at is null
        order by newer.accept_order desc
        limit 1
    ) end as newer,
    case when claimed.state = 'retrying' then (
        select json_build_object('code', claimed.last_error_code, 'since', min(attempts.at))::text
        from attempts
        where attempts.delivery_id = claimed.id
            and attempts.outcome = 'defer'
            and attempts.code = claimed.last_error_code
        having count(*) > 0
    ) end as deferral,
    (claimed.state = 'retrying' or claimed.alone) and (
        select true
        from deliveries as fallback
        where fallback.notification_id = claimed.notification_id
            and fallback.user_id = claimed.user_id
            and fallback.fallback_for = claimed.channel
            and fallback.state in ('sent', 'delivered')
        limit 1
    ) is not null as superseded
from deliveries as claimed
left join digests on claimed.notification_id is null and digests.id = claimed.digest_id
where claimed.id = any($1::uuid[])
"""  # noqa: S608 - made of constants

# For a delivery that would be accepted last.
ORDER_BLOCKERS = f"""
select earlier.device_id
from deliveries as earlier
where earlier.ordering_key = $1
    and {IS_ORDER_BLOCKER}
limit 1000
"""  # noqa: S608 - made of constants

_OF_DIGEST = ("type", "version", "accepted_at")
_failed_channel = msgspec.json.Decoder(FailedChannel)
_newer = msgspec.json.Decoder(NewerMessage)
_deferral = msgspec.json.Decoder(Deferral)


async def read_context(
    connection: Connection, delivery_ids: Sequence[UUID], now: datetime
) -> dict[UUID, Any]:
    """Read what claimed deliveries depend on, by id."""
    return {row["id"]: row for row in await connection.fetch(CONTEXT, delivery_ids, now)}


def decode_context(row: Any, *, has_digest: bool) -> dict[str, Any]:
    """Return the fields of a claimed delivery that its context sets."""
    failed, newer, deferral = row["failed_channel"], row["newer"], row["deferral"]
    return {
        **({field: row[field] for field in _OF_DIGEST} if has_digest else {}),
        "order_blockers": row["order_blockers"],
        "failed_channel": _failed_channel.decode(failed) if failed else None,
        "newer": _newer.decode(newer) if newer else None,
        "deferral": _deferral.decode(deferral) if deferral else None,
        "superseded": row["superseded"],
    }


async def order_blockers(connection: Connection, ordering_key: str, now: datetime) -> set[UUID | None]:
    """Return the devices that deliveries of an ordering group wait for, None for one without a device."""
    return {row["device_id"] for row in await connection.fetch(ORDER_BLOCKERS, ordering_key, now)}
