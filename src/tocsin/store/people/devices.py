"""Devices: registration, ownership of tokens, consent and retirement. Devices are never deleted here.

A webhook endpoint is a row of the same table, but not a device: no statement here changes one.
"""

from datetime import datetime, timedelta
from typing import assert_never
from uuid import UUID

import msgspec

from tocsin.domain.ids import DeviceId, new_device_id
from tocsin.domain.people.device_tokens import USUAL_KIND, TokenKind
from tocsin.domain.people.devices import DeviceSettings, Policy, RetiredReason, token_hash
from tocsin.store.people.endpoints.platform import (
    UsedEndpoint,
    request_deletion,
    retire_same_token,
    use_endpoint,
)
from tocsin.store.people.sent_counts import Counted, add_sent
from tocsin.store.people.token_refresh import SUCCESSORS, take_over_token
from tocsin.store.pool import Connection, Pool
from tocsin.store.rows import fetch_all
from tocsin.store.secrets.sealing import NO_KEYS, DataKeys

RATE_WINDOW = timedelta(hours=1)
LONGEST_LIST = 200


class DeviceRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """What an app sends to register a device.

    The token of a device of SNS is the ARN of its `endpoint`.
    """

    user_id: str
    token: str
    platform: str
    provider: str
    token_kind: TokenKind = USUAL_KIND
    locale: str | None = None
    timezone: str | None = None
    app_version: str | None = None
    device_model: str | None = None
    replaces_token: str | None = None
    sender_key: str | None = None
    endpoint: UsedEndpoint | None = None

    def __repr__(self) -> str:
        """Show the owner and the provider, not the tokens."""
        return f"DeviceRegistration(user_id={self.user_id!r}, provider={self.provider!r})"


class DeviceRow(Counted, frozen=True, kw_only=True):
    """A stored device without its token."""

    provider: str
    platform: str
    token_hash: bytes
    token_kind: TokenKind
    locale: str | None
    timezone: str | None
    app_version: str | None
    device_model: str | None
    push_enabled: bool
    registered_at: datetime
    last_seen_at: datetime
    stale_at: datetime | None
    retired_at: datetime | None
    retired_reason: str | None


class Registered(msgspec.Struct, frozen=True):
    """The device was registered; `retired` are the devices that the policy retired for it."""

    device: DeviceRow
    retired: tuple[UUID, ...]


class RateLimited(msgspec.Struct, frozen=True):
    """The person registered devices too often and can do so again at `again_at`."""

    again_at: datetime


class NoDevice(msgspec.Struct, frozen=True):
    """The token belongs to a webhook endpoint and cannot be registered as a device."""


class BeingDeleted(msgspec.Struct, frozen=True):
    """The endpoint is being deleted at this moment; the app can register again shortly."""


RegistrationResult = Registered | RateLimited | NoDevice | BeingDeleted


_COLUMNS = ", ".join(DeviceRow.__struct_fields__)

# Serializes the registrations of one person, so that the policy counts all of them.
LOCK_OWNER = "select pg_advisory_xact_lock(hashtextextended('devices of ' || $1::text, 0))"

# Serializes the registrations that name a token, in one order to avoid deadlocks: after a refresh another row
# has it.
LOCK_TOKENS = """
select pg_advisory_xact_lock(hashtextextended(encode(hash, 'hex'), 0))
from (select hash from unnest($1::bytea[]) as given (hash) order by hash) as ordered
"""

COUNT_REGISTRATION = """
insert into registration_rates as rate (user_id, window_started_at, registrations)
values ($1, $2, 1)
on conflict (user_id) do update
set window_started_at = case when rate.window_started_at <= $3 then $2 else rate.window_started_at end,
    registrations = case when rate.window_started_at <= $3 then 1 else rate.registrations + 1 end
returning window_started_at, registrations
"""

# Lock every row that this transaction may change, in id order as a settlement does, to avoid deadlocks: those
# of the tokens, the owner's active devices, and the one to which the successors of a replaced token lead. SNS
# has the tokens of its devices, of which there is a hash.
LOCK_DEVICES = f"""
with recursive {SUCCESSORS}
select id
from devices
where id in (
    select id from devices where token_hash = any($3::bytea[])
    union
    select id from devices where push_token_hash = any($3::bytea[])
    union
    select id from devices where user_id = $1 and retired_at is null
    union
    select id from line
)
order by id
for update
"""  # noqa: S608 - made of constants

