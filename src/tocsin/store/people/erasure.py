"""Erasure of a person: what is known of them goes, the anonymous counts stay.

The person's own rows go in one transaction, together with the record of the erasure. Their deliveries follow
in batches: each loses what names the person and keeps its type, channel, state and times. What is being sent
at that moment keeps its recipient until it is settled; the erasure is unfinished until then and is continued.
One for an organisation leaves deliveries and refused intents of others, and of none, as they are.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tocsin.domain.delivery.states import WAITING
from tocsin.domain.ids import uuid7
from tocsin.domain.intent import normal_address
from tocsin.domain.limits import device_key
from tocsin.store.broadcasts import segments
from tocsin.store.broadcasts.broadcasts import wait_for_chunks
from tocsin.store.people.devices import LOCK_OWNER
from tocsin.store.people.endpoints.platform import request_deletion
from tocsin.store.people.suppressions import hash_address
from tocsin.store.pool import Connection
from tocsin.store.rows import fetch_one

BATCH = 1_000


class ErasureRow(msgspec.Struct, frozen=True, kw_only=True):
    """An erasure; `user_id` and `email` are those of the person until it is finished.

    Refused intents up to the id `refused_until` were read. With an `org_id`, it is for that organisation.
    """

    id: UUID
    user_id: str | None
    email: str | None
    user_hash: bytes
    requested_at: datetime
    finished_at: datetime | None
    refused_until: UUID | None
    org_id: str | None = None


_COLUMNS = ", ".join(ErasureRow.__struct_fields__)

# A second request continues the first. The address is the newest that is known: refused intents may have it.
# It is the word of whoever asks, so it never joins an erasure for another organisation, or for all.
BEGIN = """
insert into erasures as unfinished (id, user_id, email, user_hash, requested_at, leased_until, org_id)
values ($1, $2, (select email from users where user_id = $2), $3, $4, $5, $6)
on conflict (user_id) where finished_at is null do update
set email = coalesce(excluded.email, unfinished.email),
    leased_until = excluded.leased_until,
    refused_until = null
where unfinished.org_id is not distinct from excluded.org_id
returning {columns}
""".replace("{columns}", _COLUMNS)

# In id order, as a settlement locks devices, to avoid deadlocks.
LOCK_DEVICES = """
select id
from devices
where user_id = $1
order by id
for update
"""

# SNS knows whose an endpoint is: it is deleted there too.
DELETE_DEVICES = """
with erased as (
    delete from devices
    where id = any($1::uuid[])
    returning id, provider, token, token_hash, push_token_hash
)
{deletions}
""".replace("{deletions}", request_deletion("erased", "$2"))
DELETE_USER = "delete from users where user_id = $1"
DELETE_PREFERENCES = "delete from preferences where user_id = $1"
DELETE_REGISTRATIONS = "delete from registration_rates where user_id = $1"
DELETE_INBOX = "delete from inbox_items where user_id = $1 and ($2::text is null or org_id = $2)"
DELETE_COUNTERS = "delete from limit_counters where key = any($1::text[])"

# A replay for the person alone has nothing left to replay.
ERASE_REPLAYS = """
update replays
set filter = jsonb_set(filter, '{user}', '"erased"'),
    state = case when state = 'running' then 'stopped' else state end,
    stopped_by = case when state = 'running' then 'erasure' else stopped_by end,
    finished_at = coalesce(finished_at, $2)
where filter ->> 'user' = $1 and ($3::text is null or filter ->> 'org_id' = $3)
"""

ERASE_AUDIT = """
update audit
set details = jsonb_set(details, '{filter,user}', '"erased"')
where details -> 'filter' ->> 'user' = $1
    and ($2::text is null or details -> 'filter' ->> 'org_id' = $2)
"""

# A digest may have members of several organisations. Scalar sub-selects are look-ups; `exists` may be hashed.
ONLY_OF_ORG = """(
            select true
            from deliveries as member
            where member.digest_id = {digest}
                and member.notification_id is not null
                and (select n.org_id from notifications as n where n.id = member.notification_id)
                    is distinct from {org_id}
            limit 1
        ) is null"""
_OF_ORG = """
        and case
            when deliveries.notification_id is null then {only}
            else (select n.org_id from notifications as n where n.id = deliveries.notification_id) = {org_id}
        end"""


def _of_org(org_id: str) -> str:
    return _OF_ORG.format(
        only=ONLY_OF_ORG.format(digest="deliveries.digest_id", org_id=org_id), org_id=org_id
    )


# What waits is cancelled. What is under lease is left until it is settled: its outcome counts.
_ERASE_DELIVERIES = """
with own as materialized (
    select id, state = any($3::text[]) as waits
    from deliveries
    where {whose}{within}
        and (leased_until is null or leased_until <= $2 or state <> all($3::text[]))
    order by {column}, notification_id
    limit $4
    for update skip locked
)
update deliveries
set user_id = null,
    address = 'erased',
    device_id = null,
    provider_message_id = null,
    last_error = null,
    decisions = null,
    decision_set = null,
    decided_at = null,
    ordering_key = null,
    collapse_key = null,
    held_by = null,
    lease = null,
    leased_until = null,
    state = case when own.waits then 'cancelled' else state end,
    reason = case when own.waits then 'erased' else reason end,
    settled_at = case when own.waits then $2 else settled_at end
