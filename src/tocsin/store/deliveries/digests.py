"""Digests: several notifications that are sent as one message.

A digest is a row with its window and state. Its members are deliveries held by `digest`; the deliveries that
carry it have its id and no notification; they are claimed, fanned out and retried like any other. While it is
`open` it takes members. The first attempt closes it, and its members become pending. When a carrier is sent,
or all of them ended otherwise, the members end with it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.decide import Step
from tocsin.domain.delivery.states import WAITING, State
from tocsin.domain.digest import MOST_ITEMS
from tocsin.store.deliveries.read import HELD_BY, decode_steps
from tocsin.store.pool import Connection

MEMBER = [State.SCHEDULED, State.PENDING]
"""The states of a member that waits; an argument, so that the planner cannot read all that waits instead."""

NOT_BEING_SENT = """
    (d.leased_until is null or d.leased_until <= $2)
    and (
        d.digest_id is null or (
            select true
            from deliveries as carrier
            where carrier.digest_id = d.digest_id
                and carrier.notification_id is null
                and carrier.leased_until > $2
            limit 1
        ) is null
    )
"""
"""Whether delivery `d` is not under lease at $2, nor the digest that it is a member of. A scalar subquery, so
that the planner cannot read all digests at once."""


class NewMember(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that joins the open digest of its key, or opens it, to be sent at `due_at`."""

    delivery_id: UUID
    key: str
    type: str
    version: int
    channel: str
    user_id: str | None
    address: str | None
    lane: str
    due_at: datetime
    digest_id: UUID
    carrier_id: UUID