# For a new owner consent, counters, locale and time zone are reset. A replaced token that is registered again
# has the consent of the device that it belonged to. A subscription stays bound to the key it was made with.
REGISTER = """
insert into devices as device (
    id, token_hash, registered_at, last_seen_at, user_id, token, platform, provider, token_kind, locale,
    timezone, app_version, device_model, sender_key, push_token_hash
)
values ($1, $2, $3, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
on conflict (token_hash) do update
set user_id = excluded.user_id,
    provider = excluded.provider,
    platform = excluded.platform,
    token = excluded.token,
    token_kind = excluded.token_kind,
    push_token_hash = excluded.push_token_hash,
    locale = case when device.user_id = excluded.user_id
        then coalesce(excluded.locale, device.locale) else excluded.locale end,
    timezone = case when device.user_id = excluded.user_id
        then coalesce(excluded.timezone, device.timezone) else excluded.timezone end,
    app_version = coalesce(excluded.app_version, device.app_version),
    device_model = coalesce(excluded.device_model, device.device_model),
    push_enabled = device.user_id <> excluded.user_id or (
        device.push_enabled and coalesce((
            select current.push_enabled
            from devices as current
            where current.id = device.successor and current.user_id = device.user_id
        ), true)
    ),
    notification_count = case when device.user_id = excluded.user_id
        then device.notification_count else 0 end,
    last_sent_at = case when device.user_id = excluded.user_id then device.last_sent_at end,
    pruned_sent_at = case when device.user_id = excluded.user_id then device.pruned_sent_at end,
    registered_at = case when device.user_id = excluded.user_id
        then device.registered_at else excluded.registered_at end,
    last_seen_at = greatest(device.last_seen_at, excluded.last_seen_at),
    stale_at = null,
    retired_at = null,
    retired_reason = null,
    successor = null
returning {columns}
""".replace("{columns}", _COLUMNS)

# In the order of the parameters of REGISTER.
_APART = {"replaces_token", "endpoint"}
_REGISTERED = [name for name in DeviceRegistration.__struct_fields__ if name not in _APART]

FIND_ID = """
select id
from devices
where token_hash = $1
"""

IS_ENDPOINT = """
select true
from devices
where token_hash = $1 and provider = 'webhook'
"""

# The policy allows a number of other devices, counted on one platform or on all.
RETIRE_SURPLUS = """
update devices
set retired_at = $3, retired_reason = $4
where id in (
    select id
    from devices
    where user_id = $1
        and retired_at is null
        and id <> $2
        and provider <> 'webhook'
        and ($6::text is null or platform = $6)
    order by last_seen_at desc, id desc
    offset $5
)
returning id
"""

# In the order of the index devices_of_user, so that no more is read than is listed.
OF_USER = """
select {columns}
from devices
where user_id = $1 and provider <> 'webhook'
order by retired_at desc nulls first, last_seen_at desc, id desc
limit $2
""".replace("{columns}", _COLUMNS)

ACTIVE_OF_USER = OF_USER.replace("where", "where retired_at is null and")

# The app of a device of SNS knows its own token, the ARN of the endpoint, or both.
UNREGISTER = (
    """
with retired as (
    update devices
    set retired_at = coalesce(retired_at, $4), retired_reason = coalesce(retired_reason, $5)
    where user_id = $1
        and (token_hash = $2 or push_token_hash = $2 or id = $3)
        and provider <> 'webhook'
    returning {columns}, token, push_token_hash
), deletions as ({deletions})
select {names}
from retired
""".replace("{columns}", _COLUMNS)
    .replace("{names}", ", ".join(DeviceRow.__struct_fields__))
    .replace("{deletions}", request_deletion("retired", "$4"))
)

# `retired_at is null` would make the index of last_seen_at eligible: a plan made on an empty table used
# it and read all active devices for one.
SET_CONSENT = """
update devices
set push_enabled = $3
where user_id = $1 and id = $2 and coalesce(retired_at, 'infinity') = 'infinity' and provider <> 'webhook'
returning {columns}
""".replace("{columns}", _COLUMNS)


async def register(
    pool: Pool,
    registration: DeviceRegistration,
    settings: DeviceSettings,
    now: datetime,
    keys: DataKeys = NO_KEYS,
    *,
    is_counted: bool = False,
) -> RegistrationResult:
    """Register a device; move a known token to this owner and retire the devices that the policy excludes.

    A device whose token is replaced keeps its row. `is_counted` if the registration was counted before.
    """
    async with pool.acquire() as connection:
        async with connection.transaction():
            await connection.execute(LOCK_OWNER, registration.user_id)
            if not is_counted and (
                limited := await count_registration(connection, registration.user_id, settings, now)
            ):
                return limited
            result = await _store(connection, registration, settings, now, keys)
        # The locks are released now: others do not wait until the counts are read.
        if isinstance(result, Registered):
            (device,) = await add_sent(connection, [result.device])
            result = Registered(device, result.retired)
    return result


