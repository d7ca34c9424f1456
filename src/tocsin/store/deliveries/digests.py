"""Digests: several deliveries that leave as one message.

The first to wait under a key leads, the others follow it, held by `digest`. When the leader leaves for the
first time, the digest is closed: its id, which is the leader's, is written on the leader, its siblings at
other devices, and its followers, so that every later attempt tells of the same. Who comes afterwards starts
the next one.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from tocsin.domain.delivery.states import State
from tocsin.domain.digest import MOST_ITEMS
from tocsin.domain.ids import LeaseId
from tocsin.store.pool import Connection

FOLLOWING = [State.SCHEDULED]
"""The state of whoever follows; a leader may be in others."""


class Told(NamedTuple):
    """One notification of a digest as it was stored."""

    version: int
    payload: str


class Gathered(msgspec.Struct, frozen=True):
    """The newest of what a digest tells, oldest first, and how many there are."""

    told: list[Told]
    count: int


# Runs after the deliveries were stored, in a transaction of its own: of two who were stored at once, the
# one who looks last sees both, and the later of them follows. If it never runs, both lead, and the one
# that leaves first takes the other along.
JOIN = """
with later as materialized (
    select given.id
    from unnest($1::uuid[], $2::text[]) as given (id, digest_key)
    cross join lateral (
        select deliveries.id
        from deliveries
        where deliveries.digest_key = given.digest_key
            and state in ('scheduled', 'pending', 'retrying')
            and digest_id is null
            and held_by is distinct from 'digest'
        order by deliveries.id
        limit 1
    ) as leader
    where leader.id < given.id
)
update deliveries
set held_by = 'digest', due_at = 'infinity'
from later
where deliveries.id = later.id and state = 'scheduled' and lease is null
"""

# Of two leaders in one claim the later follows after all.
SET_ASIDE = """
update deliveries
set held_by = 'digest', due_at = 'infinity', state = 'scheduled', lease = null, leased_until = null
where id = any($1::uuid[]) and lease = $2
"""

CLOSE = """
with closed as (
    update deliveries as leader
    set digest_id = leader.id
    where leader.id = any($1::uuid[]) and leader.digest_id is null
    returning leader.id, leader.digest_key
),
followers as materialized (
    select follower.id, closed.id as digest_id
    from closed
    join deliveries as follower
        on follower.digest_key = closed.digest_key
        and follower.state in ('scheduled', 'pending', 'retrying')
        and follower.digest_id is null
        and follower.id <> closed.id
        and (follower.leased_until is null or follower.leased_until <= $2)
    order by follower.id
    for update of follower
)
update deliveries
set digest_id = followers.digest_id,
    held_by = 'digest',
    due_at = 'infinity',
    state = 'scheduled',
    lease = null,
    leased_until = null
from followers
where deliveries.id = followers.id
"""

# Followers are leased for as long as the one that tells of them, so that nobody takes them back while they
# are on their way. Those that were taken back, expired or replaced before are left out for good. Their state
# comes as an argument, so that the planner cannot read all that waits instead of the digest.
TAKE_ALONG = """
with followers as materialized (
    select
        follower.id,
        claimed.lease,
        claimed.leased_until,
        case
            when n.cancelled_at is not null then 'cancelled'
            when n.expires_at <= $3 then 'expired'
            when follower.collapse_key is not null and exists (
                select
                from deliveries as newer
                where newer.collapse_key = follower.collapse_key
                    and newer.notification_id > follower.notification_id
                    and newer.state in ('scheduled', 'pending', 'retrying')
            ) then 'skipped'
        end as ended
    from unnest($1::uuid[], $2::uuid[]) as given (digest_id, claimed_id)
    join deliveries as claimed on claimed.id = given.claimed_id
    join deliveries as follower
        on follower.digest_id = given.digest_id
        and follower.notification_id <> claimed.notification_id
        and follower.state = any($4::text[])
    join notifications as n on n.id = follower.notification_id
    order by follower.id
    for update of follower
)
update deliveries
set state = coalesce(followers.ended, state),
    reason = case when followers.ended = 'skipped' then 'collapsed' end,
    settled_at = case when followers.ended is not null then $3 end,
    held_by = case when followers.ended is null then held_by end,
    lease = case when followers.ended is null then followers.lease end,
    leased_until = case when followers.ended is null then followers.leased_until end
from followers
where deliveries.id = followers.id
"""

TOLD = """
select given.digest_id, told.version, told.payload, told.count
from unnest($1::uuid[]) as given (digest_id)
join deliveries as leader on leader.id = given.digest_id
cross join lateral (
    select member.id, n.version, n.payload::text as payload, count(*) over () as count
    from deliveries as member
    join notifications as n on n.id = member.notification_id
    where member.digest_id = leader.id
        and (
            member.id = leader.id
            or (
                member.notification_id <> leader.notification_id
                and member.state in ('scheduled', 'pending', 'retrying', 'sent', 'delivered')
            )
        )
    order by member.id desc
    limit $2
) as told
order by given.digest_id, told.id
"""

OPEN_DUE_AT = """
select nullif(due_at, 'infinity')
from deliveries
where digest_key = $1
    and state in ('scheduled', 'pending', 'retrying')
    and digest_id is null
    and held_by is distinct from 'digest'
order by id
limit 1
"""


async def join(connection: Connection, collected: Sequence[tuple[UUID, str]]) -> None:
    """Let new deliveries, each with its key, follow those that wait already."""
    ordered = sorted(collected)
    await connection.execute(JOIN, [each for each, _ in ordered], [key for _, key in ordered])


async def set_aside(connection: Connection, delivery_ids: Sequence[UUID], lease: LeaseId) -> None:
    """Let claimed deliveries follow another instead of leading."""
    await connection.execute(SET_ASIDE, delivery_ids, lease)


async def gather(
    connection: Connection, claimed_by_digest: dict[UUID, UUID], now: datetime
) -> dict[UUID, Gathered]:
    """Close digests that are still open, take their followers along, and read what they tell.

    Each digest comes with a claimed delivery that tells of it.
    """
    digests = sorted(claimed_by_digest)
    claimed = [claimed_by_digest[digest_id] for digest_id in digests]
    await connection.execute(CLOSE, digests, now)
    await connection.execute(TAKE_ALONG, digests, claimed, now, FOLLOWING)
    told: defaultdict[UUID, list[Told]] = defaultdict(list)
    counts: dict[UUID, int] = {}
    for digest_id, version, payload, count in await connection.fetch(TOLD, digests, MOST_ITEMS):
        told[digest_id].append(Told(version, payload))
        counts[digest_id] = count
    return {digest_id: Gathered(each, counts[digest_id]) for digest_id, each in told.items()}


async def open_due_at(connection: Connection, digest_key: str) -> datetime | None:
    """Tell when the digest that is being collected under a key falls due, if there is one."""
    due_at: datetime | None = await connection.fetchval(OPEN_DUE_AT, digest_key)
    return due_at
