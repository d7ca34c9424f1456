"""Statements of the release before this one, whose processes run beside those of this one in an upgrade."""

# It releases every second what a holder listed here holds, unless it knows the holder and that still holds.
HELD_BY = """
with recursive jumps as (
    select '' as value
    union all
    select (
        select deliveries.held_by
        from deliveries
        where deliveries.held_by > jumps.value and state in ('scheduled', 'pending', 'retrying')
        order by deliveries.held_by
        limit 1
    )
    from jumps
    where jumps.value is not null
)
select value
from jumps
where value <> ''
"""

RELEASE = """
update deliveries
set due_at = $2, held_by = null, state = case when state = 'scheduled' then 'pending' else state end
where id in (
    select id
    from deliveries
    where held_by = $1
        and state in ('scheduled', 'pending', 'retrying')
        and channel = any($4::text[])
    order by id
    limit $3
    for update skip locked
)
"""

CLAIM = """
with due as materialized (
    select id, lease is not null as taken_over
    from deliveries
    where lane = $1
        and state in ('scheduled', 'pending', 'retrying')
        and due_at <= $2
        and (due_at, id) > ($5, $6)
        and (leased_until is null or leased_until <= $2)
    order by lane, due_at, id
    limit $7
    for update skip locked
),
claimed as (
    update deliveries as d
    set lease = $3,
        leased_until = $4,
        attempts = d.attempts + due.taken_over::integer,
        state = case when d.state = 'scheduled' then 'pending' else d.state end
    from due
    where d.id = due.id
    returning
        d.id, d.notification_id, d.digest_id, d.channel, d.due_at, d.attempts, d.state, due.taken_over,
        d.user_id, d.address, d.device_id, d.ordering_key, d.collapse_key, d.accept_order, d.reserved,
        d.fallback_for
)
select
    claimed.id,
    claimed.notification_id,
    claimed.digest_id,
    claimed.channel,
    claimed.due_at,
    claimed.attempts,
    claimed.state = 'retrying' as retrying,
    claimed.taken_over,
    claimed.user_id,
    claimed.address,
    claimed.device_id,
    claimed.ordering_key,
    claimed.reserved,
    n.type,
    n.version,
    coalesce(n.payload::text, '{}') as payload,
    n.collapse_key,
    n.expires_at,
    n.send_at_local,
    n.accepted_at,
    n.cancelled_at is not null as cancelled,
    coalesce(n.producer, '') as producer,
    n.request_id,
    n.trace_id,
    claimed.fallback_for,
    claimed.ordering_key is not null or claimed.collapse_key is not null or claimed.fallback_for is not null
        or claimed.notification_id is null as has_context,
    case when claimed.channel = 'email' then coalesce(claimed.address, users.email) end as mailbox,
    claimed.channel = 'email' and (
        select true
        from suppressed_addresses
        where suppressed_addresses.address = lower(coalesce(claimed.address, users.email))
        limit 1
    ) is not null as suppressed,
    case when claimed.channel <> 'push' then (
        select own.timezone
        from devices as own
        where own.user_id = claimed.user_id
            and own.provider <> 'webhook'
            and own.retired_at is null
            and own.push_enabled
        order by own.last_seen_at desc
        limit 1
    ) end as device_timezone,
    users.timezone,
    users.gmt_offset_seconds,
    users.allowed_window,
    users.locale,
    preferences.choices::text as choices,
    devices.id as destination_id,
    devices.token as destination_token,
    devices.provider as destination_provider,
    devices.platform as destination_platform,
    devices.locale as destination_locale,
    devices.timezone as destination_timezone,
    devices.last_seen_at as destination_last_seen_at,
    devices.token_kind as destination_token_kind,
    devices.secret as destination_secret
from claimed
cross join (select set_config('synchronous_commit', 'off', true)) as unhurried
left join notifications as n on n.id = claimed.notification_id
left join users on users.user_id = claimed.user_id
left join preferences on preferences.user_id = claimed.user_id
left join devices
    on claimed.channel in ('push', 'webhook')
    and devices.user_id = claimed.user_id
    and (devices.provider = 'webhook') = (claimed.channel = 'webhook')
    and devices.retired_at is null
    and devices.push_enabled
    and (claimed.device_id is null or devices.id = claimed.device_id)
order by claimed.due_at, claimed.id, devices.last_seen_at desc
"""

SETTLE_UNSENT = """
with settled as (
    update deliveries as d
    set state = given.state,
        reason = given.reason,
        attempts = d.attempts + given.spent,
        due_at = coalesce(
            given.due_at, case when given.held_by is not null then 'infinity'::timestamptz end, d.due_at
        ),
        held_by = given.held_by,
        reserved = given.reserved,
        device_id = coalesce(d.device_id, given.device_id),
        decisions = coalesce(d.decisions || given.decisions, given.decisions, d.decisions),
        lease = null,
        leased_until = null,
        provider = coalesce(given.provider, d.provider),
        last_error_code = coalesce(given.code, d.last_error_code),
        last_error = coalesce(given.detail, d.last_error),
        settled_at = case
            when given.state not in ('scheduled', 'pending', 'retrying') then $19::timestamptz
        end
    from unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::integer[], $6::timestamptz[], $7::text[],
        $8::text[], $9::text[], $10::text[], $11::text[], $12::timestamptz[],
        $13::uuid[], $14::text[], $15::jsonb[], $16::boolean[], $17::timestamptz[], $18::text[]
    ) as given (
        id, lease, state, reason, spent, due_at, provider, outcome, code, detail, retire, tried_at,
        device_id, held_by, decisions, reserved, gone_since, suppress
    )
    where d.id = given.id and d.lease = given.lease and d.state = any($20::text[])
    returning
        d.id, d.device_id, d.state, d.ordering_key, d.held_by, d.settled_at, d.due_at, given.outcome,
        given.code, given.detail, given.retire, given.tried_at, given.gone_since, given.suppress
),
suppressed as (
    insert into suppressed_addresses (address, reason, detail, delivery_id, suppressed_at)
    select distinct on (lower(suppress)) lower(suppress), retire, detail, id, tried_at
    from settled
    where suppress is not null
    order by lower(suppress), id
    on conflict (address) do nothing
),
tried as (
    insert into attempts (delivery_id, outcome, code, detail, at)
    select id, outcome, code, detail, tried_at
    from settled
    where outcome is not null
),
retired as (
    update devices
    set retired_at = coalesce(devices.retired_at, $19),
        retired_reason = coalesce(devices.retired_reason, verdict.retire)
    from (
        select device_id, min(retire) as retire, max(coalesce(gone_since, tried_at)) as gone_since
        from settled
        where retire is not null and device_id is not null
        group by device_id
        order by device_id
    ) as verdict
    where devices.id = verdict.device_id and devices.last_seen_at <= verdict.gone_since
)
select
    count(*) as count,
    -- It blocks its group no longer; or it is held, and the one before may have been settled meanwhile.
    array_agg(distinct ordering_key) filter (
        where ordering_key is not null
            and (settled_at is not null or held_by is not null or (state = 'scheduled' and due_at > $19))
    ) as ordering_keys
from settled
"""
