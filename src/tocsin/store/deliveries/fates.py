"""What becomes of the followers of a digest once their leader is settled, or gone."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from tocsin.domain.ids import LeaseId
from tocsin.store.deliveries.digests import FOLLOWING
from tocsin.store.pool import Connection

KEYS_AT_ONCE = 1_000

# A leader that ended before it could leave is followed by all that waited for it then, unless a sibling
# at another device still tells of them. What ends a leader alone does not end its followers.
END_WITH_LEADER = """
with ended as materialized (
    select leader.id, leader.digest_key, leader.settled_at
    from deliveries as leader
    where leader.id = any($1::uuid[])
        and leader.digest_id is null
        and leader.state in ('skipped', 'rejected', 'gone', 'dead')
        and coalesce(leader.reason, '') <> 'collapsed'
        and not exists (
            select
            from deliveries as sibling
            where sibling.digest_id = leader.id and sibling.state in ('scheduled', 'pending', 'retrying')
        )
),
closed as (
    update deliveries
    set digest_id = ended.id
    from ended
    where deliveries.id = ended.id
),
followers as materialized (
    select follower.id, ended.id as digest_id
    from ended
    join deliveries as follower
        on follower.digest_key = ended.digest_key
        and follower.state in ('scheduled', 'pending', 'retrying')
        and follower.digest_id is null
        and coalesce(follower.held_by, '') = 'digest'
        and follower.created_at <= ended.settled_at
    order by follower.id
    for update of follower
)
update deliveries
set digest_id = followers.digest_id
from followers
where deliveries.id = followers.id
"""

# The fate of a digest: one device that was reached is enough; while one is still tried, all wait; then the
# end of the leader is theirs, unless it ended for a reason of its own, which frees them. Followers that
# another worker has taken along meanwhile stay under its lease. The conditions are written so that the
# planner can look up the digest only, never all that waits or all of a notification.
SHARE_FATE = """
with fates as materialized (
    select
        leader.id as digest_id,
        leader.notification_id,
        fate.told_by,
        fate.state,
        fate.reason,
        fate.provider,
        fate.provider_message_id,
        fate.last_error_code,
        fate.last_error,
        coalesce(fate.under_way, false) as under_way,
        case
            when fate.state in ('sent', 'delivered') then 'sent'
            when fate.state in ('scheduled', 'pending', 'retrying') then 'held'
            when fate.state is null or fate.own_end then 'freed'
            else 'ended'
        end as outcome
    from deliveries as leader
    left join lateral (
        select
            member.id as told_by,
            member.state,
            member.reason,
            member.provider,
            member.provider_message_id,
            member.last_error_code,
            member.last_error,
            member.lease is not null as under_way,
            member.state in ('cancelled', 'expired') or coalesce(member.reason, '') = 'collapsed' as own_end
        from deliveries as member
        where member.digest_id = leader.id
            and member.notification_id is not distinct from leader.notification_id
        order by
            member.state in ('sent', 'delivered') desc,
            member.state in ('scheduled', 'pending', 'retrying') desc,
            member.lease is not null desc,
            member.state in ('cancelled', 'expired') or coalesce(member.reason, '') = 'collapsed' desc,
            member.id
        limit 1
    ) as fate on true
    where leader.id = any($1::uuid[])
),
followers as materialized (
    select follower.id, fates.*
    from fates
    join deliveries as follower
        on follower.digest_id = fates.digest_id
        and follower.notification_id <> fates.notification_id
        and follower.state = any($4::text[])
    where fates.outcome <> 'held' or (not fates.under_way and follower.lease = any($3::uuid[]))
    order by follower.id
    for update of follower
)
update deliveries as d
set state = case f.outcome when 'sent' then 'sent' when 'ended' then f.state else d.state end,
    reason = case f.outcome when 'ended' then f.reason end,
    settled_at = case when f.outcome in ('sent', 'ended') then $2::timestamptz end,
    held_by = case when f.outcome in ('held', 'freed') then 'digest' end,
    digest_id = case when f.outcome <> 'freed' then d.digest_id end,
    lease = null,
    leased_until = null,
    provider = case when f.outcome in ('sent', 'ended') then f.provider end,
    provider_message_id = case f.outcome when 'sent' then f.provider_message_id end,
    last_error_code = case f.outcome when 'ended' then f.last_error_code end,
    last_error = case f.outcome when 'ended' then f.last_error end,
    decisions = case
        when f.outcome in ('sent', 'ended') then coalesce(d.decisions, '[]') || jsonb_build_array(
            jsonb_build_object(
                'rule', 'digest',
                'result', case f.outcome when 'sent' then 'pass' else 'skip' end,
                'detail', case f.outcome
                    when 'sent' then 'sent as part of ' || f.told_by
                    else 'ended with ' || f.told_by || ', which was to tell of it'
                end,
                'at', $2::timestamptz
            )
        )
        else d.decisions
    end