from own
where deliveries.id = own.id
returning deliveries.id, deliveries.notification_id, deliveries.digest_id, own.waits
"""
_OF_USER = {"whose": "user_id = $1", "column": "user_id"}
_OF_ADDRESS = {
    "whose": "address is not null and address <> 'erased' and address = $1 and user_id is null",
    "column": "address",
}
ERASE_DELIVERIES = _ERASE_DELIVERIES.format(**_OF_USER, within="")
ERASE_DELIVERIES_WITHIN = _ERASE_DELIVERIES.format(**_OF_USER, within=_of_org("$5"))
ERASE_MAIL = _ERASE_DELIVERIES.format(**_OF_ADDRESS, within="")
ERASE_MAIL_WITHIN = _ERASE_DELIVERIES.format(**_OF_ADDRESS, within=_of_org("$5"))

ERASE_ATTEMPTS = "update attempts set detail = '' where delivery_id = any($1::uuid[])"
DELETE_RECEIPTS = "delete from receipts where delivery_id = any($1::uuid[])"
DELETE_TICKETS = "delete from tickets where delivery_id = any($1::uuid[])"
ERASE_DIGESTS = "update digests set state = 'ended', key = 'erased:' || id where id = any($1::uuid[])"
ERASE_DIGESTS_WITHIN = f"{ERASE_DIGESTS} and {ONLY_OF_ORG.format(digest='digests.id', org_id='$2')}"

# A payload that others got too is about them as well: it stays, without the person in its audience. The mark
# of cancelling keeps what is being sent from being tried again. The limit keeps it a look-up.
ERASE_NOTIFICATIONS = """
with touched as materialized (
    select
        n.id,
        (
            select true
            from deliveries as other
            where other.notification_id = n.id
                and case
                    when other.user_id is not null then other.user_id <> $2
                    else coalesce(other.address <> 'erased' and other.address <> coalesce($3, ''), false)
                end
            limit 1
        ) is not null
        -- A broadcast has others as well, whom it may not have reached yet.
        or (select true from broadcasts where broadcasts.notification_id = n.id) is not null as shared,
        (
            select true
            from deliveries as sending
            where sending.notification_id = n.id and sending.state = any($5::text[])
            limit 1
        ) is not null as waits
    from notifications as n
    where n.id = any($1::uuid[])
    order by n.id
    for update of n
)
update notifications as n
set payload = case when touched.shared then n.payload else '{}' end,
    audience = case
        when not touched.shared then '{}'
        else n.audience
            || case when jsonb_typeof(n.audience -> 'users') = 'array' then jsonb_build_object('users', (
                select coalesce(jsonb_agg(entry), '[]')
                from jsonb_array_elements(n.audience -> 'users') as entry
                where entry #>> '{}' <> $2
            )) else '{}' end
            || case when jsonb_typeof(n.audience -> 'emails') = 'array' then jsonb_build_object('emails', (
                select coalesce(jsonb_agg(entry), '[]')
                from jsonb_array_elements(n.audience -> 'emails') as entry
                where lower(entry #>> '{}') is distinct from lower($3)
            )) else '{}' end
    end,
    collapse_key = case when touched.shared then n.collapse_key end,
    request_id = case when touched.shared then n.request_id end,
    trace_id = case when touched.shared then n.trace_id end,
    reference = case when touched.shared then n.reference end,
    cancelled_at = case
        when touched.waits and not touched.shared then coalesce(n.cancelled_at, $4) else n.cancelled_at
    end
from touched
where n.id = touched.id
returning touched.shared
"""

_IS_BEING_SENT = """
select exists (select from deliveries where user_id = $1{within})
    or exists (
        select from deliveries
        where address is not null and address <> 'erased' and address = $2 and user_id is null{within}
    )
    -- The position of a broadcast moves on with its next chunk.
    or exists (select from broadcasts where position = $1)
"""
IS_BEING_SENT = _IS_BEING_SENT.format(within="")
IS_BEING_SENT_WITHIN = _IS_BEING_SENT.format(within=_of_org("$3"))

FINISH = """
update erasures
set finished_at = $2, user_id = null, email = null
where id = $1 and finished_at is null
"""

CLAIM = """
update erasures
set leased_until = $2
where id in (
    select id
    from erasures
    where finished_at is null and coalesce(leased_until <= $1, true)
    order by leased_until nulls first
    limit 1
    for update skip locked
)
returning {columns}
""".replace("{columns}", _COLUMNS)

RENEW = """
update erasures
set leased_until = $2, refused_until = coalesce($3, refused_until)
where id = $1 and finished_at is null
"""


class ErasedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """How many deliveries were erased, how many of them waited, and how many payloads went."""

    deliveries: int
    cancelled: int
    payloads: int


def user_hash(user_id: str) -> bytes:
    """Return the hash by which an erasure can be found when somebody asks for a given person."""
    return hashlib.sha256(user_id.encode()).digest()


async def begin(
    connection: Connection,
    user_id: str,
    counters: Sequence[str],
    now: datetime,
    until: datetime,
    org_id: str | None = None,
) -> tuple[ErasureRow, int] | None:
    """Record an erasure, under lease, and delete the person's own rows; return how many devices there were.

    Return None if one of that user id for another organisation, or for all, is unfinished. Runs in a
    transaction. A registration at the same moment comes before it or after it as a whole, and so does the
    chunk of a broadcast.
    """
    await wait_for_chunks(connection)
    await connection.execute(LOCK_OWNER, user_id)
    given = (uuid7(), user_id, user_hash(user_id), now, until, org_id)
    erasure = await fetch_one(connection, ErasureRow, BEGIN, *given)
    if erasure is None:
        return None
    devices = [row["id"] for row in await connection.fetch(LOCK_DEVICES, user_id)]
    await connection.execute(DELETE_DEVICES, devices, now)
    for statement in (DELETE_USER, DELETE_PREFERENCES, DELETE_REGISTRATIONS):
        await connection.execute(statement, user_id)
    await segments.forget_user(connection, user_id, org_id)
    await delete_inbox(connection, erasure)
    await connection.execute(ERASE_REPLAYS, user_id, now, org_id)
    await connection.execute(ERASE_AUDIT, user_id, org_id)
    await delete_counters(connection, [*counters, *map(device_key, devices)])
    await hash_suppression(connection, erasure)
    return erasure, len(devices)


async def hash_suppression(connection: Connection, erasure: ErasureRow) -> None:
    """Replace the person's address by its hash if it is suppressed, which concerns all organisations."""
    if erasure.email and erasure.org_id is None:
        await hash_address(connection, erasure.email)


async def delete_counters(connection: Connection, keys: Sequence[str]) -> None:
    """Delete what was counted of a person or device."""
    await connection.execute(DELETE_COUNTERS, keys)


async def delete_inbox(connection: Connection, erasure: ErasureRow) -> None:
    """Delete the items of the person's inbox, those of the erasure's organisation if it is for one."""
    await connection.execute(DELETE_INBOX, erasure.user_id, erasure.org_id)


async def erase_deliveries(connection: Connection, erasure: ErasureRow, now: datetime) -> ErasedBatch:
    """Erase the person from a batch of deliveries that are not being sent; runs in a transaction."""
    waiting = sorted(WAITING)
    address = normal_address(erasure.email) if erasure.email else None
    if erasure.org_id is None:
        own, mail, digests, within = ERASE_DELIVERIES, ERASE_MAIL, ERASE_DIGESTS, []
    else:
        own, mail, digests = ERASE_DELIVERIES_WITHIN, ERASE_MAIL_WITHIN, ERASE_DIGESTS_WITHIN
        within = [erasure.org_id]
    rows = await connection.fetch(own, erasure.user_id, now, waiting, BATCH, *within)
    if not rows and address:
        rows = await connection.fetch(mail, address, now, waiting, BATCH, *within)
    ids = [row["id"] for row in rows]
    await connection.execute(ERASE_ATTEMPTS, ids)
    await connection.execute(DELETE_TICKETS, ids)
    await connection.execute(DELETE_RECEIPTS, ids)
    digest_ids = sorted({row["digest_id"] for row in rows if row["digest_id"]})
    await connection.execute(digests, digest_ids, *within)
    touched = await connection.fetch(
        ERASE_NOTIFICATIONS,
        sorted({row["notification_id"] for row in rows if row["notification_id"]}),
        erasure.user_id,
        address,
        now,
        waiting,
    )
    return ErasedBatch(
        deliveries=len(rows),
        cancelled=sum(row["waits"] for row in rows),
        payloads=sum(not row["shared"] for row in touched),
    )


async def is_being_sent(connection: Connection, erasure: ErasureRow) -> bool:
    """Return whether a delivery to the person is left, because it is under lease."""
    address = normal_address(erasure.email) if erasure.email else None
    if erasure.org_id is None:
        return bool(await connection.fetchval(IS_BEING_SENT, erasure.user_id, address))
    within = (erasure.user_id, address, erasure.org_id)
    return bool(await connection.fetchval(IS_BEING_SENT_WITHIN, *within))


async def finish(connection: Connection, erasure: ErasureRow, now: datetime) -> None:
    """Finish an erasure and forget whose it was."""
    await connection.execute(FINISH, erasure.id, now)


async def claim(connection: Connection, now: datetime, until: datetime) -> ErasureRow | None:
    """Claim the lease on the erasure that has waited longest for being continued; None if there is none."""
    return await fetch_one(connection, ErasureRow, CLAIM, now, until)


async def renew(
    connection: Connection, erasure: ErasureRow, until: datetime, refused_until: UUID | None = None
) -> None:
    """Set the end of the lease on an erasure, and how far refused intents were read, if that is given."""
    await connection.execute(RENEW, erasure.id, until, refused_until)