class Carrier(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery that carries a digest and is due first, as far as it is not settled."""

    digest_id: UUID
    state: State
    due_at: datetime | None
    held_by: str | None
    lane: str
    decisions: list[Step]


class Member(NamedTuple):
    """One notification of a digest as it was stored."""

    notification_id: UUID
    version: int
    payload: str


class Members(msgspec.Struct, frozen=True):
    """The newest members of a digest, oldest first, and how many there are in all."""

    newest: list[Member]
    count: int


# Digests are locked in the order of their keys, to avoid deadlocks between two batches.
JOIN = """
with given as materialized (
    select *
    from unnest(
        $1::uuid[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::timestamptz[], $10::uuid[], $11::uuid[]
    ) as given (
        delivery_id, key, type, version, channel, user_id, address, lane, due_at, digest_id, carrier_id
    )
),
firsts as materialized (
    select distinct on (key) *
    from given
    order by key, delivery_id
),
joined as (
    insert into digests (id, key, type, version, opened_at)
    select digest_id, key, type, version, $12::timestamptz
    from firsts
    order by key
    on conflict (key) where state = 'open' do update
    set key = excluded.key
    returning id, key
),
carriers as (
    insert into deliveries (id, digest_id, channel, user_id, address, lane, state, due_at, created_at)
    select
        firsts.carrier_id, joined.id, firsts.channel, firsts.user_id, firsts.address, firsts.lane,
        'scheduled', firsts.due_at, $12
    from joined
    join firsts on firsts.digest_id = joined.id
)
update deliveries
set digest_id = joined.id
from given
join joined on joined.key = given.key
where deliveries.id = given.delivery_id
"""

CLOSE = """
update digests
set state = 'closed'
where id in (
    select id
    from digests
    where id = any($1::uuid[]) and state = 'open'
    order by key
    for update
)
"""

# Members that were cancelled, expired or collapsed into a newer one leave the digest before each attempt.
# The states of the newer one are constants, so that the index of what can be collapsed serves; the limit and
# the order keep it a look-up. Members are looked up digest by digest, however few the statistics know.
UPDATE_MEMBERS = """
with members as materialized (
    select own.id
    from unnest($1::uuid[]) as given (digest_id)
    cross join lateral (
        select id
        from deliveries
        where digest_id = given.digest_id and notification_id is not null and state = any($3::text[])
        order by id
        offset 0
    ) as own
),
updated as materialized (
    select
        member.id,
        case
            when n.cancelled_at is not null then 'cancelled'
            when n.expires_at <= $2 then 'expired'
            when member.collapse_key is not null and (
                select true
                from deliveries as newer
                join notifications as newer_notification on newer_notification.id = newer.notification_id
                where newer.collapse_key = member.collapse_key
                    and newer.accept_order > member.accept_order
                    and newer.state in ('scheduled', 'pending')
                    and newer.digest_id = member.digest_id
                    and newer_notification.cancelled_at is null
                    and coalesce(newer_notification.expires_at > $2, true)
                order by newer.collapse_key, newer.accept_order desc
                limit 1
            ) is not null then 'skipped'
            else 'pending'
        end as state
    from members
    join deliveries as member on member.id = members.id
    join notifications as n on n.id = member.notification_id
    where member.state = any($3::text[])
    order by member.id
    for update of member
)
update deliveries
set state = updated.state,
    reason = case when updated.state = 'skipped' then 'collapsed' end,
    settled_at = case when updated.state <> 'pending' then $2 end,
    held_by = case when updated.state = 'pending' then held_by end
from updated
where deliveries.id = updated.id and deliveries.state <> updated.state
"""

MEMBERS = """
select given.digest_id, member.notification_id, member.version, member.payload, member.count
from unnest($1::uuid[]) as given (digest_id)
cross join lateral (
    select
        deliveries.id, deliveries.notification_id, n.version, n.payload::text as payload,
        count(*) over () as count
    from deliveries
    join notifications as n on n.id = deliveries.notification_id
    where deliveries.digest_id = given.digest_id
        and deliveries.state in ('scheduled', 'pending', 'retrying', 'sent', 'delivered')
    order by deliveries.id desc
    limit $2
) as member
order by given.digest_id, member.id
"""

# The end of a digest is that of the carrier that was sent, else of the first, once none of them waits.
_FATE = """
cross join lateral (
    select
        carrier.id, carrier.state, carrier.reason, carrier.provider, carrier.provider_message_id,
        carrier.last_error_code, carrier.last_error
    from deliveries as carrier
    where carrier.digest_id = digests.id and carrier.notification_id is null
    order by
        carrier.state in ('sent', 'delivered') desc,
        carrier.state in ('scheduled', 'pending', 'retrying') desc,
        carrier.id
    limit 1
) as carrier
"""

END = f"""
update digests
set state = 'ended'
where id in (
    select digests.id
    from digests
    {_FATE}
    where digests.id = any($1::uuid[])
        and digests.state <> 'ended'
        and carrier.state not in ('scheduled', 'pending', 'retrying')
    order by digests.key
    for update of digests
)
returning id
"""  # noqa: S608 - made of constants

END_MEMBERS = f"""
with ends as materialized (
    select digests.id as digest_id, carrier.*
    from digests
    {_FATE}
    where digests.id = any($1::uuid[])
)
update deliveries as d
set state = case when ends.state = 'delivered' then 'sent' else ends.state end,
    reason = ends.reason,
    settled_at = $2::timestamptz,
    held_by = null,
    provider = ends.provider,
    provider_message_id = ends.provider_message_id,
    last_error_code = ends.last_error_code,
    last_error = ends.last_error,
    decisions = coalesce(d.decisions, '[]') || jsonb_build_array(
        jsonb_build_object(
            'rule', 'digest',
            'result', case when ends.state in ('sent', 'delivered') then 'pass' else 'skip' end,
            'detail', case when ends.state in ('sent', 'delivered') then 'sent as part of digest '
                else 'ended with digest ' end || ends.digest_id || ', delivery ' || ends.id,
            'at', $2::timestamptz
        )
    )
from ends
where d.digest_id = ends.digest_id and d.notification_id is not null and d.state = any($3::text[])
"""  # noqa: S608 - made of constants

OPEN_DUE_AT = """
select deliveries.due_at
from digests
join deliveries on deliveries.digest_id = digests.id and deliveries.notification_id is null
where digests.key = $1 and digests.state = 'open'
limit 1
"""


# Those that share the fate of one of them: members that left the digest ended for another reason. Payloads
# are read of the newest alone, and notifications of the others only for their organisation.
NEWEST_MEMBERS = """
with members as materialized (
    select deliveries.id, deliveries.notification_id
    from deliveries
    where deliveries.digest_id = $1
        and deliveries.notification_id is not null
        and deliveries.state = any($2::text[])
        and deliveries.reason is not distinct from $3
        and (
            $6::text is null
            or (select org_id from notifications where id = deliveries.notification_id) = $6
        )
    order by deliveries.id desc
    limit $4
)
select
    newest.notification_id, n.version, n.payload::text as payload,
    (select count(*) from members) as count
from (
    select id, notification_id
    from members
    order by id desc
    limit $5
) as newest
join notifications as n on n.id = newest.notification_id
order by newest.id
"""

# The states are an argument, so that the planner cannot read all that waits instead.
CARRIERS_OF = f"""
select given.id as digest_id, carrier.*
from unnest($1::uuid[]) as given (id)
cross join lateral (
    select
        deliveries.state, nullif(deliveries.due_at, 'infinity') as due_at, {HELD_BY.strip()}, deliveries.lane,
        decisions_of(deliveries.decisions, deliveries.decision_set, deliveries.decided_at) as decisions
    from deliveries
    where deliveries.digest_id = given.id
        and deliveries.notification_id is null
        and deliveries.state = any($2::text[])
    order by deliveries.due_at, deliveries.id
    limit 1
) as carrier
"""  # noqa: S608 - made of constants


async def join(connection: Connection, members: Sequence[NewMember], now: datetime) -> None:
    """Add new deliveries to the open digests of their keys; runs in the transaction that stores them."""
    columns = [[getattr(each, name) for each in members] for name in NewMember.__struct_fields__]
    await connection.execute(JOIN, *columns, now)


async def close(connection: Connection, digest_ids: Sequence[UUID], now: datetime) -> dict[UUID, Members]:
    """Close digests to new members and read those they are sent with."""
    await connection.execute(CLOSE, digest_ids)
    await connection.execute(UPDATE_MEMBERS, digest_ids, now, MEMBER)
    closed: dict[UUID, Members] = {}
    for row in await connection.fetch(MEMBERS, digest_ids, MOST_ITEMS):
        members = closed.setdefault(row["digest_id"], Members([], row["count"]))
        members.newest.append(Member(row["notification_id"], row["version"], row["payload"]))
    return closed


async def end(connection: Connection, digest_ids: Sequence[UUID], now: datetime) -> None:
    """End the members of digests whose carriers were settled; runs in the transaction that settles them."""
    # Two statements: a member that joined while the first waited for its lock is seen by the second.
    ended = [row["id"] for row in await connection.fetch(END, digest_ids)]
    if ended:
        await connection.execute(END_MEMBERS, ended, now, MEMBER)


async def open_due_at(connection: Connection, key: str) -> datetime | None:
    """Return when the open digest of a key is due, if there is one."""
    due_at: datetime | None = await connection.fetchval(OPEN_DUE_AT, key)
    return due_at


async def newest_members(
    connection: Connection,
    digest_id: UUID,
    states: Collection[State],
    reason: str | None,
    *,
    most: int,
    org_id: str | None = None,
) -> Members:
    """Read the newest members of a digest in some states with a reason, of an organisation or all.

    Those that match are counted up to `most`.
    """
    rows = await connection.fetch(NEWEST_MEMBERS, digest_id, sorted(states), reason, most, MOST_ITEMS, org_id)
    newest = [Member(row["notification_id"], row["version"], row["payload"]) for row in rows]
    return Members(newest, rows[0]["count"] if rows else 0)


async def carriers_of(connection: Connection, digest_ids: Sequence[UUID]) -> dict[UUID, Carrier]:
    """Read the delivery that carries each digest and is due first; without those that were settled."""
    rows = await connection.fetch(CARRIERS_OF, digest_ids, sorted(WAITING))
    return {
        row["digest_id"]: Carrier(
            **{**row, "state": State(row["state"]), "decisions": decode_steps(row["decisions"])}
        )
        for row in rows
    }