from followers as f
where d.id = f.id
"""

KEYS_OF = """
select distinct digest_key
from deliveries
where id = any($1::uuid[]) and digest_key is not null
"""

# Leaders come first in each row; where there is none, the oldest follower leads from now on.
PROMOTE = """
update deliveries
set held_by = null, due_at = $2
where id in (
    select deliveries.id
    from unnest($1::text[]) as keys (digest_key)
    cross join lateral (
        select id
        from deliveries
        where deliveries.digest_key = keys.digest_key
            and state in ('scheduled', 'pending', 'retrying')
            and digest_id is null
        order by coalesce(held_by, '') = 'digest', id
        limit 1
    ) as first
    join deliveries
        on deliveries.id = first.id
        and deliveries.digest_id is null
        and coalesce(deliveries.held_by, '') = 'digest'
    for update of deliveries skip locked
)
"""

# Goes from key to key, however many wait under each.
KEYS_AFTER = """
with recursive keys as (
    (
        select digest_key
        from deliveries
        where digest_key > $1 and state in ('scheduled', 'pending', 'retrying')
        order by digest_key
        limit 1
    )
    union all
    select (
        select deliveries.digest_key
        from deliveries
        where deliveries.digest_key > keys.digest_key and state in ('scheduled', 'pending', 'retrying')
        order by deliveries.digest_key
        limit 1
    )
    from keys
    where keys.digest_key is not null
)
select digest_key
from keys
where digest_key is not null
limit $2
"""

CLOSED_UNDER = """
select distinct digest_id
from deliveries
where digest_key = any($1::text[])
    and state in ('scheduled', 'pending', 'retrying')
    and digest_id is not null
"""


async def share_fate(
    connection: Connection, digest_ids: Sequence[UUID], leases: Sequence[LeaseId], now: datetime
) -> bool:
    """Let followers become what their leaders became; tell whether one of them leads from now on.

    Those that wait again are let go by the leases under which their leaders were tried.
    """
    await connection.execute(END_WITH_LEADER, digest_ids)
    await connection.execute(SHARE_FATE, digest_ids, now, leases, FOLLOWING)
    keys = [row[0] for row in await connection.fetch(KEYS_OF, digest_ids)]
    return await _promote(connection, keys, now)


async def mend(connection: Connection, after: str, now: datetime) -> tuple[str, bool]:
    """Look after followers whose leader is gone, a bounded number of keys at a time.

    Gives the key to go on after and whether one of the followers leads from now on.
    """
    keys = [row[0] for row in await connection.fetch(KEYS_AFTER, after, KEYS_AT_ONCE)]
    if not keys:
        return "", False
    closed = [row[0] for row in await connection.fetch(CLOSED_UNDER, keys)]
    if closed:
        await connection.execute(SHARE_FATE, closed, now, [], FOLLOWING)
    promoted = await _promote(connection, keys, now)
    return keys[-1] if len(keys) == KEYS_AT_ONCE else "", promoted


async def _promote(connection: Connection, keys: Sequence[str], now: datetime) -> bool:
    status: str = await connection.execute(PROMOTE, keys, now)
    return not status.endswith(" 0")