async def of_user(connection: Connection | Pool, user_id: str, *, include_retired: bool) -> list[DeviceRow]:
    """List a person's devices: active ones, then those retired last, each by when they were last seen."""
    statement = OF_USER if include_retired else ACTIVE_OF_USER
    return await add_sent(
        connection, await fetch_all(connection, DeviceRow, statement, user_id, LONGEST_LIST)
    )


async def unregister(
    connection: Connection | Pool,
    user_id: str,
    *,
    token: str | None = None,
    device_id: UUID | None = None,
    now: datetime,
) -> DeviceRow | None:
    """Retire a person's own device by token or id; one that is already retired is not changed."""
    digest = token_hash(token) if token else None
    reason = RetiredReason.UNREGISTERED
    rows = await fetch_all(connection, DeviceRow, UNREGISTER, user_id, digest, device_id, now, reason)
    return next(iter(await add_sent(connection, rows[:1])), None)


async def set_consent(
    connection: Connection | Pool, user_id: str, device_id: UUID, *, push_enabled: bool
) -> DeviceRow | None:
    """Set whether one of a person's active devices receives pushes."""
    rows = await fetch_all(connection, DeviceRow, SET_CONSENT, user_id, device_id, push_enabled)
    return next(iter(await add_sent(connection, rows)), None)


async def count_registration(
    connection: Connection | Pool, user_id: str, settings: DeviceSettings, now: datetime
) -> RateLimited | None:
    """Count a registration; return RateLimited if the person registered devices too often."""
    rate = await connection.fetchrow(COUNT_REGISTRATION, user_id, now, now - RATE_WINDOW)
    if rate["registrations"] <= settings.registrations_per_hour:
        return None
    return RateLimited(rate["window_started_at"] + RATE_WINDOW)


async def _store(
    connection: Connection,
    registration: DeviceRegistration,
    settings: DeviceSettings,
    now: datetime,
    keys: DataKeys,
) -> RegistrationResult:
    """Store a registration under the lock of its owner; what was sent to the device is not counted."""
    user_id = registration.user_id
    digest = token_hash(registration.token)
    replaced = token_hash(registration.replaces_token) if registration.replaces_token else None
    endpoint = registration.endpoint
    former = token_hash(endpoint.former) if endpoint and endpoint.former else None
    push_token_hash = endpoint.push_token_hash if endpoint else None
    tokens = [each for each in (digest, replaced, former, push_token_hash) if each]
    await connection.execute(LOCK_TOKENS, tokens)
    await connection.execute(LOCK_DEVICES, user_id, replaced, tokens)
    if await connection.fetchval(IS_ENDPOINT, digest):
        return NoDevice()
    if endpoint and not await use_endpoint(connection, user_id, digest, endpoint, now):
        return BeingDeleted()
    retired = []
    if replaced:
        retired += await take_over_token(
            connection,
            user_id,
            new=digest,
            old=replaced,
            now=now,
            sender_key=registration.sender_key,
            data_keys=keys,
        )
    # A token is sealed for its row, which may exist.
    known = await connection.fetchval(FIND_ID, digest) if keys.current_id else None
    row_id = known or new_device_id()
    sealed = msgspec.structs.replace(registration, token=keys.seal(registration.token, row_id, "token"))
    registered = [getattr(sealed, name) for name in _REGISTERED]
    row = await connection.fetchrow(REGISTER, row_id, digest, now, *registered, push_token_hash)
    device = DeviceRow(**row)
    retired += await retire_same_token(
        connection, device.id, push_token_hash or digest, now, RetiredReason.REPLACED
    )
    retired += await _apply_policy(connection, registration, DeviceId(device.id), settings, now)
    return Registered(device, tuple(retired))


async def _apply_policy(
    connection: Connection,
    registration: DeviceRegistration,
    device_id: DeviceId,
    settings: DeviceSettings,
    now: datetime,
) -> list[UUID]:
    policy: Policy = settings.policy
    match policy:
        case "many":
            reason, others, platform = RetiredReason.SURPLUS, settings.max_active - 1, None
        case "one_per_platform":
            reason, others, platform = RetiredReason.SAME_PLATFORM, 0, registration.platform
        case _:
            assert_never(policy)
    rows = await connection.fetch(
        RETIRE_SURPLUS, registration.user_id, device_id, now, reason, others, platform
    )
    return [row["id"] for row in rows]
