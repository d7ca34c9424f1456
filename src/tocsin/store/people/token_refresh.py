"""Token refresh: a device keeps its id, consent, counters and limits when its token changes.

The device's own row gets the new token. The old one moves to a retired row whose `successor` is the device.
"""

from datetime import datetime
from uuid import UUID

from tocsin.domain.ids import new_device_id
from tocsin.domain.limits import device_key
from tocsin.domain.people.devices import RetiredReason
from tocsin.store.people.sent_counts import totals
from tocsin.store.pool import Connection
from tocsin.store.secrets.sealing import NO_KEYS, DataKeys, SealedError

SUCCESSORS = """line as (
    select id, successor
    from devices
    where token_hash = $2 and user_id = $1
    union
    select next.id, next.successor
    from line
    join devices as next on next.id = line.successor and next.user_id = $1
)"""
"""The devices of user $1 that the token with hash $2 belonged to, one after the other."""

# The device that a token belongs or belonged to: the last one of its line.
CURRENT = f"""
with recursive {SUCCESSORS}
select device.*
from line
join devices as device on device.id = line.id
where line.successor is null
    and device.user_id = $1
    and device.provider <> 'webhook'
    and device.token_hash <> $3
limit 1
for update of device
"""  # noqa: S608 - made of constants

# A row that has the new token already gives it up; its hash is that of no token until it gets the old one.
RELEASE_HASH = """
update devices
set token_hash = uuid_send(id)
where token_hash = $1
returning *
"""

ASSIGN_HASH = """
update devices
set token_hash = $2,
    push_enabled = push_enabled and $3,
    sender_key = $4
where id = $1
"""

KEEP_OLD = """
insert into devices (
    id, user_id, token, token_hash, token_kind, provider, platform, push_enabled, registered_at, last_seen_at,
    sender_key, retired_at, retired_reason, successor
)
select $2, user_id, $3, $4, $5, $6, $7, push_enabled, registered_at, last_seen_at, $8, $9, $10, id
from devices
where id = $1
on conflict (id) do update
set user_id = excluded.user_id,
    token = excluded.token,
    token_hash = excluded.token_hash,
    token_kind = excluded.token_kind,
    provider = excluded.provider,
    platform = excluded.platform,
    push_enabled = excluded.push_enabled,
    notification_count = 0,
    last_sent_at = case when devices.user_id = excluded.user_id then devices.last_sent_at end,
    pruned_sent_at = case when devices.user_id = excluded.user_id then devices.pruned_sent_at end,
    sender_key = excluded.sender_key,
    push_token_hash = null,
    retired_at = excluded.retired_at,
    retired_reason = excluded.retired_reason,
    successor = excluded.successor
"""

# What both were sent until now counts for the device, and for the other one no more.
MOVE_COUNTS = """
update devices
set notification_count = case when id = $1 then $3::integer else 0 end, last_sent_at = $4
where id = any(array[$1, $2]::uuid[])
"""

# Locks the counters of both devices in the order of their keys, as everyone does who counts, to avoid
# deadlocks; those that are missing are inserted for it.
LOCK_LIMITS = """
insert into limit_counters as counters (key, window_ends_at, used)
select given.key, windows.window_ends_at, 0
from (
    select distinct window_ends_at
    from limit_counters
    where key = $2
) as windows
cross join unnest(array[$1::text, $2::text]) as given (key)
order by given.key, windows.window_ends_at
on conflict (key, window_ends_at) do update
set used = counters.used
returning counters.window_ends_at
"""

# A window that began since they were locked stays where it is, with a device that is retired.
MOVE_LIMITS = """
with moved as (
    delete from limit_counters
    where key = $2 and window_ends_at = any($3::timestamptz[])
    returning window_ends_at, used
)
update limit_counters
set used = limit_counters.used + moved.used
from moved
where limit_counters.key = $1 and limit_counters.window_ends_at = moved.window_ends_at
"""


_OF_TOKEN = ("token_hash", "token_kind", "provider", "platform", "sender_key")


async def take_over_token(
    connection: Connection,
    user_id: str,
    *,
    new: bytes,
    old: bytes,
    now: datetime,
    sender_key: str | None = None,
    data_keys: DataKeys = NO_KEYS,
) -> list[UUID]:
    """Move the new token to the person's device that had the old one; return the devices retired for it.

    Runs under the locks of a registration. An old token that is not the person's own changes nothing. A
    subscription that is not known yet was made with `sender_key`.
    """
    device = await connection.fetchrow(CURRENT, user_id, old, new)
    if device is None:
        return []
    other = await connection.fetchrow(RELEASE_HASH, new)
    same_owner = other is not None and other["user_id"] == user_id
    push_enabled = True
    if same_owner:
        push_enabled = other["push_enabled"]
        got = await totals(connection, [device["id"], other["id"]])
        await connection.execute(MOVE_COUNTS, device["id"], other["id"], *got)
        keys = device_key(device["id"]), device_key(other["id"])
        if windows := {row["window_ends_at"] for row in await connection.fetch(LOCK_LIMITS, *keys)}:
            await connection.execute(MOVE_LIMITS, *keys, list(windows))
    await connection.execute(
        ASSIGN_HASH, device["id"], new, push_enabled, other["sender_key"] if other else sender_key
    )
    retired = other["id"] if other else new_device_id()
    await connection.execute(
        KEEP_OLD,
        device["id"],
        retired,
        _moved(data_keys, device["token"], device["id"], retired),
        *(device[name] for name in _OF_TOKEN),
        now,
        RetiredReason.REPLACED,
    )
    return [other["id"]] if other else []


def _moved(keys: DataKeys, token: str, source: UUID, target: UUID) -> str:
    """Return a stored token as it is stored in another row; one that cannot be opened is left unreadable."""
    try:
        return keys.seal(keys.open(token, source, "token"), target, "token")
    except SealedError:
        # The row is retired; an app that registers the token again stores it anew.
        return token
